//! Which topics of its upstream a deputy needs, and when it answers those who ask for them.
//!
//! The home is told of every interest at once, as of its own topics; what waits is the answer, until the upstream brings
//! what is asked for. A topic that a pattern brings needs no subscription of its own. Invariant: a subscription at the
//! upstream is used by each topic and pattern of this node that it brings, and by nothing else.

use tiderace_base::{Now, Time};
use tiderace_queues::Ending;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::Target;

use super::held::{Held, What, exact};
use super::subscriptions::Begins;
use super::{Deputy, PatternUse, TopicUse};
use crate::UpstreamTopics;
use crate::deputy_side::DeputySide;
use crate::effects::Effects;
use crate::messages::{Ask, Interest, ToHome};
use crate::places::{Place, PlaceSet};

impl DeputySide<'_> {
    /// Takes a message to the home if it concerns topics of an upstream; gives any other back.
    #[must_use = "the home takes what is given back"]
    pub(crate) fn take(
        &mut self,
        now: Now,
        from: Place,
        message: ToHome,
        effects: &mut Effects,
    ) -> Option<ToHome> {
        match message {
            ToHome::Interest { path, interest } => match self.at_topic(&path) {
                Some(at) => {
                    self.topic_interest(now, at, from, (path, interest), effects);
                    None
                }
                None => Some(ToHome::Interest { path, interest }),
            },
            ToHome::PatternInterest { pattern, interest } if self.concerns(&pattern) => {
                self.listen_to_pattern(now, from, (pattern, interest), effects);
                None
            }
            ToHome::Relay(relay) => {
                self.relay(now, *relay, effects);
                None
            }
            message => {
                let rest = self.take_call(now, from, message, effects)?;
                self.take_of_consumer(now, rest, effects)
            }
        }
    }

    /// The same of what concerns consumers of queues.
    fn take_of_consumer(
        &mut self,
        now: Now,
        message: ToHome,
        effects: &mut Effects,
    ) -> Option<ToHome> {
        let (session, key) = match &message {
            ToHome::ConsumeElsewhere(it) => (it.request.session, it.request.key),
            ToHome::Settle { session, key, .. }
            | ToHome::Credit { session, key, .. }
            | ToHome::Leave { session, key, .. } => (*session, *key),
            _ => return Some(message),
        };
        let at = self.at_consumer(session, key);
        match (message, at) {
            (ToHome::ConsumeElsewhere(consumption), _) => {
                self.begin_consumer(now, *consumption, effects);
            }
            (ToHome::Settle { ranges, settlement, confirm, .. }, Some(at)) => {
                let what = (&*ranges, settlement);
                self.settle_there(at, (session, key), what, confirm, effects);
            }
            (ToHome::Credit { messages, .. }, Some(at)) => {
                self.credit_there(at, (session, key), messages, effects);
            }
            (ToHome::Leave { handed, ending, confirm, .. }, Some(at)) => {
                let how = (handed, ending == Ending::Lost);
                self.leave_there(at, (session, key), how, confirm, effects);
            }
            (message, _) => return Some(message),
        }
        None
    }

    /// The deputy whose a topic is.
    pub(super) fn at_topic(&self, path: &Path) -> Option<usize> {
        self.at_upstream(self.home.options.upstream_of(path)?)
    }

    /// The deputy whose a queue is.
    pub(super) fn at_queue(&self, path: &Path) -> Option<usize> {
        self.at_upstream(self.home.options.upstream_of_queue(path)?)
    }

    /// The deputy that stands in for an upstream.
    pub(super) fn at_upstream(&self, upstream: &UpstreamTopics) -> Option<usize> {
        let of = |deputy: &Deputy| {
            let known = self.home.options.upstreams.get(usize::from(deputy.upstream));
            known.is_some_and(|known| std::ptr::eq(known, upstream))
        };
        self.deputies.list.iter().position(of)
    }

    /// Whether some topics of a pattern are those of an upstream.
    fn concerns(&self, pattern: &Pattern) -> bool {
        (0..self.deputies.list.len()).any(|at| !self.targets_for(at, pattern).is_empty())
    }

    fn targets_for(&self, at: usize, pattern: &Pattern) -> Vec<Target> {
        let upstream = self.deputies.list.get(at).map(|deputy| usize::from(deputy.upstream));
        let upstream = upstream.and_then(|upstream| self.home.options.upstreams.get(upstream));
        upstream.map_or_else(Vec::new, |upstream| upstream.targets_for(pattern))
    }

    fn topic_interest(
        &mut self,
        now: Now,
        at: usize,
        from: Place,
        (path, interest): (Path, Interest),
        effects: &mut Effects,
    ) {
        let Interest { on, recorded, ask } = interest;
        let interest = Interest { on, recorded, ask: None };
        // Who comes only now knows no version of a former life, and is not told to forget one.
        if let Some(key) = self.home.directory.find(&path).filter(|_| on) {
            self.renew(at, key, effects);
        }
        self.home.interest(now, from, path.clone(), interest, effects);
        if let Some(deputy) = self.deputies.list.get_mut(at) {
            deputy.note_topic(now.time, from, &path, on);
        }
        self.ask_upstream(at);
        if let Some(ask) = ask {
            self.answer_or_hold(now, from, What::Topic(path), ask, effects);
        }
    }

    fn listen_to_pattern(
        &mut self,
        now: Now,
        from: Place,
        (pattern, interest): (Pattern, Interest),
        effects: &mut Effects,
    ) {
        let Interest { on, recorded, ask } = interest;
        let interest = Interest { on, recorded, ask: None };
        self.home.pattern_interest(now, from, &pattern, interest, effects);
        for at in 0..self.deputies.list.len() {
            let targets = self.targets_for(at, &pattern);
            if let Some(deputy) = self.deputies.list.get_mut(at).filter(|_| !targets.is_empty()) {
                deputy.note_pattern(now.time, &pattern, targets, on);
            }
            self.ask_upstream(at);
        }
        if let Some(ask) = ask {
            self.answer_or_hold(now, from, What::Pattern(pattern), ask, effects);
        }
    }

    /// Answers a subscription if all that brings its topics is settled; otherwise when it is.
    pub(super) fn answer_or_hold(
        &mut self,
        now: Now,
        from: Place,
        what: What,
        ask: Ask,
        effects: &mut Effects,
    ) {
        for at in 0..self.deputies.list.len() {
            let upstreams = &self.home.options.upstreams;
            let Some(deputy) = self.deputies.list.get_mut(at) else { continue };
            let keys = deputy.keys_of(&what);
            let unsettled = |key: &&u32| !deputy.subscriptions.is_settled(**key);
            let missing = keys.iter().filter(unsettled).count();
            if missing == 0 {
                continue;
            }
            let timeout = upstreams.get(usize::from(deputy.upstream)).map(|it| it.timeout);
            let until = match deputy.link {
                Some(_) => Time::NEVER,
                None => now.time + timeout.unwrap_or_default(),
            };
            let held = Held::new(from, what, ask);
            let held = deputy.held.hold(held, missing, until);
            deputy.subscriptions.wait(&keys, held);
            return;
        }
        self.answer(now, from, what, ask, effects);
    }

    /// What this node needs of an upstream although nobody here asks for it.
    pub(super) fn need_all(&mut self, now: Now, at: usize) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(upstream) = self.home.options.upstreams.get(usize::from(deputy.upstream)) else {
            return;
        };
        if !upstream.eager || std::mem::replace(&mut deputy.needs_all, true) {
            return;
        }
        // A use of its own, so that a view or a client that asked for the same does not take it along.
        for pattern in &upstream.topics {
            let targets = upstream.targets_for(pattern);
            deputy.note_pattern(now.time, pattern, targets, true);
        }
    }
}

