//! At a source's home: which views follow it, what they make of it, and what has changed of that.
//!
//! Relies on `tiderace_views` for the evaluation. Invariant: for each view and source this shard
//! knows which outputs it has announced, so that those that are gone are taken back.

use std::sync::Arc;

use tiderace_base::{Key, Now};
use tiderace_queues::gathers;
use tiderace_topics::Path;
use tiderace_views::{Evaluation, Form, Source, View};
use tiderace_wire::{Flags, Run, ValueType};

use super::buckets::{BUCKETS, bucket_of};
use super::made::{Changed, Made, Why};
use super::{HOPS_MAX, Job, LOOK_WORK, OUTPUT_WORK};
use crate::BrokerOptions;
use crate::collections::Map;
use crate::effects::Effects;
use crate::messages::{ToViews, Values};
use crate::places::Place;
use crate::view_side::ViewSide;

/// Topics looked at in one slice of a walk.
const WALK_SLICE: usize = 256;

impl ViewSide<'_> {
    /// A topic whose home this is has got a message, or has lost its value.
    pub(crate) fn note_source(&mut self, key: Key, run: Option<Arc<Run>>) {
        if self.views.known.is_empty() || !self.is_followed(key) {
            return;
        }
        let hops = self.views.outputs.hops_of(key);
        if self.views.changed.insert(key, Changed { run, hops }).is_none() {
            self.views.jobs.push_back(Job::Changed(key));
        }
    }

    /// Messages of a topic whose home this is were passed on.
    pub(crate) fn note_viewed(
        &mut self,
        now: Now,
        key: Key,
        run: &Arc<Run>,
        effects: &mut Effects,
    ) {
        let last = run.len().checked_sub(1).and_then(|last| run.message(last));
        let lost = last.is_none_or(|message| message.flags.contains(Flags::RETAIN_REMOVE));
        self.note_source(key, Some(run.clone()).filter(|_| !lost));
        self.tell_watchers(now, key, effects);
    }

    /// The value of a topic whose home this is has expired.
    pub(crate) fn note_expired(&mut self, key: Key) {
        self.note_source(key, None);
        let home = self.home.topic(key).and_then(|topic| topic.home());
        if home.is_some_and(|home| !home.watchers().is_empty()) {
            self.views.jobs.push_back(Job::Tell(key));
        }
    }

    /// Whether something was made of a topic, which then cannot be forgotten yet; it is looked at as
    /// one that has lost its value.
    pub(crate) fn is_made_of(&mut self, key: Key) -> bool {
        if self.views.made.is_empty() {
            return false;
        }
        let made = self.views.made.values().any(|buckets| {
            buckets.get(bucket_of(key)).is_some_and(|bucket| bucket.contains_key(&key))
        });
        if made {
            self.note_source(key, None);
        }
        made
    }

    /// Whether a view follows a topic; which ones do is found once for each set of views.
    fn is_followed(&mut self, key: Key) -> bool {
        let views = &self.views;
        let Some(topic) = self.home.directory.get(key) else { return false };
        let path = &topic.path;
        let Some(home) = self.home.home.topic_mut(topic) else { return false };
        if !home.is_viewed_at(views.generation) {
            let mut found: Vec<u32> = Vec::new();
            views.index.matches(path, &mut |rank| found.push(*rank));
            found.retain(|rank| {
                let entry = views.known.get(rank);
                entry.is_some_and(|entry| follows(&entry.view, path, self.home.options))
            });
            found.sort_unstable();
            found.dedup();
            home.set_viewed(views.generation, found);
        }
        home.is_followed()
    }

    /// A topic has changed: which views are to be evaluated for it, one after the other.
    pub(super) fn source_changed(&mut self, key: Key) -> Option<Job> {
        let changed = self.views.changed.remove(&key)?;
        if !self.is_followed(key) {
            return None;
        }
        let home = self.home.topic(key).and_then(|topic| topic.home())?;
        let ranks = home.viewed().iter().rev().copied().collect();
        Some(Job::Evaluate { key, ranks, changed })
    }

    /// Evaluates a new view for some of the topics of one of its patterns; where to go on.
    pub(super) fn walk_sources(
        &mut self,
        now: Now,
        rank: u32,
        pattern: usize,
        after: Option<Path>,
        effects: &mut Effects,
    ) -> (Option<Path>, u32) {
        let Some(entry) = self.views.known.get(&rank) else { return (None, LOOK_WORK) };
        let Some(pattern) = entry.view.sources().get(pattern).cloned() else {
            return (None, LOOK_WORK);
        };
        let prefix = pattern.literal_prefix();
        let after = after.as_ref().map(Path::as_str);
        let walk = self.home.directory.walk(&prefix, after);
        let found: Vec<(Key, Path)> =
            walk.take(WALK_SLICE).map(|(key, topic)| (key, topic.path.clone())).collect();
        let full = found.len() == WALK_SLICE;
        let next = found.last().filter(|_| full).map(|(_, path)| path.clone());
        let mut work = LOOK_WORK * 8;
        for (key, _) in found.iter().filter(|(_, path)| pattern.matches(path)) {
            work += LOOK_WORK + self.evaluate(now, rank, *key, Why::Again, 0, effects);
        }
        (next, work)
    }

    /// Evaluates a view again for the topics of one bucket of which something was made.
    pub(super) fn revisit(
        &mut self,
        now: Now,
        rank: u32,
        bucket: usize,
        effects: &mut Effects,
    ) -> u32 {
        let made = self.views.made.get(&rank).and_then(|buckets| buckets.get(bucket));
        let keys: Vec<Key> = made.into_iter().flat_map(|made| made.keys().copied()).collect();
        let mut work = LOOK_WORK;
        for key in keys {
            work += LOOK_WORK + self.evaluate(now, rank, key, Why::Again, 0, effects);
        }
        work
    }

    /// Forgets what a view that is gone has made of some topics.
    pub(super) fn forget_made(
        &mut self,
        now: Now,
        rank: u32,
        made: Option<Map<Key, Made>>,
        effects: &mut Effects,
    ) -> u32 {
        let made = made.unwrap_or_default();
        let work = LOOK_WORK + u32::try_from(made.len()).unwrap_or(u32::MAX);
        for (key, made) in made {
            for path in &made.watched {
                self.end_watch(now, rank, key, path, effects);
            }
        }
        work
    }

    /// Evaluates one view for one topic and announces what has changed; the work that was done.
    pub(super) fn evaluate(
        &mut self,
        now: Now,
        rank: u32,
        key: Key,
        why: Why,
        hops: u8,
        effects: &mut Effects,
    ) -> u32 {
        let Some(entry) = self.views.known.get(&rank) else { return 0 };
        let view = entry.view.clone();
        let Some(topic) = self.home.topic(key) else { return 0 };
        let path = topic.path().clone();
        let form = form_of(topic.spec().value);
        let hops = hops.max(self.views.outputs.hops_of(key));
        let current = topic.value(now);
        let made = self.views.made.get(&rank).and_then(|buckets| buckets.get(bucket_of(key)));
        let known = made.is_some_and(|made| made.contains_key(&key));
        let followed =
            follows(&view, &path, self.home.options) && !self.views.outputs.is_of(key, rank);
        let run = match why {
            _ if !followed => None,
            Why::Message(run) => Some(run),
            Why::Lost => None,
            // What was made of messages that are no values stays.
            Why::Again if current.is_none() && known => return 0,
            Why::Again => current,
        };
        if run.is_none() && !known {
            return 0;
        }
        if run.is_some() && hops >= HOPS_MAX {
            self.view_problem(rank, format!("{path} is the end of a chain of {HOPS_MAX} views"));
            return 0;
        }
        let (evaluation, unknown) = self.outputs_of(now, &view, &path, run.as_deref(), form);
        let outputs = u32::try_from(evaluation.outputs.len()).unwrap_or(u32::MAX);
        let work = evaluation.work.saturating_add(outputs.saturating_mul(OUTPUT_WORK));
        if let Some(stop) = evaluation.stopped {
            self.view_problem(rank, format!("{path}: {stop}"));
        }
        if evaluation.invalid_paths > 0 {
            let count = evaluation.invalid_paths;
            self.view_problem(rank, format!("{path}: {count} outputs would have no valid path"));
        }
        let watched = evaluation.looked_up.clone();
        self.watch_all(now, rank, key, &watched, effects);
        if unknown {
            // The value of another topic is under way; then this is evaluated again.
            self.note_watched(rank, key, watched);
            return work;
        }
        self.announce(rank, key, &path, evaluation, hops, effects);
        work
    }

    /// What a view makes of a run's last message; and whether a value it needs is not known yet.
    fn outputs_of(
        &self,
        now: Now,
        view: &View,
        path: &Path,
        run: Option<&Run>,
        form: Form,
    ) -> (Evaluation, bool) {
        // What lies in a file is too large to be looked into.
        let run = run.filter(|run| run.body_in_file().is_none());
        let Some(message) = run.and_then(|run| run.message(run.len().checked_sub(1)?)) else {
            return (Evaluation::default(), false);
        };
        let unknown = std::cell::Cell::new(false);
        let lookup = |other: &Path| match self.value_elsewhere(now, other) {
            Some(value) => value,
            None => {
                unknown.set(true);
                None
            }
        };
        let source = Source { path, value: Some(message.body), form };
        let evaluation = view.outputs(source, &lookup, self.views.limits);
        (evaluation, unknown.get())
    }

    /// Tells the homes of the outputs what is new and what is gone, and notes it.
    #[allow(clippy::too_many_arguments)]
    fn announce(
        &mut self,
        rank: u32,
        key: Key,
        path: &Path,
        evaluation: Evaluation,
        hops: u8,
        effects: &mut Effects,
    ) {
        let Some(entry) = self.views.known.get(&rank) else { return };
        let (preserve, expands) = (entry.view.options().preserve, entry.view.expands());
        let buckets = self.views.made.entry(rank).or_default();
        buckets.resize_with(BUCKETS, Map::default);
        let Some(bucket) = buckets.get_mut(bucket_of(key)) else { return };
        let before = bucket.remove(&key).unwrap_or_default();
        let mut made: Vec<(Path, u64)> = Vec::with_capacity(evaluation.outputs.len());
        let mut news: Values = Vec::new();
        for (output, value) in evaluation.outputs {
            let hash = self.home.directory.hash_of(&value);
            let known = before.outputs.binary_search_by(|(known, _)| known.cmp(&output));
            let known = known.ok().and_then(|at| before.outputs.get(at));
            // Of many elements usually few have changed.
            let same = expands && known.is_some_and(|(_, known)| *known == hash);
            if !same {
                news.push((output.clone(), Some(value.into())));
            }
            made.push((output, hash));
        }
        if !preserve {
            for (gone, _) in before.outputs {
                if made.binary_search_by(|(output, _)| output.cmp(&gone)).is_err() {
                    news.push((gone, None));
                }
            }
        }
        let watched = evaluation.looked_up.into_boxed_slice();
        if !made.is_empty() || !watched.is_empty() {
            bucket.insert(key, Made { outputs: made.into(), watched });
        }
        self.send_outputs(rank, path, hops + 1, news, effects);
    }

    fn send_outputs(
        &mut self,
        rank: u32,
        source: &Path,
        hops: u8,
        news: Values,
        effects: &mut Effects,
    ) {
        let mut by_home: Map<Place, Values> = Map::default();
        for (path, value) in news {
            by_home.entry(self.home.options.home_of(&path)).or_default().push((path, value));
        }
        let version = self.views.version;
        for (home, values) in by_home {
            let message = ToViews::Outputs { rank, version, source: source.clone(), hops, values };
            self.home.send(home, message, effects);
        }
    }

    /// What is looked up for a topic, while its outputs have to wait for that.
    fn note_watched(&mut self, rank: u32, key: Key, watched: Vec<Path>) {
        let buckets = self.views.made.entry(rank).or_default();
        buckets.resize_with(BUCKETS, Map::default);
        if let Some(bucket) = buckets.get_mut(bucket_of(key)) {
            bucket.entry(key).or_default().watched = watched.into();
        }
    }

    /// What is looked up for a topic at present.
    pub(super) fn watched_by(&self, rank: u32, key: Key) -> &[Path] {
        let buckets = self.views.made.get(&rank);
        let made = buckets.and_then(|buckets| buckets.get(bucket_of(key))?.get(&key));
        made.map_or(&[], |made| &made.watched)
    }
}

/// Whether a view follows a topic. As with subscriptions, wildcards do not guess private paths.
fn follows(view: &View, path: &Path, options: &BrokerOptions) -> bool {
    let comes_from = |name: &str| options.upstream_of(path).is_some_and(|it| *it.name == *name);
    view.upstream().is_none_or(comes_from)
        && view.sources().iter().any(|pattern| gathers(pattern, path))
}

fn form_of(kind: ValueType) -> Form {
    match kind {
        ValueType::Any => Form::Any,
        ValueType::Json | ValueType::Int64 | ValueType::Double => Form::Json,
        ValueType::Text => Form::Text,
        ValueType::Binary => Form::Bytes,
    }
}
