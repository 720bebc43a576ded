//! What can be chosen for a broker; made from the configuration by the server.

use tiderace_base::Span;
use tiderace_queues::QueueOptions;
use tiderace_topics::{Path, Pattern};

use crate::Rules;

/// What happens to a subscriber whose backlog stays above the mark after the grace period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowConsumer {
    /// Publishers of the topic wait for it, however long.
    Block,
    /// Of each topic only the newest message stays in its backlog.
    Conflate,
    /// It is disconnected.
    Disconnect,
    /// New messages are not put into its backlog.
    DropNewest,
    /// The oldest messages leave its backlog.
    #[default]
    DropOldest,
}

impl SlowConsumer {
    /// All policies with their names in the configuration.
    pub const ALL: [(&'static str, SlowConsumer); 5] = [
        ("block", SlowConsumer::Block),
        ("conflate", SlowConsumer::Conflate),
        ("disconnect", SlowConsumer::Disconnect),
        ("drop-newest", SlowConsumer::DropNewest),
        ("drop-oldest", SlowConsumer::DropOldest),
    ];
}

/// What can be chosen for a topic.
#[derive(Clone, Copy, Debug)]
pub struct TopicOptions {
    /// What happens to slow consumers.
    pub slow_consumer: SlowConsumer,
    /// How long publishers wait for a slow consumer before that.
    pub grace: Span,
    /// Whether every message becomes the retained value even if its publisher does not say so.
    pub retain: bool,
}

/// Options for the topics that match; the first that matches counts.
#[derive(Clone, Debug)]
pub struct TopicPolicy {
    /// Which topics.
    pub pattern: Pattern,
    /// Their options.
    pub options: TopicOptions,
}

/// Options for the queues that match; the first that matches counts.
#[derive(Clone, Debug)]
pub struct QueuePolicy {
    /// Which queues.
    pub pattern: Pattern,
    /// Their options.
    pub options: QueueOptions,
}

/// What can be chosen for services and those who call them.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Exchanges a responder may have open that does not say how many.
    pub window: u32,
    /// Calls of one service that may wait for a responder with room.
    pub calls_waiting_max: usize,
    /// Bytes of all calls that wait at one shard.
    pub calls_waiting_bytes_max: usize,
    /// Calls one session may have open.
    pub calls_open_max: usize,
    /// Bytes one session may have said in calls that nobody has taken yet.
    pub calls_bytes_max: usize,
    /// The longest patience a caller may have.
    pub patience_max: Span,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        ServiceOptions {
            window: 256,
            calls_waiting_max: 1024,
            calls_waiting_bytes_max: 64 << 20,
            calls_open_max: 10_000,
            calls_bytes_max: 32 << 20,
            patience_max: Span::from_secs(600),
        }
    }
}

/// What can be chosen for a broker.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// How many shards the node has.
    pub shards: usize,
    /// Who may do what.
    pub rules: Rules,
    /// Whether logins are verified; if not, every name is believed (dev mode).
    pub verify_logins: bool,
    /// Bytes in a session's backlog above which it counts as slow.
    pub backlog_bytes_high: usize,
    /// Bytes below which it counts as fast again.
    pub backlog_bytes_low: usize,
    /// Bytes of messages in backlogs and queues of one shard; above it every session's mark is the
    /// low one and all queues are full.
    pub messages_bytes_max: usize,
    /// Subscriptions one session may have.
    pub subscriptions_max: usize,
    /// Topic options, by pattern.
    pub topic_policies: Vec<TopicPolicy>,
    /// Options of all other topics.
    pub topic_default: TopicOptions,
    /// Queue options, by pattern.
    pub queue_policies: Vec<QueuePolicy>,
    /// Options of all other queues.
    pub queue_default: QueueOptions,
    /// Options of services.
    pub services: ServiceOptions,
    /// How long a topic without subscribers and retained value is remembered.
    pub topic_idle: Span,
    /// Which life of the node this is; numbers of messages are not compared between lives.
    pub epoch: u64,
    /// Bytes of recent messages kept on one shard for clients that come back.
    pub history_bytes_max: usize,
    /// Bytes of one topic's recent messages kept.
    pub history_bytes_per_topic: usize,
    /// How long recent messages are kept, and topics recorded after they had a recoverable
    /// subscriber.
    pub history_age: Span,
}

impl BrokerOptions {
    /// The options of a topic.
    pub fn topic(&self, path: &Path) -> TopicOptions {
        self.topic_policies
            .iter()
            .find(|policy| policy.pattern.matches(path))
            .map_or(self.topic_default, |policy| policy.options)
    }

    /// The options of a queue.
    pub fn queue(&self, path: &Path) -> QueueOptions {
        self.queue_policies
            .iter()
            .find(|policy| policy.pattern.matches(path))
            .map_or_else(|| self.queue_default.clone(), |policy| policy.options.clone())
    }
}

impl Default for BrokerOptions {
    fn default() -> Self {
        BrokerOptions {
            shards: 1,
            rules: Rules::allow_all(),
            verify_logins: false,
            backlog_bytes_high: 4 << 20,
            backlog_bytes_low: 1 << 20,
            messages_bytes_max: 1 << 30,
            subscriptions_max: 100_000,
            topic_policies: Vec::new(),
            topic_default: TopicOptions {
                slow_consumer: SlowConsumer::DropOldest,
                grace: Span::from_secs(2),
                retain: false,
            },
            queue_policies: Vec::new(),
            queue_default: QueueOptions {
                bytes_max: 64 << 20,
                window: tiderace_wire::Window { messages: 0, bytes: 640 << 10 },
                redeliveries_max: 20,
                dead_letter: "dlq/{queue}".to_owned(),
                idle: Span::from_secs(30),
            },
            services: ServiceOptions::default(),
            topic_idle: Span::from_secs(60),
            epoch: 0,
            history_bytes_max: 64 << 20,
            history_bytes_per_topic: 1 << 20,
            history_age: Span::from_secs(120),
        }
    }
}
