//! What sessions of a shard do, told to the traces that want it.
//!
//! Called where commands go to the broker, where replies and deliveries come from it, and where sessions begin and end. Relies on the
//! broker for how the server calls what a session of a virtual host names. Invariants: nothing is looked at while nothing is
//! traced; what the server does by itself is not told.

use std::sync::Arc;

use tiderace_base::{Close, Key, SessionId};
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Delivery, Destination, Kind, OperationResult, Outcome, Reply, Run, Side, Subscribe,
    Target, TraceLine, TraceOperation,
};

use super::shard_traces::{Chosen, Doer};
use crate::connection::{Flags, Stage, Transport};
use crate::driver::Driver;
use crate::shard::Shard;
use crate::waker::NodeAnswer;

/// Bodies of one run that are shown.
const BODIES_MAX: usize = 8;

/// A session that is traced.
pub(crate) struct Traced {
    session: SessionId,
    name: Option<Arc<str>>,
    chosen: Chosen,
}

/// Messages that a session has got: part of a run.
type Delivered = (Arc<Run>, usize, usize);

/// What a session gets, for who wants to know.
pub(crate) trait Told {
    /// It gets this.
    fn add(&mut self, delivery: &Delivery<'_>);
}

/// Nobody wants to know.
impl Told for () {
    #[inline(always)]
    fn add(&mut self, _delivery: &Delivery<'_>) {}
}

impl Told for Vec<Delivered> {
    fn add(&mut self, delivery: &Delivery<'_>) {
        self.push((delivery.run.run_arc().clone(), delivery.from, delivery.to));
    }
}

impl<D: Driver> Shard<D> {
    /// Whether the session of a connection is traced.
    #[inline]
    pub(crate) fn traced(&self, key: Key) -> Option<Traced> {
        if self.traces.are_on() { self.find_traced(key) } else { None }
    }

    #[cold]
    fn find_traced(&self, key: Key) -> Option<Traced> {
        let doer = self.doer(key)?;
        let (session, chosen) = (doer.session, self.traces.of(doer));
        if chosen.is_none() {
            return None;
        }
        Some(Traced { session, name: self.broker.principal_name(session), chosen })
    }

    /// The session of a connection, unless it is one of the server's own.
    fn doer(&self, key: Key) -> Option<Doer<'_>> {
        let connection = self.connections.get(key)?;
        let Stage::Live(live) = &connection.stage else { return None };
        if matches!(live.transport, Transport::Internal) || connection.flags.has(Flags::OUTGOING) {
            return None;
        }
        let (session, address) = (live.id, connection.peer.address());
        Some(Doer { session, address, principal: self.broker.principal_of(session) })
    }

    /// Tells what a session asks for, before the broker does it.
    #[cold]
    pub(crate) fn trace_commands(&mut self, key: Key) {
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.listed() {
            let Command::Login(credentials) = command else { continue };
            let Some(name) = credentials.login.as_deref() else { continue };
            let Some(Doer { session, address, .. }) = self.doer(key) else { continue };
            let name = self.broker.called_at_login(session, name, credentials.host.as_deref());
            self.traces.note_login(Doer { session, address, principal: None }, &name);
        }
        if let Some(traced) = self.traced(key) {
            for command in commands.listed() {
                self.trace_command(&traced, command);
            }
        }
        self.commands = commands;
    }

