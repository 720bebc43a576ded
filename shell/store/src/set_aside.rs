//! What cannot be read is kept beside the log when the log is written anew without it.
//!
//! Relies on `disk` and `error`. A part of a segment is copied to a file of its own, named by segment and offset; a segment
//! of which nothing certain is known, or that the device does not give, keeps its file under another name. Invariants: no
//! damaged bytes are removed before they are kept, as far as they can be read and the copies stay within their bound; what is
//! not copied is counted.

use std::collections::BTreeSet;
use std::io;

use crate::bodies::body_number;
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, DamageKind};
use crate::header::segment_number;
use crate::log::Log;
use crate::recovered::{Report, SetAside};

/// Ends the names of the files.
const ENDING: &str = ".damaged";
/// Bytes of all copies together, those of earlier times too.
const COPIES_BYTES_MAX: u64 = 64 << 20;
/// Files of copies.
const COPIES_MAX: usize = 1000;

/// Whether that is the name of a file with damaged bytes.
pub(crate) fn is_set_aside(name: &str) -> bool {
    name.ends_with(ENDING)
}

/// The name that a file had before it was kept for its damage.
pub(crate) fn before_aside(name: &str) -> &str {
    name.strip_suffix(ENDING).unwrap_or(name)
}

/// Whether that is a copy of damaged bytes, or a segment, but no file of a body: those have no bound together.
fn is_part_set_aside(name: &str) -> bool {
    name.strip_suffix(ENDING).is_some_and(|name| body_number(name).is_none())
}

/// The name of a segment that is kept as a whole.
pub(crate) fn aside_name(segment: &str) -> String {
    format!("{segment}{ENDING}")
}

/// Keeps what is damaged beside the log, and writes everything else into new segments.
///
/// # Errors
/// When that cannot be done.
pub(crate) fn put_aside<D: Disk>(log: &mut Log<D>, report: &mut Report) -> io::Result<()> {
    let (copies, not_copied) = copy_damaged(&mut log.disk, &report.damage)?;
    (report.set_aside, report.not_set_aside) = (copies, not_copied);
    let whole = whole_segments(&report.damage);
    let renamed = log.write_again(&whole).map_err(io::Error::other)?;
    report.set_aside.extend(renamed);
    Ok(())
}

/// The segments that are to be kept as a whole.
fn whole_segments(damage: &[Damage]) -> BTreeSet<u32> {
    let of_whole = damage.iter().filter(|damage| is_of_whole(damage.what));
    of_whole.filter_map(|damage| segment_number(&damage.file)).collect()
}

fn is_of_whole(what: DamageKind) -> bool {
    match what {
        DamageKind::Header(_)
        | DamageKind::Misplaced { .. }
        | DamageKind::Unreadable(_)
        | DamageKind::Undeclared => true,
        // There are no bytes, or they are a file's own.
        DamageKind::Record(_) | DamageKind::Body | DamageKind::Short | DamageKind::Missing => false,
    }
}

/// Copies the damaged parts of segments that are not kept as a whole; says what was copied, and how many bytes were not.
///
/// # Errors
/// When they cannot be read or written.
fn copy_damaged<D: Disk>(disk: &mut D, damage: &[Damage]) -> io::Result<(Vec<SetAside>, u64)> {
    let whole = whole_segments(damage);
    let mut left = COPIES_BYTES_MAX;
    for name in disk.names()?.into_iter().filter(|name| is_part_set_aside(name)) {
        left = left.saturating_sub(disk.open(&name)?.bytes()?);
    }
    let (mut copies, mut not_copied) = (Vec::new(), 0);
    for damage in damage {
        let is_part = matches!(damage.what, DamageKind::Record(_)) && damage.bytes > 0;
        if !is_part || segment_number(&damage.file).is_none_or(|number| whole.contains(&number)) {
            continue;
        }
        if damage.bytes > left || copies.len() >= COPIES_MAX {
            not_copied += damage.bytes;
            continue;
        }
        left -= damage.bytes;
        copies.push(copy(disk, damage)?);
    }
    if !copies.is_empty() {
        disk.sync_names()?;
    }
    Ok((copies, not_copied))
}

fn copy<D: Disk>(disk: &mut D, damage: &Damage) -> io::Result<SetAside> {
    let mut bytes = vec![0; usize::try_from(damage.bytes).map_err(io::Error::other)?];
    disk.open(&damage.file)?.read(damage.offset, &mut bytes)?;
    let name = format!("{}.{}{ENDING}", damage.file, damage.offset);
    let mut file = disk.create(&name)?;
    file.append(&[&bytes])?;
    file.sync()?;
    Ok(SetAside { file: name, bytes: damage.bytes })
}
