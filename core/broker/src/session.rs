//! What the broker knows of a session.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use tiderace_base::{Allowances, Key, SessionId, ShardId, Time};
use tiderace_topics::Path;
use tiderace_wire::{Kind, Numbering, Priority, Root, Run, SubscriptionKey, Token};

use crate::Principal;
use crate::delivery::backlog::{Backlog, Pending};
use crate::delivery::selection::Unselected;
use crate::delivery::spares::Spares;
use crate::effects::Effects;
use crate::exchange::Open;
use crate::holdings::Holdings;
use crate::messages::SubscribeRequestId;
use crate::places::{Place, PlaceSet};
use crate::session_host::SessionHost;
use crate::subscription::Subscription;
use crate::subscriptions::{Entry, Subscriptions};
use crate::waits::Waits;

/// One client on its shard. Kept small: there may be millions of idle ones.
#[derive(Debug)]
pub(crate) struct Session {
    /// The reactor's name for what carries it.
    pub(crate) link: u32,
    /// How many destinations hold it back from publishing.
    pub(crate) backpressured_by: u32,
    pub(crate) principal: Option<Rc<Principal>>,
    pub(crate) subscriptions: Subscriptions,
    /// What waits to be delivered; absent while nothing does.
    pub(crate) backlog: Option<Box<Backlog>>,
    /// What an idle subscriber does not need.
    pub(crate) rare: Option<Box<Rare>>,
}

const _: () = assert!(size_of::<Session>() <= 48, "there may be millions of idle ones");

/// What is known of a session that publishes, is slow or has exchanges.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// Set while the backlog is above the mark.
    pub(crate) slow: Option<Slow>,
    /// Destinations that hold it back from publishing.
    pub(crate) waits: Option<Box<Waits>>,
    /// The destination it may publish to as was found last, and by which version of the rules.
    pub(crate) may_publish: Option<(Kind, Path, u32)>,
    /// Messages that wait for its selectors to be evaluated.
    pub(crate) unselected: Option<Box<Unselected>>,
    /// The virtual host that it has named or is in, if there are any.
    pub(crate) host: Option<Box<SessionHost>>,
    /// What is published when it ends.
    pub(crate) will: Option<Box<Run>>,
    pub(crate) asked_will: Option<Box<AskedWill>>,
    /// Whether its client has said goodbye.
    pub(crate) leaving: bool,
    /// What limits it, if something does.
    pub(crate) allowances: Option<Allowances>,
    /// What it has for itself and gives back when it ends.
    pub(crate) holdings: Option<Box<Holdings>>,
    /// The homes that it has asked for something that may take long.
    pub(crate) jobs: PlaceSet,
    /// Its open exchanges, if it has any.
    pub(crate) exchanges: Option<Box<Open>>,
    /// For how many of its subscriptions old messages may still come from some home: until then
    /// deliveries say nothing about its position.
    pub(crate) recovering: u32,
    /// What it has asked of snapshots.
    pub(crate) paging: Option<Box<Paging>>,
    /// Numbers up to which homes have answered meanwhile.
    pub(crate) reached: Vec<(ShardId, u64)>,
    /// The same of the numbers of other nodes.
    pub(crate) reached_upstream: Vec<(Numbering, u64)>,
    /// Compiled bytes of its subscriptions' regular expressions.
    pub(crate) regex_bytes: u32,
    /// Subscriptions that got credit back for messages that were given up again.
    #[allow(clippy::box_collection, reason = "hardly any session ever has them")]
    pub(crate) refunded: Option<Box<Vec<SubscriptionKey>>>,
    /// Messages for which it got newer ones.
    pub(crate) conflated: u64,
    /// Messages that it did not get because it was slow.
    pub(crate) dropped: u64,
}

impl Rare {
    /// Whether forgetting it would change nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.slow.is_none()
            && self.unselected.is_none()
            && self.waits.as_ref().is_none_or(|waits| waits.is_empty())
            && self.may_publish.is_none()
            && self.exchanges.is_none()
            && self.host.is_none()
            && self.will.is_none()
            && self.asked_will.is_none()
            && !self.leaving
            && self.holdings.is_none()
            && self.allowances.is_none()
            && self.jobs.is_empty()
            && self.recovering == 0
            && self.regex_bytes == 0
            && self.paging.is_none()
            && self.refunded.is_none()
            && self.conflated == 0
            && self.dropped == 0
    }
}

