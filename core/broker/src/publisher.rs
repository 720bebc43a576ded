//! Who publishes to a topic, who gets it, and what came of it.

use std::sync::Arc;

use tiderace_base::SessionId;

use crate::durables::Fed;
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
