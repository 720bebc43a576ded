//! From the configuration to the options of each part.
//!
//! Pure: no part is started here. Invariant: every option of the configuration that concerns a part
//! ends up in that part's options and nowhere else.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tiderace_base::ClientLimits;
use tiderace_bodies::Maps;
use tiderace_broker::{
    BrokerOptions, DurableOptions, LimitPer, LimitRule, QueuePolicy, ServiceOptions,
};
use tiderace_config::{
    Config, DeltaCodec, DispatchWord, FullPolicyWord, LargeMessagesConfig, LimitConfig,
    LimitPerWord, ListenerProtocol, ListenerTls, ManagementListeners, QueueConfig, QueuesConfig,
    ServicesConfig, StoreConfig, StoreSync, SubscriptionConfig, ViewConfig,
};
use tiderace_delta::Offer;
use tiderace_engineio::{CookieOptions, EngineOptions};
use tiderace_filter::Selector;
use tiderace_native::{NativeMetrics, NativeOptions};
use tiderace_queues::{DispatchPolicy, FullPolicy, Policy, QueueOptions};
use tiderace_reactor::{
    Deadlines, Http2Options, ListenerAt, ListenerOptions, Options, Security, SocketOptions,
};
use tiderace_rsocket::{EchoOptions, Lease, RSocketMetrics, RSocketOptions, ResumeOptions};
use tiderace_spool::Spool;
use tiderace_stomp::StompOptions;
use tiderace_tls::Settings;
use tiderace_topics::Path;
use tiderace_websocket::handshake::{OriginPattern, OriginPolicy};
use tiderace_wire::{DurableSubscription, Prefetch, durable_queue};

use crate::rules::{rules, who};
use crate::upstreams::Identity;
use crate::{hosts, proxies, quotas, specs, upstreams};

/// How many shards the node gets.
pub(crate) fn shards(config: &Config) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let shards = if config.server.shards == 0 { cores() } else { config.server.shards };
    shards.clamp(1, tiderace_base::limits::SHARDS_MAX)
}

/// The broker's options; `memory_bytes` is what the machine has.
pub(crate) fn broker(config: &Config, memory_bytes: u64) -> anyhow::Result<BrokerOptions> {
    let policies = config.topic_rules.iter().map(|rule| specs::policy(&config.topics, rule));
    let topic_policies = policies.collect::<anyhow::Result<Vec<_>>>()?;
    let shards = shards(config);
    let budget = config.memory.messages_bytes_max.resolve(memory_bytes);
    Ok(BrokerOptions {
        shards,
        rules: rules(&config.auth),
        verify_logins: config.auth.is_enforced(),
        backlog_bytes_high: config.session.outbox_bytes_max,
        backlog_bytes_low: config.session.outbox_bytes_low,
        deferred_bytes_max: config.session.deferred_bytes_max,
        message_bytes_max: config.limits.message_bytes_max,
        temporary_queues_max: config.session.temporary_queues_max,
        temporary_bytes_max: config.session.temporary_bytes_max,
        messages_bytes_max: usize::try_from(budget).unwrap_or(usize::MAX) / shards,
        subscriptions_max: config.limits.subscriptions_per_session_max,
        topic_policies,
        topic_default: Arc::new(specs::usual(&config.topics)),
        queue_policies: config
            .queue_rules
            .iter()
            .map(|rule| QueuePolicy {
                pattern: rule.pattern.clone(),
                options: queue_options(&config.queues, Some(rule)),
            })
            .collect(),
        durables: DurableOptions {
            configured: config.durables.iter().map(durable).collect::<anyhow::Result<_>>()?,
            per_principal_max: config.subscriptions.principal_max,
            count_max: config.subscriptions.count_max,
        },
        persistent_in_memory: config.stomp.persistent_in_memory,
        queue_default: queue_options(&config.queues, None),
        quotas: quotas::all(&config.queues, &config.quotas),
        limits: limits(config),
        views: config.views.iter().filter_map(view).collect(),
        services: service_options(&config.services),
        history_bytes_max: config.history.bytes_max / shards,
        history_bytes_per_topic: config.history.topic_bytes_max,
        history_age: config.history.age_max,
        sessions_shown: config.presence.sessions,
        virtual_hosts: hosts::virtual_hosts(config),
        upstreams: upstreams::topics(config),
        ..BrokerOptions::default()
    })
}

