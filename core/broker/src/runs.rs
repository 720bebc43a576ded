//! What a topic's home does with runs and values: which of them count, and copies of single messages.
//!
//! Functions without state. Invariant: what is kept of a run holds no more of it in memory than it needs.

use std::sync::Arc;

use tiderace_base::Now;
use tiderace_wire::{Flags, Message, Meta, Run, TopicSpec};

/// The topic's retained value after the run's retain marks.
pub(crate) fn retain(retained: Option<Arc<Run>>, run: &Arc<Run>, always: bool) -> Option<Arc<Run>> {
    let decisive = run.messages().filter(|message| {
        always
            || message.flags.contains(Flags::RETAIN)
            || message.flags.contains(Flags::RETAIN_REMOVE)
    });
    let Some(message) = decisive.last() else { return retained };
    if message.flags.contains(Flags::RETAIN_REMOVE) {
        return None;
    }
    // A run of one message keeps no more in memory than it needs: its builder sees to that.
    Some(if run.len() == 1 { run.clone() } else { copy_of(run, &message) })
}

/// A copy of one message of a run, of just the size, so that it does not keep a whole run or read in
/// memory.
pub(crate) fn copy_of(run: &Run, message: &Message<'_>) -> Arc<Run> {
    let meta = Meta { flags: message.flags, expires_ms: message.expires_ms };
    let destination = run.destination().clone();
    let mut copy =
        Run::single(destination, run.published(), message.properties, message.body, meta);
    copy.number_as(run, (message.sequence - run.first()) as usize);
    Arc::new(copy)
}

/// The number of a run's last message.
pub(crate) fn last_of(run: &Run) -> u64 {
    (run.first() + run.len() as u64).saturating_sub(1)
}

/// A retained value, unless its time is over.
pub(crate) fn fresh(retained: Option<&Arc<Run>>, now: Now) -> Option<Arc<Run>> {
    retained
        .filter(|run| run.message(0).is_some_and(|message| !message.is_expired(now.wall_ms)))
        .cloned()
}

/// Whether a run has anything else than removals.
pub(crate) fn holds_messages(run: &Run) -> bool {
    let is_removal = |flags: Flags| flags.contains(Flags::RETAIN_REMOVE);
    !run.any(Flags::RETAIN_REMOVE) || run.messages().any(|message| !is_removal(message.flags))
}

/// Whether a topic of that specification keeps messages.
pub(crate) fn keeps(spec: &TopicSpec) -> bool {
    spec.series || !spec.history.is_none()
}
