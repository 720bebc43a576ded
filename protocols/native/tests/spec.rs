//! What `docs/protocol.md` says, sentence by sentence where a test can.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::support::{self, Rig, hello, run, subscribe, topic};
use tiderace_base::{Close, CloseCode, ShardId, Span};
use tiderace_native::NativeOptions;
use tiderace_native::codec::{
    Auth, CallMessage, ClientMessage, Destination, Hello, Publish, SendMessage, SettleMessage,
    SubscribeMessage, flag, subscribe as flags,
};
use tiderace_wire::{
    Command, Confirm, Exchange, ExchangeKey, Flags, Framing, Kind, Outcome, Position, Prefetch,
    Reply, SharedRun, Target,
};

fn publish(request: u32, path: &'static str, body: &'static [u8]) -> ClientMessage<'static> {
    ClientMessage::Publish(Publish {
        request,
        flags: 0,
        destination: Destination::Path(Kind::Topic, path),
        expires_ms: None,
        properties: b"",
        body,
    })
}

fn code(rig: &Rig) -> Option<CloseCode> {
    rig.end.as_ref().map(|close| close.code)
}

// Section 4: "HELLO comes first and once."
#[test]
fn hello_comes_first_and_once() {
    let mut rig = Rig::fresh(NativeOptions::default());
    rig.send(&ClientMessage::Bye);
    assert_eq!(code(&rig), Some(CloseCode::UnexpectedFrame));
    assert!(rig.received()[0].starts_with("Close { code: 323, slug: \"unexpected-frame\""));
    let mut rig = Rig::new();
    rig.send(&hello());
    assert_eq!(code(&rig), Some(CloseCode::UnexpectedFrame));
}

// "More may follow at once, without waiting for WELCOME."
#[test]
fn what_follows_hello_waits_for_the_login() {
    let mut rig = Rig::fresh(NativeOptions::default());
    let mut bytes = Vec::new();
    hello().write(&mut bytes);
    publish(1, "a", b"x").write(&mut bytes);
    rig.send_bytes(&bytes);
    rig.send(&publish(2, "b", b"y"));
    assert!(matches!(&rig.commands[..], [Command::Login(_)]));
    assert!(!rig.session.is_established());
    rig.reply(Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None });
    assert_eq!(rig.commands.len(), 3);
    let welcome = &rig.received()[0];
    assert!(welcome.contains("name: \"ann\", epoch: [172, 2]"), "{welcome}");
    assert!(welcome.contains("codecs: [1]"), "{welcome}");
    assert!(rig.session.is_established());
    let mut rig = Rig::fresh(NativeOptions::default());
    rig.send(&hello());
    rig.send_bytes(&vec![0x0c; 70_000]);
    assert_eq!(code(&rig), Some(CloseCode::FrameTooLarge));
}

// Section 5: "a refused login is answered by CLOSE."
#[test]
fn a_refused_login_ends_the_connection() {
    let mut rig = Rig::fresh(NativeOptions::default());
    rig.send(&hello());
    rig.reply(Reply::Refused { token: None, close: CloseCode::LoginFailed.into() });
    assert!(rig.received()[0].contains("Close { code: 400, slug: \"login-failed\""));
    let mut rig = Rig::fresh(NativeOptions::default());
    let deadline = rig.session.deadline();
    rig.now.time = deadline;
    rig.call(|session, now, context| session.expire(now, context));
    assert_eq!(code(&rig), Some(CloseCode::LoginTimeout));
}

