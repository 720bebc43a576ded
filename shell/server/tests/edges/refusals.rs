//! What an upstream refuses, and what the edge says of it in its log.

use super::nodes::{Front, Node, Stomp, upstream};
use crate::program::Directory;

/// The first line of the log about a connection that failed.
fn complaint(edge: &mut Node) -> String {
    edge.said("upstream-failed")
}

#[test]
fn a_circle_of_upstreams_is_refused() {
    let directory = Directory::new("edge-circle");
    let front = Front::of("127.0.0.1:9".parse().unwrap());
    front.lead_to(None);
    let one = format!("node = \"one\"\n{}", upstream(&[front.address], "fx/**", ""));
    let one = Node::start(&directory.0, &one);
    let two = format!("node = \"two\"\n{}", upstream(&[one.address], "fx/**", ""));
    let mut two = Node::start(&directory.0, &two);
    two.wait_for("connected");
    // A server that is its own upstream, by another name than its own.
    front.lead_to(Some(one.address));
    one.wait_until("state", "away".into());
    let problem = refused(&one);
    assert!(problem.contains("let no node be an upstream of its own upstreams"), "{problem}");
    two.kill();
}

/// A server that asks its upstream every second whether it is there, and has its edges ask as often.
fn asking(node: &str, upstream_at: std::net::SocketAddr) -> String {
    let upstream = upstream(&[upstream_at], "fx/**", "timeout = \"1s\"");
    format!("node = \"{node}\"\n[native]\nping_interval = \"1s\"\n{upstream}")
}

/// Waits until the server says of its upstream that it is refused for what is above it.
fn refused(node: &Node) -> String {
    super::nodes::wait(|| {
        let said = node.upstreams()[0]["problem"].as_str().unwrap_or_default().to_owned();
        if said.contains("upstream-circle") { Ok(said) } else { Err(said) }
    })
}

#[test]
fn a_circle_of_three_is_found_however_it_came_to_be() {
    let directory = Directory::new("edge-circle-of-three");
    let front = Front::of("127.0.0.1:9".parse().unwrap());
    front.lead_to(None);
    let one = Node::start(&directory.0, &asking("one", front.address));
    let two = Node::start(&directory.0, &asking("two", one.address));
    two.wait_for("connected");
    let three = Node::start(&directory.0, &asking("three", two.address));
    three.wait_for("connected");
    // The first has it closed, without a login at any of the two others.
    front.lead_to(Some(three.address));
    let problem = refused(&one);
    assert!(problem.contains("`one`"), "{problem}");
    // A client does not wait for the circle to answer itself.
    let mut client = Stomp::connect(three.address);
    client.subscribe("fx/a");
    // Without the circle all goes on: `one` has a source now.
    let config = "node = \"source\"\n[native]\nping_interval = \"1s\"\n";
    let source = Node::start(&directory.0, config);
    front.lead_to(Some(source.address));
    for node in [&one, &two, &three] {
        node.wait_for("connected");
    }
    source.publish("fx/a", "1");
    assert_eq!(client.next(), "1");
}

#[test]
fn a_chain_is_not_longer_than_four_connections() {
    let directory = Directory::new("edge-chain");
    let front = Front::of("127.0.0.1:9".parse().unwrap());
    front.lead_to(None);
    let first = Node::start(&directory.0, &asking("edge-1", front.address));
    let mut chain = vec![first];
    for number in 2..=4 {
        let above = chain.last().unwrap().address;
        let node = Node::start(&directory.0, &asking(&format!("edge-{number}"), above));
        node.wait_for("connected");
        chain.push(node);
    }
    let last = Node::start(&directory.0, &asking("edge-5", chain.last().unwrap().address));
    // Four connections lead up from the fifth as long as the first has nobody above it.
    last.wait_for("connected");
    let source = Node::start(&directory.0, "node = \"source\"\n");
    front.lead_to(Some(source.address));
    for node in &chain {
        node.wait_for("connected");
    }
    let problem = refused(&last);
    assert!(problem.contains("by 5 connections, one behind the other; at most 4"), "{problem}");
}

#[test]
fn a_login_that_is_refused_says_which_options_to_see_to() {
    let directory = Directory::new("edge-login");
    let secret = directory.0.join("password");
    std::fs::write(&secret, "right\n").unwrap();
    let config = format!(
        "[[user]]\nname = \"edge\"\npassword = \"file:{}\"\n[[rule]]\nallow = [\"publish\", \"subscribe\"]\n\
         principals = [\"user:edge\"]\n",
        secret.display()
    );
    let source = Node::start(&directory.0, &config);
    let wrong = directory.0.join("wrong");
    std::fs::write(&wrong, "wrong\n").unwrap();
    let of = |file: &std::path::Path| {
        let login = format!("user = \"edge\"\npassword = \"file:{}\"", file.display());
        upstream(&[source.address], "**", &login)
    };
    let mut edge = Node::start(&directory.0, &of(&wrong));
    let said = complaint(&mut edge);
    assert!(said.contains("(login-failed): see to `token`, or `user` and `password`"), "{said}");
    Node::start(&directory.0, &of(&secret)).wait_for("connected");
    let mut edge = Node::start(&directory.0, &upstream(&[source.address], "**", ""));
    let said = complaint(&mut edge);
    assert!(said.contains("(login-required): see to `token`"), "{said}");
}

#[test]
fn a_name_that_nobody_knows_is_said_to_be_one() {
    let directory = Directory::new("edge-name");
    let config =
        "[[upstream]]\nname = \"london\"\nurls = [\"ws://source.invalid:1\"]\ntopics = [\"**\"]\n";
    let mut edge = Node::start(&directory.0, config);
    let said = complaint(&mut edge);
    assert!(said.contains("source.invalid cannot be resolved"), "{said}");
}
