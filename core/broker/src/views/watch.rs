//! Values of other topics that views insert: kept where they are needed, and followed.
//!
//! A shard asks the home of such a topic once, gets its value and from then on every change. Relies
//! on messages keeping their order. Invariant: a watch exists exactly while something made here has looked
//! the topic up; what was made waits for values that are under way.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use tiderace_base::{Key, Now};
use tiderace_topics::Path;
use tiderace_wire::{Message, Run};

use super::made::{Watch, Why};
use super::{Job, LOOK_WORK};
use crate::effects::Effects;
use crate::messages::{LocalMessage, ToViews};
use crate::places::Place;
use crate::runs::fresh;
use crate::view_side::ViewSide;

/// Sources evaluated in one slice.
const SLICE: usize = 256;

impl ViewSide<'_> {
    /// The value of another topic: nothing if it is not known yet whether there is one.
    pub(super) fn value_elsewhere(&self, now: Now, path: &Path) -> Option<Option<&[u8]>> {
        if self.home.options.home_of(path) == self.home.here() {
            let run = self.home.topic_named(path).and_then(|topic| topic.home()?.value());
            return Some(run.and_then(|run| body(run, now)));
        }
        let watch = self.views.watches.get(path).filter(|watch| watch.known)?;
        Some(watch.value.as_ref().and_then(|run| body(run, now)))
    }

    /// What is looked up for a topic from now on.
    pub(super) fn watch_all(
        &mut self,
        now: Now,
        rank: u32,
        key: Key,
        paths: &[Path],
        effects: &mut Effects,
    ) {
        let before = self.watched_by(rank, key).to_vec();
        for path in paths.iter().filter(|path| before.binary_search(path).is_err()) {
            self.begin_watch(now, rank, key, path, effects);
        }
        for path in before.iter().filter(|path| paths.binary_search(path).is_err()) {
            self.end_watch(now, rank, key, path, effects);
        }
    }

    fn begin_watch(&mut self, now: Now, rank: u32, key: Key, path: &Path, effects: &mut Effects) {
        if let Some(watch) = self.views.watches.get_mut(path) {
            watch.users.insert((rank, key));
            return;
        }
        let home = self.home.options.home_of(path);
        let known = home == self.home.here();
        let users = BTreeSet::from([(rank, key)]);
        let watch = Watch { known, users, ..Watch::default() };
        self.views.watches.insert(path.clone(), watch);
        self.tell_home(now, path, true, effects);
    }

    /// Something is looked up for a topic no longer; the last one ends the watch.
    pub(super) fn end_watch(
        &mut self,
        now: Now,
        rank: u32,
        key: Key,
        path: &Path,
        effects: &mut Effects,
    ) {
        let Some(watch) = self.views.watches.get_mut(path) else { return };
        watch.users.remove(&(rank, key));
        if !watch.users.is_empty() {
            return;
        }
        self.views.watches.remove(path);
        self.tell_home(now, path, false, effects);
    }

    /// Tells a topic's home whether it is watched here. The home on this shard knows it at once, since
    /// its value is looked up at once: a change that came before it knew would be told to nobody.
    fn tell_home(&mut self, now: Now, path: &Path, on: bool, effects: &mut Effects) {
        let home = self.home.options.home_of(path);
        if home == self.home.here() {
            self.watch_at_home(now, home, path, on, effects);
        } else {
            self.home.send(home, ToViews::Watch { path: path.clone(), on }, effects);
        }
    }

    /// At a topic's home.
    pub(super) fn watch_at_home(
        &mut self,
        now: Now,
        from: Place,
        path: &Path,
        on: bool,
        effects: &mut Effects,
    ) {
        let here = self.home.here();
        let key = self.home.directory.ensure(now, path);
        let Some(topic) = self.home.directory.get_mut(key) else { return };
        topic.touch(now.time);
        let home = self.home.home.topic_or_new(topic);
        home.set_watcher(from, on);
        if self.home.options.upstream_of(path).is_some() {
            self.home.loopback.hand_on(LocalMessage::Inserted { path: path.clone(), on });
        }
        if on && from != here {
            let value = fresh(home.value(), now);
            let hops = self.views.outputs.hops_of(key);
            let message = ToViews::Watched { path: path.clone(), value, hops };
            self.home.send(from, message, effects);
        }
    }

    /// At its home: a topic has changed that is inserted elsewhere.
    pub(crate) fn tell_watchers(&mut self, now: Now, key: Key, effects: &mut Effects) {
        let Some(topic) = self.home.topic(key) else { return };
        let Some(home) = topic.home() else { return };
        let watchers = home.watchers();
        if watchers.is_empty() {
            return;
        }
        let (path, hops) = (topic.path().clone(), self.views.outputs.hops_of(key));
        let value = fresh(home.value(), now);
        for place in watchers.without(self.home.here()).iter() {
            let message = ToViews::Watched { path: path.clone(), value: value.clone(), hops };
            self.home.send(place, message, effects);
        }
        if watchers.contains(self.home.here()) {
            self.evaluate_users_soon(path, hops);
        }
    }

    /// Has what a topic is inserted into evaluated again, once for all changes that come together.
    fn evaluate_users_soon(&mut self, path: Path, hops: u8) {
        let Some(watch) = self.views.watches.get_mut(&path) else { return };
        watch.hops = hops;
        if std::mem::replace(&mut watch.is_due, true) {
            watch.again = true;
        } else {
            self.views.jobs.push_back(Job::Watched { path, after: None });
        }
    }

    /// The home of a topic that is inserted here has said what it is.
    pub(crate) fn watched(&mut self, path: Path, value: Option<Arc<Run>>, hops: u8) {
        let Some(watch) = self.views.watches.get_mut(&path) else { return };
        watch.known = true;
        watch.value = value;
        self.evaluate_users_soon(path, hops);
    }

    /// Evaluates some of the sources again into which a topic is inserted; behind which to go on, which
    /// is none if it is to begin anew.
    #[allow(clippy::type_complexity)]
    pub(super) fn evaluate_users(
        &mut self,
        now: Now,
        path: &Path,
        after: Option<(u32, Key)>,
        effects: &mut Effects,
    ) -> (Option<Option<(u32, Key)>>, u32) {
        let Some(watch) = self.views.watches.get_mut(path) else { return (None, LOOK_WORK) };
        if after.is_none() {
            watch.again = false;
        }
        let hops = watch.hops;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let users = watch.users.range((from, Bound::Unbounded));
        let users: Vec<(u32, Key)> = users.take(SLICE).copied().collect();
        let rest = if users.len() < SLICE {
            watch.is_due = std::mem::take(&mut watch.again);
            watch.is_due.then_some(None)
        } else {
            Some(users.last().copied())
        };
        let mut work = LOOK_WORK;
        for (rank, key) in users {
            work += LOOK_WORK + self.evaluate(now, rank, key, Why::Again, hops, effects);
        }
        (rest, work)
    }
}

/// The value that a retained run is, unless its time is over, or it lies in a file: nobody looks into that.
fn body(run: &Run, now: Now) -> Option<&[u8]> {
    let fresh = |message: &Message<'_>| !message.is_expired(now.wall_ms);
    let in_memory = run.body_in_file().is_none();
    run.message(0).filter(|message| in_memory && fresh(message)).map(|message| message.body)
}
