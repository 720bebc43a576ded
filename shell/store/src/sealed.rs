//! Finds the summary of a segment that was ended, from the end of its file.
//!
//! Relies on `frame` and `summary`. Invariant: what is found belongs to this file and to no other, since the checksums
//! cover the place; anything else is no summary, and the segment is read record by record.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::io;

use crate::disk::DiskFile;
use crate::frame::{FRAME_HEADER_BYTES, Frame, Seed, read};
use crate::header::{HEADER_BYTES, Header, SUMMARIES_FORM};
use crate::record::Record;
use crate::summary::{END_BYTES, SUMMARY_BYTES_MAX};

/// A segment that was ended with a summary.
pub(crate) struct Sealed {
    pub(crate) header: Header,
    /// Bytes of the file.
    pub(crate) bytes: u32,
    /// The summary, in its frame.
    record: Vec<u8>,
}

impl Sealed {
    /// The summary's bytes.
    pub(crate) fn entries(&self) -> &[u8] {
        let payload = self.record.get(FRAME_HEADER_BYTES..).unwrap_or_default();
        match Record::decode(payload) {
            Some(Record::Summary { entries }) => entries,
            _ => &[],
        }
    }
}

/// Where the summary of a segment begins, says its end; `None` if that cannot be read, or says that there is none.
pub(crate) fn summary_start(segment_end: &[u8], bytes: u32, seed: Seed) -> Option<u32> {
    let end = segment_end.last_chunk::<END_BYTES>()?;
    let offset = bytes.checked_sub(END_BYTES as u32)?;
    match lone(end, offset, seed)? {
        Record::End { summary } if (HEADER_BYTES as u32..offset).contains(&summary) => {
            Some(summary)
        }
        _ => None,
    }
}

/// Reads the summary of a segment; `None` if there is none that can be read.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn read_sealed<F: DiskFile>(file: &mut F) -> io::Result<Option<Sealed>> {
    let mut header = [0; HEADER_BYTES];
    let Ok(bytes) = u32::try_from(file.bytes()?) else { return Ok(None) };
    if (bytes as usize) < HEADER_BYTES + END_BYTES {
        return Ok(None);
    }
    file.read(0, &mut header)?;
    let Ok(header) = Header::decode(&header) else { return Ok(None) };
    let seed = Seed::of(&header);
    let offset = bytes - END_BYTES as u32;
    let mut end = [0; END_BYTES];
    file.read(u64::from(offset), &mut end)?;
    let start = summary_start(&end, bytes, seed).filter(|_| header.form >= SUMMARIES_FORM);
    let Some(start) = start else { return Ok(None) };
    let length = (offset - start) as usize;
    if length > SUMMARY_BYTES_MAX + (1 << 10) {
        return Ok(None);
    }
    let mut record = vec![0; length];
    file.read(u64::from(start), &mut record)?;
    let is_summary = matches!(lone(&record, start, seed), Some(Record::Summary { .. }));
    Ok(is_summary.then_some(Sealed { header, bytes, record }))
}

/// The record that these bytes are, if they are exactly one that takes effect by itself.
fn lone(bytes: &[u8], offset: u32, seed: Seed) -> Option<Record<'_>> {
    let Frame { payload, more } = read(bytes, offset, seed).ok()?;
    let is_whole = !more && FRAME_HEADER_BYTES + payload.len() == bytes.len();
    is_whole.then(|| Record::decode(payload)).flatten()
}
