//! Heart-beats and the login deadline (STOMP 1.2, "Heart-beating").
//!
//! Relies on times passed in. Invariant: intervals are the larger of what one side can and the
//! other wants, or none if either says zero.

use tiderace_base::{Close, CloseCode, Span, Time};

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

    #[inline]
    pub(super) fn sent(&mut self, now: Time) {
        self.last_sent = now;
    }

    #[inline]
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

    /// Whether the client should have asked for its login by now.
    pub(super) fn login_is_late(&self, now: Time) -> bool {
        now >= self.last_received
    }

    /// Refuses a connection on which nothing was received for longer than was promised.
    pub(super) fn check_silence(&self, now: Time, grace: u32) -> Result<(), Close> {
        if now < self.silence_ends(grace) {
            return Ok(());
        }
        let reason = format!(
            "nothing was received for {} ms. The client promised to send something every {} ms; an EOL is enough.",
            now.since(self.last_received).as_millis(),
            self.receive_ms,
        );
        Err(Close::new(CloseCode::HeartBeatTimeout, reason))
    }

    /// Whether it is time for a heart-beat, which then counts as sent.
    pub(super) fn beats(&mut self, now: Time) -> bool {
        let is_due = now >= self.next_beat();
        if is_due {
            self.sent(now);
        }
        is_due
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
