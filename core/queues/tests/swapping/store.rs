//! A store that answers late, and has damage.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tiderace_base::ShardId;
use tiderace_queues::{LoadedPart, LoadedRun};
use tiderace_wire::{Run, rank_of};

/// What the store was told and has not answered.
#[derive(Debug)]
pub enum Told {
    Put { stream: u64, run: Arc<Run> },
    Gone { first: u64, last: u64, is_outside: bool },
}

#[derive(Debug)]
pub struct Load {
    pub streams: Vec<u64>,
    pub first: u64,
    pub last: u64,
    pub bytes_max: usize,
}

#[derive(Debug, Default)]
pub struct Store {
    pub told: VecDeque<Told>,
    /// By stream and version of the first.
    pub puts: BTreeMap<(u64, u64), Arc<Run>>,
    pub gone: BTreeSet<u64>,
    pub asked: VecDeque<Load>,
    pub read: VecDeque<LoadedPart>,
    pub loads: usize,
    /// Records that cannot be read, by the version of the first.
    pub damaged: BTreeSet<u64>,
}

impl Store {
    /// Messages that it has.
    pub fn left(&self) -> Vec<u64> {
        let all = self
            .puts
            .values()
            .flat_map(|run| run.queue_version()..run.queue_version() + run.len() as u64);
        all.filter(|version| !self.gone.contains(version)).collect()
    }

    /// What was asked for first cannot be read just now.
    pub fn stall(&mut self) {
        let Some(load) = self.asked.pop_front() else { return };
        self.read.push_back(LoadedPart { through: load.first - 1, ..LoadedPart::default() });
    }

    pub fn read_next(&mut self, numbers: &mut u64) {
        let Some(load) = self.asked.pop_front() else { return };
        assert_eq!(rank_of(load.first), rank_of(load.last), "a part lies in one range");
        let mut part = LoadedPart { through: load.last, ..LoadedPart::default() };
        let mut found: Vec<(u64, Arc<Run>)> = Vec::new();
        for stream in &load.streams {
            let (mut bytes, mut count) = (0, 0);
            for ((_, first), run) in self.puts.range((*stream, 0)..=(*stream, load.last)) {
                let left = (*first..first + run.len() as u64).any(|it| !self.gone.contains(&it));
                if first + (run.len() as u64) <= load.first || !left {
                    continue;
                }
                bytes += run.bytes();
                count += 1;
                if bytes > load.bytes_max && count > 1 {
                    part.through = part.through.min(first - 1);
                    break;
                }
                found.push((*first, run.clone()));
            }
        }
        found.sort_by_key(|(first, _)| *first);
        for (first, run) in found.into_iter().filter(|(first, _)| *first <= part.through) {
            let versions = first..first + run.len() as u64;
            let there: Vec<(u32, u32)> = versions
                .zip(0..)
                .filter(|(version, _)| !self.gone.contains(version))
                .map(|(_, place)| (place, place + 1))
                .collect();
            if self.damaged.contains(&first) {
                let version = |place: u32| first + u64::from(place);
                part.unreadable
                    .extend(there.iter().map(|(from, _)| (version(*from), version(*from))));
                continue;
            }
            let mut run = (*run).clone();
            run.number(ShardId(0), *numbers);
            *numbers += run.len() as u64;
            part.runs.push(LoadedRun { run: Arc::new(run), there });
        }
        self.read.push_back(part);
    }
}
