//! Sessions to which limits apply: whether they may log in, and when they are read and written to.
//!
//! The one place where rates are held to, for every protocol: what a client asks for is charged when it has become
//! commands, and what it is sent when it was written. A client that has sent more than it may is not read until that is
//! paid for, so it is slowed down by its own connection and loses nothing; requests by HTTP that stand alone, of which
//! anybody could send more on other connections, are refused instead. Of a client that was written more than it may the
//! rest waits in the broker, where it is conflated or dropped as for a slow one.
//!
//! Relies on [`crate::limit_registry`] for what those who share a limit have, and on [`crate::limited_sessions`] for who
//! waits. Invariant: a session without limits never comes here.

use tiderace_base::{
    Allowance, Allowances, ClientLimit, Close, CloseCode, Key, SessionId, Time, Wait,
};
use tiderace_broker::Principal;
use tiderace_wire::Weight;

use crate::connection::{Flags, Stage, Transport};
use crate::departure::Step;
use crate::driver::Driver;
use crate::limited_sessions::LimitWait;
use crate::shard::Shard;

/// A session that may log in, and what limits it then.
#[derive(Debug)]
pub(crate) struct Admitted {
    key: Key,
    allowances: Option<Allowances>,
}

impl<D: Driver> Shard<D> {
    /// Whether limits let a client log in, which counts as a connection from now on; absent if nothing changes.
    pub(crate) fn admit_limited(
        &mut self,
        session: SessionId,
        result: Result<Principal, Close>,
    ) -> (Result<Principal, Close>, Option<Admitted>) {
        let other =
            result.as_ref().ok().and_then(|principal| self.other_limits(session, principal));
        let Some(Admitted { key, allowances }) = other else { return (result, None) };
        if let Some(allowances) = &allowances
            && let Err(full) = allowances.admit_connection(self.limited.of(key))
        {
            self.note_limit(full, ClientLimit::Connections, 1);
            let reason = format!(
                "{} may have {} connections (`limit.connections_max`); close one and try again",
                full.who(),
                full.limits().connections
            );
            return (Err(Close::new(CloseCode::TooManyConnections, reason)), None);
        }
        (result, Some(Admitted { key, allowances }))
    }

    /// What limits a session from now on, as whom it is, if that is something else than now.
    fn other_limits(&mut self, session: SessionId, principal: &Principal) -> Option<Admitted> {
        if self.broker.options().limits.is_empty() && self.limited.is_empty() {
            return None;
        }
        let link = self.broker.link_of(session)?;
        let key = self.find(link, session)?;
        let address = self.connections.get(key)?.peer.address();
        let options = self.broker.options();
        let allowances = self.shared.limits.of(self.now.time, options, principal, address);
        (allowances.as_ref() != self.limited.of(key)).then_some(Admitted { key, allowances })
    }

    /// A session that limits let in has logged in, or was refused for something else.
    pub(crate) fn begin_limits(&mut self, session: SessionId, admitted: Admitted, has_begun: bool) {
        let Admitted { key, allowances } = admitted;
        if !has_begun {
            if let Some(allowances) = &allowances {
                allowances.dismiss_connection();
            }
            return;
        }
        self.end_limits(key);
        self.broker.limit(session, allowances.clone());
        if let Some(allowances) = allowances {
            self.limited.insert(key, allowances);
            if let Some(connection) = self.connections.get_mut(key) {
                connection.flags.set(Flags::LIMITED);
            }
            self.hold_to_debts(key);
        }
    }

    /// Limits may be others than those that a session was let in by. It stays connected, whatever they say about that.
    pub(crate) fn limit_again(&mut self, session: SessionId) {
        let Some(principal) = self.broker.principal_of(session).cloned() else { return };
        let Some(admitted) = self.other_limits(session, &principal) else { return };
        let key = admitted.key;
        if let Some(allowances) = &admitted.allowances {
            allowances.add_connection();
        }
        self.begin_limits(session, admitted, true);
        let live = self.connections.get_mut(key).and_then(|connection| connection.live());
        if live.is_some_and(|live| live.is_detached()) {
            self.limited.detach(key);
        }
    }

