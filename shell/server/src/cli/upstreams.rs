//! `tiderace upstreams`: how a server stands with the servers whose topics it passes on.
//!
//! Relies on `client`, and on the topics below `$sys/upstreams` that the server keeps. Invariant: an upstream that is away
//! is said to be so with the reason.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value as Json, json};

use super::client::Answer;
use super::connection::ConnectionArgs;
use super::table::{Table, age, print_table};
use super::topics::{entries, print_line};

/// `tiderace upstreams`.
#[derive(Debug, Args)]
pub(crate) struct UpstreamsArgs {
    /// Print lines of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Does what the command line asks for.
pub(crate) fn run(args: &UpstreamsArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    let operation =
        json!({"do": "fetch", "selector": "$sys/upstreams/*", "values": true, "limit": MOST});
    let answer = client.operate(&operation, None)?;
    let upstreams = upstreams(&answer);
    client.leave()?;
    if args.json {
        return upstreams
            .iter()
            .try_for_each(|upstream| print_line(upstream.to_string().as_bytes()));
    }
    if upstreams.is_empty() {
        return print_line(b"this server has no upstreams: all topics are its own");
    }
    let mut table = Table::new(&[
        "UPSTREAM",
        "STATE",
        ">SINCE",
        ">TOPICS",
        ">STALE",
        ">SUBSCRIPTIONS",
        ">RESYNCS",
        ">ROUND TRIP",
        "URL",
    ]);
    for upstream in &upstreams {
        table.row(row(upstream, now_ms()));
    }
    print_table(&mut table)?;
    for upstream in &upstreams {
        if let Some(problem) = upstream["problem"].as_str() {
            let name = upstream["name"].as_str().unwrap_or_default();
            print_line(super::output::printable(&format!("{name}: {problem}")).as_bytes())?;
        }
    }
    Ok(())
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Upstreams that are listed; a configuration has few.
const MOST: u64 = 1000;

/// Their values.
fn upstreams(answer: &Answer) -> Vec<Json> {
    let values = entries(answer, "topics").into_iter();
    values.filter_map(|(_, value)| serde_json::from_slice(&value?.body).ok()).collect()
}

/// Since when it is in its state, in milliseconds since 1970.
fn since(upstream: &Json) -> Option<u64> {
    upstream["since"].as_u64()
}

fn row(upstream: &Json, now_ms: u64) -> Vec<String> {
    let text = |name: &str| upstream[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| upstream[name].as_u64().unwrap_or(0).to_string();
    vec![
        text("name"),
        text("state"),
        age(since(upstream).map_or(0, |since| now_ms.saturating_sub(since))),
        number("topics"),
        number("stale"),
        number("subscriptions"),
        number("resyncs"),
        upstream["round_trip_ms"].as_f64().map_or_else(String::new, |ms| format!("{ms} ms")),
        text("url"),
    ]
}
