//! A message that is passed on as it comes, for protocols to which the borders of messages mean nothing.
//!
//! Relies on the decoder for the order of frames. Invariants: text is checked however it is cut into pieces; a byte is
//! unmasked once.

use crate::close::CloseError;
use crate::frame::{FrameHeader, MessageKind};
use crate::limits::Limits;
use crate::mask::mask;

/// Frames with less payload are passed on when they are whole.
pub(crate) const PART_BYTES_MIN: usize = 16 << 10;

/// A message of which a part was passed on.
#[derive(Debug)]
pub(crate) struct OpenMessage {
    text: Option<Utf8>,
    /// Bytes of payload, those of the present frame included.
    total: usize,
    /// Bytes of the present frame that are yet to come.
    left: usize,
    key: Option<[u8; 4]>,
    is_last: bool,
    empty_run: u32,
}

impl OpenMessage {
    pub(crate) fn new(kind: MessageKind) -> OpenMessage {
        let text = (kind == MessageKind::Text).then(Utf8::default);
        OpenMessage { text, total: 0, left: 0, key: None, is_last: false, empty_run: 0 }
    }

    /// Bytes of payload that have come or were announced.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Bytes of the present frame that are yet to come.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Whether more of the present frame has to come.
    pub(crate) fn is_amid_frame(&self) -> bool {
        self.left > 0
    }

    /// Whether all of it has come.
    pub(crate) fn is_over(&self) -> bool {
        self.is_last && self.left == 0
    }

    /// The next frame of it begins, with so many bytes of payload.
    pub(crate) fn begin_frame(
        &mut self,
        limits: &Limits,
        header: &FrameHeader,
        payload_len: usize,
    ) -> Result<(), CloseError> {
        (self.left, self.key, self.is_last) = (payload_len, header.mask, header.fin);
        self.total += payload_len;
        if payload_len > 0 {
            self.empty_run = 0;
            return Ok(());
        }
        self.empty_run += 1;
        if self.empty_run > limits.empty_fragments_max {
            return Err(CloseError::EmptyFragmentFlood);
        }
        self.check_end()
    }

    /// Unmasks the next payload bytes, no more than are left of the frame.
    pub(crate) fn take(&mut self, payload: &mut [u8]) -> Result<(), CloseError> {
        if let Some(key) = &mut self.key {
            mask(payload, *key);
            // The next byte is masked by the one behind the last that was used.
            key.rotate_left(payload.len() % 4);
        }
        self.left -= payload.len();
        if let Some(text) = &mut self.text {
            text.push(payload)?;
        }
        self.check_end()
    }

    fn check_end(&self) -> Result<(), CloseError> {
        match &self.text {
            Some(text) if self.is_over() && !text.is_whole() => Err(CloseError::TextNotUtf8),
            _ => Ok(()),
        }
    }
}

/// Checks text that comes in pieces.
#[derive(Debug, Default)]
struct Utf8 {
    /// The beginning of a character.
    begun: [u8; 4],
    len: usize,
}

impl Utf8 {
    fn is_whole(&self) -> bool {
        self.len == 0
    }

    fn push(&mut self, mut bytes: &[u8]) -> Result<(), CloseError> {
        while self.len > 0 {
            let Some((first, rest)) = bytes.split_first() else { return Ok(()) };
            let Some(slot) = self.begun.get_mut(self.len) else {
                return Err(CloseError::TextNotUtf8);
            };
            *slot = *first;
            self.len += 1;
            bytes = rest;
            match std::str::from_utf8(self.begun.get(..self.len).unwrap_or_default()) {
                Ok(_) => self.len = 0,
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(CloseError::TextNotUtf8),
            }
        }
        match simdutf8::compat::from_utf8(bytes) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_none() => {
                let begun = bytes.get(error.valid_up_to()..).unwrap_or_default();
                self.len = begun.len();
                if let Some(slots) = self.begun.get_mut(..begun.len()) {
                    slots.copy_from_slice(begun);
                }
                Ok(())
            }
            Err(_) => Err(CloseError::TextNotUtf8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_is_judged_the_same_however_it_is_cut(
            text in prop_oneof![
                ".{0,40}".prop_map(String::into_bytes),
                proptest::collection::vec(any::<u8>(), 0..6),
                "[aµ€𐍈]{0,6}".prop_map(|text| [text.as_bytes(), &[0xE2, 0x82]].concat()),
            ],
            cuts in proptest::collection::vec(0usize..5, 1..40),
        ) {
            let mut check = Utf8::default();
            let (mut rest, mut is_valid) = (&text[..], true);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                is_valid &= check.push(now).is_ok();
                rest = later;
            }
            prop_assert_eq!(is_valid && check.is_whole(), std::str::from_utf8(&text).is_ok());
        }
    }
}
