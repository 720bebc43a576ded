//! The specification of Socket.IO 5 and 4, sentence by sentence.
#![allow(clippy::unwrap_used)]

use crate::support::{self, Node};
use tiderace_base::{CloseCode, Span};
use tiderace_socketio::SocketOptions;

/// "At the beginning of a Socket.IO session, the client MUST send a CONNECT packet. The server MUST
/// respond with either a CONNECT packet if the connection is successful, with the session ID in the
/// payload, or a CONNECT_ERROR packet if the connection is not allowed."
#[test]
fn a_client_connects_and_is_answered() {
    let mut node = Node::new();
    let ann = node.open("EIO=4");
    assert!(node.received(ann).is_empty(), "the server does not begin");
    let received = node.say(ann, "0");
    assert!(
        received[0].starts_with("0{\"sid\":\"") && received[0].len() == 22 && received.len() == 1,
        "{received:?}"
    );
    assert!(node.is_established(ann));
    let bob = node.open("EIO=4");
    let received = node.say(bob, r#"0{"token":"wrong"}"#);
    assert_eq!(
        received,
        [
            r#"4{"message":"Name, password or token was not accepted.","data":{"code":"login-failed"}}"#
        ]
    );
    // It may try again on the same connection.
    assert!(node.say(bob, r#"0{"token":"right"}"#)[0].starts_with("0{"));
}

/// "The server does not receive a CONNECT packet within a given duration: it closes the connection."
#[test]
fn a_client_that_connects_to_nothing_is_closed() {
    let mut node = Node::new();
    let (ann, bob) = (node.open("EIO=4"), node.connected());
    node.wait(Span::from_secs(44));
    assert_eq!(node.end(ann), None);
    node.wait(Span::from_secs(2));
    assert_eq!(node.end(ann), Some(CloseCode::LoginTimeout));
    assert_eq!(node.end(bob), None);
}

/// "A payload with authentication information can be sent."
#[test]
fn credentials_come_in_the_payload_the_query_or_a_field() {
    let mut node = Node::new();
    for (query, packet, login) in [
        ("EIO=4", r#"0{"token":"t"}"#, r#"login None None Some("t")"#),
        ("EIO=4", r#"0{"user":"ann","password":"p"}"#, r#"login Some("ann") Some("p") None"#),
        ("EIO=4&token=x", "0", "login None None None"),
        ("EIO=4", r#"0{"token":5,"__proto__":{"token":"t"}}"#, "login None None None"),
        ("EIO=3&token=x%20y", "2[\"a\"]", r#"login None None Some("x y")"#),
        ("EIO=3&user=ann&password=p", "2[\"a\"]", r#"login Some("ann") Some("p") None"#),
    ] {
        let client = node.open(query);
        node.say(client, packet);
        let logins: Vec<&String> =
            node.broker.log.iter().filter(|line| line.starts_with("login")).collect();
        assert_eq!(*logins[logins.len() - 1], login, "{query} {packet}");
    }
}

/// "The server responds to an unknown namespace with CONNECT_ERROR, message Invalid namespace."
#[test]
fn unknown_namespaces_are_refused_and_the_connection_stays() {
    let mut node = Node::new();
    let ann = node.connected();
    let expected = r#"4/random,{"message":"Invalid namespace","data":{"code":"bad-destination"}}"#;
    for packet in ["0/random", "0/random,", r#"0/random,{"token":"x"}"#] {
        assert_eq!(node.say(ann, packet), [expected]);
    }
    assert_eq!(node.say(ann, "0/constructor")[0], expected.replace("random", "constructor"));
    assert_eq!(node.end(ann), None);
}

/// "Multiple namespaces over one connection; a client leaves one with DISCONNECT, others stay."
#[test]
fn namespaces_are_apart() {
    let mut node = Node::new();
    let ann = node.connected();
    let received = node.say(ann, "0/app,");
    assert!(received[0].starts_with(r#"0/app,{"sid":""#), "{received:?}");
    node.say(ann, r#"20["subscribe","a"]"#);
    assert!(node.say(ann, "1").is_empty());
    assert!(node.broker.log.last().unwrap().starts_with("unsubscribe "));
    assert_eq!(node.end(ann), None);
    assert_eq!(node.say(ann, r#"2/app,7["x"]"#), [r#"3/app,7[{"ok":true}]"#]);
    assert!(node.say(ann, "0")[0].starts_with("0{\"sid\":"), "it may come back");
    node.say(ann, "1/app,");
    node.say(ann, r#"2/app,["x"]"#);
    assert_eq!(node.end(ann), Some(CloseCode::UnexpectedFrame));
}

#[test]
fn socket_ids_differ_each_time() {
    let mut node = Node::new();
    let ann = node.open("EIO=4");
    let first = node.say(ann, "0");
    let other = node.say(ann, "0/app");
    node.say(ann, "1");
    let again = node.say(ann, "0");
    assert_ne!(first, again);
    assert!(!other[0].contains(&first[0][1..]));
}

/// Violations close the whole connection.
#[test]
fn violations_close_the_connection() {
    for packet in [
        "",
        "9",
        "abc",
        "0[]",
        "2",
        "2{}",
        "2[]",
        r#"2["connect"]"#,
        r#"2["disconnect"]"#,
        "1[]",
        "1{}",
        "3[]",
        "31",
        r#"2["a"#,
        r#"2/app,["a"]"#,
        "4{}",
        "0",
        r#"51-["a",{"_placeholder":true,"num":1}]"#,
        r#"599-["a"]"#,
        r#"5["a"]"#,
    ] {
        let mut node = Node::new();
        let ann = node.connected();
        node.say(ann, packet);
        assert!(node.end(ann).is_some(), "{packet}");
    }
    let mut node = Node::new();
    let ann = node.open("EIO=4");
    node.say(ann, r#"2["subscribe","a"]"#);
    assert_eq!(node.end(ann), Some(CloseCode::UnexpectedFrame), "an event before CONNECT");
}

#[test]
fn names_of_events_may_be_numbers() {
    let mut node = Node::new();
    let (ann, bob) = (node.connected(), node.connected());
    node.say(ann, "0/app");
    node.say(bob, "0/app");
    node.say(bob, "2/app,[5,\"x\"]");
    assert_eq!(node.received(ann), [r#"2/app,["5","x"]"#]);
}

/// Protocol 4: "The server connects the client to the namespace `/` at once."
#[test]
fn in_protocol_4_the_main_namespace_is_connected_at_once() {
    let mut node = Node::new();
    let ann = node.open("EIO=3");
    assert_eq!(node.received(ann), ["0"]);
    assert!(node.say(ann, "0").is_empty(), "once more does no harm");
    assert_eq!(node.say(ann, "0/app?token=x"), ["0/app,"]);
    assert_eq!(node.say(ann, "0/random?a=b"), [r#"4/random,"Invalid namespace""#]);
    assert_eq!(node.say(ann, r#"20["subscribe","a"]"#), [r#"30[{"ok":true,"id":1}]"#]);
    node.say(ann, r#"2["publish","a",{"x":"é"}]"#);
    let bad = node.open("EIO=3&token=wrong");
    assert_eq!(node.received(bad), [r#"4"Name, password or token was not accepted.""#]);
    node.wait(Span::from_secs(46));
    assert_eq!(node.end(bad), Some(CloseCode::LoginTimeout));
}

#[test]
fn namespaces_have_a_limit() {
    let options = SocketOptions {
        namespaces_max: 2,
        application_namespaces: vec!["*".to_owned()],
        ..SocketOptions::default()
    };
    let mut node = Node::with(options);
    let ann = node.connected();
    assert!(node.say(ann, "0/a")[0].starts_with("0/a,"));
    assert!(node.say(ann, "0/b")[0].contains("too-many-subscriptions"));
    assert!(node.say(ann, "0/a/b")[0].contains("Invalid namespace"), "`*` is one level");
    assert!(node.say(ann, "0/*")[0].contains("Invalid namespace"));
    node.say(ann, "1/a,");
    assert!(node.say(ann, "0/b")[0].starts_with("0/b,"));
}

/// "Binary packets are followed by exactly so many binary messages."
#[test]
fn attachments_follow_their_packet() {
    let event = br#"51-["publish","a",{"_placeholder":true,"num":0}]"#;
    let mut node = Node::new();
    let ann = node.connected();
    node.send(ann, false, b"stray");
    assert_eq!(node.end(ann), Some(CloseCode::BadFrame), "an attachment of nothing");
    let ann = node.connected();
    node.send(ann, true, event);
    node.say(ann, r#"2["publish","a",1]"#);
    assert_eq!(node.end(ann), Some(CloseCode::BadFrame), "text in between");
    let ann = node.connected();
    node.send(ann, true, event);
    node.wait(Span::from_secs(29));
    assert_eq!(node.end(ann), None);
    node.wait(Span::from_secs(2));
    assert_eq!(node.end(ann), Some(CloseCode::FrameTimeout), "it never came");
    let ann = node.connected();
    node.send(ann, true, event);
    node.send(ann, false, &vec![0; 1 << 20]);
    assert_eq!(node.end(ann), Some(CloseCode::FrameTooLarge), "the sum counts");
    let ann = node.connected();
    node.send(ann, true, format!("2[\"a\",\"{}\"]", "x".repeat(1 << 20)).as_bytes());
    assert_eq!(node.end(ann), Some(CloseCode::FrameTooLarge));
}

#[test]
fn events_of_many_subscribers_are_encoded_alike_over_all_framings() {
    let mut node = Node::new();
    let framings = [
        tiderace_wire::Framing::Messages(&support::MESSAGES),
        tiderace_wire::Framing::Messages(&support::ARMOURED),
        tiderace_wire::Framing::Messages(&support::MESSAGES),
    ];
    let clients: Vec<usize> =
        framings.iter().map(|framing| node.open_framed("EIO=4", *framing)).collect();
    for client in &clients {
        node.say(*client, "0");
        node.say(*client, r#"2["subscribe","a"]"#);
    }
    node.broker.publish(tiderace_wire::Kind::Topic, "a", "", b"\xff\xfe");
    node.run();
    let received: Vec<Vec<String>> = clients.iter().map(|client| node.received(*client)).collect();
    assert_eq!(received[0].len(), 2);
    assert!(received.iter().all(|messages| *messages == received[0]), "{received:?}");
}
