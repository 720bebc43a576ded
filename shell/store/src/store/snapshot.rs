//! What a backup copies of an open store, and what keeps it there meanwhile.
//!
//! Relies on `snapshot`. Invariant: while a snapshot is held, no file in it is removed, unless the disk is full: who
//! holds it is told so, since messages that come are more than a copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Store;
use crate::backups::BackupError;
use crate::disk::Disk;
use crate::hold::{Hold, Over};
use crate::snapshot::Snapshot;

impl<D: Disk> Store<D> {
    /// The files of this moment, with all that was committed. They stay until the snapshot goes, and `over` is called
    /// then; without one they are only looked at.
    ///
    /// # Errors
    /// When somebody has one already, or nobody knows what is on the disk.
    pub(crate) fn snapshot(&mut self, over: Option<Over>) -> Result<Snapshot, BackupError> {
        self.log.account();
        if self.log.is_broken {
            return Err(BackupError::Failed);
        }
        let Some(directory) = self.directory() else { return Err(BackupError::NoFiles) };
        if over.is_some() && self.hold.strong_count() > 0 {
            return Err(BackupError::Busy);
        }
        let segments = (self.log.oldest..).zip(&self.log.segments);
        let segments = segments.map(|(number, segment)| (number, segment.bytes)).collect();
        let mut bodies = BTreeMap::<u64, u64>::new();
        // What is volatile is in no later life of the store.
        let lasting = self.log.index.bodies().records().filter(|(id, ..)| !id.is_volatile());
        for (_, _, body) in lasting {
            let end = bodies.entry(body.file).or_default();
            *end = body.offset.saturating_add(body.length).max(*end);
        }
        let hold = over.map(|over| Arc::new(Hold::new(over)));
        if let Some(hold) = &hold {
            self.hold = Arc::downgrade(hold);
            self.discharge_from(0);
        }
        Ok(Snapshot::new(directory, segments, bodies.into_iter().collect(), hold))
    }

    /// Whether somebody copies files, so that none may be removed.
    pub(super) fn is_held(&self) -> bool {
        self.hold.upgrade().is_some_and(|hold| !hold.is_given_up())
    }

    /// Counts no more the bytes of files that only a copy keeps, from that place of the unneeded ones on: otherwise who sends
    /// large messages would be refused for what was consumed long ago.
    pub(super) fn discharge_from(&self, noted: usize) {
        if self.is_held() {
            let unneeded = self.unneeded.get(noted..).unwrap_or_default();
            let needed = |number: &&u64| self.log.index.bodies().needs(**number);
            unneeded.iter().filter(|it| !needed(it)).for_each(|it| self.bodies.discharge(*it));
        }
    }

    /// Room is needed more than the copy.
    pub(crate) fn give_up_hold(&self) {
        if let Some(hold) = self.hold.upgrade() {
            hold.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use crate::archive::BackupArchive;
    use crate::{BackupError, Batch, CommitError, Options, Outcome, Store};

    #[test]
    fn a_disk_that_is_full_ends_the_backup_and_not_the_store() {
        let name = format!("tiderace-store-given-up-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        let options = Options { segment_bytes: 1024, reserve_bytes: 0, ..Options::default() };
        let (mut store, _) = Store::open(&directory, options).unwrap();
        let fill = |store: &mut Store| {
            for _ in 0..100 {
                let mut batch = Batch::new();
                batch.set("name", &[7; 500]).unwrap();
                assert!(store.commit(vec![batch]).1.is_none());
                store.settle();
            }
        };
        let snapshot = store.snapshot(Some(Box::new(|| ()))).unwrap();
        fill(&mut store);
        assert!(!store.is_cleaning_due());
        let mut archive = BackupArchive::new(snapshot, "0", 0);
        archive.read(600).unwrap();
        store.give_up_hold();
        assert!(store.is_cleaning_due());
        store.clean(1 << 20).unwrap();
        assert!(matches!(archive.read(600), Err(BackupError::GivenUp)));
        assert!(matches!(store.snapshot(Some(Box::new(|| ()))), Err(BackupError::Busy)));
        drop(archive);
        store.snapshot(Some(Box::new(|| ()))).unwrap();
        store.close().unwrap();
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_commit_that_finds_no_room_gives_the_backup_up() {
        let name = format!("tiderace-store-no-room-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        let options = Options { reserve_bytes: 1 << 20, ..Options::default() };
        let (mut store, _) = Store::open(&directory, options).unwrap();
        let snapshot = store.snapshot(Some(Box::new(|| ()))).unwrap();
        let mut archive = BackupArchive::new(snapshot, "0", 0);
        archive.read(600).unwrap();
        // Without its reserve a store is full.
        store.drop_reserve();
        let mut batch = Batch::new();
        batch.set("name", b"value").unwrap();
        let (outcomes, problem) = store.commit(vec![batch]);
        assert_eq!(outcomes, [Outcome::Full]);
        assert!(matches!(problem, Some(CommitError::Full(_))));
        assert!(matches!(archive.read(600), Err(BackupError::GivenUp)));
        store.close().unwrap();
        fs::remove_dir_all(directory).unwrap();
    }
}
