//! Queues of a source through edges of the real program: senders and consumers that speak STOMP on sockets.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::process::Command;

use crate::program::Directory;

use super::nodes::{Front, Node, Stomp, upstream, wait};

/// An edge that passes on the queues of the source.
fn edge(directory: &Directory, source: SocketAddr) -> Node {
    let node = Node::start(&directory.0, &upstream(&[source], "fx/**", "queues = [\"orders/**\"]"));
    node.wait_for("connected");
    node
}

/// Sends to a queue, and has word that it is there.
fn send(client: &mut Stomp, text: &str) {
    client.say(&format!("SEND\ndestination:/queue/orders.new\nreceipt:p\n\n{text}"));
    let answer = client.frame();
    assert!(answer.starts_with("RECEIPT"), "{answer}");
}

/// A consumer, with messages that came before an answer.
struct Consumer {
    stomp: Stomp,
    come: VecDeque<String>,
}

impl Consumer {
    /// Consumes from the queue, with a prefetch.
    fn new(address: SocketAddr, ack: &str, prefetch: u32) -> Consumer {
        let mut stomp = Stomp::connect(address);
        stomp.say(&format!(
            "SUBSCRIBE\nid:0\ndestination:/queue/orders.new\nack:{ack}\ncredit:{prefetch}\nreceipt:s\n\n"
        ));
        let answer = stomp.frame();
        assert!(answer.starts_with("RECEIPT"), "{answer}");
        Consumer { stomp, come: VecDeque::new() }
    }

    /// The next message.
    fn next(&mut self) -> String {
        let frame = self.come.pop_front().unwrap_or_else(|| self.stomp.frame());
        assert!(frame.starts_with("MESSAGE"), "{frame}");
        frame
    }

    /// Accepts a message; what the server says.
    fn accept(&mut self, frame: &str) -> String {
        let id = header(frame, "ack").unwrap();
        self.stomp.say(&format!("ACK\nid:{id}\nreceipt:a\n\n"));
        loop {
            let answer = self.stomp.frame();
            match answer.starts_with("MESSAGE") {
                true => self.come.push_back(answer),
                false => return answer,
            }
        }
    }
}

fn header<'a>(frame: &'a str, name: &str) -> Option<&'a str> {
    frame.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

fn body(frame: &str) -> &str {
    frame.split_once("\n\n").map_or("", |(_, body)| body)
}

/// What is left in the queue at the source, and how often somebody had it before.
fn left(source: &Node) -> Vec<(String, bool)> {
    let mut reader = Consumer::new(source.address, "auto", 100);
    send(&mut Stomp::connect(source.address), "end");
    let mut all = Vec::new();
    loop {
        let frame = reader.next();
        if body(&frame) == "end" {
            return all;
        }
        all.push((body(&frame).to_owned(), header(&frame, "redelivered") == Some("true")));
    }
}

#[test]
fn two_edges_divide_the_work_and_keep_the_order_of_one_consumer() {
    let directory = Directory::new("edge-queues");
    let source = Node::start(&directory.0, "");
    let edges = [edge(&directory, source.address), edge(&directory, source.address)];
    let mut sender = Stomp::connect(edges[0].address);
    let mut consumers: Vec<Consumer> =
        edges.iter().map(|edge| Consumer::new(edge.address, "client-individual", 1)).collect();
    (0..20).for_each(|number| send(&mut sender, &number.to_string()));
    // Each has one, and gets the next when it has settled that.
    let mut all = BTreeSet::new();
    for _ in 0..10 {
        for consumer in &mut consumers {
            let frame = consumer.next();
            assert!(all.insert(body(&frame).parse::<u32>().unwrap()), "{frame}");
            assert!(consumer.accept(&frame).starts_with("RECEIPT"));
        }
    }
    assert_eq!(all.len(), 20, "each message has come once: {all:?}");
    drop(consumers);
    edges.iter().for_each(|edge| drop(edge.wait_until("consumers", 0.into())));
    // One alone gets them in order.
    let mut consumer = Consumer::new(edges[1].address, "auto", 5);
    (0..20).for_each(|number| send(&mut sender, &number.to_string()));
    for number in 0..20 {
        assert_eq!(body(&consumer.next()), number.to_string());
    }
    edges[1].wait_until("consumers", 1.into());
    let metrics = edges[1].get("/metrics");
    let counted =
        |line: &str| line.starts_with("tiderace_upstream_consumers") && line.ends_with(" 1");
    assert!(metrics.lines().any(counted), "{metrics}");
}

