//! The sessions of one shard: their records, who they are, and which of them wait before they publish.
//!
//! Relies on homes to say which destinations' publishers are to wait. Invariants: each identity is kept once;
//! a session that is paused waits for a destination, or has too much deferred at a home.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, Now, SessionId, Slab, Span};
use tiderace_wire::{Destination, Kind, Token};

use crate::access_change::AccessChange;
use crate::collections::{Map, Set};
use crate::effects::Effects;
use crate::owner_requests::OwnerRequests;
use crate::past_rules::PastRules;
use crate::pending_requests::PendingRequests;
use crate::places::Place;
use crate::places::key_of;
use crate::present_sessions::Presence;
use crate::refused_targets::RefusedTargets;
use crate::review::{Past, Review};
use crate::scatter_gather::ScatterGather;
use crate::session::Session;
use crate::waits::Paused;
use crate::{BrokerOptions, Principal};

/// All sessions of a shard.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    records: Slab<Session>,
    /// The identities of all sessions, each once.
    principals: Set<Rc<Principal>>,
    /// The epoch of the next subscription; see [`crate::SubscribeRequestId`].
    next_epoch: u32,
    /// Operations that several homes have a part in.
    scatter_gathers: BTreeMap<(SessionId, Token), ScatterGather>,
    /// Other requests that homes elsewhere are to answer.
    pending: PendingRequests,
    /// Destinations whose publishers wait, and who waits.
    paused: Map<Destination, Paused>,
    owners: Box<OwnerRequests>,
    presence: Box<Presence>,
    /// Which of them have yet to be looked at, since rules or credentials have changed.
    review: Option<Box<Review>>,
    past_rules: Box<PastRules>,
    /// What has changed last, if something has since the start.
    in_force: Option<Arc<AccessChange>>,
    /// Subscriptions that are to be ended, since nothing brings any longer what they listen to.
    refused_targets: Box<RefusedTargets>,
    /// Positions of these epochs of the node can be compared with the numbers of this one.
    earlier_epochs: Box<[u64]>,
}

impl Sessions {
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&Session> {
        self.records.get(key)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Session> {
        self.records.get_mut(key)
    }

    pub(crate) fn insert(&mut self, session: Session) -> Key {
        self.records.insert(session)
    }

    /// Places of which some have a record.
    pub(crate) fn slots(&self) -> u32 {
        self.records.slots()
    }

    /// The key of the record at a place.
    pub(crate) fn key_of(&self, slot: u32) -> Option<Key> {
        self.records.key_of(slot)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Session)> {
        self.records.iter()
    }

    /// Ends a record; the last session of an identity takes that along.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Session> {
        let mut record = self.records.remove(key)?;
        let principal = record.principal.take();
        self.forget_principal(principal);
        Some(record)
    }

    /// The identity as it is shared by its sessions. It is kept if a session is given it.
    pub(crate) fn shared(&self, principal: Principal) -> Rc<Principal> {
        self.principals.get(&principal).cloned().unwrap_or_else(|| Rc::new(principal))
    }

    /// A session has been given an identity.
    pub(crate) fn keep_principal(&mut self, principal: Rc<Principal>) {
        self.principals.insert(principal);
    }

    /// A session no longer is that identity; the last one to be it takes the record along.
    pub(crate) fn forget_principal(&mut self, principal: Option<Rc<Principal>>) {
        if let Some(principal) = principal
            && Rc::strong_count(&principal) <= 2
        {
            self.principals.remove(&principal);
        }
    }

    /// The identities of all sessions.
    #[cfg(test)]
    pub(crate) fn principals(&self) -> impl ExactSizeIterator<Item = &Rc<Principal>> {
        self.principals.iter()
    }

    /// Who logs in, if what it has shown is accepted still.
    pub(crate) fn admit_login(&self, principal: Principal) -> Result<Principal, Close> {
        match &self.in_force {
            None => Ok(principal),
            Some(change) => change.admit(principal),
        }
    }

    /// What nothing brings any longer, while somebody listens to it.
    pub(crate) fn refused_targets_mut(&mut self) -> &mut RefusedTargets {
        &mut self.refused_targets
    }

