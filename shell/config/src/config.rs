//! The configuration as the server uses it: typed, complete, checked.
//!
//! Relies on the sections. Invariant: it holds no text that still has to be parsed.

use crate::sections::auth::AuthConfig;
use crate::sections::client_limits::LimitConfig;
use crate::sections::deltas::DeltasConfig;
use crate::sections::destinations::{
    MemoryConfig, QueueConfig, QueuesConfig, TopicConfig, TopicsConfig,
};
use crate::sections::engineio::EngineIoConfig;
use crate::sections::events::EventsConfig;
use crate::sections::feed::{DevelopmentConfig, FeedConfig};
use crate::sections::history::HistoryConfig;
use crate::sections::hosts::{VirtualHostConfig, VirtualHostsConfig};
use crate::sections::http2::Http2Config;
use crate::sections::large_messages::LargeMessagesConfig;
use crate::sections::limits::LimitsConfig;
use crate::sections::management::ManagementConfig;
use crate::sections::native::NativeConfig;
use crate::sections::operations::{LogConfig, MonitoringConfig};
use crate::sections::presence::PresenceConfig;
use crate::sections::protocols::{StompConfig, WebSocketConfig};
use crate::sections::proxies::ProxyConfig;
use crate::sections::quotas::QuotaConfig;
use crate::sections::rsocket::RSocketConfig;
use crate::sections::server::{ListenerConfig, ServerConfig};
use crate::sections::services::ServicesConfig;
use crate::sections::session::SessionConfig;
use crate::sections::socketio::SocketIoConfig;
use crate::sections::store::StoreConfig;
use crate::sections::subscriptions::{SubscriptionConfig, SubscriptionsConfig};
use crate::sections::telemetry::TelemetryConfig;
use crate::sections::tls::{CertificateConfig, TlsConfig};
use crate::sections::upstreams::UpstreamConfig;
use crate::sections::views::ViewConfig;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The process as a whole. Its `listen` is folded into `listeners`.
    pub server: ServerConfig,
    /// Where to listen; at least one.
    pub listeners: Vec<ListenerConfig>,
    /// TLS.
    pub tls: TlsConfig,
    /// Certificates besides the one in `tls`.
    pub certificates: Vec<CertificateConfig>,
    /// Proxies in front of the server.
    pub proxy: ProxyConfig,
    /// What one message, connection or address may cost.
    pub limits: LimitsConfig,
    /// What one session may have waiting.
    pub session: SessionConfig,
    /// Topics without an entry of their own.
    pub topics: TopicsConfig,
    /// Exceptions for topics; the first match counts.
    pub topic_rules: Vec<TopicConfig>,
    /// Queues without an entry of their own.
    pub queues: QueuesConfig,
    /// Exceptions for queues; the first match counts.
    pub queue_rules: Vec<QueueConfig>,
    /// What single principals may have in queues.
    pub quotas: Vec<QuotaConfig>,
    /// What clients may have at a time, and how fast they may send and be sent to.
    pub client_limits: Vec<LimitConfig>,
    /// How many durable subscriptions there may be.
    pub subscriptions: SubscriptionsConfig,
    /// Durable subscriptions that are there from the start.
    pub durables: Vec<SubscriptionConfig>,
    /// Calls of services.
    pub services: ServicesConfig,
    /// Updates as differences to the value before.
    pub deltas: DeltasConfig,
    /// Recent messages for clients that come back.
    pub history: HistoryConfig,
    /// Who is connected, as topics.
    pub presence: PresenceConfig,
    /// What survives.
    pub store: StoreConfig,
    /// Messages that are too large for memory.
    pub large_messages: LargeMessagesConfig,
    /// Memory of the whole server.
    pub memory: MemoryConfig,
    /// Topic views that are there from the start.
    pub views: Vec<ViewConfig>,
    /// Made-up data that the server publishes itself.
    pub feeds: Vec<FeedConfig>,
    /// Development mode.
    pub development: DevelopmentConfig,
    /// STOMP.
    pub stomp: StompConfig,
    /// Engine.IO.
    pub engineio: EngineIoConfig,
    /// HTTP/2.
    pub http2: Http2Config,
    /// Socket.IO.
    pub socketio: SocketIoConfig,
    /// The native protocol.
    pub native: NativeConfig,
    /// RSocket.
    pub rsocket: RSocketConfig,
    /// REST and Server-Sent Events.
    pub events: EventsConfig,
    /// WebSocket.
    pub websocket: WebSocketConfig,
    /// Who may connect, and what each may do.
    pub auth: AuthConfig,
    /// Virtual hosts in general.
    pub virtual_hosts: VirtualHostsConfig,
    /// Virtual hosts, in the order of the file.
    pub hosts: Vec<VirtualHostConfig>,
    /// Servers whose topics this one passes on.
    pub upstreams: Vec<UpstreamConfig>,
    /// Logs.
    pub log: LogConfig,
    /// Metrics and health.
    pub monitoring: MonitoringConfig,
    /// Traces of messages, if there is a collector.
    pub telemetry: Option<TelemetryConfig>,
    /// By which ways the server is looked after.
    pub management: ManagementConfig,
}
