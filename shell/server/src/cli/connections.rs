//! `tiderace connections`: list the sessions of a server, look at one, end some, keep clients out, and trace them.
//!
//! Relies on `client`. Invariants: lists of any length are asked for a page at a time; on a terminal several sessions end
//! only when their number was said and its user has agreed.

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value as Json, json};

use super::blocks;
use super::connection::ConnectionArgs;
use super::error::ClientError;
use super::output::{agrees, printable};
use super::pages::{Printing, print_list};
use super::table::{age, bytes, now_ms, sessions};
use super::topics::{once, print_line};
use super::traces;

/// Sessions that are asked for at once.
const PAGE: usize = 500;

/// `tiderace connections`.
#[derive(Debug, Args)]
pub(crate) struct ConnectionsArgs {
    #[command(subcommand)]
    command: ConnectionsCommand,
}

#[derive(Debug, Subcommand)]
enum ConnectionsCommand {
    /// List sessions: who they are, where their clients are, and how they fare.
    #[command(disable_help_flag = true)]
    Ls(LsArgs),
    /// Show all that is known of one session.
    #[command(disable_help_flag = true)]
    Show(ShowArgs),
    /// End sessions: their clients are told so, and do not come back by themselves.
    #[command(disable_help_flag = true)]
    Kick(KickArgs),
    /// Keep a principal or an address out for a while: its sessions end, and it gets no others.
    #[command(disable_help_flag = true)]
    Block(blocks::BlockArgs),
    /// Let in again who is blocked.
    #[command(disable_help_flag = true)]
    Unblock(blocks::UnblockArgs),
    /// List who is blocked, and until when.
    #[command(disable_help_flag = true)]
    Blocks(blocks::BlocksArgs),
    /// Show what a session does, or those of a principal or an address, or what is done at a path, as it is done.
    #[command(disable_help_flag = true)]
    Trace(traces::TraceArgs),
    /// List the traces that go on.
    #[command(disable_help_flag = true)]
    Traces(traces::TracesArgs),
    /// End a trace.
    #[command(disable_help_flag = true)]
    Untrace(traces::UntraceArgs),
}

/// Which sessions are meant.
#[derive(Debug, Args)]
struct FilterArgs {
    /// Of that protocol, such as stomp, native, socketio, rsocket or events.
    #[arg(long, value_name = "NAME")]
    protocol: Option<String>,
    /// Logged in as that; of a virtual host: @HOST/NAME.
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Whose clients have that address, or one in that network, such as 10.0.0.0/8.
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// For which at least so many bytes wait.
    #[arg(long, value_name = "BYTES")]
    backlog: Option<u64>,
}

#[derive(Debug, Args)]
struct LsArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// By their ids; or first those for which most waits, that have most subscriptions, or that came last.
    #[arg(long, value_enum, default_value = "id", value_name = "ORDER")]
    sort: Sort,
    /// Stop after that many.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// Print each session as one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sort {
    Id,
    Backlog,
    Subscriptions,
    Since,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The id of the session, as `ls` prints it.
    id: String,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct KickArgs {
    /// The id of the session, as `ls` prints it. Not given: all that the options below mean.
    #[arg(required_unless_present_any = ["protocol", "principal", "address", "backlog"])]
    id: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// What the clients are told besides, on one line.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Say how many sessions would end, and end none.
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

impl FilterArgs {
    /// Adds what was given to an operation.
    fn add_to(&self, operation: &mut Json) {
        let texts = [
            ("protocol", &self.protocol),
            ("principal", &self.principal),
            ("address", &self.address),
        ];
        for (name, value) in texts {
            if let Some(value) = value {
                operation[name] = json!(value);
            }
        }
        if let Some(backlog) = self.backlog {
            operation["backlog"] = json!(backlog);
        }
    }
}

/// Does what the command line asks for.
pub(crate) fn run(args: &ConnectionsArgs) -> anyhow::Result<()> {
    match &args.command {
        ConnectionsCommand::Ls(args) => list(args),
        ConnectionsCommand::Show(args) => show(args),
        ConnectionsCommand::Kick(args) => kick(args),
        ConnectionsCommand::Block(args) => blocks::block(args),
        ConnectionsCommand::Unblock(args) => blocks::unblock(args),
        ConnectionsCommand::Blocks(args) => blocks::list(args),
        ConnectionsCommand::Trace(args) => traces::trace(args),
        ConnectionsCommand::Traces(args) => traces::list(args),
        ConnectionsCommand::Untrace(args) => traces::end(args),
    }
}

fn list(args: &LsArgs) -> anyhow::Result<()> {
    let sort = match args.sort {
        Sort::Id => "id",
        Sort::Backlog => "backlog",
        Sort::Subscriptions => "subscriptions",
        Sort::Since => "since",
    };
    let mut operation = json!({"do": "sessions", "sort": sort});
    args.filter.add_to(&mut operation);
    operation["limit"] = json!(PAGE);
    let printing = Printing {
        json: args.json,
        columns: &[
            "ID",
            "NAME",
            "ADDRESS",
            "PROTOCOL",
            "TRANSPORT",
            ">SINCE",
            ">SUBSCRIPTIONS",
            ">BACKLOG",
        ],
        row: |session: &Json| Some(row(session, now_ms())),
        limit: args.limit,
    };
    print_list(&args.connection, operation, "sessions", &printing).map(|_| ())
}

fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let result = once(&args.connection, &json!({"do": "sessions", "id": args.id}), None)?.result;
    let Some(session) = result["sessions"].get(0) else {
        let id = printable(&args.id);
        return Err(ClientError::Missing(format!("there is no session {id}")).into());
    };
    if args.json {
        return print_line(session.to_string().as_bytes());
    }
    facts(session, now_ms()).iter().try_for_each(|line| print_line(printable(line).as_bytes()))
}

