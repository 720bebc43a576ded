//! What the store has is given back to a broker before it does anything else.
//!
//! Relies on the broker to take only what its shard is the home of. Invariant: what cannot be given back stays in the store
//! as it is, and the log says so.

use std::sync::Arc;

use tiderace_base::Now;
use tiderace_broker::{
    Broker, RestoredMessages, RestoredQueue, RestoredRange, RestoredTopic, Unrestorable,
};
use tiderace_store::{Recovered, RecoveredStream, StoredRange, StreamKind};
use tracing::{error, warn};

use crate::persistence::Bodies;

/// Gives a broker back what it is the home of, and all views.
pub(crate) fn restore_all(now: Now, broker: &mut Broker, recovered: &Recovered, bodies: &Bodies) {
    let mut elsewhere = Elsewhere::default();
    for stream in &recovered.streams {
        match restore(now, broker, stream, bodies) {
            Ok(()) => {}
            Err(Unrestorable::Elsewhere { path, upstream }) => {
                elsewhere.count += 1;
                elsewhere.first.get_or_insert((path.to_string(), upstream));
            }
            Err(problem) if stream.kind == StreamKind::Queue => {
                error!(event = "queue-not-restored", path = &*stream.path, %problem, "messages of a queue stay in the store, unread");
            }
            Err(problem) => {
                error!(event = "topic-not-restored", path = &*stream.path, %problem, "a topic stays in the store, unread");
            }
        }
    }
    elsewhere.say();
    for problem in broker.restore_views(values(recovered)) {
        error!(event = "view-not-restored", %problem, "a view that was put is not there");
    }
}

/// Topics and queues of the store that live at upstreams by now.
#[derive(Debug, Default)]
struct Elsewhere {
    count: u64,
    /// One of them, and its upstream.
    first: Option<(String, Arc<str>)>,
}

impl Elsewhere {
    /// One line for all of them: there may be as many as the store has.
    fn say(&self) {
        let Some((path, upstream)) = &self.first else { return };
        let count = self.count;
        warn!(
            event = "stored-elsewhere",
            count,
            path,
            upstream = &**upstream,
            "topics and queues of the store live at an upstream by the configuration; what is stored of them here stays there, \
             unread: take their names out of the upstream's `topics` or `queues` to have them again"
        );
    }
}

/// The named values of the store.
pub(crate) fn values(recovered: &Recovered) -> impl Iterator<Item = (&str, &[u8])> {
    recovered.values.iter().map(|(name, value)| (&**name, &value[..]))
}

/// Gives a broker a topic or a queue back, if it is the home.
fn restore(
    now: Now,
    broker: &mut Broker,
    stream: &RecoveredStream,
    bodies: &Bodies,
) -> Result<(), Unrestorable> {
    if stream.kind == StreamKind::Queue {
        return restore_queue(now, broker, stream);
    }
    let messages: Vec<RestoredMessages<'_>> = stream
        .messages
        .iter()
        .map(|messages| RestoredMessages {
            first: messages.sequence,
            gone: gone(messages.sequence, &messages.gone),
            bytes: &messages.bytes,
            body: bodies.get(&(stream.stream, messages.sequence)),
        })
        .collect();
    let topic = RestoredTopic {
        stream: stream.stream.0,
        path: &stream.path,
        description: &stream.spec,
        version: stream.mark.version,
        messages: &messages,
    };
    broker.restore(now, &topic)
}

/// Gives a broker a queue back. Its messages stay in the store until somebody wants them.
fn restore_queue(
    now: Now,
    broker: &mut Broker,
    stream: &RecoveredStream,
) -> Result<(), Unrestorable> {
    let range = |range: &StoredRange| RestoredRange {
        first: range.first,
        last: range.last,
        bytes: range.bytes,
    };
    let stored: Vec<RestoredRange> = stream.stored.iter().map(range).collect();
    let queue = RestoredQueue {
        stream: stream.stream.0,
        path: &stream.path,
        description: &stream.spec,
        version: stream.mark.sequence,
        stored: &stored,
    };
    broker.restore_queue(now, &queue)
}

/// How many of the first messages are gone.
fn gone(first: u64, ranges: &[(u64, u64)]) -> u32 {
    let front = ranges.first().filter(|(from, _)| *from == first);
    front.map_or(0, |(from, to)| u32::try_from(to - from + 1).unwrap_or(u32::MAX))
}
