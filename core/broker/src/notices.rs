//! Notices: a subscription hears of each topic that it gains and loses.
//!
//! Homes know the patterns, by shard, whose subscribers want notices; an exact path counts as a
//! pattern. Asked first, a home lists the topics that it has; from then on it tells every change to
//! the shards concerned, before the message that made it. A shard keeps what it was told for those
//! of its subscriptions that were answered. Relies on mail keeping its order. Invariants: a topic is
//! in `topics` if and only if some answered subscription here names it and its home's last word was
//! that it is there; so joining and leaving take turns, and what a subscription has joined needs no
//! memory of its own. Nothing is looked up while nobody wants notices.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tiderace_base::{Key, SessionId, ShardId};
use tiderace_queues::reaches;
use tiderace_topics::{Path, Pattern, PatternIndex, is_at_or_below};
use tiderace_wire::{Kind, LeaveReason, Reply, Subscribe, SubscriptionKey, Target, TopicSpec};

use crate::access::{Caller, is_owned_by};
use crate::broker::Broker;
use crate::collections::Map;
use crate::effects::{Asker, Effects};
use crate::places::{all, bit, key_of, members};
use crate::server_topics::ServerMail;
use crate::{Action, Principal};

/// What one shard knows of notices.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Targets of subscriptions here that want them.
    here: PatternIndex<Noticer>,
    /// By subscription: its targets, and the homes that have answered for each.
    live: Map<(Key, SubscriptionKey), Vec<(Pattern, u64)>>,
    /// Topics that are there.
    topics: BTreeMap<Path, Arc<TopicSpec>>,
    /// As a home: how many subscriptions of each shard want notices of each pattern.
    uses: Map<(Pattern, ShardId), u32>,
    /// As a home: whom to tell.
    shards: PatternIndex<ShardId>,
}

/// One target of a subscription that wants notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Noticer {
    session: Key,
    key: SubscriptionKey,
    target: u16,
}

impl Notices {
    fn is_live(&self, noticer: &Noticer, home: ShardId) -> bool {
        let targets = self.live.get(&(noticer.session, noticer.key));
        let target = targets.and_then(|targets| targets.get(usize::from(noticer.target)));
        target.is_some_and(|(_, homes)| homes & bit(home) != 0)
    }

    /// The targets here that were answered and name the topic.
    fn concerned(&self, path: &Path, home: ShardId) -> Vec<Noticer> {
        let mut found = Vec::new();
        self.here.matches(path, &mut |noticer| {
            if self.is_live(noticer, home) {
                found.push(*noticer);
            }
        });
        found
    }

    /// The topics here that a pattern names.
    fn named<'a>(
        &'a self,
        pattern: &'a Pattern,
    ) -> impl Iterator<Item = (&'a Path, &'a Arc<TopicSpec>)> {
        let below = pattern.literal_prefix();
        let start = Path::parse(&below).map_or(Bound::Unbounded, Bound::Included);
        self.topics
            .range((start, Bound::Unbounded))
            .take_while(move |(path, _)| is_at_or_below(path.as_str(), &below))
            .filter(|(path, _)| reaches(pattern, path))
    }
}

impl Broker {
    /// On a session's shard: a subscription begins; to be called before its homes hear of it.
    pub(crate) fn begin_notices(
        &mut self,
        session: SessionId,
        epoch: u32,
        subscribe: &Subscribe,
        effects: &mut Effects,
    ) {
        if !subscribe.notices {
            return;
        }
        let patterns = subscribe.targets.iter().map(pattern_of).collect::<Option<Vec<_>>>();
        let Some(patterns) = patterns else { return };
        let live = patterns.iter().map(|pattern| (pattern.clone(), 0)).collect();
        self.notices.live.insert((key_of(session), subscribe.key), live);
        for (pattern, target) in patterns.into_iter().zip(0u16..) {
            let noticer = Noticer { session: key_of(session), key: subscribe.key, target };
            self.notices.here.insert(&pattern, noticer);
            let asker = Asker { session, key: subscribe.key, target, epoch };
            for home in members(self.homes_of(&pattern)) {
                let mail = ServerMail::Notify { pattern: pattern.clone(), asker };
                self.send(home, mail, effects);
            }
        }
    }

