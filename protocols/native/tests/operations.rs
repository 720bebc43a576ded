//! Operations on topics and what subscriptions ask for beside values, as `docs/protocol.md` has them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::support::{ARMOURED, MESSAGES, Rig, hello, run, subscribe};
use tiderace_base::{Close, CloseCode, Span};
use tiderace_native::NativeOptions;
use tiderace_native::codec::{
    ClientMessage, Messages, OperateMessage, ServerMessage, SettleMessage, SubscribeMessage, flag,
    subscribe as flags,
};
use tiderace_topics::Path;
use tiderace_wire::{
    Change, Command, Event, Events, Framing, Kind, LeaveReason, NewValue, Operation,
    OperationResult, Page, PeekedMessage, PeekedMessages, Replay, Reply, SubscriptionKey,
    TopicEntry,
};

fn operate<'a>(request: u32, operation: &'a str, body: Option<&'a [u8]>) -> ClientMessage<'a> {
    ClientMessage::Operate(OperateMessage { request, operation, body })
}

fn asked(rig: &mut Rig) -> Vec<(u32, Operation)> {
    let commands = rig.commands.drain(..).map(|command| match command {
        Command::Operate { token, operation } => (token, *operation),
        other => panic!("{other:?}"),
    });
    commands.collect()
}

