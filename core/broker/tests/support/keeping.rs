//! A store as brokers see it: takes their records, answers late, refuses, and survives crashes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tiderace_broker::{
    NumbersGiven, RestoredMessages, RestoredQueue, RestoredRecord, RestoredTopic, StoreRecord,
    StoredKind, Unrestorable,
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
    /// Nothing that adds is taken.
    pub full: bool,
    pub refused: usize,
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
    }

    /// Gives what there is to the brokers of a new life.
    pub fn restore(&mut self, world: &mut World) {
        let shards = world.brokers.len();
        self.batches = (0..shards).map(|_| VecDeque::new()).collect();
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
                };
                let Some(queue) = broker.restore_queue(world.now, &queue).unwrap() else {
                    continue;
                };
                for ((first, (_, _, bytes)), gone) in stream.messages.iter().zip(stream.gone()) {
                    let record = RestoredRecord { first: *first, gone: &gone, bytes };
                    broker.restore_messages(world.now, &queue, &record).unwrap();
                }
            }
            for (number, stream) in self.streams.iter().filter(|(_, stream)| !stream.is_queue) {
                let messages: Vec<RestoredMessages<'_>> = stream
                    .messages
                    .iter()
                    .map(|(first, (_, gone, bytes))| RestoredMessages {
                        first: *first,
                        gone: *gone,
                        bytes,
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
            self.batches[shard].push_back(batch);
        }
        world.absorb(shard);
    }

    /// Answers a shard's oldest batch; false if there is none.
    pub fn answer(&mut self, world: &mut World, shard: usize) -> bool {
        let Some((up_to, batch)) = self.batches[shard].pop_front() else { return false };
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

    /// Answers everything.
    pub fn finish(&mut self, world: &mut World) {
        for shard in 0..self.batches.len() {
            loop {
                self.take(world, shard);
                if !self.answer(world, shard) {
                    break;
                }
            }
        }
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
        let queues = self.streams.values().filter(|stream| stream.is_queue);
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
                StoreRecord::Put { stream, .. } => return declared.contains(stream),
                _ => {}
            }
            true
        })
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
                StoreRecord::Put { stream, first, count, keep_from, bytes } => {
                    let Some(known) = self.streams.get_mut(&stream) else { continue };
                    known.trim(keep_from.saturating_sub(1));
                    known.messages.insert(first, (count, 0, bytes));
                    known.version = known.version.max(first + u64::from(count) - 1);
                }
                StoreRecord::Trim { stream, up_to } => {
                    if let Some(known) = self.streams.get_mut(&stream) {
                        known.trim(up_to);
                    }
                }
                StoreRecord::Settle { stream, ranges } => {
                    assert!(ranges.iter().all(|(first, last)| first <= last));
                    assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{ranges:?}");
                    let Some(known) = self.streams.get_mut(&stream) else { continue };
                    for (first, last) in ranges {
                        known.settled.extend(first..=last);
                    }
                    known.forget_settled();
                }
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

impl Stream {
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
            if let Some((up_to, _)) = self.brokers[shard].take_records(&mut self.effects) {
                self.brokers[shard].store_failed(self.now, up_to, true, &mut self.effects);
            }
            self.absorb(shard);
        }
    }
}
