//! Queues that come back when a shard starts: their messages are asked of the store a part at a time.
//!
//! Relies on the store's threads, which run by then: the shard waits for each part, since it serves nobody yet. Invariant:
//! what cannot be read or understood is said in the log and stays in the store.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use tiderace_base::{Now, ShardId};
use tiderace_broker::{Broker, RestoredQueue, RestoredRecord, RestoringQueue};
use tiderace_store::{
    LoadRequest, Loaded, Recovered, RecoveredStream, RefusedReason, StreamId, StreamKind, Submitter,
};
use tracing::error;

/// Bytes that one part may have, but for a single record that is larger.
const PART_BYTES: usize = 4 << 20;
/// How long the store may take for a part: longer than any disk that works.
const PART_TIMEOUT: Duration = Duration::from_secs(120);
/// How long what cannot be read only now is left alone before it is asked for again.
const PAUSE: Duration = Duration::from_millis(100);

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
        let submit = |request| submitter.load(request);
        let answers = self.begin(shard);
        let (timeout, pause) = (PART_TIMEOUT, PAUSE);
        let mut asking = Asking { submit: &submit, answers, ticket: 0, timeout, pause };
        for stream in recovered.streams.iter().filter(|it| it.kind == StreamKind::Queue) {
            if let Err(problem) = restore(now, broker, &mut asking, stream) {
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

/// A shard that asks for one part after the other.
struct Asking<'a> {
    submit: &'a dyn Fn(LoadRequest) -> Result<(), RefusedReason>,
    answers: Receiver<Loaded>,
    /// Of the last request: no two have the same.
    ticket: u64,
    timeout: Duration,
    pause: Duration,
}

impl Asking<'_> {
    /// Asks for a part until the store can read some of it: only now there may be too many open files, or no memory.
    fn load(&mut self, stream: StreamId, first: u64) -> anyhow::Result<Loaded> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let loaded = self.ask(stream, first, deadline)?;
            let is_empty = loaded.messages.is_empty() && loaded.damaged.is_empty();
            let Some(reason) = loaded.delayed.filter(|_| is_empty) else { return Ok(loaded) };
            if Instant::now() + self.pause >= deadline {
                return Err(anyhow!("the store cannot read it now: {reason}"));
            }
            thread::sleep(self.pause);
        }
    }

    /// Asks for a part and waits for it. What answers an earlier request, which nobody waits for any more, is not taken
    /// for it.
    fn ask(&mut self, stream: StreamId, first: u64, deadline: Instant) -> anyhow::Result<Loaded> {
        self.ticket += 1;
        let ticket = self.ticket;
        let request = LoadRequest { ticket, stream, first, last: u64::MAX, bytes_max: PART_BYTES };
        (self.submit)(request)
            .map_err(|reason| anyhow!("the store takes no request: {reason:?}"))?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let loaded = self.answers.recv_timeout(left).context("the store does not answer")?;
            if (loaded.ticket, loaded.stream) == (ticket, stream) {
                return Ok(loaded);
            }
        }
    }
}

fn restore(
    now: Now,
    broker: &mut Broker,
    asking: &mut Asking<'_>,
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
        let loaded =
            asking.load(stream.stream, first).inspect_err(|_| broker.note_unread(&queue))?;
        next = loaded.next.filter(|next| *next > first);
        give(now, broker, &queue, &loaded, &stream.path);
    }
    Ok(())
}

