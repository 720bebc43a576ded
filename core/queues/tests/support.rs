//! Queues with small limits, messages of two colours, and consumers of them.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Memory, Now, SessionId, ShardId, Span, Time};
use tiderace_filter::Selector;
use tiderace_queues::{Consume, Effect, Policy, QueueOptions, Queues};
use tiderace_topics::Path;
use tiderace_wire::{
    Destination, Kind, Meta, Prefetch, QueueStart, Run, RunBuilder, SubscriptionKey, Target,
};

pub const REDELIVERIES_MAX: u32 = 3;

pub fn options(_: &Path) -> QueueOptions {
    QueueOptions {
        bytes_max: 2_000,
        disk_bytes_max: 1 << 30,
        window: Prefetch { messages: 5, bytes: 0 },
        redeliveries_max: REDELIVERIES_MAX,
        dead_letter: "dlq/{queue}".into(),
        idle: Span::from_secs(30),
        policy: Policy::default(),
        owner: None,
    }
}

/// The same with a delay between redeliveries of 100 ms, 200 ms and 300 ms.
pub fn delaying(path: &Path) -> QueueOptions {
    let policy = Policy {
        redelivery_delay: Span::from_millis(100),
        redelivery_delay_factor: 2,
        redelivery_delay_max: Span::from_millis(300),
        ..Policy::default()
    };
    QueueOptions { policy, ..options(path) }
}

/// The first time, so many milliseconds after 1970 by the clock of the wall.
pub fn at_ms(wall_ms: u64) -> Now {
    Now { time: Time::ZERO + Span::from_millis(wall_ms), wall_ms }
}

/// Queues within a memory budget of so many bytes.
pub fn queues_within(bytes: usize) -> Queues {
    Queues::new(Rc::new(Memory::new(bytes)))
}

pub fn new_queues() -> Queues {
    queues_within(1 << 20)
}

pub fn destination() -> Destination {
    Destination { kind: Kind::Queue, path: Path::parse("jobs").unwrap() }
}

pub fn session(number: impl Into<u32>) -> SessionId {
    SessionId { shard: ShardId(0), slot: number.into(), generation: 0 }
}

/// Every third message is red, by its number, and the others are blue.
pub fn run(first: u64, count: u8) -> Run {
    let mut builder = RunBuilder::new(destination(), Time::ZERO);
    for offset in 0..count {
        let colour = if (first + u64::from(offset)).is_multiple_of(3) { "red" } else { "blue" };
        builder.properties().extend_from_slice(format!("colour:{colour}\n").as_bytes());
        builder.finish(b"body", Meta::default());
    }
    let mut run = builder.build();
    run.number(ShardId(0), first);
    run
}

/// Gives messages to their queue.
pub fn publish(
    queues: &mut Queues,
    now: Now,
    mut run: Run,
    options: impl FnOnce(&Path) -> QueueOptions,
    effects: &mut Vec<Effect>,
) {
    let key = queues.admit(now, &mut run, options);
    queues.publish(now, key, Arc::new(run), effects);
}

/// A consumer that settles what it gets, with a window of so many messages.
pub fn consumer(number: impl Into<u32>, messages: u32) -> Consume {
    Consume {
        session: session(number),
        key: SubscriptionKey(0),
        target: Target::Exact(destination()),
        selector: None,
        window: Prefetch { messages, bytes: 0 },
        exclusive: false,
        browsing: None,
        start: QueueStart::Version(0),
        explicit: true,
        credit: None,
        owner: None,
    }
}

/// A consumer of what the selector chooses, with a window of ten messages.
pub fn selective(number: impl Into<u32>, selector: &str) -> Consume {
    Consume { selector: Some(Selector::parse(selector).unwrap()), ..consumer(number, 10) }
}

/// Lets a consumer begin that has room for one message.
pub fn consume(queues: &mut Queues, number: u8, effects: &mut Vec<Effect>) {
    queues.consume(Now::default(), &consumer(number, 1), options, effects);
}

/// The sessions that were given something, in that order.
pub fn receivers(effects: Vec<Effect>) -> Vec<u32> {
    let receiver = |effect| match effect {
        Effect::Deliver { session, .. } => Some(session.slot),
        _ => None,
    };
    effects.into_iter().filter_map(receiver).collect()
}
