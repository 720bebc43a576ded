//! What a subscription is to be: kept, so that it can be made again on a new connection.

use tiderace_native::codec::{SubscribeMessage, subscribe};
use tiderace_wire::{Kind, Prefetch, Replay};

/// A subscription to be.
#[derive(Clone, Debug)]
pub struct Wish {
    pub(crate) kind: Kind,
    pub(crate) path: String,
    pub(crate) flags: u64,
    pub(crate) selector: Option<String>,
    pub(crate) prefetch: Option<Prefetch>,
    pub(crate) replay: Option<Replay>,
    pub(crate) interval_ms: Option<u64>,
}

impl Wish {
    fn new(kind: Kind, path: &str, flags: u64) -> Wish {
        Wish {
            kind,
            path: path.to_owned(),
            flags,
            selector: None,
            prefetch: None,
            replay: None,
            interval_ms: None,
        }
    }

    /// One topic.
    pub fn topic(path: &str) -> Wish {
        Wish::new(Kind::Topic, path, 0)
    }

    /// One queue, whose messages count as consumed when they are sent.
    pub fn queue(path: &str) -> Wish {
        Wish::new(Kind::Queue, path, 0)
    }

    /// A service, to answer its calls.
    pub fn serve(path: &str) -> Wish {
        Wish::new(Kind::Service, path, 0)
    }

    /// Take the path for a pattern.
    #[must_use]
    pub fn pattern(self) -> Wish {
        self.with(subscribe::PATTERN)
    }

    /// The current value first.
    #[must_use]
    pub fn snapshot(self) -> Wish {
        self.with(subscribe::SNAPSHOT)
    }

    /// What is missed during a break comes after it.
    #[must_use]
    pub fn recoverable(self) -> Wish {
        self.with(subscribe::RECOVERABLE)
    }

    /// Updates may be deltas, which are applied before they are told.
    #[must_use]
    pub fn deltas(self) -> Wish {
        self.with(subscribe::DELTAS)
    }

    /// Messages of queues are settled by [`crate::Client::settle`].
    #[must_use]
    pub fn explicit(self) -> Wish {
        self.with(subscribe::EXPLICIT)
    }

    /// Only messages that match.
    #[must_use]
    pub fn selector(self, selector: &str) -> Wish {
        Wish { selector: Some(selector.to_owned()), ..self }
    }

    /// What may be under way: messages of queues, exchanges of services.
    #[must_use]
    pub fn prefetch(self, prefetch: Prefetch) -> Wish {
        Wish { prefetch: Some(prefetch), ..self }
    }

    /// Begin with what the topics keep from there on, instead of with their values. After a break
    /// what was missed comes instead, if the subscription is recoverable.
    #[must_use]
    pub fn replay(self, from: Replay) -> Wish {
        Wish { replay: Some(from), ..self }
    }

    /// At least so many milliseconds between two updates of one topic.
    #[must_use]
    pub fn interval_ms(self, interval_ms: u64) -> Wish {
        Wish { interval_ms: Some(interval_ms), ..self }
    }

    /// Be told of the topics that the subscription gains and loses.
    #[must_use]
    pub fn notices(self) -> Wish {
        self.with(subscribe::NOTICES)
    }

    /// Be told what is the current value of a topic, and what is not any more: after a break the values
    /// come anew, instead of what was missed, and those that are gone are told as removed before the
    /// subscription is told as done. The server has to be of this version at least.
    #[must_use]
    pub fn values(self) -> Wish {
        self.with(subscribe::SNAPSHOT | subscribe::VALUES | subscribe::OK_LAST)
    }

    fn with(self, flag: u64) -> Wish {
        Wish { flags: self.flags | flag, ..self }
    }

    pub(crate) fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn message(
        &self,
        request: u32,
        subscription: u32,
        resume: bool,
    ) -> SubscribeMessage<'_> {
        SubscribeMessage {
            request,
            subscription,
            flags: self.flags,
            kind: self.kind,
            path: &self.path,
            selector: self.selector.as_deref(),
            prefetch: self.prefetch,
            position: resume.then_some(b""),
            replay: self.replay.filter(|_| !resume),
            interval_ms: self.interval_ms,
        }
    }
}
