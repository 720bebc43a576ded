//! What people and scripts at a command line rely on: restarts, exit codes, services, queues, the page about it.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};

use crate::program::{Directory, FREE, Server, listening};
use crate::readme::commands_of;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tiderace");

/// A command whose output is read line by line; ended with the test.
struct Running {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Running {
    fn start(address: SocketAddr, args: &[&str]) -> Running {
        let mut child = Command::new(PROGRAM)
            .args(args)
            .env("TIDERACE_HOST", address.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let err = BufReader::new(child.stderr.take().unwrap()).lines();
        Running { child, out, err }
    }

    fn line(&mut self) -> String {
        self.out.next().expect("it has ended").unwrap()
    }

    /// Reads what it says beside its output, up to a line that has that text; all of it.
    fn says(&mut self, text: &str) -> String {
        let mut said = String::new();
        for line in self.err.by_ref().map_while(Result::ok) {
            said.push_str(&line);
            said.push('\n');
            if line.contains(text) {
                return said;
            }
        }
        panic!("it ended without {text:?}: {said}")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(address: SocketAddr, args: &[&str]) -> Output {
    piped(address, args, b"")
}

fn piped(address: SocketAddr, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(PROGRAM)
        .args(args)
        .env("TIDERACE_HOST", address.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read it may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a command prints; it must do well.
fn done(address: SocketAddr, args: &[&str]) -> String {
    let output = run(address, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// A server with a store, at an address that it may have had before.
fn serve(listen: &str, store: &Path) -> (Server, SocketAddr) {
    let mut child = Command::new(PROGRAM)
        .args(["serve", "--listen", listen, "--set", "server.shards=2"])
        .arg("--set")
        .arg(format!("store.directory={}", store.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = listening(&mut log);
    std::thread::spawn(move || log.for_each(drop));
    (Server { child, address }, address)
}

fn stop(mut server: Server) {
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    server.child.wait().unwrap();
}

#[test]
fn a_subscriber_stays_over_a_restart_and_goes_on_where_it_was() {
    let directory = Directory::new("cli-restart");
    let store: PathBuf = directory.0.join("store");
    // At an address of its own, so that nobody is given the port meanwhile.
    let (server, address) = serve("127.0.7.8:0", &store);
    done(address, &["topics", "create", "kept", "--spec", r#"{"persistent":true,"history":10}"#]);
    done(address, &["pub", "-r", "kept", "one"]);
    let mut kept = Running::start(address, &["sub", "kept"]);
    let mut other = Running::start(address, &["sub", "--last", "5", "lost"]);
    let mut queue = Running::start(address, &["queue", "receive", "jobs"]);
    assert_eq!(kept.line(), "one");
    done(address, &["pub", "-r", "lost", "before"]);
    assert_eq!(other.line(), "before");
    done(address, &["queue", "send", "jobs", "first"]);
    assert_eq!(queue.line(), "first");

    stop(server);
    assert!(kept.says("connecting to").contains(&address.to_string()));
    let (_server, again) = serve(&address.to_string(), &store);
    assert_eq!(again, address);
    // It comes, whether the subscriber is there again or not yet; what it had is not printed twice.
    done(address, &["pub", "kept", "two"]);
    done(address, &["pub", "kept", "three"]);
    assert_eq!([kept.line(), kept.line()], ["two", "three"]);
    let said = kept.says("kept: ");
    assert!(said.contains("connected again"), "{said}");
    assert!(said.contains("kept: goes on where it was, nothing was missed"), "{said}");
    // Nobody knows what may have been published to a topic that is kept nowhere.
    let said = other.says("lost: ");
    assert!(said.contains("lost: what was published meanwhile may be missing"), "{said}");
    done(address, &["pub", "lost", "after"]);
    assert_eq!(other.line(), "after");
    done(address, &["queue", "send", "jobs", "second"]);
    assert_eq!(queue.line(), "second");
}

#[test]
fn a_subscriber_that_is_not_to_come_back_ends() {
    let directory = Directory::new("cli-no-reconnect");
    let mut server = Server::start(&directory.0, "");
    let address = server.address;
    done(address, &["pub", "-r", "a", "1"]);
    let mut sub = Running::start(address, &["sub", "--no-reconnect", "a"]);
    assert_eq!(sub.line(), "1");
    server.kill();
    assert_eq!(sub.child.wait().unwrap().code(), Some(4));
}

#[test]
fn exit_codes_say_what_kind_of_failure_it_was() {
    let directory = Directory::new("cli-codes");
    let server = Server::start(&directory.0, "");
    // The near end of a connection: nobody listens at its port, and nobody else is given it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let nobody = taken.local_addr().unwrap();
    let at = server.address;
    for (code, address, args) in [
        (0, at, &["pub", "a", "1"][..]),
        (1, at, &["pub", "a", "-f", "/no/such/file"]),
        (2, at, &["pub", "fx/*", "1"]),
        (2, at, &["pub", "a"]),
        (2, at, &["sub", "--no-such-option"]),
        (2, at, &["respond", "a"]),
        (3, at, &["topics", "create", "a//b"]),
        (3, at, &["topics", "get", "not/there"]),
        (3, at, &["call", "nobody/serves/this"]),
        (4, nobody, &["sub", "a"]),
        (4, nobody, &["pub", "a", "1"]),
        (5, at, &["sub", "-W", "1ms", "silent"]),
    ] {
        let output = run(address, args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    }
    // Of several servers the first that answers.
    let both = format!("{nobody},{at}");
    let output = run(at, &["pub", "a", "1", "-s", &both]);
    assert!(output.status.success(), "{}", text(&output.stderr));

    let help = done(at, &["--help"]);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = std::fs::read_to_string(page).unwrap();
    for code in 0..=5 {
        assert!(help.contains(&format!("\n  {code}  ")), "{help}");
        assert!(page.contains(&format!("\n| {code} | ")), "{code}");
    }
}

#[test]
fn h_is_help_in_every_command() {
    let at = SocketAddr::from(([127, 0, 0, 1], 1));
    let overview = done(at, &["-h"]);
    assert!(
        overview.starts_with("Pushes live data") && overview.lines().count() <= 65,
        "{overview}"
    );
    for command in [
        &["sub"][..],
        &["pub"],
        &["call"],
        &["respond"],
        &["browse"],
        &["serve"],
        &["topics", "ls"],
        &["views", "ls"],
        &["queue", "send"],
        &["queues", "receive"],
        &["subscriptions", "ls"],
    ] {
        let help = done(at, &[command, &["-h"]].concat());
        assert!(help.contains("Usage: tiderace"), "{command:?}: {help}");
        assert_eq!(help, done(at, &[command, &["--help"]].concat()), "{command:?}");
    }
}

#[test]
fn a_service_is_a_command_for_each_call() {
    let directory = Directory::new("cli-services");
    let server = Server::start(&directory.0, "");
    let at = server.address;
    let script = r#"read line; case $line in fail) exit 7;; sleep) exec sleep 1000;; esac; echo "$TIDERACE_SERVICE: $line""#;
    let mut responder =
        Running::start(at, &["respond", "words/*", "-j", "2", "--", "sh", "-c", script]);
    responder.says("answers calls of words/*");
    assert_eq!(done(at, &["call", "words/upper", "hello"]), "words/upper: hello\n");
    // More calls than commands that may run at a time.
    let calls: Vec<Running> = (0..5)
        .map(|number| Running::start(at, &["call", "words/upper", &number.to_string()]))
        .collect();
    for (number, mut call) in calls.into_iter().enumerate() {
        assert_eq!(call.line(), format!("words/upper: {number}"));
        assert!(call.child.wait().unwrap().success());
    }
    let failed = run(at, &["call", "words/upper", "fail"]);
    assert_eq!(failed.status.code(), Some(3));
    let error = text(&failed.stderr);
    assert!(error.contains("exit status: 7") && error.contains("call-failed"), "{error}");
    let late = run(at, &["call", "-W", "100ms", "words/upper", "sleep"]);
    assert_eq!(late.status.code(), Some(5), "{}", text(&late.stderr));

    let mut echo = Running::start(at, &["respond", "echo", "--echo", "-C", "2"]);
    echo.says("answers calls");
    let json = done(at, &["call", "--json", "echo", r#"{"n":1.10}"#]);
    assert!(json.starts_with(r#"{"body":{"n":1.10},"#), "{json}");
    let output = piped(at, &["call", "echo", "-"], b"from a pipe");
    assert_eq!(text(&output.stdout), "from a pipe\n");
    assert!(echo.child.wait().unwrap().success(), "it ends after so many calls");
}

#[test]
fn messages_come_from_standard_input_and_queues_keep_what_is_not_acknowledged() {
    let directory = Directory::new("cli-stdin");
    let server = Server::start(&directory.0, "");
    let at = server.address;
    assert!(piped(at, &["pub", "-r", "t"], b"x\n").status.success());
    assert_eq!(done(at, &["topics", "get", "t"]), "x\n");
    assert!(piped(at, &["pub", "-r", "t"], b"{\"a\": 1}\n").status.success());
    let line = done(at, &["sub", "-C", "1", "--json", "t"]);
    assert!(line.starts_with(r#"{"body":{"a": 1},"#), "{line}");
    // Several topics are told apart, one is known.
    done(at, &["pub", "-r", "fx/A", "1"]);
    assert_eq!(done(at, &["sub", "-C", "1", "fx/*"]), "fx/A 1\n");
    assert_eq!(done(at, &["sub", "-C", "1", "fx/A"]), "1\n");

    assert!(piped(at, &["queue", "send", "jobs"], b"one\n").status.success());
    done(at, &["queue", "send", "--priority", "9", "jobs", "two"]);
    for args in [
        &["queue", "receive", "--no-ack", "-C", "2", "jobs"][..],
        &["queue", "receive", "-C", "2", "jobs"],
    ] {
        assert_eq!(done(at, args), "one\ntwo\n", "{args:?}");
    }
    assert_eq!(run(at, &["queue", "receive", "-W", "1ms", "jobs"]).status.code(), Some(5));
}

#[test]
fn a_port_in_use_says_who_has_it() {
    let directory = Directory::new("cli-port");
    let server = Server::start(&directory.0, "");
    let output = Command::new(PROGRAM)
        .args(["--listen", &server.address.to_string()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let error = text(&output.stderr);
    let holder = format!("tiderace (process {})", server.child.id());
    assert!(error.contains(&holder) || !cfg!(target_os = "linux"), "{error}");
    assert!(error.contains("--listen") && error.contains("TIDERACE_LISTEN"), "{error}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_log_in_a_file_has_no_colours() {
    let mut child = Command::new(PROGRAM)
        .args(["serve", "--listen", FREE, "--log-format", "text"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = log.find(|line| line.contains("started")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!line.contains('\u{1b}'), "{line:?}");
}

#[test]
fn completions_load() {
    let at = SocketAddr::from(([127, 0, 0, 1], 1));
    let script = done(at, &["completions", "bash"]);
    let mut bash = Command::new("bash").arg("-s").stdin(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success());
    for name in ["respond", "call", "queue"] {
        assert!(script.contains(name), "{name}");
    }
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let at = SocketAddr::from(([127, 0, 0, 1], 1));
    let directory = Directory::new("man");
    done(at, &["man", directory.0.to_str().unwrap()]);
    let read = |name: &str| std::fs::read_to_string(directory.0.join(name)).unwrap();
    let whole = read("tiderace.1");
    assert_eq!(done(at, &["man"]), whole);
    assert!(whole.contains("tiderace\\-drain(1)"), "{whole}");
    assert!(read("tiderace-drain.1").contains("\\-\\-over"));
    assert!(read("tiderace-topics-ls.1").contains("\\-\\-values"));
}

#[test]
fn the_commands_of_the_page_about_the_command_line_do_what_it_says() {
    let directory = Directory::new("cli-page");
    let server = Server::start(&directory.0, "");
    let shell = |line: &str| {
        let mut shell = Command::new("sh");
        let line = line.replace("tiderace ", &format!("'{PROGRAM}' "));
        shell.args(["-c", &line]).env("TIDERACE_HOST", server.address.to_string());
        shell
    };
    let said = |heading: &str| -> Vec<String> {
        let commands = commands_of("docs/cli.md", heading);
        let run = |line: &String| {
            let output = shell(line).output().unwrap();
            assert!(output.status.success(), "{line}: {}", text(&output.stderr));
            text(&output.stdout)
        };
        commands.iter().map(run).collect()
    };
    let topics = said("## Topics");
    assert_eq!(topics[2], "{\"bid\":1.10}\n");
    assert!(topics[3].starts_with(r#"{"body":{"bid":1.10},"#), "{}", topics[3]);
    assert!(topics[4].contains("fx/EUR-USD"), "{}", topics[4]);
    assert_eq!(topics[7..], ["one\n", "one\n"]);

    let queues = said("## Queues");
    assert_eq!(queues[2], "{\"to\":\"ann\"}\n");
    assert_eq!(queues[3].lines().count(), 2);
    assert_eq!(queues[4], "{\"to\":\"ann\"}\na second job\n");

    let commands = commands_of("docs/cli.md", "## Services");
    let mut responder = shell(&commands[0]).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = BufReader::new(responder.stderr.take().unwrap());
    err.read_line(&mut String::new()).unwrap();
    for call in &commands[1..] {
        let output = shell(call).output().unwrap();
        assert_eq!(text(&output.stdout).trim(), "3", "{}", text(&output.stderr));
    }
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    assert!(responder.wait().unwrap().success(), "{rest}");

    let server_side = said("## The server");
    assert!(server_side[1].contains("listen"), "{}", server_side[1]);
}