/// A durable subscription; the configuration has checked its name and topics.
fn durable(of: &SubscriptionConfig) -> anyhow::Result<Arc<DurableSubscription>> {
    let selector = of.selector.as_deref().map(Selector::parse).transpose();
    let selector = selector.with_context(|| format!("subscription.selector of {:?}", of.name))?;
    let (queue, topics) = (durable_queue(&of.name)?, of.topics.clone());
    Ok(Arc::new(DurableSubscription { queue, topics, selector }))
}

/// A view's name and text; the configuration has checked both.
fn view(view: &ViewConfig) -> Option<(Path, Box<str>)> {
    Some((Path::parse(&view.name).ok()?, view.text.as_str().into()))
}

/// Where to listen: the addresses in their order, and then the admin socket.
fn listeners(config: &Config) -> Vec<ListenerOptions> {
    let is_everywhere = config.management.listeners == ManagementListeners::All;
    let addresses = config.listeners.iter().map(|listener| ListenerOptions {
        at: ListenerAt::Address(listener.address),
        protocol: match listener.protocol {
            ListenerProtocol::Any => None,
            ListenerProtocol::Http => Some("http".to_owned()),
            ListenerProtocol::RSocket => Some("rsocket".to_owned()),
            ListenerProtocol::Stomp => Some("stomp".to_owned()),
        },
        security: match listener.tls {
            ListenerTls::Either => Security::Either,
            ListenerTls::Only => Security::Tls,
            ListenerTls::Off => Security::Plain,
        },
        stays_open: listener.stays_open,
        manages: is_everywhere || listener.management,
    });
    let socket = config.management.socket.as_ref().map(PathBuf::from);
    addresses.chain(socket.map(ListenerOptions::admin_socket)).collect()
}

/// The event loop's options.
pub(crate) fn reactor(
    config: &Config,
    files_max: usize,
    tls: Option<Settings>,
    identity: &Identity,
) -> anyhow::Result<Options> {
    let limits = &config.limits;
    // Some descriptors are for listeners, wakers, logs and the reserve.
    let possible = files_max.saturating_sub(64 + 2 * shards(config)).max(16);
    let defaults = Options::default();
    Ok(Options {
        release_freed: Some(crate::allocator::release_freed),
        shards: shards(config),
        listeners: listeners(config),
        admins: BTreeSet::from([0, rustix::process::geteuid().as_raw()]).into_iter().collect(),
        connections_max: if limits.connections_max == 0 {
            possible
        } else {
            limits.connections_max
        },
        connections_per_address_max: limits.connections_per_ip_max,
        handshakes_per_address_max: config.tls.handshakes_per_ip_max,
        proxies: proxies::proxies(&config.proxy),
        tls,
        upstreams: upstreams::connections(config, identity)?,
        deadlines: Deadlines {
            first_byte: limits.first_byte_timeout,
            tls: config.tls.handshake_timeout,
            head: limits.head_timeout,
            login: limits.login_timeout,
            frame: limits.frame_timeout,
            message: limits.message_timeout,
            ping: config.websocket.ping_interval,
            ..defaults.deadlines
        },
        ahead_bytes_max: limits.preauth_bytes_max.max(4096),
        large_bytes_min: config.large_messages.bytes_min,
        large_bytes_max: match large_message_bytes_max(config) {
            0 => 0,
            bytes => bytes + limits.header_bytes_max + 4096,
        },
        unfinished_bytes_max: limits.message_bytes_max + limits.header_bytes_max + 4096,
        detached: tiderace_reactor::DetachedLimits {
            sessions_max: config.session.detached_max,
            sessions_per_principal_max: config.session.detached_per_principal_max,
            bytes_max: config.session.detached_bytes_max,
            time_max: config.session.detached_timeout,
        },
        batch_delay: config.session.batch_delay,
        block_bytes: config.session.block_bytes,
        socket: SocketOptions {
            unsent_bytes_max: u32::try_from(config.session.unsent_bytes_max).ok(),
            ..defaults.socket
        },
        origins: origins(&config.server.origins)?,
        hosts: hosts::answered(config),
        websocket: tiderace_websocket::Limits {
            message_bytes_max: limits.message_bytes_max + limits.header_bytes_max,
            ..defaults.websocket
        },
        http2: http2(config),
        http: tiderace_http1::Limits {
            head_bytes_max: limits.header_bytes_max,
            headers_max: limits.headers_max.min(tiderace_http1::HEADERS_CAPACITY),
            // Each protocol has a limit of its own; this one only bounds what they all refuse.
            body_bytes_max: limits
                .message_bytes_max
                .max(config.events.batch_bytes_max)
                .max(large_message_bytes_max(config)) as u64
                + (1 << 20),
            ..defaults.http
        },
        ..defaults
    })
}

