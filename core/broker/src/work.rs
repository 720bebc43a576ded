//! The work budget: what one shard does for its sessions in a turn, and what waits for the next.
//!
//! Every operation has a price (see [`crate::price`]), known before it runs or charged afterwards. A
//! turn has [`TURN_WORK`] units to spend. An operation that is cheap and fits runs at once. All others
//! are deferred: they wait in a queue of their session and are run by [`Broker::run_deferred`], once a
//! turn, the sessions taking turns. So the dearest thing between two rounds of reading and writing is
//! one turn's budget and one operation of at most [`PRICE_MAX`].
//!
//! How to use it, at a home, for something new that may be dear:
//! 1. give it a line in the price list,
//! 2. if it belongs to a session: add a variant to [`Deferred`], ask [`Broker::may_run`] before doing
//!    it and call [`Broker::defer`] if the answer is no,
//! 3. if it belongs to no session (a clean-up, a grant): do a slice of it in [`Broker::work`], and
//!    [`Work::charge`] what the slice has cost,
//! 4. if the price is known only afterwards, [`Work::charge`] the rest then: whatever is left to do in
//!    this turn waits that much earlier.
//!
//! Invariants: operations and publications of one session to one home are done in the order in which
//! they came, because whatever comes while something of the session is deferred waits behind it; an
//! ordinary publication pays one comparison; a session with [`PAUSE_AT`] deferred operations is not
//! read until half of them are done; deferred operations of a session that has ended are still done;
//! what is deferred counts in the memory budget, for a reader that does not read may hold it up for long.

use std::collections::VecDeque;
use std::sync::Arc;

use tiderace_base::{CloseCode, MemoryUse, Now, SessionId, ShardId, Time};
use tiderace_wire::{Confirm, Operation, Run, TopicSpec};

use crate::broker::Broker;
use crate::collections::Map;
use crate::effects::{Effects, Mail};
use crate::operate::Operator;
use crate::places::key_of;

/// Units that one turn may spend: about six milliseconds. One unit is one byte of JSON that is parsed,
/// about three nanoseconds.
pub(crate) const TURN_WORK: u64 = 2 << 20;
/// The price up to which an operation counts as cheap: about a tenth of a millisecond. Cheap
/// operations run at once if the turn's budget allows, and before dear ones if it does not.
pub(crate) const CHEAP: u64 = 32 << 10;
/// The most that one operation may cost: some twenty milliseconds. What would cost more is refused
/// ([`tiderace_base::CloseCode::TooMuchWork`]) or done in slices.
pub(crate) const PRICE_MAX: u64 = 8 << 20;
/// Deferred operations of one session at one home at which its connection is no longer read.
pub(crate) const PAUSE_AT: usize = 8;

/// What is deferred however little memory there is: one run, or a small operation.
const SPARED_BYTES_MAX: usize = 64 << 10;

const _: () = assert!(CHEAP * 16 <= TURN_WORK, "a turn must fit many cheap operations");
const _: () = assert!(PRICE_MAX <= 4 * TURN_WORK, "a turn with one dear operation must stay short");

/// Something of a session that waits for its turn at a home.
#[derive(Debug)]
pub(crate) enum Deferred {
    /// An operation.
    Operation(Box<(Operator, Operation)>),
    /// A publication that came after a deferred operation of its session, or whose values have to be
    /// checked against a schema.
    Publication(Box<Publication>),
}

/// The arguments of [`Broker::publish_at_home`].
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) from: ShardId,
    pub(crate) run: Run,
    pub(crate) origin: SessionId,
    pub(crate) author: Option<Arc<str>>,
    pub(crate) confirm: Option<Confirm>,
    /// What is known of its values if an earlier turn has begun to check them.
    pub(crate) checked: Option<Checked>,
}

/// How many values of a publication, from the first on, fit a specification.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) spec: Arc<TopicSpec>,
    pub(crate) values: usize,
}

impl Deferred {
    /// Bytes that it keeps in memory.
    fn bytes(&self) -> usize {
        size_of::<Deferred>()
            + match self {
                Deferred::Operation(asked) => size_of::<(Operator, Operation)>() + asked.1.bytes(),
                Deferred::Publication(publication) => {
                    size_of::<Publication>() + publication.run.bytes()
                }
            }
    }
}

/// A shard's budget, and what is deferred.
#[derive(Debug)]
pub(crate) struct Work {
    /// Units left of this turn's budget.
    left: u64,
    /// The turn that the budget is of.
    turn: Time,
    /// By session; none of them is empty.
    queues: Map<SessionId, SessionQueue>,
    /// Sessions whose first deferred operation is cheap, in the order of their turns.
    cheap: VecDeque<SessionId>,
    /// Sessions whose first deferred operation is dear.
    dear: VecDeque<SessionId>,
    /// Sessions whose first deferred operation cannot be done at present, because its topic's
    /// subscribers or the store have to catch up.
    blocked: Vec<SessionId>,
    bytes: usize,
    /// Units charged to the present turn's budget, and the most that were ever charged to one.
    turn_spent: u64,
    pub(crate) turn_most: u64,
    /// Units charged since the start.
    pub(crate) spent_total: u64,
    /// Operations deferred since the start.
    pub(crate) deferred_total: u64,
    /// Operations deferred now.
    deferred: usize,
}

