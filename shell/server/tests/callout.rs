//! Logins of each protocol by each kind of credentials, over real sockets, with a server that is asked about those whom
//! nobody here knows.

use std::net::TcpListener;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::program::logins::{LoginServer, PROTOCOLS, Show, SocketIo, Stomp, Way, log_in};
use crate::program::{Directory, Server};

const SECRET: &str = "a secret of thirty-two bytes, ok";

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub(crate) fn jwt(claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&json!({ "alg": "HS256" })), part(claims));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
    let signature = ring::hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// A configuration in which ann has a password and a token here, and everybody else is asked about there.
pub(crate) fn config(directory: &Directory, address: std::net::SocketAddr, more: &str) -> String {
    let file = |name: &str, text: &str| {
        let path = directory.0.join(name);
        std::fs::write(&path, text).unwrap();
        format!("file:{}", path.display())
    };
    let (password, token) = (file("password", "swordfish"), file("token", "0123456789abcdef"));
    let (secret, key) = (file("secret", SECRET), file("key", "a secret of the login server"));
    format!(
        "[auth]\nlogin_failures_max = 0\n\
         [auth_http]\nlogin_url = \"http://{address}/login\"\n{more}\n\
         [[auth_http_header]]\nname = \"X-Api-Key\"\nvalue = {key:?}\n\
         [[user]]\nname = \"ann\"\npassword = {password:?}\n\
         [[token]]\nname = \"ann's\"\nprincipal = \"ann\"\nsecret = {token:?}\n\
         [[jwt]]\nname = \"test\"\nleeway = \"0s\"\nsecret = {secret:?}\n\
         [[rule]]\nallow = [\"subscribe\", \"publish\"]\nprincipals = [\"*\"]\npaths = [\"own/{{user}}/**\"]\n\
         [[rule]]\ndeny = [\"subscribe\"]\nprincipals = [\"anonymous\"]\n"
    )
    .replace("[[token]]\nname = \"ann's\"", "[[token]]\nname = \"ann-token\"")
}

#[test]
fn every_protocol_takes_every_kind_of_credentials() {
    let login_server = LoginServer::start(|question| {
        let is_right = question["password"] == "right" || question["token"] == "opaque";
        let reason = "your account is locked";
        (200, json!({"allow": is_right, "user": "ann", "reason": reason}))
    });
    let directory = Directory::new("kinds");
    let server = Server::start(&directory.0, &config(&directory, login_server.address, ""));
    let way = Way::plain(server.address);
    let good = jwt(&json!({ "sub": "ann", "exp": now() + 600 }));
    let late = jwt(&json!({ "sub": "ann", "exp": now() - 1 }));
    // What is shown, and what a refusal says.
    let cells = [
        (Show::Password("ann", "swordfish"), None),
        (Show::Password("ann", "wrong"), Some("wrong")),
        (Show::Token("0123456789abcdef"), None),
        (Show::Token(&good), None),
        (Show::Token(&late), Some("expired")),
        (Show::Password("ann@example.org", "right"), None),
        (Show::Password("ann@example.org", "bad"), Some("your account is locked")),
        (Show::Token("opaque"), None),
        (Show::Token("unheard-of"), Some("your account is locked")),
    ];
    for protocol in PROTOCOLS {
        for (show, refusal) in &cells {
            let outcome = log_in(protocol, &way, *show);
            match refusal {
                None => assert_eq!(outcome, Ok(()), "{protocol} {show:?}"),
                Some(said) => {
                    let refused = outcome.unwrap_err();
                    let is_said = protocol == "sse" || refused.contains(said);
                    assert!(is_said, "{protocol} {show:?}: {refused}");
                }
            }
        }
    }
    // Each was asked about once for each protocol, and never about those who are known here.
    let asked = login_server.asked.lock().unwrap();
    assert!(asked.iter().all(|question| question["user"] != "ann" && question["tls"] == false));
    let protocols: std::collections::BTreeSet<&str> =
        asked.iter().map(|question| question["protocol"].as_str().unwrap()).collect();
    let names = ["events", "native", "rsocket", "socketio", "stomp"];
    assert_eq!(protocols.into_iter().collect::<Vec<_>>(), names);
}

