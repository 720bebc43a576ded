//! What topics cost in memory beside their names and values, counted by the allocator.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;

use tiderace_base::{Now, SessionId, ShardId};
use tiderace_broker::{Broker, BrokerOptions, Effects};
use tiderace_heap::{own_bytes, own_calls};
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Commands, Credentials, Destination, Flags, Kind, Meta, Subscribe, SubscriptionKey,
    Target,
};

/// More than half of what the table of names holds before it grows, and less than all.
const TOPICS: usize = 80_000;
const VALUE_BYTES: usize = 200;

struct Shard {
    broker: Broker,
    session: SessionId,
    effects: Effects,
}

impl Shard {
    fn new() -> Shard {
        let mut broker = Broker::new(ShardId(0), Arc::new(BrokerOptions::default()));
        let session = broker.open(Now::default(), 0);
        let mut shard = Shard { broker, session, effects: Effects::default() };
        shard.run(Command::Login(Credentials::default()));
        shard
    }

    fn run(&mut self, command: Command) {
        let mut commands = Commands::new();
        commands.push(command);
        self.handle(&mut commands);
    }

    fn handle(&mut self, commands: &mut Commands) {
        self.broker.handle(Now::default(), self.session, commands, &mut self.effects);
        assert!(self.effects.messages.is_empty() && self.effects.close.is_empty());
        self.effects.replies.clear();
        self.effects.ready.clear();
    }

    fn publish(&mut self, path: &str, flags: Flags) {
        let mut commands = Commands::new();
        commands.begin_turn(Now::default().time);
        commands.message(&destination(path));
        commands.publish(&[b'x'; VALUE_BYTES], Meta { flags, expires_ms: None }, None);
        self.handle(&mut commands);
    }
}

fn destination(path: &str) -> Destination {
    Destination { kind: Kind::Topic, path: Path::parse(path).unwrap() }
}

fn name(number: usize) -> String {
    format!("load/{:03}/{number:07}", number % 997)
}

/// Bytes of each topic beside the text of its name and its value.
fn measure(what: &str, value_bytes: usize, act: impl Fn(&mut Shard, &str, usize)) -> usize {
    let mut shard = Shard::new();
    act(&mut shard, "warm", TOPICS);
    let before = own_bytes();
    for number in 0..TOPICS {
        act(&mut shard, &name(number), number);
    }
    let all = usize::try_from(own_bytes() - before).unwrap();
    assert_eq!(shard.broker.metrics().topics, TOPICS as u64 + 1);
    let each = all / TOPICS - name(0).len() - value_bytes;
    println!("{what}: {each} bytes of heap beside its name and value");
    each
}

#[test]
fn a_topic_takes_little() {
    let retained = measure("a topic with a value", VALUE_BYTES, |shard, name, _| {
        shard.publish(name, Flags::RETAIN);
        shard.publish(name, Flags::RETAIN);
    });
    let subscribed = measure("a topic with one subscriber", 0, |shard, name, number| {
        let target = Target::Exact(destination(name));
        let key = SubscriptionKey(number as u32);
        shard.run(Command::Subscribe(Box::new(Subscribe::new(key, vec![target]))));
    });
    let bounded = measure("a topic with one subscriber with credit", 0, |shard, name, number| {
        let target = Target::Exact(destination(name));
        let key = SubscriptionKey(number as u32);
        let subscribe = Subscribe { credit: Some(8), ..Subscribe::new(key, vec![target]) };
        shard.run(Command::Subscribe(Box::new(subscribe)));
    });
    let brief = measure("a topic that retains nothing", 0, |shard, name, _| {
        shard.publish(name, Flags::NONE);
    });
    assert!((200..=RETAINED_BYTES_MAX).contains(&retained), "{retained}");
    assert!((150..=SUBSCRIBED_BYTES_MAX).contains(&subscribed), "{subscribed}");
    assert!((subscribed..=subscribed + CREDIT_BYTES_MAX).contains(&bounded), "{bounded}");
    assert!((100..=BRIEF_BYTES_MAX).contains(&brief), "{brief}");
}

const RETAINED_BYTES_MAX: usize = 280;
/// With the subscription's entry in its session.
const SUBSCRIBED_BYTES_MAX: usize = 238;
/// What credit takes more.
const CREDIT_BYTES_MAX: usize = 24;
const BRIEF_BYTES_MAX: usize = 170;

#[test]
fn a_message_for_subscribers_with_credit_asks_for_no_memory_for_each() {
    const SUBSCRIBERS: u32 = 2_000;
    let mut shard = Shard::new();
    for number in 0..SUBSCRIBERS {
        let target = Target::Exact(destination("a"));
        let subscribe = Subscribe::new(SubscriptionKey(number), vec![target]);
        let subscribe = Subscribe { credit: Some(1_000), ..subscribe };
        shard.run(Command::Subscribe(Box::new(subscribe)));
    }
    let mut calls = 0;
    for _ in 0..4 {
        calls = own_calls(|| shard.publish("a", Flags::NONE));
        while shard.broker.next(Now::default(), shard.session, &mut shard.effects).is_some() {}
    }
    assert!(calls < 100, "{calls} calls for {SUBSCRIBERS} subscribers");
}

#[test]
fn a_subscription_with_a_high_number_takes_no_more_than_others() {
    let mut shard = Shard::new();
    let mut bytes = |key: u32| {
        let before = own_bytes();
        let targets = vec![Target::Exact(destination(&name(key as usize)))];
        shard.run(Command::Subscribe(Box::new(Subscribe::new(SubscriptionKey(key), targets))));
        own_bytes() - before
    };
    bytes(0);
    let (low, high) = (bytes(1), bytes(90_000));
    assert!(high <= low + 1_000, "{high} bytes, and {low} with a low number");
    assert_eq!(shard.broker.metrics().subscriptions, 3);
}
