//! What opening looks at when every record is in the index: whether messages have streams, and bodies their files.
//!
//! Relies on `index` and `body_check`. Invariant: nothing is removed of which something is damaged.

use std::io;

use crate::batch::Batch;
use crate::bodies::{body_name, body_number};
use crate::body_check::{Extent, find_damage};
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, DamageKind};
use crate::header::segment_name;
use crate::index::Index;
use crate::log::Log;
use crate::lost::LostRecord;
use crate::messages::{Message, Place};
use crate::record::StreamId;
use crate::recovered::SetAside;
use crate::set_aside::aside_name;

/// Streams of which there are messages and no declaration, with what is lost of each.
pub(crate) fn undeclared(index: &Index) -> Vec<(StreamId, Vec<Damage>)> {
    let lost = index.streams().filter(|(_, stream)| stream.declaration.is_none());
    lost.map(|(stream, found)| {
        let messages: Vec<Message> = found.messages.iter().copied().collect();
        let parts = messages.chunk_by(|one, next| one.place.segment == next.place.segment);
        let damage = parts.filter_map(|part| {
            let (from, to) = (part.first()?, part.last()?);
            let Place { segment, offset, bytes } = from.place;
            let (file, offset, bytes) =
                (segment_name(segment), u64::from(offset), u64::from(bytes));
            let (first, last) = (from.sequence, to.last());
            let lost = Some(LostRecord::Messages { stream, first, last });
            Some(Damage { file, offset, bytes, what: DamageKind::Undeclared, lost })
        });
        (stream, damage.collect())
    })
    .collect()
}

/// Bodies that are not in their files any more, each with what takes its message out of the index.
///
/// # Errors
/// When one cannot be looked at now.
pub(crate) fn damaged_bodies<D: Disk>(
    disk: &mut D,
    index: &Index,
    extent: Extent,
) -> io::Result<Vec<(Damage, Batch)>> {
    let found = find_damage(disk, index, extent)?.into_iter().map(|found| {
        let (stream, first) = (found.stream, found.sequence);
        let lost = Some(LostRecord::Messages { stream, first, last: first });
        let (file, offset) = (body_name(found.body.file), found.body.offset);
        let (bytes, what) = (found.body.length, found.what);
        let mut settled = Batch::new();
        // It cannot be too large.
        let _ = settled.settle(stream, &[(first, first)]);
        (Damage { file, offset, bytes, what, lost }, settled)
    });
    Ok(found.collect())
}

/// Removes files of bodies that no record names. Without a whole log they are put aside instead: a record may have named them
/// that cannot be read, or is not there any more.
///
/// # Errors
/// When the directory cannot be listed.
pub(crate) fn remove_unneeded<D: Disk>(
    log: &mut Log<D>,
    puts_aside: bool,
) -> io::Result<Vec<SetAside>> {
    let mut aside = Vec::new();
    for name in log.disk.names()? {
        let number = body_number(&name);
        if number.is_none_or(|number| log.index.bodies().needs(number)) {
            continue;
        }
        // What cannot be removed now is only in the way of nobody; the next start tries again.
        if !puts_aside {
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
