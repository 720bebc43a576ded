//! The client's side of a session, sentence by sentence: what an upstream is asked, and what its answers become.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use tiderace_base::{CloseCode, Now, ShardId, Span, Time};
use tiderace_native::codec::{
    Auth, ClientMessage, Hello, Messages, Numbers, ServerMessage, Update, Version, Welcome,
    feature, flag, subscribe as flags,
};
use tiderace_native::{NativeOptions, UpstreamOptions};
use tiderace_wire::{
    Command, Credentials, Delivery, Flags, Framing, FromUpstream, LeaveReason, Numbering, Position,
    Reply, Run, SharedRun, SubscriptionKey, UpstreamNumbers,
};

use crate::support::edge::Edge;
use crate::support::{self, MESSAGES, Rig, topic};

const EPOCH: u64 = 300;

fn welcome() -> Welcome<'static> {
    Welcome {
        version: 1,
        name: "edge",
        epoch: b"\xac\x02",
        ping_ms: 20_000,
        message_bytes_max: 1 << 20,
        subscriptions_max: 8,
        declarations_max: 10,
        jitter_ms: 0,
        codecs: vec![1],
        server: "tiderace/9",
        features: feature::VALUES | feature::NUMBERED,
        node: "origin",
    }
}

fn options() -> UpstreamOptions {
    UpstreamOptions { upstream: 3, node: "one".into(), ..UpstreamOptions::default() }
}

