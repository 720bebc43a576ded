//! On the subscriber's shard: takes snapshots page by page, as their session can use them.
//!
//! No page is asked for unless there is room for it, counting what waits in the session's backlog and
//! what was asked for before; so a snapshot of any size takes bounded memory here. Invariants: for a
//! session that has read everything some page is under way as long as a snapshot is not complete and
//! its subscription has credit; no position goes on before all values have been given.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Key, Now, SessionId};
use tiderace_wire::{Confirm, Reply, Run, SharedRun, SubscriptionKey, TopicSpec};

use crate::delivery::backlog::Pending;
use crate::delivery::recovery::What;
use crate::effects::Effects;
use crate::messages::{SnapshotPage, Specs, SubscribeRequestId};
use crate::places::{Place, PlaceSet, key_of};
use crate::price::BACKLOG_LOOK;
use crate::session::{Paging, Session};
use crate::session_side::SessionSide;
use crate::subscription::Subscription;
use crate::subscriptions::Entry;

/// Snapshots of ended subscriptions that wait besides as many as there are others.
const ENDED_MAX: usize = 16;

/// Pages of which a session may have so many bytes in its backlog and under way.
const PAGES: usize = 4;

impl Session {
    /// Whether a subscription is there that asked for a snapshot.
    fn is_there(&self, request: &SubscribeRequestId) -> bool {
        self.subscription(request.key).is_some_and(|known| known.epoch == request.epoch)
    }

    /// A subscription has ended of which so many snapshots had more. They are taken from those that wait
    /// when they may be half of them: how many were looked at for that.
    fn end_waiting_pages(&mut self, count: usize) -> usize {
        let paging = self.rare.as_mut().and_then(|rare| rare.paging.as_mut());
        let Some(paging) = paging else { return 0 };
        paging.ended += count;
        let looked = paging.waiting.len();
        if paging.ended <= looked / 2 + ENDED_MAX {
            return 0;
        }
        let mut waiting = std::mem::take(&mut paging.waiting);
        waiting.retain(|(_, request)| self.is_there(request));
        let paging = self.paging_mut();
        (paging.waiting, paging.ended) = (waiting, 0);
        looked
    }

    fn paging_mut(&mut self) -> &mut Paging {
        self.rare.get_or_insert_default().paging.get_or_insert_default()
    }

    /// Gives up the room for what is not needed any more.
    fn tidy_paging(&mut self) {
        let Some(rare) = &mut self.rare else { return };
        rare.paging.take_if(|paging| paging.waiting.is_empty() && paging.promised() == 0);
        self.rare.take_if(|rare| rare.is_empty());
    }

    /// Whether a home may send something for which room was promised.
    pub(crate) fn is_promised_by(&self, home: Place) -> bool {
        let paging = self.rare.as_ref().and_then(|rare| rare.paging.as_ref());
        paging.is_some_and(|paging| paging.is_promised_by(home))
    }

    /// Whether a page of a home is yet to be asked for, when there is room or credit.
    pub(crate) fn holds_page(&self, home: Place, request: &SubscribeRequestId) -> bool {
        let is_meant = |page: &(Place, SubscribeRequestId)| *page == (home, *request);
        let paging = self.rare.as_ref().and_then(|rare| rare.paging.as_ref());
        paging.is_some_and(|paging| paging.waiting.iter().any(is_meant))
            || self.credit(request.key).is_some_and(|credit| credit.holds_page(is_meant))
    }

    /// Whether a page may be asked for when there is room.
    pub(crate) fn waits_for_pages(&self) -> bool {
        let paging = self.rare.as_ref().and_then(|rare| rare.paging.as_ref());
        paging.is_some_and(|paging| !paging.waiting.is_empty())
    }
}

impl Subscription {
    /// The homes whose snapshots have more, each with the target that it is for.
    fn paging(&self) -> impl Iterator<Item = (Place, u16)> {
        let targets = self.targets.as_slice().iter().zip(0u16..);
        targets
            .flat_map(|(listening, target)| listening.paging.iter().map(move |home| (home, target)))
    }

    /// Whether all that was to come before everything new has come.
    pub(crate) fn is_settled(&self) -> bool {
        self.waiting == 0 && self.recovery.is_none() && self.paging().next().is_none()
    }
}

