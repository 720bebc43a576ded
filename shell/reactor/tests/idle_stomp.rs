//! What an idle WebSocket with one STOMP subscription costs in heap, counted by the allocator, over
//! real sockets: event loop, protocol and broker together.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, unsafe_code)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use common::{AtOnce, services};
use tiderace_base::Span;
use tiderace_broker::BrokerOptions;
use tiderace_reactor::{ListenerOptions, NodeHandle, Options, Services, spawn};
use tiderace_stomp::{StompOptions, protocol};

struct Counting;

/// Live bytes and blocks by size: steps of 16 bytes up to 256, then powers of two.
static BYTES: [AtomicIsize; CLASSES] = [const { AtomicIsize::new(0) }; CLASSES];
static BLOCKS: [AtomicIsize; CLASSES] = [const { AtomicIsize::new(0) }; CLASSES];

fn count(layout: Layout, sign: isize) {
    let class = class_of(layout.size());
    BYTES[class].fetch_add(sign * layout.size() as isize, Ordering::Relaxed);
    BLOCKS[class].fetch_add(sign, Ordering::Relaxed);
}

fn class_of(size: usize) -> usize {
    if size <= 256 {
        return size.div_ceil(16);
    }
    (16 + size.div_ceil(256).next_power_of_two().ilog2() as usize).min(CLASSES - 1)
}

/// The largest size in a class.
fn limit_of(class: usize) -> usize {
    if class <= 16 { class * 16 } else { 256 << (class - 16) }
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, 1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn an_idle_subscriber_holds_little() {
    raise_file_limit();
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
    let listeners = vec![ListenerOptions { address: ([127, 0, 0, 1], 0).into(), protocol: None }];
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
    let after = census();
    println!("{what}:");
    let mut each = 0.0;
    for (class, (before, after)) in before.into_iter().zip(after).enumerate() {
        let blocks = (after.0 - before.0) as f64 / CONNECTIONS as f64;
        let bytes = (after.1 - before.1) as f64 / CONNECTIONS as f64;
        each += bytes;
        if bytes.abs() >= 0.5 {
            println!("  {bytes:6.1} bytes in {blocks:6.3} blocks <= {}", limit_of(class));
        }
    }
    println!("  {each:6.1} bytes for each connection");
    drop(clients);
    node.shutdown(Span::from_secs(10));
    node.join().unwrap();
    each.round() as usize
}

/// Blocks and bytes in use, by class.
fn census() -> [(isize, isize); CLASSES] {
    std::array::from_fn(|class| {
        (BLOCKS[class].load(Ordering::Relaxed), BYTES[class].load(Ordering::Relaxed))
    })
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

/// SUBSCRIBE asks for no receipt, as most clients do not, so the brokers' own count tells.
fn wait_for_subscriptions(node: &NodeHandle, wanted: u64) {
    let control = node.control();
    let count = || {
        let metrics = control.broker_metrics();
        let row = metrics.iter().find(|(row, _)| row.name == "tiderace_subscriptions");
        row.map(|(_, value)| *value).unwrap()
    };
    let start = std::time::Instant::now();
    while count() < wanted {
        assert!(start.elapsed() < Span::from_secs(20), "{} of {wanted}", count());
        std::thread::yield_now();
    }
}

/// Both ends of all connections are in this process.
fn raise_file_limit() {
    let wanted = ((CONNECTIONS + WARM) * 2 + 100) as libc::rlim_t;
    // SAFETY: `limit` is a valid, initialised struct for both calls.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        if limit.rlim_cur < wanted {
            limit.rlim_cur = wanted.min(limit.rlim_max);
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        }
    }
}

const SHARDS: usize = 2;
/// A whole number of the slab's pages on each of the shards.
const CONNECTIONS: usize = 2048;
const WARM: usize = 512;
const CLASSES: usize = 34;

const ONE_TOPIC_BYTES_MAX: usize = 400;
/// What the earlier deadline's own entry in the timer wheel takes, with the room beside it.
const TIMER_BYTES_MAX: usize = 32;
const OWN_TOPIC_BYTES_MAX: usize = 800;
