//! Requests that an edge passes on, byte for byte: its session on one side, the server's session with its broker on the
//! other.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use proptest::prelude::*;
use tiderace_base::{CloseCode, Now, Time};
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, Who};
use tiderace_native::codec::{
    AsMessage, ClientMessage, Destination as Place, Messages, OperateMessage, PrincipalMessage,
    Publish, ServerMessage, SubscribeMessage, Updates, Welcome, feature,
};
use tiderace_native::{NativeOptions, UpstreamOptions, protocol};
use tiderace_testkit::{Connection, World};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Condition, Destination, EndPrincipal, Flags, Framing, FromUpstream, Kind, Meta, Operation,
    OperationResult, Run, RunBuilder, ToUpstream, Update,
};

use crate::support::edge::{Edge, ends, options, said, up, up_with, welcome};
use crate::support::{MESSAGES, Rig, hello, split};

struct Pair {
    world: World,
    reader: Connection,
    server: Connection,
    edge: Edge,
}

fn open(world: &mut World, options: &Arc<NativeOptions>) -> Connection {
    let native = protocol(options.clone(), Arc::from([]));
    Connection::open(world, 0, Framing::Messages(&MESSAGES), |opening| (native.open)(opening))
}

fn send(world: &mut World, to: &mut Connection, message: &ClientMessage<'_>) {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    to.message(world, false, &bytes);
}

impl Pair {
    fn new(rules: Rules) -> Pair {
        let now = Now { time: Time::from_nanos(1_000), wall_ms: 1_000_000 };
        let broker = BrokerOptions { shards: 2, epoch: 300, rules, ..BrokerOptions::default() };
        let mut world = World::new(now, broker, None);
        let options = Arc::new(NativeOptions::default());
        let mut reader = open(&mut world, &options);
        send(&mut world, &mut reader, &hello());
        let subscribe = SubscribeMessage {
            request: 1,
            subscription: 0,
            flags: 0,
            kind: Kind::Topic,
            path: "fx/a",
            selector: None,
            prefetch: None,
            position: None,
            replay: None,
            interval_ms: None,
            start: None,
            credit: None,
        };
        send(&mut world, &mut reader, &ClientMessage::Subscribe(subscribe));
        let server = open(&mut world, &options);
        let credentials =
            tiderace_wire::Credentials { login: Some("edge".into()), ..Default::default() };
        let edge = Edge::new(UpstreamOptions { credentials, ..UpstreamOptions::default() });
        let mut pair = Pair { world, reader, server, edge };
        pair.pass();
        pair.edge.told();
        pair
    }

    fn pass(&mut self) {
        loop {
            let (up, down) = (self.edge.frames(), split(&self.server.take_output()));
            if up.is_empty() && down.is_empty() {
                break;
            }
            up.iter().for_each(|frame| self.server.message(&mut self.world, false, frame));
            self.server.run(&mut self.world);
            down.iter().for_each(|frame| self.edge.hear(frame));
        }
        assert_eq!((self.server.end(), &self.edge.end), (None, &None));
    }

    fn publish(&mut self, request: u32, who: &str, run: Run) {
        let run = Box::new(run);
        self.edge.ask(ToUpstream::Publish { request, principal: principal(who), run });
    }

    /// What was answered, in order: the number, and what the answer says.
    fn answers(&mut self) -> Vec<(u32, Result<String, CloseCode>)> {
        self.pass();
        let answer = |told| match told {
            FromUpstream::Answered { request, result } => {
                let text = |result: OperationResult| format!("{result:?}");
                (request, result.map(text).map_err(|close| close.code))
            }
            other => panic!("{other:?}"),
        };
        self.edge.told().into_iter().map(answer).collect()
    }

