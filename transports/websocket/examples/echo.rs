//! An echo server on blocking sockets, for interoperability suites such as Autobahn's.
//!
//! `cargo run --release -p tiderace-websocket --example echo -- 127.0.0.1:9001`
//!
//! One thread per connection and no timeouts: a test fixture, not a server.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the codec is pure; this fixture around it is not"
)]

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use tiderace_websocket::handshake::{OriginPolicy, Policy, UpgradeRequest, accept};
use tiderace_websocket::{Decoder, Event, Limits, Role, encode_close, encode_message, encode_pong};

const LIMITS: Limits = Limits {
    message_bytes_max: 64 << 20,
    fragments_max: 1 << 20,
    empty_fragments_max: 64,
    control_run_max: 1024,
};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9001".to_owned());
    for stream in TcpListener::bind(address)?.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            // A connection that breaks is the peer's affair; the suite reports what it saw.
            let _ = serve(stream);
        });
    }
    Ok(())
}

fn serve(mut stream: TcpStream) -> Result<(), Box<dyn Error>> {
    stream.set_nodelay(true)?;
    let (mut pending, mut out) = (Vec::new(), Vec::new());
    open(&mut stream, &mut pending, &mut out)?;
    stream.write_all(&out)?;
    let mut decoder = Decoder::new(Role::Server);
    let mut needed = 2;
    loop {
        out.clear();
        let mut closing = false;
        while pending.len() >= needed && !closing {
            let consumed = match decoder.decode(&LIMITS, &mut pending) {
                Ok(decoded) => {
                    needed = 2;
                    match decoded.event {
                        Event::Incomplete { need } => needed = need,
                        Event::Message { kind, payload } => {
                            encode_message(&mut out, kind, payload, None);
                        }
                        Event::Reassembled { kind, payload } => {
                            encode_message(&mut out, kind, &payload, None);
                        }
                        Event::Ping(payload) => encode_pong(&mut out, payload, None),
                        Event::Pong(_) | Event::Part(_) => {}
                        Event::Close { code, .. } => {
                            encode_close(&mut out, code, "", None);
                            closing = true;
                        }
                    }
                    decoded.consumed
                }
                Err(error) => {
                    encode_close(&mut out, Some(error.close_code()), &error.to_string(), None);
                    closing = true;
                    0
                }
            };
            pending.drain(..consumed);
        }
        stream.write_all(&out)?;
        if closing || !fill(&mut stream, &mut pending)? {
            return Ok(());
        }
    }
}

fn open(
    stream: &mut TcpStream,
    pending: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), Box<dyn Error>> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Request::new(&mut headers);
        if let httparse::Status::Complete(consumed) = head.parse(pending)? {
            let fields = head.headers.iter().map(|header| (header.name, header.value));
            let version = head.version.unwrap_or_default();
            let request = UpgradeRequest::new(head.method.unwrap_or_default(), version, fields);
            let policy = Policy { origins: &OriginPolicy::Any, subprotocols: &[] };
            accept(&request, &policy)?.write_response(out);
            pending.drain(..consumed);
            return Ok(());
        }
        if pending.len() > 16 * 1024 || !fill(stream, pending)? {
            return Err("no request".into());
        }
    }
}

/// Reads once; false at the end of the stream.
fn fill(stream: &mut TcpStream, pending: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut buffer = [0; 64 * 1024];
    let count = stream.read(&mut buffer)?;
    pending.extend_from_slice(buffer.get(..count).unwrap_or_default());
    Ok(count > 0)
}
