//! Why somebody may do something or not, as a running server and a configuration file say it, beside what happens to who tries.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::connections::{Managed, token_of};
use crate::program::logins::{Show, authorization, exchange};

/// What a token is, and what it hashes to.
const BOUND: &str = "a token that is bound";
const CONFIG: &str = r#"
[[virtual_host]]
name = "shop"
hosts = ["shop.example"]
[[virtual_host]]
name = "bank"
hosts = ["bank.example"]
[[token]]
name = "keeper"
secret = "sha256:2500178c0de3b7952c8ed23c1b5b188f9a83e880d9d380093a36181896894f7b"
host = "shop"
[[rule]]
allow = ["send"]
principals = ["group:sales", "user:keeper"]
kind = "queue"
paths = ["orders/**", "@shop/orders/**"]
[[rule]]
deny = ["send"]
principals = ["*"]
kind = "queue"
paths = ["orders/secret"]
"#;

/// Whether a message to that queue is accepted from who has that token and connects by that host.
fn may_send(server: &Managed, token: &str, host: &str, queue: &str) -> bool {
    let mut stream = TcpStream::connect(server.server.addresses[0]).unwrap();
    let frames = format!(
        "CONNECT\naccept-version:1.2\ntoken:{token}\nhost:{host}\n\n\0\
         SEND\ndestination:/queue/{queue}\nreceipt:sent\n\n\0DISCONNECT\nreceipt:bye\n\n\0"
    );
    stream.write_all(frames.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // The rest of what a refused client has sent may reset the connection behind the ERROR.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).contains("RECEIPT\nreceipt-id:sent")
}

#[test]
fn what_is_explained_is_what_happens() {
    let server = Managed::start("explain-tried", CONFIG);
    let file = server.file();
    let (ann, bob) = (&*token_of("ann"), &*token_of("bob"));
    for (who, token, host, queue, allowed, why) in [
        ("ann", ann, "", "orders/a", true, "rule"),
        ("ann", ann, "", "orders/secret", false, "rule"),
        ("ann", ann, "", "other", false, "nothing"),
        ("ann", ann, "", "@shop/orders/a", true, "rule"),
        ("@shop/ann", ann, "shop.example", "orders/a", true, "rule"),
        ("@shop/ann", ann, "shop.example", "orders/secret", true, "rule"),
        ("@bank/ann", ann, "bank.example", "orders/a", false, "nothing"),
        ("bob", bob, "", "orders/a", false, "nothing"),
        ("bob", bob, "", "@bank/orders/a", false, "nothing"),
        ("keeper", BOUND, "", "orders/a", true, "rule"),
        ("@shop/keeper", BOUND, "shop.example", "orders/a", true, "rule"),
        ("@bank/keeper", BOUND, "bank.example", "orders/a", false, "wrong-host"),
        // In its host that is another queue.
        ("keeper", BOUND, "", "@shop/orders/a", false, "nothing"),
        ("ann", ann, "", "temp/a", false, "temporary"),
    ] {
        let asked = json!({"do": "explain", "who": who, "action": "send", "path": queue});
        let (status, told) = server.operate("admin", &asked);
        assert_eq!(
            (&*status, &told["allowed"], &told["why"]),
            ("200", &json!(allowed), &json!(why)),
            "{asked}: {told}"
        );
        assert_eq!(may_send(&server, token, host, queue), allowed, "{asked}: {told}");
        // The command, by the server and by the file, says the same in a sentence.
        let may = if allowed { "may" } else { "may not" };
        let says = told["says"].as_str().unwrap();
        let sentence = format!("{who} {may} send on queue {queue}: {says}.\n");
        let words = ["explain", who, "send", queue];
        for output in [server.run("admin", &words), by_file(&words, &file)] {
            assert_eq!(String::from_utf8(output.stdout).unwrap(), sentence, "{asked}");
        }
    }
}

fn by_file(words: &[&str], file: &std::path::Path) -> std::process::Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tiderace"));
    command.arg("acl").args(words).arg("--config").arg(file).output().unwrap()
}