    /// The bodies that have come to the reader.
    fn read(&mut self) -> Vec<String> {
        self.reader.run(&mut self.world);
        let mut bodies = Vec::new();
        for frame in split(&self.reader.take_output()) {
            for message in Messages::new(&frame) {
                let (kind, payload) = message.unwrap();
                if let ServerMessage::Updates(entries) = ServerMessage::read(kind, payload).unwrap()
                {
                    let data = Updates::new(entries).map(|update| update.unwrap().data);
                    bodies.extend(data.map(|data| String::from_utf8(data.to_vec()).unwrap()));
                }
            }
        }
        bodies
    }
}

fn principal(name: &str) -> Arc<EndPrincipal> {
    let groups = ["traders".into()].into();
    EndPrincipal::new(name.into(), groups, [].into(), false).unwrap().into()
}

fn topic(path: &str) -> Destination {
    Destination { kind: Kind::Topic, path: Path::parse(path).unwrap() }
}

fn run(path: &str, bodies: &[&str]) -> Run {
    let mut builder = RunBuilder::new(topic(path), Time::ZERO);
    for body in bodies {
        builder.properties().extend_from_slice(b"content-type:text/plain\nk:v\n");
        let meta = Meta { flags: Flags::RETAIN, expires_ms: Some(1_000_000 + 60_000) };
        builder.finish(body.as_bytes(), meta);
    }
    builder.build()
}

fn update(path: &str, condition: Option<Condition>, body: &str) -> Box<Operation> {
    Box::new(Operation::Update(Box::new(Update {
        path: Path::parse(path).unwrap(),
        change: tiderace_wire::Change::Value(body.as_bytes().into()),
        properties: None,
        flags: Flags::NONE,
        condition,
        spec: None,
    })))
}

fn rules() -> Rules {
    let rule = |allow, actions: &[Action], who, path: &str| Rule {
        allow,
        actions: actions.iter().copied().collect(),
        who: vec![who],
        paths: vec![Pattern::parse(path).unwrap()],
        kind: None,
    };
    let user = |name: &str| Who::User(name.into());
    Rules::new(vec![
        rule(true, &[Action::Subscribe], Who::All, "fx/**"),
        rule(true, &[Action::Relay], user("edge"), "fx/**"),
        rule(true, &[Action::Publish, Action::Create], Who::Group("traders".into()), "**"),
        rule(false, &[Action::Publish], user("eve"), "fx/a"),
    ])
}

#[test]
fn messages_and_operations_are_done_in_their_order_and_answered() {
    let mut pair = Pair::new(rules());
    pair.publish(7, "ann", run("fx/a", &["1", "2", "3"]));
    let operation = update("fx/a", Some(Condition::Version(3)), "4");
    pair.edge.ask(ToUpstream::Operate { request: 8, principal: principal("ann"), operation });
    pair.publish(9, "bob", run("fx/a", &["5"]));
    let operation = update("fx/a", Some(Condition::Version(3)), "no");
    pair.edge.ask(ToUpstream::Operate { request: 10, principal: principal("bob"), operation });
    let mut answers = pair.answers();
    answers.sort_by_key(|(number, _)| *number);
    let done = || Ok("Done".to_owned());
    let expected = vec![
        (7, done()),
        (8, Ok("Updated { version: 4 }".into())),
        (9, done()),
        (10, Err(CloseCode::ConditionFailed)),
    ];
    assert_eq!(answers, expected);
    assert_eq!(pair.read(), ["1", "2", "3", "4", "5"]);
}

