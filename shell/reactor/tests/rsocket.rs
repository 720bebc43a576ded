//! RSocket's clients come back to their sessions, on simulated networks: frames are neither lost nor
//! repeated, wherever connections are cut and whatever carries the next one, and credit holds.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common;
use std::sync::Arc;

use crate::common::world::World;
use tiderace_base::Span;
use tiderace_reactor::Options;
use tiderace_reactor::driver::sim::Client;
use tiderace_rsocket::frame::{Body, Frame, Payload};
use tiderace_rsocket::metadata::write_tag;
use tiderace_rsocket::requester::{Phase, Requester, RequesterOptions};
use tiderace_rsocket::{EchoOptions, RSocketOptions, ResumeOptions};
use tiderace_websocket::{Opcode, write_header};
use tiderace_wire::{Framing, MessageFraming};

/// Frames of a client, under a mask that changes nothing.
static MASKED: MessageFraming = MessageFraming {
    id: 77,
    text: |len, out| write_header(out, Opcode::Text, len, Some([0; 4])),
    binary: |len, out| write_header(out, Opcode::Binary, len, Some([0; 4])),
    armour: None,
};

const UPGRADE: &str = "GET /rsocket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn world(seed: u64) -> World {
    let resume = ResumeOptions {
        window: Span::from_secs(60),
        bytes_max: 1 << 20,
        bytes_shard_max: 64 << 20,
    };
    world_of(seed, RSocketOptions { resume: Some(resume), ..RSocketOptions::default() })
}

fn world_of(seed: u64, rsocket: RSocketOptions) -> World {
    let options = Options { shards: 1 + (seed % 4) as usize, ..Options::default() };
    World::with(seed, options, |services| {
        let paths: Arc<[String]> = Arc::from(["/rsocket".to_string()]);
        services.protocols.push(tiderace_rsocket::protocol(Arc::new(rsocket), paths));
        services.verifier = Arc::new(common::AtOnce);
    })
}

/// A client with one subscription, which asks for a few messages at a time.
struct Subscriber {
    requester: Requester,
    client: Client,
    websocket: bool,
    read: usize,
    input: Vec<u8>,
    stream: u32,
    asked: usize,
    items: Vec<u64>,
}

impl Subscriber {
    fn connect(world: &World, websocket: bool, credit: u32, topic: &str) -> Subscriber {
        let options = RequesterOptions {
            metadata_mime: "message/x.rsocket.routing.v0".into(),
            token: Some(b"0123456789abcdef".to_vec()),
            ..RequesterOptions::default()
        };
        let requester = Requester::new(Arc::new(options), framing(websocket));
        let client = world.network.connect(0);
        let (read, input, items) = (0, Vec::new(), Vec::new());
        let (stream, asked) = (0, credit as usize);
        let mut new =
            Subscriber { requester, client, websocket, read, input, stream, asked, items };
        let mut out = Vec::new();
        new.requester.begin(world.network.now(), &mut out);
        let mut metadata = Vec::new();
        write_tag(topic, &mut metadata);
        let payload = Payload { metadata: Some(&metadata), data: b"" };
        new.stream =
            new.requester.request_stream(world.network.now(), credit, payload, &mut out).unwrap();
        new.send(world, &out, true);
        new
    }

    fn send(&self, world: &World, out: &[u8], first: bool) {
        if first && self.websocket {
            world.network.send(self.client, UPGRADE.as_bytes());
        }
        world.network.send(self.client, out);
    }

    /// Another connection, by which it goes on.
    fn come_back(&mut self, world: &World, websocket: bool) {
        (self.client, self.websocket, self.read) = (world.network.connect(0), websocket, 0);
        self.input.clear();
        let mut out = Vec::new();
        self.requester.resume(world.network.now(), framing(websocket), &mut out);
        self.send(world, &out, true);
    }

