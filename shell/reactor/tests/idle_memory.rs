//! What an idle WebSocket costs in heap, counted by the allocator, over real sockets.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use crate::common::{AtOnce, services};
use tiderace_base::{ShardId, Span};
use tiderace_broker::{Broker, BrokerOptions};
use tiderace_heap::{bytes, own_calls, raise_file_limit};
use tiderace_reactor::{ListenerOptions, Options, spawn};
use tiderace_websocket::{MessageKind, encode_message};

#[test]
fn an_idle_websocket_holds_little() {
    let _counting = crate::COUNTING.lock();
    // Both ends of all connections are in this process.
    raise_file_limit((CONNECTIONS + WARM) * 2 + 100);
    let listeners = vec![ListenerOptions::at(([127, 0, 0, 1], 0).into())];
    let options = Options { shards: 2, listeners, ..Options::default() };
    let node = spawn(options, services(Arc::new(AtOnce))).unwrap();
    let mut clients: Vec<TcpStream> = Vec::with_capacity(CONNECTIONS + WARM);
    // The first fill pools, lists and pages.
    clients.extend((0..WARM).map(|_| open(node.addresses[0])));
    let before = bytes();
    clients.extend((0..CONNECTIONS).map(|_| open(node.addresses[0])));
    let after = bytes();
    let each = after.saturating_sub(before) / CONNECTIONS - broker_share();
    println!("{each} bytes for each connection, {} of the broker", broker_share());
    assert!(each <= 200, "{each} bytes");
    // A figure far too small would mean that the counting is broken.
    assert!(each >= 100, "{each} bytes");
    drop(clients);
    node.shutdown(Span::from_secs(10));
    node.join().unwrap();
}

#[test]
fn who_looks_at_a_node_all_the_time_allocates_nothing() {
    let _counting = crate::COUNTING.lock();
    let listeners = vec![ListenerOptions::at(([127, 0, 0, 1], 0).into())];
    let options = Options { shards: 2, listeners, ..Options::default() };
    let node = spawn(options, services(Arc::new(AtOnce))).unwrap();
    let control = node.control();
    let (mut seen, mut memory) = (Vec::with_capacity(2), 0);
    let calls = own_calls(|| {
        seen.extend(control.turns());
        memory += control.broker_metric_by_shard("tiderace_memory_max_bytes").count();
        assert_eq!(control.counts(), tiderace_reactor::NodeCounts::default());
        assert_eq!(control.upstreams_away(), []);
    });
    assert_eq!((calls, seen.len(), memory), (0, 2, 2));
    node.shutdown(Span::from_secs(10));
    node.join().unwrap();
}

/// What the broker keeps of a session without subscriptions: not the event loop's doing.
fn broker_share() -> usize {
    let now = tiderace_base::Now::default();
    let mut broker = Broker::new(ShardId(0), Arc::new(BrokerOptions::default()));
    let sessions = |broker: &mut Broker, count: usize| {
        for link in 0..count {
            broker.open(now, link as u32);
        }
    };
    sessions(&mut broker, WARM);
    let before = bytes();
    sessions(&mut broker, CONNECTIONS);
    (bytes() - before) / CONNECTIONS
}

/// A WebSocket that has had a conversation and is idle now.
fn open(address: std::net::SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Span::from_secs(20))).unwrap();
    let mut wire = Vec::with_capacity(512);
    wire.extend_from_slice(
        b"GET /echo HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    encode_message(&mut wire, MessageKind::Text, b"ECHO\nhello", Some([1, 2, 3, 4]));
    stream.write_all(&wire).unwrap();
    let mut answer = Vec::with_capacity(512);
    while !answer.ends_with(b"\x82\x05hello") {
        let mut byte = [0; 1];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    stream
}

/// A whole number of the slab's pages on each of two shards, plus what rounds up.
const CONNECTIONS: usize = 1024;
const WARM: usize = 512;
