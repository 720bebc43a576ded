//! The buffer of a run: its own, or one that it shares with runs of other queues.
//!
//! Relies on nothing. Invariant: a buffer that is shared counts once in the memory budget, for as long as a run has it.

use std::ops::Deref;
use std::sync::Arc;

use tiderace_base::SharedCharge;

use super::{Entries, Run};
use crate::Destination;
use crate::run_origin::Origin;

/// Where the messages of a run lie.
#[derive(Clone)]
pub(super) enum Buffer {
    Own(Box<[u8]>),
    Shared(Arc<SharedBytes>),
}

// As small as one that is never shared: every retained value has one.
const _: () = assert!(size_of::<Buffer>() == size_of::<Box<[u8]>>());

/// Messages that several queues have.
#[derive(Debug)]
pub struct SharedBytes {
    bytes: Box<[u8]>,
    /// What they take of the memory budget.
    _charge: SharedCharge,
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Buffer::Own(bytes) => bytes,
            Buffer::Shared(shared) => &shared.bytes,
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl Run {
    /// Makes its buffer one that others may have as well: see [`Run::shared_with`]. It counts by itself from then on;
    /// `charge` is given its bytes. What lies in a file is shared already.
    pub fn share(&mut self, charge: impl FnOnce(usize) -> SharedCharge) {
        if let Buffer::Own(bytes) = &mut self.data {
            let bytes = std::mem::take(bytes);
            let _charge = charge(bytes.len());
            self.data = Buffer::Shared(Arc::new(SharedBytes { bytes, _charge }));
        }
    }

    /// The same messages for another destination, not yet numbered.
    pub fn shared_with(&self, destination: Destination) -> Run {
        let Run { published, data, entries, file, .. } = self.clone();
        let (origin, first, version) = (Origin::default(), 0, 0);
        Run { destination, origin, first, version, published, data, entries, file }
    }

    /// The buffer that it shares with others, if it does.
    #[inline]
    pub fn shared(&self) -> Option<&Arc<SharedBytes>> {
        match &self.data {
            Buffer::Own(_) => None,
            Buffer::Shared(shared) => Some(shared),
        }
    }

    /// Bytes that it keeps in memory beside a buffer that it shares.
    pub fn bytes_beside(&self) -> usize {
        let entries = match &self.entries {
            Entries::One { .. } => 0,
            Entries::Many(entries) => size_of_val(&**entries),
        };
        entries + size_of::<Run>()
    }
}