// "LOGIN renews a token ... If it is refused, the connection goes on as it was."
#[test]
fn a_session_can_log_in_again() {
    let mut rig = Rig::new();
    rig.send(&ClientMessage::Login { request: 1, auth: Auth::Token("t") });
    assert!(
        matches!(&rig.commands[..], [Command::Login(who)] if who.token.as_deref() == Some("t"))
    );
    rig.reply(Reply::Refused { token: None, close: Close::new(CloseCode::LoginFailed, "no") });
    assert_eq!(
        rig.received(),
        ["Error { request: 1, code: 400, slug: \"login-failed\", sentence: \"no\" }"]
    );
    rig.send(&ClientMessage::Login {
        request: 2,
        auth: Auth::Password { user: "bob", password: "p" },
    });
    rig.reply(Reply::LoggedIn { name: "bob".into(), anonymous: false, host: None });
    assert_eq!(rig.received(), ["LoggedIn { request: 2, name: \"bob\" }"]);
    rig.commands.clear();
    rig.send(&publish(0, "~/inbox", b""));
    let [Command::Publish { run, .. }] = &rig.commands[..] else { panic!() };
    assert_eq!(run.destination().path.as_str(), "user/bob/inbox");
}

// Section 3: `~/` stands for any name that is one level of a path; a `?` says nothing there.
#[test]
fn own_topics_are_those_of_any_name_that_is_a_level() {
    for (name, expected) in [
        ("?bob", Some("user/?bob/inbox")),
        ("[b]", Some("user/[b]/inbox")),
        ("a/b", None),
        ("b*", None),
    ] {
        let mut rig = Rig::new();
        rig.send(&ClientMessage::Login { request: 1, auth: Auth::Token("t") });
        rig.reply(Reply::LoggedIn { name: name.into(), anonymous: false, host: None });
        rig.commands.clear();
        rig.send(&publish(0, "~/inbox", b""));
        let path = rig.commands.first().map(|command| match command {
            Command::Publish { run, .. } => run.destination().path.to_string(),
            other => panic!("{other:?}"),
        });
        assert_eq!(path.as_deref(), expected, "{name}");
    }
}

// Section 3: request ids.
#[test]
fn request_ids_rise_by_one() {
    let mut rig = Rig::new();
    rig.send(&publish(1, "a", b""));
    rig.send(&publish(2, "a", b""));
    rig.reply(Reply::Confirmed(Confirm { from: 1, to: 2 }));
    assert_eq!(rig.received(), ["Ok { first: 1, last: 2 }"]);
    rig.send(&publish(4, "a", b""));
    assert_eq!(code(&rig), Some(CloseCode::BadHeader));
    let mut rig = Rig::new();
    rig.send(&ClientMessage::Subscribe(subscribe(0, 0, 0, "a")));
    assert_eq!(code(&rig), Some(CloseCode::BadHeader));
}

#[test]
fn subscribe_says_what_it_means() {
    let mut rig = Rig::new();
    let position = {
        let mut bytes = Vec::new();
        Position::new(7).write(&mut bytes);
        bytes
    };
    rig.send(&ClientMessage::Subscribe(SubscribeMessage {
        kind: Kind::Queue,
        flags: flags::EXPLICIT | flags::EXCLUSIVE | flags::PATTERN | flags::RECOVERABLE,
        selector: Some("x > 1"),
        prefetch: Some(Prefetch { messages: 5, bytes: 6 }),
        position: Some(&position),
        ..subscribe(1, 3, 0, "~/jobs/*")
    }));
    let [Command::Subscribe(wish)] = &rig.commands[..] else { panic!() };
    assert!(wish.explicit && wish.exclusive && wish.recoverable);
    assert!(!wish.retained && !wish.deltas && wish.selector.is_some());
    assert_eq!((wish.key.0, wish.confirm), (3, Some(1)));
    assert_eq!(wish.prefetch, Some(Prefetch { messages: 5, bytes: 6 }));
    assert_eq!(wish.since, Some(Position::new(7)));
    let [Target::Pattern(Kind::Queue, pattern)] = &wish.targets[..] else { panic!() };
    assert_eq!(pattern.as_str(), "user/ann/jobs/*");
}

