//! By which way clients come: who may look after the node there, and who is kept out.
//!
//! ```text
//!   listener ─┬─ the admin socket, and root or the server's own user ─▶ may look after the node, without a login
//!             ├─ the admin socket, and anybody else ─▶ kept out
//!             ├─ for clients alone ─▶ nobody looks after the node there
//!             └─ any other ─▶ the rules say
//! ```
//! The one place that tells these apart, for every protocol. Relies on the kernel for who is on the other side of a Unix socket.
//! Invariants: what a client says of itself, or a proxy of it, makes it nobody on the admin socket; no block keeps out who may use that.

use std::net::SocketAddr;

use tiderace_base::{Close, CloseCode, Key, Time, local_user};
use tiderace_wire::Entrance;

use crate::driver::Driver;
use crate::listener_at::ListenerAt;
use crate::options::Options;
use crate::shard::Shard;
use crate::shared::Shared;

impl Options {
    /// By which way a client of a listener has come.
    pub(crate) fn entrance(&self, listener: u16, peer: SocketAddr) -> Entrance {
        // Sessions that no client brought about have no listener.
        let Some(options) = self.listeners.get(usize::from(listener)) else {
            return Entrance::Rules;
        };
        match (&options.at, local_user(peer)) {
            (ListenerAt::Socket(_), Some(user)) if self.admins.contains(&user) => {
                Entrance::Admin(user)
            }
            (ListenerAt::Socket(_), _) => Entrance::Clients,
            (ListenerAt::Address(_), _) if options.manages => Entrance::Rules,
            (ListenerAt::Address(_), _) => Entrance::Clients,
        }
    }

    /// Why a process of that user may not use the admin socket, if it may not.
    fn keeps_out(&self, user: u32) -> Option<Close> {
        if self.admins.contains(&user) {
            return None;
        }
        let admins: Vec<String> = self.admins.iter().map(u32::to_string).collect();
        let reason = format!(
            "the admin socket is for root and the server's own user (uid {}), and you are uid {user}; run this as one of them, or log in at an address of the server",
            admins.join(", ")
        );
        Some(Close::new(CloseCode::NotAuthorised, reason))
    }
}

impl Shared {
    /// Why a client is kept out, if it is.
    #[inline]
    pub(crate) fn kept_out(&self, now: Time, peer: SocketAddr) -> Option<Close> {
        match local_user(peer) {
            None => self.blocks.of_address(now, peer.ip()),
            Some(user) => self.options.keeps_out(user),
        }
    }
}

impl<D: Driver> Shard<D> {
    /// By which way the client of a record has come.
    pub(crate) fn entrance_of(&self, key: Key) -> Entrance {
        let connection = self.connections.get(key);
        let options = &self.shared.options;
        connection.map_or(Entrance::Rules, |it| options.entrance(it.listener, it.peer.socket()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tiderace_base::local_peer;

    use super::*;
    use crate::connection::NO_LISTENER;
    use crate::options::ListenerOptions;

    #[test]
    fn the_listener_and_the_kernel_say_who_may_look_after_the_node() {
        let address: SocketAddr = "127.0.0.1:7800".parse().unwrap();
        let for_clients = ListenerOptions { manages: false, ..ListenerOptions::at(address) };
        let socket = ListenerOptions::admin_socket("/run/admin.sock".into());
        let listeners = vec![for_clients, ListenerOptions::at(address), socket];
        let options = Options { listeners, admins: vec![0, 998], ..Options::default() };
        let (root, own, other) = (local_peer(0), local_peer(998), local_peer(1000));
        for (listener, peer, expected) in [
            (0, address, Entrance::Clients),
            (1, address, Entrance::Rules),
            (2, root, Entrance::Admin(0)),
            (2, own, Entrance::Admin(998)),
            (2, other, Entrance::Clients),
            // What somebody might say of a client of another listener.
            (2, address, Entrance::Clients),
            (1, root, Entrance::Rules),
            (0, root, Entrance::Clients),
            (NO_LISTENER, address, Entrance::Rules),
        ] {
            assert_eq!(options.entrance(listener, peer), expected, "{listener} {peer}");
        }
        assert_eq!([0, 998].map(|user| options.keeps_out(user)), [None, None]);
        let refused = options.keeps_out(1000).unwrap();
        assert_eq!(refused.code, CloseCode::NotAuthorised);
        assert!(refused.reason.contains("(uid 0, 998), and you are uid 1000"), "{refused}");
    }
}
