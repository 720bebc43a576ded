//! How exchanges end before both sides have said their last, and how sessions hear of it.
//!
//! ```text
//!   caller's backlog:  … said, said, said, end ─▶ Reply::ExchangeEnded when the end is taken
//! ```
//! What a side has said before the end arrives before the end: it is ahead among the messages between the shards,
//! and in the backlog of the other session the end takes a place behind it. So it waits as long as
//! that session does not take what it was said, and what waits is bounded as before. A session that cancels
//! is told nothing, and what waits for it is dropped.
//!
//! A call that its responder's session has not taken is withdrawn if the caller gives up or is lost; if the
//! caller ended it otherwise, the responder hears all of it. Relies on `conversation.rs` for the rest.
//! Invariant: a session is told of an end once, and not at all of an exchange that it ended itself.

use std::rc::Rc;

use tiderace_base::{Close, CloseCode, Key, MemoryUse, Now, SessionId};
use tiderace_wire::{ExchangeKey, Priority, Reply, SharedRun, Side};

use super::{Other, Said, Tell, message};
use crate::delivery::backlog::{For, Pending, Source};
use crate::delivery::pending::NO_SUBSCRIPTION;
use crate::effects::Effects;
use crate::exchange_side::ExchangeSide;
use crate::messages::{ToExchange, ToHome};
use crate::places::key_of;
use crate::together::{EndingTogether, FEW};

