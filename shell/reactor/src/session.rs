//! Calls of sessions, and what follows from them: commands to the broker, effects back.
//!
//! Invariants: commands of a call are handled before its connection ends; effects are drained
//! until none is left; a session that panics ends alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tiderace_base::{Close, Key, MemoryUse, Now, SessionId};
use tiderace_broker::NodeEffect;
use tiderace_websocket::{Decoder, Role};
use tiderace_wire::{Context, Output, Reply, Session, SessionAction, SessionActions, Takeover};

use crate::connection::{Flags, Origin, Stage, Starting, Transport};
use crate::departure::{Departure, LeavesFor};
use crate::driver::Driver;
use crate::http_stage::KeptRequest;
use crate::mailbox::ShardMessage;
use crate::metrics::Gauge;
use crate::options::LoginClient;
use crate::outcome::{Called, Ended, Farewell, Performed, internal_error};
use crate::shard::Shard;
use crate::waker::Answer;

impl<D: Driver> Shard<D> {
    /// A connection's protocol is known.
    pub(crate) fn begin_session(&mut self, key: Key, protocol: u16) {
        let starting = Starting {
            protocol,
            websocket: false,
            subprotocol: None,
            request: None,
            pinned: false,
            is_moving: false,
        };
        self.set_stage(key, Stage::Starting(Box::new(starting)));
        self.place(key);
    }

    /// A connection has become a WebSocket.
    pub(crate) fn begin_websocket(
        &mut self,
        key: Key,
        protocol: u16,
        subprotocol: Option<&'static str>,
        request: Box<KeptRequest>,
        pinned: bool,
    ) {
        let request = Some(request);
        let starting =
            Starting { protocol, websocket: true, subprotocol, request, pinned, is_moving: false };
        self.set_stage(key, Stage::Starting(Box::new(starting)));
        self.place(key);
    }

    /// Begins the session of a connection that has its shard.
    pub(crate) fn start(&mut self, key: Key) {
        let starting = match self.connections.get_mut(key).map(|connection| &mut connection.stage) {
            Some(stage @ Stage::Starting(_)) => std::mem::replace(stage, Stage::Sniff),
            _ => return,
        };
        let Stage::Starting(starting) = starting else { return };
        let transport = if starting.websocket {
            // Some clients lose a message that comes in one piece with the answer to the upgrade.
            self.write(key);
            Transport::WebSocket { decoder: Decoder::new(Role::Server), rest: None }
        } else {
            Transport::Stream
        };
        let (protocol, subprotocol) = (starting.protocol, starting.subprotocol);
        match starting.request {
            Some(kept) => kept.with(|request| {
                let origin = Origin { subprotocol, request: Some(request), unknown: false };
                self.open_session(key, protocol, transport, origin);
            }),
            None => {
                let origin = Origin { subprotocol, request: None, unknown: false };
                self.open_session(key, protocol, transport, origin);
            }
        }
    }

    /// Calls a connection's session, if it has one. The caller handles what follows with
    /// [`Shard::after_call`] or [`Shard::settle`].
    pub(crate) fn call(
        &mut self,
        key: Key,
        call: impl FnOnce(&mut dyn Session, Now, &mut Context<'_>) -> Result<(), Close>,
    ) -> Called {
        let mut actions = self.spare.take_actions();
        let outcome = self.call_into(key, &mut actions, call);
        Called { outcome, actions }
    }

    /// The same for one of several calls whose actions are performed together.
    ///
    /// # Errors
    /// When the connection is to end.
    pub(crate) fn call_into(
        &mut self,
        key: Key,
        actions: &mut SessionActions,
        call: impl FnOnce(&mut dyn Session, Now, &mut Context<'_>) -> Result<(), Close>,
    ) -> Result<(), Ended> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(());
        };
        let reading_paused = connection.may_be_silent() || connection.is_amid_frame();
        let Stage::Live(live) = &mut connection.stage else {
            return Ok(());
        };
        let output = Output {
            framing: live.transport.framing(),
            queue: self.pool.queue(&mut connection.outgoing),
        };
        let mut context = Context::new(&mut self.commands, output);
        context.reading_paused = reading_paused;
        context.actions = std::mem::take(actions);
        let now = self.now;
        let session = &mut *live.session;
        let outcome = catch_unwind(AssertUnwindSafe(|| call(session, now, &mut context)));
        *actions = context.actions;
        match outcome {
            Ok(outcome) => outcome.map_err(|close| Ended(close, Farewell::Full)),
            Err(_) => {
                self.metrics.session_panics.add(1);
                tracing::error!(event = "session-panic", session = %live.id, "a session failed by a defect");
                self.commands.drain();
                actions.drain();
                Err(Ended(internal_error(), Farewell::Transport))
            }
        }
    }

    /// Does what follows from a call that gave the session bytes; the connection may leave for another
    /// session when those that are left have been kept.
    pub(crate) fn after_call(&mut self, key: Key, called: Called) -> Option<Box<Departure>> {
        let Called { outcome, mut actions } = called;
        let (finished, departure) = self.perform(key, &mut actions);
        self.spare.give_actions(actions);
        self.conclude(key, outcome.and(finished));
        departure
    }