impl Rare {
    /// Keeps a number for when it may be said.
    pub(crate) fn note_reached(&mut self, home: ShardId, number: u64) {
        match self.reached.iter_mut().find(|(known, _)| *known == home) {
            Some((_, known)) => *known = number.max(*known),
            None => self.reached.push((home, number)),
        }
    }
}

impl Rare {
    /// Keeps numbers of other nodes for when they may be said.
    pub(crate) fn note_reached_upstream(&mut self, marks: &[(Numbering, u64)]) {
        for (numbering, number) in marks.iter().copied() {
            match self.reached_upstream.iter_mut().find(|(known, _)| *known == numbering) {
                Some((_, known)) => *known = number.max(*known),
                None => self.reached_upstream.push((numbering, number)),
            }
        }
    }
}

/// What a session has asked of homes.
#[derive(Debug, Default)]
pub(crate) struct Paging {
    /// Snapshots that have more, of which no page is under way.
    pub(crate) waiting: VecDeque<(Place, SubscribeRequestId)>,
    /// How many of them, at most, are of subscriptions that have ended: they are passed over.
    pub(crate) ended: usize,
    /// Bytes that may still come, by home.
    promised: Vec<(Place, usize)>,
}

impl Paging {
    /// A home may send so many bytes.
    pub(crate) fn promise(&mut self, home: Place, bytes: usize) {
        match self.promised.iter_mut().find(|(known, _)| *known == home) {
            Some((_, promised)) => *promised += bytes,
            None => self.promised.push((home, bytes)),
        }
    }

    /// A home has sent what so many bytes were promised for.
    pub(crate) fn redeem(&mut self, home: Place, bytes: usize) {
        let Some(at) = self.promised.iter().position(|(known, _)| *known == home) else { return };
        let Some((_, promised)) = self.promised.get_mut(at) else { return };
        *promised = promised.saturating_sub(bytes);
        if *promised == 0 {
            self.promised.swap_remove(at);
        }
    }

    /// Whether a home may send something.
    pub(crate) fn is_promised_by(&self, home: Place) -> bool {
        self.promised.iter().any(|(known, _)| *known == home)
    }

