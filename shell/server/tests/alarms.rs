//! Alarms of the real program: they begin, say what to do, are shown, told and counted, and end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::program::watched::{Watched, serve_on};
use crate::program::{Directory, FREE, names_of_threads};

/// Long enough for a busy machine; nothing waits for it unless something is broken.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn command(address: SocketAddr, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
    command.args(arguments).args(["-s", &address.to_string()]);
    command
}

pub(crate) fn run(address: SocketAddr, arguments: &[&str]) -> String {
    let output = command(address, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn alarms(address: SocketAddr) -> Vec<Json> {
    let text = run(address, &["alarms", "--json"]);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn find(address: SocketAddr, name: &str) -> Option<Json> {
    alarms(address).into_iter().find(|alarm| alarm["name"] == name)
}

/// Waits until an alarm is there; its value.
fn wait_for(address: SocketAddr, name: &str) -> Json {
    let start = Instant::now();
    loop {
        if let Some(alarm) = find(address, name) {
            return alarm;
        }
        assert!(start.elapsed() < TIMEOUT, "{name} does not begin: {:?}", alarms(address));
        thread::yield_now();
    }
}

fn wait_for_end(address: SocketAddr, name: &str) {
    let start = Instant::now();
    while find(address, name).is_some() {
        assert!(start.elapsed() < TIMEOUT, "{name} does not end");
        thread::yield_now();
    }
}

pub(crate) fn metric(address: SocketAddr, line: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let mut lines = answer.lines();
    let value = lines.find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
    value.map(str::to_owned)
}

/// Who says nothing is not cut off while a test looks: this is as long as may be.
const PATIENT: &str = "[limits]\nfirst_byte_timeout = \"10m\"\n";

fn write(directory: &Path, more: &str) {
    let text = format!("[server]\nlisten = [{FREE:?}]\nshards = 2\n{more}");
    std::fs::write(directory.join("tiderace.toml"), text).unwrap();
}

/// The command while it follows; it is killed when the test ends.
pub(crate) struct Following {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Following {
    pub(crate) fn begin(address: SocketAddr, arguments: &[&str]) -> Following {
        let mut child = command(address, arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Following { child, lines }
    }

    pub(crate) fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the log up to an event of an alarm; there may be others.
fn said_of(server: &mut Watched, event: &str, alarm: &str) {
    let alarm = format!("\"alarm\":{alarm:?}");
    while !server.read_to(event).pop().unwrap().contains(&alarm) {}
}

#[test]
fn a_refused_configuration_is_an_alarm_until_a_good_one_is_read() {
    let directory = Directory::new("alarms-reload");
    let mut server = Watched::start(&directory.0, "", "");
    let address = server.addresses[0];
    let counted = r#"tiderace_alarm{alarm="configuration-refused",severity="warning"}"#;
    assert_eq!(metric(address, counted).as_deref(), Some("0"));

    write(&directory.0, "[limits]\nnonsense = 1\n");
    let reload = command(address, &["reload"]).output().unwrap();
    assert!(!reload.status.success(), "{reload:?}");
    let alarm = wait_for(address, "configuration-refused");
    assert_eq!(alarm["severity"], "warning");
    assert!(alarm["since"].as_u64().unwrap() > 1_700_000_000_000, "{alarm}");
    let remedy = alarm["remedy"].as_str().unwrap();
    assert!(remedy.contains("tiderace config check"), "{alarm}");
    assert_eq!(metric(address, counted).as_deref(), Some("1"));
    let shown = run(address, &["alarms"]);
    assert!(shown.contains("warning   configuration-refused  "), "{shown}");
    assert!(shown.contains(remedy), "{shown}");
    said_of(&mut server, "alarm-raised", "configuration-refused");

    let mut following = Following::begin(address, &["alarms", "-f"]);
    assert!(following.line().starts_with("warning   configuration-refused  "));
    let mut told = Following::begin(address, &["alarms", "-f", "--json"]);
    assert_eq!(serde_json::from_str::<Json>(&told.line()).unwrap(), alarm);

    write(&directory.0, "");
    run(address, &["reload"]);
    wait_for_end(address, "configuration-refused");
    assert_eq!(metric(address, counted).as_deref(), Some("0"));
    said_of(&mut server, "alarm-cleared", "configuration-refused");
    let over = (0..4).map(|_| following.line()).find(|line| line.starts_with("over"));
    assert_eq!(over.as_deref(), Some("over      configuration-refused"));
    let ended: Json = serde_json::from_str(&told.line()).unwrap();
    assert_eq!(ended["name"], "configuration-refused");
    assert!(ended["ended"].is_u64(), "{ended}");
    assert!(!run(address, &["alarms"]).contains("configuration-refused"));
}

#[test]
fn who_may_not_listen_to_alarms_is_told_so() {
    let directory = Directory::new("alarms-rights");
    let secret = |name: &str| {
        let file = directory.0.join(name);
        std::fs::write(&file, format!("a-token-that-is-long-enough-of-{name}")).unwrap();
        format!("[[token]]\nname = {name:?}\nsecret = \"file:{}\"\n", file.display())
    };
    let more = secret("ann")
        + &secret("bob")
        + "[[rule]]\nallow = [\"subscribe\"]\nprincipals = [\"user:bob\"]\npaths = [\"fx/**\"]\n\
           [[rule]]\nallow = [\"monitor\"]\nprincipals = [\"user:ann\"]\npaths = [\"$sys/**\"]\n";
    let server = Watched::start(&directory.0, "", &more);
    let shown = |name: &str| {
        let token = format!("a-token-that-is-long-enough-of-{name}");
        command(server.addresses[0], &["alarms", "-P", &token]).output().unwrap()
    };
    let ann = shown("ann");
    assert!(ann.status.success(), "{ann:?}");
    let bob = shown("bob");
    assert_eq!(bob.status.code(), Some(3), "{bob:?}");
    assert_eq!(String::from_utf8_lossy(&bob.stdout), "");
}

/// An upstream that is not there.
fn away() -> String {
    // Nobody listens there: it was free a moment ago.
    let held = TcpListener::bind(FREE).unwrap();
    let upstream = held.local_addr().unwrap();
    format!("[[upstream]]\nname = \"london\"\nurls = [\"ws://{upstream}\"]\ntopics = [\"fx/**\"]\n")
}

#[test]
fn an_upstream_that_is_away_is_named_with_the_reason() {
    let directory = Directory::new("alarms-upstream");
    let more = away();
    let server = Watched::start(&directory.0, "", &more);
    let alarm = wait_for(server.addresses[0], "upstream-away");
    assert_eq!(alarm["severity"], "critical");
    assert!(alarm["what"].as_str().unwrap().starts_with("upstream london is away: "), "{alarm}");
}

#[test]
fn an_alarm_that_ended_while_the_connection_was_lost_is_said_to_be_over() {
    let directory = Directory::new("alarms-missed");
    // Both lives are given this socket, so that nobody else gets its port in between.
    let listener = TcpListener::bind(FREE).unwrap();
    let address = listener.local_addr().unwrap();
    let file = directory.0.join("tiderace.toml");
    let start = |more: &str| {
        let text = format!("[server]\nlisten = [\"{address}\"]\nshards = 2\n{more}");
        std::fs::write(&file, text).unwrap();
        Watched::of(&mut serve_on(listener.try_clone().unwrap().into(), &file))
    };
    let server = start(&away());
    assert_eq!(server.addresses, [address]);
    wait_for(address, "upstream-away");
    let mut following = Following::begin(address, &["alarms", "-f"]);
    assert!(following.line().starts_with("critical  upstream-away  "));
    drop(server);
    // Another life, without that upstream.
    let _server = start("");
    let over = (0..100).map(|_| following.line()).find(|line| line.starts_with("over"));
    assert_eq!(over.as_deref(), Some("over      upstream-away"));
}

#[test]
fn connections_beyond_the_limit_are_an_alarm_and_so_is_coming_near_it() {
    let directory = Directory::new("alarms-limit");
    let limits = format!("{PATIENT}connections_max = 20\n");
    let server = Watched::start(&directory.0, "", &limits);
    let address = server.addresses[0];
    let mut held: Vec<TcpStream> = Vec::new();
    // Places are left for a command, and for one that has just ended.
    while held.len() < 18 {
        held.push(TcpStream::connect(address).unwrap());
    }
    assert_eq!(wait_for(address, "connections-near-limit")["severity"], "warning");
    let mut following = Following::begin(address, &["alarms", "-f", "--json"]);
    assert!(following.line().contains("connections-near-limit"));
    // More than there is room for: some of them are refused.
    while held.len() < 22 {
        held.push(TcpStream::connect(address).unwrap());
    }
    let at_limit =
        (0..100).map(|_| following.line()).find(|it| it.contains("connections-at-limit"));
    assert!(at_limit.unwrap().contains(r#""severity":"critical""#));
    drop(held);
    let is_end = |it: &String| it.contains("ended") && it.contains("connections-near-limit");
    assert!((0..100).map(|_| following.line()).any(|line| is_end(&line)));
}

#[test]
fn memory_that_is_used_up_is_an_alarm_until_values_are_removed() {
    let directory = Directory::new("alarms-memory");
    let server = Watched::start(&directory.0, "", "[memory]\nmessages_bytes_max = \"16MB\"\n");
    let address = server.addresses[0];
    let body = directory.0.join("body");
    std::fs::write(&body, "x".repeat(200_000)).unwrap();
    let body = body.to_str().unwrap();
    let mut number = 0;
    let alarm = loop {
        number += 1;
        // What is too much is refused.
        let topic = format!("a/{number}");
        let _ = command(address, &["pub", "-r", &topic, "-f", body]).output().unwrap();
        let found = alarms(address);
        let memory =
            found.into_iter().find(|it| it["name"].as_str().unwrap().starts_with("memory"));
        if let Some(alarm) = memory {
            break alarm;
        }
        assert!(number < 400, "memory is never full");
    };
    assert!(alarm["what"].as_str().unwrap().contains("MiB in use"), "{alarm}");
    run(address, &["topics", "rm", "a/*"]);
    wait_for_end(address, alarm["name"].as_str().unwrap());
}

#[test]
fn a_drain_is_an_alarm_until_it_is_taken_back() {
    let directory = Directory::new("alarms-drain");
    let admin = format!("[[listener]]\naddress = {FREE:?}\nstays_open = true\n");
    let server = Watched::start(&directory.0, "", &admin);
    let admin = server.addresses[1];
    run(admin, &["drain", "--over", "1s", "--delay", "1h", "--no-wait"]);
    assert_eq!(wait_for(admin, "draining")["severity"], "info");
    run(admin, &["drain", "--cancel"]);
    wait_for_end(admin, "draining");
}

#[test]
fn a_server_that_drains_before_it_stops_is_looked_at_until_then() {
    let directory = Directory::new("alarms-last-drain");
    let more = format!("[[listener]]\naddress = {FREE:?}\nstays_open = true\n{PATIENT}");
    let server = Watched::start(&directory.0, "drain_over = \"1h\"", &more);
    // Somebody who does not leave.
    let _held = TcpStream::connect(server.addresses[0]).unwrap();
    server.signal("TERM");
    assert_eq!(wait_for(server.addresses[1], "draining")["severity"], "info");
}

/// A thread more that allocates is a heap more.
#[cfg(target_os = "linux")]
#[test]
fn looking_for_alarms_takes_no_thread() {
    let directory = Directory::new("alarms-threads");
    let server = Watched::start(&directory.0, "", "");
    // That begins behind all others that look at something.
    let start = Instant::now();
    let threads = loop {
        let threads = names_of_threads(server.child.id());
        if threads.iter().any(|name| name == "drain") {
            break threads;
        }
        assert!(start.elapsed() < TIMEOUT, "{threads:?}");
        thread::yield_now();
    };
    let surplus = |name: &String| name == "alarms" || name.starts_with("disk");
    assert!(!threads.iter().any(surplus), "{threads:?}");
}

#[test]
fn dead_letters_and_refused_messages_of_queues_are_alarms() {
    let directory = Directory::new("alarms-queues");
    let more = "[queues]\ndead_letter_expired = true\n[[queue]]\nmatch = \"small\"\nmessages_max = 1\nfull_policy = \"reject\"\n";
    let server = Watched::start(&directory.0, "", more);
    let address = server.addresses[0];
    run(address, &["queues", "send", "small", "1"]);
    let refused = command(address, &["queues", "send", "small", "2"]).output().unwrap();
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(wait_for(address, "queue-messages-refused")["severity"], "critical");
    run(address, &["queues", "send", "late", "--expires", "1ms", "3"]);
    let dead = wait_for(address, "dead-letters");
    assert_eq!(
        (&dead["severity"], &dead["what"]),
        (&"warning".into(), &"1 message came to a dead-letter queue".into())
    );
}
