//! What idle streams cost, counted by the allocator, and that messages cost no allocation.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::support::rig::{self, Rig, route, run};
use tiderace_base::Span;
use tiderace_heap::{own_bytes, own_calls};
use tiderace_rsocket::frame::{Frame, Interaction, NUMBER_MAX, Payload};
use tiderace_rsocket::{EchoOptions, RSocketOptions};
use tiderace_wire::{Command, Delivery, Framing, Kind, Output, SubscriptionKey};

fn echoing() -> RSocketOptions {
    let echo = Some(EchoOptions { interval: Span::from_secs(1), bytes_max: 1 << 24 });
    RSocketOptions { echo, ..RSocketOptions::default() }
}

/// Bytes that each of so many streams adds to a session.
fn each(streams: u32, options: RSocketOptions, open: impl Fn(&mut Rig, u32)) -> isize {
    let mut rig = Rig::with(options);
    rig.received();
    let settle = |rig: &mut Rig| {
        rig.commands = Vec::new();
        rig.input = Vec::new();
        rig.queue.take_bytes();
    };
    settle(&mut rig);
    let before = own_bytes();
    for at in 0..streams {
        open(&mut rig, at * 2 + 1);
    }
    settle(&mut rig);
    (own_bytes() - before) / streams as isize
}

#[test]
fn idle_streams_take_little() {
    // The numbers of streams for each connection in the known stress test.
    for streams in [25, 50, 75, 100] {
        let echo = each(streams, echoing(), |rig, stream| {
            rig.request(Interaction::Stream, stream, NUMBER_MAX, None, b"");
        });
        let topic = each(streams, RSocketOptions::default(), |rig, stream| {
            rig.request(Interaction::Stream, stream, NUMBER_MAX, Some(&route("a")), b"");
            let Some(Command::Subscribe(subscribe)) = rig.commands.pop() else { panic!() };
            rig.confirm(subscribe.confirm.unwrap());
        });
        println!("{streams} streams: echo {echo} B, topic {topic} B each (broker aside)");
        assert!(echo <= 110, "an idle echo stream takes {echo} bytes of {streams}");
        assert!(topic <= 130, "an idle subscription takes {topic} bytes of {streams}");
    }
}

#[test]
fn an_idle_session_takes_little() {
    let before = own_bytes();
    let options = std::sync::Arc::new(RSocketOptions::default());
    let shared = own_bytes() - before;
    let registered = tiderace_rsocket::protocol(options, [].into());
    let opening = tiderace_wire::Opening::new(
        Framing::Stream,
        "127.0.0.1:1".parse().unwrap(),
        tiderace_base::Now::default(),
    );
    let before = own_bytes();
    let mut session = (registered.open)(&opening);
    let mut setup = Vec::new();
    let body = tiderace_rsocket::frame::Body::Setup(rig::setup());
    Frame::connection(body).write(Framing::Stream, &mut setup);
    let size = setup.capacity() as isize;
    let (mut commands, mut queue) =
        (tiderace_wire::Commands::new(), tiderace_wire::OutQueue::new());
    {
        let output = Output { framing: Framing::Stream, queue: &mut queue };
        let mut context = tiderace_wire::Context::new(&mut commands, output);
        session.receive(tiderace_base::Now::default(), &setup, &mut context).unwrap();
        let reply =
            tiderace_wire::Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None };
        session.reply(tiderace_base::Now::default(), reply, &mut context).unwrap();
    }
    drop(commands);
    let idle = own_bytes() - before - size;
    println!("an idle session takes {idle} B (options {shared} B, once)");
    assert!(idle <= 300, "an idle session takes {idle} bytes");
    drop(session);
}

#[test]
fn messages_are_sent_without_allocating() {
    let mut rig = Rig::with(echoing());
    rig.request(Interaction::Stream, 1, NUMBER_MAX, Some(&route("fx")), b"");
    rig.request(Interaction::Stream, 3, NUMBER_MAX, None, &[b'x'; 1024]);
    rig.queue.tail().reserve(1 << 16);
    let run = run(Kind::Topic, "fx", 1, &[&[b'v'; 100], &[b'w'; 100]]);
    let (key, exchange) = (SubscriptionKey(0), None);
    let delivery =
        Delivery { key, run: &run, from: 0, to: 2, redeliveries: 0, reached: 0, exchange };
    let mut output = Output { framing: Framing::Stream, queue: &mut rig.queue };
    let allocated = own_calls(|| {
        (0..20).for_each(|_| rig.session.deliver(rig.now, &delivery, &mut output));
    });
    assert_eq!(allocated, 0, "deliveries");
    rig.now.time = rig.now.time + Span::from_secs(2);
    let mut commands = tiderace_wire::Commands::new();
    let mut request = Vec::new();
    let body = tiderace_rsocket::frame::Body::Request(tiderace_rsocket::frame::Request {
        interaction: Interaction::Response,
        follows: false,
        complete: false,
        credit: 0,
        payload: Payload::data(&[b'y'; 512]),
    });
    Frame { stream: 5, body }.write(Framing::Stream, &mut request);
    let output = Output { framing: Framing::Stream, queue: &mut rig.queue };
    let mut context = tiderace_wire::Context::new(&mut commands, output);
    let allocated = own_calls(|| {
        rig.session.expire(rig.now, &mut context).unwrap();
        rig.session.receive(rig.now, &request, &mut context).unwrap();
    });
    assert_eq!(allocated, 0, "echo");
}
