//! Topic views: every shard holds all of them; each shard evaluates them for the topics whose home it
//! is, and keeps the outputs whose home it is.
//!
//! ```text
//!  registrar (shard 0)      source's home                       output's home
//!  number, check ──Put──▶  walk topics, follow them ──Outputs──▶ delay, choose or merge, throttle,
//!                           evaluate, compare                     publish ─▶ distribute ─▶ …
//!                              ▲  └──Watch──▶ home of an inserted topic ──Watched──┘ (back)
//! ```
//! Relies on mail between two shards keeping its order, and on versions that the registrar gives to
//! every change of the set of views: who hears of an output before its view keeps it until then.
//! Invariants: a topic that no view follows costs one comparison per message; work is done in slices
//! with a budget per turn; when everything has come to rest, the outputs are those that the views make
//! of the current values; chains end after [`HOPS_MAX`] views.

mod output;
mod registrar;
mod source;
mod watch;

use std::collections::VecDeque;
use std::sync::Arc;

use tiderace_base::{Key, Now, ShardId, Span, Time};
use tiderace_topics::{Path, PatternIndex};
use tiderace_views::{Limits, View};
use tiderace_wire::TopicSpec;

use crate::broker::Broker;
use crate::collections::Map;
use crate::effects::Effects;
use crate::messages::ViewMail;

use output::Outputs;
use source::{Changed, Made};
use watch::Watch;

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
/// Parts into which large tables are divided, so that none is walked or dropped at once.
const BUCKETS: usize = 64;
/// Mail about views that are not known yet.
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
    /// Mail that speaks of later changes.
    early: Vec<ViewMail>,
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

    /// Views there are, and outputs whose home this shard is.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.known.len(), self.outputs.len())
    }

    /// Whether there is something to do.
    pub(crate) fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Whether there is anything that a message could concern.
    pub(crate) fn is_idle(&self) -> bool {
        self.known.is_empty() && self.watches.is_empty()
    }
}

/// The bucket of a topic.
fn bucket_of(key: Key) -> usize {
    key.slot as usize % BUCKETS
}

impl Broker {
    /// Mail about views.
    pub(crate) fn view_mail(
        &mut self,
        now: Now,
        from: ShardId,
        mail: ViewMail,
        effects: &mut Effects,
    ) {
        match mail {
            ViewMail::Put { name, view, rank, version } => {
                let delay = Span::from_millis(view.options().delay_ms.unwrap_or(0));
                self.views.outputs.hasten(rank, now.time, delay);
                self.views.put(name, view, rank, version);
                self.take_early(now, effects);
            }
            ViewMail::Remove { rank, version } => {
                self.view_removed(rank, version);
                self.take_early(now, effects);
            }
            ViewMail::Outputs { version, rank, .. } if version > self.views.version => {
                if self.views.early.len() < EARLY_MAX {
                    self.views.early.push(mail);
                } else {
                    self.view_problem(rank, "outputs came long before their view".to_owned());
                }
            }
            ViewMail::Outputs { rank, source, hops, values, .. } => {
                for (path, value) in values {
                    self.take_output(now, rank, &source, path, value, hops, effects);
                }
            }
            ViewMail::Watch { path, on } => self.watch_at_home(now, from, &path, on, effects),
            ViewMail::Watched { path, value, hops } => self.watched(path, value, hops),
            ViewMail::Problem { rank, problem, count } => {
                self.views.note_problem(rank, problem, count);
            }
        }
    }

    fn take_early(&mut self, now: Now, effects: &mut Effects) {
        for mail in std::mem::take(&mut self.views.early) {
            self.view_mail(now, self.shard, mail, effects);
        }
    }

    /// A view ends here.
    fn view_removed(&mut self, rank: u32, version: u64) {
        let views = &mut *self.views;
        views.version = views.version.max(version);
        views.generation += 1;
        let Some(before) = views.known.remove(&rank) else { return };
        for pattern in before.view.sources() {
            views.index.remove(pattern, &rank);
        }
        views.outputs.forget_delayed(rank);
        views.problems.remove(&rank);
        if let Some(made) = views.made.remove(&rank) {
            views.jobs.push_back(Job::Forget { rank, made });
        }
        views.jobs.push_back(Job::Retract { rank, bucket: 0 });
    }

