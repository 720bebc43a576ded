//! The record of changes: that each verb of the table leaves a line in it, by every protocol and for all who ask, and how it is read.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use serde_json::{Map, Value, json};
use tiderace_manage::{Effect, VERBS, Verb};

use crate::alarms::TIMEOUT;
use crate::connections::{Managed, ask, audited, token_of};
use crate::management::{NONE, Node, operation, resource};
use crate::program::Directory;
use crate::program::logins::{LoggedIn, Show, SocketIo, authorization, exchange};
use crate::program::watched::{Watched, serve_on};
use crate::readme::commands_of;

/// What the record says behind a number, and the number behind which it goes on.
fn records(node: &Node, after: u64) -> (Vec<Value>, u64) {
    let asked = json!({"do": "audit", "after": after, "limit": 500});
    let (status, mut page) = node.operate("operator", &asked);
    assert_eq!((status, &page["more"]), (200, &json!(false)), "{page}");
    let next = page["next"].as_u64().unwrap();
    (serde_json::from_value(page["records"].take()).unwrap(), next)
}

/// The fields of a verb that has something to do, not only to say what it would.
fn fields_of(node: &Node, verb: &Verb) -> Value {
    let (fields, _) = node.tried(verb, 0);
    let fields = fields.as_object().unwrap().clone().into_iter();
    Value::Object(fields.filter(|(name, _)| name != "dry_run").collect::<Map<_, _>>())
}

/// The words of the command of a verb, without the one that says that nothing is to be done.
fn words_of(node: &Node, verb: &Verb) -> Vec<String> {
    let (_, command) = node.tried(verb, 0);
    let view = node.directory.0.join("view");
    std::fs::write(&view, "map a to b").unwrap();
    let backup = node.directory.0.join("record.backup");
    let command = command.replace("VIEW", &view.display().to_string());
    let command = command.replace("backup --dry-run", &format!("backup {}", backup.display()));
    command.split(' ').filter(|word| *word != "--dry-run").map(str::to_owned).collect()
}

