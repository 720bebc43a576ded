//! Other names for the destination of a run.
//!
//! Relies on buffers that are shared. Invariant: messages and numbers stay as they are.

use bytes::Bytes;
use tiderace_topics::Path;

use super::{Buffer, Run};
use crate::Destination;

impl Run {
    /// Sends it to the destination of the same kind that has another path; done before it is numbered.
    pub fn set_path(&mut self, path: Path) {
        self.destination.path = path;
    }

    /// The same messages with the same numbers under another name of their destination, sharing their bytes, which are
    /// these.
    pub(crate) fn renamed(&self, path: Path, data: Bytes) -> Run {
        let destination = Destination { kind: self.destination.kind, path };
        let (entries, rare, data) = (self.entries.clone(), self.rare.clone(), Buffer::of(data));
        let Run { origin, first, version, published, .. } = *self;
        Run { destination, origin, first, version, published, data, entries, rare }
    }
}