    /// Whether there is such.
    #[inline]
    pub(crate) fn has_refused_targets(&self) -> bool {
        !self.refused_targets.is_empty()
    }

    /// Others may log in from now on, and those who are there are to be looked at.
    pub(crate) fn begin_review(&mut self, change: Arc<AccessChange>, before: Past) {
        let review = Review::new(change.clone(), before, self.review.take().map(|it| *it));
        (self.review, self.in_force) = (Some(Box::new(review)), Some(change));
    }

    /// Since which version of the rules a session's identity may see what it may see now; zero: always.
    pub(crate) fn rules_since(&self, session: Key, now: &BrokerOptions) -> u32 {
        let principal = self.get(session).and_then(|record| record.principal.as_ref());
        principal.map_or(0, |principal| self.past_rules.same_since(principal, now))
    }

    /// The rules that held before.
    pub(crate) fn past_rules_mut(&mut self) -> &mut PastRules {
        &mut self.past_rules
    }

    /// Which sessions have yet to be looked at, if some have.
    #[inline]
    pub(crate) fn review(&self) -> Option<&Review> {
        self.review.as_deref()
    }

    /// Hands that out; what is not put back is over.
    pub(crate) fn take_review(&mut self) -> Option<Box<Review>> {
        self.review.take()
    }

    pub(crate) fn set_review(&mut self, review: Box<Review>) {
        self.review = Some(review);
    }

    /// What is asked and known of owners.
    pub(crate) fn owners(&self) -> &OwnerRequests {
        &self.owners
    }

    pub(crate) fn owners_mut(&mut self) -> &mut OwnerRequests {
        &mut self.owners
    }

    /// Who shows.
    pub(crate) fn presence(&self) -> &Presence {
        &self.presence
    }

    pub(crate) fn presence_mut(&mut self) -> &mut Presence {
        &mut self.presence
    }

    /// Positions of these epochs of the node can be compared with the numbers of this one.
    pub(crate) fn set_earlier_epochs(&mut self, epochs: Box<[u64]>) {
        self.earlier_epochs = epochs;
    }

    /// The epochs of earlier runs of the server whose numbers can be compared with those of this one.
    pub(crate) fn earlier_epochs(&self) -> &[u64] {
        &self.earlier_epochs
    }

    /// Tells a new subscription from earlier ones with the same key.
    pub(crate) fn next_epoch(&mut self) -> u32 {
        let epoch = self.next_epoch;
        self.next_epoch = epoch.wrapping_add(1);
        epoch
    }

    /// Requests that homes elsewhere are to answer.
    #[inline]
    pub(crate) fn pending_mut(&mut self) -> &mut PendingRequests {
        &mut self.pending
    }

    /// The operations that a place has a part in and has not answered.
    pub(crate) fn gathers_waiting_for(&self, place: Place) -> Vec<(SessionId, Token)> {
        let gathers = self.scatter_gathers.iter();
        gathers.filter(|(_, it)| it.waiting.contains(place)).map(|(of, _)| *of).collect()
    }

    /// The destinations whose publishers wait.
    pub(crate) fn paused_destinations(&self) -> impl Iterator<Item = &Destination> {
        self.paused.keys()
    }

    /// Several homes are about to be asked for a session.
    pub(crate) fn begin_gather(&mut self, session: SessionId, token: Token, it: ScatterGather) {
        self.scatter_gathers.insert((session, token), it);
    }

    /// What the homes have answered so far.
    pub(crate) fn gather_mut(
        &mut self,
        session: SessionId,
        token: Token,
    ) -> Option<&mut ScatterGather> {
        self.scatter_gathers.get_mut(&(session, token))
    }

    /// All homes have answered.
    pub(crate) fn end_gather(&mut self, session: SessionId, token: Token) -> Option<ScatterGather> {
        self.scatter_gathers.remove(&(session, token))
    }

    /// Forgets the answers that a session which has ended would have had.
    pub(crate) fn forget_gathers(&mut self, session: SessionId) {
        let own = (session, Token::MIN)..=(session, Token::MAX);
        let own = self.scatter_gathers.range(own).map(|((_, token), _)| *token);
        for token in own.collect::<Vec<Token>>() {
            self.scatter_gathers.remove(&(session, token));
        }
    }

