//! Backups of the real program under load: what was acknowledged before one began is there when it is restored, and nothing
//! that was never sent. `TIDERACE_BACKUPS=200` makes 200 of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tiderace_store::Header;

use crate::crashes::{TIMEOUT, connect, frame};
use crate::program::watched::Watched;
use crate::program::{Directory, Server};

/// Clients that send, each with numbers of its own.
const CLIENTS: u64 = 2;
/// Backups of one life of a server: then it is killed, and the next begins with an empty store.
const BACKUPS_OF_LIFE: u64 = 10;
/// Of so many messages one goes to the queue that nobody consumes.
const TURN: u64 = 16;

fn start(directory: &Path, store: &str) -> Server {
    let text = format!(
        "[store]\ndirectory = {:?}\nsync = \"never\"\nsegment_bytes = \"1 MiB\"\nreserve_bytes = \"1 MiB\"\n\
         [large_messages]\ndirectory = {:?}\n[topics]\npersistent = true\nretain = true\n\
         [auth]\nallow_anonymous = true\n[[rule]]\nprincipals = [\"*\"]\npaths = [\"**\", \"$sys/**\"]\n\
         allow = [\"publish\", \"subscribe\", \"send\", \"receive\", \"browse\", \"create\", \"admin\"]\n",
        directory.join(store),
        directory.join("large"),
    );
    Server::start(directory, &text)
}

fn tiderace(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tiderace")).args(arguments).output().unwrap()
}

fn done(output: &Output) -> String {
    let (said, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{error}");
    said.trim().to_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What was sent, and what the server has said of it.
#[derive(Default)]
struct Ledger {
    sent: [AtomicU64; CLIENTS as usize],
    confirmed: Mutex<BTreeSet<u64>>,
    /// Of jobs.
    delivered: Mutex<BTreeSet<u64>>,
    settled: Mutex<BTreeSet<u64>>,
    is_over: AtomicBool,
}

const NUMBERS: u64 = 1 << 40;

/// Where a message goes.
fn destination(number: u64) -> String {
    match number % TURN {
        0 => "/queue/kept".to_owned(),
        1 => format!("/topic/values/{}", topic(number)),
        _ => "/queue/jobs".to_owned(),
    }
}

fn topic(number: u64) -> String {
    format!("{}-{}", number / NUMBERS, number / TURN % 8)
}

/// What it says: some are long, and a few so long that their bodies lie in files.
fn body(number: u64) -> String {
    let length =
        if (number % NUMBERS).is_multiple_of(TURN * 200) { 300_000 } else { number * 37 % 1500 };
    format!("{number} {}", "x".repeat(length as usize))
}

fn header<'a>(frame: &'a str, name: &str) -> Option<&'a str> {
    let lines = frame.lines().take_while(|line| !line.is_empty());
    let mut lines = lines.filter_map(|line| line.split_once(':'));
    lines.find_map(|(known, value)| (known == name).then_some(value))
}

/// The number of a message that was sent, which it is to the last byte.
fn number_of(frame: &str) -> u64 {
    let (_, text) = frame.split_once("\n\n").unwrap();
    let number = text.split(' ').next().unwrap().parse().unwrap();
    assert!(text == body(number), "message {number} is not what was sent");
    number
}

/// Sends in turns until the server is gone or all is over.
fn produce(stream: TcpStream, client: u64, ledger: &Ledger) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    let mut next = 0;
    while !ledger.is_over.load(Ordering::SeqCst) {
        let numbers = next..next + TURN;
        ledger.sent[client as usize].store(numbers.end, Ordering::SeqCst);
        let turn: String = numbers
            .clone()
            .map(|number| client * NUMBERS + number)
            .map(|it| {
                let (to, body) = (destination(it), body(it));
                format!("SEND\ndestination:{to}\npersistent:true\nreceipt:{it}\n\n{body}\0")
            })
            .collect();
        if writer.write_all(turn.as_bytes()).is_err() {
            return;
        }
        for _ in numbers.clone() {
            let Some(frame) = frame(&mut reader) else { return };
            let receipt = header(&frame, "receipt-id").unwrap_or_else(|| panic!("{frame}"));
            ledger.confirmed.lock().unwrap().insert(receipt.parse().unwrap());
        }
        next = numbers.end;
    }
}

