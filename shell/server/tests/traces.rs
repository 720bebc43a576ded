//! Traces of what sessions do, over real sockets: what each thing is told as, who may see it, and how it ends.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::connections::{Managed, ask, token_of};
use crate::program::logins::{LoggedIn, Show, Stomp};

/// Ann may use queues and call; nobody else may read queues.
const RULES: &str =
    "[[rule]]\nallow = [\"send\", \"receive\", \"call\"]\nprincipals = [\"user:ann\"]\n";

/// The command while it prints events; it is killed when the test ends.
struct Tracing {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Tracing {
    fn start(server: &Managed, who: &str, arguments: &[&str]) -> Tracing {
        let before = running(server).len();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tiderace"))
            .args(["connections", "trace", "--json", "--for", "5m"])
            .args(arguments)
            .args(["-s", &server.server.addresses[0].to_string(), "--passcode", &token_of(who)])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        while running(server).len() == before {
            assert!(child.try_wait().unwrap().is_none(), "it has ended");
            std::thread::yield_now();
        }
        let lines = BufReader::new(child.stdout.take().unwrap());
        Tracing { child, lines }
    }

    /// The next event; there is one, or the test hangs until it is killed.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no event: {line:?}"))
    }

    /// The next event that is called so.
    fn until(&mut self, event: &str) -> Value {
        loop {
            let next = self.next();
            if next["event"] == event {
                return next;
            }
            assert_ne!(next["event"], "trace-ended", "{event} did not come");
        }
    }

    /// Ctrl-C.
    fn interrupt(&self) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(id), Signal::SIGINT).unwrap();
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn running(server: &Managed) -> Vec<Value> {
    server.lines("operator", &["connections", "traces"])
}

fn stomp(server: &Managed, who: &str) -> Stomp {
    Stomp::log_in(&server.way(), Show::Token(&token_of(who))).unwrap()
}

/// The value of a header of a frame.
fn header(frame: &str, name: &str) -> String {
    let line = frame.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("{frame}")).to_owned()
}

#[test]
fn each_thing_that_a_session_does_is_an_event() {
    let server = Managed::start("traces-events", RULES);
    let mut tracing = Tracing::start(&server, "operator", &["--principal", "ann"]);
    let mut ann = stomp(&server, "ann");
    let session = tracing.until("logged-in")["session"].clone();
    let told = |event: Value, members: Value| {
        for (name, value) in members.as_object().unwrap() {
            assert_eq!(&event[name], value, "{event}");
        }
        assert_eq!((&event["session"], &event["name"]), (&session, &json!("ann")), "{event}");
        assert!(event["time"].as_u64().unwrap() > 1_700_000_000_000);
    };
    ann.send("SUBSCRIBE\nid:t\ndestination:/topic/fx/*\n");
    told(tracing.next(), json!({"event": "subscribed", "topic": "fx/*"}));
    ann.send("SEND\ndestination:/topic/fx/a\n\nhello");
    told(tracing.next(), json!({"event": "published", "topic": "fx/a", "messages": 1}));
    told(tracing.next(), json!({"event": "delivered", "topic": "fx/a", "messages": 1}));
    ann.frame();
    ann.send("UNSUBSCRIBE\nid:t\n");
    told(tracing.next(), json!({"event": "unsubscribed"}));
    ann.send("SUBSCRIBE\nid:q\ndestination:/queue/jobs\nack:client-individual\n");
    told(tracing.next(), json!({"event": "subscribed", "queue": "jobs"}));
    for (answer, event) in [("ACK", "acknowledged"), ("NACK", "rejected")] {
        ann.send("SEND\ndestination:/queue/jobs\n\nwork");
        told(tracing.next(), json!({"event": "sent", "queue": "jobs", "messages": 1}));
        told(tracing.next(), json!({"event": "delivered", "queue": "jobs", "messages": 1}));
        let frame = ann.frame();
        ann.send(&format!("{answer}\nid:{}\n", header(&frame, "ack")));
        told(tracing.next(), json!({"event": event, "messages": 1}));
    }
    ann.send("DISCONNECT\n");
    let ended = tracing.until("ended");
    assert_eq!((&ended["session"], &ended["code"]), (&session, &json!("done")), "{ended}");

    let mut ann = server.log_in("native", "ann").unwrap();
    let session = tracing.until("logged-in")["session"].clone();
    ask(&mut ann, &json!({"do": "update", "path": "fx/b", "text": "1"})).unwrap();
    let asked = tracing.until("asked");
    assert_eq!((&asked["do"], &asked["topic"]), (&json!("update"), &json!("fx/b")), "{asked}");
    let done = tracing.until("done");
    assert_eq!((&done["token"], &done["session"]), (&asked["token"], &session), "{done}");
    ask(&mut ann, &json!({"do": "kick", "principal": "bob"})).unwrap_err();
    let asked = tracing.until("asked");
    let refused = tracing.until("refused");
    assert_eq!((&asked["do"], &asked["token"]), (&json!("kick"), &refused["token"]));
    assert_eq!(refused["code"], "not-authorised", "{refused}");
    assert!(!server.run("ann", &["call", "quotes", "now"]).status.success());
    assert_eq!(tracing.until("called")["service"], "quotes");
    assert_eq!(tracing.until("call-ended")["side"], "caller");

    let kicked = json!({"do": "kick", "principal": "ann"});
    assert_eq!(server.operate("operator", &kicked).0, "200");
    let mut ended = tracing.until("ended");
    while ended["session"] != session {
        // That of the command.
        ended = tracing.until("ended");
    }
    assert_eq!(ended["code"], "kicked", "{ended}");
}

