//! Clients of a Unix socket, which have no address.
//!
//! Where the address of a client is expected they have one that no client of a network can have: the unspecified address, with
//! the user as the zone. Whether a connection has come by a Unix socket is known from its listener; this says only how it is
//! shown and counted. Invariant: such an address is never shown as it is, but as `local`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// How the names of those begin who come by a Unix socket and need not log in; the number of the user stands behind it.
pub const LOCAL_NAMES: &str = "uid:";

/// Whether that is the name of somebody who has come by a Unix socket, which nobody else may have.
pub fn is_local_name(name: &str) -> bool {
    let number = name.strip_prefix(LOCAL_NAMES);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()))
}

/// What stands for a client of a Unix socket that runs as that user.
pub fn local_peer(user: u32) -> SocketAddr {
    SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, user).into()
}

/// The user, if that stands for a client of a Unix socket.
pub fn local_user(peer: SocketAddr) -> Option<u32> {
    match peer {
        SocketAddr::V6(peer) if peer.ip().is_unspecified() && peer.port() == 0 => {
            Some(peer.scope_id())
        }
        _ => None,
    }
}

/// Whether that stands for clients of a Unix socket.
pub fn is_local(address: IpAddr) -> bool {
    address.to_canonical().is_unspecified()
}

/// Where a client is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownPeer(pub SocketAddr);

impl fmt::Display for ShownPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match local_user(self.0) {
            Some(_) => f.write_str("local"),
            None => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processes_are_told_from_others() {
        for name in ["uid:0", "uid:70000", "uid:007"] {
            assert!(is_local_name(name), "{name}");
        }
        for name in ["uid:", "uid:ann", "uid:0x", "uid", "ann", "UID:0", " uid:0"] {
            assert!(!is_local_name(name), "{name}");
        }
    }

    #[test]
    fn a_client_without_an_address_is_told_from_others() {
        let local = local_peer(1000);
        assert_eq!((local_user(local), is_local(local.ip())), (Some(1000), true));
        assert_eq!(ShownPeer(local).to_string(), "local");
        for text in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:80", "10.1.2.3:4"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(local_user(address), None, "{text}");
            assert_eq!(ShownPeer(address).to_string(), text);
        }
        for text in ["::", "0.0.0.0", "::ffff:0.0.0.0"] {
            assert!(is_local(text.parse().unwrap()), "{text}");
        }
        assert!(!is_local("::1".parse().unwrap()));
    }
}
