//! `tiderace config`: check, show and describe the configuration, and ask a running server for its own.
//!
//! Relies on `tiderace_config`, and on `compose` to ask the parts for their opinion. Invariant: `check`
//! accepts exactly the configurations that `serve` starts with.

use std::io::Write;

use clap::{Args, Subcommand};

use super::config_args::ConfigArgs;
use super::config_running::{self, RunningArgs};
use super::output::output_error;
use crate::upstreams::Identity;
use crate::{compose, identities, tls};

/// `tiderace config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigCommandArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say what is wrong with the configuration, with file, line and column.
    Check(ConfigArgs),
    /// Print every option as it holds, and where its value comes from. Secrets are masked.
    Show {
        #[command(flatten)]
        args: ConfigArgs,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print what a running server holds to, and what of its configuration waits for the next start. Secrets are masked.
    #[command(disable_help_flag = true)]
    Running(RunningArgs),
    /// Print the JSON Schema of the configuration file, for editors.
    Schema {
        /// The reference of all options as Markdown instead.
        #[arg(long)]
        markdown: bool,
    },
}

/// Runs `tiderace config`.
pub(crate) fn run(args: &ConfigCommandArgs) -> anyhow::Result<()> {
    match &args.command {
        ConfigCommand::Check(args) => check(args),
        ConfigCommand::Show { args, json } => {
            let loaded = args.load(false)?;
            match json {
                true => print(&format!("{:#}\n", tiderace_config::show_json(&loaded))),
                false => print(&tiderace_config::show_toml(&loaded)),
            }
        }
        ConfigCommand::Running(args) => config_running::run(args),
        ConfigCommand::Schema { markdown: true } => print(&tiderace_config::markdown()),
        ConfigCommand::Schema { markdown: false } => {
            print(&format!("{:#}\n", tiderace_config::schema()))
        }
    }
}

fn check(args: &ConfigArgs) -> anyhow::Result<()> {
    let loaded = args.load(false)?;
    // What the parts themselves would refuse at the start is found by asking them.
    let verifier = identities::verifier(&loaded.config.auth, None)?;
    identities::signed_tokens(&loaded.config.auth, verifier.marks(), None)?;
    let secured = tls::read(&loaded.config)?;
    compose::reactor(
        &loaded.config,
        usize::MAX,
        secured.map(|read| read.settings),
        &Identity::new(String::new()),
    )?;
    let listeners: Vec<String> =
        loaded.config.listeners.iter().map(|listener| listener.address.to_string()).collect();
    print(&format!(
        "The configuration is good ({}; listens on {}).\n",
        args.file_name(),
        listeners.join(", ")
    ))
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).map_err(output_error)
}
