//! Upstreams that a configuration cannot have, with the exact sentence the operator reads.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support::file;

#[test]
fn upstreams_that_cannot_be_had_are_refused() {
    let one = "[[upstream]]\nname = \"a\"\nurls = [\"wss://a\"]\ntopics = [\"fx/**\"]\n";
    let cases = [
        (
            "[[upstream]]\nname = \"a\"\ntopics = [\"**\"]".to_owned(),
            "t.toml:1:1: [[upstream]] needs `urls`: a list whose elements are a text of 1 to 1,024 characters",
        ),
        (
            format!(
                "{one}[[upstream]]\nname = \"b\"\nurls = [\"wss://b\"]\ntopics = [\"news\", \"fx/EUR\"]"
            ),
            "t.toml:8:1: upstream.topics: \"fx/EUR\" and \"fx/**\" of the upstream \"a\" name the same topics, but a topic comes from one upstream; for servers that have the same topics write one upstream with several `urls`",
        ),
        (
            format!("{one}[[upstream]]\nname = \"a\"\nurls = [\"wss://b\"]\ntopics = [\"news\"]"),
            "t.toml:6:1: there is already an upstream \"a\"; names are unique",
        ),
        (
            one.replace("name = \"a\"", "name = \"a/b\""),
            "t.toml:2:1: upstream.name: \"a/b\" is no name of an upstream; use up to 64 letters, digits, `-`, `_` and `.`",
        ),
        (
            one.replace("wss://a", "stomp://a"),
            "t.toml:3:1: upstream.urls: \"stomp://a\" begins with none of wss://, https:// and tls:// (secured) and ws://, http:// and tcp:// (plain text)",
        ),
        (
            one.replace("wss://a", "ws://localhost:7800"),
            "t.toml:3:1: upstream.urls: \"ws://localhost:7800\" leads to this server itself, which listens on 127.0.0.1:7800; name the server where the topics are published",
        ),
        (
            one.replace("\"wss://a\"", "\"wss://a\", \"wss://a\""),
            "t.toml:3:1: upstream.urls: \"wss://a\" stands twice",
        ),
        (
            one.replace("\"wss://a\"", ""),
            "t.toml:3:1: upstream.urls: 1 to 16 addresses are possible, but 0 are listed",
        ),
        (
            one.replace("fx/**", "fx/**/x"),
            "t.toml:4:11: upstream.topics: expected a pattern such as \"fx/EUR-USD\", \"fx/*\" (one level) or \"fx/**\" (all below), but found \"fx/**/x\": level 2 of the pattern: `**` stands only as the whole last level, and a level has at most 4 stars",
        ),
        (
            one.replace("fx/**", "$sys/**"),
            "t.toml:4:1: upstream.topics: \"$sys/**\" names topics below `$`, which are every server's own; take it out",
        ),
        (
            one.replace("\"fx/**\"", ""),
            "t.toml:4:1: upstream.topics: 1 to 256 patterns are possible, but 0 are listed; \"**\" stands for all topics",
        ),
        (
            format!("{one}services = [\"$sys/a\"]"),
            "t.toml:5:1: upstream.services: \"$sys/a\" names services below `$`, which are every server's own; take it out",
        ),
        (
            format!(
                "{one}services = [\"a/**\"]\n[[upstream]]\nname = \"b\"\nurls = [\"wss://b\"]\ntopics = [\"news\"]\nservices = [\"a/b\"]"
            ),
            "t.toml:10:1: upstream.services: \"a/b\" and \"a/**\" of the upstream \"a\" name the same services, but a call goes to one upstream; for servers that are called for the same services write one upstream with several `urls`",
        ),
        (
            format!(
                "{one}queues = [\"q/**\"]\n[[upstream]]\nname = \"b\"\nurls = [\"wss://b\"]\ntopics = []\nqueues = [\"q/a\"]"
            ),
            "t.toml:10:1: upstream.queues: \"q/a\" and \"q/**\" of the upstream \"a\" name the same queues, but a queue comes from one upstream; for servers that have the same queues write one upstream with several `urls`",
        ),
        (
            format!("{one}queues = [\"q/**\"]\n[[queue]]\nmatch = \"q/eu/*\"\n"),
            "t.toml:7:1: queue.match: all queues of \"q/eu/*\" live at the upstream \"a\"; write this section into that server's configuration, here it would change nothing",
        ),
        (
            format!("{one}queues = [\"q/**\"]\n[[queue]]\nmatch = \"*/eu\"\nmirrored = true\n"),
            "t.toml:7:1: queue.mirrored: \"q/**\" of the upstream \"a\" and \"*/eu\" name the same queues, and a queue that lives elsewhere is not mirrored here",
        ),
        (
            format!("{one}queues = [\"dlq/**\"]\n[queues]\ndead_letter = \"dlq/{{queue}}\"\n"),
            "t.toml:7:1: queues.dead_letter: dead letters of this server's queues would be in queues of \"dlq/{queue}\", but \"dlq/**\" live at the upstream \"a\", and nobody would see them here; give them another name, such as \"dlq-here/{queue}\"",
        ),
        (
            format!("{one}queues = [\"$sys/q\"]"),
            "t.toml:5:1: upstream.queues: \"$sys/q\" names queues below `$`, which are every server's own; take it out",
        ),
        (
            format!("{one}when_away = \"remove after lunch\""),
            "t.toml:5:1: upstream.when_away: \"remove after lunch\" is neither \"keep\" nor \"remove after DURATION\", such as \"remove after 10min\"",
        ),
        (format!("{one}user = \"ann\""), "t.toml:5:1: upstream.user needs upstream.password"),
        (
            format!("{one}tls_certificate = \"edge.pem\""),
            "t.toml:5:1: upstream.tls_certificate needs upstream.tls_key",
        ),
        (
            format!("{one}tls_key = \"edge.key\""),
            "t.toml:5:1: upstream.tls_key needs upstream.tls_certificate",
        ),
        (
            format!("{one}token = \"file:/secret\"\nuser = \"ann\"\npassword = \"file:/secret\""),
            "t.toml:5:1: upstream.token: log in with either `token` or `user` and `password`, not with both",
        ),
        (
            format!("{one}token = \"file:/none\""),
            "t.toml:5:1: upstream.token: file:/none cannot be read: no such file",
        ),
        (
            format!("{one}[[feed]]\nkind = \"quotes\"\npath = \"fx\"\n"),
            "t.toml:7:1: feed.path: topics below \"fx\" come from the upstream \"a\", so this server cannot publish them; take them out of upstream.topics, or the feed away",
        ),
        (
            format!("{one}[server]\nnode = {:?}", "n".repeat(65)),
            concat!(
                "t.toml:6:1: server.node: \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\"",
                " is longer than 64 bytes; shorten it"
            ),
        ),
    ];
    for (text, expected) in cases {
        let problems = file(&text).load().err().map(|problems| problems.to_string());
        assert_eq!(problems.as_deref(), Some(expected), "{text}");
    }
}
