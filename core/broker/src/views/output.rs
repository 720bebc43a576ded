//! At an output's home: what the views give to it, which of that it shows, and when.
//!
//! Of several views that give to one output the earliest counts; of several sources of that view the
//! one that was updated last, or all of them merged. Relies on each source's home taking back what it
//! has given. Invariants: an output is a topic that the server alone publishes to, as long as somebody
//! gives to it; a value that stands in the topic is not kept a second time, unless it is merged.

use std::collections::VecDeque;
use std::sync::Arc;

use tiderace_base::{Key, MemoryUse, Now, Span};
use tiderace_topics::Path;
use tiderace_value::Json;
use tiderace_views::{Throttle, merge};
use tiderace_wire::{Destination, Flags, Kind, Meta, Run, TopicSpec, ValueType, is_temporary};

use super::buckets::bucket_of;
use super::outputs::{Delayed, Given};
use super::registrar::output_spec;
use super::{Job, LOOK_WORK};
use crate::authorise::is_reserved;
use crate::effects::Effects;
use crate::publisher::Publisher;
use crate::publisher::Values;
use crate::view_side::ViewSide;

/// Bytes that may wait for their delay on one shard.
const DELAYED_BYTES_MAX: usize = 64 << 20;
/// Delayed values and outputs held back that are published in one tick.
const DUE_MAX: usize = 10_000;

