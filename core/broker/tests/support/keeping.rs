//! A store as brokers see it: takes their records, answers late, refuses, and survives crashes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use tiderace_broker::{
    DamagedRecord, LoadedRecord, NumbersGiven, RestoredMessages, RestoredQueue, RestoredRange,
    RestoredTopic, StoreLoad, StoreLoaded, StoreRecord, StoredKind, Unrestorable,
};

use super::World;

/// What one stream holds.
#[derive(Clone, Debug, Default)]
struct Stream {
    is_queue: bool,
    path: String,
    description: Vec<u8>,
    version: u64,
    /// By the version of the first: how many, how many of the first ones are gone, and the bytes.
    messages: BTreeMap<u64, (u32, u32, Vec<u8>)>,
    /// By the version of the only message: a body that lies in a file.
    bodies: BTreeMap<u64, Bytes>,
    /// Of a queue: versions that are settled.
    settled: BTreeSet<u64>,
}

/// A store under the hand of the test.
#[derive(Debug, Default)]
pub struct Keeping {
    streams: BTreeMap<u64, Stream>,
    values: BTreeMap<String, Vec<u8>>,
    next_stream: u64,
    /// By shard: batches on their way.
    batches: Vec<VecDeque<(u64, Vec<StoreRecord>)>>,
    /// By shard: what was read for it and is on its way.
    loaded: Vec<VecDeque<StoreLoaded>>,
    /// How often something was read.
    pub loads: usize,
    /// Records that were read by that.
    pub records_read: usize,
    answered: usize,
    /// Records of messages that were put.
    pub puts: usize,
    /// Streams of records that several have.
    pub shared: usize,
    /// Those of messages whose bodies lie in files.
    pub bodies_put: usize,
    /// The first versions of records that cannot be read.
    damaged: BTreeSet<u64>,
    /// Nothing that adds is taken.
    pub full: bool,
    pub refused: usize,
    /// No file of a body can be kept.
    pub keeps_no_bodies: bool,
    /// Records that were left out for that.
    pub bodies_refused: usize,
    /// Views that did not come back.
    pub not_restored: Vec<Unrestorable>,
}

impl Keeping {
    /// A crash: what was on its way is lost, but for what happened to be written already.
    pub fn crash(&mut self, world: &mut World) {
        for shard in 0..self.batches.len() {
            while !self.full
                && world.random.one_in(3)
                && let Some((_, batch)) = self.batches[shard].pop_front()
            {
                self.apply(batch);
            }
        }
        self.batches.clear();
        self.streams.retain(|stream, _| !is_volatile(*stream));
    }

    /// Gives what there is to the brokers of a new life.
    pub fn restore(&mut self, world: &mut World) {
        let shards = world.brokers.len();
        self.batches = (0..shards).map(|_| VecDeque::new()).collect();
        self.loaded = (0..shards).map(|_| VecDeque::new()).collect();
        let values = self.values.iter().map(|(name, value)| (name.as_str(), &value[..]));
        let given = NumbersGiven::find(values);
        self.apply(given.reserve(world.epoch, shards).into());
        for broker in &mut world.brokers {
            broker.begin_durability(self.next_stream + 1, &given);
            for (number, stream) in self.streams.iter().filter(|(_, stream)| stream.is_queue) {
                let queue = RestoredQueue {
                    stream: *number,
                    path: &stream.path,
                    description: &stream.description,
                    version: stream.version,
                    stored: &stream.stored(),
                };
                broker.restore_queue(world.now, &queue).unwrap();
            }
            for (number, stream) in self.streams.iter().filter(|(_, stream)| !stream.is_queue) {
                let messages: Vec<RestoredMessages<'_>> = stream
                    .messages
                    .iter()
                    .map(|(first, (_, gone, bytes))| RestoredMessages {
                        first: *first,
                        gone: *gone,
                        bytes,
                        body: stream.bodies.get(first),
                    })
                    .collect();
                let topic = RestoredTopic {
                    stream: *number,
                    path: &stream.path,
                    description: &stream.description,
                    version: stream.version,
                    messages: &messages,
                };
                broker.restore(world.now, &topic).unwrap();
            }
            let values = self.values.iter().map(|(name, value)| (name.as_str(), &value[..]));
            self.not_restored.extend(broker.restore_views(values));
            broker.end_restoring();
        }
    }

