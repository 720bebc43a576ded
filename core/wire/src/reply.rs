//! What the broker tells a session.

use std::sync::Arc;

use tiderace_base::{Close, ShardId};
use tiderace_topics::Path;

use crate::{
    Confirm, Exchange, ExchangeKey, LeaveReason, Numbering, OperationResult, SharedRun,
    SubscriptionKey, Token, TopicSpec,
};

/// An answer to a command.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The login was accepted.
    LoggedIn {
        /// The identity's name.
        name: std::sync::Arc<str>,
        /// Whether the name is not authenticated, so that `~/` stands for nothing.
        anonymous: bool,
        /// The virtual host that the session is in.
        host: Option<std::sync::Arc<str>>,
    },
    /// These were done. Answers from different shards may come in another order than their
    /// questions; sessions whose protocol promises an order keep it themselves.
    Confirmed(Confirm),
    /// What was missed has been put in the way: all of it, or only the retained values because the
    /// history does not reach back far enough. Precedes the confirmation of the subscription.
    Recovered {
        /// The subscription's.
        token: Token,
        /// Whether nothing is missing.
        complete: bool,
        /// Whether the position was of this life of the node, or of an earlier one that is known: no
        /// version that the client knows has been given to another message.
        continues: bool,
    },
    /// A position may be advanced to this: every message of that home up to this number for which the
    /// session has a subscription has been given to it. Comes for recoverable subscriptions, so that
    /// a client may come back to a topic on which nothing has happened yet.
    Reached {
        /// Which home.
        home: ShardId,
        /// The number.
        sequence: u64,
    },
    /// A subscription that browses a queue has been given all that was there; nothing follows.
    Browsed {
        /// Which.
        key: SubscriptionKey,
    },
    /// A subscription has ended without being asked to: nothing more comes of it, and its key is free. Also that one does
    /// not begin whose client wants no answer; see [`Reply::no_subscription`].
    SubscriptionEnded {
        /// Which.
        key: SubscriptionKey,
        /// Why.
        close: Close,
    },
    /// An exchange is over before both sides had said all. Messages of it may still come.
    ExchangeEnded {
        /// Which.
        exchange: ExchangeKey,
        /// Why.
        close: Close,
    },
    /// The caller of an exchange wants so many messages more than the responder was told before. Comes behind the
    /// first delivery of the exchange.
    ExchangeCredit {
        /// Which.
        exchange: ExchangeKey,
        /// How many more.
        messages: u64,
    },
    /// What came of a [`crate::Command::Operate`].
    Operated {
        /// The command's.
        token: Token,
        /// What came of it.
        result: Box<OperationResult>,
    },
    /// A subscription that asked for notices has gained a topic.
    Joined {
        /// Which subscription.
        key: SubscriptionKey,
        /// Which topic.
        path: Path,
        /// What the topic is.
        spec: Arc<TopicSpec>,
        /// Whether it holds no value, or one that comes behind this: a value that its client has from before is not its value.
        is_empty: bool,
    },
    /// A subscription that asked for notices has lost a topic.
    Left {
        /// Which subscription.
        key: SubscriptionKey,
        /// Which topic.
        path: Path,
        /// Why.
        reason: LeaveReason,
    },
    /// An upstream of this node is asked for something: only sessions that the node itself has opened to one get it.
    Upstream(Box<crate::ToUpstream>),
    /// A position may be advanced to this too: the same as [`Reply::Reached`] of the numbers of another node, from
    /// which messages come.
    ReachedUpstream {
        /// Who gave the number.
        numbering: crate::Numbering,
        /// The number.
        sequence: u64,
    },
    /// A command was refused; protocols without a milder way end the connection with it.
    Refused {
        /// The token of the command or message that is to blame, if it had one.
        token: Option<Token>,
        /// What to tell the client.
        close: Close,
    },
}

impl Reply {
    /// What a session is told of a subscription that it does not have: by the token of its command while that waits for
    /// an answer, otherwise by its key.
    pub fn no_subscription(key: SubscriptionKey, token: Option<Token>, close: Close) -> Reply {
        match token {
            Some(_) => Reply::Refused { token, close },
            None => Reply::SubscriptionEnded { key, close },
        }
    }
}

/// Messages for one subscription: part of a run, in order.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// Which subscription.
    pub key: SubscriptionKey,
    /// The run.
    pub run: &'a SharedRun,
    /// The first message, counted within the run.
    pub from: usize,
    /// The one after the last.
    pub to: usize,
    /// How often these messages were delivered before.
    pub redeliveries: u32,
    /// For topics: every message of the run's home up to this number has been given to the session
    /// once these are. Positions are advanced to this (and, between the messages of one delivery, no
    /// further): conflation and recovery may give a newer message before an older one.
    pub reached: u64,
    /// Set for messages of an exchange: one at a time. For callers `key` means nothing.
    pub exchange: Option<Exchange>,
}

impl Delivery<'_> {
    /// The version that a difference to what this delivery brings would have; zero, which no message
    /// has, if there is none, since the value is not one that the topic had.
    pub fn next_version(&self) -> u64 {
        if self.run.is_merged() { 0 } else { self.run.run().version() + self.to as u64 }
    }

    /// How far it brings a position with the numbers of another node, if its messages come from there: no further than
    /// everything has been given that this node had before them.
    pub fn reached_upstream(&self) -> Option<(Numbering, u64)> {
        let run = self.run.run();
        let upstream = run.upstream()?;
        let is_last = self.to == run.len();
        let last = (run.first() + self.to as u64).checked_sub(1)?;
        let sequence = match is_last {
            true => upstream.reached,
            false => upstream.reached.min((upstream.first + self.to as u64).saturating_sub(1)),
        };
        (self.reached >= last && sequence > 0).then_some((upstream.numbering, sequence))
    }

    /// Whether it is the whole run, so that shared encodings fit.
    pub fn is_whole(&self) -> bool {
        self.from == 0 && self.to == self.run.run().len()
    }
}
