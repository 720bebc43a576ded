//! Where clients are.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tiderace_base::{local_peer, local_user};

/// Where a client is, in 18 bytes instead of 32. Scope and flow of IPv6 are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    address: [u8; 16],
    port: [u8; 2],
}

/// How the address of one begins that has none, a process on this machine: the user stands behind it. Nobody has a multicast
/// address, and one that is named all the same becomes another.
const LOCAL: [u8; 12] = [0xff; 12];
/// That other one: what is sent there is thrown away (RFC 6666), and it stands for no Unix socket.
const NOBODY: Ipv6Addr = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0);

impl Peer {
    /// The address without the port; of those that have none the one that stands for it.
    pub(crate) fn address(self) -> IpAddr {
        self.socket().ip()
    }

    /// The whole address.
    pub(crate) fn socket(self) -> SocketAddr {
        match self.address {
            [begins @ .., a, b, c, d] if begins == LOCAL => {
                local_peer(u32::from_be_bytes([a, b, c, d]))
            }
            address => {
                let address = Ipv6Addr::from(address).to_canonical();
                SocketAddr::new(address, u16::from_be_bytes(self.port))
            }
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(peer: SocketAddr) -> Self {
        let address = match (local_user(peer), peer.ip()) {
            (Some(user), _) => Ipv6Addr::from(u128::MAX << 32 | u128::from(user)),
            (None, IpAddr::V4(v4)) => v4.to_ipv6_mapped(),
            (None, IpAddr::V6(v6)) if v6.octets().starts_with(&LOCAL) => NOBODY,
            (None, IpAddr::V6(v6)) => v6,
        };
        Peer { address: address.octets(), port: peer.port().to_be_bytes() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tiderace_base::is_local;

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
        let local = local_peer(70_000);
        assert_eq!(Peer::from(local).socket(), local);
        for nobody in
            ["[ffff:ffff:ffff:ffff:ffff:ffff:0:7]:5", "[ffff:ffff:ffff:ffff:ffff:ffff::]:0"]
        {
            let nobody: SocketAddr = nobody.parse().unwrap();
            let kept = Peer::from(nobody).socket();
            assert!(local_user(kept).is_none() && !is_local(kept.ip()), "{kept}");
        }
    }
}