    fn trace_command(&mut self, traced: &Traced, command: &Command) {
        match command {
            Command::Publish { run, .. } => {
                let Destination { kind, path } = run.destination();
                let what = if *kind == Kind::Queue { "sent" } else { "published" };
                self.trace_run(traced, what, (*kind, path), (run, 0, run.len()));
            }
            Command::Call(call) => {
                let (path, chosen) = self.about(traced, Kind::Service, &call.service);
                self.tell_line(traced, chosen, "called", |line| {
                    let line = line.text("service", path.as_str());
                    line.number("bytes", call.body.len() as u64)
                });
            }
            Command::Subscribe(subscribe) => self.trace_subscribe(traced, subscribe),
            Command::Unsubscribe { key, .. } | Command::Lose { key, .. } => {
                self.tell_of_session(traced, "unsubscribed", |line| {
                    line.number("subscription", key.0.into())
                });
            }
            // Of topics nothing is told: acknowledging the events of a trace would be an event.
            Command::Settle(settle)
                if self.broker.acknowledges_work(traced.session, settle.key) =>
            {
                let what = match settle.outcome {
                    Outcome::Accept => "acknowledged",
                    Outcome::Reject => "rejected",
                    Outcome::Release => "released",
                };
                let count = |(from, to): &(u64, u64)| to.saturating_sub(*from) + 1;
                let messages = settle.ranges.iter().map(count).fold(0, u64::saturating_add);
                let chosen = self.of_all(traced);
                let chosen = self.traces.sampled(chosen);
                self.tell_line(traced, chosen, what, |line| {
                    line.number("subscription", settle.key.0.into()).number("messages", messages)
                });
            }
            Command::Operate { token, operation } => {
                let about = operation.about().map(|(kind, path)| {
                    let (path, chosen) = self.about(traced, kind, path);
                    (kind, path, chosen)
                });
                let chosen = about.as_ref().map_or(self.of_all(traced), |(_, _, chosen)| *chosen);
                self.tell_line(traced, chosen, "asked", |line| {
                    let line = line.text("do", operation.word());
                    let line = match &about {
                        Some((kind, path, _)) => line.text(kind.name(), path.as_str()),
                        None => line,
                    };
                    line.number("token", (*token).into())
                });
            }
            Command::Login(credentials) => {
                self.tell_of_session(traced, "asked-to-log-in", |line| {
                    line.some_text("login", credentials.login.as_deref())
                })
            }
            Command::Goodbye => self.tell_of_session(traced, "said-goodbye", |line| line),
            _ => {}
        }
    }

    fn trace_subscribe(&mut self, traced: &Traced, subscribe: &Subscribe) {
        for target in &subscribe.targets {
            let name = self.broker.whole_name(traced.session, target);
            let (kind, chosen) = match target {
                Target::Exact(destination) => {
                    let Destination { kind, path } = destination;
                    (*kind, self.about(traced, *kind, path).1)
                }
                // Which destinations it names shows when messages come.
                Target::Pattern(kind, _) => (*kind, self.of_all(traced)),
            };
            self.tell_line(traced, chosen, "subscribed", |line| {
                let line = line.text(kind.name(), &name);
                line.number("subscription", subscribe.key.0.into())
            });
        }
    }

    /// Tells what a session is answered, if that says what has come of something.
    #[cold]
    pub(crate) fn trace_reply(&mut self, key: Key, reply: &Reply) {
        if matches!(reply, Reply::LoggedIn { .. }) {
            self.forget_login(key);
        }
        let Some(traced) = self.traced(key) else { return };
        let closed = |line: TraceLine, close: &Close| {
            line.text("code", close.code.slug()).text("reason", &close.reason)
        };
        match reply {
            Reply::LoggedIn { .. } => self.tell_of_session(&traced, "logged-in", |line| line),
            Reply::Refused { token, close } => self.tell_of_session(&traced, "refused", |line| {
                let line = closed(line, close);
                match token {
                    Some(token) => line.number("token", (*token).into()),
                    None => line,
                }
            }),
            Reply::Operated { token, .. } => {
                self.tell_of_session(&traced, "done", |line| line.number("token", (*token).into()));
            }
            Reply::SubscriptionEnded { key, close } => {
                self.tell_of_session(&traced, "subscription-ended", |line| {
                    closed(line.number("subscription", key.0.into()), close)
                });
            }
            Reply::ExchangeEnded { exchange, close } => {
                let side = if exchange.side == Side::Caller { "caller" } else { "responder" };
                self.tell_of_session(&traced, "call-ended", |line| {
                    closed(line.text("side", side), close)
                });
            }
            _ => {}
        }
    }

    /// The session of a connection, if some trace tells what it gets. Who traces destinations alone wants to know what goes there, and
    /// not who gets it.
    pub(crate) fn traced_delivery(&self, key: Key) -> Option<Traced> {
        let doer = self.doer(key)?;
        let (session, chosen) = (doer.session, self.traces.of_sessions(self.traces.of(doer)));
        (!chosen.is_none()).then(|| Traced {
            session,
            name: self.broker.principal_name(session),
            chosen,
        })
    }

    /// Tells what a session has got.
    #[cold]
    pub(crate) fn trace_delivered(&mut self, traced: &Traced, delivered: Vec<Delivered>) {
        for (run, from, to) in delivered {
            let Destination { kind, path } = run.destination();
            self.trace_run(traced, "delivered", (*kind, path), (&run, from, to));
        }
    }

