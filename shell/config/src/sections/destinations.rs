//! Topics, queues, exceptions for some of them by pattern, and the memory they share.

use std::time::Duration;

use tiderace_topics::Pattern;

use crate::kind::Kind;
use crate::spec::DefaultValue::{Absent, Is, Required};
use crate::spec::{choice, section};
use crate::units::MemoryAmount;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const QUEUE_MEMORY: Kind = Kind::Bytes { min: 64 * KIB, max: TIB };
pub(super) const ACCOUNT_BYTES: Kind = Kind::Bytes { min: 64 * KIB, max: 1024 * TIB };
pub(super) const ACCOUNT_QUEUES: Kind = Kind::Integer { min: 1, max: 100_000_000 };
const QUEUE_DISK: Kind = Kind::Bytes { min: MIB, max: 1024 * TIB };
const PREFETCH_BYTES: Kind = Kind::Bytes { min: KIB, max: GIB };
const PREFETCH_COUNT: Kind = Kind::Integer { min: 1, max: 1_000_000 };
const REDELIVERIES: Kind = Kind::Integer { min: 1, max: 1_000_000 };
const REDELIVERY_DELAY: Kind =
    Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(31_536_000) };
const DELAY: Kind =
    Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(3_650 * 86_400) };
const QUEUE_MESSAGES: Kind = Kind::Integer { min: 1, max: 1_000_000_000_000 };
const REDELIVERY_FACTOR: Kind = Kind::Integer { min: 1, max: 100 };
const HISTORY_COUNT: Kind = Kind::Integer { min: 1, max: 1_000_000_000 };
const HISTORY_AGE: Kind =
    Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(31_536_000) };
const INTERVAL: Kind =
    Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(3_600) };
const NOT_COUNTED: &str = "this one does not count";
pub(super) const WITHOUT_LIMIT: &str = "no limit";

section! {
    /// What holds for every topic that no `[[topic]]` describes.
    "topics" TABLE TopicsConfig {
        /// What happens to messages for a subscriber that does not keep up.
        "slow_consumer" slow_consumer: SlowConsumer = Is("drop-oldest"), Kind::Choice(SlowConsumer::WORDS);
        /// How long in any minute publishers of a topic wait for its slow subscribers before the policy applies to those alone. A publisher's connection waits, with its other topics; `block` waits without end.
        "slow_consumer_grace" slow_consumer_grace: Duration = Is("0s"), Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(3_600) }, zero("nobody waits");
        /// Keep the last message of every topic for new subscribers, without the publisher asking for it.
        "retain" retain: bool = Is("false"), Kind::Boolean;
        /// What values are; publishers are held to it.
        "type" value: ValueType = Is("any"), Kind::Choice(ValueType::WORDS);
        /// Every message is an event of a time series that is kept, not a new value.
        "series" series: bool = Is("false"), Kind::Boolean;
        /// Messages kept besides the value for those who ask for more.
        "history_count" history_count: u32 = Is("0"), HISTORY_COUNT, zero(NOT_COUNTED);
        /// How long messages are kept besides the value.
        "history_age" history_age: Duration = Is("0s"), HISTORY_AGE, zero(NOT_COUNTED);
        /// Value, history and specification survive a restart; needs `store.directory`.
        "persistent" persistent: bool = Is("false"), Kind::Boolean;
        /// Updates may be sent as differences.
        "deltas" deltas: bool = Is("true"), Kind::Boolean;
        /// How updates stand in for earlier ones that have not been sent yet.
        "conflation" conflation: ConflationWord = Is("latest"), Kind::Choice(ConflationWord::WORDS);
        /// At most one update of a topic to one subscriber in so long.
        "interval" interval: Duration = Is("0s"), INTERVAL, zero("no bound");
        /// What goes first to a session for which much waits.
        "priority" priority: PriorityWord = Is("default"), Kind::Choice(PriorityWord::WORDS);
        /// Whether who subscribes shows below `$sys/presence/`.
        "presence" presence: bool = Is("false"), Kind::Boolean;
    }
}

