//! Calls through an edge, byte for byte: the edge's session and the server's, each with its broker, and clients of both that
//! speak the protocol.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use tiderace_base::{CloseCode, Now, ShardId, Span, Time};
use tiderace_broker::{Action, BrokerOptions, Principal, Rule, Rules, UpstreamTopics, Who};
use tiderace_native::codec::{
    AsMessage, Auth, CallMessage, ClientMessage, Destination as Place, ExchangeMessage, Hello,
    Messages, PrincipalMessage, SendMessage, ServerMessage, SubscribeMessage, Welcome, feature,
    flag, subscribe,
};
use tiderace_native::{NativeOptions, UpstreamOptions, open_upstream, protocol};
use tiderace_testkit::{Connection, World};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Command, Credentials, Destination, ExchangeKey, Framing, FromUpstream, Kind, Target, ToUpstream,
};

use crate::support::edge::{Edge, ends, hear, options, said, up_with, welcome};
use crate::support::{MESSAGES, Rig, split};

/// A node, with clients.
struct Node {
    world: World,
    native: Arc<NativeOptions>,
}

impl Node {
    fn new(broker: BrokerOptions, message_bytes_max: usize) -> Node {
        let now = Now { time: Time::from_nanos(1_000), wall_ms: 1_000_000 };
        let native = NativeOptions { message_bytes_max, ..NativeOptions::default() };
        Node { world: World::new(now, broker, None), native: Arc::new(native) }
    }

    fn open(&mut self) -> Connection {
        let native = protocol(self.native.clone(), Arc::from([]));
        let framing = Framing::Messages(&MESSAGES);
        Connection::open(&mut self.world, 0, framing, |opening| (native.open)(opening))
    }

    fn client(&mut self, name: &str) -> Connection {
        let mut client = self.open();
        let hello = Hello {
            version: 1,
            auth: Auth::Password { user: name, password: "" },
            codecs: Vec::new(),
            client: "test",
            position: b"",
            host: None,
            edge: None,
        };
        self.say(&mut client, &ClientMessage::Hello(hello));
        received(&mut client);
        client
    }

    fn say(&mut self, client: &mut Connection, message: &ClientMessage<'_>) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        client.message(&mut self.world, false, &bytes);
        assert_eq!(client.end(), None, "{message:?}");
    }
}

/// What a client has been told, as text.
fn received(client: &mut Connection) -> Vec<String> {
    let mut received = Vec::new();
    for frame in split(&client.take_output()) {
        for message in Messages::new(&frame) {
            let (kind, payload) = message.unwrap();
            received.push(format!("{:?}", ServerMessage::read(kind, payload).unwrap()));
        }
    }
    received
}

/// An edge, its source, and the connection between them.
struct Pair {
    source: Node,
    edge: Node,
    up: Connection,
    down: Connection,
}

impl Pair {
    fn new() -> Pair {
        let rule = |allow, actions: &[Action], who, paths: &[&str]| Rule {
            allow,
            actions: actions.iter().copied().collect(),
            who: vec![who],
            paths: paths.iter().map(|text| Pattern::parse(text).unwrap()).collect(),
            kind: None,
        };
        let all: Vec<Action> = Action::ALL.into_iter().map(|(_, action)| action).collect();
        let rules = Rules::new(vec![
            rule(true, &all, Who::All, &[]),
            rule(false, &[Action::Call], Who::User("ann".into()), &["fx/denied"]),
            rule(false, &[Action::Relay], Who::User("edge".into()), &["fx/fenced"]),
        ]);
        let source = BrokerOptions { shards: 2, epoch: 300, rules, ..BrokerOptions::default() };
        let mut source = Node::new(source, 1_000);
        let upstream = UpstreamTopics {
            name: "source".into(),
            topics: vec![Pattern::parse("fx/**").unwrap()],
            services: vec![Pattern::parse("fx/**").unwrap()],
            queues: Vec::new(),
            shard: ShardId(1),
            linger: Span::from_secs(1),
            timeout: Span::from_secs(1),
            remove_after: None,
            eager: false,
            write: true,
        };
        let edge =
            BrokerOptions { shards: 2, upstreams: vec![upstream], ..BrokerOptions::default() };
        let mut edge = Node::new(edge, 2_000);
        let down = source.open();
        let credentials = Credentials { login: Some("edge".into()), ..Default::default() };
        let options = UpstreamOptions {
            credentials,
            node: "edge".into(),
            message_bytes_max: 2_000,
            ..UpstreamOptions::default()
        };
        let options = Arc::new(options);
        let framing = Framing::Messages(&MESSAGES);
        let mut up = Connection::open(&mut edge.world, 1, framing, |opening| {
            open_upstream(&options, opening)
        });
        up.admit(&mut edge.world, Principal::server());
        let mut pair = Pair { source, edge, up, down };
        pair.pass();
        pair
    }

