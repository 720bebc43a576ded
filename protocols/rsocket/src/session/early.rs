//! Frames that came before the login was decided.
//!
//! Invariant: they have at most [`EARLY_BYTES_MAX`] bytes, the lengths between them included.

use tiderace_base::limits::EARLY_BYTES_MAX;
use tiderace_base::{Close, CloseCode};

/// Frames that wait for the login, each behind its length.
#[derive(Debug, Default)]
pub(super) struct EarlyFrames(Vec<u8>);

impl EarlyFrames {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps a frame.
    ///
    /// # Errors
    /// When too many bytes would wait.
    pub(super) fn push(&mut self, frame: &[u8]) -> Result<(), Close> {
        if self.0.len() + frame.len() + LENGTH_BYTES > EARLY_BYTES_MAX {
            let reason = format!(
                "more than {EARLY_BYTES_MAX} bytes came before the login was done; wait for an answer"
            );
            return Err(Close::new(CloseCode::FrameTooLarge, reason));
        }
        self.0.extend_from_slice(&(frame.len() as u32).to_be_bytes());
        self.0.extend_from_slice(frame);
        Ok(())
    }

    /// All of them, in the order in which they came.
    pub(super) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            let (len, behind) = rest.split_first_chunk::<LENGTH_BYTES>()?;
            let (frame, behind) = behind.split_at_checked(u32::from_be_bytes(*len) as usize)?;
            rest = behind;
            Some(frame)
        })
    }
}

/// Bytes of the length before a frame.
const LENGTH_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_within_the_limit() {
        let mut early = EarlyFrames::default();
        let frames: [&[u8]; 4] = [b"one", b"", b"three", &[7; 300]];
        for frame in frames {
            assert_eq!(early.push(frame), Ok(()));
        }
        assert!(early.frames().eq(frames));
        let left = EARLY_BYTES_MAX - early.0.len() - LENGTH_BYTES;
        assert!(early.push(&vec![0; left + 1]).is_err());
        assert_eq!(early.push(&vec![0; left]), Ok(()));
        assert_eq!((early.frames().count(), early.0.len()), (5, EARLY_BYTES_MAX));
    }
}
