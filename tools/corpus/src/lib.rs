//! Replays the corpora of fuzz targets in ordinary tests, and inputs that are close to them; plays golden
//! conversations ([`transcripts`]).
//!
//! Relies on the checks of the fuzz targets themselves, which a test includes from its crate's
//! `fuzz` folder. Invariants: every folder of a corpus is replayed; the same inputs are made in every
//! run; an input that a check fails by is printed.

#![allow(clippy::print_stderr)]

pub mod transcripts;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

/// What a fuzz target does with its input; it panics if something is wrong.
pub type Check = fn(&[u8]);

/// Replays each corpus of the crate at `root`, which is its `CARGO_MANIFEST_DIR`: every file as it is,
/// then [`CHANGED`] inputs in which some bytes are changed, left out or repeated.
///
/// # Panics
/// When a check does; when a target has fewer than [`FILES_MIN`] files or a folder has no target.
pub fn replay(root: &str, targets: &[(&str, Check)]) {
    let corpus = Path::new(root).join("fuzz/corpus");
    for folder in names_in(&corpus) {
        assert!(targets.iter().any(|(name, _)| *name == folder), "nothing replays {folder}");
    }
    for (name, check) in targets {
        let files = files(&corpus.join(name));
        assert!(files.len() >= FILES_MIN, "the corpus {name} has only {} files", files.len());
        for bytes in &files {
            run(name, *check, bytes);
        }
        let mut random = Random(files.len() as u64);
        for _ in 0..CHANGED {
            let bytes = files.get(random.below(files.len())).cloned().unwrap_or_default();
            run(name, *check, &changed(bytes, &mut random));
        }
    }
}

/// How many changed inputs each target gets.
pub const CHANGED: usize = 10_000;
/// A corpus with fewer files is not one.
pub const FILES_MIN: usize = 5;

fn run(name: &str, check: Check, bytes: &[u8]) {
    if let Err(reason) = catch_unwind(AssertUnwindSafe(|| check(bytes))) {
        eprintln!("the check {name} fails by {} bytes: {}", bytes.len(), bytes.escape_ascii());
        resume_unwind(reason);
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder of corpora can be read");
    let names = entries.map(|entry| entry.expect("an entry can be read").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    // Folders list their files in any order.
    names.sort();
    names
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let names = names_in(folder).into_iter();
    names.map(|name| std::fs::read(folder.join(name)).expect("a file can be read")).collect()
}

/// The same with one to five changes.
fn changed(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    for _ in 0..1 + random.below(5) {
        let at = random.below(bytes.len() + 1);
        let byte = random.next() as u8;
        match random.below(5) {
            0 => bytes.insert(at, byte),
            1 => bytes.get_mut(at..).into_iter().flatten().take(1).for_each(|known| *known = byte),
            2 => bytes.get_mut(at..).into_iter().flatten().take(1).for_each(|known| *known ^= 1),
            3 => bytes.truncate(at),
            _ => {
                let to = (at + random.below(REPEATED_MAX)).min(bytes.len());
                bytes.extend_from_within(at..to);
            }
        }
    }
    bytes
}

/// Bytes that one change repeats.
const REPEATED_MAX: usize = 200;

/// Numbers that look random and are the same in every run (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_the_same_in_every_run_and_of_every_kind() {
        let inputs = |seed| {
            let mut random = Random(seed);
            let made = (0..500).map(|_| changed(b"0123456789".to_vec(), &mut random));
            made.collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(1).iter().any(|bytes| bytes.len() < 5));
        assert!(inputs(1).iter().any(|bytes| bytes.len() > 15));
        assert!(inputs(1).iter().any(|bytes| bytes.len() == 10 && bytes != b"0123456789"));
    }
}
