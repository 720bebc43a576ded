//! How long publishers wait for slow subscribers: for each topic, and for each publisher, no longer than
//! the grace in any minute. What has been used is there again when a minute has passed without a wait.
//!
//! Bookkeeping only. Invariants: a topic whose publishers wait has an end in `ends`; what has not been
//! used for a minute is forgotten.

use std::collections::BTreeSet;

use tiderace_base::{Key, Span, Time};

use crate::collections::Map;

/// After how long a topic or a publisher has its whole grace again.
const MINUTE: Span = Span::from_secs(60);

/// What has been used of one grace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowance {
    /// When the last wait ended.
    ended: Time,
    used: Span,
    /// Set while it is being used.
    since: Option<Time>,
}

impl Allowance {
    /// Begins to use it: until when there is something left. Nothing if it is used up.
    pub(crate) fn begin(&mut self, now: Time, grace: Span) -> Option<Time> {
        if now.since(self.ended) >= MINUTE {
            self.used = Span::ZERO;
        }
        let left = grace.checked_sub(self.used).filter(|left| !left.is_zero())?;
        self.since = Some(now);
        Some(now + left)
    }

    /// It is no longer being used.
    pub(crate) fn end(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            self.used += now.since(since);
            self.ended = now;
        }
    }

    /// Whether forgetting it would change nothing.
    fn is_over(&self, now: Time) -> bool {
        self.since.is_none() && now.since(self.ended) >= MINUTE
    }
}

/// As a home: the topics whose publishers wait for slow subscribers, or have waited lately.
#[derive(Debug, Default)]
pub(crate) struct Graces {
    topics: Map<Key, (Allowance, Time)>,
    /// When those that are being used are used up.
    ends: BTreeSet<(Time, Key)>,
    swept: Time,
}

impl Graces {
    /// Publishers of a topic are to wait: whether something of its grace is left.
    pub(crate) fn begin(&mut self, now: Time, topic: Key, grace: Span) -> bool {
        if grace.is_zero() {
            return false;
        }
        let (allowance, end) = self.topics.entry(topic).or_default();
        let Some(until) = allowance.begin(now, grace) else { return false };
        *end = until;
        self.ends.insert((until, topic));
        true
    }

    /// Publishers of a topic go on.
    pub(crate) fn end(&mut self, now: Time, topic: Key) {
        if let Some((allowance, end)) = self.topics.get_mut(&topic) {
            allowance.end(now);
            self.ends.remove(&(*end, topic));
        }
    }

    /// The next of the topics whose grace is used up.
    pub(crate) fn next_over(&mut self, now: Time) -> Option<Key> {
        let (_, topic) = *self.ends.first().filter(|(until, _)| *until <= now)?;
        self.end(now, topic);
        Some(topic)
    }

    /// Forgets what is as good as new; to be called now and then.
    pub(crate) fn sweep(&mut self, now: Time) {
        if !self.topics.is_empty() && now.since(self.swept) >= MINUTE {
            self.swept = now;
            self.topics.retain(|_, (allowance, _)| !allowance.is_over(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn a_topic_has_its_grace_once_a_minute() {
        let (mut graces, topic, grace) = (Graces::default(), Key::default(), Span::from_secs(2));
        assert!(graces.begin(at(100), topic, grace));
        graces.end(at(101), topic);
        // What is left.
        assert!(graces.begin(at(110), topic, grace));
        assert_eq!(graces.next_over(at(110)), None);
        assert_eq!(graces.next_over(at(111)), Some(topic));
        assert_eq!(graces.next_over(at(111)), None);
        assert!(!graces.begin(at(112), topic, grace));
        assert!(!graces.begin(at(170), topic, grace));
        assert!(graces.begin(at(171), topic, grace));
        graces.end(at(171), topic);
        graces.sweep(at(230));
        assert_eq!(graces.topics.len(), 1);
        graces.sweep(at(291));
        assert_eq!(graces.topics.len(), 0);
    }

    /// The end of one minute and the beginning of the next are a minute, too.
    #[test]
    fn no_minute_has_more_than_one_grace() {
        let (mut allowance, grace) = (Allowance::default(), Span::from_secs(2));
        let mut waits = |second| {
            let begins = allowance.begin(at(second), grace).is_some();
            allowance.end(at(second + 1));
            begins
        };
        assert!(waits(100) && waits(159));
        assert!(!waits(160) && !waits(219), "two seconds of this minute have been waited");
        assert!(waits(220));
    }

    #[test]
    fn without_a_grace_nobody_waits() {
        let mut graces = Graces::default();
        assert!(!graces.begin(at(1), Key::default(), Span::ZERO));
        assert!(graces.topics.is_empty() && graces.ends.is_empty());
    }
}