    /// Does what follows from any other call; it cannot make the connection leave, since there are no bytes
    /// that could go with it.
    pub(crate) fn settle(&mut self, key: Key, called: Called) {
        self.after_call(key, called);
    }

    /// Performs what calls have asked for, in that order: whether the connection ends by it, and whether it
    /// leaves.
    pub(crate) fn perform(&mut self, key: Key, actions: &mut SessionActions) -> Performed {
        self.run_commands(key);
        if actions.is_empty() {
            return (Ok(()), None);
        }
        self.perform_all(key, actions)
    }

    #[cold]
    fn perform_all(&mut self, key: Key, actions: &mut SessionActions) -> Performed {
        let (mut finished, mut departure) = (Ok(()), None);
        for action in actions.drain() {
            match action {
                SessionAction::Finish(close) => finished = Err(Ended(close, Farewell::Transport)),
                SessionAction::Respond(response) => self.respond_pending(key, &response),
                SessionAction::RespondWithStream(response) => self.stream_pending(key, &response),
                SessionAction::TakeOver(ticket, Takeover::Done) => {
                    departure = Some(Departure::to(LeavesFor::Probed(ticket)));
                }
                SessionAction::TakeOver(ticket, step) => self.pass_takeover(key, &ticket, step),
                SessionAction::HandOver(whom) => {
                    departure = Some(Departure::to(LeavesFor::Named(whom)));
                }
                SessionAction::ClientSessionId(id) => self.ask_client_session_id(key, id),
                // Taken out by those who give input; of other calls nothing is left to be taken in.
                SessionAction::Yield(_) => {}
                SessionAction::Wait => self.hold(key),
            }
        }
        (finished, departure)
    }

