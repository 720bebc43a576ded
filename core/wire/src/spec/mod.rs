//! What a topic is: the specification that it was created with, or that the configuration gives it.
//!
//! A specification is immutable and shared: a million topics of one kind refer to one value. Its text
//! form is JSON, the same in every protocol ([`TopicSpec::parse`], [`TopicSpec::to_json`]).

mod json;
mod removal;
mod schema;

use std::sync::Arc;

use tiderace_base::Span;

pub use json::{SpecError, span_of};
pub use removal::{Removal, RemovalCondition};
pub use schema::{SPEC_SCHEMA_BYTES_MAX, SchemaSpec};
pub use tiderace_value::BodyType as ValueType;

/// Bytes of a specification's text.
pub const SPEC_BYTES_MAX: usize = 64 * 1024;

/// Everything that can be chosen for a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopicSpec {
    /// What its values are.
    pub value: ValueType,
    /// Whether it is a time series: each message is an event that is kept, not a new value.
    pub series: bool,
    /// Whether every message becomes the current value even if its publisher does not say so.
    pub retain: bool,
    /// The messages that are kept for those who ask for more than the current value.
    pub history: HistorySpec,
    /// Whether value, history and specification survive a restart.
    pub persistent: bool,
    /// Whether updates may be sent as differences.
    pub deltas: bool,
    /// What happens to slow consumers.
    pub slow_consumer: SlowConsumer,
    /// How long publishers wait for a slow consumer before that.
    pub grace: Span,
    /// How updates stand in for earlier ones that have not been sent yet.
    pub conflation: Conflation,
    /// What goes first to a session for which much waits.
    pub priority: Priority,
    /// The principal that may do everything here, whatever the rules say.
    pub owner: Option<Arc<str>>,
    /// What JSON values have to be like.
    pub schema: Option<SchemaSpec>,
    /// When it is removed by itself.
    pub removal: Option<Arc<Removal>>,
    /// Whether who subscribes shows below `$sys/presence/`.
    pub presence: bool,
}

impl TopicSpec {
    /// What it takes in memory, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes_with(SchemaSpec::bytes)
    }

    /// What it takes where it is written down, roughly: of a schema only its text, and not what was compiled of it.
    pub fn written_bytes(&self) -> usize {
        self.bytes_with(|schema| schema.text().len())
    }

    fn bytes_with(&self, of_schema: impl FnOnce(&SchemaSpec) -> usize) -> usize {
        let removal = self.removal.as_ref().map_or(0, |removal| {
            removal.any.iter().map(|group| size_of_val(group) + size_of_val(&**group)).sum()
        });
        size_of::<TopicSpec>()
            + self.owner.as_ref().map_or(0, |owner| owner.len())
            + self.schema.as_ref().map_or(0, of_schema)
            + removal
    }
}

/// How many messages are kept besides the current value. Zero means "this one does not count"; if
/// neither counts there is no history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HistorySpec {
    /// Messages.
    pub count: u32,
    /// Their age.
    pub age: Span,
}

impl HistorySpec {
    /// Whether nothing is kept.
    pub fn is_none(self) -> bool {
        self.count == 0 && self.age.is_zero()
    }
}

/// How updates that have not been sent yet are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conflation {
    /// Whether the fields of JSON objects are merged (RFC 7386); otherwise the newest value counts.
    pub merge: bool,
    /// The shortest time between two updates of this topic to one subscriber; zero: none.
    pub interval: Span,
}

/// What goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// After everything else.
    Low,
    /// In the order of arrival.
    #[default]
    Default,
    /// Before everything else.
    High,
}

impl Priority {
    /// All priorities with their names.
    pub const ALL: [(&'static str, Priority); 3] =
        [("low", Priority::Low), ("default", Priority::Default), ("high", Priority::High)];

    /// Its name in specifications.
    pub fn name(self) -> &'static str {
        Priority::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// What happens to a subscriber whose backlog stays above the mark after the grace period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlowConsumer {
    /// Publishers of the topic wait for it, however long.
    Block,
    /// Of each topic only the newest message stays in its backlog.
    Conflate,
    /// It is disconnected.
    Disconnect,
    /// New messages are not put into its backlog.
    DropNewest,
    /// The oldest messages leave its backlog.
    #[default]
    DropOldest,
}

impl SlowConsumer {
    /// All policies with their names.
    pub const ALL: [(&'static str, SlowConsumer); 5] = [
        ("block", SlowConsumer::Block),
        ("conflate", SlowConsumer::Conflate),
        ("disconnect", SlowConsumer::Disconnect),
        ("drop-newest", SlowConsumer::DropNewest),
        ("drop-oldest", SlowConsumer::DropOldest),
    ];

    /// Its name in specifications.
    pub fn name(self) -> &'static str {
        SlowConsumer::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

impl Default for TopicSpec {
    /// A topic that passes messages on and keeps what it is asked to keep.
    fn default() -> TopicSpec {
        TopicSpec {
            value: ValueType::Any,
            series: false,
            retain: false,
            history: HistorySpec::default(),
            persistent: false,
            deltas: true,
            slow_consumer: SlowConsumer::DropOldest,
            grace: Span::ZERO,
            conflation: Conflation::default(),
            priority: Priority::Default,
            owner: None,
            schema: None,
            removal: None,
            presence: false,
        }
    }
}
