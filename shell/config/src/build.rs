//! From checked settings to the typed configuration, with the checks that concern several options.
//!
//! Relies on `load` having checked each value alone. Invariant: what these checks let pass, the server
//! can run with.

use std::collections::{HashMap, HashSet};

use tiderace_base::Addresses;
use tiderace_filter::Selector;
use tiderace_topics::Path;
use tiderace_views::View;
use tiderace_wire::{DURABLE_TOPICS_MAX, durable_queue};

use crate::config::Config;
use crate::kind::{ListenAddress, Value};
use crate::problem::{Origin, Problems};
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
use crate::sections::server::{ListenerConfig, ListenerProtocol, ListenerSection, ServerConfig};
use crate::sections::services::ServicesConfig;
use crate::sections::session::SessionConfig;
use crate::sections::socketio::SocketIoConfig;
use crate::sections::store::StoreConfig;
use crate::sections::subscriptions::{SubscriptionConfig, SubscriptionsConfig};
use crate::sections::tls::{CertificateConfig, ListenerTls, TlsConfig};
use crate::sections::views::ViewConfig;
use crate::sources::Sources;
use crate::table::{Table, origin_of, repeated, single};
use crate::units;
use crate::{
    build_auth, build_hosts, build_limits, build_management, build_proxies, build_telemetry,
    build_tls, build_upstreams,
};

/// The typed configuration; `None` only together with a problem.
pub(crate) fn build(
    tables: &[Table],
    sources: &Sources<'_>,
    problems: &mut Problems,
) -> Option<Config> {
    let server = single(tables, "server", ServerConfig::from_values)?;
    let tls = single(tables, "tls", TlsConfig::from_values)?;
    let listeners = listeners(tables, &server, &tls, problems);
    let upstreams = build_upstreams::build(tables, &listeners, sources, problems);
    let config = Config {
        listeners,
        upstreams,
        server,
        tls,
        certificates: repeated(tables, "certificate", CertificateConfig::from_values),
        proxy: single(tables, "proxy", ProxyConfig::from_values)?,
        limits: single(tables, "limits", LimitsConfig::from_values)?,
        session: single(tables, "session", SessionConfig::from_values)?,
        topics: single(tables, "topics", TopicsConfig::from_values)?,
        topic_rules: repeated(tables, "topic", TopicConfig::from_values),
        queues: single(tables, "queues", QueuesConfig::from_values)?,
        queue_rules: repeated(tables, "queue", QueueConfig::from_values),
        quotas: repeated(tables, "quota", QuotaConfig::from_values),
        client_limits: build_limits::build(tables, problems),
        subscriptions: single(tables, "subscriptions", SubscriptionsConfig::from_values)?,
        durables: repeated(tables, "subscription", SubscriptionConfig::from_values),
        services: single(tables, "services", ServicesConfig::from_values)?,
        history: single(tables, "history", HistoryConfig::from_values)?,
        presence: single(tables, "presence", PresenceConfig::from_values)?,
        store: single(tables, "store", StoreConfig::from_values)?,
        large_messages: single(tables, "large_messages", LargeMessagesConfig::from_values)?,
        memory: single(tables, "memory", MemoryConfig::from_values)?,
        views: repeated(tables, "view", ViewConfig::from_values),
        feeds: repeated(tables, "feed", FeedConfig::from_values),
        development: single(tables, "development", DevelopmentConfig::from_values)?,
        stomp: single(tables, "stomp", StompConfig::from_values)?,
        http2: single(tables, "http2", Http2Config::from_values)?,
        engineio: single(tables, "engineio", EngineIoConfig::from_values)?,
        socketio: single(tables, "socketio", SocketIoConfig::from_values)?,
        deltas: single(tables, "deltas", DeltasConfig::from_values)?,
        native: single(tables, "native", NativeConfig::from_values)?,
        rsocket: single(tables, "rsocket", RSocketConfig::from_values)?,
        events: single(tables, "events", EventsConfig::from_values)?,
        websocket: single(tables, "websocket", WebSocketConfig::from_values)?,
        auth: build_auth::build(tables, sources, problems)?,
        virtual_hosts: single(tables, "virtual_hosts", VirtualHostsConfig::from_values)?,
        hosts: repeated(tables, "virtual_host", VirtualHostConfig::from_values),
        log: single(tables, "log", LogConfig::from_values)?,
        monitoring: single(tables, "monitoring", MonitoringConfig::from_values)?,
        telemetry: build_telemetry::build(tables, sources, problems),
        management: single(tables, "management", ManagementConfig::from_values)?,
    };
    check_relations(&config, tables, problems);
    check_dead_letters(tables, problems);
    check_feeds(tables, problems);
    check_views(tables, problems);
    check_subscriptions(tables, problems);
    check_quotas(tables, problems);
    build_limits::check(&config.client_limits, &config.auth, tables, problems);
    check_persistence(&config, tables, problems);
    check_origins(&config, tables, problems);
    build_hosts::check(&config, tables, problems);
    build_upstreams::check(&config.upstreams, config.server.node.as_deref(), tables, problems);
    build_tls::check(&config, tables, problems);
    build_proxies::check(&config, tables, problems);
    check_login_times(&config, tables, problems);
    check_public_listeners(&config, tables, problems);
    check_drain(&config, tables, problems);
    build_management::check(&config, tables, problems);
    Some(config)
}

