//! Subscriptions that the upstream refuses, the first time or when its connection comes back.
//!
//! Relies on the shards of subscribers, which end what they have. Invariants: who asks for nothing but what the upstream does not
//! give is refused, or ended with what the upstream said; one whose pattern names other topics besides goes on without
//! these, whose values are removed.

use tiderace_base::{Close, Now};
use tiderace_topics::Pattern;
use tiderace_wire::Target;

use super::Deputy;
use super::held::{What, exact};
use super::subscriptions::{Begins, State};
use crate::deputy_side::DeputySide;
use crate::effects::Effects;
use crate::messages::{Ask, ToSubscriber};
use crate::places::{Place, PlaceSet};

impl DeputySide<'_> {
    /// The upstream does not give what a subscription is for.
    pub(super) fn refused(
        &mut self,
        now: Now,
        at: usize,
        key: u32,
        close: Close,
        effects: &mut Effects,
    ) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(refused) = deputy.subscriptions.get(key) else { return };
        let (target, unswept) = (refused.target.clone(), refused.unswept);
        let begins = deputy.begins(key);
        for ended in deputy.subscriptions.go_on_for(key) {
            self.end_at_upstream(at, ended);
        }
        let last = self.home.home.last_number();
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        deputy.subscriptions.note_ended_at(last);
        let waiting = deputy.subscriptions.refuse(now.time, key, close.clone());
        if deputy.ask_otherwise(now, (key, &target), &begins) {
            self.home.metrics.upstream_resyncs += 1;
            deputy.resyncs += 1;
        }
        if begins.answered || unswept {
            // The upstream had given it before.
            deputy.sweep_refused(key, &target);
        }
        self.answer_settled(now, at, waiting, effects);
        self.end_subscribers(at, (key, target), &close, effects);
    }

    /// Refuses a subscription.
    pub(super) fn refuse(&mut self, from: Place, ask: Ask, close: Close, effects: &mut Effects) {
        let (request, close) = (ask.request, Box::new(close));
        self.home.send(from, ToSubscriber::SubscribeRefused { request, close }, effects);
    }

    /// Who listens here to nothing but what is not brought any longer is told.
    fn end_subscribers(
        &mut self,
        at: usize,
        (key, target): (u32, Target),
        close: &Close,
        effects: &mut Effects,
    ) {
        let Some(deputy) = self.deputies.list.get(at) else { return };
        let everywhere = PlaceSet::all(self.home.options.shards);
        let upstream = self.home.options.upstreams.get(usize::from(deputy.upstream));
        let brings_all = |pattern: &Pattern| upstream.is_some_and(|it| it.has_all(pattern));
        let patterns = deputy.patterns_with(key, &target).into_iter();
        let patterns = patterns.filter(|pattern| brings_all(pattern)).map(What::Pattern);
        let ended = patterns.filter(|what| deputy.refusal_of(what).is_some());
        let mut ended: Vec<(Target, PlaceSet)> =
            ended.map(|what| (what.target(), everywhere)).collect();
        if let Target::Exact(topic) = &target
            && let Some(used) = deputy.topics.get(&topic.path).filter(|used| used.key == key)
        {
            ended.push((target, used.places));
        }
        for (target, places) in ended {
            for place in places.iter() {
                let (target, close) = (Box::new(target.clone()), Box::new(close.clone()));
                self.home.send(place, ToSubscriber::SubscriptionsEnded { target, close }, effects);
            }
        }
    }
}

impl Deputy {
    /// Why nothing brings what was asked for: what the upstream said of all the subscriptions that were to bring it.
    pub(super) fn refusal_of(&self, what: &What) -> Option<Close> {
        let mut said = None;
        for key in self.keys_of(what) {
            let State::Refused(close) = &self.subscriptions.get(key)?.state else { return None };
            said.get_or_insert_with(|| close.clone());
        }
        said
    }

    /// How a subscription begins that is to bring the same as another one.
    fn begins(&self, key: u32) -> Begins {
        let Some(known) = self.subscriptions.get(key) else { return Begins::default() };
        let is_at_end = known.state == State::Live && self.subscriptions.are_whole();
        known.begins(is_at_end.then(|| self.numberings.position(self.epoch)))
    }

    /// The upstream may give a topic to this node and not all that a pattern names, or the reverse: topics of a subscription
    /// that is refused are brought by others. Whether something may be missing that none of these brings.
    fn ask_otherwise(&mut self, now: Now, (key, target): (u32, &Target), begins: &Begins) -> bool {
        let left = self.subscriptions.get(key).map_or(0, |known| known.topics as usize);
        let mut lacks = false;
        match target {
            Target::Exact(topic) => {
                if let Some(used) = self.topics.get_mut(&topic.path).filter(|it| it.key == key)
                    && let Some((other, is_late)) =
                        self.subscriptions.use_pattern_for(&topic.path, begins)
                {
                    (used.key, lacks) = (other, is_late);
                    self.subscriptions.release_topic(now.time, key);
                }
            }
            Target::Pattern(..) if left > 0 => {
                let its = self.topics.iter_mut().filter(|(_, used)| used.key == key);
                for (path, used) in its.take(left) {
                    used.key = self.subscriptions.use_for_topic(now.time, exact(path), begins);
                    self.subscriptions.release_topic(now.time, key);
                }
            }
            Target::Pattern(..) => {}
        }
        lacks
    }

    /// The patterns of this node that a subscription is to bring topics of. Mostly that is its own.
    fn patterns_with(&self, key: u32, target: &Target) -> Vec<Pattern> {
        let Some(known) = self.subscriptions.get(key) else { return Vec::new() };
        let has = |pattern: &&Pattern| {
            self.patterns.get(*pattern).is_some_and(|used| used.keys.contains(&key))
        };
        let own = match target {
            Target::Pattern(_, pattern) => Some(pattern).filter(has),
            Target::Exact(_) => None,
        };
        let mut found: Vec<Pattern> = own.cloned().into_iter().collect();
        if known.of_patterns() > found.len() {
            let others = self.patterns.keys().filter(|pattern| Some(*pattern) != own);
            found.extend(others.filter(has).cloned());
        }
        found
    }
}
