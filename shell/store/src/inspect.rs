//! Looks at a store without changing it: what a server that starts would find.
//!
//! Relies on `recover`, on a directory where nothing is written. Invariant: the directory is the same
//! afterwards, and what is said of damage is what opening says.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::header::{segment_name, segment_number};
use crate::log::SegmentBytes;
use crate::onlooker::Onlooker;
use crate::opened::{Opened, Opening};
use crate::opening::open;
use crate::options::{Options, SEGMENT_BYTES_MAX};
use crate::recovered::{Recovered, SetAside};
use crate::set_aside::is_set_aside;
use crate::store::Store;

/// A store that was looked at.
#[derive(Debug)]
pub struct Inspected {
    /// Its segments, oldest first.
    pub segments: Vec<InspectedSegment>,
    /// Files with bodies of large messages, and their bytes.
    pub bodies: (u64, u64),
    /// Files beside it with bytes that were damaged when the store was opened and that was accepted.
    pub set_aside: Vec<SetAside>,
    /// What is in it, and what is damaged.
    pub recovered: Recovered,
}

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedSegment {
    /// Its name.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// How much of it is needed; unknown if the store is damaged.
    pub needed: Option<u64>,
}

/// A store that cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// A server has it open.
    #[error(
        "{directory} is in use by a server, which writes there; stop it first, or look at a copy"
    )]
    InUse {
        /// Which directory.
        directory: PathBuf,
    },
    /// Not a store.
    #[error("there is no store in {directory}: it has no segment such as 0000000001.log")]
    Absent {
        /// Which directory.
        directory: PathBuf,
    },
    /// It cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// How much of a store is read to look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Every record: any damage is found.
    AtAll,
    /// What a server reads when it starts: damage to messages of queues is not found.
    AtSummaries,
}

/// Looks at the store in a directory.
///
/// # Errors
/// When it is in use, is none, or cannot be read. Damage is no error here.
pub fn inspect(directory: &Path, look_at: Look) -> Result<Inspected, InspectError> {
    let (opened, Files { mut segments, set_aside }) = look(directory, look_at == Look::AtAll)?;
    let Opened { log, recovered, .. } = opened;
    if recovered.report.damage.is_empty() {
        for (segment, number) in log.segments.iter().zip(log.oldest..) {
            let name = segment_name(number);
            if let Some(known) = segments.iter_mut().find(|known| known.file == name) {
                known.needed = Some(segment.live);
            }
        }
        // The others are not there for the log any more.
        segments.iter_mut().for_each(|segment| _ = segment.needed.get_or_insert(0));
    }
    let needed = log.index.bodies();
    let bodies = (needed.count() as u64, needed.bytes());
    Ok(Inspected { segments, bodies, set_aside, recovered })
}

/// Opens a store to read what is in it; whatever is written to it is forgotten.
///
/// # Errors
/// As [`inspect`].
pub(crate) fn open_quiet(directory: &Path) -> Result<(Store<Onlooker>, Recovered), InspectError> {
    let (opened, _) = look(directory, false)?;
    let options = Options { reserve_bytes: 0, ..Options::default() };
    Ok(Store::of_log(opened, options))
}

/// The files of a directory that matter to a store.
struct Files {
    segments: Vec<InspectedSegment>,
    set_aside: Vec<SetAside>,
}

fn look(directory: &Path, is_thorough: bool) -> Result<(Opened<Onlooker>, Files), InspectError> {
    let refused = |error: io::Error| match error.kind() {
        ErrorKind::WouldBlock => InspectError::InUse { directory: directory.to_owned() },
        _ => {
            let (directory, what) = (directory.to_owned(), "look at the store");
            OpenError::System { directory, what, error }.into()
        }
    };
    let mut disk = Onlooker::open(directory).map_err(refused)?;
    let segments = lengths(&mut disk, |name| segment_number(name).is_some()).map_err(refused)?;
    let segment = |(file, bytes)| InspectedSegment { file, bytes, needed: None };
    let segments: Vec<InspectedSegment> = segments.into_iter().map(segment).collect();
    let set_aside = lengths(&mut disk, is_set_aside).map_err(refused)?;
    let set_aside = set_aside.into_iter().map(|(file, bytes)| SetAside { file, bytes }).collect();
    if segments.is_empty() {
        return Err(InspectError::Absent { directory: directory.to_owned() });
    }
    let segment_bytes = SegmentBytes(SEGMENT_BYTES_MAX);
    let opening = Opening { segment_bytes, accept_damage: true, is_thorough, salt: 0 };
    Ok((open(disk, directory, opening)?, Files { segments, set_aside }))
}

/// The files with such names, and their lengths.
fn lengths(disk: &mut Onlooker, is_one: impl Fn(&str) -> bool) -> io::Result<Vec<(String, u64)>> {
    let mut names = disk.names()?;
    names.retain(|name| is_one(name));
    names.sort_unstable();
    let mut files = Vec::with_capacity(names.len());
    for file in names {
        let bytes = disk.open(&file)?.bytes()?;
        files.push((file, bytes));
    }
    Ok(files)
}