/// `server.listen` from a flag or the environment replaces the file's listeners; its default holds only
/// if the file has none.
fn listeners(
    tables: &[Table],
    server: &ServerConfig,
    tls: &TlsConfig,
    problems: &mut Problems,
) -> Vec<ListenerConfig> {
    let short_origin = origin_of(tables, "server.listen");
    let sections: Vec<&Table> =
        tables.iter().filter(|table| table.section.name == "listener").collect();
    let use_sections = matches!(short_origin, Origin::Default | Origin::File { .. });
    let use_short = sections.is_empty() || short_origin != Origin::Default;

    let mut listeners: Vec<(ListenerConfig, Origin)> = Vec::new();
    if use_short {
        let addresses = server.listen.iter().filter_map(|text| ListenAddress::parse(text));
        listeners
            .extend(addresses.map(|listen| (listener(&listen, tls, None), short_origin.clone())));
    }
    for table in sections.into_iter().filter(|_| use_sections) {
        let Some(section) = table.fill(ListenerSection::from_values) else {
            continue;
        };
        let Some(listen) = ListenAddress::parse(&section.address) else {
            continue;
        };
        listeners.push((listener(&listen, tls, Some(section)), table.origin_of("address")));
    }
    if listeners.is_empty() && problems.0.is_empty() {
        problems.add(
            short_origin,
            "server.listen: the list is empty; name at least one address to listen on",
        );
    }
    let mut seen: HashMap<_, Origin> = HashMap::new();
    for (listener, origin) in &listeners {
        // Port 0 asks the system for a free port, any number of times.
        if listener.address.port() == 0 {
            continue;
        }
        if seen.insert(listener.address, origin.clone()).is_some() {
            problems.add(
                origin.clone(),
                format!("{} is listened on twice; remove one", listener.address),
            );
        }
    }
    listeners.into_iter().map(|(listener, _)| listener).collect()
}

fn listener(
    listen: &ListenAddress,
    tls: &TlsConfig,
    section: Option<ListenerSection>,
) -> ListenerConfig {
    let usual = if tls.only { ListenerTls::Only } else { ListenerTls::Either };
    let management = section.as_ref().is_some_and(|section| section.management);
    let (name, protocol, own, stays_open) = match section {
        Some(section) => (section.name, section.protocol, section.tls, section.stays_open),
        None => (None, None, None, false),
    };
    let of_address = match listen.protocol.as_deref() {
        Some("http") => ListenerProtocol::Http,
        Some("rsocket") => ListenerProtocol::RSocket,
        Some("stomp") => ListenerProtocol::Stomp,
        _ => ListenerProtocol::Any,
    };
    ListenerConfig {
        name: name.unwrap_or_else(|| listen.to_string()),
        address: listen.address,
        protocol: protocol.unwrap_or(of_address),
        tls: own.unwrap_or(usual),
        stays_open: stays_open || management,
        management,
    }
}

/// What a drain names, and that it would send somebody away.
fn check_drain(config: &Config, tables: &[Table], problems: &mut Problems) {
    if let Err(error) = Addresses::new(&config.server.drain_to) {
        let origin = origin_of(tables, "server.drain_to");
        problems.add(origin, format!("server.drain_to: {error}"));
    }
    if !config.listeners.is_empty() && config.listeners.iter().all(|it| it.stays_open) {
        let section = tables.iter().rev().find(|table| table.section.name == "listener");
        if let Some(section) = section {
            let message = "listener.stays_open: every listener stays open, so a drain would send nobody away; leave it out where clients connect";
            problems.add(section.origin_of("stays_open"), message);
        }
    }
}

