//! The way of a message from its publisher to its home, and from there to the shards that want it.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, MemoryUse, Now, SessionId, ShardId};
use tiderace_topics::Path;
use tiderace_wire::{Confirm, Destination, Flags, Kind, Run, Token, TopicSpec, is_temporary};

use crate::Action;
use crate::access::Caller;
use crate::authorise::denied;
use crate::authorise::is_reserved;
use crate::broker::Broker;
use crate::condition::{check_some, check_values};
use crate::effects::{Effects, Mail};
use crate::lock::claimed_by_another;
use crate::pattern_interest::PatternInterest;
use crate::places::{bit, key_of, members};
use crate::price::FREE_DELIVERIES;
use crate::retire::Retirement;
use crate::runs::holds_messages;
use crate::runs::keeps;
use crate::runs::last_of;
use crate::runs::retain;
use crate::temporary::{check_temporary, only_passes_on};
use crate::topic::{Home, Topic};
use crate::work::{Checked, Deferred, Publication};

impl Broker {
    /// On the publisher's shard.
    pub(crate) fn publish(
        &mut self,
        now: Now,
        session: SessionId,
        run: Run,
        confirm: Option<Confirm>,
        blame: Option<Token>,
        effects: &mut Effects,
    ) {
        if let Err(close) = self.may_publish(session, run.destination()) {
            let asked = self.publish_if_owner(session, run, confirm, blame, effects);
            let Err(_) = asked else { return };
            self.metrics.denied += 1;
            return self.refuse_run(Some(session), confirm, blame, &close, effects);
        }
        self.metrics.messages_received += run.len() as u64;
        if self.sessions.pauses_some()
            && self.sessions.wait_if_paused(now, session, run.destination(), effects)
        {
            self.metrics.publishers_paused += 1;
        }
        let home = self.home(&run.destination().path);
        if self.is_direct(home) {
            let author = self.name_of(session);
            self.publish_at_home(now, self.shard, run, Some(session), author, confirm, effects);
        } else {
            let (run, author) = (Box::new(run), self.name_of(session));
            let mail = Mail::Publish { run, origin: Some(session), author, confirm };
            self.send(home, mail, effects);
        }
    }

    fn name_of(&self, session: SessionId) -> Option<Arc<str>> {
        Some(self.session(session)?.principal.as_ref()?.name.clone())
    }

    /// What the server itself sends, such as dead letters.
    pub(crate) fn publish_own(&mut self, run: Run, effects: &mut Effects) {
        let home = self.home(&run.destination().path);
        let run = Box::new(run);
        self.send(home, Mail::Publish { run, origin: None, author: None, confirm: None }, effects);
    }

