//! The event loop over real sockets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use crate::common::{AtOnce, metric, services};
use tiderace_base::Span;
use tiderace_reactor::{
    Deadlines, Http2Options, ListenerOptions, NodeHandle, Options, Placement, SpawnError, spawn,
};
use tiderace_websocket::{Decoder, Event, Limits, MessageKind, Role, encode_message};

/// Long enough for a busy machine; nothing waits for it unless something is broken.
const TIMEOUT: Span = Span::from_secs(20);

fn start(options: Options) -> NodeHandle {
    let address = ([127, 0, 0, 1], 0).into();
    let listeners = vec![
        ListenerOptions::at(address),
        ListenerOptions { protocol: Some("echo".to_string()), ..ListenerOptions::at(address) },
    ];
    spawn(Options { listeners, ..options }, services(Arc::new(AtOnce))).unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn stop(node: NodeHandle) {
    let control = node.control();
    node.shutdown(Span::from_secs(10));
    node.join().unwrap();
    assert_eq!(control.connections(), 0);
    assert_eq!(metric(&control.metrics(), "tiderace_write_backlog_bytes", &[]), 0);
}

fn read_exactly(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

/// The head of a response and its body, by Content-Length.
fn response(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(read_exactly(stream, 1));
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let body = read_exactly(stream, length.map_or(0, |length| length.parse().unwrap()));
    (head, body)
}

#[test]
fn large_streams_come_back_whole() {
    let node = start(Options { shards: 2, ..Options::default() });
    let mut stream = connect(node.addresses[0]);
    let sent: Vec<u8> = (0..8_000_000u32).map(|at| (at * 7 / 13) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let expected = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(b"ECHO\n").unwrap();
        writer.write_all(&sent).unwrap();
    });
    assert!(read_exactly(&mut stream, expected.len()) == expected);
    writing.join().unwrap();
    drop(stream);
    stop(node);
}

#[test]
fn slow_heads_are_cut() {
    let short = Span::from_millis(200);
    let deadlines =
        Deadlines { first_byte: short, head: short, login: short, ..Deadlines::default() };
    let node = start(Options { deadlines, ..Options::default() });
    for script in ["", "G", "GET / HTTP/1.1\r\nHo", "LINE\n"] {
        let mut stream = connect(node.addresses[0]);
        // The server's own goodbye may come; then the end, without anybody's doing. A client that is slow to write
        // is cut before it does, and either may then meet a reset.
        let _ = stream.write_all(script.as_bytes());
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let samples = node.metrics();
    let closed = |code| metric(&samples, "tiderace_connections_closed_total", &[code]);
    assert_eq!(closed("first-byte-timeout") + closed("head-timeout") + closed("login-timeout"), 4);
    stop(node);
}

#[test]
fn websocket_echoes_split_frames() {
    for placement in [Placement::Accepted, Placement::Identified] {
        let node = start(Options { shards: 2, placement, ..Options::default() });
        let mut stream = connect(node.addresses[0]);
        let mut wire =
            b"GET /echo HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
                .to_vec();
        encode_message(&mut wire, MessageKind::Text, b"ECHO\nhello", Some([1, 2, 3, 4]));
        for byte in &wire {
            stream.write_all(&[*byte]).unwrap();
        }
        let (head, _) = response(&mut stream);
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        assert!(!head.contains("Sec-WebSocket-Protocol"), "none was offered: {head}");
        let mut answer = read_exactly(&mut stream, 7);
        let decoded = Decoder::new(Role::Client).decode(&Limits::default(), &mut answer).unwrap();
        assert_eq!(decoded.event, Event::Message { kind: MessageKind::Binary, payload: b"hello" });
        drop(stream);
        stop(node);
    }
}

#[test]
fn foreign_pages_and_unknown_paths_get_no_websocket() {
    let node = start(Options::default());
    for (path, extra, status) in [
        ("/echo", "Origin: http://evil.example\r\n", "403"),
        ("/nowhere", "", "404"),
        ("/echo", "Sec-WebSocket-Protocol: unheard-of\r\n", "400"),
        ("/anywhere", "Sec-WebSocket-Protocol: other, echo\r\n", "101"),
        ("/echo", "Origin: http://a\r\n", "101"),
    ] {
        let mut stream = connect(node.addresses[0]);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{extra}\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let (head, _) = response(&mut stream);
        assert_eq!(head.split(' ').nth(1), Some(status), "{path} {extra}");
    }
    stop(node);
}

#[test]
fn http_requests_may_be_pipelined() {
    let node = start(Options { shards: 2, ..Options::default() });
    let mut stream = connect(node.addresses[0]);
    let requests = "GET /page?a HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /page HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
        PUT /page HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n\
        GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(requests.as_bytes()).unwrap();
    for expected in ["GET a", "POST -", "PUT -", ""] {
        let (head, body) = response(&mut stream);
        assert_eq!(String::from_utf8(body).unwrap(), expected, "{head}");
        assert!(head.contains("Connection: keep-alive"), "{head}");
    }
    let many = "GET /large HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    stream.write_all(many.as_bytes()).unwrap();
    for _ in 0..100 {
        assert_eq!(response(&mut stream).1.len(), 100_000);
    }
    let last = "HEAD /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(last.as_bytes()).unwrap();
    let answer = String::from_utf8(read_to_end(&mut stream)).unwrap();
    assert!(answer.contains("Content-Length: 6\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    stop(node);
}

#[test]
fn bad_requests_are_answered_and_closed() {
    let node = start(Options::default());
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_string(), "400"),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n".to_string(), "505"),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(20_000)), "431"),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9_000)), "414"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n".to_string(), "413"),
    ] {
        let mut stream = connect(node.addresses[0]);
        stream.write_all(request.as_bytes()).unwrap();
        let answer = String::from_utf8(read_to_end(&mut stream)).unwrap();
        assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
    }
    stop(node);
}

#[test]
fn tls_gets_an_alert_and_strangers_a_sentence() {
    let http2 = Http2Options { enabled: false, ..Http2Options::default() };
    let node = start(Options { http2, ..Options::default() });
    let open = node.addresses[0];
    let cases: [(SocketAddr, &[u8], &[u8]); 4] = [
        (open, b"\x16\x03\x01\x02\x00\x01", b"\x15\x03\x01\x00\x02\x02\x46"),
        (open, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"HTTP/2 is not spoken here; "),
        (open, b"SSH-2.0-OpenSSH\r\n", b"unknown protocol; spoken here: "),
        (node.addresses[1], b"GET / HTTP/1.1\r\n\r\n", b"unknown protocol; spoken here: echo\n"),
    ];
    for (address, sent, expected) in cases {
        let mut stream = connect(address);
        stream.write_all(sent).unwrap();
        let answer = read_to_end(&mut stream);
        assert!(answer.starts_with(expected), "{}", String::from_utf8_lossy(&answer));
    }
    stop(node);
}

#[test]
fn a_client_may_close_its_side_first() {
    let node = start(Options { shards: 2, ..Options::default() });
    let mut stream = connect(node.addresses[0]);
    stream.write_all(b"ECHO\nhello").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut stream), b"hello");
    let mut stream = connect(node.addresses[0]);
    stream.write_all(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(read_to_end(&mut stream).ends_with(b"GET -"));
    stop(node);
}