#[test]
fn a_session_ends_when_the_answer_says_so_unless_it_logs_in_again() {
    let login_server = LoginServer::start(|question| {
        let end = match question["password"].as_str() {
            Some("eight") => json!(now() + 8),
            Some("ten") => json!(now() + 10),
            _ => Value::Null,
        };
        (200, json!({"allow": true, "expires": end, "cache": 0}))
    });
    let directory = Directory::new("callout-end");
    let server = Server::start(&directory.0, &config(&directory, login_server.address, ""));
    let way = Way::plain(server.address);
    let renewed = SocketIo::log_in(&way, Show::Password("bob", "eight")).unwrap();
    renewed.post("420[\"login\",{\"user\":\"bob\",\"password\":\"for good\"}]");
    assert!(renewed.poll().starts_with("430["));
    let left = SocketIo::log_in(&way, Show::Password("bob", "eight")).unwrap();
    let mut idle = Stomp::log_in(&way, Show::Password("bob", "ten")).unwrap();
    // The idle one ends last of those that end.
    let last = idle.frame();
    assert!(last.starts_with("ERROR") && last.contains("login-expired"), "{last}");
    renewed.post("421[\"login\",{\"user\":\"bob\",\"password\":\"for good\"}]");
    assert!(renewed.poll().starts_with("431["));
    let over = left.post("421[\"login\",{\"user\":\"bob\",\"password\":\"for good\"}]");
    assert!(over != "ok", "{over}");
}

#[test]
fn a_server_that_never_answers_keeps_nobody_else_out() {
    // Connections come to be, and nobody reads them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = Directory::new("silent");
    let more = "timeout = \"1s\"\nwaiting_max = 64";
    let server =
        Server::start(&directory.0, &config(&directory, silent.local_addr().unwrap(), more));
    let way = Way::plain(server.address);
    let mut flood: Vec<Stomp> =
        (0..200).map(|at| Stomp::begin(&way, Show::Password(&format!("u{at}"), "x"))).collect();
    let token = jwt(&json!({ "sub": "ann", "exp": now() + 600 }));
    let (mut accepted, mut tried) = (0, 0);
    for _ in 0..10 {
        for show in [
            Show::Password("ann", "swordfish"),
            Show::Token("0123456789abcdef"),
            Show::Token(&token),
        ] {
            for protocol in PROTOCOLS {
                tried += 1;
                accepted += usize::from(log_in(protocol, &way, show).is_ok());
            }
        }
    }
    assert_eq!(accepted, tried, "those who are known here do not wait");
    // Everybody of the flood is refused, with a word.
    for client in &mut flood {
        let refused = client.frame();
        assert!(refused.starts_with("ERROR"), "{refused}");
    }
    // And from then on at once.
    let refused = log_in("http", &way, Show::Password("eve", "x")).unwrap_err();
    assert!(refused.contains("503") && refused.contains("login-unavailable"), "{refused}");
}

#[test]
fn what_was_accepted_before_holds_while_nobody_answers() {
    let is_away = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let away = is_away.clone();
    let login_server =
        LoginServer::start(move |_| match away.load(std::sync::atomic::Ordering::SeqCst) {
            true => (500, Value::Null),
            false => (200, json!({"allow": true})),
        });
    let directory = Directory::new("unanswered");
    let more = "unanswered = \"cached\"\naccepted_time = 0";
    let server = Server::start(&directory.0, &config(&directory, login_server.address, more));
    let way = Way::plain(server.address);
    assert!(Stomp::log_in(&way, Show::Password("bob", "x")).is_ok());
    is_away.store(true, std::sync::atomic::Ordering::SeqCst);
    for _ in 0..20 {
        assert!(Stomp::log_in(&way, Show::Password("bob", "x")).is_ok());
    }
    let refused = Stomp::log_in(&way, Show::Password("bob", "y")).err().unwrap();
    assert!(refused.contains("login-unavailable"), "{refused}");
}
