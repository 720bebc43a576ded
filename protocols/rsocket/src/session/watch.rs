//! Whether the client is there and keeps the rules: its silence, its signs of life, its faults.
//!
//! Relies on time passed in. Invariants: every sign and every fault that a client can repeat is counted against a
//! limit; a client that is not read is not taken for silent while it reads.

use tiderace_base::{Close, CloseCode, RateLimiter, Span, Time};

use crate::frame::KeepAlive;
use crate::metrics::Rule;
use crate::options::RSocketOptions;

/// What is watched of one client.
#[derive(Debug)]
pub(super) struct Watch {
    /// When a frame came last; before the login is done, when it has to be.
    since: Time,
    keepalives: RateLimiter,
    /// Milliseconds of silence after which the client is gone.
    lifetime_ms: u32,
    /// Bytes that waited for the client when it was last looked at while it was not read.
    unread: u32,
    faults: u32,
    probe: Probe,
}

/// Whether a silent client is asked if it is there, before it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// It is not: the lifetime of its SETUP is within the maximum, so silence for that long is its end.
    Never,
    /// It is, since its SETUP allows itself more silence than the maximum.
    Due,
    /// It was asked and has not answered.
    Sent,
}

impl Watch {
    /// Of a client whose login has to be done by then.
    pub(super) fn new(login_until: Time) -> Watch {
        Watch {
            since: login_until,
            keepalives: RateLimiter::default(),
            lifetime_ms: 0,
            unread: 0,
            faults: 0,
            probe: Probe::Never,
        }
    }

    /// Takes the lifetime that SETUP promises, within the bounds of the options.
    pub(super) fn set_lifetime(&mut self, wanted_ms: u32, options: &RSocketOptions) {
        let wanted = Span::from_millis(u64::from(wanted_ms));
        let lifetime = wanted.min(options.lifetime_max).max(options.lifetime_min);
        self.lifetime_ms = u32::try_from(lifetime.as_millis()).unwrap_or(u32::MAX);
        self.probe = if wanted > options.lifetime_max { Probe::Due } else { Probe::Never };
    }

    /// Silence begins now: the login is done, or another connection has come.
    pub(super) fn restart(&mut self, now: Time) {
        self.since = now;
    }

    /// A frame has come.
    #[inline]
    pub(super) fn received(&mut self, now: Time) {
        self.since = now;
        if self.probe == Probe::Sent {
            self.probe = Probe::Due;
        }
    }

    /// When the login has to be done, while it is not.
    pub(super) fn login_until(&self) -> Time {
        self.since
    }

    /// When silence is too long, or the client is to be asked whether it is there.
    pub(super) fn silent_at(&self) -> Time {
        let lifetime = self.lifetime();
        self.since + if self.probe == Probe::Due { lifetime / 2 } else { lifetime }
    }

    /// The client has been silent for too long; `unread` bytes wait for it if it is not read. Whether it is to be
    /// asked if it is there.
    ///
    /// # Errors
    /// When it is gone, or does not read either.
    pub(super) fn silence(&mut self, now: Time, unread: Option<usize>) -> Result<bool, Close> {
        let lifetime = self.lifetime();
        if let Some(unread) = unread {
            // What it said may wait where we do not read. But if nothing of what waits for it has gone
            // since the last look, it does not read either.
            let waiting = u32::try_from(unread).unwrap_or(u32::MAX);
            if waiting > 0 && waiting == self.unread {
                let reason =
                    format!("nothing was read for {lifetime:?} while {waiting} bytes waited");
                return Err(Close::new(CloseCode::SlowConsumer, reason));
            }
            self.unread = waiting;
            self.since = now;
            return Ok(false);
        }
        self.unread = 0;
        if self.probe == Probe::Due {
            self.probe = Probe::Sent;
            return Ok(true);
        }
        let reason = format!("nothing came for {lifetime:?}");
        Err(Close::new(CloseCode::HeartBeatTimeout, reason))
    }

    /// A KEEPALIVE has come.
    ///
    /// # Errors
    /// When there are too many of them, or it is too long.
    pub(super) fn keep_alive(
        &mut self,
        now: Time,
        sign: &KeepAlive<'_>,
        options: &RSocketOptions,
    ) -> Result<(), Close> {
        let (rate, most) = (options.keepalives_max, options.keepalive_bytes_max);
        if !self.keepalives.allow(now, Span::from_secs(1) / rate.max(1), rate.max(1)) {
            let reason = format!("more than {rate} KEEPALIVE frames came in a second");
            return Err(Close::new(CloseCode::TooManySigns, reason));
        }
        if sign.data.len() > most {
            let reason = format!("a KEEPALIVE has more than {most} bytes of data");
            return Err(Close::new(CloseCode::FrameTooLarge, reason));
        }
        Ok(())
    }

    /// A frame broke a rule and is ignored.
    ///
    /// # Errors
    /// When more than `faults_max` have.
    pub(super) fn fault(&mut self, rule: Rule, faults_max: u32) -> Result<(), Close> {
        self.faults += 1;
        if self.faults <= faults_max {
            return Ok(());
        }
        let reason =
            format!("more than {faults_max} frames broke the rules of RSocket ({rule:?} the last)");
        Err(Close::new(CloseCode::TooManyFaults, reason))
    }

    fn lifetime(&self) -> Span {
        Span::from_millis(u64::from(self.lifetime_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Time {
        Time::ZERO + Span::from_secs(secs)
    }

    fn watch(lifetime_ms: u32) -> Watch {
        let options = RSocketOptions {
            lifetime_min: Span::from_secs(2),
            lifetime_max: Span::from_secs(100),
            ..RSocketOptions::default()
        };
        let mut watch = Watch::new(at(5));
        watch.set_lifetime(lifetime_ms, &options);
        watch.restart(at(0));
        watch
    }

    #[test]
    fn lifetimes_are_held_within_bounds() {
        assert_eq!(watch(1).silent_at(), at(2));
        assert_eq!(watch(60_000).silent_at(), at(60));
        let code = |result: Result<bool, Close>| result.map_err(|close| close.code);
        assert_eq!(code(watch(60_000).silence(at(60), None)), Err(CloseCode::HeartBeatTimeout));
    }

    #[test]
    fn who_promises_less_than_is_wanted_is_asked_once_for_each_silence() {
        let mut watch = watch(1_000_000);
        for begun in [0, 50] {
            assert_eq!(watch.silent_at(), at(begun + 50));
            assert_eq!(watch.silence(at(begun + 50), None), Ok(true));
            assert_eq!(watch.silent_at(), at(begun + 100));
            watch.received(at(begun + 50));
        }
        assert_eq!(watch.silence(at(150), None), Ok(true));
        assert!(watch.silence(at(200), None).is_err());
    }

    #[test]
    fn who_is_not_read_is_there_as_long_as_it_reads() {
        let mut watch = watch(60_000);
        for (now, unread) in [(60, 0), (120, 0), (180, 9), (240, 5)] {
            assert_eq!(watch.silence(at(now), Some(unread)), Ok(false));
            assert_eq!(watch.silent_at(), at(now + 60));
        }
        let close = watch.silence(at(300), Some(5)).map_err(|close| close.code);
        assert_eq!(close, Err(CloseCode::SlowConsumer));
    }
}
