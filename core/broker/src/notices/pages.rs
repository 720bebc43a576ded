//! Subscriptions that want notices are told of the topics that there are, a page at a time.
//!
//! ```text
//!   session's shard                        home
//!     Notify, from the first path ───────▶ counts the pattern, and lists a page between two turns
//!     ◀───────────────── Noted, more behind that path
//!     Joined for each; a place in the backlog, if that was much
//!     Notify, behind that path ──────────▶ …
//! ```
//! A session asks one home for one target at a time. When it has been told of [`PAGE_BYTES`], the next page
//! is asked for when its connection has taken what waits in its backlog. When all homes have told of all, the
//! subscription listens: so each topic is joined before its messages come. Homes list pages within the work
//! budget of a turn. Invariant: as long as there is something to ask for, a page is under way or a place in
//! the backlog asks for it.

use std::ops::Bound;

use tiderace_base::{Now, SessionId};
use tiderace_queues::reaches;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Destination, Kind, Priority, SubscriptionKey};

use super::{Noticer, Topics, TopicsAsk};
use crate::delivery::backlog::{Pending, Source};
use crate::delivery::pending::NO_SUBSCRIPTION;
use crate::effects::Effects;
use crate::home::notice_interest::TopicsRequest;
use crate::home_side::HomeSide;
use crate::messages::{SubscribeRequestId, ToHome, ToNotices};
use crate::notice_side::NoticeSide;
use crate::places::{Place, key_of};
use crate::price::TOPIC;

/// Bytes of names that a session is told of before it has taken what waits for it.
const PAGE_BYTES: usize = 64 << 10;
/// What a topic counts for beside its name.
const TOPIC_BYTES: usize = 64;
/// Topics that are looked at in one slice of a sweep.
const SWEEP_SLICE: usize = 256;

