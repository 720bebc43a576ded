//! Users, tokens and rules that are put while the server runs, by clients that log in with them.

use std::process::Command;

use serde_json::{Value, json};

use crate::connections::Managed;
use crate::program::logins::{LoggedIn, Show, Stomp, authorization, exchange};
use crate::program::watched::Watched;

const CONFIG: &str = "[auth]\nmanaged = true\n[store]\ndirectory = \"DIRECTORY\"\n\
                      [[rule]]\nname = \"of-the-file\"\nallow = [\"admin\"]\nprincipals = [\"user:admin\"]\npaths = [\"$sys/**\"]\n";

fn start(name: &str) -> Managed {
    let store = std::env::temp_dir().join(format!("tiderace-{name}-store-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&store);
    Managed::start(name, &CONFIG.replace("DIRECTORY", &store.display().to_string()))
}

/// Kills the server, and starts it again.
fn restart(server: &mut Managed) {
    server.server.child.kill().unwrap();
    server.server.child.wait().unwrap();
    let mut again = Command::new(env!("CARGO_BIN_EXE_tiderace"));
    server.server = Watched::of(again.args(["serve", "--config"]).arg(server.file()));
}

fn done(server: &Managed, operation: &Value) -> Value {
    let (status, answer) = server.operate("admin", operation);
    assert_eq!(status, "200", "{operation}: {answer}");
    answer
}

/// Whether who has that may send to the queue `put/jobs`.
fn may_send(server: &Managed, show: Show<'_>) -> bool {
    let mut stomp = Stomp::log_in(&server.way(), show).unwrap();
    stomp.send("SEND\ndestination:/queue/put/jobs\nreceipt:1\n\nx");
    let frame = stomp.frame();
    assert!(frame.starts_with("RECEIPT") || frame.contains("not-authorised"), "{frame}");
    frame.starts_with("RECEIPT")
}

const CAT: Show<'static> = Show::Password("cat", "the password of cat");

#[test]
fn a_role_is_given_and_taken_by_a_rule() {
    let mut server = start("identities-roles");
    let lists = json!({"do": "sessions"});
    let kicks = json!({"do": "kick", "principal": "nobody", "dry_run": true});
    let may = |server: &Managed| {
        [&lists, &kicks].map(|operation| server.operate("bob", operation).0 == "200")
    };
    assert_eq!(may(&server), [false, false]);
    let put = |server: &Managed, role: &str| {
        let words = ["rules", "put", "bobs", "--role", role, "--principal", "user:bob"];
        assert!(server.run("admin", &words).status.success());
    };
    put(&server, "viewer");
    assert_eq!(may(&server), [true, false]);
    put(&server, "operator");
    assert_eq!(may(&server), [true, true]);
    let rule = server.lines("admin", &["rules", "ls"]).pop().unwrap();
    assert_eq!((&rule["role"], &rule["principals"]), (&json!("operator"), &json!(["user:bob"])));
    assert!(rule["paths"].is_null() && rule["allow"].is_null(), "{rule}");
    let asked =
        json!({"do": "explain", "who": "bob", "action": "operate", "path": "$sys/sessions"});
    let told = done(&server, &asked);
    assert_eq!((&told["why"], &told["rule"]), (&json!("rule"), &rule["number"]));
    let says = told["says"].as_str().unwrap();
    assert!(says.ends_with("(role = \"operator\", principals = [\"user:bob\"])"), "{says}");
    let record = server.lines("admin", &["audit", "-n", "50"]);
    let record = serde_json::to_string(&record).unwrap();
    assert!(record.contains("role=operator principals=user:bob"), "{record}");
    restart(&mut server);
    assert_eq!(may(&server), [true, true]);
    // A denial outweighs what a role allows.
    let denial = json!({
        "do": "put-rule", "name": "no-kicks", "deny": ["operate"], "principals": ["user:bob"],
        "paths": ["$sys/sessions"]
    });
    assert_eq!(done(&server, &denial)["outcome"], "added");
    assert_eq!(may(&server), [true, false]);
    let denial = server.lines("admin", &["rules", "ls"]).pop().unwrap();
    let told = done(&server, &asked);
    assert_eq!((&told["allowed"], &told["rule"]), (&json!(false), &denial["number"]));
    done(&server, &json!({"do": "remove-rule", "name": "bobs"}));
    assert_eq!(may(&server), [false, false]);
}

#[test]
fn who_was_put_may_what_was_put_and_nothing_any_more_when_that_is_removed() {
    let mut server = start("identities");
    assert!(LoggedIn::begin("stomp", &server.way(), CAT).is_err());
    let user = json!({"do": "put-user", "name": "cat", "password": "the password of cat", "groups": ["desk"]});
    let dry = json!({"do": "put-user", "name": "cat", "password": "x", "dry_run": true});
    assert_eq!(done(&server, &dry), json!({"user": "cat", "outcome": "added", "dry_run": true}));
    assert!(LoggedIn::begin("stomp", &server.way(), CAT).is_err(), "nothing was changed");
    assert_eq!(done(&server, &user)["outcome"], "added");
    assert!(!may_send(&server, CAT));
    let rule = json!({
        "do": "put-rule", "name": "desk-sends", "allow": ["send", "create"], "principals": ["group:desk"],
        "paths": ["put/**"], "kind": "queue"
    });
    assert_eq!(done(&server, &rule)["outcome"], "added");
    assert!(may_send(&server, CAT));
    let asked = json!({"do": "explain", "who": "cat", "action": "send", "path": "put/jobs"});
    let told = done(&server, &asked);
    assert!(told["says"].as_str().unwrap().contains("put at run time"), "{told}");
    let listed = server.lines("admin", &["rules", "ls"]);
    let last = listed.last().unwrap();
    assert_eq!(last["number"], told["rule"]);
    assert_eq!((&last["name"], &last["from"]), (&json!("desk-sends"), &json!("put at run time")));
    assert_eq!(listed[0]["name"], "of-the-file");
    // What is acknowledged is there after the server was killed.
    let kept = done(&server, &json!({"do": "users"}));
    restart(&mut server);
    assert_eq!(done(&server, &json!({"do": "users"})), kept);
    assert!(may_send(&server, CAT));
    // A new group is known without a new password, and a session of before knows it too.
    let mut session = Stomp::log_in(&server.way(), CAT).unwrap();
    let user = json!({"do": "put-user", "name": "cat", "groups": ["none"]});
    assert_eq!(done(&server, &user)["outcome"], "changed");
    assert!(!may_send(&server, CAT));
    session.send("SEND\ndestination:/queue/put/jobs\nreceipt:1\n\nx");
    assert!(session.frame().starts_with("ERROR"));
    let mut session = LoggedIn::begin("native", &server.way(), CAT).unwrap();
    assert_eq!(done(&server, &json!({"do": "remove-user", "name": "cat"}))["outcome"], "removed");
    let last = session.last_words();
    assert!(last.contains("not accepted any more"), "{last}");
    assert!(LoggedIn::begin("stomp", &server.way(), CAT).is_err());
    assert_eq!(done(&server, &json!({"do": "remove-user", "name": "cat"}))["outcome"], "missing");
}

#[test]
fn a_token_that_was_put_ends_when_it_should_and_its_sessions_with_it() {
    let server = start("identities-token");
    let made =
        server.lines("admin", &["tokens", "put", "feed", "--principal", "pete", "--for", "6s"]);
    let token = made[0]["secret"].as_str().unwrap().to_owned();
    assert!(token.starts_with("tr_"));
    // The login comes first, since the token is good for a while only.
    let mut session = LoggedIn::begin("stomp", &server.way(), Show::Token(&token)).unwrap();
    let listed = server.lines("admin", &["tokens", "ls"]);
    let feed = listed.iter().find(|token| token["name"] == "feed").unwrap();
    assert_eq!(feed["principal"], "pete");
    assert!(feed["until"].is_u64() && !feed.to_string().contains("sha256"), "{feed}");
    let last = session.last_words();
    assert!(last.contains("expired"), "{last}");
    let refused = LoggedIn::begin("stomp", &server.way(), Show::Token(&token)).err().unwrap();
    assert!(refused.contains("expired"), "{refused}");
    // What stays the same ends as it did, and is good again with another end.
    let changed = server.lines("admin", &["tokens", "put", "feed", "--keep-secret"]);
    assert_eq!(changed[0]["outcome"], "changed");
    let refused = LoggedIn::begin("stomp", &server.way(), Show::Token(&token)).err().unwrap();
    assert!(refused.contains("expired"), "{refused}");
    server.lines("admin", &["tokens", "put", "feed", "--keep-secret", "--for", "1d"]);
    let mut session = LoggedIn::begin("stomp", &server.way(), Show::Token(&token)).unwrap();
    let removed = server.lines("admin", &["tokens", "rm", "feed", "--yes"]);
    assert_eq!(removed[0]["outcome"], "removed");
    let last = session.last_words();
    assert!(last.contains("not accepted any more"), "{last}");
    assert!(LoggedIn::begin("stomp", &server.way(), Show::Token(&token)).is_err());
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let server = start("identities-refused");
    let before = ["users", "tokens", "rules"].map(|what| done(&server, &json!({"do": what})));
    for (operation, expected) in [
        (json!({"do": "put-user", "name": "cat"}), "a new user needs"),
        (
            json!({"do": "put-user", "name": "cat", "password": "a", "password_hash": "b"}),
            "is enough",
        ),
        (json!({"do": "put-user", "name": "cat", "password_hash": "$argon2id$x"}), "user `cat`"),
        (json!({"do": "put-user", "name": "cat", "password_hash": "env:HOME"}), "HOME"),
        (json!({"do": "put-user", "name": "cat", "password": "a", "host": "shop"}), "virtual_host"),
        (json!({"do": "put-user", "name": "a b", "password": "a"}), "is no name"),
        (
            json!({"do": "put-token", "name": "ann", "secret": "sha256:00"}),
            "stands in the configuration",
        ),
        (json!({"do": "remove-token", "name": "admin"}), "stands in the configuration"),
        (json!({"do": "put-token", "name": "cat"}), "a new token needs"),
        (json!({"do": "put-token", "name": "cat", "secret": "swordfish"}), "secret"),
        (json!({"do": "put-rule", "name": "r", "principals": ["*"]}), "exactly one of"),
        (json!({"do": "put-rule", "name": "r", "allow": ["fly"], "principals": ["*"]}), "fly"),
        (
            json!({"do": "put-rule", "name": "r", "role": "king", "principals": ["*"]}),
            "operator or",
        ),
        (
            json!({"do": "put-rule", "name": "r", "role": "admin", "kind": "topic", "principals": ["*"]}),
            "the role says where",
        ),
        (
            json!({"do": "put-rule", "name": "of-the-file", "deny": ["admin"], "principals": ["*"]}),
            "stands in the configuration",
        ),
    ] {
        let (status, answer) = server.operate("admin", &operation);
        let reason = answer.to_string();
        assert!(status != "200" && reason.contains(expected), "{operation}: {status} {reason}");
        assert!(!reason.contains("swordfish"), "{reason}");
    }
    let after = ["users", "tokens", "rules"].map(|what| done(&server, &json!({"do": what})));
    assert_eq!(before, after);
    let (status, _) = server.operate("operator", &json!({"do": "users"}));
    assert_eq!(status, "403");
    let record = server.lines("admin", &["audit", "-n", "50"]);
    let record = serde_json::to_string(&record).unwrap();
    assert!(record.contains("put-user") && !record.contains("swordfish"), "{record}");
}

#[test]
fn without_the_option_nothing_is_put_and_the_file_can_be_listed() {
    let server = Managed::start("identities-off", "");
    let listed = server.lines("admin", &["tokens", "ls"]);
    let ann = listed.iter().find(|token| token["name"] == "ann").unwrap();
    assert_eq!(ann["groups"], json!(["sales"]));
    assert!(ann["from"].as_str().unwrap().contains("tiderace.toml:"), "{ann}");
    let refused = server.run("admin", &["users", "put", "cat", "--hash", "$argon2id$x"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("auth.managed = true"), "{said}");
}

#[test]
fn a_reload_keeps_what_was_put_and_the_file_goes_before_it() {
    let server = start("identities-reload");
    let user = json!({"do": "put-user", "name": "cat", "password": "the password of cat"});
    done(&server, &user);
    let file = server.file();
    let text = std::fs::read_to_string(&file).unwrap();
    let password = file.with_file_name("cat.password");
    std::fs::write(&password, "another one").unwrap();
    let more = format!("[[user]]\nname = \"cat\"\npassword = \"file:{}\"\n", password.display());
    std::fs::write(&file, format!("{text}{more}")).unwrap();
    let changed = done(&server, &json!({"do": "reload"}));
    assert_eq!(changed["changes"], json!([{"option": "user", "applies": "now"}]));
    assert!(LoggedIn::begin("stomp", &server.way(), CAT).is_err());
    assert!(LoggedIn::begin("stomp", &server.way(), Show::Password("cat", "another one")).is_ok());
    assert_eq!(server.operate("admin", &user).0, "400");
    std::fs::write(&file, text).unwrap();
    done(&server, &json!({"do": "reload"}));
    assert!(LoggedIn::begin("stomp", &server.way(), CAT).is_ok(), "it was kept");
    assert_eq!(done(&server, &json!({"do": "reload"}))["changes"], json!([]));
    let rest = format!(
        "GET /manage/users HTTP/1.1\r\n{}",
        authorization(Show::Token(&crate::connections::token_of("admin")))
    );
    let (_, body) = exchange(&server.way(), &rest, "");
    assert!(body.contains("cat"), "{body}");
}

#[test]
fn who_is_hidden_by_the_file_can_be_removed_and_who_has_no_host_any_more_is_left_out() {
    let mut server = start("identities-left-out");
    let host = "[[virtual_host]]\nname = \"shop\"\nhosts = [\"shop.example\"]\n";
    let file = server.file();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}{host}")).unwrap();
    restart(&mut server);
    let bound =
        json!({"do": "put-user", "name": "cat", "password": "the password of cat", "host": "shop"});
    done(&server, &bound);
    done(&server, &json!({"do": "put-user", "name": "dan", "password": "the password of dan"}));
    std::fs::write(&file, &text).unwrap();
    restart(&mut server);
    assert!(
        LoggedIn::begin("stomp", &server.way(), CAT).is_err(),
        "nobody is bound to a host that is not there"
    );
    let dan = Show::Password("dan", "the password of dan");
    assert!(LoggedIn::begin("stomp", &server.way(), dan).is_ok());
    assert_eq!(done(&server, &json!({"do": "users"}))["matched"], 1);
    assert_eq!(done(&server, &json!({"do": "remove-user", "name": "cat"}))["outcome"], "removed");
    // What the file hides is removed for good.
    let hash = "$argon2id$v=19$m=8192,t=1,p=1$c2FsdHNhbHRzYWx0$GpZ3sK/oH9p7VIiV56G/64Zo/8GaUw434IimaPqxwCo";
    std::fs::write(&file, format!("{text}[[user]]\nname = \"dan\"\npassword_hash = {hash:?}\n"))
        .unwrap();
    done(&server, &json!({"do": "reload"}));
    assert_eq!(done(&server, &json!({"do": "remove-user", "name": "dan"}))["outcome"], "removed");
    std::fs::write(&file, &text).unwrap();
    done(&server, &json!({"do": "reload"}));
    assert!(LoggedIn::begin("stomp", &server.way(), dan).is_err());
}
