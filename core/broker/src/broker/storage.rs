//! What the store is told, and what its answers set free: wiring between the journal, the home and the views.
//!
//! Relies on `journal/` for what is appended and held. Invariant: what the journal gives back is handed on before
//! the call returns.

use tiderace_base::{Close, Now};
use tiderace_journal::{RecordSubject, Settled, TakenRecords};

use super::Broker;
use crate::effects::Effects;
use crate::journal::{Answer, KeptSubject, describe_queue};
use crate::messages::ToPublisher;
use crate::stored_answers::store_destination;

impl Broker {
    /// Takes what the store is to be told; to be called once a turn, unless the records taken before still wait. Every
    /// number is to be answered by [`Broker::stored`] or [`Broker::store_failed`].
    pub fn take_records(&mut self, effects: &mut Effects) -> Option<TakenRecords> {
        let (taken, throttled) = self.journal.take()?;
        self.work.unblock();
        if let Some(destination) = store_destination().filter(|_| !throttled.is_empty()) {
            for place in throttled.iter() {
                // Without a grace, so no time counts.
                let message = ToPublisher::Pause { destination: destination.clone(), hold: None };
                self.loopback.send(place, message, effects);
            }
            self.take_loopback(Now::default(), effects);
        }
        Some(taken)
    }

    /// Whether the store is to be told something.
    pub fn has_records(&self) -> bool {
        self.journal.has_records()
    }

    /// All records up to a number are stored: those who waited are answered.
    pub fn stored(&mut self, now: Now, up_to: u64, effects: &mut Effects) {
        let Some(settled) = self.journal.stored(up_to) else { return };
        self.answer_settled(now, settled, effects);
        self.end_call(now, effects);
    }

    /// The records up to a number that have no answer yet are not stored: those who waited are
    /// refused, and so are publishers of persistent topics until the store works again, which it
    /// never does if this is fatal.
    pub fn store_failed(&mut self, now: Now, up_to: u64, is_fatal: bool, effects: &mut Effects) {
        let Some(settled) = self.journal.failed(now, up_to, is_fatal) else { return };
        self.metrics.store_refusals += 1;
        self.answer_settled(now, settled, effects);
        self.end_call(now, effects);
    }

    /// The store has left a record out, for it could not keep the file of its body: who waits for that record is refused
    /// when the records are answered among which it was, and nobody else. To be called before that.
    pub fn body_refused(&mut self, record: u64) {
        self.journal.body_refused(record);
        self.metrics.store_refusals += 1;
    }

    /// Messages of queues have filled their share of the store, or there is room for some again: as long as they have,
    /// persistent ones are refused, and all else goes on.
    pub fn store_queues_full(&mut self, are_full: bool) {
        self.journal.set_queues_full(are_full);
    }

    fn answer_settled(&mut self, now: Now, settled: Settled<Answer>, effects: &mut Effects) {
        for (answer, result) in settled.answers {
            self.home_side().give_answer(now, answer, result.map_err(Close::from), effects);
        }
        for subject in settled.append_again {
            self.append_again(now, subject);
        }
        self.journal.end_append_again();
    }

    /// Tries a store that was full again, now and then, with the first of what it has refused.
    pub(super) fn retry_store(&mut self, now: Now) {
        if !self.journal.begin_retry(now) {
            return;
        }
        let before = self.journal.last_record();
        while let Some(subject) = self.journal.next_refused() {
            self.append_again(now, subject);
            if self.journal.last_record() != before {
                break;
            }
        }
        self.journal.end_retry(before);
    }

    /// Tries now and then whether files of bodies can be kept that could not be before.
    pub(super) fn retry_bodies(&mut self, now: Now) {
        let before = self.journal.last_record();
        while let Some(subject) = self.journal.next_refused_body(now) {
            self.append_again(now, subject);
            if self.journal.last_record() != before {
                return self.journal.end_body_retry(now, subject);
            }
        }
    }

    /// Hands the journal what is kept of a subject that the store has refused.
    fn append_again(&mut self, now: Now, subject: RecordSubject) {
        let topic = match subject {
            RecordSubject::Topic(key, _) => self.directory.get(key),
            _ => None,
        };
        let view = match subject {
            RecordSubject::View(number) => self.views.kept_as(number),
            _ => None,
        };
        let (queue, owner) = match subject {
            RecordSubject::Queue(key, _) => {
                (self.home.queues().kept(key), self.home.queues().owner_of(key))
            }
            _ => (None, None),
        };
        let queue = queue.map(|(path, stream, version)| (path.clone(), stream, version));
        let description =
            queue.as_ref().map(|(path, ..)| describe_queue(self.home.feeds().get(path), owner));
        let description = description.unwrap_or_default();
        let (next_number, last_fence) = (self.home.next_number(), self.home.last_fence());
        let topic = topic.and_then(|topic| Some((topic, self.home.topic_mut(topic)?)));
        let queue =
            queue.as_ref().map(|(path, stream, version)| (path, *stream, *version, description));
        let kept = KeptSubject { next_number, last_fence, topic, view, queue };
        self.journal.append_again(now, subject, kept);
    }
}
