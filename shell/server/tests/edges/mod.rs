//! Edges of the real program: what they pass on, whom they call, what they say when their source is away, and what is refused.

mod calling;
mod chains;
mod faults;
mod nodes;
mod pages;
mod queues;
mod refusals;
mod secured;
mod survival;
mod writing;

use std::process::Command;

use crate::program::Directory;
use nodes::{Front, Node, Stomp, command, upstream, wait};

#[test]
fn an_edge_passes_on_what_its_clients_ask_for_and_says_how_it_stands() {
    let directory = Directory::new("edge");
    let mut source = Node::start(&directory.0, "[topics]\nretain = true\n");
    let edge = Node::start(&directory.0, &upstream(&[source.address], "fx/**", ""));
    source.publish("fx/EUR", "1.09");
    let mut client = Stomp::connect(edge.address);
    client.subscribe("fx.*");
    assert_eq!(client.next(), "1.09");
    source.publish("fx/EUR", "1.10");
    assert_eq!(client.next(), "1.10");

    // What is not the source's is its own; what is, is not published here.
    let mut own = Stomp::connect(edge.address);
    own.subscribe("own");
    edge.publish("own", "1");
    assert_eq!(own.next(), "1");
    let refused = own.send("fx.EUR", "1.11");
    assert!(refused.contains("topic-elsewhere") && refused.contains("london"), "{refused}");

    let state = edge.wait_until("topics", 1.into());
    assert_eq!(state["state"], "connected", "{state}");
    assert_eq!((&state["stale"], &state["subscriptions"]), (&0.into(), &1.into()), "{state}");
    assert!(edge.get("/readyz").ends_with("\r\n\r\nready\n"));
    let metrics = edge.get("/metrics");
    for line in [
        r#"tiderace_upstream_state{upstream="london",state="connected"} 1"#,
        r#"tiderace_upstream_connections_total{upstream="london"} 1"#,
        r#"tiderace_upstream_topics{upstream="london"} 1"#,
        r#"tiderace_upstream_stale_topics{upstream="london"} 0"#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    source.kill();
    edge.wait_for("away");
    wait(|| {
        let state = edge.upstreams().remove(0);
        let problem = state["problem"].as_str().unwrap_or_default();
        if problem.contains("refuses connections") { Ok(()) } else { Err(state.to_string()) }
    });
    let readiness = edge.get("/readyz");
    assert!(readiness.starts_with("HTTP/1.1 200 "), "{readiness}");
    assert!(readiness.contains("\r\n\r\ndegraded: upstream london is away since "), "{readiness}");
    assert!(readiness.contains(", 1 topics are stale; "), "{readiness}");
    let table = command(edge.address, &["upstreams"]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("UPSTREAM  STATE"), "{table}");
    assert!(lines[1].starts_with("london    away"), "{table}");
    assert!(lines[2].starts_with("london: 127.0.0.1:"), "{table}");
    // What is known is still there for those who come.
    let mut late = Stomp::connect(edge.address);
    late.subscribe("fx.*");
    assert_eq!(late.next(), "1.10");
}

#[test]
fn one_command_makes_an_edge() {
    let directory = Directory::new("edge-command");
    let source = Node::start(&directory.0, "");
    let program = env!("CARGO_BIN_EXE_tiderace");
    let url = format!("ws://{}", source.address);
    let mut edge = Command::new(program);
    let edge = Node::of(edge.args(["edge", &url, "--listen", "127.0.0.1:0", "--shards", "2"]));
    edge.wait_for("connected");
    let mut client = Stomp::connect(edge.address);
    client.subscribe("a.b");
    source.publish("a/b", "x");
    assert_eq!(client.next(), "x");
}

#[test]
fn values_come_anew_when_the_source_returns_and_what_is_gone_is_removed() {
    let directory = Directory::new("edge-return");
    let config = "[topics]\nretain = true\n";
    let mut source = Node::start(&directory.0, config);
    let front = Front::of(source.address);
    let edge = Node::start(&directory.0, &upstream(&[front.address], "**", ""));
    for (topic, value) in [("fx/a", "1"), ("fx/b", "2"), ("fx/gone", "3")] {
        source.publish(topic, value);
    }
    let mut client = Stomp::connect(edge.address);
    client.subscribe("fx.*");
    assert_eq!(client.next_of(3), ["1", "2", "3"]);
    source.kill();
    front.lead_to(None);
    edge.wait_for("away");
    let source = Node::start(&directory.0, config);
    source.publish("fx/a", "1");
    source.publish("fx/b", "20");
    front.lead_to(Some(source.address));
    edge.wait_for("connected");
    // The source has begun anew and keeps nothing, so clients begin anew.
    let told = client.frame();
    assert!(told.starts_with("ERROR") && told.contains("upstream-restarted"), "{told}");
    let mut client = Stomp::connect(edge.address);
    client.subscribe("fx.*");
    assert_eq!(client.next_of(2), ["1", "20"]);
    // What is gone may come back.
    source.publish("fx/gone", "30");
    assert_eq!(client.next(), "30");
    edge.wait_until("topics", 3.into());
}
