//! The price list: what each operation costs at a home, in the units of the work budget.
//!
//! One unit is one byte of JSON parsed, about three nanoseconds; the other prices are how many times
//! that something takes. All prices of operations stand here, so that they can be compared.
//! Relies on values, topics and sessions being counted already: finding a price out takes one lookup.
//! Invariant: what an operation does before it is refused or done costs no more than its price and what
//! it charges afterwards.

use tiderace_topics::Pattern;
use tiderace_wire::{Change, DurableSubscription, Update};

/// Any operation: its rights, its answer.
pub(crate) const OPERATION: u64 = 256;
/// One byte of a value that conditions look into: it is parsed once and walked once, however many
/// conditions there are.
pub(crate) const LOOKED_INTO: u64 = 2;
/// One byte of a value that a patch or a merge changes: it is parsed, taken apart, written and parsed.
/// The steps of the patch itself are charged afterwards.
pub(crate) const CHANGED: u64 = 3;
/// One step of a patch, a merge or a schema: a field, an element or 16 bytes.
pub(crate) const STEP: u64 = 4;
/// Bytes that are copied for one unit.
pub(crate) const COPIED_BYTES: u64 = 4;
/// Bytes that a client has sent for one unit: sending bytes pays for most of what is done
/// with them.
pub(crate) const GIVEN_BYTES: u64 = 64;
/// One byte of a specification: a schema in it is compiled.
pub(crate) const SPECIFICATION: u64 = 64;
/// One byte made on the way from regular expressions to automata.
pub(crate) const COMPILED: u64 = 24;
/// One consumer that comes to a new queue.
pub(crate) const PLACE: u64 = 64;
/// One consumer that is asked whether it has room.
pub(crate) const ASKED: u64 = 16;
/// One topic that is looked at for a page.
pub(crate) const TOPIC: u64 = 64;
/// One pattern that is held against one name of a page.
pub(crate) const MATCHED: u64 = 24;
/// One topic of a page, beside looking at it: it is put in order among those of other homes, written and
/// sent.
pub(crate) const LISTED: u64 = 192;
/// Topics looked at in one slice of a removal; to begin one costs as much.
pub(crate) const REMOVAL_SLICE: usize = 256;
/// One topic that is removed, beside looking at it.
pub(crate) const REMOVED: u64 = 1024;
/// One kept message of an answer: it is looked up, written and sent.
pub(crate) const EVENT: u64 = 192;
/// One kept message that is passed over on the way to those of an answer.
pub(crate) const EVENT_PASSED: u64 = 2;
/// One slice of a purge or a move of messages, or a look at the messages of a queue: what selectors and the cutting of
/// segments may cost in it.
pub(crate) const QUEUE_SLICE: u64 = 64 << 10;
/// One message that goes to another queue, beside what is copied: it is written, and taken there.
pub(crate) const MOVED: u64 = 64;
/// One durable subscription that a message of a topic is put into: it is copied, and given to a consumer.
pub(crate) const FED: u64 = 384;

/// One subscriber of a topic that a message is given to, or that is asked whether it may have it, where
/// there are more than [`FREE_DELIVERIES`].
pub(crate) const DELIVERY: u64 = 16;
/// Subscribers of a topic on one shard that a message costs nothing extra for: what a turn reads is dear
/// only to those with more.
pub(crate) const FREE_DELIVERIES: usize = 64;
/// One message that finds a backlog above its mark, beside [`DELIVERY`].
pub(crate) const ABOVE_MARK: u64 = 64;
/// One topic that is looked at for a session whose publishers wait for it.
pub(crate) const GRACE: u64 = 8;
/// One entry of a backlog that is looked at for something that ends.
pub(crate) const BACKLOG_LOOK: u64 = 4;

/// Bytes that are made of a text, for each of its own: a compiled selector, a pattern.
pub(crate) const TEXT_BYTES: usize = 4;
/// Bytes of each level of a pattern in the indexes, which are half empty after they have grown.
const LEVEL_BYTES: usize = 1100;

/// Bytes that a pattern takes at one home as long as a shard has subscriptions with it, with its part of
/// that shard's own index: those that have it in common share it.
pub(crate) fn pattern_bytes(pattern: &Pattern) -> usize {
    LEVEL_BYTES * pattern.levels().len() + TEXT_BYTES * pattern.as_str().len()
}

/// Bytes that a durable subscription takes at its home.
pub(crate) fn durable_bytes(about: &DurableSubscription) -> usize {
    let of_topic = |topic| pattern_bytes(topic) + topic.regex_bytes();
    about.bytes() + about.topics.iter().map(of_topic).sum::<usize>()
}

/// What looking for so many patterns at so many topics costs.
pub(crate) fn of_looks(topics: usize, patterns: usize) -> u64 {
    (TOPIC + MATCHED * patterns as u64) * topics as u64
}

/// What looking at one slice of a removal costs, of so many patterns.
pub(crate) fn of_removal(patterns: usize) -> u64 {
    of_looks(REMOVAL_SLICE, patterns)
}

/// What a new value costs that is made of another one, for what it is longer than that.
pub(crate) fn of_growth(update: &Update, before: usize, after: usize) -> u64 {
    match update.change {
        Change::Value(_) => 0,
        _ => after.saturating_sub(before) as u64 / COPIED_BYTES,
    }
}
