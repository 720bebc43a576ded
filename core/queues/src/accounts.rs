//! What the queues of each principal hold together, and whether it may have more.
//!
//! A queue counts for its owner: who has made it, or whom its options name. A home counts its own queues, and is told of
//! the bytes in those of other homes; so a quota of bytes holds for all of them, but for what has come elsewhere
//! since the last tick. Relies on queues that say what they gain and lose. Invariants: what an account has is the sum over
//! its queues; one that nobody has queues in, here or elsewhere, is not kept; who has no quota of bytes is not counted.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Memory, MemoryUse};

/// What principals may have in queues.
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    /// What each may have that `of` does not name.
    pub usual: Quota,
    /// Those that may have something else.
    pub of: Vec<(Arc<str>, Quota)>,
}

/// What one principal may have in queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of messages in all its queues, in memory and in the store; zero: any number.
    pub bytes_max: u64,
    /// Queues at one home; zero: any number.
    pub queues_max: usize,
}

/// Why a principal may have no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverQuota {
    /// Its queues have so many bytes, and may have no more than that.
    Bytes(u64, u64),
    /// It has so many queues here, which is as many as it may.
    Queues(usize),
}

/// What would come to the queues of one principal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Brought {
    /// Queues that are made for it.
    pub(crate) queues: usize,
    /// Bytes for queues that do not drop what is too much.
    pub(crate) bytes: usize,
    /// How many come together: one that comes alone is taken by an account that has nothing.
    pub(crate) parts: usize,
}

/// Accounts that have changed of which so many are looked at in one tick for what other homes are to be told.
const TOLD_MAX: usize = 1_024;
/// Other homes are told when this part of a quota has come or gone, or a tick later when nothing comes any more.
const STEP_DIVISOR: u64 = 128;
/// An account shows as full when less than this part of its quota is left.
const NEARLY_DIVISOR: u64 = 64;
/// It is counted as full until this part of its quota is left, so that it is not so again and again.
const LEFT_DIVISOR: u64 = 16;
/// What an account takes beside its name: its record and its places in maps.
const ACCOUNT_BYTES: usize = size_of::<Account>() + 192;

/// What one principal has in queues.
#[derive(Debug)]
pub(crate) struct Account {
    name: Arc<str>,
    quota: Quota,
    queues: Cell<usize>,
    /// In the queues here, if there is a quota of bytes.
    bytes: Cell<u64>,
    /// In those of other homes, as they have said.
    elsewhere: Cell<u64>,
    /// What other homes know of those here.
    told: Cell<u64>,
    /// What there was a tick ago.
    before: Cell<u64>,
    /// Whether it is among those that are full, and among those that have changed.
    counted_full: Cell<bool>,
    noted: Cell<bool>,
    notes: Rc<Notes>,
}

/// What all accounts of a home note together, so that nobody has to look through them.
#[derive(Debug, Default)]
struct Notes {
    /// How many are full.
    full: Cell<usize>,
    /// Those that have changed since other homes were told of them.
    changed: RefCell<VecDeque<Arc<str>>>,
}

impl Account {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether there is a quota of bytes.
    pub(crate) fn counts(&self) -> bool {
        self.quota.bytes_max > 0
    }

    /// Some bytes have come, and some have gone.
    #[inline]
    pub(crate) fn change(&self, less: u64, more: u64) {
        self.bytes.set((self.bytes.get() + more).saturating_sub(less));
        self.count_if_full();
        if !self.noted.replace(true) {
            self.notes.changed.borrow_mut().push_back(self.name.clone());
        }
    }

    /// Counts it where the full ones are counted, or no more.
    #[inline]
    fn count_if_full(&self) {
        let divisor = if self.counted_full.get() { LEFT_DIVISOR } else { NEARLY_DIVISOR };
        let (is_full, all) = (self.has_less_left(divisor), &self.notes.full);
        if self.counted_full.replace(is_full) != is_full {
            all.set(if is_full { all.get() + 1 } else { all.get().saturating_sub(1) });
        }
    }

    fn used(&self) -> u64 {
        self.bytes.get().saturating_add(self.elsewhere.get())
    }

    /// Bytes that it has and may have.
    pub(crate) fn stand(&self) -> (u64, u64) {
        (self.used(), self.quota.bytes_max)
    }

    /// Whether it has all that it may, or so much that larger messages are refused.
    pub(crate) fn is_full(&self) -> bool {
        self.has_less_left(NEARLY_DIVISOR)
    }

