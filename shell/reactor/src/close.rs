//! How connections end.
//!
//! ```text
//!   end ──▶ Closing: write what is left ──▶ shut our side ──▶ discard until the peer shuts its side
//!              │ flush deadline                                   │ linger deadline, soon after 1 MiB
//!              └───────────────────────▶ forget ◀─────────────────┘
//!   broken ─────────────────────────────▶ forget
//! ```
//! Closing a socket with unread bytes makes the kernel send a reset, which may overtake our last
//! words; so we shut our side first and read for a little while. Invariant: every connection that
//! was opened is counted once with a close code; one that a session outlives is counted by what comes
//! after it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tiderace_base::{Close, CloseCode, Key};
use tiderace_websocket::encode_close;
use tiderace_wire::Output;

use crate::connection::{Flags, NO_LISTENER, Stage, Transport};
use crate::drain::goodbyes;
use crate::driver::Driver;
use crate::http_stage::Work;
use crate::message_framing::LAST_CHUNK;
use crate::outcome::Farewell;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Ends a connection in good order: the session now, unless it waits for another one, the connection
    /// when all is written.
    pub(crate) fn end(&mut self, key: Key, close: &Close, farewell: Farewell) {
        let is_leaving = matches!(close.code, CloseCode::ShuttingDown | CloseCode::Draining);
        if is_leaving && self.drain_h2(key) {
            return;
        }
        if !self.detach(key, close, farewell, false) {
            self.end_whole(key, close, farewell);
        }
    }

    /// The same with the session in any case.
    fn end_whole(&mut self, key: Key, close: &Close, farewell: Farewell) {
        let closing = Stage::closing();
        match self.connections.get_mut(key) {
            None => return,
            Some(connection) if matches!(connection.stage, Stage::Closing { .. }) => return,
            Some(connection) if connection.flags.has(Flags::OUTGOING) => {
                self.note_upstream_end(key, close);
            }
            Some(connection) => {
                self.end_log.ended(self.now.time, connection.peer.socket(), close);
                self.metrics.count_closed(close.code);
            }
        }
        if self.traces.are_on() {
            self.trace_ended(key, close);
        }
        self.end_tls(key, close.code);
        let before = self.set_stage(key, closing);
        if let Some(Stage::Http(stage)) = &before {
            match &stage.work {
                Work::Waiting(asked) => self.abandon(asked.session, key),
                Work::Collect(collected) => {
                    if let Some(session) = collected.session() {
                        self.abandon(session, key);
                    }
                }
                Work::Idle | Work::Skip(_) => {}
            }
        }
        self.forget_input(key);
        let before = match before {
            Some(Stage::Http2(h2)) => {
                self.close_h2(key, *h2, close);
                None
            }
            before => before,
        };
        if let Some(Stage::Live(mut live)) = before
            && let Some(connection) = self.connections.get_mut(key)
        {
            let queue = self.pool.queue(&mut connection.outgoing);
            let framing = live.transport.framing();
            if farewell == Farewell::Full {
                let session = &mut live.session;
                let goodbye = || session.goodbye(close, &mut Output { framing, queue });
                if catch_unwind(AssertUnwindSafe(goodbye)).is_err() {
                    self.metrics.session_panics.add(1);
                }
            }
            if live.is_websocket() && farewell != Farewell::Silent {
                let queue = self.pool.queue(&mut connection.outgoing);
                let reason = goodbyes::websocket_reason(close);
                encode_close(queue.tail(), Some(close.code.websocket()), &reason, None);
            }
            if matches!(live.transport, Transport::Chunked) && farewell != Farewell::Silent {
                self.pool.queue(&mut connection.outgoing).tail().extend_from_slice(LAST_CHUNK);
            }
            self.close_session(live.id);
            self.release_client_session_id(key);
            self.detached.remove(key);
            self.login_ends.remove(key);
            self.end_limits(key);
            if let Transport::Requests(requests) = live.transport {
                self.dismiss_requests(key, *requests, close);
            }
        }
        if self.connections.get_mut(key).is_some_and(|connection| connection.is_carried()) {
            return self.forget(key);
        }
        let deadlines = self.shared.options.deadlines;
        if let Some(connection) = self.connections.get_mut(key) {
            // Every answer by HTTP/2 ends so, large ones on slow lines among them.
            let is_h2_stream = connection.flags.is_h2_stream();
            let flush = if is_h2_stream { deadlines.keep_alive } else { deadlines.flush };
            if let Some(input) = connection.input.take() {
                self.pool.give_input(input);
            }
            if connection.flags.has(Flags::PAUSED) {
                self.metrics.paused.sub(1);
            }
            connection.flags.clear(Flags::BACKLOG);
            connection.flags.clear(Flags::PAUSED);
            connection.flags.clear(Flags::HELD);
            connection.flags.clear(Flags::YIELDED);
            connection.deadline = self.now.time + flush;
            self.lists.write(key, &mut connection.flags);
        }
        self.rearm(key);
    }

    /// All is written: tells the peer, and waits for its end.
    pub(crate) fn shut(&mut self, key: Key) {
        let linger = self.shared.options.deadlines.linger;
        if self.finish_tls(key) {
            // It is written first, and then this is called again.
            return;
        }
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        match &mut connection.stage {
            Stage::Closing { is_shut, .. } if !*is_shut => *is_shut = true,
            _ => return,
        }
        if connection.flags.is_h2_stream() {
            // What the client still sends on the stream is not waited for.
            if self.finish_h2_stream(key) {
                self.forget(key);
            }
            return;
        }
        if connection.flags.is_peer_ended() {
            return self.forget(key);
        }
        if let Some(stream) = &mut connection.stream {
            self.driver.shutdown_write(stream);
        }
        connection.deadline = self.now.time + linger;
        self.lists.read(key, &mut connection.flags);
        self.rearm(key);
    }

    /// The operating system gave up on a connection.
    pub(crate) fn broken(&mut self, key: Key, error: &io::Error) {
        let code = match error.kind() {
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected => CloseCode::PeerGone,
            _ => CloseCode::TransportError,
        };
        self.discard(key, code);
        self.drain_effects();
    }

    /// Ends a connection at once, without last words.
    pub(crate) fn discard(&mut self, key: Key, code: CloseCode) {
        let close = Close::from(code);
        if self.detach(key, &close, Farewell::Silent, true) {
            return;
        }
        self.end_whole(key, &close, Farewell::Silent);
        self.forget(key);
    }

    /// Gives up the record of a connection that has ended.
    pub(crate) fn forget(&mut self, key: Key) {
        self.forget_input(key);
        let Some(mut connection) = self.connections.remove(key) else {
            return;
        };
        self.count_left(connection.flags);
        self.forget_h2_stream(key);
        self.forget_tls(key, &connection);
        self.change_gauge(Some(connection.stage.gauge()), None);
        self.uncount_backlog(connection.outgoing.as_deref());
        if let Some(outgoing) = connection.outgoing.take() {
            self.pool.give_queue(outgoing);
        }
        if connection.flags.has(Flags::PAUSED) {
            self.metrics.paused.sub(1);
        }
        if connection.listener != NO_LISTENER {
            self.shared.lose(self.id, connection.listener);
        }
        if let Stage::Http2(h2) = connection.stage {
            self.drop_h2_streams(*h2);
        }
        if connection.flags.is_h2_stream() {
            if connection.flags.has(Flags::CLAIMED) {
                self.shared.dismiss_client(connection.peer.address());
            }
            return;
        }
        if let Some(stream) = connection.stream {
            self.driver.close(stream);
            if connection.flags.has(Flags::OUTGOING) {
                return self.upstreams.end_mask(key);
            }
            self.shared.dismiss(connection.peer.address());
        } else if connection.listener != NO_LISTENER {
            self.shared.dismiss_carried(connection.peer.address());
        }
    }
}