// Section 3: "A topic selector names many"; "a topic that several members of a set match comes once" is the broker's part.
#[test]
fn topic_selectors_are_sets_and_expressions_too() {
    let mut rig = Rig::new();
    let targets = |rig: &mut Rig| -> Vec<String> {
        let commands = std::mem::take(&mut rig.commands);
        let [Command::Subscribe(wish)] = &commands[..] else { panic!("{commands:?}") };
        let spelled = wish.targets.iter().map(|target| match target {
            Target::Exact(destination) => format!("{}", destination.path),
            Target::Pattern(_, pattern) => format!("pattern {pattern}"),
        });
        spelled.collect()
    };
    let text = "[a/b, c/**, ?~/[0-9]{1,,3}, a/b]";
    rig.send(&ClientMessage::Subscribe(subscribe(1, 0, flags::PATTERN, text)));
    assert_eq!(targets(&mut rig), ["a/b", "pattern c/**", "pattern ?user/ann/[0-9]{1,3}"]);
    rig.send(&ClientMessage::Subscribe(subscribe(2, 1, flags::PATTERN, "?fx/[A-Z]{3}/.*")));
    assert_eq!(targets(&mut rig), ["pattern ?fx/[A-Z]{3}/.*"]);
    rig.deliver(0, &topic("a/b", 1, 1, &[b"one"]));
    rig.flush();
    let announced = "Topic { topic: 0, subscription: 0, path: \"a/b\" }";
    assert_eq!(rig.received(), [announced, "Updates 8:0 Full(1) one"]);
    let long = format!("?{}", "(".repeat(60_000));
    for (request, text, flags) in [
        (3, "?fx/(a", flags::PATTERN),
        (4, "[a, b", flags::PATTERN),
        (5, "?fx/a", 0),
        (6, "[a]", 0),
        (7, &long, flags::PATTERN),
    ] {
        rig.send(&ClientMessage::Subscribe(subscribe(request, 9, flags, text)));
        assert!(rig.commands.is_empty(), "{text}");
        let received = rig.received().concat();
        let expected = format!("request: {request}");
        assert!(received.contains(&expected) && received.contains("bad-destination"), "{received}");
        assert!(received.len() < 600, "{} bytes", received.len());
    }
}

// A client may not take a number again before "the answer to UNSUBSCRIBE has come"; one that does is
// not left with a subscription that the broker holds and the session does not know.
#[test]
fn a_late_refusal_is_not_held_against_the_next_of_that_number() {
    let mut rig = Rig::new();
    rig.send(&ClientMessage::Subscribe(subscribe(1, 0, 0, "a")));
    rig.send(&ClientMessage::Unsubscribe { request: 2, subscription: 0 });
    rig.send(&ClientMessage::Subscribe(subscribe(3, 0, 0, "b")));
    rig.reply(Reply::Refused { token: Some(1), close: CloseCode::NotAuthorised.into() });
    rig.confirm(2);
    rig.confirm(3);
    rig.send(&ClientMessage::Subscribe(subscribe(4, 0, 0, "c")));
    let received = rig.received().join("\n");
    assert!(
        received.contains("not-authorised") && received.contains("duplicate-subscription"),
        "{received}"
    );
}

// "It is free again ... when its SUBSCRIBE was refused."
#[test]
fn refused_requests_cost_no_more_than_themselves() {
    let mut rig = Rig::new();
    rig.send(&ClientMessage::Subscribe(subscribe(1, 0, 0, "a//b")));
    rig.send(&ClientMessage::Subscribe(subscribe(2, 99_999, 0, "a")));
    rig.send(&ClientMessage::Subscribe(subscribe(3, 0, 0, "a")));
    rig.send(&ClientMessage::Subscribe(subscribe(4, 0, 0, "b")));
    rig.reply(Reply::Refused { token: Some(3), close: CloseCode::NotAuthorised.into() });
    rig.send(&ClientMessage::Subscribe(subscribe(5, 0, 0, "b")));
    rig.send(&ClientMessage::Unsubscribe { request: 6, subscription: 1 });
    rig.send(&publish(7, "a/*", b""));
    let mut selector = subscribe(8, 1, 0, "b");
    selector.selector = Some("x >");
    rig.send(&ClientMessage::Subscribe(selector));
    let received = rig.received();
    let slugs: Vec<&str> = received.iter().map(|line| line.split('"').nth(1).unwrap()).collect();
    assert_eq!(
        slugs,
        [
            "bad-destination",
            "too-many-subscriptions",
            "duplicate-subscription",
            "not-authorised",
            "unknown-subscription",
            "bad-destination",
            "bad-selector"
        ]
    );
    assert_eq!(rig.commands.len(), 2);
    assert_eq!(rig.end, None);
}

