//! `tiderace-instructions` counts the processor instructions a message costs on each hot path.
//!
//! Times depend on the machine and its mood, counts of instructions on the code alone: Valgrind's
//! callgrind executes a fixed conversation with a whole node in memory and counts what the messages
//! cost. `budgets.txt` has a budget for each path; exceeding one fails the check.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

mod budget;
mod network;
mod node;
mod scripts;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::scripts::SCRIPTS;

/// The allocator of the server, because its instructions count as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
usage: tiderace-instructions check           counts every path and compares with its budget
       tiderace-instructions write           counts every path and writes the budgets anew
       tiderace-instructions table [NAME..]  counts paths and prints them
       tiderace-instructions run NAME        runs one path, without counting
       tiderace-instructions list            says what the paths are";

fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check"] => budget::check(),
        ["write"] => budget::write(),
        ["table", names @ ..] => budget::table(names),
        ["run", name] => {
            let script = SCRIPTS.iter().find(|script| script.name == *name);
            let Some(script) = script else { bail!("there is no path {name}; see `list`") };
            println!("messages: {}", (script.run)()?);
            Ok(ExitCode::SUCCESS)
        }
        ["list"] => {
            for script in SCRIPTS {
                println!("{:26} {}", script.name, script.unit);
            }
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("{USAGE}"),
    }
}