    /// Bytes that may still come.
    pub(crate) fn promised(&self) -> usize {
        self.promised.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// A will that its topic's home is asked about.
#[derive(Debug)]
pub(crate) struct AskedWill {
    pub(crate) token: Token,
    pub(crate) run: Box<Run>,
}

/// A session above the mark.
#[derive(Debug)]
pub(crate) struct Slow {
    pub(crate) since: Time,
    /// Whether the grace period is over, so that publishers no longer wait for it.
    pub(crate) over_grace: bool,
    /// The topics whose publishers wait for it.
    pub(crate) topics: BTreeSet<Key>,
}

impl Session {
    pub(crate) fn new(link: u32) -> Session {
        Session {
            link,
            backpressured_by: 0,
            principal: None,
            subscriptions: Subscriptions::default(),
            backlog: None,
            rare: None,
        }
    }

    /// Where its names lie, if it is in a virtual host.
    #[inline]
    pub(crate) fn root(&self) -> Option<&Root> {
        self.rare.as_ref()?.host.as_ref()?.root.as_ref()
    }

    /// What limits it, if something does.
    pub(crate) fn allowances(&self) -> Option<&Allowances> {
        self.rare.as_ref()?.allowances.as_ref()
    }

    /// It is limited by these from now on, or no more; its subscriptions count there.
    pub(crate) fn set_allowances(&mut self, allowances: Option<Allowances>) {
        let count = u32::try_from(self.subscriptions.count()).unwrap_or(u32::MAX);
        if let Some(before) = self.allowances() {
            before.remove_subscriptions(count);
        }
        if let Some(allowances) = &allowances {
            allowances.add_subscriptions(count);
        }
        if allowances.is_some() || self.rare.is_some() {
            self.rare.get_or_insert_default().allowances = allowances;
        }
    }

    /// Bytes above which it counts as slow, where `usual` is what holds for one without limits.
    pub(crate) fn own_mark(&self, usual: usize) -> usize {
        self.allowances().map_or(usual, |allowances| allowances.backlog_bytes(usual))
    }

    /// Another subscription begins, so its client is there.
    pub(crate) fn begin_subscription(&mut self, key: SubscriptionKey, entry: Entry) {
        self.subscriptions.insert(key, entry);
        let Some(rare) = &mut self.rare else { return };
        rare.leaving = false;
        if let Some(allowances) = &rare.allowances {
            allowances.add_subscriptions(1);
        }
    }

    /// A subscription ends, if there is one of that key.
    pub(crate) fn end_subscription(&mut self, key: SubscriptionKey) -> Option<Entry> {
        let entry = self.subscriptions.remove(key)?;
        if let Some(allowances) = self.allowances() {
            allowances.remove_subscriptions(1);
        }
        Some(entry)
    }

    /// The subscription of that key, unless it is plain.
    pub(crate) fn subscription(&self, key: SubscriptionKey) -> Option<&Subscription> {
        match self.subscriptions.get(key)? {
            Entry::Plain(_) | Entry::Credited(_) => None,
            Entry::Full(subscription) => Some(subscription),
        }
    }

    /// The subscription of that key, unless it is plain.
    pub(crate) fn subscription_mut(&mut self, key: SubscriptionKey) -> Option<&mut Subscription> {
        match self.subscriptions.get_mut(key)? {
            Entry::Plain(_) | Entry::Credited(_) => None,
            Entry::Full(subscription) => Some(subscription),
        }
    }

    /// Set while the backlog is above the mark.
    pub(crate) fn slow(&self) -> Option<&Slow> {
        self.rare.as_ref()?.slow.as_ref()
    }

    /// Set while the backlog is above the mark.
    pub(crate) fn slow_mut(&mut self) -> Option<&mut Slow> {
        self.rare.as_mut()?.slow.as_mut()
    }

    /// Older messages of a home are about to be put into the backlog, but none up to a number. What
    /// waits there no longer says that what is above it was given; the session does, once all have come.
    pub(crate) fn make_room(&mut self, home: ShardId, number: u64) {
        let Some(rare) = self.rare.as_mut().filter(|rare| rare.recovering > 0) else { return };
        if let Some(backlog) = &mut self.backlog {
            rare.note_reached(home, backlog.lower(home, number));
        }
    }

    pub(crate) fn backlog_bytes(&self) -> usize {
        self.backlog.as_ref().map_or(0, |backlog| backlog.bytes())
    }

    /// Bytes that wait, deferred ones included.
    pub(crate) fn held_bytes(&self) -> usize {
        let backlog = self.backlog.as_ref();
        backlog.map_or(0, |backlog| backlog.bytes() + backlog.deferred_bytes())
    }

    /// The same with what waits for its selectors.
    pub(crate) fn waiting_bytes(&self) -> usize {
        let unselected = self.rare.as_ref().and_then(|rare| rare.unselected.as_ref());
        self.backlog_bytes() + unselected.map_or(0, |waiting| waiting.bytes())
    }

    /// Whether something can be delivered.
    pub(crate) fn has_deliveries(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| !backlog.is_empty())
    }

    /// Puts something into the backlog; `topic` is where it comes from, if from a topic. Says what it
    /// counts for, in bytes.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        id: SessionId,
        pending: Pending,
        topic: Option<Key>,
        priority: Priority,
        spares: &mut Spares,
        effects: &mut Effects,
    ) -> usize {
        if !self.has_deliveries() {
            effects.ready.push((self.link, id));
        }
        let backlog = self.backlog.get_or_insert_with(|| spares.take());
        backlog.push(pending, topic, priority)
    }

    /// Gives up the room of a backlog that holds nothing.
    pub(crate) fn tidy_backlog(&mut self) {
        self.backlog.take_if(|backlog| backlog.is_idle());
    }
}
