//! A whole node without threads or sockets: event loop, protocols and broker on the network in memory.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use tiderace_base::Close;
use tiderace_broker::{BrokerOptions, Principal};
use tiderace_reactor::{
    Answer, ListenerOptions, LoginClient, NoOperator, NodeControl, Options, Services, Shard,
    Verifier, drive,
};
use tiderace_websocket::{MessageKind, encode_message};
use tiderace_wire::{Credentials, Opening, Response};

use crate::network::{ClientId, MemoryDriver, Network};

/// Turns in which a script's step must have come to rest.
const TURNS_MAX: usize = 100_000;

/// A node and its clients' ends of the network.
pub(crate) struct Node {
    shards: Vec<Shard<MemoryDriver>>,
    network: Network,
    _control: NodeControl,
}

impl Node {
    pub(crate) fn new(shards: usize) -> Result<Node> {
        let network = Network::new(shards);
        let drivers = (0..shards).map(|shard| network.driver(shard)).collect();
        let address = ([127, 0, 0, 1], 0).into();
        let options =
            Options { shards, listeners: vec![ListenerOptions::at(address)], ..Options::default() };
        let (shards, control) = drive(drivers, options, services(shards))?;
        Ok(Node { shards, network, _control: control })
    }

    /// Runs until nothing is left to do.
    pub(crate) fn settle(&mut self) -> Result<()> {
        for _ in 0..TURNS_MAX {
            for shard in &mut self.shards {
                shard.turn()?;
            }
            if self.network.is_idle() {
                return Ok(());
            }
        }
        bail!("the node does not come to rest")
    }

    /// The same, counted: instructions are collected in this function alone.
    #[inline(never)]
    pub(crate) fn measured(&mut self) -> Result<()> {
        black_box(&mut *self).settle()
    }

    pub(crate) fn send(&self, client: ClientId, bytes: &[u8]) {
        self.network.send(client, bytes);
    }

    pub(crate) fn received(&self, client: ClientId) -> u64 {
        self.network.received(client)
    }

    pub(crate) fn count_only(&self, client: ClientId) {
        self.network.count_only(client);
    }

    pub(crate) fn connect(&self) -> ClientId {
        self.network.connect()
    }

    /// Sends and waits for an answer that contains `wanted`.
    pub(crate) fn ask(&mut self, client: ClientId, bytes: &[u8], wanted: &[u8]) -> Result<Vec<u8>> {
        self.send(client, bytes);
        self.settle()?;
        let answer = self.network.take(client);
        let found = wanted.is_empty() || answer.windows(wanted.len()).any(|at| at == wanted);
        ensure!(
            found && !self.network.is_closed(client),
            "expected {:?}, but the answer is {:?}",
            wanted.escape_ascii().to_string(),
            answer.escape_ascii().to_string()
        );
        Ok(answer)
    }

    /// Opens a WebSocket.
    pub(crate) fn websocket(&mut self, path: &str, subprotocol: Option<&str>) -> Result<ClientId> {
        let client = self.connect();
        let mut request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        );
        if let Some(name) = subprotocol {
            request += &format!("Sec-WebSocket-Protocol: {name}\r\n");
        }
        request += "\r\n";
        self.ask(client, request.as_bytes(), b"HTTP/1.1 101").context(path.to_owned())?;
        Ok(client)
    }
}

/// A client's WebSocket message.
pub(crate) fn masked(kind: MessageKind, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + 16);
    encode_message(&mut out, kind, payload, Some([0x1a, 0x2b, 0x3c, 0x4d]));
    out
}

fn services(shards: usize) -> Services {
    let native = Arc::new(tiderace_native::NativeOptions::default());
    let within = Arc::clone(&native);
    let engine = Arc::new(tiderace_engineio::EngineOptions::default());
    let paths = |path: &str| Arc::from([path.to_owned()]);
    Services {
        protocols: vec![
            tiderace_stomp::protocol(Arc::default(), paths("/stomp")),
            tiderace_native::protocol(native, paths("/tiderace")),
            tiderace_engineio::protocol(
                "native-engineio",
                Arc::clone(&engine),
                paths("/tiderace/engine.io/"),
                Arc::new(move |opening: &Opening<'_>| tiderace_native::open(&within, opening)),
            ),
            tiderace_engineio::protocol(
                "socketio",
                engine,
                paths("/socket.io/"),
                tiderace_socketio::inner(Arc::default()),
            ),
        ],
        http: Arc::new(|_, _| Response { status: 404, ..Response::default() }),
        verifier: Arc::new(Everybody),
        internal_sessions: Vec::new(),
        spool: None,
        operator: Arc::new(NoOperator),
        store_gateway: None,
        broker: Arc::new(BrokerOptions { shards, ..BrokerOptions::default() }),
    }
}

#[derive(Debug)]
struct Everybody;

impl Verifier for Everybody {
    fn submit(&self, credentials: Credentials, _: LoginClient, answer: Answer) {
        let name = credentials.login.unwrap_or_default();
        let principal: Result<Principal, Close> = Ok(Principal::named(name));
        answer.send(principal);
    }
}
