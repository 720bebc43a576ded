//! `tiderace views`: list, put and remove views, which are topics that the server makes of others.
//!
//! Relies on `client`. Invariant: what `ls --json` prints can be put again.

use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::json;

use super::connection::ConnectionArgs;
use super::topics::{once, print_line};

/// `tiderace views`.
#[derive(Debug, Args)]
pub(crate) struct ViewsArgs {
    #[command(subcommand)]
    command: ViewsCommand,
}

#[derive(Debug, Subcommand)]
enum ViewsCommand {
    /// List the views with what they say.
    #[command(disable_help_flag = true)]
    Ls(LsArgs),
    /// Put a view in place of the one of that name.
    #[command(disable_help_flag = true)]
    Put(PutArgs),
    /// Take a view away.
    #[command(disable_help_flag = true)]
    Rm(RmArgs),
}

#[derive(Debug, Args)]
struct LsArgs {
    /// Print each view as one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct PutArgs {
    /// Its name.
    name: String,
    /// What it says, such as 'map desk/* to desks/<path(1)>'.
    #[arg(conflicts_with = "file")]
    text: Option<String>,
    /// Take it from a file, - for standard input.
    #[arg(short, long)]
    file: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct RmArgs {
    /// Its name.
    name: String,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Does what the command line asks for.
pub(crate) fn run(args: &ViewsArgs) -> anyhow::Result<()> {
    match &args.command {
        ViewsCommand::Ls(args) => {
            let answer = once(&args.connection, &json!({"do": "views"}), None)?;
            for view in answer.result["views"].as_array().into_iter().flatten() {
                let (name, text) = (view["name"].as_str(), view["text"].as_str());
                let line = match args.json {
                    true => view.to_string(),
                    false => format!("{}: {}", name.unwrap_or(""), text.unwrap_or("")),
                };
                print_line(line.as_bytes())?;
            }
            Ok(())
        }
        ViewsCommand::Put(args) => {
            let text = match (&args.text, &args.file) {
                (Some(text), _) => text.clone(),
                (None, Some(file)) if file.as_os_str() == "-" => {
                    let mut text = String::new();
                    let read = std::io::stdin().read_to_string(&mut text);
                    read.context("cannot read standard input")?;
                    text
                }
                (None, Some(file)) => std::fs::read_to_string(file)
                    .with_context(|| format!("cannot read {}", file.display()))?,
                (None, None) => bail!("write what the view says, or name a file with -f"),
            };
            let operation = json!({"do": "view", "name": args.name, "text": text});
            once(&args.connection, &operation, None).map(|_| ())
        }
        ViewsCommand::Rm(args) => {
            once(&args.connection, &json!({"do": "unview", "name": args.name}), None).map(|_| ())
        }
    }
}
