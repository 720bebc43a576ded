//! Application namespaces: broadcasts and rooms, and what back ends see of them.
#![allow(clippy::unwrap_used)]

use crate::support::Node;
use tiderace_base::CloseCode;
use tiderace_socketio::SocketOptions;
use tiderace_wire::Kind;

fn two(options: SocketOptions) -> (Node, usize, usize) {
    let mut node = Node::with(options);
    let (ann, bob) = (node.open("EIO=4"), node.open("EIO=4"));
    for client in [ann, bob] {
        let received = node.say(client, r#"0/app,{"token":"t"}"#);
        assert!(received[0].starts_with("0/app,{\"sid\":"), "{received:?}");
    }
    (node, ann, bob)
}

#[test]
fn what_one_emits_the_others_get() {
    let (mut node, ann, bob) = two(SocketOptions::default());
    assert_eq!(node.say(ann, r#"2/app,0["chat","hi",{"n":1}]"#), [r#"3/app,0[{"ok":true}]"#]);
    assert_eq!(node.received(bob), [r#"2/app,["chat","hi",{"n":1}]"#]);
    for (sent, body) in [
        (r#"["chat",{"n":1}]"#, r#"{"n":1}"#),
        (r#"["chat"]"#, "[]"),
        (r#"["chat",[1,2]]"#, "[1,2]"),
        (r#"["chat",[],[]]"#, "[[],[]]"),
    ] {
        assert!(node.say(ann, &format!("2/app,{sent}")).is_empty(), "not to oneself");
        assert_eq!(node.received(bob), [format!("2/app,{sent}")]);
        let log = node.broker.log.last().unwrap();
        assert!(
            log.starts_with("publish topic io/app [content-type:application/json|event:chat|"),
            "{log}"
        );
        assert!(log.contains(&format!("] {body} Flags")), "{log}");
    }
}

#[test]
fn the_sender_gets_its_own_if_that_is_chosen() {
    let (mut node, ann, _) =
        two(SocketOptions { application_echo: true, ..SocketOptions::default() });
    assert_eq!(node.say(ann, r#"2/app,["chat",1]"#), [r#"2/app,["chat",1]"#]);
}

#[test]
fn rooms_are_topics() {
    let (mut node, ann, bob) = two(SocketOptions::default());
    assert_eq!(node.say(bob, r#"2/app,0["join","lobby"]"#), [r#"3/app,0[{"ok":true,"id":1}]"#]);
    node.say(ann, r#"2/app,["to","lobby","chat","a","b"]"#);
    assert_eq!(node.received(bob), [r#"2/app,["chat","a","b"]"#]);
    assert!(node.broker.log.last().unwrap().starts_with("publish topic io/app/lobby "));
    // A back end publishes into the room, in the plainest form and in the fullest.
    for (properties, body, received) in [
        ("event:news\n", "hello", r#"2/app,["news","hello"]"#),
        ("event:news\ncontent-type:application/json\n", "[1,2]", r#"2/app,["news",[1,2]]"#),
        (
            "event:news\ncontent-type:application/json\narguments:list\n",
            "[1,2]",
            r#"2/app,["news",1,2]"#,
        ),
        ("event:news\narguments:list\n", "x", r#"2/app,["news","x"]"#),
        ("", "x", r#"2/app,["message","x"]"#),
        ("event:disconnect\n", "x", r#"2/app,["message","x"]"#),
    ] {
        node.broker.publish(Kind::Topic, "io/app/lobby", properties, body.as_bytes());
        node.run();
        assert_eq!(node.received(bob), [received]);
    }
    assert_eq!(node.say(bob, r#"2/app,1["leave","lobby"]"#), [r#"3/app,1[{"ok":true}]"#]);
    node.say(ann, r#"2/app,["to","lobby","chat"]"#);
    assert!(node.received(bob).is_empty());
}

#[test]
fn buffers_pass_through_rooms() {
    let (mut node, ann, bob) = two(SocketOptions::default());
    for (head, parts) in [
        (r#"51-/app,["pic",{"_placeholder":true,"num":0}]"#, 1),
        (r#"52-/app,["pic",{"a":{"_placeholder":true,"num":1}},{"_placeholder":true,"num":0}]"#, 2),
    ] {
        node.send(ann, true, head.as_bytes());
        for part in 0..parts {
            node.send(ann, false, format!("part {part}").as_bytes());
        }
        let received = node.received(bob);
        assert_eq!(received[0], head);
        assert_eq!(received.len(), parts + 1);
    }
}

#[test]
fn rules_hold_in_rooms_too() {
    let mut node = Node::with(SocketOptions {
        application_prefix: "secret".to_owned(),
        ..SocketOptions::default()
    });
    let ann = node.open("EIO=4");
    assert!(node.say(ann, "0/app")[0].contains(r#""code":"not-authorised""#));
    let (mut node, ann, _) = two(SocketOptions::default());
    assert!(node.say(ann, r#"2/app,0["join","a/*"]"#)[0].contains("bad-destination"));
    assert!(node.say(ann, r#"2/app,0["join",""]"#)[0].contains("bad-frame"));
    assert!(node.say(ann, r#"2/app,0["leave",""]"#)[0].contains("bad-frame"));
    assert!(node.say(ann, r#"2/app,0["to","r",5]"#)[0].contains("bad-frame"));
    assert!(node.say(ann, r#"2/app,["to"]"#)[0].starts_with(r#"2/app,["problem",{"event":"to""#));
    assert_eq!(node.end(ann), None);
    assert_eq!(node.end(ann), None::<CloseCode>);
}
