//! Proxies in front of the server: which of them are believed when they say whom they serve, and how they say it.

use tiderace_base::Network;

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::{choice, section};

section! {
    /// Proxies in front of the server, such as nginx, HAProxy and Caddy, which say whom they serve, see [behind-proxies.md](behind-proxies.md). Limits by address, lock-outs after failed logins, call-outs and logs then go by the client's own address.
    "proxy" TABLE ProxyConfig {
        /// Addresses and networks of the proxies that are believed, such as `127.0.0.1`, `10.0.0.0/8` or `2001:db8::/32`. Nobody else is, whatever they send. These addresses have no limits of their own: name proxies, and no network that clients are in.
        "trusted" trusted: Vec<Network> = Is(""), Kind::List(&Kind::Network);
        /// Whether connections of these begin with a header of the PROXY protocol, version 1 or 2, before TLS and everything else. A connection of any other address that begins with one is refused.
        "protocol" protocol: ProxyProtocolUse = Is("off"), Kind::Choice(ProxyProtocolUse::WORDS);
        /// The field by which HTTP requests of these name the client. Of the addresses in it the last counts that is not itself trusted; if that is no address, the request is refused. Without the field the connection's own address counts.
        "header" header: ProxyHeader = Is("off"), Kind::Choice(ProxyHeader::WORDS);
    }
}

choice! {
    /// Whether connections of trusted proxies begin with a header of the PROXY protocol.
    ProxyProtocolUse {
        /// They must not.
        Off = "off",
        /// They may; without one, the address of the socket counts.
        Accept = "accept",
        /// They must, and end if they do not.
        Require = "require",
    }
}

choice! {
    /// The field of HTTP by which trusted proxies name their clients.
    ProxyHeader {
        /// None.
        Off = "off",
        /// `Forwarded` (RFC 7239).
        Forwarded = "forwarded",
        /// `X-Forwarded-For`.
        XForwardedFor = "x-forwarded-for",
    }
}

impl ProxyConfig {
    /// Whether some proxies are believed in something.
    pub fn is_on(&self) -> bool {
        self.believes() && !self.trusted.is_empty()
    }

    /// Whether those that are trusted, if any, are believed in something.
    pub(crate) fn believes(&self) -> bool {
        self.protocol != ProxyProtocolUse::Off || self.header != ProxyHeader::Off
    }
}
