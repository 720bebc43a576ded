//! The client against the real session and the real broker, in memory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use tiderace_base::{Close, Now, SessionId, ShardId};
use tiderace_broker::{Broker, BrokerOptions, Effects};
use tiderace_client::{Auth, Client, Destination, Event, Kind, Publish, SubscribeOptions, flag};
use tiderace_native::codec::{ServerMessage, SettleMessage};
use tiderace_native::{NativeOptions, protocol};
use tiderace_wire::{
    Commands, Context, Framing, Incoming, MessageFraming, Opening, OutQueue, Output, Session,
};

static MESSAGES: MessageFraming = MessageFraming {
    id: 1,
    text: |_, _| {},
    binary: |len, out| out.extend_from_slice(&(len as u32).to_be_bytes()),
    armour: None,
};

const FRAMING: Framing = Framing::Messages(&MESSAGES);

type Act<'a> = dyn FnMut(&mut dyn Session, Now, &mut Context<'_>) -> Result<(), Close> + 'a;

/// A node of one shard, and its connections.
struct Node {
    broker: Broker,
    now: Now,
    connections: Vec<Connection>,
}

struct Connection {
    session: Box<dyn Session>,
    id: SessionId,
    queue: OutQueue,
}

impl Node {
    fn new() -> Node {
        let options = BrokerOptions { epoch: 77, ..BrokerOptions::default() };
        let broker = Broker::new(ShardId(0), Arc::new(options));
        Node { broker, now: Now::default(), connections: Vec::new() }
    }

    fn accept(&mut self) -> usize {
        let native = protocol(Arc::new(NativeOptions::default()), [].into());
        let peer = "127.0.0.1:1".parse().unwrap();
        let opening = Opening { epoch: 77, ..Opening::new(FRAMING, peer, self.now) };
        let link = self.connections.len();
        let id = self.broker.open(self.now, link as u32);
        let session = (native.open)(&opening);
        self.connections.push(Connection { session, id, queue: OutQueue::new() });
        link
    }

    /// A connection breaks.
    fn lose(&mut self, link: usize) {
        let id = self.connections[link].id;
        self.broker.close(self.now, id, &mut Effects::default());
    }

    fn send(&mut self, link: usize, bytes: &[u8]) {
        let message = Incoming { text: false, bytes };
        self.call(link, &mut |session, now, context| session.message(now, message, context));
    }

    fn call(&mut self, link: usize, act: &mut Act<'_>) {
        let connection = &mut self.connections[link];
        let mut commands = Commands::new();
        let output = Output { framing: FRAMING, queue: &mut connection.queue };
        act(&mut *connection.session, self.now, &mut Context::new(&mut commands, output)).unwrap();
        let mut effects = Effects::default();
        self.broker.handle(self.now, connection.id, &mut commands, &mut effects);
        for (link, _, reply) in std::mem::take(&mut effects.replies) {
            let reply = &reply;
            let mut act = |session: &mut dyn Session, now, context: &mut Context<'_>| {
                session.reply(now, reply.clone(), context)
            };
            self.call(link as usize, &mut act);
        }
        assert!(effects.messages.is_empty() && effects.close.is_empty());
    }

    /// A turn: what waits is delivered, and the client takes it in.
    fn turn(&mut self, link: usize, client: &mut Client) -> Vec<String> {
        let connection = &mut self.connections[link];
        let queue = &mut connection.queue;
        while let Some(pending) = self.broker.next(self.now, connection.id, &mut Effects::default())
        {
            let mut output = Output { framing: FRAMING, queue };
            connection.session.deliver(self.now, &pending.delivery(), &mut output);
        }
        connection.session.flush(self.now, &mut Output { framing: FRAMING, queue });
        connection.session.poll_write(1 << 16, &mut Output { framing: FRAMING, queue });
        let bytes = queue.take_bytes();
        let (mut rest, mut told) = (&bytes[..], Vec::new());
        while let Some((len, more)) = rest.split_first_chunk::<4>() {
            let (frame, more) = more.split_at(u32::from_be_bytes(*len) as usize);
            rest = more;
            client.receive(frame, |event| told.push(text(&event))).unwrap();
        }
        told
    }
}

