//! What messages about views bring, and the work on views that a turn has room for.
//!
//! Invariant: a turn does no more than its budget and one slice.

use tiderace_base::{Now, Span, Time};

use super::buckets::BUCKETS;
use super::{EARLY_MAX, Job, LOOK_WORK, TURN_WORK};
use crate::effects::Effects;
use crate::messages::ToViews;
use crate::places::Place;
use crate::view_side::ViewSide;

/// How often problems are reported to the registrar.
const REPORT_EVERY: Span = Span::from_secs(1);

impl ViewSide<'_> {
    /// A message has come, from this shard or another.
    pub(crate) fn on_message(
        &mut self,
        now: Now,
        from: Place,
        message: ToViews,
        effects: &mut Effects,
    ) {
        match message {
            ToViews::Put { name, view, rank, version } => {
                let delay = Span::from_millis(view.options().delay_ms.unwrap_or(0));
                self.views.outputs.hasten(rank, now.time, delay);
                self.views.put(name, view, rank, version);
                self.take_early(now, effects);
            }
            ToViews::Remove { rank, version } => {
                self.view_removed(rank, version);
                self.take_early(now, effects);
            }
            ToViews::Outputs { version, rank, .. } if version > self.views.version => {
                if self.views.early.len() < EARLY_MAX {
                    self.views.early.push(message);
                } else {
                    self.view_problem(rank, "outputs came long before their view".to_owned());
                }
            }
            ToViews::Outputs { rank, source, hops, values, .. } => {
                for (path, value) in values {
                    self.take_output(now, rank, &source, path, value, hops, effects);
                }
            }
            ToViews::Watch { path, on } => self.watch_at_home(now, from, &path, on, effects),
            ToViews::Watched { path, value, hops } => self.watched(path, value, hops),
            ToViews::Problem { rank, problem, count } => {
                self.views.note_problem(rank, problem, count);
            }
        }
    }

    fn take_early(&mut self, now: Now, effects: &mut Effects) {
        for message in std::mem::take(&mut self.views.early) {
            self.on_message(now, self.home.here(), message, effects);
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
    pub(crate) fn begin_turn(&mut self) {
        self.views.turn = Time::NEVER;
    }

    /// Goes on with what there is to do, within the turn's budget: whether something was done.
    pub(crate) fn work_on_next(&mut self, now: Now, effects: &mut Effects) -> bool {
        if self.views.turn != now.time {
            self.views.turn = now.time;
            self.views.left = TURN_WORK;
        }
        if self.views.left == 0 {
            return false;
        }
        let Some(job) = self.views.jobs.pop_front() else { return false };
        let (rest, work) = self.work_on(now, job, effects);
        match rest {
            // The next change of the topic is not to come before this one.
            Some(rest @ Job::Evaluate { .. }) => self.views.jobs.push_front(rest),
            Some(rest) => self.views.jobs.push_back(rest),
            None => {}
        }
        self.views.left = self.views.left.saturating_sub(work.max(LOOK_WORK));
        true
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

    /// Publishes what was delayed or held back until now, and begins a turn's budget: whether there is anything to
    /// keep house for.
    pub(crate) fn begin_tick(&mut self, now: Now, effects: &mut Effects) -> bool {
        if self.views.is_idle() && self.views.jobs.is_empty() && self.views.outputs.len() == 0 {
            return false;
        }
        self.begin_turn();
        self.publish_due(now, effects);
        true
    }

    /// Says what could not be done, now and then.
    pub(crate) fn end_tick(&mut self, now: Now, effects: &mut Effects) {
        if now.time >= self.views.problems_due {
            self.views.problems_due = now.time + REPORT_EVERY;
            self.report_view_problems(now, effects);
        }
    }

    /// Notes that something of a view could not be done; it is said with the view.
    pub(super) fn view_problem(&mut self, rank: u32, problem: String) {
        self.home.metrics.view_problems += 1;
        let noted = self.views.problems.entry(rank).or_default();
        noted.1 += 1;
        noted.0 = problem;
    }
}
