//! A process that is killed while it writes to a real directory: everything it saw acknowledged is there.
//!
//! The test starts its own program again as the process to kill. It waits for acknowledgements, never for time.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout)]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use crate::common::Numbers;
use tiderace_store::{
    Batch, Committer, Declaration, Mark, Notice, OpenError, Options, Outcome, Put, Recovered,
    Store, StreamId, StreamKind,
};

const FOLDER: &str = "TIDERACE_STORE_TEST_FOLDER";
const STREAMS: u64 = 16;
/// Messages kept of each stream.
const KEPT: u64 = 3;
/// Commits under way at once.
const WINDOW: usize = 64;

fn options() -> Options {
    Options { segment_bytes: 64 << 10, reserve_bytes: 1 << 20, ..Options::default() }
}

fn body(number: u64) -> Vec<u8> {
    let length = 8 + number * 37 % 300;
    number.to_le_bytes().into_iter().cycle().take(length as usize).collect()
}

/// Batch `number` puts one message and says how many batches there are.
fn batch(number: u64) -> Batch {
    let stream = StreamId(1 + number % STREAMS);
    let sequence = 1 + number / STREAMS;
    let mut batch = Batch::new();
    if sequence == 1 {
        let (kind, mark) = (StreamKind::Topic, Mark::default());
        let path = format!("topic/{}", stream.0);
        batch.declare(&Declaration { stream, kind, mark, path: &path, spec: b"spec" }).unwrap();
    }
    let keep_from = (sequence + 1).saturating_sub(KEPT);
    let bytes = body(number);
    batch
        .put(&Put {
            stream,
            sequence,
            count: 1,
            version: number,
            keep_from,
            bytes: &bytes,
            body: None,
        })
        .unwrap();
    batch.set("batches", &(number + 1).to_le_bytes()).unwrap();
    batch
}

/// How many batches have survived; all of them must be whole.
fn check(recovered: &Recovered) -> u64 {
    let Some((_, count)) = recovered.values.first() else { return 0 };
    let count = u64::from_le_bytes(count[..].try_into().unwrap());
    for stream in &recovered.streams {
        let remainder = stream.stream.0 - 1;
        let messages = (count + STREAMS - 1 - remainder) / STREAMS;
        assert_eq!(stream.mark.sequence, messages);
        assert_eq!(stream.messages.len() as u64, messages.min(KEPT));
        for message in &stream.messages {
            let number = (message.sequence - 1) * STREAMS + remainder;
            assert_eq!((message.version, &message.bytes[..]), (number, &body(number)[..]));
        }
    }
    assert_eq!(recovered.streams.len() as u64, count.min(STREAMS));
    count
}

/// The process that is killed: writes for ever and prints what was acknowledged.
#[test]
fn writer() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (store, recovered) = Store::open(Path::new(&folder), options()).unwrap();
    let mut number = check(&recovered);
    let (done, dones) = channel();
    let committer = Committer::start(store, move |notice| {
        if let Notice::Done(list) = notice {
            list.iter().for_each(|answer| done.send(*answer).unwrap());
        }
    })
    .unwrap();
    let submitter = committer.submitter(0);
    let mut waiting = VecDeque::new();
    loop {
        while waiting.len() < WINDOW {
            submitter.try_submit(number, batch(number)).unwrap();
            waiting.push_back(number);
            number += 1;
        }
        let answer = dones.recv().unwrap();
        assert_eq!(
            (answer.outcome, Some(answer.ticket)),
            (Outcome::Committed, waiting.pop_front())
        );
        // The line is on its way when the call returns, also if the process is killed right then.
        println!("kept {}", answer.ticket);
        std::io::stdout().flush().unwrap();
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("store-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_a_killed_process_saw_acknowledged_is_there() {
    let folder = Folder::new("kills");
    let mut numbers = Numbers(1);
    let mut known = 0;
    for _ in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kills::writer", "--exact", "--nocapture"])
            .env(FOLDER, &folder.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let wanted = numbers.below(1200);
        let mut acknowledged = None;
        let mut seen = 0;
        let mut is_killed = false;
        // The rest of what it printed is read after its end.
        for line in lines {
            let Ok(line) = line else { break };
            let Some(number) = line.trim().strip_prefix("kept ") else { continue };
            acknowledged = number.parse::<u64>().ok().or(acknowledged);
            seen += 1;
            if seen > wanted && !is_killed {
                child.kill().unwrap();
                is_killed = true;
            }
        }
        assert!(is_killed, "the writer ended by itself");
        child.wait().unwrap();
        let (store, recovered) = Store::open(&folder.0, options()).unwrap();
        let count = check(&recovered);
        assert!(acknowledged.is_none_or(|number| count > number), "{count}, {acknowledged:?}");
        assert!(count >= known);
        known = count;
        drop(store);
    }
    assert!(known > 1000);
}

#[test]
fn a_directory_belongs_to_one_server() {
    let folder = Folder::new("lock");
    let (store, _) = Store::open(&folder.0, options()).unwrap();
    let error = Store::open(&folder.0, options()).map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("store.directory"));
    drop(store);
    Store::open(&folder.0, options()).unwrap();
}

#[test]
fn large_messages_pass_through() {
    let folder = Folder::new("large");
    let (mut store, _) = Store::open(&folder.0, options()).unwrap();
    let body = vec![9; 16 << 20];
    for sequence in 1..=3 {
        let mut batch = Batch::new();
        let stream = StreamId(1);
        let (kind, mark) = (StreamKind::Topic, Mark::default());
        batch.declare(&Declaration { stream, kind, mark, path: "a", spec: b"" }).unwrap();
        let keep_from = sequence;
        batch
            .put(&Put {
                stream,
                sequence,
                count: 1,
                version: 1,
                keep_from,
                bytes: &body,
                body: None,
            })
            .unwrap();
        assert_eq!(store.commit(vec![batch]).0, [Outcome::Committed]);
        store.settle();
        while store.is_cleaning_due() {
            store.clean(1 << 20).unwrap();
        }
    }
    store.close().unwrap();
    let (_, recovered) = Store::open(&folder.0, options()).unwrap();
    assert_eq!(recovered.streams[0].messages.len(), 1);
    assert_eq!(recovered.streams[0].messages[0].bytes.len(), body.len());
}