/// What cannot be read or understood is left out, and said: what is behind it comes back all the same.
fn give(now: Now, broker: &mut Broker, queue: &RestoringQueue, loaded: &Loaded, path: &str) {
    for damaged in &loaded.damaged {
        let (version, count, damage) = (damaged.sequence, damaged.count, &damaged.damage);
        error!(
            event = "queue-messages-damaged",
            path,
            version,
            count,
            %damage,
            "messages of a queue cannot be read; they stay in the store"
        );
        broker.note_unread(queue);
    }
    for messages in &loaded.messages {
        let record = RestoredRecord {
            first: messages.sequence,
            gone: &messages.gone,
            bytes: &messages.bytes,
        };
        if let Err(problem) = broker.restore_messages(now, queue, &record) {
            let version = messages.sequence;
            error!(
                event = "queue-messages-not-understood",
                path,
                version,
                %problem,
                "messages of a queue are left out; they stay in the store"
            );
            broker.note_unread(queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tiderace_base::Span;
    use tiderace_broker::{BrokerOptions, Effects, NumbersGiven};
    use tiderace_store::RecoveredMessages;

    use super::*;

    fn answer(request: &LoadRequest) -> Loaded {
        let LoadRequest { ticket, stream, .. } = *request;
        let (messages, damaged) = (vec![], vec![]);
        Loaded { shard: 0, ticket, stream, messages, damaged, next: None, delayed: None }
    }

    #[test]
    fn a_late_answer_is_not_taken_for_that_of_another_request() {
        let (sender, answers) = channel();
        // The first request is answered when the second is made, and each has an answer of its own.
        let asked = std::cell::RefCell::new(Vec::<LoadRequest>::new());
        let submit = |request: LoadRequest| {
            asked.borrow_mut().push(request);
            if asked.borrow().len() > 1 {
                asked.borrow().iter().for_each(|it| sender.send(answer(it)).unwrap());
            }
            Ok(())
        };
        let (timeout, pause) = (Duration::ZERO, Duration::ZERO);
        let mut asking = Asking { submit: &submit, answers, ticket: 0, timeout, pause };
        assert!(asking.load(StreamId(1), 0).is_err(), "nobody has answered");
        asking.timeout = PART_TIMEOUT;
        assert_eq!(asking.load(StreamId(2), 0).unwrap().stream, StreamId(2));
        let again = asking.load(StreamId(2), 0).unwrap();
        assert_eq!(again.ticket, 3, "though the stream is the same");
    }

    #[test]
    fn what_cannot_be_read_only_now_is_asked_for_again_and_not_for_ever() {
        let (sender, answers) = channel();
        let asked = std::cell::Cell::new(0);
        let delayed_until = std::cell::Cell::new(5);
        let submit = |request: LoadRequest| {
            asked.set(asked.get() + 1);
            let mut answer = answer(&request);
            if asked.get() < delayed_until.get() {
                (answer.next, answer.delayed) = (Some(7), Some(std::io::ErrorKind::OutOfMemory));
            }
            sender.send(answer).unwrap();
            Ok(())
        };
        let (timeout, pause) = (PART_TIMEOUT, Duration::ZERO);
        let mut asking = Asking { submit: &submit, answers, ticket: 0, timeout, pause };
        let loaded = asking.load(StreamId(1), 0).unwrap();
        assert_eq!((loaded.delayed, loaded.ticket, asked.get()), (None, 5, 5));
        delayed_until.set(u64::MAX);
        asking.pause = PART_TIMEOUT;
        let error = asking.load(StreamId(1), 0).unwrap_err().to_string();
        assert!(error.contains("cannot read it now: out of memory"), "{error}");
    }

    #[test]
    fn a_queue_of_which_something_is_not_understood_stays() {
        for (bytes, stays) in [(Some(vec![255]), 1), (None, 0)] {
            let mut broker = Broker::new(ShardId(0), Arc::new(BrokerOptions::default()));
            let now = Now::default();
            broker.begin_durability(2, &NumbersGiven::default());
            let queue = RestoredQueue { stream: 1, path: "jobs", description: &[1], version: 9 };
            let queue = broker.restore_queue(now, &queue).unwrap().unwrap();
            let messages = bytes.map(|bytes: Vec<u8>| RecoveredMessages {
                sequence: 9,
                count: 1,
                version: 9,
                bytes: bytes.into(),
                gone: vec![],
            });
            let loaded = Loaded {
                shard: 0,
                ticket: 1,
                stream: StreamId(1),
                messages: messages.into_iter().collect(),
                damaged: vec![],
                next: None,
                delayed: None,
            };
            give(now, &mut broker, &queue, &loaded, "jobs");
            broker.end_restoring();
            let later = Now { time: now.time + Span::from_secs(3600), wall_ms: 3_600_000 };
            broker.tick(later, &mut Effects::default());
            assert_eq!(broker.metrics().queues, stays);
        }
    }
}
