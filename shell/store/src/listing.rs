//! Which segments a directory has, and which of them are needed.
//!
//! Relies on `header`. Invariants: a file that was never finished, or that the log says is not needed, is removed
//! before anything is read; a segment of a newer form is refused before anything is removed.

use std::io;

use crate::disk::{Disk, DiskFile};
use crate::header::{HEADER_BYTES, Header, HeaderError, segment_name, segment_number};

/// The segments of a directory.
pub(crate) struct Listing {
    /// Those that are needed, rising.
    pub(crate) numbers: Vec<u32>,
    /// Segments below this are not needed, say the headers.
    pub(crate) oldest: u32,
    /// There were segments, needed or not.
    pub(crate) is_store: bool,
}

/// Why segments cannot be listed.
pub(crate) enum ListError {
    /// What was tried, and the disk's answer.
    System(&'static str, io::Error),
    /// The segment has a form that only a newer version knows.
    TooNew(u32, u32),
}

/// Lists the segments, and removes what is not needed.
pub(crate) fn list<D: Disk>(disk: &mut D) -> Result<Listing, ListError> {
    let names = disk.names().map_err(|error| ListError::System("list the files", error))?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    let (mut oldest, mut salt) = (0, None);
    for number in &numbers {
        match read_header(disk, *number) {
            // One that came from another store, or has another's name, says nothing of this one.
            Ok(Ok(header)) if header.number != *number => {}
            Ok(Ok(header)) if *salt.get_or_insert(header.salt) != header.salt => {}
            Ok(Ok(header)) => oldest = oldest.max(header.oldest),
            Ok(Err(HeaderError::Version(form))) => return Err(ListError::TooNew(*number, form)),
            Ok(Err(_)) => {}
            Err(error) => return Err(ListError::System("read a segment", error)),
        }
    }
    for name in names.iter().filter(|name| name.ends_with(".new")) {
        let removed = disk.remove(name);
        removed.map_err(|error| ListError::System("remove an unfinished file", error))?;
    }
    let is_store = !numbers.is_empty();
    let needed = numbers.partition_point(|number| *number < oldest);
    for number in numbers.drain(..needed) {
        let removed = disk.remove(&segment_name(number));
        removed.map_err(|error| ListError::System("remove an old segment", error))?;
    }
    Ok(Listing { numbers, oldest, is_store })
}

fn read_header<D: Disk>(disk: &mut D, number: u32) -> io::Result<Result<Header, HeaderError>> {
    let mut bytes = [0; HEADER_BYTES];
    match disk.open(&segment_name(number)).and_then(|mut file| file.read(0, &mut bytes)) {
        Ok(()) => Ok(Header::decode(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Err(HeaderError::Foreign)),
        Err(error) => Err(error),
    }
}
