//! What becomes of an idempotency key when the broker takes too long, and of a stream that the broker ends, by one session
//! alone.
#![allow(clippy::disallowed_types, clippy::unwrap_used, clippy::expect_used)]

use std::net::SocketAddr;
use std::sync::Arc;

use crate::support::Memory;
use tiderace_base::{Close, CloseCode, Now, Span};
use tiderace_events::{EventsOptions, protocol};
use tiderace_wire::{
    Command, Commands, Confirm, Context, Framing, Opening, OutQueue, Output, Reply, Request,
};

/// The answer to a message sent under a key whose confirmation does not come, and how much was sent.
fn send(options: &Arc<EventsOptions>, now: &mut Now) -> (u16, usize) {
    let events = protocol(Arc::clone(options));
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let fields: &[(&str, &[u8])] = &[("Idempotency-Key", b"k")];
    let (method, path, body) = ("POST", "/queues/q", &b"one"[..]);
    let request = Request { method, path, query: None, fields, body, peer };
    let opening = Opening { request: Some(&request), ..Opening::new(Framing::Stream, peer, *now) };
    let mut session = (events.open)(&opening);
    let (mut commands, mut queue) = (Commands::new(), OutQueue::new());
    let output = Output { framing: Framing::Stream, queue: &mut queue };
    let mut context = Context::new(&mut commands, output);
    session.request(*now, &request, &mut context).expect("it is taken");
    context.commands.drain().for_each(drop);
    session
        .reply(
            *now,
            Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None },
            &mut context,
        )
        .expect("it goes on");
    let sent = context.commands.drain().count();
    let mut answer = context.actions.take_response();
    if answer.is_none() {
        now.time = session.deadline();
        session.expire(*now, &mut context).expect("it answers");
        answer = context.actions.take_response();
    }
    (answer.expect("an answer").status, sent)
}

#[test]
fn what_may_be_done_yet_is_not_done_again() {
    let options = Arc::new(EventsOptions {
        idempotency: Some(Memory::new(1 << 20, Span::from_secs(600))),
        ..EventsOptions::default()
    });
    let mut now = Now::default();
    assert_eq!(send(&options, &mut now), (504, 1));
    assert_eq!(send(&options, &mut now), (409, 0), "it would be sent twice");
    now.time = now.time + Span::from_secs(600);
    assert_eq!(send(&options, &mut now), (504, 1), "its time is over");
}

#[test]
fn a_stream_whose_subscription_is_ended_says_so_last() {
    let (options, now) = (Arc::new(EventsOptions::default()), Now::default());
    let events = protocol(options);
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let (method, path, query, body) = ("GET", "/events", Some("topic=a"), &b""[..]);
    let request = Request { method, path, query, fields: &[], body, peer };
    let opening = Opening { request: Some(&request), ..Opening::new(Framing::Stream, peer, now) };
    let mut session = (events.open)(&opening);
    let (mut commands, mut queue) = (Commands::new(), OutQueue::new());
    let output = Output { framing: Framing::Stream, queue: &mut queue };
    let mut context = Context::new(&mut commands, output);
    session.request(now, &request, &mut context).expect("it is taken");
    let in_it = Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None };
    session.reply(now, in_it, &mut context).expect("it goes on");
    let subscribed = context.commands.drain().find_map(|command| match command {
        Command::Subscribe(subscribe) => Some((subscribe.key, subscribe.confirm)),
        _ => None,
    });
    let (key, confirm) = subscribed.expect("it subscribes");
    let confirmed = Reply::Confirmed(Confirm::one(confirm.expect("it waits for that")));
    session.reply(now, confirmed, &mut context).expect("it goes on");
    assert!(session.is_established() && context.actions.take_response().is_none(), "it streams");
    let close = Close::new(CloseCode::UpstreamAway, "It is away.");
    let ended = Reply::SubscriptionEnded { key, close: close.clone() };
    let end = session.reply(now, ended, &mut context);
    assert_eq!(end, Err(close.clone()));
    let mut output = Output { framing: Framing::Stream, queue: &mut queue };
    session.goodbye(&close, &mut output);
    let said = String::from_utf8(queue.take_bytes()).unwrap();
    let last = "event: end\ndata: {\"code\":\"upstream-away\",\"message\":\"It is away.\"}\n\n";
    assert!(said.ends_with(last), "{said}");
}
