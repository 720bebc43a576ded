//! What operations cost at a home, by the price list, and which of them have to wait for others.

use tiderace_base::limits::{CHANGED_VALUE_BYTES_MAX, DELTA_VALUE_BYTES_MAX};
use tiderace_topics::Path;
use tiderace_wire::{Change, Condition, Operation, Update};

use crate::fetch::LOOKED_AT_MAX;
use crate::home_side::HomeSide;
use crate::price::{
    CHANGED, COPIED_BYTES, GIVEN_BYTES, LOOKED_INTO, OPERATION, SPECIFICATION, TOPIC, of_looks,
    of_removal,
};
use crate::work::Deferred;

impl HomeSide<'_> {
    /// What something deferred will cost, as far as that is known before.
    pub(crate) fn price_of(&self, what: &Deferred) -> u64 {
        match what {
            Deferred::Operation(asked) => self.price_of_operation(&asked.1),
            Deferred::Publication(publication) => publication.run.bytes() as u64 / GIVEN_BYTES,
            Deferred::Together(_) | Deferred::ForConsumer(_) => what.bytes() as u64 / GIVEN_BYTES,
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
                Operation::Fetch(fetch) => {
                    let looked_at = self.directory.topics().len().min(LOOKED_AT_MAX);
                    of_looks(looked_at, fetch.selector.len())
                }
                Operation::Topic { .. } => TOPIC,
                Operation::History(query) => self.price_of_history(&query.path, query.limit),
                Operation::Amend { value, .. } => value.bytes() as u64 / GIVEN_BYTES,
                Operation::Remove { selector } => of_removal(selector.len()),
                Operation::Browse(browse) => self.price_of_page(browse),
                Operation::Queue(query) => self.price_of_consumers(query),
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
        let value = self.topic_named(path).and_then(|topic| topic.home()?.value());
        value.and_then(|run| run.message(0)).map_or(0, |message| message.body.len())
    }

    /// Whether something deferred has to wait longer: it makes a new value of a topic's present one,
    /// and the subscribers or the store still have to take those before.
    pub(crate) fn is_blocked(&self, what: &Deferred) -> bool {
        match what {
            Deferred::Operation(asked) => self.must_catch_up(&asked.1),
            Deferred::Publication(_) | Deferred::Together(_) | Deferred::ForConsumer(_) => false,
        }
    }

    /// The same of an operation.
    pub(crate) fn must_catch_up(&self, operation: &Operation) -> bool {
        let Operation::Update(update) = operation else { return false };
        if matches!(update.change, Change::Value(_)) {
            return false;
        }
        let Some(topic) = self.topic_named(&update.path) else { return false };
        let pressed = topic.home().is_some_and(|home| !home.pressed().is_empty());
        pressed || topic.spec().persistent && self.journal.is_behind()
    }
}
