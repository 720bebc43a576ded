//! `tiderace top` against a running server: its pictures, its end on a terminal, and a server that is started again.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::connections::{Managed, token_of};
use crate::program::logins::{Show, Stomp};
use crate::program::watched::{Watched, serve_on};
use crate::program::{Directory, FREE, Server};

/// Long enough for a busy machine; nothing waits for it unless something is broken.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What is asked for when there is no time to lose.
const QUICK: [&str; 3] = ["top", "--interval", "100ms"];

#[test]
fn one_picture_has_the_sessions_and_says_what_is_missing() {
    let server = Managed::start("top-once", "");
    let _bob = server.log_in("stomp", "bob").unwrap();
    let mut ann = Stomp::log_in(&server.way(), Show::Token(&token_of("ann"))).unwrap();
    ann.send("SUBSCRIBE\nid:1\ndestination:/topic/made.*\nreceipt:1\n");
    assert!(ann.frame().contains("receipt-id:1"));
    let figures = &server.lines("viewer", &[&QUICK[..], &["--once"]].concat())[0];
    assert_eq!(figures["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&figures["shards"], &figures["store"]), (&json!(2), &Value::Null));
    assert_eq!(figures["connections"]["stomp"], 2);
    // Who asks has a session, too.
    assert_eq!((&figures["sessions_matched"], &figures["sort"]), (&json!(3), &json!("backlog")));
    assert!(figures["rates"]["bytes_in"].as_f64().is_some_and(|rate| rate > 0.0), "{figures}");
    assert!(figures["memory"]["max_bytes"].as_u64() > figures["memory"]["bytes"].as_u64());
    let missing = figures["missing"].as_object().unwrap();
    assert_eq!(missing.keys().collect::<Vec<_>>(), ["queues"], "{figures}");

    let sorted = |order: &str, rows: &str| {
        let order = [&QUICK[..], &["--once", "-n", rows, "--sort", order]].concat();
        server.lines("viewer", &order)[0]["sessions"].as_array().unwrap().clone()
    };
    let [most] = &sorted("subscriptions", "1")[..] else { panic!("one row") };
    assert_eq!((&most["name"], &most["subscriptions"]), (&json!("ann"), &json!(1)));
    // Times are in whole seconds, within which any may come first.
    let by_age = sorted("since", "3");
    let since: Vec<_> = by_age.iter().map(|row| row["since"].as_u64().unwrap()).collect();
    assert!(since.len() == 3 && since.is_sorted_by(|later, earlier| later >= earlier), "{since:?}");
    // Who asks has a name of its own.
    let asks = by_age.iter().find(|row| row["name"] == "viewer").unwrap();
    assert_eq!(asks["protocol"], "native", "{asks}");

    let printed = server.run("viewer", &[&QUICK[..], &["--once"]].concat());
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(text.starts_with("tiderace ") && text.contains("\nalarms "), "{text}");
    assert!(text.contains("  bob     127.0.0.1  tcp\n"), "{text}");
    assert!(text.contains("\nno queues: ") && text.contains("(not-authorised)"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let refused = server.run("nobody", &[&QUICK[..], &["--once"]].concat());
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
}

#[test]
fn the_fullest_queues_come_first() {
    let directory = Directory::new("top-queues");
    let server = Server::start(&directory.0, "");
    let address = server.address.to_string();
    let send = |queue: &str, count: usize| {
        for _ in 0..count {
            let mut command = program(&["pub", "--queue", queue, "x", "-s", &address]);
            assert!(command.status().unwrap().success());
        }
    };
    send("few", 1);
    send("many", 3);
    let arguments = [&QUICK[..], &["--once", "--json", "-s", &address]].concat();
    let output = program(&arguments).output().unwrap();
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    let queues = figures["queues"].as_array().unwrap();
    let ready: Vec<_> = queues.iter().map(|queue| (&queue["path"], &queue["messages"])).collect();
    assert_eq!(ready, [(&json!("many"), &json!(3)), (&json!("few"), &json!(1))]);
    assert_eq!(figures["backlog"]["queue_messages"], 4);
    assert_eq!(figures["missing"], json!({}));
}

#[test]
fn it_goes_on_when_the_server_is_started_again() {
    let directory = Directory::new("top-again");
    // Both servers are given the same socket, so that nobody else takes its port in between.
    let listener = TcpListener::bind(FREE).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let start = |node: &str| {
        let file = directory.0.join(format!("{node}.toml"));
        let text = format!("[server]\nlisten = [{address:?}]\nshards = 2\nnode = {node:?}\n");
        std::fs::write(&file, text).unwrap();
        Watched::of(&mut serve_on(listener.try_clone().unwrap().into(), &file))
    };
    let server = start("first");
    let arguments = [&QUICK[..], &["--json", "-s", &address]].concat();
    let mut command = program(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut top = Running { child };
    let output = BufReader::new(top.child.stdout.take().unwrap());
    let (sender, lines) = channel();
    thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|it| sender.send(it)));
    let first = until(&lines, "first");
    assert!(first["rates"]["bytes_in"].is_number(), "{first}");
    drop(server);
    let _again = start("second");
    let second = until(&lines, "second");
    assert_eq!(second["rates"]["bytes_in"], Value::Null, "nothing is known of its past");
    let third = until(&lines, "second");
    assert!(third["rates"]["bytes_in"].is_number(), "{third}");
}

#[test]
fn a_terminal_is_left_as_it_was() {
    let server = Managed::start("top-terminal", "");
    for end in ["q", "SIGINT", "SIGTERM", "SIGQUIT"] {
        let mut terminal = Terminal::run(&server, (70, 12));
        terminal.wait_for("SESSION");
        assert!(!terminal.has(LocalFlags::ICANON) && !terminal.has(LocalFlags::ECHO), "{end}");
        match end {
            "q" => terminal.keys.write_all(b"xq").unwrap(),
            name => kill(terminal.pid(), name.parse::<Signal>().unwrap()).unwrap(),
        }
        let status = terminal.top.child.wait().unwrap();
        assert_eq!(status.success(), ["q", "SIGINT"].contains(&end), "{end}: {status}");
        assert!(terminal.has(LocalFlags::ICANON) && terminal.has(LocalFlags::ECHO), "{end}");
        let text = terminal.wait_for("\u{1b}[?1049l");
        assert!(text.starts_with("\u{1b}[?1049h"), "{text:?}");
        assert!(text.ends_with("\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l"), "{end}: {text:?}");
        // Each picture is as high as the terminal, at most.
        let pictures = text.split("\u{1b}[H").skip(1);
        assert!(pictures.clone().count() > 0);
        for picture in pictures {
            assert!(picture.matches("\r\n").count() < 12, "{picture:?}");
        }
    }
}

#[test]
fn a_terminal_that_shows_nothing_more_is_left_as_it_was() {
    let server = Managed::start("top-blocked", "");
    for end in ["q", "SIGTERM"] {
        let mut terminal = Terminal::run(&server, (70, 12));
        terminal.wait_for("SESSION");
        // Ctrl-S: what is written from now on waits.
        terminal.keys.write_all(b"\x13").unwrap();
        match end {
            "q" => terminal.keys.write_all(b"q").unwrap(),
            name => kill(terminal.pid(), name.parse::<Signal>().unwrap()).unwrap(),
        }
        terminal.top.child.wait().unwrap();
        assert!(terminal.has(LocalFlags::ICANON) && terminal.has(LocalFlags::ECHO), "{end}");
    }
}

#[test]
fn a_lost_connection_is_said_on_the_terminal() {
    let mut server = Managed::start("top-lost", "");
    let terminal = Terminal::run(&server, (20, 3));
    terminal.wait_for("tiderace");
    server.server.child.kill().unwrap();
    terminal.wait_for("\n127.0.0.1:");
    kill(terminal.pid(), Signal::SIGINT).unwrap();
    terminal.wait_for("\u{1b}[?1049l");
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
    command.args(arguments);
    command
}

/// Something that ends with the test.
struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The next picture of a node.
fn until(lines: &Receiver<String>, node: &str) -> Value {
    loop {
        let line = lines.recv_timeout(TIMEOUT).expect("it has ended, or shows nothing more");
        let figures: Value = serde_json::from_str(&line).unwrap();
        if figures["node"] == node {
            return figures;
        }
    }
}

/// A terminal in which it runs.
struct Terminal {
    top: Running,
    keys: File,
    side: OwnedFd,
    shown: Arc<(Mutex<String>, Condvar)>,
}

impl Terminal {
    fn run(server: &Managed, (width, height): (u16, u16)) -> Terminal {
        let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).unwrap();
        let side = || Stdio::from(pair.slave.try_clone().unwrap());
        let address = server.server.addresses[0].to_string();
        let child = program(&[&QUICK[..], &["-s", &address, "--passcode"]].concat())
            .arg(token_of("viewer"))
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .unwrap();
        let keys = File::from(pair.master);
        let mut output = keys.try_clone().unwrap();
        let shown = Arc::<(Mutex<String>, Condvar)>::default();
        let seen = shown.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            let mut all = Vec::new();
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                all.extend_from_slice(&bytes[..count]);
                *seen.0.lock().unwrap() = String::from_utf8_lossy(&all).into_owned();
                seen.1.notify_all();
            }
        });
        Terminal { top: Running { child }, keys, side: pair.slave, shown }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.top.child.id() as i32)
    }

    fn has(&self, flag: LocalFlags) -> bool {
        tcgetattr(&self.side).unwrap().local_flags.contains(flag)
    }

    /// All that was drawn, once it has that.
    fn wait_for(&self, text: &str) -> String {
        let (shown, drawn) = &*self.shown;
        let is_missing = |shown: &mut String| !shown.contains(text);
        let waited = drawn.wait_timeout_while(shown.lock().unwrap(), TIMEOUT, is_missing);
        let (shown, timeout) = waited.unwrap();
        assert!(!timeout.timed_out(), "no {text:?} in {shown:?}");
        shown.clone()
    }
}
