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
//! Invariants: operations, publications and transactions of one session to one home are done in the order in which
//! they came, because whatever comes while something of the session is deferred waits behind it, as does what it says of
//! its consumers behind a transaction; an ordinary publication pays one comparison; a session with [`PAUSE_AT`] deferred operations is not
//! read until half of them are done; deferred operations of a session that has ended are still done;
//! what is deferred counts in the memory budget, for a reader that does not read may hold it up for long.

use std::collections::VecDeque;
use std::sync::Arc;

use tiderace_base::{Now, SessionId, Time};
use tiderace_wire::{Confirm, Operation, Run, TopicSpec};

use crate::collections::Map;
use crate::messages::ToHome;
use crate::places::Place;
use crate::requester::Requester;

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
pub(crate) const SPARED_BYTES_MAX: usize = 64 << 10;

const _: () = assert!(CHEAP * 16 <= TURN_WORK, "a turn must fit many cheap operations");
const _: () = assert!(PRICE_MAX <= 4 * TURN_WORK, "a turn with one dear operation must stay short");

/// Something of a session that waits for its turn at a home.
#[derive(Debug)]
pub(crate) enum Deferred {
    /// An operation.
    Operation(Box<(Requester, Operation)>),
    /// A publication that came after a deferred operation of its session, or whose values have to be
    /// checked against a schema.
    Publication(Box<Publication>),
    /// What a transaction does at this home, and where its session is.
    Together(Box<(Place, Vec<ToHome>)>),
    /// What a session says of a consumer (that it begins, has settled messages, may be given more, ends) after a
    /// transaction of it was deferred.
    ForConsumer(Box<(Place, ToHome)>),
}

/// The arguments of [`Broker::publish_at_home`].
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) from: Place,
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
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Deferred>()
            + match self {
                Deferred::Operation(asked) => size_of::<(Requester, Operation)>() + asked.1.bytes(),
                Deferred::Publication(publication) => {
                    size_of::<Publication>() + publication.run.bytes()
                }
                Deferred::Together(together) => {
                    let parts = together.1.iter();
                    parts.map(|part| size_of::<ToHome>() + part.bytes()).sum::<usize>()
                }
                Deferred::ForConsumer(it) => size_of::<ToHome>() + it.1.bytes(),
            }
    }

    /// Whether what the session says of its consumers waits behind it: one that comes with its durable subscription, in one
    /// write, finds that there.
    fn comes_before_consumers(&self) -> bool {
        match self {
            Deferred::Together(_) | Deferred::ForConsumer(_) => true,
            Deferred::Operation(asked) => matches!(asked.1, Operation::CreateSubscription(_)),
            Deferred::Publication(_) => false,
        }
    }
}

/// A shard's budget, and what is deferred.
#[derive(Debug)]
pub(crate) struct Work {
    /// Units left of this turn's budget.
    pub(crate) left: u64,
    /// The turn that the budget is of.
    pub(crate) turn: Time,
    /// By session; none of them is empty.
    pub(crate) queues: Map<SessionId, SessionQueue>,
    /// Sessions whose first deferred operation is cheap, in the order of their turns.
    pub(crate) cheap: VecDeque<SessionId>,
    /// Sessions whose first deferred operation is dear.
    pub(crate) dear: VecDeque<SessionId>,
    /// Sessions whose first deferred operation cannot be done at present, because its topic's
    /// subscribers or the store have to catch up.
    pub(crate) blocked: Vec<SessionId>,
    pub(crate) bytes: usize,
    /// Units charged to the present turn's budget, and the most that were ever charged to one.
    pub(crate) turn_spent: u64,
    pub(crate) turn_most: u64,
    /// Units charged since the start.
    pub(crate) spent_total: u64,
    /// Operations deferred since the start.
    pub(crate) deferred_total: u64,
    /// Operations deferred now.
    pub(crate) deferred: usize,
}

/// What is deferred of one session.
#[derive(Debug, Default)]
pub(crate) struct SessionQueue {
    waiting: VecDeque<Deferred>,
    /// How many of these come before what the session says of its consumers.
    before_consumers: usize,
    /// Whether the session's shard was told not to read it.
    pub(crate) paused: bool,
}

impl SessionQueue {
    /// What is done next.
    pub(crate) fn first(&self) -> Option<&Deferred> {
        self.waiting.front()
    }

    /// How much waits.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing does.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Something comes behind all else.
    pub(crate) fn push(&mut self, what: Deferred) {
        self.before_consumers += usize::from(what.comes_before_consumers());
        self.waiting.push_back(what);
    }

    /// Something that was taken out comes back before all else.
    pub(crate) fn put_back(&mut self, what: Deferred) {
        self.before_consumers += usize::from(what.comes_before_consumers());
        self.waiting.push_front(what);
    }

    /// Takes out what is done next.
    pub(crate) fn take_first(&mut self) -> Option<Deferred> {
        let what = self.waiting.pop_front()?;
        self.before_consumers -= usize::from(what.comes_before_consumers());
        Some(what)
    }

    /// Takes out what is not to be done any more.
    pub(crate) fn take_out(&mut self, is_meant: impl Fn(&Deferred) -> bool) -> Vec<Deferred> {
        let (taken, rest) = std::mem::take(&mut self.waiting).into_iter().partition(is_meant);
        self.waiting = rest;
        self.before_consumers =
            self.waiting.iter().filter(|what| what.comes_before_consumers()).count();
        Vec::from(taken)
    }
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
    pub(crate) fn begin_turn(&mut self, now: Now) {
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

    /// Whether something of the session is deferred that comes before what it says of its consumers.
    #[inline]
    pub(crate) fn holds_consumers(&self, session: SessionId) -> bool {
        self.deferred > 0
            && self.queues.get(&session).is_some_and(|queue| queue.before_consumers > 0)
    }

    /// Operations that are deferred, and their bytes.
    pub(crate) fn depth(&self) -> (u64, u64) {
        (self.deferred as u64, self.bytes as u64)
    }

    pub(crate) fn list(&mut self, session: SessionId, price: u64) {
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
