//! Whether the upstream is still there.
//!
//! Invariant: a question is asked only after a silence, and one at a time; so an upstream that is gone is noticed after two
//! intervals.

use tiderace_base::{Close, CloseCode, Now, Span, Time};

/// When to ask, and when to give up.
pub(super) struct Liveness {
    interval: Span,
    due: Time,
    is_asked: bool,
}

impl Liveness {
    /// Before WELCOME: nothing is asked, and it is given up then.
    pub(super) fn greeting(until: Time) -> Liveness {
        Liveness { interval: Span::ZERO, due: until, is_asked: true }
    }

    /// WELCOME has come, with its advice; zero for none.
    pub(super) fn begin(&mut self, now: Now, advice_ms: u64, most: Span) {
        let advice = Span::from_millis(advice_ms.min(most.as_millis() as u64));
        self.interval = if advice_ms == 0 { most } else { advice }.max(INTERVAL_LEAST);
        self.received(now);
    }

    /// Something has come.
    pub(super) fn received(&mut self, now: Now) {
        if self.interval > Span::ZERO {
            (self.is_asked, self.due) = (false, now.time + self.interval);
        }
    }

    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// The time has come: whether to ask.
    ///
    /// # Errors
    /// When there was no answer.
    pub(super) fn expire(&mut self, now: Now, is_paused: bool) -> Result<bool, Close> {
        if self.due > now.time {
            return Ok(false);
        }
        if self.interval == Span::ZERO {
            let reason = "the upstream did not answer HELLO in time; is it a Tiderace server, and is it not overloaded?";
            return Err(Close::new(CloseCode::LoginTimeout, reason));
        }
        // What has come and is not read yet may be the answer.
        if self.is_asked && !is_paused {
            let reason = format!("the upstream did not answer PING within {:?}", self.interval);
            return Err(Close::new(CloseCode::IdleTimeout, reason));
        }
        self.due = now.time + self.interval;
        Ok(!std::mem::replace(&mut self.is_asked, true))
    }
}

/// What advice may not ask for more often.
const INTERVAL_LEAST: Span = Span::from_secs(1);
