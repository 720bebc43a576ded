//! How much one session may have waiting, and how much of it the kernel may hold.

use std::time::Duration;

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::section;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;

section! {
    /// What one session may have waiting, and how much of it the kernel may hold.
    "session" TABLE SessionConfig {
        /// Bytes waiting for one client at which it counts as slow and the topic's policy applies.
        "outbox_bytes_max" outbox_bytes_max: usize = Is("4 MiB"), Kind::Bytes { min: 16 * KIB, max: 4 * GIB };
        /// Bytes waiting at which a slow client counts as recovered; below `outbox_bytes_max`.
        "outbox_bytes_low" outbox_bytes_low: usize = Is("1 MiB"), Kind::Bytes { min: 4 * KIB, max: 4 * GIB };
        /// Bytes of the newest values of topics that may wait for one client which asks for messages by their number, as RSocket's do, and has not asked for more. Beyond it the topic's policy decides: `drop-oldest` and `drop-newest` drop, all others disconnect.
        "deferred_bytes_max" deferred_bytes_max: usize = Is("64 MiB"), Kind::Bytes { min: 64 * KIB, max: 4 * GIB };
        /// Temporary queues that one session may have.
        "temporary_queues_max" temporary_queues_max: usize = Is("256"), Kind::Integer { min: 1, max: 100_000 };
        /// Bytes that may wait in the temporary queues of one session; one message alone may be larger. What is sent there beyond it is dropped and counted, so that a client which does not read its answers holds nobody back.
        "temporary_bytes_max" temporary_bytes_max: usize = Is("16 MiB"), Kind::Bytes { min: 4 * KIB, max: 4 * GIB };
        /// Sessions that may wait for their clients at a time after they lost their connections, such as RSocket's that can be resumed. Each event loop has an equal share.
        "detached_max" detached_max: usize = Is("100000"), Kind::Integer { min: 0, max: 100_000_000 };
        /// Of them, those of one principal.
        "detached_per_principal_max" detached_per_principal_max: usize = Is("10000"), Kind::Integer { min: 0, max: 100_000_000 };
        /// Bytes that sessions may hold together while they wait for their clients; beyond it those that hold most end.
        "detached_bytes_max" detached_bytes_max: usize = Is("256 MiB"), Kind::Bytes { min: 0, max: 1024 * GIB };
        /// How long a session waits for its client at most, whatever its protocol says.
        "detached_timeout" detached_timeout: Duration = Is("5m"), Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(86_400) };
        /// Bytes after which one client has had its turn, by one write or one answered poll; the others come before it gets more.
        "block_bytes" block_bytes: usize = Is("256 KiB"), Kind::Bytes { min: 4 * KIB, max: 256 * KIB };
        /// How long messages may wait so that more of them go out in one write: a connection is then written, or its poll answered, once in that time, or twice if it comes after a quiet one. The connections take turns, spread over it. Worth it where every client gets very many messages, because fewer writes cost less on both ends.
        "batch_delay" batch_delay: Duration = Is("0s"), Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(1) };
        /// Bytes not yet sent that the kernel takes for one connection (`TCP_NOTSENT_LOWAT`); the rest waits in the session, where it can still be conflated or dropped.
        "unsent_bytes_max" unsent_bytes_max: usize = Is("256 KiB"), Kind::Bytes { min: 16 * KIB, max: GIB };
    }
}
