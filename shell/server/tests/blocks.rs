//! Principals and addresses that an operator keeps out, by each protocol over real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::alarms::metric;
use crate::connections::{Managed, ask, audited, token_of};
use crate::program::Directory;
use crate::program::logins::{LoggedIn, PROTOCOLS, Show, Way, exchange, log_in};
use crate::program::watched::Watched;
use crate::readme::commands_of;

/// Long enough for a busy machine; nothing waits for it unless something is broken.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Those that have a session.
const SESSIONS: [&str; 5] = ["stomp", "native", "socketio", "rsocket", "sse"];

const PROXIES: &str = "[proxy]\ntrusted = [\"127.0.0.1\"]\nprotocol = \"accept\"\nheader = \"x-forwarded-for\"\n[monitoring]\nmetrics_access = \"open\"\n";

/// What an operator is answered; it has to be done.
fn operate(server: &Managed, operation: &Value) -> Value {
    let (status, answer) = server.operate("operator", operation);
    assert_eq!(status, "200", "{operation}: {answer}");
    answer
}

/// Whether a login is refused by a block, in whatever words.
fn is_blocked(login: Result<LoggedIn, String>) -> bool {
    login.is_err_and(|said| said.contains("blocked") || said.starts_with("HTTP/1.1 403"))
}

