//! Positions: how far a client has come, so that it can go on from there after a break.
//!
//! Each home shard numbers its messages; a position holds the number of the last message received
//! from each home, and the epoch in which the numbers were given. It is all a client has to keep,
//! whatever it subscribes to. Text and bytes are the same varints, so clients treat it as opaque.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tiderace_base::limits::SHARDS_MAX;
use tiderace_base::{ShardId, VARINT_BYTES_MAX, read_varint, write_varint};

/// The last message received from each home shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Which life of the node the numbers are from.
    pub epoch: u64,
    /// By home, rising; homes from which nothing came are absent.
    seen: Vec<(ShardId, u64)>,
}

impl Position {
    /// The beginning of an epoch: nothing was received.
    pub fn new(epoch: u64) -> Position {
        Position { epoch, seen: Vec::new() }
    }

    /// The number of the last message from a home, zero if none came.
    pub fn of(&self, home: ShardId) -> u64 {
        self.seen
            .binary_search_by_key(&home, |(known, _)| *known)
            .ok()
            .and_then(|at| self.seen.get(at))
            .map_or(0, |(_, sequence)| *sequence)
    }

    /// Notes that a message was received; an older one than is known changes nothing.
    pub fn advance(&mut self, home: ShardId, sequence: u64) {
        match self.seen.binary_search_by_key(&home, |(known, _)| *known) {
            Ok(at) => {
                if let Some((_, known)) = self.seen.get_mut(at) {
                    *known = sequence.max(*known);
                }
            }
            Err(at) if self.seen.len() < SHARDS_MAX => self.seen.insert(at, (home, sequence)),
            Err(_) => {}
        }
    }

    /// The homes and numbers, rising by home.
    pub fn seen(&self) -> &[(ShardId, u64)] {
        &self.seen
    }

    /// Appends its bytes: epoch, count, then home and number of each, all LEB128.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, self.epoch);
        write_varint(out, self.seen.len() as u64);
        for (home, sequence) in &self.seen {
            write_varint(out, u64::from(home.0));
            write_varint(out, *sequence);
        }
    }

    /// Reads its bytes from the front; what is left follows.
    pub fn read(mut bytes: &[u8]) -> Option<(Position, &[u8])> {
        let mut position = Position::new(read_varint(&mut bytes)?);
        let count = read_varint(&mut bytes)?;
        if count > SHARDS_MAX as u64 {
            return None;
        }
        for _ in 0..count {
            let home = u16::try_from(read_varint(&mut bytes)?).ok()?;
            position.advance(ShardId(home), read_varint(&mut bytes)?);
        }
        Some((position, bytes))
    }

    /// As text of letters, digits, `-` and `_`.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The position in a text, if it is one.
    pub fn decode(text: &str) -> Option<Position> {
        if text.len() > POSITION_TEXT_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        match Position::read(&bytes)? {
            (position, []) => Some(position),
            _ => None,
        }
    }
}

/// Epoch, count, and two numbers for each of the most shards there can be, in base64.
const POSITION_TEXT_MAX: usize =
    (VARINT_BYTES_MAX + 1 + SHARDS_MAX * (3 + VARINT_BYTES_MAX)).div_ceil(3) * 4;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            epoch: u64,
            seen in proptest::collection::vec((0u16..70, any::<u64>()), 0..80),
        ) {
            let mut position = Position::new(epoch);
            let mut model = std::collections::BTreeMap::new();
            for (home, sequence) in seen {
                let full = model.len() == SHARDS_MAX && !model.contains_key(&home);
                position.advance(ShardId(home), sequence);
                if !full {
                    let known = model.entry(home).or_insert(0);
                    *known = sequence.max(*known);
                }
            }
            for (home, sequence) in &model {
                prop_assert_eq!(position.of(ShardId(*home)), *sequence);
            }
            prop_assert_eq!(position.of(ShardId(71)), 0);
            prop_assert_eq!(Position::decode(&position.encode()).unwrap(), position);
        }

        #[test]
        fn any_text_is_taken_or_refused(text in "[A-Za-z0-9_-]{0,80}") {
            let _ = Position::decode(&text);
        }
    }
}
