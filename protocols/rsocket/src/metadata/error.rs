//! Why bytes are no metadata.
//!
//! The sentences go to the client: they name places in what it sent.

/// Why bytes are no metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// They end amid this.
    #[error("the metadata ends amid {0}")]
    Cut(&'static str),
    /// A text is not UTF-8.
    #[error("{0} is not valid UTF-8")]
    BadText(&'static str),
    /// A MIME type is not ASCII.
    #[error("a MIME type is not ASCII text")]
    BadMime,
    /// Something that is said once is there twice.
    #[error("the metadata has {0} twice")]
    Twice(&'static str),
}
