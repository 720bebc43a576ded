//! How long logins last, by protocol and kind of credentials, over real sockets: what ends while its client is idle, what
//! is renewed on its connection, and what has expired before. docs/authentication.md has the table.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::callout::{config, jwt, now};
use crate::certificates::Authority;
use crate::program::logins::{LoggedIn, LoginServer, PROTOCOLS, Show, Way};
use crate::program::{Directory, Server};

/// Those that have a session; a request by HTTP shows its own credentials each time.
const LASTING: [&str; 5] = ["stomp", "native", "socketio", "rsocket", "sse"];
/// Those by which one can log in again.
const RENEWING: [&str; 2] = ["native", "socketio"];
/// Seconds that one login takes at most.
const AHEAD: u64 = 8;

/// Logs in by a protocol with credentials that are made for it and end then.
type Begin<'a> = &'a dyn Fn(&str, u64) -> Result<LoggedIn, String>;

fn signed(end: u64) -> String {
    jwt(&json!({"sub": "ann", "exp": end}))
}

/// The way of who has a certificate that ends then.
fn certified(authority: &Authority, address: SocketAddr, name: &str, end: u64) -> Way {
    let shown = authority.client(name, Vec::new(), Some(end));
    Way::secured(address, &authority.file, Some(&shown))
}

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
    let plain = Way::plain(server.address);
    let kinds: [(&str, Begin<'_>); 4] = [
        ("signed token", &|protocol, end| {
            LoggedIn::begin(protocol, &plain, Show::Token(&signed(end)))
        }),
        ("call-out, password", &|protocol, end| {
            let password = format!("ends-{end}");
            LoggedIn::begin(protocol, &plain, Show::Password("ann@example.org", &password))
        }),
        ("call-out, token", &|protocol, end| {
            LoggedIn::begin(protocol, &plain, Show::Token(&format!("ends-{end}")))
        }),
        ("certificate", &|protocol, end| {
            let way = certified(&authority, secured.address, "ann", end);
            LoggedIn::begin(protocol, &way, Show::Nothing)
        }),
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
    for (kind, begin) in kinds {
        for protocol in LASTING {
            let end = now() + AHEAD;
            let session = begin(protocol, end);
            let session = session.unwrap_or_else(|said| panic!("{kind}, {protocol}: {said}"));
            sessions.push((kind, protocol, end, session));
        }
    }
    for (kind, protocol, end, session) in &mut sessions {
        let said = session.last_words();
        assert!(is_told(protocol, &said), "{kind}, {protocol}: {said}");
        assert!(now() >= *end, "{kind}, {protocol}: too early: {said}");
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
    let plain = Way::plain(server.address);
    let token: Begin<'_> =
        &|protocol, end| LoggedIn::begin(protocol, &plain, Show::Token(&signed(end)));
    let certificate: Begin<'_> = &|protocol, end| {
        let way = certified(&authority, secured.address, "bob", end);
        LoggedIn::begin(protocol, &way, Show::Nothing)
    };
    let long = signed(now() + 600);
    let kinds = [
        ("password", token, Show::Password("ann", "swordfish")),
        ("token", token, Show::Token("0123456789abcdef")),
        ("signed token", token, Show::Token(&long)),
        ("call-out, password", token, Show::Password("ann@x", "lasts")),
        ("call-out, token", token, Show::Token("lasts")),
        // A certificate is the connection's own, but what is shown besides counts instead.
        ("password for a certificate", certificate, Show::Password("bob", "swordfish")),
    ];
    let (mut renewed, mut refused) = (Vec::new(), Vec::new());
    for (kind, begin, second) in kinds {
        for protocol in RENEWING {
            let mut session = begin(protocol, now() + AHEAD).unwrap();
            assert_eq!(session.renew(second), Ok(()), "{kind}, {protocol}");
            renewed.push((kind, protocol, session, second));
            // One that fails changes nothing: the session lives as long as its first login.
            let end = now() + AHEAD;
            let mut session = begin(protocol, end).unwrap();
            let said = session.renew(Show::Password("nobody", "wrong")).unwrap_err();
            assert!(said.contains("login-failed"), "{kind}, {protocol}: {said}");
            refused.push((kind, protocol, end, session));
        }
    }
    // STOMP logs in once, at the beginning.
    let mut stomp = token("stomp", now() + AHEAD).unwrap();
    let said = stomp.renew(Show::Token(&long)).unwrap_err();
    assert!(said.starts_with("ERROR") && said.contains("unexpected-frame"), "{said}");
    for (kind, protocol, end, session) in &mut refused {
        let said = session.last_words();
        assert!(is_told(protocol, &said), "{kind}, {protocol}: {said}");
        assert!(now() >= *end, "{kind}, {protocol}: too early: {said}");
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