#[test]
fn a_blocked_principal_is_kept_out_by_each_protocol_and_its_sessions_end() {
    let server = Managed::start("blocks-principal", "");
    let log_in = |protocol: &str, who: &str| server.log_in(protocol, who);
    let mut held: Vec<LoggedIn> =
        SESSIONS.iter().map(|protocol| log_in(protocol, "ann").unwrap()).collect();
    let _bobs: Vec<LoggedIn> =
        SESSIONS.iter().map(|protocol| log_in(protocol, "bob").unwrap()).collect();
    let block = |more: &[&str]| {
        let who = ["connections", "block", "--principal", "ann", "--reason", "try later"];
        server.lines("operator", &[&who[..], more].concat())
    };
    let [dry] = &block(&["--dry-run"])[..] else { panic!("one line") };
    assert_eq!((&dry["sessions"], &dry["dry_run"]), (&json!(5), &json!(true)), "{dry}");
    assert_eq!(operate(&server, &json!({"do": "blocks"}))["blocks"], json!([]));
    drop(log_in("http", "ann").unwrap());

    let [done] = &block(&["--for", "20m", "--yes"])[..] else { panic!("one line") };
    assert_eq!((&done["sessions"], &done["dry_run"]), (&json!(5), &json!(false)), "{done}");
    for (protocol, held) in SESSIONS.iter().zip(&mut held) {
        let words = held.last_words();
        // A client that is between two polls finds its session gone.
        let says: &[&str] = match *protocol {
            "socketio" => &["Session ID unknown"],
            _ => &["blocked", "try later"],
        };
        assert!(says.iter().all(|said| words.contains(said)), "{protocol}: {words}");
    }
    for protocol in PROTOCOLS {
        assert!(is_blocked(log_in(protocol, "ann")), "{protocol}");
        // Some are refused what they read here, for which they have no right, and not the login.
        let other = log_in(protocol, "bob");
        assert!(!is_blocked(other), "{protocol}");
    }
    let left = server.lines("viewer", &["connections", "ls", "--principal", "bob"]);
    assert!(left.len() >= 5, "{left:?}");
    let [listed] = &server.lines("operator", &["connections", "blocks"])[..] else { panic!() };
    let said = ["principal", "reason", "by"].map(|name| listed[name].as_str().unwrap());
    assert_eq!(said, ["ann", "try later", "operator"]);
    let lasts = listed["until"].as_u64().unwrap() - listed["since"].as_u64().unwrap();
    assert_eq!(lasts, 20 * 60_000);
    let refused = metric(server.way().address, r#"tiderace_logins_total{result="blocked"}"#);
    assert!(refused.is_some_and(|count| count.parse::<u64>().unwrap() >= 6));
    let ended =
        metric(server.way().address, r#"tiderace_connections_closed_total{reason="blocked"}"#);
    assert!(ended.is_some_and(|count| count.parse::<u64>().unwrap() >= 5));

    let unblock = ["connections", "unblock", "--principal", "ann"];
    assert_eq!(server.lines("operator", &unblock), [json!({"blocks": 1})]);
    assert_eq!(server.run("operator", &unblock).status.code(), Some(3));
    for protocol in PROTOCOLS {
        assert!(!is_blocked(log_in(protocol, "ann")), "{protocol}");
    }
}

#[test]
fn who_logs_in_anew_as_somebody_who_is_blocked_is_refused_and_stays_who_it_is() {
    let server = Managed::start("blocks-renew", "");
    operate(&server, &json!({"do": "block", "principal": "ann"}));
    let mut bob = server.log_in("native", "bob").unwrap();
    let refused = bob.renew(Show::Token(&token_of("ann"))).unwrap_err();
    assert!(refused.contains("blocked"), "{refused}");
    assert_eq!(ask(&mut bob, &json!({"do": "session"})).unwrap()["name"], "bob");
}

#[test]
fn somebody_of_a_virtual_host_is_somebody_else_than_one_of_that_name() {
    let host = "[[virtual_host]]\nname = \"shop\"\nhosts = [\"shop.example.org\"]\n";
    let server = Managed::start("blocks-hosts", host);
    // Nobody else than who comes by the name of the host.
    let at = |host: &str| {
        let mut stream = TcpStream::connect(server.way().address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let (token, head) = (token_of("ann"), "CONNECT\naccept-version:1.2");
        let frame = format!("{head}\nhost:{host}\ntoken:{token}\n\n\0");
        stream.write_all(frame.as_bytes()).unwrap();
        until(&mut stream, "\0").starts_with("CONNECTED")
    };
    assert!(at("shop.example.org") && at("localhost"));
    operate(&server, &json!({"do": "block", "principal": "@shop/ann"}));
    assert!(!at("shop.example.org") && at("localhost"));
    operate(&server, &json!({"do": "unblock", "principal": "@shop/ann"}));
    operate(&server, &json!({"do": "block", "principal": "ann"}));
    assert!(!at("shop.example.org") && !at("localhost"), "its login binds it to no host");
}

#[test]
fn where_logins_are_not_verified_addresses_are_kept_out_and_names_are_not() {
    let directory = Directory::new("blocks-open");
    let server = Watched::start(&directory.0, "", "");
    let way = Way::plain(server.addresses[0]);
    // It has said nothing yet, so it has no session that could be ended.
    let mut waiting = connect_from("127.0.0.9", way.address);
    let block = |block: Value| exchange(&way, "POST /operations HTTP/1.1\r\n", &block.to_string());
    let (head, said) = block(json!({"do": "block", "principal": "ann"}));
    assert!(head.starts_with("HTTP/1.1 400") && said.contains("not verified"), "{said}");
    let (head, said) = block(json!({"do": "block", "address": "127.0.0.9"}));
    assert!(head.starts_with("HTTP/1.1 200"), "{said}");
    let connect = b"CONNECT\naccept-version:1.2\nhost:localhost\nlogin:ann\n\n\0";
    waiting.write_all(connect).unwrap();
    let said = until(&mut waiting, "\0");
    assert!(!said.starts_with("CONNECTED") || said.contains("blocked"), "{said}");
    // Nothing more comes of it.
    let rest = until(&mut waiting, "nothing that is said");
    assert!(rest.is_empty() || rest.contains("blocked"), "{rest}");
}

/// A connection from another address of this machine.
fn connect_from(from: &str, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&format!("{from}:0").parse::<SocketAddr>().unwrap().into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&text).contains(end) && stream.read(&mut byte).unwrap_or(0) > 0 {
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

const LIVE: &[u8] = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn a_blocked_address_is_refused_before_a_byte_is_read() {
    let server = Managed::start("blocks-address", "");
    let address = server.way().address;
    let connect = |token: &str| {
        format!("CONNECT\naccept-version:1.2\nhost:localhost\ntoken:{}\n\n\0", token_of(token))
    };
    let mut stomp = connect_from("127.0.0.2", address);
    stomp.write_all(connect("ann").as_bytes()).unwrap();
    assert!(until(&mut stomp, "\0").starts_with("CONNECTED"));
    // Connections that have no session: one between two requests, one that has said nothing yet.
    let mut http = connect_from("127.0.0.2", address);
    http.write_all(LIVE).unwrap();
    assert!(until(&mut http, "live\n").starts_with("HTTP/1.1 200"));
    let mut silent = connect_from("127.0.0.2", address);
    let mut other = connect_from("127.0.0.3", address);

    let block = json!({"do": "block", "address": "127.0.0.2"});
    assert_eq!(operate(&server, &block)["sessions"], 1);
    assert!(until(&mut stomp, "\0").contains("blocked"));
    http.write_all(LIVE).unwrap();
    let refused = until(&mut http, "blocked");
    assert!(refused.starts_with("HTTP/1.1 403") && refused.ends_with("blocked"), "{refused}");
    silent.write_all(connect("ann").as_bytes()).unwrap();
    let refused = until(&mut silent, "\0");
    assert!(refused.starts_with("ERROR") && refused.contains("blocked"), "{refused}");
    other.write_all(connect("ann").as_bytes()).unwrap();
    assert!(until(&mut other, "\0").starts_with("CONNECTED"));

    let late = || {
        let mut late = connect_from("127.0.0.2", address);
        // The server may have closed it already.
        let _ = late.write_all(LIVE);
        until(&mut late, "live\n")
    };
    // One that comes late ends before anything is sent.
    assert_eq!(late(), "");
    let mut refused = 1;
    // The block ends by itself when its time is over, which is that of the last one.
    let block = json!({"do": "block", "address": "127.0.0.2", "for": "1s"});
    let begun = Instant::now();
    assert_eq!(operate(&server, &block)["sessions"], 0);
    loop {
        let said = late();
        if !said.is_empty() {
            assert!(said.starts_with("HTTP/1.1 200"), "{said}");
            break;
        }
        refused += 1;
        assert!(begun.elapsed() < TIMEOUT, "the block does not end");
    }
    // The server counts from the beginning of its turn, which may have been a little before.
    assert!(begun.elapsed() >= Duration::from_millis(900), "the block ended before its time");
    let counted = metric(address, r#"tiderace_connections_rejected_total{reason="blocked"}"#);
    assert_eq!(counted, Some(refused.to_string()));
    assert_eq!(operate(&server, &json!({"do": "blocks"}))["matched"], 0);
}

#[test]
fn behind_proxies_it_is_the_address_of_the_client() {
    let server = Managed::start("blocks-proxy", PROXIES);
    let by = |client: &str| {
        let family = if client.contains(':') { "TCP6" } else { "TCP4" };
        let own = if client.contains(':') { "::1" } else { "10.0.0.1" };
        let preface = format!("PROXY {family} {client} {own} 4711 443\r\n").into_bytes();
        Way { preface, ..server.way() }
    };
    let via =
        |client: &str| Way { fields: format!("X-Forwarded-For: {client}\r\n"), ..server.way() };
    let ann = token_of("ann");
    let show = || Show::Token(&ann);
    let mut held = LoggedIn::begin("stomp", &by("192.0.2.7"), show()).unwrap();
    let mut stream = LoggedIn::begin("sse", &via("198.51.100.9"), show()).unwrap();
    for (network, sessions) in
        [("192.0.2.0/24", 1), ("2001:db8::/32", 0), ("::ffff:198.51.100.9", 1)]
    {
        let done = operate(&server, &json!({"do": "block", "address": network}));
        assert_eq!(done["sessions"], sessions, "{network}");
    }
    let listed = operate(&server, &json!({"do": "blocks"}));
    let listed = listed["blocks"].as_array().unwrap().iter();
    let listed: Vec<&str> = listed.map(|block| block["address"].as_str().unwrap()).collect();
    assert_eq!(listed, ["192.0.2.0/24", "198.51.100.9", "2001:db8::/32"]);
    assert!(held.last_words().contains("blocked") && stream.last_words().contains("blocked"));

    for client in ["192.0.2.7", "192.0.2.200", "2001:db8:5::1", "::ffff:198.51.100.9"] {
        for protocol in PROTOCOLS {
            // Before it is known which protocol would have words for it.
            let said = match protocol {
                "http" | "socketio" => continue,
                _ => log_in(protocol, &by(client), show()).unwrap_err(),
            };
            assert!(!said.contains("CONNECTED"), "{protocol} {client}: {said}");
        }
    }
    for protocol in ["http", "sse"] {
        let said = log_in(protocol, &via("198.51.100.9"), show()).unwrap_err();
        assert!(said.contains("403"), "{protocol}: {said}");
    }
    let upgraded = |client: &str| {
        let mut socket = TcpStream::connect(server.way().address).unwrap();
        let head =
            format!("GET /tiderace HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {client}\r\n");
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        socket.write_all([&head, upgrade, key].concat().as_bytes()).unwrap();
        until(&mut socket, "\r\n")
    };
    assert_eq!(upgraded("198.51.100.9"), "HTTP/1.1 403 Forbidden\r\n");
    assert!(upgraded("198.51.100.8").starts_with("HTTP/1.1 101"));
    for way in [by("192.0.3.7"), by("2001:db9::1"), via("198.51.100.8"), server.way()] {
        log_in("native", &way, show()).unwrap();
    }
    let refused =
        metric(server.way().address, r#"tiderace_connections_rejected_total{reason="blocked"}"#);
    assert!(refused.is_some_and(|count| count.parse::<u64>().unwrap() >= 4 * 4));
    // The proxy's own address is not that of its clients.
    operate(&server, &json!({"do": "block", "address": "127.0.0.1", "force": true}));
    log_in("native", &by("192.0.3.7"), show()).unwrap();
}

#[test]
fn who_asks_does_not_keep_himself_out_unless_he_says_so() {
    let server = Managed::start("blocks-own", "");
    // Who asks does so from 127.0.0.1; a network of the other kind takes in the same machine.
    for who in [
        json!({"address": "127.0.0.0/8"}),
        json!({"address": "::/1"}),
        json!({"address": "::1"}),
        json!({"principal": "operator"}),
    ] {
        let mut block = who.clone();
        block["do"] = json!("block");
        for dry_run in [true, false] {
            block["dry_run"] = json!(dry_run);
            let (status, refused) = server.operate("operator", &block);
            assert_eq!((&*status, &refused["code"]), ("400", &json!("bad-operation")), "{block}");
            assert!(refused.to_string().contains("`force`"), "{refused}");
        }
    }
    assert_eq!(operate(&server, &json!({"do": "blocks"}))["matched"], 0);
    let ours = ["connections", "block", "--principal", "operator", "--yes"];
    let refused = server.run("operator", &ours);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    // The session that asks is left alone, so that it is answered.
    let mut operator = server.log_in("native", "operator").unwrap();
    let _other = server.log_in("stomp", "operator").unwrap();
    let block = json!({"do": "block", "principal": "operator", "force": true});
    assert_eq!(ask(&mut operator, &block).unwrap()["sessions"], 1);
    assert!(is_blocked(server.log_in("stomp", "operator")));
    let unblock = json!({"do": "unblock", "principal": "operator"});
    assert_eq!(ask(&mut operator, &unblock).unwrap(), json!({"blocks": 1}));
    drop(server.log_in("stomp", "operator").unwrap());
}

#[test]
fn blocks_are_in_the_log() {
    let mut server = Managed::start("blocks-audit", "");
    let block = json!({"do": "block", "principal": "ann", "for": "90s"});
    assert_eq!(server.operate("viewer", &block).0, "403");
    let line = audited(&mut server);
    assert_eq!((&line["outcome"], &line["code"]), (&json!("refused"), &json!("not-authorised")));
    assert_eq!(
        (&line["verb"], &line["on"]),
        (&json!("block"), &json!("principal=ann for=90000ms"))
    );
    operate(&server, &block);
    let line = audited(&mut server);
    assert_eq!((&line["who"], &line["outcome"]), (&json!("operator"), &json!("done")));
    operate(&server, &json!({"do": "unblock", "principal": "ann"}));
    let line = audited(&mut server);
    assert_eq!((&line["verb"], &line["on"]), (&json!("unblock"), &json!("principal=ann")));
}

#[test]
fn the_commands_of_the_page_do_what_it_says() {
    let server = Managed::start("blocks-page", "");
    let mut ann = server.log_in("stomp", "ann").unwrap();
    let said: Vec<String> = commands_of("docs/management.md", "## Keeping clients out")
        .iter()
        .map(|line| {
            let program = format!("exec '{}'", env!("CARGO_BIN_EXE_tiderace"));
            let output = Command::new("sh")
                .args(["-c", &line.replacen("tiderace", &program, 1)])
                .env("TIDERACE_HOST", server.way().address.to_string())
                .env("TIDERACE_PASSCODE", token_of("operator"))
                .output()
                .unwrap();
            assert!(output.status.success(), "{line}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    let [dry, ann_blocked, network, listed, unblocked] = &said[..] else { panic!("{said:?}") };
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/management.md");
    let page = std::fs::read_to_string(file).unwrap();
    let section = page.split("## Keeping clients out").nth(1).unwrap();
    let block = section.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let words = |text: &str| {
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>()
    };
    let (before, table) = block.split_at(block.find("WHO").unwrap());
    assert_eq!(format!("{dry}{ann_blocked}{network}"), before);
    let (shown, printed) = (words(table), words(listed));
    assert_eq!(printed[0], shown[0]);
    assert_eq!(printed.len() + 1, shown.len(), "and the last line");
    for (shown, printed) in shown.iter().zip(&printed).skip(1) {
        let who = |line: &str| line.split(' ').take(2).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(who(shown), who(printed));
    }
    assert_eq!(shown.last(), words(unblocked).last());
    assert!(ann.last_words().contains("try later"));
}
