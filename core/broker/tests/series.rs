//! What topics keep besides their values: histories, time series, and replay for new subscribers.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use crate::support::asking::{self, tell};
use crate::support::{Outgoing, Wish, World, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::BrokerOptions;
use tiderace_topics::Path;
use tiderace_wire::{Events, Flags, HistoryQuery, NewValue, Operation, OperationResult, Replay};

fn world(seed: u64) -> World {
    World::new(seed, BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() })
}

fn create(world: &mut World, client: usize, path: &str, spec: &str) {
    tell(world, client, asking::create(path, spec, None)).unwrap();
}

fn query(from: Replay) -> HistoryQuery {
    let path = Path::parse("log").unwrap();
    HistoryQuery { path, from, to: None, limit: 0, amended: false }
}

fn history(world: &mut World, client: usize, query: HistoryQuery) -> Events {
    match tell(world, client, Operation::History(Box::new(query))) {
        Ok(OperationResult::Events(events)) => *events,
        other => panic!("{other:?}"),
    }
}

fn bodies(events: &Events) -> Vec<String> {
    let body = |event: &tiderace_wire::Event| event.run.message(event.place).unwrap().body.to_vec();
    events.events.iter().map(|event| String::from_utf8(body(event)).unwrap()).collect()
}

fn publish(world: &mut World, client: usize, numbers: std::ops::Range<usize>) {
    for number in numbers {
        world.publish(client, "topic:log", &number.to_string());
    }
    world.quiesce();
}