impl ViewSide<'_> {
    /// What a view makes of a source for one output, or that it makes nothing any more.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn take_output(
        &mut self,
        now: Now,
        rank: u32,
        source: &Path,
        path: Path,
        value: Option<Box<[u8]>>,
        hops: u8,
        effects: &mut Effects,
    ) {
        let Some(entry) = self.views.known.get(&rank) else { return };
        let delay_ms = entry.view.options().delay_ms;
        // What its former text has delayed goes first, or it would come over what is newer.
        if delay_ms.is_none() && !self.views.outputs.has_delayed(rank) {
            return self.give_output(now, rank, source, &path, value, hops, effects);
        }
        let due = now.time + Span::from_millis(delay_ms.unwrap_or(0));
        let delayed = Delayed { due, source: source.clone(), path, value, hops };
        let outputs = &mut self.views.outputs;
        outputs.delayed_bytes += delayed.bytes();
        let queue = outputs.delayed.entry(rank).or_default();
        queue.push_back(delayed);
        while self.views.outputs.delayed_bytes > DELAYED_BYTES_MAX
            && self.drop_delayed(now, rank, effects)
        {}
    }

    /// Leaves out what a view has delayed longest; a removal comes early instead, since nothing would
    /// come after it. False if nothing is delayed.
    fn drop_delayed(&mut self, now: Now, rank: u32, effects: &mut Effects) -> bool {
        let outputs = &mut self.views.outputs;
        let oldest = outputs.delayed.get_mut(&rank).and_then(VecDeque::pop_front);
        let Some(oldest) = oldest else { return false };
        outputs.delayed_bytes -= oldest.bytes();
        let Delayed { source, path, value, hops, .. } = oldest;
        if value.is_none() {
            self.give_output(now, rank, &source, &path, None, hops, effects);
        } else {
            let problem = format!("too much is delayed: a value of {path} was left out");
            self.view_problem(rank, problem);
        }
        true
    }

    /// The same, when its time has come.
    #[allow(clippy::too_many_arguments)]
    fn give_output(
        &mut self,
        now: Now,
        rank: u32,
        source: &Path,
        path: &Path,
        value: Option<Box<[u8]>>,
        hops: u8,
        effects: &mut Effects,
    ) {
        let Some(key) = self.output_at(now, rank, path, value.as_deref()) else { return };
        if !self.has_memory(key, rank, source, value.as_deref()) {
            let problem = format!("{path}: there is no memory for more values");
            return self.view_problem(rank, problem);
        }
        let Some(output) = self.views.outputs.ensure(key) else { return };
        output.hops = hops;
        let (before, after) = output.give(rank, source, value);
        self.home.memory.change(MemoryUse::Views, before, after);
        self.show_soon(now, key, effects);
    }

    /// Whether what a source gives fits into memory; what takes no more than before does.
    fn has_memory(&self, key: Key, rank: u32, source: &Path, value: Option<&[u8]>) -> bool {
        let outputs = &self.views.outputs;
        let bytes = value.map_or(0, <[u8]>::len);
        if self.home.memory.has_room(MemoryUse::Views, bytes) {
            return true;
        }
        let shown = || {
            let retained = self.home.topic(key)?.home()?.value()?;
            Some(retained.message(0)?.body.len())
        };
        let same = |given: &&Given| given.rank == rank && given.source == *source;
        let before = outputs.output(key).and_then(|output| output.given.iter().find(same));
        let before = before.and_then(|given| given.value.as_ref().map(|v| v.len()).or_else(shown));
        bytes <= before.unwrap_or(0)
    }

    /// The topic that is or becomes an output; nothing if it cannot be one.
    fn output_at(&mut self, now: Now, rank: u32, path: &Path, value: Option<&[u8]>) -> Option<Key> {
        let known = self.home.directory.find(path);
        if let Some(key) = known.filter(|key| self.views.outputs.output(*key).is_some()) {
            return Some(key);
        }
        let bytes = value?.len();
        let topic = known.and_then(|key| self.home.topic(key));
        let taken = topic.and_then(|topic| topic.home()).is_some_and(|home| {
            let claimed = home.guard().is_some_and(|guard| guard.is_claimed());
            home.is_created() || home.value().is_some() || claimed
        });
        if is_reserved(path) || is_temporary(path) {
            self.view_problem(
                rank,
                format!("{path}: views write neither below $sys nor below temp"),
            );
        } else if let Some(upstream) = self.home.options.upstream_of(path) {
            let name = &upstream.name;
            self.view_problem(
                rank,
                format!(
                    "{path} is a topic of the upstream {name}; outputs are topics of this server"
                ),
            );
        } else if taken {
            self.view_problem(rank, format!("{path} is a topic of its own already"));
        } else if !self.home.memory.has_room(MemoryUse::Views, bytes) {
            self.view_problem(rank, format!("{path}: there is no memory for more values"));
        } else {
            return Some(self.home.directory.ensure(now, path));
        }
        None
    }

    /// Shows what has changed: at once, or once for many changes if it has to be merged.
    fn show_soon(&mut self, now: Now, key: Key, effects: &mut Effects) {
        let merges = self.winner(key).is_some_and(|(_, merges)| merges);
        if !merges {
            return self.show(now, key, effects);
        }
        if let Some(output) = self.views.outputs.output_mut(key)
            && !std::mem::replace(&mut output.waiting, true)
        {
            self.views.jobs.push_back(Job::Show(key));
        }
    }

    /// A merged output's turn has come; the work that was done.
    pub(super) fn show_merged(&mut self, now: Now, key: Key, effects: &mut Effects) -> u32 {
        let Some(output) = self.views.outputs.output_mut(key) else { return LOOK_WORK };
        output.waiting = false;
        let work = LOOK_WORK * u32::try_from(output.given.len()).unwrap_or(u32::MAX).max(1);
        self.show(now, key, effects);
        work
    }

    /// Which view's value an output shows, and whether that merges.
    fn winner(&self, key: Key) -> Option<(u32, bool)> {
        let output = self.views.outputs.output(key)?;
        let known = |given: &&Given| self.views.known.contains_key(&given.rank);
        let rank = output.given.iter().filter(known).map(|given| given.rank).min()?;
        let entry = self.views.known.get(&rank)?;
        Some((rank, entry.view.options().merge))
    }

    /// Publishes what an output is to show, unless it does or has to wait. A value that its topic does
    /// not take is as if it were not given: the one before counts.
    fn show(&mut self, now: Now, key: Key, effects: &mut Effects) {
        while let Some((rank, refused)) = self.show_next(now, key, effects)
            && let Some(output) = self.views.outputs.output_mut(key)
            && output.given.get(refused).is_some_and(|given| given.rank == rank)
        {
            output.given.remove(refused);
        }
    }

    /// The same once; the view and the place of the giver whose value was refused.
    fn show_next(&mut self, now: Now, key: Key, effects: &mut Effects) -> Option<(u32, usize)> {
        let Some((rank, merges)) = self.winner(key) else {
            self.end_output(now, key, effects);
            return None;
        };
        let output = self.views.outputs.output(key)?;
        let last = output.given.iter().rposition(|given| given.rank == rank);
        let value = |at: usize| output.given.get(at).and_then(|given| given.value.as_ref());
        if output.waiting || !merges && last.and_then(value).is_none() {
            return None;
        }
        if self.is_held_back(now, key, rank) {
            return None;
        }
        self.take_shown_back(key);
        let body = if merges { self.merged(key, rank) } else { self.taken(key, last) };
        let is_taken = self.publish_output(now, key, rank, &body?, effects);
        last.filter(|_| !merges && !is_taken).map(|place| (rank, place))
    }

    /// Whether the view's throttle lets an output wait; it is then shown when its window is over.
    fn is_held_back(&mut self, now: Now, key: Key, rank: u32) -> bool {
        let entry = self.views.known.get(&rank);
        let throttle = entry.and_then(|entry| entry.view.options().throttle);
        let outputs = &mut self.views.outputs;
        let output = outputs.buckets.get_mut(bucket_of(key)).and_then(|all| all.get_mut(&key));
        let (Some(Throttle { updates, window_ms }), Some(output)) = (throttle, output) else {
            return false;
        };
        let span = Span::from_millis(window_ms);
        match &mut output.window {
            Some((begin, count)) if now.time < *begin + span => {
                if *count < updates {
                    *count += 1;
                    return false;
                }
                let until = *begin + span;
                outputs.hold_back(key, until);
                true
            }
            window => {
                *window = Some((now.time, 1));
                false
            }
        }
    }

    /// What stands in the topic is going to be replaced: its publisher keeps it.
    fn take_shown_back(&mut self, key: Key) {
        let topic = self.home.topic(key);
        let retained = topic.and_then(|topic| topic.home()?.value().cloned());
        let Some(output) = self.views.outputs.output_mut(key) else { return };
        let Some(given) = output.given.iter_mut().find(|given| given.value.is_none()) else {
            return;
        };
        let body = retained.as_ref().and_then(|run| run.message(0)).map(|message| message.body);
        let body: Box<[u8]> = body.unwrap_or_default().into();
        let bytes = body.len();
        given.value = Some(body);
        self.home.memory.charge(MemoryUse::Views, bytes);
    }

    /// The value of one giver, which goes into the topic.
    fn taken(&mut self, key: Key, at: Option<usize>) -> Option<Box<[u8]>> {
        let value = self.views.outputs.output_mut(key)?.given.get_mut(at?)?.value.take()?;
        self.home.memory.refund(MemoryUse::Views, value.len());
        Some(value)
    }

    /// All values of a view in the order of their sources' paths, merged; nothing if the topic has
    /// that already.
    fn merged(&mut self, key: Key, rank: u32) -> Option<Box<[u8]>> {
        let output = self.views.outputs.output(key)?;
        let mut given: Vec<&Given> =
            output.given.iter().filter(|given| given.rank == rank).collect();
        given.sort_unstable_by(|left, right| left.source.cmp(&right.source));
        let values = given.iter().filter_map(|given| given.value.as_deref());
        let merged = merge(values, self.views.limits);
        let topic = self.home.topic(key)?;
        let retained = topic.home().and_then(|home| home.value()?.message(0));
        match merged {
            Ok(merged) => {
                let shown = retained.map(|message| message.body);
                merged.filter(|merged| shown != Some(merged)).map(Into::into)
            }
            Err(stop) => {
                let problem = format!("{}: {stop}", topic.path());
                self.view_problem(rank, problem);
                None
            }
        }
    }

    /// Publishes a value; false if its topic does not take it.
    fn publish_output(
        &mut self,
        now: Now,
        key: Key,
        rank: u32,
        body: &[u8],
        effects: &mut Effects,
    ) -> bool {
        let Some(path) = self.home.directory.get(key).map(|topic| topic.path.clone()) else {
            return false;
        };
        let Some(spec) = self.spec_of_outputs(rank, &path) else { return false };
        let value = spec.value;
        let topic = self.home.topic(key);
        let made = topic.is_some_and(|topic| {
            *topic.spec() == spec && topic.home().is_some_and(|home| home.is_created())
        });
        if !made {
            self.home.make_known(now, &path, spec, effects);
        }
        if let Some(home) = self.home.topic_mut(key) {
            home.guard_or_new().set_read_only(true);
        }
        let destination = Destination { kind: Kind::Topic, path: path.clone() };
        let meta = Meta { flags: Flags::RETAIN, expires_ms: None };
        let properties = content_of(value, body);
        let run = Run::single(destination, now.time, properties, body, meta);
        self.home.relieve_feeds(now, effects);
        let result =
            self.home.distribute(now, key, run, &Publisher::default(), Values::Unchecked, effects);
        let is_taken = result.is_ok();
        if let Err(close) = result {
            self.view_problem(rank, format!("{path}: {}", close.reason));
        }
        is_taken
    }

    /// What the outputs of a view are on a path.
    fn spec_of_outputs(&mut self, rank: u32, path: &Path) -> Option<Arc<TopicSpec>> {
        let base = self.home.options.topic(path).clone();
        let entry = self.views.known.get_mut(&rank)?;
        if let Some((known, spec)) = &entry.spec
            && Arc::ptr_eq(known, &base)
        {
            return Some(spec.clone());
        }
        match output_spec(&entry.view, &base) {
            Ok(spec) => {
                let spec = Arc::new(spec);
                entry.spec = Some((base, spec.clone()));
                Some(spec)
            }
            Err(close) => {
                self.view_problem(rank, format!("{path}: {}", close.reason));
                None
            }
        }
    }

    /// Nobody gives to an output any more: it is a topic like others, and gone.
    fn end_output(&mut self, now: Now, key: Key, effects: &mut Effects) {
        let held = self.views.outputs.output(key).map_or(0, |output| {
            output.given.iter().filter_map(|given| given.value.as_ref()).map(|v| v.len()).sum()
        });
        self.home.memory.refund(MemoryUse::Views, held);
        if let Some(home) = self.home.topic_mut(key) {
            if let Some(guard) = home.guard_mut() {
                guard.set_read_only(false);
            }
            home.tidy_guard();
        }
        self.home.remove_topic(now, key, effects);
        self.views.outputs.end(key);
    }

    /// A view is gone: takes what it has given to the outputs of one bucket back.
    pub(super) fn retract(
        &mut self,
        now: Now,
        rank: u32,
        bucket: usize,
        effects: &mut Effects,
    ) -> u32 {
        let outputs = self.views.outputs.buckets.get_mut(bucket);
        let mut touched: Vec<Key> = Vec::new();
        let (mut looked_at, mut freed) = (0, 0);
        for (key, output) in outputs.into_iter().flat_map(|outputs| outputs.iter_mut()) {
            looked_at += 1;
            if !output.given.iter().any(|given| given.rank == rank) {
                continue;
            }
            touched.push(*key);
            output.given.retain(|given| {
                let stays = given.rank != rank;
                freed += given.value.as_ref().filter(|_| !stays).map_or(0, |value| value.len());
                stays
            });
        }
        self.home.memory.refund(MemoryUse::Views, freed);
        let work = looked_at + LOOK_WORK * u32::try_from(touched.len()).unwrap_or(u32::MAX);
        for key in touched {
            // What held it back may have been this view's throttle; another's does so again.
            self.views.outputs.release(key);
            self.show_soon(now, key, effects);
        }
        work + LOOK_WORK
    }

    /// Publishes what was delayed or held back until now.
    pub(super) fn publish_due(&mut self, now: Now, effects: &mut Effects) {
        let mut left = DUE_MAX;
        let ranks: Vec<u32> = self.views.outputs.delayed.keys().copied().collect();
        for rank in ranks {
            while left > 0
                && let Some(queue) = self.views.outputs.delayed.get_mut(&rank)
                && queue.front().is_some_and(|delayed| delayed.due <= now.time)
                && let Some(due) = queue.pop_front()
            {
                left -= 1;
                self.views.outputs.delayed_bytes -= due.bytes();
                let Delayed { source, path, value, hops, .. } = due;
                self.give_output(now, rank, &source, &path, value, hops, effects);
            }
        }
        while left > 0
            && let Some((due, key)) = self.views.outputs.paced.first().copied()
            && due <= now.time
        {
            left -= 1;
            self.views.outputs.release(key);
            self.show(now, key, effects);
        }
    }
}

/// The properties of an output: what its value is, by its topic's type or by the look of it.
fn content_of(value: ValueType, body: &[u8]) -> &'static [u8] {
    match value {
        ValueType::Json | ValueType::Int64 | ValueType::Double => super::JSON,
        ValueType::Text => b"content-type:text/plain\n",
        ValueType::Binary => b"content-type:application/octet-stream\n",
        ValueType::Any if Json::parse(body, tiderace_value::DEPTH_MAX).is_ok() => super::JSON,
        ValueType::Any => b"",
    }
}
