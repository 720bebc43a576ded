//! Nanoseconds per delivery of the path that every update takes, as in Rubris's scenario: many
//! sessions with many subscriptions each, one kilobyte a message.
//!
//! `cargo run --release -p tiderace-native --example native_hot_path`
// It measures, so it reads the clock.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tiderace_base::{Now, ShardId, Time};
use tiderace_native::codec::{Auth, ClientMessage, Hello, SubscribeMessage, subscribe};
use tiderace_native::{NativeOptions, protocol};
use tiderace_topics::Path;
use tiderace_wire::{
    Commands, Context, Delivery, Destination, Framing, Incoming, Kind, MessageFraming, Meta,
    Opening, OutQueue, Output, Reply, Run, Session, SharedRun, SubscriptionKey,
};

const SESSIONS: usize = 200;
const SUBSCRIPTIONS: u32 = 1_000;
const TOPICS: usize = 5_000;
/// Deliveries to one session in a turn.
const TURN: usize = 100;
const TURNS: usize = 20_000;

static MESSAGES: MessageFraming = MessageFraming {
    id: 1,
    text: |_, _| {},
    binary: |len, out| match len {
        0..126 => out.extend_from_slice(&[0x82, len as u8]),
        126..=0xffff => {
            out.extend_from_slice(&[0x82, 126]);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.extend_from_slice(&[0x82, 127]);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    },
    armour: None,
};

const FRAMING: Framing = Framing::Messages(&MESSAGES);

fn main() {
    for (name, flags) in [("exact", 0), ("exact, recoverable", subscribe::RECOVERABLE)] {
        let mut sessions: Vec<Box<dyn Session>> = (0..SESSIONS).map(|_| session(flags)).collect();
        let runs: Vec<SharedRun> = (0..TOPICS).map(run).collect();
        let (mut queue, mut seed) = (OutQueue::new(), 1usize);
        let begin = Instant::now();
        for turn in 0..TURNS {
            let session = sessions.get_mut(turn % SESSIONS).unwrap();
            for _ in 0..TURN {
                // A walk without a pattern that the processor could foresee.
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                let run = runs.get((seed >> 33) % TOPICS).unwrap();
                let key = SubscriptionKey((seed >> 20) as u32 % SUBSCRIPTIONS);
                let reached = run.run().first();
                let delivery =
                    Delivery { key, run, from: 0, to: 1, redeliveries: 0, reached, exchange: None };
                let mut output = Output { framing: FRAMING, queue: &mut queue };
                session.deliver(Now::default(), &delivery, &mut output);
            }
            session.flush(Now::default(), &mut Output { framing: FRAMING, queue: &mut queue });
            black_box(queue.len());
            queue.clear(1 << 20);
        }
        let nanos = begin.elapsed().as_nanos() as f64 / (TURNS * TURN) as f64;
        println!("UPDATES of 1 KiB, {name}: {nanos:.0} ns per delivery");
    }
}

fn run(topic: usize) -> SharedRun {
    let path = Path::parse(&format!("load/{topic}")).unwrap();
    let destination = Destination { kind: Kind::Topic, path };
    let mut run = Run::single(destination, Time::ZERO, b"", &[7; 1024], Meta::default());
    run.number(ShardId(topic as u16 % 2), topic as u64 + 1);
    run.set_version(topic as u64 + 1);
    SharedRun::new(Arc::new(run))
}

fn session(flags: u64) -> Box<dyn Session> {
    let native = protocol(Arc::new(NativeOptions::default()), Arc::from([]));
    let peer = "127.0.0.1:1".parse().unwrap();
    let mut session = (native.open)(&Opening::new(FRAMING, peer, Now::default()));
    let (mut commands, mut queue) = (Commands::new(), OutQueue::new());
    let output = Output { framing: FRAMING, queue: &mut queue };
    let mut context = Context::new(&mut commands, output);
    let mut bytes = Vec::new();
    let hello = Hello {
        version: 1,
        auth: Auth::Anonymous,
        codecs: vec![],
        client: "",
        position: b"",
        host: None,
        edge: None,
    };
    ClientMessage::Hello(hello).write(&mut bytes);
    for key in 0..SUBSCRIPTIONS {
        let message = SubscribeMessage {
            request: key + 1,
            subscription: key,
            flags,
            kind: Kind::Topic,
            path: "load/1",
            selector: None,
            prefetch: None,
            position: None,
            replay: None,
            interval_ms: None,
            start: None,
            credit: None,
        };
        ClientMessage::Subscribe(message).write(&mut bytes);
    }
    let message = Incoming { text: false, bytes: &bytes };
    session.message(Now::default(), message, &mut context).unwrap();
    let logged_in = Reply::LoggedIn { name: "a".into(), anonymous: false, host: None };
    session.reply(Now::default(), logged_in, &mut context).unwrap();
    session
}
