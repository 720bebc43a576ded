//! The client's side of a session, sentence by sentence: how it begins and ends, and what it asks.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use tiderace_base::{CloseCode, Now, ShardId, Span, Time};
use tiderace_native::codec::{
    AddressList, Auth, ClientMessage, Hello, Messages, Nodes, ServerMessage, Welcome, feature,
    subscribe as flags,
};
use tiderace_native::{Above, NativeOptions, NodesAbove, UpstreamOptions};
use tiderace_wire::{
    Command, Credentials, Framing, FromUpstream, LeaveReason, Position, Reply, SubscriptionKey,
};

use crate::support::edge::{
    EPOCH, Edge, ends, entries, hear, options, said, up, up_with, update, welcome,
};
use crate::support::{self, MESSAGES, Rig};

#[test]
fn it_says_who_it_is_and_tells_when_it_is_let_in() {
    let credentials = Credentials {
        login: Some("edge".into()),
        passcode: Some("pw".into()),
        host: Some("shop".into()),
        ..Credentials::default()
    };
    let mut edge = Edge::new(UpstreamOptions { credentials, ..options() });
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
        edge: Some("one"),
    };
    assert_eq!((&hello, frames.len()), (&expected, 1));
    assert!(!edge.session.is_established());
    hear(&mut edge, &[ServerMessage::Welcome(welcome())]);
    let told = edge.told();
    let is_up = matches!(
        told[..],
        [
            FromUpstream::Up { upstream: 3, epoch: EPOCH },
            FromUpstream::Requests { taken: false, consumers: false },
            FromUpstream::Calls { taken: false }
        ]
    );
    assert!(is_up, "{told:?}");
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
        addresses: AddressList::EMPTY,
    };
    let mut edge = Edge::new(options());
    ends(&mut edge, &[refused], "the upstream says: No.");
    assert_eq!(edge.end.as_ref().unwrap().code, CloseCode::LoginFailed);
    assert_eq!(said(&mut edge).len(), 1, "CLOSE is the last word");
}

/// What the only upstream has said.
#[derive(Debug, Default)]
#[allow(clippy::disallowed_types, reason = "the server's own is locked too")]
struct Told(std::sync::Mutex<Above>);

impl NodesAbove for Told {
    fn all(&self) -> Above {
        self.0.lock().unwrap().clone()
    }

    fn note(&self, upstream: u16, above: Above) {
        assert_eq!(upstream, 3);
        *self.0.lock().unwrap() = above;
    }

    fn forget(&self, upstream: u16) {
        self.note(upstream, Above::default());
    }
}

#[test]
fn the_server_tells_edges_what_is_above_it() {
    let named = |node: &str| NativeOptions { node: node.into(), ..NativeOptions::default() };
    let hello = |edge: Option<&str>, options: NativeOptions| {
        let mut rig = Rig::framed(options, Framing::Messages(&MESSAGES));
        let ClientMessage::Hello(hello) = support::hello() else { panic!() };
        rig.send(&ClientMessage::Hello(Hello { edge, ..hello }));
        rig
    };
    let mut rig = hello(Some("origin"), named("origin"));
    let end = rig.end.clone().unwrap();
    assert_eq!(end.code, CloseCode::UpstreamCircle);
    assert!(end.reason.contains("`origin` as well"), "{end}");
    assert!(rig.received()[0].starts_with("Close { code: 406, slug: \"upstream-circle\""));
    assert_eq!(hello(Some(""), named("")).end, None, "a node without a name refuses nobody");
    assert_eq!(hello(Some(&"a".repeat(65)), named("")).end.unwrap().code, CloseCode::BadFrame);

    let logged_in = || Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None };
    let mut rig = hello(Some("two"), named("one"));
    rig.reply(logged_in());
    let said = rig.received();
    assert_eq!(said[0], "Nodes(Nodes { hops: 0, names: [] })");
    assert!(said[1].contains("features: 63, node: \"one\""), "{said:?}");

    // Behind an upstream whose own upstream is `peak`; then that goes.
    let above = Arc::<Told>::default();
    let mut link = Edge::new(UpstreamOptions { above: above.clone(), ..options() });
    let nodes = |hops, names| ServerMessage::Nodes(Nodes { hops, names });
    hear(&mut link, &[nodes(1, vec!["peak"]), ServerMessage::Welcome(welcome())]);
    let mut rig = hello(Some("three"), NativeOptions { above, ..named("one") });
    rig.reply(logged_in());
    assert_eq!(rig.received()[0], "Nodes(Nodes { hops: 2, names: [\"origin\", \"peak\"] })");
    hear(&mut link, &[nodes(0, vec![])]);
    rig.send(&ClientMessage::Ping(b"1"));
    let said = rig.received();
    assert_eq!(said, ["Nodes(Nodes { hops: 1, names: [\"origin\"] })", "Pong([49])"]);
    drop(link);
    rig.send(&ClientMessage::Ping(b""));
    assert_eq!(rig.received()[0], "Nodes(Nodes { hops: 0, names: [] })");

    // Others are told nothing of it.
    let mut rig = hello(None, named("one"));
    rig.reply(logged_in());
    rig.send(&ClientMessage::Ping(b""));
    let said = rig.received();
    assert!(said[0].starts_with("Welcome") && said[1].starts_with("Pong"), "{said:?}");
}