// Section 6 and "instead of paths": exact subscriptions use their own id; versions.
#[test]
fn updates_of_one_path_use_the_subscription_id() {
    let mut rig = Rig::new();
    rig.subscribe(1, 5, 0, "a");
    rig.deliver(5, &topic("a", 1, 62, &[b"one", b"two"]));
    rig.deliver(5, &topic("a", 3, 64, &[b"three"]));
    rig.deliver(5, &topic("a", 4, 65, &[b"four"]));
    rig.flush();
    assert_eq!(
        rig.received(),
        ["Updates 0:5 Full(62) one, 0:5 Low(63) two, 0:5 Low(64) three, 0:5 Low(65) four"]
    );
    rig.deliver(9, &topic("a", 5, 66, &[b"not mine"]));
    rig.flush();
    assert_eq!(rig.received(), [""; 0]);
}

// Section 5: "TOPIC comes before the first message that uses the id."
#[test]
fn topics_of_patterns_are_announced() {
    let mut rig = Rig::new();
    rig.subscribe(1, 0, flags::PATTERN, "fx/*");
    rig.deliver(0, &topic("fx/a", 1, 1, &[b"one"]));
    rig.deliver(0, &topic("fx/b", 2, 9, &[b"two"]));
    rig.deliver(0, &topic("fx/a", 3, 2, &[b"three"]));
    rig.flush();
    assert_eq!(
        rig.received(),
        [
            "Topic { topic: 0, subscription: 0, path: \"fx/a\" }",
            "Updates 8:0 Full(1) one",
            "Topic { topic: 1, subscription: 0, path: \"fx/b\" }",
            "Updates 8:1 Full(9) two, 8:0 Low(2) three"
        ]
    );
}

// Section 4: SETTLE "names queue messages by home and number, as QUEUED gave them."
#[test]
fn queue_messages_are_settled_by_number() {
    let mut rig = Rig::new();
    rig.send(&ClientMessage::Subscribe(SubscribeMessage {
        kind: Kind::Queue,
        ..subscribe(1, 2, flags::EXPLICIT, "jobs")
    }));
    rig.confirm(1);
    rig.received();
    rig.commands.clear();
    let jobs = SharedRun::new(Arc::new(run(Kind::Queue, "jobs", 7, 0, &[b"a", b"b", b"c"])));
    rig.deliver_part(2, &jobs, 1, 3);
    rig.deliver_part(2, &jobs, 0, 1);
    rig.flush();
    assert_eq!(
        rig.received(),
        ["Queued 0:2 home 1 from 8 again 0: b, c", "Queued 0:2 home 1 from 7 again 0: a"]
    );
    rig.send(&ClientMessage::Settle(SettleMessage {
        request: 2,
        subscription: 2,
        home: 1,
        reject: true,
        ranges: vec![(7, 7), (9, 9)],
    }));
    let [Command::Settle(settle)] = &rig.commands[..] else { panic!() };
    assert_eq!((settle.outcome, settle.confirm), (Outcome::Reject, Some(2)));
    assert_eq!(settle.ranges, [(7, 7), (9, 9)]);
    rig.send(&ClientMessage::Settle(SettleMessage {
        request: 0,
        subscription: 2,
        home: 9,
        reject: false,
        ranges: vec![],
    }));
    assert_eq!(code(&rig), Some(CloseCode::BadHeader));
}