fn text(event: &Event<'_>) -> String {
    match event {
        Event::Welcome(welcome) => format!("welcome {}", welcome.name),
        Event::Update(update) => format!(
            "{}{} v{} missed {} {}{}",
            update.subscription,
            update.path.map(|path| format!(" {path}")).unwrap_or_default(),
            update.version,
            update.missed,
            update.body.escape_ascii(),
            match update {
                update if update.removed => "removed",
                update if update.delta_bytes.is_some() => " by delta",
                _ => "",
            }
        ),
        Event::Queued(queued, _) => {
            let bodies: Vec<String> = queued
                .entries()
                .map(|entry| entry.unwrap().body.escape_ascii().to_string())
                .collect();
            format!(
                "{} home {} from {}: {}",
                queued.id,
                queued.home,
                queued.first,
                bodies.join(" ")
            )
        }
        Event::Outcome(result) => {
            let values = result.values().map(|value| value.unwrap().body.escape_ascii());
            let values: Vec<String> = values.map(|body| format!(" {body}")).collect();
            format!("outcome {} {}{}", result.request, result.result, values.concat())
        }
        other => format!("{other:?}"),
    }
}

fn message<'a>(kind: Kind, path: &'a str, body: &'a [u8]) -> Publish<'a> {
    Publish {
        request: 0,
        flags: 0,
        destination: Destination::Path(kind, path),
        expires_ms: None,
        properties: b"",
        body,
    }
}

#[test]
fn values_come_by_the_codec_that_was_agreed_on() {
    for (codecs, by) in
        [(&["vcdiff", "tiderace"][..], " by delta"), (&["tiderace"], " by delta"), (&[], "")]
    {
        let mut node = Node::new();
        let (link, feed) = (node.accept(), node.accept());
        let mut client = Client::new("test").with_codecs(codecs);
        let mut out = Vec::new();
        client.connect(Auth::Anonymous, &mut out);
        let quotes = client.subscribe(SubscribeOptions::topic("fx/a").deltas(), &mut out);
        node.send(link, &out);
        node.turn(link, &mut client);
        let mut publisher = Client::new("feed");
        let mut out = Vec::new();
        publisher.connect(Auth::Anonymous, &mut out);
        for digit in 1..4 {
            let body = format!("1.0845{digit} is a quote among others of its kind");
            publisher.publish(message(Kind::Topic, "fx/a", body.as_bytes()), false, &mut out);
        }
        node.send(feed, &out);
        let expected = (1..4).map(|digit| {
            let by = if digit > 1 { by } else { "" };
            format!(
                "{quotes} v{digit} missed 0 1.0845{digit} is a quote among others of its kind{by}"
            )
        });
        assert_eq!(node.turn(link, &mut client), expected.collect::<Vec<_>>());
    }
}

#[test]
fn subscribe_publish_break_and_come_back() {
    let mut node = Node::new();
    let link = node.accept();
    let mut client = Client::new("test");
    let mut out = Vec::new();
    client.connect(Auth::Anonymous, &mut out);
    let quotes = client.subscribe(SubscribeOptions::topic("fx/a").recoverable().deltas(), &mut out);
    let all = client.subscribe(SubscribeOptions::topic("fx/*").pattern(), &mut out);
    node.send(link, &out);
    let told = node.turn(link, &mut client);
    assert_eq!(told[0], "welcome anonymous");
    assert!(told.len() == 3 && told[1..].iter().all(|event| event.starts_with("Done")), "{told:?}");

    let feed = node.accept();
    let mut publisher = Client::new("feed");
    let mut out = Vec::new();
    publisher.connect(Auth::Anonymous, &mut out);
    publisher.publish(message(Kind::Topic, "fx/a", b"{\"price\":1.0845}"), true, &mut out);
    publisher.publish(message(Kind::Topic, "fx/a", b"{\"price\":1.0846}"), true, &mut out);
    publisher.publish(message(Kind::Topic, "fx/b", b"other"), false, &mut out);
    node.send(feed, &out);
    assert_eq!(node.turn(feed, &mut publisher)[1], "Done { first: 1, last: 2 }");
    let mut told = node.turn(link, &mut client);
    told.sort();
    assert_eq!(
        told,
        [
            format!("{quotes} v1 missed 0 {{\\\"price\\\":1.0845}}"),
            format!("{quotes} v2 missed 0 {{\\\"price\\\":1.0846}} by delta"),
            format!("{all} fx/a v1 missed 0 {{\\\"price\\\":1.0845}}"),
            format!("{all} fx/a v2 missed 0 {{\\\"price\\\":1.0846}}"),
            format!("{all} fx/b v3 missed 0 other"),
        ]
    );
    assert_eq!(client.position().unwrap().epoch, 77);
    assert_eq!(client.position().unwrap().of(ShardId(0)), 3);

    node.lose(link);
    let mut out = Vec::new();
    publisher.publish(message(Kind::Topic, "fx/a", b"{\"price\":1.0847}"), false, &mut out);
    publisher.publish(message(Kind::Topic, "fx/b", b"unseen"), false, &mut out);
    node.send(feed, &out);

    let link = node.accept();
    let mut out = Vec::new();
    client.connect(Auth::Anonymous, &mut out);
    node.send(link, &out);
    let told = node.turn(link, &mut client);
    assert!(told.contains(&format!("Recovered {{ subscription: {quotes}, complete: true }}")));
    let updates: Vec<&String> = told.iter().filter(|line| line.contains(" v")).collect();
    assert_eq!(updates, [&format!("{quotes} v3 missed 0 {{\\\"price\\\":1.0847}}")]);
}