    /// Another turn's budget begins, whatever the clock says.
    pub(crate) fn begin_view_turn(&mut self) {
        self.views.turn = Time::NEVER;
    }

    /// Goes on with what there is to do, within the turn's budget.
    pub(crate) fn work_on_views(&mut self, now: Now, effects: &mut Effects) {
        if self.views.jobs.is_empty() {
            return;
        }
        if self.views.turn != now.time {
            self.views.turn = now.time;
            self.views.left = TURN_WORK;
        }
        while self.views.left > 0 {
            let Some(job) = self.views.jobs.pop_front() else { return };
            let (rest, work) = self.work_on(now, job, effects);
            match rest {
                // The next change of the topic is not to come before this one.
                Some(rest @ Job::Evaluate { .. }) => self.views.jobs.push_front(rest),
                Some(rest) => self.views.jobs.push_back(rest),
                None => {}
            }
            self.views.left = self.views.left.saturating_sub(work.max(LOOK_WORK));
        }
    }

    /// One slice of a job: what is left of it, and the work that was done.
    fn work_on(&mut self, now: Now, job: Job, effects: &mut Effects) -> (Option<Job>, u32) {
        match job {
            Job::Changed(key) => (self.source_changed(key), LOOK_WORK),
            Job::Evaluate { key, mut ranks, changed } => {
                let Some(rank) = ranks.pop() else { return (None, LOOK_WORK) };
                let (why, hops) = changed.why();
                let work = self.evaluate(now, rank, key, why, hops, effects);
                let rest = Job::Evaluate { key, ranks, changed };
                (Some(rest).filter(|rest| !rest.is_over()), work)
            }
            Job::Walk { rank, pattern, after } => {
                let (after, work) = self.walk_sources(now, rank, pattern, after, effects);
                (after.map(|after| Job::Walk { rank, pattern, after: Some(after) }), work)
            }
            Job::Revisit { rank, bucket } => {
                let work = self.revisit(now, rank, bucket, effects);
                let rest = Job::Revisit { rank, bucket: bucket + 1 };
                (Some(rest).filter(|_| bucket + 1 < BUCKETS), work)
            }
            Job::Forget { rank, mut made } => {
                let work = self.forget_made(now, rank, made.pop(), effects);
                let rest = if made.is_empty() { None } else { Some(Job::Forget { rank, made }) };
                (rest, work)
            }
            Job::Show(key) => (None, self.show_merged(now, key, effects)),
            Job::Tell(key) => {
                self.tell_watchers(now, key, effects);
                (None, LOOK_WORK)
            }
            Job::Retract { rank, bucket } => {
                let work = self.retract(now, rank, bucket, effects);
                let rest = Job::Retract { rank, bucket: bucket + 1 };
                (Some(rest).filter(|_| bucket + 1 < BUCKETS), work)
            }
            Job::Watched { path, after } => {
                let (rest, work) = self.evaluate_users(now, &path, after, effects);
                (rest.map(|after| Job::Watched { path, after }), work)
            }
        }
    }

    /// Housekeeping: what was delayed or held back, work that was left, and what could not be done.
    pub(crate) fn view_tick(&mut self, now: Now, effects: &mut Effects) {
        if self.views.is_idle() && self.views.jobs.is_empty() && self.views.outputs.len() == 0 {
            return;
        }
        self.begin_view_turn();
        self.publish_due(now, effects);
        self.work_on_views(now, effects);
        if now.time >= self.views.problems_due {
            self.views.problems_due = now.time + REPORT_EVERY;
            self.report_view_problems(now, effects);
        }
    }

    /// Notes that something of a view could not be done; it is said with the view.
    fn view_problem(&mut self, rank: u32, problem: String) {
        self.metrics.view_problems += 1;
        let noted = self.views.problems.entry(rank).or_default();
        noted.1 += 1;
        noted.0 = problem;
    }
}

/// How often problems are reported to the registrar.
const REPORT_EVERY: Span = Span::from_secs(1);