    /// Takes in what has come.
    fn step(&mut self, world: &World) {
        let received = world.network.received(self.client);
        self.input.extend_from_slice(&received[self.read..]);
        self.read = received.len();
        if self.websocket && self.input.starts_with(b"HTTP") {
            let Some(end) = self.input.windows(4).position(|four| four == b"\r\n\r\n") else {
                return;
            };
            self.input.drain(..end + 4);
        }
        while self.take(world) {}
        if world.network.is_ended(self.client) {
            // What it had said on a connection before has come after what it said on this one.
            return self.come_back(world, self.websocket);
        }
        // It asks for more when it has all, and now and then before.
        if self.requester.phase() == Phase::Open
            && (self.asked == self.items.len() || world.network.random(20) == 0)
        {
            let more = 1 + world.network.random(3);
            let mut out = Vec::new();
            self.requester.request_n(self.stream, more as u32, &mut out).unwrap();
            self.asked += more;
            self.send(world, &out, false);
        }
    }

    /// Takes one frame in, if it is there.
    fn take(&mut self, world: &World) -> bool {
        let (now, mut out) = (world.network.now(), Vec::new());
        let input = std::mem::take(&mut self.input);
        let (done, item) = if self.websocket {
            let Some((message, done)) = message(&input) else {
                self.input = input;
                return false;
            };
            let frame = self.requester.message(now, message, &mut out).unwrap();
            (done, frame.and_then(|frame| number(&frame)))
        } else {
            let (done, frame) = self.requester.next(now, &input, &mut out).unwrap();
            let more = frame.is_some();
            (done, if more { frame.and_then(|frame| number(&frame)) } else { None })
        };
        self.input = input[done..].to_vec();
        if !out.is_empty() {
            self.send(world, &out, false);
        }
        self.items.extend(item);
        assert!(self.items.len() <= self.asked, "seed {}: more than was asked for", world.seed);
        done > 0
    }

    fn publish(&mut self, world: &World, topic: &str, text: &str) {
        let mut metadata = Vec::new();
        write_tag(topic, &mut metadata);
        let payload = Payload { metadata: Some(&metadata), data: text.as_bytes() };
        let mut out = Vec::new();
        self.requester.fire_and_forget(world.network.now(), payload, &mut out).unwrap();
        self.send(world, &out, false);
    }
}

fn framing(websocket: bool) -> Framing {
    if websocket { Framing::Messages(&MASKED) } else { Framing::Stream }
}

fn number(frame: &Frame<'_>) -> Option<u64> {
    match frame.body {
        Body::Payload(item) => std::str::from_utf8(item.payload.data).unwrap().parse().ok(),
        Body::Error(failure) => {
            panic!("{:?}: {}", failure.code, String::from_utf8_lossy(failure.text))
        }
        _ => None,
    }
}

/// The first message of the server, and how many bytes it takes with its header.
fn message(bytes: &[u8]) -> Option<(&[u8], usize)> {
    if bytes.first()? & 0x0f == 8 {
        return None;
    }
    let (head, len) = match *bytes.get(1)? {
        126 => (4, u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]) as usize),
        127 => panic!("nothing here is that long"),
        len => (2, usize::from(len)),
    };
    Some((bytes.get(head..head + len)?, head + len))
}

/// A client that speaks in lines, and listens or publishes.
fn line(world: &mut World, said: &str) -> Client {
    let client = world.network.connect(0);
    world.network.send(client, format!("LINE\nL bob\n{said}").as_bytes());
    world.run_for(Span::from_secs(1));
    client
}

