//! Networks of IP addresses, such as those of proxies that are trusted.
//!
//! Invariant: an address of IPv4 is the same whether it is written as such or within IPv6 (RFC 4291 section 2.5.5.2).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// One address, or all that share so many of their first bits: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    /// The first of its addresses, in the form of IPv6.
    first: u128,
    /// The bits that they share, of 128.
    shared: u32,
}

/// How many bits the addresses of a network share, whether it is of IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrefixLength(u32);

/// Why a text is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// What stands before the slash.
    #[error("{0:?} is no IP address; names of hosts are not looked up")]
    Address(String),
    /// What stands behind the slash.
    #[error("{found:?} is no length of a prefix; write a number from 1 to {max}")]
    Prefix {
        /// What was found there.
        found: String,
        /// The bits of such an address.
        max: u32,
    },
    /// The network of all addresses.
    #[error("/0 is every address there is; name those that are meant")]
    Everything,
    /// Bits beyond the prefix are set, so that it is not clear what is meant.
    #[error("the address has bits beyond its prefix; write {0}, or the address without a prefix")]
    Beyond(Network),
}

impl Network {
    /// Whether the address is one of them. A network of IPv6 has no addresses of IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let is_v4 = address.to_canonical().is_ipv4();
        is_v4 == self.v4().is_some() && bits_of(address) & mask(self.shared) == self.first
    }

    /// The network with a prefix of that length that an address is in, if there is one: the length is that of another network,
    /// which may be of the other kind.
    pub fn around(address: IpAddr, like: PrefixLength) -> Option<Network> {
        let network = Network { first: bits_of(address) & mask(like.0), shared: like.0 };
        network.contains(address).then_some(network)
    }

    /// The length of its prefix.
    pub fn prefix_length(&self) -> PrefixLength {
        PrefixLength(self.shared)
    }

    /// The address of IPv4 that it begins with, if it is a network of such.
    fn v4(&self) -> Option<Ipv4Addr> {
        let is_v4 = self.shared >= V4_BITS_BEFORE;
        Ipv6Addr::from_bits(self.first).to_ipv4_mapped().filter(|_| is_v4)
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Network, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let parsed = address.parse::<IpAddr>();
        let address = parsed.map_err(|_| NetworkError::Address(address.to_owned()))?;
        let (before, max) = match address {
            IpAddr::V4(_) => (V4_BITS_BEFORE, 32),
            IpAddr::V6(_) => (0, 128),
        };
        let own = match prefix {
            None => max,
            Some("0") => return Err(NetworkError::Everything),
            Some(prefix) => {
                let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
                let number = prefix.parse().ok().filter(|it| is_number && (1..=max).contains(it));
                number.ok_or_else(|| NetworkError::Prefix { found: prefix.to_owned(), max })?
            }
        };
        let (bits, shared) = (bits_of(address), before + own);
        if shared == V4_BITS_BEFORE && bits == bits_of(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) {
            // All of IPv4, as addresses of IPv6.
            return Err(NetworkError::Everything);
        }
        let network = Network { first: bits & mask(shared), shared };
        if network.first == bits { Ok(network) } else { Err(NetworkError::Beyond(network)) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, shared, max) = match self.v4() {
            Some(address) => (IpAddr::V4(address), self.shared - V4_BITS_BEFORE, 32),
            None => (IpAddr::V6(Ipv6Addr::from_bits(self.first)), self.shared, 128),
        };
        if shared == max { write!(f, "{address}") } else { write!(f, "{address}/{shared}") }
    }
}

/// Several networks together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Box<[Network]>);

impl Networks {
    /// Whether the address is in one of them. Looks at each: there are few.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Networks {
        Networks(networks.into_iter().collect())
    }
}

fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// So many ones, and zeros behind them.
fn mask(ones: u32) -> u128 {
    u128::MAX.checked_shl(128 - ones.min(128)).unwrap_or(0)
}

/// The bits before an address of IPv4 within IPv6.
const V4_BITS_BEFORE: u32 = 96;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn networks(texts: &[&str]) -> Networks {
        texts.iter().map(|text| text.parse::<Network>().unwrap()).collect()
    }

    #[test]
    fn an_address_is_in_one_network_of_each_length() {
        let around = |address: &str, like: &str| {
            let length = like.parse::<Network>().unwrap().prefix_length();
            Network::around(address.parse().unwrap(), length).map(|network| network.to_string())
        };
        for (address, like, expected) in [
            ("10.1.2.3", "11.0.0.0/8", Some("10.0.0.0/8")),
            ("::ffff:10.1.2.3", "11.0.0.0/8", Some("10.0.0.0/8")),
            ("10.1.2.3", "1.2.3.4", Some("10.1.2.3")),
            ("2001:db8:1::5", "fe80::/32", Some("2001:db8::/32")),
            ("2001:db8:1::5", "::1", Some("2001:db8:1::5")),
            // Of the other kind.
            ("10.1.2.3", "fe80::/32", None),
            ("10.1.2.3", "::/80", None),
        ] {
            assert_eq!(around(address, like).as_deref(), expected, "{address} {like}");
        }
    }

    #[test]
    fn an_address_is_in_a_network_whose_first_bits_it_has() {
        let trusted =
            networks(&["127.0.0.1", "10.0.0.0/8", "192.0.2.128/25", "2001:db8::/33", "::1"]);
        for (address, is_in) in [
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("10.0.0.0", true),
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("9.255.255.255", false),
            ("192.0.2.127", false),
            ("192.0.2.128", true),
            ("::ffff:10.1.2.3", true),
            ("::ffff:11.1.2.3", false),
            ("2001:db8::1", true),
            ("2001:db8:7fff:ffff::", true),
            ("2001:db8:8000::", false),
            ("::1", true),
            ("::", false),
            ("0.0.0.1", false),
        ] {
            assert_eq!(trusted.contains(address.parse().unwrap()), is_in, "{address}");
        }
        assert!(!networks(&["::/1"]).contains("127.0.0.1".parse().unwrap()));
        assert!(networks(&["::/1"]).contains("::2".parse().unwrap()));
        assert!(!Networks::default().contains("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_network_is_written_as_it_is_read() {
        for text in ["127.0.0.1", "10.0.0.0/8", "128.0.0.0/1", "::1", "2001:db8::/32", "8000::/1"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!("::ffff:10.0.0.0/104".parse::<Network>().unwrap().to_string(), "10.0.0.0/8");
        assert_eq!("10.1.2.3/32".parse::<Network>().unwrap().to_string(), "10.1.2.3");
    }

    #[test]
    fn what_is_no_network_is_told_why() {
        for (text, said) in [
            ("", "\"\" is no IP address"),
            ("proxy.example.org", "names of hosts are not looked up"),
            ("10.0.0.0/33", "from 1 to 32"),
            ("10.0.0.0/+8", "\"+8\" is no length"),
            ("10.0.0.0/", "\"\" is no length"),
            ("::1/129", "from 1 to 128"),
            ("10.0.0.1/8", "write 10.0.0.0/8"),
            ("2001:db8::1/32", "write 2001:db8::/32"),
            ("0.0.0.0/0", "every address"),
            ("::/0", "every address"),
            ("::ffff:0.0.0.0/96", "every address"),
            ("10.0.0.0/8/8", "\"8/8\" is no length"),
        ] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