#[test]
fn a_login_that_is_refused_is_told_by_its_address_and_by_the_name_that_it_says() {
    let server = Managed::start("traces-logins", "");
    let mut by_address = Tracing::start(&server, "operator", &["--address", "127.0.0.0/8"]);
    let mut by_name = Tracing::start(&server, "operator", &["--principal", "ann"]);
    let show = Show::Password("ann", "wrong");
    assert!(LoggedIn::begin("stomp", &server.way(), show).is_err());
    let asked = by_name.next();
    assert_eq!((&asked["event"], &asked["login"]), (&json!("asked-to-log-in"), &json!("ann")));
    assert_eq!(by_name.next()["code"], "login-failed");
    let session = &asked["session"];
    assert_eq!(&by_name.until("ended")["session"], session);
    let mut began = by_address.until("began");
    while &began["session"] != session {
        began = by_address.until("began");
    }
    let said = [&began["protocol"], &began["address"]];
    assert_eq!(said, [&json!("stomp"), &json!("127.0.0.1")]);
    let mut refused = by_address.until("refused");
    while &refused["session"] != session {
        refused = by_address.until("refused");
    }
    assert_eq!(refused["code"], "login-failed");
}

#[test]
fn bodies_are_shown_to_who_may_read_them_and_to_nobody_else() {
    let server = Managed::start("traces-bodies", RULES);
    let mut tracing = Tracing::start(&server, "operator", &["--principal", "ann", "--bodies", "3"]);
    let mut plain = Tracing::start(&server, "operator", &["--principal", "ann"]);
    let mut ann = stomp(&server, "ann");
    ann.send("SEND\ndestination:/topic/fx/a\n\nhello");
    ann.send("SEND\ndestination:/queue/jobs\n\nsecret");
    let published = tracing.until("published");
    assert_eq!((&published["bodies"], &published["bytes"]), (&json!(["hel"]), &json!(6)));
    let sent = tracing.until("sent");
    assert_eq!((&sent["bodies"], &sent["queue"]), (&Value::Null, &json!("jobs")), "{sent}");
    assert_eq!(plain.until("published")["bodies"], Value::Null);
    let [with_bodies, without] = &running(&server)[..] else { panic!("two") };
    let topic = |trace: &Value| trace["topic"].as_str().unwrap().to_owned();
    let (own, common) = (topic(with_bodies), topic(without));
    assert!(own.starts_with("$sys/trace/user/operator/"), "{own}");
    // Everybody may subscribe to what is not private; what has bodies is for who has asked for them, by each protocol.
    for (who, path, may) in [
        ("operator", &own, true),
        ("admin", &own, false),
        ("bob", &own, false),
        ("admin", &common, true),
    ] {
        let mut client = stomp(&server, who);
        client.send(&format!("SUBSCRIBE\nid:0\ndestination:/topic/{path}\nreceipt:r\n"));
        let frame = client.frame();
        let is_refused = frame.starts_with("ERROR") && frame.contains("not-authorised");
        assert_eq!(is_refused, !may, "{who} {path}: {frame}");
        let read = json!({"do": "history", "path": path});
        let mut native = server.log_in("native", who).unwrap();
        assert_eq!(ask(&mut native, &read).is_ok(), may, "{who} {path}");
    }
}

