//! Recent messages, kept for clients that come back.

use std::time::Duration;

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::section;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

section! {
    /// Recent messages of topics to which clients may come back after a break. STOMP clients cannot, so topics with none but them cost nothing here.
    "history" TABLE HistoryConfig {
        /// Bytes of recent messages of all topics; the oldest go first.
        "bytes_max" bytes_max: usize = Is("64 MiB"), Kind::Bytes { min: 64 * KIB, max: TIB }, zero("no history");
        /// Bytes of recent messages of one topic.
        "topic_bytes_max" topic_bytes_max: usize = Is("1 MiB"), Kind::Bytes { min: KIB, max: 64 * GIB };
        /// How long messages are kept, and how long topics are recorded after the last client left that may come back.
        "age_max" age_max: Duration = Is("2m"), Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(86_400) };
    }
}
