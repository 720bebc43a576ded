//! What requests say beside their data: the extensions of the specification for metadata.
//!
//! Everything is borrowed from the frame and read as it is asked for. Relies on slices alone.
//! Invariants: reading never panics and never allocates; entries that are not known are skipped, and
//! their order is kept.

mod authentication;
mod composite;
mod described;
mod error;
mod mime;
mod routing;
mod tracing;

pub use authentication::Authentication;
pub use composite::{Entries, Entry, write_entry};
pub use described::Described;
pub use error::MetadataError;
pub use mime::{Mime, MimeTypes, WELL_KNOWN};
pub use routing::{Tags, write_tag};
pub use tracing::{Ids, Sampling, Tracing};
