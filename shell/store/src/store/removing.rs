//! Removes files with bodies of large messages that nobody needs any more.
//!
//! Relies on the index for what is needed. Invariants: a file goes only when it is on the disk that no record names it; a call
//! removes a bounded number, so that a commit does not wait for all of those that a backup has kept.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::Store;
use crate::bodies::{OPENED_MAX, body_name};
use crate::disk::Disk;
use crate::error::CommitError;
use crate::log::SyncedTo;
use crate::metrics::{add, set};
use crate::options::Sync;
use crate::removed_files::RemovedFiles;

/// Files that are removed in one call at most, beyond those that came to be removed since the call before: some milliseconds,
/// unless a disk is slow or a file that is not left open very large.
pub(crate) const REMOVED_MAX: usize = 64;

impl<D: Disk> Store<D> {
    /// Removes files with bodies that no record names any more, once it is on disk that none does. Gives them open:
    /// their space is free when they are closed, which may take long. Waits for the disk only if acknowledgements do. If there are very many,
    /// as behind a backup, some are left for the next call.
    ///
    /// # Errors
    /// When it is not certain what is on disk.
    pub fn remove_bodies(&mut self) -> Result<RemovedFiles<D::File>, CommitError> {
        self.note_unneeded();
        if !self.is_removal_due() {
            return Ok(self.none_removed());
        }
        // Or a crash might bring back a record that names it.
        self.sync()?;
        Ok(self.remove_files())
    }

    /// Whether [`Store::remove_bodies`] has something to remove.
    pub(crate) fn is_removal_due(&self) -> bool {
        let waits = self.options.sync != Sync::Always && self.log.is_dirty();
        !(self.unneeded.is_empty() || self.log.is_broken || waits || self.is_held())
    }

    /// Without acknowledgements that wait for the disk nobody syncs the log for long: what is to be synced elsewhere, so that
    /// files can be removed. None if there is nothing, or that goes on already.
    pub(crate) fn begin_sync(&mut self) -> Option<(D::File, SyncedTo)> {
        let is_due = self.options.sync == Sync::Never
            && self.unneeded_then.is_none()
            && !self.is_held()
            && !(self.unneeded.is_empty() || self.log.is_broken);
        let begun = if is_due { self.log.begin_sync() } else { None }?;
        self.unneeded_then = Some(std::mem::take(&mut self.unneeded));
        Some(begun)
    }

    /// What was to be synced elsewhere was, or not. Gives the files that were removed by that, as
    /// [`Store::remove_bodies`] does.
    ///
    /// # Errors
    /// When it was not.
    pub(crate) fn end_sync(
        &mut self,
        to: SyncedTo,
        result: std::io::Result<()>,
    ) -> Result<RemovedFiles<D::File>, CommitError> {
        let mut then = self.unneeded_then.take().unwrap_or_default();
        add(&self.metrics.syncs, 1);
        let ended = self.log.end_sync(to, result);
        set(&self.metrics.is_broken, u64::from(self.log.is_broken));
        ended?;
        if self.log.is_broken {
            return Ok(self.none_removed());
        }
        // A file that was named again meanwhile may be so on the disk, though no record does any more: it waits for the next
        // sync.
        self.note_unneeded();
        let again: BTreeSet<u64> = self.unneeded.iter().copied().collect();
        then.retain(|number| !again.contains(number));
        let later = std::mem::replace(&mut self.unneeded, then);
        self.discharge_from(0);
        let removed = self.remove_files();
        self.unneeded.extend(later);
        Ok(removed)
    }

    /// Notes the files that no record names any more and no batch is about to name.
    fn note_unneeded(&mut self) {
        self.log.account();
        let noted = self.unneeded.len();
        self.unneeded.append(&mut self.log.index.bodies_mut().take_unneeded());
        self.unneeded.append(&mut self.bodies.take_unpinned());
        // As many go as come, so that none pile up but those that a backup keeps.
        if !self.is_held() {
            self.noted += self.unneeded.len() - noted;
        }
        self.discharge_from(noted);
    }