/// What is deferred of one session.
#[derive(Debug, Default)]
struct SessionQueue {
    waiting: VecDeque<Deferred>,
    /// Whether the session's shard was told not to read it.
    paused: bool,
}

/// What became of a session's turn.
enum Step {
    Done,
    /// The operation turned out to be dear.
    Dear,
    Blocked,
}

impl Default for Work {
    fn default() -> Work {
        Work {
            left: TURN_WORK,
            turn: Time::ZERO,
            queues: Map::default(),
            cheap: VecDeque::new(),
            dear: VecDeque::new(),
            blocked: Vec::new(),
            bytes: 0,
            turn_spent: 0,
            turn_most: 0,
            spent_total: 0,
            deferred_total: 0,
            deferred: 0,
        }
    }
}

impl Work {
    /// Charges units to the present turn.
    pub(crate) fn charge(&mut self, price: u64) {
        self.spent_total += price;
        self.turn_spent += price;
        self.turn_most = self.turn_most.max(self.turn_spent);
        self.left = self.left.saturating_sub(price);
    }

    /// The same where nobody has asked yet whether a new turn has begun.
    pub(crate) fn charge_at(&mut self, now: Now, price: u64) {
        self.left(now);
        self.charge(price);
    }

    /// Units left of the present turn.
    pub(crate) fn left(&mut self, now: Now) -> u64 {
        if self.turn != now.time {
            self.begin_turn(now);
        }
        self.left
    }

    /// A budget begins.
    fn begin_turn(&mut self, now: Now) {
        self.turn = now.time;
        self.left = TURN_WORK;
        self.turn_spent = 0;
    }

    /// Whether nothing is deferred and this turn has something left to spend: the one question that
    /// ordinary publications ask.
    pub(crate) fn is_calm(&self) -> bool {
        self.deferred == 0 && self.left > 0
    }

    /// Whether something of the session is deferred.
    pub(crate) fn has(&self, session: SessionId) -> bool {
        self.deferred > 0 && self.queues.contains_key(&session)
    }

    /// Operations that are deferred, and their bytes.
    pub(crate) fn depth(&self) -> (u64, u64) {
        (self.deferred as u64, self.bytes as u64)
    }

    fn list(&mut self, session: SessionId, price: u64) {
        if price <= CHEAP {
            self.cheap.push_back(session);
        } else {
            self.dear.push_back(session);
        }
    }

    /// Sessions that were blocked are looked at again.
    pub(crate) fn unblock(&mut self) {
        self.dear.extend(self.blocked.drain(..));
    }
}

impl Broker {
    /// Whether something of a session may be done at once; then it has been charged. Otherwise it is
    /// to be deferred.
    pub(crate) fn may_run(&mut self, now: Now, session: SessionId, price: u64) -> bool {
        if price > CHEAP || self.work.has(session) || self.work.left(now) < price {
            return false;
        }
        self.work.charge(price);
        true
    }

    /// Lets something of a session wait for its turn, behind what waits of it already. What is large is
    /// refused if there is no memory for it; the rest is bounded by what is read of a session at once.
    pub(crate) fn defer(&mut self, session: SessionId, what: Deferred, effects: &mut Effects) {
        let bytes = what.bytes();
        if bytes > SPARED_BYTES_MAX && !self.memory.has_room(MemoryUse::Input, bytes) {
            return self.refuse_deferred(what, effects);
        }
        self.memory.charge(MemoryUse::Input, bytes);
        let price = self.price_of(&what);
        let work = &mut self.work;
        work.deferred += 1;
        work.deferred_total += 1;
        work.bytes += bytes;
        let queue = work.queues.entry(session).or_default();
        queue.waiting.push_back(what);
        let count = queue.waiting.len();
        let pauses = count >= PAUSE_AT && !std::mem::replace(&mut queue.paused, count >= PAUSE_AT);
        if count == 1 {
            work.list(session, price);
        }
        if pauses {
            self.tell_deferred(session, true, effects);
        }
    }

    fn refuse_deferred(&mut self, what: Deferred, effects: &mut Effects) {
        let close = CloseCode::MemoryFull.into();
        match what {
            Deferred::Operation(asked) => self.answer_operation(&asked.0, Err(close), effects),
            Deferred::Publication(it) => {
                let blame = it.confirm.map(|confirm| confirm.from);
                self.refuse_run(Some(it.origin), it.confirm, blame, &close, effects);
            }
        }
    }

    /// Whether views have something to do, of which a part is done whenever the broker is called.
    pub fn views_have_work(&self) -> bool {
        self.views.has_jobs()
    }

    /// Whether something is deferred that can be done.
    pub fn has_deferred(&self) -> bool {
        !self.work.cheap.is_empty() || !self.work.dear.is_empty()
    }

