//! Durable subscriptions: how they begin and end, and how topics' messages get into their queues.
//!
//! ```text
//!   topic's home ──Feed──▶ each place with such subscriptions ──▶ their queues, and the store
//!                ◀──Fed───
//! ```
//! One message for each place, whatever the number of subscriptions there: the run that subscribers get. Relies on queues
//! for all that becomes of a message then. Invariants: a topic's messages come in their order, since they have one way;
//! a publisher whose messages are to survive is answered when all places have stored them; nobody waits for a queue that is
//! full, which drops.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, MemoryUse, Now, SessionId};
use tiderace_journal::{AnswerKind, Awaited};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Destination, DurableSubscription, Flags, Kind, OperationResult, Run, is_durable,
};

use crate::Action;
use crate::durables::{Durable, Fed, FeedSlice, ToldOfFeed};
use crate::effects::Effects;
use crate::feed_parts::FeedParts;
use crate::home::Home;
use crate::home::feed_backlog::FeedBacklog;
use crate::home_side::HomeSide;
use crate::journal::{Answer, Released, describe_queue};
use crate::messages::{ToHome, ToPublisher};
use crate::places::{Place, PlaceSet};
use crate::price::{FED, durable_bytes};
use crate::queue_operations::queue_unknown;
use crate::queued::Put;
use crate::requester::{Done, Operated, Requester};

/// What publishers are held by when subscriptions are behind: no topic, for nobody publishes there.
const FEEDING: &str = "$sys/feeding";

