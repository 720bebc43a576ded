//! The memory budget of one shard: what is kept for whom, and whether more may be kept.
//!
//! One value per shard, shared by all its rooms; each adds what it keeps and takes away what it no longer
//! keeps, under its own [`MemoryUse`]. Whether there is room is decided here and nowhere else. The budget
//! of the node is divided among its shards, so counting needs neither locks nor atomic operations.
//!
//! ```text
//!  used          0 ······················ max ············ max + max/8 ·········
//!  new values    │ kept                    │ refused        │ refused
//!  names, input  │ kept                    │ kept (reserve) │ refused
//!  backlogs      │ up to the high mark     │ to the low one │ no grace, a little each
//! ```
//! Invariant: the sum over all uses is [`Memory::used`].

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum MemoryUse {
    /// Messages on their way to subscribers, and the wire forms made of them; each counts once however
    /// many subscribers it waits for.
    Backlogs,
    /// Messages in queues.
    Queues,
    /// Values of topics, and what topics keep besides: histories of specifications, time series.
    Values,
    /// Recent messages for clients that reconnect.
    Histories,
    /// Values that views hold beside those that are shown.
    Views,
    /// Names of topics and queues with their records, and subscriptions.
    Names,
    /// Calls that wait for a responder, and messages said before a call was taken.
    Calls,
    /// Wills.
    Wills,
    /// Large messages on their way to other shards.
    BetweenShards,
    /// What logged-in clients have begun and not finished: bodies, messages, fragments, transactions; and
    /// their operations that wait for their turn.
    Input,
    /// The same of clients that have not logged in.
    EarlyInput,
}

/// The reserve above the budget, as a part of it.
const RESERVE_DIVISOR: usize = 8;

/// How many uses there are.
const USES: usize = MemoryUse::EarlyInput as usize + 1;

impl MemoryUse {
    /// All of them, in the order of their numbers.
    pub const ALL: [MemoryUse; USES] = [
        MemoryUse::Backlogs,
        MemoryUse::Queues,
        MemoryUse::Values,
        MemoryUse::Histories,
        MemoryUse::Views,
        MemoryUse::Names,
        MemoryUse::Calls,
        MemoryUse::Wills,
        MemoryUse::BetweenShards,
        MemoryUse::Input,
        MemoryUse::EarlyInput,
    ];

    /// What part of the budget the use may have, as a divisor: what clients have merely begun must leave
    /// room for what is finished, and clients that have not logged in for those that have.
    const fn divisor(self) -> usize {
        match self {
            MemoryUse::Input | MemoryUse::Wills => 2,
            MemoryUse::EarlyInput => 8,
            _ => 1,
        }
    }

    /// Whether the use may have of the reserve: a server whose budget is used up by values can still be
    /// talked to, to remove some.
    const fn may_use_reserve(self) -> bool {
        matches!(self, MemoryUse::Input | MemoryUse::EarlyInput | MemoryUse::Names)
    }
}

/// The budget; see the module's documentation.
#[derive(Debug)]
pub struct Memory {
    max: usize,
    used: Cell<usize>,
    by_use: [Cell<usize>; USES],
    /// Large blocks on their way to sockets. They may be let go of on another shard.
    blocks: Arc<AtomicUsize>,
    /// Those of `blocks` that are bodies which several queues have.
    bodies: Arc<AtomicUsize>,
}

/// Bytes of the budget that are given back when it is dropped, on whichever shard that is.
#[derive(Debug)]
pub struct SharedCharge {
    bytes: usize,
    all: Arc<AtomicUsize>,
    bodies: Arc<AtomicUsize>,
}

