//! `tiderace bench edges kill`, `restart` and `churn` with small numbers: everything is as it has to be but times, which hang on
//! the machine.

use std::process::Command;

use serde_json::Value;

use crate::program::Directory;

/// Runs one of them; what it has found, by the names of its figures.
fn fault(name: &str, arguments: &[&str]) -> impl Fn(&str) -> f64 {
    let directory = Directory::new(&format!("edges-{name}"));
    let json = directory.0.join("found.json");
    let output = Command::new(env!("CARGO_BIN_EXE_tiderace"))
        .args(["bench", "edges", name, "--lenient"])
        .args(arguments)
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.ends_with("all as it has to be\n"), "{text}");
    let found: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(found["missed"], Value::Array(Vec::new()), "{found}");
    move |what| {
        let figures = found["figures"].as_array().unwrap();
        let figure = figures.iter().find(|figure| figure["what"] == what);
        figure.unwrap_or_else(|| panic!("{what}: {found}"))["found"].as_f64().unwrap()
    }
}

#[test]
fn clients_of_edges_that_are_killed_miss_nothing() {
    let found = fault(
        "kill",
        &[
            "--clients",
            "60",
            "--topics",
            "50",
            "--updates",
            "200",
            "--kills",
            "2",
            "--seconds",
            "3",
        ],
    );
    assert!(found("values, each looked at") > 1_000.0);
    assert!(found("clients that came back") >= 60.0);
}

#[test]
fn a_source_that_is_started_again_tells_what_has_changed_and_what_was_taken() {
    let found = fault(
        "restart",
        &["--clients", "30", "--topics", "2000", "--publishers", "2", "--restarts", "2"],
    );
    assert!(found("values, each looked at") > 4_000.0);
    assert!(found("publications through edges, confirmed") > 0.0);
    assert!(found("refused since the source was away") > 0.0);
}

#[test]
fn subscriptions_that_change_all_the_time_leave_nothing_behind() {
    let found = fault(
        "churn",
        &[
            "--clients",
            "60",
            "--topics",
            "1000",
            "--subscriptions",
            "10",
            "--updates",
            "200",
            "--seconds",
            "5",
            "--rounds",
            "1",
            "--linger",
            "1",
        ],
    );
    assert!(found("subscriptions changed") > 200.0);
    assert!(found("subscriptions at the source, needed") > 100.0);
}
