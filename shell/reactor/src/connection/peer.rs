//! Addresses of clients.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A socket address in 18 bytes instead of 32. Scope and flow of IPv6 are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    address: [u8; 16],
    port: [u8; 2],
}

impl Peer {
    /// The address without the port.
    pub(crate) fn address(self) -> IpAddr {
        Ipv6Addr::from(self.address).to_canonical()
    }

    /// The whole address.
    pub(crate) fn socket(self) -> SocketAddr {
        SocketAddr::new(self.address(), u16::from_be_bytes(self.port))
    }
}

impl From<SocketAddr> for Peer {
    fn from(peer: SocketAddr) -> Self {
        let address = match peer.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Peer { address: address.octets(), port: peer.port().to_be_bytes() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_peer_keeps_its_address() {
        for text in ["127.0.0.1:1", "[2001:db8::7]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Peer::from(address).socket(), address);
        }
        let mapped: SocketAddr = "[::ffff:10.1.2.3]:9".parse().unwrap();
        let plain: SocketAddr = "10.1.2.3:9".parse().unwrap();
        assert_eq!(Peer::from(mapped).socket(), plain);
    }
}
