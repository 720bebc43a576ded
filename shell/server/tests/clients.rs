//! The commands and the examples of `clients/rust` against a real server.

#[allow(dead_code, unreachable_pub)]
#[path = "../../../clients/rust/examples/call.rs"]
mod call;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../clients/rust/examples/consume.rs"]
mod consume;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../clients/rust/examples/publish.rs"]
mod publish;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../clients/rust/examples/subscribe.rs"]
pub(crate) mod subscribe;

use std::io::Write;
use std::process::{Command, Stdio};

use crate::program::{Directory, Server};

#[test]
fn examples_of_the_client_do_what_they_say() {
    let directory = Directory::new("examples");
    let server = Server::start(&directory.0, "");
    let address = server.address.to_string();
    publish::publish(&address, "fx/EUR-USD", br#"{"bid":1.09}"#).unwrap();
    publish::publish(&address, "fx/EUR-CHF", br#"{"bid":0.94}"#).unwrap();
    let mut out = Vec::new();
    subscribe::subscribe(&address, "fx/*", 2, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, [r#"fx/EUR-CHF {"bid":0.94}"#, r#"fx/EUR-USD {"bid":1.09}"#]);

    let refused = publish::publish(&address, "fx/*", b"1").unwrap_err().to_string();
    assert!(refused.contains("fx/*"), "{refused}");

    let refused = call::call(&address, "nobody/serves", b"x", &mut Vec::new()).unwrap_err();
    assert!(!refused.to_string().is_empty());

    let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"))
        .args(["pub", "-l", "-q", "jobs", "-s", &address])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    command.stdin.take().unwrap().write_all(b"one\ntwo\nthree\n").unwrap();
    assert!(command.wait().unwrap().success());
    for expected in ["one\ntwo\n", "three\n"] {
        let mut out = Vec::new();
        consume::consume(&address, "jobs", expected.lines().count() as u64, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

/// What a command prints; it must do well.
fn done(server: &Server, args: &[&str]) -> String {
    let output = command(server, args).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn command(server: &Server, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
    command.args(args).args(["-s", &server.address.to_string()]).stdin(Stdio::null());
    command
}

#[test]
fn options_of_commands_reach_the_server() {
    let directory = Directory::new("options");
    let server = Server::start(&directory.0, "");
    done(&server, &["pub", "-r", "-H", "colour:red", "fx/A", "1"]);
    done(&server, &["pub", "-r", "-H", "colour:blue", "-t", "image/png", "fx/B", "2"]);
    let red = done(&server, &["sub", "--json", "-C", "1", "--selector", "colour = 'red'", "fx/*"]);
    let expected =
        r#"{"body":1,"headers":{"colour":"red","content-type":"application/json"},"topic":"fx/A"}"#;
    assert_eq!(red, format!("{expected}\n"));
    let blue = done(&server, &["sub", "--json", "-C", "1", "fx/B"]);
    assert!(blue.contains(r#""content-type":"image/png""#), "{blue}");

    done(&server, &["pub", "-r", "[x, y/z]", "3"]);
    assert_eq!(done(&server, &["topics", "get", "x"]), "3\n");
    assert_eq!(done(&server, &["sub", "-v", "-C", "1", "y/*"]), "y/z 3\n");

    done(&server, &["topics", "create", "kept", "--spec", r#"{"history":10}"#]);
    done(&server, &["pub", "--repeat", "3", "--expires", "1h", "kept", "4"]);
    done(&server, &["pub", "kept", "5"]);
    let last = done(&server, &["sub", "--last", "2", "-C", "2", "--interval", "1ms", "kept"]);
    assert_eq!(last, "4\n5\n");

    done(&server, &["pub", "-q", "--repeat", "300", "jobs", "job"]);
    let queue = ["sub", "-q", "--prefetch", "1", "--exclusive", "-C", "150", "jobs"];
    for _ in 0..2 {
        assert_eq!(done(&server, &queue), "job\n".repeat(150));
    }

    done(&server, &["pub", "-q", "--repeat", "3", "seen", "job"]);
    for _ in 0..2 {
        assert_eq!(
            done(&server, &["sub", "-q", "--browse", "--prefetch", "1", "seen"]),
            "job\n".repeat(3)
        );
    }
    let follow = ["sub", "-q", "--browse", "--follow", "-C", "3", "seen"];
    assert_eq!(done(&server, &follow), "job\n".repeat(3));
    assert_eq!(done(&server, &["sub", "-q", "--browse", "none"]), "");
}

#[test]
fn durable_subscriptions_are_made_listed_and_removed() {
    let directory = Directory::new("subscriptions");
    let text = "[[subscription]]\nname = 'fixed'\ntopics = ['x']\nselector = \"a = 'b'\"\n";
    let server = Server::start(&directory.0, text);
    done(&server, &["subscriptions", "create", "audit", "fx/**", "gold"]);
    done(&server, &["pub", "fx/EUR", "1"]);
    let output = command(&server, &["pub", "-q", "dsub/none", "straight"]).output().unwrap();
    assert!(!output.status.success(), "nothing feeds it, so it is not there");
    let table = done(&server, &["subscriptions", "ls"]);
    let lines: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..3], ["NAME", "TOPICS", "SELECTOR"]);
    let mut names: Vec<&str> = lines[1..].iter().map(|line| line[0]).collect();
    names.sort_unstable();
    assert_eq!(names, ["audit", "fixed"], "{table}");
    let audit = lines.iter().find(|line| line[0] == "audit").unwrap();
    assert_eq!(audit[1..5], ["fx/**,gold", "1", "0", "0"], "{table}");
    let json = done(&server, &["subscriptions", "ls", "--json", "fix*"]);
    assert!(json.contains(r#""selector":"a = 'b'","topics":"x""#), "{json}");
    let queues = done(&server, &["queues", "ls", "dsub/audit"]);
    assert!(queues.lines().next().unwrap().contains("FED BY"), "{queues}");
    assert!(queues.lines().nth(1).unwrap().contains("fx/**,gold"), "{queues}");
    assert!(queues.lines().nth(1).unwrap().ends_with("anonymous"), "who owns it: {queues}");
    assert_eq!(done(&server, &["sub", "-q", "-C", "1", "dsub/audit"]), "1\n");
    // Nobody is asked who has no terminal.
    done(&server, &["subscriptions", "rm", "audit"]);
    assert!(!done(&server, &["subscriptions", "ls"]).contains("audit"));
    for (args, words) in [
        (&["rm", "audit"][..], "no queue dsub/audit"),
        (&["rm", "fixed"], "stands in the configuration"),
        (&["create", "a//b", "x"], "cannot have that name"),
        (&["create", "a", "x", "--selector", "a ="], "selector"),
        (&["create", "a"], "TOPICS"),
    ] {
        let args: Vec<&str> = ["subscriptions"].iter().chain(args).copied().collect();
        let output = command(&server, &args).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn queues_are_looked_into_moved_redriven_purged_and_paused() {
    let directory = Directory::new("queues");
    let server = Server::start(&directory.0, "[queues]\nredeliveries_max = 1\n");
    done(&server, &["pub", "-q", "-H", "colour:red", "jobs/a", "one"]);
    done(&server, &["pub", "-q", "-H", "colour:blue", "--repeat", "2", "jobs/a", r#"{"n":2}"#]);
    done(&server, &["pub", "-q", "other", "x"]);
    let table = done(&server, &["queues", "ls", "jobs/*"]);
    let lines: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..3], ["QUEUE", "READY", "IN"]);
    assert_eq!((lines.len(), &lines[1][..3]), (2, &["jobs/a", "3", "0"][..]), "{table}");
    let json = done(&server, &["queues", "ls", "--json", "-n", "1"]);
    assert_eq!(json.lines().count(), 1);
    let shown = done(&server, &["queues", "show", "jobs/a"]);
    for line in ["queue: jobs/a", "ready: 3", "redeliveries_max: 1", "dead_letter: dlq/jobs/a"] {
        assert!(shown.lines().any(|shown| shown == line), "{shown}");
    }
    let shown = done(&server, &["queues", "show", "--json", "jobs/a"]);
    assert!(shown.contains(r#""listed":[]"#) && !shown.contains("more"), "{shown}");

    let peeked = done(&server, &["queues", "peek", "jobs/a"]);
    let bodies: Vec<&str> = peeked.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(bodies, ["one", r#"{"n":2}"#, r#"{"n":2}"#]);
    let position = peeked.lines().nth(1).unwrap().split(' ').next().unwrap();
    let from = done(&server, &["queues", "peek", "--from", position, "--json", "jobs/a"]);
    assert_eq!(from.lines().count(), 2);
    assert!(from.contains(r#""value":{"n":2}"#) && from.contains(r#""colour":"blue""#), "{from}");
    let red = ["queues", "peek", "--selector", "colour = 'red'", "--body-bytes", "2", "jobs/a"];
    assert!(done(&server, &red).ends_with(" on… (3 bytes)\n"));
    assert_eq!(done(&server, &["queues", "peek", "-n", "1", "jobs/a"]).lines().count(), 1);

    let moved = ["queues", "move", "jobs/a", "jobs/b", "--selector", "colour = 'blue'", "-n", "1"];
    assert_eq!(done(&server, &moved), "1\n");
    assert_eq!(done(&server, &["queues", "move", "jobs/a", "jobs/b"]), "2\n");
    done(&server, &["queues", "pause", "jobs/b"]);
    assert!(done(&server, &["queues", "ls", "jobs/b"]).contains("paused"));
    let waits = command(&server, &["sub", "-q", "-C", "1", "-W", "50ms", "jobs/b"]);
    assert!(!{ waits }.output().unwrap().status.success(), "nothing comes");
    done(&server, &["queues", "resume", "jobs/b"]);
    assert_eq!(done(&server, &["sub", "-q", "-C", "1", "jobs/b"]), "{\"n\":2}\n");
    assert_eq!(
        done(&server, &["queues", "purge", "--yes", "--selector", "colour = 'red'", "jobs/b"]),
        "1\n"
    );
    // Nobody is asked who has no terminal.
    let purged = done(&server, &["queues", "purge", "--json", "jobs/b"]);
    assert!(purged.starts_with("{\"messages\":1,\"up_to\":"), "{purged}");

    done(&server, &["pub", "-q", "-H", "dead-letter-queue:jobs/c", "dlq/x", "dead"]);
    assert_eq!(done(&server, &["queues", "redrive", "dlq/x"]), "1\n");
    let back = done(&server, &["queues", "peek", "--json", "jobs/c"]);
    assert!(back.contains("dead") && !back.contains("dead-letter"), "{back}");
    let output = command(&server, &["queues", "redrive", "jobs/c"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "0\n");
    assert!(error.contains("1 messages or more stay"), "{error}");
    for (args, words) in [
        (&["queues", "show", "none"][..], "no queue none"),
        (&["queues", "peek", "jobs/c", "--selector", "colour ="], "selector"),
        (&["queues", "move", "jobs/c", "jobs/c"], "itself"),
    ] {
        let output = command(&server, args).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(3) && error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    let directory = Directory::new("refusals");
    let server = Server::start(&directory.0, "");
    for (args, words) in [
        (&["sub", "a//b"][..], "a//b"),
        (&["sub", "a", "--selector", "colour ="], "selector"),
        (&["pub", "a/*", "1"], "has a wildcard"),
        (&["pub", "a", "1", "-H", "ttl:5"], "--expires"),
        (&["sub", "a", "-C", "1", "-W", "1ms"], "no message came for 1ms, after 0 of them"),
    ] {
        let output = command(&server, args).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(words), "{args:?}: {error}");
    }
}
