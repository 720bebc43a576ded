//! Deadlines: one entry in the wheel per connection, armed lazily.
//!
//! A deadline that moves later costs nothing: the old entry fires, finds nothing to do and is armed
//! again. One that moves earlier gets a second entry; the first is recognised by its time and
//! ignored. Invariant: no connection waits without a deadline, except an established session that
//! wants none.

use tiderace_base::{CloseCode, Key, Time};

use crate::connection::{Flags, Stage};
use crate::driver::Driver;
use crate::options::Deadlines;
use crate::outcome::Farewell;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Arms the connection's timer if nothing earlier is armed.
    pub(crate) fn rearm(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            let next = connection.next_deadline();
            if next < connection.armed {
                connection.armed = next;
                self.clock.wheel.arm(key, next);
            }
        }
    }

    /// A connection's timer has fired.
    pub(crate) fn expire(&mut self, key: Key) {
        let now = self.now.time;
        self.end_expired_login(key);
        self.end_limit_waits(key);
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.armed > now {
            return;
        }
        connection.armed = Time::NEVER;
        if connection.deadline <= now {
            self.run_out(key);
        }
        let live = self.connections.get_mut(key).and_then(|connection| connection.live());
        if live.is_some_and(|live| live.rest_by() <= now) {
            self.unfinished(key);
        }
        let due = |session_deadline: Time| session_deadline <= now;
        let live = self.connections.get_mut(key).and_then(|connection| connection.live());
        if live.is_some_and(|live| due(live.session.deadline())) {
            let called = self.call(key, |session, now, context| session.expire(now, context));
            self.settle(key, called);
        }
        self.rearm(key);
        self.drain_effects();
    }

    /// The deadline of a connection's stage has passed.
    fn run_out(&mut self, key: Key) {
        let Deadlines { ping, frame, login, .. } = self.shared.options.deadlines;
        let is_handshaking = self.is_handshaking(key);
        let pause = &self.clock.pause;
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let code = match &connection.stage {
            Stage::Sniff if is_handshaking => CloseCode::TlsTimeout,
            Stage::Sniff => CloseCode::FirstByteTimeout,
            Stage::Http(_) if connection.flags.has(Flags::STORING) => {
                // The disk is slow, not the client.
                return connection.deadline = self.now.time + frame;
            }
            Stage::Http(_) if connection.flags.has(Flags::HEAD_BEGUN) => CloseCode::HeadTimeout,
            // An idle connection between requests ends without reproach.
            Stage::Http(_) => CloseCode::Done,
            Stage::Http2(_) => return self.h2_timeout(key),
            Stage::Dialling => return self.dial_timed_out(key),
            Stage::Starting(_) | Stage::Seeking(_) => CloseCode::LoginTimeout,
            Stage::Live(live) if live.is_detached() => CloseCode::ResumeTimeout,
            Stage::Live(live) if live.session.is_established() => {
                let fresh = connection.flags.raise(Flags::ESTABLISHED);
                if live.is_websocket() && !fresh {
                    return self.ping(key);
                } else if live.is_websocket() {
                    return connection.deadline = self.now.time + ping;
                } else if !connection.is_partial() {
                    return connection.deadline = Time::NEVER;
                } else if fresh || connection.is_deaf() {
                    return connection.deadline = self.now.time + frame;
                }
                CloseCode::FrameTimeout
            }
            Stage::Live(live) if live.verifying && pause.hid(connection.deadline) => {
                // The password lies with the server, which was paused itself.
                return connection.deadline = self.now.time + login;
            }
            Stage::Live(_) => CloseCode::LoginTimeout,
            Stage::Closing { .. } => return self.forget(key),
        };
        self.end(key, &code.into(), Farewell::Full);
    }
}
