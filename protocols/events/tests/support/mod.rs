//! A node on a simulated network that speaks REST and Server-Sent Events.
#![allow(
    clippy::disallowed_types,
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]

use std::sync::{Arc, Mutex};

use tiderace_base::{CloseCode, Span, Time};
use tiderace_broker::{Action, BrokerOptions, Principal, Rule, Rules, Who};
use tiderace_events::{Claim, EventsOptions, Idempotency, IdempotencyTable, protocol};
use tiderace_reactor::driver::sim::{Client, Network, SimDriver};
use tiderace_reactor::{
    Answer, ListenerOptions, LoginClient, NodeAnswer, NodeControl, Operator, Options, Services,
    Shard, Verifier, simulate,
};
use tiderace_topics::Pattern;
use tiderace_wire::{
    Credentials, LogWord, NodeOperation, NodeReport, Request, Response, VirtualHost, VirtualHosts,
};

/// Knows the token `secret` as ann, the password of ann, and nobody else but anonymous clients.
#[derive(Debug)]
struct Desk;

impl Verifier for Desk {
    fn submit(&self, credentials: Credentials, _: LoginClient, answer: Answer) {
        let ann = Principal::named("ann");
        answer.send(match (credentials.token.as_deref(), credentials.login.as_deref()) {
            (Some("secret"), _) => Ok(ann),
            (None, Some("ann")) if credentials.passcode.as_deref() == Some("pass:word") => Ok(ann),
            (None, None) => Ok(Principal::anonymous()),
            _ => Err(CloseCode::LoginFailed.into()),
        });
    }
}

/// A node that has nothing stored, and nothing new in its configuration.
#[derive(Debug)]
struct Node;

impl Operator for Node {
    fn operate(&self, asked: NodeOperation, answer: NodeAnswer) {
        answer.send(match asked {
            NodeOperation::Reload { dry_run } => {
                Ok(NodeReport::Reload { dry_run, changes: Vec::new() })
            }
            NodeOperation::Log { level, lasts } => {
                Ok(NodeReport::Log { level: level.unwrap_or(LogWord::Info), lasts })
            }
            NodeOperation::Backup { .. }
            | NodeOperation::BackupRead { .. }
            | NodeOperation::Identities(_) => Err(CloseCode::NoStore.into()),
            NodeOperation::Explain(_) => Err(CloseCode::BadOperation.into()),
            NodeOperation::Config(_) => Ok(NodeReport::Config(Box::default())),
            NodeOperation::Audit(_) => Ok(NodeReport::Audit(Box::default())),
        });
    }

    fn record(&self, _: tiderace_wire::AuditRecord) {}

    fn reader_ended(&self, _: tiderace_base::SessionId) {}
}

/// Remembers answers as the server does.
pub struct Memory(Mutex<IdempotencyTable>);

impl Memory {
    pub fn new(bytes_max: usize, age_max: Span) -> Arc<Memory> {
        Arc::new(Memory(Mutex::new(IdempotencyTable::new(bytes_max, age_max))))
    }
}

impl Idempotency for Memory {
    fn claim(&self, now: Time, key: &str, request: u64) -> Claim {
        self.0.lock().unwrap().claim(now, key, request)
    }