    /// On the home shard: numbers the messages and passes them on.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn publish_at_home(
        &mut self,
        now: Now,
        from: ShardId,
        run: Run,
        origin: Option<SessionId>,
        author: Option<Arc<str>>,
        confirm: Option<Confirm>,
        effects: &mut Effects,
    ) {
        if !self.work.is_calm()
            && let Some(origin) = origin
            && self.is_publication_deferred(now, origin, &run)
        {
            let what = Publication { from, run, origin, author, confirm, checked: None };
            return self.defer(origin, Deferred::Publication(Box::new(what)), effects);
        }
        let rest = self.number_and_pass(now, from, run, origin, author, confirm, 0, effects);
        if let Some(rest) = rest {
            self.defer(rest.origin, Deferred::Publication(rest), effects);
        }
    }

    /// Whether a publication has to wait: behind what is deferred of its session, or because the turn's
    /// budget is spent and its values have to be checked against a schema, it has very many subscribers, or its
    /// queue has to be made.
    #[cold]
    fn is_publication_deferred(&mut self, now: Now, origin: SessionId, run: &Run) -> bool {
        if self.work.has(origin) {
            return true;
        }
        let destination = run.destination();
        if destination.kind == Kind::Queue {
            // Consumers by patterns come to each new queue.
            return self.work.left(now) == 0 && !self.queues.has(&destination.path);
        }
        let topic = self.find_topic(&destination.path).and_then(|key| self.topics.get(key));
        let spec = topic.map_or_else(|| self.options.topic(&destination.path), |it| &it.spec);
        let many = topic.is_some_and(|it| it.listeners() > FREE_DELIVERIES);
        // Subscriptions that want notices are told of each new topic.
        let told = topic.is_none() && !self.notices.shards.is_empty();
        let dear = spec.schema.is_some() || many || told;
        self.work.left(now) == 0 && destination.kind == Kind::Topic && dear
    }

    /// The same, now. The first values, so many, are known to fit the schema of their topic. Given back
    /// if the turn ends before all are.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn number_and_pass(
        &mut self,
        now: Now,
        from: ShardId,
        mut run: Run,
        origin: Option<SessionId>,
        author: Option<Arc<str>>,
        confirm: Option<Confirm>,
        checked: usize,
        effects: &mut Effects,
    ) -> Option<Box<Publication>> {
        run.number(self.shard, self.next_sequence);
        self.next_sequence += run.len() as u64;
        let before = self.last_record();
        let temporary = is_temporary(&run.destination().path);
        if temporary && let Err(close) = check_temporary(&run) {
            let blame = confirm.map(|confirm| confirm.from);
            self.refuse_run(origin, confirm, blame, &close, effects);
            return None;
        }
        let passed = match run.destination().kind {
            _ if temporary && !self.goes_to_session(&run) => {
                self.metrics.dropped_temporary += run.len() as u64;
                Ok(Passed::On { record: 0 })
            }
            Kind::Queue if origin.is_some() && !self.queues.may_have(&run.destination().path) => {
                Err(CloseCode::MemoryFull.into())
            }
            Kind::Queue => {
                self.enqueue(now, from, Arc::new(run), effects);
                Ok(Passed::On { record: 0 })
            }
            Kind::Service => {
                let reason = "a service is called, not published to";
                Err(Close::new(CloseCode::BadDestination, reason))
            }
            Kind::Topic => {
                let publisher = Publisher { session: origin, name: author.as_ref(), amends: None };
                self.pass_to_topic(now, run, &publisher, checked, effects)
            }
        };
        let session = origin?;
        let record = match passed {
            Ok(Passed::On { record }) => record,
            Ok(Passed::Later(left)) => {
                let (run, checked) = *left;
                let checked = Some(checked);
                let left = Publication { from, run, origin: session, author, confirm, checked };
                return Some(Box::new(left));
            }
            Err(close) => {
                let blame = confirm.map(|confirm| confirm.from);
                self.refuse_run(origin, confirm, blame, &close, effects);
                return None;
            }
        };
        let appended = self.appended_since(before);
        if appended != 0 {
            self.hold_for_store(session, effects);
        }
        if let Some(confirm) = confirm {
            self.confirm_stored(appended.max(record), session, confirm, effects);
        }
        None
    }

    /// Passes a numbered run on to its topic, which may be new. Given back if the turn ends before all of
    /// its values have been held to the topic's schema.
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
            Some(_) => self.admit_topic(now, path)?,
            None => self.ensure_topic(now, path),
        };
        if publisher.session.is_none() && run.any(Flags::RETAIN_REMOVE) {
            if self.topics.get(key).is_some_and(Topic::is_known) {
                self.remove_topic(now, key, effects);
            }
            return Ok(Passed::On { record: 0 });
        }
        let known = self.topics.get(key);
        let values = match known.filter(|topic| topic.spec.schema.is_some() && run.len() > 1) {
            Some(topic) if publisher.session.is_some() => {
                may_change(topic, publisher.session)?;
                let place = check_some(&topic.spec, &run, checked, now, &mut self.work)?;
                if place < run.len() {
                    let checked = Checked { spec: topic.spec.clone(), values: place };
                    return Ok(Passed::Later(Box::new((run, checked))));
                }
                Values::Checked
            }
            _ => Values::Unchecked,
        };
        let published = self.distribute(now, key, run, publisher, values, effects)?;
        Ok(Passed::On { record: published.record })
    }

    /// Every message of a run that was to be confirmed is refused, the one to blame first: where a
    /// refusal does not end the session, its client waits for each answer.
    pub(crate) fn refuse_run(
        &mut self,
        origin: Option<SessionId>,
        confirm: Option<Confirm>,
        blame: Option<Token>,
        close: &Close,
        effects: &mut Effects,
    ) {
        self.refuse_anywhere(origin, blame, close.clone(), effects);
        for token in confirm.into_iter().flat_map(|confirm| confirm.from..=confirm.to) {
            if Some(token) != blame {
                self.refuse_anywhere(origin, Some(token), close.clone(), effects);
            }
        }
    }

    /// Passes a numbered run of a topic on, and keeps what is to be kept.
    pub(crate) fn distribute(
        &mut self,
        now: Now,
        key: Key,
        mut run: Run,
        publisher: &Publisher<'_>,
        values: Values,
        effects: &mut Effects,
    ) -> Result<Published, Close> {
        let generation = self.pattern_interest.generation();
        let Some(topic) = self.topics.get(key) else {
            return Ok(Published::default());
        };
        let durable = self.is_durable(&topic.spec);
        // What the server removes by itself is gone even if the store is full.
        if durable && !(publisher.session.is_none() && run.any(Flags::RETAIN_REMOVE)) {
            self.check_store(&topic.spec)?;
        }
        let Some(topic) = self.topics.get_mut(key) else {
            return Ok(Published::default());
        };
        may_change(topic, publisher.session)?;
        if values == Values::Unchecked {
            check_values(&topic.spec, &run, &mut self.work)?;
        }
        let keeps = keeps(&topic.spec);
        let retires = topic.spec.removal.is_some();
        // Taking away needs no room.
        let grows = keeps && holds_messages(&run);
        if grows && !self.memory.has_room(MemoryUse::Values, run.bytes()) {
            return Err(CloseCode::MemoryFull.into());
        }
        topic.touch(now.time);
        let floor = || Home::starting(self.history.floor_of(&topic.path));
        let home = topic.home.get_or_insert_with(floor);
        if home.patterns_at != generation {
            home.patterns_at = generation;
            home.by_pattern = shards_of(&self.pattern_interest, &topic.path);
            home.recorded_by_pattern = self.history.names(&topic.path);
        }
        let appears = home.removed || home.next_version == 0 && !home.created;
        home.removed = false;
        if retires {
            let made = || Box::new(Retirement::new(now.time));
            home.rare_mut().retirement.get_or_insert_with(made).update(now.time);
        }
        if home.next_version <= self.versions_from {
            // Above all versions of an earlier topic of this name, or of this one in another life of
            // the server: there were never more of them than numbers.
            let before = home.next_version.saturating_sub(1);
            home.next_version = run.first();
            run.set_version(home.next_version);
            run.set_follows(before);
        } else {
            run.set_version(home.next_version);
        }
        if topic.spec.retain || topic.spec.series {
            run.set_values();
        }
        run.share_path(&topic.path);
        let run = Arc::new(run);
        let stays = self.replace_value(key, &run).inspect_err(|_| self.stay_away(key, appears))?;
        let Some((spec, home)) = self.topics.get_mut(key).and_then(Topic::with_home) else {
            return Ok(Published::default());
        };
        home.next_version += run.len() as u64;
        let version = home.next_version - 1;
        let usual = Arc::ptr_eq(spec, &self.options.topic_default);
        let spec = (!usual).then(|| spec.clone());
        let before = std::mem::replace(&mut home.last, last_of(&run));
        let recorded = home.is_recorded() || home.history().is_some();
        let shards = home.interested | home.by_pattern;
        let viewed = !self.views.is_idle() || home.watchers() != 0;
        if self.snapshots.may_lack(before) {
            self.give_early(now, key, before, stays, effects);
        }
        if recorded {
            self.record(now, key, &run, before);
        }
        if keeps {
            self.keep(now, key, &run, before, publisher);
        }
        let record = if durable { self.write_run(now, key, &run, publisher) } else { 0 };
        if viewed {
            self.note_viewed(now, key, &run, effects);
        }
        if appears {
            self.announce_topic(key, effects);
        }
        self.send_out(now, key, shards, run, spec, effects);
        Ok(Published { version, record })
    }

    /// Sends a run to the shards that want it.
    fn send_out(
        &mut self,
        now: Now,
        key: Key,
        shards: u64,
        run: Arc<Run>,
        spec: Option<Arc<TopicSpec>>,
        effects: &mut Effects,
    ) {
        let others = shards & !bit(self.shard);
        if others != 0 && run.bytes() >= LARGE_BYTES {
            self.memory.charge(MemoryUse::Mail, run.bytes() * others.count_ones() as usize);
        }
        for shard in members(others) {
            self.send(shard, Mail::Fanout { run: run.clone(), spec: spec.clone() }, effects);
        }
        if shards & bit(self.shard) == 0 {
            return;
        }
        if self.is_direct(self.shard) {
            self.fan_out_topic(now, key, run, effects);
        } else {
            // Behind values that are to come before it.
            self.send(self.shard, Mail::Fanout { run, spec }, effects);
        }
    }

    /// Makes a run's last retained message the topic's value, or takes the value away; whether the
    /// value is still the same.
    fn replace_value(&mut self, key: Key, run: &Arc<Run>) -> Result<bool, Close> {
        let Some(topic) = self.topics.get_mut(key) else { return Ok(false) };
        let always = topic.spec.retain || topic.spec.series;
        let Some(home) = &mut topic.home else { return Ok(false) };
        if !always && !run.any(Flags::RETAIN) && !run.any(Flags::RETAIN_REMOVE) {
            return Ok(home.retained.is_some());
        }
        let before = home.retained_bytes();
        let after = retain(home.retained.clone(), run, always);
        let bytes = after.as_ref().map_or(0, |value| Home::bytes_with(value));
        if bytes > before && !self.memory.has_room(MemoryUse::Values, bytes - before) {
            // What the server says of itself is needed most when memory is short.
            let own = is_reserved(&topic.path);
            if !own || !self.memory.has_room(MemoryUse::Names, bytes - before) {
                return Err(CloseCode::MemoryFull.into());
            }
        }
        self.memory.change(MemoryUse::Values, before, bytes);
        self.metrics.retained += u64::from(after.is_some());
        self.metrics.retained -= u64::from(home.retained.is_some());
        let stays = same(&home.retained, &after);
        let before = std::mem::replace(&mut home.retained, after);
        self.displaced.note(before, &self.memory);
        Ok(stays)
    }

    /// Whether a session may publish, send or call there.
    pub(crate) fn may_publish(
        &mut self,
        session: SessionId,
        destination: &Destination,
    ) -> Result<(), Close> {
        let options = &self.options;
        let Some(record) = self.sessions.get_mut(key_of(session)) else {
            return Ok(());
        };
        if let Some((kind, path)) = record.rare.as_ref().and_then(|rare| rare.may_publish.as_ref())
            && *kind == destination.kind
            && (path.is_same(&destination.path) || *path == destination.path)
        {
            return Ok(());
        }
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
                false => denied(&principal.name, action, kind, path.as_str()),
            });
        }
        let rare = record.rare.get_or_insert_default();
        rare.may_publish = Some((destination.kind, destination.path.clone()));
        Ok(())
    }
}

