//! What a topic's home does with runs and values: which of them count, and copies of single messages.
//!
//! Functions without state. Invariant: what is kept of a run holds no more of it in memory than it needs.

use std::sync::Arc;

use tiderace_base::Now;
use tiderace_queues::Segment;
use tiderace_wire::{Flags, Message, Meta, Run, TopicSpec};

/// The message of a run that decides what the topic's value is.
pub(crate) fn decisive(run: &Run, always: bool) -> Option<Message<'_>> {
    let decides = |message: &Message<'_>| {
        always
            || message.flags.contains(Flags::RETAIN)
            || message.flags.contains(Flags::RETAIN_REMOVE)
    };
    run.messages().filter(decides).last()
}

/// The topic's retained value after the run's retain marks.
pub(crate) fn retain(retained: Option<Arc<Run>>, run: &Arc<Run>, always: bool) -> Option<Arc<Run>> {
    let Some(message) = decisive(run, always) else { return retained };
    if message.flags.contains(Flags::RETAIN_REMOVE) {
        return None;
    }
    // A run of one message keeps no more in memory than it needs: its builder sees to that.
    Some(if run.len() == 1 { run.clone() } else { copy_of(run, &message) })
}

/// What is kept of a run's message that takes the value away: that it does, and its numbers.
pub(crate) fn value_end(run: &Run) -> Option<Run> {
    let ends = |message: Message<'_>| message.flags.contains(Flags::RETAIN_REMOVE);
    let index = (0..run.len()).rev().find(|index| run.message(*index).is_some_and(ends))?;
    let meta = Meta { flags: Flags::RETAIN_REMOVE, expires_ms: None };
    let mut end = Run::single(run.destination().clone(), run.published(), &[], &[], meta);
    end.number_as(run, index);
    Some(end)
}

/// A copy of one message of a run, of just the size, so that it does not keep a whole run or read in
/// memory.
pub(crate) fn copy_of(run: &Run, message: &Message<'_>) -> Arc<Run> {
    Arc::new(run.copy_of(message))
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

/// The messages of a run, and the bytes that they count for in a queue.
pub(crate) fn size_of_run(run: &Run) -> (usize, usize) {
    (run.len(), Segment::bytes_of_run(run))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use tiderace_base::Time;
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, Kind, Meta, RunBuilder};

    use super::*;

    proptest! {
        /// Room for a value is asked for before the value is made.
        #[test]
        fn a_value_takes_what_is_said_before_it_is_made(
            rows in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..50), any::<Option<u64>>(), 0u8..3), 1..9),
            always: bool,
        ) {
            let path = Path::parse("a").unwrap();
            let mut builder = RunBuilder::new(Destination { kind: Kind::Topic, path }, Time::ZERO);
            for (body, expires_ms, mark) in rows {
                let marks = [Flags::NONE, Flags::RETAIN, Flags::RETAIN_REMOVE];
                let flags = marks.into_iter().nth(usize::from(mark)).unwrap();
                builder.properties().extend_from_slice(b"k:v\n");
                builder.finish(&body, Meta { flags, expires_ms });
            }
            let run = Arc::new(builder.build());
            let said = decisive(&run, always)
                .filter(|message| !message.flags.contains(Flags::RETAIN_REMOVE))
                .map(|message| Run::bytes_alone(&message));
            let made = retain(None, &run, always).map(|value| value.bytes());
            prop_assert_eq!(said, made);
            prop_assert!(said.is_none_or(|said| said <= run.bytes()));
        }
    }
}
