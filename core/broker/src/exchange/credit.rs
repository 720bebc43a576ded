//! How many messages a caller wants, and how its responder hears of it.
//!
//! ```text
//!   caller ─ Call { credit } ─▶ home ─▶ responder: Delivery { first, credit }
//!   caller ─ ExchangeCredit ──────────▶ responder: Reply::ExchangeCredit, behind that delivery
//! ```
//! What a caller asks for before anybody has taken its call is kept at its end, and what comes before the responder's
//! session has taken the call at the responder's: so each side has one number, however often more is asked for.
//! Relies on the protocols to keep responders to it. Invariants: what a responder is told of adds up to what the
//! caller has asked for; a caller that wants nothing waits for nobody, so that its timeout does not run. It may want
//! nothing and say nothing for as long as the longest timeout there is, for its responder is kept from others.

use tiderace_base::{Key, Now, SessionId};
use tiderace_wire::{ExchangeKey, Reply, Side};

use super::Other;
use crate::delivery::Pending;
use crate::effects::Effects;
use crate::exchange_side::ExchangeSide;
use crate::messages::ToExchange;

impl ExchangeSide<'_> {
    /// A caller wants more messages.
    pub(crate) fn want_messages(
        &mut self,
        now: Now,
        session: SessionId,
        exchange: ExchangeKey,
        messages: u64,
        effects: &mut Effects,
    ) {
        let key = self.exchange_of(session, exchange).filter(|_| exchange.side == Side::Caller);
        let Some((key, end)) = key.and_then(|key| Some((key, self.exchanges.get_mut(key)?))) else {
            return;
        };
        let Some(left) = &mut end.credit.left else { return };
        let wanted_none = *left == 0;
        *left = left.saturating_add(messages);
        let to = match &end.other {
            Other::Responder(to) => *to,
            Other::Unknown { .. } => {
                end.credit.unsent = end.credit.unsent.saturating_add(messages);
                return;
            }
            Other::Caller { .. } | Other::Forgone { .. } | Other::Over(_) => return,
        };
        if wanted_none {
            self.exchanges.renew(key, now.time);
        }
        self.sessions.send(to.place, ToExchange::Credit { to: to.key, messages }, effects);
    }

    /// On the responder's shard: its session takes a call, and hears with it how many messages are wanted by now.
    #[inline(never)]
    pub(crate) fn begin_taken(
        &mut self,
        session: SessionId,
        exchange: ExchangeKey,
        pending: &mut Pending,
    ) {
        let end = self.exchange_of(session, exchange);
        pending.set_credit(end.and_then(|end| self.exchanges.begin(end)));
    }

    /// On the responder's shard: the caller wants more messages.
    pub(crate) fn wanted_messages(&mut self, key: Key, messages: u64, effects: &mut Effects) {
        let Some(end) = self.exchanges.get_mut(key) else { return };
        if !matches!(end.other, Other::Caller { .. }) {
            return;
        }
        if !end.credit.begun {
            end.credit.left = end.credit.left.map(|left| left.saturating_add(messages));
            return;
        }
        let (session, exchange) = (end.session, end.key);
        let reply = Reply::ExchangeCredit { exchange, messages };
        self.sessions.reply(self.sessions.id_of(session), reply, effects);
    }

    /// On the caller's shard: the responder has said something. Its next message is waited for if one is wanted,
    /// and after its last the caller's own. What nobody asked for lengthens no pause.
    pub(super) fn heard_from_responder(&mut self, now: Now, key: Key, bare: bool) {
        let Some(end) = self.exchanges.get_mut(key) else { return };
        let paused_before = end.pauses();
        if let Some(left) = end.credit.left.as_mut().filter(|_| !bare) {
            *left = left.saturating_sub(1);
        }
        if !end.pauses() {
            self.exchanges.renew(key, now.time);
        } else if !paused_before {
            self.begin_pause(now, key);
        }
    }

    /// A caller wants nothing, and may for as long as the longest timeout.
    pub(super) fn begin_pause(&mut self, now: Now, key: Key) {
        self.exchanges.wait_until(key, now.time + self.sessions.options.services.timeout_max);
    }
}
