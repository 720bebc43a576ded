//! `tiderace-bench`: the load generator on its own, without a server around it.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tiderace_bench::BenchArgs;

fn main() -> ExitCode {
    match tiderace_bench::run(&Command::parse().bench) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line for a person; nobody is helped by a backtrace of a refused connection.
            let _ = writeln!(std::io::stderr(), "tiderace-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures STOMP servers and the machine they run on.
#[derive(Debug, Parser)]
#[command(name = "tiderace-bench", version)]
struct Command {
    #[command(flatten)]
    bench: BenchArgs,
}
