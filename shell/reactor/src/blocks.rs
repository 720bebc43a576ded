//! Who is kept out: principals and addresses that an operator has blocked, for a while.
//!
//! ```text
//!   accept, a PROXY header, a request ─▶ the client's address ─┐
//!                                                              ├─▶ blocked?
//!   a login that was decided ─▶ its principal and its address ─┘
//! ```
//! In memory alone, and one for the node, so that one rule decides for all protocols. Relies on the caller for the time. Invariants: while
//! nothing is blocked, asking costs one load; a block ends by itself; there are no more than [`BLOCKS_MAX`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tiderace_base::{Close, CloseCode, Network, Now, PrefixLength, Time};
use tiderace_wire::{
    BLOCKS_MAX, Block, BlockEntry, BlockQuery, BlockResult, Blocked, blocked_close,
};

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// Whether there may be one: nothing else is looked at while there is none.
    are_there: AtomicBool,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: BTreeMap<Blocked, Held>,
    /// How many there are of networks with prefixes of each length.
    lengths: BTreeMap<PrefixLength, usize>,
    /// When each of them ends, the first one first.
    ends: BTreeSet<(Time, Blocked)>,
}

#[derive(Debug)]
struct Held {
    until: Time,
    entry: BlockEntry,
}

impl Blocks {
    /// Why clients of that address are kept out, if they are.
    #[inline]
    pub(crate) fn of_address(&self, now: Time, address: IpAddr) -> Option<Close> {
        self.are_there().then(|| self.find_address(now, address)).flatten()
    }

    /// Why a principal is kept out, if it is; it is asked for its name only if there are blocks.
    #[inline]
    pub(crate) fn of_principal(&self, now: Time, name: impl FnOnce() -> Arc<str>) -> Option<Close> {
        self.are_there().then(|| self.find_principal(now, &name())).flatten()
    }

    #[inline]
    fn are_there(&self) -> bool {
        self.are_there.load(Ordering::Relaxed)
    }

    #[cold]
    fn find_address(&self, now: Time, address: IpAddr) -> Option<Close> {
        let table = self.table(now);
        let networks = table.lengths.keys().filter_map(|it| Network::around(address, *it));
        let found = networks.filter_map(|network| table.entries.get(&Blocked::Address(network)));
        found.map(Held::close).next()
    }

    #[cold]
    fn find_principal(&self, now: Time, name: &str) -> Option<Close> {
        let table = self.table(now);
        table.entries.get(&Blocked::Principal(name.into())).map(Held::close)
    }

    /// Keeps somebody out from now on; one that is there already lasts as long as this one, and says what this one says.
    ///
    /// # Errors
    /// When there are as many as there may be.
    pub(crate) fn put(&self, now: Now, block: &Block, by: Arc<str>) -> Result<u64, Close> {
        let mut table = self.table(now.time);
        let is_new = !table.entries.contains_key(&block.who);
        if is_new && table.entries.len() >= BLOCKS_MAX {
            let reason = format!(
                "there are {BLOCKS_MAX} blocks already, as many as there may be; take some back, or block a network"
            );
            return Err(Close::new(CloseCode::TooManyTopics, reason));
        }
        if is_new && let Blocked::Address(network) = &block.who {
            *table.lengths.entry(network.prefix_length()).or_default() += 1;
        }
        let until = now.time + block.lasts;
        let until_ms = until_ms(now, block);
        let Block { who, reason, .. } = block.clone();
        let entry = BlockEntry { who: who.clone(), since_ms: now.wall_ms, until_ms, reason, by };
        table.ends.insert((until, who.clone()));
        if let Some(before) = table.entries.insert(who.clone(), Held { until, entry })
            && before.until != until
        {
            table.ends.remove(&(before.until, who));
        }
        self.are_there.store(true, Ordering::Relaxed);
        Ok(until_ms)
    }

    /// Keeps nobody out by that any more; how many blocks there were of it.
    pub(crate) fn remove(&self, now: Time, who: &Blocked) -> u64 {
        let mut table = self.table(now);
        let removed = table.forget(who);
        self.are_there.store(!table.entries.is_empty(), Ordering::Relaxed);
        u64::from(removed)
    }

    /// A page of those that there are.
    pub(crate) fn page(&self, now: Time, query: &BlockQuery) -> BlockResult {
        let table = self.table(now);
        let from = query.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = table.entries.range((from, Bound::Unbounded)).map(|(_, held)| &held.entry);
        let blocks: Vec<BlockEntry> = behind.by_ref().take(query.entries_max()).cloned().collect();
        let more = behind.next().is_some();
        BlockResult::Page { blocks, matched: table.entries.len() as u64, more }
    }

    /// The table, without those that have ended.
    fn table(&self, now: Time) -> MutexGuard<'_, Table> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.forget_ended(now) {
            self.are_there.store(!table.entries.is_empty(), Ordering::Relaxed);
        }
        table
    }
}

impl Table {
    /// Whether there were any.
    fn forget_ended(&mut self, now: Time) -> bool {
        let mut have_ended = false;
        while self.ends.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, who)) = self.ends.pop_first() else { break };
            have_ended |= self.forget(&who);
        }
        have_ended
    }

    /// Whether it was there.
    fn forget(&mut self, who: &Blocked) -> bool {
        let Some(held) = self.entries.remove(who) else { return false };
        self.ends.remove(&(held.until, who.clone()));
        if let Blocked::Address(network) = who {
            self.forget_length(network);
        }
        true
    }

    fn forget_length(&mut self, network: &Network) {
        if let Some(count) = self.lengths.get_mut(&network.prefix_length()) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&network.prefix_length());
            }
        }
    }
}

