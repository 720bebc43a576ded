//! Files as memory, read-only, and which bytes are whose.
//!
//! The one place with `unsafe` in this crate.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use memmap2::{Mmap, MmapOptions};

use crate::file::{BodyFile, BodyPart};

/// Files that stay open, at most: who gives them names does so soon, or copies them.
const OPEN_MAX: usize = 256;

/// Maps files and knows them by their bytes. Shared by all threads.
#[derive(Debug)]
pub struct Maps {
    table: Table,
    gone: Sender<Mapping>,
    /// Files that the store has not, in the order in which they were mapped.
    open: Mutex<VecDeque<Weak<BodyFile>>>,
}

/// What is mapped, by where it begins in memory.
type Table = Arc<Mutex<BTreeMap<usize, Known>>>;

/// What is known of a mapping.
#[derive(Debug)]
struct Known {
    file: Weak<BodyFile>,
    /// Where in the file it begins.
    offset: u64,
    bytes: usize,
}

/// A part of a file in memory. It goes before its file does, whose space is free then.
#[derive(Debug)]
struct Mapping {
    map: Mmap,
    _file: Arc<BodyFile>,
}

/// Gives its mapping away when it goes.
struct Owner {
    mapping: Option<Mapping>,
    table: Table,
    gone: Sender<Mapping>,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.mapping.as_ref().map_or(&[], |mapping| &mapping.map)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(mapping) = self.mapping.take() {
            lock(&self.table).remove(&(mapping.map.as_ptr() as usize));
            // Without a thread it is unmapped here, as the error that comes back goes.
            let _ = self.gone.send(mapping);
        }
    }
}

impl Maps {
    /// Starts the thread that unmaps; it ends when this and all that it has mapped are gone.
    ///
    /// # Errors
    /// When the operating system grants no thread.
    pub fn open() -> io::Result<Arc<Maps>> {
        let (gone, receiver) = channel::<Mapping>();
        let thread = std::thread::Builder::new().name("tiderace-unmap".to_owned());
        thread.spawn(move || receiver.iter().for_each(drop))?;
        Ok(Arc::new(Maps { table: Arc::default(), gone, open: Mutex::default() }))
    }

    /// Maps a part of a file.
    ///
    /// # Errors
    /// When the operating system does not map it, or the file is closed or shorter.
    #[allow(unsafe_code)]
    pub fn map(&self, file: &Arc<BodyFile>, offset: u64, length: u64) -> io::Result<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        if offset.checked_add(length).is_none_or(|end| end > file.bytes()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let open = file.open().ok_or_else(|| io::Error::other("the file is closed"))?;
        let mut options = MmapOptions::new();
        // SAFETY: the bytes of a mapping must not change while it is read. A `BodyFile` is whole, and nothing in this
        // program writes to one or makes it shorter. It has no name; or it is a file of the store, whose directory no other
        // user may enter and which one process at a time has open.
        let map = unsafe { options.offset(offset).len(length).map(&open)? };
        let known = Known { file: Arc::downgrade(file), offset, bytes: length };
        lock(&self.table).insert(map.as_ptr() as usize, known);
        let mapping = Some(Mapping { map, _file: file.clone() });
        let (table, gone) = (self.table.clone(), self.gone.clone());
        self.close_old(file);
        Ok(Bytes::from_owner(Owner { mapping, table, gone }))
    }

    /// Closes the file, if the store has it, or the one that has been open for longest, if there are too many.
    fn close_old(&self, file: &Arc<BodyFile>) {
        if file.known().is_some() {
            return file.close();
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back(Arc::downgrade(file));
        let oldest = if open.len() > OPEN_MAX { open.pop_front() } else { None };
        drop(open);
        if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade()) {
            oldest.close();
        }
    }

    /// The part of a file that these bytes are; absent if they lie in memory.
    pub fn find(&self, bytes: &Bytes) -> Option<BodyPart> {
        let (start, length) = (bytes.as_ptr() as usize, bytes.len());
        let table = lock(&self.table);
        let (first, known) = table.range(..=start).next_back()?;
        let within = start - first;
        if within.checked_add(length)? > known.bytes {
            return None;
        }
        let (offset, body) = (known.offset + within as u64, bytes.clone());
        Some(BodyPart { file: known.file.upgrade()?, offset, body })
    }
}

fn lock(table: &Table) -> MutexGuard<'_, BTreeMap<usize, Known>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