/// Takes jobs until the server is gone.
fn consume(stream: TcpStream, ledger: &Ledger) {
    let mut writer = stream.try_clone().unwrap();
    let subscribe = "SUBSCRIBE\nid:1\ndestination:/queue/jobs\nack:client-individual\n\n\0";
    writer.write_all(subscribe.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(frame) = frame(&mut reader) {
        if let Some(receipt) = header(&frame, "receipt-id") {
            ledger.settled.lock().unwrap().insert(receipt.parse().unwrap());
            continue;
        }
        let ack = header(&frame, "ack").unwrap_or_else(|| panic!("{frame}"));
        let number = number_of(&frame);
        ledger.delivered.lock().unwrap().insert(number);
        let text = format!("ACK\nid:{ack}\nreceipt:{number}\n\n\0");
        if writer.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// Everything that is in a queue.
fn take_all(server: &Server, queue: &str) -> BTreeSet<u64> {
    let mut stream = connect(server);
    let mut sender = connect(server);
    let end = format!("SEND\ndestination:/queue/{queue}\nreceipt:end\n\nend\0");
    sender.write_all(end.as_bytes()).unwrap();
    let subscribe = format!("SUBSCRIBE\nid:1\ndestination:/queue/{queue}\nack:auto\n\n\0");
    stream.write_all(subscribe.as_bytes()).unwrap();
    let (mut reader, mut found) = (BufReader::new(stream), BTreeSet::new());
    while let Some(frame) = frame(&mut reader) {
        if frame.starts_with("CONNECTED") {
            continue;
        }
        assert!(frame.starts_with("MESSAGE"), "{frame}");
        if frame.ends_with("\n\nend") {
            return found;
        }
        assert!(found.insert(number_of(&frame)), "a message comes twice");
    }
    panic!("the server has closed the connection");
}

/// Head and body of an answer.
fn request(server: &Server, line: &str, body: &str) -> (String, String) {
    request_at(server.address, line, body)
}

fn request_at(address: SocketAddr, line: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let text = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body.trim().to_owned())
}

/// What has to be in a backup that begins now.
struct Before {
    confirmed: BTreeSet<u64>,
    settled: BTreeSet<u64>,
}

impl Ledger {
    fn before(&self) -> Before {
        // In this order: what is settled is known to be confirmed or not to matter.
        let settled = self.settled.lock().unwrap().clone();
        Before { confirmed: self.confirmed.lock().unwrap().clone(), settled }
    }

    fn was_sent(&self, number: u64) -> bool {
        let sent = self.sent[(number / NUMBERS) as usize].load(Ordering::SeqCst);
        number % NUMBERS < sent
    }

    /// Compares what a server has with what it must have, and may have; how many messages had to be there.
    fn check(&self, server: &Server, before: &Before) -> usize {
        let (kept, jobs) = (take_all(server, "kept"), take_all(server, "jobs"));
        let of = |turn: fn(u64) -> bool| {
            before.confirmed.iter().copied().filter(move |it| turn(*it % TURN))
        };
        let lost: Vec<u64> = of(|turn| turn == 0).filter(|it| !kept.contains(it)).collect();
        assert!(lost.is_empty(), "{} messages are lost: {lost:?}", lost.len());
        let delivered = self.delivered.lock().unwrap().clone();
        let lost: Vec<u64> = of(|turn| turn > 1)
            .filter(|it| !jobs.contains(it) && !delivered.contains(it))
            .collect();
        assert!(lost.is_empty(), "{} jobs are lost: {lost:?}", lost.len());
        let again: Vec<&u64> = jobs.intersection(&before.settled).collect();
        assert!(again.is_empty(), "jobs that were done come again: {again:?}");
        for number in kept.iter().chain(&jobs) {
            assert!(self.was_sent(*number), "{number} was never sent");
        }
        let mut values = BTreeMap::<String, u64>::new();
        for number in of(|turn| turn == 1) {
            let last = values.entry(topic(number)).or_default();
            *last = number.max(*last);
        }
        for (topic, last) in &values {
            let (status, value) = request(server, &format!("GET /topics/values/{topic}"), "");
            assert_eq!(status, "200", "{topic}: {value}");
            let value: u64 = value.split(' ').next().unwrap().parse().unwrap();
            assert!(value >= *last && self.was_sent(value), "{topic}: {value}, {last}");
        }
        of(|turn| turn == 0).count() + values.len()
    }
}

/// Lets clients work with a server until it is killed; they are joined by what this gives.
fn work(server: &Server, ledger: &Arc<Ledger>) -> Vec<thread::JoinHandle<()>> {
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let (stream, ledger) = (connected(server), Arc::clone(ledger));
        clients.push(thread::spawn(move || produce(stream, client, &ledger)));
    }
    let (stream, ledger) = (connected(server), Arc::clone(ledger));
    clients.push(thread::spawn(move || consume(stream, &ledger)));
    clients
}

/// A connection whose CONNECTED has been read: it ends with the only NUL that comes before anything is sent.
fn connected(server: &Server) -> TcpStream {
    let mut stream = connect(server);
    let mut byte = [1];
    while byte != [0] {
        stream.read_exact(&mut byte).unwrap();
    }
    stream
}

/// Waits until so many more messages have been confirmed.
fn wait(ledger: &Ledger, more: usize) {
    let count = || ledger.confirmed.lock().unwrap().len();
    let until = count() + more;
    while count() < until {
        thread::yield_now();
    }
}

#[test]
fn what_was_acknowledged_before_a_backup_is_in_it() {
    let count = std::env::var("TIDERACE_BACKUPS").map_or(4, |count| count.parse().unwrap());
    let seed = u64::from(std::process::id()) * 2_654_435_761;
    let mut checked = 0;
    for life in 0..u64::div_ceil(count, BACKUPS_OF_LIFE) {
        let directory = Directory::new("backups");
        let mut server = start(&directory.0, "store");
        let ledger = Arc::<Ledger>::default();
        let clients = work(&server, &ledger);
        let address = server.address.to_string();
        for round in life * BACKUPS_OF_LIFE..count.min((life + 1) * BACKUPS_OF_LIFE) {
            wait(&ledger, 50 + (seed + round * 40_503) as usize % 1500);
            let file = directory.0.join(format!("{round}.tar"));
            let before = ledger.before();
            done(&tiderace(&["backup", "-s", &address, path(&file)]));
            let restored = directory.0.join(format!("restored-{round}"));
            done(&tiderace(&["restore", path(&file), path(&restored)]));
            let mut other = start(&directory.0, &format!("restored-{round}"));
            checked += ledger.check(&other, &before);
            other.kill();
            std::fs::remove_dir_all(restored).unwrap();
            std::fs::remove_file(file).unwrap();
        }
        ledger.is_over.store(true, Ordering::SeqCst);
        server.kill();
        clients.into_iter().for_each(|client| client.join().unwrap());
        // Backups have done no harm to the store that they were made of.
        let server = start(&directory.0, "store");
        checked += ledger.check(&server, &ledger.before());
    }
    assert!(checked > 100, "{checked}");
    println!("{count} backups, {checked} acknowledged messages looked for, 0 missing");
}

#[test]
fn a_server_that_is_killed_during_a_backup_loses_nothing_and_leaves_no_half_file() {
    let directory = Directory::new("backup-kills");
    let ledger = Arc::<Ledger>::default();
    let mut server = start(&directory.0, "store");
    let clients = work(&server, &ledger);
    wait(&ledger, 8_000);
    let file = directory.0.join("backup.tar");
    let part = directory.0.join("backup.tar.part");
    let address = server.address.to_string();
    // With a file system that takes its time: a pipe that is read slowly stands for it.
    let mut backup = Command::new(env!("CARGO_BIN_EXE_tiderace"))
        .args(["backup", "-s", &address, "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut begun = [0; 1024];
    backup.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
    // There can be only one at a time.
    let output = tiderace(&["backup", "-s", &address, path(&file)]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another backup is under way"), "{said}");
    assert!(!file.exists() && !part.exists());
    server.kill();
    let mut rest = Vec::new();
    backup.stdout.as_mut().unwrap().read_to_end(&mut rest).unwrap();
    assert_eq!(backup.wait().unwrap().code(), Some(4));
    ledger.is_over.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().unwrap());
    // What has come of it is no backup.
    std::fs::write(&file, [&begun[..], &rest].concat()).unwrap();
    let restored = directory.0.join("restored");
    let output = tiderace(&["restore", path(&file), path(&restored)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("it was cut short"), "{said}");
    assert!(!restored.exists() && !directory.0.join("restored.restore").exists());
    done(&tiderace(&["store", "check", path(&directory.0.join("store"))]));
    let server = start(&directory.0, "store");
    assert!(ledger.check(&server, &ledger.before()) > 100);
}

#[test]
fn a_backup_is_over_when_its_client_is_gone() {
    let directory = Directory::new("backup-gone");
    let store = directory.0.join("store");
    let more =
        format!("[store]\ndirectory = {store:?}\n[[topic]]\nmatch = \"t/*\"\npersistent = true\n");
    let mut server = Watched::start(&directory.0, "", &more);
    let address = server.addresses[0].to_string();
    let value = directory.0.join("value");
    std::fs::write(&value, "x".repeat(250_000)).unwrap();
    for number in 0..24 {
        let topic = format!("t/{number}");
        done(&tiderace(&["pub", "-s", &address, "-r", &topic, "-f", path(&value)]));
    }
    let mut backup = Command::new(env!("CARGO_BIN_EXE_tiderace"))
        .args(["backup", "-s", &address, "-"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    backup.stdout.as_mut().unwrap().read_exact(&mut [0; 1024]).unwrap();
    // Others who read there, on either shard, and may not, are not taken for its reader.
    for _ in 0..4 {
        let wrong = json!({"do": "backup-read", "backup": 1, "from": 0}).to_string();
        assert_eq!(request_at(server.addresses[0], "POST /operations", &wrong).0, "400");
    }
    backup.kill().unwrap();
    backup.wait().unwrap();
    let said = server.read_to("backup-given-up").pop().unwrap();
    assert!(said.contains("the session that read it has ended"), "{said}");
    done(&tiderace(&["backup", "-s", &address, path(&directory.0.join("backup.tar"))]));
}

#[test]
fn a_backup_is_read_by_any_protocol_and_only_in_order() {
    let directory = Directory::new("backup-rest");
    let server = start(&directory.0, "store");
    let operate = |operation: Value| {
        let (status, answer) = request(&server, "POST /operations", &operation.to_string());
        (status, serde_json::from_str::<Value>(&answer).unwrap())
    };
    for number in 0..3 {
        let update = json!({"do": "update", "path": format!("t/{number}"), "value": number});
        assert_eq!(operate(update).0, "200");
    }
    let (status, dry) = operate(json!({"do": "backup", "dry_run": true}));
    assert_eq!((&*status, &dry["segments"], &dry["dry_run"]), ("200", &json!(1), &json!(true)));
    let (_, begun) = operate(json!({"do": "backup"}));
    assert_eq!(begun["bytes"], dry["bytes"]);
    let read = |from: usize| json!({"do": "backup-read", "backup": begun["backup"], "from": from});
    let (status, answer) = operate(read(1));
    assert_eq!((&*status, &answer["code"]), ("400", &json!("bad-operation")));
    assert!(answer.to_string().contains("the next byte is 0"), "{answer}");
    let mut bytes = Vec::new();
    loop {
        let (status, part) = operate(read(bytes.len()));
        assert_eq!((&*status, &part["from"]), ("200", &json!(bytes.len())), "{part}");
        bytes.extend(STANDARD.decode(part["base64"].as_str().unwrap()).unwrap());
        if part["more"] == false {
            break;
        }
    }
    assert_eq!(json!(bytes.len()), begun["bytes"]);
    // It is over with its last byte.
    assert_eq!(operate(read(bytes.len())).0, "400");
    let file = directory.0.join("by-rest.tar");
    std::fs::write(&file, &bytes).unwrap();
    let restored = directory.0.join("restored");
    let whole = done(&tiderace(&["restore", path(&file), path(&restored), "--dry-run"]));
    assert!(whole.contains(": whole, with ") && !restored.exists(), "{whole}");
    done(&tiderace(&["restore", path(&file), path(&restored), "--json"]));
    let other = start(&directory.0, "restored");
    for number in 0..3 {
        let (status, value) = request(&other, &format!("GET /topics/t/{number}"), "");
        assert_eq!((&*status, value), ("200", number.to_string()));
    }
    // A file that is there stays as it is.
    let address = server.address.to_string();
    let output = tiderace(&["backup", "-s", &address, path(&file)]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is there already"), "{output:?}");
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
}

#[test]
fn definitions_are_made_in_another_server_and_once() {
    let directory = Directory::new("definitions");
    let (one, other) = (start(&directory.0, "one"), start(&directory.0, "other"));
    let at = |server: &Server| server.address.to_string();
    let run =
        |arguments: &[&str], server: &Server| tiderace(&[arguments, &["-s", &at(server)]].concat());
    let spec =
        r#"{"type":"json","history":100,"persistent":true,"schema":{"enum":[null,{"a":1}]}}"#;
    done(&run(&["topics", "create", "a/b", "--spec", spec], &one));
    done(&run(&["views", "put", "v", "map a/* to b/<path(1)>"], &one));
    let gathers = [
        "subscriptions",
        "create",
        "s",
        "fx/**",
        "?gold/[A-Z]{1,2}",
        "[a,,b, c[,,d]",
        "--selector",
        "x = 'y'",
    ];
    done(&run(&gathers, &one));
    done(&run(&["topics", "set", "a/b", "null"], &one));
    let file = directory.0.join("definitions.toml");
    done(&run(&["definitions", "export", path(&file)], &one));
    let text = std::fs::read_to_string(&file).unwrap();
    // What a view makes is no definition.
    assert!(!text.contains("b/b") && text.contains("[[subscription]]\nname = \"s\"\n"), "{text}");
    let all = "+ topic a/b\n+ view v\n+ subscription s";
    let import = ["definitions", "import", path(&file)];
    assert_eq!(done(&run(&[&import[..], &["--dry-run"]].concat(), &other)), all);
    assert_eq!(
        done(&run(&["definitions", "diff", path(&file)], &other)),
        all,
        "nothing was changed"
    );
    assert_eq!(done(&run(&import, &other)), all);
    assert_eq!(done(&run(&import, &other)), "no difference");
    assert_eq!(done(&run(&["definitions", "export"], &other)), text.trim_end());
    let said = done(&run(&[&import[..], &["--json"]].concat(), &one));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said, json!({"changes": [], "dry_run": false}));
    // What differs is replaced, what is there besides stays, and another way to say the same is the same.
    done(&run(&["views", "put", "v", "map a/* to c/<path(1)>"], &other));
    done(&run(&["views", "put", "w", "map w/* to x/<path(1)>"], &other));
    let short = text.replace("age = 0\n", "");
    assert_ne!(short, text);
    std::fs::write(&file, short).unwrap();
    let differs = done(&run(&["definitions", "diff", path(&file)], &other));
    assert_eq!(differs, "~ view v\n- view w");
    let of_others = ["definitions", "diff", path(&file), "--topics", "other/**"];
    assert_eq!(done(&run(&of_others, &one)), "no difference", "a/b is not compared");
    // A topic with another specification is not replaced, and then nothing is.
    std::fs::write(&file, text.replace("count = 100", "count = 7")).unwrap();
    let output = run(&import, &other);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nothing was changed") && said.contains("a/b"), "{said}");
    let differs = done(&run(&["definitions", "diff", path(&file)], &other));
    assert_eq!(differs, "~ topic a/b\n~ view v\n- view w");
    // One that is misspelt is not called another one.
    for arguments in [&[&import[..], &["--dry-run"]].concat()[..], &import] {
        std::fs::write(&file, text.replace("persistent = ", "persistend = ")).unwrap();
        let output = run(arguments, &other);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("persistend"), "{said}");
    }
    // Another order says the same.
    let line = text.lines().find(|line| line.starts_with("topics = [")).unwrap();
    let rest = line.strip_prefix("topics = [\"fx/**\", ").and_then(|line| line.strip_suffix(']'));
    let turned = text.replace(line, &format!("topics = [{}, \"fx/**\"]", rest.unwrap()));
    std::fs::write(&file, turned).unwrap();
    assert_eq!(done(&run(&["definitions", "diff", path(&file)], &other)), "~ view v\n- view w");
    std::fs::write(&file, &text).unwrap();
    assert_eq!(done(&run(&import, &other)), "~ view v");
    assert_eq!(done(&run(&["definitions", "diff", path(&file)], &other)), "- view w");
}

/// A backup of version 0.1.0, when the log had form 3. A form that comes after gets a file beside it, and this one stays.
const OF_FORM_3: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stores/form-3.tar");

#[test]
fn a_backup_that_an_earlier_version_made_is_restored() {
    let directory = Directory::new("earlier");
    done(&tiderace(&["restore", OF_FORM_3, path(&directory.0.join("store"))]));
    let server = start(&directory.0, "store");
    let address = server.address.to_string();
    let run = |arguments: &[&str]| done(&tiderace(&[arguments, &["-s", &address]].concat()));
    assert_eq!(run(&["topics", "history", "fx/a"]), "3\n4\n5");
    let peeked = run(&["queues", "peek", "jobs"]);
    let jobs: Vec<&str> = peeked.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    let expected: Vec<String> = (4..=10).map(|job| format!("job {job}")).collect();
    assert_eq!(jobs, expected, "three were consumed");
    let text = run(&["definitions", "export"]);
    for part in [
        "schema = '{\"type\":\"integer\"}'",
        "text = \"map fx/* to twice/<path(1)> as value * 2\"",
        "name = \"audit\"\nselector = \"kind = 'hot'\"\ntopics = [\"news/*\"]",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A version goes on behind those that were given.
    let version = run(&["topics", "set", "fx/a", "6", "--if-version", "5"]);
    assert!(version.parse::<u64>().unwrap() > 5, "{version}");
    run(&["topics", "set", "fx/a", "7"]);
    assert_eq!(run(&["topics", "history", "fx/a"]), "5\n6\n7");
}

#[test]
fn a_store_of_a_newer_version_is_refused_and_left_as_it_is() {
    let directory = Directory::new("newer-store");
    start(&directory.0, "store").kill();
    let file = directory.0.join("store/0000000001.log");
    let bytes = std::fs::read(&file).unwrap();
    let header = Header { form: 99, ..Header::decode(&bytes).unwrap() }.encode();
    let newer = [&header[..], &bytes[header.len()..]].concat();
    std::fs::write(&file, &newer).unwrap();
    let store = format!("store.directory={}", path(&directory.0.join("store")));
    let listen = ["--listen", crate::program::FREE];
    let serve = tiderace(&[&["serve", "--set", &store][..], &listen].concat());
    for output in [serve, tiderace(&["store", "check", path(&directory.0.join("store"))])] {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("0000000001.log has form 99"), "{said}");
        assert!(said.contains("that of a newer version of tiderace"), "{said}");
        assert_eq!(std::fs::read(&file).unwrap(), newer);
    }
    // The version that wrote it goes on with it.
    std::fs::write(&file, &bytes).unwrap();
    start(&directory.0, "store");
}

#[test]
fn a_server_without_a_store_says_that_there_is_nothing_to_back_up() {
    let directory = Directory::new("backup-none");
    let server = Server::start(&directory.0, "");
    let output = tiderace(&["backup", "-s", &server.address.to_string(), "--dry-run"]);
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("this server stores nothing (store.directory)"), "{said}");
}