/// Options that bound each other.
fn check_relations(config: &Config, tables: &[Table], problems: &mut Problems) {
    let (limits, session, queues) = (&config.limits, &config.session, &config.queues);
    let sizes = [
        (
            "session.outbox_bytes_low",
            session.outbox_bytes_low,
            "session.outbox_bytes_max",
            session.outbox_bytes_max,
        ),
        (
            "limits.header_bytes_max",
            limits.header_bytes_max,
            "limits.message_bytes_max",
            limits.message_bytes_max,
        ),
        (
            "limits.message_bytes_max",
            limits.message_bytes_max,
            "limits.transaction_bytes_max",
            limits.transaction_bytes_max,
        ),
        (
            "limits.message_bytes_max",
            limits.message_bytes_max,
            "queues.memory_bytes_max",
            usize::try_from(queues.memory_bytes_max).unwrap_or(usize::MAX),
        ),
    ];
    for (small_key, small, large_key, large) in sizes {
        if small > large {
            let message = format!(
                "{small_key} ({}) must not exceed {large_key} ({}); lower the one or raise the other",
                units::format_bytes(small as u64),
                units::format_bytes(large as u64)
            );
            problems.add(set_origin(tables, [small_key, large_key]), message);
        }
    }
    if session.outbox_bytes_low == session.outbox_bytes_max {
        let message =
            "session.outbox_bytes_low must be below session.outbox_bytes_max; half of it is usual";
        problems.add(
            set_origin(tables, ["session.outbox_bytes_low", "session.outbox_bytes_max"]),
            message,
        );
    }
}

/// The place of whichever of two keys somebody set.
fn set_origin(tables: &[Table], keys: [&str; 2]) -> Origin {
    let origins = keys.map(|key| origin_of(tables, key));
    origins.into_iter().find(|origin| *origin != Origin::Default).unwrap_or(Origin::Default)
}

/// The level of the virtual host that the name of a queue, or a pattern of such, spells out.
fn level_of_host(queues: &str) -> Option<&str> {
    let behind = queues.strip_prefix("dsub/").unwrap_or(queues);
    behind.split('/').next().filter(|level| level.starts_with('@') && !level.contains(['*', '+']))
}

/// A dead-letter name must be a path once the queue's name is filled in.
fn check_dead_letters(tables: &[Table], problems: &mut Problems) {
    for table in tables.iter().filter(|table| matches!(table.section.name, "queue" | "queues")) {
        for setting in table.settings.iter().filter(|setting| setting.spec.name() == "dead_letter")
        {
            let Value::Text(text) = &setting.value else {
                continue;
            };
            let filled = text.replace("{queue}", "q");
            let reason = match Path::parse(&filled) {
                Err(error) => Some(error.to_string()),
                Ok(_) if filled.contains(['{', '}']) => {
                    Some("{queue} is the only placeholder".to_owned())
                }
                Ok(_) => None,
            };
            let queues = table.settings.iter().find_map(|setting| match &setting.value {
                Value::Pattern(queues) => level_of_host(queues.as_str()),
                _ => None,
            });
            if let (Some(own), Some(other)) = (queues, level_of_host(text))
                && own != other
            {
                let message = format!(
                    "{}: {text:?} is in another virtual host than {own:?}; dead letters stay in their host",
                    setting.spec.key
                );
                problems.add(setting.origin.clone(), message);
            }
            if let Some(reason) = reason {
                let key = setting.spec.key;
                let message = format!(
                    "{key}: {text:?} does not become a path such as \"dlq/{{queue}}\": {reason}"
                );
                problems.add(setting.origin.clone(), message);
            }
        }
    }
}

/// A feed's prefix must be a path once a name follows it.
fn check_feeds(tables: &[Table], problems: &mut Problems) {
    for table in tables.iter().filter(|table| table.section.name == "feed") {
        for setting in table.settings.iter().filter(|setting| setting.spec.name() == "path") {
            let Value::Text(text) = &setting.value else {
                continue;
            };
            if let Err(error) = Path::parse(&format!("{text}/EUR-USD")) {
                let key = setting.spec.key;
                let message = format!("{key}: {text:?} is no path such as \"demo/fx\": {error}");
                problems.add(setting.origin.clone(), message);
            }
        }
    }
}

/// A view must have a name of its own, which is a path, and a text that can be read.
fn check_views(tables: &[Table], problems: &mut Problems) {
    let mut names: HashSet<&str> = HashSet::new();
    for table in tables.iter().filter(|table| table.section.name == "view") {
        for setting in &table.settings {
            let Value::Text(text) = &setting.value else {
                continue;
            };
            let key = setting.spec.key;
            let wrong = match setting.spec.name() {
                "name" if !names.insert(text) => Some(format!("two views are called {text:?}")),
                "name" => Path::parse(text).err().map(|error| format!("{text:?}: {error}")),
                _ => View::parse(text).err().map(|error| error.to_string()),
            };
            if let Some(wrong) = wrong {
                problems.add(setting.origin.clone(), format!("{key}: {wrong}"));
            }
        }
    }
}

