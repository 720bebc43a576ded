//! How long logins last, by protocol and kind of credentials, over real sockets: what ends while its client is idle, what
//! is renewed on its connection, and what has expired before. docs/authentication.md has the table.

use serde_json::{Value, json};

use crate::callout::{config, jwt, now};
use crate::certificates::Authority;
use crate::program::logins::{LoggedIn, LoginServer, PROTOCOLS, Show, Way};
use crate::program::{Directory, Server};

/// Those that have a session; a request by HTTP shows its own credentials each time.
const LASTING: [&str; 5] = ["stomp", "native", "socketio", "rsocket", "sse"];
/// Those by which one can log in again.
const RENEWING: [&str; 2] = ["native", "socketio"];
/// Seconds that all logins of a test take at most.
const AHEAD: u64 = 8;

/// Says for whom and until when by the password or token itself: `ends 1790000000` or `lasts`.
fn login_server() -> LoginServer {
    LoginServer::start(|question| {
        let shown = question["password"].as_str().or(question["token"].as_str()).unwrap();
        let (word, end) = shown.split_once('-').unwrap_or((shown, ""));
        let end = end.parse::<u64>().map_or(Value::Null, Value::from);
        let is_right = word == "ends" || word == "lasts";
        (200, json!({"allow": is_right, "user": "ann", "expires": end, "cache": 0}))
    })
}

/// What the end of a session is known by; Socket.IO's clients connect again by themselves, so they are told no more than
/// that the connection ends, or of one that polled later that there is none.
fn is_told(protocol: &str, said: &str) -> bool {
    match protocol {
        "socketio" => said == "1" || said.contains("Session ID unknown"),
        _ => said.contains("login-expired"),
    }
}

#[test]
fn a_session_of_every_protocol_ends_while_it_is_idle_when_its_credentials_do() {
    let (asked, directory) = (login_server(), Directory::new("lasting"));
    let server = Server::start(&directory.0, &config(&directory, asked.address, ""));
    let authority = Authority::new("lasting-certificates");
    let secured =
        authority.serve("client_names = [\"common_name\"]\nclient_groups = [\"machines\"]");
    let end = now() + AHEAD;
    let shown = authority.client("ann", Vec::new(), Some(end));
    let (plain, tls) =
        (Way::plain(server.address), Way::secured(secured.address, &authority.file, Some(&shown)));
    let (signed, password) = (jwt(&json!({"sub": "ann", "exp": end})), format!("ends-{end}"));
    let kinds = [
        ("signed token", &plain, Show::Token(&signed)),
        ("call-out, password", &plain, Show::Password("ann@example.org", &password)),
        ("call-out, token", &plain, Show::Token(&password)),
        ("certificate", &tls, Show::Nothing),
    ];
    // Those that never end, by the side of those that do.
    let forever = [Show::Password("ann", "swordfish"), Show::Token("0123456789abcdef")];
    let mut lasting: Vec<LoggedIn> = forever
        .into_iter()
        .chain([Show::Token("lasts")])
        .flat_map(|show| RENEWING.map(|protocol| (protocol, show)))
        .map(|(protocol, show)| LoggedIn::begin(protocol, &plain, show).unwrap())
        .collect();
    let mut sessions = Vec::new();
    for (kind, way, show) in kinds {
        for protocol in LASTING {
            let session = LoggedIn::begin(protocol, way, show);
            let session = session.unwrap_or_else(|said| panic!("{kind}, {protocol}: {said}"));
            sessions.push((kind, protocol, session));
        }
    }
    assert!(now() < end, "logging in took longer than the logins were to last");
    for (kind, protocol, session) in &mut sessions {
        let said = session.last_words();
        assert!(is_told(protocol, &said), "{kind}, {protocol}: {said}");
        assert!(now() >= end, "{kind}, {protocol}: too early: {said}");
    }
    for session in &mut lasting {
        assert_eq!(session.renew(Show::Token("0123456789abcdef")), Ok(()));
    }
}

