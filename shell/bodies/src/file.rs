//! A file that has bodies of messages.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// What counts the bytes of a file, as long as somebody holds it.
pub type Charge = Arc<dyn Send + Sync>;

/// Bytes that are read at once.
const BLOCK_BYTES: u64 = 256 << 10;

/// A file that is whole: nobody writes to it any more.
pub struct BodyFile {
    state: Mutex<State>,
    bytes: u64,
    charge: Option<Charge>,
}

/// What is known of a file.
struct State {
    /// It is open, so that it can be given a name. Its bytes can be had from its mapping alone otherwise.
    file: Option<File>,
    kept: Option<Kept>,
    /// The part whose checksum was found last: where it begins, its length, and the checksum.
    sum: Option<(u64, u64, u32)>,
}

/// What the store has of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// By this number.
    pub number: u64,
    /// From here on.
    pub offset: u64,
    /// So many bytes.
    pub length: u64,
}

/// A part of a file: the body of a message.
#[derive(Clone, Debug)]
pub struct BodyPart {
    /// The file.
    pub file: Arc<BodyFile>,
    /// Where in it the body begins.
    pub offset: u64,
    /// The body.
    pub body: Bytes,
}

impl BodyFile {
    /// A file of that length, and what it is charged to.
    pub fn new(file: File, bytes: u64, charge: Option<Charge>) -> BodyFile {
        let state = Mutex::new(State { file: Some(file), kept: None, sum: None });
        BodyFile { state, bytes, charge }
    }

    /// One that the store has.
    pub fn kept(file: File, kept: Kept, charge: Option<Charge>) -> BodyFile {
        let one = BodyFile::new(file, kept.offset.saturating_add(kept.length), charge);
        one.state().kept = Some(kept);
        one
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file, if it is still open.
    pub fn open(&self) -> Option<File> {
        self.state().file.as_ref()?.try_clone().ok()
    }

    /// Closes it. Who has it as memory goes on to have that.
    pub fn close(&self) {
        // Not under the lock.
        let file = self.state().file.take();
        drop(file);
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What counts its bytes; to be held as long as they take space.
    pub fn charge(&self) -> Option<Charge> {
        self.charge.clone()
    }

    /// What the store has of it, or has had.
    pub fn known(&self) -> Option<Kept> {
        self.state().kept
    }

    /// The store has it, or a part of it, from now on.
    pub fn set_known(&self, kept: Kept) {
        self.state().kept = Some(kept);
    }

    /// The checksum of a part, if it is known.
    pub fn checksum(&self, offset: u64, length: u64) -> Option<u32> {
        let sum = self.state().sum.filter(|(at, bytes, _)| (*at, *bytes) == (offset, length));
        sum.map(|(_, _, sum)| sum)
    }

    /// The checksum of a part is known from now on.
    pub fn set_checksum(&self, offset: u64, length: u64, sum: u32) {
        self.state().sum = Some((offset, length, sum));
    }
}

/// The CRC-32C of a part of a file. A device that fails is an error here, which it would not be in a mapping.
///
/// # Errors
/// When it cannot be read, or is shorter.
pub fn checksum(file: &File, mut offset: u64, mut length: u64) -> io::Result<u32> {
    let mut block = vec![0; BLOCK_BYTES.min(length) as usize];
    let mut sum = 0;
    while length > 0 {
        let bytes = BLOCK_BYTES.min(length);
        let Some(block) = block.get_mut(..bytes as usize) else { break };
        file.read_exact_at(block, offset)?;
        sum = crc32c::crc32c_append(sum, block);
        (offset, length) = (offset + bytes, length - bytes);
    }
    Ok(sum)
}

impl std::fmt::Debug for BodyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BodyFile").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