impl ExchangeSide<'_> {
    /// A session ends an exchange.
    pub(crate) fn cancel_exchange(
        &mut self,
        now: Now,
        session: SessionId,
        exchange: ExchangeKey,
        close: Close,
        together: &mut Option<Box<EndingTogether>>,
        effects: &mut Effects,
    ) {
        let Some(key) = self.exchange_of(session, exchange) else {
            return;
        };
        self.forget_messages(session, exchange, together, effects);
        let code = close.code;
        if let Some(Other::Unknown { ended, .. }) =
            self.exchanges.get_mut(key).map(|end| &mut end.other)
            && !withdraws(code)
        {
            *ended = Some(close);
            self.count_end(code);
            self.note_over(key, Some(code), effects);
            if let Some(open) = self.open_mut(session) {
                open.leave(exchange);
            }
            return;
        }
        self.end_exchange(now, key, close, Tell::Other, effects);
    }

    /// The other side, or the home, has ended it.
    pub(crate) fn told_of_end(&mut self, now: Now, key: Key, close: Close, effects: &mut Effects) {
        match self.exchanges.get(key).map(|end| &end.other) {
            Some(Other::Forgone { .. }) => {
                self.exchanges.remove(key);
            }
            Some(Other::Over(_)) | None => {}
            Some(_) => self.end_exchange(now, key, close, Tell::Own, effects),
        }
    }

    /// Ends the calls whose timeout is over.
    pub(crate) fn end_overdue(&mut self, now: Now, effects: &mut Effects) {
        while let Some(key) = self.exchanges.overdue(now.time) {
            let pauses = self.exchanges.get(key).is_some_and(|end| end.pauses());
            let close = if pauses {
                let reason = "the caller asked for no more messages for as long as services.timeout_max allows; \
                              ask for some in time, or cancel the call";
                Close::new(CloseCode::CallTimeout, reason)
            } else {
                CloseCode::CallTimeout.into()
            };
            self.end_exchange(now, key, close, Tell::Both, effects);
        }
    }

    /// Ends an exchange. Its session, if it is told, hears of that behind what waits for it.
    pub(super) fn end_exchange(
        &mut self,
        now: Now,
        key: Key,
        close: Close,
        tell: Tell,
        effects: &mut Effects,
    ) {
        if self.close_end(key, close, tell, effects) {
            match tell {
                Tell::Other => self.forget_end(key),
                Tell::Both | Tell::Own => self.tell_end(now, key, effects),
            }
        }
    }

    /// Ends an exchange, and tells both at once: the session wants no more, and what waits for it is dropped.
    pub(super) fn end_at_once(
        &mut self,
        key: Key,
        close: Close,
        together: &mut Option<Box<EndingTogether>>,
        effects: &mut Effects,
    ) {
        if !self.close_end(key, close, Tell::Both, effects) {
            return;
        }
        let Some(end) = self.exchanges.get(key) else { return };
        let (session, exchange) = (self.sessions.id_of(end.session), end.key);
        // What has not begun need not end.
        if self.forget_messages(session, exchange, together, effects) {
            return self.forget_end(key);
        }
        self.reply_end(key, effects);
    }

    /// Ends an exchange but for what its session is told; whether that is left to do.
    fn close_end(&mut self, key: Key, close: Close, tell: Tell, effects: &mut Effects) -> bool {
        self.exchanges.disarm(key);
        self.note_over(key, Some(close.code), effects);
        let Some(end) = self.exchanges.get_mut(key) else {
            return false;
        };
        let exchange = end.key;
        let other = std::mem::replace(&mut end.other, Other::Over(close.clone()));
        let tell_other = tell != Tell::Own;
        match other {
            Other::Unknown { kept, bytes, ended } => {
                self.detach(key, bytes);
                let unheard = ended.is_none();
                let reason = ended.unwrap_or(close);
                self.end_untaken(key, (kept, reason, unheard), tell, effects);
                return false;
            }
            Other::Responder(at) | Other::Caller { at, .. } if tell_other => {
                let message = ToExchange::Ended { to: at.key, close: close.clone() };
                self.sessions.send(at.place, message, effects);
            }
            Other::Over(_) | Other::Forgone { .. } => {
                self.forget_end(key);
                return false;
            }
            Other::Responder(_) | Other::Caller { .. } => {}
        }
        self.free_place(&other, effects);
        if exchange.side == Side::Caller {
            self.count_end(close.code);
        }
        true
    }

    /// Nobody has answered the call yet, and so nothing waits for its session.
    fn end_untaken(
        &mut self,
        key: Key,
        (kept, close, unheard): (Vec<Said>, Close, bool),
        tell: Tell,
        effects: &mut Effects,
    ) {
        let Some(end) = self.exchanges.get_mut(key) else { return };
        let (session, exchange) = (end.session, end.key);
        if tell == Tell::Own {
            self.exchanges.remove(key);
        } else {
            // Kept until the home or a responder has heard of it, to give them the reason.
            end.other = Other::Forgone { kept, close: close.clone() };
            let service = end.service.clone();
            let home = self.sessions.options.home_of_service(&service);
            self.sessions.send(home, ToHome::CancelCall { service, caller: key }, effects);
        }
        if unheard {
            self.count_end(close.code);
            if tell != Tell::Other {
                let session = self.sessions.id_of(session);
                self.sessions.reply(session, Reply::ExchangeEnded { exchange, close }, effects);
            }
        }
    }

    /// Tells a session of an end: behind what waits for it of exchanges, or at once if nothing does.
    fn tell_end(&mut self, now: Now, key: Key, effects: &mut Effects) {
        let Some(end) = self.exchanges.get(key) else { return };
        let Other::Over(close) = &end.other else { return };
        let (at, exchange, code) = (end.session, end.key, close.code);
        let session = self.sessions.id_of(at);
        let backlog = self.sessions.record(at).and_then(|record| record.backlog.as_ref());
        let waits = backlog.is_some_and(|backlog| backlog.exchange_bytes() > 0);
        let may_withdraw = waits && exchange.side == Side::Responder && withdraws(code);
        if may_withdraw && backlog.is_some_and(|backlog| backlog.entries() > FEW) {
            return self.exchanges.withdraw(key);
        }
        let begins = |pending: &Pending| {
            pending.exchange().is_some_and(|known| known.first && known.key == exchange)
        };
        let withdrawn = may_withdraw && backlog.is_some_and(|backlog| backlog.iter().any(begins));
        if !withdrawn {
            return self.end_behind_what_waits(now, key, effects);
        }
        // What is no longer wanted is not begun, and what has not begun need not end.
        if self.forget_messages(session, exchange, &mut None, effects) {
            return self.forget_end(key);
        }
        self.reply_end(key, effects);
    }

    /// Tells a session of an end behind what waits for it of exchanges.
    pub(super) fn end_behind_what_waits(&mut self, now: Now, key: Key, effects: &mut Effects) {
        let Some(end) = self.exchanges.get(key) else { return };
        let at = end.session;
        let backlog = self.sessions.record(at).and_then(|record| record.backlog.as_ref());
        if backlog.is_none_or(|backlog| backlog.exchange_bytes() == 0) {
            return self.reply_end(key, effects);
        }
        let run = message(&end.service, now, self.sessions.shard, end.said, b"", b"");
        let pending = Pending {
            key: NO_SUBSCRIPTION,
            run: Rc::new(SharedRun::new(run)),
            from: 0,
            to: 0,
            redeliveries: end.key.number,
            reached: 0,
            is_past: false,
            source: Source::ExchangeEnd(end.key.side),
        };
        self.sessions.push(at, pending, None, Priority::Default, effects);
    }

    /// A session takes the end of an exchange out of its backlog.
    pub(crate) fn take_end(
        &mut self,
        session: SessionId,
        exchange: ExchangeKey,
        effects: &mut Effects,
    ) {
        if let Some(key) = self.exchange_of(session, exchange) {
            self.reply_end(key, effects);
        }
    }

    /// Tells a session of an end that it has yet to hear of.
    fn reply_end(&mut self, key: Key, effects: &mut Effects) {
        self.detach(key, 0);
        let Some(end) = self.exchanges.remove(key) else { return };
        // To the session it is over anyway if it has said its last meanwhile, and taken the other's.
        if let Other::Over(close) = end.other
            && !(end.said_last && end.heard_last)
        {
            let reply = Reply::ExchangeEnded { exchange: end.key, close };
            self.sessions.reply(self.sessions.id_of(end.session), reply, effects);
        }
    }

    pub(super) fn forget_end(&mut self, key: Key) {
        self.detach(key, 0);
        self.exchanges.remove(key);
    }

    /// Takes what waits of an exchange out of a backlog; whether it was to begin with that.
    fn forget_messages(
        &mut self,
        session: SessionId,
        exchange: ExchangeKey,
        together: &mut Option<Box<EndingTogether>>,
        effects: &mut Effects,
    ) -> bool {
        let backlog = self.sessions.session(session).and_then(|record| record.backlog.as_ref());
        if together.is_none() && backlog.is_none_or(|backlog| backlog.exchange_bytes() == 0) {
            return false;
        }
        let (taken, left) = self.sessions.take_ended(session, For::Exchange(exchange), together);
        if !taken.is_empty() && (left == 0 || left < self.sessions.options.backlog_bytes_low) {
            self.sessions.caught_up(key_of(session), effects);
        }
        taken.iter().filter_map(Pending::exchange).any(|known| known.first)
    }

    /// Both sides have said their last.
    pub(super) fn complete(&mut self, key: Key, effects: &mut Effects) {
        self.note_over(key, None, effects);
        self.detach(key, 0);
        if let Some(end) = self.exchanges.remove(key) {
            self.free_place(&end.other, effects);
        }
    }

    /// A call is over for its caller: said once, of one that is traced.
    fn note_over(&mut self, key: Key, ended: Option<CloseCode>, effects: &mut Effects) {
        if let Some(end) = self.exchanges.get_mut(key) {
            effects.note_called(end.traced.take(), &end.service, ended);
        }
    }

    /// A responder's place is free again.
    fn free_place(&mut self, other: &Other, effects: &mut Effects) {
        if let Other::Caller { at, home, responder, .. } = *other {
            self.sessions.send(home, ToHome::Released { responder, caller: at }, effects);
        }
    }

    /// Takes an end from its session's list, with the bytes that nobody has taken of it.
    pub(super) fn detach(&mut self, key: Key, untaken_bytes: usize) {
        self.sessions.memory.refund(MemoryUse::Calls, untaken_bytes);
        let Some(end) = self.exchanges.get(key) else {
            return;
        };
        let record = self.sessions.record_mut(end.session);
        let Some(rare) = record.and_then(|record| record.rare.as_mut()) else {
            return;
        };
        let Some(open) = &mut rare.exchanges else {
            return;
        };
        open.remove(end.key, key);
        open.untaken_bytes = open.untaken_bytes.saturating_sub(untaken_bytes);
        if open.is_empty() {
            rare.exchanges = None;
        }
    }
}

/// Whether an end of this kind withdraws a call that its responder has not been given: the caller no longer
/// wants it, or the responder cannot take it.
fn withdraws(code: CloseCode) -> bool {
    use CloseCode::{CallCancelled, CallTimeout, CallerGone, SlowConsumer};
    matches!(code, CallCancelled | CallerGone | CallTimeout | SlowConsumer)
}