    /// Carries what both sides say until nothing more is said; each client has taken what is for it.
    fn pass_with(&mut self, here: &mut [&mut Connection], there: &mut [&mut Connection]) {
        loop {
            here.iter_mut().for_each(|client| client.run(&mut self.edge.world));
            there.iter_mut().for_each(|client| client.run(&mut self.source.world));
            self.up.run(&mut self.edge.world);
            self.down.run(&mut self.source.world);
            let (up, down) = (split(&self.up.take_output()), split(&self.down.take_output()));
            if up.is_empty() && down.is_empty() {
                break;
            }
            up.iter().for_each(|frame| self.down.message(&mut self.source.world, false, frame));
            down.iter().for_each(|frame| self.up.message(&mut self.edge.world, false, frame));
        }
        assert_eq!((self.up.end(), self.down.end()), (None, None));
    }

    fn pass(&mut self) {
        self.pass_with(&mut [], &mut []);
    }
}

fn serve(request: u32, key: u32, flags: u64, path: &str) -> ClientMessage<'_> {
    let flags = flags | if path.contains('*') { subscribe::PATTERN } else { 0 };
    ClientMessage::Subscribe(SubscribeMessage {
        request,
        subscription: key,
        flags,
        kind: Kind::Service,
        path,
        selector: None,
        prefetch: None,
        position: None,
        replay: None,
        interval_ms: None,
        start: None,
        credit: None,
    })
}

fn call<'a>(number: u32, flags: u8, service: &'a str, body: &'a [u8]) -> CallMessage<'a> {
    let destination = Place::Path(Kind::Service, service);
    let (timeout_ms, credit, properties) = (0, None, &b"k:v\n"[..]);
    CallMessage { number, flags, timeout_ms, destination, credit, properties, body }
}

fn send(number: u32, flags: u8, body: &[u8]) -> ClientMessage<'_> {
    ClientMessage::Send(SendMessage { number, flags, properties: b"", body })
}

#[test]
fn a_call_and_its_answers_are_as_on_one_node() {
    let mut pair = Pair::new();
    let mut server = pair.source.client("server");
    pair.source.say(&mut server, &serve(1, 3, 0, "fx/quote"));
    let mut ann = pair.edge.client("ann");
    // JSON with properties, a conversation both ways.
    pair.edge.say(&mut ann, &ClientMessage::Call(call(5, 2, "fx/quote", b"{}")));
    pair.pass_with(&mut [&mut ann], &mut [&mut server]);
    let told = received(&mut server);
    let [_, first] = &told[..] else { panic!("{told:?}") };
    let [start, number] =
        [first.split("number: ").next().unwrap(), first.split("number: ").nth(1).unwrap()];
    assert!(start.contains("flags: 50"), "{first}");
    assert!(
        number.contains("id: Some(3), properties: [107, 58, 118, 10], body: [123, 125]"),
        "{first}"
    );
    let number: u32 = number.split(',').next().unwrap().parse().unwrap();
    pair.source.say(&mut server, &send(number, flag::RESPONDER | 2, b"1"));
    pair.edge.say(&mut ann, &send(5, 1, b"more"));
    pair.edge.say(&mut ann, &send(5, flag::LAST | flag::BARE, b""));
    pair.pass_with(&mut [&mut ann], &mut [&mut server]);
    let more = format!(
        "[\"Exchange(ExchangeMessage {{ flags: 17, number: {number}, id: None, properties: [], body: [109, 111, 114, 101] }})\", \
         \"Exchange(ExchangeMessage {{ flags: 152, number: {number}, id: None, properties: [], body: [] }})\"]"
    );
    assert_eq!(format!("{:?}", received(&mut server)), more);
    pair.source.say(&mut server, &send(number, flag::RESPONDER | flag::LAST, b"2"));
    pair.pass_with(&mut [&mut ann], &mut [&mut server]);
    let answers = [
        "Exchange(ExchangeMessage { flags: 2, number: 5, id: None, properties: [], body: [49] })",
        "Exchange(ExchangeMessage { flags: 8, number: 5, id: None, properties: [], body: [50] })",
    ];
    assert_eq!(received(&mut ann), answers);
}

