//! What must hold for any bytes that a store gives back: they are understood or refused, and what was
//! understood is what is said to the store again.

use std::sync::Arc;

use tiderace_base::{Now, SessionId, ShardId, Span};
use tiderace_broker::{
    Broker, BrokerOptions, Effects, NumbersGiven, RestoredMessages, RestoredTopic, StoreRecord,
};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Command, Commands, Credentials, Destination, Fetch, Flags, HistoryQuery, Kind, Meta, Operation,
    OperationResult, Replay, Reply, Run,
};

const TOPIC: &str = "a/b";

/// Parts between two bytes of ones: a description, then messages; each of them also as a view.
pub(crate) fn restored(data: &[u8]) {
    let parts: Vec<&[u8]> = split(data);
    let description = parts.first().copied().unwrap_or_default();
    let first = u64::from(data.first().copied().unwrap_or(0)) + 1;
    let mut next = first;
    let mut messages = Vec::new();
    for bytes in parts.iter().skip(1) {
        messages.push((next, *bytes));
        next += 1000;
    }
    let mut life = Life::begin();
    let values = parts.iter().zip(["views/1", "views/18446744073709551615", "views/x", "other"]);
    let values = values.map(|(value, name)| (name, *value));
    assert!(life.broker.restore_views(values).len() <= 3);
    if !life.restore(description, &messages, next) {
        return;
    }
    life.broker.end_restoring();
    life.log_in();
    // The store refuses something, so that everything is said again.
    life.publish_removal();
    let Some(taken) = life.broker.take_records(&mut life.effects) else { return };
    life.broker.store_failed(life.now, taken.up_to, false, &mut life.effects);
    life.now.time = life.now.time + Span::from_secs(2);
    life.broker.tick(life.now, &mut life.effects);
    let Some(taken) = life.broker.take_records(&mut life.effects) else { return };
    let before = life.look();
    let mut again = Life::begin();
    let mut description = None;
    let (mut messages, mut version) = (Vec::new(), 0);
    for record in &taken.records {
        match record {
            StoreRecord::Declare { description: text, version: last, .. } => {
                (description, version) = (Some(&text[..]), *last);
            }
            StoreRecord::Put { first, count, bytes, .. } => {
                messages.push((*first, &bytes[..]));
                version = version.max(first + u64::from(*count) - 1);
            }
            _ => {}
        }
    }
    // None of a topic that is not to be kept by what the configuration says.
    let Some(description) = description else { return };
    assert!(again.restore(description, &messages, version + 1), "what was said is not understood");
    again.broker.end_restoring();
    again.log_in();
    assert_eq!(again.look(), before);
}

fn split(data: &[u8]) -> Vec<&[u8]> {
    let (mut parts, mut from) = (Vec::new(), 0);
    for at in 0..data.len().saturating_sub(1) {
        if data[at..].starts_with(&[0xff, 0xff]) && at >= from {
            parts.push(&data[from..at]);
            from = at + 2;
        }
    }
    parts.push(&data[from..]);
    parts
}

struct Life {
    broker: Broker,
    session: SessionId,
    effects: Effects,
    now: Now,
}

impl Life {
    fn begin() -> Life {
        let mut broker = Broker::new(ShardId(0), Arc::new(BrokerOptions::default()));
        let now = Now { wall_ms: 1_700_000_000_000, ..Now::default() };
        broker.begin_durability(1, &NumbersGiven::find([].into_iter()));
        let session = broker.open(now, 0);
        Life { broker, session, effects: Effects::default(), now }
    }

    fn restore(&mut self, description: &[u8], messages: &[(u64, &[u8])], next: u64) -> bool {
        // Of those that say that theirs lies in a file.
        let body = bytes::Bytes::from_static(b"12345678");
        let messages: Vec<RestoredMessages<'_>> = messages
            .iter()
            .map(|(first, bytes)| RestoredMessages {
                first: *first,
                gone: 0,
                bytes,
                body: Some(&body),
            })
            .collect();
        let topic = RestoredTopic {
            stream: 1,
            path: TOPIC,
            description,
            version: next - 1,
            messages: &messages,
        };
        self.broker.restore(self.now, &topic).is_ok()
    }

    fn run(&mut self, command: Command) {
        let mut commands = Commands::new();
        commands.push(command);
        self.broker.handle(self.now, self.session, &mut commands, &mut self.effects);
    }

    fn log_in(&mut self) {
        self.run(Command::Login(Credentials::default()));
    }

    fn publish_removal(&mut self) {
        let path = Path::parse(TOPIC).expect("a path");
        let meta = Meta { flags: Flags::RETAIN_REMOVE, expires_ms: None };
        let run =
            Run::single(Destination { kind: Kind::Topic, path }, self.now.time, b"", b"", meta);
        let mut commands = Commands::new();
        commands.push(Command::Publish { run, confirm: None, confirm_first: false });
        self.broker.handle(self.now, self.session, &mut commands, &mut self.effects);
    }

    /// Value and history, with their versions.
    fn look(&mut self) -> Vec<(u64, Vec<u8>)> {
        let path = Path::parse(TOPIC).expect("a path");
        let selector = vec![Pattern::parse(TOPIC).expect("a pattern")];
        let fetch = Fetch { selector, after: None, limit: 0, depth: 0, values: true, specs: true };
        let query =
            HistoryQuery { path, from: Replay::Version(0), to: None, limit: 10_000, amended: true };
        let mut seen = Vec::new();
        for operation in [Operation::Fetch(Box::new(fetch)), Operation::History(Box::new(query))] {
            self.effects.replies.clear();
            self.run(Command::Operate { token: 1, operation: Box::new(operation) });
            for (_, _, reply) in self.effects.replies.drain(..) {
                let Reply::Operated { result, .. } = reply else { continue };
                match *result {
                    OperationResult::Page(page) => {
                        let values = page.topics.iter().filter_map(|topic| topic.value.as_ref());
                        seen.extend(values.map(|run| (run.version(), body(run, 0))));
                    }
                    OperationResult::Events(events) => seen.extend(
                        events
                            .events
                            .iter()
                            .map(|event| (event.version, body(&event.run, event.place))),
                    ),
                    _ => {}
                }
            }
        }
        seen
    }
}

fn body(run: &Run, place: usize) -> Vec<u8> {
    run.message(place).map_or_else(Vec::new, |message| message.body.to_vec())
}
