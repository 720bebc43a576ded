//! HELLO and LOGIN: who the client is and what both sides can do.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{Command, Context, Credentials, Intake, Position, write_varint};

use super::{NativeSession, State, say};
use crate::codec::{Auth, Hello, Nodes, ServerMessage, VERSION, Welcome, feature};
use crate::limits::NODES_MAX;

impl NativeSession {
    pub(super) fn hello(
        &mut self,
        hello: &Hello<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if hello.version < VERSION {
            let reason = format!("the server speaks version {VERSION}");
            return Err(Close::new(CloseCode::UnsupportedVersion, reason));
        }
        self.greet_edge(hello.edge)?;
        if !hello.position.is_empty() {
            let position = position(hello.position)?;
            self.cold().position = Some(position);
        }
        // The client's order counts.
        let mut codecs = hello.codecs.iter();
        let agreed = codecs.find_map(|number| self.options.deltas.numbered(*number));
        self.agreed.set_codec(agreed.map_or(0, |codec| codec.number));
        self.state = State::LoggingIn;
        let host = hello.host.map(str::to_owned);
        context.commands.push(Command::Login(Credentials { host, ..credentials(hello.auth) }));
        Ok(())
    }

    pub(super) fn login(
        &mut self,
        request: u32,
        auth: Auth<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let token = self.answered(request)?;
        if self.cold().login.replace(token).is_some() {
            let reason = "a LOGIN came while the one before was not answered yet";
            return Err(Close::new(CloseCode::UnexpectedFrame, reason));
        }
        context.commands.push(Command::Login(credentials(auth)));
        Ok(())
    }

    /// A login was accepted.
    pub(super) fn logged_in(
        &mut self,
        now: Now,
        name: Arc<str>,
        anonymous: bool,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if self.state == State::LoggingIn {
            self.welcome(&name, context);
            self.name = Some(name).filter(|_| !anonymous);
            self.state = State::Established;
            let early = std::mem::take(&mut self.cold().early);
            let mut rest = &*early;
            let intake = Intake::begin();
            loop {
                self.read(now, rest, context)?;
                intake.check_whole("what came before WELCOME")?;
                let Some(taken) = context.actions.take_yield() else { break };
                rest = rest.get(taken..).unwrap_or_default();
            }
        } else if let Some(request) = self.cold.as_mut().and_then(|cold| cold.login.take()) {
            say(&ServerMessage::LoggedIn { request, name: &name }, &mut context.output);
            self.name = Some(name).filter(|_| !anonymous);
        }
        self.tidy();
        Ok(())
    }

    /// Notes whether the client is an edge, and refuses one with this node's own name.
    fn greet_edge(&mut self, edge: Option<&str>) -> Result<(), Close> {
        self.cold().is_edge = edge.is_some();
        let own = self.options.node.as_str();
        if own.is_empty() || edge != Some(own) {
            return Ok(());
        }
        let reason = format!(
            "this node has the name `{own}` as well; let no node be an upstream of its own upstreams, and give each a name of \
             its own"
        );
        Err(Close::new(CloseCode::UpstreamCircle, reason))
    }

    /// Tells an edge from where this node has what it passes on.
    pub(super) fn tell_nodes(&self, context: &mut Context<'_>) {
        if self.cold.as_ref().is_some_and(|cold| cold.is_edge) {
            let above = self.options.above.all();
            let names = above.names.iter().take(NODES_MAX).map(String::as_str).collect();
            let nodes = Nodes { hops: above.hops, names };
            say(&ServerMessage::Nodes(nodes), &mut context.output);
        }
    }

    fn welcome(&mut self, name: &str, context: &mut Context<'_>) {
        self.tell_nodes(context);
        let mut epoch = Vec::new();
        write_varint(&mut epoch, self.cold().epoch);
        let options = &*self.options;
        let welcome = Welcome {
            version: VERSION,
            name,
            epoch: &epoch,
            ping_ms: options.ping_interval.as_millis() as u64,
            message_bytes_max: options.message_bytes_max as u64,
            subscriptions_max: options.subscriptions_max as u64,
            declarations_max: options.declarations_max as u64,
            jitter_ms: options.reconnect_jitter.as_millis() as u64,
            codecs: match self.agreed.codec() {
                0 => Vec::new(),
                codec => vec![codec.into()],
            },
            server: &options.server,
            features: feature::VALUES
                | feature::BROWSE
                | feature::NUMBERED
                | feature::RELAY
                | feature::QUEUES
                | feature::CALLS,
            node: &options.node,
        };
        say(&ServerMessage::Welcome(welcome), &mut context.output);
    }
}

/// The position in these bytes.
pub(super) fn position(bytes: &[u8]) -> Result<Position, Close> {
    match Position::read(bytes) {
        Some((position, [])) => Ok(position),
        _ => Err(Close::new(CloseCode::BadHeader, "that is no position; send it as it was built")),
    }
}

fn credentials(auth: Auth<'_>) -> Credentials {
    match auth {
        Auth::Anonymous => Credentials::default(),
        Auth::Password { user, password } => Credentials {
            login: Some(user.to_owned()),
            passcode: Some(password.to_owned()),
            ..Credentials::default()
        },
        Auth::Token(token) => {
            Credentials { token: Some(token.to_owned()), ..Credentials::default() }
        }
    }
}