    /// Tells that a session begins.
    #[cold]
    pub(crate) fn trace_begun(&mut self, key: Key, protocol: &str) {
        let Some(traced) = self.traced(key) else { return };
        let Some(connection) = self.connections.get(key) else { return };
        let address = connection.peer.address();
        self.tell_of_session(&traced, "began", |line| {
            line.text("protocol", protocol).text("address", &address.to_string())
        });
    }

    /// Tells that the session of a connection ends.
    #[cold]
    pub(crate) fn trace_ended(&mut self, key: Key, close: &Close) {
        if let Some(traced) = self.traced(key) {
            self.tell_of_session(&traced, "ended", |line| {
                line.text("code", close.code.slug()).text("reason", &close.reason)
            });
        }
        self.forget_login(key);
    }

    fn forget_login(&mut self, key: Key) {
        if let Some(session) = self.doer(key).map(|doer| doer.session) {
            self.traces.forget_login(session);
        }
    }

    /// Tells of messages, with their bodies where who traces may see these.
    fn trace_run(
        &mut self,
        traced: &Traced,
        what: &str,
        (kind, path): (Kind, &Path),
        (run, from, to): (&Run, usize, usize),
    ) {
        let (path, chosen) = self.about(traced, kind, path);
        let chosen = self.traces.sampled(chosen);
        let chosen = self.traces.admit(self.now, chosen);
        if chosen.is_none() {
            return;
        }
        let bytes = run.bytes_of(from, to) as u64;
        let line = self.line(traced, what).text(kind.name(), path.as_str());
        let line = line.number("messages", (to - from) as u64).number("bytes", bytes);
        let broker = &self.broker;
        self.traces.tell(chosen, |trace| {
            let most = trace.request.bodies as usize;
            let line = line.clone();
            if most == 0 || !broker.may_read(&trace.by, kind, &path) {
                return line.end();
            }
            let bodies = (from..to).take(BODIES_MAX).filter_map(|at| run.message(at));
            line.bodies(bodies.map(|message| message.body), most).end()
        });
    }

    /// How the server calls a destination, and which of a session's traces tell of it.
    fn about(&self, traced: &Traced, kind: Kind, path: &Path) -> (Path, Chosen) {
        let path = self.broker.whole_path(traced.session, kind, path);
        let chosen = self.traces.about(traced.chosen, &path);
        (path, chosen)
    }

    fn of_all(&self, traced: &Traced) -> Chosen {
        self.traces.of_all(traced.chosen)
    }

    fn line(&self, traced: &Traced, event: &str) -> TraceLine {
        let line = TraceLine::new(self.now.wall_ms, event).session(traced.session);
        line.some_text("name", traced.name.as_deref())
    }

    /// Tells what is about no destination.
    fn tell_of_session(
        &mut self,
        traced: &Traced,
        event: &str,
        with: impl FnOnce(TraceLine) -> TraceLine,
    ) {
        self.tell_line(traced, self.of_all(traced), event, with);
    }

    /// Tells an event, which is written only if some trace takes it.
    fn tell_line(
        &mut self,
        traced: &Traced,
        chosen: Chosen,
        event: &str,
        with: impl FnOnce(TraceLine) -> TraceLine,
    ) {
        let chosen = self.traces.admit(self.now, chosen);
        if !chosen.is_none() {
            let line = with(self.line(traced, event)).end();
            self.traces.tell(chosen, |_| line.clone());
        }
    }

    /// Ends traces of those who may not trace any more, or are somebody else by now.
    pub(crate) fn review_traces(&self) {
        if self.traces.are_on() {
            self.shared.traces.end_where(|by| !self.broker.may_trace(by));
        }
    }

    /// Does what a session that may asks about traces. One that begins is answered when its topic is there.
    pub(crate) fn operate_traces(&mut self, operation: TraceOperation, answer: NodeAnswer) {
        let board = &self.shared.traces;
        let result = match operation {
            TraceOperation::Begin(request) => {
                let session = answer.session();
                let Some(by) = self.broker.principal_of(session).cloned() else { return };
                let bodies = request.bodies > 0;
                let topic = |id| self.broker.trace_topic(session, id, bodies);
                return board.begin(self.now, request, by, (topic, answer));
            }
            TraceOperation::List => board.list(),
            TraceOperation::End { id } => board.end(id),
        };
        answer.tell(Ok(OperationResult::Traces(Box::new(result))));
    }
}
