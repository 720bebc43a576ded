//! What consumers of an upstream's queues say of their messages, said there.
//!
//! Relies on the relays for the order in which one session is heard: what it settles behind a publication is said behind
//! it. Invariants: what is settled is known there by the present connection; what was given by another one is in its queue
//! again, and who says something of it and wants an answer is told so.

use tiderace_base::{Close, CloseCode, MemoryUse};
use tiderace_queues::Settlement;
use tiderace_wire::{Confirm, Outcome, SubscriptionKey, ToUpstream};

use super::consumers::{Landed, Name};
use super::relays::Put;
use crate::deputy_side::DeputySide;
use crate::effects::Effects;
use crate::messages::LocalMessage;
use crate::relay::{Relay, Wanted, bytes_said};

impl DeputySide<'_> {
    /// A consumer settles.
    pub(super) fn settle_there(
        &mut self,
        at: usize,
        name: Name,
        (ranges, settlement): (&[(u64, u64)], Settlement),
        confirm: Option<Confirm>,
        effects: &mut Effects,
    ) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(consumer) = deputy.consumers.get_mut(&name) else { return };
        let Landed { parts, lost } = consumer.land(ranges);
        let (session, key) = (name.0, consumer.key.map(SubscriptionKey));
        let outcome = match settlement {
            Settlement::Accept => Outcome::Accept,
            Settlement::Reject => Outcome::Reject,
            Settlement::Return => Outcome::Release,
        };
        if settlement == Settlement::Return && lost > 0 {
            // Its client was not given what it had asked for.
            self.credit_there(at, name, lost, effects);
        }
        let confirm = match confirm {
            Some(confirm) if lost > 0 => {
                let close = self.delivery_lost(at);
                let blame = Some(confirm.from);
                self.home.refuse_run(Some(session), Some(confirm), blame, &close, effects);
                None
            }
            confirm => confirm,
        };
        match key.filter(|_| !parts.is_empty()) {
            Some(key) => {
                let asked = ToUpstream::Settle { request: None, key, parts, outcome };
                self.say(at, name, asked, confirm, effects);
            }
            None => {
                if let Some(confirm) = confirm {
                    self.home.confirm(session, confirm, effects);
                }
            }
        }
    }

    /// A consumer may be given more.
    pub(super) fn credit_there(
        &mut self,
        at: usize,
        name: Name,
        messages: u64,
        effects: &mut Effects,
    ) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(consumer) = deputy.consumers.get_mut(&name) else { return };
        let counts = consumer.add_credit(messages);
        if let Some(key) = consumer.key.filter(|_| counts) {
            let asked = ToUpstream::Credit { key: SubscriptionKey(key), messages };
            self.say(at, name, asked, None, effects);
        }
    }

    /// A consumer leaves, whose client was handed so many messages, and was lost or not.
    pub(super) fn leave_there(
        &mut self,
        at: usize,
        name: Name,
        (handed, lost): (u64, bool),
        confirm: Option<Confirm>,
        effects: &mut Effects,
    ) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(consumer) = deputy.consumers.get_mut(&name) else { return };
        // Of others nothing is in flight that was handed: it was accepted then.
        let handed = if consumer.subscribe.explicit { handed } else { 0 };
        let (unread, key) = (consumer.take_unread(handed), consumer.key);
        if let Some(key) = key {
            let key = SubscriptionKey(key);
            if !unread.is_empty() {
                let (parts, outcome) = (unread, Outcome::Release);
                let asked = ToUpstream::Settle { request: None, key, parts, outcome };
                self.say(at, name, asked, None, effects);
            }
            self.say(at, name, ToUpstream::Leave { key, lost }, None, effects);
        }
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(consumer) = deputy.consumers.remove(&name) else { return };
        self.home.memory.refund(MemoryUse::Names, consumer.bytes());
        match key {
            Some(key) => {
                deputy.subscriptions.end_consumer(key);
                deputy.consumers.end(key, name.0, confirm);
            }
            None => {
                if let Some(confirm) = confirm {
                    self.home.confirm(name.0, confirm, effects);
                }
            }
        }
    }

    /// Says something of a consumer, behind what its session has asked for before.
    fn say(
        &mut self,
        at: usize,
        (session, key): Name,
        mut asked: ToUpstream,
        confirm: Option<Confirm>,
        effects: &mut Effects,
    ) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(link) = deputy.link else { return };
        if deputy.relays.some_wait_of(session) {
            let Some(consumer) = deputy.consumers.get_mut(&(session, key)) else { return };
            let (principal, asked) = (consumer.principal.clone(), Box::new(asked));
            let relay = Relay { session, principal, wanted: Wanted::Say { asked, confirm } };
            self.home.memory.charge(MemoryUse::Input, relay.bytes());
            if deputy.relays.push(relay) {
                self.tell_relaying(session, true, effects);
            }
            return self.send_relays(at, effects);
        }
        if let Some(confirm) = confirm {
            let number = deputy.relays.begin(session, confirm, bytes_said(&asked));
            set_request(&mut asked, number);
        }
        let asked = Box::new(asked);
        self.home.loopback.hand_on(LocalMessage::Upstream { session: link, asked });
    }

    /// What waits to be said of consumers is of no use any more: their messages are in their queues again.
    pub(super) fn drop_said(&mut self, at: usize, effects: &mut Effects) {
        let close = self.delivery_lost(at);
        self.drop_said_of(at, None, &close, effects);
    }

    /// The same of a consumer that the upstream has ended: its key will stand for another one.
    pub(super) fn drop_said_to(&mut self, at: usize, key: u32, end: &Close, effects: &mut Effects) {
        let reason = format!(
            "the upstream {} has ended this subscription: its messages are in their queue again, and this was not done \
             ({end})",
            self.name_of_upstream(at)
        );
        let close = Close::new(CloseCode::DeliveryLost, reason);
        self.drop_said_of(at, Some(SubscriptionKey(key)), &close, effects);
    }

    fn drop_said_of(
        &mut self,
        at: usize,
        of: Option<SubscriptionKey>,
        close: &Close,
        effects: &mut Effects,
    ) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        for Put { relay, resumes } in deputy.relays.take_said(of) {
            self.home.memory.refund(MemoryUse::Input, relay.bytes());
            let session = relay.session;
            if let Wanted::Say { confirm: Some(confirm), .. } = relay.wanted {
                let blame = Some(confirm.from);
                self.home.refuse_run(Some(session), Some(confirm), blame, close, effects);
            }
            if resumes {
                self.tell_relaying(session, false, effects);
            }
        }
    }

    fn delivery_lost(&self, at: usize) -> Close {
        let name = self.name_of_upstream(at);
        let reason = format!(
            "these messages came before the connection to the upstream {name} was lost: they are in their queue again, and \
             this was not done; they will be delivered again"
        );
        Close::new(CloseCode::DeliveryLost, reason)
    }
}

/// Has something answered, under that number.
pub(super) fn set_request(asked: &mut ToUpstream, number: u32) {
    if let ToUpstream::Settle { request, .. } = asked {
        *request = Some(number);
    }
}