    /// A session that waits for an answer is not read until it has that.
    pub(crate) fn hold(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.flags.set(Flags::HELD);
        }
    }

    /// Ends a connection if a call has said so, and lists it for what the call has written.
    pub(crate) fn conclude(&mut self, key: Key, outcome: Result<(), Ended>) {
        self.want_deliveries(key);
        if let Err(Ended(close, farewell)) = outcome {
            self.end(key, &close, farewell);
        }
        self.reclaim(key);
        if let Some(connection) = self.connections.get_mut(key)
            && connection.outgoing.is_some()
        {
            self.lists.write(key, &mut connection.flags);
        }
    }

    /// Hands the commands of the last calls to the broker.
    pub(crate) fn run_commands(&mut self, key: Key) {
        if self.commands.is_empty() {
            return;
        }
        if self.connections.get(key).is_some_and(|it| it.flags.has(Flags::LIMITED)) {
            return self.run_limited_commands(key);
        }
        self.run_all_commands(key);
    }

    /// The same whatever limits it.
    pub(crate) fn run_all_commands(&mut self, key: Key) {
        if self.traces.are_on() {
            self.trace_commands(key);
        }
        if self.spans.is_some() {
            self.choose_traced(key);
        }
        let Some(connection) = self.connections.get_mut(key) else {
            self.commands.drain();
            return;
        };
        let address = connection.peer.socket();
        let entrance = self.shared.options.entrance(connection.listener, address);
        self.commands.set_entrance(entrance);
        let Stage::Live(live) = &mut connection.stage else {
            self.commands.drain();
            return;
        };
        self.broker.memory().set(MemoryUse::BetweenShards, self.post.bytes());
        self.broker.handle(self.now, live.id, &mut self.commands, &mut self.effects);
        if self.effects.verify.is_empty() {
            return;
        }
        live.verifying = true;
        let protocol = usize::from(live.protocol);
        let tls = self.client_tls(key);
        for (session, credentials) in self.effects.verify.drain(..) {
            let answer = Answer::new(session, self.shared.wakers.clone());
            let services = &self.shared.services;
            let protocol = services.protocols.get(protocol).map_or("", |it| it.name);
            let client = LoginClient { address, protocol, tls: tls.clone() };
            services.verifier.submit(credentials, client, answer);
        }
    }

    /// Does what the broker wants done, and what follows from that, until nothing is left.
    #[inline]
    pub(crate) fn drain_effects(&mut self) {
        if self.has_effects() {
            self.do_effects();
        }
    }

    #[inline]
    fn has_effects(&self) -> bool {
        !self.effects.is_empty() || self.client_session_ids.has_answers()
    }

    fn do_effects(&mut self) {
        while self.has_effects() {
            let spare = self.spare.take_effects();
            let mut effects = std::mem::replace(&mut self.effects, spare);
            if !effects.spans.is_empty() {
                self.take_spans(&mut effects.spans);
            }
            if !effects.node.is_empty() {
                self.begin_audits(&mut effects.node);
            }
            for message in effects.messages.drain(..) {
                self.post.send(message.to.shard, ShardMessage::Broker(message));
            }
            for (session, _) in effects.verify.drain(..) {
                // Logins are commands, so `run_commands` has seen them all; refuse what is left.
                drop(Answer::new(session, self.shared.wakers.clone()));
            }
            for (link, session, reply) in effects.replies.drain(..) {
                if !self.audits.is_empty() {
                    self.audits.answered(session, &reply);
                }
                self.reply(link, session, reply);
            }
            for (link, session) in effects.ready.drain(..) {
                if let Some(key) = self.find(link, session) {
                    self.list_deliveries(key);
                }
            }
            for (link, session) in effects.pause.drain(..) {
                self.pause(link, session);
            }
            for (link, session) in effects.resume.drain(..) {
                self.resume(link, session);
            }
            for effect in effects.node.drain(..) {
                let NodeEffect::Ask(asked) = effect else { continue };
                let (link, session) = (asked.link, asked.session);
                if let Some(reply) = self.operate_node(asked) {
                    self.reply(link, session, reply);
                }
            }
            for (link, session, close) in effects.close.drain(..) {
                if let Some(key) = self.find(link, session) {
                    self.end(key, &close, Farewell::Full);
                }
            }
            self.spare.give_effects(effects);
            self.answer_client_session_ids();
        }
    }

    fn reply(&mut self, link: u32, session: SessionId, reply: Reply) {
        let Some(key) = self.find(link, session) else {
            return;
        };
        if self.traces.are_on() {
            self.trace_reply(key, &reply);
        }
        let logs_in = matches!(reply, Reply::LoggedIn { .. });
        let decided = logs_in || matches!(reply, Reply::Refused { .. });
        if decided && let Some(live) = self.connections.get_mut(key).and_then(|c| c.live()) {
            live.verifying = false;
        }
        let called = self.call(key, |session, now, context| session.reply(now, reply, context));
        self.settle(key, called);
        self.answer_known(key);
        if decided {
            self.wake_request(key);
        }
        if logs_in {
            let asking = self.asking(key).unwrap_or(key);
            self.trust_h2(asking);
        }
        self.wake_input(key);
        self.rearm(key);
    }

    /// A session has heard what it may have waited for: gives it again what it has left.
    pub(crate) fn wake_input(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        // The session may have waited for this answer with bytes it had seen already.
        let kept = connection.input_len();
        let pending = kept > 0 && kept >= connection.need as usize
            || connection.rest_len() > 0
            // It was read no further for this answer, whatever of the next frame has come.
            || connection.flags.has(Flags::HELD);
        if !connection.is_carried() && pending || connection.flags.is_peer_ended() {
            self.lists.again(key, &mut connection.flags);
        }
    }

    /// A session that refused deliveries for a while may want them again, or has something to say.
    fn want_deliveries(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.flags.has(Flags::BACKLOG) {
            return;
        }
        let wants = match &connection.stage {
            Stage::Live(live) => {
                live.session.wants_write()
                    || live.session.wants_deliveries() && self.broker.has_backlog(live.id)
            }
            _ => false,
        };
        if wants {
            connection.flags.set(Flags::BACKLOG);
            self.lists.write(key, &mut connection.flags);
        }
    }

    fn pause(&mut self, link: u32, session: SessionId) {
        if let Some(key) = self.find(link, session)
            && let Some(connection) = self.connections.get_mut(key)
            && connection.flags.raise(Flags::PAUSED)
        {
            self.metrics.paused.add(1);
        }
    }

    fn resume(&mut self, link: u32, session: SessionId) {
        if let Some(key) = self.find(link, session)
            && let Some(connection) = self.connections.get_mut(key)
            && connection.flags.has(Flags::PAUSED)
        {
            connection.flags.clear(Flags::PAUSED);
            self.metrics.paused.sub(1);
            self.lists.read(key, &mut connection.flags);
            if connection.flags.has(Flags::YIELDED) {
                self.lists.again(key, &mut connection.flags);
            }
            self.unblock(key);
            // An internal session's deadline counts again.
            self.rearm(key);
        }
    }

    /// The connection of a session, unless it is gone or carries another one.
    pub(crate) fn find(&mut self, link: u32, session: SessionId) -> Option<Key> {
        let key = self.connections.key_of(link)?;
        let live = self.connections.get_mut(key)?.live()?;
        (live.id == session).then_some(key)
    }

    /// Changes a connection's stage and the gauges with it.
    pub(crate) fn set_stage(&mut self, key: Key, stage: Stage) -> Option<Stage> {
        let connection = self.connections.get_mut(key)?;
        if connection.flags.has(Flags::LEAVING) && !stage.may_be_leaving() {
            // It has become something else, which gets a slot of its own.
            connection.flags.clear(Flags::LEAVING);
            if let Some(draining) = &mut self.draining {
                draining.note_left();
            }
        }
        let after = stage.gauge();
        let before = std::mem::replace(&mut connection.stage, stage);
        self.change_gauge(Some(before.gauge()), Some(after));
        Some(before)
    }

    pub(crate) fn change_gauge(&mut self, from: Option<Gauge>, to: Option<Gauge>) {
        if let Some(cell) = from.and_then(|gauge| self.metrics.connections(gauge)) {
            cell.sub(1);
        }
        if let Some(cell) = to.and_then(|gauge| self.metrics.connections(gauge)) {
            cell.add(1);
        }
    }
}
