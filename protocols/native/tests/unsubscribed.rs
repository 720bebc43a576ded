//! UNSUBSCRIBED: subscriptions that the server ends, told to clients and to edges (`docs/protocol.md`, sections 4
//! and 5).

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, ShardId};
use tiderace_native::codec::{
    ClientMessage, ConsumerMessage, PrincipalMessage, ServerMessage, SettleMessage,
    SubscribeMessage, feature, subscribe as flags,
};
use tiderace_wire::{
    Command, Destination, EndPrincipal, FromUpstream, Kind, Outcome, Reply, Subscribe,
    SubscriptionKey, Target, ToUpstream,
};

use crate::support::edge::{self, Edge};
use crate::support::{Rig, subscribe};

const SENTENCE: &str = "The connection was lost.";

fn ended(key: u32) -> Reply {
    let close = Close::new(CloseCode::UpstreamAway, SENTENCE);
    Reply::SubscriptionEnded { key: SubscriptionKey(key), close }
}

fn consumer(rig: &mut Rig, request: u32, key: u32) {
    let message =
        SubscribeMessage { kind: Kind::Queue, ..subscribe(request, key, flags::EXPLICIT, "jobs") };
    rig.send(&ClientMessage::Subscribe(message));
    rig.confirm(request);
    assert_eq!(rig.received(), [format!("Ok {{ first: {request}, last: {request} }}")]);
    rig.commands.clear();
}

// "UNSUBSCRIBED says that the server has ended a subscription: nothing comes of it any more, and its id is free."
#[test]
fn a_subscription_that_is_ended_is_told_and_its_id_is_free() {
    let mut rig = Rig::new();
    consumer(&mut rig, 1, 3);
    rig.reply(ended(3));
    let told = format!(
        "Unsubscribed {{ subscription: 3, code: 531, slug: \"upstream-away\", sentence: \"{SENTENCE}\" }}"
    );
    assert_eq!(rig.received(), [told]);
    consumer(&mut rig, 2, 3);
    // One that is not there its client has ended itself.
    rig.reply(ended(4));
    assert!(rig.received().is_empty() && rig.end.is_none());
}

// "What a client has said of it meanwhile ..."
#[test]
fn what_has_crossed_it_costs_nothing() {
    let mut rig = Rig::new();
    let ann = EndPrincipal::new("ann".into(), [].into(), [].into(), false).unwrap();
    rig.send(&ClientMessage::Principal(PrincipalMessage::of(1, &ann)));
    consumer(&mut rig, 1, 3);
    rig.reply(ended(3));
    rig.received();
    let settle = |request| {
        let (subscription, home, ranges) = (3, 0, vec![(1, 1)]);
        ClientMessage::Settle(SettleMessage { request, subscription, home, reject: false, ranges })
    };
    let ranges = vec![(1, 1)];
    for message in [
        ClientMessage::Consumer(ConsumerMessage::Grant { subscription: 3, messages: 1 }),
        ClientMessage::Consumer(ConsumerMessage::Release { subscription: 3, home: 0, ranges }),
        settle(0),
        settle(2),
        ClientMessage::Unsubscribe { request: 3, subscription: 3 },
        ClientMessage::Consumer(ConsumerMessage::Lost { request: 4, subscription: 3 }),
    ] {
        rig.send(&message);
    }
    let received = rig.received();
    assert_eq!(received.len(), 4, "{received:?}");
    for (said, request) in received.iter().zip([0, 2, 3, 4]) {
        let answer =
            format!("Error {{ request: {request}, code: 502, slug: \"unknown-subscription\"");
        assert!(said.starts_with(&answer), "{said}");
    }
    assert!(rig.commands.is_empty() && rig.end.is_none());
}

// An OK that comes last has not been told: the request is refused instead.
#[test]
fn one_whose_ok_waits_for_its_values_is_refused() {
    let mut rig = Rig::new();
    rig.send(&ClientMessage::Subscribe(subscribe(1, 0, flags::SNAPSHOT | flags::OK_LAST, "a")));
    rig.confirm(1);
    assert!(rig.received().is_empty());
    rig.reply(ended(0));
    let received = rig.received();
    assert!(received[0].starts_with("Error { request: 1, code: 531"), "{received:?}");
    rig.send(&ClientMessage::Subscribe(subscribe(2, 0, 0, "b")));
    assert!(matches!(rig.commands.last(), Some(Command::Subscribe(_))));
    assert_eq!(rig.received().len() + received.len(), 1);
}

/// An edge whose upstream takes consumers.
fn consuming() -> Edge {
    let features = feature::VALUES | feature::NUMBERED | feature::RELAY | feature::QUEUES;
    edge::up_with(edge::options(), tiderace_native::codec::Welcome { features, ..edge::welcome() })
}

fn consume(edge: &mut Edge, key: u32) {
    let path = tiderace_topics::Path::parse("jobs").unwrap();
    let target = Target::Exact(Destination { kind: Kind::Queue, path });
    let key = SubscriptionKey(key);
    let subscribe = Box::new(Subscribe { explicit: true, ..Subscribe::new(key, vec![target]) });
    let ann = EndPrincipal::new("ann".into(), [].into(), [].into(), false).unwrap();
    edge.ask(ToUpstream::Consume { key, principal: Arc::new(ann), subscribe });
}

