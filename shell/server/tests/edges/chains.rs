//! An edge of an edge of the real program: what ends between the two ends alone.

use std::net::SocketAddr;

use super::nodes::{Front, Node, Stomp, upstream, wait};
use crate::program::Directory;

fn edge(directory: &Directory, above: SocketAddr) -> Node {
    let node = Node::start(&directory.0, &upstream(&[above], "fx/**", "queues = [\"orders/**\"]"));
    node.wait_for("connected");
    node
}

fn begin(address: SocketAddr, subscribe: &str) -> Stomp {
    let mut client = Stomp::connect(address);
    client.say(&format!("SUBSCRIBE\nid:0\n{subscribe}receipt:s\n\n"));
    let answer = client.frame();
    assert!(answer.starts_with("RECEIPT"), "{answer}");
    client
}

fn send(client: &mut Stomp, queue: &str, text: &str) {
    client.say(&format!("SEND\ndestination:/queue/{queue}\nreceipt:p\n\n{text}"));
    let answer = client.frame();
    assert!(answer.starts_with("RECEIPT"), "{answer}");
}

#[test]
fn a_browser_that_loses_its_place_above_ends_alone() {
    let directory = Directory::new("edge-chain-browser");
    let source = Node::start(&directory.0, "");
    let front = Front::of(source.address);
    let middle = edge(&directory, front.address);
    let last = edge(&directory, middle.address);
    let at = last.address;
    let shown = "destination:/queue/orders.shown\nbrowser:true\nbrowser-end:false\n";
    let mut browser = begin(at, shown);
    let mut late = begin(at, "destination:/queue/orders.late\nfrom-seq:-1\n");
    let mut consumer = begin(at, "destination:/queue/orders.new\n");
    let mut topic = begin(at, "destination:/topic/fx.EUR\n");
    let mut sender = Stomp::connect(source.address);
    for (queue, client) in
        [("orders.shown", &mut browser), ("orders.late", &mut late), ("orders.new", &mut consumer)]
    {
        send(&mut sender, queue, "1");
        assert_eq!(client.next(), "1");
    }
    source.publish("fx/EUR", "1");
    assert_eq!(topic.next(), "1");
    // What the source has not heard of it delivers again.
    wait(|| {
        let told = source.get("/manage/queues/orders%2Fnew");
        let is_done = told.contains(r#""messages":0,"#) && told.contains(r#""in_flight":0,"#);
        if is_done { Ok(()) } else { Err(told) }
    });
    front.lead_to(None);
    middle.wait_for("away");
    for (client, queue) in [(&mut browser, "orders.shown"), (&mut late, "orders.late")] {
        let told = client.frame();
        assert!(told.starts_with("ERROR") && told.contains("\ncode:upstream-away\n"), "{told}");
        let named = format!("\nsubscription:0\ndestination:/queue/{queue}\n");
        assert!(told.contains(&named), "{told}");
    }
    front.lead_to(Some(source.address));
    middle.wait_for("connected");
    source.publish("fx/EUR", "2");
    assert_eq!(topic.next(), "2");
    send(&mut sender, "orders.new", "2");
    assert_eq!(consumer.next(), "2");
    // Its link is the one that it began with.
    let metrics = last.get("/metrics");
    let line = r#"tiderace_upstream_connections_total{upstream="london"} 1"#;
    assert!(metrics.contains(line), "{metrics}");
    drop((browser, late));
    last.wait_until("consumers", 1.into());
}
