//! The price list: what each operation costs at a home, in the units of the work budget.
//!
//! One unit is one byte of JSON parsed, about three nanoseconds; the other prices are how many times
//! that something takes. All prices of operations stand here, so that they can be compared.
//! Relies on values, topics and sessions being counted already: finding a price out takes one lookup.
//! Invariant: what an operation does before it is refused or done costs no more than its price and what
//! it charges afterwards.

use tiderace_base::limits::{CHANGED_VALUE_BYTES_MAX, DELTA_VALUE_BYTES_MAX};
use tiderace_topics::Path;
use tiderace_wire::{Change, Condition, Operation, Update};

use crate::broker::Broker;
use crate::remove::SLICE;
use crate::work::Deferred;

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
/// Bytes that a client has sent for one unit: whoever sends bytes has paid for most of what is done
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
/// One topic of a page, beside looking at it: it is put in order among those of other homes, written and
/// sent.
pub(crate) const LISTED: u64 = 192;
/// One topic that is removed, beside looking at it.
pub(crate) const REMOVED: u64 = 1024;
/// One kept message of an answer: it is looked up, written and sent.
pub(crate) const EVENT: u64 = 192;
/// One kept message that is passed over on the way to those of an answer.
pub(crate) const EVENT_PASSED: u64 = 2;
/// One session of a shard that is looked at for a list of the busiest.
pub(crate) const SESSION: u64 = 16;

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

/// What looking at one slice of a removal costs.
pub(crate) fn of_removal() -> u64 {
    TOPIC * SLICE as u64
}

/// What a new value costs that is made of another one, for what it is longer than that.
pub(crate) fn of_growth(update: &Update, before: usize, after: usize) -> u64 {
    match update.change {
        Change::Value(_) => 0,
        _ => after.saturating_sub(before) as u64 / COPIED_BYTES,
    }
}

impl Broker {
    /// What something deferred will cost, as far as that is known before.
    pub(crate) fn price_of(&self, what: &Deferred) -> u64 {
        match what {
            Deferred::Operation(asked) => self.price_of_operation(&asked.1),
            Deferred::Publication(publication) => publication.run.bytes() as u64 / GIVEN_BYTES,
        }
    }

    /// What an operation costs at this home, as far as that is known before.
    pub(crate) fn price_of_operation(&self, operation: &Operation) -> u64 {
        OPERATION
            + match operation {
                Operation::Update(update) => self.price_of_update(update),
                Operation::Create { spec, value, .. } => {
                    let given = value.as_ref().map_or(0, |value| value.bytes());
                    SPECIFICATION * spec.len() as u64 + given as u64 / GIVEN_BYTES
                }
                Operation::Fetch(_) => TOPIC * self.topics_of_page() as u64,
                Operation::History(query) => self.price_of_history(&query.path, query.limit),
                Operation::Amend { value, .. } => value.bytes() as u64 / GIVEN_BYTES,
                Operation::Remove { .. } => of_removal(),
                Operation::Sessions { .. } => SESSION * self.sessions.len() as u64,
                _ => 0,
            }
    }

    fn price_of_update(&self, update: &Update) -> u64 {
        let spec = update.spec.as_ref().map_or(0, |spec| spec.len() as u64) * SPECIFICATION;
        let looks = update.condition.as_ref().is_some_and(Condition::looks_into);
        let given = update.change.bytes() as u64;
        if !looks && matches!(update.change, Change::Value(_)) {
            return spec + given / GIVEN_BYTES;
        }
        let present = self.value_bytes(&update.path);
        // What is larger is refused without a look, but for deltas.
        let looked_at = if present <= CHANGED_VALUE_BYTES_MAX { present as u64 } else { 0 };
        let change = match &update.change {
            Change::Value(_) => given / GIVEN_BYTES,
            // The new value is about as long as the present one; what is more is charged afterwards.
            Change::Delta { .. } => {
                given + present.min(DELTA_VALUE_BYTES_MAX) as u64 / COPIED_BYTES
            }
            Change::Patch(_) | Change::Merge(_) => given + CHANGED * looked_at,
        };
        spec + change + if looks { LOOKED_INTO * looked_at } else { 0 }
    }

    /// Bytes of a topic's value, without properties.
    fn value_bytes(&self, path: &Path) -> usize {
        let topic = self.find_topic(path).and_then(|key| self.topics.get(key));
        let value = topic.and_then(|topic| topic.home.as_ref()?.retained.as_ref());
        value.and_then(|run| run.message(0)).map_or(0, |message| message.body.len())
    }

    /// Whether something deferred has to wait longer: it makes a new value of a topic's present one,
    /// and the subscribers or the store still have to take those before.
    pub(crate) fn is_blocked(&self, what: &Deferred) -> bool {
        match what {
            Deferred::Operation(asked) => self.must_catch_up(&asked.1),
            Deferred::Publication(_) => false,
        }
    }

    /// The same of an operation.
    pub(crate) fn must_catch_up(&self, operation: &Operation) -> bool {
        let Operation::Update(update) = operation else { return false };
        if matches!(update.change, Change::Value(_)) {
            return false;
        }
        let Some(topic) = self.find_topic(&update.path).and_then(|key| self.topics.get(key)) else {
            return false;
        };
        let pressed = topic.home.as_ref().is_some_and(|home| home.pressed() != 0);
        pressed || topic.spec.persistent && self.store_is_behind()
    }
}