#[test]
fn each_verb_that_changes_something_leaves_a_record_by_every_way() {
    let node = Node::start("audit-verbs");
    // What is read of a backup is part of one that was begun.
    let changing = |verb: &&Verb| verb.effect == Effect::Changes && verb.name != "backup-read";
    for verb in VERBS.iter().filter(changing) {
        for who in [NONE, "admin"] {
            let mut native =
                LoggedIn::begin("native", &node.way(), Show::Token(&token_of(who))).unwrap();
            let socketio = SocketIo::log_in(&node.way(), Show::Token(&token_of(who))).unwrap();
            for way in ["rest", "native", "socketio", "command"] {
                node.prepare(verb);
                let (_, after) = records(&node, 0);
                let (fields, words) = (fields_of(&node, verb), words_of(&node, verb));
                match way {
                    "rest" => {
                        let (target, body) = resource(verb, &fields);
                        drop(node.request(who, verb.rest.method, &target, &body));
                    }
                    "native" => drop(ask(&mut native, &operation(verb, &fields))),
                    "socketio" => {
                        socketio.post(&format!("420[\"operate\",{}]", operation(verb, &fields)));
                        let answer = socketio.poll();
                        assert!(answer.starts_with("430"), "{answer}");
                    }
                    _ => drop(node.run(who, &words)),
                }
                let (found, _) = records(&node, after);
                let case = format!("{} by {way} as {who}: {found:?}", verb.name);
                if verb.name == "kick-session" && way == "command" && who != NONE {
                    // The command looks first, and the session has ended by the first way.
                    assert!(found.is_empty(), "{case}");
                    continue;
                }
                let [record] = &found[..] else { panic!("{case}") };
                let said = (&record["verb"], &record["who"]);
                assert_eq!(said, (&json!(verb.operation), &json!(who)), "{case}");
                assert!(record["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{case}");
                let dry = record["on"].as_str().unwrap_or_default().ends_with("dry_run");
                // Some commands ask first what would be done.
                assert!(!dry || (who == NONE && way == "command"), "{case}");
                match who {
                    NONE => assert_eq!(record["code"], "not-authorised", "{case}"),
                    // By the first way the session has ended, and a backup goes on that the others wait for.
                    _ if way != "rest" && ["kick-session", "backup"].contains(&verb.name) => {}
                    _ => assert_eq!(record["outcome"], "done", "{case}"),
                }
            }
        }
        node.operate("admin", &json!({"do": "drain-cancel"}));
    }
}

/// What the record of a server says behind a number.
fn behind(server: &Managed, after: u64) -> Vec<Value> {
    let (_, page) = server.operate("operator", &json!({"do": "audit", "after": after}));
    page["records"].as_array().unwrap_or_else(|| panic!("{page}")).clone()
}

#[test]
fn sessions_of_virtual_hosts_are_recorded_with_their_names() {
    let host = "[[virtual_host]]\nname = \"shop\"\nhosts = [\"shop.example.org\"]\n";
    let secret = "sha256:734e30c25bb418e5b2721207fac2b8c3a99d80fbca8e8c038f60ad764ceb26c9";
    let tess = format!("[[token]]\nname = \"tess\"\nsecret = {secret:?}\nhost = \"shop\"\n");
    let rule = "[[rule]]\nallow = [\"manage\", \"send\", \"create\"]\n\
                principals = [\"user:tess\"]\nkind = \"queue\"\n";
    // Rights on the node's own paths are of no use to who is in a host: the record is that of the whole node.
    let node = "[[rule]]\nallow = [\"operate\", \"admin\"]\nprincipals = [\"user:tess\"]\npaths = [\"$sys/**\"]\n";
    let server = Managed::start("audit-hosts", &format!("{host}{tess}{rule}{node}"));
    let post = |target: &str, body: &str| {
        let mut stream = TcpStream::connect(server.way().address).unwrap();
        let token = authorization(Show::Token(&token_of("tess")));
        let head = format!("POST {target} HTTP/1.1\r\nHost: shop.example.org\r\n{token}");
        let length = format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        stream.write_all(format!("{head}{length}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(post("/queues/jobs", "one").starts_with("HTTP/1.1 200"));
    for (operation, status) in [
        (json!({"do": "pause", "path": "jobs"}), 200),
        (json!({"do": "purge", "path": "nothing"}), 404),
        (json!({"do": "kick", "principal": "ann", "reason": "no"}), 403),
        (json!({"do": "unview", "name": "v"}), 403),
        (json!({"do": "audit"}), 403),
    ] {
        let said = post("/operations", &operation.to_string());
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{operation}: {said}");
        let is_of_node = ["kick", "unview", "audit"].contains(&operation["do"].as_str().unwrap());
        assert_eq!(said.contains("virtual host"), is_of_node, "{operation}: {said}");
    }
    let said = |record: &Value| {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        assert_eq!(record["who"], "@shop/tess", "{record}");
        (text("verb"), text("on"), text("outcome"))
    };
    let expected = [
        ("pause", "queue=@shop/jobs", "done"),
        ("purge", "queue=@shop/nothing", "refused"),
        ("kick", "principal=ann reason=\"no\"", "refused"),
        ("unview", "view=v", "refused"),
    ];
    let expected = expected.map(|(verb, on, outcome)| (verb.into(), on.into(), outcome.into()));
    assert_eq!(behind(&server, 0).iter().map(said).collect::<Vec<_>>(), expected);
}

#[test]
fn who_is_refused_again_and_again_fills_neither_the_log_nor_the_record() {
    let server = Managed::start("audit-flood", "");
    let mut eve = server.log_in("native", "nobody").unwrap();
    let kick = json!({"do": "kick", "principal": "ann"});
    for _ in 0..200 {
        assert_eq!(ask(&mut eve, &kick).unwrap_err(), "not-authorised");
    }
    assert_eq!(server.operate("operator", &kick).0, "200");
    let records = behind(&server, 0);
    assert_eq!(records.len(), 11, "{records:?}");
    assert_eq!(records[10]["outcome"], "done");
    let head =
        format!("GET /metrics HTTP/1.1\r\n{}", authorization(Show::Token(&token_of("viewer"))));
    let (_, metrics) = exchange(&server.way(), &head, "");
    for (outcome, count) in [("done", 1), ("refused", 10), ("left-out", 190)] {
        let line = format!("tiderace_audit_records_total{{outcome=\"{outcome}\"}} {count}");
        assert!(metrics.lines().any(|known| known == line), "{line}: {metrics}");
    }
}

#[test]
fn the_command_prints_the_record_and_goes_on_with_it() {
    let mut server = Managed::start("audit-command", "");
    let log = json!({"do": "log", "level": "info"});
    for who in ["operator", "viewer", "admin"] {
        server.operate(who, &log);
    }
    // Those of the log are the same.
    let numbers: Vec<Value> = (0..3).map(|_| audited(&mut server)["number"].clone()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let shown = |arguments: &[&str]| {
        let records = server.lines("operator", &[&["audit"], arguments].concat());
        records.iter().map(|it| it["number"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&[]), [1, 2, 3]);
    assert_eq!((shown(&["-n", "1"]), shown(&["-n", "0"])), (vec![3], vec![]));
    assert_eq!(shown(&["-n", "2000"]), [1, 2, 3]);
    assert_eq!((shown(&["--who", "viewer"]), shown(&["--verb", "kick"])), (vec![2], vec![]));
    let refused = server.run("viewer", &["audit"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tiderace"))
        .args(["audit", "-f", "-n", "1", "-s", &server.way().address.to_string()])
        .args(["--passcode", &token_of("operator")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("admin (127.0.0.1:"));
    server.operate("nobody", &json!({"do": "pause", "path": "jobs"}));
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("nobody (127.0.0.1:"), "{line}");
    assert!(line.contains("  pause queue=jobs: refused, nobody may not manage"), "{line}");
    assert!(line.ends_with("(not-authorised)"), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn who_follows_the_record_goes_on_when_the_server_is_started_again() {
    let directory = Directory::new("audit-again");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let file = directory.0.join("tiderace.toml");
    std::fs::write(&file, format!("[server]\nlisten = [{address:?}]\n")).unwrap();
    let start = || Watched::of(&mut serve_on(listener.try_clone().unwrap().into(), &file));
    let kick = |whom: &str| {
        let words = ["connections", "kick", "--yes", "--principal", whom, "-s", &address];
        Command::new(env!("CARGO_BIN_EXE_tiderace")).args(words).output().unwrap()
    };
    let server = start();
    assert!(kick("ann").status.success());
    let mut child = Command::new(env!("CARGO_BIN_EXE_tiderace"))
        .args(["audit", "-f", "-s", &address])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = lines_of(child.stdout.take().unwrap());
    let said = lines_of(child.stderr.take().unwrap());
    let _following = Following(child);
    let next = |of: &Receiver<String>| of.recv_timeout(TIMEOUT).expect("it says nothing more");
    assert!(next(&lines).contains("kick principal=ann"));
    drop(server);
    let _again = start();
    while !next(&said).contains("connected again") {}
    assert!(kick("bob").status.success());
    // Both have the same number, since the second server has a record of its own.
    assert!(next(&lines).contains("kick principal=bob"));
    assert!(next(&said).contains("this is another record"));
}

/// A command that goes on until it is ended.
struct Following(Child);

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    let output = BufReader::new(output).lines();
    thread::spawn(move || output.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    lines
}

#[test]
fn the_commands_of_the_page_print_the_record() {
    let server = Managed::start("audit-page", "");
    let program = env!("CARGO_BIN_EXE_tiderace");
    let kick = json!({"do": "kick", "principal": "ann"});
    assert_eq!(server.operate("operator", &kick).0, "200");
    let commands = commands_of("docs/management.md", "## The record");
    let begun = Instant::now();
    let said: Vec<String> = commands
        .iter()
        .map(|line| {
            let output = Command::new("sh")
                .args(["-c", &line.replacen("tiderace", &format!("exec '{program}'"), 1)])
                .env("TIDERACE_HOST", server.way().address.to_string())
                .env("TIDERACE_PASSCODE", token_of("operator"))
                .output()
                .unwrap();
            assert!(output.status.success(), "{line}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    assert!(begun.elapsed() < TIMEOUT);
    let [all, of_one] = &said[..] else { panic!("{said:?}") };
    let tail = "  kick principal=ann: done {\"sessions\":0,\"dry_run\":false}\n";
    assert!(all.contains("Z  operator (127.0.0.1:") && all.ends_with(tail), "{all}");
    let record: Value = serde_json::from_str(of_one).unwrap();
    assert_eq!((&record["number"], &record["verb"]), (&json!(1), &json!("kick")));
}