    /// Removes the files that no record on the disk names.
    fn remove_files(&mut self) -> RemovedFiles<D::File> {
        let mut removed = self.none_removed();
        if self.is_held() {
            return removed;
        }
        let (mut count, most) = (0, REMOVED_MAX + std::mem::take(&mut self.noted));
        while count < most
            && let Some(number) = self.unneeded.pop()
        {
            // One that is pinned comes again when it is not.
            if self.log.index.bodies().needs(number) || !self.bodies.forget(number) {
                continue;
            }
            count += 1;
            let name = body_name(number);
            let is_room = self.opened.load(Ordering::Relaxed) < OPENED_MAX;
            let file = is_room.then(|| self.log.disk.open(&name));
            // One that stays is removed when the store is opened next.
            if self.log.disk.remove(&name).is_ok()
                && let Some(Ok(file)) = file
            {
                removed.push(file);
            }
        }
        self.update_gauges();
        removed
    }

    fn none_removed(&self) -> RemovedFiles<D::File> {
        RemovedFiles::none(self.opened.clone())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::sync::Arc;

    use tiderace_bodies::{BodyFile, BodyPart};

    use super::*;
    use crate::batch::Batch;
    use crate::options::Options;
    use crate::put::{Put, StreamId};
    use crate::record::{Body, Declaration, Mark, StreamKind};

    fn body_files(directory: &Path) -> usize {
        let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".body")).count()
    }

    #[test]
    fn very_many_files_are_removed_in_several_calls() {
        let name = format!("tiderace-store-removing-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        let (mut store, _) = Store::open(&directory, Options::default()).unwrap();
        let count = OPENED_MAX as u64 + 3 * REMOVED_MAX as u64 - 1;
        let (stream, kind, mark) = (StreamId(1), StreamKind::Queue, Mark::default());
        let mut batch = Batch::new();
        batch.declare(&Declaration { stream, kind, mark, path: "a", spec: b"" }).unwrap();
        for number in 1..=count {
            let path = directory.join(body_name(number));
            fs::write(&path, b"body").unwrap();
            let file = Arc::new(BodyFile::new(File::open(&path).unwrap(), 4, None));
            let part = BodyPart { file, offset: 0, body: b"body".to_vec().into() };
            let (version, keep_from) = (number, 0);
            let put = Put {
                stream,
                sequence: number,
                count: 1,
                version,
                keep_from,
                bytes: b"",
                body: None,
            };
            batch.put_with_body(number, &put, part).unwrap();
        }
        let (bodies, mut number) = (store.bodies(), 0);
        let left_out = batch.keep_bodies(|_| {
            number += 1;
            let body = Body { file: number, offset: 0, length: 4, checksum: 0 };
            Ok((body, bodies.add(number, None)))
        });
        assert!(left_out.is_none());
        store.commit(vec![batch]);
        assert!(store.remove_bodies().unwrap().is_empty() && !store.is_removal_due());
        let mut batch = Batch::new();
        batch.settle(stream, &[(1, count)]).unwrap();
        store.commit(vec![batch]);
        // As if a backup had kept them.
        store.note_unneeded();
        store.noted = 0;
        let (mut left, mut open, mut opened) = (count as usize, Vec::new(), Vec::new());
        while left > 0 {
            let removed = store.remove_bodies().unwrap();
            opened.push(removed.len());
            // Each that is left open is a descriptor: there are no more until these are closed, and then there are.
            if removed.is_empty() {
                open.clear();
            }
            open.push(removed);
            left = left.saturating_sub(REMOVED_MAX);
            assert_eq!((body_files(&directory), store.is_removal_due()), (left, left > 0));
        }
        assert_eq!(opened, [64, 64, 64, 64, 0, 64, 63]);
        store.close().unwrap();
        fs::remove_dir_all(directory).unwrap();
    }
}
