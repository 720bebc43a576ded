//! A small event loop: sessions carried by requests and WebSockets, driven as the server drives them.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::indexing_slicing)]

mod echo;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, Now, ShardId, Span, Time};
use tiderace_engineio::{EngineOptions, protocol};
use tiderace_topics::Path;
use tiderace_wire::{
    Answer, Commands, Context, Delivery, Destination, Framing, Held, Incoming, Kind,
    MessageFraming, Meta, Opening, OutQueue, Output, Protocol, Request, Response, Route,
    RunBuilder, Session, SessionAction, SharedRun, SubscriptionKey, Takeover, Ticket,
};

/// Messages of a WebSocket: a letter for the kind, a length, the bytes.
pub static SOCKET: MessageFraming = MessageFraming {
    id: 1,
    text: |len, out| header(b't', len, out),
    binary: |len, out| header(b'b', len, out),
    armour: None,
};

fn header(kind: u8, len: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&u32::try_from(len).unwrap().to_be_bytes());
}

/// A message as a test sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    Text(String),
    Binary(Vec<u8>),
}

pub fn text(message: &str) -> Received {
    Received::Text(message.to_owned())
}

/// The server.
pub struct Node {
    protocol: Protocol,
    pub now: Now,
    records: HashMap<u32, Record>,
    next_record: u32,
    next_request: u32,
    answers: HashMap<u32, Response>,
    pub commands: Commands,
}

struct Record {
    session: Box<dyn Session>,
    queue: OutQueue,
    /// Set while a WebSocket carries it.
    socket: Option<u32>,
    pending: Option<(u32, Option<Held>)>,
    backlog: Vec<Vec<u8>>,
    /// What was written to the WebSocket.
    wire: Vec<u8>,
    end: Option<Close>,
}

/// A WebSocket; it may come to carry another record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket(u32);

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Asked(u32);

impl Node {
    pub fn new() -> Node {
        Node::with(EngineOptions::default())
    }