#[test]
fn either_side_ends_an_exchange_with_its_reason() {
    let mut pair = Pair::new();
    let mut server = pair.source.client("server");
    pair.source.say(&mut server, &serve(1, 3, 0, "fx/quote"));
    let mut ann = pair.edge.client("ann");
    let cancel = |responder, number, code, sentence| ClientMessage::Cancel {
        responder,
        number,
        code: code as u16,
        sentence,
    };
    let number = |told: &[String]| -> u32 {
        let text = told.iter().find_map(|text| text.split("number: ").nth(1)).unwrap();
        text.split(',').next().unwrap().parse().unwrap()
    };
    pair.edge.say(&mut ann, &ClientMessage::Call(call(1, 0, "fx/quote", b"one")));
    pair.pass_with(&mut [&mut ann], &mut [&mut server]);
    let of = number(&received(&mut server));
    pair.edge.say(&mut ann, &cancel(false, 1, CloseCode::CallCancelled, "Enough."));
    pair.pass_with(&mut [&mut ann], &mut [&mut server]);
    let told = received(&mut server);
    let ended = format!("Ended {{ responder: true, number: {of}, code: 705");
    assert!(told[0].starts_with(&ended) && told[0].contains("Enough."), "{told:?}");
    // The responder's own words, behind what it has said before.
    pair.edge.say(&mut ann, &ClientMessage::Call(call(2, 0, "fx/quote", b"two")));
    pair.pass_with(&mut [&mut ann], &mut [&mut server]);
    let of = number(&received(&mut server));
    pair.source.say(&mut server, &send(of, flag::RESPONDER, b"so far"));
    pair.source.say(&mut server, &cancel(true, of, CloseCode::CallFailed, "No such pair."));
    pair.pass_with(&mut [&mut ann], &mut [&mut server]);
    let told = received(&mut ann);
    assert!(told[0].contains("number: 2, id: None"), "{told:?}");
    let words = "Ended { responder: false, number: 2, code: 708, slug: \"call-failed\", sentence: \"No such pair.\" }";
    assert_eq!(told[1], words);
    // A responder that goes.
    pair.edge.say(&mut ann, &ClientMessage::Call(call(3, 0, "fx/quote", b"three")));
    pair.pass_with(&mut [&mut ann], &mut [&mut server]);
    server.shut_down(&mut pair.source.world);
    pair.pass_with(&mut [&mut ann], &mut []);
    let told = received(&mut ann);
    assert!(told[0].contains("number: 3, code: 703, slug: \"responder-gone\""), "{told:?}");
    // Nobody serves any more.
    pair.edge.say(&mut ann, &ClientMessage::Call(call(4, 0, "fx/quote", b"four")));
    pair.pass_with(&mut [&mut ann], &mut []);
    let told = received(&mut ann);
    assert!(told[0].contains("number: 4, code: 700, slug: \"no-responder\""), "{told:?}");
    assert!(told[0].contains("the upstream says: "), "{told:?}");
}

