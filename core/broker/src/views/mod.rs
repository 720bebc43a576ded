//! Topic views: every shard holds all of them; each shard evaluates them for the topics whose home it
//! is, and keeps the outputs whose home it is.
//!
//! ```text
//!  registrar (shard 0)      source's home                       output's home
//!  number, check ──Put──▶  walk topics, follow them ──Outputs──▶ delay, choose or merge, throttle,
//!                           evaluate, compare                     publish ─▶ distribute ─▶ …
//!                              ▲  └──Watch──▶ home of an inserted topic ──Watched──┘ (back)
//! ```
//! Relies on messages between two shards keeping their order, and on versions that the registrar gives to
//! every change of the set of views: who hears of an output before its view keeps it until then.
//! Invariants: a topic that no view follows costs one comparison per message; work is done in slices
//! with a budget per turn; when everything has come to rest, the outputs are those that the views make
//! of the current values; chains end after [`HOPS_MAX`] views.

mod buckets;
mod made;
mod messages;
mod output;
mod outputs;
mod peer_lost;
mod registrar;
mod source;
mod watch;

use std::collections::VecDeque;
use std::sync::Arc;

use tiderace_base::{Key, Time};
use tiderace_topics::{Path, Pattern, PatternIndex};
use tiderace_views::{Limits, View};
use tiderace_wire::TopicSpec;

use crate::collections::Map;
use crate::messages::ToViews;

use self::made::{Changed, Made, Watch};
use self::outputs::Outputs;

/// The properties of values that are JSON.
pub(crate) const JSON: &[u8] = b"content-type:application/json\n";
/// Views that follow each other, at most.
pub(crate) const HOPS_MAX: u8 = 8;
/// Views of one node.
const VIEWS_MAX: usize = 1_000;
/// Units of work in one turn; what is left goes on in the next. See [`Limits::work_max`].
const TURN_WORK: u32 = 400_000;
/// What announcing one output counts for besides the evaluation.
const OUTPUT_WORK: u32 = 100;
/// What looking at one topic counts for besides the evaluation.
const LOOK_WORK: u32 = 50;
/// Messages about views that are not known yet.
const EARLY_MAX: usize = 10_000;

/// A view as a shard knows it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: Path,
    pub(crate) view: Arc<View>,
    /// The specification of its outputs by what the configuration says of their paths, as found last.
    spec: Option<(Arc<TopicSpec>, Arc<TopicSpec>)>,
    /// At the registrar: what could not be done, how often, and whether that is news.
    problems: u64,
    last_problem: String,
    told: bool,
    /// At the registrar: the number under which the store keeps it.
    kept: Option<u64>,
}

/// Something that is done in slices.
#[derive(Debug)]
enum Job {
    /// A topic has changed: evaluate the views that follow it.
    Changed(Key),
    /// The same, of the views that were not evaluated yet: the last of these is next.
    Evaluate { key: Key, ranks: Vec<u32>, changed: Changed },
    /// A view has come: evaluate it for the topics of one of its patterns.
    Walk { rank: u32, pattern: usize, after: Option<Path> },
    /// A view has changed: evaluate it for the topics that the one before it followed.
    Revisit { rank: u32, bucket: usize },
    /// A view has gone: forget what was made.
    Forget { rank: u32, made: Vec<Map<Key, Made>> },
    /// A view has gone: take its outputs back.
    Retract { rank: u32, bucket: usize },
    /// A merged output has changed: merge it.
    Show(Key),
    /// The value of a topic has expired: tell those that insert it.
    Tell(Key),
    /// A topic that is inserted elsewhere has changed: evaluate again what it is inserted into.
    Watched { path: Path, after: Option<(u32, Key)> },
}

impl Job {
    /// Whether nothing is left of an evaluation.
    fn is_over(&self) -> bool {
        matches!(self, Job::Evaluate { ranks, .. } if ranks.is_empty())
    }
}

/// A shard's part in all views.
#[derive(Debug)]
pub(crate) struct Views {
    /// By rank.
    known: Map<u32, Entry>,
    index: PatternIndex<u32>,
    /// Counts the changes of the index, for topics to know whether what they found still holds.
    generation: u32,
    /// The last change that was heard of here.
    version: u64,
    /// Messages that speak of later changes.
    early: Vec<ToViews>,
    /// At the registrar: the next view's.
    next_rank: u32,
    /// At the registrar: the last number under which the store keeps a view.
    last_kept: u64,
    jobs: VecDeque<Job>,
    turn: Time,
    left: u32,
    changed: Map<Key, Changed>,
    /// What the views have made of topics whose home this is: by rank, in buckets.
    made: Map<u32, Vec<Map<Key, Made>>>,
    /// Topics that are inserted into others.
    watches: Map<Path, Watch>,
    outputs: Outputs,
    /// What could not be done since the last report, by rank.
    problems: Map<u32, (String, u64)>,
    problems_due: Time,
    limits: Limits,
}