#[test]
fn values_that_are_gone_after_a_break_are_told_as_removed() {
    let mut node = Node::new();
    let (link, feed) = (node.accept(), node.accept());
    let mut client = Client::new("test");
    let mut out = Vec::new();
    client.connect(Auth::Anonymous, &mut out);
    let here = client.subscribe(SubscribeOptions::topic("here/*").pattern().values(), &mut out);
    let one = client.subscribe(SubscribeOptions::topic("here/bob").values(), &mut out);
    node.send(link, &out);
    node.turn(link, &mut client);
    let mut publisher = Client::new("feed");
    let mut out = Vec::new();
    publisher.connect(Auth::Anonymous, &mut out);
    for path in ["here/ann", "here/bob"] {
        let value = Publish { flags: flag::RETAIN, ..message(Kind::Topic, path, b"1") };
        publisher.publish(value, false, &mut out);
    }
    publisher.publish(message(Kind::Topic, "here/said", b"1"), false, &mut out);
    node.send(feed, &out);
    assert_eq!(node.turn(link, &mut client).len(), 4);

    node.lose(link);
    let mut out = Vec::new();
    let gone = Publish { flags: flag::REMOVE, ..message(Kind::Topic, "here/bob", b"") };
    publisher.publish(gone, false, &mut out);
    node.send(feed, &out);
    let link = node.accept();
    let mut out = Vec::new();
    client.connect(Auth::Anonymous, &mut out);
    node.send(link, &out);
    let told = node.turn(link, &mut client);
    let updates: Vec<&String> = told.iter().filter(|line| line.contains(" v")).collect();
    let expected = [
        format!("{here} here/ann v1 missed 0 1"),
        format!("{here} here/bob v0 missed 0 removed"),
        format!("{one} v0 missed 0 removed"),
    ];
    assert_eq!(updates, expected.iter().collect::<Vec<_>>());
}

