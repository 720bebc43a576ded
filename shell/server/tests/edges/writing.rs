//! Edges of the real program that pass on what their clients publish and do.

use std::net::SocketAddr;

use crate::program::Directory;

use super::nodes::{Front, Node, Stomp, command, upstream};

/// An edge that passes requests on.
fn edge(directory: &Directory, source: SocketAddr, more: &str) -> Node {
    Node::start(&directory.0, &upstream(&[source], "fx/**", &format!("write = true\n{more}")))
}

#[test]
fn what_is_confirmed_through_an_edge_is_at_the_source() {
    let directory = Directory::new("edge-writes");
    let source = Node::start(&directory.0, "[topics]\nretain = true\n");
    let edge = edge(&directory, source.address, "");
    edge.wait_for("connected");
    let mut reader = Stomp::connect(source.address);
    reader.subscribe("fx.*");
    // STOMP with receipts, the native protocol, REST, and all of it in order.
    let mut client = Stomp::connect(edge.address);
    for number in 0..20 {
        let answer = client.send("fx.a", &number.to_string());
        assert!(answer.starts_with("RECEIPT"), "{answer}");
        assert_eq!(reader.next(), number.to_string());
    }
    edge.publish("fx/b", "native");
    assert_eq!(reader.next(), "native");
    let answer = edge.post("/topics/fx/c", "rest");
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
    assert_eq!(reader.next(), "rest");
    // Its own clients see it, by way of the source.
    let mut own = Stomp::connect(edge.address);
    own.subscribe("fx.a");
    assert_eq!(own.next(), "19");
    let metrics = edge.get("/metrics");
    assert!(metrics.contains("tiderace_upstream_relayed_total"), "{metrics}");
    // What belongs to a session is told from what is passed on.
    let output = command(edge.address, &["pub", "other/a", "x"]).output().unwrap();
    assert!(output.status.success(), "its own topics are as before: {output:?}");
}

#[test]
fn publishers_are_told_what_was_taken_while_the_source_comes_and_goes() {
    let directory = Directory::new("edge-writes-away");
    let mut source = Node::start(&directory.0, "");
    let front = Front::of(source.address);
    let edge = edge(&directory, front.address, "timeout = \"100ms\"");
    edge.wait_for("connected");
    let mut client = Stomp::connect(edge.address);
    assert!(client.send("fx.a", "1").starts_with("RECEIPT"));
    source.kill();
    front.lead_to(None);
    edge.wait_for("away");
    let refused = client.send("fx.a", "2");
    let is_told = refused.contains("upstream-away") || refused.contains("outcome-unknown");
    assert!(refused.starts_with("ERROR") && is_told, "{refused}");
    let source = Node::start(&directory.0, "");
    front.lead_to(Some(source.address));
    edge.wait_for("connected");
    let mut client = Stomp::connect(edge.address);
    assert!(client.send("fx.a", "3").starts_with("RECEIPT"));
}
