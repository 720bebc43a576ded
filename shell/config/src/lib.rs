//! The configuration: one table of options from which everything that knows options is made.
//!
//! [`SECTIONS`] describes every option once: key, kind, limits, default, documentation. From it come the
//! reader of file, environment and flags ([`load()`]), what `config show` prints ([`show_toml`],
//! [`show_json`]), the JSON Schema ([`schema`]) and `docs/options.md` ([`markdown`]). The structs of
//! [`Config`] are the same declarations.
//!
//! Relies on the TOML parser; does no I/O, the caller hands in the texts. Runs on the main thread at
//! start. Invariant: a configuration is accepted as a whole or refused as a whole, and an unknown key is
//! always a refusal.

mod build;
mod build_auth;
mod build_auth_http;
mod build_hosts;
mod build_jwt;
mod build_limits;
mod build_management;
mod build_proxies;
mod build_telemetry;
mod build_tls;
mod build_upstreams;
mod changes;
mod config;
mod document;
mod file;
mod identities;
mod kind;
mod load;
mod moment;
mod problem;
mod raw;
mod resolve;
mod running;
mod schema;
mod secret;
mod sections;
mod show;
mod sources;
mod spec;
mod suggest;
mod table;
mod units;

pub use changes::{IDENTITIES, TakenOver};
pub use config::Config;
pub use document::markdown;
pub use identities::{PutIdentities, WithPut};
pub use kind::{Kind, Value};
pub use load::{Loaded, load};
pub use moment::Moment;
pub use problem::{Origin, Problem, Problems};
pub use running::Running;
pub use schema::schema;
pub use secret::{Secret, SecretSource};
pub use sections::auth::{
    Action, AuthConfig, JwtAlgorithm, JwtConfig, JwtKeys, PrincipalMatch, Role, RuleConfig,
    RuleEffect, RuleKind, TokenConfig, TokenSecret, UserConfig, UserPassword,
};
pub use sections::auth_http::{AuthHttpConfig, Unanswered, UnansweredLogins};
pub use sections::client_limits::{LimitConfig, LimitPerWord};
pub use sections::deltas::{DeltaCodec, DeltasConfig};
pub use sections::destinations::{
    ConflationWord, DispatchWord, FullPolicyWord, MemoryConfig, PriorityWord, QueueConfig,
    QueuesConfig, SlowConsumer, TopicConfig, TopicsConfig, ValueType,
};
pub use sections::engineio::EngineIoConfig;
pub use sections::events::EventsConfig;
pub use sections::feed::{DevelopmentConfig, FeedConfig, FeedKind};
pub use sections::history::HistoryConfig;
pub use sections::hosts::{UnknownHosts, VirtualHostConfig, VirtualHostsConfig};
pub use sections::http2::Http2Config;
pub use sections::large_messages::LargeMessagesConfig;
pub use sections::limits::LimitsConfig;
pub use sections::management::{ManagementConfig, ManagementListeners};
pub use sections::native::NativeConfig;
pub use sections::operations::{
    LogConfig, LogFormat, LogLevel, MonitoringAccess, MonitoringConfig,
};
pub use sections::presence::PresenceConfig;
pub use sections::protocols::{StompConfig, WebSocketConfig};
pub use sections::proxies::{ProxyConfig, ProxyHeader, ProxyProtocolUse};
pub use sections::quotas::QuotaConfig;
pub use sections::rsocket::RSocketConfig;
pub use sections::server::{ListenerConfig, ListenerProtocol, ServerConfig};
pub use sections::services::ServicesConfig;
pub use sections::session::SessionConfig;
pub use sections::socketio::SocketIoConfig;
pub use sections::store::{StoreConfig, StoreSync};
pub use sections::subscriptions::{SubscriptionConfig, SubscriptionsConfig};
pub use sections::telemetry::TelemetryConfig;
pub use sections::tls::{
    CertificateConfig, ClientCertificateUse, ClientName, ListenerTls, TlsConfig, TlsVersion,
};
pub use sections::upstreams::UpstreamConfig;
pub use sections::views::ViewConfig;
pub use sections::{SECTIONS, find_option, single_options};
pub use show::{show_json, show_places, show_toml};
pub use sources::{FileSource, FlagSource, FlagTable, Sources};
pub use spec::{DefaultValue, OptionSpec, SectionSpec};
pub use suggest::nearest;
pub use table::{DEVELOPMENT_LISTEN, Setting, Table};
pub use units::{
    MemoryAmount, format_bytes, format_duration, parse_bytes, parse_duration, parse_memory,
};