#[test]
fn both_fences_hold() {
    let mut pair = Pair::new(rules());
    // Not whom the request is for, not the edge there, and then both.
    pair.publish(1, "eve", run("fx/a", &["1"]));
    pair.publish(2, "ann", run("kept/a", &["2"]));
    pair.publish(3, "ann", run("fx/a", &["3"]));
    let operation = Box::new(Operation::Remove { selector: vec![Pattern::parse("*/a").unwrap()] });
    pair.edge.ask(ToUpstream::Operate { request: 4, principal: principal("ann"), operation });
    // The edge itself has no right to publish, and nobody else's are left to it.
    let publish = Publish {
        request: 9,
        flags: 0,
        destination: Place::Path(Kind::Topic, "fx/a"),
        expires_ms: None,
        properties: b"",
        body: b"own",
    };
    let mut answers = pair.answers();
    answers.sort_by_key(|(number, _)| *number);
    let denied = Err(CloseCode::NotAuthorised);
    let removed = Ok("Removed { topics: 1 }".to_owned());
    let done = Ok("Done".to_owned());
    assert_eq!(answers, [(1, denied.clone()), (2, denied), (3, done), (4, removed)]);
    assert_eq!(pair.read(), ["3", ""]);
    let mut bytes = Vec::new();
    ClientMessage::Publish(Publish { request: 0, ..publish }).write(&mut bytes);
    pair.server.message(&mut pair.world, false, &bytes);
    let output = split(&pair.server.take_output()).concat();
    let (kind, payload) = Messages::new(&output).next().unwrap().unwrap();
    let ServerMessage::Error { slug, .. } = ServerMessage::read(kind, payload).unwrap() else {
        panic!()
    };
    assert_eq!(slug, "not-authorised");
    assert!(pair.read().is_empty());
}

proptest! {
    #[test]
    fn many_principals_are_told_apart(
        asked in proptest::collection::vec((0u32..200, 1usize..4), 1..150),
        rounds in proptest::collection::vec(any::<bool>(), 150),
    ) {
        let mut pair = Pair::new(Rules::allow_all());
        let (mut wanted, mut answered) = (Vec::new(), 0);
        for (number, (who, count)) in asked.iter().enumerate() {
            let bodies: Vec<String> = (0..*count).map(|at| format!("{who} {number} {at}")).collect();
            let texts: Vec<&str> = bodies.iter().map(String::as_str).collect();
            pair.publish(number as u32, &format!("user-{who}"), run("fx/a", &texts));
            wanted.extend(bodies);
            if rounds[number] {
                answered += pair.answers().len();
            }
        }
        answered += pair.answers().len();
        prop_assert_eq!(answered, asked.len());
        prop_assert_eq!(pair.read(), wanted);
    }
}

#[test]
fn a_large_run_goes_in_several_messages_and_is_one_request() {
    let mut pair = Pair::new(Rules::allow_all());
    let body = "x".repeat(25_000);
    pair.publish(1, "ann", run("fx/a", &[body.as_str(); 12]));
    assert!(pair.edge.frames().len() > 3, "no frame is much larger than a batch");
    let mut pair = Pair::new(Rules::allow_all());
    pair.publish(1, "ann", run("fx/a", &[body.as_str(); 12]));
    assert_eq!(pair.answers(), [(1, Ok("Done".into()))]);
    assert_eq!(pair.read().len(), 12);
}

/// A node whose upstream takes requests.
fn relaying() -> Edge {
    let features = feature::VALUES | feature::NUMBERED | feature::RELAY;
    up_with(options(), Welcome { features, message_bytes_max: 100, ..welcome() })
}

#[test]
fn what_would_end_the_connection_is_refused_here() {
    let mut edge = relaying();
    let ask = |edge: &mut Edge, run: Run| {
        edge.ask(ToUpstream::Publish {
            request: 5,
            principal: principal("ann"),
            run: Box::new(run),
        });
        match &edge.told()[..] {
            [FromUpstream::Answered { request: 5, result: Err(close) }] => Some(close.code),
            _ => None,
        }
    };
    assert_eq!(ask(&mut edge, run("a", &[&"x".repeat(101)])), Some(CloseCode::BodyTooLarge));
    let properties = [b"name:".as_slice(), &[b'v'; 70_000], b"\n"].concat();
    let long = Run::single(topic("a"), Time::ZERO, &properties, b"", Meta::default());
    assert_eq!(ask(&mut edge, long), Some(CloseCode::BadHeader));
    let operation = update("a", None, &"x".repeat(101));
    edge.ask(ToUpstream::Operate { request: 6, principal: principal("ann"), operation });
    assert!(matches!(edge.told()[..], [FromUpstream::Answered { result: Err(_), .. }]));
    assert!(said(&mut edge).is_empty());
    // One that takes none, for it is older.
    assert_eq!(ask(&mut up(), run("a", &["x"])), Some(CloseCode::UpstreamAway));
}