impl SessionSide<'_> {
    /// Bytes of one page.
    fn page_bytes(&self) -> usize {
        let bytes = self.options.page.bytes;
        (self.options.backlog_bytes_low / PAGES).max(PAGE_BYTES_MIN).min(bytes)
    }

    /// Bytes that a session may ask for now.
    fn page_room(&self, session: Key) -> usize {
        let Some(record) = self.sessions.get(session) else { return 0 };
        let paging = record.rare.as_ref().and_then(|rare| rare.paging.as_ref());
        let promised = paging.map_or(0, |paging| paging.promised());
        (PAGES * self.page_bytes()).saturating_sub(record.backlog_bytes() + promised)
    }

    /// Room for the first page of each of these homes.
    pub(crate) fn promise_first(&mut self, session: SessionId, homes: PlaceSet) -> u32 {
        let key = key_of(session);
        let room = (self.page_room(key) / homes.len().max(1)).min(self.page_bytes());
        if let Some(record) = self.sessions.get_mut(key).filter(|_| room > 0) {
            for home in homes.iter() {
                record.paging_mut().promise(home, room);
            }
        }
        room as u32
    }

    /// What was promised has come.
    pub(crate) fn redeem(&mut self, session: SessionId, home: Place, room: u32) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        if let Some(paging) = record.rare.as_mut().and_then(|rare| rare.paging.as_mut()) {
            paging.redeem(home, room as usize);
        }
        record.tidy_paging();
    }

    /// A home will send nothing of what was promised.
    pub(crate) fn forget_promises(&mut self, session: SessionId, home: Place) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        if let Some(paging) = record.rare.as_mut().and_then(|rare| rare.paging.as_mut()) {
            paging.redeem(home, usize::MAX);
        }
        record.tidy_paging();
    }

    /// A home has more for a subscription.
    pub(crate) fn note_more(&mut self, home: Place, request: SubscribeRequestId) {
        let Some(record) = self.sessions.get_mut(key_of(request.session)) else { return };
        let Some(subscription) = record.subscription_mut(request.key) else { return };
        let targets = subscription.targets.as_mut_slice();
        let Some(listening) = targets.get_mut(usize::from(request.target)) else { return };
        listening.paging.insert(home);
        if record.park(home, request) {
            return;
        }
        record.paging_mut().waiting.push_back((home, request));
    }

    /// Asks for as many pages as there is room for.
    pub(crate) fn ask_for_pages(&mut self, session: SessionId, effects: &mut Effects) {
        let key = key_of(session);
        let bytes = self.page_bytes();
        while self.page_room(key) >= bytes {
            let Some(record) = self.sessions.get_mut(key).filter(|it| it.waits_for_pages()) else {
                return;
            };
            let Some((home, request)) = record.paging_mut().waiting.pop_front() else { return };
            if !record.is_there(&request) || record.park(home, request) {
                record.tidy_paging();
                continue;
            }
            record.paging_mut().promise(home, bytes);
            self.ask_for_more(home, request, Some(bytes as u32), effects);
        }
    }

    /// The next values of a snapshot have come.
    pub(crate) fn take_page(
        &mut self,
        now: Now,
        from: Place,
        request: SubscribeRequestId,
        page: SnapshotPage,
        effects: &mut Effects,
    ) {
        self.redeem(request.session, from, page.room);
        let SnapshotPage { runs, specs, after, more, early, .. } = page;
        let record = self.sessions.get_mut(key_of(request.session));
        let subscription = record.and_then(|record| record.subscription_mut(request.key));
        let Some(subscription) = subscription.filter(|known| known.epoch == request.epoch) else {
            return self.ask_for_pages(request.session, effects);
        };
        if subscription.recovery.is_some() {
            return self.hold_values(now, request, (runs, What::Instead), after);
        }
        let targets = subscription.targets.as_mut_slice();
        if let Some(listening) = targets.get_mut(usize::from(request.target)).filter(|_| !early) {
            listening.paging.remove(from);
        }
        self.deliver_values(now, request, (runs, specs), after, effects);
        if more {
            self.note_more(from, request);
        }
        self.settle_beginning(request.session, request.key, effects);
        self.ask_for_pages(request.session, effects);
    }

    /// Puts values from before the subscription into the session's backlog.
    pub(crate) fn deliver_values(
        &mut self,
        now: Now,
        request: SubscribeRequestId,
        (runs, specs): (Vec<Arc<Run>>, Specs),
        after: u64,
        effects: &mut Effects,
    ) {
        let session = key_of(request.session);
        let mut specs = specs.into_iter().peekable();
        let entry = self.sessions.get(session).and_then(|it| it.subscriptions.get(request.key));
        let wants_deltas =
            matches!(entry, Some(Entry::Full(subscription)) if subscription.flags.deltas());
        if let Some(home) = runs.first().map(|run| run.home())
            && let Some(record) = self.sessions.get_mut(session)
        {
            record.make_room(home, after);
        }
        for (place, run) in (0u32..).zip(runs) {
            let spec = specs.next_if(|(of, _)| *of == place).map(|(_, spec)| spec);
            let topic = self.directory.find(&run.destination().path);
            if let Some(topic) = topic.and_then(|key| self.directory.get(key)) {
                let wants_deltas = wants_deltas && topic.spec.deltas;
                let known = match wants_deltas {
                    true => Some(self.fanout.subscribers_or_new(topic)),
                    false => self.fanout.subscribers_mut(topic),
                };
                if let Some(known) = known {
                    known.follow(&run, wants_deltas);
                }
            }
            let run = Rc::new(SharedRun::new(run));
            for mut pending in self.readable(now, request, &run, after) {
                // Values come in the order of paths: none says that the numbers below its own have been given.
                pending.reached = 0;
                self.push_value(now, session, pending, spec.as_ref(), effects);
            }
        }
    }

    /// As long as there is room, its topic need not be known here.
    fn push_value(
        &mut self,
        now: Now,
        session: Key,
        pending: Pending,
        spec: Option<&Arc<TopicSpec>>,
        effects: &mut Effects,
    ) {
        let Some(record) = self.sessions.get_mut(session) else { return };
        let bounded = record.credit(pending.key).is_some();
        let conflating = record.backlog.as_ref().is_some_and(|backlog| backlog.is_conflating());
        let held = record.backlog_bytes();
        let path = &pending.run.run().destination().path;
        // With credit it may have to wait, even behind what has come of its topic already.
        let waits = bounded && {
            let throttle = record.backlog.as_ref().and_then(|it| it.throttle(pending.key, path));
            throttle.is_some() || !record.affords(pending.key, pending.len())
        };
        if !waits && !conflating && (held == 0 || held + pending.bytes() <= self.mark_of(session)) {
            let known = self.directory.find(path).and_then(|key| self.directory.get(key));
            let known = known.map_or_else(|| self.options.topic(path), |topic| &topic.spec);
            let priority = spec.unwrap_or(known).priority;
            if let Some(record) = self.sessions.get_mut(session).filter(|_| bounded) {
                record.spend(pending.key, pending.len());
            }
            return self.push(session, pending, None, priority, effects);
        }
        let topic = self.directory.ensure(now, &pending.run.run().destination().path);
        if let Some(spec) = spec {
            self.set_spec(now, topic, spec.clone(), effects);
        }
        self.push_topic(now, topic, session, pending, effects);
    }

    /// If all that comes before everything new has come: positions go on, and who waited for that
    /// hears so.
    pub(crate) fn settle_beginning(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        effects: &mut Effects,
    ) {
        let record = self.sessions.get_mut(key_of(session));
        let subscription = record.and_then(|record| record.subscription_mut(key));
        let Some(subscription) = subscription.filter(|known| known.is_settled()) else {
            return;
        };
        let confirm = subscription.confirm.take();
        if std::mem::take(&mut subscription.recovering) {
            self.end_recovering(session, effects);
        }
        if let Some(token) = confirm {
            self.reply(session, Reply::Confirmed(Confirm::one(token)), effects);
        }
    }

    /// A subscription ends: its homes need not keep what is left of its snapshots.
    pub(crate) fn end_pages(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        subscription: &Subscription,
        effects: &mut Effects,
    ) {
        let open: Vec<(Place, u16)> = subscription.paging().collect();
        let count = open.len();
        for (home, target) in open {
            let request = SubscribeRequestId { session, key, target, epoch: subscription.epoch };
            self.ask_for_more(home, request, None, effects);
        }
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        let looked = record.end_waiting_pages(count);
        record.tidy_paging();
        self.work.charge(BACKLOG_LOOK * looked as u64);
    }
}

/// Pages are not smaller than this, however small backlogs are to be.
const PAGE_BYTES_MIN: usize = 4096;
