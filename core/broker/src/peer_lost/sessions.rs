//! What the sessions of a shard are told when a place is lost.
//!
//! Relies on what each of them does when the place answers. Invariant: afterwards no session waits for it.

use tiderace_base::{Close, Now, SessionId};
use tiderace_wire::{Destination, Reply, SubscriptionKey, Target, Token};

use crate::effects::Effects;
use crate::feeding::feeding_destination;
use crate::messages::{Answer, SnapshotPage, SubscribeRequestId};
use crate::pending_requests::{Awaits, PendingRequest};
use crate::places::{Place, key_of};
use crate::session_side::SessionSide;
use crate::stored_answers::store_destination;

/// What subscriptions wait for that a place does not send any more.
#[derive(Debug)]
pub(crate) struct LostWaits {
    /// Its answers.
    pub(crate) requests: Vec<SubscribeRequestId>,
    /// Pages that it owes.
    pub(crate) pages: Vec<SubscribeRequestId>,
}

/// A subscription that is to end, with the answer its client waits for: of one that was answered there is none.
#[derive(Debug)]
pub(crate) struct LostSubscription {
    pub(crate) session: SessionId,
    pub(crate) key: SubscriptionKey,
    pub(crate) token: Option<Token>,
}

impl SessionSide<'_> {
    /// A place is lost: answers what sessions have asked of it.
    pub(crate) fn lose_requests(&mut self, place: Place, close: &Close, effects: &mut Effects) {
        for request in self.sessions.pending_mut().take_lost(place) {
            self.answer_lost(place, request, close, effects);
        }
        for (session, token) in self.sessions.gathers_waiting_for(place) {
            self.operated(place, session, token, Err(close.clone()), effects);
        }
    }

    /// Forgets what the place has told of owners, and of who is to wait.
    pub(crate) fn lose_told(
        &mut self,
        now: Now,
        place: Place,
        close: &Close,
        effects: &mut Effects,
    ) {
        self.lose_owners(place, close, effects);
        self.resume_publishers(now, place, effects);
    }

    pub(super) fn answer_lost(
        &mut self,
        place: Place,
        request: PendingRequest,
        close: &Close,
        effects: &mut Effects,
    ) {
        let PendingRequest { session, confirm, awaits } = request;
        match awaits {
            Awaits::Operation => {
                self.operated(place, session, confirm.to, Err(close.clone()), effects);
            }
            // What it had went with the queues.
            Awaits::End => self.reply(session, Reply::Confirmed(confirm), effects),
            Awaits::Receipt => {
                let blame = Some(confirm.from);
                self.refuse_run(session, Some(confirm), blame, close, effects);
            }
        }
    }

    /// What subscriptions wait for.
    pub(crate) fn waits_for(&self, place: Place) -> LostWaits {
        let (mut requests, mut pages) = (Vec::new(), Vec::new());
        for (of, record) in self.sessions.iter() {
            let session = self.id_of(of);
            for (key, known) in record.subscriptions.full() {
                for (listening, target) in known.targets.as_slice().iter().zip(0u16..) {
                    let request = SubscribeRequestId { session, key, target, epoch: known.epoch };
                    if listening.waiting.contains(place) {
                        requests.push(request);
                    }
                    // Of those that wait for room or credit the page comes back when it is asked for.
                    if listening.paging.contains(place) && !record.holds_page(place, &request) {
                        pages.push(request);
                    }
                }
            }
        }
        LostWaits { requests, pages }
    }

    /// Pages do not come.
    pub(crate) fn lose_pages(
        &mut self,
        now: Now,
        place: Place,
        pages: Vec<SubscribeRequestId>,
        effects: &mut Effects,
    ) {
        for request in pages {
            self.take_page(now, place, request, SnapshotPage::default(), effects);
        }
        let owed = self.sessions.iter().filter(|(_, record)| record.is_promised_by(place));
        for key in owed.map(|(key, _)| key).collect::<Vec<_>>() {
            let session = self.id_of(key);
            self.forget_promises(session, place);
            self.ask_for_pages(session, effects);
        }
    }

    /// A place that is lost does not answer a subscription. One to a destination there is given back, to be refused;
    /// what a pattern names is there no longer, and of what was missed there nobody knows.
    #[must_use = "it is to end, and its client to hear of that"]
    pub(crate) fn request_lost(
        &mut self,
        now: Now,
        place: Place,
        request: SubscribeRequestId,
        effects: &mut Effects,
    ) -> Option<LostSubscription> {
        let record = self.sessions.get_mut(key_of(request.session))?;
        let known = record.subscription_mut(request.key)?;
        let targets = known.targets.as_slice();
        let target = targets.get(usize::from(request.target));
        let target =
            target.filter(|it| known.epoch == request.epoch && it.waiting.contains(place))?;
        if matches!(target.target, Target::Exact(_)) {
            let SubscribeRequestId { session, key, .. } = request;
            return Some(LostSubscription { session, key, token: known.confirm.take() });
        }
        if let Some(recovery) = &mut known.recovery {
            recovery.complete = false;
        }
        self.subscribe_acknowledged(now, place, request, Answer::default(), effects);
        None
    }

    /// The home of a queue refuses a consumer: the subscription is given back, to be refused.
    #[must_use = "it is to end, and its client to hear of that"]
    pub(crate) fn subscribe_refused(
        &mut self,
        request: SubscribeRequestId,
    ) -> Option<LostSubscription> {
        let SubscribeRequestId { session, key, epoch, .. } = request;
        let record = self.sessions.get_mut(key_of(session))?;
        let known = record.subscription_mut(key).filter(|known| known.epoch == epoch)?;
        Some(LostSubscription { session, key, token: known.confirm.take() })
    }

    fn lose_owners(&mut self, place: Place, close: &Close, effects: &mut Effects) {
        let options = self.options.clone();
        let asked = self.sessions.owners().asking(|path| options.home_of(path) == place);
        for (session, key) in asked {
            self.refuse_asked(session, key, close, effects);
        }
    }

    /// Publishers that the place has told to wait go on.
    fn resume_publishers(&mut self, now: Now, place: Place, effects: &mut Effects) {
        let [store, feeding] = [store_destination(), feeding_destination()];
        let is_lost = |destination: &&Destination| {
            let destination = *destination;
            store.as_ref() == Some(destination)
                || feeding.as_ref() == Some(destination)
                || self.options.home_of_destination(destination) == place
        };
        let paused = self.sessions.paused_destinations().filter(is_lost);
        for destination in paused.cloned().collect::<Vec<_>>() {
            self.sessions.pause(now, destination, None, effects);
        }
        for session in self.sessions.pending_mut().take_deferring(place) {
            self.pause_for_work(session, false, effects);
        }
    }
}
