//! Sessions that may see more topics than before, or fewer.
//!
//! A subscription hears of each topic that it gains or loses so, and gets the values of those that it gains, if it wanted
//! values first. Relies on what the shard has heard of homes: a value with a number above that has gone to the session
//! as a message. Invariant: of a topic that is shown the newest value comes; once, unless a page with it was under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, SessionId};
use tiderace_topics::Path;
use tiderace_wire::{Kind, LeaveReason, SubscriptionKey, TopicSpec};

use super::Noticer;
use crate::authorise::Caller;
use crate::delivery::backlog::{Pending, Source};
use crate::delivery::recovery::What;
use crate::effects::Effects;
use crate::home::snapshots::Topics;
use crate::home_side::HomeSide;
use crate::messages::{SnapshotPage, SubscribeRequestId, ToHome, ToNotices};
use crate::notice_side::NoticeSide;
use crate::places::{Place, key_of};
use crate::price::TOPIC;
use crate::review::Past;
use crate::subscribe::Ended;
use crate::{Action, BrokerOptions, Principal};

/// Topics and patterns that are compared when a session has other rights.
const LOOKS_MAX: usize = 50_000;

/// Who a session was, and who it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RightsChange<'a> {
    pub(crate) before: &'a Principal,
    pub(crate) after: &'a Principal,
    /// By which rules it was given what it has. What some of them did not allow was hidden meanwhile.
    pub(crate) past: &'a [Past],
}

/// What a subscription has to hear of a topic: if it gains that, what it is, and up to which number of its home nothing has
/// been sent.
type Change = (Noticer, Path, Option<(Arc<TopicSpec>, u64)>);

