//! What an idle WebSocket with one STOMP subscription costs in heap, counted by the allocator, over
//! real sockets: event loop, protocol and broker together.
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
use tiderace_stomp::{StompOptions, protocol};

#[test]
fn an_idle_subscriber_holds_little() {
    let _counting = crate::COUNTING.lock();
    raise_file_limit((CONNECTIONS + WARM) * 2 + 100);
    let one = measure("one topic, no heart-beats", "0,0", |_| "/topic/prices".to_owned());
    assert!(one <= ONE_TOPIC_BYTES_MAX, "{one} bytes");
    // A figure far too small would mean that the counting is broken.
    assert!(one >= 150, "{one} bytes");
    let beating = measure("one topic, heart-beats", "10000,10000", |_| "/topic/prices".to_owned());
    assert!(beating <= ONE_TOPIC_BYTES_MAX + TIMER_BYTES_MAX, "{beating} bytes");
    let own = measure("a topic each", "0,0", |number| format!("/topic/each/{number:07}"));
    assert!(own <= OWN_TOPIC_BYTES_MAX, "{own} bytes");
}

/// Heap bytes for each connection.
fn measure(what: &str, heart_beat: &str, destination: impl Fn(usize) -> String) -> usize {
    let listeners = vec![ListenerOptions::at(([127, 0, 0, 1], 0).into())];
    let options = Options { shards: SHARDS, listeners, ..Options::default() };
    let node = spawn(options, stomp_services()).unwrap();
    let mut clients: Vec<TcpStream> = Vec::with_capacity(CONNECTIONS + WARM);
    let mut open = |range: std::ops::Range<usize>| {
        let end = range.end;
        for number in range {
            clients.push(subscriber(node.addresses[0], heart_beat, &destination(number)));
        }
        wait_for_subscriptions(&node, end as u64);
    };
    // The first fill pools, lists and pages.
    open(0..WARM);
    let before = census();
    open(WARM..WARM + CONNECTIONS);
    let each = report(what, before, CONNECTIONS);
    drop(clients);
    node.shutdown(Span::from_secs(10));
    node.join().unwrap();
    each
}

fn stomp_services() -> Services {
    let stomp = protocol(Arc::new(StompOptions::default()), Arc::from(["/ws".to_owned()]));
    let broker = BrokerOptions { shards: SHARDS, ..BrokerOptions::default() };
    Services { protocols: vec![stomp], broker: Arc::new(broker), ..services(Arc::new(AtOnce)) }
}

/// Connects, logs in as nobody and subscribes; what it allocated is free again when it returns.
fn subscriber(address: SocketAddr, heart_beat: &str, destination: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Span::from_secs(20))).unwrap();
    let upgrade = "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Protocol: v12.stomp\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Version: 13\r\n\r\n";
    stream.write_all(upgrade.as_bytes()).unwrap();
    read_until(&mut stream, b"\r\n\r\n");
    let connect = format!("CONNECT\naccept-version:1.2\nhost:a\nheart-beat:{heart_beat}\n\n\0");
    send(&mut stream, &connect);
    read_until(&mut stream, b"\0");
    send(&mut stream, &format!("SUBSCRIBE\nid:0\ndestination:{destination}\n\n\0"));
    stream
}

fn send(stream: &mut TcpStream, frame: &str) {
    let mut wire = Vec::with_capacity(frame.len() + 16);
    let mask = Some([1, 2, 3, 4]);
    let kind = tiderace_websocket::MessageKind::Text;
    tiderace_websocket::encode_message(&mut wire, kind, frame.as_bytes(), mask);
    stream.write_all(&wire).unwrap();
}

fn read_until(stream: &mut TcpStream, end: &[u8]) {
    let mut bytes = [0; 1024];
    let mut len = 0;
    while !bytes[..len].ends_with(end) {
        let count = stream.read(&mut bytes[len..]).unwrap();
        assert!(count > 0, "{}", bytes[..len].escape_ascii());
        len += count;
    }
}

const SHARDS: usize = 2;
/// A whole number of the slab's pages on each of the shards.
const CONNECTIONS: usize = 2048;
const WARM: usize = 512;

const ONE_TOPIC_BYTES_MAX: usize = 400;
/// What the earlier deadline's own entry in the timer wheel takes, with the room beside it.
const TIMER_BYTES_MAX: usize = 32;
const OWN_TOPIC_BYTES_MAX: usize = 800;
