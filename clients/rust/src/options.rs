//! The options of a subscription: kept, so that it can be made again on a new connection.

use tiderace_native::codec::{SubscribeMessage, subscribe};
use tiderace_wire::{Kind, Prefetch, Replay};

/// What to subscribe to, and how.
#[derive(Clone, Debug)]
pub struct SubscribeOptions {
    pub(crate) kind: Kind,
    pub(crate) path: String,
    pub(crate) flags: u64,
    pub(crate) selector: Option<String>,
    pub(crate) prefetch: Option<Prefetch>,
    pub(crate) replay: Option<Replay>,
    pub(crate) interval_ms: Option<u64>,
    pub(crate) start: Option<u64>,
}

impl SubscribeOptions {
    fn new(kind: Kind, path: &str, flags: u64) -> SubscribeOptions {
        SubscribeOptions {
            kind,
            path: path.to_owned(),
            flags,
            selector: None,
            prefetch: None,
            replay: None,
            interval_ms: None,
            start: None,
        }
    }

    /// One topic.
    pub fn topic(path: &str) -> SubscribeOptions {
        SubscribeOptions::new(Kind::Topic, path, 0)
    }

    /// One queue, whose messages count as consumed when they are sent.
    pub fn queue(path: &str) -> SubscribeOptions {
        SubscribeOptions::new(Kind::Queue, path, 0)
    }

    /// A service, to answer its calls.
    pub fn serve(path: &str) -> SubscribeOptions {
        SubscribeOptions::new(Kind::Service, path, 0)
    }

    /// Take the path for a pattern.
    #[must_use]
    pub fn pattern(self) -> SubscribeOptions {
        self.with(subscribe::PATTERN)
    }

    /// The current value first.
    #[must_use]
    pub fn snapshot(self) -> SubscribeOptions {
        self.with(subscribe::SNAPSHOT)
    }

    /// What is missed during a break comes after it.
    #[must_use]
    pub fn recoverable(self) -> SubscribeOptions {
        self.with(subscribe::RECOVERABLE)
    }

    /// Updates may be deltas, which are applied before they are told.
    #[must_use]
    pub fn deltas(self) -> SubscribeOptions {
        self.with(subscribe::DELTAS)
    }

    /// Messages of queues are settled by [`crate::Client::settle`].
    #[must_use]
    pub fn explicit(self) -> SubscribeOptions {
        self.with(subscribe::EXPLICIT)
    }

    /// Of queues: no other consumer gets messages while this one lives.
    #[must_use]
    pub fn exclusive(self) -> SubscribeOptions {
        self.with(subscribe::EXCLUSIVE)
    }

    /// Of queues: the messages are shown and stay there, until all that was there has been told, which
    /// [`crate::Event::Browsed`] says. The server has to be of this version at least.
    #[must_use]
    pub fn browse(self) -> SubscribeOptions {
        self.with(subscribe::BROWSE)
    }

    /// The same, going on with what comes.
    #[must_use]
    pub fn follow(self) -> SubscribeOptions {
        self.with(subscribe::BROWSE | subscribe::FOLLOW)
    }

    /// Of queues: begin with the first message of at least that position (of the operation `peek`), or with
    /// zero behind all that is there. The server has to be of this version at least.
    #[must_use]
    pub fn start(self, position: u64) -> SubscribeOptions {
        SubscribeOptions { start: Some(position), ..self }
    }

    /// Only messages that match, by an SQL-92 condition on their properties.
    #[must_use]
    pub fn selector(self, selector: &str) -> SubscribeOptions {
        SubscribeOptions { selector: Some(selector.to_owned()), ..self }
    }

    /// What may be under way: messages of queues, exchanges of services.
    #[must_use]
    pub fn prefetch(self, prefetch: Prefetch) -> SubscribeOptions {
        SubscribeOptions { prefetch: Some(prefetch), ..self }
    }

    /// Begin with what the topics keep from there on, instead of with their values. After a break
    /// what was missed comes instead, if the subscription is recoverable.
    #[must_use]
    pub fn replay(self, from: Replay) -> SubscribeOptions {
        SubscribeOptions { replay: Some(from), ..self }
    }

    /// At least so many milliseconds between two updates of one topic.
    #[must_use]
    pub fn interval_ms(self, interval_ms: u64) -> SubscribeOptions {
        SubscribeOptions { interval_ms: Some(interval_ms), ..self }
    }

    /// Be told of the topics that the subscription gains and loses.
    #[must_use]
    pub fn notices(self) -> SubscribeOptions {
        self.with(subscribe::NOTICES)
    }

    /// Be told what is the current value of a topic, and what is not any more: after a break the values
    /// come anew, instead of what was missed, and those that are gone are told as removed before the
    /// subscription is told as done. The server has to be of this version at least.
    #[must_use]
    pub fn values(self) -> SubscribeOptions {
        self.with(subscribe::SNAPSHOT | subscribe::VALUES | subscribe::OK_LAST)
    }

    fn with(self, flag: u64) -> SubscribeOptions {
        SubscribeOptions { flags: self.flags | flag, ..self }
    }

    /// The path or pattern.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether the path is a pattern.
    pub fn is_pattern(&self) -> bool {
        self.has(subscribe::PATTERN)
    }

    /// Of topics, queues or services.
    pub fn kind(&self) -> Kind {
        self.kind
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
            start: self.start,
            credit: None,
        }
    }
}