    /// Publishers of a destination are to wait from their next message on, or may all go on.
    pub(crate) fn pause(
        &mut self,
        now: Now,
        destination: Destination,
        pause: Option<Span>,
        effects: &mut Effects,
    ) {
        if let Some(grace) = pause {
            // Those who wait already were counted as it was.
            self.paused.entry(destination).or_insert_with(|| Paused::of(grace));
            return;
        }
        let paused = self.paused.remove(&destination).unwrap_or_default();
        for session in paused.waiting {
            let Some(record) = self.records.get_mut(key_of(session)) else {
                continue;
            };
            record.backpressured_by = record.backpressured_by.saturating_sub(1);
            let waits = record.rare.as_mut().and_then(|rare| rare.waits.as_mut());
            if let Some(waits) = waits {
                waits.end(now.time, &destination, paused.grace);
            }
            if record.backpressured_by == 0 {
                effects.resume.push((record.link, session));
            }
        }
    }

    /// Whether publishers of some destination are to wait.
    #[inline]
    pub(crate) fn pauses_some(&self) -> bool {
        !self.paused.is_empty()
    }

    /// Whether a queue takes what an edge passes on to it. The edge's session is not paused for a queue that is full: by
    /// the same session comes what its consumers settle, without which the queue might stay full.
    #[inline]
    pub(crate) fn check_relayed_room(
        &self,
        session: SessionId,
        destination: &Destination,
    ) -> Result<(), Close> {
        match self.paused.is_empty() {
            true => Ok(()),
            false => self.check_room_of_paused(session, destination),
        }
    }

    #[cold]
    fn check_room_of_paused(
        &self,
        session: SessionId,
        destination: &Destination,
    ) -> Result<(), Close> {
        let record = self.records.get(key_of(session));
        let principal = record.and_then(|record| record.principal.as_ref());
        let is_relayed = principal.is_some_and(|principal| principal.relayed_by.is_some());
        let is_queue = destination.kind == Kind::Queue;
        if !is_relayed || !is_queue || !self.paused.contains_key(destination) {
            return Ok(());
        }
        let path = &destination.path;
        let reason = format!(
            "the queue {path} is full, and what another server passes on to it does not wait. Send again when consumers \
             have taken some"
        );
        Err(Close::new(CloseCode::QueueFull, reason))
    }

    /// Pauses a session that publishes to a destination whose publishers are to wait; whether it went on
    /// until now.
    pub(crate) fn wait_if_paused(
        &mut self,
        now: Now,
        session: SessionId,
        destination: &Destination,
        effects: &mut Effects,
    ) -> bool {
        let Some(paused) = self.paused.get_mut(destination) else {
            return false;
        };
        if paused.waiting.contains(&session) {
            return false;
        }
        let Some(record) = self.records.get_mut(key_of(session)) else {
            return false;
        };
        let waits = record.rare.get_or_insert_default().waits.get_or_insert_default();
        if !waits.begin(now.time, destination, paused.grace) {
            return false;
        }
        paused.waiting.insert(session);
        record.backpressured_by += 1;
        let is_first = record.backpressured_by == 1;
        if is_first {
            effects.pause.push((record.link, session));
        }
        is_first
    }

    /// A home says that a session waits until a destination is let go; whether it went on until now.
    pub(crate) fn wait_for(
        &mut self,
        session: SessionId,
        destination: Destination,
        effects: &mut Effects,
    ) -> bool {
        // Without a grace, so no time counts.
        let now = Now::default();
        self.pause(now, destination.clone(), Some(Span::ZERO), effects);
        self.wait_if_paused(now, session, &destination, effects)
    }

    /// A session ends: nobody has to let it go any more.
    pub(crate) fn wait_no_more(&mut self, session: SessionId) {
        let rare = self.records.get_mut(key_of(session)).and_then(|record| record.rare.as_mut());
        let Some(waits) = rare.and_then(|rare| rare.waits.take()) else { return };
        for destination in waits.destinations {
            if let Some(paused) = self.paused.get_mut(&destination) {
                paused.waiting.remove(&session);
            }
        }
    }
}