/// The options of HTTP/2.
fn http2(config: &Config) -> Http2Options {
    let http2 = &config.http2;
    let limits = tiderace_http2::Limits {
        streams_max: http2.streams_max,
        header_bytes_max: http2.header_bytes_max,
        header_table_bytes: http2.header_table_bytes,
        stream_window_bytes: http2.stream_window_bytes,
        connection_window_bytes: http2.connection_window_bytes,
        send_buffer_bytes: http2.send_buffer_bytes,
        resets_max: http2.resets_max,
        pings_max: http2.pings_max,
        settings_max: http2.settings_max,
        empty_frames_max: http2.empty_frames_max,
        small_updates_max: http2.small_updates_max,
        other_frames_max: http2.other_frames_max,
        continuations_max: http2.continuations_max,
        ..tiderace_http2::Limits::default()
    };
    Http2Options { enabled: http2.enabled, limits }
}

/// STOMP's options.
pub(crate) fn stomp(config: &Config) -> StompOptions {
    let limits = &config.limits;
    StompOptions {
        header_bytes_max: limits.header_bytes_max,
        headers_max: limits.headers_max,
        message_bytes_max: limits.message_bytes_max,
        large_message_bytes_max: large_message_bytes_max(config),
        preauth_bytes_max: limits.preauth_bytes_max,
        subscriptions_max: limits.subscriptions_per_session_max,
        transactions_max: limits.transactions_max,
        transaction_bytes_max: limits.transaction_bytes_max,
        login_timeout: limits.login_timeout,
        heart_beat_send: config.stomp.heart_beat_send,
        heart_beat_receive: config.stomp.heart_beat_receive,
        heart_beat_grace: config.stomp.heart_beat_grace,
        deltas: deltas(config),
        ..StompOptions::default()
    }
}

/// The most bytes of a message that arrives in a file; zero if none may.
pub(crate) fn large_message_bytes_max(config: &Config) -> usize {
    let large = &config.large_messages;
    large.directory.as_ref().map_or(0, |_| large.bytes_max)
}

/// Makes files for large messages, if they have a directory.
pub(crate) fn spool(
    config: &LargeMessagesConfig,
    maps: &Arc<Maps>,
) -> anyhow::Result<Option<Arc<Spool>>> {
    let Some(directory) = &config.directory else { return Ok(None) };
    let options = tiderace_spool::Options {
        directory: directory.into(),
        disk_bytes_max: config.disk_bytes_max,
        owner_bytes_max: config.user_bytes_max,
        uploads_max: config.uploads_max,
        owner_uploads_max: config.user_uploads_max,
    };
    let spool = Spool::open(options, maps.clone());
    let spool = spool.with_context(|| {
        format!("`large_messages.directory`: no files can be made in {directory}")
    })?;
    Ok(Some(Arc::new(spool)))
}

