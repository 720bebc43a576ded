//! Subscriptions to several targets, and what regular expressions may cost.
//!
//! Several targets of one subscription may match a topic; one of them brings it: the one that names
//! it exactly, or else the first whose pattern reaches it. That is asked when a topic's subscribers
//! are looked up and when old messages are given, not for each message. Relies on protocols to name no
//! target twice. Invariants: each message reaches a subscription by one target; the bytes counted for
//! a session and for the shard are those of the patterns they hold.

use tiderace_base::limits::{REGEX_BYTES_PER_SESSION_MAX, REGEX_BYTES_PER_SHARD_MAX};
use tiderace_base::{Close, CloseCode, Key};
use tiderace_queues::reaches;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Kind, Subscribe, SubscriptionKey, Target};

use crate::session::Session;
use crate::session_side::SessionSide;
use crate::subscription::Subscription;
use crate::subscriptions::Entry;

impl Session {
    /// Whether it is this target by which one of its subscriptions gets a topic.
    pub(crate) fn brings(&self, key: SubscriptionKey, target: u16, path: &Path) -> bool {
        let subscription = match self.subscriptions.get(key) {
            None => return false,
            Some(Entry::Plain(_) | Entry::Credited(_)) => return true,
            Some(Entry::Full(subscription)) => subscription,
        };
        let targets = subscription.targets.as_slice();
        let named = |target: &Target| match target {
            Target::Exact(destination) => {
                destination.kind == Kind::Topic && destination.path == *path
            }
            Target::Pattern(..) => false,
        };
        let reached = |target: &Target| match target {
            Target::Exact(_) => false,
            Target::Pattern(kind, pattern) => *kind == Kind::Topic && reaches(pattern, path),
        };
        let first = |fits: &dyn Fn(&Target) -> bool| {
            targets.iter().position(|listening| fits(&listening.target))
        };
        first(&named).or_else(|| first(&reached)) == Some(usize::from(target))
    }

    /// Compiled bytes of its subscriptions' regular expressions.
    fn regex_bytes(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| rare.regex_bytes as usize)
    }
}

impl SessionSide<'_> {
    /// Whether the regular expressions of a new subscription may be held.
    pub(crate) fn may_hold_regexes(
        &self,
        record: &Session,
        subscribe: &Subscribe,
    ) -> Result<(), Close> {
        let more = regex_bytes(&subscribe.targets);
        if more == 0 {
            return Ok(());
        }
        if record.regex_bytes() + more > REGEX_BYTES_PER_SESSION_MAX {
            let reason = format!(
                "the regular expressions of this session's subscriptions would take more than \
                 {REGEX_BYTES_PER_SESSION_MAX} bytes; use `*` and `**`, or end some first"
            );
            return Err(Close::new(CloseCode::TooManySubscriptions, reason));
        }
        let new = |target: &&Target| match target {
            Target::Exact(_) => false,
            Target::Pattern(_, pattern) => self.known_pattern(pattern).is_none(),
        };
        let new = subscribe.targets.iter().filter(new).map(regex_bytes_of).sum::<usize>();
        if self.fanout.patterns().regex_bytes() + new > REGEX_BYTES_PER_SHARD_MAX {
            let reason = format!(
                "the regular expressions of all subscriptions here take {REGEX_BYTES_PER_SHARD_MAX} \
                 bytes already; use `*` and `**`"
            );
            return Err(Close::new(CloseCode::TooManySubscriptions, reason));
        }
        Ok(())
    }

    /// Lets a new subscription share the patterns that others here hold already.
    pub(crate) fn share_patterns(&self, subscribe: &mut Subscribe) {
        for target in &mut subscribe.targets {
            if let Target::Pattern(Kind::Topic, pattern) = target
                && let Some(known) = self.known_pattern(pattern)
            {
                *pattern = known.clone();
            }
        }
    }

    /// The same pattern as others here hold it.
    fn known_pattern(&self, pattern: &Pattern) -> Option<&Pattern> {
        self.fanout.patterns().known(pattern)
    }

    /// Counts the regular expressions of a subscription that begins.
    pub(crate) fn hold_regexes(&mut self, session: Key, targets: &[Target]) {
        let bytes = regex_bytes(targets);
        if bytes > 0
            && let Some(record) = self.sessions.get_mut(session)
        {
            record.rare.get_or_insert_default().regex_bytes += bytes as u32;
        }
    }

    /// The same of one that has ended.
    pub(crate) fn release_regexes(&mut self, session: Key, ended: &Subscription) {
        let targets = ended.targets.as_slice().iter();
        let bytes: usize = targets.map(|listening| regex_bytes_of(&listening.target)).sum();
        let record = self.sessions.get_mut(session).filter(|_| bytes > 0);
        let Some(record) = record else { return };
        if let Some(rare) = &mut record.rare {
            rare.regex_bytes = rare.regex_bytes.saturating_sub(bytes as u32);
            if rare.is_empty() {
                record.rare = None;
            }
        }
    }
}

fn regex_bytes(targets: &[Target]) -> usize {
    targets.iter().map(regex_bytes_of).sum()
}

fn regex_bytes_of(target: &Target) -> usize {
    match target {
        Target::Exact(_) => 0,
        Target::Pattern(_, pattern) => pattern.regex_bytes(),
    }
}
