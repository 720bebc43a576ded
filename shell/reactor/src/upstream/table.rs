//! The upstreams of one shard: how far each has come, and the masks of outgoing connections.
//!
//! Invariants: an upstream has at most one connection that is not ending; a mask is there from the moment when a
//! connection has become a WebSocket until its record goes.

use std::collections::VecDeque;
use std::net::SocketAddr;

use tiderace_base::{Key, Span, Time};
use tiderace_websocket::Masker;

use super::attempts::Attempts;
use super::status::UpstreamState;

/// The upstreams of one shard.
#[derive(Debug, Default)]
pub(crate) struct Upstreams {
    list: Vec<Upstream>,
    masks: Vec<(Key, Mask)>,
}

/// One upstream.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// Its place among the options of the node.
    pub(crate) index: usize,
    pub(crate) attempts: Attempts,
    /// The address of the present attempt, by its place among the options.
    pub(crate) url: usize,
    /// How many attempts there have been, by which late answers are known.
    pub(crate) count: u64,
    pub(crate) phase: Phase,
}

/// What an upstream is doing.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Waits for its next attempt.
    Waiting { due: Time },
    /// Waits for the addresses of a name.
    Resolving { by: Time },
    /// Has a connection, or is about to have one.
    Open(Opened),
    /// Is not connected to any more.
    Stopped,
}

/// The connection of an upstream.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) key: Key,
    /// From `Connecting` to `Connected`.
    pub(crate) state: UpstreamState,
    /// Addresses of the same name that are tried if this one takes no connection.
    pub(crate) others: VecDeque<SocketAddr>,
    /// What the answer to the handshake has to prove to have read.
    pub(crate) nonce: [u8; 16],
    /// Since when it is in that state; of a WebSocket, since when it is one.
    pub(crate) since: Time,
}

/// What is due for an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The next attempt.
    Attempt,
    /// Giving up on the name.
    Unresolved,
    /// A look at whether its session has logged in.
    Login(Key),
}

/// The mask of an outgoing connection.
#[derive(Debug, Default)]
struct Mask {
    masker: Masker,
    /// Bytes at the front of its queue that go out as they are.
    ready: usize,
}

impl Upstreams {
    pub(crate) fn add(&mut self, index: usize, attempts: Attempts) {
        let phase = Phase::Waiting { due: Time::ZERO };
        self.list.push(Upstream { index, attempts, url: 0, count: 0, phase });
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Upstream> {
        self.list.get(at)
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Upstream> {
        self.list.get_mut(at)
    }

    /// The place of the upstream that a connection is for, unless it is ending.
    pub(crate) fn holder(&self, key: Key) -> Option<usize> {
        self.list.iter().position(|it| it.opened().is_some_and(|opened| opened.key == key))
    }

    /// The place of an upstream, by its place among the options.
    pub(crate) fn at(&self, index: usize) -> Option<usize> {
        self.list.iter().position(|it| it.index == index)
    }

    /// How long the upstreams can wait.
    pub(crate) fn timeout(&self, idle_since: Time) -> Span {
        let next = self.list.iter().map(|it| match it.phase {
            Phase::Waiting { due } => due,
            Phase::Resolving { by } => by,
            Phase::Open(_) | Phase::Stopped => Time::NEVER,
        });
        next.min().map_or(Span::MAX, |next| next.since(idle_since))
    }

    /// A connection has become a WebSocket; so many bytes in its queue belong to what was before.
    pub(crate) fn begin_mask(&mut self, key: Key, ready: usize) {
        self.masks.push((key, Mask { masker: Masker::new(), ready }));
    }

    /// Its record goes.
    pub(crate) fn end_mask(&mut self, key: Key) {
        self.masks.retain(|(of, _)| *of != key);
    }

    /// Whether of a queue of so many bytes some have to be masked before they go out.
    pub(crate) fn has_unmasked(&self, key: Key, len: usize) -> bool {
        self.masks.iter().any(|(of, mask)| *of == key && mask.ready < len)
    }

    /// Masks all of a queue that is not masked yet.
    pub(crate) fn mask(
        &mut self,
        key: Key,
        queue: &[u8],
        random: impl FnMut() -> [u8; 4],
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(queue.len() + queue.len() / 8 + 64);
        if let Some((_, mask)) = self.masks.iter_mut().find(|(of, _)| *of == key) {
            let (ready, frames) = queue.split_at(mask.ready.min(queue.len()));
            out.extend_from_slice(ready);
            mask.masker.mask(frames, &mut out, random);
        }
        out
    }

    /// A write has left so many bytes, all of which are masked.
    pub(crate) fn note_written(&mut self, key: Key, left: usize) {
        if let Some((_, mask)) = self.masks.iter_mut().find(|(of, _)| *of == key) {
            mask.ready = left;
        }
    }
}

impl Upstream {
    /// What is due.
    pub(crate) fn due(&self, now: Time) -> Option<Due> {
        match &self.phase {
            Phase::Waiting { due } if *due <= now => Some(Due::Attempt),
            Phase::Resolving { by } if *by <= now => Some(Due::Unresolved),
            Phase::Open(opened) if opened.state == UpstreamState::LoggingIn => {
                Some(Due::Login(opened.key))
            }
            _ => None,
        }
    }

    pub(crate) fn opened(&self) -> Option<&Opened> {
        match &self.phase {
            Phase::Open(opened) => Some(opened),
            _ => None,
        }
    }

    pub(crate) fn opened_mut(&mut self) -> Option<&mut Opened> {
        match &mut self.phase {
            Phase::Open(opened) => Some(opened),
            _ => None,
        }
    }

    /// Its connection, if there is one, is not its own any more.
    pub(crate) fn take_opened(&mut self) -> Option<Opened> {
        match std::mem::replace(&mut self.phase, Phase::Stopped) {
            Phase::Open(opened) => Some(opened),
            phase => {
                self.phase = phase;
                None
            }
        }
    }
}
