//! Heart-beats and the login deadline (STOMP 1.2, "Heart-beating").
//!
//! Relies on times passed in. Invariant: intervals are the larger of what one side can and the
//! other wants, or none if either says zero.

use tiderace_base::{Close, CloseCode, Now, Span, Time};
use tiderace_wire::Context;

use super::{State, StompSession};
use crate::server_frame;

/// When this side has to send and by when it has to receive something.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeartBeat {
    /// Never before the login, whose deadline is then kept in `last_received`.
    last_sent: Time,
    last_received: Time,
    /// Milliseconds between what is sent; zero for no promise.
    send_ms: u32,
    /// Milliseconds between what is received; zero for no promise.
    receive_ms: u32,
}

impl HeartBeat {
    /// Before the login there is a deadline and no heart-beat.
    pub(super) fn until_login(deadline: Time) -> HeartBeat {
        HeartBeat { last_sent: Time::NEVER, last_received: deadline, send_ms: 0, receive_ms: 0 }
    }

    /// The login's deadline is over: the server is to blame for what takes time now.
    pub(super) fn login_pending(&mut self) {
        self.last_received = Time::NEVER;
    }

    /// Keeps what was negotiated, until [`HeartBeat::begin`].
    pub(super) fn agree(&mut self, send_ms: u32, receive_ms: u32) {
        self.send_ms = send_ms;
        self.receive_ms = receive_ms;
    }

    /// Whether this side sends heart-beats, and whether the other does.
    pub(super) fn agreed(&self) -> (bool, bool) {
        (self.send_ms > 0, self.receive_ms > 0)
    }

    /// The login succeeded.
    pub(super) fn begin(&mut self, now: Time) {
        self.last_sent = now;
        self.last_received = now;
    }

    pub(super) fn sent(&mut self, now: Time) {
        self.last_sent = now;
    }

    pub(super) fn received(&mut self, now: Time) {
        if !self.is_fresh() {
            self.last_received = now;
        }
    }

    pub(super) fn deadline(&self, grace: u32) -> Time {
        if self.is_fresh() {
            return self.last_received;
        }
        self.next_beat().min(self.silence_ends(grace))
    }

    fn is_fresh(&self) -> bool {
        self.last_sent == Time::NEVER
    }

    /// A fifth of the interval is kept for timers that fire late and networks that deliver late.
    fn next_beat(&self) -> Time {
        match self.send_ms {
            0 => Time::NEVER,
            ms => self.last_sent + Span::from_millis(u64::from(ms)) * 4 / 5,
        }
    }

    fn silence_ends(&self, grace: u32) -> Time {
        match self.receive_ms {
            0 => Time::NEVER,
            ms => self.last_received + Span::from_millis(u64::from(ms)) * grace.max(1),
        }
    }
}

/// One direction of the negotiation.
pub(super) fn interval(can: u64, wants: u64) -> u32 {
    if can == 0 || wants == 0 { 0 } else { u32::try_from(can.max(wants)).unwrap_or(u32::MAX) }
}

impl StompSession {
    pub(super) fn expire_login(&mut self, now: Now) -> Result<(), Close> {
        if self.state == State::Fresh && now.time >= self.heart_beat.last_received {
            return Err(CloseCode::LoginTimeout.into());
        }
        Ok(())
    }

    /// Sends a heart-beat if it is time, and ends a silent connection.
    pub(super) fn beat(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if context.reading_paused {
            // What the client sent cannot be known, so its silence is no fault.
            self.heart_beat.received(now.time);
        }
        if now.time >= self.heart_beat.silence_ends(self.options.heart_beat_grace) {
            let promised = self.heart_beat.receive_ms;
            return Err(Close::new(
                CloseCode::HeartBeatTimeout,
                format!(
                    "nothing was received for {} ms. The client promised to send something every \
                     {promised} ms; an EOL is enough.",
                    now.time.since(self.heart_beat.last_received).as_millis(),
                ),
            ));
        }
        if now.time >= self.heart_beat.next_beat() {
            server_frame::heart_beat(&mut context.output);
            self.heart_beat.sent(now.time);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_larger_interval_or_none() {
        for (can, wants, expected) in
            [(0, 5, 0), (5, 0, 0), (5, 10, 10), (10, 5, 10), (u64::MAX, 1, u32::MAX)]
        {
            assert_eq!(interval(can, wants), expected);
        }
    }

    #[test]
    fn speaks_before_the_promise_is_broken_and_waits_longer_than_promised() {
        let mut heart_beat = HeartBeat::until_login(Time::from_nanos(7));
        assert_eq!(heart_beat.deadline(2), Time::from_nanos(7));
        heart_beat.received(Time::from_nanos(9));
        assert_eq!(heart_beat.deadline(2), Time::from_nanos(7));
        heart_beat.agree(1000, 300);
        heart_beat.begin(Time::ZERO);
        assert_eq!(heart_beat.deadline(2), Time::ZERO + Span::from_millis(600));
        heart_beat.received(Time::ZERO + Span::from_millis(500));
        assert_eq!(heart_beat.deadline(2), Time::ZERO + Span::from_millis(800));
        heart_beat.agree(0, 0);
        assert_eq!(heart_beat.deadline(2), Time::NEVER);
    }
}