    /// Takes what a shard has to say.
    pub fn take(&mut self, world: &mut World, shard: usize) {
        if let Some(batch) = world.brokers[shard].take_records(&mut world.effects) {
            self.batches[shard].push_back((batch.up_to, batch.records));
        }
        for load in world.brokers[shard].take_loads() {
            let loaded = self.read(&load);
            self.loaded[shard].push_back(loaded);
        }
        world.absorb(shard);
    }

    /// Reads what a shard wants now; it may have to wait for it.
    fn read(&mut self, load: &StoreLoad) -> StoreLoaded {
        self.loads += 1;
        let mut loaded = StoreLoaded { ticket: load.ticket, ..StoreLoaded::default() };
        let streams = [Some(load.stream), load.beside].into_iter().flatten();
        let streams = streams.filter_map(|stream| self.streams.get(&stream));
        let mut found: Vec<_> = streams
            .flat_map(|stream| {
                let bodies = stream.messages.keys().map(|first| stream.bodies.get(first).cloned());
                stream.messages.iter().zip(stream.gone()).zip(bodies)
            })
            .collect();
        found.sort_by_key(|(((first, _), _), _)| **first);
        let mut bytes_read = 0;
        for (((first, (count, _, bytes)), gone), body) in found {
            let (first, count) = (*first, *count);
            if first + u64::from(count) <= load.first || first > load.last {
                continue;
            }
            bytes_read += bytes.len();
            if bytes_read > load.bytes_max
                && !(loaded.records.is_empty() && loaded.damaged.is_empty())
            {
                loaded.next = Some(first.max(load.first));
                break;
            }
            self.records_read += 1;
            if self.damaged.contains(&first) {
                loaded.damaged.push(DamagedRecord { first, count, gone });
            } else {
                let bytes = bytes.clone();
                loaded.records.push(LoadedRecord { first, count, gone, bytes, body });
            }
        }
        loaded
    }

    /// Gives a shard what was read first for it; false if there is nothing.
    pub fn give_loaded(&mut self, world: &mut World, shard: usize) -> bool {
        let Some(loaded) = self.loaded[shard].pop_front() else { return false };
        let unreadable = world.brokers[shard].loaded(world.now, loaded, &mut world.effects);
        assert!(unreadable.is_none() || !self.damaged.is_empty(), "{unreadable:?}");
        world.absorb(shard);
        true
    }

    /// Answers a shard's oldest batch; false if there is none.
    pub fn answer(&mut self, world: &mut World, shard: usize) -> bool {
        let Some((up_to, mut batch)) = self.batches[shard].pop_front() else { return false };
        self.answered += 1;
        batch.retain(|record| match record {
            StoreRecord::Put { body: Some(body), .. } if self.keeps_no_bodies => {
                self.bodies_refused += 1;
                world.brokers[shard].body_refused(body.record);
                false
            }
            _ => true,
        });
        let adds = |record: &StoreRecord| {
            use StoreRecord::{Drop, Settle, Trim, Unset};
            !matches!(record, Trim { .. } | Settle { .. } | Drop { .. } | Unset { .. })
        };
        let refused = self.full && batch.iter().any(adds) || !self.is_declared(&batch);
        if refused {
            self.refused += 1;
            let now = world.now;
            world.brokers[shard].store_failed(now, up_to, false, &mut world.effects);
        } else {
            self.apply(batch);
            world.brokers[shard].stored(world.now, up_to, &mut world.effects);
        }
        world.absorb(shard);
        true
    }