#[test]
fn operations_and_what_comes_of_them() {
    let mut node = Node::new();
    let (link, watch) = (node.accept(), node.accept());
    let (mut client, mut watcher) = (Client::new("test"), Client::new("watcher"));
    let mut out = Vec::new();
    client.connect(Auth::Anonymous, &mut out);
    let update = r#"{"do":"update","path":"a/b","value":{"n":1},"spec":{"type":"json"}}"#;
    let update = client.operate(update, None, &mut out);
    let create = r#"{"do":"create","path":"a/c","type":"image/png"}"#;
    client.operate(create, Some(b"\xff"), &mut out);
    let fetch = r#"{"do":"fetch","selector":"a/**","values":true}"#;
    client.operate(fetch, None, &mut out);
    client.operate(r#"{"do":"will","path":"a/w","text":"gone","retain":true}"#, None, &mut out);
    let failed = r#"{"do":"update","path":"a/b","merge":{"n":2},"if":{"version":9}}"#;
    let failed = client.operate(failed, None, &mut out);
    node.send(link, &out);
    let told = node.turn(link, &mut client);
    assert!(
        told.iter().any(|event| event.starts_with(&format!("outcome {update} {{\"version\":")))
    );
    assert!(
        told.iter()
            .any(|event| event.contains(&format!("Refused {{ request: {failed}, code: 515")))
    );
    let page = told.iter().find(|event| event.contains("topics")).unwrap();
    assert!(page.contains("\"path\":\"a/b\"") && page.ends_with(r#" {\"n\":1} \xff"#), "{page}");

    // The will of a connection that is lost is published, that of one that says goodbye is not.
    let mut out = Vec::new();
    watcher.connect(Auth::Anonymous, &mut out);
    watcher.subscribe(SubscribeOptions::topic("a/*").pattern(), &mut out);
    node.send(watch, &out);
    node.turn(watch, &mut watcher);
    node.lose(link);
    let told = node.turn(watch, &mut watcher);
    assert!(told.iter().any(|event| event.contains("gone")), "{told:?}");
    let third = node.accept();
    let mut out = Vec::new();
    client.connect(Auth::Anonymous, &mut out);
    client.operate(r#"{"do":"will","path":"a/w","text":"gone"}"#, None, &mut out);
    client.bye(&mut out);
    node.send(third, &out);
    node.lose(third);
    assert!(!node.turn(watch, &mut watcher).iter().any(|event| event.contains("gone")));
}

#[test]
fn queues_and_ended_subscriptions() {
    let mut node = Node::new();
    let link = node.accept();
    let mut client = Client::new("test");
    let mut out = Vec::new();
    client.connect(Auth::Anonymous, &mut out);
    let jobs = client.subscribe(SubscribeOptions::queue("jobs").explicit(), &mut out);
    client.publish(message(Kind::Queue, "jobs", b"one"), false, &mut out);
    node.send(link, &out);
    let told = node.turn(link, &mut client);
    let delivered = told.last().unwrap();
    assert!(delivered.starts_with(&format!("{jobs} home 0 from ")), "{told:?}");
    let first: u64 = delivered.split(' ').nth(4).unwrap().trim_end_matches(':').parse().unwrap();
    let mut out = Vec::new();
    let settle = SettleMessage {
        request: 0,
        subscription: jobs,
        home: 0,
        reject: false,
        ranges: vec![(first, first)],
    };
    client.settle(settle, &mut out);
    client.unsubscribe(jobs, &mut out);
    // The id is not free before the end is answered.
    let other = client.subscribe(SubscribeOptions::topic("a"), &mut out);
    assert_ne!(other, jobs);
    node.send(link, &out);
    node.turn(link, &mut client);
    let mut out = Vec::new();
    assert_eq!(client.subscribe(SubscribeOptions::topic("b"), &mut out), jobs);
    let refused = client.subscribe(SubscribeOptions::topic("b//c"), &mut out);
    node.send(link, &out);
    let told = node.turn(link, &mut client);
    assert!(told.iter().any(|event| event.contains("bad-destination")), "{told:?}");
    let mut out = Vec::new();
    assert_eq!(client.subscribe(SubscribeOptions::topic("c"), &mut out), refused);
}

#[test]
fn a_subscription_that_the_server_ends_is_told_and_not_made_again() {
    let mut node = Node::new();
    let mut client = Client::new("test");
    let mut out = Vec::new();
    client.connect(Auth::Anonymous, &mut out);
    let jobs = client.subscribe(SubscribeOptions::queue("jobs").explicit(), &mut out);
    let other = client.subscribe(SubscribeOptions::queue("other"), &mut out);
    let link = node.accept();
    node.send(link, &out);
    node.turn(link, &mut client);
    let hear = |client: &mut Client, subscription| {
        let (code, slug, sentence) = (531, "upstream-away", "It is away.");
        let ended = ServerMessage::Unsubscribed { subscription, code, slug, sentence };
        let mut bytes = Vec::new();
        ended.write(&mut bytes);
        let mut told = Vec::new();
        client.receive(&bytes, |event| told.push(text(&event))).unwrap();
        told
    };
    let expected = format!(
        "Unsubscribed {{ subscription: {jobs}, code: 531, slug: \"upstream-away\", sentence: \"It is away.\" }}"
    );
    assert_eq!(hear(&mut client, jobs), [expected]);
    assert!(hear(&mut client, jobs).is_empty(), "it is over");
    // One whose end is on its way keeps its id until that is answered.
    let mut out = Vec::new();
    client.unsubscribe(other, &mut out);
    assert!(hear(&mut client, other).is_empty());
    assert_eq!(client.subscribe(SubscribeOptions::topic("a"), &mut out), jobs);
    assert_ne!(client.subscribe(SubscribeOptions::topic("b"), &mut out), other);
    // On the next connection nothing is left of them.
    let mut again = Vec::new();
    client.connect(Auth::Anonymous, &mut again);
    let said = String::from_utf8_lossy(&again).into_owned();
    assert!(!said.contains("jobs") && !said.contains("other"), "{said}");
}
