//! The message being reassembled from fragments (RFC 6455 section 5.4).
//!
//! Relies on the decoder to present fragments in order, unmasked. Invariants: the buffer never
//! exceeds `message_bytes_max`, and the text before `utf8_valid_len` is valid UTF-8.

use crate::close::CloseError;
use crate::frame::MessageKind;
use crate::limits::Limits;

/// State that exists only between the first and the last fragment of one message.
#[derive(Debug)]
pub(crate) struct Assembly {
    payload: Vec<u8>,
    utf8_valid_len: usize,
    fragments: u32,
    empty_run: u32,
    kind: MessageKind,
}

impl Assembly {
    pub(crate) fn new(kind: MessageKind) -> Self {
        Self { payload: Vec::new(), utf8_valid_len: 0, fragments: 0, empty_run: 0, kind }
    }

    /// Bytes collected so far.
    pub(crate) fn len(&self) -> usize {
        self.payload.len()
    }

    /// Bytes of heap held by the buffer; growth by doubling keeps it below twice the length.
    pub(crate) fn capacity(&self) -> usize {
        self.payload.capacity()
    }

    /// Adds one fragment and checks what can be checked already.
    ///
    /// The caller has verified that the sum stays within `message_bytes_max`.
    pub(crate) fn push(&mut self, limits: &Limits, fragment: &[u8]) -> Result<(), CloseError> {
        self.fragments += 1;
        if self.fragments > limits.fragments_max {
            return Err(CloseError::FragmentsTooMany);
        }
        if fragment.is_empty() {
            self.empty_run += 1;
            if self.empty_run > limits.empty_fragments_max {
                return Err(CloseError::EmptyFragmentFlood);
            }
            return Ok(());
        }
        self.empty_run = 0;
        self.payload.extend_from_slice(fragment);
        if self.kind == MessageKind::Text { self.check_utf8() } else { Ok(()) }
    }

    /// The whole message; a character cut off at its end is an error only now.
    pub(crate) fn finish(self) -> Result<(MessageKind, Vec<u8>), CloseError> {
        if self.kind == MessageKind::Text && self.utf8_valid_len != self.payload.len() {
            return Err(CloseError::TextNotUtf8);
        }
        Ok((self.kind, self.payload))
    }

    /// Validates what is new; at most three bytes of an unfinished character stay unjudged, so
    /// the work over a whole message is linear.
    fn check_utf8(&mut self) -> Result<(), CloseError> {
        let unchecked = self.payload.get(self.utf8_valid_len..).unwrap_or_default();
        match simdutf8::compat::from_utf8(unchecked) {
            Ok(_) => self.utf8_valid_len = self.payload.len(),
            Err(error) if error.error_len().is_none() => self.utf8_valid_len += error.valid_up_to(),
            Err(_) => return Err(CloseError::TextNotUtf8),
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_character_may_straddle_fragments_but_not_the_end() {
        let limits = Limits::default();
        let mut whole = Assembly::new(MessageKind::Text);
        for byte in "aµ€𐍈".bytes() {
            whole.push(&limits, &[byte]).unwrap();
        }
        assert_eq!(whole.finish(), Ok((MessageKind::Text, "aµ€𐍈".into())));

        let mut cut = Assembly::new(MessageKind::Text);
        cut.push(&limits, &[0xE2, 0x82]).unwrap();
        assert_eq!(cut.finish(), Err(CloseError::TextNotUtf8));
    }

    #[test]
    fn an_impossible_byte_fails_with_its_fragment() {
        let limits = Limits::default();
        let mut assembly = Assembly::new(MessageKind::Text);
        assembly.push(&limits, &[0xF4]).unwrap();
        assert_eq!(assembly.push(&limits, &[0x90]), Err(CloseError::TextNotUtf8));
    }

    #[test]
    fn binary_is_not_judged_as_text() {
        let mut assembly = Assembly::new(MessageKind::Binary);
        assembly.push(&Limits::default(), &[0xFF]).unwrap();
        assert_eq!(assembly.finish(), Ok((MessageKind::Binary, vec![0xFF])));
    }
}
