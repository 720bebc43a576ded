//! Positions: how far a client has come, so that it can go on from there after a break.
//!
//! Each home shard numbers its messages; a position holds the number of the last message received
//! of each [`Numbering`], and the epoch in which it was begun. It is all a client has to keep,
//! whatever it subscribes to. Text and bytes are the same varints, so clients treat it as opaque.
//! Numberings of the position's own epoch are written by their homes alone; a numbering of another
//! node or of another life is written as a whole.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tiderace_base::{ShardId, VARINT_BYTES_MAX, read_varint, write_varint};

use crate::Numbering;

/// The last message received of each numbering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The life of the node in which the position was begun.
    pub epoch: u64,
    /// Rising by numbering; those of which nothing came are absent.
    seen: Vec<(Numbering, u64)>,
}

impl Position {
    /// The beginning of an epoch: nothing was received.
    pub fn new(epoch: u64) -> Position {
        Position { epoch, seen: Vec::new() }
    }

    /// The number of the last message from a home in the position's own epoch, zero if none came.
    pub fn of(&self, home: ShardId) -> u64 {
        self.number(Numbering::new(self.epoch, home)).unwrap_or(0)
    }

    /// The number of the last message of a numbering, if one came.
    pub fn number(&self, numbering: Numbering) -> Option<u64> {
        let at = self.seen.binary_search_by_key(&numbering, |(known, _)| *known).ok()?;
        self.seen.get(at).map(|(_, number)| *number)
    }

    /// The number of the last message from a home in the life of an epoch; zero if none came in the life
    /// in which the position was begun, and `None` if it tells nothing of that life and home.
    pub fn last_of(&self, epoch: u64, home: ShardId) -> Option<u64> {
        let begun = (epoch == self.epoch).then_some(0);
        self.number(Numbering::new(epoch, home)).or(begun)
    }

    /// Whether it tells anything of the life of an epoch.
    pub fn tells_of(&self, epoch: u64) -> bool {
        // Asked for many epochs: the numberings of one stand side by side.
        let first = Numbering::new(epoch, ShardId(0));
        let at = self.seen.partition_point(|(numbering, _)| *numbering < first);
        let is_there = self.seen.get(at).is_some_and(|(numbering, _)| numbering.is_of(epoch));
        epoch == self.epoch || is_there
    }

    /// Notes that a message was received from a home in the position's own epoch; an older one than is
    /// known changes nothing.
    pub fn advance(&mut self, home: ShardId, number: u64) {
        self.advance_to(Numbering::new(self.epoch, home), number);
    }

    /// The same of any numbering.
    pub fn advance_to(&mut self, numbering: Numbering, number: u64) {
        match self.seen.binary_search_by_key(&numbering, |(known, _)| *known) {
            Ok(at) => {
                if let Some((_, known)) = self.seen.get_mut(at) {
                    *known = number.max(*known);
                }
            }
            Err(at) if self.seen.len() < NUMBERINGS_MAX => {
                self.seen.insert(at, (numbering, number));
            }
            Err(_) => {}
        }
    }

    /// The numberings and their last numbers, rising by numbering.
    pub fn seen(&self) -> &[(Numbering, u64)] {
        &self.seen
    }

    /// Appends its bytes: epoch, count, then numbering and number of each, all LEB128.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, self.epoch);
        write_varint(out, self.seen.len() as u64);
        for (numbering, number) in &self.seen {
            write_varint(out, numbering.beside(self.epoch));
            write_varint(out, *number);
        }
    }

    /// Reads its bytes from the front; what is left follows.
    pub fn read(mut bytes: &[u8]) -> Option<(Position, &[u8])> {
        let mut position = Position::new(read_varint(&mut bytes)?);
        let count = read_varint(&mut bytes)?;
        if count > NUMBERINGS_MAX as u64 {
            return None;
        }
        for _ in 0..count {
            let numbering = Numbering::read(position.epoch, read_varint(&mut bytes)?)?;
            position.advance_to(numbering, read_varint(&mut bytes)?);
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

/// Numberings in one position: the shards of a few nodes, or of a few lives of one.
const NUMBERINGS_MAX: usize = 256;
/// Epoch, count, and a numbering and a number for each, in base64.
const POSITION_TEXT_MAX: usize =
    (VARINT_BYTES_MAX + 2 + NUMBERINGS_MAX * (8 + VARINT_BYTES_MAX)).div_ceil(3) * 4;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn homes_of_its_own_epoch_are_written_as_ever() {
        let mut position = Position::new(300);
        position.advance(ShardId(0), 9);
        position.advance(ShardId(63), 5);
        let mut bytes = Vec::new();
        position.write(&mut bytes);
        assert_eq!(bytes, [0xac, 0x02, 2, 0, 9, 63, 5]);
        assert_eq!(Position::read(&bytes), Some((position, &[][..])));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            epoch: u64,
            others in proptest::collection::vec(any::<u64>(), 0..6),
            seen in proptest::collection::vec((0usize..8, 0u16..64, any::<u64>()), 0..300),
        ) {
            let mut position = Position::new(epoch);
            let mut model = std::collections::BTreeMap::new();
            for (life, home, number) in seen {
                let life = others.get(life).copied().unwrap_or(epoch);
                let numbering = Numbering::new(life, ShardId(home));
                let full = model.len() == NUMBERINGS_MAX && !model.contains_key(&numbering);
                position.advance_to(numbering, number);
                if !full {
                    let known = model.entry(numbering).or_insert(0);
                    *known = number.max(*known);
                }
            }
            for (numbering, number) in &model {
                prop_assert_eq!(position.number(*numbering), Some(*number));
                if numbering.is_of(epoch) {
                    prop_assert_eq!(position.of(numbering.home()), *number);
                }
            }
            prop_assert_eq!(position.seen().len(), model.len());
            for life in others.iter().copied().chain([epoch, 0, u64::MAX]) {
                let known = model.keys().any(|numbering| numbering.is_of(life));
                prop_assert_eq!(position.tells_of(life), life == epoch || known);
            }
            prop_assert_eq!(Position::decode(&position.encode()).unwrap(), position);
        }

        #[test]
        fn any_text_is_taken_or_refused(text in "[A-Za-z0-9_-]{0,80}") {
            let _ = Position::decode(&text);
        }
    }
}
