//! Queues that come back when a shard starts: their messages are asked of the store a part at a time.
//!
//! Relies on the store's threads, which run by then: the shard waits for each part, since it serves nobody yet. Invariant:
//! what cannot be read or understood is said in the log and stays in the store.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, anyhow};
use tiderace_base::{Now, ShardId};
use tiderace_broker::{Broker, RestoredQueue, RestoredRecord, RestoringQueue};
use tiderace_store::{LoadRequest, Loaded, Recovered, RecoveredStream, StreamKind, Submitter};
use tracing::error;

/// Bytes that one part may have, but for a single record that is larger.
const PART_BYTES: usize = 4 << 20;
/// How long the store may take for a part: longer than any disk that works.
const PART_TIMEOUT: Duration = Duration::from_secs(120);

/// Shards that wait for parts.
#[derive(Debug, Default)]
pub(crate) struct Loads(Mutex<HashMap<u16, Sender<Loaded>>>);

impl Loads {
    /// What a shard has asked for is here. Runs on the store's thread.
    pub(crate) fn answer(&self, loaded: Loaded) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shard) = waiting.get(&loaded.shard) {
            // It has ended if it does not wait any more.
            let _ = shard.send(loaded);
        }
    }

    fn begin(&self, shard: ShardId) -> Receiver<Loaded> {
        let (sender, receiver) = channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(shard.0, sender);
        receiver
    }

    fn end(&self, shard: ShardId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&shard.0);
    }

    /// Gives a broker the queues back whose home it is.
    pub(crate) fn restore_queues(
        &self,
        (shard, now): (ShardId, Now),
        broker: &mut Broker,
        submitter: &Submitter,
        recovered: &Recovered,
    ) {
        let answers = self.begin(shard);
        for stream in recovered.streams.iter().filter(|it| it.kind == StreamKind::Queue) {
            if let Err(problem) = restore(now, broker, submitter, &answers, stream) {
                let problem = format!("{problem:#}");
                error!(
                    event = "queue-not-restored",
                    path = &*stream.path,
                    problem,
                    "messages of a queue stay in the store, unread"
                );
            }
        }
        self.end(shard);
    }
}

fn restore(
    now: Now,
    broker: &mut Broker,
    submitter: &Submitter,
    answers: &Receiver<Loaded>,
    stream: &RecoveredStream,
) -> anyhow::Result<()> {
    let queue = RestoredQueue {
        stream: stream.stream.0,
        path: &stream.path,
        description: &stream.spec,
        version: stream.mark.sequence,
    };
    let Some(queue) = broker.restore_queue(now, &queue)? else { return Ok(()) };
    let mut next = Some(0);
    while let Some(first) = next {
        let request = LoadRequest {
            ticket: first,
            stream: stream.stream,
            first,
            last: u64::MAX,
            bytes_max: PART_BYTES,
        };
        submitter
            .load(request)
            .map_err(|reason| anyhow!("the store takes no request: {reason:?}"))?;
        let loaded = answers.recv_timeout(PART_TIMEOUT).context("the store does not answer")?;
        next = loaded.next.filter(|next| *next > first);
        give(now, broker, &queue, &loaded, &stream.path)?;
    }
    Ok(())
}

fn give(
    now: Now,
    broker: &mut Broker,
    queue: &RestoringQueue,
    loaded: &Loaded,
    path: &str,
) -> anyhow::Result<()> {
    for damaged in &loaded.damaged {
        let (version, count, damage) = (damaged.sequence, damaged.count, &damaged.damage);
        error!(event = "queue-messages-damaged", path, version, count, %damage, "messages of a queue cannot be read; they stay in the store");
    }
    for messages in &loaded.messages {
        let record = RestoredRecord {
            first: messages.sequence,
            gone: &messages.gone,
            bytes: &messages.bytes,
        };
        broker.restore_messages(now, queue, &record)?;
    }
    Ok(())
}
