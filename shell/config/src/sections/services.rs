//! Services: how many calls may be open and wait, and how long callers may wait.

use std::time::Duration;

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::section;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

section! {
    /// Calls of services, and the exchanges they begin.
    "services" TABLE ServicesConfig {
        /// Exchanges a responder may have open unless it asks for another number; with a pattern, from each shard.
        "window" window: u32 = Is("256"), Kind::Integer { min: 1, max: 1_000_000 };
        /// Calls of one service that may wait for a responder with room; those beyond end with `service-busy`.
        "calls_waiting_max" calls_waiting_max: usize = Is("1024"), Kind::Integer { min: 1, max: 1_000_000 }, zero("none wait");
        /// Bytes of all calls that wait at one shard.
        "calls_waiting_bytes_max" calls_waiting_bytes_max: usize = Is("64 MiB"), Kind::Bytes { min: 64 * KIB, max: TIB };
        /// Calls one session may have open; those beyond end with `too-many-calls`.
        "calls_per_session_max" calls_per_session_max: usize = Is("10000"), Kind::Integer { min: 1, max: 10_000_000 };
        /// Bytes one session may have said in calls that no responder has taken yet.
        "call_bytes_per_session_max" call_bytes_per_session_max: usize = Is("32 MiB"), Kind::Bytes { min: 64 * KIB, max: 16 * GIB };
        /// The longest timeout a caller may have, which is how long the other side may be silent; and how long a caller may ask for nothing and say nothing.
        "timeout_max" timeout_max: Duration = Is("10m"), Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(86_400) };
    }
}
