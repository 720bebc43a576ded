//! Notices: a subscription hears of each topic that it gains and loses.
//!
//! Homes know the patterns, by shard, whose subscribers want notices; an exact path counts as a
//! pattern. Asked first, a home tells the topics that it has, a page at a time (`pages.rs`); from then
//! on it tells every change to the shards concerned, before the message that made it. A shard keeps what it
//! was told for those of its subscriptions that have been told so far. Relies on messages keeping their order.
//! Invariants: a topic is in `topics` if and only if some subscription here has been told up to there by its
//! home and names it and the home's last word was that it is there, but for what a sweep under way has yet
//! to forget; so joining and leaving take turns, and what a subscription has joined needs no memory of its
//! own. Nothing is looked up while nobody wants notices.
//!
//! A subscription begins, and a session logs in again, by methods of [`NoticeSide`]: they stand between the two steps
//! that sessions take for it.

use std::sync::Arc;

use tiderace_base::{Key, Now, SessionId};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Credentials, Entrance, Kind, LeaveReason, Reply, Subscribe, SubscriptionKey, Target, TopicSpec,
};

use super::missing::widen;
use super::rights::RightsChange;
use super::{Noticer, Told};
use crate::access::is_owned_by;
use crate::authorise::Caller;
use crate::effects::Effects;
use crate::home::notice_interest::TopicsRequest;
use crate::home_side::HomeSide;
use crate::messages::{SubscribeRequestId, ToHome, ToNotices};
use crate::notice_side::NoticeSide;
use crate::owners::recovers;
use crate::places::{Place, PlaceSet, key_of};
use crate::price::{DELIVERY, FREE_DELIVERIES};
use crate::review::Past;
use crate::subscribe::Begun;
use crate::together::RecoveriesTogether;
use crate::{Action, Principal};