    fn settle(&self, now: Time, key: &str, answer: Option<&Response>) {
        self.0.lock().unwrap().settle(now, key, answer);
    }
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub struct Answered {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answered {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

pub struct World {
    pub network: Network,
    control: NodeControl,
    shards: Vec<Option<Shard<SimDriver>>>,
}

/// A virtual host with two names.
fn host(name: &str) -> VirtualHost {
    let hosts = ["", "www."].map(|front| format!("{front}{name}.example").into());
    VirtualHost { name: name.into(), hosts: hosts.to_vec() }
}

impl World {
    pub fn new() -> World {
        World::with(1, |_| {})
    }

    pub fn with(seed: u64, change: impl FnOnce(&mut EventsOptions)) -> World {
        let mut events = EventsOptions {
            idempotency: Some(Memory::new(1 << 20, Span::from_secs(60))),
            message_bytes_max: 100_000,
            batch_bytes_max: 50_000,
            ..EventsOptions::default()
        };
        change(&mut events);
        let address = ([127, 0, 0, 1], 0).into();
        let shards = 1 + (seed % 3) as usize;
        let options =
            Options { shards, listeners: vec![ListenerOptions::at(address)], ..Options::default() };
        let broker = BrokerOptions {
            shards,
            verify_logins: true,
            rules: rules(),
            virtual_hosts: VirtualHosts::new(["shop", "bank"].map(host).to_vec(), false),
            ..BrokerOptions::default()
        };
        let services = Services {
            protocols: vec![protocol(Arc::new(events))],
            http: Arc::new(|_: &Request<'_>, _| Response { status: 404, ..Response::default() }),
            verifier: Arc::new(Desk),
            internal_sessions: Vec::new(),
            spool: None,
            operator: Arc::new(Node),
            store_gateway: None,
            broker: Arc::new(broker),
        };
        let network = Network::new(seed, shards);
        let (shards, control) = simulate(&network, options, services).unwrap();
        World { network, control, shards: shards.into_iter().map(Some).collect() }
    }

    pub fn run_until(&mut self, what: &str, mut done: impl FnMut(&World) -> bool) {
        let start = self.network.now();
        while !done(self) {
            self.step();
            let late = self.network.now().since(start) > Span::from_secs(600);
            assert!(!late, "waited in vain for {what}");
        }
    }

    pub fn run_for(&mut self, span: Span) {
        let end = self.network.now() + span;
        self.run_until("time to pass", |world| world.network.now() >= end);
    }

    fn step(&mut self) {
        for shard in self.network.advance() {
            if let Some(running) = &mut self.shards[shard] {
                running.turn().unwrap();
            }
        }
    }

    /// Sends a request and leaves its answer to be read.
    pub fn send(&mut self, line: &str, fields: &[&str], body: &[u8]) -> Client {
        let client = self.network.connect(0);
        let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        if !fields.iter().any(|field| field.starts_with("Host: ")) {
            text.push_str("Host: here\r\n");
        }
        for field in fields {
            text += field;
            text += "\r\n";
        }
        if !body.is_empty() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += "\r\n";
        self.network.send(client, text.as_bytes());
        self.network.send(client, body);
        client
    }

    /// Waits for the whole answer.
    pub fn answer(&mut self, client: Client) -> Answered {
        self.run_until("an answer", |world| world.network.is_ended(client));
        let bytes = self.network.received(client).to_vec();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("no head") + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head[9..12].parse().unwrap();
        Answered { status, head, body: bytes[end..].to_vec() }
    }

    pub fn ask(&mut self, line: &str, fields: &[&str], body: &[u8]) -> Answered {
        let client = self.send(line, fields, body);
        self.answer(client)
    }

    /// A request without body, by ann.
    pub fn get(&mut self, line: &str) -> Answered {
        self.ask(line, &[ANN], b"")
    }

    /// What a client has received, as text.
    pub fn text(&self, client: Client) -> String {
        let text = String::from_utf8_lossy(&self.network.received(client)).into_owned();
        match text.split_once("\r\n\r\n") {
            Some((head, body)) if head.contains("Transfer-Encoding: chunked") => {
                format!("{head}\r\n\r\n{}", unchunked(body))
            }
            _ => text,
        }
    }

    /// Waits until a client has received that text.
    pub fn wait(&mut self, client: Client, text: &str) -> String {
        self.run_until(text, |world| world.text(client).contains(text));
        self.text(client)
    }

    pub fn stop(&mut self) {
        self.control.shutdown(Span::from_secs(5));
        self.run_for(Span::from_secs(10));
    }

    /// Connections and sessions that are there.
    pub fn connections(&self) -> usize {
        self.control.connections()
    }
}

/// What has come of a chunked body; characters stand for bytes here, so chunks are counted in bytes.
fn unchunked(body: &str) -> String {
    let mut rest = body.as_bytes();
    let mut plain = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        let Some(chunk) = rest.get(end + 2..end + 2 + length + 2) else { break };
        assert_eq!(&chunk[length..], b"\r\n", "a chunk ends with a line break");
        plain.extend_from_slice(&chunk[..length]);
        rest = &rest[end + 2 + length + 2..];
        if length == 0 {
            assert!(rest.is_empty(), "nothing follows the last chunk");
        }
    }
    String::from_utf8(plain).unwrap()
}

pub const ANN: &str = "Authorization: Bearer secret";

/// Everybody may do everything but below `closed/`.
fn rules() -> Rules {
    let rule = |allow, paths: &[&str]| Rule {
        allow,
        actions: Action::ALL.into_iter().map(|(_, action)| action).collect(),
        who: vec![Who::All],
        paths: paths.iter().map(|text| Pattern::parse(text).unwrap()).collect(),
        kind: None,
    };
    Rules::new(vec![rule(true, &[]), rule(false, &["closed/**"])])
}
