//! Who publishes to a topic, who gets it, and what came of it.

use std::sync::Arc;

use tiderace_base::SessionId;
use tiderace_wire::{Confirm, Run};

use crate::durables::Fed;
use crate::places::Place;
use crate::temporary::TemporaryOwner;

/// What has come of a publication.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// The version of the last message.
    pub(crate) version: u64,
    /// The record that its confirmation waits for; zero for none.
    pub(crate) record: u64,
    /// The places for which it waits, too, if it is to be kept there.
    pub(crate) fed: Option<Box<Fed>>,
}

/// Who publishes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Publisher<'a> {
    /// The session, if it was one.
    pub(crate) session: Option<SessionId>,
    /// Its name.
    pub(crate) name: Option<&'a Arc<str>>,
    /// The event of a time series that the run replaces.
    pub(crate) amends: Option<u64>,
    /// Of the queue that its topic feeds, if that is mirrored.
    pub(crate) room: Room,
}

/// A run on its way to be numbered.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) from: Place,
    pub(crate) run: Run,
    /// The session, if it was one.
    pub(crate) origin: Option<SessionId>,
    /// Its name.
    pub(crate) author: Option<Arc<str>>,
    pub(crate) confirm: Option<Confirm>,
}

/// Whether the queue that gets a publication is known to have room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Room {
    /// It has to be asked.
    #[default]
    Unknown,
    /// A transaction has asked for all that it publishes.
    Known,
}

/// What is known of a publication before it is passed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Whose temporary destination it goes to, if it does.
    pub(crate) owner: TemporaryOwner,
    /// The first values, so many, fit the schema of their topic.
    pub(crate) checked: usize,
    pub(crate) room: Room,
}

/// What a home is told of the sessions of its shard with a publication, since it does not see them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipients {
    /// Whose temporary destination it goes to, if it does.
    pub(crate) owner: TemporaryOwner,
    /// Whether so many get it that it may have to wait.
    pub(crate) many: bool,
}

impl Recipients {
    /// Of what is no publication.
    pub(crate) const NONE: Recipients =
        Recipients { owner: TemporaryOwner::NotTemporary, many: false };
}

/// Whether the values of a run are known to be such as their topic takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Checked,
    Unchecked,
}
