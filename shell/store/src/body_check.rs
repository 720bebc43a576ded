//! Whether the bodies that records name are in their files, as they were written.
//!
//! Relies on `disk`. Invariant: what is said to be whole was read, or its file is as long as it has to be, as was asked.

use std::io;

use crate::bodies::body_name;
use crate::disk::{Disk, DiskFile, is_lasting};
use crate::error::DamageKind;
use crate::index::Index;
use crate::record::{Body, StreamId, StreamKind};

/// Bytes that are read at once.
const BLOCK_BYTES: u64 = 256 << 10;

/// How much of a body is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// That its file is there and long enough.
    Length,
    /// Every byte.
    Bytes,
}

/// A body that is not as it was, and the record that names it.
#[derive(Debug)]
pub(crate) struct BodyDamage {
    pub(crate) stream: StreamId,
    pub(crate) sequence: u64,
    pub(crate) body: Body,
    pub(crate) what: DamageKind,
}

/// Looks at a body: what is wrong with it, if something is.
///
/// # Errors
/// What keeps it from being read now, and may pass.
pub(crate) fn damage_of(
    file: &mut impl DiskFile,
    body: &Body,
    extent: Extent,
) -> io::Result<Option<DamageKind>> {
    match look(file, body, extent) {
        Ok(None) => Ok(Some(DamageKind::Short)),
        Ok(Some(sum)) if extent == Extent::Bytes && sum != body.checksum => {
            Ok(Some(DamageKind::Body))
        }
        Ok(Some(_)) => Ok(None),
        Err(error) => lasting(error).map(Some),
    }
}

/// The checksum of a body; none if its file is too short.
fn look(file: &mut impl DiskFile, body: &Body, extent: Extent) -> io::Result<Option<u32>> {
    let Body { mut offset, length, .. } = *body;
    let end = offset.saturating_add(length);
    if file.bytes()? < end {
        return Ok(None);
    }
    let mut sum = 0;
    let mut block = vec![0; BLOCK_BYTES.min(length) as usize];
    while extent == Extent::Bytes && offset < end {
        let bytes = (end - offset).min(BLOCK_BYTES) as usize;
        let Some(block) = block.get_mut(..bytes) else { break };
        file.read(offset, block)?;
        sum = crc32c::crc32c_append(sum, block);
        offset += bytes as u64;
    }
    Ok(Some(sum))
}

fn lasting(error: io::Error) -> io::Result<DamageKind> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(DamageKind::Missing),
        kind if is_lasting(&error) => Ok(DamageKind::Unreadable(kind)),
        _ => Err(error),
    }
}

/// Looks at all bodies that records name. Those of topics are read whole, since a server gives them as they are from then on;
/// those of queues are looked at to that extent.
///
/// # Errors
/// When one cannot be looked at now.
pub(crate) fn find_damage<D: Disk>(
    disk: &mut D,
    index: &Index,
    of_queues: Extent,
) -> io::Result<Vec<BodyDamage>> {
    let mut records: Vec<_> = index.bodies().records().collect();
    records.sort_unstable_by_key(|(stream, sequence, body)| (body.file, *stream, *sequence));
    let (mut damaged, mut last) = (Vec::new(), None);
    for (stream, sequence, body) in records {
        let is_topic = index.stream(stream).is_some_and(|it| it.kind == StreamKind::Topic);
        let extent = if is_topic { Extent::Bytes } else { of_queues };
        // Very many queues may have the same one.
        let found = match last {
            Some((known, looked, found)) if (known, looked) == (body, extent) => found,
            _ => match disk.open(&body_name(body.file)) {
                Ok(mut file) => damage_of(&mut file, &body, extent)?,
                Err(error) => Some(lasting(error)?),
            },
        };
        last = Some((body, extent, found));
        if let Some(what) = found {
            damaged.push(BodyDamage { stream, sequence, body, what });
        }
    }
    Ok(damaged)
}
