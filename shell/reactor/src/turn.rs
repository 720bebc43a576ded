//! One turn of an event loop: poll, read all, handle all, take messages, timers, write all, send messages.
//!
//! Batching comes from the structure of the turn: all that arrived is handled before anything is written,
//! and each connection gets at most one write per turn. Invariants: effects are drained before the next
//! input; the shard sleeps only when every list is empty and no message waits.

use std::sync::Arc;

use tiderace_base::{CloseCode, ShardId, Span};
use tiderace_broker::AHEAD;

use crate::connection::Flags;
use crate::driver::{Driver, Event};
use crate::mailbox::{Post, ShardMessage};
use crate::shard::Shard;
use crate::shared::Shared;
use crate::waker::{Notice, Waker};

/// Whether a shard goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Call [`Shard::turn`] again.
    Continue,
    /// The node has stopped and this shard has no connections left.
    Finished,
}

impl<D: Driver> Shard<D> {
    /// A shard as it begins: with what has survived, and with the sessions that live on the server.
    pub(crate) fn begin(
        id: ShardId,
        driver: D,
        shared: Arc<Shared>,
        post: Post<D::Stream>,
    ) -> Shard<D> {
        let mut shard = Shard::new(id, driver, shared, post);
        shard.begin_store();
        shard.open_internal_sessions();
        shard.begin_upstreams();
        shard
    }

    /// Runs one turn, sleeping first if there is nothing to do.
    ///
    /// # Errors
    /// When the operating system refuses to wait for events.
    pub fn turn(&mut self) -> std::io::Result<Turn> {
        self.poll()?;
        self.accept();
        self.take_notices();
        self.handle_again();
        // A shard that is behind slows the producers everywhere, and nothing else.
        if self.post.flush() && !self.post.is_behind() {
            self.read_all();
        }
        self.take_messages();
        let has_unread = self.lists.has_reads() || self.accepting.has_work(self.now.time);
        let judges = self.clock.pause.may_judge(self.now.time, has_unread);
        if judges {
            self.expire_timers();
        }
        self.run_internal_sessions();
        self.run_upstreams();
        if judges {
            self.tick();
        }
        self.work();
        self.stop_some();
        self.post.flush();
        self.submit_journal();
        self.write_all();
        self.drain_some();
        self.run_deferred();
        self.post.flush();
        if self.spans.is_some() {
            self.end_turn_of_spans();
        }
        self.end_turn();
        Ok(self.finished())
    }

    fn poll(&mut self) -> std::io::Result<()> {
        let mut timeout = self.timeout();
        if !timeout.is_zero() && !self.post.park(self.reads_wait()) {
            timeout = Span::ZERO;
        }
        let mut events = self.spare.take_events();
        let polled = self.driver.poll(timeout, &mut events);
        self.post.unpark();
        self.now = self.driver.now();
        self.post.begin_turn();
        self.commands.begin_turn(self.now.time);
        self.clock.begin_turn(self.now.time, events.len());
        for event in events.drain(..) {
            self.note(event);
        }
        self.spare.give_events(events);
        self.traces.look(&self.shared.traces);
        polled
    }

    /// How long the shard may sleep.
    fn timeout(&self) -> Span {
        let lists = &self.lists;
        if !lists.again.is_empty()
            || lists.has_writes()
            || !lists.decided.is_empty()
            || !lists.h2_connections.is_empty()
            || self.broker.has_work()
            || self.broker.is_reviewing()
            || !self.walks.is_empty()
            || self.accepting.has_work(self.now.time)
        {
            return Span::ZERO;
        }
        if self.post.has_unsent() {
            return FULL_RING_PAUSE;
        }
        if self.reads_wait() && !self.post.is_behind() {
            return Span::ZERO;
        }
        let later =
            lists.coalescing.next().map_or(Span::MAX, |end| end.since(self.clock.idle_since()));
        let timers = self.clock.pause.timeout().unwrap_or_else(|| self.clock.until_deadline());
        let internal = self.internal_sessions_timeout();
        timers.min(later).min(internal).min(self.upstreams_timeout()).min(self.drain_timeout())
    }

    fn note(&mut self, event: Event) {
        let (key, readable, writable, ended, broken) = match event {
            Event::Accept(listener) => return self.accepting.note(listener),
            Event::Stream { key, readable, writable, ended, broken } => {
                (key, readable, writable, ended, broken)
            }
        };
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let is_carried = connection.is_carried();
        let flags = &mut connection.flags;
        if flags.has(Flags::CONNECTING) {
            return self.note_connecting(key);
        }
        if broken && flags.is_held_back() && !is_carried {
            // It would only be noticed when it is read again, which may be never.
            self.discard(key, CloseCode::PeerGone);
            return self.drain_effects();
        }
        if readable || ended {
            flags.set(Flags::READABLE);
            if ended {
                flags.note_peer_ending();
            }
            self.lists.read(key, flags);
        }
        if writable {
            flags.set(Flags::WRITABLE);
            if connection.outgoing.is_some() || flags.has_output() {
                self.lists.write(key, flags);
            }
        }
    }

