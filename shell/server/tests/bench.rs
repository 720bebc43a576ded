//! `tiderace bench queue` with small numbers: every cell runs, everything comes, and nothing is left behind.

use std::process::Command;

use serde_json::Value;

use crate::program::Directory;

/// Runs it with these arguments besides; the lines of its report.
fn queue(name: &str, more: &[&str]) -> Vec<Value> {
    let directory = Directory::new(name);
    let (disk, json) = (directory.0.join("disk"), directory.0.join("queue.json"));
    let html = directory.0.join("queue.html");
    let output = Command::new(env!("CARGO_BIN_EXE_tiderace"))
        .args(["bench", "queue", "--rounds", "1", "--messages", "400", "--depth", "500"])
        .args(["--size", "200", "--large", "40000", "--pick-every", "50", "--slow", "1"])
        .args(more)
        .arg("--directory")
        .arg(&disk)
        .arg("--json")
        .arg(&json)
        .arg("--html")
        .arg(&html)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(&disk).unwrap().count(), 0, "files were left behind");
    assert!(std::fs::read_to_string(html).unwrap().contains("<svg"));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    report["lines"].as_array().unwrap().clone()
}

fn names(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["cell"].as_str().unwrap()).collect()
}

#[test]
fn every_cell_of_bench_queue_runs() {
    let lines = queue("bench-queue", &["--volatile", "--no-disk"]);
    let cells = [
        "load",
        "unload",
        "load-and-unload",
        "one-waiting",
        "producers-10",
        "producers-100",
        "slow-consumer",
        "selectors",
        "browser",
        "large",
        "deep-in",
        "deep-out",
    ];
    assert_eq!(names(&lines), cells);
    for line in &lines {
        assert!(line["messages_per_s"].as_f64().unwrap() > 0.0, "{line}");
        let remarks = line["rounds"][0]["remarks"].as_array().unwrap();
        // These two say in a remark what they have found.
        let own = ["slow-consumer", "selectors"].contains(&line["cell"].as_str().unwrap());
        assert_eq!(remarks.len(), usize::from(own), "{line}");
    }
    assert_eq!(lines[7]["rounds"][0]["remarks"][0], "8 of 400 wanted");
    // Nothing but what the selector took is missing.
    assert_eq!(lines[8]["rounds"][0]["messages"], 392);
    assert_eq!(lines[0]["rounds"][0]["messages"], 400);
    assert!(lines[3]["receipt_p99_ns"].as_f64() >= lines[3]["receipt_p50_ns"].as_f64());
}

#[test]
fn what_was_loaded_comes_back_after_the_kill_in_the_deep_cell() {
    let lines = queue("bench-store", &["--only", "one-waiting,deep", "--seconds", "20"]);
    assert_eq!(names(&lines), ["one-waiting", "deep-in", "deep-out"]);
    for line in &lines {
        assert_eq!(line["rounds"][0]["remarks"].as_array().unwrap().len(), 0, "{line}");
    }
    let [waiting, deep_in, deep_out] = &lines[..] else { panic!("{lines:?}") };
    assert!(waiting["messages_per_sync"].as_f64().unwrap() > 0.0);
    assert!(waiting["share_of_disk"].as_f64().unwrap() > 0.0);
    assert_eq!(deep_in["rounds"][0]["messages"], 500);
    assert_eq!(deep_out["rounds"][0]["messages"], 500);
    let first = deep_out["restart_first_delivery_s"].as_f64().unwrap();
    assert!(first >= deep_out["restart_ready_s"].as_f64().unwrap());
}