#[test]
fn a_history_keeps_the_last_messages_and_is_read_in_pages() {
    for_seeds(0..9, |seed| {
        let mut world = world(seed);
        let ann = world.connect(0, "ann");
        create(&mut world, ann, "log", r#"{"history":50}"#);
        publish(&mut world, ann, 0..80);
        let (mut found, mut from) = (Vec::new(), Replay::Version(0));
        loop {
            let events = history(&mut world, ann, HistoryQuery { limit: 7, ..query(from) });
            assert!(events.events.iter().all(|event| event.author.as_deref() == Some("ann")));
            found.extend(bodies(&events));
            if !events.more {
                break;
            }
            from = Replay::Version(events.events.last().unwrap().version + 1);
        }
        assert_eq!(found, (30..80).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(bodies(&history(&mut world, ann, query(Replay::Last(3)))), ["77", "78", "79"]);
        let plain = HistoryQuery { path: Path::parse("plain").unwrap(), ..query(Replay::Last(3)) };
        let refused = tell(&mut world, ann, Operation::History(Box::new(plain)));
        assert_eq!(refused.unwrap_err(), CloseCode::TopicUnknown);
    });
}

#[test]
fn age_is_counted_from_when_a_message_was_taken() {
    let mut world = world(1);
    let ann = world.connect(0, "ann");
    create(&mut world, ann, "log", r#"{"history":{"age":"10s"}}"#);
    publish(&mut world, ann, 0..2);
    world.advance(Span::from_secs(6));
    let middle = world.now.wall_ms;
    publish(&mut world, ann, 2..4);
    assert_eq!(bodies(&history(&mut world, ann, query(Replay::Time(middle)))), ["2", "3"]);
    assert_eq!(bodies(&history(&mut world, ann, query(Replay::Last(9)))).len(), 4);
    world.advance(Span::from_secs(5));
    assert_eq!(bodies(&history(&mut world, ann, query(Replay::Last(9)))), ["2", "3"]);
}

#[test]
fn an_event_of_a_time_series_is_replaced_without_being_lost() {
    for_seeds(0..9, |seed| {
        let mut world = world(seed);
        let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
        create(&mut world, ann, "log", r#"{"type":"timeseries","history":100}"#);
        publish(&mut world, ann, 0..3);
        let second = history(&mut world, ann, query(Replay::Version(0))).events[1].version;
        let amend = |version, body: &str| Operation::Amend {
            path: Path::parse("log").unwrap(),
            version,
            value: NewValue { body: body.as_bytes().into(), ..NewValue::default() },
        };
        let first = match tell(&mut world, bob, amend(second, "one")).unwrap() {
            OperationResult::Updated { version } => version,
            other => panic!("{other:?}"),
        };
        // To replace a replacement is to replace the event again.
        tell(&mut world, bob, amend(first, "uno")).unwrap();
        let read = history(&mut world, ann, query(Replay::Version(0)));
        assert_eq!(bodies(&read), ["0", "uno", "2"]);
        assert_eq!(read.events[1].version, second);
        assert_eq!(read.events[1].author.as_deref(), Some("bob"));
        let all = HistoryQuery { amended: true, ..query(Replay::Version(0)) };
        let all = history(&mut world, ann, all);
        assert_eq!(bodies(&all), ["0", "1", "2", "one", "uno"]);
        let amends: Vec<_> = all.events.iter().map(|event| event.amends).collect();
        assert_eq!(amends, [None, None, None, Some(second), Some(second)]);
        assert_eq!(tell(&mut world, bob, amend(9_999, "x")).unwrap_err(), CloseCode::TopicUnknown);
    });
}

#[test]
fn replay_comes_before_what_is_live_with_neither_gap_nor_repetition() {
    for_seeds(0..60, |seed| {
        let mut world = world(seed);
        let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
        create(&mut world, ann, "log", r#"{"history":40}"#);
        let before = world.random.below(60);
        publish(&mut world, ann, 0..before);
        let last = 1 + world.random.below(50);
        // Messages before and after the home's answer are under way at the same time.
        for number in before..before + 5 {
            world.publish(ann, "topic:log", &number.to_string());
        }
        let replay = Some(Replay::Last(last as u32));
        world.subscribe(bob, 0, Wish { replay, ..Wish::to("topic:log") });
        for number in before + 5..before + 20 {
            world.publish(ann, "topic:log", &number.to_string());
        }
        world.quiesce();
        let found: Vec<usize> = world.clients[bob]
            .received
            .iter()
            .map(|message| message.body.parse().unwrap())
            .collect();
        let first = found[0];
        assert_eq!(found, (first..before + 20).collect::<Vec<_>>());
        assert!(found.len() >= last.min(40).min(before), "{} of {last}", found.len());
    });
}

#[test]
fn a_removed_topic_keeps_nothing() {
    let mut world = world(2);
    let ann = world.connect(0, "ann");
    create(&mut world, ann, "log", r#"{"history":40}"#);
    publish(&mut world, ann, 0..5);
    let selector = vec![tiderace_topics::Pattern::parse("log").unwrap()];
    tell(&mut world, ann, Operation::Remove { selector }).unwrap();
    create(&mut world, ann, "log", r#"{"history":40}"#);
    publish(&mut world, ann, 7..8);
    assert_eq!(bodies(&history(&mut world, ann, query(Replay::Version(0)))), ["7"]);
    assert_eq!(world.metrics().retained_bytes > 0, world.metrics().retained > 0);
}

#[test]
fn messages_beside_a_removal_are_kept() {
    for_seeds(0..6, |seed| {
        let mut world = world(seed);
        let ann = world.connect(0, "ann");
        create(&mut world, ann, "log", r#"{"retain":true,"history":4}"#);
        let removal = |body: &str| Outgoing { flags: Flags::RETAIN_REMOVE, ..Outgoing::new(body) };
        let messages = [Outgoing::new("1"), removal(""), Outgoing::new("3"), Outgoing::new("4")];
        world.publish_all(ann, "topic:log", &messages);
        world.quiesce();
        let events = history(&mut world, ann, query(Replay::Version(0)));
        assert_eq!(bodies(&events), ["1", "3", "4"]);
        let versions = |events: &Events| -> Vec<u64> {
            let first = events.events[0].version;
            events.events.iter().map(|event| event.version - first).collect()
        };
        assert_eq!(versions(&events), [0, 2, 3]);
        world.publish_all(ann, "topic:log", &[Outgoing::new("5"), removal("")]);
        world.publish_all(ann, "topic:log", &[removal("")]);
        world.publish_all(ann, "topic:log", &[Outgoing::new("8")]);
        world.quiesce();
        let events = history(&mut world, ann, query(Replay::Version(0)));
        assert_eq!(bodies(&events), ["3", "4", "5", "8"], "the last four that are messages");
        assert_eq!(versions(&events), [0, 1, 2, 5]);
    });
}
