//! What no source says: tests that are skipped, wait or expect a panic, and work put off.
//!
//! The suites of foreign clients talk to real programs over real time and may wait.

use crate::lexis::{code, has_word, without_tests};
use crate::shape::is_test_file;
use crate::{Finding, Tree};

const EVERYWHERE: &[(&str, &str)] = &[
    ("todo!", "write it, or leave it out"),
    ("unimplemented!", "write it, or return an error that says so"),
];

const IN_TESTS: &[(&str, &str)] = &[
    ("#[ignore", "a test runs or does not exist; make it fast or delete it"),
    ("#[should_panic", "assert on a returned error instead"),
    ("sleep(", "pass time in, or wait for the event itself"),
    ("sleep_ms(", "pass time in, or wait for the event itself"),
];

/// Every such word.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".rs") {
        if file.path.starts_with("tests/foreign/") {
            continue;
        }
        let code = code(&file.text);
        let production = match is_test_file(tree, &file.path) {
            true => String::new(),
            false => without_tests(&code),
        };
        let mut production = production.lines();
        for (index, line) in code.lines().enumerate() {
            let is_test = production.next().is_none_or(|kept| kept != line);
            let in_tests = IN_TESTS.iter().filter(|_| is_test);
            for (word, remedy) in EVERYWHERE.iter().chain(in_tests) {
                if line.contains(word) && (word.starts_with('#') || has_word(line, word)) {
                    let problem = format!("says `{}`", word.trim_end_matches('('));
                    findings.push(Finding::at_line(&file.path, index + 1, problem, remedy));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn put_off_work_and_waiting_tests_are_found() {
        for (path, text, findings) in [
            ("a/src/x.rs", "fn a() { todo!() }", 1),
            ("a/src/x.rs", "fn a() { sleep(x) }", 0),
            ("a/src/x.rs", "#[cfg(test)]\nmod tests {\n#[test]\nfn t() { sleep(x) }\n}", 1),
            ("a/tests/x.rs", "#[test]\n#[ignore = \"slow\"]\nfn t() { thread::sleep(x) }", 2),
            ("a/tests/x.rs", "// never sleep(1)\nlet a = \"todo!\";", 0),
            ("tests/foreign/a.rs", "fn t() { thread::sleep(x) }", 0),
        ] {
            let found = check(&Tree::of(&[(path, text)]));
            assert_eq!(found.len(), findings, "{path} {text}: {found:?}");
        }
    }
}
