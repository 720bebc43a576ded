//! Subscriptions that the broker ends: the event `unsubscribed`, and what becomes of rooms and namespaces.
#![allow(clippy::unwrap_used)]

use crate::support::Node;
use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Reply, SubscriptionKey};

#[test]
fn what_the_broker_ends_is_told_by_name_and_id() {
    let mut node = Node::new();
    let ann = node.connected();
    node.say(ann, r#"2["receive","jobs"]"#);
    node.say(ann, r#"2["subscribe","a/*"]"#);
    let ended = |key| {
        let close = Close::new(CloseCode::UpstreamAway, "It is away.");
        Reply::SubscriptionEnded { key: SubscriptionKey(key), close }
    };
    node.reply(ann, ended(0));
    let told =
        r#"2["unsubscribed","jobs",{"id":0,"code":"upstream-away","message":"It is away."}]"#;
    assert_eq!(node.received(ann), [told]);
    node.reply(ann, ended(1));
    assert!(node.received(ann)[0].starts_with(r#"2["unsubscribed","a/*",{"id":1,"#));
    // They are over.
    for key in [0, 1, 7] {
        node.reply(ann, ended(key));
    }
    assert!(node.received(ann).is_empty());
    let said = node.say(ann, r#"23["cancel","jobs"]"#);
    assert!(said[0].contains("unknown-subscription"), "{said:?}");
    assert_eq!(node.end(ann), None);
}

#[test]
fn a_room_that_the_broker_ends_is_trouble_and_its_namespace_is_left() {
    let mut node = Node::new();
    let ann = node.open("EIO=4");
    node.say(ann, r#"0/app,{"token":"t"}"#);
    node.say(ann, r#"2/app,["join","red"]"#);
    let ended = |key| {
        let close = CloseCode::UpstreamAway.into();
        Reply::SubscriptionEnded { key: SubscriptionKey(key), close }
    };
    node.reply(ann, ended(1));
    let told = node.received(ann);
    assert!(
        told.len() == 1
            && told[0].starts_with(r#"2/app,["problem",{"event":"join","code":"upstream-away""#),
        "{told:?}"
    );
    node.reply(ann, ended(0));
    let told = node.received(ann);
    assert_eq!((told.len(), told[1].as_str()), (2, "1/app,"), "{told:?}");
}
