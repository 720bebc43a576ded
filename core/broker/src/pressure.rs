//! At a topic's home: its publishers wait for slow subscribers of any shard, for a while.
//!
//! The grace is the topic's: its home holds publishers no longer than that in any minute, however many
//! subscribers are slow. Only the policy `block` holds them without end. Invariant: all shards are told that
//! publishers go on when the last shard with slow subscribers needs no more time, or the grace is over.

use tiderace_base::{Now, Span};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind};

use crate::SlowConsumer;
use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::messages::ToPublisher;
use crate::places::{Place, PlaceSet};

impl HomeSide<'_> {
    /// As a home: publishers that have waited for the whole grace of a topic go on.
    pub(crate) fn end_holds(&mut self, now: Now, effects: &mut Effects) {
        self.home.sweep_graces(now.time);
        while let Some(key) = self.home.next_grace_over(now.time) {
            let Some(topic) = self.directory.get(key) else { continue };
            let Some(home) = self.home.topic_mut(topic) else { continue };
            // It may have become one that blocks meanwhile: then it is applied again.
            home.set_pressed(PlaceSet::EMPTY);
            let path = topic.path.clone();
            self.work.unblock();
            self.tell_all(path, None, effects);
        }
    }

    /// At the topic's home: a shard's subscribers need time, or no longer.
    pub(crate) fn pressure(
        &mut self,
        now: Now,
        from: Place,
        path: &Path,
        on: bool,
        effects: &mut Effects,
    ) {
        let key = self.directory.ensure(now, path);
        let Some(topic) = self.directory.get(key) else {
            return;
        };
        let before = self.home.topic_or_new(topic).pressed();
        let grace = match topic.spec.slow_consumer {
            SlowConsumer::Block => Span::ZERO,
            _ => topic.spec.grace,
        };
        let blocks = topic.spec.slow_consumer == SlowConsumer::Block;
        if on && before.is_empty() && !blocks && !self.home.begin_grace(now.time, key, grace) {
            return;
        }
        let mut after = before;
        after.set(from, on);
        self.home.topic_or_new(topic).set_pressed(after);
        if before.is_empty() == after.is_empty() {
            return;
        }
        if after.is_empty() {
            self.home.end_grace(now.time, key);
            self.work.unblock();
        }
        self.tell_all(path.clone(), (!after.is_empty()).then_some(grace), effects);
    }

    /// Tells all shards that publishers of a topic wait, for no longer than the grace if that is not
    /// zero, or that they go on. Who publishes is not known; a shard without publishers has nobody to hold.
    fn tell_all(&mut self, path: Path, hold: Option<Span>, effects: &mut Effects) {
        let destination = Destination { kind: Kind::Topic, path };
        for place in PlaceSet::all(self.options.shards).iter() {
            self.tell_pause(place, destination.clone(), hold, effects);
        }
    }

    /// Tells a shard to hold publishers of a destination back, or to let them go.
    pub(crate) fn tell_pause(
        &mut self,
        to: Place,
        destination: Destination,
        hold: Option<Span>,
        effects: &mut Effects,
    ) {
        self.send(to, ToPublisher::Pause { destination, hold }, effects);
    }
}
