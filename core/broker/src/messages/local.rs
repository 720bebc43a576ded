//! What a home hands to the other rooms of its own shard, without the list that other messages take.
//!
//! A home knows neither sessions nor views. What it has for those of its own shard waits here until its method
//! returns; the wiring hands it on before anything else is done. Invariant: what is handed on this way was not
//! sent behind a message that still waits in the list, but for answers, which may overtake.

use std::sync::Arc;

use tiderace_base::{Close, Key, SessionId};
use tiderace_queues::Segment;
use tiderace_topics::Path;
use tiderace_wire::{
    Browse, Confirm, Run, SubscriptionKey, ToUpstream, Token, TopicDetails, TopicSpec,
};

use crate::directory::SpecChange;
use crate::requester::Requester;

const _: () = assert!(
    size_of::<LocalMessage>() <= 48,
    "each run and each delivery of a queue is moved in one"
);

/// From a home to sessions or views of its own shard.
#[derive(Debug)]
pub(crate) enum LocalMessage {
    /// A run of a topic for the shard's subscribers.
    Fanout {
        /// Which topic.
        topic: Key,
        /// The messages.
        run: Arc<Run>,
    },
    /// Messages of a queue for one consumer.
    Deliver {
        /// Whose.
        session: SessionId,
        /// Which subscription's.
        key: SubscriptionKey,
        /// The messages.
        segment: Segment,
    },
    /// Somebody who browses a queue has been given all that was there.
    Browsed {
        /// Whose.
        session: SessionId,
        /// Which subscription.
        key: SubscriptionKey,
        /// Which queue.
        path: Path,
    },
    /// A publication or a settlement was taken.
    Confirmed {
        /// Whose.
        session: SessionId,
        /// Which receipts.
        confirm: Confirm,
    },
    /// It was not taken.
    Refused {
        /// Whose.
        session: SessionId,
        /// The receipt asked for, and why not.
        refusal: Box<(Option<Token>, Close)>,
    },
    /// A topic is something else.
    SpecChanged {
        /// Which topic.
        topic: Key,
        /// What is different.
        change: SpecChange,
    },
    /// A topic that was removed is to be something else, behind the messages that were handed on before.
    SetSpec {
        /// Which topic.
        topic: Key,
        /// What it is from then on.
        spec: Arc<TopicSpec>,
    },
    /// A topic of an upstream is inserted by views of some shard, or no more.
    Inserted {
        /// The topic.
        path: Path,
        /// Whether it is from now on.
        on: bool,
    },
    /// For views: a topic has got messages, or without them has lost its value.
    TopicChanged {
        /// Which topic.
        topic: Key,
        /// The messages.
        run: Option<Arc<Run>>,
    },
    /// For the registrar: a view is to begin, to change or, without a text, to end.
    ChangeView {
        /// Who asks.
        requester: Box<Requester>,
        /// Which view.
        name: Path,
        /// What it is.
        text: Option<Box<str>>,
    },
    /// The views are to be listed.
    ListViews {
        /// Who asks.
        requester: Box<Requester>,
    },
    /// A page of the shard's sessions is to be made.
    BrowseSessions {
        /// Who asks.
        requester: Box<Requester>,
        /// Which page.
        browse: Browse,
    },
    /// What the shard knows of a topic is to be told.
    ShowTopic {
        /// Who asks.
        requester: Box<Requester>,
        /// What its home knows of it, if that is here.
        topic: Box<TopicDetails>,
    },
    /// A session to an upstream is to ask for something there.
    Upstream {
        /// Which session.
        session: SessionId,
        /// What.
        asked: Box<ToUpstream>,
    },
}