impl Deputy {
    /// A shard listens to a topic, or does so no more.
    fn note_topic(&mut self, now: Time, from: Place, path: &Path, on: bool) {
        if on {
            if let Some(known) = self.topics.get_mut(path) {
                known.places.insert(from);
                return self.subscriptions.ask_again(now, known.key);
            }
            let key = self.subscriptions.use_for_topic(now, exact(path), &Begins::default());
            self.topics.insert(path.clone(), TopicUse { places: PlaceSet::of(from), key });
            return;
        }
        let Some(known) = self.topics.get_mut(path) else { return };
        known.places.remove(from);
        if known.places.is_empty()
            && let Some(known) = self.topics.remove(path)
        {
            self.subscriptions.release_topic(now, known.key);
        }
    }

    /// A subscription of this node to a pattern begins or ends.
    pub(super) fn note_pattern(
        &mut self,
        now: Time,
        pattern: &Pattern,
        targets: Vec<Target>,
        on: bool,
    ) {
        if on {
            if let Some(known) = self.patterns.get_mut(pattern) {
                known.subscriptions += 1;
                return known.keys.iter().for_each(|key| self.subscriptions.ask_again(now, *key));
            }
            let used = targets.into_iter().map(|target| self.subscriptions.use_for(now, target));
            let keys = used.collect();
            self.patterns.insert(pattern.clone(), PatternUse { subscriptions: 1, keys });
            return;
        }
        let Some(known) = self.patterns.get_mut(pattern) else { return };
        known.subscriptions = known.subscriptions.saturating_sub(1);
        if known.subscriptions == 0
            && let Some(known) = self.patterns.remove(pattern)
        {
            known.keys.into_iter().for_each(|key| self.subscriptions.release(now, key));
        }
    }

    /// The subscriptions that bring what was asked for.
    pub(super) fn keys_of(&self, what: &What) -> Vec<u32> {
        match what {
            What::Topic(path) => self.topics.get(path).map(|known| vec![known.key]),
            What::Pattern(pattern) => self.patterns.get(pattern).map(|known| known.keys.clone()),
        }
        .unwrap_or_default()
    }
}
