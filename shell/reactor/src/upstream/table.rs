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
    /// What operators have been told of failures since it was connected last.
    told: Vec<String>,
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
        self.list.push(Upstream { index, attempts, url: 0, count: 0, told: Vec::new(), phase });
    }

    #[inline]
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
    #[inline]
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

    /// Whether a failure is worth telling: the same one, or those of several addresses in turn, once.
    pub(crate) fn is_news(&mut self, reason: &str) -> bool {
        if self.told.iter().any(|told| told == reason) {
            return false;
        }
        if self.told.len() >= TOLD_MAX {
            self.told.clear();
        }
        self.told.push(reason.to_owned());
        true
    }

    /// It is connected: the next failure is news.
    pub(crate) fn forget_told(&mut self) {
        self.told = Vec::new();
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

/// Failures that are remembered, so that they are told once.
const TOLD_MAX: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use tiderace_websocket::{Decoder, Event, Limits, MessageKind, encode_message};

    #[test]
    fn the_same_failures_are_told_once_until_it_is_connected() {
        let mut upstreams = Upstreams::default();
        upstreams.add(3, Attempts::new(2, 0));
        assert_eq!((upstreams.at(3), upstreams.at(0)), (Some(0), None));
        let upstream = upstreams.get_mut(0).unwrap();
        let news =
            ["a refuses", "b refuses", "a refuses", "b refuses"].map(|it| upstream.is_news(it));
        assert_eq!(news, [true, true, false, false]);
        upstream.forget_told();
        assert!(upstream.is_news("a refuses"));
        for number in 0..100 {
            assert!(upstream.is_news(&number.to_string()) && upstream.told.len() <= TOLD_MAX);
        }
    }

    proptest! {
        /// Whatever a socket takes of a queue, and whatever is written meanwhile, each byte is masked once.
        #[test]
        fn a_queue_is_masked_once_however_it_is_written(
            rounds in prop::collection::vec((0usize..400, 0usize..500), 1..40),
            before in 0usize..50,
        ) {
            let key = Key { slot: 1, generation: 1 };
            let mut upstreams = Upstreams::default();
            let mut queue = vec![b'x'; before];
            upstreams.begin_mask(key, before);
            let (mut wire, mut sent) = (Vec::new(), Vec::new());
            for (len, taken) in rounds {
                let payload = vec![len as u8; len];
                encode_message(&mut queue, MessageKind::Binary, &payload, None);
                sent.push(payload);
                prop_assert!(upstreams.has_unmasked(key, queue.len()));
                queue = upstreams.mask(key, &queue, || [7, 8, 9, 10]);
                wire.extend(queue.drain(..taken.min(queue.len())));
                upstreams.note_written(key, queue.len());
                prop_assert!(!upstreams.has_unmasked(key, queue.len()));
            }
            wire.append(&mut queue);
            prop_assert!(wire.drain(..before).all(|byte| byte == b'x'));
            let mut decoder = Decoder::new(tiderace_websocket::Role::Server);
            for payload in sent {
                let decoded = decoder.decode(&Limits::default(), &mut wire).unwrap();
                let consumed = decoded.consumed;
                prop_assert_eq!(decoded.event, Event::Message { kind: MessageKind::Binary, payload: &payload });
                wire.drain(..consumed);
            }
            prop_assert!(wire.is_empty());
            upstreams.end_mask(key);
            prop_assert!(!upstreams.has_unmasked(key, 1));
        }
    }
}
