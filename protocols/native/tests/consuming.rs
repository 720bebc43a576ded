//! Consumers of an edge's clients, byte for byte: its session on one side, the server's session with its broker on the other.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use tiderace_base::{CloseCode, Now, ShardId, Time};
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, Who};
use tiderace_filter::Selector;
use tiderace_native::codec::{AsMessage, ClientMessage, ConsumerMessage, PrincipalMessage};
use tiderace_native::{NativeOptions, UpstreamOptions, protocol};
use tiderace_testkit::{Connection, World};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Browsing, Destination, EndPrincipal, Flags, Framing, FromUpstream, Kind, Meta, Outcome,
    Prefetch, Run, RunBuilder, Subscribe, SubscriptionKey, Target, ToUpstream,
};

use crate::support::edge::Edge;
use crate::support::{MESSAGES, Rig, hello, split};

struct Pair {
    world: World,
    server: Connection,
    edge: Edge,
    requests: u32,
}

/// Messages as they have come: for which consumer, how often before, and bodies with their numbers.
type Come = (u32, u32, Vec<(ShardId, u64, String)>);

impl Pair {
    fn new(rules: Rules) -> Pair {
        Pair::taking(UpstreamOptions::default().message_bytes_max, rules)
    }

    /// An edge that takes messages of so many bytes.
    fn taking(message_bytes_max: usize, rules: Rules) -> Pair {
        let now = Now { time: Time::from_nanos(1_000), wall_ms: 1_000_000 };
        let broker = BrokerOptions { shards: 2, epoch: 300, rules, ..BrokerOptions::default() };
        let mut world = World::new(now, broker, None);
        let native = protocol(Arc::new(NativeOptions::default()), Arc::from([]));
        let framing = Framing::Messages(&MESSAGES);
        let server = Connection::open(&mut world, 0, framing, |opening| (native.open)(opening));
        let credentials =
            tiderace_wire::Credentials { login: Some("edge".into()), ..Default::default() };
        let edge = Edge::new(UpstreamOptions {
            credentials,
            message_bytes_max,
            ..UpstreamOptions::default()
        });
        let mut pair = Pair { world, server, edge, requests: 0 };
        let told = pair.told();
        let takes = FromUpstream::Requests { taken: true, consumers: true };
        assert!(told.iter().any(|said| format!("{said:?}") == format!("{takes:?}")), "{told:?}");
        pair
    }

    fn told(&mut self) -> Vec<FromUpstream> {
        loop {
            let (up, down) = (self.edge.frames(), split(&self.server.take_output()));
            if up.is_empty() && down.is_empty() {
                break;
            }
            up.iter().for_each(|frame| self.server.message(&mut self.world, false, frame));
            self.server.run(&mut self.world);
            down.iter().for_each(|frame| self.edge.hear(frame));
        }
        assert_eq!((self.server.end(), &self.edge.end), (None, &None));
        self.edge.told()
    }

    fn send(&mut self, path: &str, bodies: &[&str]) {
        self.requests += 1;
        let request = self.requests;
        let run = Box::new(run(path, bodies));
        self.edge.ask(ToUpstream::Publish { request, principal: principal("bob"), run });
    }

    fn consume(&mut self, who: &str, subscribe: Subscribe) {
        let subscribe = Box::new(Subscribe { explicit: true, ..subscribe });
        let (key, principal) = (subscribe.key, principal(who));
        self.edge.ask(ToUpstream::Consume { key, principal, subscribe });
    }

    fn settle(&mut self, key: u32, of: &Come, outcome: Outcome, request: Option<u32>) {
        let numbers = of.2.iter().map(|(home, number, _)| (*home, vec![(*number, *number)]));
        let parts = numbers.collect();
        let key = SubscriptionKey(key);
        self.edge.ask(ToUpstream::Settle { request, key, parts, outcome });
    }

    /// The messages that have come; other things are shown as they are.
    fn come(&mut self) -> (Vec<Come>, Vec<String>) {
        let (mut come, mut others) = (Vec::new(), Vec::new());
        for told in self.told() {
            match told {
                FromUpstream::Queued { key, redeliveries, run } => {
                    let message = |message: tiderace_wire::Message<'_>| {
                        assert_eq!(message.properties, b"content-type:text/plain\nk:v\n");
                        let body = String::from_utf8(message.body.to_vec()).unwrap();
                        (run.home(), message.sequence, body)
                    };
                    come.push((key.0, redeliveries, run.messages().map(message).collect()));
                }
                FromUpstream::Answered { result, .. } if result.is_ok() => {}
                FromUpstream::Refused { key, close } => {
                    others.push(format!("refused {} {}", key.0, close.code.slug()));
                }
                other => others.push(format!("{other:?}")),
            }
        }
        (come, others)
    }

    fn bodies(&mut self) -> Vec<String> {
        let (come, others) = self.come();
        assert!(others.is_empty(), "{others:?}");
        come.into_iter().flat_map(|(_, _, all)| all).map(|(_, _, body)| body).collect()
    }
}

fn principal(name: &str) -> Arc<EndPrincipal> {
    EndPrincipal::new(name.into(), [].into(), [].into(), false).unwrap().into()
}

