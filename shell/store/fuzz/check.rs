//! What holds for any bytes that stand where a record or a segment should: reading them ends, stays inside
//! them, and what is read is what would be written.

use tiderace_store::{Header, PortableReader, Record, Seed, StreamId, read_summary, scan};

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
