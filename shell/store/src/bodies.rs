//! Files with bodies of large messages in the store's directory: their names, and who is about to name them.
//!
//! Relies on nothing. The index knows which files records name; here stand those that a batch on its way will name, so
//! that none is removed meanwhile. Invariants: a number is given to one file alone; a file that was begun to be
//! removed can be pinned no more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tiderace_bodies::Charge;

use crate::record::Body;

const ENDING: &str = ".body";
/// Files that are removed one after the other and left open, so that others wait for their bytes to be freed, at most: behind a backup
/// there may be very many, and each is a descriptor.
pub(crate) const OPENED_MAX: usize = 256;

/// The name of a file with bodies.
pub(crate) fn body_name(number: u64) -> String {
    format!("{number:010}{ENDING}")
}

/// The number of a file with bodies, if that is the name of one.
pub(crate) fn body_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(ENDING)?.parse().ok()?;
    (body_name(number) == name).then_some(number)
}

/// The files of an open store. Shared by its threads and by those who hand batches over.
#[derive(Debug, Default)]
pub(crate) struct Bodies(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    files: HashMap<u64, Known>,
    /// The number of the next file.
    next: u64,
    /// Files whose last pin has gone.
    unpinned: Vec<u64>,
}

#[derive(Default)]
struct Known {
    pins: usize,
    charge: Option<Charge>,
    /// The body in it that was found to be whole since the store was opened: where it begins, and its length.
    verified: Option<(u64, u64)>,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("pins", &self.pins).finish_non_exhaustive()
    }
}

/// Keeps a file from being removed until the record that names it is in the index.
#[derive(Debug)]
pub(crate) struct Pin {
    bodies: Arc<Bodies>,
    number: u64,
}

