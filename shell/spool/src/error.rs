//! Why a body is not taken.

/// Why a body is not taken.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SpoolError {
    /// All files together are as large as they may be.
    #[error("the space for large messages is used up")]
    Full,
    /// The files of this owner are as large as they may be.
    #[error("the large messages of this client take as much space as they may")]
    OwnerFull,
    /// As many bodies arrive as may at a time.
    #[error("too many large messages arrive at once")]
    TooManyUploads,
    /// As many of this owner.
    #[error("this client sends too many large messages at once")]
    OwnerHasTooMany,
    /// Its sender gave it up, or has said before that it was all.
    #[error("it was given up")]
    GivenUp,
    /// The disk refuses: it is full, or fails.
    #[error("the disk for large messages fails: {0}")]
    Disk(String),
}