section! {
    /// Exceptions for the topics that match a pattern. The first match in the file counts.
    "topic" LIST TopicConfig {
        /// The topics concerned.
        "match" pattern: Pattern = Required, Kind::Pattern;
        /// Instead of `topics.slow_consumer`.
        "slow_consumer" slow_consumer: Option<SlowConsumer> = Absent, Kind::Choice(SlowConsumer::WORDS);
        /// Instead of `topics.retain`.
        "retain" retain: Option<bool> = Absent, Kind::Boolean;
        /// Instead of `topics.slow_consumer_grace`.
        "slow_consumer_grace" slow_consumer_grace: Option<Duration> = Absent, Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(3_600) };
        /// Instead of `topics.type`.
        "type" value: Option<ValueType> = Absent, Kind::Choice(ValueType::WORDS);
        /// Instead of `topics.series`.
        "series" series: Option<bool> = Absent, Kind::Boolean;
        /// Instead of `topics.history_count`.
        "history_count" history_count: Option<u32> = Absent, HISTORY_COUNT, zero(NOT_COUNTED);
        /// Instead of `topics.history_age`.
        "history_age" history_age: Option<Duration> = Absent, HISTORY_AGE, zero(NOT_COUNTED);
        /// Instead of `topics.persistent`.
        "persistent" persistent: Option<bool> = Absent, Kind::Boolean;
        /// Instead of `topics.deltas`.
        "deltas" deltas: Option<bool> = Absent, Kind::Boolean;
        /// Instead of `topics.conflation`.
        "conflation" conflation: Option<ConflationWord> = Absent, Kind::Choice(ConflationWord::WORDS);
        /// Instead of `topics.interval`.
        "interval" interval: Option<Duration> = Absent, INTERVAL, zero("no bound");
        /// Instead of `topics.priority`.
        "priority" priority: Option<PriorityWord> = Absent, Kind::Choice(PriorityWord::WORDS);
        /// Instead of `topics.presence`.
        "presence" presence: Option<bool> = Absent, Kind::Boolean;
        /// When topics are removed by themselves, such as "no subscribers for 10m or no updates for 1h".
        "removal" removal: Option<String> = Absent, Kind::Text;
    }
}