/// The store's options.
pub(crate) fn store(config: &StoreConfig) -> tiderace_store::Options {
    tiderace_store::Options {
        sync: match config.sync {
            StoreSync::Always => tiderace_store::Sync::Always,
            StoreSync::Interval => tiderace_store::Sync::Interval(config.sync_interval),
            StoreSync::Never => tiderace_store::Sync::Never,
        },
        segment_bytes: config.segment_bytes,
        reserve_bytes: config.reserve_bytes,
        waiting_bytes_max: config.waiting_bytes_max,
        queue_bytes_max: config.queue_bytes_max,
        accept_damage: config.accept_damage,
    }
}

/// The options of Engine.IO, for each protocol inside it.
pub(crate) fn engineio(config: &Config) -> EngineOptions {
    let engineio = &config.engineio;
    EngineOptions {
        ping_interval: engineio.ping_interval,
        ping_timeout: engineio.ping_timeout,
        upgrade_timeout: engineio.upgrade_timeout,
        payload_bytes_max: engineio.payload_bytes_max,
        packets_max: engineio.packets_max,
        upgrades: engineio.upgrades,
        polling: engineio.polling,
        websocket: engineio.websocket,
        revision_3: engineio.revision_3,
        jsonp: engineio.jsonp,
        cookie: engineio.cookie.clone().map(|name| CookieOptions { name }),
        credentials: engineio.credentials,
    }
}

/// The codecs of deltas that are offered, for all protocols.
pub(crate) fn deltas(config: &Config) -> Offer {
    // The load generator's client brings all codecs along; what the server offers is what it was
    // built for.
    let is_built = |codec: &DeltaCodec| match codec {
        DeltaCodec::Tiderace => cfg!(feature = "delta"),
        DeltaCodec::Vcdiff => cfg!(feature = "vcdiff"),
    };
    let codecs = config.deltas.codecs.iter().copied().filter(is_built);
    Offer::of(codecs.map(DeltaCodec::as_str), config.deltas.bytes_max)
}

/// The native protocol's options.
pub(crate) fn native(
    config: &Config,
    identity: &Identity,
    metrics: Arc<NativeMetrics>,
) -> NativeOptions {
    let limits = &config.limits;
    NativeOptions {
        node: identity.node.clone(),
        above: Arc::clone(&identity.above),
        message_bytes_max: limits.message_bytes_max,
        subscriptions_max: limits.subscriptions_per_session_max,
        login_timeout: limits.login_timeout,
        declarations_max: config.native.declarations_max,
        topics_max: config.native.topics_max,
        edge_topics_max: config.native.edge_topics_max,
        ping_interval: config.native.ping_interval,
        reconnect_jitter: config.native.reconnect_jitter,
        deltas: deltas(config),
        metrics,
        ..NativeOptions::default()
    }
}

/// RSocket's options, and where its sessions count.
pub(crate) fn rsocket(config: &Config, metrics: Arc<RSocketMetrics>) -> RSocketOptions {
    let (rsocket, limits) = (&config.rsocket, &config.limits);
    let shards = shards(config) as u64;
    RSocketOptions {
        setup_bytes_max: rsocket.setup_bytes_max,
        message_bytes_max: limits.message_bytes_max,
        metadata_bytes_max: rsocket.metadata_bytes_max,
        login_timeout: limits.login_timeout,
        streams_max: rsocket.streams_max,
        streams_shard_max: (rsocket.streams_node_max / shards).max(1),
        subscriptions_max: limits.subscriptions_per_session_max,
        faults_max: rsocket.faults_max,
        metadata_pushes_max: rsocket.metadata_pushes_max,
        keepalives_max: rsocket.keepalives_max,
        keepalive_bytes_max: rsocket.keepalive_bytes_max,
        lifetime_min: rsocket.lifetime_min,
        lifetime_max: rsocket.lifetime_max.max(rsocket.lifetime_min),
        fragment_bytes: rsocket.fragment_bytes,
        fragment_bytes_min: rsocket.fragment_bytes_min,
        fragments_bytes_max: rsocket.fragments_bytes_max,
        fragments_bytes_shard_max: (rsocket.fragments_bytes_node_max / shards).max(1),
        fragmented_max: rsocket.fragmented_max,
        fragments_timeout: rsocket.fragments_timeout,
        channel_window: rsocket.channel_window,
        waiting_max: rsocket.waiting_max,
        waiting_bytes_max: rsocket.waiting_bytes_max,
        timeout: rsocket.call_timeout,
        lease: Lease { requests: rsocket.lease_requests, ttl: rsocket.lease_ttl },
        resume: (!rsocket.resume_window.is_zero()).then_some(ResumeOptions {
            window: rsocket.resume_window,
            bytes_max: rsocket.resume_bytes_max,
            bytes_shard_max: rsocket.resume_bytes_node_max / shards,
        }),
        echo: rsocket.echo.then_some(EchoOptions {
            interval: rsocket.echo_interval,
            bytes_max: rsocket.echo_bytes_max,
        }),
        deltas: deltas(config),
        metrics,
    }
}