    /// Runs deferred operations within the turn's budget: cheap ones first, then dear ones, of which
    /// one is always run; then a turn's part of what views have to do. To be called once a turn while
    /// [`Broker::has_deferred`] or [`Broker::views_have_work`], but not while mail
    /// to other shards is behind.
    pub fn run_deferred(&mut self, now: Now, effects: &mut Effects) {
        self.work.begin_turn(now);
        while self.work.left > 0 {
            let Some(session) = self.work.cheap.pop_front() else { break };
            self.run_first(now, session, CHEAP, effects);
        }
        // Each of them at most once, for one that is blocked costs nothing.
        for _ in 0..self.work.dear.len() {
            let Some(session) = self.work.dear.pop_front() else { break };
            let ran = self.run_first(now, session, u64::MAX, effects);
            if ran && self.work.left == 0 {
                break;
            }
        }
        if self.views.has_jobs() {
            self.begin_view_turn();
        }
        self.end_call(now, effects);
    }

    /// Gives a session its turn: whether something was done.
    fn run_first(
        &mut self,
        now: Now,
        session: SessionId,
        most: u64,
        effects: &mut Effects,
    ) -> bool {
        let Some(first) = self.work.queues.get(&session).and_then(|queue| queue.waiting.front())
        else {
            return false;
        };
        let price = self.price_of(first);
        let step = match first {
            _ if self.is_blocked(first) => Step::Blocked,
            _ if price > most => Step::Dear,
            _ => Step::Done,
        };
        match step {
            Step::Blocked => self.work.blocked.push(session),
            Step::Dear => self.work.dear.push_back(session),
            Step::Done => {
                self.work.charge(price);
                let what = self.work.queues.get_mut(&session).and_then(|it| it.waiting.pop_front());
                if let Some(what) = what {
                    self.work.deferred -= 1;
                    self.work.bytes -= what.bytes();
                    self.memory.refund(MemoryUse::Input, what.bytes());
                    if let Some(rest) = self.do_deferred(now, what, effects) {
                        self.put_back(session, rest);
                    }
                    self.take_loopback(now, effects);
                    self.end_turn_of(session, effects);
                    return true;
                }
            }
        }
        false
    }

    /// A session's turn is over: lists it for the next one if it has more.
    fn end_turn_of(&mut self, session: SessionId, effects: &mut Effects) {
        let Some(queue) = self.work.queues.get_mut(&session) else { return };
        let resumes = queue.paused && queue.waiting.len() <= PAUSE_AT / 2;
        queue.paused &= !resumes;
        if queue.waiting.is_empty() {
            self.work.queues.remove(&session);
        }
        if resumes {
            self.tell_deferred(session, false, effects);
        }
        let next = self.work.queues.get(&session).and_then(|queue| queue.waiting.front());
        if let Some(price) = next.map(|next| self.price_of(next)) {
            self.work.list(session, price);
        }
    }

    /// Does it; what is left of it if it takes more than this turn.
    fn do_deferred(&mut self, now: Now, what: Deferred, effects: &mut Effects) -> Option<Deferred> {
        match what {
            Deferred::Operation(asked) => {
                let (operator, operation) = *asked;
                self.do_operation(now, operator, operation, effects);
                None
            }
            Deferred::Publication(publication) => {
                let Publication { from, run, origin, author, confirm, checked } = *publication;
                // A topic that has got another specification meanwhile takes other values.
                let spec =
                    || Some(&self.topics.get(self.find_topic(&run.destination().path)?)?.spec);
                let checked = checked
                    .filter(|known| spec().is_some_and(|spec| Arc::ptr_eq(spec, &known.spec)))
                    .map_or(0, |known| known.values);
                let origin = Some(origin);
                self.number_and_pass(now, from, run, origin, author, confirm, checked, effects)
                    .map(Deferred::Publication)
            }
        }
    }

    /// What is left of something deferred comes before all else of its session.
    fn put_back(&mut self, session: SessionId, rest: Deferred) {
        let bytes = rest.bytes();
        self.memory.charge(MemoryUse::Input, bytes);
        self.work.deferred += 1;
        self.work.bytes += bytes;
        self.work.queues.entry(session).or_default().waiting.push_front(rest);
    }

    /// Tells a session's shard that so much of it is deferred here that it is not to be read, or that
    /// it is to be read again.
    fn tell_deferred(&mut self, session: SessionId, on: bool, effects: &mut Effects) {
        self.send(session.shard, Mail::Deferred { session, on }, effects);
    }

    /// On the session's shard.
    pub(crate) fn pause_for_work(&mut self, session: SessionId, on: bool, effects: &mut Effects) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        if on {
            record.blocked_by += 1;
            if record.blocked_by == 1 {
                self.metrics.publishers_paused += 1;
                effects.pause.push((record.link, session));
            }
        } else {
            record.blocked_by = record.blocked_by.saturating_sub(1);
            if record.blocked_by == 0 {
                effects.resume.push((record.link, session));
            }
        }
    }
}