/// A principal has one quota.
fn check_quotas(tables: &[Table], problems: &mut Problems) {
    let mut names: HashSet<&str> = HashSet::new();
    for table in tables.iter().filter(|table| table.section.name == "quota") {
        for setting in table.settings.iter().filter(|it| it.spec.name() == "principal") {
            if let Value::Text(text) = &setting.value
                && !names.insert(text)
            {
                let message = format!("{}: two quotas are those of {text:?}", setting.spec.key);
                problems.add(setting.origin.clone(), message);
            }
        }
    }
}

/// Names of durable subscriptions are paths, and used once; what they gather is what clients may ask for, too.
fn check_subscriptions(tables: &[Table], problems: &mut Problems) {
    let mut names: HashSet<&str> = HashSet::new();
    for table in tables.iter().filter(|table| table.section.name == "subscription") {
        for setting in &table.settings {
            let wrong = match (setting.spec.name(), &setting.value) {
                ("name", Value::Text(text)) if !names.insert(text) => {
                    Some(format!("two durable subscriptions are called {text:?}"))
                }
                ("name", Value::Text(text)) => {
                    durable_queue(text).err().map(|close| close.reason.into_owned())
                }
                ("selector", Value::Text(text)) => {
                    Selector::parse(text).err().map(|error| error.to_string())
                }
                ("topics", Value::List(topics))
                    if !(1..=DURABLE_TOPICS_MAX).contains(&topics.len()) =>
                {
                    let found = topics.len();
                    Some(format!(
                        "1 to {DURABLE_TOPICS_MAX} topics feed one, but {found} are listed"
                    ))
                }
                _ => None,
            };
            if let Some(wrong) = wrong {
                problems.add(setting.origin.clone(), format!("{}: {wrong}", setting.spec.key));
            }
        }
    }
}

/// What is to survive needs a place.
fn check_persistence(config: &Config, tables: &[Table], problems: &mut Problems) {
    if config.store.directory.is_some() {
        return;
    }
    if config.auth.managed {
        let message =
            "auth.managed: what is put has to be kept, and there is no store; set store.directory";
        problems.add(origin_of(tables, "auth.managed"), message);
    }
    for table in tables.iter().filter(|table| matches!(table.section.name, "topic" | "topics")) {
        let persistent = table.settings.iter().find(|setting| {
            setting.spec.name() == "persistent" && setting.value == Value::Boolean(true)
        });
        if let Some(setting) = persistent {
            let message = format!(
                "{}: nothing can be persistent without a store; set store.directory",
                setting.spec.key
            );
            problems.add(setting.origin.clone(), message);
        }
    }
}

fn check_origins(config: &Config, tables: &[Table], problems: &mut Problems) {
    for origin in &config.server.origins {
        let is_origin = matches!(origin.as_str(), "*" | "same-host" | "loopback")
            || origin.split_once("://").is_some_and(|(scheme, host)| {
                !scheme.is_empty() && !host.is_empty() && !host.contains('/')
            });
        if !is_origin {
            let message = format!(
                "server.origins: {origin:?} is no origin; write \"same-host\", \"loopback\", \"*\" or one \
                 such as \"https://example.org\" without a path"
            );
            problems.add(origin_of(tables, "server.origins"), message);
        }
    }
}

/// A question about a login has to be answered while the client is still waited for.
fn check_login_times(config: &Config, tables: &[Table], problems: &mut Problems) {
    let (Some(http), login) = (&config.auth.http, config.limits.login_timeout) else { return };
    if http.timeout >= login {
        let message = format!(
            "auth_http.timeout: {} is not below limits.login_timeout, {}; clients would be given up before they could be let in",
            units::format_duration(http.timeout),
            units::format_duration(login)
        );
        problems.add(origin_of(tables, "auth_http.timeout"), message);
    }
}

/// Other machines can reach the server, so somebody must have to log in.
fn check_public_listeners(config: &Config, tables: &[Table], problems: &mut Problems) {
    let auth = &config.auth;
    if auth.allow_anonymous || auth.has_logins() {
        return;
    }
    let with_login = tables
        .iter()
        .any(|table| matches!(table.section.name, "user" | "token" | "jwt" | "auth_http_header"));
    if with_login {
        // They have problems of their own; this one would only confuse.
        return;
    }
    let is_public = |it: &&ListenerConfig| !it.is_loopback() || config.proxy.is_on();
    for listener in config.listeners.iter().filter(is_public) {
        let (by, way_out) = match listener.is_loopback() {
            true => ("clients of proxies", "leave [proxy] out"),
            false => ("other machines", "listen on 127.0.0.1 only"),
        };
        let message = format!(
            "{} can be reached by {by}, but nobody would have to log in; add a [[user]], \
             [[token]], [[jwt]] or [auth_http] and a [[rule]], {way_out}, or accept the risk with \
             --insecure-allow-anonymous",
            listener.address
        );
        problems.add(Origin::Default, message);
    }
}
