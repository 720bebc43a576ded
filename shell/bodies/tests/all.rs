//! What is mapped is what is in the file, and is found again.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use tiderace_bodies::{BodyFile, Charge, Kept, Maps, checksum};

fn file(name: &str, content: &[u8], charge: Option<Charge>) -> Arc<BodyFile> {
    let name = format!("tiderace-bodies-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut file =
        File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(content).unwrap();
    Arc::new(BodyFile::new(file, content.len() as u64, charge))
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 % 251) as u8).collect()
}

#[test]
fn parts_are_known_by_where_they_lie() {
    let maps = Maps::open().unwrap();
    let (one, other) = (content(300_000), content(10_000));
    let files = [file("one", &one, None), file("other", &other, None)];
    // Also where no page begins.
    let body = maps.map(&files[0], 5_001, 290_000).unwrap();
    let second = maps.map(&files[1], 0, 10_000).unwrap();
    assert_eq!(body, &one[5_001..295_001]);
    let found = maps.find(&body.slice(100..200)).unwrap();
    assert!(Arc::ptr_eq(&found.file, &files[0]));
    assert_eq!((found.offset, &found.body[..]), (5_101, &one[5_101..5_201]));
    let found = maps.find(&second).unwrap();
    assert!(Arc::ptr_eq(&found.file, &files[1]));
    assert!(maps.find(&Bytes::from(vec![1; 100])).is_none(), "in memory");
    drop(body);
    let again = maps.map(&files[0], 0, 300_000).unwrap();
    assert_eq!(maps.find(&again.slice(7..)).unwrap().offset, 7);
    assert!(maps.map(&files[1], 1, 10_000).is_err(), "beyond the end");
    assert!(maps.map(&files[1], 5, 0).unwrap().is_empty());
}

#[test]
fn a_checksum_is_that_of_the_part() {
    let bytes = content(700_000);
    let file = file("sum", &bytes, None).open().unwrap();
    for (offset, length) in [(0, 700_000), (1, 600_000), (699_999, 1), (3, 0), (0, 700_000)] {
        let wanted = crc32c::crc32c(&bytes[offset..offset + length]);
        assert_eq!(checksum(&file, offset as u64, length as u64).unwrap(), wanted);
    }
    assert!(checksum(&file, 1, 700_000).is_err(), "shorter");
}

#[test]
fn few_files_stay_open_and_none_that_the_store_has() {
    let maps = Maps::open().unwrap();
    let files: Vec<_> = (0..300).map(|_| file("open", b"content", None)).collect();
    let bodies: Vec<Bytes> = files.iter().map(|it| maps.map(it, 0, 7).unwrap()).collect();
    let open = files.iter().filter(|it| it.open().is_some()).count();
    assert_eq!(open, 256);
    assert!(files[0].open().is_none() && files[299].open().is_some());
    assert!(bodies.iter().all(|body| body == "content"));
    let kept = Kept { number: 1, offset: 2, length: 5 };
    let of_store = Arc::new(BodyFile::kept(files[299].open().unwrap(), kept, None));
    assert_eq!(maps.map(&of_store, 2, 5).unwrap(), "ntent");
    assert!(of_store.open().is_none());
    assert!(maps.map(&of_store, 2, 5).is_err(), "closed");
}

#[test]
fn the_charge_goes_with_the_last_who_has_the_bytes() {
    let maps = Maps::open().unwrap();
    let charge: Arc<str> = Arc::from("charge");
    let held: Charge = Arc::new(charge.clone());
    let file = file("charge", &content(100), Some(held));
    let body = maps.map(&file, 0, 100).unwrap();
    drop(file);
    let rest = body.slice(50..);
    drop(body);
    assert_eq!(Arc::strong_count(&charge), 2);
    drop(rest);
    // The thread that unmaps comes to it.
    while Arc::strong_count(&charge) > 1 {
        std::thread::yield_now();
    }
    assert!(maps.find(&Bytes::from_static(b"x")).is_none());
}