#[test]
fn what_a_caller_wants_reaches_the_responder_and_no_more_comes() {
    let mut pair = Pair::new();
    let mut server = pair.source.client("server");
    pair.source.say(&mut server, &serve(1, 3, subscribe::CREDITS, "fx/**"));
    let mut ann = pair.edge.client("ann");
    let bounded = CallMessage { credit: Some(2), ..call(5, flag::LAST, "fx/quote", b"") };
    pair.edge.say(&mut ann, &ClientMessage::Call(bounded));
    pair.pass_with(&mut [&mut ann], &mut [&mut server]);
    let told = received(&mut server);
    let [_, wanted, _, first] = &told[..] else { panic!("{told:?}") };
    let number = wanted.strip_prefix("Wanted { number: ").unwrap().split(',').next().unwrap();
    assert!(wanted.ends_with("messages: 2 }") && first.contains(&format!("number: {number},")));
    let number: u32 = number.parse().unwrap();
    pair.edge.say(&mut ann, &ClientMessage::Want { number: 5, messages: 3 });
    pair.edge.say(&mut ann, &ClientMessage::Want { number: 5, messages: 0 });
    pair.pass_with(&mut [&mut ann], &mut [&mut server]);
    assert_eq!(received(&mut server), [format!("Wanted {{ number: {number}, messages: 3 }}")]);
    // A responder that has not asked is not told.
    let mut plain = pair.source.client("plain");
    pair.source.say(&mut plain, &serve(1, 3, 0, "fx/plain"));
    let bounded = CallMessage { credit: Some(2), ..call(6, flag::LAST, "fx/plain", b"") };
    pair.edge.say(&mut ann, &ClientMessage::Call(bounded));
    pair.edge.say(&mut ann, &ClientMessage::Want { number: 6, messages: 3 });
    pair.pass_with(&mut [&mut ann], &mut [&mut plain]);
    assert!(!received(&mut plain).iter().any(|text| text.contains("Wanted")));
}

#[test]
fn both_fences_refuse_and_what_is_too_large_ends_alone() {
    let mut pair = Pair::new();
    let mut server = pair.source.client("server");
    pair.source.say(&mut server, &serve(1, 3, 0, "fx/**"));
    received(&mut server);
    let (mut ann, mut bob) = (pair.edge.client("ann"), pair.edge.client("bob"));
    pair.edge.say(&mut bob, &ClientMessage::Call(call(1, 0, "fx/denied", b"bob's")));
    pair.edge.say(&mut ann, &ClientMessage::Call(call(1, 0, "fx/denied", b"ann's")));
    pair.edge.say(&mut ann, &ClientMessage::Call(call(2, 0, "fx/fenced", b"ann's")));
    pair.edge.say(&mut ann, &ClientMessage::Call(call(3, 0, "fx/large", &[b'x'; 1_200])));
    pair.pass_with(&mut [&mut ann, &mut bob], &mut [&mut server]);
    let told = received(&mut ann);
    let [large, denied, fenced] = &{
        let mut told = told.clone();
        told.sort();
        [told[2].clone(), told[0].clone(), told[1].clone()]
    };
    for (text, number, slug, part) in [
        (denied, 1, "not-authorised", "the upstream says: "),
        (fenced, 2, "not-authorised", "relay"),
        (large, 3, "body-too-large", "1204 bytes"),
    ] {
        assert!(text.contains(&format!("number: {number}, ")) && text.contains(slug), "{told:?}");
        assert!(text.contains(part), "{text}");
    }
    // One message too large, in the midst of an exchange: both sides hear of it.
    assert_eq!(received(&mut bob), Vec::<String>::new());
    let told = received(&mut server);
    assert_eq!(told.iter().filter(|text| text.contains("Exchange(")).count(), 1, "{told:?}");
    pair.edge.say(&mut bob, &send(1, 0, &[b'x'; 1_200]));
    pair.pass_with(&mut [&mut bob], &mut [&mut server]);
    // The session is due at once, to end what it could not say.
    pair.up.wait(&mut pair.edge.world, Span::ZERO);
    pair.pass_with(&mut [&mut bob], &mut [&mut server]);
    let (told, known) = (received(&mut bob), received(&mut server));
    assert!(told[0].contains("body-too-large") && known[0].contains("body-too-large"), "{told:?}");
}