#[test]
fn a_question_is_about_the_rules_that_hold_now() {
    let server = Managed::start("explain-reload", CONFIG);
    let ask = |question: &Value| {
        let mut operation = question.clone();
        operation["do"] = json!("explain");
        server.operate("admin", &operation)
    };
    let question = json!({"who": "bob", "groups": ["sales"], "action": "send", "path": "orders/a"});
    let told = ask(&question).1;
    assert_eq!(
        (&told["rule"], &told["kind"], &told["path"]),
        (&json!(1), &json!("queue"), &json!("orders/a"))
    );
    let says = told["says"].as_str().unwrap();
    assert!(says.starts_with("the [[rule]] at ") && says.contains("tiderace.toml:"), "{says}");
    // By the query of a resource, in which a list is written by its members.
    let head = format!(
        "GET /manage/explain?who=bob&groups=a&groups=sales&claims=x%3Dy&action=send&path=orders%2Fa HTTP/1.1\r\n{}",
        authorization(Show::Token(&token_of("admin")))
    );
    let (_, said) = exchange(&server.way(), &head, "");
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["rule"], 1, "{said}");
    let file = server.file();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"group:sales\", ", "")).unwrap();
    let reloaded = server.run("admin", &["reload"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
    assert_eq!(ask(&question).1["why"], "nothing");
    for (question, why) in [
        (json!({"who": "bob", "action": "subscribe", "path": "user/ann/x"}), "private"),
        (json!({"who": "bob", "action": "subscribe", "path": "~/x"}), "own"),
        (json!({"who": "ann", "action": "publish", "path": "$sys/x"}), "reserved"),
        (json!({"who": "anonymous", "action": "send", "path": "orders/a"}), "nothing"),
        (json!({"who": "@shop/anonymous", "action": "publish", "path": "a"}), "rule"),
    ] {
        let (status, told) = ask(&question);
        assert_eq!((&*status, &told["why"]), ("200", &json!(why)), "{question}: {told}");
    }
    let temporary = "temp/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/replies";
    for (question, allowed, why, said) in [
        // What one right implies for another, as the operations have it.
        (
            json!({"who": "admin", "action": "operate", "path": "$sys/drain"}),
            true,
            "rule",
            "which is enough",
        ),
        (
            json!({"who": "operator", "action": "monitor", "path": "$sys/drain"}),
            true,
            "rule",
            "allows it",
        ),
        (
            json!({"who": "viewer", "action": "browse", "path": "$sys/sessions"}),
            true,
            "rule",
            "as to monitor",
        ),
        (json!({"who": "viewer", "action": "browse", "path": "$sys/stats"}), false, "nothing", ""),
        (
            json!({"who": "viewer", "action": "operate", "path": "$sys/drain"}),
            false,
            "nothing",
            "no rule",
        ),
        (
            json!({"who": "uid:0", "action": "admin", "path": "$sys/config"}),
            true,
            "local",
            "admin socket",
        ),
        // Nobody looks after the node by a virtual host, whatever rules say.
        (
            json!({"who": "@shop/admin", "action": "admin", "path": "$sys/config"}),
            false,
            "host",
            "virtual host",
        ),
        (
            json!({"who": "bob", "action": "send", "path": temporary}),
            true,
            "temporary",
            "knows the name",
        ),
        (
            json!({"who": "bob", "action": "receive", "path": temporary}),
            false,
            "temporary",
            "belongs to",
        ),
        (
            json!({"who": "bob", "action": "browse", "path": "a"}),
            false,
            "nothing",
            "who owns the topic",
        ),
        (
            json!({"who": "bob", "action": "create", "path": "a"}),
            false,
            "nothing",
            "no rule allows it",
        ),
    ] {
        let (_, told) = ask(&question);
        assert_eq!(
            (&told["allowed"], &told["why"]),
            (&json!(allowed), &json!(why)),
            "{question}: {told}"
        );
        assert!(told["says"].as_str().unwrap().contains(said), "{question}: {told}");
    }
    for (question, wrong) in [
        (json!({"who": "ann", "action": "send", "path": "a", "claims": ["x"]}), "NAME=VALUE"),
        (json!({"who": "@none/ann", "action": "send", "path": "a"}), "no virtual host `none`"),
        (
            json!({"who": "ann", "action": "send", "path": "@shop/$sys/a"}),
            "no name in a virtual host",
        ),
        (json!({"who": "*", "action": "send", "path": "a"}), "`*` is no name"),
        (json!({"who": "ann", "action": "fly", "path": "a"}), "publish"),
        (
            json!({"who": "anonymous", "action": "send", "path": "a", "groups": ["a"]}),
            "neither groups",
        ),
        (json!({"who": "anonymous", "action": "send", "path": "~/a"}), "stands for nothing"),
    ] {
        let (status, told) = ask(&question);
        let message = told["message"].as_str().unwrap();
        assert!(status == "400" && message.contains(wrong), "{question}: {told}");
    }
    let refused = server.run("operator", &["explain", "ann", "send", "orders/a"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
}
