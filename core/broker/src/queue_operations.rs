//! Looking at one queue and at the messages in it, and pausing it.
//!
//! Who may browse a queue sees how it stands; who may receive from it sees its messages; who may manage it pauses it.
//! Relies on positions and places to stay as long as what is there. Invariants: a page looks at no more than
//! [`LOOKED_AT_MAX`] places of consumers, and ends when it has [`PAGE_BYTES`].

use tiderace_base::{Close, CloseCode, Key, Now};
use tiderace_queues::{ConsumerState, Look, QueueChoices};
use tiderace_topics::Path;
use tiderace_wire::{
    ConsumerEntry, OperationResult, Peek, PeekedMessages, QueueDetails, QueueQuery, QueueSettings,
};

use crate::Action;
use crate::effects::Effects;
use crate::home::queue_pages::{ENTRY_BYTES, PAGE_BYTES};
use crate::home_side::HomeSide;
use crate::price::{LISTED, TOPIC};
use crate::requester::{Operated, Requester};

/// Places of consumers that are looked at for one page.
const LOOKED_AT_MAX: u32 = 1_024;

impl HomeSide<'_> {
    /// Shows a queue with a page of its consumers.
    pub(crate) fn show_queue(
        &mut self,
        now: Now,
        requester: &Requester,
        query: &QueueQuery,
    ) -> Operated {
        self.may_on_queue(requester, Action::Browse, &query.path)?;
        let queues = self.home.queues();
        let unknown = || queue_unknown(&query.path);
        let key = queues.find(&query.path).ok_or_else(unknown)?;
        let (state, choices) = queues.state(key).zip(queues.choices(key)).ok_or_else(unknown)?;
        let slots = queues.consumer_slots();
        let end = slots.min(query.after.saturating_add(LOOKED_AT_MAX));
        let (mut slot, mut bytes, mut consumers) = (query.after, 0, Vec::new());
        while slot < end && consumers.len() < query.consumers_max() && bytes < PAGE_BYTES {
            if let Some(state) = queues.consumer_at(key, slot) {
                let entry = consumer_entry(&state);
                bytes += ENTRY_BYTES + entry.bytes();
                consumers.push(entry);
            }
            slot += 1;
        }
        let details = QueueDetails {
            entry: self.home.entry_of(self.options, now.time, &state),
            settings: settings(&choices),
            next: (slot < slots).then_some(slot),
            consumers,
            account: queues.account_of(key),
        };
        self.work.charge_at(now, LISTED * details.consumers.len() as u64);
        Ok(OperationResult::Queue(Box::new(details)))
    }

    /// What looking for the consumers of a page costs.
    pub(crate) fn price_of_consumers(&self, query: &QueueQuery) -> u64 {
        let slots = self.home.queues().consumer_slots();
        TOPIC * u64::from(slots.saturating_sub(query.after).min(LOOKED_AT_MAX))
    }

    /// Begins to read ready messages, which stay where they are. Those that are in the store alone have to be asked for.
    pub(crate) fn begin_peek(
        &mut self,
        now: Now,
        requester: Requester,
        peek: Peek,
        effects: &mut Effects,
    ) {
        let result = self.may_on_queue(&requester, Action::Receive, &peek.path).and_then(|()| {
            let queue = self.home.queues().find(&peek.path);
            queue.ok_or_else(|| queue_unknown(&peek.path))
        });
        let result = match result {
            Ok(queue) => match self.home.queues().unseen_from(queue, peek.from, u64::MAX) {
                None => Ok(self.page_of(now, queue, &peek, u64::MAX)),
                Some(unseen) if self.has_ready(queue, peek.from, unseen) => {
                    Ok(self.page_of(now, queue, &peek, unseen - 1))
                }
                Some(from) => return self.look_for(requester, peek, (queue, from), effects),
            },
            Err(close) => Err(close),
        };
        self.answer_peek(&requester, result, effects);
    }

    /// What somebody wants to see of messages in the store alone is in memory, up to a version.
    pub(crate) fn end_peek(
        &mut self,
        now: Now,
        requester: &Requester,
        peek: &Peek,
        through: u64,
        effects: &mut Effects,
    ) {
        let queue = self.home.queues().find(&peek.path);
        let queue = queue.ok_or_else(|| queue_unknown(&peek.path));
        let result = queue.map(|queue| (queue, self.page_of(now, queue, peek, through)));
        if let Ok((queue, _)) = &result {
            let out = self.home.queues_mut().end_look(*queue);
            self.apply(out, effects);
        }
        self.answer_peek(requester, result.map(|(_, page)| page), effects);
    }

    fn answer_peek(
        &mut self,
        requester: &Requester,
        result: Result<PeekedMessages, Close>,
        effects: &mut Effects,
    ) {
        let result = result.map(|page| OperationResult::Messages(Box::new(page)));
        self.loopback.answer_operation(requester, result, effects);
    }

    fn look_for(
        &mut self,
        requester: Requester,
        peek: Peek,
        (queue, from): (Key, u64),
        effects: &mut Effects,
    ) {
        if !self.home.queue_jobs().may_peek() {
            let reason = "too many looks at queues are under way; wait for one of them";
            let close = Close::new(CloseCode::TooMuchWork, reason);
            return self.answer_peek(&requester, Err(close), effects);
        }
        let number = self.home.queue_jobs_mut().number();
        let look = Look {
            number,
            from,
            to: u64::MAX,
            selector: peek.selector.clone(),
            messages: peek.messages_max() as u64,
            bytes: PAGE_BYTES,
        };
        self.home.queue_jobs_mut().wait_to_peek(number, requester, peek);
        let out = self.home.queues_mut().look(queue, look);
        self.apply(out, effects);
    }

    /// Whether any ready message in memory has a version from one up to and without another.
    fn has_ready(&self, queue: Key, from: u64, before: u64) -> bool {
        let last = before.saturating_sub(1);
        from <= last && self.home.queues().ready_from(queue, from, last).next().is_some()
    }

    /// The ready messages in memory up to a version, as a page.
    fn page_of(&mut self, now: Now, queue: Key, peek: &Peek, to: u64) -> PeekedMessages {
        let (page, spent) = self.home.page_of(now, queue, peek, to);
        self.work.charge_at(now, spent);
        page
    }

    /// Pauses a queue, or resumes it.
    pub(crate) fn pause_queue(
        &mut self,
        now: Now,
        requester: &Requester,
        (path, on): (&Path, bool),
        effects: &mut Effects,
    ) -> Operated {
        self.may_on_queue(requester, Action::Manage, path)?;
        let queues = self.home.queues();
        // One that is paused stays: made by its name alone, any number would be.
        let may_be_made = on && self.options.names_queue(path);
        if !(queues.has(path) || may_be_made) {
            return Err(queue_unknown(path));
        }
        if !queues.may_have(path) {
            return Err(CloseCode::MemoryFull.into());
        }
        let out = self.home.queues_mut().pause(now, path, on, self.options);
        self.apply(out, effects);
        Ok(OperationResult::Done)
    }
}