#[test]
fn a_trace_of_paths_tells_what_anybody_sends_there() {
    let server = Managed::start("traces-paths", RULES);
    let mut tracing = Tracing::start(&server, "operator", &["--path", "fx/**"]);
    let (mut ann, mut bob) = (stomp(&server, "ann"), stomp(&server, "bob"));
    ann.send("SUBSCRIBE\nid:0\ndestination:/topic/fx/a\nreceipt:r\n");
    assert!(ann.frame().contains("receipt-id:r"));
    let subscribed = tracing.next();
    assert_eq!((&subscribed["event"], &subscribed["name"]), (&json!("subscribed"), &json!("ann")));
    bob.send("SEND\ndestination:/topic/other\n\nno");
    bob.send("SEND\ndestination:/topic/fx/a\n\nyes");
    // That ann gets it is no event of the path.
    let published = tracing.next();
    assert_eq!(
        [&published["event"], &published["name"], &published["topic"]],
        ["published", "bob", "fx/a"]
    );
    ann.send("SEND\ndestination:/queue/fx/b\n\nyes");
    assert_eq!(tracing.next()["queue"], "fx/b");
}

#[test]
fn a_session_of_a_virtual_host_is_traced_by_its_whole_name_and_paths() {
    let host = "[[virtual_host]]\nname = \"shop\"\nhosts = [\"shop.example.org\"]\n";
    let server = Managed::start("traces-hosts", host);
    let mut tracing = Tracing::start(&server, "operator", &["--principal", "@shop/ann"]);
    let mut by_path = Tracing::start(&server, "operator", &["--path", "@shop/fx/*"]);
    // Somebody else of that name.
    let mut other = stomp(&server, "ann");
    other.send("SEND\ndestination:/topic/fx/a\n\nno");
    let mut stream = TcpStream::connect(server.way().address).unwrap();
    let (token, head) = (token_of("ann"), "CONNECT\naccept-version:1.2");
    let frames = format!(
        "{head}\nhost:shop.example.org\ntoken:{token}\n\n\0\
         SUBSCRIBE\nid:0\ndestination:/topic/fx/*\n\n\0SEND\ndestination:/topic/fx/a\n\nyes\0"
    );
    stream.write_all(frames.as_bytes()).unwrap();
    assert_eq!(tracing.until("logged-in")["name"], "@shop/ann");
    assert_eq!(tracing.until("subscribed")["topic"], "@shop/fx/*");
    for tracing in [&mut tracing, &mut by_path] {
        let published = tracing.until("published");
        assert_eq!(
            [&published["name"], &published["topic"]],
            ["@shop/ann", "@shop/fx/a"],
            "{published}"
        );
    }
    assert_eq!(tracing.until("delivered")["topic"], "@shop/fx/a");
}

#[test]
fn events_that_come_too_fast_are_left_out_and_counted() {
    let server = Managed::start("traces-flood", "");
    let mut tracing = Tracing::start(&server, "operator", &["--principal", "ann"]);
    let mut ann = stomp(&server, "ann");
    // Each is a run of its own, for the one before goes elsewhere.
    let two = "SEND\ndestination:/topic/a\n\nx\n\0SEND\ndestination:/topic/b\n\nx\n\0";
    let count = 2_000;
    ann.send(&(two.repeat(count) + "SEND\ndestination:/topic/c\nreceipt:r\n\nx"));
    assert!(ann.frame().contains("receipt-id:r"), "no message waits for a trace");
    let (mut published, mut left_out) = (0, 0);
    while published + left_out < 2 * count as u64 {
        let event = tracing.next();
        match event["event"].as_str().unwrap() {
            "published" => published += 1,
            "left-out" => left_out += event["count"].as_u64().unwrap(),
            _ => {}
        }
    }
    assert!(published >= 400 && left_out > 0, "{published} {left_out}");
    assert!(running(&server)[0]["left_out"].as_u64().unwrap() >= left_out);
}

