//! What an upstream refuses, and what the edge says of it in its log.

use super::nodes::{Front, Node, upstream};
use crate::program::Directory;

/// The first line of the log about a connection that failed.
fn complaint(edge: &mut Node) -> String {
    edge.read_to("upstream-failed").pop().unwrap()
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
    let said = one.wait_until("state", "away".into());
    let problem = super::nodes::wait(|| {
        let found = one.upstreams()[0]["problem"].as_str().unwrap_or_default().to_owned();
        if found.contains("upstream-circle") { Ok(found) } else { Err(format!("{found}: {said}")) }
    });
    assert!(problem.contains("let no node be an upstream of its own upstreams"), "{problem}");
    two.kill();
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
