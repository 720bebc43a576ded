//! The way of a message from its publisher to its home, and from there to the places that want it.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, MemoryUse, Now, SessionId};
use tiderace_journal::Awaited;
use tiderace_wire::{Confirm, Destination, Flags, Kind, Run, Token, TopicSpec, is_temporary};

use crate::Action;
use crate::authorise::Caller;
use crate::authorise::is_reserved;
use crate::condition::{check_some, check_values};
use crate::durables::Fed;
use crate::effects::Effects;
use crate::home::home_topics::TopicAtHome;
use crate::home_side::HomeSide;
use crate::journal::Answer;
use crate::large_bodies::{into_memory, wants_memory};
use crate::messages::{LocalMessage, ToSubscriber};
use crate::places::{Place, PlaceSet, key_of};
use crate::price;
use crate::publisher::{Known, Published, Publisher, Recipients, Room, Sent, Values};
use crate::runs::decisive;
use crate::runs::holds_messages;
use crate::runs::keeps;
use crate::session_side::SessionSide;
use crate::spans::traced_of;
use crate::temporary::{TemporaryOwner, check_temporary, only_passes_on};
use crate::work::{Checked, Deferred, Publication};

impl SessionSide<'_> {
    /// On the publisher's shard: where messages go, if they may; otherwise they are refused. The run stays where it
    /// is, for it is large.
    #[inline]
    pub(crate) fn admit_publication(
        &mut self,
        now: Now,
        session: SessionId,
        run: &Run,
        (confirm, blame): (Option<Confirm>, Option<Token>),
        effects: &mut Effects,
    ) -> Admitted {
        if let Err(close) = self.may_publish(session, run.destination()) {
            if close.code != CloseCode::TopicElsewhere
                && self.options.relayed_to(run.destination()).is_none()
                && let Some(name) = self.name_of_owner(session, run.destination())
            {
                return Admitted::IfOwner(name);
            }
            self.metrics.denied += 1;
            self.refuse_run(session, confirm, blame, &close, effects);
            return Admitted::Refused(close.code);
        }
        if let Err(close) = self.sessions.check_relayed_room(session, run.destination()) {
            self.metrics.queue_refused += run.len() as u64;
            self.refuse_run(session, confirm, blame, &close, effects);
            return Admitted::Refused(close.code);
        }
        self.metrics.messages_received += run.len() as u64;
        if self.sessions.pauses_some() {
            self.pause_publisher(now, session, run.destination(), effects);
        }
        if let Some(home) = self.options.relayed_to(run.destination()) {
            return Admitted::Relayed(home);
        }
        let home = self.options.home_of(&run.destination().path);
        let author = self.name_of(session);
        match self.loopback.is_direct(home) {
            true => Admitted::Directly(author),
            false => Admitted::ByMessage(home, author),
        }
    }

    /// Pauses a session that publishes where publishers are to wait.
    #[cold]
    fn pause_publisher(
        &mut self,
        now: Now,
        session: SessionId,
        destination: &Destination,
        effects: &mut Effects,
    ) {
        let mut is_paused = self.sessions.wait_if_paused(now, session, destination, effects);
        let mirror = match destination.kind {
            Kind::Topic => Some(Kind::Queue),
            Kind::Queue => Some(Kind::Topic),
            Kind::Service => None,
        };
        if let Some(kind) = mirror
            && self.options.mirrors(&destination.path)
        {
            let mirror = Destination { kind, ..destination.clone() };
            is_paused |= self.sessions.wait_if_paused(now, session, &mirror, effects);
        }
        self.metrics.publishers_paused += u64::from(is_paused);
    }

    pub(crate) fn name_of(&self, session: SessionId) -> Option<Arc<str>> {
        Some(self.session(session)?.principal.as_ref()?.name.clone())
    }

    /// Whether a session may publish, send or call there.
    pub(crate) fn may_publish(
        &mut self,
        session: SessionId,
        destination: &Destination,
    ) -> Result<(), Close> {
        let options = &self.options;
        let Some(record) = self.sessions.get_mut(key_of(session)) else {
            return options.is_published_here(destination);
        };
        if let Some((kind, path, version)) =
            record.rare.as_ref().and_then(|rare| rare.may_publish.as_ref())
            && *kind == destination.kind
            && *version == options.rules_version
            && (path.is_same(&destination.path) || *path == destination.path)
        {
            return Ok(());
        }
        options.is_published_here(destination)?;
        let Some(principal) = &record.principal else {
            return Ok(());
        };
        let action = match destination.kind {
            Kind::Queue => Action::Send,
            Kind::Service => Action::Call,
            Kind::Topic => Action::Publish,
        };
        let caller = Caller { session, principal };
        if !options.may(caller, action, destination.kind, &destination.path) {
            let (kind, path) = (destination.kind, &destination.path);
            return Err(match is_temporary(path) {
                true => only_passes_on(path),
                false => options.rules.refusal(principal, action, kind, path),
            });
        }
        let rare = record.rare.get_or_insert_default();
        let path = destination.path.clone();
        rare.may_publish = Some((destination.kind, path, options.rules_version));
        Ok(())
    }
}