impl Held {
    fn close(&self) -> Close {
        blocked_close(self.entry.reason.as_deref())
    }
}

/// Until when a block lasts that begins now, in milliseconds since 1970.
pub(crate) fn until_ms(now: Now, block: &Block) -> u64 {
    now.wall_ms + u64::try_from(block.lasts.as_millis()).unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use tiderace_base::Span;

    use super::*;

    fn at(second: u64) -> Now {
        Now { time: Time::ZERO + Span::from_secs(second), wall_ms: 1_000_000 + second * 1000 }
    }

    fn block(who: &str, seconds: u64) -> Block {
        let (who, lasts) = (who.parse().unwrap(), Span::from_secs(seconds));
        Block { who, lasts, reason: None, force: false, dry_run: false }
    }

    fn put(blocks: &Blocks, second: u64, who: &str, seconds: u64) -> u64 {
        blocks.put(at(second), &block(who, seconds), "oli".into()).unwrap()
    }

    fn of(blocks: &Blocks, second: u64, address: &str) -> bool {
        blocks.of_address(at(second).time, address.parse().unwrap()).is_some()
    }

    fn listed(blocks: &Blocks, second: u64, query: &BlockQuery) -> (Vec<String>, u64, bool) {
        let BlockResult::Page { blocks, matched, more } = blocks.page(at(second).time, query)
        else {
            panic!("no page");
        };
        (blocks.iter().map(|entry| entry.who.to_string()).collect(), matched, more)
    }

    #[test]
    fn an_address_is_kept_out_by_any_network_that_has_it_until_that_ends() {
        let blocks = Blocks::default();
        assert!(!of(&blocks, 0, "10.1.2.3"));
        assert_eq!(put(&blocks, 0, "address=10.0.0.0/8", 60), 1_060_000);
        put(&blocks, 0, "address=10.1.2.3", 10);
        put(&blocks, 0, "address=2001:db8::/32", 10);
        for address in ["10.1.2.3", "::ffff:10.1.2.3", "10.9.9.9", "2001:db8::7"] {
            assert!(of(&blocks, 9, address), "{address}");
        }
        for address in ["11.1.2.3", "2001:db9::7", "::10.1.2.3"] {
            assert!(!of(&blocks, 9, address), "{address}");
        }
        // The narrow one has ended, and the wide one has not.
        assert!(of(&blocks, 10, "10.1.2.3") && !of(&blocks, 10, "2001:db8::7"));
        assert!(of(&blocks, 59, "10.1.2.3") && !of(&blocks, 60, "10.1.2.3"));
        assert!(!blocks.are_there(), "nothing is looked at any more");
        let table = blocks.table.lock().unwrap();
        assert!(table.lengths.is_empty() && table.ends.is_empty());
    }

    #[test]
    fn a_principal_is_kept_out_until_that_is_taken_back() {
        let blocks = Blocks::default();
        let is_out = |second, name: &'static str| {
            blocks.of_principal(at(second).time, || name.into()).is_some()
        };
        put(&blocks, 0, "principal=ann", 60);
        put(&blocks, 0, "principal=@shop/bob", 60);
        assert!(is_out(1, "ann") && is_out(1, "@shop/bob") && !is_out(1, "bob"));
        assert_eq!(blocks.remove(at(2).time, &"principal=ann".parse().unwrap()), 1);
        assert_eq!(blocks.remove(at(2).time, &"principal=ann".parse().unwrap()), 0);
        assert!(!is_out(3, "ann") && is_out(3, "@shop/bob"));
        // Once more: it lasts as long as the last one says.
        put(&blocks, 3, "principal=ann", 100);
        put(&blocks, 3, "principal=ann", 5);
        assert!(is_out(7, "ann") && !is_out(8, "ann"));
        assert_eq!(blocks.table.lock().unwrap().ends.len(), 1, "bob's");
    }

    #[test]
    fn what_clients_are_told_names_the_reason() {
        let blocks = Blocks::default();
        let later = Block { reason: Some("try later".into()), ..block("principal=ann", 9) };
        blocks.put(at(0), &later, "oli".into()).unwrap();
        let close = blocks.of_principal(at(1).time, || "ann".into()).unwrap();
        assert_eq!(close.code, CloseCode::Blocked);
        assert!(close.reason.contains("try later"), "{close}");
    }

    #[test]
    fn there_are_only_so_many_and_they_are_listed_a_page_at_a_time() {
        let blocks = Blocks::default();
        for number in 0..BLOCKS_MAX {
            let who = format!("address=10.0.{}.{}", number / 256, number % 256);
            put(&blocks, 0, &who, 60);
        }
        let more = blocks.put(at(1), &block("principal=ann", 5), "oli".into()).unwrap_err();
        assert!(more.reason.contains("10000 blocks already"), "{more}");
        // One that is there may be put again.
        put(&blocks, 1, "address=10.0.0.0", 60);
        let (mut query, mut all) = (BlockQuery { limit: 500, after: None }, Vec::new());
        loop {
            let (page, matched, more) = listed(&blocks, 1, &query);
            assert_eq!((page.len(), matched), (500, BLOCKS_MAX as u64));
            query.after = Some(page.last().unwrap().parse().unwrap());
            all.extend(page);
            if !more {
                break;
            }
        }
        assert_eq!((all.len(), &*all[1]), (BLOCKS_MAX, "address=10.0.0.1"));
        assert_eq!(listed(&blocks, 61, &BlockQuery::default()), (vec![], 0, false));
        put(&blocks, 61, "principal=ann", 5);
    }
}
