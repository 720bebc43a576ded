//! Nanoseconds per frame of the two paths that every message takes: SEND in, MESSAGE out.
//!
//! `cargo run --release -p tiderace-stomp --example stomp_hot_path`
// It measures, so it reads the clock.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tiderace_base::{Now, Time};
use tiderace_stomp::{StompOptions, protocol};
use tiderace_wire::{
    Command, Commands, Context, Delivery, Framing, MessageFraming, Opening, OutQueue, Output,
    Reply, Run, Session, SharedRun, SubscriptionKey,
};

const FRAMES: usize = 700;
/// Short rounds, and the best of many: other work on the machine is then not counted.
const ROUNDS: usize = 8;
const TRIES: usize = 400;

static MESSAGES: MessageFraming = MessageFraming {
    id: 1,
    text: |len, out| out.extend_from_slice(&[0x81, len as u8]),
    binary: |len, out| out.extend_from_slice(&[0x82, len as u8]),
    armour: None,
};

fn main() {
    let stream = Framing::Stream;
    let bare = "SEND\ndestination:/topic/load-0\ncontent-length:20\n\n12345678901234567890\0";
    let rich = "SEND\ndestination:/topic/load-0\ncontent-type:text/plain\nx-price:1.0842\n\
        persistent:true\ncontent-length:20\n\n12345678901234567890\0";
    let text = "SEND\ndestination:/topic/load-0\n\n12345678901234567890\0";
    for (name, frame) in [("bare", bare), ("no length", text), ("4 more headers", rich)] {
        let (mut session, mut commands) = connected(stream);
        println!("SEND {name}: {:.1} ns", receive(&mut *session, &mut commands, frame));
        let run = last_run(&mut *session, &mut commands, frame);
        for (form, framing) in [("stream", stream), ("WebSocket", Framing::Messages(&MESSAGES))] {
            for (mode, ack) in [("auto", ""), ("client", "ack:client\n")] {
                let (mut session, mut commands) = connected(framing);
                let subscribe = format!("SUBSCRIBE\nid:0\n{ack}destination:/topic/load-0\n\n\0");
                feed(&mut *session, &mut commands, subscribe.as_bytes());
                let cost = deliver(&mut *session, framing, &run);
                println!("MESSAGE {name}, {form}, {mode}: {cost:.1} ns");
            }
        }
    }
}

fn connected(framing: Framing) -> (Box<dyn Session>, Commands) {
    let stomp = protocol(Arc::new(StompOptions::default()), Arc::from([]));
    let peer = "127.0.0.1:1".parse().unwrap();
    let opening = Opening::new(framing, peer, Now::default());
    let mut session = (stomp.open)(&opening);
    let mut commands = Commands::new();
    feed(&mut *session, &mut commands, b"CONNECT\naccept-version:1.2\nhost:a\n\n\0");
    let mut queue = OutQueue::new();
    let mut context = context(&mut commands, &mut queue);
    session
        .reply(
            Now::default(),
            Reply::LoggedIn { name: "a".into(), anonymous: false, host: None },
            &mut context,
        )
        .unwrap();
    commands.drain();
    (session, commands)
}

fn context<'a>(commands: &'a mut Commands, queue: &'a mut OutQueue) -> Context<'a> {
    let output = Output { framing: Framing::Stream, queue };
    Context::new(commands, output)
}

fn feed(session: &mut dyn Session, commands: &mut Commands, input: &[u8]) {
    let mut queue = OutQueue::new();
    let mut context = context(commands, &mut queue);
    let progress = session.receive(Now::default(), input, &mut context).unwrap();
    assert_eq!(progress.consumed, input.len());
}

fn receive(session: &mut dyn Session, commands: &mut Commands, frame: &str) -> f64 {
    let input = frame.repeat(FRAMES).into_bytes();
    let mut best = f64::MAX;
    for _ in 0..TRIES {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            feed(session, commands, black_box(&input));
            black_box(commands.drain().count());
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (FRAMES * ROUNDS) as f64);
    }
    best
}

fn last_run(session: &mut dyn Session, commands: &mut Commands, frame: &str) -> Arc<Run> {
    feed(session, commands, frame.repeat(FRAMES).as_bytes());
    let run = commands.drain().find_map(|command| match command {
        Command::Publish { mut run, .. } => {
            run.number(Default::default(), 1_000_000);
            Some(run)
        }
        _ => None,
    });
    Arc::new(run.unwrap())
}

fn deliver(session: &mut dyn Session, framing: Framing, run: &Arc<Run>) -> f64 {
    let mut best = f64::MAX;
    let mut queue = OutQueue::new();
    for _ in 0..TRIES {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let shared = SharedRun::new(run.clone());
            let delivery = Delivery {
                key: SubscriptionKey(0),
                run: &shared,
                from: 0,
                to: run.len(),
                redeliveries: 0,
                reached: 0,
                exchange: None,
            };
            let mut output = Output { framing, queue: &mut queue };
            session.deliver(Now { time: Time::ZERO, wall_ms: 0 }, &delivery, &mut output);
            black_box(queue.len());
            queue.clear(usize::MAX);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (run.len() * ROUNDS) as f64);
    }
    best
}