fn queue(path: &str) -> Destination {
    Destination { kind: Kind::Queue, path: Path::parse(path).unwrap() }
}

fn run(path: &str, bodies: &[&str]) -> Run {
    let mut builder = RunBuilder::new(queue(path), Time::ZERO);
    for body in bodies {
        builder.properties().extend_from_slice(b"content-type:text/plain\nk:v\n");
        builder.finish(body.as_bytes(), Meta::default());
    }
    builder.build()
}

fn wish(key: u32, path: &str) -> Subscribe {
    let target = match Path::parse(path) {
        Ok(_) => Target::Exact(queue(path)),
        Err(_) => Target::Pattern(Kind::Queue, Pattern::parse(path).unwrap()),
    };
    Subscribe::new(SubscriptionKey(key), vec![target])
}

fn prefetch(messages: u32) -> Option<Prefetch> {
    Some(Prefetch { messages, bytes: 0 })
}

#[test]
fn a_consumer_settles_what_it_is_given_by_the_numbers_of_the_source() {
    let mut pair = Pair::new(Rules::default());
    pair.consume("ann", Subscribe { prefetch: prefetch(2), ..wish(4, "q/a") });
    assert_eq!(pair.come(), (vec![], vec!["Complete { key: SubscriptionKey(4) }".to_owned()]));
    pair.send("q/a", &["1", "2", "3", "4"]);
    let (come, _) = pair.come();
    let bodies = |come: &[Come]| -> Vec<String> {
        come.iter().flat_map(|(_, _, all)| all).map(|(_, _, body)| body.clone()).collect()
    };
    assert_eq!(bodies(&come), ["1", "2"], "its prefetch is 2");
    // Accepted, with an answer.
    let one = (4, 0, vec![come[0].2[0].clone()]);
    pair.settle(4, &one, Outcome::Accept, Some(77));
    let told = pair.told();
    let is_answer =
        |told: &FromUpstream| matches!(told, FromUpstream::Answered { request: 77, result: Ok(_) });
    assert_eq!(told.iter().filter(|told| is_answer(told)).count(), 1, "{told:?}");
    let next = told.iter().any(|told| matches!(told, FromUpstream::Queued { .. }));
    assert!(next, "there is room for one: {told:?}");
    // Rejected without one: it comes again, and says so.
    let two = (4, 0, vec![come.iter().flat_map(|it| &it.2).nth(1).unwrap().clone()]);
    pair.settle(4, &two, Outcome::Reject, None);
    let (come, others) = pair.come();
    assert!(others.is_empty());
    let again = come.iter().find(|(_, redeliveries, _)| *redeliveries == 1);
    assert_eq!(again.map(|(_, _, all)| &*all[0].2), Some("2"));
    // It leaves; who comes gets what is left.
    pair.edge.ask(ToUpstream::Leave { key: SubscriptionKey(4), lost: false });
    assert_eq!(pair.come().1, ["Ended { key: SubscriptionKey(4) }"]);
    pair.consume("ann", wish(4, "q/a"));
    let (come, _) = pair.come();
    let mut left = bodies(&come);
    left.sort_unstable();
    assert_eq!(left, ["2", "3", "4"]);
}

#[test]
fn a_message_that_is_too_large_is_rejected_and_the_others_come() {
    let mut pair = Pair::taking(3, Rules::default());
    pair.consume("ann", Subscribe { prefetch: prefetch(4), ..wish(0, "q/a") });
    pair.come();
    pair.send("q/a", &["1", "large", "3", "four", "5"]);
    assert_eq!(pair.bodies(), ["1", "3", "5"]);
    // After as many attempts as any other they are dead letters, and take no room. Dead letters have no limit of
    // attempts; they are left to this consumer then.
    pair.send("q/a", &["6"]);
    let bodies = pair.bodies();
    assert_eq!(bodies, ["6"]);
    pair.consume("cid", Subscribe { prefetch: prefetch(9), ..wish(1, "dlq/q/a") });
    assert_eq!(pair.come().1.len(), 1);
}

#[test]
fn what_was_not_handed_on_is_as_new_and_what_a_lost_client_had_is_not() {
    let mut pair = Pair::new(Rules::default());
    pair.consume("ann", Subscribe { prefetch: prefetch(9), ..wish(0, "q/a") });
    pair.send("q/a", &["1", "2", "3"]);
    let (come, _) = pair.come();
    let all: Vec<_> = come.iter().flat_map(|(_, _, all)| all.clone()).collect();
    assert_eq!(all.len(), 3);
    let unread = (0, 0, all[2..].to_vec());
    pair.settle(0, &unread, Outcome::Release, None);
    pair.edge.ask(ToUpstream::Leave { key: SubscriptionKey(0), lost: true });
    assert_eq!(pair.come().1, ["Ended { key: SubscriptionKey(0) }"]);
    pair.consume("cid", wish(1, "q/**"));
    let (come, _) = pair.come();
    let counts: Vec<(String, u32)> = come
        .iter()
        .flat_map(|(_, count, all)| all.iter().map(|(_, _, body)| (body.clone(), *count)))
        .collect();
    let expected = [("1", 1), ("2", 0), ("3", 0)];
    assert_eq!(counts, expected.map(|(body, count)| (body.to_owned(), count)));
}