#[test]
fn a_node_above_itself_is_found_whenever_the_upstream_says_so() {
    let nodes =
        |hops, names: &[&'static str]| ServerMessage::Nodes(Nodes { hops, names: names.to_vec() });
    let circle = CloseCode::UpstreamCircle;
    // Before WELCOME.
    let mut edge = Edge::new(options());
    ends(
        &mut edge,
        &[nodes(2, &["far", "one"]), ServerMessage::Welcome(welcome())],
        "`one`, is itself",
    );
    assert_eq!(edge.end.as_ref().unwrap().code, circle);
    assert!(edge.told().is_empty(), "no subscription goes there");
    // Later: a node further up has come to be an edge of this one.
    let mut edge = up();
    hear(&mut edge, &[nodes(1, &["far"]), nodes(3, &["a", "b", "far"])]);
    assert_eq!(edge.end, None);
    ends(&mut edge, &[nodes(2, &["far", "one"])], "`far`, `one`, `origin`");
    assert_eq!(edge.end.as_ref().unwrap().code, circle);
    // Nodes without names may go round as well.
    let nameless = || Edge::new(UpstreamOptions { node: String::new(), ..options() });
    let mut edge = nameless();
    ends(&mut edge, &[nodes(4, &[]), ServerMessage::Welcome(welcome())], "by 5 connections");
    assert_eq!(edge.end.as_ref().unwrap().code, circle);
    let mut edge = nameless();
    hear(&mut edge, &[nodes(3, &[]), ServerMessage::Welcome(welcome())]);
    assert_eq!(edge.end, None);
    ends(&mut edge, &[nodes(u64::MAX, &[])], "at most 4 may be");
    // More names than there can be, and one that is too long.
    for names in [vec!["a"; 65], vec![&*"a".repeat(65)]] {
        let mut bytes = Vec::new();
        ServerMessage::Nodes(Nodes { hops: 1, names }).write(&mut bytes);
        let mut edge = up();
        edge.hear(&bytes);
        assert_eq!(edge.end.unwrap().code, CloseCode::BadFrame);
    }
}

#[test]
fn the_upstream_is_asked_every_interval_whether_it_is_there() {
    let mut edge = up();
    let pass = |edge: &mut Edge, after: Span| {
        edge.now.time = edge.now.time + after;
        edge.call(|session, now, context| session.expire(now, context));
    };
    let interval = edge.session.deadline().since(edge.now.time);
    pass(&mut edge, interval);
    assert_eq!(said(&mut edge), ["Ping([])"]);
    edge.now.time = edge.now.time + Span::from_millis(30);
    hear(&mut edge, &[ServerMessage::Pong(b"")]);
    let told = edge.told();
    let is_its = |round_trip: &Span| *round_trip == Span::from_millis(30);
    assert!(
        matches!(&told[..], [FromUpstream::Pong { round_trip }] if is_its(round_trip)),
        "{told:?}"
    );
    // Also while other things come, which are signs of life as well.
    for _ in 0..5 {
        hear(&mut edge, &[ServerMessage::Position(vec![])]);
        let left = edge.session.deadline().since(edge.now.time);
        pass(&mut edge, left);
    }
    assert_eq!(said(&mut edge), ["Ping([])"], "one question at a time");
    assert_eq!(edge.end, None);
    pass(&mut edge, interval);
    assert_eq!(edge.end.as_ref().unwrap().code, CloseCode::IdleTimeout);
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
    let joined = ServerMessage::Joined { subscription: 0, path: "a", spec: "{}", is_empty: false };
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

#[test]
fn topics_come_and_go() {
    let mut edge = up();
    edge.subscribe(0, "a/*", None);
    let spec = r#"{"type":"json","retain":true}"#;
    let joined =
        |path| ServerMessage::Joined { subscription: 0, path, spec, is_empty: path == "a/c" };
    let left = |reason| ServerMessage::Left { subscription: 0, path: "a/b", reason };
    hear(&mut edge, &[joined("a/b"), joined("a/c"), left("removed"), left("not-authorised")]);
    let told = edge.told();
    let [
        FromUpstream::Joined { spec: first, path, is_empty: false, .. },
        FromUpstream::Joined { spec: second, is_empty: true, .. },
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
    let strange = ServerMessage::Joined {
        subscription: 0,
        path: "a/b",
        spec: r#"{"depth":1}"#,
        is_empty: false,
    };
    ends(&mut edge, &[strange], "is it older than the upstream?");
    assert_eq!(edge.end.unwrap().code, CloseCode::BadSpecification);
}

#[test]
fn a_silent_upstream_is_noticed() {
    let mut edge = up();
    let at = |secs| Now { time: Time::ZERO + Span::from_secs(secs), wall_ms: 0 };
    assert_eq!(edge.session.deadline(), at(10).time, "it would do every 20 seconds");
    edge.expire();
    edge.now = at(10);
    edge.expire();
    assert_eq!(said(&mut edge), ["Ping([])"]);
    edge.now = at(19);
    hear(&mut edge, &[ServerMessage::Pong(b"")]);
    assert_eq!(edge.session.deadline(), at(20).time);
    edge.now = at(20);
    edge.expire();
    edge.now = at(30);
    // It may have answered, if nothing of what came is read.
    edge.paused = true;
    edge.expire();
    assert_eq!((said(&mut edge).len(), edge.end.clone()), (1, None));
    edge.paused = false;
    edge.now = at(40);
    edge.expire();
    assert_eq!(edge.end.unwrap().code, CloseCode::IdleTimeout);
    // One that does not answer HELLO.
    let mut edge = Edge::new(options());
    edge.now = at(10);
    edge.expire();
    assert_eq!(edge.end.unwrap().code, CloseCode::LoginTimeout);
    // Advice that is none, or makes no sense.
    for (advice, secs) in [(0, 10), (u64::MAX, 10), (1, 1)] {
        let edge = up_with(options(), Welcome { ping_ms: advice, ..welcome() });
        assert_eq!(edge.session.deadline(), at(secs).time, "{advice}");
    }
}
