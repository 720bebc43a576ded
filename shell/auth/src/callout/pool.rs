//! Threads that put questions to another server, and what waits for its answers.
//!
//! ```text
//!   ask ─▶ remembered? ─▶ answered at once
//!       ─▶ asked already? ─▶ waits for the same answer
//!       ─▶ breaker open? ─▶ nobody answers, at once
//!       ─▶ a place? ─▶ waits for its turn ─▶ a thread asks ─▶ everybody who waits for it is told
//! ```
//! Relies on `breaker`, `cache` and `turns`, which decide, and on `shares` for places. How a question is put is a closure,
//! so that nothing here opens a connection. Invariants: everybody is told exactly once; the lock is never held while
//! somebody is asked or told, so that who asks never waits for a server; what waits, and what is remembered, is bounded.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tiderace_base::{Span, Time};

use super::breaker::Breaker;
use super::cache::{Cache, QuestionHash};
use super::turns::Turns;
use crate::priority::yield_to_others;
use crate::shares::{self, Place, Shares, network_of};

/// What waits longer than this is given up: the login that asked has ended by its timeout, five seconds as a rule.
const WAIT_MAX: Span = Span::from_secs(5);

/// What an answer says, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said<V> {
    pub(crate) value: V,
    /// For so long the question is not asked again.
    pub(crate) fresh: Span,
    /// For so long it may be used while nobody answers.
    pub(crate) kept: Span,
    /// Whether it refuses something: refusals have a memory of their own, so that who guesses drives nobody out.
    pub(crate) is_refusal: bool,
}

/// What became of a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome<V> {
    /// The answer, perhaps remembered.
    Said(V),
    /// More wait already than may.
    Busy,
    /// It was to be asked no more when its turn came.
    Void,
    /// There is no answer that can be understood.
    Unanswered {
        /// What the server said last, if that may still be used.
        last: Option<V>,
        /// It is there, and has no answer to this question.
        is_there: bool,
    },
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer {
    pub(crate) reason: String,
    /// The server is there: others need not wait for it.
    pub(crate) is_there: bool,
}

/// A question to put.
pub(crate) struct Question {
    /// Equal ones are put once.
    pub(crate) hash: QuestionHash,
    pub(crate) text: String,
    /// Asked again when its turn comes: whether it is not to be put any more. It must not ask in turn.
    pub(crate) is_void: IsVoid,
}

type IsVoid = Box<dyn Fn() -> bool + Send>;

/// Told what became of a question, on whatever thread has it.
pub(crate) type Told<V> = Box<dyn FnOnce(Outcome<V>) + Send>;
/// Puts a question, on a thread that may wait.
pub(crate) type Ask<V> = Box<dyn Fn(&str) -> Result<Said<V>, NoAnswer> + Send + Sync>;
/// Called after each question that was put: with nothing if it was answered, or why it was not.
pub type OnAnswer = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// How much there may be of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalloutLimits {
    /// Questions under way to the server at a time; as many threads.
    pub in_flight_max: usize,
    /// Logins, or the like, that may wait for answers.
    pub waiting_max: usize,
    /// Answers that are remembered, and as many refusals.
    pub entries_max: usize,
}

/// What there is to know of questions, for metrics.
#[derive(Debug, Default)]
pub struct CalloutCounters {
    /// Answered by the server.
    pub answered: AtomicU64,
    /// Put to the server, and not answered as they should be.
    pub failed: AtomicU64,
    /// Answered from memory.
    pub cached: AtomicU64,
    /// Answered together with an equal one.
    pub coalesced: AtomicU64,
    /// Not put, because too many waited.
    pub busy: AtomicU64,
    /// Not put, because the server had not answered for a while.
    pub unavailable: AtomicU64,
    /// Under way now.
    pub in_flight: AtomicUsize,
}

