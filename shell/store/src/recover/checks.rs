//! What opening looks at when every record is in the index: whether messages have streams, and bodies their files.
//!
//! A part of `recover`. Invariant: what is said to be lost is in the index no more.

use std::io;

use crate::batch::Batch;
use crate::bodies::{body_name, body_number};
use crate::body_check::{Extent, find_damage};
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, OpenError};
use crate::log::{Log, segment_of};
use crate::lost::LostRecord;
use crate::messages::Place;
use crate::record::Record;
use crate::recovered::SetAside;
use crate::set_aside::aside_name;

use super::{DamageKind, Reader};

impl<D: Disk> Reader<D> {
    /// Messages without a stream exist only where something was lost.
    pub(super) fn check_declared(&mut self) -> Result<(), OpenError> {
        let lost: Vec<_> = self
            .index
            .streams()
            .filter(|(_, stream)| stream.declaration.is_none())
            .map(|(id, stream)| (id, stream.messages.iter().copied().collect::<Vec<_>>()))
            .collect();
        for (stream, messages) in lost {
            for part in messages.chunk_by(|one, next| one.place.segment == next.place.segment) {
                let (Some(from), Some(to)) = (part.first(), part.last()) else { continue };
                let Place { segment, offset, bytes } = from.place;
                let place = (segment, u64::from(offset), u64::from(bytes));
                let (first, last) = (from.sequence, to.last());
                let lost = Some(LostRecord::Messages { stream, first, last });
                self.damaged_with(place, DamageKind::Undeclared, lost)?;
            }
            self.forget(&Record::Drop { stream });
        }
        Ok(())
    }

    /// Messages whose bodies are not in their files any more are lost.
    pub(super) fn check_bodies(&mut self) -> Result<(), OpenError> {
        let extent = if self.opening.is_thorough { Extent::Bytes } else { Extent::Length };
        let found = find_damage(&mut self.disk, &self.index, extent);
        let found = found.map_err(|error| self.refused("read the body of a message", error))?;
        for damage in found {
            let (stream, first) = (damage.stream, damage.sequence);
            let lost = Some(LostRecord::Messages { stream, first, last: first });
            let (file, offset) = (body_name(damage.body.file), damage.body.offset);
            let (bytes, what) = (damage.body.length, damage.what);
            self.note_damage(Damage { file, offset, bytes, what, lost })?;
            let mut settled = Batch::new();
            // It cannot be too large.
            let _ = settled.settle(stream, &[(first, first)]);
            settled.records_of().for_each(|record| self.forget(&record));
        }
        Ok(())
    }

    /// Takes what a record says into the index, which is not in the log.
    fn forget(&mut self, record: &Record<'_>) {
        let (first, segments) = (self.first, &mut self.segments);
        self.index.apply(record, Place::NONE, &mut |dead| {
            if let Some(segment) = segment_of(segments, first, dead) {
                segment.live -= u64::from(dead.bytes);
            }
        });
    }
}

/// Removes files of bodies that no record names. After damage they are put aside instead: a record may have named them
/// that cannot be read.
///
/// # Errors
/// When the directory cannot be listed.
pub(super) fn remove_unneeded<D: Disk>(
    log: &mut Log<D>,
    is_damaged: bool,
) -> io::Result<Vec<SetAside>> {
    let mut aside = Vec::new();
    for name in log.disk.names()? {
        let number = body_number(&name);
        if number.is_none_or(|number| log.index.bodies().needs(number)) {
            continue;
        }
        // What cannot be removed now is only in the way of nobody; the next start tries again.
        if !is_damaged {
            let _ = log.disk.remove(&name);
            continue;
        }
        let file = aside_name(&name);
        let bytes = log.disk.open(&name).and_then(|mut file| file.bytes()).unwrap_or(0);
        if log.disk.rename(&name, &file).is_ok() {
            aside.push(SetAside { file, bytes });
        }
    }
    if !aside.is_empty() {
        log.disk.sync_names()?;
    }
    Ok(aside)
}