    /// Whether no more than that part of what it may have is left.
    fn has_less_left(&self, divisor: u64) -> bool {
        let most = self.quota.bytes_max;
        self.counts() && self.used() >= most - most / divisor
    }

    /// Whether it has more than it may.
    pub(crate) fn is_over(&self) -> bool {
        self.counts() && self.used() > self.quota.bytes_max
    }

    /// Why it takes no messages of so many bytes; one that has nothing takes any that come alone.
    pub(crate) fn refuses(&self, more: usize, are_alone: bool) -> Option<OverQuota> {
        let (used, most) = (self.used(), self.quota.bytes_max);
        let takes_any = used == 0 && are_alone;
        let is_over = !takes_any && used.saturating_add(more as u64) > most;
        (self.counts() && is_over).then_some(OverQuota::Bytes(used, most))
    }

    /// Why it takes no more queues, so many.
    fn refuses_queues(&self, more: usize) -> Option<OverQuota> {
        let most = self.quota.queues_max;
        let is_over = more > 0 && self.queues.get().saturating_add(more) > most;
        (most > 0 && is_over).then_some(OverQuota::Queues(most))
    }

    fn refuses_all(&self, more: Brought) -> Option<OverQuota> {
        let bytes = || self.refuses(more.bytes, more.parts <= 1);
        self.refuses_queues(more.queues).or_else(|| if more.parts > 0 { bytes() } else { None })
    }
}

/// An account, and what other homes have said of it.
#[derive(Debug)]
struct Entry {
    account: Rc<Account>,
    /// Bytes by home.
    elsewhere: Vec<(u64, u64)>,
}

/// The accounts of one home.
#[derive(Debug)]
pub(crate) struct Accounts {
    quotas: Quotas,
    by_name: BTreeMap<Arc<str>, Entry>,
    notes: Rc<Notes>,
    memory: Rc<Memory>,
}

impl Accounts {
    pub(crate) fn new(memory: Rc<Memory>) -> Accounts {
        let (quotas, by_name) = (Quotas::default(), BTreeMap::new());
        Accounts { quotas, by_name, notes: Rc::default(), memory }
    }

    /// What principals may have; to be said before there are any.
    pub(crate) fn set_quotas(&mut self, quotas: Quotas) {
        self.quotas = quotas;
    }

    /// Somebody has a queue more.
    pub(crate) fn begin_queue(&mut self, name: &Arc<str>) -> Rc<Account> {
        let account = self.entry(name).account.clone();
        account.queues.set(account.queues.get() + 1);
        account
    }

    /// A queue has ended that had so many bytes.
    pub(crate) fn end_queue(&mut self, account: &Account, bytes: u64) {
        account.queues.set(account.queues.get().saturating_sub(1));
        if account.counts() {
            account.change(bytes, 0);
        }
        self.tidy(&account.name);
    }

    /// Why somebody may not have so much more.
    pub(crate) fn refuses(&self, name: &Arc<str>, more: Brought) -> Option<OverQuota> {
        match self.by_name.get(name) {
            Some(entry) => entry.account.refuses_all(more),
            None => self.quotas.account(name, &self.notes).refuses_all(more),
        }
    }

    /// Another home says how many bytes somebody has there.
    pub(crate) fn note_elsewhere(&mut self, home: u64, name: &Arc<str>, bytes: u64) {
        let entry = self.entry(name);
        entry.elsewhere.retain(|(of, _)| *of != home);
        if bytes > 0 {
            entry.elsewhere.push((home, bytes));
        }
        entry.add_up();
        self.tidy(name);
    }

    /// Another home is lost, with the queues there.
    pub(crate) fn lose(&mut self, home: u64) {
        let names: Vec<Arc<str>> = self.by_name.keys().cloned().collect();
        for name in names {
            self.note_elsewhere(home, &name, 0);
        }
    }

    /// What other homes are to be told: who has how many bytes here, of those where that has changed. Some accounts at a
    /// time.
    pub(crate) fn news(&mut self) -> Vec<(Arc<str>, u64)> {
        let mut news = Vec::new();
        let changed = self.notes.changed.borrow().len();
        for _ in 0..changed.min(TOLD_MAX) {
            let Some(name) = self.notes.changed.borrow_mut().pop_front() else { break };
            let Some(entry) = self.by_name.get(&name) else { continue };
            let account = &entry.account;
            let bytes = account.news();
            if account.is_told() {
                account.noted.set(false);
            } else {
                self.notes.changed.borrow_mut().push_back(name.clone());
            }
            if let Some(bytes) = bytes {
                // It may have been kept until others know that it has nothing.
                self.tidy(&name);
                news.push((name, bytes));
            }
        }
        news
    }

