//! The examples of `clients/rust` against a real server.

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