impl NoticeSide<'_> {
    /// A session is to be told of the topics of homes.
    pub(crate) fn list_topics(
        &mut self,
        now: Now,
        session: SessionId,
        asks: Vec<(SubscribeRequestId, Place)>,
        effects: &mut Effects,
    ) {
        let listing = self.notices.listings.entry(key_of(session)).or_default();
        let ask = |(request, home)| TopicsAsk { request, home, after: None };
        listing.waiting.extend(asks.into_iter().map(ask));
        self.ask_for_topics(now, session, effects);
    }

    /// Asks for the next page, unless one is under way.
    fn ask_for_topics(&mut self, now: Now, session: SessionId, effects: &mut Effects) {
        let page_bytes = self.sessions.options.page.bytes.min(PAGE_BYTES);
        loop {
            let notices = &mut *self.notices;
            let Some(listing) = notices.listings.get_mut(&key_of(session)) else { return };
            if listing.is_asking {
                return;
            }
            if listing.told_bytes >= page_bytes && !listing.waiting.is_empty() {
                listing.told_bytes = 0;
                listing.is_asking = true;
                let last = listing.last.take();
                return self.ask_when_taken(now, session, last, effects);
            }
            let Some(TopicsAsk { request, home, after }) = listing.waiting.pop_front() else {
                notices.listings.remove(&key_of(session));
                return;
            };
            let told = notices.told.get_mut(&(key_of(session), request.key));
            let Some(told) = told.filter(|told| told.epoch == request.epoch) else { continue };
            let Some(target) = told.targets.get_mut(usize::from(request.target)) else { continue };
            target.homes.insert(home);
            listing.is_asking = true;
            listing.asked = Some(TopicsAsk { request, home, after: after.clone() });
            let pattern = target.pattern.clone();
            let message = ToHome::Notify { pattern, request, after };
            return self.sessions.send(home, message, effects);
        }
    }

    /// Takes a place in a session's backlog at which the next page is asked for.
    fn ask_when_taken(
        &mut self,
        now: Now,
        session: SessionId,
        last: Option<Path>,
        effects: &mut Effects,
    ) {
        let Some(path) = last else { return self.ask_behind_taken(now, session, effects) };
        let destination = Destination { kind: Kind::Topic, path };
        let (here, source) = (self.sessions.shard, Source::MoreTopics);
        let pending = Pending::place((here, now), destination, (NO_SUBSCRIPTION, source));
        self.sessions.push(key_of(session), pending, None, Priority::Default, effects);
    }

    /// That place has come.
    pub(crate) fn ask_behind_taken(&mut self, now: Now, session: SessionId, effects: &mut Effects) {
        if let Some(listing) = self.notices.listings.get_mut(&key_of(session)) {
            listing.is_asking = false;
            self.ask_for_topics(now, session, effects);
        }
    }

    /// A session has ended.
    pub(crate) fn end_listing(&mut self, session: SessionId) {
        self.notices.listings.remove(&key_of(session));
    }

    /// On a subscriber's shard: a home has told which topics there are behind a path, up to the one behind
    /// which there may be more.
    pub(crate) fn noted(
        &mut self,
        now: Now,
        from: Place,
        request: SubscribeRequestId,
        topics: Topics,
        (after, next): (Option<Path>, Option<Path>),
        effects: &mut Effects,
    ) {
        let session = key_of(request.session);
        let notices = &mut *self.notices;
        let Some(listing) = notices.listings.get_mut(&session) else { return };
        listing.is_asking = false;
        listing.asked = None;
        let told = notices.told.get_mut(&(session, request.key));
        let told = told.filter(|told| told.epoch == request.epoch);
        let Some(told) = told else { return self.ask_for_topics(now, request.session, effects) };
        let Some(target) = told.targets.get_mut(usize::from(request.target)) else { return };
        let pattern = target.pattern.clone();
        if let Some(next) = &next {
            told.partly = Some((request.target, from, next.clone()));
            listing.waiting.push_front(TopicsAsk {
                request,
                home: from,
                after: Some(next.clone()),
            });
        } else {
            target.complete.insert(from);
            told.partly = None;
            told.left -= 1;
        }
        let begins = told.left == 0;
        if self.notices.sweep.is_some() {
            self.forget_unknown(from, &pattern, &topics, (after, next));
        }
        let noticer = Noticer { session, key: request.key, target: request.target };
        let mut bytes = 0;
        for (path, spec, is_empty) in topics {
            self.notices.topics.insert(path.clone(), spec.clone());
            if self.is_shown(&noticer, &path, &spec) {
                bytes += TOPIC_BYTES + path.as_str().len();
                if let Some(listing) = self.notices.listings.get_mut(&session) {
                    listing.last = Some(path.clone());
                }
                self.say_joined(&noticer, path, (spec, is_empty), effects);
            }
        }
        if let Some(listing) = self.notices.listings.get_mut(&session) {
            listing.told_bytes += bytes;
        }
        if begins {
            self.begin_listening(now, request.session, request.key, effects);
        }
        self.ask_for_topics(now, request.session, effects);
    }

    /// A subscription has been told of all topics that there are.
    fn begin_listening(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        effects: &mut Effects,
    ) {
        let Some(told) = self.notices.told.get_mut(&(key_of(session), key)) else {
            return;
        };
        let epoch = told.epoch;
        if let Some(subscribe) = told.subscribe.take() {
            self.sessions.listen_to_all(now, session, epoch, &subscribe, effects);
        }
    }

    /// Forgets what a sweep under way has yet to forget of a home's topics between two paths: they are there
    /// no more, and nobody was told so.
    fn forget_unknown(
        &mut self,
        from: Place,
        pattern: &Pattern,
        topics: &Topics,
        (after, next): (Option<Path>, Option<Path>),
    ) {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let end = next.map_or(Bound::Unbounded, Bound::Included);
        let known = self.notices.topics.range((start, end)).map(|(path, _)| path);
        let unknown = known.filter(|path| {
            self.sessions.options.home_of(path) == from
                && reaches(pattern, path)
                && topics.binary_search_by(|(told, ..)| told.cmp(path)).is_err()
        });
        for path in unknown.cloned().collect::<Vec<Path>>() {
            self.notices.topics.remove(&path);
        }
    }

    /// A subscription has ended: topics that it alone named are forgotten, some in each turn.
    pub(crate) fn begin_notices_sweep(&mut self) {
        if self.notices.here.is_empty() {
            self.notices.topics.clear();
            self.notices.sweep = None;
            return;
        }
        let sweep = self.notices.sweep.get_or_insert_default();
        sweep.again = sweep.after.is_some();
    }

    pub(crate) fn sweep_notices(&mut self, now: Now) {
        let Some(mut sweep) = self.notices.sweep.take() else { return };
        loop {
            let start = sweep.after.take().map_or(Bound::Unbounded, Bound::Excluded);
            let slice = self.notices.topics.range((start, Bound::Unbounded)).take(SWEEP_SLICE);
            let slice: Vec<Path> = slice.map(|(path, _)| path.clone()).collect();
            let mut price = 0;
            for path in &slice {
                let (any, count) = self.notices.concerns(path, self.sessions.options.home_of(path));
                price += TOPIC + crate::price::STEP * count as u64;
                if !any {
                    self.notices.topics.remove(path);
                }
            }
            self.sessions.work.charge_at(now, price);
            sweep.after = slice.last().filter(|_| slice.len() == SWEEP_SLICE).cloned();
            if sweep.after.is_none() && !std::mem::take(&mut sweep.again) {
                return;
            }
            if self.sessions.work.left(now) == 0 {
                self.notices.sweep = Some(sweep);
                return;
            }
        }
    }
}

impl HomeSide<'_> {
    /// At a home, between turns: gives the pages that are asked for, as far as the budget goes.
    pub(crate) fn give_topics(&mut self, now: Now, effects: &mut Effects) {
        let page_bytes = self.options.page.bytes.min(PAGE_BYTES);
        while let Some(request) = self.home.notice_interest_mut().next_request() {
            let TopicsRequest { from, pattern, request, after } = request;
            let (mut topics, mut next, mut bytes) = (Topics::new(), None, 0);
            let (mut looked, mut last) = (0, None);
            let below = pattern.literal_prefix();
            for (_, topic) in self.directory.walk(&below, after.as_ref().map(Path::as_str)) {
                if looked == self.options.page.looked_at || bytes >= page_bytes {
                    next = last;
                    break;
                }
                looked += 1;
                last = Some(&topic.path);
                let home = self.home.at(topic);
                if home.is_known() && reaches(&pattern, &topic.path) {
                    bytes += TOPIC_BYTES + topic.path.as_str().len();
                    topics.push((topic.path.clone(), topic.spec.clone(), home.is_empty()));
                }
            }
            let next = next.cloned();
            self.work.charge_at(now, TOPIC * looked as u64);
            let message = ToNotices::TopicsPage { request, topics, after, next };
            self.send(from, message, effects);
            if self.work.left(now) == 0 {
                return;
            }
        }
    }
}