    fn take_notices(&mut self) {
        let notices = self.post.waker().map(Waker::take_notices);
        for notice in notices.unwrap_or_default() {
            match notice {
                Notice::Verified(decided) => self.note_decided(decided),
                Notice::Store(news) => self.receive_commit_result(news),
                Notice::Loaded(loaded) => self.receive_loaded(loaded),
                Notice::Spooled(key) => self.note_spooled(key),
                Notice::Resolved { upstream, attempt, addresses } => {
                    self.resolved(upstream, attempt, addresses);
                }
                Notice::AccessChanged(change) => self.change_access(change),
                Notice::NodeOperated { asked, result } => self.answer_operation(asked, result),
                Notice::Walk(job) => self.walks.begin(job),
                Notice::Secure(settings) => self.secure.settings = Some(settings),
                Notice::Shutdown(grace) => self.begin_stop(grace),
                Notice::Drain(plan, number) => self.begin_drain(plan, number),
                Notice::DrainCancelled(number) => self.cancel_drain(number),
            }
        }
        self.tell_logins();
    }

    fn take_messages(&mut self) {
        // The post is moved out for the time of the call: handling a message writes messages.
        let mut messages = Vec::new();
        self.post.receive(|from, message| messages.push((from, message)));
        let mut handled = 0;
        let mut messages = messages.into_iter();
        for turn in 0usize.. {
            if turn.is_multiple_of(AHEAD) && messages.len() > 1 {
                let for_broker = messages.as_slice().iter();
                let for_broker = for_broker.filter_map(|(_, message)| message.for_broker());
                self.broker.expect_messages(for_broker);
            }
            let Some((from, message)) = messages.next() else { break };
            let weight = message.weight();
            match message {
                ShardMessage::Broker(message) => {
                    self.broker.receive(self.now, message, &mut self.effects);
                    self.drain_effects();
                }
                ShardMessage::RemoteRecord(connection, origin, tls) => {
                    self.arrive_by_remote_stream(*connection, origin, tls)
                }
                ShardMessage::RemoteStream(message) => self.receive_remote_stream(from, message),
                ShardMessage::Connection(connection, secured) => self.arrive(*connection, secured),
                ShardMessage::ClientSessionId(message) => {
                    self.receive_client_session_ids(*message);
                    self.drain_effects();
                }
            }
            handled += weight;
            if handled >= HANDLED_BYTES {
                self.post.handled(std::mem::take(&mut handled));
            }
        }
        self.post.handled(handled);
    }

    fn expire_timers(&mut self) {
        let mut due = self.spare.take_due();
        self.clock.wheel.expire(self.now.time, &mut due);
        for key in due.drain(..) {
            self.expire(key);
        }
        self.spare.give_due(due);
    }

    fn tick(&mut self) {
        if !self.clock.is_tick_due(self.now.time) {
            return;
        }
        self.broker.tick(self.now, &mut self.effects);
        self.drain_effects();
        self.sweep_detached();
        self.metrics.set_broker(&self.broker.metrics());
        for deputy in self.broker.deputies() {
            let upstream = usize::from(deputy.upstream);
            self.shared.upstreams.change(upstream, |status| status.deputy = deputy);
        }
    }

    /// What would have been too much for one call of the broker goes on, a slice each turn.
    fn work(&mut self) {
        if self.broker.has_work() {
            self.broker.work(self.now, &mut self.effects);
            self.drain_effects();
        }
        if self.broker.is_reviewing() {
            self.review_sessions();
        }
        if !self.walks.is_empty() {
            self.walk_some();
        }
    }

    /// Operations that did not fit into the turns in which they came, within the budget of this one:
    /// after everything was written, so that nobody waits for them who can be given something. Like
    /// reading, they make messages, and wait while there are too many of those.
    fn run_deferred(&mut self) {
        if self.has_deferred() && !self.post.is_behind() {
            self.broker.run_deferred(self.now, &mut self.effects);
            self.drain_effects();
        }
    }

    /// Whether there is something to read, or operations to do that were read before.
    fn reads_wait(&self) -> bool {
        self.lists.has_reads() || self.has_deferred()
    }

    fn has_deferred(&self) -> bool {
        self.broker.has_deferred() || self.broker.views_have_work()
    }

    fn end_turn(&mut self) {
        self.traces.hand_over(&self.shared.traces);
        let is_full = self.broker.memory().is_full();
        if self.clock.note_full(is_full) {
            self.shared.note_full(is_full);
        }
        let end = self.driver.now().time;
        self.metrics.turns.add(1);
        self.metrics.turn_seconds.record(self.clock.end_turn(self.now.time, end));
    }
}

/// Bytes of messages after which their senders hear that they have been handled.
const HANDLED_BYTES: usize = 128 * 1024;
/// How long to wait for a full ring: its reader is busy, not gone.
const FULL_RING_PAUSE: Span = Span::from_micros(200);