    /// Answers everything, and lets everybody take what there is, until nothing is left to be done.
    pub fn settle_down(&mut self, world: &mut World) {
        for _ in 0..10_000 {
            let before = (self.loads, self.answered);
            world.quiesce();
            self.finish(world);
            if before == (self.loads, self.answered) {
                return world.quiesce();
            }
        }
        panic!("it goes on for ever");
    }

    /// Answers everything.
    pub fn finish(&mut self, world: &mut World) {
        for shard in 0..self.batches.len() {
            loop {
                self.take(world, shard);
                let gave = self.give_loaded(world, shard);
                if !self.answer(world, shard) && !gave {
                    break;
                }
            }
        }
    }

    /// Every so many records of queues cannot be read from now on: how many messages these are.
    pub fn damage(&mut self, every: usize) -> usize {
        let queues = self.streams.values().filter(|stream| stream.is_queue);
        let records = queues.flat_map(|stream| &stream.messages).skip(every / 2).step_by(every);
        let found: Vec<(u64, usize)> =
            records.map(|(first, (count, ..))| (*first, *count as usize)).collect();
        self.damaged.extend(found.iter().map(|(first, _)| *first));
        found.iter().map(|(_, count)| count).sum()
    }

    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Views that clients have put.
    pub fn views(&self) -> usize {
        self.values.keys().filter(|name| name.starts_with("views/")).count()
    }

    /// Messages of queues that are not settled.
    pub fn queued(&self) -> usize {
        let queues = self
            .streams
            .iter()
            .filter(|(number, stream)| stream.is_queue && !is_volatile(**number));
        let queues = queues.map(|(_, stream)| stream);
        let left = |stream: &Stream| {
            let all = stream
                .messages
                .iter()
                .flat_map(|(first, (count, ..))| *first..*first + u64::from(*count));
            all.filter(|version| !stream.settled.contains(version)).count()
        };
        queues.map(left).sum()
    }

    /// Messages of all streams.
    pub fn messages(&self) -> usize {
        self.streams.values().map(|stream| stream.messages.len()).sum()
    }

    fn is_declared(&self, batch: &[StoreRecord]) -> bool {
        let mut declared: Vec<u64> = self.streams.keys().copied().collect();
        batch.iter().all(|record| {
            match record {
                StoreRecord::Declare { stream, .. } => declared.push(*stream),
                StoreRecord::PutShared { owners, .. } => {
                    let mut owners = owners.iter().map(|(stream, _)| stream);
                    return owners.all(|it| is_volatile(*it) || declared.contains(it));
                }
                StoreRecord::Put { stream, .. } => {
                    return is_volatile(*stream) || declared.contains(stream);
                }
                _ => {}
            }
            true
        })
    }

    fn settle(&mut self, stream: u64, ranges: Vec<(u64, u64)>) {
        assert!(ranges.iter().all(|(first, last)| first <= last));
        assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{ranges:?}");
        let Some(known) = self.streams.get_mut(&stream) else { return };
        for (first, last) in ranges {
            known.settled.extend(first..=last);
        }
        known.forget_settled();
    }

