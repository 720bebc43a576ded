//! Which proxies the event loop believes, and in what.

use tiderace_config::{ProxyConfig, ProxyHeader, ProxyProtocolUse};
use tiderace_proxy::ClientField;
use tiderace_reactor::{Proxies, ProxyProtocol};

/// The proxies of the configuration, which has checked them.
pub(crate) fn proxies(config: &ProxyConfig) -> Proxies {
    Proxies {
        trusted: config.trusted.iter().copied().collect(),
        protocol: match config.protocol {
            ProxyProtocolUse::Off => ProxyProtocol::Off,
            ProxyProtocolUse::Accept => ProxyProtocol::Accept,
            ProxyProtocolUse::Require => ProxyProtocol::Require,
        },
        field: match config.header {
            ProxyHeader::Off => None,
            ProxyHeader::Forwarded => Some(ClientField::Forwarded),
            ProxyHeader::XForwardedFor => Some(ClientField::XForwardedFor),
        },
    }
}
