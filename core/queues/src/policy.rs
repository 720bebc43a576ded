//! What can be chosen for how a queue treats its messages, beside its bounds and its queue of dead letters.
//!
//! Plain values, which the configuration makes and operations show. Relies on nothing.

use tiderace_base::Span;

/// What becomes of messages for a queue that is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullPolicy {
    /// Their publishers wait.
    #[default]
    Block,
    /// They are refused.
    Reject,
    /// Those that have waited longest are dropped for them.
    DropHead,
    /// They are dropped.
    DropTail,
}

impl FullPolicy {
    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            FullPolicy::Block => "block",
            FullPolicy::Reject => "reject",
            FullPolicy::DropHead => "drop-head",
            FullPolicy::DropTail => "drop-tail",
        }
    }

    /// Whether messages are dropped, and publishers go on.
    pub(crate) fn drops(self) -> bool {
        matches!(self, FullPolicy::DropHead | FullPolicy::DropTail)
    }
}

/// Which consumer gets the next message, of those that have room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchPolicy {
    /// Each in its turn.
    #[default]
    RoundRobin,
    /// The one that has come first.
    First,
}

impl DispatchPolicy {
    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            DispatchPolicy::RoundRobin => "round-robin",
            DispatchPolicy::First => "first",
        }
    }
}

/// Messages that were dropped because their queue was full, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Those that had waited longest.
    pub head: u64,
    /// Those that came.
    pub tail: u64,
}

/// How a queue treats its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a message waits that has failed once, before it is delivered again.
    pub redelivery_delay: Span,
    /// By how much it waits longer after each further failure.
    pub redelivery_delay_factor: u32,
    /// It never waits longer than this.
    pub redelivery_delay_max: Span,
    /// For how long publishers may have messages wait; zero: not at all.
    pub delay_max: Span,
    /// Whether messages that expire are dead letters, if there is a queue for these.
    pub dead_letter_expired: bool,
    /// Messages, ready, in flight and delayed, with which it is full; zero: any number.
    pub messages_max: usize,
    /// What becomes of messages for it when it is full.
    pub full: FullPolicy,
    /// Which consumer gets the next message.
    pub dispatch: DispatchPolicy,
    /// What is sent to it is published to the topic of its name, and what is published there comes to it.
    pub mirrored: bool,
    /// The most urgent messages come first.
    pub priorities: bool,
}

impl Default for Policy {
    /// What queues do for which nothing was chosen.
    fn default() -> Policy {
        Policy {
            redelivery_delay: Span::ZERO,
            redelivery_delay_factor: 2,
            redelivery_delay_max: Span::from_secs(600),
            delay_max: Span::from_secs(30 * 86_400),
            dead_letter_expired: false,
            messages_max: 0,
            full: FullPolicy::Block,
            dispatch: DispatchPolicy::RoundRobin,
            mirrored: false,
            priorities: false,
        }
    }
}

impl Policy {
    /// How many milliseconds a message waits that has failed so often.
    pub(crate) fn redelivery_delay_ms(&self, failures: u32) -> u64 {
        let [mut delay, most] = [self.redelivery_delay, self.redelivery_delay_max]
            .map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        let factor = u64::from(self.redelivery_delay_factor.max(1));
        // With a factor of two, sixty-four steps pass any bound.
        for _ in 1..failures.min(64) {
            if delay >= most {
                break;
            }
            delay = delay.saturating_mul(factor);
        }
        delay.min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_by_its_factor_up_to_its_bound() {
        let delays = |delay: u64, factor, most: u64| {
            let policy = Policy {
                redelivery_delay: Span::from_millis(delay),
                redelivery_delay_factor: factor,
                redelivery_delay_max: Span::from_millis(most),
                ..Policy::default()
            };
            [1, 2, 3, 4, 1_000, u32::MAX].map(|failures| policy.redelivery_delay_ms(failures))
        };
        assert_eq!(delays(100, 2, 500), [100, 200, 400, 500, 500, 500]);
        assert_eq!(delays(100, 1, 500), [100; 6], "the same each time");
        assert_eq!(delays(100, 0, 500), [100; 6], "no factor is none that shortens");
        assert_eq!(delays(0, 10, 500), [0; 6], "none");
        assert_eq!(delays(900, 2, 500), [500; 6]);
        assert_eq!(delays(u64::MAX, u32::MAX, u64::MAX), [u64::MAX; 6]);
    }
}