    fn apply(&mut self, batch: Vec<StoreRecord>) {
        for record in batch {
            match record {
                StoreRecord::Declare { stream, kind, path, description, version } => {
                    self.next_stream = self.next_stream.max(stream);
                    let known = self.streams.entry(stream).or_default();
                    known.is_queue = kind == StoredKind::Queue;
                    known.path = path.to_string();
                    known.description = description;
                    known.version = known.version.max(version);
                }
                StoreRecord::Put { stream, first, count, keep_from, bytes, body } => {
                    self.puts += 1;
                    self.bodies_put += usize::from(body.is_some());
                    if is_volatile(stream) {
                        self.streams.entry(stream).or_default();
                    }
                    let Some(known) = self.streams.get_mut(&stream) else { continue };
                    known.trim(keep_from.saturating_sub(1));
                    known.messages.insert(first, (count, 0, bytes));
                    known.bodies.remove(&first);
                    let settles = body.as_ref().map(|body| body.settles.clone());
                    known.bodies.extend(body.map(|body| (first, body.bytes)));
                    known.version = known.version.max(first + u64::from(count) - 1);
                    for (stream, ranges) in settles.unwrap_or_default() {
                        self.settle(stream, ranges);
                    }
                }
                StoreRecord::PutShared { owners, count, bytes } => {
                    self.puts += 1;
                    self.shared += owners.len();
                    let (mut streams, all) = (owners.clone(), owners.len());
                    streams.sort_unstable();
                    streams.dedup_by_key(|(stream, _)| *stream);
                    assert_eq!(streams.len(), all, "each stream once");
                    let first_is = is_volatile(owners[0].0);
                    assert!(owners.iter().all(|(stream, _)| is_volatile(*stream) == first_is));
                    for (stream, first) in owners {
                        if first_is {
                            self.streams.entry(stream).or_default();
                        }
                        let Some(known) = self.streams.get_mut(&stream) else { continue };
                        known.messages.insert(first, (count, 0, bytes.clone()));
                        known.version = known.version.max(first + u64::from(count) - 1);
                    }
                }
                StoreRecord::Trim { stream, up_to } => {
                    if let Some(known) = self.streams.get_mut(&stream) {
                        known.trim(up_to);
                    }
                }
                StoreRecord::Settle { stream, ranges } => self.settle(stream, ranges),
                StoreRecord::Drop { stream } => {
                    self.streams.remove(&stream);
                }
                StoreRecord::Set { name, value } => {
                    self.values.insert(name, value);
                }
                StoreRecord::Unset { name } => {
                    self.values.remove(&name);
                }
            }
        }
    }
}

/// Whether a stream ends with the server.
fn is_volatile(stream: u64) -> bool {
    stream >> 63 == 1
}

impl Stream {
    /// Which messages are there.
    fn stored(&self) -> Vec<RestoredRange> {
        let mut stored: Vec<RestoredRange> = Vec::new();
        for (first, (count, _, bytes)) in &self.messages {
            for version in *first..*first + u64::from(*count) {
                let bytes = bytes.len() as u64 / u64::from(*count);
                match stored.last_mut() {
                    _ if self.settled.contains(&version) => {}
                    Some(last) if last.last + 1 == version => {
                        last.last = version;
                        last.bytes += bytes;
                    }
                    _ => stored.push(RestoredRange { first: version, last: version, bytes }),
                }
            }
        }
        stored
    }

    /// The stretches of each record that are settled.
    fn gone(&self) -> Vec<Vec<(u64, u64)>> {
        let gone_of = |(first, (count, ..)): (&u64, &(u32, u32, Vec<u8>))| {
            let mut gone: Vec<(u64, u64)> = Vec::new();
            for version in self.settled.range(*first..*first + u64::from(*count)) {
                match gone.last_mut() {
                    Some(last) if last.1 + 1 == *version => last.1 = *version,
                    _ => gone.push((*version, *version)),
                }
            }
            gone
        };
        self.messages.iter().map(gone_of).collect()
    }

    fn forget_settled(&mut self) {
        let settled = &self.settled;
        self.messages.retain(|first, (count, ..)| {
            (*first..*first + u64::from(*count)).any(|version| !settled.contains(&version))
        });
    }

    fn trim(&mut self, up_to: u64) {
        self.messages.retain(|first, (count, gone, _)| {
            *gone = (*gone).max((up_to + 1).saturating_sub(*first).min(u64::from(*count)) as u32);
            gone < count
        });
    }
}

impl World {
    /// The store has failed for good.
    pub fn fail_store(&mut self) {
        for shard in 0..self.brokers.len() {
            if let Some(taken) = self.brokers[shard].take_records(&mut self.effects) {
                self.brokers[shard].store_failed(self.now, taken.up_to, true, &mut self.effects);
            }
            self.absorb(shard);
        }
    }
}