/// Somebody with claims of so many bytes.
fn claiming(bytes: usize) -> Arc<EndPrincipal> {
    let claims = [("claim".into(), "x".repeat(bytes).into())].into();
    EndPrincipal::new("ann".into(), [].into(), claims, false).unwrap().into()
}

#[test]
fn no_message_of_the_transport_is_longer_than_the_upstream_takes() {
    // What a server takes whose `limits.header_bytes_max` is the lowest there is.
    const MOST: usize = 1000;
    let features = feature::VALUES | feature::NUMBERED | feature::RELAY;
    let open =
        || up_with(options(), Welcome { features, message_bytes_max: MOST as u64, ..welcome() });
    let (short, whole) = ("x".repeat(90), "x".repeat(MOST - 4));
    let path = ["abcdefgh"; 20].join("/");
    for small in 0..25 {
        let mut edge = open();
        let mut bodies = vec![short.as_str(); small];
        bodies.extend([whole.as_str(), short.as_str()]);
        let run = Box::new(run(&path, &bodies));
        edge.ask(ToUpstream::Publish { request: 1, principal: claiming(MOST), run });
        let frames = edge.frames();
        assert!(frames.len() > 2, "{:?}", edge.told());
        let longest = frames.iter().map(Vec::len).max();
        assert!(longest.is_some_and(|len| len <= MOST + 256), "{longest:?} behind {small}");
    }
    // What does not fit is refused, and the connection goes on.
    let ask = |principal, path: &str| {
        let mut edge = open();
        let run = Box::new(run(path, &[whole.as_str()]));
        edge.ask(ToUpstream::Publish { request: 1, principal, run });
        assert!(edge.frames().is_empty());
        match &edge.told()[..] {
            [FromUpstream::Answered { request: 1, result: Err(close) }] => close.code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(principal("ann"), &["abcdefgh"; 25].join("/")), CloseCode::BodyTooLarge);
    assert_eq!(ask(claiming(MOST + 256), "a"), CloseCode::NotAuthorised);
}

#[test]
fn a_run_of_very_many_messages_is_taken() {
    let mut pair = Pair::new(Rules::allow_all());
    pair.publish(1, "ann", run("a", &["x"; 3000]));
    assert_eq!(pair.answers(), [(1, Ok("Done".into()))]);
}

#[test]
fn what_is_asked_for_others_counts_as_much_as_what_is_asked_for_oneself() {
    let mut refused = Vec::new();
    let message = Publish {
        request: 0,
        flags: 0,
        destination: Place::Path(Kind::Service, "a"),
        expires_ms: None,
        properties: b"",
        body: b"",
    };
    (0..1000).for_each(|_| ClientMessage::Publish(message).write(&mut refused));
    let told =
        PrincipalMessage { id: 1, anonymous: false, name: "ann", groups: vec![], claims: vec![] };
    let send = |count| {
        let mut bytes = Vec::new();
        ClientMessage::Principal(told.clone()).write(&mut bytes);
        let act = ClientMessage::As(AsMessage { principal: 1, messages: &refused });
        (0..count).for_each(|_| act.write(&mut bytes));
        let mut rig = Rig::new();
        rig.send_bytes(&bytes);
        (rig.pieces, rig.end.map(|end| end.code))
    };
    // In one turn about a thousand messages are taken in, and each answer counts.
    assert_eq!(send(4), (2, None));
    assert_eq!(send(17).1, Some(CloseCode::TooManyReceipts));
}

#[test]
fn of_a_run_that_was_taken_in_part_both_parts_are_told() {
    let mut edge = relaying();
    let run = Box::new(run("a", &["1", "2", "3"]));
    edge.ask(ToUpstream::Publish { request: 5, principal: principal("ann"), run });
    let error =
        ServerMessage::Error { request: 2, code: 503, slug: "memory-full", sentence: "No room." };
    crate::support::edge::hear(&mut edge, &[ServerMessage::Ok { first: 1, last: 1 }, error]);
    assert!(edge.told().is_empty(), "one is not answered");
    crate::support::edge::hear(&mut edge, &[ServerMessage::Ok { first: 3, last: 3 }]);
    let told = edge.told();
    let [FromUpstream::Answered { request: 5, result: Err(close) }] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(close.reason.contains("No room.") && close.reason.contains("2 other"), "{close}");
}

#[test]
fn answers_to_nothing_end_the_session() {
    let result = |text| {
        let result =
            tiderace_native::codec::ResultMessage { request: 1, result: text, entries: b"" };
        ServerMessage::Result(result)
    };
    ends(&mut relaying(), &[result("{}")], "RESULT");
    let mut edge = relaying();
    let operation = update("a", None, "x");
    edge.ask(ToUpstream::Operate { request: 6, principal: principal("ann"), operation });
    ends(&mut edge, &[result("[1]")], "RESULT");
}

#[test]
fn principals_and_what_is_asked_for_them_are_checked() {
    let told =
        |id, name| PrincipalMessage { id, anonymous: false, name, groups: vec![], claims: vec![] };
    let publish = Publish {
        request: 0,
        flags: 0,
        destination: Place::Path(Kind::Topic, "a"),
        expires_ms: None,
        properties: b"",
        body: b"x",
    };
    let inner = |messages: &[ClientMessage<'_>]| {
        let mut bytes = Vec::new();
        messages.iter().for_each(|message| message.write(&mut bytes));
        bytes
    };
    let operate = OperateMessage { request: 1, operation: r#"{"do":"session"}"#, body: None };
    let bye = inner(&[ClientMessage::Bye]);
    let nested = inner(&[ClientMessage::As(AsMessage { principal: 1, messages: b"" })]);
    let twice = inner(&[
        ClientMessage::Operate(operate),
        ClientMessage::Operate(OperateMessage { request: 2, ..operate }),
    ]);
    let fine = inner(&[ClientMessage::Publish(publish)]);
    let many = inner(&vec![ClientMessage::Publish(publish); 1025]);
    let act = |principal, messages| ClientMessage::As(AsMessage { principal, messages });
    let known = || ClientMessage::Principal(told(1, "ann"));
    let rows: [(&[ClientMessage<'_>], &str); 9] = [
        (&[ClientMessage::Principal(told(0, "ann"))], "1 to 64"),
        (&[ClientMessage::Principal(told(65, "ann"))], "1 to 64"),
        (&[ClientMessage::Principal(told(1, "*"))], "wildcards"),
        (&[act(1, &fine)], "no PRINCIPAL"),
        (&[known(), act(2, &fine)], "no PRINCIPAL"),
        (&[known(), act(1, &bye)], "AS holds"),
        (&[known(), act(1, &nested)], "AS holds"),
        (&[known(), act(1, &twice)], "AS holds"),
        (&[known(), act(1, &many)], "at most 1024"),
    ];
    for (messages, part) in rows {
        let mut rig = Rig::new();
        messages.iter().for_each(|message| rig.send(message));
        let end = rig.end.unwrap_or_else(|| panic!("{messages:?} was taken"));
        assert!(end.reason.contains(part), "{end}");
    }
    let mut rig = Rig::new();
    [known(), act(1, &fine)].iter().for_each(|message| rig.send(message));
    assert!(rig.end.is_none());
}
