//! Differences between the messages of a run, made once per codec and shared by all sessions of the
//! shard, whatever their protocol.
//!
//! Relies on the run knowing what came before it, and on sessions to know what their client was sent.
//! Invariant: a difference is to the body of the version just before, and smaller than its own.

use bytes::Bytes;

use crate::{EncodingKey, SharedRun};

/// Makes a difference of two values: appends it, or says `false` if it would be no shorter than the
/// limit.
pub type EncodeDelta = fn(old: &[u8], new: &[u8], out: &mut Vec<u8>, limit: usize) -> bool;

/// The differences of one run that a receiver can use.
#[derive(Debug, Default)]
pub struct Deltas {
    /// Where the difference of each message begins and the last one ends, in four bytes each; then
    /// the differences, empty where there is none.
    block: Bytes,
    /// The first message whose difference may be used.
    from: usize,
}

impl Deltas {
    /// The difference of the message at that place of the run, if it is to be sent by one.
    #[inline]
    pub fn of(&self, index: usize) -> Option<&[u8]> {
        if self.block.is_empty() || index < self.from {
            return None;
        }
        let place = |index: usize| {
            let bytes = self.block.get(index * PLACE_BYTES..)?.first_chunk::<PLACE_BYTES>()?;
            Some(u32::from_le_bytes(*bytes) as usize)
        };
        self.block.get(place(index)?..place(index + 1)?).filter(|delta| !delta.is_empty())
    }
}

impl SharedRun {
    /// The differences of a codec, made now if it is asked for the first time, from that message on;
    /// none of bodies with more than `bytes_max`.
    pub fn deltas(&self, codec: u8, encode: EncodeDelta, bytes_max: usize, from: usize) -> Deltas {
        let key = EncodingKey { form: EncodingKey::form(LETTER, codec, 0), variant: b"" };
        let block = self.encoded(key, |out| write(self, encode, bytes_max, out));
        Deltas { block: block.unwrap_or_default(), from }
    }
}

/// Writes the block of a run's differences.
fn write(run: &SharedRun, encode: EncodeDelta, bytes_max: usize, out: &mut Vec<u8>) {
    out.resize((run.run().len() + 1) * PLACE_BYTES, 0);
    let mut before = run.previous();
    for (index, message) in run.run().messages().enumerate() {
        note_place(index, out);
        if let Some(before) = before
            && (BYTES_MIN..=bytes_max).contains(&message.body.len())
            && before.body.len() <= bytes_max
        {
            encode(before.body, message.body, out, message.body.len());
        }
        before = Some(message);
    }
    note_place(run.run().len(), out);
}

fn note_place(index: usize, out: &mut [u8]) {
    let place = (out.len() as u32).to_le_bytes();
    if let Some(slot) = out.get_mut(index * PLACE_BYTES..(index + 1) * PLACE_BYTES) {
        slot.copy_from_slice(&place);
    }
}

/// The letter of differences among wire forms.
const LETTER: u8 = b'D';
/// Bodies below this are not worth a difference.
const BYTES_MIN: usize = 16;
const PLACE_BYTES: usize = 4;
