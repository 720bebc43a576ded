//! The event API of `/`, event by event.
#![allow(clippy::unwrap_used)]

use crate::support::Node;
use tiderace_base::{Addresses, Close, CloseCode, Span};
use tiderace_socketio::SocketOptions;
use tiderace_wire::{Command, ExchangeKey, ExchangeSend, Kind, Outcome};

#[test]
fn what_is_published_is_received_by_subscribers() {
    let mut node = Node::new();
    let (ann, bob) = (node.connected(), node.connected());
    assert_eq!(node.say(ann, r#"20["subscribe","fx/*"]"#), [r#"30[{"ok":true,"id":0}]"#]);
    assert_eq!(
        node.say(bob, r#"27["publish","fx/eur",{"bid":1.5},{"headers":{"who":"a\"b","n":1}}]"#),
        [r#"37[{"ok":true}]"#]
    );
    assert_eq!(
        node.received(ann),
        [r#"2["message","fx/eur",{"bid":1.5},{"version":1,"who":"a\"b","n":"1"}]"#]
    );
    node.say(bob, r#"2["publish","fx/eur","text"]"#);
    assert_eq!(node.received(ann), [r#"2["message","fx/eur","text",{"version":2}]"#]);
    for name in ["[fx/*, ?fx/[A-Z]{3}-.*, news]", "?fx/[a-z]+"] {
        let answer = node.say(ann, &format!(r#"21["subscribe","{name}"]"#)).concat();
        assert!(answer.contains(r#"{"ok":true,"#), "{answer}");
        let gone = node.say(ann, &format!(r#"22["unsubscribe","{name}"]"#));
        assert_eq!(gone, [r#"32[{"ok":true}]"#]);
    }
    let refused = node.say(ann, r#"23["subscribe","[a, ?fx/(]"]"#).concat();
    assert!(
        refused.contains("member 2 of the set") && refused.contains("unclosed group"),
        "{refused}"
    );
    assert_eq!(node.say(ann, r#"21["unsubscribe","fx/*"]"#), [r#"31[{"ok":true}]"#]);
    node.say(bob, r#"2["publish","fx/eur",1]"#);
    assert!(node.received(ann).is_empty());
}

#[test]
fn options_become_marks() {
    let mut node = Node::new();
    let ann = node.connected();
    node.say(ann, r#"2["publish","a",1,{"retain":true,"ttl":500}]"#);
    node.say(ann, r#"2["publish","a",null,{"retain":"remove"}]"#);
    node.say(ann, r#"2["send","q",[],{"headers":{"a:b":true}}]"#);
    let log = node.broker.log.join("\n");
    assert!(
        log.contains("publish topic a [content-type:application/json|] 1 Flags(10) Some(1000500)"),
        "{log}"
    );
    assert!(log.contains("null Flags(4) None"), "{log}");
    assert!(
        log.contains(r"publish queue q [content-type:application/json|a\cb:true|] [] Flags(16)"),
        "{log}"
    );
}

#[test]
fn retained_values_come_first_unless_they_are_not_wanted() {
    let mut node = Node::new();
    let ann = node.connected();
    node.say(ann, r#"2["publish","a",1,{"retain":true}]"#);
    assert_eq!(
        node.say(ann, r#"20["subscribe","a",{"selector":"x IS NULL"}]"#),
        [r#"30[{"ok":true,"id":0}]"#, r#"2["message","a",1,{"version":1,"retained":true}]"#]
    );
    let bob = node.connected();
    assert_eq!(
        node.say(bob, r#"20["subscribe","a",{"snapshot":false}]"#),
        [r#"30[{"ok":true,"id":0}]"#]
    );
}

#[test]
fn a_removal_is_no_empty_value() {
    let mut node = Node::new();
    let (ann, bob) = (node.connected(), node.connected());
    node.say(ann, r#"20["subscribe","a"]"#);
    node.say(bob, r#"2["publish","a","",{"retain":true,"headers":{"removed":"x"}}]"#);
    let received = node.received(ann).concat();
    assert!(
        received.starts_with(r#"2["message","a","","#) && !received.contains("removed"),
        "{received}"
    );
    node.say(bob, r#"2["publish","a",null,{"retain":"remove"}]"#);
    let received = node.received(ann).concat();
    assert!(received.contains(r#","removed":true"#), "{received}");
}

#[test]
fn buffers_travel_as_attachments() {
    let mut node = Node::new();
    let (ann, bob) = (node.connected(), node.connected());
    node.say(ann, r#"20["subscribe","a"]"#);
    node.send(bob, true, br#"51-["publish","a",{"_placeholder":true,"num":0}]"#);
    node.send(bob, false, b"\x00\xff");
    assert!(node.broker.log.last().unwrap().contains("application/octet-stream"));
    let whole = node.received(ann);
    assert_eq!(whole[0], r#"51-["message","a",{"_placeholder":true,"num":0},{"version":1}]"#);
    assert_eq!(whole[1], "#\u{0}\u{fffd}");
    node.send(
        bob,
        true,
        br#"52-["publish","a",[{"_placeholder":true,"num":1},{"_placeholder":true,"num":0}]]"#,
    );
    node.send(bob, false, b"one");
    node.send(bob, false, b"two");
    assert_eq!(
        node.received(ann),
        [
            r#"52-["message","a",[{"_placeholder":true,"num":1},{"_placeholder":true,"num":0}],{"version":2}]"#,
            "#one",
            "#two"
        ]
    );
}

#[test]
fn bodies_of_other_protocols_are_shown_as_what_they_are() {
    let mut node = Node::new();
    let ann = node.connected();
    node.say(ann, r#"20["subscribe","a"]"#);
    let mut shown = |properties: &str, body: &[u8]| {
        node.broker.publish(Kind::Topic, "a", properties, body);
        node.run();
        node.received(ann)
    };
    assert_eq!(
        shown("content-type:text/plain\n", b"42"),
        [r#"2["message","a","42",{"version":1}]"#]
    );
    assert_eq!(shown("", b"a\"b"), [r#"2["message","a","a\"b",{"version":2}]"#]);
    assert_eq!(
        shown("content-type:application/json\n", b"{\"a\":1}"),
        [r#"2["message","a",{"a":1},{"version":3}]"#]
    );
    assert_eq!(
        shown("content-type:application/json\n", b"{broken"),
        [r#"2["message","a","{broken",{"version":4}]"#]
    );
    assert_eq!(shown("", b"\xff").len(), 2);
    let names = "version:9\n__proto__:x\nkey\\c:v\n";
    assert_eq!(
        shown(names, b"x"),
        [r#"2["message","a","x",{"version":6,"__proto__":"x","key:":"v"}]"#]
    );
}

#[test]
fn jobs_are_settled_by_answers() {
    let mut node = Node::new();
    let (ann, bob) = (node.connected(), node.connected());
    assert_eq!(
        node.say(ann, r#"20["receive","jobs",{"prefetch":5}]"#),
        [r#"30[{"ok":true,"id":0}]"#]
    );
    node.say(bob, r#"2["send","jobs",{"n":1},{"headers":{"k":"v"}}]"#);
    assert_eq!(node.received(ann), [r#"20["job","jobs",{"n":1},{"redelivered":false,"k":"v"}]"#]);
    assert_eq!(
        node.say(ann, r#"30[{"reject":true}]"#),
        [r#"21["job","jobs",{"n":1},{"redelivered":true,"redeliveries":1,"k":"v"}]"#]
    );
    node.say(ann, "31[]");
    assert_eq!(node.broker.settled, [(1, Outcome::Reject), (1, Outcome::Accept)]);
    // A second answer, or one to a question that was never asked, is no fault.
    node.say(ann, "31[]");
    node.say(ann, "3999[]");
    assert_eq!(node.broker.settled.len(), 2);
    assert_eq!(node.say(ann, r#"21["cancel","jobs"]"#), [r#"31[{"ok":true}]"#]);
    node.say(ann, r#"2["receive","jobs",{"acks":false}]"#);
    node.say(bob, r#"2["send","jobs",2]"#);
    assert_eq!(node.received(ann), [r#"2["job","jobs",2,{"redelivered":false}]"#]);
    assert_eq!(node.end(ann), None);
}

#[test]
fn a_queue_is_shown_and_stays_there() {
    let mut node = Node::new();
    let (ann, bob) = (node.connected(), node.connected());
    node.say(bob, r#"2["send","jobs",1]"#);
    node.say(bob, r#"2["send","jobs",2]"#);
    let job = |n: u32| format!(r#"2["job","jobs",{n},{{"redelivered":false}}]"#);
    let end = r#"2["browsed","jobs",{"id":0}]"#.to_owned();
    for _ in 0..2 {
        let said = node.say(ann, r#"2["receive","jobs",{"browse":true}]"#);
        assert_eq!(said, [job(1), job(2), end.clone()]);
        node.say(ann, r#"2["cancel","jobs"]"#);
    }
    let said = node.say(ann, r#"2["receive","jobs",{"browse":true,"follow":true}]"#);
    assert_eq!(said, [job(1), job(2)]);
    node.say(bob, r#"2["send","jobs",3]"#);
    assert_eq!(node.received(ann), [job(3)]);
    node.say(ann, r#"2["cancel","jobs"]"#);
    // With answers each of them lets another come.
    let said = node.say(ann, r#"2["receive","jobs",{"browse":true,"acks":true,"prefetch":1}]"#);
    assert_eq!(said, [r#"20["job","jobs",1,{"redelivered":false}]"#]);
    let said = node.say(ann, r#"30[{"reject":true}]"#);
    assert_eq!(said, [r#"21["job","jobs",2,{"redelivered":false}]"#]);
    node.say(ann, r#"2["cancel","jobs"]"#);
    let said = node.say(bob, r#"2["receive","jobs",{"acks":false}]"#);
    assert_eq!(said, [job(1), job(2), job(3)]);
    let refused = node.say(bob, r#"20["receive","others",{"browse":"yes"}]"#);
    assert!(refused.concat().contains("\"ok\":false"), "{refused:?}");
}

#[test]
fn a_durable_subscription_gathers_and_its_messages_are_answered() {
    let mut node = Node::new();
    node.broker.two_homes = true;
    let (ann, bob) = (node.connected(), node.connected());
    let begin = r#"20["subscribe","fx/*",{"durable":"audit","selector":"side = 'buy'"}]"#;
    assert_eq!(node.say(ann, begin), [r#"30[{"ok":true,"id":0}]"#]);
    node.say(bob, r#"2["publish","fx/EUR",1,{"headers":{"side":"buy"}}]"#);
    node.say(bob, r#"2["publish","fx/EUR",2]"#);
    let message = |ack: u64, number: u64, more: &str| {
        format!(
            r#"2{ack}["message","fx/EUR",{number},{{"redelivered":{more},"side":"buy","source-topic":"fx/EUR"}}]"#
        )
    };
    assert_eq!(node.received(ann), [message(0, 1, "false")]);
    let again = node.say(ann, r#"30[{"reject":true}]"#);
    assert_eq!(again, [message(1, 1, r#"true,"redeliveries":1"#)]);
    node.say(ann, "31[]");
    // A client that leaves ends nothing.
    assert_eq!(node.say(ann, r#"21["unsubscribe","fx/*"]"#), [r#"31[{"ok":true}]"#]);
    node.say(bob, r#"2["publish","fx/USD",3,{"headers":{"side":"buy"}}]"#);
    assert_eq!(node.received(ann), [""; 0]);
    let received = node.say(ann, begin);
    let late = message(2, 3, "false").replace("EUR", "USD");
    assert_eq!(received.iter().filter(|it| **it == late).count(), 1, "{received:?}");
    assert!(received.contains(&r#"30[{"ok":true,"id":0}]"#.to_owned()), "{received:?}");
    let delete = r#"22["operate",{"do":"delete-subscription","name":"audit"}]"#;
    assert!(node.say(ann, delete)[0].contains("subscription-in-use"));
    node.say(ann, r#"2["unsubscribe",0]"#);
    assert_eq!(node.say(ann, delete), [r#"32[{"ok":true}]"#]);
    assert_eq!(node.end(ann), None);
}

#[test]
fn a_durable_subscription_that_is_refused_is_none() {
    let mut node = Node::with(SocketOptions { subscriptions_max: 1, ..SocketOptions::default() });
    let ann = node.connected();
    for (options, code) in [
        (r#"{"durable":1}"#, "bad-frame"),
        (r#"{"durable":"a//b"}"#, "bad-operation"),
        (r#"{"durable":"a","selector":"(("}"#, "bad-selector"),
        (r#"{"durable":"a","prefetch":0}"#, "bad-frame"),
        (r#"{"durable":"a","deltas":"vcdiff"}"#, "bad-frame"),
        (r#"{"durable":"a","snapshot":true}"#, "bad-frame"),
    ] {
        let received = node.say(ann, &format!(r#"29["subscribe","x",{options}]"#));
        assert_eq!(received.len(), 1, "{options}: {received:?}");
        assert!(received[0].contains(code), "{options}: {received:?}");
    }
    // What may not be read may not be gathered, and nobody is told of more than that.
    let denied = node.say(ann, r#"29["subscribe","secret/x",{"durable":"a"}]"#);
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert!(denied[0].contains("not-authorised"), "{denied:?}");
    // It is not there, so nobody is told of two refusals.
    let unknown = node.say(ann, r#"29["receive","dsub/a"]"#);
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert!(unknown[0].contains("queue-unknown"), "{unknown:?}");
    // Its place is free, and its name as well.
    let made = node.say(ann, r#"29["subscribe","secret/x",{"durable":"a"}]"#);
    assert!(made[0].contains("not-authorised"), "{made:?}");
    assert_eq!(
        node.say(ann, r#"29["subscribe","x",{"durable":"a"}]"#),
        [r#"39[{"ok":true,"id":0}]"#]
    );
}

#[test]
fn calls_are_answered_by_responders() {
    let mut node = Node::new();
    let (ann, bob) = (node.connected(), node.connected());
    assert_eq!(
        node.say(ann, r#"20["call","sum",[1,2]]"#),
        [r#"30[{"ok":false,"code":"no-responder","message":"Nobody serves what was called."}]"#]
    );
    assert_eq!(node.say(bob, r#"20["serve","sum"]"#), [r#"30[{"ok":true,"id":0}]"#]);
    assert!(
        node.say(ann, r#"21["call","sum",[1,2],{"timeout":5000,"headers":{"h":"v"}}]"#).is_empty()
    );
    assert!(node.broker.log.last().unwrap().ends_with("call sum 5s"));
    assert_eq!(node.received(bob), [r#"20["request","sum",[1,2],{"id":3,"last":true,"h":"v"}]"#]);
    node.say(bob, "30[3]");
    assert_eq!(node.received(ann), [r#"31[{"ok":true,"value":3}]"#]);
    // Buffers both ways.
    node.send(ann, true, br#"51-2["call","sum",{"_placeholder":true,"num":0}]"#);
    node.send(ann, false, b"in");
    assert_eq!(node.received(bob)[1], "#in");
    node.send(bob, true, br#"61-1[{"_placeholder":true,"num":0}]"#);
    node.send(bob, false, b"out");
    assert_eq!(
        node.received(ann),
        [r#"61-2[{"ok":true,"value":{"_placeholder":true,"num":0}}]"#, "#out"]
    );
    assert!(
        node.say(ann, r#"2["call","sum",1]"#)[0]
            .starts_with(r#"2["problem",{"event":"call","code":"bad-frame""#)
    );
}

#[test]
fn a_call_that_has_its_answer_is_over_for_a_responder_with_more_to_say() {
    let mut node = Node::new();
    let (ann, bob) = (node.connected(), node.connected());
    node.say(bob, r#"20["serve","sum"]"#);
    node.say(ann, r#"20["call","sum",1]"#);
    assert_eq!(node.received(bob), [r#"20["request","sum",1,{"id":3,"last":true}]"#]);
    assert_eq!(node.say(bob, r#"21["say",3,2]"#), [r#"31[{"ok":true}]"#]);
    assert_eq!(node.received(ann), [r#"30[{"ok":true,"value":2}]"#]);
    node.wait(Span::from_millis(1));
    let ended = node.received(bob).concat();
    assert!(ended.starts_with(r#"2["ended",3,{"ok":false,"code":"call-cancelled""#), "{ended}");
    assert!(node.say(bob, r#"22["say",3,3]"#)[0].contains(r#""ok":false"#), "it is over");
}

#[test]
fn conversations_go_both_ways_until_both_said_the_last() {
    let mut node = Node::new();
    let (ann, bob) = (node.connected(), node.connected());
    node.say(bob, r#"20["serve","chat"]"#);
    assert_eq!(node.say(ann, r#"20["open","chat","hi"]"#), [r#"30[{"ok":true,"id":2}]"#]);
    assert_eq!(node.received(bob), [r#"20["request","chat","hi",{"id":3,"last":false}]"#]);
    assert_eq!(node.say(bob, r#"21["say",3,"hello"]"#), [r#"31[{"ok":true}]"#]);
    assert_eq!(node.received(ann), [r#"2["said",2,"hello",{"last":false}]"#]);
    node.say(ann, r#"2["say",2,{"a":1},{"last":true}]"#);
    assert_eq!(node.received(bob), [r#"2["said",3,{"a":1},{"last":true}]"#]);
    assert!(node.say(ann, r#"21["say",2,1]"#)[0].contains(r#""ok":false"#));
    node.say(bob, "30[\"bye\"]");
    assert_eq!(node.received(ann), [r#"2["said",2,"bye",{"last":true}]"#]);
    assert!(node.say(bob, r#"21["say",3,1]"#)[0].contains(r#""ok":false"#), "it is over");
    node.say(ann, r#"20["open","chat",1]"#);
    node.received(bob);
    assert_eq!(node.say(bob, r#"22["end",5,"enough"]"#), [r#"32[{"ok":true}]"#]);
    assert_eq!(
        node.received(ann),
        [r#"2["ended",4,{"ok":false,"code":"done","message":"enough"}]"#]
    );
}

/// Other protocols can say that they are done without a last value.
#[test]
fn a_bare_end_is_no_value() {
    let mut node = Node::new();
    let (ann, bob) = (node.connected(), node.connected());
    node.say(bob, r#"20["serve","chat"]"#);
    let finish = |node: &mut Node, number| {
        let exchange = ExchangeKey::responder(number);
        let (properties, body) = (Vec::new(), Vec::new());
        let sent = ExchangeSend { exchange, properties, body, last: true, bare: true };
        node.broker.handle(bob, Command::SendExchange(Box::new(sent)));
        node.run();
    };
    node.say(ann, r#"20["open","chat","hi"]"#);
    finish(&mut node, 1);
    assert_eq!(node.received(ann), [r#"2["ended",2,{"ok":true}]"#]);
    assert_eq!(node.say(ann, r#"21["say",2,"still",{"last":true}]"#), [r#"31[{"ok":true}]"#]);
    assert!(node.say(ann, r#"22["say",2,1]"#)[0].contains(r#""ok":false"#), "it is over");
    node.say(ann, r#"23["call","chat",1]"#);
    finish(&mut node, 2);
    assert_eq!(node.received(ann), [r#"33[{"ok":true,"value":null}]"#]);
}

#[test]
fn trouble_is_told_in_the_answer_or_by_an_event() {
    let mut node = Node::with(SocketOptions { subscriptions_max: 1, ..SocketOptions::default() });
    let ann = node.connected();
    let rows = [
        (r#"["subscribe","secret/x"]"#, "not-authorised"),
        (r#"["subscribe","a//b"]"#, "bad-destination"),
        (r#"["subscribe",1]"#, "bad-frame"),
        (r#"["subscribe"]"#, "bad-frame"),
        (r#"["subscribe","a",5]"#, "bad-frame"),
        (r#"["subscribe","a",{"snapshot":"x"}]"#, "bad-frame"),
        (r#"["subscribe","a",{"selector":"(("}]"#, "bad-selector"),
        (r#"["publish","secret/x",1]"#, "not-authorised"),
        (r#"["publish","a/*",1]"#, "bad-destination"),
        (r#"["publish","a"]"#, "bad-frame"),
        (r#"["publish","a",1,{"retain":"x"}]"#, "bad-frame"),
        (r#"["send","a",1,{"persistent":"x"}]"#, "bad-frame"),
        (r#"["send","a",1,{"persistent":true}]"#, "no-store"),
        (r#"["send","a",1,{"delay":-1}]"#, "bad-frame"),
        (r#"["send","a",1,{"deliverAt":"soon"}]"#, "bad-frame"),
        (r#"["send","a",1,{"delay":18446744073709551615}]"#, "bad-schedule"),
        (r#"["send","a",1,{"deliverAt":99999999999999}]"#, "bad-schedule"),
        (r#"["send","a",1,{"group":1}]"#, "bad-frame"),
        (r#"["send","a",1,{"group":""}]"#, "bad-group"),
        (r#"["send","a",1,{"priority":10}]"#, "bad-priority"),
        (r#"["send","a",1,{"priority":-1}]"#, "bad-priority"),
        (r#"["send","a",1,{"priority":"9"}]"#, "bad-priority"),
        (r#"["publish","a",1,{"priority":1.5}]"#, "bad-priority"),
        (r#"["publish","a",1,{"delay":5}]"#, "bad-schedule"),
        (r#"["publish","a",1,{"ttl":-1}]"#, "bad-frame"),
        (r#"["publish","a",1,{"headers":{"x":{}}}]"#, "bad-frame"),
        (r#"["publish","a",1,{"headers":{"Content-Type":"x"}}]"#, "bad-frame"),
        (r#"["receive","q",{"prefetch":0}]"#, "bad-frame"),
        (r#"["unsubscribe","never"]"#, "unknown-subscription"),
        (r#"["say",2,1]"#, "bad-frame"),
        (r#"["nonsense"]"#, "unexpected-frame"),
        (r#"[5]"#, "unexpected-frame"),
        (r#"["__proto__"]"#, "unexpected-frame"),
        (r#"["login",{}]"#, "bad-frame"),
    ];
    for (event, code) in rows {
        let received = node.say(ann, &format!("29{event}"));
        assert!(
            received[0].starts_with(&format!(r#"39[{{"ok":false,"code":"{code}","message":""#)),
            "{event}: {received:?}"
        );
        let received = node.say(ann, &format!("2{event}"));
        assert!(received[0].starts_with(r#"2["problem",{"event":""#), "{event}: {received:?}");
        assert!(received[0].contains(code), "{event}: {received:?}");
    }
    assert_eq!(node.end(ann), None);
    node.say(ann, r#"20["subscribe","a"]"#);
    assert!(node.say(ann, r#"20["subscribe","a"]"#)[0].contains("duplicate-subscription"));
    assert!(node.say(ann, r#"20["subscribe","b"]"#)[0].contains("too-many-subscriptions"));
}

#[test]
fn a_refused_publish_is_blamed_on_nobody_else() {
    let mut node = Node::new();
    let ann = node.connected();
    node.say(ann, r#"2["publish","secret",1]"#);
    assert!(node.say(ann, r#"21["publish","secret",1]"#)[0].contains("not-authorised"));
    assert_eq!(node.say(ann, r#"22["publish","open",1]"#), [r#"32[{"ok":true}]"#]);
}

#[test]
fn own_topics_have_a_short_spelling() {
    let mut node = Node::new();
    let ann = node.open("EIO=4");
    node.say(ann, r#"0{"token":"ann"}"#);
    node.say(ann, r#"2["publish","~/mail",1]"#);
    assert!(node.broker.log.last().unwrap().starts_with("publish topic user/ann/mail "));
    let odd = node.open("EIO=4");
    node.say(odd, r#"0{"user":"a*"}"#);
    assert!(node.say(odd, r#"20["subscribe","~/mail"]"#)[0].contains("bad-destination"));
}

#[test]
fn a_token_is_renewed_in_place() {
    let mut node = Node::new();
    let ann = node.connected();
    assert_eq!(node.say(ann, r#"20["login",{"token":"fresh"}]"#), [r#"30[{"ok":true}]"#]);
    assert!(
        node.say(ann, r#"21["login",{"token":"wrong"}]"#)[0].contains(r#""code":"login-failed""#)
    );
    assert_eq!(node.end(ann), None);
    assert!(node.is_established(ann));
}

#[test]
fn answers_wait_within_a_limit() {
    let mut node = Node::with(SocketOptions { answers_max: 0, ..SocketOptions::default() });
    let ann = node.connected();
    assert!(node.say(ann, r#"20["publish","a",1]"#)[0].contains("too-many-receipts"));
    assert!(node.say(ann, r#"20["subscribe","a"]"#)[0].contains("too-many-receipts"));
    let mut node = Node::with(SocketOptions { exchanges_max: 0, ..SocketOptions::default() });
    let ann = node.connected();
    assert!(node.say(ann, r#"20["call","a",1]"#)[0].contains("too-many-receipts"));
}

#[test]
fn a_client_that_should_not_come_back_is_told_why() {
    let mut node = Node::new();
    let ann = node.connected();
    node.close(ann, CloseCode::LoginFailed.into());
    let received = node.received(ann);
    assert!(received[0].starts_with(r#"2["problem",{"event":"disconnect","code":"login-failed""#));
    assert_eq!(received[1], "1");
    let bob = node.connected();
    node.close(bob, CloseCode::ShuttingDown.into());
    assert!(node.received(bob).is_empty(), "it would not come back by itself");
    let cem = node.connected();
    let to = Addresses::new(["https://b.example.org", "https://c.example.org"]).unwrap();
    node.close(cem, Close::from(CloseCode::Draining).to(to));
    let received = node.received(cem);
    assert_eq!(received.len(), 1, "it would not come back by itself: {received:?}");
    assert!(received[0].starts_with(r#"2["problem",{"event":"disconnect","code":"draining","#));
    let addresses = r#","addresses":["https://b.example.org","https://c.example.org"]}]"#;
    assert!(received[0].ends_with(addresses), "{}", received[0]);
    node.wait(Span::from_secs(100_000));
}

/// The value that an event's attachment makes of the one before.
fn value(event: &str, attachment: &str, old: &[u8]) -> Vec<u8> {
    let bytes = attachment.strip_prefix('#').unwrap().as_bytes();
    match event.contains(r#""delta":"tiderace""#) {
        true => tiderace_delta::runs::decode(old, bytes, 1 << 10).unwrap(),
        false => bytes.to_vec(),
    }
}

#[test]
fn values_as_differences_are_bytes_throughout() {
    let mut node = Node::new();
    let (ann, bob, cem) = (node.connected(), node.connected(), node.connected());
    node.say(ann, r#"2["subscribe","fx/*",{"deltas":"tiderace"}]"#);
    node.say(cem, r#"2["subscribe","fx/*",{"deltas":"vcdiff"}]"#);
    let mut old = Vec::new();
    for at in 1..4 {
        let body = format!(r#"{{"bid":1.0842{at},"ask":1.0848,"name":"euro against dollar"}}"#);
        node.say(bob, &format!(r#"2["publish","fx/eur",{body}]"#));
        let received = node.received(ann);
        let delta = if at > 1 { r#","delta":"tiderace""# } else { "" };
        let event = r#"51-["message","fx/eur",{"_placeholder":true,"num":0},{"version":"#;
        let rest = r#","content-type":"application/json"}]"#;
        assert_eq!(received[0], format!("{event}{at}{delta}{rest}"));
        old = value(&received[0], &received[1], &old);
        assert_eq!(old, body.as_bytes());
        assert_eq!(received[1].len() < 12, at > 1, "{}", received[1]);
        assert_eq!(node.received(cem)[0].contains(r#""delta":"vcdiff""#), at > 1);
    }
    // Another subscription under the same number begins with a whole value.
    node.say(ann, r#"2["unsubscribe","fx/*"]"#);
    node.say(ann, r#"2["subscribe","fx/eur",{"deltas":"tiderace"}]"#);
    node.received(ann);
    node.say(bob, r#"2["publish","fx/eur",[1,2,3,4,5,6,7,8,9]]"#);
    assert_eq!(node.received(ann)[1], "#[1,2,3,4,5,6,7,8,9]");
    let wrong = node.say(ann, r#"20["subscribe","b",{"deltas":true}]"#);
    assert!(wrong[0].contains("`deltas` is one of `tiderace`, `vcdiff`"), "{wrong:?}");
}

#[test]
fn operations_are_answered_like_events() {
    let mut node = Node::new();
    let ann = node.open("EIO=4");
    node.say(ann, r#"0{"token":"ann"}"#);
    let first =
        r#"21["operate",{"do":"update","path":"~/a","value":{"n":1},"if":{"absent":true}}]"#;
    assert_eq!(node.say(ann, first), [r#"31[{"ok":true,"version":1}]"#]);
    let update = r#"21["operate",{"do":"update","path":"~/a","value":{"n":2},"if":{"version":1}}]"#;
    assert_eq!(node.say(ann, update), [r#"31[{"ok":true,"version":2}]"#]);
    let log = node.broker.log.join("\n");
    assert!(log.contains("Path(user/ann/a)") && log.contains("Some(Version(1))"), "{log}");
    let wrong = node.say(ann, r#"22["operate",{"do":"fly"}]"#).concat();
    assert!(wrong.starts_with(r#"32[{"ok":false,"code":"bad-operation""#), "{wrong}");
    let quiet = node.say(ann, r#"2["operate",{"do":"update","path":"a","value":1}]"#);
    assert!(quiet.is_empty(), "{quiet:?}");
    let second = node.say(ann, r#"23["operate",{"do":"update","path":"a"},5]"#).concat();
    assert!(second.contains("is a Buffer"), "{second}");
    let purge = r#"26["operate",{"do":"purge","path":"~/jobs","selector":"a = 'b'"}]"#;
    let unknown = node.say(ann, purge).concat();
    assert!(unknown.starts_with(r#"36[{"ok":false,"code":"queue-unknown""#), "{unknown}");
    node.say(ann, r#"28["send","~/jobs",1]"#);
    assert_eq!(node.say(ann, purge), [r#"36[{"ok":true,"messages":0,"up_to":4}]"#]);
    let purge = r#"29["operate",{"do":"purge","path":"~/jobs"}]"#;
    assert_eq!(node.say(ann, purge), [r#"39[{"ok":true,"messages":1,"up_to":4}]"#]);
    let log = node.broker.log.join("\n");
    assert!(log.contains("Purge { path: Path(user/ann/jobs), selector: Some("), "{log}");
    let wrong =
        node.say(ann, r#"27["operate",{"do":"peek","path":"a","selector":"a ="}]"#).concat();
    assert!(wrong.starts_with(r#"37[{"ok":false,"code":"bad-selector""#), "{wrong}");
    let replay = node
        .say(ann, r#"24["subscribe","log",{"replay":{"last":3},"interval":"1s","notices":true}]"#);
    assert_eq!(replay, [r#"34[{"ok":true,"id":0}]"#]);
    for options in [r#"{"replay":{"all":1}}"#, r#"{"replay":7}"#, r#"{"interval":"soon"}"#] {
        let refused = node.say(ann, &format!(r#"25["subscribe","x",{options}]"#)).concat();
        assert!(refused.contains(r#""ok":false"#), "{options}: {refused}");
    }
}

#[test]
fn own_topics_take_a_login() {
    let mut node = Node::new();
    let nobody = node.connected();
    for event in [r#"20["publish","~/mail",1]"#, r#"20["subscribe","[a, ~/mail]"]"#] {
        let answer = node.say(nobody, event).concat();
        assert!(answer.starts_with(r#"30[{"ok":false,"code":"login-required""#), "{answer}");
    }
}
