//! What idle streams of RSocket cost in heap, counted by the allocator, over real sockets: event loop,
//! protocol and broker together.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use crate::common::{AtOnce, services};
use crate::waiting::wait_for_subscriptions;
use tiderace_base::{SampleValue, Span};
use tiderace_broker::BrokerOptions;
use tiderace_heap::{census, raise_file_limit, report};
use tiderace_reactor::{ListenerOptions, NodeHandle, Options, Services, spawn};
use tiderace_rsocket::frame::{
    Body, Frame, Interaction, NUMBER_MAX, Payload, Request, Setup, Split, VERSION, split,
};
use tiderace_rsocket::metadata::write_tag;
use tiderace_rsocket::{EchoOptions, RSocketMetrics, RSocketOptions};
use tiderace_wire::Framing;

#[test]
fn idle_streams_hold_little() {
    let _counting = crate::COUNTING.lock();
    raise_file_limit(CONNECTIONS * 4 + 100);
    let session = measure("a session alone", 0, |_| Vec::new());
    for (what, most, request) in [
        ("an echo stream", ECHO_BYTES_MAX, echo as fn(u32) -> Vec<u8>),
        ("a subscription that wants everything", TOPIC_BYTES_MAX, everything),
        ("a subscription with credit", CREDIT_BYTES_MAX, credit),
    ] {
        let whole = measure(what, STREAMS, request);
        let each = (whole - session) / STREAMS as usize;
        println!("{what}: {each} B");
        assert!(each <= most, "{what} takes {each} bytes of heap");
    }
    // Many of one connection. It is the same test, since heap is counted of the whole process.
    for (what, request) in [
        ("one of 200 subscriptions to one topic", same as fn(u32) -> Vec<u8>),
        ("one of 200 subscriptions to as many topics", everything),
    ] {
        let each =
            measure_of(what, MANY_STREAMS, request, MANY_CONNECTIONS) / MANY_STREAMS as usize;
        println!("{what}: {each} B");
        assert!(each <= MANY_BYTES_MAX, "{what} takes {each} bytes of heap");
    }
}

/// Heap bytes for each connection with so many streams.
fn measure(what: &str, streams: u32, request: fn(u32) -> Vec<u8>) -> usize {
    measure_of(what, streams, request, CONNECTIONS)
}

/// The same of so many connections, after as many others.
fn measure_of(what: &str, streams: u32, request: fn(u32) -> Vec<u8>, connections: usize) -> usize {
    let metrics = Arc::new(RSocketMetrics::new(SHARDS));
    let listeners = vec![ListenerOptions::at(([127, 0, 0, 1], 0).into())];
    let options = Options { shards: SHARDS, listeners, ..Options::default() };
    let node = spawn(options, rsocket(metrics.clone())).unwrap();
    let mut clients: Vec<TcpStream> = Vec::with_capacity(connections * 2);
    let mut open = |count: usize| {
        clients.extend((0..count).map(|_| connect(node.addresses[0], streams, request)));
        let wanted = clients.len() as u64 * u64::from(streams);
        wait(&node, &metrics, wanted, request(1) != echo(1));
    };
    // The first fill pools, lists and pages.
    open(connections);
    let before = census();
    open(connections);
    let each = report(what, before, connections);
    drop(clients);
    node.shutdown(Span::from_secs(10));
    node.join().unwrap();
    each
}

fn wait(node: &NodeHandle, metrics: &RSocketMetrics, wanted: u64, subscriptions: bool) {
    let open = || {
        let samples = metrics.samples();
        let found = samples.iter().find(|sample| {
            sample.row.name == "tiderace_rsocket_streams" && sample.labels == ["responder"]
        });
        match found.unwrap().value {
            SampleValue::Number(value) => value,
            ref other => panic!("{other:?}"),
        }
    };
    let start = std::time::Instant::now();
    while open() < wanted {
        assert!(start.elapsed() < Span::from_secs(20), "{} of {wanted}", open());
        std::thread::yield_now();
    }
    if subscriptions {
        wait_for_subscriptions(node, wanted);
    }
}