/// What clients may have at a time.
pub(crate) fn limits(config: &Config) -> Vec<LimitRule> {
    config.client_limits.iter().map(limit).collect()
}

fn limit(limit: &LimitConfig) -> LimitRule {
    LimitRule {
        who: limit.principals.iter().map(who).collect(),
        per: match limit.per {
            LimitPerWord::All => LimitPer::All,
            LimitPerWord::Address => LimitPer::Address,
            LimitPerWord::User => LimitPer::User,
        },
        limits: ClientLimits {
            connections: limit.connections_max.unwrap_or(0),
            subscriptions: limit.subscriptions_max.unwrap_or(0),
            messages_per_second: limit.messages_per_second.unwrap_or(0),
            received_bytes_per_second: limit.received_bytes_per_second.unwrap_or(0),
            sent_bytes_per_second: limit.sent_bytes_per_second.unwrap_or(0),
            backlog_bytes: limit.backlog_bytes_max.unwrap_or(0),
        },
    }
}

fn service_options(services: &ServicesConfig) -> ServiceOptions {
    ServiceOptions {
        window: services.window,
        calls_waiting_max: services.calls_waiting_max,
        calls_waiting_bytes_max: services.calls_waiting_bytes_max,
        calls_open_max: services.calls_per_session_max,
        calls_bytes_max: services.call_bytes_per_session_max,
        timeout_max: services.timeout_max,
    }
}

fn queue_options(queues: &QueuesConfig, rule: Option<&QueueConfig>) -> QueueOptions {
    let pick =
        |own: fn(&QueueConfig) -> Option<u64>, common: u64| rule.and_then(own).unwrap_or(common);
    let bytes = pick(|rule| rule.memory_bytes_max, queues.memory_bytes_max);
    let window = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    QueueOptions {
        bytes_max: usize::try_from(bytes).unwrap_or(usize::MAX),
        disk_bytes_max: pick(|rule| rule.disk_bytes_max, queues.disk_bytes_max),
        window: Prefetch {
            messages: window(pick(|rule| rule.prefetch_count, queues.prefetch_count)),
            bytes: window(pick(|rule| rule.prefetch_bytes, queues.prefetch_bytes)),
        },
        redeliveries_max: rule
            .and_then(|rule| rule.redeliveries_max)
            .unwrap_or(queues.redeliveries_max),
        dead_letter: rule
            .and_then(|rule| rule.dead_letter.clone())
            .unwrap_or_else(|| queues.dead_letter.clone()),
        idle: if queues.idle_removal.is_zero() {
            std::time::Duration::MAX
        } else {
            queues.idle_removal
        },
        policy: queue_policy(queues, rule),
        owner: rule.and_then(|rule| rule.owner.as_deref()).map(Arc::from),
    }
}

