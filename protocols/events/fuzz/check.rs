//! What must hold for any request: no panic, exactly one answer, and an answer that can be written.
//! Shared by the fuzz targets and by the test that replays the corpus.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_base::{CloseCode, Now, Span, Time};
use tiderace_events::{EventsOptions, decode_form, decode_path, protocol};
use tiderace_wire::{
    Answer, Command, Commands, Confirm, Context, Delivery, Destination, Flags, Framing, Kind, Meta,
    Opening, OperationResult, OutQueue, Output, Reply, Request, Response, Route, Run,
    SessionAction, SharedRun, SubscriptionKey,
};

/// What is decoded and encoded again is decoded as the same.
pub fn uri(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for decode in [decode_path, decode_form] {
        if let Some(plain) = decode(text) {
            assert!(plain.len() <= text.len());
            let encoded: String = plain.bytes().map(|byte| format!("%{byte:02x}")).collect();
            assert_eq!(decode(&encoded), Some(plain));
        }
    }
}

/// Lines: method, path with query, fields; behind an empty one the body.
pub fn request(data: &[u8]) {
    let end = data.windows(2).position(|two| two == b"\n\n");
    let (head, body) = match end {
        Some(at) => (&data[..at], &data[at + 2..]),
        None => (data, &b""[..]),
    };
    let Ok(head) = std::str::from_utf8(head) else { return };
    let mut lines = head.split('\n');
    let method = lines.next().unwrap_or("");
    let target = lines.next().unwrap_or("");
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let fields: Vec<(&str, &[u8])> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name, value.as_bytes()))
        .collect();
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let request = Request { method, path, query, fields: &fields, body, peer };
    for refuses in [false, true] {
        play(&request, refuses);
    }
}

fn play(request: &Request<'_>, refuses: bool) {
    let events = protocol(Arc::new(EventsOptions {
        message_bytes_max: 200,
        batch_bytes_max: 300,
        batch_items_max: 4,
        topics_max: 3,
        list_max: 3,
        ..EventsOptions::default()
    }));
    let face = events.http.as_ref().expect("it is reached by HTTP");
    match (face.route)(request) {
        None => return,
        Some(Route::Respond(response)) => return check(&response),
        Some(_) => {}
    }
    let opening = Opening {
        request: Some(request),
        ..Opening::new(Framing::Stream, request.peer, Now::default())
    };
    let mut session = (events.open)(&opening);
    let mut commands = Commands::new();
    let mut queue = OutQueue::new();
    let mut answers = 0;
    let mut streams = false;
    let mut now = Now::default();
    let mut context =
        Context::new(&mut commands, Output { framing: Framing::Stream, queue: &mut queue });
    let answer = session.request(now, request, &mut context).expect("the first request is taken");
    if let Answer::Respond(response) = answer {
        assert!(context.is_finished());
        return check(&response);
    }
    let mut replies = vec![Reply::LoggedIn { name: "ann".into(), anonymous: false }];
    while let Some(reply) = replies.pop() {
        for command in commands.drain() {
            assert!(matches!(command, Command::Login(_)), "nothing precedes the login");
        }
        let mut context =
            Context::new(&mut commands, Output { framing: Framing::Stream, queue: &mut queue });
        let began = matches!(reply, Reply::LoggedIn { .. });
        session.reply(now, reply, &mut context).expect("replies end no session");
        let is_over = context.is_finished();
        for action in context.actions.iter() {
            match action {
                SessionAction::Respond(response) => {
                    check(response);
                    answers += 1;
                }
                SessionAction::RespondWithStream(response) => {
                    check(response);
                    answers += 1;
                    // HEAD gets the head of a stream, and that is its end.
                    streams |= !is_over;
                }
                _ => {}
            }
        }
        if began {
            replies.extend(commands.drain().filter_map(|command| answered(&command, refuses)));
        }
    }
    let run = delivered();
    let delivery = Delivery {
        key: SubscriptionKey(0),
        run: &run,
        from: 0,
        to: run.run().len(),
        redeliveries: 0,
        reached: 9,
        exchange: None,
    };
    let mut output = Output { framing: Framing::Stream, queue: &mut queue };
    session.deliver(now, &delivery, &mut output);
    session.flush(now, &mut output);
    if let Some(response) = session.answer(now) {
        check(&response);
        answers += 1;
    }
    now.time = Time::ZERO + Span::from_secs(100_000);
    let mut context =
        Context::new(&mut commands, Output { framing: Framing::Stream, queue: &mut queue });
    session.expire(now, &mut context).expect("time ends no session in disorder");
    answers += usize::from(context.actions.take_response().is_some());
    assert_eq!(answers, 1, "one answer");
    session.goodbye(
        &CloseCode::ShuttingDown.into(),
        &mut Output { framing: Framing::Stream, queue: &mut queue },
    );
    assert_eq!(queue.is_empty(), !streams, "only streams write");
}

/// The broker's answer to a command.
fn answered(command: &Command, refuses: bool) -> Option<Reply> {
    let token = match command {
        Command::Subscribe(subscribe) => subscribe.confirm?,
        Command::Publish { confirm, .. } => confirm.as_ref()?.from,
        Command::Call(_) => return None,
        Command::Operate { token, .. } if !refuses => {
            let result = Box::new(OperationResult::Done);
            return Some(Reply::Operated { token: *token, result });
        }
        Command::Operate { token, .. } => *token,
        other => panic!("{other:?} is not for requests"),
    };
    Some(if refuses {
        Reply::Refused { token: Some(token), close: CloseCode::NotAuthorised.into() }
    } else {
        Reply::Confirmed(Confirm::one(token))
    })
}

fn delivered() -> SharedRun {
    let path = tiderace_topics::Path::parse("a/b").expect("a path");
    let destination = Destination { kind: Kind::Topic, path };
    let meta = Meta { flags: Flags::RETAIN, expires_ms: None };
    SharedRun::new(Arc::new(Run::single(destination, Time::ZERO, b"k:v\n", b"x\ny", meta)))
}

/// An answer that can be written: no line breaks in fields, a status that exists.
fn check(response: &Response) {
    assert!((200..600).contains(&response.status));
    for (name, value) in &response.headers {
        assert!(value.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{name}: {value:?}");
    }
}
