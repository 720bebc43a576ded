//! The files of an open store as they are at one moment: what a backup copies.
//!
//! A segment is never changed but by what is appended to the newest, and a file with bodies never is. So the names and
//! lengths of a moment are a picture of that moment, as long as none of these files is removed. Relies on `hold` for
//! that. Invariant: what was acknowledged before the moment is in the files, up to these lengths.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bodies::body_name;
use crate::header::segment_name;
use crate::hold::Hold;
use crate::room::check_room;

/// The files of a moment. They stay until this is dropped, or the disk is full.
#[derive(Debug)]
pub struct Snapshot {
    directory: PathBuf,
    /// Numbers and lengths, the oldest first.
    segments: Vec<(u32, u64)>,
    /// Numbers and lengths of files with bodies, rising.
    bodies: Vec<(u64, u64)>,
    /// None if the files are only looked at.
    hold: Option<Arc<Hold>>,
}

impl Snapshot {
    pub(crate) fn new(
        directory: PathBuf,
        segments: Vec<(u32, u64)>,
        bodies: Vec<(u64, u64)>,
        hold: Option<Arc<Hold>>,
    ) -> Snapshot {
        Snapshot { directory, segments, bodies, hold }
    }

    /// Where the files are.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// How many segments of the log there are.
    pub fn segments(&self) -> u64 {
        self.segments.len() as u64
    }

    /// How many files with bodies of large messages there are.
    pub fn bodies(&self) -> u64 {
        self.bodies.len() as u64
    }

    /// Names and lengths of all files, the segments first.
    pub(crate) fn files(&self) -> impl Iterator<Item = (String, u64)> {
        let segments = self.segments.iter().map(|(number, bytes)| (segment_name(*number), *bytes));
        let bodies = self.bodies.iter().map(|(number, bytes)| (body_name(*number), *bytes));
        segments.chain(bodies)
    }

    /// The file at that place of the list.
    pub(crate) fn file(&self, place: usize) -> Option<(String, u64)> {
        match self.segments.get(place) {
            Some((number, bytes)) => Some((segment_name(*number), *bytes)),
            None => {
                let place = place.checked_sub(self.segments.len())?;
                self.bodies.get(place).map(|(number, bytes)| (body_name(*number), *bytes))
            }
        }
    }

    /// Gives the files up if the disk has hardly any room left, before somebody is refused for them.
    pub(crate) fn check_room(&self) {
        let full = |error: std::io::Error| error.kind() == ErrorKind::StorageFull;
        if let Some(hold) = &self.hold
            && check_room(&self.directory, 0).is_err_and(full)
        {
            hold.give_up();
        }
    }

    /// Whether files may have been removed.
    pub(crate) fn is_given_up(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.is_given_up())
    }
}