    pub fn with(options: EngineOptions) -> Node {
        let paths: Arc<[String]> = Arc::from(["/engine.io/".to_owned()]);
        let inner = Arc::new(|opening: &Opening<'_>| echo::open(opening));
        Node {
            protocol: protocol("engineio", Arc::new(options), paths, inner),
            now: Now { time: Time::from_nanos(1_000), wall_ms: 1_000_000 },
            records: HashMap::new(),
            next_record: 1,
            next_request: 1,
            answers: HashMap::new(),
            commands: Commands::new(),
        }
    }

    /// A request whose answer is there at once.
    pub fn ask(
        &mut self,
        method: &str,
        query: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        let asked = self.begin(method, query, fields, body);
        self.answer(asked).unwrap_or_else(|| panic!("{method} {query} is not answered"))
    }

    pub fn get(&mut self, query: &str) -> Response {
        self.ask("GET", query, &[], b"")
    }

    pub fn post(&mut self, query: &str, body: &str) -> Response {
        self.ask("POST", query, &[("Content-Type", "text/plain;charset=UTF-8")], body.as_bytes())
    }

    /// A poll that may have to wait.
    pub fn poll(&mut self, query: &str) -> Asked {
        self.begin("GET", query, &[], b"")
    }

    /// The answer to a request, once.
    pub fn answer(&mut self, asked: Asked) -> Option<Response> {
        self.answers.remove(&asked.0)
    }

    /// Whether a request has not been answered yet.
    pub fn is_waiting(&self, asked: Asked) -> bool {
        let waits = |record: &Record| matches!(record.pending, Some((id, _)) if id == asked.0);
        self.records.values().any(waits)
    }

    /// Sends a request.
    pub fn begin(
        &mut self,
        method: &str,
        query: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Asked {
        let asked = Asked(self.next_request);
        self.next_request += 1;
        let fields: Vec<(&str, &[u8])> =
            fields.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let mut request = request(method, query, &fields, b"");
        let face = self.protocol.http.clone().unwrap();
        let route = (face.route)(&request).expect("the path is the protocol's");
        if body.len() > face.body_bytes_max {
            self.answers.insert(asked.0, (face.too_large)(&request));
            return asked;
        }
        request.body = body;
        let key = match route {
            Route::Respond(response) => {
                self.answers.insert(asked.0, response);
                return asked;
            }
            Route::Open => self.open(&request, None),
            Route::Session(ticket) => match self.holder(&ticket) {
                Some(key) => key,
                None => {
                    self.answers.insert(asked.0, (face.unknown)(&request));
                    return asked;
                }
            },
        };
        self.request(key, asked.0, &request);
        self.turn();
        asked
    }

    fn request(&mut self, key: u32, asked: u32, request: &Request<'_>) {
        let mut answer = None;
        let outcome = self.call(key, |session, now, context| {
            answer = Some(session.request(now, request, context)?);
            Ok(())
        });
        match answer {
            Some(Answer::Respond(response)) => {
                self.answers.insert(asked, response);
            }
            Some(Answer::Hold(held)) => self.hold(key, asked, Some(held)),
            Some(Answer::Later) => self.hold(key, asked, None),
            Some(Answer::Stream(_)) => panic!("no streams here"),
            None => {
                self.answers.insert(asked, Response::new(400, "text/plain", "refused"));
            }
        }
        self.after(key, outcome);
    }

    fn hold(&mut self, key: u32, asked: u32, held: Option<Held>) {
        let record = self.records.get_mut(&key).unwrap();
        if let Some((before, _)) = record.pending.replace((asked, held)) {
            self.answers.insert(before, Response::new(400, "text/plain", "overtaken"));
        }
    }

    fn open(&mut self, request: &Request<'_>, socket: Option<u32>) -> u32 {
        let key = self.next_record;
        self.next_record += 1;
        let framing = if socket.is_some() { Framing::Messages(&SOCKET) } else { Framing::Stream };
        let opening = Opening {
            request: Some(request),
            ticket: Ticket {
                shard: ShardId(0),
                key: Key { slot: key, generation: 1 },
                secret: 0xfeed_beef << 64 | u128::from(key),
            },
            ..Opening::new(framing, peer(), self.now)
        };
        let record = Record {
            session: (self.protocol.open)(&opening),
            queue: OutQueue::new(),
            socket,
            pending: None,
            backlog: Vec::new(),
            wire: Vec::new(),
            end: None,
        };
        assert!(record.session.takes_messages());
        self.records.insert(key, record);
        let outcome = self.call(key, |session, now, context| session.begin(now, context));
        self.after(key, outcome);
        key
    }

    fn holder(&self, ticket: &Ticket) -> Option<u32> {
        let record = self.records.get(&ticket.key.slot)?;
        let known = record.session.secret() == Some(ticket.secret);
        (known && record.end.is_none()).then_some(ticket.key.slot)
    }

    /// Opens a WebSocket, or gives the answer it is refused with.
    pub fn connect(&mut self, query: &str) -> Result<Socket, Response> {
        let fields: [(&str, &[u8]); 2] = [("Upgrade", b"websocket"), ("Connection", b"Upgrade")];
        let request = request("GET", query, &fields, b"");
        let face = self.protocol.http.clone().unwrap();
        if let Some(Route::Respond(response)) = (face.route)(&request) {
            return Err(response);
        }
        let socket = self.next_record;
        self.open(&request, Some(socket));
        self.turn();
        Ok(Socket(socket))
    }

    pub fn send(&mut self, socket: Socket, message: &str) {
        self.send_message(socket, true, message.as_bytes());
    }

    pub fn send_binary(&mut self, socket: Socket, message: &[u8]) {
        self.send_message(socket, false, message);
    }

    fn send_message(&mut self, socket: Socket, text: bool, bytes: &[u8]) {
        let Some(key) = self.carried_by(socket) else { return };
        let message = Incoming { text, bytes };
        let outcome =
            self.call(key, |session, now, context| session.message(now, message, context));
        self.after(key, outcome);
        self.turn();
    }

    fn carried_by(&self, socket: Socket) -> Option<u32> {
        let live = |record: &&Record| record.socket == Some(socket.0) && record.end.is_none();
        self.records.iter().find(|(_, record)| live(record)).map(|(key, _)| *key)
    }

    fn behind(&self, socket: Socket) -> &Record {
        self.records.values().find(|record| record.socket == Some(socket.0)).unwrap()
    }

    /// What a WebSocket's client has received since the last call.
    pub fn received(&mut self, socket: Socket) -> Vec<Received> {
        let record = self.records.values_mut().find(|record| record.socket == Some(socket.0));
        let wire = std::mem::take(&mut record.unwrap().wire);
        let mut rest = &wire[..];
        let mut received = Vec::new();
        while let [kind, a, b, c, d, tail @ ..] = rest {
            let len = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let (message, tail) = tail.split_at(len);
            received.push(match kind {
                b't' => Received::Text(String::from_utf8(message.to_vec()).unwrap()),
                b'b' => Received::Binary(message.to_vec()),
                other => panic!("no WebSocket message begins with {other}"),
            });
            rest = tail;
        }
        assert!(rest.is_empty(), "bytes that are no message: {rest:?}");
        received
    }

    /// How a WebSocket ended, if it did.
    pub fn closed(&self, socket: Socket) -> Option<CloseCode> {
        self.behind(socket).end.as_ref().map(|close| close.code)
    }

    /// How the session of that id ended, if it did.
    pub fn ended(&self, sid: &str) -> Option<Close> {
        self.records[&Ticket::decode(sid).unwrap().key.slot].end.clone()
    }

    /// The client hangs up on a poll.
    pub fn abandon(&mut self, asked: Asked) {
        let waits = |record: &Record| matches!(record.pending, Some((id, _)) if id == asked.0);
        let key = self.records.iter().find(|(_, record)| waits(record)).map(|(key, _)| *key);
        let key = key.unwrap();
        self.records.get_mut(&key).unwrap().pending = None;
        let outcome = self.call(key, |session, now, context| session.abandoned(now, context));
        self.after(key, outcome);
        self.turn();
    }

    /// A WebSocket's connection is lost; a probe is not asked for a last word.
    pub fn lose(&mut self, socket: Socket) {
        if let Some(key) = self.carried_by(socket) {
            self.records.get_mut(&key).unwrap().end = Some(CloseCode::PeerGone.into());
        }
    }

    /// Puts a message in a session's way.
    pub fn deliver(&mut self, sid: &str, body: &[u8]) {
        let key = Ticket::decode(sid).unwrap().key.slot;
        self.records.get_mut(&key).unwrap().backlog.push(body.to_vec());
        self.turn();
    }

    /// The server ends a session.
    pub fn end(&mut self, sid: &str, code: CloseCode) {
        let key = Ticket::decode(sid).unwrap().key.slot;
        self.after(key, Err((code.into(), true)));
        self.turn();
    }

    /// Lets time pass; sessions are woken when they want to be.
    pub fn wait(&mut self, span: Span) {
        let target = self.now.time + span;
        loop {
            let live = self.records.iter().filter(|(_, record)| record.end.is_none());
            let next = live.map(|(key, record)| (record.session.deadline(), *key)).min();
            let Some((deadline, key)) = next.filter(|(deadline, _)| *deadline <= target) else {
                break;
            };
            self.now.time = deadline.max(self.now.time);
            let outcome = self.call(key, |session, now, context| session.expire(now, context));
            self.after(key, outcome);
            self.turn();
            let record = &self.records[&key];
            let moved = record.end.is_some() || record.session.deadline() > self.now.time;
            assert!(moved, "the deadline does not move");
        }
        self.now.time = target;
    }

    fn call(
        &mut self,
        key: u32,
        act: impl FnOnce(&mut dyn Session, Now, &mut Context<'_>) -> Result<(), Close>,
    ) -> Result<(), (Close, bool)> {
        let record = self.records.get_mut(&key).unwrap();
        if record.end.is_some() {
            return Ok(());
        }
        let output = Output { framing: record.framing(), queue: &mut record.queue };
        let mut context = Context::new(&mut self.commands, output);
        let result = act(&mut *record.session, self.now, &mut context);
        let mut actions = context.actions;
        let finished = actions.take_finish();
        for action in actions.drain() {
            match action {
                SessionAction::Respond(response) => {
                    let pending = self.records.get_mut(&key).and_then(|it| it.pending.take());
                    if let Some((asked, _)) = pending {
                        self.answers.insert(asked, response);
                    }
                }
                SessionAction::TakeOver(ticket, step) => self.take_over(key, &ticket, step),
                _ => {}
            }
        }
        match (result, finished) {
            (Err(close), _) => Err((close, true)),
            (Ok(()), Some(close)) => Err((close, false)),
            (Ok(()), None) => Ok(()),
        }
    }

    fn take_over(&mut self, probe: u32, ticket: &Ticket, step: Takeover) {
        let Some(key) = self.holder(ticket) else {
            if step != Takeover::Failed {
                self.after(probe, Err((CloseCode::BadRequest.into(), false)));
            }
            return;
        };
        if step == Takeover::Done {
            let probe = self.records.get_mut(&probe).unwrap();
            probe.end = Some(CloseCode::Done.into());
            let (socket, wire) = (probe.socket.take(), std::mem::take(&mut probe.wire));
            let left = probe.queue.take_bytes();
            self.write(key);
            let record = self.records.get_mut(&key).unwrap();
            (record.socket, record.wire) = (socket, wire);
            record.wire.extend(left);
            if let Some((asked, _)) = record.pending.take() {
                self.answers.insert(asked, Response::new(400, "text/plain", "taken over"));
            }
        }
        let outcome = self.call(key, |session, now, context| session.takeover(now, step, context));
        match outcome {
            Err((close, _)) if step == Takeover::Offered => self.after(probe, Err((close, false))),
            outcome => self.after(key, outcome),
        }
    }

    fn after(&mut self, key: u32, outcome: Result<(), (Close, bool)>) {
        let Err((close, says_goodbye)) = outcome else { return };
        let record = self.records.get_mut(&key).unwrap();
        if record.end.is_some() {
            return;
        }
        if says_goodbye {
            let framing = record.framing();
            let mut output = Output { framing, queue: &mut record.queue };
            record.session.goodbye(&close, &mut output);
        }
        self.write(key);
        let record = self.records.get_mut(&key).unwrap();
        if let Some((asked, _)) = record.pending.take() {
            self.answers.insert(asked, Response::new(400, "text/plain", "ended"));
        }
        record.end = Some(close);
    }

    /// The end of a turn: everybody writes.
    fn turn(&mut self) {
        let keys: Vec<u32> = self.records.keys().copied().collect();
        for key in keys {
            self.fill(key);
            self.write(key);
        }
    }

    fn fill(&mut self, key: u32) {
        let now = self.now;
        let record = self.records.get_mut(&key).unwrap();
        let writable = record.socket.is_some() || matches!(record.pending, Some((_, Some(_))));
        if record.end.is_some() || !writable || record.backlog.is_empty() {
            return;
        }
        let framing = record.framing();
        while record.session.wants_deliveries() && !record.backlog.is_empty() {
            let run = run(&record.backlog.remove(0));
            let delivery = Delivery {
                key: SubscriptionKey(1),
                run: &run,
                from: 0,
                to: 1,
                redeliveries: 0,
                reached: 0,
                exchange: None,
            };
            let mut output = Output { framing, queue: &mut record.queue };
            record.session.deliver(now, &delivery, &mut output);
        }
        record.session.flush(now, &mut Output { framing, queue: &mut record.queue });
    }

    fn write(&mut self, key: u32) {
        let record = self.records.get_mut(&key).unwrap();
        if record.queue.is_empty() {
            return;
        }
        if record.socket.is_some() {
            record.wire.extend(record.queue.take_bytes());
        } else if let Some((asked, Some(held))) = record.pending.take_if(|(_, held)| held.is_some())
        {
            let mut body = record.queue.take_bytes();
            body.drain(..usize::from(held.skips_first).min(body.len()));
            let headers = held.fields().map(|(name, value)| (name, value.to_owned())).collect();
            self.answers.insert(asked, Response { status: 200, headers, body: body.into() });
        }
    }
}

impl Record {
    fn framing(&self) -> Framing {
        if self.socket.is_some() { Framing::Messages(&SOCKET) } else { Framing::Stream }
    }
}

fn run(body: &[u8]) -> SharedRun {
    let path = Path::parse("a").unwrap();
    let mut builder = RunBuilder::new(Destination { kind: Kind::Topic, path }, Time::default());
    builder.properties();
    builder.finish(body, Meta::default());
    SharedRun::new(Arc::new(builder.build()))
}

fn peer() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

fn request<'a>(
    method: &'a str,
    query: &'a str,
    fields: &'a [(&'a str, &'a [u8])],
    body: &'a [u8],
) -> Request<'a> {
    Request { method, path: "/engine.io/", query: Some(query), fields, body, peer: peer() }
}

/// The body of an answer as text.
pub fn body(response: &Response) -> &str {
    std::str::from_utf8(&response.body).unwrap()
}

/// A field of an answer.
pub fn field<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
}

/// The session's id in an open packet.
pub fn sid(payload: &str) -> String {
    payload.split("\"sid\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

/// Begins a polling session and gives the query of its further requests.
pub fn polling(node: &mut Node, query: &str) -> (String, String) {
    let response = node.get(&format!("{query}&transport=polling"));
    assert_eq!(response.status, 200, "{response:?}");
    let sid = sid(body(&response));
    let eio: String = query.chars().take("EIO=4".len()).collect();
    (format!("{eio}&transport=polling&sid={sid}"), sid)
}