const UNSUBSCRIBED: ServerMessage<'_> = ServerMessage::Unsubscribed {
    subscription: 2,
    code: 531,
    slug: "upstream-away",
    sentence: SENTENCE,
};

const UNKNOWN: ServerMessage<'_> = ServerMessage::Error {
    request: 0,
    code: 502,
    slug: "unknown-subscription",
    sentence: "there is no subscription 2",
};

#[test]
fn an_edge_hears_that_a_consumer_was_ended_and_all_else_goes_on() {
    let mut edge = consuming();
    edge.subscribe(0, "fx/EUR", None);
    consume(&mut edge, 2);
    edge::hear(&mut edge, &[ServerMessage::Ok { first: 1, last: 2 }]);
    edge.told();
    edge::hear(&mut edge, &[UNSUBSCRIBED]);
    let told = edge.told();
    let [FromUpstream::Refused { key: SubscriptionKey(2), close }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(close.code, CloseCode::UpstreamAway);
    assert!(close.reason.ends_with(SENTENCE), "{close}");
    // What was settled without an answer has crossed that.
    let parts = vec![(ShardId(0), vec![(1, 1)])];
    let (key, outcome) = (SubscriptionKey(2), Outcome::Accept);
    edge.ask(ToUpstream::Settle { request: None, key, parts, outcome });
    edge::hear(&mut edge, &[UNKNOWN]);
    // The number stands for another one.
    consume(&mut edge, 2);
    edge::hear(&mut edge, &[ServerMessage::Ok { first: 3, last: 3 }]);
    let updates = edge::entries(&[edge::update(0, 0, 5, b"1.09")]);
    edge::hear(&mut edge, &[ServerMessage::Updates(&updates)]);
    let told = edge.told();
    let [FromUpstream::Complete { key: SubscriptionKey(2) }, FromUpstream::Messages { key, .. }] =
        &told[..]
    else {
        panic!("{told:?}, {:?}", edge.end)
    };
    assert_eq!((key.0, &edge.end), (0, &None));
}

#[test]
fn an_edge_that_has_ended_it_itself_waits_for_the_answer() {
    let mut edge = consuming();
    consume(&mut edge, 2);
    edge::hear(&mut edge, &[ServerMessage::Ok { first: 1, last: 1 }]);
    edge.told();
    edge.ask(ToUpstream::Leave { key: SubscriptionKey(2), lost: false });
    edge::hear(&mut edge, &[UNSUBSCRIBED]);
    assert!(edge.told().is_empty());
    let ServerMessage::Error { code, slug, sentence, .. } = UNKNOWN else { panic!() };
    edge::hear(&mut edge, &[ServerMessage::Error { request: 2, code, slug, sentence }]);
    let told = edge.told();
    assert!(matches!(told[..], [FromUpstream::Ended { key: SubscriptionKey(2) }]), "{told:?}");
    // Or says so when it was ended already: there is nothing to end.
    consume(&mut edge, 2);
    edge::hear(&mut edge, &[ServerMessage::Ok { first: 3, last: 3 }, UNSUBSCRIBED]);
    edge.told();
    edge.frames();
    edge.ask(ToUpstream::Leave { key: SubscriptionKey(2), lost: true });
    let told = edge.told();
    assert!(matches!(told[..], [FromUpstream::Ended { key: SubscriptionKey(2) }]), "{told:?}");
    assert!(edge.frames().is_empty() && edge.end.is_none());
}

#[test]
fn what_ends_that_was_not_asked_for_breaks_a_rule() {
    edge::ends(&mut consuming(), &[UNSUBSCRIBED], "subscription 2 ends");
    let other =
        ServerMessage::Error { request: 0, code: 401, slug: "not-authorised", sentence: "no" };
    edge::ends(&mut consuming(), &[other], "answers nothing that was asked");
}

#[test]
fn what_an_edge_serves_may_be_ended_as_well() {
    let features =
        feature::VALUES | feature::NUMBERED | feature::RELAY | feature::QUEUES | feature::CALLS;
    let welcome = tiderace_native::codec::Welcome { features, ..edge::welcome() };
    let mut edge = edge::up_with(edge::options(), welcome);
    let path = tiderace_topics::Path::parse("fx/price").unwrap();
    let target = Target::Exact(Destination { kind: Kind::Service, path });
    edge.ask(ToUpstream::Serve { key: 0, target });
    // Ids of what is served come from above; the upstream has eight.
    let ended = ServerMessage::Unsubscribed {
        subscription: 7,
        code: 401,
        slug: "not-authorised",
        sentence: "no",
    };
    edge::hear(&mut edge, &[ServerMessage::Ok { first: 1, last: 1 }, ended]);
    let told = edge.told();
    let [
        FromUpstream::Serving { key: 0, result: Ok(true) },
        FromUpstream::Serving { key: 0, result: Err(close) },
    ] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!(close.code, CloseCode::NotAuthorised);
}