    /// A session that has just been let in does not come past what is owed: others of the same client have run it up, or the
    /// connection before. Requests that stand alone are refused for it, each when it asks for something.
    fn hold_to_debts(&mut self, key: Key) {
        let now = self.now.time;
        let Some(allowances) = self.limited.of(key) else { return };
        let reads = allowances.receives_from(now).map(|(_, (until, _))| until);
        let writes = allowances.sends_from(now).map(|(_, (until, _))| until);
        if let Some(until) = reads.filter(|_| self.stands_alone(key).is_none()) {
            self.stop_reading(key, until);
        }
        if let Some(until) = writes {
            self.stop_writing(key, until);
        }
    }

    /// Nothing limits a session any more, or it has ended.
    pub(crate) fn end_limits(&mut self, key: Key) {
        self.limited.remove(key);
        let Some(connection) = self.connections.get_mut(key) else { return };
        let (was_throttled, was_paced) =
            (connection.flags.has(Flags::THROTTLED), connection.flags.has(Flags::PACED));
        connection.flags.end_limits();
        if was_throttled {
            self.read_again(key);
        }
        if was_paced {
            self.write_again(key);
        }
    }

    /// Hands the commands of the last calls of a limited session to the broker, and charges for them.
    #[cold]
    pub(crate) fn run_limited_commands(&mut self, key: Key) {
        let weight = self.commands.weight();
        if weight.asks && self.refuse_above_rate(key) {
            return;
        }
        self.run_all_commands(key);
        self.charge_received(key, weight);
        let refused = self.limited.of(key).and_then(Allowances::take_refused_subscriptions);
        if let Some((allowance, count)) = refused {
            self.note_limit(allowance, ClientLimit::Subscriptions, u64::from(count));
        }
    }

    /// Refuses what a request by HTTP asks for that stands alone, if its client has sent more than it may.
    fn refuse_above_rate(&mut self, key: Key) -> bool {
        let Some(session) = self.stands_alone(key) else { return false };
        let now = self.now.time;
        let above = self.limited.of(key).and_then(|allowances| allowances.receives_from(now));
        let Some((allowance, (_, limit))) = above else { return false };
        self.note_limit(allowance, limit, 1);
        let reason = format!(
            "{} sends more than `limit.{}` allows; ask less often",
            allowance.who(),
            limit.option()
        );
        let close = Close::new(CloseCode::RateLimited, reason);
        self.broker.refuse(session, &mut self.commands, &close, &mut self.effects);
        true
    }

    /// The session, if it is one request by HTTP.
    fn stands_alone(&self, key: Key) -> Option<SessionId> {
        match &self.connections.get(key)?.stage {
            Stage::Live(live) => {
                let by_requests = matches!(live.transport, Transport::Requests(_));
                (by_requests && live.session.secret().is_none()).then_some(live.id)
            }
            _ => None,
        }
    }

    /// Charges for what a session has asked for, and stops reading it if that is more than it may.
    fn charge_received(&mut self, key: Key, weight: Weight) {
        let (messages, bytes) = (weight.messages, weight.bytes);
        let Some(allowances) = self.limited.of(key) else { return };
        let charged = allowances.charge_received(self.now.time, messages, bytes);
        let Some((allowance, (until, limit))) = charged else { return };
        let is_read = self.connections.get(key).is_some_and(|it| !it.flags.has(Flags::THROTTLED));
        if is_read {
            self.note_limit(allowance, limit, 1);
            self.stop_reading(key, until);
        }
    }

