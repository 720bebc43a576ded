//! Deltas of a delivery's updates, made once per run and shared by all sessions of the shard.
//!
//! Relies on the run knowing what came before it, and on the session to know what this client was
//! sent. Invariant: a delta is to the body that the client got last for that topic.

use bytes::Bytes;
use tiderace_wire::{Delivery, EncodingKey, SharedRun};

use super::NativeSession;

/// The deltas of one run that its receiver can use.
#[derive(Debug, Default)]
pub(super) struct Deltas {
    /// Where the delta of each message begins and the last one ends, in four bytes each; then the
    /// deltas, empty where there is none.
    block: Bytes,
    /// The first message whose delta may be used.
    from: usize,
}

impl Deltas {
    /// The delta of the message at that place of the run.
    #[inline]
    pub(super) fn of(&self, index: usize) -> Option<&[u8]> {
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

impl NativeSession {
    /// What may be sent as deltas; `is_next` if the client was sent what precedes the delivery.
    pub(super) fn deltas(&self, delivery: &Delivery<'_>, is_next: bool) -> Deltas {
        let run = delivery.run;
        let from = if is_next { delivery.from } else { delivery.from + 1 };
        if from >= delivery.to {
            return Deltas::default();
        }
        let most = self.options.delta_bytes_max;
        let key = EncodingKey { form: EncodingKey::form(b'N', 1, 0), variant: b"" };
        let block = run.encoded(key, |out| encode(run, most, out)).unwrap_or_default();
        Deltas { block, from }
    }

    /// Notes the version after the last one that is sent to a subscription; what was noted before.
    pub(super) fn replace_version(&mut self, key: u32, next: u64) -> u64 {
        let versions = &mut self.rare().versions;
        let place = key as usize;
        if versions.len() <= place {
            versions.resize(place + 1, 0);
        }
        versions.get_mut(place).map_or(0, |known| std::mem::replace(known, next))
    }
}

/// Writes the block of a run's deltas.
fn encode(run: &SharedRun, most: usize, out: &mut Vec<u8>) {
    out.resize((run.run().len() + 1) * PLACE_BYTES, 0);
    let mut before = run.previous();
    for (index, message) in run.run().messages().enumerate() {
        note_place(index, out);
        if let Some(before) = before
            && (DELTA_BYTES_MIN..=most).contains(&message.body.len())
            && before.body.len() <= most
        {
            tiderace_delta::runs::encode(before.body, message.body, out, message.body.len());
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

/// Bodies below this are not worth a delta.
const DELTA_BYTES_MIN: usize = 16;
const PLACE_BYTES: usize = 4;