fn settings(choices: &QueueChoices<'_>) -> QueueSettings {
    let policy = choices.policy;
    QueueSettings {
        memory_bytes_max: choices.bytes_max as u64,
        disk_bytes_max: choices.disk_bytes_max,
        prefetch: choices.window,
        redeliveries_max: choices.redeliveries_max,
        dead_letter: choices.dead_letter.cloned(),
        idle_ms: choices.idle.as_millis() as u64,
        redelivery_delay_ms: policy.redelivery_delay.as_millis() as u64,
        redelivery_delay_factor: policy.redelivery_delay_factor,
        redelivery_delay_max_ms: policy.redelivery_delay_max.as_millis() as u64,
        delay_max_ms: policy.delay_max.as_millis() as u64,
        messages_max: policy.messages_max as u64,
        full_policy: policy.full.text(),
        mirrored: policy.mirrored,
        priorities: policy.priorities,
        dispatch: policy.dispatch.text(),
        dead_letter_expired: policy.dead_letter_expired,
    }
}

fn consumer_entry(state: &ConsumerState<'_>) -> ConsumerEntry {
    ConsumerEntry {
        session: state.session,
        subscription: state.key,
        in_flight: u64::from(state.messages),
        in_flight_bytes: state.bytes as u64,
        prefetch: state.window,
        credit: state.credit,
        selector: state.selector.map(|selector| selector.text().into()),
        exclusive: state.exclusive,
        active: state.active,
        explicit: state.explicit,
    }
}

/// Why nothing can be done with a queue.
pub(crate) fn queue_unknown(path: &Path) -> Close {
    Close::new(CloseCode::QueueUnknown, format!("there is no queue {path}"))
}
