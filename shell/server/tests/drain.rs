//! The drain of the real program: what is said first, what closes when, and how it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use serde_json::Value as Json;

use crate::alarms::{TIMEOUT, run};
use crate::program::watched::Watched;
use crate::program::{Directory, FREE};

const ADMIN: &str = "[[listener]]\naddress = \"127.0.0.1:0\"\nstays_open = true\n";

fn drain(address: SocketAddr, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tiderace"))
        .args(["drain", "-s", &address.to_string()])
        .args(arguments.split_whitespace())
        .output()
        .unwrap()
}

/// The last line of JSON that it prints.
fn state(output: &Output) -> Json {
    assert!(output.status.success(), "{output:?}");
    let text = std::str::from_utf8(&output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn readiness(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A client that has logged in.
fn stomp(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0").unwrap();
    let mut frame = Vec::new();
    while !frame.ends_with(b"\0") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        frame.push(byte[0]);
    }
    assert!(frame.starts_with(b"CONNECTED"), "{}", String::from_utf8_lossy(&frame));
    stream
}

fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn it_says_so_first_then_closes_and_can_be_taken_back() {
    let directory = Directory::new("drain");
    let mut server = Watched::at(&directory.0, "127.0.7.7:0", ADMIN);
    let [main, admin] = server.addresses[..] else { panic!("{:?}", server.addresses) };
    assert!(readiness(main).starts_with("HTTP/1.1 200 "));
    let begun = state(&drain(admin, "--over 1s --delay 1h --no-wait --json"));
    assert_eq!(
        (begun["state"].as_str(), begun["listeners"].as_u64()),
        (Some("announced"), Some(2))
    );
    let unready = readiness(main);
    assert!(unready.starts_with("HTTP/1.1 503 ") && unready.contains(r#""code":"draining""#));
    let refused = drain(admin, "--over 1s");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("under way already"), "{said}");
    assert_eq!(state(&drain(admin, "--cancel --json"))["state"], "serving");
    assert!(readiness(main).starts_with("HTTP/1.1 200 "));

    let client = stomp(main);
    let to = "--to wss://b.example/tiderace tcp://b.example:7800";
    let ended = state(&drain(admin, &format!("--over 500ms --delay 0s --json {to}")));
    assert_eq!(ended["state"], "drained");
    assert_eq!((&ended["goodbyes"], &ended["connections"]), (&Json::from(1), &Json::from(0)));
    server.read_to("drain-done");
    let last = rest(client);
    assert!(last.starts_with("ERROR\n") && last.contains("\ncode:draining\n"), "{last}");
    let header = "\nreconnect-to:wss\\c//b.example/tiderace,tcp\\c//b.example\\c7800\n";
    assert!(last.contains(header), "{last}");
    let refused = TcpStream::connect(main).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(readiness(admin).contains(r#""code":"draining""#));
    assert_eq!(state(&drain(admin, "--status --json"))["state"], "drained");
    let cancelled = state(&drain(admin, "--cancel --json"));
    assert_eq!((&cancelled["state"], &cancelled["listeners"]), (&"serving".into(), &2.into()));
    drop(stomp(main));
    assert!(readiness(main).starts_with("HTTP/1.1 200 "));
}

#[test]
fn who_takes_it_back_is_told_when_a_listener_does_not_open() {
    let directory = Directory::new("drain-taken");
    let mut server = Watched::at(&directory.0, "127.0.7.9:0", ADMIN);
    let [main, admin] = server.addresses[..] else { panic!("{:?}", server.addresses) };
    assert_eq!(state(&drain(admin, "--over 0s --delay 0s --json"))["state"], "drained");
    let other = TcpListener::bind(main).unwrap();
    let failed = drain(admin, "--cancel --json");
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(!failed.status.success() && said.contains("listener-closed"), "{said}");
    let text = String::from_utf8_lossy(&failed.stdout).into_owned();
    assert!(text.contains(r#""state":"opening""#) && text.contains(r#""listeners":1,"#), "{text}");
    server.read_to("listener-closed");
    let answer = readiness(admin);
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("not all are open"), "{answer}");
    let raised = run(admin, &["alarms"]);
    assert!(raised.contains("not all listeners are open again"), "{raised}");
    drop(other);
    let begun = Instant::now();
    let opened = loop {
        let state = state(&drain(admin, "--status --json"));
        if state["state"] != "opening" {
            break state;
        }
        assert!(begun.elapsed() < TIMEOUT, "{state}");
    };
    assert_eq!((&opened["state"], &opened["listeners"]), (&"serving".into(), &2.into()));
    drop(stomp(main));
    assert!(readiness(main).starts_with("HTTP/1.1 200 "));
}

#[test]
fn the_asking_connection_stays_and_the_server_may_end_with_the_drain() {
    let directory = Directory::new("drain-exit");
    let mut server = Watched::start(&directory.0, "", "");
    let main = server.addresses[0];
    let client = stomp(main);
    let output = drain(main, "--over 300ms --delay 0s --exit");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("no listener stays open"), "{said}");
    assert!(rest(client).contains("\ncode:draining\n"));
    server.read_to("server-stopped");
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn a_signal_drains_if_the_configuration_says_so_and_a_second_ends_it() {
    let directory = Directory::new("drain-signal");
    let options = "drain_over = \"500ms\"\ndrain_to = [\"tcp://b.example:7800\"]";
    let mut server = Watched::start(&directory.0, options, ADMIN);
    let (client, admin) = (stomp(server.addresses[0]), server.addresses[1]);
    server.signal("TERM");
    server.read_to("drain-begun");
    let last = rest(client);
    assert!(last.contains("\ncode:draining\nreconnect-to:tcp\\c//b.example\\c7800\n"), "{last}");
    server.read_to("server-stopped");
    assert!(server.child.wait().unwrap().success());
    assert!(TcpStream::connect(admin).is_err());

    let mut server = Watched::start(&directory.0, "drain_over = \"1h\"", ADMIN);
    let (client, admin) = (stomp(server.addresses[0]), server.addresses[1]);
    server.signal("TERM");
    server.read_to("drain-begun");
    let refused = drain(admin, "--cancel");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot be undone"), "{refused:?}");
    server.signal("TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
    drop(client);
}

/// The commands of docs/drain.md, with ports that are free and shorter times.
#[test]
fn the_page_says_what_happens() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/drain.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("## Two servers, step by step").unwrap();
    let commands: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("tiderace "))
        .map(|line| line.trim_end_matches(" &"))
        .collect();
    let [first, second, subscribe, drains] = commands[..] else { panic!("{commands:?}") };
    let program = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
        command.args(line.split_whitespace().map(|word| word.trim_matches('\'')));
        command
    };
    let serve = |line: &str, port: &str| Watched::of(&mut program(&line.replace(port, "0")));
    let (mut a, b) = (serve(first, "7801"), serve(second, "7802"));
    let ports = |line: &str| {
        let line = line.replace("7801", &a.addresses[0].port().to_string());
        line.replace("7802", &b.addresses[0].port().to_string())
    };
    let (subscribe, drains) = (ports(subscribe), ports(drains));
    let mut subscriber = program(&subscribe).stderr(Stdio::piped()).spawn().unwrap();
    // The connection that asks counts as well.
    while state(&drain(a.addresses[0], "--status --json"))["connections"] != 2 {}
    let soon = drains.replace("--over 30s", "--over 300ms").replace("--delay 2s", "--delay 0s");
    assert_ne!(soon, drains);
    assert!(program(&soon).status().unwrap().success());
    let mut said = String::new();
    for line in BufReader::new(subscriber.stderr.take().unwrap()).lines() {
        said += &(line.unwrap() + "\n");
        if said.ends_with("connected again\n") {
            break;
        }
    }
    subscriber.kill().unwrap();
    subscriber.wait().unwrap();
    let goes_on = format!("connecting to {} in", b.addresses[0]);
    assert!(
        said.contains("sends its clients to other servers") && said.contains(&goes_on),
        "{said}"
    );
    a.read_to("server-stopped");
    assert!(a.child.wait().unwrap().success());
}

#[test]
fn only_who_may_administer_may_drain() {
    let directory = Directory::new("drain-rights");
    let rules = r#"
[[token]]
name = "watcher"
secret = "sha256:443482e92b0b2c3da5a03ce39890d112332ca3d3534a784d7ffae903cc3879d1"

[[rule]]
allow = ["monitor", "subscribe"]
principals = ["user:watcher"]
paths = ["$sys/**"]
"#;
    let server = Watched::start(&directory.0, "", rules);
    let main = server.addresses[0];
    assert_eq!(state(&drain(main, "-P watch-me --status --json"))["state"], "serving");
    for arguments in ["-P watch-me --over 1s", "-P watch-me --cancel"] {
        let refused = drain(main, arguments);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("not-authorised"), "{said}");
    }
}

#[test]
fn a_drain_that_makes_no_sense_is_no_configuration() {
    let directory = Directory::new("drain-config");
    let listen = format!("listen = [{FREE:?}]\n");
    for (options, says) in [
        (format!("{listen}drain_to = [\"b.example\"]"), "server.drain_to"),
        (format!("{listen}drain_over = \"2d\""), "server.drain_over"),
        (ADMIN.to_owned(), "listener.stays_open"),
        (format!("{listen}{ADMIN}"), ""),
    ] {
        let file = directory.0.join("tiderace.toml");
        let text = format!("[server]\n{options}");
        std::fs::write(&file, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_tiderace"))
            .args(["config", "check", "--config"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.success(), says.is_empty(), "{said}");
        assert!(said.contains(says), "{said}");
    }
}
