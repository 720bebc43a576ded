//! Published defects of other implementations, one test each.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::Node;
use tiderace_base::CloseCode;

/// CVE-2022-2421, CVE-2023-32695: `num` of a placeholder was trusted.
#[test]
fn placeholders_name_attachments_and_nothing_else() {
    for number in
        ["1", "-1", "0.5", "1e1", "\"splice\"", "null", "true", "{}", "99999999999999999999"]
    {
        let mut node = Node::new();
        let ann = node.connected();
        node.say(ann, &format!(r#"51-["publish","a",{{"_placeholder":true,"num":{number}}}]"#));
        assert_eq!(node.end(ann), Some(CloseCode::BadFrame), "{number}");
    }
}

/// The same, hidden from a search for the word and among equal names.
#[test]
fn placeholders_are_found_however_they_are_spelt() {
    for value in [
        r#"{"_placehol\u0064er":true,"num":7}"#,
        r#"{"_placeholder":true,"num":0,"num":7}"#,
        r#"{"_placeholder":false,"_placeholder":true,"num":7}"#,
        r#"{"a":[[{"b":{"_placeholder" : true , "n\u0075m" : 7}}]]}"#,
    ] {
        let mut node = Node::new();
        let ann = node.connected();
        node.say(ann, &format!(r#"51-["publish","a",{value}]"#));
        assert_eq!(node.end(ann), Some(CloseCode::BadFrame), "{value}");
    }
}

/// CVE-2026-33151: attachments without limit.
#[test]
fn announced_attachments_have_a_limit_and_cost_nothing() {
    for count in ["11", "4294967296", "999999999999999999999999"] {
        let mut node = Node::new();
        let ann = node.connected();
        node.say(ann, &format!(r#"5{count}-["a"]"#));
        assert!(node.end(ann).is_some(), "{count}");
    }
    // Empty attachments count as well: the packet is over when all have come.
    let mut node = Node::new();
    let ann = node.connected();
    node.send(ann, true, br#"510-["publish","a",{"_placeholder":true,"num":9}]"#);
    for _ in 0..10 {
        node.send(ann, false, b"");
    }
    assert!(node.broker.log.last().unwrap().starts_with("publish topic a "));
    node.send(ann, false, b"");
    assert_eq!(node.end(ann), Some(CloseCode::BadFrame));
}

/// CVE-2022-23913 in our terms: memory for clients that have not logged in.
#[test]
fn attachments_are_not_gathered_before_the_client_is_known() {
    for (query, packet) in [
        ("EIO=4", r#"51-["a",{"_placeholder":true,"num":0}]"#),
        ("EIO=4", r#"61-0[{"_placeholder":true,"num":0}]"#),
        ("EIO=4", r#"51-/app,["a",{"_placeholder":true,"num":0}]"#),
        ("EIO=3", r#"51-/app,["a",{"_placeholder":true,"num":0}]"#),
    ] {
        let mut node = Node::new();
        let client = node.open(query);
        node.say(client, packet);
        assert_eq!(node.end(client), Some(CloseCode::UnexpectedFrame), "{query} {packet}");
    }
}

/// CVE-2024-38355: an event named `error` ended the process.
#[test]
fn no_name_of_an_event_is_special_inside() {
    let mut node = Node::new();
    let ann = node.connected();
    for name in ["error", "__proto__", "constructor", "toString", "", "\\u0000", "message"] {
        let received = node.say(ann, &format!(r#"2["{name}",1]"#));
        assert!(received[0].starts_with(r#"2["problem","#), "{name}");
    }
    node.say(ann, "0/app");
    for name in ["error", "__proto__", "constructor"] {
        assert_eq!(node.say(ann, &format!(r#"2/app,1["{name}",1]"#)), [r#"3/app,1[{"ok":true}]"#]);
    }
    assert_eq!(node.end(ann), None);
}

/// CVE-2020-36049: a parser that took memory in proportion to the square of the packet.
#[test]
fn large_packets_take_one_pass() {
    let mut node = Node::new();
    let ann = node.connected();
    let list = "{},".repeat(100_000);
    assert_eq!(node.say(ann, &format!(r#"20["publish","a",[{list}1]]"#)), [r#"30[{"ok":true}]"#]);
    let digits = "1".repeat(1_000_000);
    node.say(ann, &format!("2{digits}[\"a\"]"));
    assert!(node.end(ann).is_some());
    let ann = node.connected();
    node.say(ann, &"[".repeat(1_000_000));
    assert!(node.end(ann).is_some());
    let ann = node.connected();
    node.say(ann, &format!("2[\"a\",{}", "[".repeat(1_000_000)));
    assert!(node.end(ann).is_some());
}

/// A published event may not make other clients end their connections.
#[test]
fn what_one_publishes_does_no_harm_to_another() {
    let mut node = Node::new();
    let (ann, bob) = (node.connected(), node.connected());
    node.say(ann, "0/app");
    node.say(ann, r#"2["subscribe","io/app"]"#);
    node.say(
        bob,
        r#"2["publish","io/app",1,{"headers":{"event":"disconnect","arguments":"list"}}]"#,
    );
    node.say(bob, r#"2["publish","io/app",{"_placeholder":true,"num":5}]"#);
    let received = node.received(ann);
    assert!(received.contains(&r#"2/app,["message",1]"#.to_owned()), "{received:?}");
    // Not a binary packet, so its reader takes it for the object it is.
    assert!(received.iter().all(|packet| packet.starts_with('2')), "{received:?}");
    node.broker.publish(
        tiderace_wire::Kind::Topic,
        "io/app",
        "content-type:application/vnd.tiderace.attachments\n",
        b"\x1e{\"_placeholder\":true,\"num\":9}\x01x",
    );
    node.run();
    assert!(
        node.received(ann)[0].starts_with(r#"51-/app,["message",{"_placeholder":true,"num":0}]"#)
    );
    // More attachments than readers take in one packet.
    let body = [&b"\x011"[..], &[0; 11]].concat();
    let properties = "content-type:application/vnd.tiderace.attachments\n";
    node.broker.publish(tiderace_wire::Kind::Topic, "io/app", properties, &body);
    node.run();
    assert!(
        node.received(ann)[0].starts_with(r#"51-/app,["message",{"_placeholder":true,"num":0}]"#)
    );
}

/// An answer may hold a mebibyte, and is asked for with a few bytes.
#[test]
fn large_answers_are_asked_for_a_few_at_a_time() {
    let mut node = Node::new();
    let ann = node.connected();
    node.broker.unanswered = Some(Vec::new());
    let fetch =
        |ack: u32| format!(r#"2{ack}["operate",{{"do":"fetch","selector":"**","values":true}}]"#);
    for ack in 0..16 {
        assert!(node.say(ann, &fetch(ack)).is_empty(), "{ack}");
    }
    for ack in 16..100 {
        let received = node.say(ann, &fetch(ack)).concat();
        assert!(received.contains("too-many-receipts"), "{received}");
    }
    assert!(node.say(ann, r#"2100["operate",{"do":"update","path":"a","value":1}]"#).is_empty());
    let tokens = node.broker.unanswered.replace(Vec::new()).unwrap();
    assert_eq!(tokens.len(), 17);
    let result = Box::new(tiderace_wire::OperationResult::Done);
    node.reply(ann, tiderace_wire::Reply::Operated { token: tokens[0], result });
    let close = CloseCode::NotAuthorised.into();
    node.reply(ann, tiderace_wire::Reply::Refused { token: Some(tokens[1]), close });
    assert_eq!(node.received(ann).len(), 2);
    for (ack, received) in [(101, 0), (102, 0), (103, 1)] {
        assert_eq!(node.say(ann, &fetch(ack)).len(), received, "two were answered");
    }
}
