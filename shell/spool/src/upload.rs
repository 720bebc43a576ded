//! A body that arrives.
//!
//! Invariant: blocks reach the writer thread in order, each once.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use bytes::Bytes;

use crate::blocks::{BLOCK_BYTES, Blocks};
use crate::error::SpoolError;
use crate::ledger::Place;
use crate::progress::Progress;
use crate::work::Work;

/// An upload is behind when so many bytes wait to be written.
pub const BEHIND_BYTES_MAX: u64 = 512 << 10;

/// A body that arrives. Dropped before it is whole, it leaves nothing behind.
pub struct Upload {
    progress: Arc<Progress>,
    work: Sender<Work>,
    blocks: Arc<Blocks>,
    /// The file and its place, until they are given to the writer thread behind the last block.
    target: Option<(Arc<File>, Place)>,
    /// What has not been given to the writer thread.
    block: Vec<u8>,
    /// Bytes that were appended.
    len: u64,
}

impl Upload {
    pub(crate) fn new(
        place: Place,
        file: File,
        (work, blocks): (Sender<Work>, Arc<Blocks>),
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Upload {
        Upload {
            progress: Arc::new(Progress::new(wake)),
            work,
            blocks,
            target: Some((Arc::new(file), place)),
            block: Vec::new(),
            len: 0,
        }
    }

    /// Appends bytes, which are copied. Behind the last there must be none.
    ///
    /// # Errors
    /// When there is no room for them, or what came before could not be written; the upload is of no more use.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<(), SpoolError> {
        if let Some(Err(error)) = self.progress.outcome() {
            return Err(error.clone());
        }
        while !bytes.is_empty() {
            if self.block.capacity() == 0 {
                let Some((_, place)) = &mut self.target else { return Err(SpoolError::GivenUp) };
                place.charge.grow(BLOCK_BYTES as u64)?;
                self.block = self.blocks.take();
            }
            let room = BLOCK_BYTES - self.block.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.extend_from_slice(now);
            self.len += now.len() as u64;
            bytes = later;
            if self.block.len() == BLOCK_BYTES {
                self.send_block();
            }
        }
        Ok(())
    }

    /// The last bytes have been appended: [`Upload::outcome`] tells when they are in the file.
    pub fn finish(&mut self) {
        self.send_block();
        if let Some((file, place)) = self.target.take() {
            let progress = self.progress.clone();
            self.send(Work::Finish { progress, file, place });
        }
    }

    /// Whether its last bytes have been appended.
    pub fn is_finished(&self) -> bool {
        self.target.is_none()
    }

    /// Bytes that were appended.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of it in memory.
    pub fn memory_bytes(&self) -> usize {
        (self.len - self.progress.written()) as usize
    }

    /// Whether so much waits to be written that nothing more should be appended before the owner has been woken.
    pub fn is_behind(&self) -> bool {
        let behind = || self.memory_bytes() as u64 >= BEHIND_BYTES_MAX;
        if !behind() || self.progress.is_over() {
            return false;
        }
        // Asked again, since it may have been written meanwhile, and nobody woken.
        self.progress.wait();
        behind() && !self.progress.is_over()
    }

    /// The whole body, or why there is none; absent while neither is known.
    pub fn outcome(&self) -> Option<&Result<Bytes, SpoolError>> {
        self.progress.outcome()
    }

    fn send_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        if let Some((file, _)) = self.target.as_ref().filter(|_| !block.is_empty()) {
            let (progress, file) = (self.progress.clone(), file.clone());
            self.send(Work::Write { progress, file, block });
        }
    }

    fn send(&self, work: Work) {
        if self.work.send(work).is_err() {
            let reason = "the thread that writes has ended".to_owned();
            self.progress.end(Err(SpoolError::Disk(reason)));
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.progress.give_up();
        if let Some((file, place)) = self.target.take() {
            // Behind its blocks: what they take is charged until they are gone, and a file that is let go may take long.
            let _ = self.work.send(Work::Abandon { file, place });
        }
    }
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").field("len", &self.len).finish_non_exhaustive()
    }
}
