//! Subscriptions that the upstream refuses, the first time or when its connection comes back.
//!
//! Relies on the shards of subscribers, which end what they have. Invariant: nobody is left waiting for topics that the
//! upstream does not give: a subscription here is refused, or is ended with what the upstream said.

use tiderace_base::{Close, Now};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Destination, Kind, Target};

use super::Deputy;
use super::held::What;
use super::subscriptions::State;
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
        let (target, begins) = (refused.target.clone(), refused.begins());
        for ended in deputy.subscriptions.go_on_for(key) {
            self.end_at_upstream(at, ended);
        }
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let waiting = deputy.subscriptions.settle(key, State::Refused(close.clone()));
        if let Target::Pattern(..) = target {
            // The upstream may give a topic to this node and not all that the pattern names.
            for (path, used) in deputy.topics.iter_mut().filter(|(_, used)| used.key == key) {
                used.key = deputy.subscriptions.use_from(exact(path), &begins);
                deputy.subscriptions.release(now.time, key);
            }
        }
        self.answer_settled(now, at, waiting, effects);
        self.end_subscribers(at, (key, target), &close, effects);
    }

    /// Refuses a subscription.
    pub(super) fn refuse(&mut self, from: Place, ask: Ask, close: Close, effects: &mut Effects) {
        let (request, close) = (ask.request, Box::new(close));
        self.home.send(from, ToSubscriber::SubscribeRefused { request, close }, effects);
    }

    /// Why the upstream does not give what was asked for, if it does not.
    pub(super) fn refusal_of(&self, at: usize, what: &What) -> Option<Close> {
        self.deputies.list.get(at)?.refusal_of(what)
    }

    /// Who listens here to what nothing brings any longer is told.
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
        let patterns = deputy
            .patterns
            .iter()
            .filter(|(pattern, used)| used.keys.contains(&key) && brings_all(pattern));
        let patterns = patterns.map(|(pattern, _)| What::Pattern(pattern.clone()));
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
    fn refusal_of(&self, what: &What) -> Option<Close> {
        let mut said = None;
        for key in self.keys_of(what) {
            let State::Refused(close) = &self.subscriptions.get(key)?.state else { return None };
            said.get_or_insert_with(|| close.clone());
        }
        said
    }
}

impl What {
    /// The same as a subscription names it.
    pub(super) fn target(&self) -> Target {
        match self {
            What::Topic(path) => exact(path),
            What::Pattern(pattern) => Target::Pattern(Kind::Topic, pattern.clone()),
        }
    }
}

/// A topic as a subscription names it.
fn exact(path: &Path) -> Target {
    Target::Exact(Destination { kind: Kind::Topic, path: path.clone() })
}
