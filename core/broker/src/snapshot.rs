//! As a home: the values that a subscription by pattern gets first, a page at a time.
//!
//! A subscription counts from the moment at which the home hears of it. What is published from then
//! on is sent at once; what the topics hold from before comes in pages, in the order of their paths,
//! as the subscriber's shard asks for them. A topic that was published to meanwhile is left out, for
//! it has been sent. Invariants: of each topic the value comes first and what is newer after it, none
//! missing and none twice; no call looks at more than a page's worth of topics.

use std::sync::Arc;

use tiderace_base::{Key, Now, ShardId};
use tiderace_queues::reaches;
use tiderace_topics::{Path, Pattern, PatternIndex};
use tiderace_wire::{Run, TopicSpec};

use crate::broker::Broker;
use crate::collections::Map;
use crate::effects::{Answer, Ask, Effects, First, Mail, SnapshotPage, Specs};
use crate::messages::SubscribeRequestId;
use crate::price::TOPIC;
use crate::runs::fresh;
use crate::runs::last_of;
use crate::topic::{Home, Topic};

/// The snapshots that a home has not given completely.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    open: Map<SubscribeRequestId, Snapshot>,
    /// The same by their patterns.
    index: PatternIndex<SubscribeRequestId>,
    /// The last number before the newest of them.
    newest_at: u64,
}

/// What is left of a snapshot.
#[derive(Debug)]
struct Snapshot {
    pattern: Pattern,
    below: Box<str>,
    /// The last number before the subscription.
    at: u64,
    first: First,
    /// The last path that was looked at.
    after: Option<Path>,
}

/// Some values of a snapshot.
#[derive(Default)]
struct Page {
    runs: Vec<Arc<Run>>,
    specs: Specs,
    /// Whether there may be more.
    more: bool,
    /// Topics that were looked at for it.
    looked_at: usize,
}

impl Snapshots {
    fn keep(&mut self, request: SubscribeRequestId, snapshot: Snapshot) {
        self.newest_at = self.newest_at.max(snapshot.at);
        self.index.insert(&snapshot.pattern, request);
        if let Some(before) = self.open.insert(request, snapshot) {
            self.index.remove(&before.pattern, &request);
        }
    }

    fn take(&mut self, request: &SubscribeRequestId) -> Option<Snapshot> {
        let taken = self.open.remove(request);
        if let Some(taken) = &taken {
            self.index.remove(&taken.pattern, request);
        }
        if self.open.is_empty() {
            *self = Snapshots::default();
        }
        taken
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether one may not have given yet what a topic held when its last number was this.
    pub(crate) fn may_lack(&self, last: u64) -> bool {
        last <= self.newest_at && !self.open.is_empty()
    }
}

impl Snapshot {
    /// What a topic contributes, as long as nothing newer was sent.
    fn values(&self, topic: &Topic, now: Now) -> Vec<Arc<Run>> {
        let home = topic.home.as_deref().filter(|_| reaches(&self.pattern, &topic.path));
        match (self.first, home) {
            (_, None) => Vec::new(),
            (First::Replay(from), Some(home)) if home.series().is_some() => {
                home.series().map_or_else(Vec::new, |series| series.replay(from))
            }
            (first, Some(home)) => value_of(home, first, now).into_iter().collect(),
        }
    }

    /// Whether something newer of the topic makes up for what it contributes; `stays` says whether
    /// that leaves its value.
    fn can_do_without(&self, topic: &Topic, stays: bool) -> bool {
        let replays = matches!(self.first, First::Replay(_));
        let keeps = topic.home.as_ref().is_some_and(|home| home.series().is_some());
        !(stays || replays && keeps)
    }

    fn has_passed(&self, path: &Path) -> bool {
        self.after.as_ref().is_some_and(|after| path <= after)
    }

