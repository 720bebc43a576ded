//! A file system in memory that forgets what was not synced, in the worst ways a real one may: sectors of a
//! write survive or not in any combination, lengths grow over nothing, names appear and vanish in any order.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tiderace_store::{Disk, DiskFile};

use super::Numbers;

/// What survives of a write is decided by this many bytes at a time.
const SECTOR: usize = 16;

#[derive(Clone, Debug, Default)]
struct Inode {
    content: Vec<u8>,
    durable: Vec<u8>,
    /// Since the last sync.
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

#[derive(Clone, Debug)]
struct NameChange {
    unset: Option<String>,
    set: Option<(String, usize)>,
}

#[derive(Debug)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pending_names: Vec<NameChange>,
    numbers: Numbers,
    /// Operations until the power goes.
    left: Option<u64>,
    /// Syncs until one fails.
    syncs_left: Option<u64>,
    /// Bytes all files may have together.
    capacity: Option<usize>,
    /// Looks at the directory that find it there; then somebody has removed it.
    looks_left: Option<u32>,
    /// The operating system's error that opening or making a file gets, and reading one.
    open_error: Option<i32>,
    read_error: Option<i32>,
    /// A byte of a file that the device does not give.
    bad_byte: Option<(usize, usize)>,
    open_files: usize,
}

/// The file system; clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

