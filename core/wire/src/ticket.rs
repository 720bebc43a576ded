//! Tickets: how a client that comes back names its session.
//!
//! Invariant: a client that does not hold the ticket cannot guess it; 128 bits come from the operating
//! system's generator and all are compared.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tiderace_base::{Key, ShardId};

/// Where a session lives, and the secret that proves the right to speak for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// The shard that owns the session.
    pub shard: ShardId,
    /// Its place there.
    pub key: Key,
    /// Known to the client alone.
    pub secret: u128,
}

impl Ticket {
    /// As text of letters, digits, `-` and `_`.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::with_capacity(TICKET_BYTES);
        bytes.extend_from_slice(&self.shard.0.to_be_bytes());
        bytes.extend_from_slice(&self.key.slot.to_be_bytes());
        bytes.extend_from_slice(&self.key.generation.to_be_bytes());
        bytes.extend_from_slice(&self.secret.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The ticket in a text, if it is one.
    pub fn decode(text: &str) -> Option<Ticket> {
        if text.len() > TICKET_BYTES * 2 {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (shard, rest) = bytes.split_first_chunk::<2>()?;
        let (slot, rest) = rest.split_first_chunk::<4>()?;
        let (generation, rest) = rest.split_first_chunk::<4>()?;
        let secret = <[u8; 16]>::try_from(rest).ok()?;
        Some(Ticket {
            shard: ShardId(u16::from_be_bytes(*shard)),
            key: Key {
                slot: u32::from_be_bytes(*slot),
                generation: u32::from_be_bytes(*generation),
            },
            secret: u128::from_be_bytes(secret),
        })
    }
}

const TICKET_BYTES: usize = 2 + 4 + 4 + 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(shard: u16, slot: u32, generation: u32, secret: u128) {
            let ticket = Ticket { shard: ShardId(shard), key: Key { slot, generation }, secret };
            prop_assert_eq!(Ticket::decode(&ticket.encode()), Some(ticket));
        }

        #[test]
        fn other_text_is_no_ticket(text in "[A-Za-z0-9_=-]{0,60}") {
            if let Some(ticket) = Ticket::decode(&text) {
                prop_assert_eq!(ticket.encode(), text);
            }
        }
    }
}
