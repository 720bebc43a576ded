//! Attempts to reach upstreams: when they begin, how far they come, what follows when they fail.
//!
//! Names are resolved by the driver, away from the shard; everything else is an event of the connection's record. Looked at
//! every turn, like internal sessions: there are few. Invariants: whatever happens to a connection, its upstream hears of
//! it once and tries again, unless the node stops; who tries again waits as [`super::attempts`] says.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, Span, Time};

use super::attempts::Attempts;
use super::reasons;
use super::status::UpstreamState;
use super::table::{Due, Opened, Phase};
use crate::connection::{Connection, Flags, NO_LISTENER, Stage};
use crate::driver::Driver;
use crate::outcome::Farewell;
use crate::shard::Shard;
use crate::waker::Notice;
use tiderace_base::UpstreamUrl;

impl<D: Driver> Shard<D> {
    /// Takes the upstreams of this shard on.
    pub(crate) fn begin_upstreams(&mut self) {
        let shared = Arc::clone(&self.shared);
        for (index, options) in shared.options.upstreams.iter().enumerate() {
            if options.shard == self.id {
                let attempts = Attempts::new(options.urls.len(), self.driver.random() as u64);
                self.upstreams.add(index, attempts);
                let wall_ms = self.now.wall_ms;
                shared
                    .upstreams
                    .change(index, |status| status.enter(UpstreamState::Waiting, wall_ms));
            }
        }
    }

    /// How long the upstreams can wait.
    pub(crate) fn upstreams_timeout(&self) -> Span {
        match self.stopping {
            Some(_) => Span::MAX,
            None => self.upstreams.timeout(self.clock.idle_since()),
        }
    }

    /// Does what is due for upstreams, of which most shards have none.
    #[inline]
    pub(crate) fn run_upstreams(&mut self) {
        for at in 0..self.upstreams.len() {
            self.run_upstream(at);
        }
    }

    #[cold]
    fn run_upstream(&mut self, at: usize) {
        if self.stopping.is_some() {
            self.stop_upstream(at);
            return;
        }
        match self.upstreams.get(at).and_then(|upstream| upstream.due(self.now.time)) {
            None => {}
            Some(Due::Attempt) => self.begin_attempt(at),
            Some(Due::Unresolved) => {
                let slow = |url: &UpstreamUrl| {
                    reasons::too_slow(UpstreamState::Resolving, url, RESOLVE.as_secs())
                };
                let reason = self.url(at).map(slow).unwrap_or_default();
                self.give_up(at, reason);
            }
            Some(Due::Login(key)) if self.is_established(key) => {
                self.enter(at, UpstreamState::Connected);
            }
            Some(Due::Login(_)) => {}
        }
    }

    /// The node stops: what is not connected stays so. What is connected ends like all connections.
    fn stop_upstream(&mut self, at: usize) {
        let Some(upstream) = self.upstreams.get_mut(at) else { return };
        if matches!(upstream.phase, Phase::Waiting { .. } | Phase::Resolving { .. }) {
            upstream.phase = Phase::Stopped;
            self.tell_state(at, UpstreamState::Stopped, None);
        }
    }

    /// The address of the present attempt.
    pub(super) fn url(&self, at: usize) -> Option<&UpstreamUrl> {
        let upstream = self.upstreams.get(at)?;
        self.shared.options.upstreams.get(upstream.index)?.urls.get(upstream.url)
    }

    fn begin_attempt(&mut self, at: usize) {
        let Some(upstream) = self.upstreams.get_mut(at) else { return };
        upstream.url = upstream.attempts.begin();
        upstream.count += 1;
        let (index, count) = (upstream.index, upstream.count);
        let Some(url) = self.url(at).cloned() else { return };
        self.shared.upstreams.change(index, |status| {
            status.attempts = count;
            status.url = url.to_string();
        });
        if let Some(address) = url.address() {
            return self.dial(at, [address].into(), String::new());
        }
        if let Some(upstream) = self.upstreams.get_mut(at) {
            upstream.phase = Phase::Resolving { by: self.now.time + RESOLVE };
        }
        self.tell_state(at, UpstreamState::Resolving, None);
        let (wakers, shard) = (Arc::clone(&self.shared.wakers), self.id.index());
        let answer = move |addresses: io::Result<Vec<SocketAddr>>| {
            if let Some(waker) = wakers.get(shard) {
                waker.notify(Notice::Resolved { upstream: index, attempt: count, addresses });
            }
        };
        self.driver.resolve(url.host(), url.port(), Box::new(answer));
    }