impl HomeSide<'_> {
    /// On the home shard: numbers the messages and passes them on.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn publish_at_home(
        &mut self,
        now: Now,
        from: Place,
        run: Run,
        origin: Option<SessionId>,
        author: Option<Arc<str>>,
        confirm: Option<Confirm>,
        recipients: Recipients,
        effects: &mut Effects,
    ) {
        if !self.work.is_calm()
            && let Some(origin) = origin
            && self.is_publication_deferred(now, origin, &run, recipients.many)
        {
            let what = Publication { from, run, origin, author, confirm, checked: None };
            return self.defer(origin, Deferred::Publication(Box::new(what)), effects);
        }
        let known = Known { owner: recipients.owner, checked: 0, room: Room::Unknown };
        let sent = Sent { from, run, origin, author, confirm };
        let rest = self.number_and_pass(now, sent, known, effects);
        if let Some(rest) = rest {
            self.defer(rest.origin, Deferred::Publication(rest), effects);
        }
    }

    /// The same of what is part of a transaction, for all of which there is room, and which does not wait and is not
    /// divided.
    pub(crate) fn publish_whole(
        &mut self,
        now: Now,
        from: Place,
        (run, origin, author, confirm): (Run, Option<SessionId>, Option<Arc<str>>, Option<Confirm>),
        recipients: Recipients,
        effects: &mut Effects,
    ) {
        let owner = recipients.owner;
        let mut known = Known { owner, checked: 0, room: Room::Known };
        let sent = Sent { from, run, origin, author, confirm };
        let mut rest = self.number_and_pass(now, sent, known, effects);
        while let Some(left) = rest {
            let Publication { from, run, origin, author, confirm, checked } = *left;
            known.checked = checked.map_or(0, |checked| checked.values);
            let sent = Sent { from, run, origin: Some(origin), author, confirm };
            rest = self.number_and_pass(now, sent, known, effects);
        }
    }

    /// Whether a publication has to wait: behind what is deferred of its session, or because the turn's
    /// budget is spent and its values have to be checked against a schema, it has very many subscribers, or its
    /// queue has to be made.
    #[cold]
    pub(crate) fn is_publication_deferred(
        &mut self,
        now: Now,
        origin: SessionId,
        run: &Run,
        many: bool,
    ) -> bool {
        if self.work.has(origin) {
            return true;
        }
        let destination = run.destination();
        if destination.kind == Kind::Queue {
            // Consumers by patterns come to each new queue.
            return self.work.left(now) == 0 && !self.home.queues().has(&destination.path);
        }
        let topic = self.directory.find(&destination.path).and_then(|key| self.directory.get(key));
        let spec = topic.map_or_else(|| self.options.topic(&destination.path), |it| &it.spec);
        // Subscriptions that want notices are told of each new topic.
        let told = topic.is_none() && !self.home.notice_interest().is_empty();
        let dear = spec.schema.is_some() || many || told;
        self.work.left(now) == 0 && destination.kind == Kind::Topic && dear
    }

    /// The same, now. Given back if the turn ends before all values were held to the schema of their topic.
    pub(crate) fn number_and_pass(
        &mut self,
        now: Now,
        sent: Sent,
        known: Known,
        effects: &mut Effects,
    ) -> Option<Box<Publication>> {
        let (origin, confirm) = (sent.origin, sent.confirm);
        // What the server sends on by itself was published by somebody before.
        let traced = traced_of(&sent.run).filter(|_| origin.is_some());
        let passed = self.pass(now, sent, known, effects);
        if !matches!(passed, Ok(Some(_))) {
            effects.note_published(traced, passed.as_ref().err().map(|close| close.code));
        }
        passed.unwrap_or_else(|close| {
            let blame = confirm.map(|confirm| confirm.from);
            self.refuse_run(origin, confirm, blame, &close, effects);
            None
        })
    }

    #[inline(always)]
    fn pass(
        &mut self,
        now: Now,
        Sent { from, mut run, origin, author, confirm }: Sent,
        Known { owner, checked, room }: Known,
        effects: &mut Effects,
    ) -> Result<Option<Box<Publication>>, Close> {
        if self.home.feeds().has_mirrors() && origin.is_some() {
            self.send_to_mirror(now, (&mut run, room), author.as_ref())?;
        }
        self.relieve_feeds(now, effects);
        let before = self.journal.last_record();
        let temporary = owner != TemporaryOwner::NotTemporary;
        if temporary {
            check_temporary(&run)?;
        }
        let passed = match run.destination().kind {
            _ if temporary && !self.goes_to_session(&run, owner) => {
                self.metrics.dropped_temporary += run.len() as u64;
                Passed::On { record: 0, fed: None }
            }
            Kind::Queue => {
                let admitted = self.admit_to_queue(now, (origin, author.as_ref()), (&run, room));
                admitted.inspect_err(|close| self.note_refused(&run, close))?;
                let put = self.enqueue(now, (from, author.as_ref()), run, effects);
                self.answer_queued(now, origin, confirm, put, effects);
                return Ok(None);
            }
            Kind::Service => {
                let reason = "a service is called, not published to";
                return Err(Close::new(CloseCode::BadDestination, reason));
            }
            Kind::Topic => {
                let name = author.as_ref();
                let publisher = Publisher { session: origin, name, amends: None, room };
                self.pass_to_topic(now, run, &publisher, checked, effects)?
            }
        };
        let Some(session) = origin else { return Ok(None) };
        let (record, fed) = match passed {
            Passed::On { record, fed } => (record, fed),
            Passed::Later(left) => {
                let (run, checked) = *left;
                let checked = Some(checked);
                let left = Publication { from, run, origin: session, author, confirm, checked };
                return Ok(Some(Box::new(left)));
            }
        };
        let appended = self.journal.appended_since(before);
        if appended != 0 {
            self.hold_for_store(session, effects);
        }
        let records = Awaited { after: before, until: appended.max(record) };
        match (fed, confirm) {
            (None, Some(confirm)) => self.confirm_stored(now, records, session, confirm, effects),
            (None, None) => {}
            (Some(fed), confirm) => {
                let answer = match confirm {
                    Some(confirm) => Answer::Confirm(session, confirm),
                    None => Answer::Unasked(session),
                };
                self.answer_fed(now, *fed, (records, answer), effects);
            }
        }
        Ok(None)
    }

    /// Passes a run on to its topic, which may be new. Given back if the turn ends before all of
    /// its values have been held to the topic's schema.
    #[inline]
    fn pass_to_topic(
        &mut self,
        now: Now,
        run: Run,
        publisher: &Publisher<'_>,
        checked: usize,
        effects: &mut Effects,
    ) -> Result<Passed, Close> {
        let path = &run.destination().path;
        let key = match publisher.session {
            Some(_) => self.directory.admit(now, path)?,
            None => self.directory.ensure(now, path),
        };
        if publisher.session.is_none() && run.any(Flags::RETAIN_REMOVE) {
            if self.topic(key).is_some_and(|topic| topic.is_known()) {
                self.remove_topic(now, key, effects);
            }
            return Ok(Passed::On { record: 0, fed: None });
        }
        let run = if run.body_in_file().is_some() { self.place_body(key, run)? } else { run };
        let known = self.directory.get(key);
        let values = match known.filter(|topic| topic.spec.schema.is_some() && run.len() > 1) {
            Some(topic) if publisher.session.is_some() => {
                may_change(self.home.at(topic), publisher.session)?;
                let place = check_some(&topic.spec, &run, checked, now, self.work)?;
                if place < run.len() {
                    let checked = Checked { spec: topic.spec.clone(), values: place };
                    return Ok(Passed::Later(Box::new((run, checked))));
                }
                Values::Checked
            }
            _ => Values::Unchecked,
        };
        let published = self.distribute(now, key, run, publisher, values, effects)?;
        Ok(Passed::On { record: published.record, fed: published.fed })
    }

    /// A message whose body lies in a file, with its body where its topic can have it.
    #[cold]
    fn place_body(&mut self, key: Key, run: Run) -> Result<Run, Close> {
        let Some(topic) = self.directory.get(key) else { return Ok(run) };
        let Some(why) = wants_memory(&topic.spec) else { return Ok(run) };
        let run = into_memory(run, why, self.options.message_bytes_max, self.memory)?;
        self.work.charge(run.bytes() as u64 / price::COPIED_BYTES);
        Ok(run)
    }

    /// Numbers a run of a topic, keeps what is to be kept of it and passes it on.
    pub(crate) fn distribute(
        &mut self,
        now: Now,
        key: Key,
        mut run: Run,
        publisher: &Publisher<'_>,
        values: Values,
        effects: &mut Effects,
    ) -> Result<Published, Close> {
        if self.home.feeds().has_mirrors() && publisher.session.is_some() {
            self.check_mirror(&run, publisher.room)?;
        }
        let Some(plan) = self.check_run(key, &run, publisher, values)? else {
            return Ok(Published::default());
        };
        let Some(topic) = self.directory.get_mut(key) else { return Ok(Published::default()) };
        topic.touch(now.time);
        let topic = &*topic;
        let is_new = self.home.begin_run(now.time, topic, &mut run, self.options);
        if topic.spec.retain || topic.spec.series {
            run.set_values();
        }
        run.share_path(&topic.path);
        let run = Arc::new(run);
        let stays = self.home.replace_value(topic, &run, self.memory, self.metrics);
        let Some(home) = self.home.topic_mut(topic) else { return Ok(Published::default()) };
        let (version, before) = home.note_run(&run);
        let usual = Arc::ptr_eq(&topic.spec, &self.options.topic_default);
        let spec = (!usual).then(|| topic.spec.clone());
        let recorded = home.is_recorded() || home.history().is_some();
        let places = home.places();
        let feeds = home.feeds();
        let viewed = self.has_views || !home.watchers().is_empty();
        if self.home.owes_pages(before) {
            self.give_early(now, key, before, stays, effects);
        }
        if recorded {
            let record = (key, &run, before);
            self.home.append_history(now, record, self.directory, self.options);
        }
        if plan.retains {
            self.append_series(now, key, &run, before, publisher);
        }
        let record = if plan.durable { self.append_run(now, key, &run, publisher) } else { 0 };
        let fed = if feeds { self.feed(now, &run, publisher.session, effects) } else { None };
        if viewed {
            let run = Some(run.clone());
            self.loopback.hand_on(LocalMessage::TopicChanged { topic: key, run });
        }
        if is_new {
            self.announce_topic(key, effects);
        }
        self.send_out(key, places, run, spec, effects);
        Ok(Published { version, record, fed })
    }

    /// Appends a run that its topic keeps to the journal: the record that its confirmation waits for.
    fn append_run(&mut self, now: Now, key: Key, run: &Arc<Run>, publisher: &Publisher<'_>) -> u64 {
        let Some(topic) = self.directory.get(key) else { return 0 };
        let next_number = self.home.next_number();
        let Some(home) = self.home.topic_mut(topic) else { return 0 };
        self.journal.append_run(now, (key, topic, home), next_number, run, publisher)
    }

    /// Every check of a run of a topic; changes nothing but the work budget. Absent: the topic is not there.
    fn check_run(
        &mut self,
        key: Key,
        run: &Run,
        publisher: &Publisher<'_>,
        values: Values,
    ) -> Result<Option<Plan>, Close> {
        let Some(topic) = self.directory.get(key) else { return Ok(None) };
        let (topic, spec) = (self.home.at(topic), &topic.spec);
        let durable = self.journal.keeps(spec);
        let removes = run.any(Flags::RETAIN_REMOVE);
        // What the server removes by itself is gone even if the store is full.
        if durable && !(publisher.session.is_none() && removes) {
            self.journal.check(spec)?;
        }
        may_change(topic, publisher.session)?;
        if values == Values::Unchecked {
            check_values(spec, run, self.work)?;
        }
        let retains = keeps(spec);
        // Taking away needs no room.
        let grows = retains && holds_messages(run);
        if grows && !self.memory.has_room(MemoryUse::Values, run.bytes()) {
            return Err(CloseCode::MemoryFull.into());
        }
        let always = spec.retain || spec.series;
        if always || removes || run.any(Flags::RETAIN) {
            self.check_value_room(topic, run, always)?;
        }
        Ok(Some(Plan { retains, durable }))
    }

    /// Whether there is room for the value that a run makes.
    fn check_value_room(
        &self,
        topic: TopicAtHome<'_>,
        run: &Run,
        always: bool,
    ) -> Result<(), Close> {
        // A value takes no more than its run.
        if self.memory.has_room(MemoryUse::Values, run.bytes()) {
            return Ok(());
        }
        let before = topic.home().map_or(0, |home| home.retained_bytes());
        let bytes = match decisive(run, always) {
            Some(message) if message.flags.contains(Flags::RETAIN_REMOVE) => 0,
            Some(_) if run.len() == 1 => run.bytes(),
            Some(message) => Run::bytes_alone(&message),
            None => before,
        };
        if bytes <= before || self.memory.has_room(MemoryUse::Values, bytes - before) {
            return Ok(());
        }
        // What the server says of itself is needed most when memory is short.
        if is_reserved(topic.path()) && self.memory.has_room(MemoryUse::Names, bytes - before) {
            return Ok(());
        }
        Err(CloseCode::MemoryFull.into())
    }

    /// Sends a run to the places that want it. Inlined, for every message of a topic goes out by it.
    #[inline(always)]
    pub(crate) fn send_out(
        &mut self,
        key: Key,
        places: PlaceSet,
        run: Arc<Run>,
        spec: Option<Arc<TopicSpec>>,
        effects: &mut Effects,
    ) {
        let others = places.without(self.here());
        if !others.is_empty() && run.bytes() >= LARGE_BYTES {
            self.memory.charge(MemoryUse::BetweenShards, run.bytes() * others.len());
        }
        for place in others.iter() {
            self.send(
                place,
                ToSubscriber::Fanout { run: run.clone(), spec: spec.clone() },
                effects,
            );
        }
        if !places.contains(self.here()) {
            return;
        }
        if self.loopback.is_direct(self.here()) {
            self.loopback.fan_out(key, run);
        } else {
            // Behind values that are to come before it.
            self.send(self.here(), ToSubscriber::Fanout { run, spec }, effects);
        }
    }
}