    /// On a session's shard: a subscription has ended.
    pub(crate) fn end_notices(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        effects: &mut Effects,
    ) {
        let live = self.notices.live.remove(&(key_of(session), key));
        for ((pattern, _), target) in live.into_iter().flatten().zip(0u16..) {
            let noticer = Noticer { session: key_of(session), key, target };
            self.notices.here.remove(&pattern, &noticer);
            let named = self.notices.named(&pattern);
            let gone =
                named.filter(|(path, _)| self.notices.concerned(path, self.home(path)).is_empty());
            let gone: Vec<Path> = gone.map(|(path, _)| path.clone()).collect();
            for path in gone {
                self.notices.topics.remove(&path);
            }
            for home in members(self.homes_of(&pattern)) {
                let mail = ServerMail::Ignore { pattern: pattern.clone() };
                self.send(home, mail, effects);
            }
        }
    }

    fn homes_of(&self, pattern: &Pattern) -> u64 {
        match pattern.as_path() {
            Some(path) => bit(self.home(&path)),
            None => all(self.options.shards),
        }
    }

    /// At a home: a subscription wants to hear of topics.
    pub(crate) fn notify(
        &mut self,
        from: ShardId,
        pattern: &Pattern,
        asker: Asker,
        effects: &mut Effects,
    ) {
        let uses = self.notices.uses.entry((pattern.clone(), from)).or_default();
        *uses += 1;
        if *uses == 1 {
            self.notices.shards.insert(pattern, from);
        }
        let below = pattern.literal_prefix();
        let topics = self.names.walk(&below, None, &self.topics).map(|(_, topic)| topic);
        let topics = topics
            .filter(|topic| topic.is_known() && reaches(pattern, &topic.path))
            .map(|topic| (topic.path.clone(), topic.spec.clone()))
            .collect();
        self.send(from, ServerMail::Noted { asker, topics }, effects);
    }

    /// At a home: such a subscription has ended.
    pub(crate) fn ignore(&mut self, from: ShardId, pattern: &Pattern) {
        let key = (pattern.clone(), from);
        let Some(uses) = self.notices.uses.get_mut(&key) else { return };
        *uses -= 1;
        if *uses == 0 {
            self.notices.uses.remove(&key);
            self.notices.shards.remove(pattern, &from);
        }
    }

    /// At a topic's home: it has appeared, has become something else, or is there no longer.
    pub(crate) fn announce_topic(&mut self, topic: Key, effects: &mut Effects) {
        if self.notices.shards.is_empty() {
            return;
        }
        let Some(topic) = self.topics.get(topic) else { return };
        let path = topic.path.clone();
        let spec = topic.is_known().then(|| topic.spec.clone());
        self.announce_as(&path, spec, effects);
    }

    /// The same of a topic that is known to be that.
    pub(crate) fn announce_as(
        &mut self,
        path: &Path,
        spec: Option<Arc<TopicSpec>>,
        effects: &mut Effects,
    ) {
        let mut shards = 0;
        self.notices.shards.matches(path, &mut |shard| shards |= bit(*shard));
        for shard in members(shards) {
            let mail = ServerMail::Notice { path: path.clone(), spec: spec.clone() };
            self.send(shard, mail, effects);
        }
    }

    /// At a topic's home: it would have appeared with a message that was refused.
    pub(crate) fn stay_away(&mut self, topic: Key, appears: bool) {
        let home = self.topics.get_mut(topic).and_then(|topic| topic.home.as_mut());
        if let Some(home) = home.filter(|_| appears) {
            home.removed = true;
        }
    }

    /// On a subscriber's shard: a home has said which topics there are.
    pub(crate) fn noted(
        &mut self,
        from: ShardId,
        asker: Asker,
        topics: Vec<(Path, Arc<TopicSpec>)>,
        effects: &mut Effects,
    ) {
        let record = self.session(asker.session);
        let known = record.and_then(|record| record.subscription(asker.key));
        if known.is_none_or(|known| known.epoch != asker.epoch) {
            return;
        }
        let live = self.notices.live.get_mut(&(key_of(asker.session), asker.key));
        let target = live.and_then(|targets| targets.get_mut(usize::from(asker.target)));
        let Some((_, homes)) = target else { return };
        *homes |= bit(from);
        let noticer =
            Noticer { session: key_of(asker.session), key: asker.key, target: asker.target };
        for (path, spec) in topics {
            self.notices.topics.insert(path.clone(), spec.clone());
            if self.is_shown(&noticer, &path, &spec) {
                self.say_joined(&noticer, path, spec, effects);
            }
        }
    }

