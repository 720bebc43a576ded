//! How much one session may have waiting, and how much of it moves per turn of the event loop.

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::section;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

section! {
    /// What one session may have waiting, and how much moves per turn of the event loop.
    "session" TABLE SessionConfig {
        /// Bytes waiting for one client at which it counts as slow and the topic's policy applies.
        "outbox_bytes_max" outbox_bytes_max: usize = Is("4 MiB"), Kind::Bytes { min: 16 * KIB, max: 4 * GIB };
        /// Bytes waiting at which a slow client counts as recovered; below `outbox_bytes_max`.
        "outbox_bytes_low" outbox_bytes_low: usize = Is("1 MiB"), Kind::Bytes { min: 4 * KIB, max: 4 * GIB };
        /// Bytes read from one connection before the next one has its turn.
        "read_bytes_per_turn" read_bytes_per_turn: usize = Is("256 KiB"), Kind::Bytes { min: 4 * KIB, max: 16 * MIB };
        /// Largest block handed to one write call; small frames are gathered up to it.
        "write_block_bytes" write_block_bytes: usize = Is("256 KiB"), Kind::Bytes { min: 4 * KIB, max: 16 * MIB };
    }
}