    /// The number above which messages are meant.
    fn floor(&self) -> u64 {
        match self.first {
            First::Since { after, .. } => after.unwrap_or(0),
            First::Nothing | First::Retained | First::Replay(_) => 0,
        }
    }
}

/// What a topic has to say before everything new: to somebody who comes back, only what is newer
/// than what was known.
fn value_of(home: &Home, first: First, now: Now) -> Option<Arc<Run>> {
    let (after, wanted) = match first {
        First::Nothing => return None,
        First::Retained | First::Replay(_) => return fresh(home.retained.as_ref(), now),
        First::Since { after, retained, .. } => (after.unwrap_or(0), retained),
    };
    let retained = home.retained.as_ref().filter(|run| wanted && run.first() > after);
    let newest = || home.history()?.newest().filter(|run| last_of(run) > after).cloned();
    fresh(retained, now).or_else(newest)
}

impl Broker {
    /// The beginning of a subscription by pattern.
    pub(crate) fn pattern_beginning(&mut self, now: Now, pattern: &Pattern, ask: Ask) -> Answer {
        let at = self.next_sequence - 1;
        let mut answer = Answer { at, room: ask.room, ..Answer::default() };
        let mut first = ask.first;
        let mut bytes = ask.room as usize;
        match &mut first {
            First::Nothing => return answer,
            First::Retained | First::Replay(_) => {}
            First::Since { after, earlier, retained } => {
                // A number that was never given is of another life. Of an earlier one it is not known
                // which topics there were, so all values are given.
                *after = after.filter(|after| !*earlier && *after <= at);
                let (missed, any) = self.missed_by(now, pattern, *after, *retained);
                answer.missed = Some(Box::new(missed));
                if !any {
                    return answer;
                }
                bytes = 0;
            }
        }
        let below = pattern.literal_prefix().into();
        let mut snapshot = Snapshot { pattern: pattern.clone(), below, at, first, after: None };
        // Many may begin in one turn; what is too much for it comes with the next pages.
        let page = match self.work.left(now) {
            0 => Page { more: true, ..Page::default() },
            _ => self.turn_page(now, &mut snapshot, bytes, false),
        };
        self.work.charge(TOPIC * page.looked_at as u64);
        (answer.retained, answer.specs, answer.more) = (page.runs, page.specs, page.more);
        if answer.more {
            self.snapshots.keep(ask.request, snapshot);
        }
        answer
    }

    /// The next values of a snapshot. `some`: even if the next one is larger than so many bytes.
    fn turn_page(&self, now: Now, snapshot: &mut Snapshot, bytes: usize, some: bool) -> Page {
        let limits = self.options.page;
        let (mut runs, mut specs, mut used, mut more) = (Vec::new(), Vec::new(), 0, false);
        let mut seen = 0;
        let mut last: Option<&Topic> = None;
        let after = snapshot.after.as_ref().map(Path::as_str);
        let walk = self.names.walk(&snapshot.below, after, &self.topics);
        for (looked_at, (_, topic)) in walk.enumerate() {
            more = looked_at == limits.looked_at || runs.len() >= limits.values;
            if more {
                break;
            }
            seen = looked_at + 1;
            let silent = topic.home.as_ref().is_some_and(|home| home.last <= snapshot.at);
            if silent {
                let mut values = snapshot.values(topic, now);
                used += values.iter().map(|run| run.bytes()).sum::<usize>();
                more = used > bytes && !(some && runs.is_empty());
                if more {
                    break;
                }
                if let Some(spec) = self.own_spec(topic) {
                    let places = (runs.len() as u32..).take(values.len());
                    specs.extend(places.map(|place| (place, spec.clone())));
                }
                runs.append(&mut values);
            }
            last = Some(topic);
        }
        if let Some(topic) = last {
            snapshot.after = Some(topic.path.clone());
        }
        Page { runs, specs, more, looked_at: seen }
    }

