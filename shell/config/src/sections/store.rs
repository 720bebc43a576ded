//! Where persistent topics and messages are kept, and what a confirmation of them means.

use std::time::Duration;

use crate::kind::Kind;
use crate::spec::DefaultValue::{Absent, Is};
use crate::spec::{choice, section};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

section! {
    /// The log in which persistent topics, views and persistent messages of queues survive restarts, kills and the loss of power.
    "store" TABLE StoreConfig {
        /// The directory of the log, made if it does not exist; one server at a time can use it. Not set: nothing is persistent.
        "directory" directory: Option<String> = Absent, Kind::Text;
        /// What the confirmation of a persistent message waits for.
        "sync" sync: StoreSync = Is("always"), Kind::Choice(StoreSync::WORDS);
        /// How often the operating system is told to write to the disk, with `store.sync` "interval".
        "sync_interval" sync_interval: Duration = Is("100ms"), Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(60) };
        /// The length of the log's files. The log is at most about three times as long as what is needed, and a few files more.
        "segment_bytes" segment_bytes: u32 = Is("32 MiB"), Kind::Bytes { min: MIB, max: GIB };
        /// Bytes on the disk kept for the time when it is full: removals are still written then, and room is given back.
        "reserve_bytes" reserve_bytes: u32 = Is("32 MiB"), Kind::Bytes { min: MIB, max: GIB }, zero("no reserve");
        /// Bytes of each shard that may wait for the disk; publishers of persistent topics and messages wait beyond that.
        "waiting_bytes_max" waiting_bytes_max: usize = Is("8 MiB"), Kind::Bytes { min: 64 * KIB, max: GIB };
        /// Bytes of messages of queues that the store holds, of all queues together, and of the files of their large messages; beyond that persistent messages for queues are refused until some are consumed. Topics, views and acknowledgements go on, so queues do not fill the disk for them. The log is at most about three times as long as what it holds.
        "queue_bytes_max" queue_bytes_max: u64 = Is("0"), Kind::Bytes { min: MIB, max: 1 << 50 }, zero("as many as the disk has");
        /// Start although the log is damaged: records that cannot be read are left out and said in the log, and their bytes are kept beside it. For one start, when no copy exists.
        "accept_damage" accept_damage: bool = Is("false"), Kind::Boolean;
    }
}

choice! {
    /// What a confirmation of a persistent message waits for.
    StoreSync {
        /// The disk: confirmed messages survive the loss of power.
        Always = "always",
        /// The operating system: confirmed messages survive the end of the process; a loss of power takes those of the last `store.sync_interval`.
        Interval = "interval",
        /// The operating system, which writes when it likes: confirmed messages survive the end of the process; a loss of power may take many.
        Never = "never",
    }
}