impl NoticeSide<'_> {
    /// A session is somebody else now, or the rules are others: what its patterns show is different.
    ///
    /// # Errors
    /// When so many topics and patterns would have to be looked at that it had better begin anew; `looked` counts them.
    pub(super) fn notice_rights(
        &mut self,
        now: Now,
        session: SessionId,
        change: RightsChange<'_>,
        looked: &mut usize,
        effects: &mut Effects,
    ) -> Result<(), Close> {
        let changes = self.topics_by_rights(session, change, looked)?;
        self.withdraw(now, session, &changes, effects);
        let mut gained = BTreeMap::<(SubscriptionKey, u16, Place, u64), Vec<Path>>::new();
        for (noticer, path, spec) in changes {
            let Some((spec, until)) = spec else {
                self.say_left(&noticer, path, LeaveReason::NotAuthorised, effects);
                continue;
            };
            // Its value comes behind this, if values are wanted.
            let told = self.notices.told.get(&(key_of(session), noticer.key));
            let comes_anew = told.is_some_and(|told| told.wants_values);
            self.say_joined(&noticer, path.clone(), (spec, comes_anew), effects);
            let home = self.sessions.options.home_of(&path);
            let of = (noticer.key, noticer.target, home, until);
            gained.entry(of).or_default().push(path);
        }
        for ((key, target, home, until), paths) in gained {
            let told = self.notices.told.get(&(key_of(session), key));
            // One that has yet to listen gets all values then.
            let Some(told) = told.filter(|told| told.wants_values && told.subscribe.is_none())
            else {
                continue;
            };
            let request = SubscribeRequestId { session, key, target, epoch: told.epoch };
            self.sessions.send(home, ToHome::ShowValues { request, paths, until }, effects);
        }
        Ok(())
    }

    /// A home has sent the values of topics that a subscription may see from now on.
    pub(super) fn show(
        &mut self,
        now: Now,
        from: Place,
        request: SubscribeRequestId,
        (page, at): (Option<Box<SnapshotPage>>, u64),
        effects: &mut Effects,
    ) {
        let side = &mut self.sessions;
        let Some(record) = side.session(request.session) else { return };
        let known = record.subscription(request.key);
        let Some(known) = known.filter(|known| known.epoch == request.epoch) else { return };
        let Some(page) = page.map(|page| *page) else {
            let reason =
                "this session may see more topics now than are given at once; open another one";
            let close = Close::new(CloseCode::TooMuchWork, reason);
            return self.end_denied(request.session, close, effects);
        };
        let recoverable = known.flags.recoverable();
        if known.recovery.is_some() {
            side.hold_values(now, request, (page.runs, What::Live), 0);
        } else {
            side.deliver_values(now, request, (page.runs, page.specs), 0, effects);
        }
        if recoverable {
            side.reach(request.session, from.shard, at, effects);
        }
    }

    /// What a session has not been given yet of the topics that it loses is not for it: it would come behind what is told.
    fn withdraw(
        &mut self,
        now: Now,
        session: SessionId,
        changes: &[Change],
        effects: &mut Effects,
    ) {
        let left = changes.iter().filter(|(_, _, spec)| spec.is_none());
        let lost: BTreeSet<_> = left.map(|(noticer, path, _)| (noticer.key, path)).collect();
        if lost.is_empty() {
            return;
        }
        let side = &mut self.sessions;
        let is_lost = |pending: &Pending| {
            pending.source == Source::Topic
                && lost.contains(&(pending.key, &pending.run.run().destination().path))
        };
        for (key, path) in &lost {
            let record = side.session(session);
            let backlog = record.and_then(|record| record.backlog.as_ref());
            if let Some(throttle) = backlog.and_then(|backlog| backlog.throttle(*key, path)) {
                side.close_throttle(throttle);
            }
        }
        let (unsent, _) = side.take_back(session, is_lost);
        for pending in &unsent {
            side.refund(key_of(session), pending.key, u64::from(pending.len()));
        }
        for key in lost.iter().map(|(key, _)| *key).collect::<BTreeSet<_>>() {
            if let Some(recovery) = side.recovery(session, key) {
                recovery.take_back(is_lost);
            }
        }
        side.use_refunds(now, session, effects);
        side.go_on_without(Ended::of_messages(session), effects);
    }

    /// The topics that a session gains, and those that it loses.
    fn topics_by_rights(
        &self,
        session: SessionId,
        change: RightsChange<'_>,
        looked: &mut usize,
    ) -> Result<Vec<Change>, Close> {
        let mut changes = Vec::new();
        let Some(record) = self.sessions.session(session) else { return Ok(changes) };
        if self.notices.told.is_empty() {
            return Ok(changes);
        }
        for key in record.subscriptions.keys() {
            let told = self.notices.told.get(&(key_of(session), key));
            let Some(told) = told else { continue };
            // What held before it began it has not been given anything by.
            let past = change.past.iter().filter(|past| told.rules <= past.options.rules_version);
            let past: Vec<&Past> = past.collect();
            for (asked, target) in told.targets.iter().zip(0u16..) {
                let noticer = Noticer { session: key_of(session), key, target };
                for (path, spec) in self.notices.named(&asked.pattern) {
                    *looked += 1;
                    if *looked > LOOKS_MAX {
                        let reason = "this session has been told of too many topics to have other rights now; open another one";
                        return Err(Close::new(CloseCode::TooMuchWork, reason));
                    }
                    let Some(until) = self.change_of(session, change, &past, path) else {
                        continue;
                    };
                    if self.notices.is_told(&noticer, self.sessions.options.home_of(path), path)
                        && record.brings(key, target, path)
                    {
                        let spec = until.map(|until| (spec.clone(), until));
                        changes.push((noticer, path.clone(), spec));
                    }
                }
            }
        }
        Ok(changes)
    }

    /// What a change of rights does to a topic, if it does: up to which number of its home nothing has been sent of one that
    /// is gained, nothing of one that is lost. What was hidden for a while is gained: what the client has of it stays.
    fn change_of(
        &self,
        session: SessionId,
        change: RightsChange<'_>,
        past: &[&Past],
        path: &Path,
    ) -> Option<Option<u64>> {
        let may = |options: &BrokerOptions, principal| {
            let caller = Caller { session, principal };
            options.may(caller, Action::Subscribe, Kind::Topic, path)
        };
        let might = |past: &Past| may(&past.options, change.before);
        if !may(self.sessions.options, change.after) {
            return past.iter().any(|past| might(past)).then_some(None);
        }
        let hidden = past.iter().rev().find(|past| !might(past))?;
        Some(Some(hidden.heard.of(self.sessions.options.home_of(path).shard)))
    }
}

impl HomeSide<'_> {
    /// At a home: a subscription may see topics that it could not see, and has been sent what has a number above `until`.
    pub(crate) fn show_values(
        &mut self,
        now: Now,
        request: SubscribeRequestId,
        (paths, until): (&[Path], u64),
        effects: &mut Effects,
    ) {
        self.work.charge_at(now, TOPIC * paths.len() as u64);
        let from = Topics { directory: self.directory, options: self.options };
        let page = self.home.shown_values(now, &request, (paths, until), from);
        let (page, at) = (page.map(Box::new), self.home.last_number());
        let message = ToNotices::ShownValues { request, page, at };
        self.send(Place::of(request.session), message, effects);
    }
}
