//! The configuration that a running server tells: by REST, by operations and by the command, before and after it has changed.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use crate::connections::{Managed, token_of};
use crate::program::logins::{Show, authorization, exchange};
use crate::program::watched::Watched;
use crate::readme::commands_of;

/// A hash that no answer may have, and a password in an address.
const DIGEST: &str = "2500178c0de3b7952c8ed23c1b5b188f9a83e880d9d380093a36181896894f7b";
const HASH: &str =
    "$argon2id$v=19$m=8192,t=1,p=1$c2FsdHNhbHRzYWx0$GpZ3sK/oH9p7VIiV56G/64Zo/8GaUw434IimaPqxwCo";
const HIDDEN: [&str; 4] = [DIGEST, "$argon2id", "swordfish", "the token of"];

const CONFIG: &str = r#"drain_to = ["wss://ann:swordfish@h/x", "wss://h/x?token=swordfish"]
[auth]
managed = true
[[token]]
name = "masked"
secret = "sha256:DIGEST"
[[user]]
name = "eve"
password_hash = "HASH"
[store]
directory = "STORE"
"#;

/// A server with something set by file, environment and command line each.
fn start(name: &str) -> Managed {
    let store = std::env::temp_dir().join(format!("tiderace-{name}-store-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&store);
    let config = CONFIG.replace("DIGEST", DIGEST).replace("HASH", HASH);
    let mut server = Managed::start(name, &config.replace("STORE", &store.display().to_string()));
    server.server.child.kill().unwrap();
    server.server.child.wait().unwrap();
    let mut again = Command::new(env!("CARGO_BIN_EXE_tiderace"));
    again.args(["serve", "--config"]).arg(server.file()).args(["--set", "limits.headers_max=99"]);
    again.env("TIDERACE_SERVER__NODE", "push-1").env_remove("RUST_LOG");
    server.server = Watched::of(&mut again);
    server
}

fn get(server: &Managed, query: &str) -> (String, Value) {
    let head = format!(
        "GET /manage/config{query} HTTP/1.1\r\n{}",
        authorization(Show::Token(&token_of("admin")))
    );
    let (head, body) = exchange(&server.way(), &head, "");
    for hidden in HIDDEN {
        assert!(!body.contains(hidden), "{hidden} is in {body}");
    }
    (head.split(' ').nth(1).unwrap().to_owned(), serde_json::from_str(&body).unwrap())
}

/// Every option that is asked for, by its section, number and name.
fn all(server: &Managed, query: &str) -> BTreeMap<String, Value> {
    let (mut after, mut found) = (String::new(), BTreeMap::new());
    loop {
        let (status, page) = get(server, &format!("?limit=50&{query}{after}"));
        assert_eq!(status, "200", "{page}");
        let options = page["options"].as_array().unwrap();
        assert!(options.len() <= 50, "{page}");
        for option in options {
            let number = option["number"].as_u64().map(|number| format!("{number} "));
            let key =
                format!("{}{}", number.unwrap_or_default(), option["option"].as_str().unwrap());
            assert!(found.insert(key, option.clone()).is_none(), "{option} came twice");
        }
        if page["more"] == false {
            assert_eq!(page["matched"], found.len());
            return found;
        }
        let next = page["next"].as_str().unwrap();
        after = format!("&after={}", next.replace('[', "%5B").replace(']', "%5D"));
    }
}

/// Has the file say something else, and the server read it.
fn reload(server: &Managed, from: &str, to: &str) {
    let text = std::fs::read_to_string(server.file()).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(server.file(), text.replace(from, to)).unwrap();
    let output = server.run("admin", &["reload"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn each_option_is_told_with_its_origin_and_no_secret() {
    let server = start("config-running");
    let file = server.file().display().to_string();
    let found = all(&server, "");
    let told = |key: &str| {
        let option = &found[key];
        let member = |name: &str| option[name].clone();
        (member("value"), member("default"), member("origin"), member("from"), member("applies"))
    };
    let by_file = |line: usize| json!(format!("{file}:{line}:1"));
    assert_eq!(
        told("server.shards"),
        (json!(2), json!(0), json!("file"), by_file(3), json!("restart"))
    );
    let variable = json!("environment variable TIDERACE_SERVER__NODE");
    assert_eq!(
        told("server.node"),
        (json!("push-1"), json!(null), json!("environment"), variable, json!("restart"))
    );
    assert_eq!(
        told("limits.headers_max"),
        (json!(99), json!(256), json!("command-line"), json!("--set"), json!("restart"))
    );
    assert_eq!(
        told("log.level"),
        (json!("info"), json!("info"), json!("default"), json!("default"), json!("now"))
    );
    assert_eq!(found["tls.certificate"]["applies"], "new-connections");
    assert_eq!(found["server.drain_to"]["value"], json!(["wss://***", "wss://h/x?***"]));
    assert_eq!(found["1 token.secret"]["value"], "***");
    assert_eq!(found["1 token.secret"]["name"], "masked");
    assert!(found["2 token.secret"]["value"].as_str().unwrap().starts_with("file:"));
    assert_eq!(found["1 user.password_hash"]["value"], "***");
    assert!(found.values().all(|option| option["says"].as_str().is_some_and(|it| !it.is_empty())));
    // What was put is there as well, and is not taken for something that waits.
    let put = json!({"do": "put-user", "name": "cat", "password_hash": HASH, "groups": ["desk"]});
    assert_eq!(server.operate("admin", &put).0, "200");
    let users = all(&server, "under=user&changed=true");
    assert_eq!(users["2 user.name"]["origin"], "put");
    assert_eq!(users["2 user.password_hash"]["value"], "***");
    assert!(users.values().all(|option| option["waiting"].is_null()), "{users:?}");
}

#[test]
fn too_much_is_not_told_at_once_and_nonsense_is_refused() {
    let server = start("config-pages");
    let (_, page) = get(&server, "?limit=4000000000");
    let count = page["options"].as_array().unwrap().len();
    assert!(count == 500 || page["more"] == false && count as u64 == page["matched"], "{count}");
    let (_, page) = get(&server, "");
    assert_eq!((page["options"].as_array().unwrap().len(), &page["more"]), (100, &json!(true)));
    for (query, says) in [
        ("?under=lgo", "did you mean `log`"),
        ("?after=rule", "`after`"),
        ("?limit=many", "`limit`"),
        ("?changed=perhaps", "`changed`"),
        ("?secrets=true", "`secrets`"),
    ] {
        let (status, said) = get(&server, query);
        assert_eq!(status, "400", "{query}: {said}");
        assert!(said.to_string().contains(says), "{query}: {said}");
    }
    let under = "a".repeat(1025);
    assert_eq!(get(&server, &format!("?under={under}")).0, "400");
    // Who sees how the server fares does not see how it is configured.
    for who in ["nobody", "viewer", "operator"] {
        let (status, said) = server.operate(who, &json!({"do": "config"}));
        assert_eq!((&*status, &said["code"]), ("403", &json!("not-authorised")), "{who}");
    }
}

#[test]
fn after_a_reload_it_is_told_what_holds_and_what_waits() {
    let server = start("config-waiting");
    let waiting = |server: &Managed| {
        let mut found = all(server, "changed=true");
        found.retain(|_, option| !option["waiting"].is_null());
        found
    };
    assert!(waiting(&server).is_empty());
    let file = server.file().display().to_string();
    reload(&server, "shards = 2\n", "shards = 3\ndrain_over = \"9s\"\n");
    let found = waiting(&server);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["server.shards"]);
    let shards = &found["server.shards"];
    assert_eq!((&shards["value"], &shards["from"]), (&json!(2), &json!(format!("{file}:3:1"))));
    let waits = json!({"value": 3, "origin": "file", "from": format!("{file}:3:1")});
    assert_eq!(shards["waiting"], waits);
    let now = all(&server, "under=server.drain_over");
    assert_eq!(now["server.drain_over"]["value"], "9s");
    let told = server.run("admin", &["config", "running", "server"]);
    let told = String::from_utf8(told.stdout).unwrap();
    let line = told.lines().find(|line| line.starts_with("server.shards ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let (at, waits) = (format!("{file}:3:1"), format!("({file}:3:1)"));
    assert_eq!(words, ["server.shards", "2", "0", "at", "the", "next", "start", &at, "3", &waits]);
    assert!(told.starts_with("OPTION ") && !told.contains("swordfish"), "{told}");
    assert!(!told.contains("server.drain_delay"), "{told}");
    let every = server.lines("admin", &["config", "running", "--all"]);
    assert_eq!(every.len(), all(&server, "").len());
    // One that cannot be used, and one that is only tried, are not what waits.
    let text = std::fs::read_to_string(server.file()).unwrap();
    std::fs::write(server.file(), text.replace("shards = 3\n", "shards = 4\n")).unwrap();
    assert!(server.run("admin", &["reload", "--dry-run"]).status.success());
    std::fs::write(server.file(), text.replace("shards = 3\n", "shards = \"x\"\n")).unwrap();
    assert!(!server.run("admin", &["reload"]).status.success());
    assert_eq!(waiting(&server)["server.shards"]["waiting"]["value"], 3);
    std::fs::write(server.file(), text).unwrap();
    reload(&server, "shards = 3\n", "shards = 2\n");
    assert!(waiting(&server).is_empty());
    // Another level of the log holds until it is as configured again.
    assert!(server.run("admin", &["log", "--level", "error"]).status.success());
    let found = waiting(&server);
    let level = &found["log.level"];
    assert_eq!((&level["value"], &level["origin"]), (&json!("error"), &json!("put")));
    assert_eq!(level["waiting"], json!({"value": "info", "origin": "default", "from": "default"}));
    assert!(server.run("admin", &["log"]).status.success());
    assert!(waiting(&server).is_empty());
}

#[test]
fn the_commands_of_the_page_print_what_holds() {
    let server = start("config-page");
    let program = env!("CARGO_BIN_EXE_tiderace");
    let said = commands_of("docs/management.md", "## What it is configured to");
    let said: Vec<String> = said
        .iter()
        .map(|line| {
            let output = Command::new("sh")
                .args(["-c", &line.replacen("tiderace", &format!("exec '{program}'"), 1)])
                .env("TIDERACE_HOST", server.way().address.to_string())
                .env("TIDERACE_PASSCODE", token_of("admin"))
                .output()
                .unwrap();
            assert!(output.status.success(), "{line}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    let [set, section, every] = &said[..] else { panic!("{said:?}") };
    let head = ["OPTION", "VALUE", "DEFAULT", "CHANGES", "FROM", "WAITING"];
    for text in [set, section] {
        assert_eq!(text.lines().next().unwrap().split_whitespace().collect::<Vec<_>>(), head);
    }
    assert!(set.contains("\nlimits.headers_max ") && !section.contains("\nlimits."));
    let first: Value = serde_json::from_str(every.lines().next().unwrap()).unwrap();
    assert!(first["says"].as_str().is_some_and(|says| says.ends_with('.')), "{first}");
    for hidden in HIDDEN {
        assert!(!said.concat().contains(hidden), "{hidden}");
    }
}
