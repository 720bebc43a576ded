//! `tiderace services`: what serves, and how busy it is.
//!
//! Relies on `pages`.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::connection::ConnectionArgs;
use super::pages::{Printing, print_list};

/// `tiderace services`.
#[derive(Debug, Args)]
pub(crate) struct ServicesArgs {
    #[command(subcommand)]
    command: ServicesCommand,
}

#[derive(Debug, Subcommand)]
enum ServicesCommand {
    /// List what serves, with the exchanges that are open.
    #[command(disable_help_flag = true)]
    Ls(LsArgs),
}

#[derive(Debug, Args)]
struct LsArgs {
    /// Print each as one line of JSON.
    #[arg(long)]
    json: bool,
    /// Stop after that many.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Does what the command line asks for.
pub(crate) fn run(args: &ServicesArgs) -> anyhow::Result<()> {
    let ServicesCommand::Ls(args) = &args.command;
    let operation = json!({"do": "browse", "what": "services"});
    let printing = Printing {
        json: args.json,
        columns: &["NAMES", "SESSION", ">OPEN", ">PREFETCH"],
        row: |service: &Json| Some(row(service)),
        limit: args.limit,
    };
    print_list(&args.connection, operation, "services", &printing).map(|_| ())
}

/// What serves in a row: the services that it answers, its session, and how many calls it has and takes at a time.
fn row(service: &Json) -> Vec<String> {
    let names = service["names"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let number = |name: &str| service[name].as_u64().unwrap_or_default().to_string();
    vec![
        names.collect::<Vec<_>>().join(" "),
        service["session"].as_str().unwrap_or_default().to_owned(),
        number("open"),
        number("prefetch"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serves_is_one_row() {
        let service = json!({"names": ["a", "b/*"], "session": "1-2-0", "open": 1, "prefetch": 8});
        assert_eq!(row(&service), ["a b/*", "1-2-0", "1", "8"]);
    }
}
