//! Clients behind proxies, by each protocol over real sockets: whose address counts, and whose word.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;

use crate::callout::config;
use crate::program::logins::{
    LoggedIn, LoginServer, PROTOCOLS, Show, Stomp, Way, Wire, exchange, log_in,
};
use crate::program::{Directory, Server};

const TRUSTED: &str = "[proxy]\ntrusted = [\"127.0.0.0/8\", \"10.0.0.0/8\"]\n";
const NOT_TRUSTED: &str = "[proxy]\ntrusted = [\"192.0.2.1\"]\n";
const OPEN: &str = "[auth]\nallow_anonymous = true\n[monitoring]\nmetrics_access = \"open\"\n";

/// A header of version 1 with which a proxy names a client.
fn v1(client: &str) -> Vec<u8> {
    let client: SocketAddr = client.parse().unwrap();
    let (family, own) = if client.is_ipv4() { ("TCP4", "127.0.0.1") } else { ("TCP6", "::1") };
    format!("PROXY {family} {} {own} {} 7800\r\n", client.ip(), client.port()).into_bytes()
}

/// The same of version 2, with an extension.
fn v2(client: &str) -> Vec<u8> {
    let client: SocketAddr = client.parse().unwrap();
    let (family, address) = match client.ip() {
        std::net::IpAddr::V4(ip) => (0x11, [ip.octets(), [127, 0, 0, 1]].concat()),
        std::net::IpAddr::V6(ip) => (0x21, [ip.octets(), [0; 16]].concat()),
    };
    let ports = [client.port().to_be_bytes(), [0x1E, 0x78]].concat();
    let block = [address, ports, vec![0x04, 0, 1, 0]].concat();
    let length = u8::try_from(block.len()).unwrap();
    [&b"\r\n\r\n\0\r\nQUIT\n\x21"[..], &[family, 0, length], &block].concat()
}

/// A proxy's LOCAL: the connection is its own.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

fn by(server: &Server, preface: Vec<u8>) -> Way {
    Way { preface, ..Way::plain(server.address) }
}

fn with(server: &Server, fields: &str) -> Way {
    Way { fields: fields.to_owned(), ..Way::plain(server.address) }
}

fn open(directory: &Directory, more: &str) -> Server {
    Server::start(&directory.0, &format!("{OPEN}{more}"))
}

/// Sends bytes as they are; what comes back until the server closes.
fn answer(address: SocketAddr, bytes: &[u8]) -> String {
    rest(sent(address, bytes))
}

fn sent(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(bytes).unwrap();
    socket
}

fn rest(mut socket: TcpStream) -> String {
    let mut text = Vec::new();
    // What the server has not read makes its end a reset.
    let _ = socket.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Connections that have ended for that reason.
fn ended(way: &Way, reason: &str) -> u64 {
    let (_, body) = exchange(way, "GET /metrics HTTP/1.1\r\n", "");
    let name = format!("tiderace_connections_closed_total{{reason=\"{reason}\"}} ");
    let line = body.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("{reason}: {body}")).parse().unwrap()
}

/// A server that asks about each login, and the address that it has told of the last.
struct Asking {
    server: Server,
    logins: LoginServer,
    count: usize,
    _directory: Directory,
}

impl Asking {
    fn start(name: &str, more: &str) -> Asking {
        let logins = LoginServer::start(|_| (200, json!({"allow": true, "user": "ann"})));
        let directory = Directory::new(name);
        let text = format!("{}{more}", config(&directory, logins.address, ""));
        let server = Server::start(&directory.0, &text);
        Asking { server, logins, count: 0, _directory: directory }
    }

    /// Logs somebody in who was never heard of; the address that is asked about.
    fn seen(&mut self, protocol: &str, way: &Way) -> String {
        self.count += 1;
        let name = format!("somebody-{}", self.count);
        let outcome = log_in(protocol, way, Show::Password(&name, "x"));
        assert_eq!(outcome, Ok(()), "{protocol}");
        self.told(&name)
    }

