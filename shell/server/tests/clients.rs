//! The commands and the examples of `clients/rust` against a real server.

#[allow(dead_code, unreachable_pub)]
#[path = "../../../clients/rust/examples/consume.rs"]
mod consume;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../clients/rust/examples/publish.rs"]
mod publish;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../clients/rust/examples/subscribe.rs"]
mod subscribe;

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

    let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"))
        .args(["pub", "-l", "-q", "jobs", "-h", &address])
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
    command.args(args).args(["-h", &server.address.to_string()]).stdin(Stdio::null());
    command
}

#[test]
fn options_of_commands_reach_the_server() {
    let directory = Directory::new("options");
    let server = Server::start(&directory.0, "");
    done(&server, &["pub", "-r", "-H", "colour:red", "fx/A", "1"]);
    done(&server, &["pub", "-r", "-H", "colour:blue", "-t", "image/png", "fx/B", "2"]);
    let red = done(&server, &["sub", "--json", "-C", "1", "--selector", "colour = 'red'", "fx/*"]);
    let expected = r#"{"body":"1","headers":{"colour":"red","content-type":"application/json"},"topic":"fx/A"}"#;
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