fn queue_policy(queues: &QueuesConfig, rule: Option<&QueueConfig>) -> Policy {
    fn pick<T: Copy>(
        rule: Option<&QueueConfig>,
        own: impl FnOnce(&QueueConfig) -> Option<T>,
        common: T,
    ) -> T {
        rule.and_then(own).unwrap_or(common)
    }
    let full = pick(rule, |rule| rule.full_policy, queues.full_policy);
    let dispatch = pick(rule, |rule| rule.dispatch, queues.dispatch);
    Policy {
        redelivery_delay: pick(rule, |rule| rule.redelivery_delay, queues.redelivery_delay),
        redelivery_delay_factor: pick(
            rule,
            |rule| rule.redelivery_delay_factor,
            queues.redelivery_delay_factor,
        ),
        redelivery_delay_max: pick(
            rule,
            |rule| rule.redelivery_delay_max,
            queues.redelivery_delay_max,
        ),
        delay_max: pick(rule, |rule| rule.delay_max, queues.delay_max),
        dead_letter_expired: pick(
            rule,
            |rule| rule.dead_letter_expired,
            queues.dead_letter_expired,
        ),
        messages_max: pick(rule, |rule| rule.messages_max, queues.messages_max),
        mirrored: rule.is_some_and(|rule| rule.mirrored),
        priorities: pick(rule, |rule| rule.priorities, queues.priorities),
        full: match full {
            FullPolicyWord::Block => FullPolicy::Block,
            FullPolicyWord::Reject => FullPolicy::Reject,
            FullPolicyWord::DropHead => FullPolicy::DropHead,
            FullPolicyWord::DropTail => FullPolicy::DropTail,
        },
        dispatch: match dispatch {
            DispatchWord::RoundRobin => DispatchPolicy::RoundRobin,
            DispatchWord::First => DispatchPolicy::First,
        },
    }
}

/// The policy that a list of origins says.
fn origins(words: &[String]) -> anyhow::Result<OriginPolicy> {
    const SAME_HOST: &str = "same-host";
    const LOOPBACK: &str = "loopback";
    if words.iter().any(|word| word == "*") {
        return Ok(OriginPolicy::Any);
    }
    let same_host = words.iter().any(|word| word == SAME_HOST);
    let pattern = |word: &String| {
        OriginPattern::parse(word).map_err(|_| {
            anyhow::anyhow!("server.origins: `{word}` is no origin; write `same-host`, `loopback`, `*`, or origins such as https://app.example.org or https://*.example.org")
        })
    };
    let patterns = words
        .iter()
        .filter(|word| *word != SAME_HOST && *word != LOOPBACK)
        .map(pattern)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let loopback = words.iter().any(|word| word == LOOPBACK);
    Ok(match (patterns.is_empty(), same_host, loopback) {
        (true, true, false) => OriginPolicy::SameHost,
        _ => OriginPolicy::List { patterns, same_host, loopback },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_combine() {
        let policy =
            |words: &[&str]| origins(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        let allowed = |words: &[&str]| {
            let policy = policy(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
            ["http://here:7800", "https://app.example.org", "https://evil.example"]
                .map(|origin| policy.allows(Some(origin.as_bytes()), b"here:7800"))
        };
        assert_eq!(allowed(&["same-host"]), [true, false, false]);
        assert_eq!(allowed(&["https://app.example.org"]), [false, true, false]);
        assert_eq!(allowed(&["same-host", "https://app.example.org"]), [true, true, false]);
        assert_eq!(allowed(&["https://*.example.org", "same-host"]), [true, true, false]);
        assert_eq!(allowed(&["same-host", "*"]), [true, true, true]);
        let loopback = policy(&["loopback"]).unwrap_or_else(|error| panic!("{error}"));
        assert!(loopback.allows(Some(b"http://localhost:5173"), b"here:7800"));
        assert!(!loopback.allows(Some(b"http://here:7800"), b"here:7800"));
        assert_eq!(allowed(&[]), [false, false, false]);
        assert!(policy(&["same-host", "https://*"]).is_err());
    }
}
