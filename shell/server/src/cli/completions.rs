//! `tiderace completions`: a completion script for a shell.
//!
//! Relies on `clap_complete`. Invariant: the script knows every command and flag, as it is made from them.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use super::output::output_error;

/// `tiderace completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell, for instance: tiderace completions bash > ~/.local/share/bash-completion/completions/tiderace
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tiderace", &mut script);
    std::io::stdout().write_all(&script).map_err(output_error)
}
