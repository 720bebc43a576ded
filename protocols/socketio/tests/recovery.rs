//! Connection state recovery: coming back to what was missed.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering;

use crate::support::Node;
use tiderace_base::CloseCode;
use tiderace_wire::Kind;

/// The value of a field of a packet.
fn field(packet: &str, name: &str) -> String {
    let start = packet.find(&format!("\"{name}\":\"")).unwrap() + name.len() + 4;
    packet[start..].split('"').next().unwrap().to_owned()
}

fn offset(event: &str) -> String {
    event.rsplit('"').nth(1).unwrap().to_owned()
}

/// A client with a recoverable subscription: its number and its CONNECT.
fn subscribed(node: &mut Node, token: &str, topic: &str) -> (usize, String) {
    let client = node.open("EIO=4");
    let hello = node.say(client, &format!("0{{\"token\":\"{token}\"}}"))[0].clone();
    let received =
        node.say(client, &format!("20[\"subscribe\",\"{topic}\",{{\"recoverable\":true}}]"));
    assert_eq!(received, [r#"30[{"ok":true,"id":0}]"#]);
    (client, hello)
}

fn publish(node: &mut Node, topic: &str, body: &str) {
    node.broker.publish(Kind::Topic, topic, "content-type:application/json\n", body.as_bytes());
    node.run();
}

#[test]
fn a_client_comes_back_to_what_it_missed() {
    for two_homes in [false, true] {
        let (mut node, _) = Node::remembering();
        node.broker.two_homes = two_homes;
        let (ann, hello) = subscribed(&mut node, "ann", "a/*");
        publish(&mut node, "a/b", "1");
        publish(&mut node, "a/c", "2");
        let received = node.received(ann);
        assert!(received[0].starts_with(r#"2["message","a/b",1,{"version":1},""#), "{received:?}");
        let offset = offset(&received[1]);
        node.cut(ann);
        for (topic, body) in [("a/b", "3"), ("a/c", "4"), ("x", "5"), ("a/d", "6")] {
            publish(&mut node, topic, body);
        }
        let pid = field(&hello, "pid");
        let again = node.open("EIO=4");
        let received = node.say(
            again,
            &format!("0{{\"token\":\"ann\",\"pid\":\"{pid}\",\"offset\":\"{offset}\"}}"),
        );
        assert_eq!(received[0], hello, "the same sid and pid");
        let rest: Vec<&str> =
            received[1..].iter().map(|event| event.split(",{").next().unwrap()).collect();
        assert_eq!(
            rest,
            [r#"2["message","a/b",3"#, r#"2["message","a/c",4"#, r#"2["message","a/d",6"#]
        );
        publish(&mut node, "a/b", "7");
        assert!(node.received(again)[0].starts_with(r#"2["message","a/b",7"#));
        assert!(node.say(again, r#"20["unsubscribe",0]"#)[0].contains("true"), "ids are kept");
    }
}

#[test]
fn a_quiet_client_comes_back_without_an_offset() {
    let (mut node, _) = Node::remembering();
    publish(&mut node, "a", "0");
    let (ann, hello) = subscribed(&mut node, "ann", "a");
    node.cut(ann);
    publish(&mut node, "a", "1");
    let again = node.open("EIO=4");
    let received =
        node.say(again, &format!("0{{\"token\":\"ann\",\"pid\":\"{}\"}}", field(&hello, "pid")));
    assert_eq!(received[0], hello);
    assert_eq!(received.len(), 2, "what was published before it came is not for it: {received:?}");
    assert!(received[1].starts_with(r#"2["message","a",1,"#));
    // Once more, still without a single offset from before.
    node.cut(again);
    publish(&mut node, "a", "2");
    let third = node.open("EIO=4");
    let received =
        node.say(third, &format!("0{{\"token\":\"ann\",\"pid\":\"{}\"}}", field(&hello, "pid")));
    assert_eq!(received.len(), 3);
}

#[test]
fn a_topic_subscribed_to_after_the_last_event_is_not_forgotten() {
    let (mut node, _) = Node::remembering();
    node.broker.two_homes = true;
    let (ann, hello) = subscribed(&mut node, "ann", "a");
    for number in 0..8 {
        publish(&mut node, &format!("t/{number}"), "0");
    }
    publish(&mut node, "a", "1");
    let offset = offset(&node.received(ann)[0]);
    node.say(ann, r#"20["subscribe","t/*",{"recoverable":true}]"#);
    node.cut(ann);
    publish(&mut node, "t/1", "9");
    let again = node.open("EIO=4");
    let pid = field(&hello, "pid");
    let received = node
        .say(again, &format!("0{{\"token\":\"ann\",\"pid\":\"{pid}\",\"offset\":\"{offset}\"}}"));
    assert_eq!(received.len(), 2, "{received:?}");
    assert!(received[1].starts_with(r#"2["message","t/1",9,"#));
}

#[test]
fn what_cannot_be_completed_begins_anew() {
    let (mut node, table) = Node::remembering();
    let (ann, hello) = subscribed(&mut node, "ann", "a");
    node.cut(ann);
    assert_eq!(table.len(), 1);
    node.broker.restart(node.now);
    let again = node.open("EIO=4");
    let received =
        node.say(again, &format!("0{{\"token\":\"ann\",\"pid\":\"{}\"}}", field(&hello, "pid")));
    assert_eq!(received.len(), 1);
    assert_ne!(field(&received[0], "sid"), field(&hello, "sid"));
    assert_ne!(field(&received[0], "pid"), field(&hello, "pid"));
    publish(&mut node, "a", "1");
    assert!(node.received(again).is_empty(), "it has no subscriptions");
    assert_eq!(table.len(), 0);
}

#[test]
fn only_the_owner_comes_back_in_time_and_after_an_accident() {
    let (mut node, table) = Node::remembering();
    let resume = |node: &mut Node, token: &str, pid: &str| {
        let client = node.open("EIO=4");
        let received = node.say(client, &format!("0{{\"token\":\"{token}\",\"pid\":\"{pid}\"}}"));
        field(&received[0], "pid") == pid
    };
    // A stranger with the id.
    let (ann, hello) = subscribed(&mut node, "ann", "a");
    let pid = field(&hello, "pid");
    node.cut(ann);
    assert!(!resume(&mut node, "bob", &pid));
    assert!(resume(&mut node, "ann", &pid));
    assert!(!resume(&mut node, "ann", &pid), "it is in use");
    // Too late.
    let (ann, hello) = subscribed(&mut node, "ann", "a");
    node.cut(ann);
    table.seconds.store(121, Ordering::Relaxed);
    assert!(!resume(&mut node, "ann", &field(&hello, "pid")));
    // Left on purpose.
    let (ann, hello) = subscribed(&mut node, "ann", "a");
    node.say(ann, "1");
    node.cut(ann);
    assert!(!resume(&mut node, "ann", &field(&hello, "pid")));
    // Thrown out.
    let (ann, hello) = subscribed(&mut node, "ann", "a");
    node.say(ann, "nonsense");
    assert_eq!(node.end(ann), Some(CloseCode::BadFrame));
    node.cut(ann);
    assert!(!resume(&mut node, "ann", &field(&hello, "pid")));
    // Nothing to recover.
    let cy = node.open("EIO=4");
    let hello = node.say(cy, "0")[0].clone();
    node.say(cy, r#"2["subscribe","a"]"#);
    node.cut(cy);
    assert!(!resume(&mut node, "anonymous", &field(&hello, "pid")));
    // Names that mean something elsewhere.
    for pid in ["", "__proto__", "constructor", "AAAAAAAAAAAAAAAAAAAAAA"] {
        assert!(!resume(&mut node, "ann", pid));
    }
}

#[test]
fn subscribers_of_one_home_share_their_offsets() {
    let (mut node, _) = Node::remembering();
    let (ann, _) = subscribed(&mut node, "ann", "a");
    let (bob, _) = subscribed(&mut node, "bob", "a");
    publish(&mut node, "a", "1");
    assert_eq!(node.received(ann), node.received(bob));
    let plain = node.connected();
    node.say(plain, r#"20["subscribe","a"]"#);
    publish(&mut node, "a", "2");
    assert_eq!(node.received(plain), [r#"2["message","a",2,{"version":2}]"#], "no offsets unasked");
}

#[test]
fn rooms_are_recovered_where_that_is_chosen() {
    let (mut node, _) = Node::remembering();
    let options = (*node.options).clone();
    node.options = std::sync::Arc::new(tiderace_socketio::SocketOptions {
        application_recovery: true,
        ..options
    });
    let ann = node.open("EIO=4");
    let hello = node.say(ann, r#"0/app,{"token":"ann"}"#)[0].clone();
    node.say(ann, r#"2/app,["join","r"]"#);
    node.broker.publish(Kind::Topic, "io/app/r", "event:e\n", b"x");
    node.run();
    let received = node.received(ann);
    assert!(received[0].starts_with(r#"2/app,["e","x",""#), "{received:?}");
    let offset = offset(&received[0]);
    node.cut(ann);
    node.broker.publish(Kind::Topic, "io/app/r", "event:e\n", b"y");
    node.broker.publish(Kind::Topic, "io/app", "event:e\n", b"z");
    node.run();
    let again = node.open("EIO=4");
    let pid = field(&hello, "pid");
    let received = node.say(
        again,
        &format!("0/app,{{\"token\":\"ann\",\"pid\":\"{pid}\",\"offset\":\"{offset}\"}}"),
    );
    assert_eq!(received[0], hello);
    let mut events: Vec<&str> = received[1..].iter().map(|event| &event[..15]).collect();
    events.sort_unstable();
    assert_eq!(events, [r#"2/app,["e","y","#, r#"2/app,["e","z","#]);
}

#[test]
fn a_subscription_goes_on_where_its_client_was_without_a_record() {
    let (mut node, _) = Node::remembering();
    let (ann, _) = subscribed(&mut node, "ann", "a/*");
    publish(&mut node, "a/b", "1");
    let offset = offset(&node.received(ann)[0]);
    node.cut(ann);
    publish(&mut node, "a/b", "2");
    publish(&mut node, "a/c", "3");
    // As at another server, which has no record of it.
    let again = node.open("EIO=4");
    node.say(again, "0{\"token\":\"ann\"}");
    let subscribe = |offset: &str| {
        format!(r#"21["subscribe","a/*",{{"recoverable":true,"since":"{offset}"}}]"#)
    };
    let received = node.say(again, &subscribe(&offset));
    assert!(received.contains(&r#"31[{"ok":true,"id":0,"recovered":true}]"#.to_owned()));
    let rest: Vec<&str> = received
        .iter()
        .filter(|event| event.starts_with("2["))
        .map(|event| event.split(",{").next().unwrap())
        .collect();
    assert_eq!(rest, [r#"2["message","a/b",2"#, r#"2["message","a/c",3"#]);
    publish(&mut node, "a/b", "4");
    assert_eq!(node.received(again).len(), 1);

    // Nothing is known of what was before the server was started again.
    node.broker.restart(node.now);
    let third = node.open("EIO=4");
    node.say(third, "0{\"token\":\"ann\"}");
    let received = node.say(third, &subscribe(&offset));
    assert_eq!(received, [r#"31[{"ok":true,"id":0,"recovered":false}]"#]);
}

#[test]
fn where_a_subscription_is_to_go_on_has_to_be_an_offset() {
    let (mut node, _) = Node::remembering();
    let ann = node.open("EIO=4");
    node.say(ann, "0{\"token\":\"ann\"}");
    for (options, word) in [
        (r#"{"recoverable":true,"since":7}"#, "last argument"),
        (r#"{"recoverable":true,"since":"?"}"#, "last argument"),
        (r#"{"since":"AQA"}"#, "needs"),
    ] {
        let answer = node.say(ann, &format!(r#"21["subscribe","a",{options}]"#));
        assert!(answer[0].contains(r#""ok":false"#) && answer[0].contains(word), "{answer:?}");
    }
    let answer = node.say(ann, r#"21["subscribe","a",{"recoverable":true,"since":null}]"#);
    assert_eq!(answer, [r#"31[{"ok":true,"id":0}]"#]);
}
