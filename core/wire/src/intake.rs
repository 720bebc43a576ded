//! How much a session takes in before others have their turn.
//!
//! Most input costs about as much as its bytes, and how many of them a turn reads is bounded. Some of it
//! costs far more: selectors with regular expressions, and messages of a transport that hold thousands of
//! small ones. A session that has had its share stops, says so in [`Context::stopped`] and goes on in the
//! next turn.
//!
//! [`Context::stopped`]: crate::Context::stopped

use tiderace_base::limits::{
    INTAKE_COMPILED_BYTES_MAX, INTAKE_MESSAGES_MAX, WHOLE_COMPILED_BYTES_MAX,
};
use tiderace_base::{Close, CloseCode};
use tiderace_topics::compiled_bytes;

/// What was taken in since it began.
#[derive(Clone, Copy, Debug)]
pub struct Intake {
    compiled_before: u64,
    messages: usize,
}

impl Intake {
    /// Nothing yet.
    pub fn begin() -> Intake {
        Intake { compiled_before: compiled_bytes(), messages: 0 }
    }

    /// Counts a message inside of another one.
    pub fn note_message(&mut self) {
        self.note_messages(1);
    }

    /// Counts so many of them.
    pub fn note_messages(&mut self, count: usize) {
        self.messages += count;
    }

    /// Whether the rest should wait for the next turn.
    pub fn is_full(&self) -> bool {
        self.messages >= INTAKE_MESSAGES_MAX || self.compiled() > INTAKE_COMPILED_BYTES_MAX
    }

    fn compiled(&self) -> u64 {
        compiled_bytes() - self.compiled_before
    }

    /// Of what cannot stop in its midst and came together, as `what` says: whether it goes on.
    ///
    /// # Errors
    /// When it has taken more than it may.
    pub fn check_whole(&self, what: &str) -> Result<(), Close> {
        if self.compiled() <= WHOLE_COMPILED_BYTES_MAX {
            return Ok(());
        }
        let reason = format!("{what} has too many large regular expressions; send them one by one");
        Err(Close::new(CloseCode::TooMuchWork, reason))
    }
}
