//! `tiderace browse`: lists sessions, queues and services, for who has the right `browse`.
//!
//! Relies on `client`. Invariant: pages are asked for one behind the other, so that a list of any length
//! costs the server no more than a page at a time.

use clap::{Args, ValueEnum};
use serde_json::{Value as Json, json};

use super::connection::ConnectionArgs;
use super::output::printable;
use super::topics::print_line;

/// `tiderace browse`.
#[derive(Debug, Args)]
pub(crate) struct BrowseArgs {
    /// What to list.
    what: What,
    /// Print each entry as one line of JSON.
    #[arg(long)]
    json: bool,
    /// Stop after that many.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    Sessions,
    Queues,
    Services,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Sessions => "sessions",
            What::Queues => "queues",
            What::Services => "services",
        }
    }
}

/// Does what the command line asks for.
pub(crate) fn run(args: &BrowseArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut operation = json!({"do": "browse", "what": args.what.name()});
    while left > 0 {
        let result = client.operate(&operation, None)?.result;
        for entry in result[args.what.name()].as_array().into_iter().flatten().take(left) {
            left -= 1;
            let line =
                if args.json { entry.to_string() } else { printable(&line(args.what, entry)) };
            print_line(line.as_bytes())?;
        }
        if result["more"] != json!(true) {
            break;
        }
        operation["after"] = result["next"].clone();
    }
    client.leave()?;
    Ok(())
}

/// An entry for people.
fn line(what: What, entry: &Json) -> String {
    let text = |name: &str| entry[name].as_str().unwrap_or_default();
    let number = |name: &str| entry[name].as_u64().unwrap_or_default();
    match what {
        What::Sessions => format!(
            "{} {}: {} subscriptions, {} bytes wait, {} dropped",
            text("id"),
            text("name"),
            number("subscriptions"),
            number("backlog_bytes"),
            number("dropped")
        ),
        What::Queues => format!(
            "{}: {} messages, {} bytes, {} consumers{}",
            text("path"),
            number("messages"),
            number("bytes"),
            number("consumers"),
            if entry["full"] == json!(true) { ", full" } else { "" }
        ),
        What::Services => {
            let names = entry["names"].as_array().into_iter().flatten().filter_map(Json::as_str);
            let names: Vec<&str> = names.collect();
            let (open, prefetch) = (number("open"), number("prefetch"));
            format!("{}: session {}, {open} of {prefetch} open", names.join(" "), text("session"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_command_the_terminal() {
        let session = json!({"id": "0-1-0", "name": "ann\u{1b}[2J\nö"});
        assert!(printable(&line(What::Sessions, &session)).starts_with(r"0-1-0 ann\u{1b}[2J\nö: "));
    }

    #[test]
    fn entries_are_one_line_each() {
        let session = json!({"id": "0-1-0", "name": "ann", "subscriptions": 2, "backlog_bytes": 0, "dropped": 0});
        assert_eq!(
            line(What::Sessions, &session),
            "0-1-0 ann: 2 subscriptions, 0 bytes wait, 0 dropped"
        );
        let queue =
            json!({"path": "jobs", "messages": 3, "bytes": 9, "consumers": 1, "full": true});
        assert_eq!(line(What::Queues, &queue), "jobs: 3 messages, 9 bytes, 1 consumers, full");
        let service = json!({"names": ["a", "b/*"], "session": "1-2-0", "open": 1, "prefetch": 8});
        assert_eq!(line(What::Services, &service), "a b/*: session 1-2-0, 1 of 8 open");
    }
}
