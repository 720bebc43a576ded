//! The buffer of a run: its own, or one that it shares with runs of other queues.
//!
//! Relies on nothing. Invariant: a buffer that is shared counts once in the memory budget, for as long as a run has it.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use tiderace_base::SharedCharge;

/// Where the messages of a run lie.
#[derive(Clone)]
pub(super) enum Buffer {
    Own(Box<[u8]>),
    Shared(Arc<SharedBytes>),
}

// As small as one that is never shared: every retained value has one.
const _: () = assert!(size_of::<Buffer>() == size_of::<Box<[u8]>>());

/// Messages that several queues have, or several names of one destination.
#[derive(Debug)]
pub struct SharedBytes {
    bytes: Bytes,
    /// What they take of the memory budget, if nobody else counts them.
    _charge: Option<SharedCharge>,
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

impl Buffer {
    /// Makes it one that others may have as well; `charge` is given its bytes.
    pub(super) fn share(&mut self, charge: impl FnOnce(usize) -> SharedCharge) {
        if let Buffer::Own(bytes) = self {
            let bytes = std::mem::take(bytes);
            let _charge = Some(charge(bytes.len()));
            *self = Buffer::Shared(Arc::new(SharedBytes { bytes: bytes.into(), _charge }));
        }
    }

    /// One with bytes that somebody else counts.
    pub(super) fn of(bytes: Bytes) -> Buffer {
        Buffer::Shared(Arc::new(SharedBytes { bytes, _charge: None }))
    }

    #[inline]
    pub(super) fn shared(&self) -> Option<&Arc<SharedBytes>> {
        match self {
            Buffer::Own(_) => None,
            Buffer::Shared(shared) => Some(shared),
        }
    }
}
