//! What holds for any bytes that stand where a record or a segment should: reading them ends, stays inside
//! them, and what is read is what would be written.

use std::io;

use sha2::{Digest, Sha256};
use tiderace_store::{
    ArchiveSink, Header, PortableReader, Record, Seed, StreamId, read_backup, read_summary, scan,
};

/// Reads the bytes as one record, as a header, as a segment, and as records of a segment that was sealed.
pub(crate) fn segment(bytes: &[u8]) {
    record(bytes);
    if let Ok(header) = Header::decode(bytes) {
        assert!(bytes.starts_with(&header.encode()));
    }
    let seed = Seed::new(1, 1);
    read_all(bytes, seed);
    // The same bytes with checksums that fit, so that what comes behind them is reached too.
    let mut sealed = Vec::new();
    for payload in bytes.split(|byte| *byte == 0xfe).filter(|payload| !payload.is_empty()) {
        seed.frame(payload, payload.first() == Some(&b'+'), &mut sealed);
    }
    read_all(&sealed, seed);
}

/// Reads the bytes as the summary of a segment.
pub(crate) fn summary(bytes: &[u8]) {
    for segment_bytes in [100, 100_000, u32::MAX] {
        let mut end = 32u64;
        let _ = read_summary(bytes, segment_bytes, |offset, length, record| {
            assert!(u64::from(offset) >= end && length > 0, "records in their order, and apart");
            end = u64::from(offset) + u64::from(length);
            assert!(end <= u64::from(segment_bytes));
            let mut again = Vec::new();
            record.encode(&mut again);
            assert_eq!(Record::decode(&again).as_ref(), Some(record));
        });
    }
}

/// Reads the bytes as a store in its portable form, and as records of one whose checksums fit.
pub(crate) fn portable(bytes: &[u8]) {
    read_portable(bytes);
    let mut sealed = b"tdrstore\x01\0\0\0".to_vec();
    let seed = Seed::new(u64::from_le_bytes(*b"tdrstore"), 1);
    for payload in bytes.split(|byte| *byte == 0xfe).filter(|payload| !payload.is_empty()) {
        seed.frame(payload, payload.first() == Some(&b'+'), &mut sealed);
    }
    read_portable(&sealed);
}

fn read_portable(bytes: &[u8]) {
    let Ok(mut reader) = PortableReader::begin(bytes) else { return };
    loop {
        let before = reader.bytes();
        match reader.next_record() {
            Ok(Some((record, _))) => {
                let mut again = Vec::new();
                record.encode(&mut again);
                assert_eq!(Record::decode(&again), Some(record));
            }
            Ok(None) | Err(_) => break,
        }
        assert!(reader.bytes() > before && reader.bytes() <= bytes.len() as u64);
    }
}

fn read_all(bytes: &[u8], seed: Seed) {
    let mut last = 0;
    let end = scan(bytes, 0, seed, |offset, frame, record| {
        assert!(offset >= last, "records in their order");
        last = offset + frame.bytes() as u32;
        let mut again = Vec::new();
        record.encode(&mut again);
        assert_eq!(Record::decode(&again), Some(record));
    });
    assert!(end.whole >= last && end.whole as usize <= bytes.len());
    assert!(end.synced <= end.whole);
    assert!(end.error.is_some() || end.ended || last <= end.whole);
}