fn rsocket(metrics: Arc<RSocketMetrics>) -> Services {
    // Nothing ticks while it is counted.
    let echo = Some(EchoOptions { interval: Span::from_secs(600), bytes_max: 1 << 20 });
    let options = RSocketOptions { echo, metrics, ..RSocketOptions::default() };
    let broker = BrokerOptions { shards: SHARDS, ..BrokerOptions::default() };
    Services {
        protocols: vec![tiderace_rsocket::protocol(Arc::new(options), [].into())],
        broker: Arc::new(broker),
        ..services(Arc::new(AtOnce))
    }
}

fn connect(address: SocketAddr, streams: u32, request: fn(u32) -> Vec<u8>) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Span::from_secs(20))).unwrap();
    let setup = Setup {
        version: VERSION,
        interval_ms: 600_000,
        lifetime_ms: 600_000,
        token: None,
        lease: false,
        metadata_mime: b"message/x.rsocket.routing.v0",
        data_mime: b"application/octet-stream",
        payload: Payload::default(),
    };
    // There is no answer to SETUP that could be waited for; requests may follow at once, and the answer to
    // the KEEPALIVE behind them says that all have been read.
    let mut bytes = Vec::new();
    Frame::connection(Body::Setup(setup)).write(Framing::Stream, &mut bytes);
    for stream in 0..streams {
        bytes.extend_from_slice(&request(stream * 2 + 1));
    }
    let sign = tiderace_rsocket::frame::KeepAlive { respond: true, position: 0, data: b"" };
    Frame::connection(Body::KeepAlive(sign)).write(Framing::Stream, &mut bytes);
    stream.write_all(&bytes).unwrap();
    let mut answer = [0; 17];
    stream.read_exact(&mut answer).unwrap();
    let Ok(Split::Frame(frame)) = split(&answer, 100) else { panic!("{answer:?}") };
    assert!(matches!(Frame::read(frame).unwrap().body, Body::KeepAlive(_)));
    stream
}

fn echo(stream: u32) -> Vec<u8> {
    request(stream, NUMBER_MAX, None)
}

fn everything(stream: u32) -> Vec<u8> {
    request(stream, NUMBER_MAX, Some(&format!("prices/{}", stream / 2)))
}

fn same(stream: u32) -> Vec<u8> {
    request(stream, NUMBER_MAX, Some("prices/all"))
}

fn credit(stream: u32) -> Vec<u8> {
    request(stream, 256, Some(&format!("prices/{}", stream / 2)))
}

fn request(stream: u32, credit: u32, route: Option<&str>) -> Vec<u8> {
    let (mut out, mut metadata) = (Vec::new(), Vec::new());
    if let Some(route) = route {
        write_tag(route, &mut metadata);
    }
    let payload = Payload { metadata: route.map(|_| &metadata[..]), data: b"" };
    let interaction = Interaction::Stream;
    let request = Request { interaction, follows: false, complete: false, credit, payload };
    Frame { stream, body: Body::Request(request) }.write(Framing::Stream, &mut out);
    out
}

const SHARDS: usize = 2;
/// A whole number of the slab's pages on each of the shards.
const CONNECTIONS: usize = 512;
/// As in the first step of the known stress test.
const STREAMS: u32 = 25;
/// Many streams of few connections, all to one topic or each to its own.
const MANY_CONNECTIONS: usize = 50;
const MANY_STREAMS: u32 = 200;

const ECHO_BYTES_MAX: usize = 80;
const TOPIC_BYTES_MAX: usize = 150;
const CREDIT_BYTES_MAX: usize = 150;
/// Lists that have just doubled their room are half empty.
const MANY_BYTES_MAX: usize = 150;
