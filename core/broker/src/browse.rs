//! Lists of sessions, queues and services, for who has the right `browse`.
//!
//! A page comes from one shard, which the cursor names: the session's shard for sessions, the home for queues
//! and services. Relies on rooms to give what is at a place, and on places to stay as long as what is there.
//! Invariants: a page looks at no more than [`LOOKED_AT_MAX`] places, and ends when it has [`PAGE_BYTES`] or has asked
//! the rules for so many names; every entry has been allowed by the rules.

use std::cell::Cell;

use tiderace_base::{Close, CloseCode, Now, SessionId, ShardId};
use tiderace_topics::Path;
use tiderace_wire::{
    Browsable, Browse, BrowseCursor, Kind, Listing, ListingEntry, Operation, OperationResult,
    Target,
};

use crate::authorise::denied;
use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::places::Place;
use crate::price::{LISTED, MATCHED, TOPIC};
use crate::requester::Requester;
use crate::session_side::SessionSide;
use crate::{Action, BrokerOptions, Principal};

/// Places that are looked at for one page, and names of services for which the rules are asked, but for those that
/// the last subscription has beside.
const LOOKED_AT_MAX: u32 = 1_024;
/// Bytes of the entries of one page; one entry alone may be larger.
const PAGE_BYTES: usize = 64 << 10;
/// What an entry counts for beside its texts.
const ENTRY_BYTES: usize = 96;

impl BrokerOptions {
    /// Whether somebody may browse any such thing at all.
    fn may_browse(&self, principal: &Principal, what: Browsable) -> Result<(), Close> {
        let kind = match what {
            Browsable::Sessions => return self.may_watch(principal, Action::Browse),
            Browsable::Queues => Kind::Queue,
            Browsable::Services => Kind::Service,
        };
        if self.rules.authorise_anywhere(principal, Action::Browse, kind) {
            return Ok(());
        }
        Err(denied(&principal.name, Action::Browse, kind, "**"))
    }
}

impl SessionSide<'_> {
    /// On the session's shard: sends for the page where it is.
    pub(crate) fn send_for_page(
        &mut self,
        requester: Requester,
        browse: Browse,
        effects: &mut Effects,
    ) {
        let ShardId(shard) = browse.from.shard;
        let result = if usize::from(shard) >= self.options.shards {
            let reason = format!("`after` names the shard {shard}, which is not there");
            Err(Close::new(CloseCode::BadOperation, reason))
        } else {
            self.options.may_browse(&requester.principal, browse.what)
        };
        match result {
            Ok(()) => {
                let home = Place::here(browse.from.shard);
                self.send_operation(home, requester, Operation::Browse(browse), effects);
            }
            Err(close) => self.loopback.answer_operation(&requester, Err(close), effects),
        }
    }

    /// A page of the sessions of this shard.
    pub(crate) fn browse_sessions(&mut self, now: Now, browse: &Browse) -> OperationResult {
        let slots = self.sessions.slots();
        let entry = |slot| self.session_entry(slot).map(ListingEntry::Session);
        let listing = page(browse, slots, self.options.shards, entry, || true);
        let looked = places(browse, slots) + LISTED * listing.entries.len() as u64;
        self.work.charge_at(now, looked);
        OperationResult::Listing(Box::new(listing))
    }
}

impl HomeSide<'_> {
    /// A page of the queues or services of this shard.
    pub(crate) fn browse(
        &mut self,
        now: Now,
        requester: &Requester,
        browse: &Browse,
    ) -> OperationResult {
        let asked = Cell::new(0);
        let entry = |slot| self.entry_at(now, requester, browse, slot, &asked);
        let goes_on = || asked.get() < LOOKED_AT_MAX;
        let slots = self.places_of(browse.what);
        let listing = page(browse, slots, self.options.shards, entry, goes_on);
        // Places have been paid for; of services the rules are asked for each name.
        let names = u64::from(asked.get()).saturating_sub(self.price_of_page(browse));
        self.work.charge_at(now, names + LISTED * listing.entries.len() as u64);
        OperationResult::Listing(Box::new(listing))
    }

    /// What a page costs before it is known what is in it; of sessions it is charged when the page is made.
    pub(crate) fn price_of_page(&self, browse: &Browse) -> u64 {
        places(browse, self.places_of(browse.what))
    }

    /// Places of a kind on this shard.
    fn places_of(&self, what: Browsable) -> u32 {
        match what {
            Browsable::Sessions => 0,
            Browsable::Queues => self.home.queues().slots(),
            Browsable::Services => self.home.services().slots(),
        }
    }

    /// What is at a place, if there is anything that may be shown; counts the names for which the rules were asked.
    fn entry_at(
        &self,
        now: Now,
        requester: &Requester,
        browse: &Browse,
        slot: u32,
        asked: &Cell<u32>,
    ) -> Option<ListingEntry> {
        let may =
            |kind, path: &Path| self.options.may(requester.caller(), Action::Browse, kind, path);
        let patterns = &browse.patterns;
        let is_named =
            |path| patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(path));
        Some(match browse.what {
            Browsable::Sessions => return None,
            Browsable::Queues => {
                let queue = self.home.queues().at(slot)?;
                if !is_named(queue.path) || !may(Kind::Queue, queue.path) {
                    return None;
                }
                ListingEntry::Queue(self.home.entry_of(self.options, now.time, &queue))
            }
            Browsable::Services => {
                let may_show = |session: SessionId, target: &Target| {
                    asked.set(asked.get() + 1);
                    match target {
                        Target::Exact(destination) => may(Kind::Service, &destination.path),
                        // Every home has it, and one of them lists it.
                        Target::Pattern(..) if session.shard != self.shard => false,
                        Target::Pattern(_, pattern) => {
                            let (rules, principal) = (&self.options.rules, &requester.principal);
                            rules.authorise_all(principal, Action::Browse, Kind::Service, pattern)
                        }
                    }
                };
                ListingEntry::Service(self.home.services().entry_at(slot, may_show)?)
            }
        })
    }
}

/// What the places that are looked at for a page cost, of so many.
fn places(browse: &Browse, slots: u32) -> u64 {
    let each = TOPIC + MATCHED * browse.patterns.len() as u64;
    each * u64::from(slots.saturating_sub(browse.from.slot).min(LOOKED_AT_MAX))
}

/// A page of what is at so many places, as long as it `goes_on`.
fn page(
    browse: &Browse,
    slots: u32,
    shards: usize,
    entry_at: impl Fn(u32) -> Option<ListingEntry>,
    goes_on: impl Fn() -> bool,
) -> Listing {
    let Browse { what, from: BrowseCursor { shard, slot: first }, .. } = *browse;
    let most = browse.entries_max();
    let end = slots.min(first.saturating_add(LOOKED_AT_MAX));
    let (mut slot, mut bytes, mut entries) = (first, 0, Vec::new());
    while slot < end && entries.len() < most && bytes < PAGE_BYTES && goes_on() {
        if let Some(entry) = entry_at(slot) {
            bytes += ENTRY_BYTES + entry.bytes();
            entries.push(entry);
        }
        slot += 1;
    }
    let next = if slot < slots {
        Some(BrowseCursor { shard, slot })
    } else {
        let next = ShardId(shard.0 + 1);
        (next.index() < shards).then_some(BrowseCursor { shard: next, slot: 0 })
    };
    Listing { what, entries, next }
}
