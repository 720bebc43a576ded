//! A request that may begin, as the duties are given it.

use tiderace_base::Now;

use crate::frame::Request;

/// A request that may begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin<'a> {
    /// Its stream.
    pub(super) stream: u32,
    /// What came, whole.
    pub(super) request: &'a Request<'a>,
    /// When.
    pub(super) now: Now,
}
