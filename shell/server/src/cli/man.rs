//! `tiderace man`: pages of the manual.
//!
//! Relies on `clap_mangen`. Invariant: the pages know every command and flag, as they are made from them.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use super::Cli;
use super::output::output_error;

/// `tiderace man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// A folder that gets a page for each command, for instance: tiderace man ~/.local/share/man/man1. Not given: the page
    /// of `tiderace` itself is printed.
    folder: Option<PathBuf>,
}

/// Writes the pages, or prints one.
pub(crate) fn run(args: &ManArgs) -> anyhow::Result<()> {
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        let command = Cli::command().disable_help_subcommand(true);
        clap_mangen::Man::new(command).render(&mut page).map_err(output_error)?;
        return std::io::stdout().write_all(&page).map_err(output_error);
    };
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("the pages cannot be written to {}", folder.display()))
}
