//! One shard of the broker: commands in, effects out.
//!
//! A [`Broker`] lives on one shard's thread and is never shared. Sessions belong to the shard of
//! their connection; every destination has a *home shard*, chosen by its name, that numbers its
//! messages and keeps its state (retained value, queue, interest). Shards speak by [`Envelope`]s.
//!
//! ```text
//!  publisher's shard        home shard                       subscriber's shard
//!  handle(Publish) ─message─▶ number, retain, queue ─message─▶ fan out ─▶ backlog ─▶ next()
//!        ▲                        │
//!        └──────── Pause ─────────┘◀──────── Pressure ────────┘
//! ```
//! What a subscriber has not been sent yet waits in its session's backlog as references to runs,
//! where it can still be dropped or conflated; bytes are made when its connection can take them.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod access;
mod access_change;
mod acting;
mod action;
mod answering;
mod authorise;
mod broker;
mod browse;
mod changing;
mod claims;
mod collections;
mod condition;
mod credential_id;
mod deferred;
mod deliver;
mod delivery;
mod deputies;
mod deputy_side;
mod directory;
mod durables;
mod effects;
mod elsewhere;
mod elsewhere_queues;
mod ending;
mod exchange;
mod exchange_side;
mod fanout;
mod feed_parts;
mod feeding;
mod fetch;
mod going_live;
mod heard;
mod holdings;
mod home;
mod home_messages;
mod home_side;
mod hosts;
mod identity;
mod implied;
mod interest;
mod journal;
mod large_bodies;
mod limits;
mod lock;
mod long_jobs;
mod loopback;
mod loss_side;
mod maker;
mod managed_elsewhere;
mod memory;
mod messages;
mod metrics;
mod mirroring;
mod missing_patterns;
mod notice_side;
mod notices;
mod operate;
mod options;
mod owner_requests;
mod owners;
mod ownership;
mod page_rounds;
mod paging;
mod past_rules;
mod pattern_subscribers;
mod peer_lost;
mod pending_requests;
mod placeholders;
mod places;
mod pool;
mod presence;
mod present_sessions;
mod pressure;
mod price;
mod pricing;
mod principal;
mod publish;
mod publisher;
mod queue_jobs;
mod queue_loads;
mod queue_operations;
mod queue_store;
mod queued;
mod queueing;
mod reached_upstream;
mod recall_side;
mod recently_told;
mod recover;
mod refused_targets;
mod relay;
mod remove;
mod requester;
mod retire;
mod review;
mod room;
mod rule;
mod runs;
mod scatter_gather;
mod selecting;
mod series;
mod server_topics;
mod service_homes;
mod serving;
mod session;
mod session_host;
mod session_messages;
mod session_side;
mod session_stats;
mod sessions;
mod show_topic;
mod side_table;
mod snapshot;
mod spans;
mod specs;
mod stored_answers;
mod subscribe;
mod subscriber_list;
mod subscription;
mod subscriptions;
mod sweep_topics;
mod temporary;
mod temporary_queues;
mod together;
mod topic;
mod topic_directory;
mod topic_subscribers;
mod transaction;
mod update;
mod view_side;
mod views;
mod waiters;
mod waits;
mod will;
mod work;

pub use access_change::{AccessChange, Bearer};
pub use action::{Action, Actions};
pub use authorise::{Decision, Rules};
pub use broker::{AHEAD, Broker};
pub use claims::{Claim, Claims};
pub use credential_id::CredentialId;
pub use delivery::{Left, Pending};
pub use deputies::DeputyState;
pub use effects::{AskNode, AskedChange, Effects, NodeEffect};
pub use home::services::{Address, Calling, Responding};
pub use implied::implying;
pub use journal::{
    NumbersGiven, RestoredMessages, RestoredQueue, RestoredRange, RestoredTopic, Unrestorable,
    queue_owner,
};
pub use limits::{LimitPer, LimitRule};
pub use managed_elsewhere::managed_elsewhere;
pub use messages::{
    Answer, Ask, Body, Consumption, Envelope, First, Interest, Missed, SnapshotPage, Specs,
    SubscribeRequestId, ToExchange, ToHome, ToNotices, ToPublisher, ToSubscriber, ToViews,
    TransferId, UpstreamMarks, Values,
};
pub use metrics::{BROKER_MAXIMA, BROKER_METRICS, BrokerMetrics};
pub use options::{
    BrokerOptions, DurableOptions, PageLimits, QueuePolicy, ServiceOptions, TopicPolicy,
    UpstreamTopics,
};
pub use places::{NodeId, Place};
pub use principal::{LOCAL, Principal};
pub use queue_loads::Unreadable;
pub use queued::MovedFrom;
pub use relay::{Relay, Wanted};
pub use requester::{Operated, Requester};
pub use rule::{Rule, Who};
pub use spans::SpanFact;
pub use tiderace_journal::{
    DamagedRecord, LoadedRecord, RecordBody, StoreLoad, StoreLoaded, StoreRecord, StoredKind,
    TakenRecords,
};
pub use tiderace_wire::{SlowConsumer, TopicSpec};
