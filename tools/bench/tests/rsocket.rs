//! `bench rsocket` against servers of a few lines: over TCP, and over somebody else's WebSocket library.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use clap::Parser;
use serde_json::Value;
use tiderace_bench::BenchArgs;
use tungstenite::Message;

const REQUEST_RESPONSE: u16 = 4;
const REQUEST_STREAM: u16 = 6;
const REQUEST_CHANNEL: u16 = 7;
const REQUEST_N: u16 = 8;
const PAYLOAD: u16 = 10;
const METADATA: u16 = 0x100;
const COMPLETE: u16 = 0x40;
const NEXT: u16 = 0x20;

#[test]
fn streams_are_topped_up_for_as_long_as_they_are_measured() {
    let outcome = bench(tcp_server(), "tcp", &["--mode", "stream", "--rate", "0", "--credit", "8"]);
    assert_complete(&outcome);
}

#[test]
fn requests_follow_one_another() {
    let outcome = bench(tcp_server(), "tcp", &["--mode", "request-response", "--rate", "0"]);
    assert_complete(&outcome);
    assert!(outcome["steps"][0]["latency_ns"]["p50"].as_u64().unwrap() > 0);
    let route = ["--mode", "request-response", "--rate", "200", "--route", "echo"];
    assert_complete(&bench(tcp_server(), "tcp", &route));
}

#[test]
fn channels_echo_over_websocket() {
    let outcome = bench(websocket_server(), "ws", &["--mode", "channel", "--rate", "0"]);
    assert_complete(&outcome);
    assert_complete(&bench(websocket_server(), "ws", &["--mode", "stream", "--rate", "0"]));
}

#[test]
fn more_streams_are_opened_step_by_step() {
    let line = ["--mode", "request-response", "--rate", "100", "--steps", "25%,12,100%"];
    let outcome = bench(tcp_server(), "tcp", &line);
    let open: Vec<_> =
        outcome["steps"].as_array().unwrap().iter().map(|it| &it["streams_open"]).collect();
    assert_eq!(open, [5, 12, 20]);
}

#[test]
fn a_server_that_is_none_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ =
                stream.unwrap().write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        }
    });
    for (transport, text) in [("ws", "upgrade with 404"), ("h2", "does not speak HTTP/2")] {
        let error = format!("{:#}", run(address, transport, &[], "none").unwrap_err());
        assert!(error.contains(text), "{error}");
    }
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    bench: BenchArgs,
}

fn run(address: SocketAddr, transport: &str, more: &[&str], report: &str) -> anyhow::Result<()> {
    let target = format!("peer={address}");
    let line = ["x", "rsocket", "--target", &target, "--transport", transport, "--json", report];
    let load = ["--connections", "4", "--streams", "5", "--payload", "64", "--threads", "2"];
    let times = ["--ramp-up", "0", "--warm-up", "0", "--duration", "1"];
    let words = line.iter().chain(&load).chain(&times).chain(more);
    tiderace_bench::run(&Line::parse_from(words).bench)
}

/// What the report says of the one server.
fn bench(address: SocketAddr, transport: &str, more: &[&str]) -> Value {
    let name = format!("bench-rsocket-{}-{}.json", std::process::id(), address.port());
    let report = std::env::temp_dir().join(name);
    run(address, transport, more, report.to_str().unwrap()).unwrap();
    let text = std::fs::read_to_string(&report).unwrap();
    let _ = std::fs::remove_file(&report);
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["outcomes"][0].take()
}

fn assert_complete(outcome: &Value) {
    let step = &outcome["steps"][0];
    assert_eq!((&step["errors"], &step["problem"]), (&0.into(), &Value::Null));
    assert_eq!(step["streams_open"], 20);
    assert!(step["deliveries_per_s"].as_f64().unwrap() > 0.0);
}

fn tcp_server() -> SocketAddr {
    serve(|mut stream| {
        let mut peer = Peer::default();
        let mut length = [0; 4];
        while stream.read_exact(&mut length[1..]).is_ok() {
            let mut frame = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut frame).unwrap();
            let mut out = Vec::new();
            for frame in peer.answers(&frame) {
                out.extend_from_slice(&(frame.len() as u32).to_be_bytes()[1..]);
                out.extend_from_slice(&frame);
            }
            if stream.write_all(&out).is_err() {
                return;
            }
        }
    })
}

fn websocket_server() -> SocketAddr {
    serve(|stream| {
        let (mut socket, mut peer) = (tungstenite::accept(stream).unwrap(), Peer::default());
        while let Ok(Message::Binary(frame)) = socket.read() {
            for frame in peer.answers(&frame) {
                if socket.send(Message::binary(frame)).is_err() {
                    return;
                }
            }
        }
    })
}

fn serve(handle: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || handle(stream));
        }
    });
    address
}

/// The other side of one connection.
#[derive(Default)]
struct Peer {
    is_set_up: bool,
    payloads: HashMap<u32, Vec<u8>>,
}

impl Peer {
    fn answers(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let stream = u32::from_be_bytes(frame[..4].try_into().unwrap());
        let word = u16::from_be_bytes(frame[4..6].try_into().unwrap());
        let (kind, flags, body) = (word >> 10, word & 0x3ff, &frame[6..]);
        if !std::mem::replace(&mut self.is_set_up, true) {
            assert_eq!((stream, kind), (0, 1), "the first frame is no SETUP");
            return Vec::new();
        }
        let number = || u32::from_be_bytes(body[..4].try_into().unwrap());
        let item = |data: &[u8]| answer(stream, (PAYLOAD, NEXT), data);
        match kind {
            REQUEST_RESPONSE => vec![answer(stream, (PAYLOAD, NEXT | COMPLETE), data(flags, body))],
            REQUEST_STREAM => {
                assert!(self.payloads.insert(stream, data(flags, &body[4..]).to_vec()).is_none());
                vec![item(&self.payloads[&stream]); number() as usize]
            }
            REQUEST_N => vec![item(&self.payloads[&stream]); number() as usize],
            REQUEST_CHANNEL => {
                self.payloads.insert(stream, Vec::new());
                let demand = answer(stream, (REQUEST_N, 0), &0x7fff_ffff_u32.to_be_bytes());
                vec![demand, item(data(flags, &body[4..]))]
            }
            PAYLOAD => vec![item(body)],
            _ => Vec::new(),
        }
    }
}

/// The data of a payload; the requests of a test all have as much of it.
fn data(flags: u16, body: &[u8]) -> &[u8] {
    let metadata = match flags & METADATA {
        0 => 0,
        _ => 3 + u32::from_be_bytes([0, body[0], body[1], body[2]]) as usize,
    };
    assert_eq!(body.len() - metadata, 64);
    &body[metadata..]
}

fn answer(stream: u32, (kind, flags): (u16, u16), body: &[u8]) -> Vec<u8> {
    let mut frame = stream.to_be_bytes().to_vec();
    frame.extend_from_slice(&(kind << 10 | flags).to_be_bytes());
    frame.extend_from_slice(body);
    frame
}