#[test]
fn connections_spread_and_messages_cross_shards() {
    let node = start(Options { shards: 3, ..Options::default() });
    let mut clients: Vec<TcpStream> = (0..30).map(|_| connect(node.addresses[0])).collect();
    for client in &mut clients {
        client.write_all(b"LINE\nL bob\nS news\n").unwrap();
        assert_eq!(read_exactly(client, 7), b"OK\nS 1\n");
    }
    assert_eq!(node.control().connections_by_shard(), [10, 10, 10]);
    for publisher in 0..3 {
        let line = format!("P news {publisher}\n");
        clients[publisher].write_all(line.as_bytes()).unwrap();
        for client in &mut clients {
            assert_eq!(read_exactly(client, 4), format!("M {publisher}\n").as_bytes());
        }
    }
    node.shutdown(Span::from_secs(10));
    for client in &mut clients {
        assert_eq!(read_to_end(client), b"BYE shutting-down\n");
    }
    drop(clients);
    node.join().unwrap();
}

#[test]
fn a_failing_shard_is_an_error_or_the_end_of_the_process() {
    const CHILD: &str = "TIDERACE_TEST_ABORT";
    let abort_on_failure = std::env::var_os(CHILD).is_some();
    let listeners = vec![ListenerOptions::at(([127, 0, 0, 1], 0).into())];
    let options = Options { listeners, abort_on_failure, ..Options::default() };
    let mut services = services(Arc::new(AtOnce));
    services.http = Arc::new(|_, _| panic!("asked to"));
    let node = spawn(options, services).unwrap();
    let mut stream = connect(node.addresses[0]);
    stream.write_all(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let error = node.join().unwrap_err();
    assert!(!abort_on_failure, "the process should have ended");
    assert!(error.to_string().contains("panicked"), "{error}");
    let name = "loopback::a_failing_shard_is_an_error_or_the_end_of_the_process";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", name]).env(CHILD, "1").output().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(libc::SIGABRT), "{output:?}");
}

#[test]
fn what_cannot_be_listened_on_is_an_error() {
    let node = start(Options::default());
    let listener = |address, protocol: Option<&str>| Options {
        listeners: vec![ListenerOptions {
            protocol: protocol.map(str::to_string),
            ..ListenerOptions::at(address)
        }],
        ..Options::default()
    };
    let again = spawn(listener(node.addresses[0], None), services(Arc::new(AtOnce)));
    assert!(matches!(again, Err(SpawnError::Listen { .. })), "{again:?}");
    let free = ([127, 0, 0, 1], 0).into();
    let unknown = spawn(listener(free, Some("gopher")), services(Arc::new(AtOnce)));
    assert!(matches!(unknown, Err(SpawnError::UnknownProtocol { .. })), "{unknown:?}");
    stop(node);
}
