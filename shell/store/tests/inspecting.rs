//! Looking at a store changes nothing and says what opening would.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tiderace_store::{
    Batch, Declaration, InspectError, Look, Mark, Options, Put, Store, StreamId, StreamKind,
    inspect,
};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tiderace-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(&self.0).unwrap().map(Result::unwrap);
        let file = |entry: std::fs::DirEntry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        };
        entries.map(file).collect()
    }

    fn segments(&self) -> Vec<String> {
        self.files().into_keys().filter(|name| name.ends_with(".log")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Three streams with values of 10 kB in several segments.
fn fill(folder: &Path) {
    let options = Options { segment_bytes: 64 << 10, reserve_bytes: 0, ..Options::default() };
    let (mut store, _) = Store::open(folder, options).unwrap();
    let value = vec![b'x'; 10_000];
    for round in 1..=8u64 {
        let mut batch = Batch::new();
        for stream in 1..=3 {
            let (path, mark) = (format!("fx/{stream}"), Mark { sequence: 0, version: 0 });
            if round == 1 {
                let (kind, stream) = (StreamKind::Topic, StreamId(stream));
                let spec = b"{}";
                batch.declare(&Declaration { stream, kind, mark, path: &path, spec }).unwrap();
            }
            let (stream, count) = (StreamId(stream), 1);
            let (sequence, version, keep_from) = (round, round, round.saturating_sub(5));
            let bytes = &value;
            batch
                .put(&Put { stream, sequence, count, version, keep_from, bytes, body: None })
                .unwrap();
        }
        batch.set("views/1", b"map a to b").unwrap();
        let (outcomes, problem) = store.commit(vec![batch]);
        assert!(problem.is_none(), "{outcomes:?}");
    }
}

#[test]
fn what_is_there_is_said_and_nothing_is_changed() {
    let folder = Folder::new("inspect");
    fill(&folder.0);
    // A torn end, and a file that was never finished.
    let last = folder.segments().pop().unwrap();
    let mut bytes = std::fs::read(folder.0.join(&last)).unwrap();
    bytes.extend_from_slice(b"torn");
    std::fs::write(folder.0.join(&last), bytes).unwrap();
    std::fs::write(folder.0.join("0000000099.log.new"), b"unfinished").unwrap();
    let before = folder.files();
    let seen = inspect(&folder.0, Look::AtAll).unwrap();
    assert_eq!(folder.files(), before);
    assert!(seen.segments.len() > 2);
    for segment in &seen.segments {
        assert_eq!(segment.bytes, before[&segment.file].len() as u64);
        assert!(segment.needed.unwrap() <= segment.bytes);
    }
    assert_eq!(seen.recovered.report.cut, 4);
    assert_eq!(seen.recovered.report.damage, []);
    // Opening cuts the torn end off.
    let quick = inspect(&folder.0, Look::AtSummaries).unwrap();
    let (_, opened) = Store::open(&folder.0, Options::default()).unwrap();
    assert_eq!(seen.recovered.streams, opened.streams);
    assert_eq!((quick.recovered.streams, quick.segments), (opened.streams.clone(), seen.segments));
    assert_eq!(seen.recovered.values, opened.values);
}

#[test]
fn damage_is_said_with_its_place_and_stays() {
    let folder = Folder::new("inspect-damage");
    fill(&folder.0);
    let names = folder.segments();
    let (first, second) = (&names[0], &names[1]);
    let mut bytes = std::fs::read(folder.0.join(first)).unwrap();
    bytes[20_000] ^= 1;
    std::fs::write(folder.0.join(first), bytes).unwrap();
    std::fs::remove_file(folder.0.join(second)).unwrap();
    let before = folder.files();
    let seen = inspect(&folder.0, Look::AtAll).unwrap();
    assert_eq!(folder.files(), before);
    let damage = &seen.recovered.report.damage;
    assert!(damage.iter().any(|damage| {
        &damage.file == first && (1..=20_000).contains(&damage.offset) && damage.bytes > 0
    }));
    assert!(damage.iter().any(|damage| &damage.file == second && damage.bytes == 0));
    assert!(seen.segments.iter().all(|segment| segment.needed.is_none()));
    assert!(Store::open(&folder.0, Options::default()).is_err(), "the same that a server finds");
    assert_eq!(seen.set_aside, [], "nothing was made");
    // A server that accepts it keeps the bytes, and that is said from then on.
    let accepting = Options { accept_damage: true, ..Options::default() };
    let (store, opened) = Store::open(&folder.0, accepting).unwrap();
    drop(store);
    let seen = inspect(&folder.0, Look::AtAll).unwrap();
    assert_eq!(seen.recovered.report.damage, []);
    assert!(!seen.set_aside.is_empty());
    assert_eq!(seen.set_aside, opened.report.set_aside);
}

#[test]
fn a_store_in_use_and_none_are_refused() {
    let folder = Folder::new("inspect-refused");
    fill(&folder.0);
    let (store, _) = Store::open(&folder.0, Options::default()).unwrap();
    assert!(matches!(inspect(&folder.0, Look::AtAll), Err(InspectError::InUse { .. })));
    drop(store);
    assert!(inspect(&folder.0, Look::AtAll).is_ok());
    let empty = Folder::new("inspect-empty");
    assert!(matches!(inspect(&empty.0, Look::AtAll), Err(InspectError::Open(_))));
    std::fs::create_dir_all(&empty.0).unwrap();
    assert!(matches!(inspect(&empty.0, Look::AtAll), Err(InspectError::Absent { .. })));
    assert_eq!(empty.files().len(), 0, "nothing was made");
}