    /// How many principals have queues, and how many of them all the bytes that they may.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.by_name.len(), self.notes.full.get())
    }

    fn entry(&mut self, name: &Arc<str>) -> &mut Entry {
        let Accounts { quotas, memory, notes, .. } = self;
        self.by_name.entry(name.clone()).or_insert_with(|| {
            memory.charge(MemoryUse::Names, price_of(name));
            Entry { account: Rc::new(quotas.account(name, notes)), elsewhere: Vec::new() }
        })
    }

    /// Forgets an account of which nothing is to be known.
    fn tidy(&mut self, name: &Arc<str>) {
        let is_over = |entry: &Entry| {
            let Account { queues, bytes, told, .. } = &*entry.account;
            queues.get() == 0 && bytes.get() == 0 && told.get() == 0 && entry.elsewhere.is_empty()
        };
        if self.by_name.get(name).is_some_and(is_over) {
            self.by_name.remove(name);
            self.memory.refund(MemoryUse::Names, price_of(name));
        }
    }
}

impl Entry {
    fn add_up(&self) {
        let sum = self.elsewhere.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        self.account.elsewhere.set(sum);
        self.account.count_if_full();
    }
}

impl Account {
    /// Whether other homes know what it has.
    fn is_told(&self) -> bool {
        self.bytes.get() == self.told.get()
    }

    /// What other homes are to be told, if it is worth it.
    fn news(&self) -> Option<u64> {
        let (bytes, told) = (self.bytes.get(), self.told.get());
        let is_still = self.before.replace(bytes) == bytes;
        let step = self.quota.bytes_max / STEP_DIVISOR;
        let is_worth_it = bytes != told && (is_still || bytes.abs_diff(told) > step);
        is_worth_it.then(|| {
            self.told.set(bytes);
            bytes
        })
    }
}

impl Quotas {
    fn account(&self, name: &Arc<str>, notes: &Rc<Notes>) -> Account {
        let own = self.of.iter().find(|(of, _)| of == name);
        let quota = own.map_or(self.usual, |(_, quota)| *quota);
        let (name, queues, notes) = (name.clone(), Cell::new(0), notes.clone());
        let [counted_full, noted] = [const { Cell::new(false) }; 2];
        let [bytes, elsewhere, told, before] = [const { Cell::new(0) }; 4];
        Account { name, quota, queues, bytes, elsewhere, told, before, counted_full, noted, notes }
    }
}