impl CalloutCounters {
    /// Questions that got no answer, or were not put at all.
    pub fn unanswered(&self) -> u64 {
        let counts = [&self.failed, &self.busy, &self.unavailable];
        counts.into_iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// Owns the threads; dropping it stops them.
#[derive(Debug)]
pub(crate) struct Pool<V: Send + 'static> {
    shared: Arc<Shared<V>>,
    threads: Vec<JoinHandle<()>>,
}

/// Somebody's way to ask.
#[derive(Debug)]
pub(crate) struct PoolHandle<V>(Arc<Shared<V>>);

impl<V> Clone for PoolHandle<V> {
    fn clone(&self) -> Self {
        PoolHandle(Arc::clone(&self.0))
    }
}

struct Shared<V> {
    state: Mutex<State<V>>,
    changed: Condvar,
    places: Arc<Mutex<Shares>>,
    ask: Ask<V>,
    on_answer: OnAnswer,
    counters: Arc<CalloutCounters>,
    started: Instant,
}

impl<V> std::fmt::Debug for Shared<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

struct State<V> {
    accepted: Cache<V>,
    refused: Cache<V>,
    jobs: HashMap<QuestionHash, Job<V>>,
    turns: Turns,
    breaker: Breaker,
    is_stopping: bool,
}

/// A question that waits or is under way, and who is to be told.
struct Job<V> {
    text: Option<String>,
    is_void: IsVoid,
    since: Time,
    waiters: Vec<(Place, Told<V>)>,
}

/// Those who are to be told, and what.
type News<V> = Vec<(Told<V>, Outcome<V>)>;

impl<V: Clone + Send + 'static> Pool<V> {
    /// Starts the threads.
    pub(crate) fn start(
        limits: CalloutLimits,
        ask: Ask<V>,
        on_answer: OnAnswer,
        counters: Arc<CalloutCounters>,
    ) -> io::Result<Pool<V>> {
        let in_flight_max = limits.in_flight_max.max(1);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                accepted: Cache::new(limits.entries_max),
                refused: Cache::new(limits.entries_max),
                jobs: HashMap::new(),
                turns: Turns::new(in_flight_max),
                breaker: Breaker::new(),
                is_stopping: false,
            }),
            changed: Condvar::new(),
            places: Shares::new(limits.waiting_max.max(1)),
            ask,
            on_answer,
            counters,
            started: Instant::now(),
        });
        let mut pool = Pool { shared, threads: Vec::new() };
        for number in 0..in_flight_max {
            let shared = Arc::clone(&pool.shared);
            let thread = thread::Builder::new().name(format!("callout-{number}"));
            pool.threads.push(thread.spawn(move || {
                yield_to_others();
                shared.run();
            })?);
        }
        Ok(pool)
    }

    pub(crate) fn handle(&self) -> PoolHandle<V> {
        PoolHandle(Arc::clone(&self.shared))
    }
}

impl<V: Send + 'static> Drop for Pool<V> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_stopping = true;
        let jobs: Vec<Job<V>> = state.jobs.drain().map(|(_, job)| job).collect();
        drop(state);
        self.shared.changed.notify_all();
        for (_, told) in jobs.into_iter().flat_map(|job| job.waiters) {
            told(Outcome::Busy);
        }
        for thread in self.threads.drain(..) {
            // A panic has been reported by the panic hook already.
            let _ = thread.join();
        }
    }
}

impl<V: Clone> PoolHandle<V> {
    /// Asks, for somebody at an address with a name, and never waits.
    pub(crate) fn ask(
        &self,
        Question { hash, text, is_void }: Question,
        (address, name): (IpAddr, &str),
        told: Told<V>,
    ) {
        let shared = &self.0;
        let (now, address) = (shared.now(), network_of(address));
        let mut state = shared.lock();
        if let Some(value) = state.remembered(&hash, now) {
            drop(state);
            shared.counters.cached.fetch_add(1, Ordering::Relaxed);
            return told(Outcome::Said(value));
        }
        let Some(place) = shares::take(&shared.places, address, name) else {
            drop(state);
            shared.counters.busy.fetch_add(1, Ordering::Relaxed);
            return told(Outcome::Busy);
        };
        if let Some(job) = state.jobs.get_mut(&hash) {
            job.waiters.push((place, told));
            shared.counters.coalesced.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if state.is_stopping || !state.breaker.admit(now) {
            let last = state.accepted.kept(&hash, now);
            drop(state);
            shared.counters.unavailable.fetch_add(1, Ordering::Relaxed);
            return told(Outcome::Unanswered { last, is_there: false });
        }
        let job = Job { text: Some(text), is_void, since: now, waiters: vec![(place, told)] };
        state.jobs.insert(hash, job);
        state.turns.push(address, hash);
        drop(state);
        shared.changed.notify_one();
    }
}

impl<V: Clone> State<V> {
    fn remembered(&self, hash: &QuestionHash, now: Time) -> Option<V> {
        self.accepted.fresh(hash, now).or_else(|| self.refused.fresh(hash, now))
    }

