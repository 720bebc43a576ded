//! A whole body: a file, mapped read-only.
//!
//! The one place with `unsafe` in this crate.

use std::fs::File;

use bytes::Bytes;
use memmap2::Mmap;

use crate::ledger::{Charge, Place};

/// What unmaps a file, which takes long.
type Release = Box<dyn Fn(Mapping) + Send + Sync>;

/// A mapped file, with what it is charged for.
#[derive(Debug)]
pub(crate) struct Mapping {
    // The order matters: the charge goes when the space is free.
    _map: Mmap,
    _charge: Charge,
}

/// Gives its mapping away when it goes.
struct Body {
    mapping: Option<Mapping>,
    release: Release,
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        self.mapping.as_ref().map_or(&[], |mapping| &mapping._map)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(mapping) = self.mapping.take() {
            (self.release)(mapping);
        }
    }
}

/// Maps a file that is whole.
#[allow(unsafe_code)]
pub(crate) fn map(file: &File, place: Place, release: Release) -> std::io::Result<Bytes> {
    // SAFETY: the bytes of a mapping must not change while it is read. The file has no name and this process has the
    // only descriptors of it, all of them in this crate; the writer thread, which alone writes to it, has written the
    // last of it before this call, and nothing makes it shorter. An upload gives its descriptor away before, so behind
    // this call there is one alone, the caller's, which only drops it.
    let map = unsafe { Mmap::map(file)? };
    let mapping = Some(Mapping { _map: map, _charge: place.finish() });
    Ok(Bytes::from_owner(Body { mapping, release }))
}
