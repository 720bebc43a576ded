//! Edges that end, sources that return, and clients that go on: nothing is missed that nobody is told of.

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::nodes::{Events, Front, Node, Stomp, TIMEOUT, command, upstream};
use crate::clients::subscribe::subscribe;
use crate::program::Directory;

const VALUES: &str = "[topics]\nretain = true\n";

/// Passes on each line that is written.
struct Lines(Sender<String>, Vec<u8>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.1.extend_from_slice(bytes);
        while let Some(end) = self.1.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.1.drain(..=end).collect();
            // Nobody may listen any more.
            let _ = self.0.send(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The example of the Rust client, at several addresses.
fn follow(servers: &[&Node], pattern: &str, count: u64) -> Receiver<String> {
    let servers: Vec<String> = servers.iter().map(|node| node.address.to_string()).collect();
    let (servers, pattern) = (servers.join(","), pattern.to_owned());
    let (say, lines) = channel();
    thread::spawn(move || {
        let mut out = Lines(say.clone(), Vec::new());
        if let Err(error) = subscribe(&servers, &pattern, count, &mut out) {
            let _ = say.send(format!("it failed: {error}"));
        }
    });
    lines
}

fn line(lines: &Receiver<String>) -> String {
    lines.recv_timeout(TIMEOUT).unwrap()
}

#[test]
fn a_client_goes_to_another_edge_and_misses_nothing() {
    let directory = Directory::new("edge-ends");
    let source = Node::start(&directory.0, VALUES);
    let config = upstream(&[source.address], "fx/**", "");
    let mut first = Node::start(&directory.0, &config);
    let second = Node::start(&directory.0, &config);
    let lines = follow(&[&first, &second], "fx/**", 1000);
    let mut writer = Stomp::connect(source.address);
    let mut publish = |number: u64| {
        assert!(writer.send("fx.EUR", &number.to_string()).starts_with("RECEIPT"));
    };
    publish(0);
    assert_eq!(line(&lines), "fx/EUR 0");
    for number in 1..1000 {
        publish(number);
        if number == 400 {
            first.kill();
        }
        if number < 400 {
            assert_eq!(line(&lines), format!("fx/EUR {number}"));
        }
    }
    for number in 400..1000 {
        assert_eq!(line(&lines), format!("fx/EUR {number}"));
    }
}

#[test]
fn a_stream_of_events_goes_on_at_another_edge() {
    let directory = Directory::new("edge-events");
    let source = Node::start(&directory.0, VALUES);
    let config = upstream(&[source.address], "fx/**", "");
    let edges = [(); 2].map(|()| Node::start(&directory.0, &config));
    let mut events = Events::open(edges[0].address, "topic=fx/EUR", None);
    assert_eq!(events.event().0, "ready");
    let mut last = String::new();
    for number in ["1", "2"] {
        source.publish("fx/EUR", number);
        let (name, id, data) = events.event();
        assert_eq!((name.as_str(), data.as_str()), ("", number));
        last = id;
    }
    drop(events);
    source.publish("fx/EUR", "3");
    source.publish("fx/EUR", "4");
    let mut events = Events::open(edges[1].address, "topic=fx/EUR", Some(&last));
    assert_eq!(events.event().0, "recovered");
    let mut next = events.event().2;
    if next == "2" {
        // The edge may not have known yet that nothing before it was missing.
        next = events.event().2;
    }
    assert_eq!((next.as_str(), events.event().2.as_str()), ("3", "4"));
}

#[test]
fn two_edges_stand_behind_each_other() {
    let directory = Directory::new("edge-chain");
    let source = Node::start(&directory.0, VALUES);
    let mut middle = Node::start(&directory.0, &upstream(&[source.address], "**", ""));
    let spare = Node::start(&directory.0, &upstream(&[source.address], "**", ""));
    let config = upstream(&[middle.address, spare.address], "fx/**", "");
    let last = Node::start(&directory.0, &config);
    let lines = follow(&[&last], "fx/*", 4);
    source.publish("fx/a", "1");
    assert_eq!(line(&lines), "fx/a 1");
    source.publish("fx/b", "2");
    assert_eq!(line(&lines), "fx/b 2");
    // It goes on by the other address of its upstream, and so do its clients, with nothing missed.
    middle.kill();
    source.publish("fx/a", "3");
    assert_eq!(line(&lines), "fx/a 3");
    source.publish("fx/b", "4");
    assert_eq!(line(&lines), "fx/b 4");
    last.wait_for("connected");
}

#[test]
fn values_that_are_kept_are_not_told_again() {
    let directory = Directory::new("edge-kept");
    let store = directory.0.join("store");
    let config = format!(
        "[store]\ndirectory = {:?}\n[topics]\nretain = true\npersistent = true\n",
        store.to_str().unwrap()
    );
    let mut source = Node::start(&directory.0, &config);
    let front = Front::of(source.address);
    let edge = Node::start(&directory.0, &upstream(&[front.address], "**", ""));
    for topic in ["fx/a", "fx/b", "fx/c"] {
        source.publish(topic, "1");
    }
    let mut client = Stomp::connect(edge.address);
    client.subscribe("fx.*");
    assert_eq!(client.next_of(3), ["1", "1", "1"]);
    source.kill();
    front.lead_to(None);
    edge.wait_for("away");
    let source = Node::start(&directory.0, &config);
    front.lead_to(Some(source.address));
    edge.wait_for("connected");
    // The next message is the first that is new.
    source.publish("fx/b", "2");
    assert_eq!(client.next(), "2");
    edge.wait_until("topics", 3.into());
}

#[test]
fn topics_of_a_source_that_is_away_for_long_are_removed_and_come_back() {
    let directory = Directory::new("edge-away");
    let source = Node::start(&directory.0, VALUES);
    let front = Front::of(source.address);
    let more = "when_away = \"remove after 300ms\"\ntimeout = \"0s\"";
    let edge = Node::start(&directory.0, &upstream(&[front.address], "**", more));
    source.publish("fx/a", "1");
    let mut client = Stomp::connect(edge.address);
    client.subscribe("fx.a");
    assert_eq!(client.next(), "1");
    front.lead_to(None);
    assert_eq!(client.next(), "", "that it is removed");
    edge.wait_until("topics", 0.into());
    front.lead_to(Some(source.address));
    edge.wait_for("connected");
    let mut client = Stomp::connect(edge.address);
    client.subscribe("fx.a");
    assert_eq!(client.next(), "1", "the value, which has not changed");
    source.publish("fx/a", "2");
    assert_eq!(client.next(), "2");
}

#[test]
fn edges_may_be_there_before_their_source_and_come_back_after_it() {
    let directory = Directory::new("edge-order");
    let source = Node::start(&directory.0, VALUES);
    let front = Front::of(source.address);
    front.lead_to(None);
    let config = upstream(&[front.address], "**", "");
    let mut edge = Node::start(&directory.0, &config);
    let mut early = Stomp::connect(edge.address);
    early.subscribe("fx.a");
    front.lead_to(Some(source.address));
    edge.wait_for("connected");
    source.publish("fx/a", "1");
    assert_eq!(early.next(), "1");
    // The edge is started again while its source is away, then the source returns.
    edge.kill();
    front.lead_to(None);
    let edge = Node::start(&directory.0, &config);
    let mut client = Stomp::connect(edge.address);
    client.subscribe("fx.a");
    front.lead_to(Some(source.address));
    edge.wait_for("connected");
    assert_eq!(client.next(), "1");
    let output = command(edge.address, &["upstreams"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("london"), "{output:?}");
}

#[test]
fn what_is_stored_of_a_name_that_an_upstream_has_by_now_waits_in_the_store() {
    let directory = Directory::new("edge-stored-elsewhere");
    let store = directory.0.join("store");
    let stored = format!(
        "[store]\ndirectory = {:?}\n[topics]\nretain = true\npersistent = true\n",
        store.to_str().unwrap()
    );
    let send = |node: &Node, persistent: bool, text: &str| {
        let mut client = Stomp::connect(node.address);
        client.say(&format!(
            "SEND\ndestination:/queue/orders.new\npersistent:{persistent}\nreceipt:p\n\n{text}"
        ));
        let answer = client.frame();
        assert!(answer.starts_with("RECEIPT"), "{answer}");
    };
    let consume = |node: &Node| {
        let mut client = Stomp::connect(node.address);
        client.say("SUBSCRIBE\nid:0\ndestination:/queue/orders.new\nack:client\n\n");
        client.next()
    };
    let mut alone = Node::start(&directory.0, &stored);
    // So often that a version of the source is not above it.
    (0..5).for_each(|number| alone.publish("fx/a", &format!("own {number}")));
    alone.publish("own", "1");
    send(&alone, true, "own");
    alone.kill();

    let source = Node::start(&directory.0, VALUES);
    source.publish("fx/a", "of the source");
    let config = stored.clone() + &upstream(&[source.address], "fx/**", "queues = [\"orders/**\"]");
    let mut edge = Node::start(&directory.0, &config);
    let said = edge.said("stored-elsewhere");
    assert!(said.contains("\"count\":2") && said.contains("london"), "{said}");
    edge.wait_for("connected");
    let mut client = Stomp::connect(edge.address);
    client.subscribe("fx.a");
    assert_eq!(client.next(), "of the source");
    let mut client = Stomp::connect(edge.address);
    client.subscribe("own");
    assert_eq!(client.next(), "1");
    send(&source, false, "of the source");
    assert_eq!(consume(&edge), "of the source");
    edge.kill();

    // Nothing of it is lost.
    let alone = Node::start(&directory.0, &stored);
    let mut client = Stomp::connect(alone.address);
    client.subscribe("fx.a");
    assert_eq!(client.next(), "own 4");
    assert_eq!(consume(&alone), "own");
}