fn written(messages: &[ServerMessage<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages.iter().for_each(|message| message.write(&mut bytes));
    bytes
}

fn hear(edge: &mut Edge, messages: &[ServerMessage<'_>]) {
    edge.hear(&written(messages));
}

/// What the node has said, as text.
fn said(edge: &mut Edge) -> Vec<String> {
    let mut said = Vec::new();
    for frame in edge.frames() {
        for message in Messages::new(&frame) {
            let (kind, payload) = message.unwrap();
            said.push(format!("{:?}", ClientMessage::read(kind, payload).unwrap()));
        }
    }
    said
}

/// A node that was let in.
fn up() -> Edge {
    up_with(options(), welcome())
}

fn up_with(options: UpstreamOptions, welcome: Welcome<'_>) -> Edge {
    let mut edge = Edge::new(options);
    hear(&mut edge, &[ServerMessage::Welcome(welcome)]);
    assert_eq!(edge.end, None);
    edge.told();
    edge.frames();
    edge
}

/// An update with the number of its version.
fn update(id: u32, flags: u8, version: u64, data: &[u8]) -> Update<'_> {
    let numbers = Some(Numbers { numbering: 1, number: version, reached: version });
    Update { flags, id, version: Version::Full(version), numbers, properties: b"", data }
}

fn entries(updates: &[Update<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    updates.iter().for_each(|update| update.write(&mut bytes));
    bytes
}

/// A broken rule ends the session, and names itself.
fn ends(edge: &mut Edge, messages: &[ServerMessage<'_>], part: &str) {
    hear(edge, messages);
    let end = edge.end.as_ref().unwrap_or_else(|| panic!("it goes on: {messages:?}"));
    assert!(end.reason.contains(part), "{end}");
}

#[test]
fn it_says_who_it_is_and_tells_when_it_is_let_in() {
    let credentials = Credentials {
        login: Some("edge".into()),
        passcode: Some("pw".into()),
        host: Some("shop".into()),
        ..Credentials::default()
    };
    let behind = ["two", "three"].map(str::to_owned).to_vec();
    let mut edge = Edge::new(UpstreamOptions { credentials, behind, ..options() });
    let frames = edge.frames();
    let (kind, payload) = Messages::new(&frames[0]).next().unwrap().unwrap();
    let ClientMessage::Hello(hello) = ClientMessage::read(kind, payload).unwrap() else { panic!() };
    let expected = Hello {
        version: 1,
        auth: Auth::Password { user: "edge", password: "pw" },
        codecs: vec![1],
        client: hello.client,
        position: b"",
        host: Some("shop"),
        nodes: vec!["one", "two", "three"],
    };
    assert_eq!((&hello, frames.len()), (&expected, 1));
    assert!(!edge.session.is_established());
    hear(&mut edge, &[ServerMessage::Welcome(welcome())]);
    let told = edge.told();
    assert!(matches!(told[..], [FromUpstream::Up { upstream: 3, epoch: EPOCH }]), "{told:?}");
    assert!(edge.session.is_established());
}

#[test]
fn an_upstream_that_cannot_be_one_is_told_from_others() {
    let rows = [
        (Welcome { version: 2, ..welcome() }, CloseCode::UnsupportedVersion, "version 2"),
        (
            Welcome { features: feature::VALUES | feature::BROWSE, ..welcome() },
            CloseCode::UnsupportedVersion,
            "the upstream is too old: `tiderace/9`",
        ),
        (Welcome { node: "one", ..welcome() }, CloseCode::UpstreamCircle, "`one`"),
        (Welcome { epoch: b"\xac", ..welcome() }, CloseCode::BadFrame, "epoch"),
        (Welcome { epoch: b"\x01\x02", ..welcome() }, CloseCode::BadFrame, "epoch"),
        (Welcome { codecs: vec![2], ..welcome() }, CloseCode::BadFrame, "codec"),
    ];
    for (welcome, code, part) in rows {
        let mut edge = Edge::new(options());
        ends(&mut edge, &[ServerMessage::Welcome(welcome)], part);
        assert_eq!(edge.end.as_ref().unwrap().code, code, "{part}");
        assert!(edge.told().is_empty());
        assert_eq!(said(&mut edge).last().unwrap(), "Bye");
    }
    let refused = ServerMessage::Close {
        code: 400,
        slug: "login-failed",
        sentence: "No.",
        reconnect: false,
        jitter_ms: 0,
    };
    let mut edge = Edge::new(options());
    ends(&mut edge, &[refused], "the upstream says: No.");
    assert_eq!(edge.end.as_ref().unwrap().code, CloseCode::LoginFailed);
    assert_eq!(said(&mut edge).len(), 1, "CLOSE is the last word");
}

#[test]
fn the_server_refuses_edges_that_go_round() {
    let named = |node: &str| NativeOptions { node: node.into(), ..NativeOptions::default() };
    let hello = |nodes: &[&str], node: &str| {
        let mut rig = Rig::framed(named(node), Framing::Messages(&MESSAGES));
        let ClientMessage::Hello(hello) = support::hello() else { panic!() };
        rig.send(&ClientMessage::Hello(Hello { nodes: nodes.to_vec(), ..hello }));
        rig
    };
    for (nodes, part) in [
        (&["two", "origin", "one"][..], "`two`, `origin`, `one`"),
        (&["a", "b", "c", "d", "e"][..], "5 nodes; at most 4"),
    ] {
        let mut rig = hello(nodes, "origin");
        let end = rig.end.clone().unwrap();
        assert_eq!(end.code, CloseCode::UpstreamCircle);
        assert!(end.reason.contains(part), "{end}");
        assert!(rig.received()[0].starts_with("Close { code: 405, slug: \"upstream-circle\""));
        assert_eq!(hello(nodes, "").end, None, "a node without a name refuses nobody");
    }
    let mut rig = hello(&["a", "b", "c", "d"], "origin");
    rig.reply(Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None });
    let welcome = rig.received();
    assert!(welcome[0].contains("features: 7, node: \"origin\""), "{welcome:?}");
    // More than eight are no HELLO at all, nor is a long name.
    for nodes in [&["a"; 9][..], &[&*"a".repeat(65)][..]] {
        assert_eq!(hello(nodes, "").end.unwrap().code, CloseCode::BadFrame);
    }
}

#[test]
fn numbered_needs_recoverable() {
    let mut rig = Rig::new();
    rig.send(&ClientMessage::Subscribe(support::subscribe(1, 0, flags::NUMBERED, "a")));
    assert!(rig.commands.is_empty());
    assert!(rig.received()[0].contains("slug: \"bad-frame\""));
    let both = flags::NUMBERED | flags::RECOVERABLE;
    rig.send(&ClientMessage::Subscribe(support::subscribe(2, 0, both, "a")));
    assert!(matches!(rig.commands[..], [Command::Subscribe(_)]));
}

#[test]
fn what_the_broker_wants_is_asked_for() {
    let mut edge = up();
    edge.subscribe(0, "fx/EUR-USD", None);
    let mut since = Position::new(EPOCH);
    since.advance(ShardId(1), 7);
    edge.subscribe(1, "news/**", Some(since));
    let mut asked = Vec::new();
    for frame in edge.frames() {
        let (kind, payload) = Messages::new(&frame).next().unwrap().unwrap();
        let ClientMessage::Subscribe(message) = ClientMessage::read(kind, payload).unwrap() else {
            panic!()
        };
        let (request, key, flags) = (message.request, message.subscription, message.flags);
        asked.push((
            request,
            key,
            flags,
            message.path.to_owned(),
            message.position.map(<[u8]>::to_vec),
        ));
    }
    let every = flags::SNAPSHOT
        | flags::RECOVERABLE
        | flags::DELTAS
        | flags::NOTICES
        | flags::VALUES
        | flags::OK_LAST
        | flags::NUMBERED;
    let position = Some(vec![0xac, 2, 1, 1, 7]);
    let expected = [
        (1, 0, every, "fx/EUR-USD".to_owned(), None),
        (2, 1, every | flags::PATTERN, "news/**".to_owned(), position),
    ];
    assert_eq!(asked, expected);
    hear(
        &mut edge,
        &[
            ServerMessage::Recovered { request: 2, complete: true, continues: false },
            ServerMessage::Ok { first: 1, last: 2 },
        ],
    );
    let told = edge.told();
    let key = SubscriptionKey;
    assert!(
        matches!(told[..], [
            FromUpstream::Recovered { key: a, complete: true, continues: false },
            FromUpstream::Complete { key: b },
            FromUpstream::Complete { key: c },
        ] if (a, b, c) == (key(1), key(0), key(1))),
        "{told:?}"
    );
    // Beyond what the upstream lets a session have, nothing is asked.
    edge.subscribe(8, "b", None);
    edge.subscribe(0, "c", None);
    let told = edge.told();
    let codes: Vec<CloseCode> = told
        .iter()
        .map(|told| match told {
            FromUpstream::Refused { close, .. } => close.code,
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [CloseCode::TooManySubscriptions, CloseCode::DuplicateSubscription];
    assert_eq!((&codes[..], said(&mut edge).len()), (&expected[..], 0));
}

#[test]
fn a_number_is_used_again_once_its_end_is_answered() {
    let mut edge = up();
    edge.subscribe(0, "a", None);
    edge.unsubscribe(0);
    edge.unsubscribe(0);
    edge.subscribe(0, "b", None);
    let asked = said(&mut edge);
    assert_eq!(asked.len(), 2, "{asked:?}");
    let late = entries(&[update(0, 0, 1, b"late")]);
    let joined = ServerMessage::Joined { subscription: 0, path: "a", spec: "{}" };
    hear(
        &mut edge,
        &[joined, ServerMessage::Updates(&late), ServerMessage::Ok { first: 1, last: 1 }],
    );
    assert!(edge.told().is_empty(), "nobody wants it any more");
    hear(&mut edge, &[ServerMessage::Ok { first: 2, last: 2 }]);
    let asked = said(&mut edge);
    assert!(asked.len() == 1 && asked[0].contains("request: 3, subscription: 0"), "{asked:?}");
    let new = entries(&[update(0, 0, 1, b"new")]);
    hear(&mut edge, &[ServerMessage::Updates(&new), ServerMessage::Ok { first: 3, last: 3 }]);
    let told = edge.told();
    assert!(
        matches!(&told[..], [FromUpstream::Messages { run, .. }, FromUpstream::Complete { .. }]
            if run.destination().path.as_str() == "b"),
        "{told:?}"
    );
}

#[test]
fn refusals_free_their_number() {
    let mut edge = up();
    let error = |request| ServerMessage::Error {
        request,
        code: 401,
        slug: "not-authorised",
        sentence: "No.",
    };
    edge.subscribe(0, "a", None);
    hear(&mut edge, &[error(1)]);
    let told = edge.told();
    assert!(
        matches!(&told[..], [FromUpstream::Refused { close, .. }] if close.code == CloseCode::NotAuthorised),
        "{told:?}"
    );
    // One that is taken back before it is refused.
    edge.subscribe(0, "b", None);
    edge.unsubscribe(0);
    edge.subscribe(0, "c", None);
    hear(&mut edge, &[error(2)]);
    assert_eq!((edge.told().len(), said(&mut edge).len()), (0, 3));
    hear(&mut edge, &[error(3)]);
    assert!(said(&mut edge)[0].contains("path: \"c\""));
}

fn numbers(run: &Run) -> (u64, Option<u64>, UpstreamNumbers) {
    (run.version(), run.follows(), *run.upstream().unwrap())
}

#[test]
fn successive_updates_of_a_topic_are_one_run() {
    let mut edge = up();
    edge.subscribe(0, "a/*", None);
    let other = Numbering::new(77, ShardId(5)).whole();
    let with = |version: Version, numbering, number, reached, data| Update {
        version,
        numbers: Some(Numbers { numbering, number, reached }),
        ..update(4, flag::ANNOUNCED, 1, data)
    };
    let updates = [
        Update {
            properties: b"k\\c:v\n",
            flags: flag::ANNOUNCED | flag::VALUE | 1,
            ..with(Version::Full(70_000), 1, 20, 20, b"one")
        },
        with(Version::Low(70_001u64 as u16), 1, 21, 30, b"two"),
        // What is reached may not be told too early: 22 is not reached with its message.
        with(Version::Low(70_002u64 as u16), 1, 22, 0, b"three"),
        with(Version::Low(70_003u64 as u16), 1, 23, 23, b"four"),
        // A gap of versions, of numbers, and another one who gives them.
        with(Version::Full(70_005), 1, 24, 24, b"five"),
        with(Version::Low(70_006u64 as u16), 1, 26, 26, b"six"),
        with(Version::Low(70_007u64 as u16), other, 27, 5, b"seven"),
        Update {
            flags: flag::ANNOUNCED | flag::REMOVED,
            ..with(Version::Low(70_008u64 as u16), other, 28, 5, b"")
        },
    ];
    let topic = ServerMessage::Topic { topic: 4, subscription: 0, path: "a/b" };
    let (first, second) = (entries(&updates[..3]), entries(&updates[3..]));
    let follows = ServerMessage::Follows { flags: flag::ANNOUNCED, id: 4, version: 70_010 };
    let last = entries(&[with(Version::Full(70_020), other, 29, 29, b"nine")]);
    hear(
        &mut edge,
        &[
            topic,
            ServerMessage::Updates(&first),
            ServerMessage::Updates(&second),
            follows,
            ServerMessage::Updates(&last),
            ServerMessage::Position(vec![(1, 40), (other, 41)]),
        ],
    );
    let told = edge.told();
    let (runs, reached) = told.split_at(told.len() - 2);
    assert!(
        matches!(reached, [
        FromUpstream::Reached { numbering: a, sequence: 40 },
        FromUpstream::Reached { numbering: b, sequence: 41 },
    ] if (*a, b.whole()) == (Numbering::new(EPOCH, ShardId(1)), other)),
        "{reached:?}"
    );
    let runs: Vec<&Run> = runs
        .iter()
        .map(|told| match told {
            FromUpstream::Messages { run, key: SubscriptionKey(0) } => run,
            other => panic!("{other:?}"),
        })
        .collect();
    let own = Numbering::new(EPOCH, ShardId(1));
    let other = Numbering::new(77, ShardId(5));
    let told = |numbering, first, reached| UpstreamNumbers { numbering, first, reached };
    let expected = [
        (70_000, None, told(own, 20, 30)),
        (70_002, None, told(own, 22, 0)),
        (70_003, None, told(own, 23, 23)),
        (70_005, None, told(own, 24, 24)),
        (70_006, None, told(own, 26, 26)),
        (70_007, None, told(other, 27, 5)),
        (70_020, Some(70_010), told(other, 29, 29)),
    ];
    assert_eq!(runs.iter().map(|run| numbers(run)).collect::<Vec<_>>(), expected);
    let bodies: Vec<Vec<&[u8]>> =
        runs.iter().map(|run| run.messages().map(|message| message.body).collect()).collect();
    assert_eq!((bodies[0].len(), bodies[5].len()), (2, 2));
    let message = runs[0].message(0).unwrap();
    assert_eq!(message.properties, b"content-type:application/json\nk\\c:v\n");
    assert_eq!(message.flags, Flags::RETAIN | Flags::ESCAPED);
    assert!(runs[0].is_value(0) && !runs[0].is_value(1));
    assert_eq!(runs[5].message(1).unwrap().flags, Flags::RETAIN_REMOVE);
}

#[test]
fn topics_come_and_go() {
    let mut edge = up();
    edge.subscribe(0, "a/*", None);
    let spec = r#"{"type":"json","retain":true}"#;
    let joined = |path| ServerMessage::Joined { subscription: 0, path, spec };
    let left = |reason| ServerMessage::Left { subscription: 0, path: "a/b", reason };
    hear(&mut edge, &[joined("a/b"), joined("a/c"), left("removed"), left("not-authorised")]);
    let told = edge.told();
    let [
        FromUpstream::Joined { spec: first, path, .. },
        FromUpstream::Joined { spec: second, .. },
        FromUpstream::Left { reason: LeaveReason::Removed, .. },
        FromUpstream::Left { reason: LeaveReason::NotAuthorised, .. },
    ] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert!(Arc::ptr_eq(first, second) && first.retain && path.as_str() == "a/b");
    ends(&mut edge, &[left("moon")], "`moon`");
    let mut edge = up();
    edge.subscribe(0, "a/*", None);
    let strange = ServerMessage::Joined { subscription: 0, path: "a/b", spec: r#"{"depth":1}"# };
    ends(&mut edge, &[strange], "is it older than the upstream?");
    assert_eq!(edge.end.unwrap().code, CloseCode::BadSpecification);
}

#[test]
fn a_silent_upstream_is_noticed() {
    let mut edge = up();
    let at = |secs| Now { time: Time::ZERO + Span::from_secs(secs), wall_ms: 0 };
    assert_eq!(edge.session.deadline(), at(20).time);
    edge.expire();
    edge.now = at(20);
    edge.expire();
    assert_eq!(said(&mut edge), ["Ping([])"]);
    edge.now = at(39);
    hear(&mut edge, &[ServerMessage::Pong(b"")]);
    assert_eq!(edge.session.deadline(), at(59).time);
    edge.now = at(59);
    edge.expire();
    edge.now = at(79);
    // It may have answered, if nothing of what came is read.
    edge.paused = true;
    edge.expire();
    assert_eq!((said(&mut edge).len(), edge.end.clone()), (1, None));
    edge.paused = false;
    edge.now = at(99);
    edge.expire();
    assert_eq!(edge.end.unwrap().code, CloseCode::IdleTimeout);
    // One that does not answer HELLO.
    let mut edge = Edge::new(options());
    edge.now = at(10);
    edge.expire();
    assert_eq!(edge.end.unwrap().code, CloseCode::LoginTimeout);
    // Advice that is none, or makes no sense.
    for (advice, secs) in [(0, 30), (u64::MAX, 30), (1, 1)] {
        let edge = up_with(options(), Welcome { ping_ms: advice, ..welcome() });
        assert_eq!(edge.session.deadline(), at(secs).time, "{advice}");
    }
}

#[test]
fn broken_rules_end_the_session() {
    let delta = entries(&[update(0, flag::DELTA, 1, b"\0\0")]);
    let gone = entries(&[update(0, 0, 7, b"a longer value"), update(0, flag::DELTA, 9, b"\0\0")]);
    let far = entries(&[
        update(0, 0, 7, b"a"),
        Update { version: Version::Low(8), ..update(0, flag::DELTA, 8, b"\x05\0") },
    ]);
    let low = entries(&[Update { version: Version::Low(1), ..update(0, 0, 1, b"") }]);
    let zero = entries(&[update(0, 0, 0, b"")]);
    let high = entries(&[update(0, 0, 1 << 56, b"")]);
    let announced = entries(&[update(0, flag::ANNOUNCED, 1, b"")]);
    let told = |numbering, number, reached| {
        let numbers = Some(Numbers { numbering, number, reached });
        entries(&[Update { numbers, ..update(0, 0, 1, b"") }])
    };
    let (nobody, many, more) = (told(64, 1, 1), told(1, 1 << 63, 1), told(1, 1, 1 << 63));
    let large = entries(&[update(0, 0, 1, &[0; 101])]);
    let wild = entries(&[Update { properties: b"no line", ..update(0, 0, 1, b"") }]);
    let ok = |first, last| ServerMessage::Ok { first, last };
    let rows = [
        (ServerMessage::Updates(&low), "not told whole"),
        (ServerMessage::Updates(&zero), "has no version 0"),
        (ServerMessage::Updates(&high), "has no version"),
        (ServerMessage::Updates(&announced), "topic or subscription 0"),
        (ServerMessage::Updates(&nobody), "64 is not"),
        (ServerMessage::Updates(&many), "none of a message"),
        (ServerMessage::Updates(&more), "none of a message"),
        (ServerMessage::Updates(&large), "has 101 bytes; this node takes 100"),
        (ServerMessage::Updates(&wild), "properties"),
        (ServerMessage::Updates(&gone), "is to nothing"),
        (ServerMessage::Updates(&far), "a delta for `a`"),
        (ServerMessage::Updates(&low[..2]), "middle of a field"),
        (ServerMessage::Topic { topic: 0, subscription: 5, path: "a" }, "subscription 5"),
        (ServerMessage::Topic { topic: 0, subscription: 0, path: "a//b" }, "level 2"),
        (ServerMessage::Follows { flags: 0, id: 5, version: 1 }, "subscription 5"),
        (ServerMessage::Position(vec![(99, 1)]), "99 is not"),
        (ServerMessage::Joined { subscription: 0, path: "", spec: "{}" }, "protocol"),
        (ok(2, 9), "nothing that was asked"),
        (ServerMessage::Recovered { request: 7, complete: true, continues: true }, "nothing"),
        (ServerMessage::Error { request: 0, code: 1, slug: "a", sentence: "b" }, "nothing"),
        (ServerMessage::Browsed { subscription: 0 }, "nothing that was asked"),
        (ServerMessage::Welcome(welcome()), "to come once"),
    ];
    for (message, part) in rows {
        let mut edge = up_with(UpstreamOptions { message_bytes_max: 100, ..options() }, welcome());
        edge.subscribe(0, "a", None);
        edge.frames();
        ends(&mut edge, std::slice::from_ref(&message), part);
        let said = said(&mut edge);
        assert_eq!(said, ["Bye"], "{part}");
    }
    // What is not known is skipped; what comes before WELCOME is not.
    let mut edge = up();
    edge.hear(&[0x7f, 1, 0, 0x90, 0]);
    assert_eq!(edge.end, None);
    let mut edge = Edge::new(options());
    ends(&mut edge, &[ServerMessage::Pong(b"")], "WELCOME has to be the first");
    let mut edge = up();
    edge.subscribe(0, "a", None);
    edge.frames();
    hear(&mut edge, &[ServerMessage::Updates(&delta)]);
    let told = edge.told();
    assert!(matches!(&told[..], [FromUpstream::Refused { .. }]), "there was no value: {told:?}");
    assert_eq!(said(&mut edge), ["Unsubscribe { request: 2, subscription: 0 }"]);
}

#[test]
fn without_room_for_values_they_are_asked_for_without_deltas() {
    let mut edge = up_with(UpstreamOptions { bases_bytes_max: 64, ..options() }, welcome());
    let (large, small) = ([b'x'; 50], [b'y'; 20]);
    edge.subscribe(0, "a", None);
    edge.subscribe(1, "b", None);
    let values = entries(&[update(0, 0, 1, &large), update(1, 0, 2, &small)]);
    // All of the old value but its last byte, of both.
    let deltas =
        entries(&[update(0, flag::DELTA, 2, b"\x32\0"), update(1, flag::DELTA, 3, b"\x14\0")]);
    hear(&mut edge, &[ServerMessage::Updates(&values), ServerMessage::Updates(&deltas)]);
    edge.frames();
    let told = edge.told();
    let [_, _, FromUpstream::Messages { run, .. }, FromUpstream::Refused { key, close }] =
        &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!(run.message(0).unwrap().body, large);
    assert_eq!((key.0, close.code), (1, CloseCode::MemoryFull));
    assert!(close.reason.contains("`b`"), "{close}");
    // Asked again it comes in full.
    edge.subscribe(1, "b", None);
    hear(&mut edge, &[ServerMessage::Ok { first: 3, last: 3 }]);
    let frame = edge.frames().remove(0);
    let (kind, payload) = Messages::new(&frame).next().unwrap().unwrap();
    let ClientMessage::Subscribe(again) = ClientMessage::read(kind, payload).unwrap() else {
        panic!()
    };
    assert_eq!((again.subscription, again.flags & flags::DELTAS), (1, 0));
    let value = entries(&[update(1, 0, 3, &small)]);
    hear(&mut edge, &[ServerMessage::Updates(&value)]);
    assert_eq!(edge.runs().len(), 1);
}

/// A node between an origin and an edge passes the origin's numbers on, however a run is divided.
#[test]
fn numbers_of_the_origin_are_kept() {
    let origin = Numbering::new(9_000, ShardId(7));
    for (name, path) in [("fx/*", "fx/a"), ("fx/a", "fx/a")] {
        for cut in 0..4 {
            let mut rig = Rig::framed(NativeOptions::default(), Framing::Messages(&MESSAGES));
            let mut edge = Edge::new(options());
            let pass = |edge: &mut Edge, rig: &mut Rig| {
                edge.frames().iter().for_each(|frame| rig.send_bytes(frame));
                rig.frames().iter().for_each(|frame| edge.hear(frame));
            };
            pass(&mut edge, &mut rig);
            rig.reply(Reply::LoggedIn { name: "edge".into(), anonymous: false, host: None });
            pass(&mut edge, &mut rig);
            edge.subscribe(0, name, None);
            pass(&mut edge, &mut rig);
            rig.confirm(1);
            // With its own number 50 and version 4, and number 1,000 at the origin.
            let mut run =
                support::run(tiderace_wire::Kind::Topic, path, 50, 4, &[b"a", b"b", b"c", b"d"]);
            let numbers = UpstreamNumbers { numbering: origin, first: 1_000, reached: 1_009 };
            run.set_upstream(Some(numbers));
            let run = SharedRun::new(Arc::new(run));
            // The second part while something is recovered: nothing is reached.
            let mut reached = Vec::new();
            for (from, to, sequence) in [(0, cut, 60), (cut, 4, if cut == 3 { 0 } else { 60 })] {
                if from < to {
                    rig.deliver_reaching(0, &run, from, to, sequence);
                    let (key, exchange) = (SubscriptionKey(0), None);
                    let run = &run;
                    let delivery = Delivery {
                        key,
                        run,
                        from,
                        to,
                        redeliveries: 0,
                        reached: sequence,
                        exchange,
                    };
                    reached.push(delivery.reached_upstream().map_or(0, |(_, sequence)| sequence));
                }
            }
            rig.flush();
            pass(&mut edge, &mut rig);
            assert_eq!(edge.end, None);
            let told = edge.told();
            let runs: Vec<&Run> = told
                .iter()
                .filter_map(|told| match told {
                    FromUpstream::Messages { run, .. } => Some(run),
                    _ => None,
                })
                .collect();
            let mut next = 0;
            for run in &runs {
                let upstream = run.upstream().unwrap();
                assert_eq!((upstream.numbering, upstream.first), (origin, 1_000 + next));
                assert_eq!(run.version(), 4 + next);
                next += run.len() as u64;
            }
            assert_eq!(next, 4);
            let last = runs.last().unwrap().upstream().unwrap().reached;
            assert_eq!(last, *reached.last().unwrap(), "{name} cut at {cut}");
            // POSITION tells of both.
            let position: Vec<(Numbering, u64)> = told
                .iter()
                .filter_map(|told| match told {
                    FromUpstream::Reached { numbering, sequence } => Some((*numbering, *sequence)),
                    _ => None,
                })
                .collect();
            let most = reached.iter().copied().max().unwrap();
            assert!(position.contains(&(origin, most)), "{position:?}");
            assert!(position.contains(&(Numbering::new(EPOCH, ShardId(1)), 60)), "{position:?}");
        }
    }
}

#[test]
fn own_numbers_are_those_of_the_home() {
    let mut rig = Rig::new();
    let wish = flags::NUMBERED | flags::RECOVERABLE;
    rig.subscribe(1, 0, wish, "fx/a");
    let run = topic("fx/a", 50, 4, &[b"a", b"b"]);
    rig.deliver_reaching(0, &run, 0, 2, 60);
    rig.deliver_reaching(0, &run, 0, 2, 0);
    rig.flush();
    let mut numbers = Vec::new();
    for frame in rig.frames() {
        for message in Messages::new(&frame) {
            let (kind, payload) = message.unwrap();
            let ServerMessage::Updates(entries) = ServerMessage::read(kind, payload).unwrap()
            else {
                continue;
            };
            let read = tiderace_native::codec::Updates::numbered(entries);
            numbers.extend(read.map(|update| update.unwrap().numbers.unwrap()));
        }
    }
    let told = |number, reached| Numbers { numbering: 1, number, reached };
    assert_eq!(numbers, [told(50, 50), told(51, 60), told(50, 0), told(51, 0)]);
}