section! {
    /// What holds for every queue that no `[[queue]]` describes.
    "queues" TABLE QueuesConfig {
        /// Bytes of the messages of one queue in memory. With a store, what is more is left to the disk, for a moment up to twice as
        /// much is in memory. Without one, `full_policy` says what becomes of more.
        "memory_bytes_max" memory_bytes_max: u64 = Is("64 MiB"), QUEUE_MEMORY;
        /// Messages of one queue that are on the disk alone; a queue that has more slows its producers.
        "disk_bytes_max" disk_bytes_max: u64 = Is("64 GiB"), QUEUE_DISK;
        /// Unacknowledged bytes sent ahead to one consumer.
        "prefetch_bytes" prefetch_bytes: u64 = Is("640 KiB"), PREFETCH_BYTES;
        /// Unacknowledged messages sent ahead to one consumer.
        "prefetch_count" prefetch_count: u64 = Is("0"), PREFETCH_COUNT, zero(WITHOUT_LIMIT);
        /// A message that was rejected, or lost with the consumer that most likely had it, more often than this moves to
        /// the dead-letter queue. Messages that lay unread in a consumer's window do not count.
        "redeliveries_max" redeliveries_max: u32 = Is("20"), REDELIVERIES, zero(WITHOUT_LIMIT);
        /// How long a message that has failed once waits before it is delivered again. Others go on meanwhile; when it
        /// comes back it is at its place in the order.
        "redelivery_delay" redelivery_delay: Duration = Is("0s"), REDELIVERY_DELAY, zero("it does not wait");
        /// How many times as long it waits after each further failure.
        "redelivery_delay_factor" redelivery_delay_factor: u32 = Is("2"), REDELIVERY_FACTOR;
        /// The longest that it waits.
        "redelivery_delay_max" redelivery_delay_max: Duration = Is("10m"), REDELIVERY_DELAY;
        /// For how long publishers may have a message wait before it is delivered (`delay`, `deliver-at`); more is refused.
        "delay_max" delay_max: Duration = Is("30d"), DELAY, zero("messages are not delayed");
        /// Messages that expire are dead letters, too.
        "dead_letter_expired" dead_letter_expired: bool = Is("false"), Kind::Boolean;
        /// Messages of one queue: ready, delayed, and with consumers.
        "messages_max" messages_max: usize = Is("0"), QUEUE_MESSAGES, zero(WITHOUT_LIMIT);
        /// What becomes of messages for a queue that has `memory_bytes_max` or `messages_max`.
        "full_policy" full_policy: FullPolicyWord = Is("block"), Kind::Choice(FullPolicyWord::WORDS);
        /// Which consumer gets the next message, of those that have room. Message groups decide where there are any.
        "dispatch" dispatch: DispatchWord = Is("round-robin"), Kind::Choice(DispatchWord::WORDS);
        /// The most urgent messages come first: [priorities](queues.md#priorities).
        "priorities" priorities: bool = Is("false"), Kind::Boolean;
        /// The dead-letter queue; `{queue}` stands for the path of the queue, or for as much of its beginning as fits.
        "dead_letter" dead_letter: String = Is("dlq/{queue}"), Kind::Text;
        /// Bytes of messages that the queues of one principal may hold together, in memory and on the disk; beyond that what
        /// is sent there is refused, or dropped where `full_policy` drops. Exceptions stand in `[[quota]]`.
        "principal_bytes_max" principal_bytes_max: u64 = Is("0"), ACCOUNT_BYTES, zero("no limit but those of queues and of the server");
        /// Queues that one principal may own at each shard, durable subscriptions included.
        "principal_queues_max" principal_queues_max: usize = Is("100000"), ACCOUNT_QUEUES, zero(WITHOUT_LIMIT);
        /// How long a queue without messages and consumers stays.
        "idle_removal" idle_removal: Duration = Is("30s"), Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(31_536_000) }, zero("for ever");
    }
}

section! {
    /// Exceptions for the queues that match a pattern. The first match in the file counts.
    "queue" LIST QueueConfig {
        /// The queues concerned.
        "match" pattern: Pattern = Required, Kind::Pattern;
        /// Instead of `queues.memory_bytes_max`.
        "memory_bytes_max" memory_bytes_max: Option<u64> = Absent, QUEUE_MEMORY;
        /// Instead of `queues.disk_bytes_max`.
        "disk_bytes_max" disk_bytes_max: Option<u64> = Absent, QUEUE_DISK;
        /// Instead of `queues.prefetch_bytes`.
        "prefetch_bytes" prefetch_bytes: Option<u64> = Absent, PREFETCH_BYTES;
        /// Instead of `queues.prefetch_count`.
        "prefetch_count" prefetch_count: Option<u64> = Absent, PREFETCH_COUNT, zero(WITHOUT_LIMIT);
        /// Instead of `queues.redeliveries_max`.
        "redeliveries_max" redeliveries_max: Option<u32> = Absent, REDELIVERIES, zero(WITHOUT_LIMIT);
        /// Instead of `queues.redelivery_delay`.
        "redelivery_delay" redelivery_delay: Option<Duration> = Absent, REDELIVERY_DELAY, zero("it does not wait");
        /// Instead of `queues.redelivery_delay_factor`.
        "redelivery_delay_factor" redelivery_delay_factor: Option<u32> = Absent, REDELIVERY_FACTOR;
        /// Instead of `queues.redelivery_delay_max`.
        "redelivery_delay_max" redelivery_delay_max: Option<Duration> = Absent, REDELIVERY_DELAY;
        /// Instead of `queues.delay_max`.
        "delay_max" delay_max: Option<Duration> = Absent, DELAY, zero("messages are not delayed");
        /// Instead of `queues.dead_letter_expired`.
        "dead_letter_expired" dead_letter_expired: Option<bool> = Absent, Kind::Boolean;
        /// Instead of `queues.messages_max`.
        "messages_max" messages_max: Option<usize> = Absent, QUEUE_MESSAGES, zero(WITHOUT_LIMIT);
        /// Instead of `queues.full_policy`.
        "full_policy" full_policy: Option<FullPolicyWord> = Absent, Kind::Choice(FullPolicyWord::WORDS);
        /// Instead of `queues.dispatch`.
        "dispatch" dispatch: Option<DispatchWord> = Absent, Kind::Choice(DispatchWord::WORDS);
        /// Instead of `queues.priorities`.
        "priorities" priorities: Option<bool> = Absent, Kind::Boolean;
        /// Instead of `queues.dead_letter`.
        "dead_letter" dead_letter: Option<String> = Absent, Kind::Text;
        /// The principal in whose account the queue counts, instead of the one that uses it first.
        "owner" owner: Option<String> = Absent, Kind::Name;
        /// What is sent to the queue is also published to the topic of the same name, and what is published there also comes
        /// to the queue: [mirrored queues](queues.md#mirrored-queues).
        "mirrored" mirrored: bool = Is("false"), Kind::Boolean;
    }
}