    /// What a topic is, if that is not what the configuration says of its path.
    fn own_spec<'a>(&self, topic: &'a Topic) -> Option<&'a Arc<TopicSpec>> {
        let usual = Arc::ptr_eq(&topic.spec, &self.options.topic_default)
            || Arc::ptr_eq(&topic.spec, self.options.topic(&topic.path));
        (!usual).then_some(&topic.spec)
    }

    /// The subscriber's shard has room for more.
    pub(crate) fn give_more(
        &mut self,
        now: Now,
        request: SubscribeRequestId,
        bytes: u32,
        effects: &mut Effects,
    ) {
        let mut values = SnapshotPage { room: bytes, ..SnapshotPage::default() };
        if let Some(mut snapshot) = self.snapshots.take(&request) {
            values.after = snapshot.floor();
            let page = self.turn_page(now, &mut snapshot, bytes as usize, true);
            self.work.charge_at(now, TOPIC * page.looked_at as u64);
            (values.runs, values.specs, values.more) = (page.runs, page.specs, page.more);
            if values.more {
                self.snapshots.keep(request, snapshot);
            }
        }
        self.give(request, values, effects);
    }

    /// The subscription has ended, or needs no more.
    pub(crate) fn end_snapshot(&mut self, request: &SubscribeRequestId) {
        self.snapshots.take(request);
    }

    /// Something newer of a topic is about to be sent: whoever lacks what it does not make up for gets
    /// that before. `last` was the topic's last number until now; `stays` says whether its value is
    /// still the same.
    pub(crate) fn give_early(
        &mut self,
        now: Now,
        key: Key,
        last: u64,
        stays: bool,
        effects: &mut Effects,
    ) {
        let Some(topic) = self.topics.get(key) else { return };
        let Snapshots { open, index, .. } = &self.snapshots;
        let mut concerned = Vec::new();
        index.matches(&topic.path, &mut |request| concerned.extend(open.get_key_value(request)));
        let lacking: Vec<(SubscribeRequestId, SnapshotPage)> = concerned
            .into_iter()
            .filter(|(_, snapshot)| last <= snapshot.at && !snapshot.has_passed(&topic.path))
            .filter(|(_, snapshot)| !snapshot.can_do_without(topic, stays))
            .map(|(request, snapshot)| {
                let (runs, after) = (snapshot.values(topic, now), snapshot.floor());
                let spec = self.own_spec(topic);
                let places = (0..runs.len() as u32).zip(std::iter::repeat(spec));
                let specs = places.filter_map(|(place, spec)| Some((place, spec?.clone())));
                let specs = specs.collect();
                (
                    *request,
                    SnapshotPage { runs, specs, after, early: true, ..SnapshotPage::default() },
                )
            })
            .filter(|(_, values)| !values.runs.is_empty())
            .collect();
        for (request, values) in lacking {
            self.give(request, values, effects);
        }
    }

    fn give(&mut self, request: SubscribeRequestId, page: SnapshotPage, effects: &mut Effects) {
        self.send(request.session.shard, Mail::SnapshotPage { request, page }, effects);
    }

    /// Asks a home for more, or says that it is enough.
    pub(crate) fn ask_for_more(
        &mut self,
        home: ShardId,
        request: SubscribeRequestId,
        bytes: Option<u32>,
        effects: &mut Effects,
    ) {
        let mail = match bytes {
            Some(bytes) => Mail::RequestPage { request, bytes },
            None => Mail::CancelSnapshot { request },
        };
        self.send(home, mail, effects);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tiderace_base::{SessionId, ShardId};
    use tiderace_wire::{
        Command, Commands, Credentials, Destination, Flags, Kind, Meta, Subscribe, SubscriptionKey,
        Target,
    };

    use super::*;
    use crate::BrokerOptions;
    use crate::work::TURN_WORK;

    const TOPICS: usize = 20_000;

    fn run(broker: &mut Broker, session: SessionId, commands: Vec<Command>) {
        let mut all = Commands::new();
        commands.into_iter().for_each(|command| all.push(command));
        broker.handle(Now::default(), session, &mut all, &mut Effects::default());
    }

    #[test]
    fn many_snapshots_that_begin_at_once_look_at_few_topics_a_turn() {
        let mut broker = Broker::new(ShardId(0), Arc::new(BrokerOptions::default()));
        let session = broker.open(Now::default(), 0);
        run(&mut broker, session, vec![Command::Login(Credentials::default())]);
        let publish = |number: usize| {
            let path = Path::parse(&format!("t/{number}")).unwrap();
            let destination = Destination { kind: Kind::Topic, path };
            let meta = Meta { flags: Flags::RETAIN, expires_ms: None };
            let run = Run::single(destination, Now::default().time, b"", b"x", meta);
            Command::Publish { run, confirm: None, confirm_first: false }
        };
        run(&mut broker, session, (0..TOPICS).map(publish).collect());
        let subscribe = |key: u32| {
            let pattern = Pattern::parse(&format!("*/*{key}*")).unwrap();
            let targets = vec![Target::Pattern(Kind::Topic, pattern)];
            let mut subscribe = Subscribe::new(SubscriptionKey(key), targets);
            subscribe.retained = true;
            Command::Subscribe(Box::new(subscribe))
        };
        let before = broker.work.spent_total;
        run(&mut broker, session, (0..1_000).map(subscribe).collect());
        let page = TOPIC * broker.options.page.looked_at as u64;
        assert!(broker.work.spent_total - before <= TURN_WORK + page);
        assert!(broker.snapshots.len() > 900, "most have yet to begin");
        assert_eq!(broker.snapshots.index.len(), broker.snapshots.len());
        let mut given = 0;
        while broker.has_work() || broker.has_backlog(session) {
            let before = broker.work.spent_total;
            broker.work(Now::default(), &mut Effects::default());
            assert!(broker.work.spent_total - before <= 4 * page);
            while let Some(pending) = broker.next(Now::default(), session, &mut Effects::default())
            {
                given += u64::from(pending.len());
            }
        }
        let named = |key: u32| {
            let key = key.to_string();
            (0..TOPICS).filter(|number| number.to_string().contains(&key)).count() as u64
        };
        assert_eq!(given, (0..1_000).map(named).sum::<u64>());
        assert!(broker.snapshots.len() == 0 && broker.snapshots.index.is_empty());
    }
}
