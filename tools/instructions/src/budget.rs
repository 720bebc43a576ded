//! Counts by callgrind, and compares with the budgets that stand in `budgets.txt`.
//!
//! A budget is what was counted when it was written. A count may exceed it by [`SLACK_PERCENT`]: a
//! new compiler moves counts by a percent or two, a mistake on a hot path by more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::scripts::SCRIPTS;

/// By how much a count may exceed its budget.
const SLACK_PERCENT: f64 = 4.0;

/// Counts all paths, in instructions per message; fails if one exceeds its budget or has none.
pub(crate) fn check() -> Result<ExitCode> {
    let budgets = read()?;
    let (mut passed, mut failed) = (0, 0);
    println!("{:26} {:>12} {:>12} {:>8}", "path", "counted", "budget", "");
    for script in SCRIPTS {
        let counted = count(script.name)?;
        let Some(budget) = budgets.get(script.name) else {
            println!("{:26} {counted:>12.1} has no budget; `write` makes one", script.name);
            failed += 1;
            continue;
        };
        let percent = (counted / budget - 1.0) * 100.0;
        let good = percent <= SLACK_PERCENT;
        let note = if good { "" } else { "  EXCEEDED" };
        println!("{:26} {counted:>12.1} {budget:>12.1} {percent:>+7.1}%{note}", script.name);
        if good { passed += 1 } else { failed += 1 }
    }
    if failed > 0 {
        println!(
            "Make the path as cheap as it was, or say in the commit why it costs more and write the budgets anew."
        );
    }
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Counts all paths and writes the budgets anew.
pub(crate) fn write() -> Result<ExitCode> {
    let mut text = String::from(
        "# Instructions per message on each hot path; written by `tiderace-instructions write`.\n",
    );
    for script in SCRIPTS {
        text += &format!("{} {:.1}\n", script.name, count(script.name)?);
    }
    std::fs::write(file(), &text)?;
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

/// Counts some paths, or all, and prints them.
pub(crate) fn table(names: &[&str]) -> Result<ExitCode> {
    for script in SCRIPTS.iter().filter(|one| names.is_empty() || names.contains(&one.name)) {
        println!("{:26} {:>12.1}", script.name, count(script.name)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("budgets.txt")
}

fn read() -> Result<BTreeMap<String, f64>> {
    let text = std::fs::read_to_string(file())?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, count) =
                line.split_once(' ').context("a line of budgets.txt is cut short")?;
            Ok((name.to_owned(), count.trim().parse()?))
        })
        .collect()
}

/// Instructions per message of one path.
fn count(name: &str) -> Result<f64> {
    let program = std::env::current_exe()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=tiderace_instructions::node::Node::measured")
        .arg(program)
        .args(["run", name])
        .output()
        .context("valgrind cannot be run; it is a package of most systems")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed:\n{said}");
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let Some((_, collected)) = collected else { bail!("callgrind has counted nothing:\n{said}") };
    let messages = String::from_utf8_lossy(&output.stdout);
    let messages = messages.trim().strip_prefix("messages: ").context("no count of messages")?;
    let (collected, messages): (f64, f64) = (collected.trim().parse()?, messages.parse()?);
    ensure!(collected > messages, "{name}: {collected} instructions for {messages} messages");
    Ok(collected / messages)
}