#[test]
fn what_an_edge_leaves_that_is_killed_is_in_the_queue_again() {
    let directory = Directory::new("edge-queues-killed");
    let source = Node::start(&directory.0, "");
    let mut edge = edge(&directory, source.address);
    let mut sender = Stomp::connect(edge.address);
    (0..6).for_each(|number| send(&mut sender, &number.to_string()));
    let mut consumer = Consumer::new(edge.address, "client-individual", 3);
    let first = consumer.next();
    assert_eq!(body(&first), "0");
    assert!(consumer.accept(&first).starts_with("RECEIPT"));
    edge.kill();
    // What comes to the queue before the source knows of that is delivered before what the edge had.
    wait(|| {
        let told = source.get("/manage/queues/orders%2Fnew");
        if told.contains(r#""in_flight":0,"#) { Ok(()) } else { Err(told) }
    });
    let left = left(&source);
    let bodies: BTreeSet<&str> = left.iter().map(|(body, _)| &**body).collect();
    assert_eq!(bodies, ["1", "2", "3", "4", "5"].into(), "{left:?}");
    let again = left.iter().filter(|(_, redelivered)| *redelivered).count();
    assert!(again <= 3, "more is marked than was under way: {left:?}");
}

#[test]
fn a_consumer_stays_while_the_upstream_is_cut_off_and_is_told_what_its_settling_came_to() {
    let directory = Directory::new("edge-queues-cut");
    let source = Node::start(&directory.0, "");
    let front = Front::of(source.address);
    let edge = edge(&directory, front.address);
    let mut consumer = Consumer::new(edge.address, "client-individual", 1);
    let mut other = Consumer::new(edge.address, "client-individual", 1);
    let mut sender = Stomp::connect(source.address);
    (0..2).for_each(|number| send(&mut sender, &number.to_string()));
    let before = consumer.next();
    let _ = other.next();
    front.lead_to(None);
    edge.wait_for("away");
    let answer = consumer.accept(&before);
    assert!(answer.starts_with("ERROR") && answer.contains("delivery-lost"), "{answer}");
    front.lead_to(Some(source.address));
    edge.wait_for("connected");
    // The first has ended by its error; the other is there as it was, and gets both, one after the other.
    let mut got = BTreeSet::new();
    for _ in 0..2 {
        let frame = other.next();
        got.insert(body(&frame).to_owned());
        assert!(other.accept(&frame).starts_with("RECEIPT"));
    }
    assert_eq!(got, ["0".to_owned(), "1".to_owned()].into());
    drop(other);
    edge.wait_until("consumers", 0.into());
    assert!(left(&source).is_empty());
}

#[test]
fn what_is_not_passed_on_is_refused_and_commands_speak_to_the_queue_there() {
    let directory = Directory::new("edge-queues-refused");
    let source = Node::start(&directory.0, "");
    let edge = edge(&directory, source.address);
    let mut client = Stomp::connect(edge.address);
    send(&mut client, "1");
    client.say("BEGIN\ntransaction:t\n\n");
    client.say("SEND\ndestination:/queue/orders.new\ntransaction:t\n\n2");
    client.say("COMMIT\ntransaction:t\nreceipt:c\n\n");
    let answer = client.frame();
    assert!(answer.starts_with("ERROR") && answer.contains("queue-elsewhere"), "{answer}");
    let address = edge.address.to_string();
    let purge = ["queues", "purge", "-s", &address, "--yes", "orders/new"];
    let output = Command::new(env!("CARGO_BIN_EXE_tiderace")).args(purge).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(left(&source).is_empty(), "it was purged there");
    // The edge's own queues are its own.
    let mut own = Stomp::connect(edge.address);
    own.say("SEND\ndestination:/queue/own\nreceipt:o\n\nx");
    assert!(own.frame().starts_with("RECEIPT"));
}
