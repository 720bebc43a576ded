//! Edges whose upstream speaks TLS and asks who they are.

use std::net::SocketAddr;

use super::nodes::{Node, Stomp, command, upstream};
use crate::certificates::Authority;

/// Lets those who show a certificate have topics of their own.
const NAMED: &str = "client_names = [\"common_name\"]\nclient_groups = [\"machines\"]\n\
    [[rule]]\nallow = [\"publish\"]\nprincipals = [\"group:machines\"]\npaths = [\"own/{user}/**\"]";

/// The configuration of an edge, by the name that the source's certificate has.
fn secured(source: SocketAddr, ca: &str, more: &str) -> String {
    let more = format!("tls_ca_file = {ca:?}\n{more}");
    let address = format!("ws://{source}");
    upstream(&[source], "own/**", &more)
        .replace(&address, &format!("wss://localhost:{}", source.port()))
}

#[test]
fn an_edge_comes_as_who_its_certificate_says() {
    let authority = Authority::new("edge-certificate");
    let source = authority.serve(NAMED);
    let [chain, key] = authority.client("edge", Vec::new(), None);
    let shows = format!("tls_certificate = {chain:?}\ntls_key = {key:?}\n");
    let config = secured(source.address, &authority.file, &shows);
    let edge = Node::start(authority.directory(), &config);
    edge.wait_for("connected");
    let mut client = Stomp::connect(edge.address);
    client.subscribe("own.edge.a");
    let from = format!("tls://localhost:{}", source.address.port());
    let publish =
        ["pub", "own/edge/a", "1", "--ca", &authority.file, "--cert", &chain, "--key", &key];
    let done = command(&from, &publish).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(client.next(), "1");
    // What others have there is refused to it, and so to its clients, in the words of the source.
    let refused = Stomp::connect(edge.address).refused("own.bob.a");
    assert!(refused.contains("not-authorised"), "{refused}");
}

#[test]
fn an_upstream_that_wants_a_certificate_says_so() {
    let authority = Authority::new("edge-no-certificate");
    let other = Authority::new("edge-other-certificate");
    let source = authority.serve_only("required", NAMED);
    let [chain, key] = other.client("edge", Vec::new(), None);
    let shows = format!("tls_certificate = {chain:?}\ntls_key = {key:?}\n");
    for (more, words) in
        [("", "name one by `tls_certificate`"), (&*shows, "does not take the certificate")]
    {
        let config = secured(source.address, &authority.file, more);
        let mut edge = Node::start(authority.directory(), &config);
        let line = edge.said("upstream-failed");
        assert!(line.contains(words), "{words}: {line}");
    }
}
