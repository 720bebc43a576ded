//! What clients may have at a time and how fast they may send and be sent to, by who they are and where.

use crate::kind::Kind;
use crate::sections::auth::PrincipalMatch;
use crate::spec::DefaultValue::{Absent, Is, Required};
use crate::spec::{choice, section};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const COUNT: Kind = Kind::Integer { min: 1, max: 100_000_000 };
const RATE: Kind = Kind::Bytes { min: KIB, max: 100 * GIB };

choice! {
    /// Who shares what a limit allows.
    LimitPerWord {
        /// All to whom it applies, together.
        All = "all",
        /// All from one address, together; of IPv6, from one network of 64 bits.
        Address = "address",
        /// All sessions of one user, together; of clients without a name, those from one address.
        User = "user",
    }
}

section! {
    /// What some clients may have at a time, and how fast they may send and be sent to: [limits](limits.md).
    "limit" LIST LimitSection {
        /// Whom it concerns: `user:NAME`, `group:NAME`, `anonymous`, or `*` for everybody. Of the limits with the same `per` the first counts that names a client, so exceptions stand first.
        "principals" principals: Vec<String> = Required, Kind::List(&Kind::Text);
        /// Who shares it.
        "per" per: LimitPerWord = Is("user"), Kind::Choice(LimitPerWord::WORDS);
        /// Sessions that are logged in and have a connection, and requests by HTTP that are being answered. Those beyond are refused with `too-many-connections`. Not set: no limit, as with all options here.
        "connections_max" connections_max: Option<u32> = Absent, COUNT;
        /// Subscriptions of all their sessions together. Those beyond are refused with `too-many-subscriptions`.
        "subscriptions_max" subscriptions_max: Option<u32> = Absent, COUNT;
        /// Messages, calls and operations that they send, and subscriptions that they begin and end, per second. Who sends more is read more slowly; requests by HTTP are refused with `rate-limited`.
        "messages_per_second" messages_per_second: Option<u64> = Absent, COUNT;
        /// Bytes of properties and bodies of what they send per second; above, as with messages.
        "received_bytes_per_second" received_bytes_per_second: Option<u64> = Absent, RATE;
        /// Bytes that are written to them per second, as their protocol writes them. What is more than that waits, and is conflated or dropped as for a client that reads slowly.
        "sent_bytes_per_second" sent_bytes_per_second: Option<u64> = Absent, RATE;
        /// Bytes of messages that may wait for one session of theirs, instead of `session.outbox_bytes_max`, above which it has no effect.
        "backlog_bytes_max" backlog_bytes_max: Option<usize> = Absent, Kind::Bytes { min: 4 * KIB, max: 1024 * MIB };
    }
}

/// What some clients may have.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitConfig {
    /// Whom it concerns.
    pub principals: Vec<PrincipalMatch>,
    /// Who shares it.
    pub per: LimitPerWord,
    /// Sessions with a connection.
    pub connections_max: Option<u32>,
    /// Subscriptions.
    pub subscriptions_max: Option<u32>,
    /// What they send.
    pub messages_per_second: Option<u64>,
    /// Bytes of what they send.
    pub received_bytes_per_second: Option<u64>,
    /// Bytes written to them.
    pub sent_bytes_per_second: Option<u64>,
    /// Bytes that wait for one session.
    pub backlog_bytes_max: Option<usize>,
}
