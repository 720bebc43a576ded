//! What all queues together have in flight, and how old the oldest ready message is.

use std::sync::Arc;

use tiderace_base::{ShardId, Span, Time};
use tiderace_queues::{Queues, Settlement};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, Meta, RunBuilder, SubscriptionKey};

use crate::support::{at_ms, consume, new_queues, options, session};

fn send(queues: &mut Queues, name: &str, published_ms: u64) {
    let path = Path::parse(name).unwrap();
    let published = Time::ZERO + Span::from_millis(published_ms);
    let mut builder = RunBuilder::new(Destination { kind: Kind::Queue, path }, published);
    builder.finish(b"body", Meta::default());
    let mut run = builder.build();
    run.number(ShardId(0), 1);
    let now = at_ms(published_ms);
    let key = queues.admit(now, &mut run, options);
    queues.publish(now, key, Arc::new(run), &mut Vec::new());
}

#[test]
fn it_follows_what_becomes_of_messages() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    queues.tick(at_ms(0), &mut effects);
    assert_eq!(queues.surveyed(), (0, Span::ZERO));
    send(&mut queues, "jobs", 1_000);
    queues.tick(at_ms(4_000), &mut effects);
    assert_eq!(queues.surveyed(), (0, Span::from_secs(3)));
    consume(&mut queues, 1, &mut effects);
    queues.tick(at_ms(5_000), &mut effects);
    let (in_flight, oldest) = queues.surveyed();
    assert_eq!((in_flight, oldest), (1, Span::ZERO), "{effects:?}");
    let key = SubscriptionKey(0);
    queues.settle(at_ms(5_000), session(1u8), key, &[(1, 1)], Settlement::Accept, &mut effects);
    queues.tick(at_ms(6_000), &mut effects);
    assert_eq!(queues.surveyed(), (0, Span::ZERO));
}

#[test]
fn many_queues_are_looked_at_some_at_a_time() {
    let (mut queues, mut effects) = (new_queues(), Vec::new());
    for number in 0..1_000 {
        // The oldest is among the last.
        send(&mut queues, &format!("many/{number}"), 10_000 - number * 10);
    }
    queues.tick(at_ms(10_000), &mut effects);
    assert_eq!(queues.surveyed().1, Span::ZERO, "no round is over");
    for _ in 0..4 {
        queues.tick(at_ms(10_000), &mut effects);
    }
    assert_eq!(queues.surveyed().1, Span::from_millis(9_990));
}
