//! What is known of an operation that several homes have a part in, until all of them have answered.

use tiderace_base::Close;
use tiderace_wire::Page;

use crate::places::PlaceSet;

/// Answers of several homes that are awaited.
#[derive(Debug)]
pub(crate) struct ScatterGather {
    /// The homes that have not answered.
    pub(crate) waiting: PlaceSet,
    pub(crate) limit: usize,
    pub(crate) depth: u32,
    pub(crate) pages: Vec<Page>,
    pub(crate) removed: u64,
    pub(crate) refused: Option<Close>,
}
