//! How much is evaluated, and when.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tiderace_base::{Now, SessionId, ShardId, Time};
use tiderace_filter::Selector;
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Commands, Credentials, Destination, Kind, Meta, RunBuilder, Subscribe,
    SubscriptionKey, Target,
};

use crate::broker::Broker;
use crate::effects::Effects;
use crate::places::key_of;
use crate::{BrokerMetrics, BrokerOptions};

fn broker() -> Broker {
    Broker::new(ShardId(0), Arc::new(BrokerOptions::default()))
}

fn run(broker: &mut Broker, session: SessionId, command: Command) {
    let mut commands = Commands::new();
    commands.push(command);
    broker.handle(Now::default(), session, &mut commands, &mut Effects::default());
}

fn log_in(broker: &mut Broker) -> SessionId {
    let session = broker.open(Now::default(), 0);
    let login = Some("ann".to_owned());
    run(broker, session, Command::Login(Credentials { login, ..Credentials::default() }));
    session
}

fn news() -> Destination {
    Destination { kind: Kind::Topic, path: Path::parse("news").unwrap() }
}

fn subscribe(broker: &mut Broker, session: SessionId, key: u32, selector: &str) {
    let mut subscribe = Subscribe::new(SubscriptionKey(key), vec![Target::Exact(news())]);
    subscribe.selector = Some(Selector::parse(selector).unwrap());
    run(broker, session, Command::Subscribe(Box::new(subscribe)));
}

/// Messages with the numbers from..to, every tenth of them red.
fn publish(broker: &mut Broker, session: SessionId, numbers: std::ops::Range<u32>) {
    let mut builder = RunBuilder::new(news(), Time::ZERO);
    for number in numbers {
        let colour = if number % 10 == 0 { "red" } else { "blue" };
        builder.properties().extend_from_slice(format!("colour:{colour}\n").as_bytes());
        builder.finish(number.to_string().as_bytes(), Meta::default());
    }
    let publish = Command::Publish { run: builder.build(), confirm: None, confirm_first: false };
    run(broker, session, publish);
}

/// What a session's subscriptions get, in order.
fn taken(broker: &mut Broker, session: SessionId) -> Vec<(u32, u32)> {
    let mut taken = Vec::new();
    while let Some(pending) = broker.next(Now::default(), session, &mut Effects::default()) {
        let delivery = pending.delivery();
        for index in delivery.from..delivery.to {
            let message = delivery.run.run().message(index).unwrap();
            let number = std::str::from_utf8(message.body).unwrap().parse().unwrap();
            taken.push((delivery.key.0, number));
        }
    }
    taken
}

fn work(broker: &mut Broker) -> u64 {
    let before = broker.session_side().delivery.selectors.evaluated;
    broker.work(Now::default(), &mut Effects::default());
    broker.session_side().delivery.selectors.evaluated - before
}

#[test]
fn the_same_selector_is_evaluated_once_for_a_message() {
    let mut broker = broker();
    let publisher = log_in(&mut broker);
    let sessions: Vec<SessionId> = (0..20).map(|_| log_in(&mut broker)).collect();
    for session in &sessions {
        for key in 0..50 {
            subscribe(&mut broker, *session, key, "colour LIKE 'r%e_' OR colour LIKE 'r_d%'");
        }
    }
    publish(&mut broker, publisher, 0..40);
    assert_eq!(broker.session_side().delivery.selectors.evaluated, 40);
    assert!(!broker.session_side().delivery.is_selecting());
    for session in sessions {
        let got = taken(&mut broker, session);
        assert_eq!(got.len(), 4 * 50);
        assert!(got.iter().all(|(_, number)| number % 10 == 0));
    }
}

#[test]
fn thousands_of_selectors_take_turns_of_a_bounded_length() {
    let mut broker = broker();
    let (publisher, honest) = (log_in(&mut broker), log_in(&mut broker));
    let many: Vec<SessionId> = (0..4).map(|_| log_in(&mut broker)).collect();
    for (session, number) in many.iter().zip(0..) {
        for key in 0..1_000u32 {
            let selector = format!("colour LIKE '%r%e_%' OR colour = '{number} {key}'");
            subscribe(&mut broker, *session, key, &selector);
        }
    }
    subscribe(&mut broker, honest, 0, "colour = 'red'");
    publish(&mut broker, publisher, 0..100);
    publish(&mut broker, publisher, 100..200);
    let most = broker.session_side().delivery.selectors.evaluated;
    assert!(most < 60_000, "{most} of 800,000 at once");
    assert!(broker.session_side().delivery.is_selecting());
    work(&mut broker);
    assert_eq!(taken(&mut broker, honest).len(), 20, "its turn comes in the first round");
    let mut turns = 1;
    while broker.session_side().delivery.is_selecting() {
        let evaluated = work(&mut broker);
        assert!(evaluated < 60_000, "{evaluated} in one turn");
        turns += 1;
    }
    assert!(turns > 10, "{turns}");
    for session in many {
        let mut got = taken(&mut broker, session);
        got.sort_by_key(|(key, _)| *key);
        let wanted = |key| (0..20).map(move |tenth| (key, tenth * 10));
        assert_eq!(got, (0..1_000).flat_map(wanted).collect::<Vec<_>>(), "all, and in order");
        let rare = broker.session(session).unwrap().rare.as_ref();
        assert!(rare.is_none_or(|rare| rare.unselected.is_none()));
    }
    assert_eq!(broker.metrics().backlog_bytes, 0);
}

#[test]
fn what_waits_for_selectors_is_bounded_and_goes_with_its_session() {
    let mut broker = broker();
    let (publisher, session) = (log_in(&mut broker), log_in(&mut broker));
    for key in 0..2_000u32 {
        subscribe(&mut broker, session, key, &format!("colour LIKE '%x%y_%' OR colour = '{key}'"));
    }
    for number in 0..200 {
        publish(&mut broker, publisher, number..number + 1);
    }
    // Their turns come, but not those of the selectors.
    while broker.has_deferred() {
        broker.run_deferred(Now::default(), &mut Effects::default());
    }
    let BrokerMetrics { dropped_newest, .. } = broker.metrics();
    assert!(dropped_newest > 0, "two thousand for each of two hundred runs are too many");
    assert!(broker.metrics().backlog_bytes > 0);
    broker.close(Now::default(), session, &mut Effects::default());
    assert_eq!(broker.metrics().backlog_bytes, 0);
    while broker.session_side().delivery.is_selecting() {
        assert_eq!(work(&mut broker), 0);
    }
    assert!(broker.session_side().sessions.get(key_of(session)).is_none());
}