#[test]
fn a_login_is_renewed_by_every_kind_of_credentials_where_a_protocol_has_a_way_to() {
    let (asked, directory) = (login_server(), Directory::new("renewing"));
    let server = Server::start(&directory.0, &config(&directory, asked.address, ""));
    let authority = Authority::new("renewing-certificates");
    let secured =
        authority.serve("client_names = [\"common_name\"]\nclient_groups = [\"machines\"]");
    let end = now() + AHEAD;
    let shown = authority.client("bob", Vec::new(), Some(end));
    let (plain, tls) =
        (Way::plain(server.address), Way::secured(secured.address, &authority.file, Some(&shown)));
    let short = jwt(&json!({"sub": "ann", "exp": end}));
    let long = jwt(&json!({"sub": "ann", "exp": end + 600}));
    let kinds = [
        ("password", &plain, Show::Token(&short), Show::Password("ann", "swordfish")),
        ("token", &plain, Show::Token(&short), Show::Token("0123456789abcdef")),
        ("signed token", &plain, Show::Token(&short), Show::Token(&long)),
        ("call-out, password", &plain, Show::Token(&short), Show::Password("ann@x", "lasts")),
        ("call-out, token", &plain, Show::Token(&short), Show::Token("lasts")),
        // A certificate is the connection's own, but what is shown besides counts instead.
        ("password for a certificate", &tls, Show::Nothing, Show::Password("bob", "swordfish")),
    ];
    let (mut renewed, mut refused) = (Vec::new(), Vec::new());
    for (kind, way, first, second) in kinds {
        for protocol in RENEWING {
            let mut session = LoggedIn::begin(protocol, way, first).unwrap();
            assert_eq!(session.renew(second), Ok(()), "{kind}, {protocol}");
            renewed.push((kind, protocol, session, second));
            // One that fails changes nothing: the session lives as long as its first login.
            let mut session = LoggedIn::begin(protocol, way, first).unwrap();
            let said = session.renew(Show::Password("nobody", "wrong")).unwrap_err();
            assert!(said.contains("login-failed"), "{kind}, {protocol}: {said}");
            refused.push((kind, protocol, session));
        }
    }
    // STOMP logs in once, at the beginning.
    let mut stomp = LoggedIn::begin("stomp", &plain, Show::Token(&short)).unwrap();
    let said = stomp.renew(Show::Token(&long)).unwrap_err();
    assert!(said.starts_with("ERROR") && said.contains("unexpected-frame"), "{said}");
    assert!(now() < end, "logging in took longer than the logins were to last");
    for (kind, protocol, session) in &mut refused {
        let said = session.last_words();
        assert!(is_told(protocol, &said), "{kind}, {protocol}: {said}");
    }
    // By now the first logins of the others are over.
    for (kind, protocol, session, show) in &mut renewed {
        assert_eq!(session.renew(*show), Ok(()), "{kind}, {protocol}");
    }
}

#[test]
fn what_has_expired_before_lets_nobody_in() {
    let (asked, directory) = (login_server(), Directory::new("expired"));
    let server = Server::start(&directory.0, &config(&directory, asked.address, ""));
    let authority = Authority::new("expired-certificates");
    let secured =
        authority.serve("client_names = [\"common_name\"]\nclient_groups = [\"machines\"]");
    let late = now() - 10;
    let shown = authority.client("ann", Vec::new(), Some(late));
    let (plain, tls) =
        (Way::plain(server.address), Way::secured(secured.address, &authority.file, Some(&shown)));
    let (signed, password) = (jwt(&json!({"sub": "ann", "exp": late})), format!("ends-{late}"));
    for protocol in PROTOCOLS {
        for show in [
            Show::Token(&signed),
            Show::Password("ann@example.org", &password),
            Show::Token(&password),
        ] {
            let said = LoggedIn::begin(protocol, &plain, show).err().unwrap();
            // The head of a stream's refusal has no room for words.
            let is_told = said.contains("what you log in with has expired")
                || protocol == "sse" && said.contains(" 401 ");
            assert!(is_told, "{protocol}, {show:?}: {said}");
        }
        // TLS refuses the certificate before any protocol begins.
        assert!(LoggedIn::begin(protocol, &tls, Show::Nothing).is_err(), "{protocol}");
    }
}
