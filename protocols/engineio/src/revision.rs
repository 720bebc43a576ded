//! The revisions of Engine.IO.

use crate::options::EngineOptions;

/// A revision of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// `EIO=3`: the client pings.
    Three,
    /// `EIO=4`: the server pings.
    Four,
}

impl Revision {
    /// The revision a query asks for, if it is one that is spoken here.
    pub(crate) fn of(value: Option<&str>, options: &EngineOptions) -> Option<Revision> {
        match value? {
            "4" => Some(Revision::Four),
            "3" if options.revision_3 => Some(Revision::Three),
            _ => None,
        }
    }
}