// Section 2, content; section 4, PUBLISH and DECLARE.
#[test]
fn publishing_to_declared_and_spelled_paths() {
    let mut rig = Rig::new();
    rig.send(&ClientMessage::Declare { declared: 2, kind: Kind::Queue, path: "jobs" });
    rig.send(&ClientMessage::Publish(Publish {
        request: 0,
        flags: 1 | flag::RETAIN | flag::PERSISTENT,
        destination: Destination::Declared(2),
        expires_ms: Some(50),
        properties: b"k:v\n",
        body: b"{}",
    }));
    let [Command::Publish { run, .. }] = &rig.commands[..] else { panic!() };
    assert_eq!((run.destination().kind, run.destination().path.as_str()), (Kind::Queue, "jobs"));
    let message = run.message(0).unwrap();
    assert!(message.flags.contains(Flags::PERSISTENT) && message.flags.contains(Flags::RETAIN));
    assert_eq!(message.properties, b"content-type:application/json\nk:v\n");
    assert_eq!((message.body, message.expires_ms), (&b"{}"[..], Some(1_000_050)));
    rig.send(&ClientMessage::Publish(Publish {
        request: 1,
        flags: 0,
        destination: Destination::Path(Kind::Service, "s"),
        expires_ms: None,
        properties: b"",
        body: b"",
    }));
    assert!(rig.received()[0].contains("bad-destination"));
    rig.send(&ClientMessage::Publish(Publish {
        request: 0,
        flags: 0,
        destination: Destination::Declared(1),
        expires_ms: None,
        properties: b"",
        body: b"",
    }));
    assert_eq!(code(&rig), Some(CloseCode::BadHeader));
}

// Section 7.
#[test]
fn positions_are_told_behind_what_they_cover() {
    let mut rig = Rig::new();
    rig.subscribe(1, 0, 0, "a");
    rig.deliver(0, &topic("a", 7, 1, &[b"x"]));
    rig.flush();
    assert_eq!(rig.received(), ["Updates 0:0 Full(1) x"]);
    rig.subscribe(2, 1, flags::RECOVERABLE, "b");
    rig.deliver(1, &topic("b", 8, 1, &[b"y", b"z"]));
    rig.flush();
    assert_eq!(rig.received(), ["Updates 0:1 Full(1) y, 0:1 Low(2) z", "Position([(1, 9)])"]);
}

#[test]
fn a_client_comes_back_to_its_position() {
    let mut rig = Rig::fresh(NativeOptions::default());
    let mut position = Vec::new();
    Position::new(300).write(&mut position);
    let ClientMessage::Hello(hello) = hello() else { panic!() };
    rig.send(&ClientMessage::Hello(Hello { position: &position, ..hello }));
    rig.reply(Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None });
    for (request, key) in [(1, 0), (2, 1)] {
        let path = if key == 0 { "a" } else { "b" };
        rig.send(&ClientMessage::Subscribe(SubscribeMessage {
            position: Some(b""),
            ..subscribe(request, key, flags::RECOVERABLE, path)
        }));
    }
    for command in &rig.commands[1..] {
        let Command::Subscribe(wish) = command else { panic!() };
        assert_eq!(wish.since, Some(Position::new(300)));
    }
    rig.received();
    rig.reply(Reply::Recovered { token: 1, complete: false, continues: true });
    rig.confirm(1);
    assert_eq!(rig.received()[0], "Recovered { request: 1, complete: false, continues: true }");
    // A newer message that overtakes an older one does not move the position past that.
    rig.deliver_reaching(0, &topic("a", 9, 1, &[b"x"]), 0, 1, 5);
    rig.deliver_reaching(1, &topic("b", 8, 1, &[b"y"]), 0, 1, 9);
    rig.flush();
    assert_eq!(rig.received(), ["Updates 0:0 Full(1) x, 0:1 Full(1) y", "Position([(1, 9)])"]);
    rig.reply(Reply::Reached { home: ShardId(0), sequence: 3 });
    assert_eq!(rig.received(), ["Position([(0, 3)])"]);
}

