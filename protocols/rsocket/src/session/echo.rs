//! The state of a stream of the responder for load tests: the payload that comes back.
//!
//! Invariant: an idle stream keeps its payload in one allocation, none if it is empty, and nothing else.

use crate::frame::Payload;

/// A stream whose payload comes back.
#[derive(Debug)]
pub(super) struct Echo {
    /// How many items are wanted.
    pub(super) demand: u64,
    /// Metadata behind its length, if there is any, then data.
    bytes: Box<[u8]>,
    /// Whether there is.
    has_metadata: bool,
}

impl Echo {
    pub(super) fn new(demand: u32, payload: Payload<'_>) -> Echo {
        let bytes = match payload.metadata {
            None => Box::from(payload.data),
            Some(metadata) => {
                let length = (metadata.len() as u32).to_be_bytes();
                [&length, metadata, payload.data].concat().into_boxed_slice()
            }
        };
        Echo { demand: u64::from(demand), bytes, has_metadata: payload.metadata.is_some() }
    }

    pub(super) fn payload(&self) -> Payload<'_> {
        let whole = Payload::data(&self.bytes);
        if !self.has_metadata {
            return whole;
        }
        let Some((length, rest)) = self.bytes.split_first_chunk::<4>() else { return whole };
        let parts = rest.split_at_checked(u32::from_be_bytes(*length) as usize);
        parts.map_or(whole, |(metadata, data)| Payload::new(metadata, data))
    }

    /// Bytes kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn payloads_are_kept_as_they_came() {
        for payload in [
            Payload::data(b""),
            Payload::data(b"abc"),
            Payload::new(b"", b""),
            Payload::new(b"m", b""),
            Payload::new(b"meta", b"data"),
        ] {
            let echo = Echo::new(3, payload);
            assert_eq!(echo.payload(), payload);
            assert_eq!(echo.bytes(), payload.len() + payload.metadata.map_or(0, |_| 4));
        }
    }
}
