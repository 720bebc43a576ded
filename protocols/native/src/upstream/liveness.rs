//! Whether the upstream is still there, and how long an answer of it takes.
//!
//! Invariant: one question is asked at a time, and an upstream from which nothing has come for an interval with a question
//! in it is gone; so that is noticed after two intervals.

use tiderace_base::{Close, CloseCode, Now, Span, Time};

/// When to ask, and when to give up.
pub(super) struct Liveness {
    interval: Span,
    due: Time,
    /// When the question was asked that is not answered yet.
    asked: Option<Time>,
    /// Whether something has come since it was looked last.
    has_received: bool,
}

impl Liveness {
    /// Before WELCOME: nothing is asked, and it is given up then.
    pub(super) fn greeting(until: Time) -> Liveness {
        Liveness { interval: Span::ZERO, due: until, asked: None, has_received: false }
    }

    /// WELCOME has come, with its advice; zero for none.
    pub(super) fn begin(&mut self, now: Now, advice_ms: u64, most: Span) {
        let advice = Span::from_millis(advice_ms.min(most.as_millis() as u64));
        self.interval = if advice_ms == 0 { most } else { advice }.max(INTERVAL_LEAST);
        (self.has_received, self.due) = (true, now.time + self.interval);
    }

    /// Something has come.
    pub(super) fn received(&mut self) {
        self.has_received = true;
    }

    /// The answer has come: how long it took.
    pub(super) fn answered(&mut self, now: Now) -> Option<Span> {
        self.asked.take().map(|asked| now.time.since(asked))
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
        let has_received = std::mem::replace(&mut self.has_received, false) || is_paused;
        if self.asked.is_some() && !has_received {
            let reason = format!("the upstream did not answer PING within {:?}", self.interval);
            return Err(Close::new(CloseCode::IdleTimeout, reason));
        }
        self.due = now.time + self.interval;
        let asks = self.asked.is_none();
        self.asked.get_or_insert(now.time);
        Ok(asks)
    }
}

/// What advice may not ask for more often.
const INTERVAL_LEAST: Span = Span::from_secs(1);