    fn stop_reading(&mut self, key: Key, until: Time) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.flags.set(Flags::THROTTLED);
        let is_carried = connection.is_carried();
        self.limited.wait_to_read(key, until);
        self.clock.wheel.arm(key, until);
        if !is_carried {
            // What has been read already waits as well.
            self.go_on_later(key);
        }
    }

    /// Charges for what was written to a session, and stops writing to it if that is more than it may.
    #[cold]
    pub(crate) fn charge_sent(&mut self, key: Key, bytes: usize) {
        let Some(allowances) = self.limited.of(key) else { return };
        let charged: Option<(&Allowance, Wait)> =
            allowances.charge_sent(self.now.time, bytes as u64);
        let Some((allowance, (until, limit))) = charged else { return };
        let is_written = self.connections.get(key).is_some_and(|it| !it.flags.has(Flags::PACED));
        if is_written {
            self.note_limit(allowance, limit, 1);
            self.stop_writing(key, until);
        }
    }

    fn stop_writing(&mut self, key: Key, until: Time) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.flags.set(Flags::PACED);
        self.limited.wait_to_write(key, until);
        self.clock.wheel.arm(key, until);
    }

    /// A timer of a connection has fired: it is read and written to again, if it may be.
    pub(crate) fn end_limit_waits(&mut self, key: Key) {
        let Some(connection) = self.connections.get(key) else { return };
        let (is_throttled, is_paced) =
            (connection.flags.has(Flags::THROTTLED), connection.flags.has(Flags::PACED));
        if is_throttled {
            match self.limited.look_at_reading(key, self.now.time) {
                LimitWait::Lasts => {}
                LimitWait::Armed(until) => self.clock.wheel.arm(key, until),
                LimitWait::Over => self.read_again(key),
            }
        }
        if is_paced {
            match self.limited.look_at_writing(key, self.now.time) {
                LimitWait::Lasts => {}
                LimitWait::Armed(until) => self.clock.wheel.arm(key, until),
                LimitWait::Over => self.write_again(key),
            }
        }
    }

    fn read_again(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let flags = &mut connection.flags;
        flags.clear(Flags::THROTTLED);
        self.lists.read(key, flags);
        if flags.has(Flags::YIELDED) {
            self.lists.again(key, flags);
        }
        self.unblock(key);
    }

    fn write_again(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.flags.clear(Flags::PACED);
        if connection.outgoing.is_some() || connection.flags.has_output() {
            self.lists.write(key, &mut connection.flags);
        }
    }

    /// Gives a limited session the bytes of its stream, a little at a time: after each a limit may say that it was
    /// enough.
    pub(crate) fn stream_limited(&mut self, key: Key, bytes: &[u8]) -> Step {
        let mut most = PIECE_BYTES;
        loop {
            let piece = bytes.get(..most).unwrap_or(bytes);
            let consumed = match self.stream(key, piece) {
                Step::Wait(consumed) if piece.len() < bytes.len() => consumed,
                step => return step,
            };
            let Some(flags) = self.connections.get(key).map(|it| it.flags) else {
                return Step::Wait(consumed);
            };
            if flags.is_slowed() && !flags.is_behind() {
                // The socket may have nothing more to say: what is left here is taken in when the client is let on.
                self.go_on_later(key);
            }
            if flags.is_slowed() || flags.is_behind() {
                return Step::Wait(consumed);
            }
            if consumed > 0 {
                return Step::Next(consumed);
            }
            // The piece has no whole frame.
            most = most.saturating_mul(2);
        }
    }

    /// Counts that a limit was reached, and says so in the log once in a while.
    fn note_limit(&self, allowance: &Allowance, limit: ClientLimit, times: u64) {
        self.metrics.count_limit(limit, times);
        if allowance.is_news(self.now.time) {
            let (who, limit) = (allowance.who(), limit.option());
            tracing::info!(
                event = "limit-reached",
                who,
                limit,
                "a [[limit]] holds clients back; raise it there, or find out why they do so much"
            );
        }
    }
}

/// What a limited session takes in before its limits are asked: some small messages.
const PIECE_BYTES: usize = 512;