impl Default for Views {
    fn default() -> Views {
        Views {
            known: Map::default(),
            index: PatternIndex::default(),
            generation: 1,
            version: 0,
            early: Vec::new(),
            next_rank: 1,
            last_kept: 0,
            jobs: VecDeque::new(),
            turn: Time::ZERO,
            left: TURN_WORK,
            changed: Map::default(),
            made: Map::default(),
            watches: Map::default(),
            outputs: Outputs::default(),
            problems: Map::default(),
            problems_due: Time::ZERO,
            limits: Limits::default(),
        }
    }
}

impl Views {
    /// At the registrar: something of a view could not be done.
    fn note_problem(&mut self, rank: u32, problem: String, count: u64) {
        let Some(entry) = self.known.get_mut(&rank) else { return };
        entry.problems += count;
        entry.last_problem = problem;
        entry.told = false;
    }

    /// A shard's part in the views that are there from the start. All shards have the same, so
    /// nobody has to announce them. What a view makes is a message of at most so many bytes.
    pub(crate) fn new(texts: &[(Path, Box<str>)], message_bytes_max: usize) -> Views {
        let mut views = Views::default();
        let limits = &mut views.limits;
        limits.output_bytes_max = limits.output_bytes_max.min(message_bytes_max);
        for (name, text) in texts {
            if let Ok(view) = View::parse(text) {
                views.begin(name.clone(), Arc::new(view));
            }
        }
        views
    }

    /// A view is there from the start, behind those that are: its rank.
    fn begin(&mut self, name: Path, view: Arc<View>) -> u32 {
        let rank = self.next_rank;
        self.next_rank += 1;
        self.put(name, view, rank, self.version + 1);
        rank
    }

    /// The same of one that the store has kept under a number.
    pub(crate) fn take_back(&mut self, name: Path, view: Arc<View>, number: u64) {
        let rank = self.begin(name, view);
        if let Some(entry) = self.known.get_mut(&rank) {
            entry.kept = Some(number);
        }
    }

    /// The store has kept views under numbers up to this.
    pub(crate) fn kept_until(&mut self, number: u64) {
        self.last_kept = number;
    }

    /// The view that is kept under a number.
    pub(crate) fn kept_as(&self, number: u64) -> Option<(&Path, &View)> {
        let entry = self.known.values().find(|entry| entry.kept == Some(number))?;
        Some((&entry.name, &entry.view))
    }

    /// A view begins here, or changes.
    fn put(&mut self, name: Path, view: Arc<View>, rank: u32, version: u64) {
        self.version = self.version.max(version);
        self.generation += 1;
        let entry = Entry {
            name,
            view: view.clone(),
            spec: None,
            problems: 0,
            last_problem: String::new(),
            told: false,
            kept: None,
        };
        if let Some(before) = self.known.insert(rank, entry) {
            for pattern in before.view.sources() {
                self.index.remove(pattern, &rank);
            }
            self.jobs.push_back(Job::Revisit { rank, bucket: 0 });
        }
        for (number, pattern) in view.sources().iter().enumerate() {
            self.index.insert(pattern, rank);
            self.jobs.push_back(Job::Walk { rank, pattern: number, after: None });
        }
    }

    /// Counts the changes of the views.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// What views follow: patterns, and the upstream whose topics alone a view follows.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&Pattern, Option<&str>)> {
        self.known.values().flat_map(|entry| {
            let upstream = entry.view.upstream();
            entry.view.sources().iter().map(move |pattern| (pattern, upstream))
        })
    }

    /// Views there are, and outputs whose home this shard is.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.known.len(), self.outputs.len())
    }

    /// Whether there is something to do.
    pub(crate) fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// What the home had of a slice of the views' work has been handed on.
    pub(crate) fn end_slice(&mut self) {
        self.outputs.forget_ended();
    }

    /// Whether there is anything that a message could concern.
    pub(crate) fn is_idle(&self) -> bool {
        self.known.is_empty() && self.watches.is_empty()
    }
}
