//! Segments of a simulated disk, with their summaries and without.

use tiderace_store::{Header, Record, Seed, scan};

use super::Numbers;
use super::disk::SimulatedDisk;

const HEADER_BYTES: u32 = 32;
/// A record that ends a segment and says where its summary begins.
const END_BYTES: usize = 13;

/// The names of all segments.
pub(crate) fn segments(disk: &SimulatedDisk) -> Vec<String> {
    disk.list().into_iter().filter(|name| name.ends_with(".log")).collect()
}

/// Where the summary of a segment lies.
pub(crate) fn summary_of(segment: &[u8]) -> Option<std::ops::Range<usize>> {
    let header = Header::decode(segment).unwrap();
    let mut found = None;
    let seed = Seed::new(header.salt, header.number);
    scan(segment, HEADER_BYTES, seed, |offset, frame, record| {
        if let Record::Summary { .. } = record {
            found = Some(offset as usize..offset as usize + frame.bytes());
        }
    });
    found.filter(|found| found.end + END_BYTES == segment.len())
}

/// The same store as it would be if no summary had been worth its bytes.
pub(crate) fn without_summaries(disk: &SimulatedDisk) -> SimulatedDisk {
    let other = disk.copy();
    for name in segments(disk) {
        let mut content = disk.content(&name);
        let Some(summary) = summary_of(&content) else { continue };
        let header = Header::decode(&content).unwrap();
        content.truncate(summary.start);
        Seed::new(header.salt, header.number).frame(&[17], false, &mut content);
        other.replace(&name, content);
    }
    other
}

/// The same store with a bit of each summary flipped.
pub(crate) fn with_damaged_summaries(disk: &SimulatedDisk, numbers: &mut Numbers) -> SimulatedDisk {
    let other = disk.copy();
    for name in segments(disk) {
        let mut content = disk.content(&name);
        let Some(summary) = summary_of(&content) else { continue };
        let at = summary.start as u64 + numbers.below(summary.len() as u64);
        content[at as usize] ^= 1 << numbers.below(8);
        other.replace(&name, content);
    }
    other
}