    /// On a subscriber's shard: a home tells that a topic is there, or not.
    pub(crate) fn notice(
        &mut self,
        path: &Path,
        spec: Option<Arc<TopicSpec>>,
        effects: &mut Effects,
    ) {
        let concerned = self.notices.concerned(path, self.home(path));
        if concerned.is_empty() {
            return;
        }
        let before = match &spec {
            Some(spec) => self.notices.topics.insert(path.clone(), spec.clone()),
            None => self.notices.topics.remove(path),
        };
        if before == spec {
            return;
        }
        for noticer in concerned {
            if before.as_ref().is_some_and(|spec| self.is_shown(&noticer, path, spec)) {
                self.say_left(&noticer, path.clone(), LeaveReason::Removed, effects);
            }
            if let Some(spec) = spec.as_ref().filter(|spec| self.is_shown(&noticer, path, spec)) {
                self.say_joined(&noticer, path.clone(), spec.clone(), effects);
            }
        }
    }

    /// A session is somebody else now: what its patterns show is different.
    pub(crate) fn notice_login(
        &mut self,
        session: SessionId,
        before: &Principal,
        after: &Principal,
        effects: &mut Effects,
    ) {
        let Some(record) = self.session(session) else { return };
        if self.notices.live.is_empty() {
            return;
        }
        let mut changes = Vec::new();
        for key in record.subscriptions.keys() {
            let targets = self.notices.live.get(&(key_of(session), key));
            for ((pattern, _), target) in targets.into_iter().flatten().zip(0u16..) {
                let noticer = Noticer { session: key_of(session), key, target };
                for (path, spec) in self.notices.named(pattern) {
                    let may = |principal| {
                        let caller = Caller { session, principal };
                        self.options.may(caller, Action::Subscribe, Kind::Topic, path)
                    };
                    if may(before) != may(after)
                        && self.notices.is_live(&noticer, self.home(path))
                        && record.brings(key, target, path)
                    {
                        changes.push((noticer, path.clone(), may(after).then(|| spec.clone())));
                    }
                }
            }
        }
        for (noticer, path, spec) in changes {
            match spec {
                Some(spec) => self.say_joined(&noticer, path, spec, effects),
                None => self.say_left(&noticer, path, LeaveReason::NotAuthorised, effects),
            }
        }
    }

    /// Whether a subscription gets the topic by that target.
    fn is_shown(&self, noticer: &Noticer, path: &Path, spec: &TopicSpec) -> bool {
        let Some(record) = self.sessions.get(noticer.session) else { return false };
        let session = self.id_of(noticer.session);
        let may = |principal: &std::rc::Rc<Principal>| {
            self.options.may(Caller { session, principal }, Action::Subscribe, Kind::Topic, path)
                || self.is_owned(session, noticer.key) && is_owned_by(spec, principal, path)
        };
        record.principal.as_ref().is_some_and(may)
            && record.brings(noticer.key, noticer.target, path)
    }

    fn say_joined(
        &self,
        noticer: &Noticer,
        path: Path,
        spec: Arc<TopicSpec>,
        effects: &mut Effects,
    ) {
        let reply = Reply::Joined { key: noticer.key, path, spec };
        self.reply(self.id_of(noticer.session), reply, effects);
    }

    fn say_left(&self, noticer: &Noticer, path: Path, reason: LeaveReason, effects: &mut Effects) {
        let reply = Reply::Left { key: noticer.key, path, reason };
        self.reply(self.id_of(noticer.session), reply, effects);
    }
}

/// The topics that a target names.
fn pattern_of(target: &Target) -> Option<Pattern> {
    match target {
        Target::Exact(destination) if destination.kind == Kind::Topic => {
            Pattern::parse(destination.path.as_str()).ok()
        }
        Target::Pattern(Kind::Topic, pattern) => Some(pattern.clone()),
        _ => None,
    }
}