#[test]
fn credit_selectors_patterns_and_browsers_go_up() {
    let mut pair = Pair::new(Rules::default());
    let selector = Some(Selector::parse("k = 'v'").unwrap());
    pair.consume("ann", Subscribe { credit: Some(1), selector, ..wish(3, "q/*") });
    pair.told();
    pair.send("q/a", &["1", "2", "3"]);
    assert_eq!(pair.bodies(), ["1"]);
    pair.edge.ask(ToUpstream::Credit { key: SubscriptionKey(3), messages: 2 });
    assert_eq!(pair.bodies(), ["2", "3"]);
    let selector = Some(Selector::parse("k = 'w'").unwrap());
    pair.consume("ann", Subscribe { selector, ..wish(5, "q/b") });
    pair.told();
    pair.send("q/b", &["x"]);
    assert_eq!(pair.bodies(), [""; 0], "nobody selects it, and the first has no credit");
    let browsing = Some(Browsing::ToEnd);
    pair.consume("ann", Subscribe { browsing, ..wish(6, "q/b") });
    let (come, others) = pair.come();
    assert_eq!(come[0].2[0].2, "x");
    assert_eq!(
        others,
        ["Complete { key: SubscriptionKey(6) }", "Browsed { key: SubscriptionKey(6) }"]
    );
}

#[test]
fn what_a_queue_is_told_of_a_message_is_told_to_it() {
    let mut pair = Pair::new(Rules::default());
    let mut builder = RunBuilder::new(queue("q/a"), Time::ZERO);
    builder.properties().extend_from_slice(b"deliver-at:2000000\n");
    builder.finish(b"1", Meta { flags: Flags::DELAYED, expires_ms: None });
    let run = Box::new(builder.build());
    pair.edge.ask(ToUpstream::Publish { request: 1, principal: principal("bob"), run });
    pair.told();
    let queue = r#"{"do":"queue","path":"q/a"}"#;
    // It waits for its time.
    let native = protocol(Arc::new(NativeOptions::default()), Arc::from([]));
    let framing = Framing::Messages(&MESSAGES);
    let mut client = Connection::open(&mut pair.world, 0, framing, |it| (native.open)(it));
    let operate = ClientMessage::Operate(tiderace_native::codec::OperateMessage {
        request: 1,
        operation: queue,
        body: None,
    });
    for message in [hello(), operate] {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        client.message(&mut pair.world, false, &bytes);
    }
    client.run(&mut pair.world);
    let said = String::from_utf8_lossy(&client.take_output()).into_owned();
    assert!(said.contains(r#""delayed":1"#), "{said}");
}

#[test]
fn both_fences_are_asked() {
    let rule = |actions: &[Action], who: &str, path: &str| Rule {
        allow: true,
        actions: actions.iter().copied().collect(),
        who: vec![Who::User(who.into())],
        paths: vec![Pattern::parse(path).unwrap()],
        kind: None,
    };
    let mut pair = Pair::new(Rules::new(vec![
        rule(&[Action::Relay], "edge", "q/**"),
        rule(&[Action::Receive], "ann", "**"),
    ]));
    for (key, who, path) in [(0, "ann", "q/a"), (1, "bob", "q/a"), (2, "ann", "r/a")] {
        pair.consume(who, wish(key, path));
    }
    let (_, others) = pair.come();
    let expected = [
        "Complete { key: SubscriptionKey(0) }",
        "refused 1 not-authorised",
        "refused 2 not-authorised",
    ];
    let mut others = others;
    others.sort_unstable();
    assert_eq!(others, expected);
}

#[test]
fn only_edges_speak_of_consumers_and_only_of_queues() {
    let granted = ConsumerMessage::Grant { subscription: 0, messages: 1 };
    let mut rig = Rig::new();
    rig.send(&ClientMessage::Consumer(granted.clone()));
    assert_eq!(rig.end.as_ref().map(|close| close.code), Some(CloseCode::UnexpectedFrame));
    // To topics nobody subscribes for others, and to queues once in an AS.
    let known = principal("ann");
    for path in ["topic", "queue twice"] {
        let mut rig = Rig::new();
        rig.send(&ClientMessage::Principal(PrincipalMessage::of(1, &known)));
        let kind = if path == "topic" { Kind::Topic } else { Kind::Queue };
        let mut messages = Vec::new();
        for (request, subscription) in [(1, 0), (2, 1)] {
            let subscribe = crate::support::subscribe(request, subscription, 0, "q/a");
            let subscribe = tiderace_native::codec::SubscribeMessage { kind, ..subscribe };
            ClientMessage::Subscribe(subscribe).write(&mut messages);
        }
        rig.send(&ClientMessage::As(AsMessage { principal: 1, messages: &messages }));
        assert_eq!(rig.end.as_ref().map(|close| close.code), Some(CloseCode::UnexpectedFrame));
    }
}