impl Bodies {
    /// Those of a store that has these files; no file has had the number `next` or a higher one.
    pub(crate) fn new(files: impl Iterator<Item = u64>, next: u64) -> Bodies {
        let files = files.map(|number| (number, Known::default())).collect();
        Bodies(Mutex::new(State { files, next, unpinned: Vec::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no file has had.
    pub(crate) fn next_number(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.next - 1
    }

    /// A file is there, and is not removed before the pin goes.
    pub(crate) fn add(self: &Arc<Self>, number: u64, charge: Option<Charge>) -> Pin {
        self.state().files.insert(number, Known { pins: 1, charge, verified: None });
        Pin { bodies: Arc::clone(self), number }
    }

    /// Keeps a file from being removed, if it is still there. Its bytes are counted by `charge` if nothing counts them.
    pub(crate) fn pin(self: &Arc<Self>, number: u64, charge: Option<Charge>) -> Option<Pin> {
        let mut state = self.state();
        let known = state.files.get_mut(&number)?;
        known.pins += 1;
        known.charge = known.charge.take().or(charge);
        drop(state);
        Some(Pin { bodies: Arc::clone(self), number })
    }

    /// No record names a file: its bytes are not counted any more, unless a batch is about to name it.
    pub(crate) fn discharge(&self, number: u64) {
        let mut state = self.state();
        let charge = state.files.get_mut(&number).filter(|known| known.pins == 0);
        let charge = charge.and_then(|known| known.charge.take());
        // What it does when it goes is not for this lock.
        drop(state);
        drop(charge);
    }

    /// What counts the bytes of a file.
    pub(crate) fn charge(&self, number: u64) -> Option<Charge> {
        self.state().files.get(&number)?.charge.clone()
    }

    /// Counts the bytes of a file that was there when the store was opened.
    pub(crate) fn set_charge(&self, number: u64, charge: Charge) {
        if let Some(known) = self.state().files.get_mut(&number) {
            known.charge = Some(charge);
        }
    }

    /// Whether a body was found to be whole since the store was opened.
    pub(crate) fn is_verified(&self, body: &Body) -> bool {
        let state = self.state();
        let known = state.files.get(&body.file);
        known.is_some_and(|known| known.verified == Some((body.offset, body.length)))
    }

    /// A body is whole.
    pub(crate) fn set_verified(&self, body: &Body) {
        if let Some(known) = self.state().files.get_mut(&body.file) {
            known.verified = Some((body.offset, body.length));
        }
    }

    /// Files whose last pin has gone since this was asked last.
    pub(crate) fn take_unpinned(&self) -> Vec<u64> {
        std::mem::take(&mut self.state().unpinned)
    }

    /// A file that no record names is to be removed: whether it may be.
    pub(crate) fn forget(&self, number: u64) -> bool {
        let mut state = self.state();
        let is_free = state.files.get(&number).is_none_or(|known| known.pins == 0);
        if is_free {
            state.files.remove(&number);
        }
        is_free
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut state = self.bodies.state();
        let Some(known) = state.files.get_mut(&self.number) else { return };
        known.pins -= 1;
        if known.pins == 0 {
            state.unpinned.push(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use tiderace_bodies::{BodyFile, BodyPart};

    use super::*;
    use crate::{
        Batch, Declaration, Mark, Options, Outcome, Put, Store, StreamId, StreamKind, Sync,
    };

    #[test]
    fn names_are_those_of_numbers() {
        for number in [0, 7, 9_999_999_999, 10_000_000_000, u64::MAX] {
            assert_eq!(body_number(&body_name(number)), Some(number));
        }
        for name in ["1.body", "0000000001.log", "+000000001.body", "0000000001.body.damaged"] {
            assert_eq!(body_number(name), None, "{name}");
        }
    }

    #[test]
    fn a_file_is_removed_when_nobody_is_about_to_name_it() {
        let bodies = Arc::new(Bodies::new([3].into_iter(), 4));
        assert_eq!(bodies.next_number(), 4);
        let pins =
            [bodies.pin(3, None).unwrap(), bodies.pin(3, None).unwrap(), bodies.add(4, None)];
        assert!(bodies.pin(5, None).is_none());
        assert!(!bodies.forget(3));
        drop(pins);
        assert_eq!(bodies.take_unpinned(), [3, 4]);
        assert!(bodies.forget(3) && bodies.pin(3, None).is_none());
        assert!(bodies.pin(4, None).is_some());
        let body = Body { file: 4, offset: 1, length: 9, checksum: 7 };
        assert!(!bodies.is_verified(&body));
        bodies.set_verified(&body);
        assert!(bodies.is_verified(&body) && !bodies.is_verified(&Body { offset: 2, ..body }));
    }

    fn commit(store: &mut Store, batch: Batch) {
        assert_eq!(store.commit(vec![batch]).0, [Outcome::Committed]);
    }

    /// A message comes whose body lies in the first file, and is consumed.
    fn come_and_go(store: &mut Store, file: &Path, sequence: u64) {
        let (stream, kind, mark) = (StreamId(1), StreamKind::Queue, Mark::default());
        let mut batch = Batch::new();
        batch.declare(&Declaration { stream, kind, mark, path: "a", spec: b"" }).unwrap();
        let opened = File::open(file).unwrap();
        let (file, body) = (Arc::new(BodyFile::new(opened, 4, None)), b"body".to_vec().into());
        let (count, keep_from, version) = (1, 0, sequence);
        let put = Put { stream, sequence, count, version, keep_from, bytes: b"", body: None };
        batch.put_with_body(1, &put, BodyPart { file, offset: 0, body }).unwrap();
        let (bodies, body) = (store.bodies(), Body { file: 1, offset: 0, length: 4, checksum: 0 });
        let pin = || bodies.pin(1, None).unwrap_or_else(|| bodies.add(1, None));
        assert!(batch.keep_bodies(|_| Ok((body, pin()))).is_none());
        commit(store, batch);
        let mut batch = Batch::new();
        batch.settle(stream, &[(sequence, sequence)]).unwrap();
        commit(store, batch);
        assert!(store.remove_bodies().unwrap().is_empty(), "it is not on the disk yet");
    }

    #[test]
    fn a_file_that_is_named_again_during_a_sync_waits_for_the_next() {
        let name = format!("tiderace-store-named-again-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        let options = Options { sync: Sync::Never, ..Options::default() };
        let (mut store, _) = Store::open(&directory, options).unwrap();
        let file = directory.join(body_name(1));
        fs::write(&file, b"body").unwrap();
        come_and_go(&mut store, &file, 1);
        let (_, to) = store.begin_sync().unwrap();
        come_and_go(&mut store, &file, 2);
        assert!(store.end_sync(to, Ok(())).unwrap().is_empty());
        assert!(file.exists(), "a record on the disk may name it");
        let (_, to) = store.begin_sync().unwrap();
        assert_eq!(store.end_sync(to, Ok(())).unwrap().len(), 1);
        assert!(!file.exists());
        store.close().unwrap();
        fs::remove_dir_all(directory).unwrap();
    }
}
