//! `tiderace subscriptions`: list, make and remove durable subscriptions, which are queues that topics feed.
//!
//! Relies on `client`; what else can be done with them is done with their queues. Invariants: a list of any length is asked
//! for a page at a time; nothing is removed on a terminal before its user has agreed.

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use tiderace_wire::DURABLE;

use super::connection::ConnectionArgs;
use super::output::agrees;
use super::pages::{Printing, print_list};
use super::table::age;
use super::topics::once;

/// `tiderace subscriptions`.
#[derive(Debug, Args)]
pub(crate) struct SubscriptionsArgs {
    #[command(subcommand)]
    command: SubscriptionsCommand,
}

#[derive(Debug, Subcommand)]
enum SubscriptionsCommand {
    /// List durable subscriptions, and how their queues fare.
    #[command(disable_help_flag = true)]
    Ls(LsArgs),
    /// Make a durable subscription, or change what the one of that name gathers from now on.
    #[command(disable_help_flag = true)]
    Create(CreateArgs),
    /// Remove a durable subscription that nobody consumes from, with all that it has gathered.
    #[command(disable_help_flag = true)]
    Rm(RmArgs),
}

#[derive(Debug, Args)]
struct LsArgs {
    /// Whose names, such as audit or desk/** (quote wildcards).
    #[arg(default_value = "**")]
    pattern: String,
    /// Print the queue of each as one line of JSON.
    #[arg(long)]
    json: bool,
    /// Stop after that many.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// Its name; its queue is dsub/NAME.
    name: String,
    /// What it gathers: topics and patterns of topics, such as 'fx/**'.
    #[arg(required = true)]
    topics: Vec<String>,
    /// Only messages with such properties, such as "side = 'buy'".
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct RmArgs {
    /// Its name.
    name: String,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Does what the command line asks for.
pub(crate) fn run(args: &SubscriptionsArgs) -> anyhow::Result<()> {
    match &args.command {
        SubscriptionsCommand::Ls(args) => list(args),
        SubscriptionsCommand::Create(args) => {
            let mut operation =
                json!({"do": "create-subscription", "name": args.name, "topics": args.topics});
            if let Some(selector) = &args.selector {
                operation["selector"] = json!(selector);
            }
            once(&args.connection, &operation, None).map(|_| ())
        }
        SubscriptionsCommand::Rm(args) => {
            let question = format!("Remove {} with all that it has gathered?", args.name);
            if !args.yes && !agrees(&question)? {
                bail!("nothing was removed");
            }
            let operation = json!({"do": "delete-subscription", "name": args.name});
            once(&args.connection, &operation, None).map(|_| ())
        }
    }
}

fn list(args: &LsArgs) -> anyhow::Result<()> {
    let printing = Printing {
        json: args.json,
        columns: &["NAME", "TOPICS", "SELECTOR", ">READY", ">IN FLIGHT", ">CONSUMERS", ">OLDEST"],
        // Somebody may have sent to a queue of that name which nothing feeds.
        row: |queue: &Json| queue["topics"].is_string().then(|| row(queue)),
        limit: args.limit,
    };
    let operation = json!({"do": "queues", "pattern": format!("{DURABLE}/{}", args.pattern)});
    print_list(&args.connection, operation, "queues", &printing).map(|_| ())
}

/// A durable subscription, for people.
fn row(queue: &Json) -> Vec<String> {
    let number = |name: &str| queue[name].as_u64().unwrap_or_default().to_string();
    let text = |name: &str| queue[name].as_str().unwrap_or_default();
    let name = text("path").strip_prefix(DURABLE).and_then(|rest| rest.strip_prefix('/'));
    vec![
        name.unwrap_or_default().to_owned(),
        text("topics").to_owned(),
        text("selector").to_owned(),
        number("messages"),
        number("in_flight"),
        number("consumers"),
        queue["oldest_ms"].as_u64().map(age).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_told_to_people() {
        let queue = json!({
            "path": "dsub/desk/a", "topics": "fx/**,gold", "selector": "side = 'buy'", "messages": 3, "in_flight": 1,
            "consumers": 2, "oldest_ms": 61_000
        });
        assert_eq!(row(&queue), ["desk/a", "fx/**,gold", "side = 'buy'", "3", "1", "2", "1m 1s"]);
    }
}
