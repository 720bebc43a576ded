//! Bodies come whole, within their limits, and leave nothing behind.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;
use proptest::prelude::*;
use tiderace_bodies::Maps;
use tiderace_spool::{BEHIND_BYTES_MAX, Options, Spool, SpoolError, Upload, Usage};

struct Directory(std::path::PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let name = format!("tiderace-spool-{}-{name}", std::process::id());
        Directory(std::env::temp_dir().join(name))
    }

    fn spool(&self, change: impl FnOnce(&mut Options)) -> Spool {
        let mut options = Options {
            directory: self.0.clone(),
            disk_bytes_max: 64 << 20,
            owner_bytes_max: 64 << 20,
            uploads_max: 8,
            owner_uploads_max: 8,
        };
        change(&mut options);
        Spool::open(options, Maps::open().unwrap()).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let left: Vec<_> = std::fs::read_dir(&self.0).map(Iterator::collect).unwrap_or_default();
        assert!(left.is_empty() || std::thread::panicking(), "{left:?}");
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn begin(spool: &Spool, owner: &str) -> Result<(Upload, Receiver<()>), SpoolError> {
    let (sender, woken) = channel();
    let wake = Box::new(move || sender.send(()).unwrap_or(()));
    Ok((spool.begin(&Arc::from(owner), wake)?, woken))
}

fn whole(upload: &mut Upload, woken: &Receiver<()>) -> Result<Bytes, SpoolError> {
    upload.finish();
    while upload.outcome().is_none() {
        woken.recv().unwrap();
    }
    upload.outcome().unwrap().clone()
}

/// Waits until all files are gone: they are unmapped by a thread of its own.
fn emptied(spool: &Spool) {
    while spool.usage().bytes > 0 {
        std::thread::yield_now();
    }
}

/// Waits until the writer thread has done what it was asked before.
fn settle(spool: &Spool) {
    // The places of what was given up are free when the thread has come to it.
    let (mut upload, woken) = loop {
        match begin(spool, "settle") {
            Ok(begun) => break begun,
            Err(_) => std::thread::yield_now(),
        }
    };
    assert!(whole(&mut upload, &woken).unwrap().is_empty());
}

#[test]
fn what_nobody_needs_takes_no_space() {
    let directory = Directory::new("space");
    let spool = directory.spool(|_| {});
    let (mut upload, woken) = begin(&spool, "a").unwrap();
    upload.append(&vec![7; 1 << 20]).unwrap();
    let body = whole(&mut upload, &woken).unwrap();
    let part = body.slice(1000..2000);
    assert_eq!(
        spool.usage(),
        Usage { bytes: 1 << 20, uploads: 0, bodies_total: 1, failed_total: 0 }
    );
    drop((upload, body));
    settle(&spool);
    assert_eq!(spool.usage().bytes, 1 << 20, "a part is needed yet");
    assert_eq!(&part[..], &[7; 1000]);
    drop(part);
    emptied(&spool);
    assert_eq!((spool.usage().bytes, spool.usage().uploads), (0, 0));
}

#[test]
fn what_was_kept_before_counts_and_is_found_by_its_bytes() {
    let directory = Directory::new("kept");
    let maps = Maps::open().unwrap();
    let options = Options {
        directory: directory.0.clone(),
        disk_bytes_max: 2 << 20,
        owner_bytes_max: 3 << 19,
        uploads_max: 1,
        owner_uploads_max: 1,
    };
    let spool = Spool::open(options, maps.clone()).unwrap();
    let kept = spool.charge(None, 3 << 20);
    let (mut upload, _) = begin(&spool, "a").unwrap();
    assert_eq!(upload.append(b"x").unwrap_err(), SpoolError::Full);
    drop((upload, kept));
    settle(&spool);
    let kept = spool.charge(Some("a".into()), 1 << 20);
    for (owner, refused) in [("b", None), ("a", Some(SpoolError::OwnerFull))] {
        let (mut upload, _) = begin(&spool, owner).unwrap();
        assert_eq!(upload.append(&vec![7; 600_000]).err(), refused, "{owner}");
        drop(upload);
        settle(&spool);
    }
    drop(kept);
    settle(&spool);
    let (mut upload, woken) = begin(&spool, "a").unwrap();
    upload.append(&vec![7; 100_000]).unwrap();
    let body = whole(&mut upload, &woken).unwrap();
    let part = maps.find(&body.slice(5..)).unwrap();
    assert_eq!((part.offset, part.body.len(), part.file.bytes()), (5, 99_995, 100_000));
    drop((part, body, upload));
    emptied(&spool);
}

#[test]
fn one_that_is_given_up_takes_no_space() {
    let directory = Directory::new("given-up");
    let spool = directory.spool(|options| {
        (options.uploads_max, options.owner_uploads_max) = (32, 32);
    });
    for number in 0..20 {
        let (mut upload, _woken) = begin(&spool, "a").unwrap();
        upload.append(&vec![7; 300_000]).unwrap();
        if number % 2 == 0 {
            upload.finish();
        }
    }
    settle(&spool);
    emptied(&spool);
    let Usage { bytes, uploads, bodies_total, failed_total } = spool.usage();
    // Those that were finished first may have been whole before they were given up.
    assert_eq!((bytes, uploads, bodies_total + failed_total), (0, 0, 21));
    assert!(failed_total >= 10);
}

#[test]
fn limits_hold_for_all_and_for_each_owner() {
    let directory = Directory::new("limits");
    let spool = directory.spool(|options| {
        options.disk_bytes_max = 3 << 20;
        options.owner_bytes_max = 2 << 20;
        options.uploads_max = 3;
        options.owner_uploads_max = 2;
    });
    let mib = vec![1; 1 << 20];
    let (mut first, _) = begin(&spool, "a").unwrap();
    let (mut second, _) = begin(&spool, "a").unwrap();
    assert_eq!(begin(&spool, "a").unwrap_err(), SpoolError::OwnerHasTooMany);
    let (mut third, _) = begin(&spool, "b").unwrap();
    assert_eq!(begin(&spool, "b").unwrap_err(), SpoolError::TooManyUploads);
    first.append(&mib).unwrap();
    second.append(&mib).unwrap();
    assert_eq!(first.append(&mib).unwrap_err(), SpoolError::OwnerFull);
    third.append(&mib).unwrap();
    assert_eq!(third.append(&mib).unwrap_err(), SpoolError::Full);
    assert_eq!(spool.usage().bytes, 3 << 20);
    drop((first, second, third));
    settle(&spool);
    assert_eq!((spool.usage().bytes, spool.usage().uploads), (0, 0));
    let (mut again, _) = begin(&spool, "a").unwrap();
    again.append(&mib).unwrap();
}

#[test]
fn nothing_is_appended_behind_the_end() {
    let directory = Directory::new("end");
    let spool = directory.spool(|_| {});
    let (mut upload, woken) = begin(&spool, "a").unwrap();
    upload.append(b"all").unwrap();
    let body = whole(&mut upload, &woken).unwrap();
    assert_eq!(upload.append(b"more").unwrap_err(), SpoolError::GivenUp);
    assert_eq!(&body[..], b"all");
}

#[test]
fn who_is_behind_is_woken() {
    let directory = Directory::new("behind");
    let spool = directory.spool(|_| {});
    let (mut upload, woken) = begin(&spool, "a").unwrap();
    let mut sent = 0;
    while sent < 32 << 20 {
        while upload.is_behind() {
            woken.recv().unwrap();
        }
        assert!((upload.memory_bytes() as u64) < BEHIND_BYTES_MAX);
        upload.append(&[9; 60_000]).unwrap();
        sent += 60_000;
    }
    let body = whole(&mut upload, &woken).unwrap();
    assert_eq!((body.len(), upload.len()), (sent, sent as u64));
    assert!(body.iter().all(|byte| *byte == 9));
}

#[test]
fn a_directory_that_cannot_be_written_is_said_at_the_start() {
    let file = std::env::temp_dir().join(format!("tiderace-spool-{}-file", std::process::id()));
    std::fs::write(&file, "x").unwrap();
    let options = Options {
        directory: file.join("below"),
        disk_bytes_max: 1,
        owner_bytes_max: 1,
        uploads_max: 1,
        owner_uploads_max: 1,
    };
    assert!(Spool::open(options, Maps::open().unwrap()).is_err());
    std::fs::remove_file(file).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn bodies_come_as_they_were_appended(
        pieces in proptest::collection::vec((0usize..200_000, any::<u8>(), 0usize..3), 1..30),
    ) {
        let directory = Directory::new("pieces");
        let spool = directory.spool(|_| {});
        let mut uploads: Vec<_> = (0..3).map(|_| begin(&spool, "a").unwrap()).collect();
        let mut wanted = vec![Vec::new(); 3];
        for (bytes, byte, to) in pieces {
            let piece: Vec<u8> = (0..bytes).map(|at| byte ^ (at % 251) as u8).collect();
            uploads[to].0.append(&piece).unwrap();
            wanted[to].extend_from_slice(&piece);
        }
        for ((upload, woken), wanted) in uploads.iter_mut().zip(wanted) {
            let body = whole(upload, woken);
            prop_assert!(body.unwrap() == wanted);
        }
    }
}
