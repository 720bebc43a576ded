//! Queues at their home: from commands and messages to [`tiderace_queues::Queues`] and back.

use std::sync::Arc;

use tiderace_base::{CloseCode, Key, Now, SessionId, Span};
use tiderace_queues::{Consume, DeathReason, Effect, Ending, Segment, Settlement};
use tiderace_topics::Path;
use tiderace_wire::{
    Confirm, Destination, Flags, Kind, Meta, Run, RunBuilder, Settle, SubscriptionKey, Target,
    Token, called_at, properties,
};

use crate::effects::Effects;
use crate::feeding::check_durable;
use crate::home_side::HomeSide;
use crate::journal::versions_of;
use crate::maker::Maker;
use crate::messages::{Answer, LocalMessage, SubscribeRequestId, ToHome, ToSubscriber};
use crate::places::{Place, PlaceSet};
use crate::price::{ASKED, PLACE};
use crate::queued::{MovedFrom, Put, WantedPart};
use crate::session_side::SessionSide;
use crate::subscription::Subscription;
use crate::transaction::to_settle;

/// Consumers that may come to a queue, or be asked for room, for what a message costs anyway.
const FREE_CONSUMERS: u64 = 32;

impl HomeSide<'_> {
    /// Takes a run into its queue, and into the store if it is kept there.
    pub(crate) fn enqueue(
        &mut self,
        now: Now,
        (from, maker): (Place, Maker<'_>),
        mut run: Run,
        effects: &mut Effects,
    ) -> Option<Put> {
        let path = run.destination().path.clone();
        self.home.number(&mut run);
        let before = self.home.queues().asked();
        let queue = self.home.queues_mut().admit(now, &mut run, maker, self.options);
        let put = self.put_run(now, queue, &mut run);
        let out = self.home.queues_mut().publish(now, queue, Arc::new(run));
        let (attached, asked) = self.home.queues().asked();
        let (attached, asked) = (attached - before.0, asked - before.1);
        // Consumers that came to its new queue, and many that had no room.
        if attached + asked > FREE_CONSUMERS {
            self.work.charge_at(now, PLACE * attached + ASKED * asked);
        }
        self.apply(out, effects);
        if self.home.queues_mut().begin_pause(&path, from) {
            let destination = Destination { kind: Kind::Queue, path };
            self.tell_pause(from, destination, Some(Span::ZERO), effects);
        }
        put
    }

    /// Begins a consumer, or somebody who serves.
    pub(crate) fn consume(
        &mut self,
        now: Now,
        from: Place,
        consume: &Consume,
        request: SubscribeRequestId,
        effects: &mut Effects,
    ) {
        let (Target::Exact(Destination { kind, .. }) | Target::Pattern(kind, _)) = &consume.target;
        if *kind == Kind::Service {
            return self.serve(from, consume, request, effects);
        }
        let room = self.home.check_consumer(consume, self.options);
        if let Target::Exact(queue) = &consume.target
            && let Err(close) = check_durable(self.home, &queue.path).and(room)
        {
            self.metrics.account_refused += u64::from(close.code == CloseCode::AccountFull);
            let refused = ToSubscriber::SubscribeRefused { request, close: Box::new(close) };
            return self.send(from, refused, effects);
        }
        // The answer first: deliveries may follow it, never overtake it.
        self.answer(from, request, Answer::default(), effects);
        let out = self.home.queues_mut().consume(now, consume, self.options);
        self.apply(out, effects);
    }

    pub(crate) fn settle_at_home(
        &mut self,
        now: Now,
        (session, key): (SessionId, SubscriptionKey),
        (ranges, settlement): (&[(u64, u64)], Settlement),
        confirm: Option<Confirm>,
        effects: &mut Effects,
    ) {
        let before = self.journal.last_record();
        let out = self.home.queues_mut().settle(now, (session, key), ranges, settlement);
        self.apply_for(Some(session), out, effects);
        let record = self.journal.appended_since(before);
        if let Some(confirm) = confirm {
            let record = (!ranges.is_empty()).then_some(record);
            self.hold_settled(now, record, session, confirm, effects);
        } else {
            self.journal.note_settled(session, record);
        }
    }

    pub(crate) fn credit_consumer(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        messages: u64,
        effects: &mut Effects,
    ) {
        let out = self.home.queues_mut().credit(now, session, key, messages);
        self.apply(out, effects);
    }

    pub(crate) fn leave_at_home(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        end: (u64, Ending),
        confirm: Option<Confirm>,
        effects: &mut Effects,
    ) {
        let out = self.home.queues_mut().leave(now, session, key, end);
        self.apply(out, effects);
        self.serve_no_more(session, key, effects);
        if let Some(confirm) = confirm {
            self.confirm(session, confirm, effects);
        }
    }

    /// Goes on with searches that were too long for one turn.
    pub(crate) fn queue_work(&mut self, now: Now, effects: &mut Effects) {
        if self.home.queues().has_work() {
            let out = self.home.queues_mut().work(now);
            self.apply(out, effects);
        }
    }

    pub(crate) fn queue_tick(&mut self, now: Now, effects: &mut Effects) {
        let out = self.home.queues_mut().tick(now);
        self.apply(out, effects);
    }

    /// Delivers messages whose time has come.
    pub(crate) fn wake_delayed(&mut self, now: Now, effects: &mut Effects) {
        let out = self.home.queues_mut().wake(now);
        self.apply(out, effects);
    }

    /// Messages that were taken out for an operation come back to their places.
    pub(crate) fn return_taken(
        &mut self,
        now: Now,
        queue: Key,
        segments: Vec<Segment>,
        effects: &mut Effects,
    ) {
        let out = self.home.queues_mut().return_taken(now, queue, segments);
        self.apply(out, effects);
    }

    /// Messages that were taken out for an operation are gone for good: the record that says so, or zero.
    pub(crate) fn drop_taken(
        &mut self,
        now: Now,
        queue: Key,
        segments: Vec<Segment>,
        effects: &mut Effects,
    ) -> u64 {
        let before = self.journal.last_record();
        let out = self.home.queues_mut().drop_taken(now, queue, segments);
        self.apply(out, effects);
        self.journal.appended_since(before)
    }

    pub(crate) fn apply(&mut self, out: Vec<Effect>, effects: &mut Effects) {
        self.apply_for(None, out, effects);
    }

    /// The same of what a session has settled: its receipts wait for what it has rejected for the last time.
    fn apply_for(&mut self, cause: Option<SessionId>, out: Vec<Effect>, effects: &mut Effects) {
        for effect in out {
            match effect {
                Effect::Deliver { session, key, segment }
                    if self.loopback.is_direct(Place::of(session)) =>
                {
                    self.loopback.hand_on(LocalMessage::Deliver { session, key, segment });
                }
                Effect::Deliver { session, key, segment } => {
                    self.send(
                        Place::of(session),
                        ToSubscriber::Deliver { session, key, segment },
                        effects,
                    );
                }
                Effect::Browsed { session, key, path }
                    if self.loopback.is_direct(Place::of(session)) =>
                {
                    self.loopback.hand_on(LocalMessage::Browsed { session, key, path });
                }
                Effect::Browsed { session, key, path } => {
                    let message = ToSubscriber::Browsed { session, key, path };
                    self.send(Place::of(session), message, effects);
                }
                Effect::DeadLetter { queue, stream, from, to, segment, reason, wall_ms } => {
                    let death = (&segment, reason, wall_ms);
                    // What expires meanwhile was not the session's doing.
                    let cause = cause.filter(|_| reason == DeathReason::Redeliveries);
                    self.dead_letter((queue, stream), &from, to, death, cause, effects);
                }
                Effect::Settled { stream, segment, is_outside } => {
                    self.journal.settle_messages(stream, &segment);
                    if is_outside {
                        self.hold_gone(&segment, self.journal.last_record());
                    }
                }
                Effect::Purged { streams, ranges } => {
                    for stream in streams {
                        for range in &ranges {
                            self.journal.settle_range(stream, *range);
                        }
                    }
                }
                Effect::Load { queue, streams, first, last, bytes_max } => {
                    let mut streams = streams.into_iter();
                    if let Some(stream) = streams.next() {
                        let streams = (stream, streams.next());
                        let wanted = WantedPart { queue, streams, first, last, bytes_max };
                        self.home.queue_loads_mut().want(wanted);
                    }
                }
                Effect::Looked { number, through } => {
                    self.home.queue_jobs_mut().looked(number, through);
                }
                Effect::Ended { stream } => self.journal.end_queue(stream),
                Effect::Full { path, on: true } => {
                    self.home.queues_mut().note_full(path);
                }
                Effect::Full { path, on: false } => {
                    let told = self.home.queues_mut().end_pause(&path);
                    for place in told.iter() {
                        let destination = Destination { kind: Kind::Queue, path: path.clone() };
                        self.tell_pause(place, destination, None, effects);
                    }
                }
            }
        }
    }

    /// A queue is gone, with all that is in it.
    pub(crate) fn discard_queue(&mut self, path: &Path, effects: &mut Effects) {
        let out = self.home.queues_mut().discard(path);
        self.apply(out, effects);
    }

    /// Moves messages to a dead-letter queue, with the reason in their properties.
    fn dead_letter(
        &mut self,
        (queue, stream): (Key, Option<u64>),
        from: &Path,
        to: Option<Path>,
        (segment, reason, wall_ms): (&Segment, DeathReason, u64),
        cause: Option<SessionId>,
        effects: &mut Effects,
    ) {
        let Some(to) = to else {
            self.metrics.dropped_dead += u64::from(segment.len());
            let Some(stream) = stream else { return };
            let (first, last) = versions_of(segment);
            for version in first..=last {
                self.end_move(MovedFrom { queue, stream, version }, true);
            }
            return;
        };
        self.metrics.dead_lettered += u64::from(segment.len());
        for (index, version) in (segment.from..segment.to).zip(segment.first_version()..) {
            let Some(message) = segment.run.message(index as usize) else {
                continue;
            };
            let mut source = stream.map(|stream| MovedFrom { queue, stream, version });
            if !message.flags.contains(Flags::PERSISTENT)
                && let Some(source) = source.take()
            {
                // It lies in the store only because there was no room for it in memory.
                self.end_move(source, true);
            }
            let mut block = without_death(message.properties);
            append_origin(&mut block, &to, from);
            properties::append(&mut block, "dead-letter-reason", reason.text());
            properties::append(&mut block, "dead-letter-time", &wall_ms.to_string());
            let redeliveries = segment.redeliveries.to_string();
            properties::append(&mut block, "dead-letter-redeliveries", &redeliveries);
            let destination = Destination { kind: Kind::Queue, path: to.clone() };
            let escaped = if block.contains(&b'\\') { Flags::ESCAPED } else { Flags::NONE };
            let flags = message.flags.without(Flags::DELAYED) | escaped;
            let meta = Meta { flags, expires_ms: None };
            let mut run = RunBuilder::new(destination, segment.run.published());
            run.properties().append(&mut block);
            run.finish_as(&segment.run, &message, meta);
            let run = run.build();
            let home = self.options.home_of(&run.destination().path);
            let owner = self.home.queues().owner_of(queue).cloned();
            if let (Some(session), Some(_)) = (cause, &source) {
                self.home.queues_mut().dead_letters_mut().begin(session, (queue, version), home);
            }
            let run = Box::new(run);
            self.send(home, ToHome::DeadLetter { run, owner, source }, effects);
        }
    }
}