#[test]
fn operations_are_asked_and_answered() {
    let mut rig = Rig::new();
    let text = r#"{"do":"create","path":"~/a","type":"image/png"}"#;
    rig.send(&operate(1, text, Some(b"\xff")));
    rig.send(&operate(2, r#"{"do":"update","path":"a","value":{"x":1}}"#, None));
    rig.send(&operate(3, r#"{"do":"remove","selector":"[~/a, ?b/.*]"}"#, None));
    let asked = asked(&mut rig);
    let (1, Operation::Create { path, value: Some(value), .. }) = &asked[0] else { panic!() };
    assert_eq!(path.as_str(), "user/ann/a");
    let properties = b"content-type:image/png\n"[..].into();
    assert_eq!(*value, NewValue { properties, body: b"\xff"[..].into() });
    let (2, Operation::Update(update)) = &asked[1] else { panic!() };
    assert_eq!(update.change, Change::Value(br#"{"x":1}"#[..].into()));
    let (3, Operation::Remove { selector }) = &asked[2] else { panic!() };
    let spelled: Vec<&str> = selector.iter().map(|pattern| pattern.as_str()).collect();
    assert_eq!(spelled, ["user/ann/a", "?b/.*"]);
    let result = Box::new(OperationResult::Updated { version: 7 });
    rig.reply(Reply::Operated { token: 2, result });
    let close = Close::new(CloseCode::NotAuthorised, "no");
    rig.reply(Reply::Refused { token: Some(3), close });
    assert_eq!(
        rig.received(),
        [
            "Result(ResultMessage { request: 2, result: \"{\\\"version\\\":7}\", entries: [] })",
            "Error { request: 3, code: 401, slug: \"not-authorised\", sentence: \"no\" }",
        ]
    );
}

#[test]
fn values_come_as_bytes_in_the_order_of_the_text() {
    let mut rig = Rig::new();
    rig.send(&operate(1, r#"{"do":"fetch","selector":"a/**","values":true}"#, None));
    let entry = |path: &str, body: Option<&[u8]>| {
        let value = body.map(|body| Arc::new(run(Kind::Topic, path, 1, 3, &[body])));
        TopicEntry { path: Path::parse(path).unwrap(), spec: None, version: 3, value }
    };
    let topics = vec![entry("a/1", Some(b"one")), entry("a/2", None), entry("a/3", Some(b"\xff"))];
    let page = Page { topics, more: true, next: Some(Path::parse("a/3").unwrap()) };
    rig.reply(Reply::Operated {
        token: 1,
        result: Box::new(OperationResult::Page(Box::new(page))),
    });
    let bytes = rig.frames().concat();
    let text = r#"{"topics":[{"path":"a/1","version":3,"bytes":3},{"path":"a/2","version":3},{"path":"a/3","version":3,"bytes":1}],"more":true,"next":"a/3"}"#;
    // Request 1, the text behind its length, then flags, length and body of each value.
    let payload = [&[1, text.len() as u8, 1][..], text.as_bytes(), b"\0\x03one\0\x01\xff"].concat();
    assert_eq!(bytes, [&[0x4e, payload.len() as u8, 1][..], &payload].concat());
}

// Large bodies go out by reference where the transport lets them, and come out the same.
#[test]
fn large_values_come_whole_on_any_transport() {
    let large = vec![b'x'; 40_000];
    let event = |version, body: &[u8]| {
        let run = Arc::new(run(Kind::Topic, "a", 1, version, &[b"before", body]));
        Event { run, place: 1, version, time_ms: 9, author: None, amends: None }
    };
    let mut received = Vec::new();
    for framing in [&MESSAGES, &ARMOURED] {
        let mut rig = Rig::with(NativeOptions::default(), Framing::Messages(framing));
        rig.send(&operate(1, r#"{"do":"history","path":"a"}"#, None));
        let events = vec![event(1, &large), event(2, b"small"), event(3, &large)];
        let result = OperationResult::Events(Box::new(Events { events, more: false }));
        rig.reply(Reply::Operated { token: 1, result: Box::new(result) });
        let frames = rig.frames();
        let (kind, payload) = Messages::new(&frames[0]).next().unwrap().unwrap();
        let Ok(ServerMessage::Result(result)) = ServerMessage::read(kind, payload) else {
            panic!()
        };
        let bodies: Vec<_> = result.values().map(|value| value.unwrap().body).collect();
        assert_eq!(bodies, [&large[..], b"small", &large]);
        received.push(frames.concat());
    }
    assert_eq!(received[0], received[1]);
}

#[test]
fn what_is_not_understood_costs_the_request_alone() {
    let mut rig = Rig::new();
    rig.send(&operate(1, "{", None));
    rig.send(&operate(2, r#"{"do":"creat","path":"a"}"#, None));
    rig.send(&operate(3, r#"{"do":"create","path":"a//b"}"#, None));
    assert!(rig.commands.is_empty() && rig.end.is_none());
    let received = rig.received();
    for (at, part) in [(0, "bad-operation"), (1, "`do` is one of"), (2, "bad-destination")] {
        assert!(received[at].contains(part), "{received:?}");
    }
    // It is always answered, so it always has an id.
    rig.send(&operate(0, "{}", None));
    assert_eq!(rig.end.unwrap().code, CloseCode::BadHeader);
    let mut rig = Rig::new();
    rig.send_bytes(&[0x0e, 3, 1, flag::BODY << 1, 0]);
    assert_eq!(rig.end.unwrap().code, CloseCode::BadFrame);
}

#[test]
fn queues_are_looked_into_with_their_messages_beside_the_text() {
    let mut rig = Rig::new();
    rig.send(&operate(1, r#"{"do":"peek","path":"~/jobs","selector":"a = 'b'","from":7}"#, None));
    rig.send(&operate(2, r#"{"do":"queues","pattern":"~/**"}"#, None));
    rig.send(&operate(3, r#"{"do":"redrive","path":"dlq/a","to":"a","limit":9}"#, None));
    rig.send(&operate(4, r#"{"do":"peek","path":"a","selector":"a ="}"#, None));
    let asked = asked(&mut rig);
    let [(1, Operation::Peek(peek)), (2, Operation::Browse(browse)), (3, Operation::Move(moved))] =
        &asked[..]
    else {
        panic!("{asked:?}")
    };
    assert_eq!((peek.path.as_str(), peek.from), ("user/ann/jobs", 7));
    assert_eq!(browse.patterns[0].as_str(), "user/ann/**");
    assert_eq!((moved.redrive, moved.limit), (true, Some(9)));
    let message = PeekedMessage {
        run: Arc::new(run(Kind::Queue, "a", 8, 0, &[b"hi"])),
        place: 0,
        position: 8,
        redeliveries: 1,
        age_ms: 5,
        cut: None,
    };
    let page = PeekedMessages { messages: vec![message], next: Some(9) };
    rig.reply(Reply::Operated {
        token: 1,
        result: Box::new(OperationResult::Messages(Box::new(page))),
    });
    let result = OperationResult::Purged { messages: 2, up_to: 9 };
    rig.reply(Reply::Operated { token: 3, result: Box::new(result) });
    let received = rig.received();
    assert!(
        received[0].contains("request: 4") && received[0].contains("bad-selector"),
        "{received:?}"
    );
    let text = r#"{\"messages\":[{\"position\":8,\"redeliveries\":1,\"age_ms\":5,\"persistent\":false,\"bytes\":2}],\"more\":true,\"next\":9}"#;
    assert!(received[1].contains(text), "{received:?}");
    assert!(received[1].contains("entries: [0, 2, 104, 105]"), "{received:?}");
    assert!(received[2].contains(r#"{\"messages\":2,\"up_to\":9}"#), "{received:?}");
}

#[test]
fn so_many_that_read_are_under_way_at_a_time() {
    let mut rig = Rig::new();
    for request in 1..=17 {
        rig.send(&operate(request, r#"{"do":"fetch","selector":"a"}"#, None));
    }
    assert_eq!(asked(&mut rig).len(), 16);
    let received = rig.received();
    assert!(
        received[0].contains("request: 17") && received[0].contains("too-many-receipts"),
        "{received:?}"
    );
    rig.reply(Reply::Operated {
        token: 3,
        result: Box::new(OperationResult::Page(Box::default())),
    });
    rig.reply(Reply::Refused { token: Some(4), close: CloseCode::NotAuthorised.into() });
    rig.send(&operate(18, r#"{"do":"views"}"#, None));
    rig.send(&operate(19, r#"{"do":"history","path":"a"}"#, None));
    rig.send(&operate(20, r#"{"do":"session"}"#, None));
    assert_eq!(asked(&mut rig).len(), 3);
}

#[test]
fn a_goodbye_takes_the_will_back() {
    let mut rig = Rig::new();
    rig.send(&operate(1, r#"{"do":"will","path":"a","text":"gone"}"#, None));
    rig.send(&ClientMessage::Bye);
    assert!(matches!(rig.commands.pop(), Some(Command::Goodbye)));
    assert!(matches!(&asked(&mut rig)[..], [(1, Operation::Will(Some(_)))]));
    assert_eq!(rig.end, Some(CloseCode::Done.into()));
}

// Section 4: REPLAY, INTERVAL, NOTICES; "with RESUME it is left aside".
#[test]
fn subscribe_says_where_to_begin_and_how_often() {
    let mut rig = Rig::new();
    let message = SubscribeMessage {
        replay: Some(Replay::Last(10)),
        interval_ms: Some(1_000),
        ..subscribe(1, 0, flags::NOTICES, "a")
    };
    rig.send(&ClientMessage::Subscribe(message));
    let [Command::Subscribe(wish)] = &rig.commands[..] else { panic!() };
    assert_eq!((wish.replay, wish.interval), (Some(Replay::Last(10)), Span::from_secs(1)));
    assert!(wish.notices);
    rig.commands.clear();
    let resumed = SubscribeMessage { request: 2, subscription: 1, position: Some(b""), ..message };
    rig.send(&ClientMessage::Subscribe(resumed));
    let [Command::Subscribe(wish)] = &rig.commands[..] else { panic!() };
    assert!(wish.replay.is_none() && wish.since.is_some());
}

// Section 5: JOINED, LEFT.
#[test]
fn topics_join_and_leave() {
    let mut rig = Rig::new();
    rig.subscribe(1, 0, flags::PATTERN | flags::NOTICES, "a/**");
    let (key, path) = (SubscriptionKey(0), Path::parse("a/b").unwrap());
    rig.reply(Reply::Joined { key, path: path.clone(), spec: Arc::default(), is_empty: false });
    rig.reply(Reply::Left { key, path: path.clone(), reason: LeaveReason::Removed });
    rig.reply(Reply::Joined { key, path, spec: Arc::default(), is_empty: true });
    let received = rig.received();
    let joined = "Joined { subscription: 0, path: \"a/b\", spec: \"{\\\"type\\\":\\\"any\\\"";
    assert!(received[0].starts_with(joined), "{received:?}");
    assert_eq!(received[1], "Left { subscription: 0, path: \"a/b\", reason: \"removed\" }");
    assert!(received[2].ends_with("is_empty: true }"), "{received:?}");
    // Whether it holds no value is said behind what others know, and only then.
    let written = |is_empty| {
        let mut bytes = Vec::new();
        ServerMessage::Joined { subscription: 0, path: "a", spec: "{}", is_empty }
            .write(&mut bytes);
        bytes
    };
    assert_eq!(written(false), b"\x4f\x06\x00\x01a\x02{}");
    assert_eq!(written(true), b"\x4f\x07\x00\x01a\x02{}\x01");
}

// Section 3: `~/` stands for nothing of a client without a name of its own, as by REST.
#[test]
fn own_topics_take_a_login() {
    let mut rig = Rig::fresh(NativeOptions::default());
    rig.send(&hello());
    rig.reply(Reply::LoggedIn { name: "anonymous".into(), anonymous: true, host: None });
    rig.received();
    rig.send(&ClientMessage::Subscribe(subscribe(1, 0, 0, "~/inbox")));
    rig.send(&operate(2, r#"{"do":"remove","selector":"[a, ~/b]"}"#, None));
    let received = rig.received();
    for (answer, request) in received.iter().zip(1..) {
        let begin = format!("Error {{ request: {request}, code: 402, slug: \"login-required\"");
        assert!(answer.starts_with(&begin), "{answer}");
    }
    assert_eq!((received.len(), rig.end), (2, None));
}

// Section 4: SETTLE of nothing is answered if it asks for that, and is nothing to the broker otherwise.
#[test]
fn settling_nothing_asks_for_its_answer_at_most() {
    let mut rig = Rig::new();
    rig.subscribe(1, 0, flags::EXPLICIT, "jobs");
    let settle = |request| {
        let (subscription, home, reject, ranges) = (0, 1, false, Vec::new());
        ClientMessage::Settle(SettleMessage { request, subscription, home, reject, ranges })
    };
    rig.send(&settle(0));
    assert!(rig.commands.is_empty(), "{:?}", rig.commands);
    rig.send(&settle(2));
    assert!(matches!(&rig.commands[..], [Command::Settle(settle)] if settle.confirm == Some(2)));
    assert_eq!(rig.end, None);
}