section! {
    /// Memory of the whole server.
    "memory" TABLE MemoryConfig {
        /// Everything kept for clients together: queues, outboxes, values and what topics keep, views, names,
        /// subscriptions, and what clients have begun to send. Beyond it producers are slowed, and what is
        /// new is refused. Each shard has its part.
        "messages_bytes_max" messages_bytes_max: MemoryAmount = Is("25 %"), Kind::Memory, flag("memory");
    }
}

choice! {
    /// What the values of a topic are.
    ValueType {
        /// Whatever publishers send.
        Any = "any",
        /// JSON text.
        Json = "json",
        /// UTF-8 text.
        Text = "string",
        /// Bytes.
        Binary = "binary",
        /// A whole number of 64 bits with sign.
        Int64 = "int64",
        /// A number of 64 bits with a point.
        Double = "double",
    }
}

choice! {
    /// How updates stand in for earlier ones.
    ConflationWord {
        /// The newest value counts.
        Latest = "latest",
        /// The fields of JSON objects are merged.
        Merge = "merge",
    }
}

choice! {
    /// What becomes of messages for a full queue.
    FullPolicyWord {
        /// Their publishers wait.
        Block = "block",
        /// They are refused (`queue-full`).
        Reject = "reject",
        /// The messages that have waited longest are dropped for them.
        DropHead = "drop-head",
        /// They are dropped, and their publishers are not told.
        DropTail = "drop-tail",
    }
}

choice! {
    /// Which consumer of a queue gets the next message.
    DispatchWord {
        /// Each in its turn.
        RoundRobin = "round-robin",
        /// The one that came first, until it has no room.
        First = "first",
    }
}

choice! {
    /// What goes first.
    PriorityWord {
        /// After everything else.
        Low = "low",
        /// In the order of arrival.
        Default = "default",
        /// Before everything else.
        High = "high",
    }
}

choice! {
    /// What happens to messages for a subscriber that does not keep up.
    SlowConsumer {
        /// The publisher waits without end, which slows every other subscriber of the topic too.
        Block = "block",
        /// Only the latest message of each topic waits.
        Conflate = "conflate",
        /// The subscriber is disconnected after the grace period.
        Disconnect = "disconnect",
        /// New messages are dropped while the outbox is full.
        DropNewest = "drop-newest",
        /// The messages that have waited longest are dropped.
        DropOldest = "drop-oldest",
    }
}