impl NoticeSide<'_> {
    /// A subscription begins that may be.
    pub(crate) fn begin_subscription(
        &mut self,
        now: Now,
        session: SessionId,
        mut subscribe: Subscribe,
        recoveries: &mut Option<RecoveriesTogether>,
        effects: &mut Effects,
    ) {
        widen(&mut subscribe);
        let begun = self.sessions.begin_subscription(session, subscribe, recoveries, effects);
        let Some(Begun { epoch, subscribe }) = begun else { return };
        let subscribe = self.begin_notices(now, session, epoch, subscribe, effects);
        if let Some(subscribe) = subscribe {
            self.sessions.listen_to_all(now, session, epoch, &subscribe, effects);
        }
    }

    /// On the session's shard: a home has said whether it is the owner.
    pub(crate) fn owner_answered(
        &mut self,
        now: Now,
        request: SubscribeRequestId,
        owned: bool,
        effects: &mut Effects,
    ) {
        let session = request.session;
        let begins = self.sessions.owner_answered(request, owned, effects);
        let Some(subscribe) = begins else { return };
        let mut recoveries = None;
        let recovers = recovers(&subscribe);
        self.begin_subscription(now, session, *subscribe, &mut recoveries, effects);
        if recovers {
            self.sessions.end_recovering(session, effects);
        }
        self.sessions.end_recoveries(session, recoveries, effects);
    }

    /// Takes credentials, or lets them be verified.
    pub(crate) fn login(
        &mut self,
        now: Now,
        session: SessionId,
        shown: (Credentials, Entrance),
        effects: &mut Effects,
    ) {
        match self.sessions.login(session, shown, effects) {
            Ok(Some(principal)) => self.logged_in(now, session, principal, effects),
            Ok(None) => {}
            Err(close) => {
                let reply = Reply::Refused { token: None, close };
                self.sessions.reply(session, reply, effects);
            }
        }
    }

    /// A session is somebody from now on.
    pub(crate) fn logged_in(
        &mut self,
        now: Now,
        session: SessionId,
        principal: Principal,
        effects: &mut Effects,
    ) {
        let principal = match self.sessions.admit_to_host(session, principal) {
            Ok(principal) => principal,
            Err(close) => {
                let reply = Reply::Refused { token: None, close };
                return self.sessions.reply(session, reply, effects);
            }
        };
        let Some(login) = self.sessions.begin_login(session, principal) else { return };
        let told = match login.change() {
            Some((before, after)) => {
                let options = self.sessions.options.clone();
                let heard = self.sessions.fanout.heard().clone();
                let past = [Past { options, heard }];
                let change = RightsChange { before, after, past: &past };
                self.notice_rights(now, session, change, &mut 0, effects)
            }
            None => Ok(()),
        };
        if let Err(close) = self.sessions.finish_login(now, session, login, told, effects) {
            self.end_denied(session, close, effects);
        }
    }

    /// On a session's shard: a subscription begins. It is given back if it wants no notices; if it does, it
    /// listens when it has been told of all topics that there are.
    fn begin_notices(
        &mut self,
        now: Now,
        session: SessionId,
        epoch: u32,
        subscribe: Subscribe,
        effects: &mut Effects,
    ) -> Option<Subscribe> {
        if !subscribe.notices || subscribe.targets.is_empty() {
            return Some(subscribe);
        }
        let patterns = subscribe.targets.iter().map(pattern_of).collect::<Option<Vec<_>>>();
        let Some(patterns) = patterns else { return Some(subscribe) };
        let key = subscribe.key;
        let mut asks = Vec::new();
        for (pattern, target) in patterns.iter().zip(0u16..) {
            self.notices.here.insert(pattern, Noticer { session: key_of(session), key, target });
            let request = SubscribeRequestId { session, key, target, epoch };
            asks.extend(self.homes_of(pattern).iter().map(|home| (request, home)));
        }
        let subscribe = (subscribe, self.sessions.options.rules_version);
        let told = Told::new(epoch, patterns, asks.len(), subscribe);
        self.notices.told.insert((key_of(session), key), told);
        self.list_topics(now, session, asks, effects);
        None
    }

    /// On a session's shard: a subscription has ended; whether it has yet to listen.
    #[must_use = "what has yet to listen is withdrawn otherwise"]
    pub(crate) fn end_notices(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        effects: &mut Effects,
    ) -> bool {
        let told = self.notices.told.remove(&(key_of(session), key));
        let Some(told) = told else { return false };
        for (asked, target) in told.targets.iter().zip(0u16..) {
            let noticer = Noticer { session: key_of(session), key, target };
            self.notices.here.remove(&asked.pattern, &noticer);
            for home in asked.homes.iter() {
                let message = ToHome::EndNotices { pattern: asked.pattern.clone() };
                self.sessions.send(home, message, effects);
            }
        }
        self.begin_notices_sweep();
        told.subscribe.is_some()
    }

    fn homes_of(&self, pattern: &Pattern) -> PlaceSet {
        match pattern.as_path() {
            Some(path) => PlaceSet::of(self.sessions.options.home_of(&path)),
            None => self.sessions.homes(),
        }
    }

    /// On a subscriber's shard: a home tells that a topic is there, or not.
    pub(crate) fn notice(
        &mut self,
        path: &Path,
        news: Result<(Arc<TopicSpec>, bool), LeaveReason>,
        effects: &mut Effects,
    ) {
        let concerned = self.notices.concerned(path, self.sessions.options.home_of(path));
        if concerned.is_empty() {
            return;
        }
        if concerned.len() > FREE_DELIVERIES {
            self.sessions.work.charge(DELIVERY * concerned.len() as u64);
        }
        let (spec, is_empty, reason) = match news {
            Ok((spec, is_empty)) => (Some(spec), is_empty, LeaveReason::Removed),
            Err(reason) => (None, true, reason),
        };
        let before = match &spec {
            Some(spec) => self.notices.topics.insert(path.clone(), spec.clone()),
            None => self.notices.topics.remove(path),
        };
        if before == spec {
            return;
        }
        for noticer in concerned {
            if before.as_ref().is_some_and(|spec| self.is_shown(&noticer, path, spec)) {
                self.say_left(&noticer, path.clone(), reason, effects);
            }
            if let Some(spec) = spec.as_ref().filter(|spec| self.is_shown(&noticer, path, spec)) {
                self.say_joined(&noticer, path.clone(), (spec.clone(), is_empty), effects);
            }
        }
    }

    /// Whether a subscription gets the topic by that target.
    pub(crate) fn is_shown(&self, noticer: &Noticer, path: &Path, spec: &TopicSpec) -> bool {
        let Some(record) = self.sessions.record(noticer.session) else { return false };
        let session = self.sessions.id_of(noticer.session);
        let may = |principal: &std::rc::Rc<Principal>| {
            self.sessions.options.may(
                Caller { session, principal },
                Action::Subscribe,
                Kind::Topic,
                path,
            ) || self.sessions.is_owned(session, noticer.key) && is_owned_by(spec, principal, path)
        };
        record.principal.as_ref().is_some_and(may)
            && record.brings(noticer.key, noticer.target, path)
    }

    pub(crate) fn say_joined(
        &self,
        noticer: &Noticer,
        path: Path,
        (spec, is_empty): (Arc<TopicSpec>, bool),
        effects: &mut Effects,
    ) {
        let reply = Reply::Joined { key: noticer.key, path, spec, is_empty };
        self.sessions.reply(self.sessions.id_of(noticer.session), reply, effects);
    }

    pub(super) fn say_left(
        &self,
        noticer: &Noticer,
        path: Path,
        reason: LeaveReason,
        effects: &mut Effects,
    ) {
        let reply = Reply::Left { key: noticer.key, path, reason };
        self.sessions.reply(self.sessions.id_of(noticer.session), reply, effects);
    }
}

impl HomeSide<'_> {
    /// At a home: a subscription wants to hear of topics, or is to be told of more of them.
    pub(crate) fn notify(
        &mut self,
        from: Place,
        pattern: Pattern,
        request: SubscribeRequestId,
        after: Option<Path>,
    ) {
        let request = TopicsRequest { from, pattern, request, after };
        self.home.notice_interest_mut().ask(request);
    }

    /// At a topic's home: it has appeared, has become something else, or was removed.
    pub(crate) fn announce_topic(&mut self, topic: Key, effects: &mut Effects) {
        if self.home.notice_interest().is_empty() {
            return;
        }
        let Some(topic) = self.topic(topic) else { return };
        let path = topic.path().clone();
        let known = topic.is_known().then(|| (topic.spec().clone(), topic.is_empty()));
        self.announce_as(&path, known.ok_or(LeaveReason::Removed), effects);
    }

    /// The same of a topic that is known to be that.
    pub(crate) fn announce_as(
        &mut self,
        path: &Path,
        news: Result<(Arc<TopicSpec>, bool), LeaveReason>,
        effects: &mut Effects,
    ) {
        for place in self.home.notice_interest().places_of(path).iter() {
            let message = ToNotices::Notice { path: path.clone(), news: news.clone() };
            self.send(place, message, effects);
        }
    }
}

/// The topics that a target names.
fn pattern_of(target: &Target) -> Option<Pattern> {
    match target {
        Target::Exact(destination) if destination.kind == Kind::Topic => {
            Pattern::parse(destination.path.as_str()).ok()
        }
        Target::Pattern(Kind::Topic, pattern) => Some(pattern.clone()),
        _ => None,
    }
}