/// Reads the bytes as one record.
pub(crate) fn record(bytes: &[u8]) {
    let Some(record) = Record::decode(bytes) else { return };
    let mut again = Vec::new();
    record.encode(&mut again);
    // Numbers may have been written longer than necessary.
    assert!(again.len() <= bytes.len());
    assert_eq!(Record::decode(&again), Some(record));
    if let Record::PutShared(shared) = record {
        let mut before = None;
        for (stream, first) in shared.owners.iter() {
            assert!(before.is_none_or(|before: StreamId| before < stream));
            assert!(first.checked_add(u64::from(shared.count) - 1).is_some());
            let put = shared.of(stream, first);
            assert_eq!((put.last(), put.bytes), (put.version, shared.bytes));
            before = Some(stream);
        }
        let last = before.unwrap();
        let is_volatile = |(stream, _): (StreamId, u64)| stream.is_volatile() == last.is_volatile();
        assert!(shared.owners.iter().all(is_volatile));
    }
    if let Record::SettleMany { stretches } = record {
        let is_volatile = |(stream, ..): (StreamId, u64, u64)| stream.is_volatile();
        let volatile = stretches.iter().filter(|it| is_volatile(*it)).count();
        let all = stretches.iter().count();
        assert!(all > 0 && (volatile == 0 || volatile == all));
        assert!(stretches.iter().all(|(_, first, last)| first <= last));
    }
    if let Record::Settle { ranges, .. } = record {
        let mut before = None;
        for (first, last) in ranges.iter() {
            assert!(first <= last && before.is_none_or(|before| before < first));
            before = Some(last);
        }
    }
}

/// Reads the bytes as a backup, and as the names and contents of one whose heads and digests fit.
pub(crate) fn backup(bytes: &[u8]) {
    read_archive(bytes);
    read_archive(&repaired(bytes.to_vec()));
    let parts = bytes.split(|byte| *byte == 0xfe);
    let members: Vec<(&[u8], &[u8])> = parts
        .map(|part| {
            let end = part.iter().position(|byte| *byte == 0xfd).unwrap_or(part.len());
            (&part[..end.min(99)], &part[(end + 1).min(part.len())..])
        })
        .collect();
    read_archive(&archive_of(&members));
}

fn read_archive(bytes: &[u8]) {
    let mut sink = Checked::default();
    if let Ok(contents) = read_backup(bytes, &mut sink) {
        assert!(!sink.is_open && contents.segments > 0);
        assert_eq!((contents.segments + contents.bodies) as usize, sink.names.len());
        assert_eq!(contents.bytes, sink.bytes);
    }
    assert!(sink.bytes <= bytes.len() as u64);
}

/// Takes what an archive has, and asserts that it may have it.
#[derive(Default)]
struct Checked {
    names: Vec<String>,
    is_open: bool,
    bytes: u64,
}

impl ArchiveSink for Checked {
    fn begin(&mut self, name: &str) -> io::Result<()> {
        let digits = name.strip_suffix(".log").or(name.strip_suffix(".body"));
        let digits = digits.expect("the ending of a file in a store");
        assert!(digits.len() >= 10 && digits.bytes().all(|byte| byte.is_ascii_digit()));
        assert!(!self.is_open && !self.names.iter().any(|known| known == name));
        self.is_open = true;
        self.names.push(name.to_owned());
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        assert!(self.is_open && !bytes.is_empty());
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        assert!(std::mem::take(&mut self.is_open));
        Ok(())
    }
}

/// An archive with these files and their digests, as others could write it.
pub(crate) fn archive_of(members: &[(&[u8], &[u8])]) -> Vec<u8> {
    let (mut out, mut sums) = (Vec::new(), Vec::new());
    for (name, content) in members {
        member(&mut out, name, content);
        let digest = Sha256::digest(content);
        sums.extend(digest.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()));
        sums.extend([b"  ", *name, b"\n"].concat());
    }
    member(&mut out, b"SHA256SUMS", &sums);
    out.resize(out.len() + 1024, 0);
    repaired(out)
}

fn member(out: &mut Vec<u8>, name: &[u8], content: &[u8]) {
    let mut head = [0u8; 512];
    head[..name.len()].copy_from_slice(name);
    head[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    head[156] = b'0';
    head[257..265].copy_from_slice(b"ustar\x0000");
    out.extend(head);
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(512), 0);
}

/// The same with a sum in every head that fits its bytes, as far as heads follow each other.
pub(crate) fn repaired(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(head) = bytes.get_mut(at..at + 512) {
        if head.iter().all(|byte| *byte == 0) {
            break;
        }
        head[148..156].fill(b' ');
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let octal = std::str::from_utf8(&head[124..135]).ok();
        let length = octal.and_then(|text| usize::from_str_radix(text, 8).ok()).unwrap_or(0);
        at += 512 + length.next_multiple_of(512);
    }
    bytes
}