/// What has come of a publication.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Published {
    /// The version of the last message.
    pub(crate) version: u64,
    /// The record that its confirmation waits for; zero for none.
    pub(crate) record: u64,
}

/// Who publishes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Publisher<'a> {
    /// The session, if it was one.
    pub(crate) session: Option<SessionId>,
    /// Its name.
    pub(crate) name: Option<&'a Arc<str>>,
    /// The event of a time series that the run replaces.
    pub(crate) amends: Option<u64>,
}

/// What became of a run in one turn.
enum Passed {
    /// It was passed on; the record that says so, or 0.
    On { record: u64 },
    /// Not all of its values have been checked.
    Later(Box<(Run, Checked)>),
}

/// Whether the values of a run are known to be such as their topic takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Checked,
    Unchecked,
}

/// Whether a session may publish to a topic, by what holds the topic's publishers back.
pub(crate) fn may_change(topic: &Topic, origin: Option<SessionId>) -> Result<(), Close> {
    let guard = topic.home.as_ref().and_then(|home| home.guard());
    if let (Some(guard), Some(origin)) = (guard, origin) {
        if guard.read_only {
            return Err(CloseCode::TopicReadOnly.into());
        }
        if guard.claimed.is_some_and(|session| session != origin) {
            return Err(claimed_by_another(&topic.path));
        }
    }
    Ok(())
}

/// The shards with subscriptions by a pattern that names the path.
fn shards_of(patterns: &PatternInterest, path: &Path) -> u64 {
    let mut shards = 0;
    patterns.shards_of(path, &mut |shard| shards |= bit(shard));
    shards
}

/// Whether both are the same value.
fn same(one: &Option<Arc<Run>>, other: &Option<Arc<Run>>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if Arc::ptr_eq(one, other))
}

/// Runs that are large enough to count while they are on their way to another shard.
const LARGE_BYTES: usize = 64 * 1024;
