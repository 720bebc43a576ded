//! Which subscription brings what a topic or a pattern of this node needs.
//!
//! Relies on the indices of [`UpstreamSubscriptions`]. Invariant: one that has been refused is used only if there is no other, and
//! is then asked for again.

use std::collections::BTreeSet;
use std::sync::Arc;

use tiderace_base::{Close, Key, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::Target;

use super::{Begins, Brought, Slot, State, UpstreamSubscription, UpstreamSubscriptions};

/// How long the upstream is not asked again for what it has refused.
const REFUSED_FOR: Span = Span::from_secs(1);

impl UpstreamSubscriptions {
    /// Uses a subscription that brings a target, which is made if there is none.
    pub(in crate::deputies) fn use_for(&mut self, now: Time, target: Target) -> u32 {
        self.use_from(now, target, &Begins::default())
    }

    /// The same; one that is made begins like that.
    pub(in crate::deputies) fn use_from(
        &mut self,
        now: Time,
        target: Target,
        begins: &Begins,
    ) -> u32 {
        // Another one is no help if it does not bring what was missed.
        let goes_on = |key: &u32| {
            begins.since.is_none() || self.get(*key).is_some_and(|known| known.since.is_some())
        };
        let known = self.known_for(&target).filter(|key| goes_on(key) || self.has(&target));
        let key = known.unwrap_or_else(|| self.make(target, begins));
        self.begin_again(key, begins);
        self.ask_again(now, key);
        if let Some(subscription) = self.get_mut(key) {
            subscription.uses += 1;
        }
        key
    }

    /// One that was refused is to bring what another one has brought.
    fn begin_again(&mut self, key: u32, begins: &Begins) {
        if !self.is_refused(key) {
            return;
        }
        let Some(subscription) = self.get_mut(key) else { return };
        if begins.replaces {
            // What others have is not to be late.
            subscription.ask_from = Time::ZERO;
        }
        subscription.unswept |= begins.answered;
        subscription.answered |= begins.answered;
        if subscription.since.is_none() && begins.since.is_some() {
            subscription.since = begins.since.clone();
            self.resuming += 1;
        }
    }

    /// The same for a topic of its own.
    pub(in crate::deputies) fn use_for_topic(
        &mut self,
        now: Time,
        target: Target,
        begins: &Begins,
    ) -> u32 {
        let key = self.use_from(now, target, begins);
        if let Some(subscription) = self.get_mut(key) {
            subscription.topics += 1;
        }
        key
    }

    /// Uses a pattern for a topic, if there is one that brings it; and whether something may be missing before that.
    pub(in crate::deputies) fn use_pattern_for(
        &mut self,
        path: &Path,
        begins: &Begins,
    ) -> Option<(u32, bool)> {
        let key = self.pattern_that_brings(path)?;
        let subscription = self.get_mut(key)?;
        subscription.uses += 1;
        subscription.topics += 1;
        let goes_on = subscription.state == State::Live || subscription.since.is_some();
        Some((key, begins.answered && !goes_on))
    }

    /// Somebody new needs one: the upstream may give by now what it refused to somebody before. It is not asked more often
    /// than once in [`REFUSED_FOR`], however many come: who comes meanwhile waits for what it says then.
    pub(in crate::deputies) fn ask_again(&mut self, now: Time, key: u32) {
        let Some(subscription) = self.get_mut(key) else { return };
        if !matches!(subscription.state, State::Refused(_)) {
            return;
        }
        subscription.state = State::Queued;
        let from = subscription.ask_from;
        match from <= now {
            true => self.to_ask.push_back(key),
            false => drop(self.to_ask_later.insert((from, key))),
        }
    }

    /// Those are to be asked for now that had to wait; whether there are any.
    pub(in crate::deputies) fn end_waits(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some((from, key)) = self.to_ask_later.first().copied().filter(|it| it.0 <= now) {
            self.to_ask_later.remove(&(from, key));
            self.to_ask.push_back(key);
            any = true;
        }
        any
    }

    /// The upstream has refused one: the answers that wait for it.
    pub(in crate::deputies) fn refuse(&mut self, now: Time, key: u32, close: Close) -> Vec<Key> {
        let waiting = self.settle(key, State::Refused(close));
        if let Some(subscription) = self.get_mut(key) {
            subscription.ask_from = now + REFUSED_FOR;
        }
        waiting
    }

    /// Whether there is one for exactly that target.
    fn has(&self, target: &Target) -> bool {
        match target {
            Target::Exact(topic) => self.exact.contains_key(&topic.path),
            Target::Pattern(_, pattern) => self.by_pattern.contains_key(pattern.as_str()),
        }
    }

    /// What one had brought that is refused has been looked for. If it was asked for again meanwhile, some may be left.
    pub(in crate::deputies) fn note_swept(&mut self, key: u32) {
        let is_refused = self.is_refused(key);
        if let Some(subscription) = self.get_mut(key) {
            subscription.unswept &= !is_refused;
        }
    }

    pub(super) fn is_refused(&self, key: u32) -> bool {
        self.get(key).is_none_or(|known| matches!(known.state, State::Refused(_)))
    }

    pub(super) fn pattern_that_brings(&self, path: &Path) -> Option<u32> {
        let mut found = None;
        self.patterns.matches(path, &mut |key| {
            if found.is_none() && !self.is_refused(*key) {
                found = Some(*key);
            }
        });
        found
    }

    /// One that brings a target; if there is none, that for the target which has been refused.
    fn known_for(&self, target: &Target) -> Option<u32> {
        match target {
            Target::Exact(topic) => {
                let exact = self.exact.get(&topic.path).copied();
                let brings = exact.filter(|key| !self.is_refused(*key));
                brings.or_else(|| self.pattern_that_brings(&topic.path)).or(exact)
            }
            Target::Pattern(_, pattern) => self.by_pattern.get(pattern.as_str()).copied(),
        }
    }

    fn make(&mut self, target: Target, begins: &Begins) -> u32 {
        let subscription = UpstreamSubscription {
            target: target.clone(),
            state: State::Queued,
            uses: 0,
            topics: 0,
            idle: Time::ZERO,
            begun: Arc::new([]),
            since: begins.since.clone(),
            recovered: false,
            asked_at: 0,
            anew: 0,
            answered: begins.answered,
            ask_from: Time::ZERO,
            unswept: false,
            left_by: BTreeSet::new(),
            repeats: false,
            brought: Brought::default(),
            waiting: Vec::new(),
        };
        let key = self.take_key(Slot::Subscription(Box::new(subscription)));
        match target {
            Target::Exact(topic) => {
                self.exact.insert(topic.path, key);
            }
            Target::Pattern(_, pattern) => {
                self.patterns.insert(&pattern, key);
                self.by_pattern.insert(pattern.as_str().into(), key);
            }
        }
        self.count += 1;
        self.resuming += usize::from(begins.since.is_some());
        self.to_ask.push_back(key);
        key
    }
}
