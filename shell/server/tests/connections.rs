//! The sessions of a server as operators see them: listed by each protocol's clients and by the command line.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tiderace_client::Event;

use crate::program::Directory;
use crate::program::logins::{LoggedIn, Show, Way, authorization, exchange};
use crate::program::watched::Watched;
use crate::readme::commands_of;

/// Long enough for a busy machine; nothing waits for it unless something is broken.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Those that have a session, with the name that lists have for their protocol, and what carries it here.
const SESSIONS: [(&str, &str, &str); 5] = [
    ("stomp", "stomp", "tcp"),
    ("native", "native", "websocket"),
    ("socketio", "socketio", "requests"),
    ("rsocket", "rsocket", "tcp"),
    ("sse", "events", "tcp"),
];

/// Who has a role, and who has none.
const ROLES: [&str; 4] = ["nobody", "viewer", "operator", "admin"];

const RULES: &str = "[[rule]]\nallow = [\"subscribe\", \"publish\"]\nprincipals = [\"*\"]\n\
    [[rule]]\nallow = [\"monitor\"]\nprincipals = [\"user:viewer\"]\npaths = [\"$sys/**\"]\n\
    [[rule]]\nallow = [\"monitor\", \"operate\"]\nprincipals = [\"user:operator\"]\npaths = [\"$sys/**\"]\n\
    [[rule]]\nallow = [\"admin\"]\nprincipals = [\"user:admin\"]\npaths = [\"$sys/**\"]\n";

pub(crate) fn token_of(name: &str) -> String {
    format!("the token of {name}")
}

/// A server with ann, bob and those with roles.
pub(crate) struct Managed {
    directory: Directory,
    pub(crate) server: Watched,
}

impl Managed {
    pub(crate) fn start(name: &str, more: &str) -> Managed {
        let directory = Directory::new(name);
        let token = |name: &&str| {
            let path = directory.0.join(format!("{name}.token"));
            std::fs::write(&path, token_of(name)).unwrap();
            let groups = if *name == "ann" { "groups = [\"sales\"]\n" } else { "" };
            format!("[[token]]\nname = {name:?}\nsecret = \"file:{}\"\n{groups}", path.display())
        };
        let tokens: String = ["ann", "bob"].iter().chain(&ROLES).map(token).collect();
        let server = Watched::start(&directory.0, "", &format!("{more}{tokens}{RULES}"));
        Managed { directory, server }
    }

    /// A session of somebody's.
    pub(crate) fn log_in(&self, protocol: &str, who: &str) -> Result<LoggedIn, String> {
        LoggedIn::begin(protocol, &self.way(), Show::Token(&token_of(who)))
    }