fn kick(args: &KickArgs) -> anyhow::Result<()> {
    let mut operation = json!({"do": "kick", "dry_run": true});
    args.filter.add_to(&mut operation);
    for (name, value) in [("id", &args.id), ("reason", &args.reason)] {
        if let Some(value) = value {
            operation[name] = json!(value);
        }
    }
    let mut client = args.connection.connect()?;
    let mut result = client.operate(&operation, None)?.result;
    let count = result["sessions"].as_u64().unwrap_or_default();
    if let Some(id) = args.id.as_ref().filter(|_| count == 0) {
        let id = printable(id);
        return Err(ClientError::Missing(format!(
            "there is no session {id} to end, or it is the one that asks"
        ))
        .into());
    }
    if !args.dry_run {
        if args.id.is_none() && !args.yes && !agrees(&format!("End {}?", sessions(count)))? {
            bail!("no session was ended");
        }
        operation["dry_run"] = json!(false);
        result = client.operate(&operation, None)?.result;
    }
    client.leave()?;
    if args.json {
        return print_line(result.to_string().as_bytes());
    }
    let what = if args.dry_run { "would end" } else { "ended" };
    let count = sessions(result["sessions"].as_u64().unwrap_or_default());
    print_line(format!("{count} {what}").as_bytes())
}

/// A session, for people.
fn row(session: &Json, now_ms: u64) -> Vec<String> {
    let text = |name: &str| session[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| session[name].as_u64().unwrap_or_default();
    vec![
        text("id"),
        name_of(session),
        text("address"),
        text("protocol"),
        transport_of(session),
        since_of(session, now_ms),
        number("subscriptions").to_string(),
        bytes(number("backlog_bytes")),
    ]
}

/// All that is known of a session, a line each.
fn facts(session: &Json, now_ms: u64) -> Vec<String> {
    let text = |name: &str| session[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| session[name].as_u64().unwrap_or_default();
    let groups = session["groups"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let port = session["port"].as_u64().map(|port| format!(" port {port}")).unwrap_or_default();
    let waits = number("backlog_messages");
    [
        ("id", text("id")),
        ("name", name_of(session)),
        ("groups", groups.collect::<Vec<_>>().join(", ")),
        ("address", text("address") + &port),
        ("protocol", text("protocol")),
        ("transport", transport_of(session)),
        ("since", since_of(session, now_ms)),
        ("subscriptions", number("subscriptions").to_string()),
        ("backlog", format!("{} in {waits} messages", bytes(number("backlog_bytes")))),
        ("conflated", number("conflated").to_string()),
        ("dropped", number("dropped").to_string()),
    ]
    .map(|(name, value)| format!("{name:15}{value}").trim_end().to_owned())
    .into()
}

pub(super) fn name_of(session: &Json) -> String {
    let name = session["name"].as_str().unwrap_or_default();
    match session["host"].as_str() {
        Some(host) => format!("@{host}/{name}"),
        None => name.to_owned(),
    }
}

pub(super) fn transport_of(session: &Json) -> String {
    let tls = if session["tls"] == json!(true) { " tls" } else { "" };
    format!("{}{tls}", session["transport"].as_str().unwrap_or_default())
}

pub(super) fn since_of(session: &Json, now_ms: u64) -> String {
    let since = session["since"].as_u64().unwrap_or(now_ms);
    // The server's clock may be ahead of this one's; it says whole seconds.
    age(now_ms.saturating_sub(since) / 1000 * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Json {
        json!({
            "id": "0-17-1", "name": "ann", "host": "shop", "groups": ["ops", "eu"], "address": "10.1.2.3", "port": 4711,
            "protocol": "stomp", "transport": "websocket", "tls": true, "since": 1_000, "subscriptions": 2,
            "backlog_messages": 3, "backlog_bytes": 2_048, "conflated": 4, "dropped": 5
        })
    }

    #[test]
    fn a_session_is_a_row() {
        let expected =
            ["0-17-1", "@shop/ann", "10.1.2.3", "stomp", "websocket tls", "1m 1s", "2", "2.0 KiB"];
        assert_eq!(row(&session(), 62_900), expected);
        assert_eq!(row(&session(), 0)[5], "0ms", "clocks differ");
    }

    #[test]
    fn all_that_is_known_is_shown() {
        let shown = facts(&session(), 61_000).join("\n");
        for line in
            ["groups         ops, eu", "address        10.1.2.3 port 4711", "dropped        5"]
        {
            assert!(shown.contains(line), "{shown}");
        }
        assert!(shown.contains("backlog        2.0 KiB in 3 messages"), "{shown}");
    }
}