    fn told(&self, name: &str) -> String {
        let asked = self.logins.asked.lock().unwrap();
        let question = asked.iter().find(|question| question["user"] == name).expect(name);
        question["address"].as_str().unwrap().to_owned()
    }
}

#[test]
fn every_protocol_is_that_of_the_client_whom_a_trusted_proxy_names() {
    for mode in ["accept", "require"] {
        let more = format!("{TRUSTED}protocol = {mode:?}\n");
        let mut asking = Asking::start(&format!("proxy-{mode}"), &more);
        for protocol in PROTOCOLS {
            for (preface, client) in [
                (v1("203.0.113.7:4711"), "203.0.113.7"),
                (v2("203.0.113.8:4711"), "203.0.113.8"),
                (v1("[2001:db8::7]:1"), "2001:db8::7"),
                (v2("[2001:db8::8]:1"), "2001:db8::8"),
                (v2("[::ffff:203.0.113.9]:1"), "203.0.113.9"),
                (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
                (LOCAL.to_vec(), "127.0.0.1"),
            ] {
                let way = by(&asking.server, preface);
                assert_eq!(asking.seen(protocol, &way), client, "{protocol} {mode}");
            }
        }
        if mode == "accept" {
            for protocol in PROTOCOLS {
                let way = Way::plain(asking.server.address);
                assert_eq!(asking.seen(protocol, &way), "127.0.0.1", "{protocol} without");
            }
        }
    }
}

#[test]
fn requests_are_those_of_the_clients_whom_a_trusted_proxy_names() {
    let more = format!("{TRUSTED}header = \"x-forwarded-for\"\n");
    let mut asking = Asking::start("proxy-field", &more);
    for protocol in ["http", "sse", "socketio"] {
        for (fields, client) in [
            ("", "127.0.0.1"),
            ("X-Forwarded-For: 203.0.113.7\r\n", "203.0.113.7"),
            ("x-forwarded-for: 198.51.100.1, 203.0.113.8:80\r\n", "203.0.113.8"),
            ("X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-For: 203.0.113.9\r\n", "203.0.113.9"),
            ("X-Forwarded-For: nonsense, [2001:db8::7]:1, 10.0.0.1\r\n", "2001:db8::7"),
            ("X-Forwarded-For: 10.0.0.9\r\n", "10.0.0.9"),
            ("Forwarded: for=203.0.113.7\r\n", "127.0.0.1"),
        ] {
            let way = with(&asking.server, fields);
            assert_eq!(asking.seen(protocol, &way), client, "{protocol} {fields}");
        }
    }
    // Other protocols than HTTP have no such fields.
    let way = Way::plain(asking.server.address);
    assert_eq!(asking.seen("stomp", &way), "127.0.0.1");

    let more = format!("{TRUSTED}header = \"forwarded\"\n");
    let mut asking = Asking::start("proxy-forwarded", &more);
    for protocol in ["http", "sse", "socketio"] {
        for (fields, client) in [
            ("X-Forwarded-For: 203.0.113.7\r\n", "127.0.0.1"),
            ("Forwarded: for=\"[2001:db8::7]:1\";proto=https\r\n", "2001:db8::7"),
            (
                "Forwarded: for=unknown, For=203.0.113.7\r\nForwarded: for=10.0.0.1\r\n",
                "203.0.113.7",
            ),
        ] {
            let way = with(&asking.server, fields);
            assert_eq!(asking.seen(protocol, &way), client, "{protocol} {fields}");
        }
    }
}

#[test]
fn a_field_counts_behind_a_header_of_the_protocol_that_names_a_trusted_proxy() {
    let more = format!("{TRUSTED}protocol = \"accept\"\nheader = \"x-forwarded-for\"\n");
    let mut asking = Asking::start("proxy-both", &more);
    for (preface, client) in [
        (v2("10.1.2.3:1"), "203.0.113.7"),
        (v2("198.51.100.1:1"), "198.51.100.1"),
        (Vec::new(), "203.0.113.7"),
    ] {
        let fields = "X-Forwarded-For: 203.0.113.7\r\n".to_owned();
        let way = Way { fields, ..by(&asking.server, preface) };
        for protocol in ["http", "sse", "socketio"] {
            assert_eq!(asking.seen(protocol, &way), client, "{protocol}");
        }
    }
}

#[test]
fn each_request_of_one_connection_has_its_own_client() {
    let more = format!("{TRUSTED}header = \"x-forwarded-for\"\n");
    let asking = Asking::start("proxy-kept", &more);
    let socket = TcpStream::connect(asking.server.address).unwrap();
    let mut reader = BufReader::new(socket);
    for number in 1..=9 {
        use base64::Engine;
        let shown = base64::engine::general_purpose::STANDARD.encode(format!("client-{number}:x"));
        let request = format!(
            "GET /topics/own/ann/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {shown}\r\n\
             X-Forwarded-For: 203.0.113.{number}\r\n\r\n"
        );
        reader.get_mut().write_all(request.as_bytes()).unwrap();
        let head = head(&mut reader);
        assert!(head.starts_with("HTTP/1.1 404"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        reader.read_exact(&mut vec![0; length.trim().parse().unwrap()]).unwrap();
    }
    for number in 1..=9 {
        assert_eq!(asking.told(&format!("client-{number}")), format!("203.0.113.{number}"));
    }
}

fn head(reader: &mut BufReader<impl Read>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|count| count > 0) {}
    head
}

#[test]
fn nobody_else_is_believed() {
    for mode in ["off", "accept", "require"] {
        let (own, more) = match mode {
            // The proxy is trusted, and believed in something else.
            "off" => (TRUSTED, "header = \"forwarded\"\n".to_owned()),
            _ => (NOT_TRUSTED, format!("protocol = {mode:?}\nheader = \"x-forwarded-for\"\n")),
        };
        let mut asking = Asking::start(&format!("proxy-not-{mode}"), &format!("{own}{more}"));
        let address = asking.server.address;
        for protocol in PROTOCOLS {
            let way = with(&asking.server, "X-Forwarded-For: 203.0.113.7\r\n");
            assert_eq!(asking.seen(protocol, &way), "127.0.0.1", "{protocol} {mode}");
        }
        let rest = b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0";
        for preface in [v1("203.0.113.7:1"), v2("203.0.113.7:1"), LOCAL.to_vec()] {
            let said = answer(address, &[&preface[..], rest].concat());
            let expected = "a header of the PROXY protocol is not taken from 127.0.0.1\n";
            assert_eq!(said, expected, "{mode}");
        }
        // A method of that name is one of HTTP.
        let said =
            answer(address, b"PROXY / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(said.starts_with("HTTP/1.1 "), "{said}");
    }
    let directory = Directory::new("proxy-counted");
    let server = open(&directory, &format!("{NOT_TRUSTED}protocol = \"accept\"\n"));
    answer(server.address, &v1("203.0.113.7:1"));
    assert_eq!(ended(&Way::plain(server.address), "proxy-not-trusted"), 1);
}

#[test]
fn a_trusted_proxy_that_has_to_say_whom_it_serves_does_or_is_refused() {
    let directory = Directory::new("proxy-required");
    let server = open(&directory, &format!("{TRUSTED}protocol = \"require\"\n"));
    for first in [
        &b"CONNECT\n\n\0"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PROXX",
    ] {
        let said = answer(server.address, first);
        let expected =
            "connections of 127.0.0.1 have to begin with a header of the PROXY protocol\n";
        assert_eq!(said, expected, "{first:?}");
    }
    assert_eq!(ended(&by(&server, v1("203.0.113.7:1")), "proxy-header-missing"), 5);
}

#[test]
fn a_header_comes_once_before_everything_else_in_pieces_of_any_size() {
    let directory = Directory::new("proxy-once");
    let (identity, authority) = certificate(&directory);
    let server = open(&directory, &format!("{TRUSTED}protocol = \"accept\"\n[tls]\n{identity}"));
    let once = "a header of the PROXY protocol comes once, before everything else\n";
    for second in [v1("203.0.113.8:1"), v2("203.0.113.8:1")] {
        for first in [v1("203.0.113.7:1"), v2("203.0.113.7:1"), LOCAL.to_vec()] {
            assert_eq!(answer(server.address, &[first, second.clone()].concat()), once);
        }
        // Within TLS it is the client's.
        let mut way = Way::secured(server.address, &authority, None);
        for preface in [Vec::new(), v2("10.0.0.1:1")] {
            way.preface = preface;
            let mut wire = way.open();
            wire.write_all(&second).unwrap();
            wire.flush().unwrap();
            let mut said = String::new();
            let _ = BufReader::new(&mut wire).read_line(&mut said);
            assert_eq!(said, once);
        }
    }
    let way =
        Way { preface: v2("203.0.113.7:1"), ..Way::secured(server.address, &authority, None) };
    for protocol in PROTOCOLS.into_iter().filter(|protocol| *protocol != "http") {
        assert_eq!(log_in(protocol, &way, Show::Nothing), Ok(()), "{protocol} by TLS");
    }
    for preface in [v1("203.0.113.7:1"), v2("203.0.113.7:1")] {
        let mut socket = TcpStream::connect(server.address).unwrap();
        socket.set_nodelay(true).unwrap();
        for byte in [&preface[..], b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0"].concat() {
            socket.write_all(&[byte]).unwrap();
        }
        let mut frame = Vec::new();
        BufReader::new(socket).read_until(0, &mut frame).unwrap();
        assert!(frame.starts_with(b"CONNECTED"), "{}", String::from_utf8_lossy(&frame));
    }
}

#[test]
fn a_header_that_is_malformed_or_not_whole_in_time_ends_the_connection() {
    let directory = Directory::new("proxy-malformed");
    let server = open(&directory, &format!("{TRUSTED}protocol = \"accept\"\n"));
    let way = by(&server, v1("203.0.113.7:1"));
    let endless = [&b"PROXY UNKNOWN "[..], &[b'x'; 107]].concat();
    let cases: [(&[u8], &str); 6] = [
        (b"PROXY TCP4 203.0.113.256 127.0.0.1 1 2\r\n", "malformed at its address of the client"),
        (b"PROXY TCP4 203.0.113.7 127.0.0.1 1 2\n", "malformed at its end"),
        (&endless, "no end within 107 bytes"),
        (b"\r\n\r\n\0\r\nQUIT\n\x31\x11\x00\x0C", "version 3 of the PROXY protocol is not known"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x12\x00\x0C", "address family 0x12"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xFF\xFF", "announces 65535 bytes, more than 536"),
    ];
    for (bytes, expected) in cases {
        let said = answer(server.address, bytes);
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(ended(&way, "proxy-header-invalid"), 6);
    let parts: [&[u8]; 4] =
        [b"P", b"PROXY TCP4 203.0.113.7", b"\r\n\r\n\0", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C"];
    // All at the same time: the timeout is the usual one, so that whole requests have time enough.
    for socket in parts.map(|part| sent(server.address, part)) {
        assert_eq!(rest(socket), "");
    }
    assert_eq!(ended(&way, "first-byte-timeout"), 4);
}

#[test]
fn a_request_whose_client_is_no_address_is_refused() {
    let directory = Directory::new("proxy-no-address");
    let server = open(&directory, &format!("{TRUSTED}header = \"x-forwarded-for\"\n"));
    for target in [
        "/health",
        "/topics/a",
        "/events?topic=a",
        "/socket.io/?EIO=4&transport=polling",
        "/nothing",
    ] {
        for fields in
            ["X-Forwarded-For: unknown\r\n", "X-Forwarded-For: 203.0.113.7, x, 10.0.0.1\r\n"]
        {
            let way = with(&server, fields);
            let (head, body) = exchange(&way, &format!("GET {target} HTTP/1.1\r\n"), "");
            assert!(head.starts_with("HTTP/1.1 400"), "{head}");
            assert!(
                body.contains("forwarded-invalid") && body.contains("is no IP address"),
                "{body}"
            );
        }
    }
    assert_eq!(ended(&Way::plain(server.address), "forwarded-invalid"), 10);
}

#[test]
fn no_client_is_one_that_has_no_address() {
    let directory = Directory::new("proxy-local");
    let server = open(&directory, &format!("{TRUSTED}header = \"x-forwarded-for\"\n"));
    for client in ["::", "0.0.0.0", "::ffff:0.0.0.0", "[::]:0"] {
        let way = with(&server, &format!("X-Forwarded-For: {client}\r\n"));
        let (head, body) = exchange(&way, "GET /metrics HTTP/1.1\r\n", "");
        assert!(
            head.starts_with("HTTP/1.1 400") && body.contains("forwarded-invalid"),
            "{head}{body}"
        );
    }
    let server = open(&directory, &format!("{TRUSTED}protocol = \"require\"\n"));
    for header in ["PROXY TCP6 :: ::1 0 1\r\n", "PROXY TCP4 0.0.0.0 127.0.0.1 0 1\r\n"] {
        let said = answer(server.address, header.as_bytes());
        assert!(said.contains("no client has the address"), "{said}");
    }
    assert_eq!(ended(&by(&server, v1("203.0.113.7:9")), "proxy-header-invalid"), 2);
}

#[test]
fn what_is_for_this_machine_alone_is_not_for_clients_of_its_proxy() {
    let directory = Directory::new("proxy-loopback");
    let more = format!(
        "[auth]\nallow_anonymous = true\n{TRUSTED}header = \"x-forwarded-for\"\nprotocol = \"accept\"\n"
    );
    let server = Server::start(&directory.0, &more);
    let status = |way: &Way| exchange(way, "GET /metrics HTTP/1.1\r\n", "").0[..12].to_owned();
    // Nobody knows whose it is that a proxy has not named.
    assert_eq!(status(&Way::plain(server.address)), "HTTP/1.1 401");
    assert_eq!(status(&with(&server, "X-Forwarded-For: 127.0.0.2\r\n")), "HTTP/1.1 401");
    assert_eq!(status(&with(&server, "X-Forwarded-For: 203.0.113.7\r\n")), "HTTP/1.1 401");
    assert_eq!(status(&by(&server, v2("203.0.113.7:1"))), "HTTP/1.1 401");
}

#[test]
fn connections_are_counted_for_the_clients_and_not_for_the_proxy() {
    let directory = Directory::new("proxy-limits");
    let more = format!(
        "{TRUSTED}header = \"x-forwarded-for\"\nprotocol = \"accept\"\n[limits]\nconnections_per_ip_max = 2\n"
    );
    let server = open(&directory, &more);
    // Of the proxy itself there may be any number.
    let own: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for protocol in ["stomp", "native", "rsocket"] {
        let client = |number: u8| by(&server, v2(&format!("203.0.113.{number}:1")));
        let held: Vec<LoggedIn> = (0..4)
            .map(|at| LoggedIn::begin(protocol, &client(at % 2), Show::Nothing).unwrap())
            .collect();
        assert_eq!(answer(server.address, &v1("203.0.113.0:9")), "", "{protocol}");
        assert_eq!(answer(server.address, &v2("203.0.113.1:9")), "", "{protocol}");
        assert!(log_in(protocol, &client(2), Show::Nothing).is_ok());
        drop(held);
        await_room(|| log_in("stomp", &client(0), Show::Nothing).is_ok());
        await_room(|| log_in("stomp", &client(1), Show::Nothing).is_ok());
    }
    for begin in [websocket as fn(&Way) -> Result<BufReader<Box<dyn Wire>>, String>, stream] {
        let client =
            |number: u8| with(&server, &format!("X-Forwarded-For: 198.51.100.{number}\r\n"));
        let held: Vec<_> = (0..4).map(|at| begin(&client(at % 2)).unwrap()).collect();
        for number in 0..2 {
            let refused = begin(&client(number)).err().unwrap();
            assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
        }
        assert!(begin(&client(2)).is_ok());
        drop(held);
        await_room(|| begin(&client(0)).is_ok());
        await_room(|| begin(&client(1)).is_ok());
    }
    // Nothing is left of any: as many may come as at first, by whatever they come.
    for number in 0..2 {
        let forwarded = with(&server, &format!("X-Forwarded-For: 198.51.100.{number}\r\n"));
        await_room(|| websocket(&forwarded).and_then(|_held| stream(&forwarded)).is_ok());
    }
    drop(own);
}

/// The server has to notice first that others have gone.
fn await_room(mut begins: impl FnMut() -> bool) {
    while !begins() {
        std::thread::yield_now();
    }
}

fn websocket(way: &Way) -> Result<BufReader<Box<dyn Wire>>, String> {
    let request = format!(
        "GET /stomp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{}\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n",
        way.fields
    );
    begin(way, &request, "HTTP/1.1 101")
}

fn stream(way: &Way) -> Result<BufReader<Box<dyn Wire>>, String> {
    let request = format!("GET /events?topic=a HTTP/1.1\r\nHost: localhost\r\n{}\r\n", way.fields);
    begin(way, &request, "HTTP/1.1 200")
}

fn begin(way: &Way, request: &str, expected: &str) -> Result<BufReader<Box<dyn Wire>>, String> {
    let mut reader = BufReader::new(way.open());
    reader.get_mut().write_all(request.as_bytes()).unwrap();
    let head = head(&mut reader);
    if head.starts_with(expected) { Ok(reader) } else { Err(head) }
}

#[test]
fn failed_logins_lock_the_client_out_and_nobody_else_behind_the_proxy() {
    let directory = Directory::new("proxy-lock-outs");
    let password = directory.0.join("password");
    std::fs::write(&password, "swordfish").unwrap();
    let more = format!(
        "{TRUSTED}protocol = \"accept\"\nheader = \"x-forwarded-for\"\n[auth]\nlogin_failures_max = 3\n\
         [[user]]\nname = \"ann\"\npassword = \"file:{}\"\n\
         [[rule]]\nallow = [\"subscribe\", \"publish\"]\nprincipals = [\"*\"]\n",
        password.display()
    );
    let server = Server::start(&directory.0, &more);
    let (wrong, right) = (Show::Password("ann", "wrong"), Show::Password("ann", "swordfish"));
    let guess = |protocol: &str, eve: &Way, other: &Way| {
        for _ in 0..3 {
            let refused = log_in(protocol, eve, wrong).unwrap_err();
            assert!(!refused.contains("too many"), "{protocol}: {refused}");
        }
        let refused = log_in(protocol, eve, right).unwrap_err();
        // The head of a stream has no room for words.
        let is_told = protocol == "sse" && refused.starts_with("HTTP/1.1 429");
        assert!(is_told || refused.contains("too many failed logins"), "{protocol}: {refused}");
        assert_eq!(log_in(protocol, other, right), Ok(()), "{protocol}");
    };
    for (number, protocol) in PROTOCOLS.into_iter().enumerate() {
        let client = |host: usize| by(&server, v2(&format!("203.0.{number}.{host}:1")));
        guess(protocol, &client(1), &client(2));
        assert_eq!(log_in(protocol, &Way::plain(server.address), right), Ok(()), "{protocol}");
    }
    for (number, protocol) in ["http", "sse", "socketio"].into_iter().enumerate() {
        let client = |host: usize| {
            with(&server, &format!("X-Forwarded-For: 203.0.113.1, 198.51.{number}.{host}\r\n"))
        };
        guess(protocol, &client(1), &client(2));
    }
    assert!(Stomp::log_in(&Way::plain(server.address), right).is_ok());
}

/// Lines of the configuration for a certificate of `localhost`, and the file of the authority that has signed it.
fn certificate(directory: &Directory) -> (String, String) {
    use std::os::unix::fs::PermissionsExt;
    let write = |name: &str, text: String| {
        let path = directory.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = write("authority.pem", params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let chain = write("chain.pem", signed.signed_by(&key, &issuer).unwrap().pem());
    let key = write("key.pem", key.serialize_pem());
    (format!("certificate = {chain:?}\nkey = {key:?}\n"), authority)
}
