//! What operators do to a running server: signals, a log that nobody reads, a full device, a store that is taken
//! away. The server goes on, or says clearly what does not.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::program::{Directory, FREE, announced, listening};

/// A server whose log the test reads, or does not read.
struct Logged {
    child: Child,
    address: SocketAddr,
    log: Lines<BufReader<ChildStderr>>,
}

impl Logged {
    fn start(directory: &Path, config: &str, environment: &[(&str, &str)]) -> Logged {
        let file = directory.join("tiderace.toml");
        let text = format!("[server]\nlisten = [{FREE:?}]\nshards = 2\n{config}");
        std::fs::write(&file, text).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tiderace"))
            .arg("serve")
            .arg("--config")
            .arg(&file)
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = listening(&mut log);
        Logged { child, address, log }
    }

    /// Reads the log up to a line with that text.
    fn wait_for(&mut self, text: &str) -> String {
        let found = self.log.by_ref().map_while(Result::ok).find(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("the log ended without {text:?}"))
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    fn get(&self, path: &str) -> String {
        request(self.address, &format!("GET {path}"), "")
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The whole answer to one request.
fn request(address: SocketAddr, line: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    let text = format!("{head}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The value of a metric without labels.
fn metric(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("there is no {name}")).parse().unwrap()
}

#[test]
fn signals_that_ask_for_no_end_end_nothing() {
    let directory = Directory::new("signals");
    let mut server = Logged::start(&directory.0, "", &[]);
    let names = ["USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "XFSZ", "PWR", "STKFLT"];
    for name in names {
        server.signal(name);
        let line = server.wait_for("signal-ignored");
        assert!(line.contains(&format!("SIG{name}")), "{line}");
    }
    for _ in 0..2 {
        server.signal("HUP");
        server.wait_for("configuration-reloaded");
    }
    // Nothing is said of it.
    server.signal("PIPE");
    assert!(server.get("/livez").starts_with("HTTP/1.1 200"));
    server.signal("TERM");
    server.wait_for("server-stopped");
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn a_server_that_takes_connections_ends_in_order() {
    let directory = Directory::new("early-end");
    // Many threads to start, so that the first client is there before the last of them.
    let id = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, 77, id[2], id[3]], 7_800));
    let file = directory.0.join("tiderace.toml");
    let text = format!("[server]\nlisten = [\"stomp://{address}\"]\nshards = 64\n");
    std::fs::write(&file, text).unwrap();
    for _ in 0..5 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tiderace"))
            .arg("serve")
            .arg("--config")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let client = loop {
            if let Ok(client) = TcpStream::connect(address) {
                break client;
            }
            assert!(child.try_wait().unwrap().is_none(), "the server did not start");
        };
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
        // It does not have to be waited for.
        drop(client);
        let ended = child.wait().unwrap();
        assert!(ended.success(), "{ended}");
    }
}

#[test]
fn a_log_that_nobody_reads_stops_nothing_and_what_it_misses_is_told() {
    let directory = Directory::new("unread");
    // The event loop's own lines: a few requests fill the pipe, some thousands the queue.
    let mut server = Logged::start(&directory.0, "", &[("RUST_LOG", "trace")]);
    let mut dropped = 0;
    for _ in 0..20_000 {
        assert!(server.get("/livez").starts_with("HTTP/1.1 200"));
        dropped = metric(&server.get("/metrics"), "tiderace_log_lines_dropped_total");
        if dropped > 0 {
            break;
        }
    }
    assert!(dropped > 0, "the queue is bounded");
    assert!(server.get("/readyz").starts_with("HTTP/1.1 200"));
    // Once it is read again it says what is missing.
    let line = server.wait_for("log-lines-dropped");
    assert!(line.contains("\"lines\":"), "{line}");
    assert!(server.get("/livez").starts_with("HTTP/1.1 200"));
}

#[test]
fn a_server_whose_log_nobody_reads_can_be_stopped() {
    let directory = Directory::new("unread-stop");
    let mut server = Logged::start(&directory.0, "", &[("RUST_LOG", "trace")]);
    // More than a pipe holds.
    for _ in 0..500 {
        assert!(server.get("/livez").starts_with("HTTP/1.1 200"));
    }
    server.signal("TERM");
    assert!(server.child.wait().unwrap().success());
}

/// Development mode says on standard output when it listens.
fn development(stderr: Stdio, wrap: &str) -> (Child, SocketAddr) {
    let program = env!("CARGO_BIN_EXE_tiderace");
    let mut child = Command::new("sh")
        .args(["-c", &format!("exec '{program}' {wrap}")])
        .env("TIDERACE_SERVER__LISTEN", FREE)
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .unwrap();
    let address = announced(&mut BufReader::new(child.stdout.take().unwrap()).lines());
    (child, address)
}

#[test]
fn standard_error_on_a_full_device_or_closed_keeps_nobody_from_starting() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    for (what, stderr, wrap) in [("full", Stdio::from(full), ""), ("closed", Stdio::null(), "2>&-")]
    {
        let (mut child, address) = development(stderr, wrap);
        assert!(request(address, "GET /livez", "").starts_with("HTTP/1.1 200"), "{what}");
        let dropped =
            || metric(&request(address, "GET /metrics", ""), "tiderace_log_lines_dropped_total");
        match what {
            // Another thread writes the log, in its own time.
            "full" => assert!((0..10_000).any(|_| dropped() > 0), "lines are lost and not counted"),
            // What is closed at the start is /dev/null for a program of Rust.
            _ => assert_eq!(dropped(), 0),
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_store_that_is_taken_away_is_told_to_publishers_and_to_readiness_checks() {
    let directory = Directory::new("taken");
    let store = directory.0.join("store");
    let config = format!("[store]\ndirectory = {:?}\n[topics]\npersistent = true\n", store);
    let mut server = Logged::start(&directory.0, &config, &[]);
    let put = |value: &str| request(server.address, "PUT /topics/fx/a", value);
    assert!(put("1").starts_with("HTTP/1.1 2"), "{}", put("1"));
    assert!(server.get("/readyz").starts_with("HTTP/1.1 200"));
    std::fs::remove_dir_all(&store).unwrap();
    let answer = put("2");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("store-unavailable"), "{answer}");
    let ready = server.get("/readyz");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("store-failed"), "{ready}");
    // What is not kept goes on.
    assert!(server.get("/livez").starts_with("HTTP/1.1 200"));
    let line = server.wait_for("store-failed");
    assert!(line.contains("was removed"), "{line}");
}
