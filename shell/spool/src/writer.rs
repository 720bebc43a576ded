//! The thread that writes, maps and unmaps.

use std::io::Write;
use std::sync::mpsc::Receiver;

use crate::blocks::Blocks;
use crate::body::map;
use crate::error::SpoolError;
use crate::work::Work;

/// Works until nobody is left who could ask for anything.
pub(crate) fn run(receiver: &Receiver<Work>, blocks: &Blocks) {
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
            Work::Finish { progress, file, place, work } => {
                if progress.is_over() {
                    continue;
                }
                // Without a thread it is unmapped where it is dropped, as the error that comes back goes.
                let release = move |mapping| drop(work.send(Work::Unmap(mapping)));
                let body = map(&file, place, Box::new(release));
                progress.end(body.map_err(|error| SpoolError::Disk(error.to_string())));
            }
            Work::Abandon { file, place } => {
                // The charge goes when the space is free.
                drop(file);
                drop(place);
            }
            Work::Unmap(mapping) => drop(mapping),
        }
    }
}
