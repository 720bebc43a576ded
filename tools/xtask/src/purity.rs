//! Nothing under `core/`, `transports/` and `protocols/` touches the operating system.
//!
//! Clippy's disallowed methods and types say the same with types resolved; this check also sees what
//! they cannot name and covers code that only some targets compile. Tests are free.

use crate::imports::is_pure;
use crate::lexis::{code, has_word, without_tests};
use crate::shape::is_test_file;
use crate::{Finding, Tree};

/// What pure code must not say, and what it does instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("Instant", TIME),
    ("SystemTime", TIME),
    ("TcpListener", IO),
    ("TcpStream", IO),
    ("UdpSocket", IO),
    ("UnixListener", IO),
    ("UnixStream", IO),
    ("fs::", IO),
    ("std::fs", IO),
    ("env::", IO),
    ("process::", IO),
    ("stdin", IO),
    ("stdout", IO),
    ("thread::", THREADS),
    ("std::thread", THREADS),
    ("Mutex", THREADS),
    ("RwLock", THREADS),
    ("Condvar", THREADS),
    ("mpsc", THREADS),
    ("rand::", CHANCE),
    ("getrandom", CHANCE),
];

const TIME: &str =
    "take a `Now` or `Time` as an argument; the reactor reads the clock once per turn";
const IO: &str = "take bytes in and give bytes out; the shell does the system call";
const THREADS: &str = "a shard has one thread and shares nothing; pass messages through the shell";
const CHANCE: &str = "take the random number as an argument, so that a run can be repeated";

/// Every forbidden word.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".rs") {
        if !is_pure(&file.path) || is_test_file(tree, &file.path) {
            continue;
        }
        for (index, line) in without_tests(&code(&file.text)).lines().enumerate() {
            let said = FORBIDDEN.iter().find(|(word, _)| has_word(line, word));
            if let Some((word, remedy)) = said {
                let word = word.trim_end_matches("::");
                let problem = format!("pure code uses `{word}`");
                findings.push(Finding::at_line(&file.path, index + 1, problem, remedy));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_are_found_outside_tests_only() {
        for (path, text, findings) in [
            ("core/a/src/x.rs", "let t = std::time::Instant::now();", 1),
            ("core/a/src/x.rs", "use std::net::{SocketAddr, TcpStream};", 1),
            ("protocols/a/src/x.rs", "use std::{fs, io};\nfs::read(p);", 1),
            ("core/a/src/x.rs", "use std::net::SocketAddr; // Instant", 0),
            ("core/a/src/x.rs", "#[cfg(test)]\nmod tests { fn t() { thread::spawn(f); } }", 0),
            ("core/a/tests/x.rs", "std::fs::read(p);", 0),
            ("shell/a/src/x.rs", "std::fs::read(p);", 0),
        ] {
            let found = check(&Tree::of(&[(path, text)]));
            assert_eq!(found.len(), findings, "{path} {text}: {found:?}");
        }
    }
}
