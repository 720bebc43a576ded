//! Why bytes are no frame.
//!
//! Relies on the table of close codes. The sentences go to the client: they name places in what it
//! sent and nothing of ours.

use tiderace_base::{Close, CloseCode};

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// There is no room for the stream, the type and the flags.
    #[error("a frame of {0} bytes is too short: its head alone takes 6")]
    NoHeader(usize),
    /// They end before or amid a field.
    #[error("a frame ends before its {0} is complete")]
    Cut(&'static str),
    /// The metadata is said to be longer than the frame.
    #[error("the metadata is said to have {declared} bytes, and only {there} follow")]
    MetadataLength {
        /// What was said.
        declared: usize,
        /// What is there.
        there: usize,
    },
    /// It is of a type that is not known and must not be ignored.
    #[error("frames of type {0:#04x} are not known here, and this one must not be ignored")]
    UnknownType(u8),
    /// A frame, or a first frame, is longer than what is taken.
    #[error("a frame of {declared} bytes is longer than the {max} that are taken here")]
    TooLong {
        /// What was said.
        declared: usize,
        /// What is taken.
        max: usize,
    },
}

impl From<FrameError> for Close {
    fn from(error: FrameError) -> Close {
        let code = match error {
            FrameError::TooLong { .. } => CloseCode::FrameTooLarge,
            _ => CloseCode::BadFrame,
        };
        Close::new(code, error.to_string())
    }
}