#[test]
fn a_trace_ends_by_itself_or_by_ctrl_c_and_both_are_recorded() {
    let server = Managed::start("traces-ends", "");
    let mut tracing = Tracing::start(&server, "operator", &["--principal", "bob"]);
    tracing.interrupt();
    assert!(tracing.child.wait().unwrap().success());
    assert_eq!(running(&server), [json!(null); 0]);
    let short = ["connections", "trace", "--principal", "bob", "--for", "300ms"];
    let events = server.lines("operator", &short);
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["why"]), (&json!("trace-ended"), &json!("time")));
    assert_eq!(running(&server), [json!(null); 0]);
    let recorded = server.lines("operator", &["audit", "--verb", "trace"]);
    let begun = recorded.iter().filter(|line| line["outcome"] == "done").count();
    assert_eq!(begun, 2, "{recorded:?}");
    assert_eq!(recorded[1]["on"], "principal=bob for=300ms");
    let ended = server.lines("operator", &["audit", "--verb", "trace-end"]);
    assert_eq!(ended[0]["on"], "id=1");
    // A sample of none, or nothing to trace, is nothing.
    for wrong in [json!({"do": "trace"}), json!({"do": "trace", "path": "a", "sample": 0})] {
        assert_eq!(server.operate("operator", &wrong).0, "400");
    }
    for _ in 0..8 {
        let begun = server.operate("operator", &json!({"do": "trace", "path": "a"}));
        assert_eq!(begun.0, "200", "{begun:?}");
    }
    let (_, refused) = server.operate("operator", &json!({"do": "trace", "path": "a"}));
    assert!(refused["message"].as_str().unwrap().contains("8 traces go on"), "{refused}");
}

#[test]
fn who_traces_itself_is_not_told_of_what_it_acknowledges_of_the_trace() {
    let server = Managed::start("traces-itself", "");
    let begun = server.operate("operator", &json!({"do": "trace", "principal": "operator"})).1;
    let topic = begun["topic"].as_str().unwrap();
    let mut session = stomp(&server, "operator");
    session.send(&format!(
        "SUBSCRIBE\nid:t\ndestination:/topic/{topic}\nack:client-individual\nreceipt:r\n"
    ));
    let mut events = Vec::new();
    while !events.contains(&"unsubscribed".to_owned()) {
        let frame = session.frame();
        if frame.starts_with("RECEIPT") {
            session.send("SUBSCRIBE\nid:o\ndestination:/topic/fx/a\n");
            continue;
        }
        assert!(frame.starts_with("MESSAGE"), "{frame}");
        session.send(&format!("ACK\nid:{}\n", header(&frame, "ack")));
        let body = frame.split("\n\n").nth(1).unwrap().trim_end_matches('\0');
        let event: Value = serde_json::from_str(body).unwrap();
        events.push(event["event"].as_str().unwrap().to_owned());
        if event["topic"] == "fx/a" {
            session.send("UNSUBSCRIBE\nid:o\n");
        }
    }
    assert!(!events.contains(&"acknowledged".to_owned()), "{events:?}");
}

#[test]
fn a_trace_ends_with_the_right_to_it() {
    let server = Managed::start("traces-rights", "");
    let trace = json!({"do": "trace", "principal": "ann"});
    assert_eq!(server.operate("operator", &trace).0, "200");
    assert_eq!(server.operate("admin", &trace).0, "200");
    let file = server.file();
    let text = std::fs::read_to_string(&file).unwrap();
    let denied = "[[rule]]\ndeny = [\"operate\", \"admin\"]\nprincipals = [\"user:operator\"]\npaths = [\"$sys/trace\"]\n";
    std::fs::write(&file, text + denied).unwrap();
    assert_eq!(server.operate("admin", &json!({"do": "reload"})).0, "200");
    let listed = || server.lines("admin", &["connections", "traces"]);
    while listed().len() > 1 {
        std::thread::yield_now();
    }
    assert_eq!(listed()[0]["by"], "admin");
    // More than may go on are refused, and the server is not what is wrong.
    for _ in 1..8 {
        assert_eq!(server.operate("admin", &trace).0, "200");
    }
    let refused = server.operate("admin", &trace);
    assert_eq!((&*refused.0, &refused.1["code"]), ("429", &json!("rate-limited")), "{refused:?}");
}