impl Drop for SharedCharge {
    fn drop(&mut self) {
        self.bodies.fetch_sub(self.bytes, Ordering::Relaxed);
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Memory {
    /// A budget of so many bytes, unused.
    pub fn new(max: usize) -> Memory {
        let by_use = [const { Cell::new(0) }; USES];
        Memory { max, used: Cell::new(0), by_use, blocks: Arc::default(), bodies: Arc::default() }
    }

    /// Bytes of the whole budget.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Bytes in use.
    #[inline]
    pub fn used(&self) -> usize {
        self.used.get() + self.blocks.load(Ordering::Relaxed)
    }

    /// Bytes in use for one thing.
    pub fn used_for(&self, what: MemoryUse) -> usize {
        let blocks = match what {
            MemoryUse::Backlogs => {
                // Either may be let go of meanwhile.
                self.blocks.load(Ordering::Relaxed).saturating_sub(self.bodies())
            }
            MemoryUse::Queues => self.bodies(),
            _ => 0,
        };
        self.by_use(what).get() + blocks
    }

    /// Bytes of bodies that several queues have: each counts once, for as long as somebody has it.
    pub fn bodies(&self) -> usize {
        self.bodies.load(Ordering::Relaxed)
    }

    /// A body is kept that several queues have.
    pub fn charge_body(&self, bytes: usize) -> SharedCharge {
        let (all, bodies) = (self.blocks.clone(), self.bodies.clone());
        all.fetch_add(bytes, Ordering::Relaxed);
        bodies.fetch_add(bytes, Ordering::Relaxed);
        SharedCharge { bytes, all, bodies }
    }

    /// Bytes are kept from now on, whether there is room or not; ask [`Memory::has_room`] before.
    #[inline]
    pub fn charge(&self, what: MemoryUse, bytes: usize) {
        let cell = self.by_use(what);
        cell.set(cell.get() + bytes);
        self.used.set(self.used.get() + bytes);
    }

    /// Bytes are no longer kept.
    #[inline]
    pub fn refund(&self, what: MemoryUse, bytes: usize) {
        let cell = self.by_use(what);
        debug_assert!(cell.get() >= bytes, "{what:?}: more is given back than was charged");
        let bytes = bytes.min(cell.get());
        cell.set(cell.get() - bytes);
        self.used.set(self.used.get() - bytes);
    }

    /// So many bytes are kept where `before` were.
    #[inline]
    pub fn change(&self, what: MemoryUse, before: usize, after: usize) {
        if after >= before {
            self.charge(what, after - before);
        } else {
            self.refund(what, before - after);
        }
    }

    /// Replaces what is counted for a use that has one owner, which counts by itself.
    pub fn set(&self, what: MemoryUse, bytes: usize) {
        self.change(what, self.by_use(what).get(), bytes);
    }

    /// Whether so many more bytes may be kept for that: the budget has room, and the part of it that this
    /// use may have.
    #[inline]
    pub fn has_room(&self, what: MemoryUse, bytes: usize) -> bool {
        let most = if what.may_use_reserve() { self.max_with_reserve() } else { self.max };
        self.used().saturating_add(bytes) <= most && self.has_share(what, bytes)
    }

    /// Whether so many more bytes are within the part of the budget that this use may have, whatever others
    /// have: together they are bounded, but by more than the budget.
    pub fn has_share(&self, what: MemoryUse, bytes: usize) -> bool {
        self.used_for(what).saturating_add(bytes) <= self.share(what)
    }

    /// Bytes that a use may have at most.
    pub fn share(&self, what: MemoryUse) -> usize {
        let most = if what.may_use_reserve() { self.max_with_reserve() } else { self.max };
        most / what.divisor()
    }

    fn max_with_reserve(&self) -> usize {
        self.max.saturating_add(self.max / RESERVE_DIVISOR)
    }

    /// Whether more is kept than there should be: backlogs have to shrink, nothing else may grow.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.used() > self.max
    }

    /// Whether so much more is kept, and so much of it for backlogs, that no backlog may grow, whatever the
    /// policy of its topics.
    #[inline]
    pub fn is_exhausted(&self) -> bool {
        self.used() > self.max_with_reserve()
            && self.used_for(MemoryUse::Backlogs) > self.max / RESERVE_DIVISOR
    }

    /// What counts large blocks of bytes that are let go of elsewhere.
    pub fn blocks(&self) -> &Arc<AtomicUsize> {
        &self.blocks
    }

    #[inline]
    #[allow(clippy::indexing_slicing, reason = "the array has a place for each variant")]
    fn by_use(&self, what: MemoryUse) -> &Cell<usize> {
        &self.by_use[what as usize]
    }
}

/// Bytes that count in a shard's budget for as long as they live, wherever that ends: for blocks so large
/// that an atomic operation is nothing beside them.
#[derive(Debug)]
pub struct CountedBlock<B: AsRef<[u8]>> {
    bytes: B,
    blocks: Arc<AtomicUsize>,
}

impl<B: AsRef<[u8]>> CountedBlock<B> {
    /// Counts a block from now on.
    pub fn new(bytes: B, memory: &Memory) -> CountedBlock<B> {
        memory.blocks.fetch_add(bytes.as_ref().len(), Ordering::Relaxed);
        CountedBlock { bytes, blocks: memory.blocks.clone() }
    }
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for CountedBlock<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl<B: AsRef<[u8]>> Drop for CountedBlock<B> {
    fn drop(&mut self) {
        self.blocks.fetch_sub(self.bytes.as_ref().len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_uses_share_one_budget() {
        let memory = Memory::new(1000);
        for (place, what) in MemoryUse::ALL.into_iter().enumerate() {
            assert_eq!(what as usize, place);
            memory.charge(what, 10 + place);
        }
        let all = MemoryUse::ALL.iter().map(|what| memory.used_for(*what)).sum::<usize>();
        assert_eq!(memory.used(), all);
        assert!(memory.has_room(MemoryUse::Values, 1000 - all));
        assert!(!memory.has_room(MemoryUse::Queues, 1001 - all));
        memory.change(MemoryUse::Values, 5, 5 + 1000 - all);
        assert!(!memory.is_full() && !memory.has_room(MemoryUse::Backlogs, 1));
        assert!(memory.has_room(MemoryUse::Names, 125) && !memory.has_room(MemoryUse::Names, 126));
        memory.set(MemoryUse::BetweenShards, 126);
        assert!(memory.is_full() && !memory.is_exhausted(), "backlogs have little of it");
        memory.charge(MemoryUse::Backlogs, 126);
        assert!(memory.is_exhausted());
        memory.set(MemoryUse::BetweenShards, 0);
        memory.change(MemoryUse::Backlogs, 126, 0);
        assert!(!memory.is_full());
    }

    #[test]
    fn what_is_unfinished_leaves_room_for_what_is_finished() {
        let memory = Memory::new(800);
        assert!(memory.has_room(MemoryUse::Input, 450) && !memory.has_room(MemoryUse::Input, 451));
        assert!(!memory.has_room(MemoryUse::EarlyInput, 113));
        memory.charge(MemoryUse::EarlyInput, 112);
        assert!(!memory.has_room(MemoryUse::EarlyInput, 1));
        assert!(memory.has_room(MemoryUse::Input, 450) && memory.has_room(MemoryUse::Values, 688));
        memory.charge(MemoryUse::Queues, 800);
        assert!(!memory.has_room(MemoryUse::Input, 1) && memory.has_share(MemoryUse::Input, 450));
        assert!(!memory.has_share(MemoryUse::Input, 451));
    }

    #[test]
    fn a_large_block_counts_until_its_last_reader_lets_go_of_it() {
        let memory = Memory::new(100);
        let block = CountedBlock::new(vec![0; 60], &memory);
        assert_eq!((memory.used(), memory.used_for(MemoryUse::Backlogs)), (60, 60));
        assert!(!memory.has_room(MemoryUse::Values, 41));
        drop(block);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn bodies_count_for_queues_once_until_they_are_let_go_of() {
        let memory = Memory::new(1000);
        memory.charge(MemoryUse::Queues, 100);
        memory.blocks().fetch_add(10, Ordering::Relaxed);
        let bodies = [memory.charge_body(300), memory.charge_body(50)];
        assert_eq!((memory.used(), memory.bodies()), (460, 350));
        assert_eq!(memory.used_for(MemoryUse::Queues), 450);
        assert_eq!(memory.used_for(MemoryUse::Backlogs), 10);
        let [first, second] = bodies;
        drop(first);
        assert_eq!(memory.used_for(MemoryUse::Queues), 150);
        drop(second);
        assert_eq!((memory.used(), memory.bodies()), (110, 0));
    }
}