    /// The addresses of a name are known, or there are none.
    pub(crate) fn resolved(
        &mut self,
        upstream: usize,
        attempt: u64,
        addresses: io::Result<Vec<SocketAddr>>,
    ) {
        let Some(at) = self.upstreams.at(upstream) else { return };
        let is_waiting = |it: &super::table::Upstream| {
            it.count == attempt && matches!(it.phase, Phase::Resolving { .. })
        };
        if self.stopping.is_some() || !self.upstreams.get(at).is_some_and(is_waiting) {
            return;
        }
        let host = self.url(at).map(|url| url.host().to_owned()).unwrap_or_default();
        match addresses {
            Ok(mut addresses) => {
                addresses.truncate(ADDRESSES_MAX);
                let none = reasons::unresolved(&host, &io::ErrorKind::NotFound.into());
                self.dial(at, addresses.into(), none);
            }
            Err(error) => self.give_up(at, reasons::unresolved(&host, &error)),
        }
        self.drain_effects();
    }

    /// Connects to the first address that the operating system does not refuse at once.
    fn dial(&mut self, at: usize, mut addresses: VecDeque<SocketAddr>, mut reason: String) {
        while let Some(address) = addresses.pop_front() {
            match self.connect(address) {
                Ok(key) => {
                    let (state, nonce) = (UpstreamState::Connecting, [0; 16]);
                    let since = self.now.time;
                    let opened = Opened { key, state, others: addresses, nonce, since };
                    if let Some(upstream) = self.upstreams.get_mut(at) {
                        upstream.phase = Phase::Open(opened);
                    }
                    return self.tell_state(at, state, Some(address));
                }
                Err(error) => reason = reasons::unreachable(address, &error),
            }
        }
        self.give_up(at, reason);
    }

    /// The record of a connection that is begun.
    fn connect(&mut self, address: SocketAddr) -> io::Result<Key> {
        let stream = self.driver.connect(address)?;
        let mut record = Connection::new(stream, address, NO_LISTENER, self.now.time + CONNECT);
        record.stage = Stage::Dialling;
        record.flags.clear(Flags::WRITABLE);
        record.flags.set(Flags::OUTGOING);
        record.flags.set(Flags::CONNECTING);
        let key = self.connections.insert(record);
        let stream = self.connections.get_mut(key).and_then(|record| record.stream.as_mut());
        if let Some(Err(error)) = stream.map(|stream| self.driver.register(stream, key)) {
            self.forget(key);
            return Err(error);
        }
        self.rearm(key);
        Ok(key)
    }

    /// Something has become of a connection that was begun.
    #[cold]
    pub(crate) fn note_connecting(&mut self, key: Key) {
        let Some(record) = self.connections.get_mut(key) else { return };
        let (address, stream) = (record.peer.socket(), record.stream.as_mut());
        match stream.map(|stream| self.driver.connected(stream)) {
            None | Some(Ok(false)) => {}
            Some(Ok(true)) => {
                record.flags.clear(Flags::CONNECTING);
                record.flags.set(Flags::READABLE);
                record.flags.set(Flags::WRITABLE);
                record.deadline = self.now.time + HANDSHAKE;
                self.lists.read(key, &mut record.flags);
                self.begin_handshake(key);
            }
            Some(Err(error)) => self.cut(key, reasons::unreachable(address, &error)),
        }
        self.drain_effects();
    }

    /// Gives up a connection that was never there.
    fn cut(&mut self, key: Key, reason: String) {
        self.fail_dialled(key, reason);
        self.forget(key);
    }

    /// Ends a connection that does not come to carry a session.
    pub(super) fn fail_dialled(&mut self, key: Key, reason: String) {
        let close = Close::new(CloseCode::TransportError, reason);
        self.end(key, &close, Farewell::Silent);
    }

    /// The time for a connection's handshakes is over.
    pub(crate) fn dial_timed_out(&mut self, key: Key) {
        let Some(at) = self.upstreams.holder(key) else { return self.forget(key) };
        let state = self.upstreams.get(at).and_then(|it| it.opened()).map(|opened| opened.state);
        let state = state.unwrap_or(UpstreamState::Connecting);
        let limit = if state == UpstreamState::Connecting { CONNECT } else { HANDSHAKE };
        let slow = |url: &UpstreamUrl| reasons::too_slow(state, url, limit.as_secs());
        let reason = self.url(at).map(slow).unwrap_or_default();
        self.cut(key, reason);
    }

