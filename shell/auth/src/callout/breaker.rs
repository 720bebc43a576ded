//! Whether a server that is asked is there: after some failures in a row it is left alone for a while.
//!
//! ```text
//!   closed ──failures in a row──▶ open ──the pause is over──▶ probing: one question
//!     ▲                             ▲                            │
//!     └──────── an answer ──────────┼────────────────────────────┤
//!                                   └── failure, a longer pause ─┘
//! ```
//! The time is passed in. Invariant: while a server does not answer, it is asked one question a pause and nobody waits for
//! it.

use tiderace_base::{Span, Time};

/// Failures in a row after which the server counts as away.
pub(crate) const FAILURES_MAX: u32 = 5;
const PAUSE_MIN: Span = Span::from_secs(1);
const PAUSE_MAX: Span = Span::from_secs(30);

/// How it stands with a server.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    failures: u32,
    pause: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Time },
    Probing,
}

impl Breaker {
    pub(crate) fn new() -> Breaker {
        Breaker { state: State::Closed, failures: 0, pause: PAUSE_MIN }
    }

    /// Whether a question may be asked now. When a pause is over one may, which has to be asked then.
    pub(crate) fn admit(&mut self, now: Time) -> bool {
        match self.state {
            State::Closed => true,
            State::Open { until } if until <= now => {
                self.state = State::Probing;
                true
            }
            State::Open { .. } | State::Probing => false,
        }
    }

    /// Whether the server counts as there.
    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The server has answered a question.
    pub(crate) fn answered(&mut self) {
        *self = Breaker::new();
    }

    /// A question has failed.
    pub(crate) fn failed(&mut self, now: Time) {
        self.failures = self.failures.saturating_add(1);
        match self.state {
            State::Closed if self.failures < FAILURES_MAX => {}
            // What was under way when it opened says nothing new.
            State::Open { .. } => {}
            State::Closed => self.state = State::Open { until: now + self.pause },
            State::Probing => {
                self.pause = (self.pause * 2).min(PAUSE_MAX);
                self.state = State::Open { until: now + self.pause };
            }
        }
    }

    /// A question that was admitted has not been asked: the next one is.
    pub(crate) fn lapsed(&mut self, now: Time) {
        if self.state == State::Probing {
            self.state = State::Open { until: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::from_nanos(milliseconds * 1_000_000)
    }

    #[test]
    fn a_server_that_fails_is_left_alone_for_longer_and_longer() {
        let mut breaker = Breaker::new();
        for _ in 1..FAILURES_MAX {
            breaker.failed(at(0));
            assert!(breaker.admit(at(0)));
        }
        breaker.failed(at(0));
        assert!(!breaker.admit(at(999)));
        let mut now = 1_000;
        let mut pause = 1_000;
        for _ in 0..8 {
            assert!(breaker.admit(at(now)), "one question when the pause is over");
            assert!(!breaker.admit(at(now)), "and no second one");
            breaker.failed(at(now));
            pause = (pause * 2).min(30_000);
            assert!(!breaker.admit(at(now + pause - 1)), "{pause}");
            now += pause;
        }
        assert!(breaker.admit(at(now)));
        breaker.lapsed(at(now));
        assert!(breaker.admit(at(now)), "a question that was not asked is made good by the next");
        breaker.answered();
        assert!(breaker.is_closed() && breaker.admit(at(now)));
        // Failures between answers are none in a row.
        for _ in 0..50 {
            breaker.failed(at(now));
            breaker.answered();
        }
        assert!(breaker.admit(at(now)));
    }
}