// Section 9.
#[test]
fn exchanges_have_two_sides() {
    let mut rig = Rig::new();
    rig.send(&ClientMessage::Call(CallMessage {
        number: 4,
        flags: 1 | flag::LAST,
        timeout_ms: 0,
        destination: Destination::Path(Kind::Service, "quotes"),
        credit: None,
        properties: b"",
        body: b"{}",
    }));
    rig.send(&ClientMessage::Send(SendMessage {
        number: 9,
        flags: flag::RESPONDER,
        properties: b"k:v\n",
        body: b"x",
    }));
    rig.send(&ClientMessage::Cancel { responder: true, number: 9, code: 100, sentence: "done" });
    let [Command::Call(call), Command::SendExchange(sent), Command::Cancel { exchange, close }] =
        &rig.commands[..]
    else {
        panic!()
    };
    assert_eq!((call.number, call.last, call.timeout), (4, true, Span::from_secs(30)));
    assert_eq!(call.properties, b"content-type:application/json\n");
    assert_eq!((sent.exchange, sent.last), (ExchangeKey::responder(9), false));
    assert_eq!((*exchange, close.code), (ExchangeKey::responder(9), CloseCode::Done));

    let called = SharedRun::new(Arc::new(run(Kind::Service, "quotes", 1, 0, &[b"hi"])));
    let exchange = |key, first| Exchange { key, first, last: !first, bare: false, credit: None };
    rig.deliver_exchange(3, &called, exchange(ExchangeKey::responder(9), true));
    rig.deliver_exchange(0, &called, exchange(ExchangeKey::caller(4), false));
    rig.flush();
    rig.reply(Reply::ExchangeEnded {
        exchange: ExchangeKey::responder(9),
        close: Close::new(CloseCode::PeerGone, "gone"),
    });
    assert_eq!(
        rig.received(),
        [
            "Exchange(ExchangeMessage { flags: 48, number: 9, id: Some(3), properties: [], body: [104, 105] })",
            "Exchange(ExchangeMessage { flags: 8, number: 4, id: None, properties: [], body: [104, 105] })",
            "Ended { responder: true, number: 9, code: 101, slug: \"peer-gone\", sentence: \"gone\" }"
        ]
    );
    rig.send(&ClientMessage::Call(CallMessage {
        number: 5,
        flags: 0,
        timeout_ms: 9,
        destination: Destination::Path(Kind::Topic, "a"),
        credit: None,
        properties: b"",
        body: b"",
    }));
    assert!(rig.received()[0].starts_with("Ended { responder: false, number: 5, code: 500"));
}

// Section 4: CREDIT.
#[test]
fn credit_is_spent_by_what_is_sent() {
    let mut rig = Rig::new();
    rig.subscribe(1, 0, 0, "a");
    assert!(rig.session.wants_deliveries());
    rig.send(&ClientMessage::Credit { bytes: 10 });
    rig.deliver(0, &topic("a", 1, 1, &[b"x"]));
    assert!(rig.session.wants_deliveries());
    rig.deliver(0, &topic("a", 2, 2, &[b"x"]));
    assert!(!rig.session.wants_deliveries());
    rig.flush();
    let sent: usize = rig.frames().iter().map(Vec::len).sum();
    rig.send(&ClientMessage::Credit { bytes: sent as u64 - 10 });
    assert!(!rig.session.wants_deliveries());
    rig.send(&ClientMessage::Credit { bytes: 1 });
    assert!(rig.session.wants_deliveries());
}

