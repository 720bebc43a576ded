//! The table of options, one file per concern.
//!
//! Relies on the `section!` and `choice!` macros. Invariant: [`SECTIONS`] lists every section once, in the
//! order in which documentation and `config show` print them.

pub(crate) mod auth;
pub(crate) mod auth_http;
pub(crate) mod client_limits;
pub(crate) mod deltas;
pub(crate) mod destinations;
pub(crate) mod engineio;
pub(crate) mod events;
pub(crate) mod feed;
pub(crate) mod history;
pub(crate) mod hosts;
pub(crate) mod http2;
pub(crate) mod large_messages;
pub(crate) mod limits;
pub(crate) mod management;
pub(crate) mod native;
pub(crate) mod operations;
pub(crate) mod presence;
pub(crate) mod protocols;
pub(crate) mod proxies;
pub(crate) mod quotas;
pub(crate) mod rsocket;
pub(crate) mod server;
pub(crate) mod services;
pub(crate) mod session;
pub(crate) mod socketio;
pub(crate) mod store;
pub(crate) mod subscriptions;
pub(crate) mod telemetry;
pub(crate) mod tls;
pub(crate) mod upstreams;
pub(crate) mod views;

use crate::spec::{OptionSpec, SectionSpec};

/// Every section with its options.
pub static SECTIONS: &[SectionSpec] = &[
    server::ServerConfig::SECTION,
    server::ListenerSection::SECTION,
    tls::TlsConfig::SECTION,
    tls::CertificateConfig::SECTION,
    proxies::ProxyConfig::SECTION,
    limits::LimitsConfig::SECTION,
    session::SessionConfig::SECTION,
    destinations::TopicsConfig::SECTION,
    destinations::TopicConfig::SECTION,
    destinations::QueuesConfig::SECTION,
    destinations::QueueConfig::SECTION,
    quotas::QuotaConfig::SECTION,
    client_limits::LimitSection::SECTION,
    subscriptions::SubscriptionsConfig::SECTION,
    subscriptions::SubscriptionConfig::SECTION,
    views::ViewConfig::SECTION,
    services::ServicesConfig::SECTION,
    deltas::DeltasConfig::SECTION,
    history::HistoryConfig::SECTION,
    presence::PresenceConfig::SECTION,
    store::StoreConfig::SECTION,
    large_messages::LargeMessagesConfig::SECTION,
    destinations::MemoryConfig::SECTION,
    feed::FeedConfig::SECTION,
    feed::DevelopmentConfig::SECTION,
    protocols::StompConfig::SECTION,
    engineio::EngineIoConfig::SECTION,
    socketio::SocketIoConfig::SECTION,
    native::NativeConfig::SECTION,
    rsocket::RSocketConfig::SECTION,
    events::EventsConfig::SECTION,
    protocols::WebSocketConfig::SECTION,
    http2::Http2Config::SECTION,
    auth::AuthSection::SECTION,
    auth::UserSection::SECTION,
    auth::TokenSection::SECTION,
    auth::JwtSection::SECTION,
    auth_http::AuthHttpSection::SECTION,
    auth_http::AuthHttpHeaderSection::SECTION,
    auth::RuleSection::SECTION,
    upstreams::UpstreamSection::SECTION,
    hosts::VirtualHostsConfig::SECTION,
    hosts::VirtualHostConfig::SECTION,
    operations::LogConfig::SECTION,
    operations::MonitoringConfig::SECTION,
    telemetry::TelemetrySection::SECTION,
    telemetry::TelemetryHeaderSection::SECTION,
    management::ManagementConfig::SECTION,
];

/// Every option that stands once in the file: those that environment and flags can set.
pub fn single_options() -> impl Iterator<Item = &'static OptionSpec> {
    SECTIONS.iter().filter(|section| !section.repeated).flat_map(|section| section.options)
}

/// The option of that key, from any section.
pub fn find_option(key: &str) -> Option<&'static OptionSpec> {
    SECTIONS.iter().flat_map(|section| section.options).find(|option| option.key == key)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::raw::Raw;
    use crate::spec::DefaultValue;

    #[test]
    fn the_table_is_well_formed() {
        let mut keys = HashSet::new();
        let mut flags = HashSet::new();
        for section in SECTIONS {
            for option in section.options {
                assert!(keys.insert(option.key), "{} stands twice", option.key);
                assert_eq!(option.section(), section.name);
                assert!(option.doc.trim().ends_with('.'), "{}: the doc is no sentence", option.key);
                if let Some(flag) = option.flag {
                    assert!(flags.insert(flag), "--{flag} stands twice");
                    assert!(!section.repeated, "--{flag} cannot set a list of tables");
                }
                if let DefaultValue::Is(text) = option.default {
                    let read = option.kind.read(&Raw::loose(text), option.zero);
                    assert!(read.is_ok(), "{}: its own default {text:?} is refused", option.key);
                }
                let required = matches!(option.default, DefaultValue::Required);
                assert!(
                    section.repeated || !required,
                    "{}: would have to be set always",
                    option.key
                );
            }
        }
    }
}