impl HomeSide<'_> {
    /// Makes a durable subscription, or changes the one of that name: what it has gathered stays.
    pub(crate) fn create_subscription(
        &mut self,
        requester: &Requester,
        now: Now,
        about: DurableSubscription,
        effects: &mut Effects,
    ) -> Result<Done, Close> {
        self.may_on_queue(requester, Action::Create, &about.queue)?;
        self.journal.check_outage()?;
        self.options.may_gather(requester.caller(), &about.topics)?;
        let known = self.home.feeds().get(&about.queue);
        if known.is_some_and(|known| known.owner.is_none()) {
            return Err(in_use(
                &about.queue,
                "stands in the configuration, which alone changes it",
            ));
        }
        if known.is_some_and(|known| *known.about == about) {
            // Who made it may wait yet for other homes and for the store: this answer waits as well.
            let fed = self.tell_of_topics(&[], true, effects);
            let record = self.journal.last_record();
            return Ok(Done { result: OperationResult::Done, record, fed: Some(Box::new(fed)) });
        }
        let name = requester.principal.whole_name();
        let known_owner = known.and_then(|known| known.owner.clone());
        if known.is_none() {
            self.home.feeds().check_room(&name, &self.options.durables)?;
        }
        let bytes = durable_bytes(&about);
        let account = &requester.principal.name;
        self.home.check_new_queue(&about.queue, Some(account), self.options)?;
        if !self.home.queues().may_have(&about.queue)
            || !self.memory.has_room(MemoryUse::Names, bytes)
        {
            return Err(CloseCode::MemoryFull.into());
        }
        let about = Arc::new(about);
        let whose = (&about.queue, Some(account));
        let queue = self.home.queues_mut().set_staying(now, whose, true, self.options);
        self.memory.charge(MemoryUse::Names, bytes);
        // One that is changed has a right to what was on its way to it.
        let since = self.home.feeds().get(&about.queue).map(|known| known.since);
        let since = since.unwrap_or_else(|| self.home.feeds().backlog().next_number());
        // It counts for who has made it, as its queue does.
        let owner = known_owner.unwrap_or(name);
        let durable = Durable { about: about.clone(), owner: Some(owner), since };
        let before = self.home.feeds_mut().put(durable);
        self.journal.note_queue_numbers(self.home.next_number());
        self.keep_subscription(queue, &about);
        let fed = self.tell_of_topics(&about.topics, true, effects);
        if let Some(before) = before {
            self.memory.refund(MemoryUse::Names, durable_bytes(&before.about));
            self.tell_of_topics(&before.about.topics, false, effects);
        }
        Ok(Done { result: OperationResult::Done, record: 0, fed: Some(Box::new(fed)) })
    }

    /// Ends a durable subscription, with all that it has gathered.
    pub(crate) fn delete_subscription(
        &mut self,
        requester: &Requester,
        queue: &Path,
        effects: &mut Effects,
    ) -> Operated {
        self.may_on_queue(requester, Action::Create, queue)?;
        let known = self.home.feeds().get(queue).ok_or_else(|| queue_unknown(queue))?;
        if known.owner.is_none() {
            return Err(in_use(queue, "stands in the configuration; take it out there"));
        }
        let key = self.home.queues().find(queue);
        let state = key.and_then(|key| self.home.queues().state(key));
        if state.is_some_and(|state| state.consumers > 0) {
            return Err(in_use(queue, "has consumers; end these first"));
        }
        if let Some(ended) = self.home.feeds_mut().take(queue) {
            self.memory.refund(MemoryUse::Names, durable_bytes(&ended.about));
            self.tell_of_topics(&ended.about.topics, false, effects);
        }
        self.discard_queue(queue, effects);
        Ok(OperationResult::Done)
    }

    /// Says to the store what a subscription is, if there is one.
    fn keep_subscription(&mut self, queue: Key, about: &DurableSubscription) {
        let description = describe_queue(self.home.feeds().get(&about.queue), None);
        match self.home.queues().kept(queue).map(|(_, stream, version)| (stream, version)) {
            Some((stream, version)) => {
                self.journal.describe_queue((queue, stream, version), &about.queue, description);
            }
            None => {
                let stream = self.journal.begin_queue(queue, &about.queue, 0, description);
                if let Some(stream) = stream {
                    self.home.queues_mut().set_stream(queue, stream);
                }
            }
        }
    }

    /// Tells every home that topics feed a subscription here, or do no more: who answers that.
    fn tell_of_topics(&mut self, topics: &[Pattern], on: bool, effects: &mut Effects) -> Fed {
        let here = self.here();
        self.home.note_feed(here, topics, on, self.memory);
        let number = if on { self.journal.fed_mut().number() } else { 0 };
        let others = PlaceSet::all(self.options.shards).minus(self.loopback.lost()).without(here);
        for place in others.iter() {
            self.send(place, ToHome::FeedInterest { topics: topics.into(), on, number }, effects);
        }
        Fed { number, places: others, refused: None, bytes: 0 }
    }

    /// Another home has a subscription to topics, or one less.
    pub(crate) fn feed_interest(
        &mut self,
        from: Place,
        topics: &[Pattern],
        (on, number): (bool, u64),
        effects: &mut Effects,
    ) {
        self.home.note_feed(from, topics, on, self.memory);
        if on {
            self.send(from, ToHome::Fed { number, result: Ok(()) }, effects);
        }
    }

    /// A topic's run goes to the durable subscriptions that want it: who is to say that it is kept, if it is to survive.
    #[cold]
    pub(crate) fn feed(
        &mut self,
        now: Now,
        run: &Arc<Run>,
        publisher: Option<SessionId>,
        effects: &mut Effects,
    ) -> Option<Box<Fed>> {
        let here = self.here();
        let places = self.home.feeds().places_of(&run.destination().path);
        let mut is_fed = !places.is_empty();
        if self.home.feeds().has_mirrors() {
            is_fed |= self.feed_mirror(now, run, publisher, effects);
        }
        let survives = run.any(Flags::PERSISTENT);
        let number = if survives { self.journal.fed_mut().number() } else { 0 };
        let mut awaited = places.without(here);
        for place in awaited.iter() {
            self.send(place, ToHome::Feed { run: run.clone(), number }, effects);
        }
        let mut refused = None;
        if places.contains(here) {
            let told = survives.then_some((here, number));
            match self.feed_here(now, run, told, effects) {
                Some(kept) => refused = kept.err(),
                None => drop(awaited.insert(here)),
            }
        }
        // What is put here is awaited by its record.
        let fed = || Box::new(Fed { number, places: awaited, refused, bytes: run.bytes() });
        (survives && is_fed).then(fed)
    }

    /// Takes a topic's run for the subscriptions whose queues are here. If that takes several turns nothing is given
    /// back, and it is said later that all of it is kept.
    ///
    /// # Errors
    /// When it is to survive and the store takes nothing: it is there, but in memory alone.
    fn feed_here(
        &mut self,
        now: Now,
        run: &Arc<Run>,
        told: ToldOfFeed,
        effects: &mut Effects,
    ) -> Option<Result<(), Close>> {
        if self.home.feeds().backlog().is_empty() {
            let found = self.home.feeds().fed_by(&run.destination().path);
            if FeedBacklog::is_slice(run, found.len(), self.home.feeds().select()) {
                let number = self.home.feeds_mut().backlog_mut().number();
                let parts = &mut FeedParts::for_queues(found.len());
                return Some(self.feed_some(now, (run, number), (found, parts), effects));
            }
        }
        self.home.feeds_mut().backlog_mut().push(run, told, self.memory);
        None
    }

    /// Goes on with the runs of others until no more wait than may. To be called before a publication is looked at, for what
    /// is put then is not a part of that.
    #[inline]
    pub(crate) fn relieve_feeds(&mut self, now: Now, effects: &mut Effects) {
        while self.home.feeds().backlog().is_over() {
            self.feed_more(now, effects);
        }
    }

    /// Some subscriptions get a run.
    fn feed_some(
        &mut self,
        now: Now,
        (run, number): (&Run, u64),
        (keys, parts): (Vec<Key>, &mut FeedParts),
        effects: &mut Effects,
    ) -> Result<(), Close> {
        let kept = match run.any(Flags::PERSISTENT) {
            true => self.journal.check_message(true),
            false => Ok(()),
        };
        for key in keys {
            // One that has begun later is not meant, nor one that has ended.
            let known = self.home.feeds().at(key).filter(|known| known.since <= number);
            let Some(about) = known.map(|known| known.about.clone()) else { continue };
            for part in parts.of(run, &about, self.memory) {
                self.work.charge_at(now, FED);
                self.metrics.messages_fed += part.len() as u64;
                let from = self.here();
                let put = self.enqueue(now, (from, None), part, effects);
                let put = put.map(|put| Put { stays: true, ..put });
                self.answer_queued(now, None, None, put, effects);
            }
            self.work.charge_at(now, parts.take_price());
        }
        kept
    }

    /// Goes on with runs that very many subscriptions get.
    pub(crate) fn feed_more(&mut self, now: Now, effects: &mut Effects) {
        let Some(slice) = self.home.feeds_mut().next_slice(self.memory) else { return };
        let FeedSlice { number, run, keys, mut parts, is_last } = slice;
        let before = self.journal.last_record();
        let kept = self.feed_some(now, (&run, number), (keys, &mut parts), effects);
        self.home.feeds_mut().backlog_mut().give_back(number, parts);
        if !self.home.feeds().backlog().is_awaited(number) {
            return;
        }
        let records = Awaited { after: before, until: self.journal.appended_since(before) };
        self.home.feeds_mut().backlog_mut().begin_part(number);
        match kept {
            Err(close) => self.end_feed_part(now, number, Err(close), effects),
            Ok(()) => {
                let answer = Answer::FedPart(number);
                if let Some(answer) = self.journal.hold(records, AnswerKind::Messages, answer) {
                    self.give_answer(now, answer, Ok(()), effects);
                }
            }
        }
        if is_last {
            self.end_feed_part(now, number, Ok(()), effects);
        }
    }

    /// The store has a part of what was put for a run, or not; or there is no more to put.
    pub(crate) fn end_feed_part(
        &mut self,
        now: Now,
        number: u64,
        result: Result<(), Close>,
        effects: &mut Effects,
    ) {
        let ended = self.home.feeds_mut().backlog_mut().end_part(number, result.err());
        if let Some(((place, number), result)) = ended {
            self.give_answer(now, Answer::Fed(place, number), result, effects);
        }
    }

    /// A topic's home sends a run for the subscriptions whose queues are here.
    pub(crate) fn take_feed(
        &mut self,
        now: Now,
        from: Place,
        (run, number): (&Arc<Run>, u64),
        effects: &mut Effects,
    ) {
        self.relieve_feeds(now, effects);
        let before = self.journal.last_record();
        let told = (number != 0).then_some((from, number));
        let kept = self.feed_here(now, run, told, effects);
        let (Some(kept), Some(_)) = (kept, told) else { return };
        let answer = Answer::Fed(from, number);
        let records = Awaited { after: before, until: self.journal.appended_since(before) };
        match kept {
            Err(close) => self.give_answer(now, answer, Err(close), effects),
            Ok(()) => {
                if let Some(answer) = self.journal.hold(records, AnswerKind::Messages, answer) {
                    self.give_answer(now, answer, Ok(()), effects);
                }
            }
        }
    }

    /// An answer waits for other places, and for records here.
    pub(crate) fn answer_fed(
        &mut self,
        now: Now,
        fed: Fed,
        (records, answer): (Awaited, Answer),
        effects: &mut Effects,
    ) {
        let publisher = match &answer {
            Answer::Confirm(session, _) | Answer::Unasked(session) => Some(*session),
            Answer::Operated(requester, _) => Some(requester.session),
            _ => None,
        };
        let number = fed.number;
        let waits = self.journal.waits_for(records.until);
        if let Some((answer, result)) = self.journal.fed_mut().wait(fed, waits, answer) {
            return self.give_answer(now, answer, result, effects);
        }
        // At once: what the store says of it is said once, and perhaps before the places answer.
        if waits {
            self.journal.hold(records, AnswerKind::Write, Answer::FedRecord(number));
        }
        let Some(session) = publisher else { return };
        if self.journal.fed_mut().throttle(Place::of(session))
            && let Some(destination) = feeding_destination()
        {
            self.send(Place::of(session), ToPublisher::Wait { session, destination }, effects);
        }
    }

    /// A place has what it was sent for its subscriptions, or not.
    pub(crate) fn fed(
        &mut self,
        now: Now,
        from: Place,
        (number, result): (u64, Result<(), Close>),
        effects: &mut Effects,
    ) {
        let released = self.journal.fed_mut().answered(number, from, result);
        self.release_fed(now, released, effects);
    }

    /// The store has what this home has put or said itself for an answer that waits for places, too, or not.
    pub(crate) fn fed_record_stored(
        &mut self,
        now: Now,
        (number, result): (u64, Result<(), Close>),
        effects: &mut Effects,
    ) {
        let released = self.journal.fed_mut().stored(number, result);
        self.release_fed(now, released, effects);
    }

    fn release_fed(&mut self, now: Now, released: Option<Released<Answer>>, effects: &mut Effects) {
        let Some((answer, result)) = released else { return };
        self.give_answer(now, answer, result, effects);
        for place in self.journal.fed_mut().take_relieved().iter() {
            if let Some(destination) = feeding_destination() {
                self.tell_pause(place, destination, None, effects);
            }
        }
    }

    /// A place is lost: who waits for it is refused, for it may have what it was sent, or not.
    pub(crate) fn lose_feeds(
        &mut self,
        now: Now,
        place: Place,
        close: &Close,
        effects: &mut Effects,
    ) {
        self.home.lose_feeds(place, self.memory);
        self.journal.fed_mut().lose(place);
        for number in self.journal.fed_mut().waiting_for(place) {
            self.fed(now, place, (number, Err(close.clone())), effects);
        }
    }
}

/// What publishers wait for while places take long to say that they have what they were sent.
pub(crate) fn feeding_destination() -> Option<Destination> {
    Some(Destination { kind: Kind::Topic, path: Path::parse(FEEDING).ok()? })
}

/// Whether the queue of a durable subscription is there: it is not made by its name alone, for nothing would feed it.
///
/// # Errors
/// When it is not.
#[inline]
pub(crate) fn check_durable(home: &Home, path: &Path) -> Result<(), Close> {
    match !is_durable(path) || home.queues().has(path) {
        true => Ok(()),
        false => Err(queue_unknown(path)),
    }
}

/// Why a subscription cannot be changed or deleted.
fn in_use(queue: &Path, why: &str) -> Close {
    let reason = format!("the durable subscription {queue} {why}");
    Close::new(CloseCode::SubscriptionInUse, reason)
}