    /// The configuration.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.0.join("tiderace.toml")
    }

    pub(crate) fn way(&self) -> Way {
        Way::plain(self.server.addresses[0])
    }

    /// Runs a command of the command line as somebody.
    pub(crate) fn run(&self, who: &str, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_tiderace"))
            .args(arguments)
            .args(["-s", &self.server.addresses[0].to_string(), "--passcode", &token_of(who)])
            .output()
            .unwrap()
    }

    /// The same, for what it prints as one line of JSON each.
    pub(crate) fn lines(&self, who: &str, arguments: &[&str]) -> Vec<Value> {
        let output = self.run(who, &[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Asks for an operation by a request of HTTP.
    pub(crate) fn operate(&self, who: &str, operation: &Value) -> (String, Value) {
        let head =
            format!("POST /operations HTTP/1.1\r\n{}", authorization(Show::Token(&token_of(who))));
        let (head, body) = exchange(&self.way(), &head, &operation.to_string());
        let status = head.split(' ').nth(1).unwrap().to_owned();
        (status, serde_json::from_str(&body).unwrap())
    }
}

#[test]
fn each_session_is_listed_with_who_and_where_it_is() {
    let server = Managed::start("connections-listed", "");
    let log_in = |(protocol, ..): &(&str, &str, &str)| server.log_in(protocol, "ann").unwrap();
    let held: Vec<LoggedIn> = SESSIONS.iter().map(log_in).collect();
    let _bob = server.log_in("stomp", "bob").unwrap();
    for who in ["viewer", "admin"] {
        let listed = server.lines(who, &["connections", "ls", "--principal", "ann"]);
        assert_eq!(listed.len(), held.len(), "{listed:?}");
        for (_, protocol, transport) in SESSIONS {
            let session = listed.iter().find(|session| session["protocol"] == protocol);
            let session = session.unwrap_or_else(|| panic!("no {protocol} in {listed:?}"));
            assert_eq!(session["name"], "ann");
            assert_eq!(session["groups"], json!(["sales"]));
            assert_eq!(session["address"], "127.0.0.1");
            assert!(session["port"].as_u64().is_some_and(|port| port > 0), "{session}");
            assert_eq!(
                (&session["transport"], &session["tls"]),
                (&json!(transport), &json!(false))
            );
            assert!(session["since"].as_u64().is_some_and(|since| since > 1_700_000_000_000));
            let id = session["id"].as_str().unwrap();
            let [shown] = &server.lines(who, &["connections", "show", id])[..] else {
                panic!("{id}")
            };
            assert_eq!(shown["protocol"], protocol);
        }
    }
    let ls = |more: &[&str]| server.lines("viewer", &[&["connections", "ls"], more].concat()).len();
    assert_eq!(ls(&["--protocol", "stomp"]), 2);
    assert_eq!(ls(&["--protocol", "stomp", "--principal", "ann"]), 1);
    assert_eq!(ls(&["--address", "127.0.0.0/8", "--principal", "bob"]), 1);
    assert_eq!(ls(&["--address", "10.0.0.0/8"]), 0);
    assert_eq!(ls(&["--backlog", "1"]), 0);
    assert_eq!(ls(&["--principal", "nobody"]), 0);
    let printed = server.run("viewer", &["connections", "ls", "--principal", "bob"]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(
        printed.starts_with("ID ") && printed.contains("  bob   127.0.0.1  stomp"),
        "{printed}"
    );
    let missing = server.run("viewer", &["connections", "show", "0-9999-0"]);
    assert_eq!(missing.status.code(), Some(3), "{missing:?}");
}

#[test]
fn pages_follow_each_other_and_say_how_many_there_are() {
    let server = Managed::start("connections-pages", "");
    let begin = |_| server.log_in("stomp", "ann").unwrap();
    let held: Vec<LoggedIn> = (0..23).map(begin).collect();
    for sort in ["id", "backlog"] {
        let mut query = json!({"do": "sessions", "principal": "ann", "limit": 5, "sort": sort});
        let mut ids = Vec::new();
        loop {
            let (status, page) = server.operate("viewer", &query);
            assert_eq!(status, "200", "{page}");
            assert_eq!(page["matched"], held.len());
            let sessions = page["sessions"].as_array().unwrap();
            ids.extend(sessions.iter().map(|session| session["id"].as_str().unwrap().to_owned()));
            if page["more"] == false {
                break;
            }
            assert_eq!(sessions.len(), 5);
            query["after"] = page["next"].clone();
        }
        assert_eq!(ids.len(), held.len());
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), held.len());
    }
    let (status, refused) = server.operate("ann", &json!({"do": "sessions"}));
    assert_eq!((&*status, &refused["code"]), ("403", &json!("not-authorised")));
    let wrong = json!({"do": "sessions", "address": "here"});
    assert_eq!(server.operate("viewer", &wrong).1["code"], "bad-operation");
}

#[test]
fn behind_a_proxy_the_address_is_the_clients() {
    let more =
        "[proxy]\ntrusted = [\"127.0.0.1\"]\nprotocol = \"accept\"\nheader = \"x-forwarded-for\"\n";
    let server = Managed::start("connections-proxy", more);
    let tcp =
        Way { preface: b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 443\r\n".to_vec(), ..server.way() };
    let web = Way { fields: "X-Forwarded-For: 198.51.100.9\r\n".to_owned(), ..server.way() };
    let _held = [
        LoggedIn::begin("stomp", &tcp, Show::Token(&token_of("ann"))).unwrap(),
        LoggedIn::begin("socketio", &web, Show::Token(&token_of("bob"))).unwrap(),
    ];
    let listed = |more: &[&str]| {
        let listed = server.lines("viewer", &[&["connections", "ls"], more].concat());
        listed.iter().map(|it| it["address"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&["--principal", "ann"]), ["192.0.2.7"]);
    assert_eq!(listed(&["--principal", "bob"]), ["198.51.100.9"]);
    assert_eq!(listed(&["--address", "198.51.100.0/24"]), ["198.51.100.9"]);
}

#[test]
fn whom_an_operator_kicks_is_told_so_by_each_protocol() {
    let server = Managed::start("connections-kicked", "");
    for (protocol, name, _) in SESSIONS {
        let mut kicked = server.log_in(protocol, "ann").unwrap();
        let mut stays = server.log_in(protocol, "bob").unwrap();
        let kick = |more: &[&str]| {
            // Others of ann may have been left by the protocols before.
            let which = ["connections", "kick", "--principal", "ann", "--protocol", name];
            let why = ["--reason", "try later"];
            server.lines("operator", &[&which[..], &why, more].concat())
        };
        assert_eq!(kick(&["--dry-run"]), [json!({"sessions": 1, "dry_run": true})]);
        assert_eq!(kick(&[]), [json!({"sessions": 1, "dry_run": false})]);
        // A client that is between two polls finds its session gone.
        let polls = protocol == "socketio";
        let said: &[&str] = if polls { &["Session ID unknown"] } else { &["kicked", "try later"] };
        let words = kicked.last_words();
        assert!(said.iter().all(|said| words.contains(said)), "{protocol}: {words}");
        assert_eq!(kick(&[]), [json!({"sessions": 0, "dry_run": false})], "{protocol}");
        let [left] = &server
            .lines("viewer", &["connections", "ls", "--protocol", name, "--principal", "bob"])[..]
        else {
            panic!("{protocol}: bob's session is left")
        };
        let id = left["id"].as_str().unwrap();
        let printed = server.run("admin", &["connections", "kick", id]);
        assert_eq!(String::from_utf8(printed.stdout).unwrap(), "1 session ended\n");
        assert!(stays.last_words().contains(said[0]), "{protocol}");
        let missing = server.run("admin", &["connections", "kick", id]);
        assert_eq!(missing.status.code(), Some(3), "{missing:?}");
        // It may come back.
        server.log_in(protocol, "ann").unwrap();
    }
}

/// Asks by the native protocol: what is answered, or the name of the code of the refusal.
pub(crate) fn ask(client: &mut LoggedIn, operation: &Value) -> Result<Value, String> {
    let LoggedIn::Native(native) = client else { panic!("another protocol") };
    let operation = operation.to_string();
    native
        .0
        .send(|client, out| {
            client.operate(&operation, None, out);
        })
        .unwrap();
    let mut answer = None;
    while answer.is_none() {
        let tell = |event: Event<'_>| match event {
            Event::Outcome(outcome) => {
                answer = Some(Ok(serde_json::from_str(outcome.result).unwrap()));
            }
            Event::Refused { slug, .. } => answer = Some(Err(slug.to_owned())),
            _ => {}
        };
        native.0.receive(tell).unwrap();
    }
    answer.unwrap()
}

#[test]
fn the_will_of_a_kicked_session_is_published() {
    let server = Managed::start("connections-will", "");
    let mut ann = server.log_in("native", "ann").unwrap();
    let will = json!({"do": "will", "path": "last/ann", "text": "gone", "retain": true});
    ask(&mut ann, &will).unwrap();
    let kick = json!({"do": "kick", "principal": "ann"});
    assert_eq!(server.operate("operator", &kick).1["sessions"], 1);
    assert!(ann.last_words().contains("kicked"));
    let begun = Instant::now();
    let authorization = authorization(Show::Token(&token_of("bob")));
    loop {
        let head = format!("GET /topics/last/ann HTTP/1.1\r\n{authorization}");
        let (head, body) = exchange(&server.way(), &head, "");
        if head.starts_with("HTTP/1.1 200") {
            assert_eq!(body, "gone");
            return;
        }
        // The topic's home hears of the end in its own time.
        assert!(begun.elapsed() < TIMEOUT, "{head}");
        std::thread::yield_now();
    }
}

#[test]
fn the_commands_of_the_page_do_what_it_says() {
    let server = Managed::start("connections-page", "");
    let mut ann = server.log_in("stomp", "ann").unwrap();
    let said: Vec<String> = commands_of("docs/management.md", "## The command line")
        .iter()
        .map(|line| {
            let program = format!("exec '{}'", env!("CARGO_BIN_EXE_tiderace"));
            let output = Command::new("sh")
                .args(["-c", &line.replacen("tiderace", &program, 1)])
                .env("TIDERACE_HOST", server.server.addresses[0].to_string())
                .env("TIDERACE_PASSCODE", token_of("operator"))
                .output()
                .unwrap();
            assert!(output.status.success(), "{line}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    let [all, stomp, json, dry, kicked] = &said[..] else { panic!("{said:?}") };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/management.md");
    let page = std::fs::read_to_string(file).unwrap();
    let blocks: Vec<&str> = page.split("```text\n").skip(1).collect();
    let block = |place: usize| blocks[place].split("```").next().unwrap();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let columns = words(block(0).lines().next().unwrap());
    assert_eq!(words(all.lines().next().unwrap()), columns);
    assert_eq!(
        (all.lines().count(), stomp.lines().count()),
        (3, 2),
        "the operator's own, and ann's"
    );
    assert_eq!(
        words(stomp.lines().nth(1).unwrap())[1..5],
        words(block(0).lines().nth(1).unwrap())[1..5]
    );
    let listed: Value = serde_json::from_str(json).unwrap();
    assert_eq!(listed["name"], "ann");
    assert_eq!(format!("{dry}{kicked}"), block(1));
    assert!(ann.last_words().contains("try later"));
}

#[test]
fn changes_and_refused_ones_are_in_the_log() {
    let mut server = Managed::start("connections-audit", "");
    let kick = json!({"do": "kick", "principal": "ann", "backlog": 1});
    assert_eq!(server.operate("viewer", &kick).0, "403");
    let line = audited(&mut server);
    assert_eq!(line["target"], "tiderace::audit");
    for (name, value) in [
        ("who", "viewer"),
        ("verb", "kick"),
        ("on", "principal=ann backlog=1"),
        ("outcome", "refused"),
        ("code", "not-authorised"),
    ] {
        assert_eq!(line[name], value, "{line}");
    }
    assert!(line["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    // What only asks is no change, so the next line is that of the log's level.
    assert_eq!(server.operate("nobody", &json!({"do": "sessions"})).0, "403");
    let dry = json!({"do": "kick", "principal": "ann", "dry_run": true});
    assert_eq!(server.operate("operator", &dry).0, "200");
    assert_eq!(server.operate("operator", &json!({"do": "log", "level": "info"})).0, "200");
    let line = audited(&mut server);
    assert_eq!((&line["verb"], &line["on"]), (&json!("log"), &json!("level=info")));
    assert_eq!(
        (&line["outcome"], &line["result"]),
        (&json!("done"), &json!(r#"{"level":"info"}"#))
    );
    assert_eq!(server.operate("admin", &kick).0, "200");
    let line = audited(&mut server);
    assert_eq!((&line["who"], &line["outcome"]), (&json!("admin"), &json!("done")), "{line}");
    assert_eq!(line["result"], r#"{"sessions":0,"dry_run":false}"#);
}

/// The next line about a change.
pub(crate) fn audited(server: &mut Managed) -> Value {
    let lines = server.server.read_to("audit");
    serde_json::from_str(lines.last().unwrap()).unwrap()
}
