//! Calls of clients of this node whose responders are at an upstream.
//!
//! ```text
//!  caller's shard ──Call──▶ waits ──Assigned──▶ the session to the upstream, as a responder of this node
//!                             │ a client of this node begins to serve: it goes to that one
//!                             └ the upstream is away for too long, or too much waits: refused, nothing was done
//! ```
//! From then on both ends say to each other what ends of exchanges do (`exchange/`): answers, credit, cancellations. Relies
//! on [`Calls`](super::calls::Calls) for order and bounds. Invariants: a call goes to an upstream only while no client of this
//! node serves the service; a call that came from the upstream never goes back to it.

use tiderace_base::{Close, CloseCode, Key, Now, SessionId};
use tiderace_topics::Path;

use crate::delivery::pending::NO_SUBSCRIPTION;
use crate::deputy_side::DeputySide;
use crate::effects::Effects;
use crate::home::services::{Address, Calling, Responding};
use crate::messages::{ToExchange, ToHome};
use crate::places::{Place, key_of};

/// Calls that are refused in one call.
const REFUSED_AT_ONCE: usize = 4096;

impl DeputySide<'_> {
    /// Takes a message about a call if it is one for an upstream; gives any other back.
    pub(super) fn take_call(
        &mut self,
        now: Now,
        from: Place,
        message: ToHome,
        effects: &mut Effects,
    ) -> Option<ToHome> {
        match message {
            ToHome::Call(call) => self.call(now, call, effects).map(ToHome::Call),
            ToHome::CancelCall { service, caller } => {
                let address = Address { place: from, key: caller };
                let mut deputies = self.deputies.list.iter_mut();
                if deputies.any(|deputy| deputy.calls.take(address).is_some()) {
                    self.end_call(address, CloseCode::CallCancelled.into(), effects);
                    return None;
                }
                Some(ToHome::CancelCall { service, caller })
            }
            ToHome::Released { responder, caller } => {
                let mut deputies = self.deputies.list.iter_mut();
                match deputies.position(|deputy| deputy.calls.release(caller)) {
                    Some(at) => {
                        self.send_calls(at, effects);
                        None
                    }
                    None => Some(ToHome::Released { responder, caller }),
                }
            }
            message => Some(message),
        }
    }

    /// A call; given back if it is for this node's own clients.
    fn call(&mut self, now: Now, call: Calling, effects: &mut Effects) -> Option<Calling> {
        let path = &call.run.destination().path;
        let Some(at) = self.at_service(path) else { return Some(call) };
        // It may have come back, since the connection was lost on its way there.
        self.deputies.list.get_mut(at)?.calls.release(call.caller);
        if self.is_from_link(&call) || self.home.home.services().is_served(path) {
            return Some(call);
        }
        if self.home.loopback.is_lost(call.caller.place) {
            return None;
        }
        if let Err(close) = self.admit_call(now, at, &call) {
            self.refuse_call(call.caller, close, effects);
            return None;
        }
        let deputy = self.deputies.list.get_mut(at)?;
        match deputy.calls.push(call) {
            Ok(()) => self.send_calls(at, effects),
            Err((caller, close)) => self.refuse_call(caller, close, effects),
        }
        None
    }

    /// The deputy whose a service is.
    fn at_service(&self, path: &Path) -> Option<usize> {
        let upstream = self.home.options.upstream_serving(path)?;
        self.deputies.list.iter().position(|deputy| usize::from(deputy.upstream) == upstream)
    }

    /// Whether an upstream calls, whose callers are not this node's.
    fn is_from_link(&self, call: &Calling) -> bool {
        let is_link =
            |link: SessionId| Place::of(link) == call.caller.place && key_of(link) == call.session;
        self.deputies.list.iter().filter_map(|deputy| deputy.link).any(is_link)
    }

    /// Whether a call may wait for the upstream.
    fn admit_call(&self, now: Now, at: usize, call: &Calling) -> Result<(), Close> {
        let Some(deputy) = self.deputies.list.get(at) else {
            return Err(CloseCode::UpstreamAway.into());
        };
        if call.run.caller().is_none() {
            let reason = "another server serves this, and cannot be told who calls: a name of the login has white space, \
                          wildcards or control characters, or its groups and claims are too long";
            return Err(Close::new(CloseCode::NotAuthorised, reason));
        }
        if deputy.calls.are_refused() {
            return Err(self.takes_none(at));
        }
        if deputy.link.is_none() && self.is_long_away(now, at) {
            return Err(self.away(at));
        }
        Ok(())
    }

    /// Gives calls to the session to the upstream, as many as may be under way.
    fn send_calls(&mut self, at: usize, effects: &mut Effects) {
        while let Some(deputy) = self.deputies.list.get_mut(at)
            && let Some(session) = deputy.link
            && let Some(call) = deputy.calls.send_next()
        {
            self.home.metrics.upstream_calls += 1;
            let responder = Key::default();
            let to = Responding { session, key: NO_SUBSCRIPTION, epoch: 0, responder };
            self.home.send(Place::of(session), ToExchange::Assigned(to, call), effects);
        }
    }

    /// The upstream says whether it takes calls.
    pub(super) fn calls_taken(&mut self, at: usize, taken: bool, effects: &mut Effects) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        deputy.calls.note_taken(Some(taken));
        match taken {
            true => self.send_calls(at, effects),
            false => {
                let close = self.takes_none(at);
                self.refuse_calls(at, &close, effects);
            }
        }
    }

    /// Housekeeping: calls that wait go to clients of this node that serve by now, and those for an upstream that is away
    /// for too long, or takes none, are refused.
    pub(super) fn look_at_calls(&mut self, now: Now, at: usize, effects: &mut Effects) {
        let Some(deputy) = self.deputies.list.get(at).filter(|deputy| deputy.calls.some_wait())
        else {
            return;
        };
        let services = self.home.home.services();
        let served = |call: &Calling| services.is_served(&call.run.destination().path);
        for caller in deputy.calls.waiting_for(served) {
            let deputy = self.deputies.list.get_mut(at);
            if let Some(call) = deputy.and_then(|deputy| deputy.calls.take(caller)) {
                self.home.call_at_home(call, effects);
            }
        }
        let Some(deputy) = self.deputies.list.get(at) else { return };
        let close = match deputy.link {
            Some(_) if deputy.calls.are_refused() => self.takes_none(at),
            None if self.is_long_away(now, at) => self.away(at),
            _ => return,
        };
        self.refuse_calls(at, &close, effects);
    }

    /// A place is lost, with the callers there; those whose calls have gone hear of it from the session to the upstream.
    pub(crate) fn lose_callers(&mut self, place: Place) {
        for deputy in &mut self.deputies.list {
            for caller in deputy.calls.waiting_for(|call| call.caller.place == place) {
                deputy.calls.take(caller);
            }
        }
    }

    /// Refuses what has waited longest, and the rest at the next housekeeping.
    fn refuse_calls(&mut self, at: usize, close: &Close, effects: &mut Effects) {
        for _ in 0..REFUSED_AT_ONCE {
            let first = self.deputies.list.get_mut(at).and_then(|it| it.calls.take_first());
            let Some(call) = first else { return };
            self.refuse_call(call.caller, close.clone(), effects);
        }
    }

    fn refuse_call(&mut self, caller: Address, close: Close, effects: &mut Effects) {
        self.home.metrics.upstream_calls_refused += 1;
        self.end_call(caller, close, effects);
    }

    fn end_call(&mut self, caller: Address, close: Close, effects: &mut Effects) {
        self.home.send(caller.place, ToExchange::Ended { to: caller.key, close }, effects);
    }
}