fn price_of(name: &str) -> usize {
    ACCOUNT_BYTES + 2 * name.len()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn accounts(bytes_max: u64, queues_max: usize) -> Accounts {
        let mut accounts = Accounts::new(Rc::new(Memory::new(1 << 20)));
        let roomy = ("bob".into(), Quota { bytes_max: 0, queues_max: 0 });
        accounts.set_quotas(Quotas { usual: Quota { bytes_max, queues_max }, of: vec![roomy] });
        accounts
    }

    /// A queue is made for messages of so many bytes.
    fn brought(bytes: usize) -> Brought {
        Brought { queues: 1, bytes, parts: 1 }
    }

    #[test]
    fn an_account_has_what_its_queues_have_and_goes_with_the_last() {
        let mut accounts = accounts(100, 2);
        let [ann, bob]: [Arc<str>; 2] = ["ann".into(), "bob".into()];
        assert_eq!(accounts.refuses(&ann, brought(1_000)), None, "one that has nothing takes any");
        let account = accounts.begin_queue(&ann);
        account.change(0, 60);
        assert_eq!(account.refuses(40, true), None);
        assert_eq!(account.refuses(41, true), Some(OverQuota::Bytes(60, 100)));
        assert_eq!(accounts.refuses(&ann, brought(41)), Some(OverQuota::Bytes(60, 100)));
        accounts.begin_queue(&ann);
        assert_eq!(
            accounts.refuses(&ann, Brought { queues: 1, ..Brought::default() }),
            Some(OverQuota::Queues(2))
        );
        let other = accounts.begin_queue(&bob);
        assert!(!other.counts() && accounts.refuses(&bob, brought(usize::MAX)).is_none());
        account.change(0, 40);
        assert!(account.is_full() && !account.is_over());
        assert_eq!(accounts.count(), (2, 1));
        accounts.end_queue(&account, 100);
        accounts.end_queue(&account, 0);
        accounts.end_queue(&other, 0);
        assert_eq!((accounts.count(), accounts.memory.used()), ((0, 0), 0));
    }

    #[test]
    fn an_account_whose_bytes_swing_around_its_bound_is_counted_as_full_all_the_time() {
        let mut accounts = accounts(1600, 0);
        let account = accounts.begin_queue(&"ann".into());
        account.change(0, 1574);
        assert_eq!(accounts.count(), (1, 0));
        for _ in 0..3 {
            account.change(0, 1);
            assert_eq!((accounts.count(), account.is_full()), ((1, 1), true));
            account.change(75, 0);
            assert_eq!((accounts.count(), account.is_full()), ((1, 1), false));
            account.change(0, 74);
        }
        account.change(75, 0);
        assert_eq!(accounts.count(), (1, 0));
        accounts.end_queue(&account, 1499);
    }

    #[test]
    fn homes_are_told_in_steps_and_at_last_of_the_rest() {
        let mut accounts = accounts(128 * 10, 0);
        let ann: Arc<str> = "ann".into();
        let account = accounts.begin_queue(&ann);
        account.change(0, 10);
        assert_eq!(accounts.news(), [], "less than a step, and it has just come");
        account.change(0, 1);
        assert_eq!(accounts.news(), [(ann.clone(), 11)]);
        account.change(5, 0);
        assert_eq!(accounts.news(), []);
        assert_eq!(accounts.news(), [(ann.clone(), 6)], "nothing comes any more");
        assert_eq!(accounts.news(), []);
        accounts.end_queue(&account, 6);
        assert_eq!(accounts.count().0, 1, "others have yet to hear of it");
        assert_eq!(accounts.news(), []);
        assert_eq!(accounts.news(), [(ann, 0)]);
        assert_eq!((accounts.count(), accounts.memory.used()), ((0, 0), 0));
    }

    #[test]
    fn what_lies_elsewhere_counts_until_that_home_says_otherwise_or_is_lost() {
        let mut accounts = accounts(100, 0);
        let ann: Arc<str> = "ann".into();
        accounts.note_elsewhere(1, &ann, 60);
        accounts.note_elsewhere(2, &ann, 30);
        assert_eq!(accounts.refuses(&ann, brought(11)), Some(OverQuota::Bytes(90, 100)));
        accounts.note_elsewhere(1, &ann, 20);
        let account = accounts.begin_queue(&ann);
        assert_eq!((account.refuses(50, true), account.is_full()), (None, false));
        accounts.lose(2);
        assert_eq!(account.refuses(81, true), Some(OverQuota::Bytes(20, 100)));
        accounts.end_queue(&account, 0);
        accounts.note_elsewhere(1, &ann, 0);
        assert_eq!((accounts.count(), accounts.memory.used()), ((0, 0), 0));
    }

    #[test]
    fn only_what_has_changed_is_looked_at() {
        let mut accounts = accounts(100, 0);
        let of = |at: usize| Arc::from(format!("{at:05}").as_str());
        let all: Vec<_> = (0..5_000).map(|at| accounts.begin_queue(&of(at))).collect();
        let bob = accounts.begin_queue(&"bob".into());
        assert!(!bob.counts() && accounts.news().is_empty());
        all[4_999].change(0, 99);
        assert_eq!(accounts.news(), [(of(4_999), 99)], "in the first tick");
        assert_eq!(accounts.count(), (5_001, 1));
        all[4_999].change(50, 0);
        accounts.note_elsewhere(1, &of(4_999), 50);
        assert_eq!(accounts.count(), (5_001, 1), "with what others have");
        all[4_999].change(49, 0);
        assert_eq!((accounts.count(), accounts.news()), ((5_001, 0), vec![(of(4_999), 0)]));
        assert!(accounts.notes.changed.borrow().is_empty());
    }

    #[test]
    fn every_account_is_looked_at_however_many_there_are() {
        let mut accounts = accounts(100, 0);
        for at in 0..2_500 {
            accounts.begin_queue(&Arc::from(format!("{at:04}").as_str())).change(0, 50);
        }
        let told: Vec<_> = (0..3).map(|_| accounts.news().len()).collect();
        assert_eq!(told, [1_024, 1_024, 452]);
        assert_eq!(accounts.news(), []);
    }
}