#[test]
fn frames_are_neither_lost_nor_repeated_and_credit_holds() {
    for seed in 0..300 {
        let mut world = world(seed);
        let listener = line(&mut world, "S up\n");
        let writer = line(&mut world, "");
        let websocket = seed % 2 == 0;
        let credit = 1 + (seed % 3) as u32;
        let mut subscriber = Subscriber::connect(&world, websocket, credit, "down");
        world.run_for(Span::from_secs(1));
        world.network.send(writer, b"P down 0\n");
        world.run_until("the first", |world| {
            subscriber.step(world);
            !subscriber.items.is_empty()
        });
        let (mut published, mut said) = (1, Vec::new());
        for count in 0..40 {
            match world.network.random(5) {
                0 => {
                    // The old connection is gone, or is still there.
                    if world.network.random(2) == 0 {
                        world.network.reset(subscriber.client);
                    }
                    let websocket = world.network.random(2) == 0;
                    subscriber.come_back(&world, websocket);
                    if world.network.random(2) == 0 {
                        world.run_until("to be back", |world| {
                            subscriber.step(world);
                            subscriber.requester.phase() == Phase::Open
                        });
                    }
                }
                1 | 2 => {
                    world.network.send(writer, format!("P down {published}\n").as_bytes());
                    published += 1;
                }
                _ => {
                    for _ in 0..world.network.random(200) {
                        world.step();
                    }
                }
            }
            subscriber.step(&world);
            if subscriber.requester.phase() == Phase::Open {
                subscriber.publish(&world, "up", &count.to_string());
                said.push(count);
            }
        }
        world.network.send(writer, b"P down 1000\n");
        world.run_until("the last", |world| {
            subscriber.step(world);
            subscriber.items.last() == Some(&1000)
        });
        assert!(subscriber.items.is_sorted_by(|a, b| a < b), "seed {seed}: {:?}", subscriber.items);
        subscriber.publish(&world, "up", "end");
        world.run_until("what was published", |world| {
            subscriber.step(world);
            world.text(listener).contains("M end\n")
        });
        let text = world.text(listener);
        let heard: Vec<u64> =
            text.lines().filter_map(|line| line.strip_prefix("M ")?.parse().ok()).collect();
        assert_eq!(heard, said, "seed {seed}");
        world.control.shutdown(Span::from_secs(20));
        world.run_until("the end", World::is_over);
        assert_eq!(world.control.connections(), 0, "seed {seed}");
    }
}

/// A client with one stream of the echo responder, for payloads of a thousand bytes.
fn echo(world: &World, credit: u32) -> Client {
    let mut requester = Requester::new(Arc::new(RequesterOptions::default()), Framing::Stream);
    let (client, now) = (world.network.connect(0), world.network.now());
    let mut out = Vec::new();
    requester.begin(now, &mut out);
    requester.request_stream(now, credit, Payload::data(&[b'x'; 1000]), &mut out).unwrap();
    world.network.send(client, &out);
    client
}

#[test]
fn an_echo_without_interval_waits_for_its_client_alone() {
    const ITEMS: usize = 5000;
    let options = EchoOptions { interval: Span::ZERO, bytes_max: 1 << 20 };
    for seed in 0..20 {
        let rsocket = RSocketOptions { echo: Some(options), ..RSocketOptions::default() };
        let mut world = world_of(seed, rsocket);
        let listener = line(&mut world, "S up\n");
        let client = echo(&world, ITEMS as u32);
        let bytes = ITEMS * (3 + 6 + 1000);
        world.run_until("some items", |world| world.network.received_len(client) > 0);
        let (begun, mut steps) = (world.network.now(), 0);
        world.run_until("nearly all items", |world| {
            steps += 1;
            // The server does not wait for what the network has taken.
            world.network.received_len(client) + (64 << 10) >= bytes
        });
        // The network's steps take less than this; it would leap if the server slept.
        let taken = world.network.now().since(begun);
        assert!(taken < Span::from_micros(200) * steps, "seed {seed}: {taken:?}, {steps} steps");
        // Now one that never has enough, and others beside it.
        let greedy = echo(&world, u32::MAX >> 1);
        world.run_until("some items", |world| world.network.received_len(greedy) > 0);
        world.network.send(listener, b"P up news\n");
        world.run_until("the others' turn", |world| world.text(listener).contains("M news\n"));
        world.network.stall(greedy, true);
        world.run_for(Span::from_secs(1));
        let before = world.network.received_len(greedy);
        world.network.stall(greedy, false);
        world.run_until("it to go on", |world| {
            world.network.received_len(greedy) > before + (1 << 20)
        });
        assert_eq!(
            world.network.received_len(client),
            bytes,
            "seed {seed}: its demand and no more"
        );
        world.control.shutdown(Span::from_secs(20));
        world.run_until("the end", World::is_over);
    }
}
