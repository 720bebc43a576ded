//! Who makes a queue.
//!
//! Relies on nothing.

use std::sync::Arc;

/// The name of who makes a queue by what it does, and owns it then; absent: nobody does.
pub(crate) type Maker<'a> = Option<&'a Arc<str>>;