#[test]
fn who_serves_at_an_edge_is_called_from_the_source() {
    let mut pair = Pair::new();
    let mut server = pair.edge.client("server");
    pair.edge.say(&mut server, &serve(1, 3, subscribe::CREDITS, "fx/local"));
    pair.edge.say(&mut server, &serve(2, 4, 0, "fx/more/*"));
    received(&mut server);
    pair.up.wait(&mut pair.edge.world, Span::from_millis(50));
    pair.pass();
    let mut dan = pair.source.client("dan");
    let bounded = CallMessage { credit: Some(1), ..call(1, 0, "fx/local", b"one") };
    pair.source.say(&mut dan, &ClientMessage::Call(bounded));
    pair.source.say(&mut dan, &ClientMessage::Call(call(2, flag::LAST, "fx/more/a", b"two")));
    pair.pass_with(&mut [&mut server], &mut [&mut dan]);
    let told = received(&mut server);
    let exchanges: Vec<&String> = told.iter().filter(|it| it.starts_with("Exchange(")).collect();
    assert_eq!(exchanges.len(), 2, "{told:?}");
    assert!(
        told.iter().any(|text| text.starts_with("Wanted {") && text.ends_with("messages: 1 }"))
    );
    assert!(told.iter().any(|text| text.contains("path: \"fx/more/a\"")), "{told:?}");
    for text in exchanges {
        let number = text.split("number: ").nth(1).unwrap().split(',').next().unwrap();
        let number = number.parse().unwrap();
        pair.edge.say(&mut server, &send(number, flag::RESPONDER | flag::LAST | 1, b"here"));
    }
    pair.source.say(&mut dan, &send(1, flag::LAST, b"so"));
    pair.pass_with(&mut [&mut server], &mut [&mut dan]);
    let mut told = received(&mut dan);
    told.sort();
    let here = |number| {
        let body = "[104, 101, 114, 101]";
        format!(
            "Exchange(ExchangeMessage {{ flags: 9, number: {number}, id: None, properties: [], body: {body} }})"
        )
    };
    assert_eq!(told, [here(1), here(2)]);
    // Too large for the edge: the exchange ends, and nothing else.
    pair.source.say(&mut dan, &ClientMessage::Call(call(3, flag::LAST, "fx/more/a", b"three")));
    pair.pass_with(&mut [&mut server], &mut [&mut dan]);
    // When nobody serves there any more, the source knows.
    let end = ClientMessage::Unsubscribe { request: 3, subscription: 4 };
    pair.edge.say(&mut server, &end);
    pair.pass_with(&mut [&mut server], &mut [&mut dan]);
    pair.up.wait(&mut pair.edge.world, Span::from_millis(50));
    pair.pass_with(&mut [&mut server], &mut [&mut dan]);
    let told = received(&mut dan);
    assert!(told[0].contains("number: 3, code: 703"), "{told:?}");
    pair.source.say(&mut dan, &ClientMessage::Call(call(4, flag::LAST, "fx/more/a", b"four")));
    pair.pass_with(&mut [], &mut [&mut dan]);
    let told = received(&mut dan);
    assert!(told[0].contains("number: 4, code: 700"), "{told:?}");
}

/// A node whose upstream can be called, and that serves one service and one pattern there.
fn calling() -> Edge {
    let features = welcome().features | feature::RELAY | feature::CALLS;
    let options = UpstreamOptions { message_bytes_max: 100, ..options() };
    let mut edge = up_with(options, Welcome { features, ..welcome() });
    let path = Path::parse("fx/a").unwrap();
    let target = Target::Exact(Destination { kind: Kind::Service, path });
    edge.ask(ToUpstream::Serve { key: 0, target });
    let target = Target::Pattern(Kind::Service, Pattern::parse("fx/**").unwrap());
    edge.ask(ToUpstream::Serve { key: 1, target });
    let told = said(&mut edge);
    assert!(
        told[0]
            .contains("request: 1, subscription: 7, flags: 524288, kind: Service, path: \"fx/a\""),
        "{told:?}"
    );
    assert!(told[1].contains("request: 2, subscription: 6, flags: 524544"), "{told:?}");
    edge
}

fn exchange(flags: u8, number: u32, id: Option<u32>, body: &[u8]) -> ServerMessage<'_> {
    ServerMessage::Exchange(ExchangeMessage { flags, number, id, properties: b"", body })
}

#[test]
fn an_upstream_that_breaks_the_rules_of_exchanges_is_left() {
    let first = flag::RESPONDER | flag::FIRST;
    let rows = [
        (exchange(first, 1, Some(5), b"x"), "a service that was not asked for"),
        (exchange(first, 1, Some(6), b"x"), "a service that was not asked for"),
        (exchange(first | flag::SERVICE_ANNOUNCED, 1, Some(0), b"x"), "was not asked for"),
        (exchange(flag::BARE, 1, None, b""), "BARE"),
    ];
    for (message, part) in rows {
        ends(&mut calling(), &[message], part);
    }
}

