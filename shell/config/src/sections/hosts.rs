//! Virtual hosts: several trees of names on one server.

use crate::kind::Kind;
use crate::spec::DefaultValue::{Is, Required};
use crate::spec::{choice, section};

section! {
    /// [Virtual hosts](virtual-hosts.md) in general.
    "virtual_hosts" TABLE VirtualHostsConfig {
        /// What becomes of clients that name no virtual host and are bound to none.
        "unknown" unknown: UnknownHosts = Is("whole"), Kind::Choice(UnknownHosts::WORDS);
    }
}

section! {
    /// A virtual host: a tree of topics, queues and services for clients that name it when they connect. In the whole tree it lies below `@NAME`.
    "virtual_host" LIST VirtualHostConfig {
        /// Its name: letters, digits, `-` and `_`.
        "name" name: String = Required, Kind::Text;
        /// What clients call it, without ports: names such as `shop.example`, or `*.shop.example` for all that end so. Case does not matter.
        "hosts" hosts: Vec<String> = Required, Kind::List(&Kind::Text);
    }
}

choice! {
    /// What becomes of clients that name no virtual host.
    UnknownHosts {
        /// They are refused, but for users and tokens whose `host` is `*`.
        Refuse = "refuse",
        /// They see the whole tree, as far as rules allow.
        Whole = "whole",
    }
}
