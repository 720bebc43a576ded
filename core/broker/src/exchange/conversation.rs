//! What sessions do in exchanges: call, answer, go on, cancel.
//!
//! Relies on messages between two shards and on backlogs keeping their order. Invariants: an exchange that
//! a session has been told of ends for it once: both sides have said their last, it has cancelled it, or it is
//! told by [`Reply::ExchangeEnded`], behind everything that the other side had said before. How it ended
//! is in `cancel.rs`.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, MemoryUse, Now, SessionId};
use tiderace_topics::Path;
use tiderace_wire::{
    Call, Destination, ExchangeKey, ExchangeSend, Kind, Priority, Reply, Run, SharedRun, Side,
    SubscriptionKey,
};

use super::{END_BYTES, End, EndCredit, Open, Other, Said, Tell, message};
use crate::delivery::backlog::{Pending, Source};
use crate::delivery::offer::OVERSHOOT;
use crate::delivery::pending::NO_SUBSCRIPTION;
use crate::effects::Effects;
use crate::exchange_side::ExchangeSide;
use crate::home::services::{Address, Calling, Responding};
use crate::messages::{ToExchange, ToHome};
use crate::places::{Place, key_of};

impl ExchangeSide<'_> {
    /// A session calls.
    pub(crate) fn call(&mut self, now: Now, session: SessionId, call: Call, effects: &mut Effects) {
        let key = ExchangeKey::caller(call.number);
        if self.exchange_of(session, key).is_some() {
            let reason = format!("call {} is still open; choose another number", call.number);
            let close = Close::new(CloseCode::DuplicateCall, reason);
            return self.sessions.reply(session, Reply::Refused { token: None, close }, effects);
        }
        self.sessions.metrics.calls += 1;
        self.sessions.metrics.messages_received += 1;
        let options = self.sessions.options.clone();
        let (timeout, last, service) = (call.timeout, call.last, call.service);
        let credit = call.credit.map(|credit| credit.max(1));
        let mut run = message(&service, now, self.sessions.shard, 0, &call.properties, &call.body);
        self.tell_caller(session, &mut run);
        let bytes = run.bytes();
        if let Err(close) = self.may_call(session, &service, bytes) {
            self.count_end(close.code);
            effects.note_called(call.traced, &service, Some(close.code));
            return self.sessions.reply(
                session,
                Reply::ExchangeEnded { exchange: key, close },
                effects,
            );
        }
        let Some(record) = self.sessions.record_mut(key_of(session)) else {
            return;
        };
        let longest = options.services.timeout_max;
        let end = self.exchanges.insert(End {
            session: key_of(session),
            key,
            service: service.clone(),
            other: Other::Unknown { kept: Vec::new(), bytes, ended: None },
            said_last: last,
            heard_last: false,
            said: 1,
            timeout: if timeout.is_zero() { longest } else { timeout.min(longest) },
            due: now.time,
            armed: None,
            credit: EndCredit::of(credit),
            traced: call.traced,
        });
        let open = record.rare.get_or_insert_default().exchanges.get_or_insert_default();
        open.insert(key, end);
        open.untaken_bytes += bytes;
        self.sessions.memory.charge(MemoryUse::Calls, bytes);
        self.exchanges.renew(end, now.time);
        let caller = Address { place: self.sessions.here(), key: end };
        let session = key_of(session);
        let home = self.sessions.options.home_of_service(&service);
        self.sessions.send(
            home,
            ToHome::Call(Calling { caller, session, run, last, credit }),
            effects,
        );
    }

    /// Says in a call who calls, if it may go to a responder at another node.
    fn tell_caller(&self, session: SessionId, run: &mut Arc<Run>) {
        let path = &run.destination().path;
        if self.sessions.options.upstream_serving(path).is_none() {
            return;
        }
        let record = self.sessions.session(session);
        let principal = record.and_then(|record| record.principal.as_ref());
        let principal = principal.filter(|principal| !principal.is_server());
        if let Some(Ok(caller)) = principal.map(|principal| principal.to_end_principal())
            && let Some(run) = Arc::get_mut(run)
        {
            run.set_caller(caller.into());
        }
    }

    /// A session says more. What it says in an exchange that is over is for nobody.
    pub(crate) fn send_exchange(
        &mut self,
        now: Now,
        session: SessionId,
        sent: ExchangeSend,
        effects: &mut Effects,
    ) {
        self.sessions.metrics.messages_received += 1;
        let Some(key) = self.exchange_of(session, sent.exchange) else {
            return;
        };
        let most = self.sessions.options.services.calls_bytes_max;
        let shard = self.sessions.shard;
        let Some(end) = self.exchanges.get_mut(key).filter(|end| !end.said_last) else {
            return;
        };
        let run = message(&end.service, now, shard, end.said, &sent.properties, &sent.body);
        end.said += 1;
        end.said_last = sent.last;
        let said = Said { run, last: sent.last, bare: sent.bare };
        let to = match &mut end.other {
            Other::Responder(at) | Other::Caller { at, .. } => *at,
            Other::Forgone { .. } | Other::Over(_) => return,
            Other::Unknown { kept, bytes, .. } => {
                let added = said.run.bytes();
                *bytes += added;
                kept.push(said);
                let room = self.sessions.memory.has_room(MemoryUse::Calls, added);
                self.sessions.memory.charge(MemoryUse::Calls, added);
                let Some(open) = self.open_mut(session) else {
                    return;
                };
                open.untaken_bytes += added;
                if open.untaken_bytes > most || !room {
                    let reason = "too much was said before anybody had taken the call";
                    let close = Close::new(CloseCode::ServiceBusy, reason);
                    self.end_exchange(now, key, close, Tell::Both, effects);
                }
                return;
            }
        };
        let heard_last = end.heard_last;
        if end.pauses() {
            self.begin_pause(now, key);
        } else if heard_last && end.key.side == Side::Caller {
            // Nothing more is to come: from now on it is the caller who may not fall silent.
            self.exchanges.renew(key, now.time);
        }
        if heard_last && sent.last {
            self.complete(key, effects);
        }
        self.sessions.send(to.place, ToExchange::Sent { to: to.key, said }, effects);
    }

    /// On the responder's shard: a call has come.
    pub(crate) fn assigned(
        &mut self,
        now: Now,
        home: Place,
        to: Responding,
        call: Calling,
        effects: &mut Effects,
    ) {
        let record = self.sessions.session(to.session);
        let serves = match to.key {
            // A session to an upstream answers for those who serve there, without a subscription of its own.
            NO_SUBSCRIPTION => record.is_some(),
            key => record
                .and_then(|record| record.subscription(key))
                .is_some_and(|subscription| subscription.epoch == to.epoch),
        };
        if !serves {
            // The home has heard that by now and finds somebody else: nobody has seen the call.
            return self.sessions.send(home, ToHome::Call(call), effects);
        }
        let number = self.exchanges.number();
        let key = ExchangeKey::responder(number);
        let session = key_of(to.session);
        if self.is_choked(session, call.run.bytes())
            || !self.sessions.memory.has_room(MemoryUse::Calls, END_BYTES)
            || self.exchange_of(to.session, key).is_some()
        {
            let close = CloseCode::ServiceBusy.into();
            let message = ToExchange::Ended { to: call.caller.key, close };
            self.sessions.send(call.caller.place, message, effects);
            let message = ToHome::Released { responder: to.responder, caller: call.caller };
            return self.sessions.send(home, message, effects);
        }
        let end = self.exchanges.insert(End {
            session,
            key,
            service: call.run.destination().path.clone(),
            other: Other::Caller {
                at: call.caller,
                subscription: to.key,
                home,
                responder: to.responder,
            },
            said_last: false,
            heard_last: call.last,
            said: 0,
            timeout: tiderace_base::Span::ZERO,
            due: now.time,
            armed: None,
            credit: EndCredit::of(call.credit),
            traced: None,
        });
        if let Some(record) = self.sessions.record_mut(session) {
            let rare = record.rare.get_or_insert_default();
            rare.exchanges.get_or_insert_default().insert(key, end);
        }
        let source =
            Source::Exchange { side: Side::Responder, first: true, last: call.last, bare: false };
        self.push_message(session, to.key, number, call.run, source, effects);
        let message = ToExchange::Accepted { caller: call.caller.key, responder: end };
        self.sessions.send(call.caller.place, message, effects);
    }

    /// On the caller's shard: somebody answers.
    pub(crate) fn met(&mut self, caller: Key, responder: Address, effects: &mut Effects) {
        let other = self.exchanges.get_mut(caller).map(|end| {
            let known = std::mem::replace(&mut end.other, Other::Responder(responder));
            (known, end.session, end.credit.take_unsent())
        });
        match other {
            Some((Other::Unknown { kept, bytes, ended }, session, credit)) => {
                let session = self.sessions.id_of(session);
                self.sessions.memory.refund(MemoryUse::Calls, bytes);
                if let Some(open) = self.open_mut(session) {
                    open.untaken_bytes = open.untaken_bytes.saturating_sub(bytes);
                }
                for said in kept {
                    let message = ToExchange::Sent { to: responder.key, said };
                    self.sessions.send(responder.place, message, effects);
                }
                if credit != 0 {
                    let message = ToExchange::Credit { to: responder.key, messages: credit };
                    self.sessions.send(responder.place, message, effects);
                }
                if let Some(close) = ended {
                    self.detach(caller, 0);
                    self.exchanges.remove(caller);
                    let message = ToExchange::Ended { to: responder.key, close };
                    self.sessions.send(responder.place, message, effects);
                }
            }
            Some((Other::Forgone { kept, close }, ..)) => {
                self.exchanges.remove(caller);
                for said in kept {
                    let message = ToExchange::Sent { to: responder.key, said };
                    self.sessions.send(responder.place, message, effects);
                }
                let message = ToExchange::Ended { to: responder.key, close };
                self.sessions.send(responder.place, message, effects);
            }
            // Each call is met once.
            Some(_) | None => {}
        }
    }

    /// The other side has said something.
    pub(crate) fn heard(&mut self, now: Now, key: Key, said: Said, effects: &mut Effects) {
        let Said { run, last, bare } = said;
        let Some(end) = self.exchanges.get(key) else {
            return;
        };
        let (session, exchange, complete) = (end.session, end.key, last && end.said_last);
        let subscription = match end.other {
            Other::Caller { subscription, .. } => subscription,
            Other::Responder(_) => NO_SUBSCRIPTION,
            Other::Unknown { .. } | Other::Forgone { .. } | Other::Over(_) => return,
        };
        if self.is_choked(session, run.bytes()) {
            let reason = "messages came faster than they were read; read faster or ask for less";
            let close = Close::new(CloseCode::SlowConsumer, reason);
            return self.end_exchange(now, key, close, Tell::Both, effects);
        }
        if let Some(end) = self.exchanges.get_mut(key) {
            end.heard_last = last;
        }
        if exchange.side == Side::Caller {
            self.heard_from_responder(now, key, bare);
        }
        let source = Source::Exchange { side: exchange.side, first: false, last, bare };
        self.push_message(session, subscription, exchange.number, run, source, effects);
        if complete {
            self.complete(key, effects);
        }
    }

    fn push_message(
        &mut self,
        session: Key,
        key: SubscriptionKey,
        number: u32,
        run: Arc<Run>,
        source: Source,
        effects: &mut Effects,
    ) {
        let run = Rc::new(SharedRun::new(run).counted(self.sessions.memory));
        let pending = Pending {
            key,
            run,
            from: 0,
            to: 1,
            redeliveries: number,
            reached: 0,
            source,
            is_past: false,
        };
        self.sessions.push(session, pending, None, Priority::Default, effects);
    }

    /// Whether a session has so much of exchanges waiting that no more can be taken for it.
    fn is_choked(&self, session: Key, bytes: usize) -> bool {
        let record = self.sessions.record(session);
        let backlog = record.and_then(|record| record.backlog.as_ref());
        backlog.is_some_and(|backlog| {
            backlog.exchange_bytes() > 0
                && backlog.exchange_bytes() + bytes
                    > self.sessions.mark_of(session).saturating_mul(OVERSHOOT)
        })
    }

    fn may_call(&mut self, session: SessionId, service: &Path, bytes: usize) -> Result<(), Close> {
        let destination = Destination { kind: Kind::Service, path: service.clone() };
        self.sessions
            .may_publish(session, &destination)
            .inspect_err(|_| self.sessions.metrics.denied += 1)?;
        crate::room::check_room(self.sessions.memory, MemoryUse::Calls, bytes + END_BYTES)?;
        let options = &self.sessions.options.services;
        let (calls_max, bytes_max) = (options.calls_open_max, options.calls_bytes_max);
        let Some(open) = self.open_mut(session) else {
            return Ok(());
        };
        if open.calls >= calls_max {
            let reason = format!("a session may have {calls_max} calls open; wait for answers");
            return Err(Close::new(CloseCode::TooManyCalls, reason));
        }
        if open.untaken_bytes > 0 && open.untaken_bytes + bytes > bytes_max {
            let reason =
                format!("{bytes_max} bytes of calls wait for responders; wait for answers");
            return Err(Close::new(CloseCode::TooManyCalls, reason));
        }
        Ok(())
    }

    pub(super) fn exchange_of(&self, session: SessionId, key: ExchangeKey) -> Option<Key> {
        self.sessions.session(session)?.rare.as_ref()?.exchanges.as_ref()?.get(key)
    }

    pub(super) fn open_mut(&mut self, session: SessionId) -> Option<&mut Open> {
        let record = self.sessions.record_mut(key_of(session))?;
        record.rare.as_mut()?.exchanges.as_deref_mut()
    }

    /// Counts a call that ends before both sides have said their last.
    pub(super) fn count_end(&mut self, code: CloseCode) {
        let metrics = &mut self.sessions.metrics;
        *match code {
            CloseCode::NoResponder => &mut metrics.calls_without_responder,
            CloseCode::ServiceBusy => &mut metrics.calls_busy,
            CloseCode::NotAuthorised => &mut metrics.calls_denied,
            CloseCode::TooManyCalls => &mut metrics.calls_too_many,
            CloseCode::CallTimeout => &mut metrics.calls_timed_out,
            CloseCode::ResponderGone => &mut metrics.calls_responder_gone,
            CloseCode::CallerGone => &mut metrics.calls_caller_gone,
            CloseCode::SlowConsumer => &mut metrics.calls_slow,
            _ => &mut metrics.calls_cancelled,
        } += 1;
    }
}