    /// The connection of an upstream ends.
    pub(crate) fn note_upstream_end(&mut self, key: Key, close: &Close) {
        let Some(at) = self.upstreams.holder(key) else { return };
        let Some(opened) = self.upstreams.get_mut(at).and_then(|it| it.take_opened()) else {
            return;
        };
        if self.stopping.is_some() {
            return self.tell_state(at, UpstreamState::Stopped, None);
        }
        let reason = self.url(at).map(|url| reasons::ended(close, opened.state, url));
        let reason = reason.unwrap_or_default();
        match opened.state {
            UpstreamState::LoggingIn | UpstreamState::Connected => {
                let random = self.driver.random() as u64;
                let (since, now) = (opened.since, self.now.time);
                let lost = |attempts: &mut Attempts| attempts.lost(since, now, random);
                self.wait(at, lost, reason);
            }
            UpstreamState::Connecting => self.dial(at, opened.others, reason),
            _ => self.give_up(at, reason),
        }
    }

    /// An attempt has failed.
    fn give_up(&mut self, at: usize, reason: String) {
        let (now, random) = (self.now.time, self.driver.random() as u64);
        self.wait(at, |attempts| attempts.failed(now, random), reason);
    }

    fn wait(&mut self, at: usize, next: impl FnOnce(&mut Attempts) -> Time, reason: String) {
        let Some(upstream) = self.upstreams.get_mut(at) else { return };
        let due = next(&mut upstream.attempts);
        upstream.phase = Phase::Waiting { due };
        let (index, is_news) = (upstream.index, upstream.is_news(&reason));
        let wait = due.since(self.now.time);
        self.shared.upstreams.change(index, |status| {
            status.failures += 1;
            tell_failure(&status.name, &status.url, &reason, wait, is_news);
            status.last_error = Some(reason);
        });
        self.tell_state(at, UpstreamState::Waiting, None);
    }

    /// The connection of an upstream has come further.
    pub(super) fn enter(&mut self, at: usize, state: UpstreamState) {
        let now = self.now.time;
        let Some(opened) = self.upstreams.get_mut(at).and_then(|it| it.opened_mut()) else {
            return;
        };
        // That it has logged in does not make it younger.
        if state != UpstreamState::Connected {
            opened.since = now;
        }
        opened.state = state;
        let key = opened.key;
        if state == UpstreamState::Connected
            && let Some(upstream) = self.upstreams.get_mut(at)
        {
            upstream.forget_told();
        }
        let address = self.connections.get(key).map(|record| record.peer.socket());
        self.tell_state(at, state, address);
    }

    /// Lets everybody know of a change.
    fn tell_state(&mut self, at: usize, state: UpstreamState, address: Option<SocketAddr>) {
        let (Some(upstream), wall_ms) = (self.upstreams.get(at), self.now.wall_ms) else { return };
        self.shared.upstreams.change(upstream.index, |status| {
            status.enter(state, wall_ms);
            status.address = address;
            let (upstream, url) = (&status.name, &status.url);
            if state == UpstreamState::Connected {
                tracing::info!(event = "upstream-connected", upstream, url, address = ?address, "connected to the upstream {upstream}");
            } else {
                tracing::debug!(event = "upstream", upstream, url, state = state.name());
            }
        });
    }
}

/// Writes the line of a failure: for operators if it is new, for developers if the same has just been said.
fn tell_failure(upstream: &str, url: &str, reason: &str, wait: Span, is_news: bool) {
    let (reason, next_ms) = (reason.escape_debug(), wait.as_millis() as u64);
    if !is_news {
        tracing::debug!(event = "upstream-failed", upstream, url, next_ms, "{reason}");
    } else {
        tracing::warn!(
            event = "upstream-failed",
            upstream,
            url,
            next_ms,
            "the upstream {upstream} is not connected: {reason}"
        );
    }
}

/// How long a name may take to be resolved.
const RESOLVE: Span = Span::from_secs(10);
/// How long an address may take to take a connection.
const CONNECT: Span = Span::from_secs(5);
/// How long the handshakes of TLS and WebSocket may take together.
const HANDSHAKE: Span = Span::from_secs(10);
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;