#[test]
fn what_an_upstream_says_in_exchanges_is_asked_of_the_broker() {
    let mut edge = calling();
    let (code, slug, sentence) = (9_999, "new", "Ä new one.");
    let announced = ServerMessage::Topic { topic: 0, subscription: 6, path: "fx/b" };
    let first = flag::RESPONDER | flag::FIRST;
    hear(
        &mut edge,
        &[
            ServerMessage::Ok { first: 1, last: 2 },
            exchange(1 | flag::LAST, 4, None, b"x"),
            exchange(flag::BARE | flag::LAST, 4, None, b"left aside"),
            ServerMessage::Wanted { number: 8, messages: 7 },
            exchange(first, 8, Some(7), b"y"),
            announced,
            exchange(first | flag::SERVICE_ANNOUNCED, 9, Some(0), b"z"),
            exchange(flag::RESPONDER, 9, None, &[b'x'; 101]),
            ServerMessage::Ended { responder: false, number: 5, code, slug, sentence },
        ],
    );
    assert_eq!(edge.end, None);
    let told = edge.told();
    let serving = |told: &FromUpstream, key| matches!(told, FromUpstream::Serving { key: of, result: Ok(true) } if *of == key);
    assert!(serving(&told[0], 0) && serving(&told[1], 1), "{told:?}");
    let asked = std::mem::take(&mut edge.commands);
    let [answer, bare, credit, one, two, large, end] = &asked[..] else { panic!("{asked:?}") };
    let Command::SendExchange(sent) = answer else { panic!("{answer:?}") };
    assert_eq!(
        (sent.exchange, &*sent.body, sent.last),
        (ExchangeKey::responder(4), &b"x"[..], true)
    );
    assert!(sent.properties.starts_with(b"content-type:application/json"), "{sent:?}");
    let Command::SendExchange(sent) = bare else { panic!("{bare:?}") };
    assert!(sent.bare && sent.last && sent.body.is_empty());
    assert!(matches!(credit, Command::ExchangeCredit { messages: 7, .. }));
    let Command::Call(call) = one else { panic!("{one:?}") };
    assert_eq!((call.number, call.service.as_str(), call.credit), (8, "fx/a", Some(7)));
    let Command::Call(call) = two else { panic!("{two:?}") };
    assert_eq!((call.number, call.service.as_str(), call.credit), (9, "fx/b", None));
    let Command::Cancel { exchange, close } = large else { panic!("{large:?}") };
    assert_eq!((*exchange, close.code), (ExchangeKey::caller(9), CloseCode::BodyTooLarge));
    let Command::Cancel { exchange, close } = end else { panic!("{end:?}") };
    assert_eq!((*exchange, close.code), (ExchangeKey::responder(5), CloseCode::CallFailed));
    assert_eq!(close.reason, "the upstream says `new`: Ä new one.");
    let cancel = &said(&mut edge)[0];
    assert!(cancel.starts_with("Cancel { responder: true, number: 9, code: "), "{cancel}");
}

#[test]
fn an_as_holds_one_call_and_credits_are_for_services() {
    let known = ClientMessage::Principal(PrincipalMessage {
        id: 1,
        anonymous: false,
        name: "ann",
        groups: vec![],
        claims: vec![],
    });
    let inner = |count: u32| {
        let mut bytes = Vec::new();
        (0..count)
            .for_each(|number| ClientMessage::Call(call(number, 0, "a", b"")).write(&mut bytes));
        bytes
    };
    let (one, two) = (inner(1), inner(2));
    let act = |messages| ClientMessage::As(AsMessage { principal: 1, messages });
    let mut rig = Rig::new();
    [known.clone(), act(&one)].iter().for_each(|message| rig.send(message));
    let asked = &rig.commands;
    assert!(matches!(asked[..], [Command::ActAs(Some(_)), Command::Call(_), Command::ActAs(None)]));
    let mut rig = Rig::new();
    [known, act(&two)].iter().for_each(|message| rig.send(message));
    assert!(rig.end.unwrap().reason.contains("one OPERATE, CALL or"));
    let mut rig = Rig::new();
    let topic = crate::support::subscribe(1, 0, subscribe::CREDITS, "a");
    rig.send(&ClientMessage::Subscribe(topic));
    assert!(rig.received()[0].contains("CREDITS is for services"));
}