/// Says where a message has died, as what lies at a path calls that, if it has a name for it.
pub(crate) fn append_origin(block: &mut Vec<u8>, at: &Path, origin: &Path) {
    if let Some(origin) = called_at(at, origin) {
        properties::append(block, ORIGIN, origin.as_str());
    }
}

/// The property that says where a message has died.
pub(crate) const ORIGIN: &str = "dead-letter-queue";

/// Properties without those that say where a message has died, and why: of an earlier death, or of nobody's.
pub(crate) fn without_death(block: &[u8]) -> Vec<u8> {
    let lines = block.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"dead-letter-")).collect::<Vec<_>>().concat()
}

impl SessionSide<'_> {
    /// A session settles messages: on to their home.
    pub(crate) fn settle(&mut self, session: SessionId, settle: Settle, effects: &mut Effects) {
        let (home, message) = to_settle(session, settle);
        self.send(home, message, effects);
    }

    /// Tells the homes of queues that a consumer ends. The last of them confirms it; with several,
    /// which only wildcards and composite destinations have, the others may be a moment behind.
    pub(crate) fn leave(
        &mut self,
        session: SessionId,
        (key, subscription): (SubscriptionKey, &Subscription),
        (homes, ending): (PlaceSet, Ending),
        confirm: Option<Token>,
        effects: &mut Effects,
    ) {
        if homes.is_empty() {
            return self.confirm(session, confirm, effects);
        }
        let last = homes.iter().last();
        for home in homes.iter() {
            let confirm = confirm.filter(|_| Some(home) == last).map(Confirm::one);
            let handed = subscription.handed_by(home.shard);
            let message = ToHome::Leave { session, key, handed, ending, confirm };
            self.send(home, message, effects);
        }
    }
}