// Section 2: extension, refusal of what is unknown.
#[test]
fn unknown_things_are_skipped_or_refused() {
    let mut rig = Rig::new();
    rig.send_bytes(b"\x90\x03abc\x0c\x02hi");
    assert_eq!(rig.received(), ["Pong([104, 105])"]);
    // Bytes behind the last known field.
    rig.send_bytes(b"\x0b\x03\x05xx");
    assert_eq!(rig.end, None);
    for (bytes, code) in [
        (&b"\x20\x00"[..], CloseCode::UnexpectedFrame),
        (b"\x06\x02\x00\x80", CloseCode::BadFrame),
        (b"\x03\x07\x01\x00\x80\x80\x10\x00\x00", CloseCode::BadFrame),
        (b"\x0c", CloseCode::BadFrame),
        (b"\x0c\x05hi", CloseCode::BadFrame),
        (b"\x05\x04\x01\x00\x01\xff", CloseCode::BadText),
        (b"\x05\x05\x01\x07\x01ab", CloseCode::BadFrame),
        (b"\x06\x09\x00\x04\x00\x00\x01a\x02k:", CloseCode::BadHeader),
    ] {
        let mut rig = Rig::new();
        rig.send_bytes(bytes);
        assert_eq!(rig.end.map(|close| close.code), Some(code), "{}", bytes.escape_ascii());
    }
    let mut rig = Rig::new();
    let text = tiderace_wire::Incoming { text: true, bytes: b"hi" };
    rig.call(|session, now, context| session.message(now, text, context));
    assert_eq!(code(&rig), Some(CloseCode::BadFrame));
}

#[test]
fn large_bodies_have_frames_of_their_own() {
    for framing in [Framing::Messages(&support::MESSAGES), Framing::Messages(&support::ARMOURED)] {
        let mut rig = Rig::with(NativeOptions::default(), framing);
        rig.subscribe(1, 0, 0, "a");
        let large = vec![b'x'; 200_000];
        rig.deliver(0, &topic("a", 1, 1, &[b"small", &large, b"small again"]));
        rig.flush();
        let frames = rig.frames();
        assert_eq!(
            frames.iter().map(|frame| frame.len() > 200_000).collect::<Vec<_>>(),
            [false, true, false]
        );
        for _ in 0..100 {
            rig.deliver(0, &topic("a", 4, 4, &[&large[..1000]]));
        }
        rig.flush();
        assert!(rig.frames().iter().all(|frame| frame.len() <= 60_000));
    }
}

// The bound of the first page: at most 8 bytes besides the payload in a batch of 1-KB messages.
#[test]
fn a_message_of_a_batch_costs_eight_bytes_at_most() {
    let mut rig = Rig::new();
    let body = vec![7; 1024];
    for key in 0..1000 {
        rig.subscribe(key + 1, key, flags::RECOVERABLE, "a");
    }
    let mut spent = 0;
    for round in 0..10u64 {
        for key in 0..1000 {
            let version = 100_000_000 + round;
            rig.deliver(key, &topic("a", round * 1000 + u64::from(key), version, &[&body]));
        }
        rig.flush();
        // With the header that WebSocket has for frames of that size.
        spent += rig.frames().iter().map(|frame| frame.len() + 4).sum::<usize>();
    }
    let overhead = (spent - 10_000 * 1024) as f64 / 10_000.0;
    assert!(overhead <= 8.0, "{overhead} bytes");
}

// "at most 16,384 messages besides PUBLISH"
#[test]
fn one_transport_message_asks_for_a_bounded_number_of_answers() {
    let many = |message: ClientMessage<'_>, count: usize| {
        let mut one = Vec::new();
        message.write(&mut one);
        let mut rig = Rig::new();
        rig.send_bytes(&one.repeat(count));
        rig.end.map(|close| close.code)
    };
    let unknown = || ClientMessage::Unsubscribe { request: 0, subscription: 9 };
    assert_eq!(many(unknown(), 16_384), None);
    for message in [unknown(), ClientMessage::Ping(b""), publish(0, "a/*", b"")] {
        assert_eq!(many(message, 16_385), Some(CloseCode::TooManyReceipts));
    }
    assert_eq!(many(publish(0, "a", b""), 100_000), None);
}
