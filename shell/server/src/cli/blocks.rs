//! `tiderace connections block`, `unblock` and `blocks`: keep principals and addresses out for a while.
//!
//! Relies on `client`. Invariants: on a terminal sessions end only when their number was said and its user has agreed; lists of any
//! length are asked for a page at a time.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::{Value as Json, json};
use tiderace_config::format_duration;

use super::connection::ConnectionArgs;
use super::error::ClientError;
use super::output::{agrees, printable};
use super::pages::{Printing, print_list};
use super::publish::duration;
use super::table::{age, now_ms, sessions};
use super::topics::{once, print_line};

/// Blocks that are asked for at once.
const PAGE: usize = 500;

/// Who is meant.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct WhoArgs {
    /// Who logs in as that; of a virtual host: @HOST/NAME.
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Clients with that address, or one in that network, such as 10.0.0.0/8.
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct BlockArgs {
    #[command(flatten)]
    who: WhoArgs,
    /// For how long, such as 15m: at most 30d.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, default_value = "1h")]
    lasts: Duration,
    /// What the clients are told besides, on one line.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Also if that takes in the address that you ask from, the server's own machine, or who you are.
    #[arg(long)]
    force: bool,
    /// Say how many sessions would end, and block nobody.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
pub(super) struct UnblockArgs {
    #[command(flatten)]
    who: WhoArgs,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
pub(super) struct BlocksArgs {
    /// Print each block as one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

impl WhoArgs {
    /// Adds what was given to an operation.
    fn add_to(&self, operation: &mut Json) {
        for (name, value) in [("principal", &self.principal), ("address", &self.address)] {
            if let Some(value) = value {
                operation[name] = json!(value);
            }
        }
    }
}

pub(super) fn block(args: &BlockArgs) -> anyhow::Result<()> {
    let lasts = u64::try_from(args.lasts.as_millis()).unwrap_or(u64::MAX);
    let mut operation = json!({"do": "block", "for": lasts, "dry_run": true});
    args.who.add_to(&mut operation);
    if let Some(reason) = &args.reason {
        operation["reason"] = json!(reason);
    }
    if args.force {
        operation["force"] = json!(true);
    }
    let (who, span) = (name_of(&operation), format_duration(args.lasts));
    let mut client = args.connection.connect()?;
    let mut result = client.operate(&operation, None)?.result;
    let count = |result: &Json| sessions(result["sessions"].as_u64().unwrap_or_default());
    if !args.dry_run {
        let question = format!("Block {who} for {span} and end {}?", count(&result));
        if !args.yes && !agrees(&question)? {
            bail!("nobody was blocked");
        }
        operation["dry_run"] = json!(false);
        result = client.operate(&operation, None)?.result;
    }
    client.leave()?;
    if args.json {
        return print_line(result.to_string().as_bytes());
    }
    let line = match args.dry_run {
        true => format!("{} would end", count(&result)),
        false => format!("{who} is blocked for {span}, {} ended", count(&result)),
    };
    print_line(printable(&line).as_bytes())
}

pub(super) fn unblock(args: &UnblockArgs) -> anyhow::Result<()> {
    let mut operation = json!({"do": "unblock"});
    args.who.add_to(&mut operation);
    let who = name_of(&operation);
    let result = once(&args.connection, &operation, None)?.result;
    if result["blocks"] == json!(0) {
        let who = printable(&who);
        return Err(
            ClientError::Missing(format!("{who} is not blocked, at least not by itself")).into()
        );
    }
    if args.json {
        return print_line(result.to_string().as_bytes());
    }
    print_line(printable(&format!("{who} is not blocked any more")).as_bytes())
}

pub(super) fn list(args: &BlocksArgs) -> anyhow::Result<()> {
    let printing = Printing {
        json: args.json,
        columns: &["WHO", ">SINCE", ">LEFT", "BY", "REASON"],
        row: |block: &Json| Some(row(block, now_ms())),
        limit: None,
    };
    let operation = json!({"do": "blocks", "limit": PAGE});
    print_list(&args.connection, operation, "blocks", &printing).map(|_| ())
}

/// Whom a block keeps out, for people.
fn name_of(block: &Json) -> String {
    let name = |kind: &str| block[kind].as_str().map(|name| format!("{kind} {name}"));
    name("principal").or_else(|| name("address")).unwrap_or_default()
}

fn row(block: &Json, now_ms: u64) -> Vec<String> {
    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| block[name].as_u64().unwrap_or(now_ms);
    // The server's clock may be ahead of this one's, or behind; whole seconds are enough.
    let seconds = |span_ms: u64| age(span_ms / 1000 * 1000);
    vec![
        name_of(block),
        seconds(now_ms.saturating_sub(number("since"))),
        seconds(number("until").saturating_sub(now_ms)),
        text("by"),
        text("reason"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_a_row() {
        let block = json!({"principal": "ann", "since": 1_000, "until": 3_601_000, "by": "oli", "reason": "later"});
        assert_eq!(row(&block, 61_500), ["principal ann", "1m 0s", "58m 59s", "oli", "later"]);
        let block = json!({"address": "10.0.0.0/8", "since": 1_000, "until": 2_000, "by": "oli"});
        assert_eq!(row(&block, 9_000), ["address 10.0.0.0/8", "8s", "0ms", "oli", ""]);
    }
}
