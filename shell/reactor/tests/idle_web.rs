//! What idle sessions of the web's protocols cost in heap, counted by the allocator, over real sockets:
//! event loop, protocol and broker together, one subscription each.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use crate::common::{AtOnce, services};
use crate::waiting::wait_for_subscriptions;
use tiderace_base::Span;
use tiderace_broker::BrokerOptions;
use tiderace_heap::{census, raise_file_limit, report};
use tiderace_reactor::{ListenerOptions, Options, Services, spawn};
use tiderace_websocket::MessageKind;
use tiderace_wire::Opening;

#[test]
fn idle_sessions_hold_little() {
    let _counting = crate::COUNTING.lock();
    raise_file_limit((CONNECTIONS + WARM) * 2 + 100);
    let native = measure("native over WebSocket", native);
    assert!((150..=NATIVE_BYTES_MAX).contains(&native), "{native} bytes");
    let websocket = measure("Socket.IO over WebSocket", socketio_websocket);
    assert!((150..=SOCKETIO_BYTES_MAX).contains(&websocket), "{websocket} bytes");
    let polling = measure("native over polling, a request held", native_polling);
    assert!((150..=NATIVE_POLLING_BYTES_MAX).contains(&polling), "{polling} bytes");
    let polling = measure("Socket.IO over polling, a request held", socketio_polling);
    assert!((150..=SOCKETIO_POLLING_BYTES_MAX).contains(&polling), "{polling} bytes");
}

/// Heap bytes for each session.
fn measure(what: &str, connect: fn(SocketAddr) -> TcpStream) -> usize {
    let listeners = vec![ListenerOptions::at(([127, 0, 0, 1], 0).into())];
    let options = Options { shards: SHARDS, listeners, ..Options::default() };
    let node = spawn(options, web_services()).unwrap();
    let mut clients: Vec<TcpStream> = Vec::with_capacity(CONNECTIONS + WARM);
    let mut open = |count: usize| {
        clients.extend((0..count).map(|_| connect(node.addresses[0])));
        wait_for_subscriptions(&node, clients.len() as u64);
    };
    // The first fill pools, lists and pages.
    open(WARM);
    let before = census();
    open(CONNECTIONS);
    let each = report(what, before, CONNECTIONS);
    drop(clients);
    node.shutdown(Span::from_secs(10));
    node.join().unwrap();
    each
}

fn web_services() -> Services {
    let engine = Arc::new(tiderace_engineio::EngineOptions::default());
    let within = Arc::new(tiderace_native::NativeOptions::default());
    let socket = tiderace_socketio::SocketOptions::default();
    let broker = BrokerOptions { shards: SHARDS, ..BrokerOptions::default() };
    Services {
        protocols: vec![
            tiderace_native::protocol(
                Arc::new(tiderace_native::NativeOptions::default()),
                Arc::from(["/tiderace".to_owned()]),
            ),
            tiderace_engineio::protocol(
                "native-engineio",
                engine.clone(),
                Arc::from(["/tiderace/engine.io/".to_owned()]),
                Arc::new(move |opening: &Opening<'_>| tiderace_native::open(&within, opening)),
            ),
            tiderace_engineio::protocol(
                "socketio",
                engine,
                Arc::from(["/socket.io/".to_owned()]),
                tiderace_socketio::inner(Arc::new(socket)),
            ),
        ],
        broker: Arc::new(broker),
        ..services(Arc::new(AtOnce))
    }
}

fn native(address: SocketAddr) -> TcpStream {
    let mut stream = websocket(address, "/tiderace");
    // HELLO of nobody, SUBSCRIBE to `prices`; see docs/protocol.md.
    let hello = [0x01, 6, 1, 0, 0, 0, 0, 0];
    let subscribe = [&[0x03, 11, 1, 0, 0, 0, 6][..], b"prices"].concat();
    send(&mut stream, MessageKind::Binary, &[&hello[..], &subscribe].concat());
    // OK with the request's number.
    read_until(&mut stream, &[0x42, 2, 1, 0]);
    stream
}

fn socketio_websocket(address: SocketAddr) -> TcpStream {
    let mut stream = websocket(address, "/socket.io/?EIO=4&transport=websocket");
    read_until(&mut stream, b"}");
    send(&mut stream, MessageKind::Text, b"40");
    read_until(&mut stream, b"}");
    send(&mut stream, MessageKind::Text, br#"420["subscribe","prices"]"#);
    read_until(&mut stream, b"]");
    stream
}

fn native_polling(address: SocketAddr) -> TcpStream {
    // HELLO and SUBSCRIBE as above, in base64.
    polling(address, "/tiderace/engine.io/", &["bAQYBAAAAAAA=", "bAwsBAAAABnByaWNlcw=="])
}

fn socketio_polling(address: SocketAddr) -> TcpStream {
    polling(address, "/socket.io/", &["40", r#"420["subscribe","prices"]"#])
}

/// Sends some packets, fetches the answer to each, and polls on.
fn polling(address: SocketAddr, path: &str, packets: &[&str]) -> TcpStream {
    let mut stream = connect(address);
    let open = ask(&mut stream, "GET", &format!("{path}?EIO=4&transport=polling"), "");
    let sid = open.split("\"sid\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let target = format!("{path}?EIO=4&transport=polling&sid={sid}");
    for packet in packets {
        ask(&mut stream, "POST", &target, packet);
        ask(&mut stream, "GET", &target, "");
    }
    say(&mut stream, &format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
    stream
}

/// In one piece: the kernel would wait with the second for an acknowledgement of the first.
fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Span::from_secs(20))).unwrap();
    stream
}

fn websocket(address: SocketAddr, target: &str) -> TcpStream {
    let mut stream = connect(address);
    say(
        &mut stream,
        &format!(
            "GET {target} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ),
    );
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", head.escape_ascii());
    stream
}

fn send(stream: &mut TcpStream, kind: MessageKind, message: &[u8]) {
    let mut wire = Vec::with_capacity(message.len() + 16);
    tiderace_websocket::encode_message(&mut wire, kind, message, Some([1, 2, 3, 4]));
    stream.write_all(&wire).unwrap();
}

fn read_until(stream: &mut TcpStream, end: &[u8]) {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
        assert!(bytes.len() < 4096, "{}", bytes.escape_ascii());
    }
}

/// One request and the body of its answer.
fn ask(stream: &mut TcpStream, method: &str, target: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
    say(stream, &(head + body));
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut answer = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

const SHARDS: usize = 2;
/// A whole number of the slab's pages on each of the shards.
const CONNECTIONS: usize = 2048;
const WARM: usize = 512;

const NATIVE_BYTES_MAX: usize = 400;
const SOCKETIO_BYTES_MAX: usize = 640;
const NATIVE_POLLING_BYTES_MAX: usize = 720;
const SOCKETIO_POLLING_BYTES_MAX: usize = 860;
