//! REST and Server-Sent Events.

use std::time::Duration;

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::section;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

section! {
    /// REST and Server-Sent Events: `/topics`, `/queues`, `/services`, `/batch` and `/events` by plain HTTP.
    "events" TABLE EventsConfig {
        /// Answer on these paths at all.
        "enabled" enabled: bool = Is("true"), Kind::Boolean;
        /// What all of the paths begin with, such as `/api`.
        "base_path" base_path: String = Is("/"), Kind::UrlPath;
        /// Topics and patterns of one stream.
        "stream_topics_max" stream_topics_max: usize = Is("100"), Kind::Integer { min: 1, max: 10_000 };
        /// Time after which a quiet stream shows that it lives.
        "heart_beat" heart_beat: Duration = Is("15s"), Kind::Duration { min: Duration::from_millis(100), max: HOUR };
        /// Time after which clients are advised to connect again.
        "retry" retry: Duration = Is("2s"), Kind::Duration { min: Duration::from_millis(100), max: HOUR };
        /// Values in one list of retained values.
        "list_max" list_max: usize = Is("10000"), Kind::Integer { min: 1, max: 1_000_000 }, zero("no lists");
        /// What the lists of all clients hold together while they are made and sent; a request for one more is answered with `503 lists-busy`.
        "lists_bytes_max" lists_bytes_max: usize = Is("64 MiB"), Kind::Bytes { min: 8 << 20, max: 64 << 30 };
        /// Messages of one batch.
        "batch_items_max" batch_items_max: usize = Is("1000"), Kind::Integer { min: 1, max: 100_000 };
        /// Body of one batch.
        "batch_bytes_max" batch_bytes_max: usize = Is("16 MiB"), Kind::Bytes { min: KIB, max: GIB };
        /// Time that a publication may take to be confirmed.
        "request_timeout" request_timeout: Duration = Is("30s"), Kind::Duration { min: SECOND, max: HOUR };
        /// The longest time that callers may wait for a service.
        "call_timeout_max" call_timeout_max: Duration = Is("60s"), Kind::Duration { min: SECOND, max: HOUR };
        /// How long the answer to a request with an `Idempotency-Key` is remembered.
        "idempotency_window" idempotency_window: Duration = Is("10m"), Kind::Duration { min: SECOND, max: Duration::from_secs(86_400) }, zero("not at all");
        /// Memory for such answers; the oldest go first.
        "idempotency_bytes_max" idempotency_bytes_max: usize = Is("16 MiB"), Kind::Bytes { min: 64 * KIB, max: 1024 * MIB };
    }
}
