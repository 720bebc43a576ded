//! The thread that writes and maps.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use bytes::Bytes;
use tiderace_bodies::{BodyFile, Charge, Maps};

use crate::blocks::Blocks;
use crate::error::SpoolError;
use crate::ledger::Place;
use crate::work::Work;

/// Works until nobody is left who could ask for anything.
pub(crate) fn run(receiver: &Receiver<Work>, blocks: &Blocks, maps: &Maps) {
    while let Ok(work) = receiver.recv() {
        match work {
            Work::Write { progress, file, block } => {
                if !progress.is_over() {
                    match (&*file).write_all(&block) {
                        Ok(()) => progress.note_written(block.len()),
                        Err(error) => progress.end(Err(SpoolError::Disk(error.to_string()))),
                    }
                }
                blocks.give(block);
            }
            Work::Finish { progress, file, place } => {
                if !progress.is_over() {
                    let body = map(file, place, maps);
                    progress.end(body.map_err(|error| SpoolError::Disk(error.to_string())));
                }
            }
            Work::Abandon { file, place } => {
                // The charge goes when the space is free.
                drop(file);
                drop(place);
            }
        }
    }
}

/// A file that is whole, as memory.
fn map(file: Arc<File>, place: Place, maps: &Maps) -> io::Result<Bytes> {
    // An upload gives its descriptor away before, so nobody else has one, and nobody writes to the file any more.
    let file = Arc::into_inner(file).ok_or_else(|| io::Error::other("the file is in use"))?;
    let length = file.metadata()?.len();
    let charge: Charge = Arc::new(place.finish());
    let file = Arc::new(BodyFile::new(file, length, Some(charge)));
    maps.map(&file, 0, length)
}