/// Where messages of a session go.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// To the home, which is this shard; no message to it waits. With the publisher's name.
    Directly(Option<Arc<str>>),
    /// To that home, by a message.
    ByMessage(Place, Option<Arc<str>>),
    /// To the home, which takes them if somebody of that name owns the topic.
    IfOwner(Arc<str>),
    /// To an upstream, by who stands in for it.
    Relayed(Place),
    /// They have been refused.
    Refused(CloseCode),
}

/// What is to be done with a run that has passed all checks.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// The topic keeps messages besides its value.
    retains: bool,
    /// The store is told.
    durable: bool,
}

/// What became of a run in one turn.
enum Passed {
    /// It was passed on; the record that says so, or 0, and the places that have to say so.
    On { record: u64, fed: Option<Box<Fed>> },
    /// Not all of its values have been checked.
    Later(Box<(Run, Checked)>),
}

/// Whether a session may publish to a topic, by what holds the topic's publishers back.
pub(crate) fn may_change(topic: TopicAtHome<'_>, origin: Option<SessionId>) -> Result<(), Close> {
    match (topic.guard(), origin) {
        (Some(guard), Some(origin)) => guard.admit(topic.path(), origin),
        _ => Ok(()),
    }
}

/// Runs that are large enough to count while they are on their way to another shard.
const LARGE_BYTES: usize = 64 * 1024;