    /// The next question to put, and what is told to those who have waited too long.
    fn next(&mut self, now: Time, news: &mut News<V>) -> Option<(IpAddr, QuestionHash, String)> {
        while let Some((address, hash)) = self.turns.next() {
            let is_late = self.jobs.get(&hash).is_none_or(|job| now.since(job.since) > WAIT_MAX);
            let is_void = self.jobs.get(&hash).is_some_and(|job| (job.is_void)());
            let text = self.jobs.get_mut(&hash).and_then(|job| job.text.take());
            match text {
                Some(text) if !(is_late || is_void) => return Some((address, hash, text)),
                _ => {
                    self.turns.done(address);
                    self.breaker.lapsed(now);
                    let job = self.jobs.remove(&hash);
                    let outcome = || if is_void { Outcome::Void } else { Outcome::Busy };
                    news.extend(job.into_iter().flat_map(|job| job.tell(outcome)));
                }
            }
        }
        None
    }

    /// A question was put; what is told to whom.
    fn finish(
        &mut self,
        now: Time,
        hash: QuestionHash,
        said: Result<&Said<V>, &NoAnswer>,
        news: &mut News<V>,
    ) {
        let job = self.jobs.remove(&hash);
        match said {
            Ok(said) => {
                self.breaker.answered();
                let until = (now + said.fresh, now + said.kept);
                let (here, there) = match said.is_refusal {
                    true => (&mut self.refused, &mut self.accepted),
                    false => (&mut self.accepted, &mut self.refused),
                };
                // The other answer was right before.
                there.remove(&hash);
                here.put(hash, said.value.clone(), now, until);
                let told =
                    job.into_iter().flat_map(|job| job.tell(|| Outcome::Said(said.value.clone())));
                news.extend(told);
            }
            Err(NoAnswer { is_there: true, .. }) => {
                self.breaker.answered();
                self.give_up((now, true), hash, job, news);
            }
            Err(_) => {
                self.breaker.failed(now);
                self.give_up((now, false), hash, job, news);
                if !self.breaker.is_closed() {
                    for hash in self.turns.drain() {
                        let job = self.jobs.remove(&hash);
                        self.give_up((now, false), hash, job, news);
                    }
                }
            }
        }
    }

    fn give_up(
        &self,
        (now, is_there): (Time, bool),
        hash: QuestionHash,
        job: Option<Job<V>>,
        news: &mut News<V>,
    ) {
        let last = self.accepted.kept(&hash, now);
        let outcome = || Outcome::Unanswered { last: last.clone(), is_there };
        news.extend(job.into_iter().flat_map(|job| job.tell(outcome)));
    }
}

impl<V> Job<V> {
    /// What is told to everybody who waits for it.
    fn tell(self, outcome: impl Fn() -> Outcome<V>) -> News<V> {
        self.waiters.into_iter().map(|(_, told)| (told, outcome())).collect()
    }
}

impl<V> Shared<V> {
    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl<V: Clone> Shared<V> {
    /// One thread: puts questions until it is told to stop.
    fn run(&self) {
        let mut news: News<V> = Vec::new();
        loop {
            let mut state = self.lock();
            let next = loop {
                if state.is_stopping {
                    return;
                }
                let next = state.next(self.now(), &mut news);
                if next.is_some() || !news.is_empty() {
                    break next;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            self.counters.in_flight.store(state.turns.under_way(), Ordering::Relaxed);
            drop(state);
            tell(&mut news);
            let Some((address, hash, text)) = next else { continue };
            // A question that panics fails alone, and its thread goes on.
            let said = catch_unwind(AssertUnwindSafe(|| (self.ask)(&text))).unwrap_or_else(|_| {
                let reason = "asking failed by a defect of this server".to_owned();
                Err(NoAnswer { reason, is_there: false })
            });
            let outcome =
                if said.is_ok() { &self.counters.answered } else { &self.counters.failed };
            outcome.fetch_add(1, Ordering::Relaxed);
            let mut state = self.lock();
            state.turns.done(address);
            state.finish(self.now(), hash, said.as_ref(), &mut news);
            self.counters.in_flight.store(state.turns.under_way(), Ordering::Relaxed);
            drop(state);
            // An address that had its share may have another question put now, and this thread takes one alone.
            self.changed.notify_one();
            (self.on_answer)(said.as_ref().err().map(|problem| problem.reason.as_str()));
            tell(&mut news);
        }
    }
}

fn tell<V>(news: &mut News<V>) {
    for (told, outcome) in news.drain(..) {
        told(outcome);
    }
}
