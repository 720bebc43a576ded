//! The first session of README.md, as it is typed: what it says is what happens. The commands want `curl`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::program::{FREE, announced};

/// Long enough for a busy machine; nothing waits for it unless something is broken.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A command that is ended with the test.
struct Running(Child, Lines<BufReader<ChildStdout>>);

impl Running {
    fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Running(child, lines)
    }

    /// The next line that has that text.
    fn line(&mut self, text: &str) -> String {
        let found = self.1.by_ref().map_while(Result::ok).find(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("it ended without {text:?}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The commands of the second block below "Try it": the first one starts the server.
fn commands() -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let (_, rest) = text.split_once("## Try it").unwrap();
    let block = rest.split("```sh\n").nth(2).unwrap().split("```").next().unwrap();
    block.lines().map(str::to_owned).collect()
}

/// A command of the page against the test's server. `exec` makes the shell the command itself, so that it can be
/// ended.
fn shell(command: &str, address: SocketAddr) -> Command {
    let program = format!("'{}'", env!("CARGO_BIN_EXE_tiderace"));
    let command = command.replace("target/release/tiderace", &program);
    let command = command.replace("127.0.0.1:7800", &address.to_string());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {command}")]);
    shell.env("TIDERACE_STOMP_PORT", address.port().to_string());
    shell
}

fn run(command: &str, address: SocketAddr) -> String {
    let Output { status, stdout, stderr } = shell(command, address).output().unwrap();
    assert!(status.success(), "{command}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// Waits until the server counts so many subscriptions.
fn wait_for_subscriptions(address: SocketAddr, wanted: u64) {
    let start = Instant::now();
    while subscriptions(address) != wanted {
        assert!(start.elapsed() < TIMEOUT, "{} of {wanted}", subscriptions(address));
        std::thread::yield_now();
    }
}

fn subscriptions(address: SocketAddr) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("tiderace_subscriptions "));
    line.unwrap().parse().unwrap()
}

#[test]
fn the_first_session_is_as_the_page_says() {
    let commands = commands();
    let [quotes, list, listen, publish, stream, post] = &commands[..] else {
        panic!("README.md has other commands: {commands:?}")
    };
    let mut server = Running::start(
        Command::new(env!("CARGO_BIN_EXE_tiderace")).env("TIDERACE_SERVER__LISTEN", FREE),
    );
    let address = announced(&mut server.1);

    let before = subscriptions(address);
    let mut quotes = Running::start(&mut shell(quotes, address));
    assert!(quotes.line("demo/fx/").starts_with("demo/fx/"));
    drop(quotes);
    // The server hears of the end in its own time; what it still counts is not who listens next.
    wait_for_subscriptions(address, before);
    assert!(run(list, address).lines().all(|line| line.starts_with("demo/fx/")));

    let mut listen = Running::start(&mut shell(listen, address));
    wait_for_subscriptions(address, before + 1);
    let mut stream = Running::start(&mut shell(stream, address));
    stream.line("event: ready");

    // What subscribers get is JSON, not a text that looks like it.
    run(publish, address);
    assert_eq!(listen.line("bid"), r#"fx/EUR-USD {"bid":1.09}"#);
    let event = stream.line("bid");
    assert!(event.contains(r#""value":{"bid":1.09}"#), "{event}");
    run(post, address);
    assert_eq!(listen.line("bid"), r#"fx/EUR-USD {"bid":1.10}"#);
    let event = stream.line("bid");
    assert!(event.contains(r#""value":{"bid":1.10}"#), "{event}");
}

#[test]
fn all_commands_mean_the_same_topic_by_the_same_path() {
    let mut server = Running::start(
        Command::new(env!("CARGO_BIN_EXE_tiderace")).env("TIDERACE_SERVER__LISTEN", FREE),
    );
    let address = announced(&mut server.1);
    for path in ["v1.0/price", "10.0.0.1", "a,b", "100%", "50%2E"] {
        let tiderace = |line: &str| {
            run(&format!("target/release/tiderace {}", line.replace("PATH", path)), address)
        };
        tiderace("pub -r PATH 1");
        assert_eq!(tiderace("topics get PATH"), "1\n", "{path}");
        tiderace("topics set PATH 2");
        assert_eq!(tiderace("sub -C 1 -v PATH"), format!("{path} 2\n"));
        assert!(tiderace("sub -C 1 --json PATH").contains(&format!("\"topic\":\"{path}\"")));
        assert_eq!(tiderace("topics ls PATH"), format!("{path}\n"));
    }
}

/// The commands of a page's first block below a heading.
pub(crate) fn commands_of(page: &str, heading: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(file).unwrap();
    let (_, rest) = text.split_once(heading).unwrap();
    let block = rest.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    block.lines().map(str::to_owned).collect()
}

#[test]
fn the_commands_of_the_page_about_queues_do_what_it_says() {
    let mut server = Running::start(
        Command::new(env!("CARGO_BIN_EXE_tiderace")).env("TIDERACE_SERVER__LISTEN", FREE),
    );
    let address = announced(&mut server.1);
    let tiderace = |line: &str| run(&format!("target/release/tiderace {line}"), address);
    tiderace("pub -q -H colour:red --repeat 7 jobs/mail hello");
    tiderace("pub -q -H dead-letter-queue:jobs/mail --repeat 2 dlq/jobs/mail again");
    let said: Vec<String> = commands_of("docs/queues.md", "## The command line")
        .iter()
        .map(|line| run(&format!("target/release/{line}"), address))
        .collect();
    let [ls, show, peek, redriven, moved, purged, paused, resumed] = &said[..] else {
        panic!("{said:?}")
    };
    assert!(ls.lines().nth(1).unwrap().starts_with("jobs/mail      7"), "{ls}");
    assert!(show.contains("dead_letter: dlq/jobs/mail"), "{show}");
    assert_eq!((peek.lines().count(), peek.contains("hello")), (5, true));
    assert_eq!([redriven, moved, purged].map(|said| said.trim_end()), ["2", "9", "0"]);
    assert_eq!([paused, resumed].map(|said| said.len()), [0, 0]);
    assert!(tiderace("queues ls --json jobs/mail-later").contains(r#""messages":9"#));
}