impl SimulatedDisk {
    pub(crate) fn new(seed: u64) -> SimulatedDisk {
        SimulatedDisk(Arc::new(Mutex::new(State {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            numbers: Numbers(seed),
            left: None,
            syncs_left: None,
            capacity: None,
            looks_left: None,
            open_error: None,
            read_error: None,
            bad_byte: None,
            open_files: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power goes after so many operations.
    pub(crate) fn die_after(&self, operations: Option<u64>) {
        self.state().left = operations;
    }

    /// Whether the power is gone.
    pub(crate) fn is_dead(&self) -> bool {
        self.state().left == Some(0)
    }

    /// A sync fails after so many others.
    pub(crate) fn fail_sync_after(&self, syncs: Option<u64>) {
        self.state().syncs_left = syncs;
    }

    /// Somebody removes the directory behind the next look at it, which is the one before writing.
    pub(crate) fn vanish_after_write(&self) {
        self.state().looks_left = Some(1);
    }

    /// Opening or making a file gets that error of the operating system.
    pub(crate) fn fail_opens(&self, error: Option<i32>) {
        self.state().open_error = error;
    }

    /// Reading a file gets that error of the operating system.
    pub(crate) fn fail_reads(&self, error: Option<i32>) {
        self.state().read_error = error;
    }

    /// The device does not give a byte of a file any more.
    pub(crate) fn fail_block(&self, place: Option<(&str, usize)>) {
        let mut state = self.state();
        state.bad_byte = place.map(|(name, at)| (state.names[name], at));
    }

    /// How many files are open.
    pub(crate) fn open_files(&self) -> usize {
        self.state().open_files
    }

    pub(crate) fn limit(&self, bytes: Option<usize>) {
        self.state().capacity = bytes;
    }

    /// Bytes of all files.
    pub(crate) fn used(&self) -> usize {
        let state = self.state();
        state.names.values().map(|inode| state.inodes[*inode].content.len()).sum()
    }

    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.inodes[state.names[name]].content.clone()
    }

    pub(crate) fn replace(&self, name: &str, content: Vec<u8>) {
        let mut state = self.state();
        let inode = state.names[name];
        state.inodes[inode].durable.clone_from(&content);
        state.inodes[inode].content = content;
    }

    pub(crate) fn list(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    /// A copy that shares nothing.
    pub(crate) fn copy(&self) -> SimulatedDisk {
        let state = self.state();
        SimulatedDisk(Arc::new(Mutex::new(State {
            inodes: state.inodes.clone(),
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            pending_names: state.pending_names.clone(),
            numbers: state.numbers.clone(),
            left: None,
            syncs_left: None,
            capacity: None,
            looks_left: None,
            open_error: None,
            read_error: None,
            bad_byte: None,
            open_files: 0,
        })))
    }

    /// The power is back: what was synced is there, and anything else may be.
    pub(crate) fn lose_power(&self) {
        let mut guard = self.state();
        let State { inodes, names, durable_names, pending_names, numbers, .. } = &mut *guard;
        let survives = [0, 50, 90, 100][numbers.below(4) as usize];
        for inode in inodes.iter_mut() {
            inode.lose_power(numbers, survives);
        }
        for change in pending_names.drain(..) {
            if numbers.chance(survives) {
                apply(durable_names, change);
            }
        }
        names.clone_from(durable_names);
        (guard.left, guard.syncs_left) = (None, None);
    }
}

fn apply(names: &mut BTreeMap<String, usize>, change: NameChange) {
    if let Some(name) = change.unset {
        names.remove(&name);
    }
    if let Some((name, inode)) = change.set {
        names.insert(name, inode);
    }
}

impl Inode {
    fn lose_power(&mut self, numbers: &mut Numbers, survives: u64) {
        let junk = if numbers.chance(50) { 0 } else { 0xa7 };
        for change in std::mem::take(&mut self.pending) {
            match change {
                Change::Cut(length) if numbers.chance(survives) => self.durable.truncate(length),
                Change::Cut(_) => {}
                Change::Write(offset, bytes) => {
                    if numbers.chance(50) && self.durable.len() < offset + bytes.len() {
                        self.durable.resize(offset + bytes.len(), junk);
                    }
                    let mut at = offset;
                    while at < offset + bytes.len() {
                        let end = ((at / SECTOR + 1) * SECTOR).min(offset + bytes.len());
                        if numbers.chance(survives) {
                            if self.durable.len() < end {
                                self.durable.resize(end, junk);
                            }
                            self.durable[at..end]
                                .copy_from_slice(&bytes[at - offset..end - offset]);
                        }
                        at = end;
                    }
                }
            }
        }
        self.content.clone_from(&self.durable);
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        if self.content.len() < offset + bytes.len() {
            self.content.resize(offset + bytes.len(), 0);
        }
        self.content[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.pending.push(Change::Write(offset, bytes.to_vec()));
    }
}

impl State {
    /// Counts one operation; an error when the power is gone.
    fn operate(&mut self) -> io::Result<()> {
        match &mut self.left {
            Some(0) => Err(io::Error::other("the power is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn rename(&mut self, change: NameChange) {
        apply(&mut self.names, change.clone());
        self.pending_names.push(change);
    }

    fn sync_fails(&mut self) -> bool {
        match &mut self.syncs_left {
            Some(0) => {
                self.syncs_left = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    fn room(&self) -> usize {
        let used: usize = self.names.values().map(|inode| self.inodes[*inode].content.len()).sum();
        self.capacity.map_or(usize::MAX, |capacity| capacity.saturating_sub(used))
    }
}

impl Disk for SimulatedDisk {
    type File = SimulatedFile;

    fn names(&mut self) -> io::Result<Vec<String>> {
        self.state().operate()?;
        Ok(self.list())
    }

    fn create(&mut self, name: &str) -> io::Result<SimulatedFile> {
        let mut state = self.state();
        state.operate()?;
        if let Some(error) = state.open_error {
            return Err(io::Error::from_raw_os_error(error));
        }
        state.inodes.push(Inode::default());
        let inode = state.inodes.len() - 1;
        state.rename(NameChange { unset: None, set: Some((name.to_owned(), inode)) });
        state.open_files += 1;
        Ok(SimulatedFile { disk: self.clone(), inode })
    }

    fn open(&mut self, name: &str) -> io::Result<SimulatedFile> {
        let mut state = self.state();
        state.operate()?;
        if let Some(error) = state.open_error {
            return Err(io::Error::from_raw_os_error(error));
        }
        let inode = *state.names.get(name).ok_or(ErrorKind::NotFound)?;
        state.open_files += 1;
        Ok(SimulatedFile { disk: self.clone(), inode })
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        let inode = *state.names.get(from).ok_or(ErrorKind::NotFound)?;
        let set = Some((to.to_owned(), inode));
        state.rename(NameChange { unset: Some(from.to_owned()), set });
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        if !state.names.contains_key(name) {
            return Err(ErrorKind::NotFound.into());
        }
        state.rename(NameChange { unset: Some(name.to_owned()), set: None });
        Ok(())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        state.pending_names.clear();
        state.durable_names = state.names.clone();
        Ok(())
    }

    fn verify(&mut self) -> io::Result<()> {
        match &mut self.state().looks_left {
            None => Ok(()),
            Some(0) => Err(ErrorKind::NotFound.into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

/// A file of it.
#[derive(Debug)]
pub(crate) struct SimulatedFile {
    disk: SimulatedDisk,
    inode: usize,
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.disk.state().open_files -= 1;
    }
}

impl DiskFile for SimulatedFile {
    fn bytes(&mut self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.operate()?;
        Ok(state.inodes[self.inode].content.len() as u64)
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.operate()?;
        if let Some(error) = state.read_error {
            return Err(io::Error::from_raw_os_error(error));
        }
        let offset = offset as usize;
        let is_bad =
            |(inode, at)| inode == self.inode && (offset..offset + buffer.len()).contains(&at);
        if state.bad_byte.is_some_and(is_bad) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let bytes = state.inodes[self.inode].content.get(offset..offset + buffer.len());
        buffer.copy_from_slice(bytes.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut state = self.disk.state();
        let mut bytes = parts.concat();
        let mut result = state.operate();
        if result.is_err() {
            // Whatever was under way when the power went.
            let kept = state.numbers.below(bytes.len() as u64 + 1) as usize;
            bytes.truncate(kept);
        } else if state.room() < bytes.len() {
            bytes.truncate(state.room());
            result = Err(ErrorKind::StorageFull.into());
        }
        let offset = state.inodes[self.inode].content.len();
        state.inodes[self.inode].write(offset, &bytes);
        result
    }

    fn rewrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.operate()?;
        state.inodes[self.inode].write(offset as usize, bytes);
        Ok(())
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.operate()?;
        let inode = &mut state.inodes[self.inode];
        inode.content.truncate(bytes as usize);
        inode.pending.push(Change::Cut(bytes as usize));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.operate()?;
        let fails = state.sync_fails();
        let inode = &mut state.inodes[self.inode];
        if fails {
            // As Linux does it: what could not be written counts as clean from now on.
            inode.pending.clear();
            return Err(io::Error::other("the device does not answer"));
        }
        // Only what is pending: what an earlier sync failed to write is not tried again.
        for change in std::mem::take(&mut inode.pending) {
            match change {
                Change::Cut(length) => inode.durable.truncate(length),
                Change::Write(offset, bytes) => {
                    let end = offset + bytes.len();
                    if inode.durable.len() < end {
                        inode.durable.resize(end, 0);
                    }
                    inode.durable[offset..end].copy_from_slice(&bytes);
                }
            }
        }
        Ok(())
    }
}
