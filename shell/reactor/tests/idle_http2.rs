//! What idle connections of HTTP/2 and what they carry cost in heap, counted by the allocator, over real
//! sockets.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use crate::common::{AtOnce, services};
use tiderace_base::Span;
use tiderace_heap::bytes;
use tiderace_reactor::{ListenerOptions, Options, spawn};

#[test]
fn idle_connections_and_tunnels_hold_little() {
    let _counting = crate::COUNTING.lock();
    let listeners = vec![ListenerOptions::at(([127, 0, 0, 1], 0).into())];
    let options = Options { shards: 2, listeners, ..Options::default() };
    let node = spawn(options, services(Arc::new(AtOnce))).unwrap();
    let address = node.addresses[0];
    let mut clients: Vec<TcpStream> = Vec::with_capacity(CONNECTIONS + WARM);
    // The first fill pools, lists and pages.
    for _ in 0..WARM {
        let mut client = open(address);
        (0..TUNNELS).for_each(|at| tunnel(&mut client, 3 + 2 * at));
        clients.push(client);
    }
    let before = bytes();
    clients.extend((0..CONNECTIONS).map(|_| open(address)));
    let connected = bytes();
    for client in clients.iter_mut().skip(WARM) {
        (0..TUNNELS).for_each(|at| tunnel(client, 3 + 2 * at));
    }
    let tunnelled = bytes();
    let connection = connected.saturating_sub(before) / CONNECTIONS;
    let each = tunnelled.saturating_sub(connected) / CONNECTIONS / TUNNELS as usize;
    println!("{connection} bytes for each connection, {each} for each tunnel with its session");
    assert!((10_000..=CONNECTION_BYTES_MAX).contains(&connection), "{connection} bytes");
    assert!((300..=TUNNEL_BYTES_MAX).contains(&each), "{each} bytes");
    drop(clients);
    node.shutdown(Span::from_secs(10));
    node.join().unwrap();
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// A connection that has had a page and is idle now.
fn open(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Span::from_secs(20))).unwrap();
    let page = b"\x82\x86\x01\x01h\x04\x05/page";
    let hello = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, b""),
        frame(4, 1, 0, b""),
        frame(1, 5, 1, page),
    ];
    stream.write_all(&hello.concat()).unwrap();
    until(&mut stream, b"GET -");
    stream
}

/// A stream of bytes that has had a conversation and is idle now.
fn tunnel(client: &mut TcpStream, stream: u32) {
    let post = b"\x83\x86\x01\x01h\x04\x0c/echo-stream";
    let wire = [frame(1, 4, stream, post), frame(0, 0, stream, b"ECHO\nhello")];
    client.write_all(&wire.concat()).unwrap();
    until(client, b"hello");
}

fn until(stream: &mut TcpStream, end: &[u8]) {
    let mut answer = Vec::with_capacity(512);
    while !answer.ends_with(end) {
        let mut byte = [0; 1];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
}

const CONNECTIONS: usize = 64;
const WARM: usize = 32;
const TUNNELS: u32 = 16;
/// Nearly all of it is `h2`: buffers of 16 and 8 KiB, tables, and the places of streams.
const CONNECTION_BYTES_MAX: usize = 40_000;
const TUNNEL_BYTES_MAX: usize = 1_000;
