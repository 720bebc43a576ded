//! `bench sessions` with few of them: it comes to its end, and its lists are of all sessions.
#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn lists_are_of_all_sessions_and_say_what_turns_took() {
    let output = Command::new(env!("CARGO_BIN_EXE_tiderace-bench"))
        .args(["sessions", "--count", "500", "--topics", "10", "--period", "1"])
        .args(["--seconds", "1", "--lists", "2"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("2 lists of the 50 of 500 sessions"), "{said}");
    assert!(said.contains("turns during lists p50"), "{said}");
}
