//! `tiderace queues`: send to queues and receive from them, list queues, look into them, purge them, move their messages, pause them.
//!
//! Relies on `client`. Invariants: lists of any length are asked for a page at a time; what many messages are done with
//! is asked for in steps, so that an answer never takes long; nothing is purged on a terminal before its user has agreed.

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::client::Value;
use super::connection::ConnectionArgs;
use super::output::{agrees, printable};
use super::pages::{Printing, print_list};
use super::publish::{self, SendArgs};
use super::subscribe::{self, ReceiveArgs};
use super::table::{Table, age, bytes, print_table};
use super::topics::{entries, once, print_line, with_value};

/// `tiderace queues`.
#[derive(Debug, Args)]
pub(crate) struct QueuesArgs {
    #[command(subcommand)]
    command: QueuesCommand,
}

#[derive(Debug, Subcommand)]
enum QueuesCommand {
    /// Send messages to a queue.
    #[command(disable_help_flag = true)]
    Send(SendArgs),
    /// Print messages of queues and acknowledge each.
    #[command(disable_help_flag = true)]
    Receive(ReceiveArgs),
    /// List queues, and how they fare.
    #[command(disable_help_flag = true)]
    Ls(LsArgs),
    /// Show a queue with its options and its consumers.
    #[command(disable_help_flag = true)]
    Show(ShowArgs),
    /// Print messages of a queue, which stay in it.
    #[command(disable_help_flag = true)]
    Peek(PeekArgs),
    /// Remove the messages that are ready in a queue; prints how many.
    #[command(disable_help_flag = true)]
    Purge(PurgeArgs),
    /// Move the messages that are ready in a queue to another one; prints how many.
    #[command(disable_help_flag = true)]
    Move(MoveArgs),
    /// Send dead letters back to where they came from, as new; prints how many.
    #[command(disable_help_flag = true)]
    Redrive(RedriveArgs),
    /// Let consumers wait: they get nothing of a queue until it is resumed.
    #[command(disable_help_flag = true)]
    Pause(PauseArgs),
    /// Give consumers the messages of a queue again.
    #[command(disable_help_flag = true)]
    Resume(PauseArgs),
}

#[derive(Debug, Args)]
struct LsArgs {
    /// Which queues, such as jobs/* or jobs/** (quote wildcards).
    #[arg(default_value = "**")]
    pattern: String,
    /// Print each queue as one line of JSON.
    #[arg(long)]
    json: bool,
    /// Stop after that many.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The queue.
    queue: String,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct PeekArgs {
    /// The queue.
    queue: String,
    /// Begin at this position.
    #[arg(long, value_name = "POSITION", default_value_t = 0, hide_default_value = true)]
    from: u64,
    /// Stop after that many.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Only messages with such properties, such as "colour = 'red'".
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Bytes of each body; what is longer is cut.
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    body_bytes: u32,
    /// Print each message as one line of JSON with position and properties.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct PurgeArgs {
    /// The queue.
    queue: String,
    /// Only messages with such properties, such as "colour = 'red'".
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<String>,
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
struct MoveArgs {
    /// The queue that they are in.
    from: String,
    /// The queue where they are to go.
    to: String,
    /// Only messages with such properties, such as "colour = 'red'".
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Stop after that many.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct RedriveArgs {
    /// The queue of dead letters.
    queue: String,
    /// Send them to this queue instead.
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// Only messages with such properties, such as "colour = 'red'".
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Stop after that many.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct PauseArgs {
    /// The queue.
    queue: String,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Does what the command line asks for.
pub(crate) fn run(args: &QueuesArgs) -> anyhow::Result<()> {
    match &args.command {
        QueuesCommand::Send(args) => publish::send(args),
        QueuesCommand::Receive(args) => subscribe::receive(args),
        QueuesCommand::Ls(args) => list(args),
        QueuesCommand::Show(args) => show(args),
        QueuesCommand::Peek(args) => peek(args),
        QueuesCommand::Purge(args) => purge(args),
        QueuesCommand::Move(args) => {
            let operation = json!({"do": "move", "from": args.from, "to": args.to});
            transfer(&args.connection, operation, args.selector.as_deref(), args.limit, args.json)
        }
        QueuesCommand::Redrive(args) => {
            let mut operation = json!({"do": "redrive", "path": args.queue});
            if let Some(to) = &args.to {
                operation["to"] = json!(to);
            }
            transfer(&args.connection, operation, args.selector.as_deref(), args.limit, args.json)
        }
        QueuesCommand::Pause(args) => set_paused(args, "pause"),
        QueuesCommand::Resume(args) => set_paused(args, "resume"),
    }
}

fn list(args: &LsArgs) -> anyhow::Result<()> {
    let printing = Printing {
        json: args.json,
        columns: &[
            "QUEUE",
            ">READY",
            ">IN FLIGHT",
            ">DELAYED",
            ">BYTES",
            ">CONSUMERS",
            ">OLDEST",
            "STATE",
            "FED BY",
            "OWNER",
        ],
        row: |queue: &Json| Some(row(queue)),
        limit: args.limit,
    };
    let operation = json!({"do": "queues", "pattern": args.pattern});
    print_list(&args.connection, operation, "queues", &printing).map(|_| ())
}

fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    let mut operation = json!({"do": "queue", "path": args.queue});
    let mut shown = client.operate(&operation, None)?.result;
    let mut consumers = taken(&mut shown, "listed");
    while shown["more"] == json!(true) {
        operation["after"] = shown["next"].clone();
        shown = client.operate(&operation, None)?.result;
        consumers.extend(taken(&mut shown, "listed"));
    }
    client.leave()?;
    if args.json {
        shown["listed"] = Json::Array(consumers);
        for name in ["more", "next"] {
            shown.as_object_mut().map(|object| object.remove(name));
        }
        return print_line(shown.to_string().as_bytes());
    }
    for line in described(&shown) {
        print_line(printable(&line).as_bytes())?;
    }
    let mut table = Table::new(&[
        "SESSION",
        ">SUBSCRIPTION",
        ">IN FLIGHT",
        ">BYTES",
        ">PREFETCH",
        ">CREDIT",
        "EXCLUSIVE",
        "SELECTOR",
    ]);
    consumers.iter().for_each(|consumer| table.row(consumer_row(consumer)));
    print_table(&mut table)
}

fn peek(args: &PeekArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    let mut left = args.limit;
    let mut operation =
        json!({"do": "peek", "path": args.queue, "from": args.from, "body_bytes": args.body_bytes});
    if let Some(selector) = &args.selector {
        operation["selector"] = json!(selector);
    }
    while left > 0 {
        operation["limit"] = json!(left.min(PAGE));
        let answer = client.operate(&operation, None)?;
        for (entry, value) in entries(&answer, "messages") {
            left = left.saturating_sub(1);
            let line = match args.json {
                true => with_value(entry, value),
                false => printable(&message_line(entry, value)).into_bytes(),
            };
            print_line(&line)?;
        }
        if answer.result["more"] != json!(true) {
            break;
        }
        operation["from"] = answer.result["next"].clone();
    }
    client.leave()?;
    Ok(())
}

fn purge(args: &PurgeArgs) -> anyhow::Result<()> {
    let which =
        args.selector.as_ref().map_or_else(String::new, |selector| format!(" with {selector}"));
    let question = format!("Remove all messages{which} that are ready in {}?", args.queue);
    if !args.yes && !agrees(&question)? {
        bail!("nothing was purged");
    }
    let mut operation = json!({"do": "purge", "path": args.queue});
    if let Some(selector) = &args.selector {
        operation["selector"] = json!(selector);
    }
    let result = once(&args.connection, &operation, None)?.result;
    let line = if args.json { result.to_string() } else { result["messages"].to_string() };
    print_line(line.as_bytes())
}

/// Moves messages, so many at a time.
fn transfer(
    connection: &ConnectionArgs,
    mut operation: Json,
    selector: Option<&str>,
    limit: Option<u64>,
    as_json: bool,
) -> anyhow::Result<()> {
    if let Some(selector) = selector {
        operation["selector"] = json!(selector);
    }
    let mut client = connection.connect()?;
    let mut left = limit.unwrap_or(u64::MAX);
    let (mut moved, mut last) = (0, json!({"kept": 0}));
    while left > 0 {
        let step = left.min(STEP);
        operation["limit"] = json!(step);
        last = client.operate(&operation, None)?.result;
        // What comes meanwhile is not meant: it would go on for ever.
        operation["up_to"] = last["up_to"].clone();
        let messages = last["messages"].as_u64().unwrap_or(0);
        moved += messages;
        left -= messages.min(left);
        if messages < step {
            break;
        }
    }
    client.leave()?;
    last["messages"] = json!(moved);
    let line = if as_json { last.to_string() } else { moved.to_string() };
    print_line(line.as_bytes())?;
    let reason = last["refused"]["reason"].as_str().map(printable);
    match (last["kept"].as_u64().unwrap_or(0), reason) {
        (0, _) => Ok(()),
        (kept, reason) => {
            let reason = reason.unwrap_or_default();
            bail!("{kept} messages or more stay where they are: {reason}")
        }
    }
}

fn set_paused(args: &PauseArgs, what: &str) -> anyhow::Result<()> {
    once(&args.connection, &json!({"do": what, "path": args.queue}), None).map(|_| ())
}

/// Takes a list out of an answer.
fn taken(result: &mut Json, list: &str) -> Vec<Json> {
    match result[list].take() {
        Json::Array(list) => list,
        _ => Vec::new(),
    }
}

/// A queue of a list, for people.
fn row(queue: &Json) -> Vec<String> {
    let number = |name: &str| queue[name].as_u64().unwrap_or_default();
    let is = |name: &str| queue[name] == json!(true);
    let state = match (is("paused"), is("full")) {
        (true, true) => "paused, full",
        (true, false) => "paused",
        (false, true) => "full",
        (false, false) => "",
    };
    vec![
        queue["path"].as_str().unwrap_or_default().to_owned(),
        number("messages").to_string(),
        number("in_flight").to_string(),
        number("delayed").to_string(),
        bytes(number("bytes")),
        number("consumers").to_string(),
        queue["oldest_ms"].as_u64().map(age).unwrap_or_default(),
        state.to_owned(),
        queue["topics"].as_str().unwrap_or_default().to_owned(),
        queue["owner"].as_str().unwrap_or_default().to_owned(),
    ]
}

/// A queue and its options, for people.
fn described(queue: &Json) -> Vec<String> {
    let options = &queue["options"];
    let number = |of: &Json, name: &str| of[name].as_u64().unwrap_or_default();
    let limit = |name: &str| match number(options, name) {
        0 => "no limit".to_owned(),
        number => number.to_string(),
    };
    let mut lines: Vec<String> = [
        "queue",
        "ready",
        "in flight",
        "delayed",
        "bytes",
        "consumers",
        "oldest message",
        "state",
        "fed by",
        "owner",
    ]
    .into_iter()
    .zip(row(queue))
    .chain([("selector", queue["selector"].as_str().unwrap_or_default().to_owned())])
    .filter(|(_, value)| !value.is_empty())
    .map(|(name, value)| format!("{name}: {value}"))
    .collect();
    if let Some(most) = queue["owner_bytes_max"].as_u64() {
        let all = bytes(number(queue, "owner_bytes"));
        lines.push(format!("bytes of its owner: {all} of {}", bytes(most)));
    }
    let prefetch_bytes = match number(options, "prefetch_bytes") {
        0 => "no limit".to_owned(),
        number => bytes(number),
    };
    lines.push(format!("memory_bytes_max: {}", bytes(number(options, "memory_bytes_max"))));
    lines.push(format!("prefetch_count: {}", limit("prefetch_count")));
    lines.push(format!("prefetch_bytes: {prefetch_bytes}"));
    lines.push(format!("redeliveries_max: {}", limit("redeliveries_max")));
    let delay = match number(options, "redelivery_delay_ms") {
        0 => "none".to_owned(),
        delay => span(delay),
    };
    lines.push(format!("redelivery_delay: {delay}"));
    lines.push(format!("redelivery_delay_factor: {}", number(options, "redelivery_delay_factor")));
    lines.push(format!(
        "redelivery_delay_max: {}",
        span(number(options, "redelivery_delay_max_ms"))
    ));
    lines.push(format!("messages_max: {}", limit("messages_max")));
    for name in ["full_policy", "dispatch"] {
        lines.push(format!("{name}: {}", options[name].as_str().unwrap_or_default()));
    }
    for name in ["dead_letter_expired", "mirrored", "priorities"] {
        lines.push(format!("{name}: {}", options[name]));
    }
    lines.push(format!("delay_max: {}", span(number(options, "delay_max_ms"))));
    let dead_letter = options["dead_letter"].as_str().unwrap_or("none: dead letters are dropped");
    lines.push(format!("dead_letter: {dead_letter}"));
    lines.push(format!("idle_removal: {}", age(number(options, "idle_ms"))));
    lines
}

/// A span of milliseconds: as an age from seconds on.
fn span(milliseconds: u64) -> String {
    match milliseconds.is_multiple_of(1_000) {
        true => age(milliseconds),
        false => format!("{milliseconds}ms"),
    }
}

/// A consumer, for people.
fn consumer_row(consumer: &Json) -> Vec<String> {
    let number = |name: &str| consumer[name].as_u64().unwrap_or_default();
    let prefetch = match (number("prefetch_count"), number("prefetch_bytes")) {
        (0, 0) => "no limit".to_owned(),
        (count, 0) => count.to_string(),
        (0, size) => bytes(size),
        (count, size) => format!("{count}, {}", bytes(size)),
    };
    let exclusive = match (&consumer["exclusive"], &consumer["active"]) {
        (Json::Bool(true), Json::Bool(true)) => "has the queue",
        (Json::Bool(true), _) => "waits",
        _ => "",
    };
    vec![
        consumer["session"].as_str().unwrap_or_default().to_owned(),
        number("subscription").to_string(),
        number("in_flight").to_string(),
        bytes(number("in_flight_bytes")),
        prefetch,
        consumer["credit"].as_u64().map(|credit| credit.to_string()).unwrap_or_default(),
        exclusive.to_owned(),
        consumer["selector"].as_str().unwrap_or_default().to_owned(),
    ]
}

/// A message, for people: its position, what is remarkable about it, and its body.
fn message_line(entry: &Json, value: Option<&Value>) -> String {
    let mut line = entry["position"].to_string();
    match entry["redeliveries"].as_u64() {
        Some(0) | None => {}
        Some(count) => line.push_str(&format!(" (redelivered {count} times)")),
    }
    line.push(' ');
    match value.map(|value| std::str::from_utf8(&value.body).map_err(|_| value.body.len())) {
        Some(Ok(text)) => line.push_str(text),
        Some(Err(bytes)) => line.push_str(&format!("({bytes} bytes that are no text)")),
        None => {}
    }
    if let Some(bytes) = entry["cut"].as_u64() {
        line.push_str(&format!("… ({bytes} bytes)"));
    }
    line
}

/// Messages asked for at a time.
const PAGE: usize = 1_000;
/// Messages moved at a time, so that the server answers before anybody gives up.
const STEP: u64 = 50_000;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_told_to_people() {
        let queue = json!({
            "path": "jobs", "messages": 3, "in_flight": 1, "delayed": 4, "bytes": 2048, "consumers": 2, "full": true,
            "paused": true, "oldest_ms": 61_000, "topics": "fx/**", "owner": "ann", "owner_bytes": 4096, "owner_bytes_max": 1_048_576, "selector": "a = 1", "options": {"memory_bytes_max": 1_048_576, "prefetch_count": 0,
            "prefetch_bytes": 655_360, "redeliveries_max": 20, "idle_ms": 30_000, "messages_max": 9, "full_policy": "reject",
            "redelivery_delay_ms": 250, "redelivery_delay_max_ms": 60_000}
        });
        assert_eq!(
            row(&queue),
            ["jobs", "3", "1", "4", "2.0 KiB", "2", "1m 1s", "paused, full", "fx/**", "ann"]
        );
        let lines = described(&queue).join("; ");
        for part in [
            "queue: jobs",
            "fed by: fx/**",
            "owner: ann",
            "bytes of its owner: 4.0 KiB of 1.0 MiB",
            "selector: a = 1",
            "oldest message: 1m 1s",
            "memory_bytes_max: 1.0 MiB",
            "prefetch_count: no limit",
            "delayed: 4",
            "messages_max: 9",
            "full_policy: reject",
            "redelivery_delay: 250ms",
            "redelivery_delay_max: 1m",
            "idle_removal: 30s",
            "dropped",
        ] {
            assert!(lines.contains(part), "{lines}");
        }
        let consumer = json!({
            "session": "0-1-0", "subscription": 4, "in_flight": 2, "in_flight_bytes": 10, "prefetch_count": 5,
            "prefetch_bytes": 0, "credit": 7, "exclusive": true, "active": true, "selector": "a = 'b'"
        });
        assert_eq!(
            consumer_row(&consumer),
            ["0-1-0", "4", "2", "10", "5", "7", "has the queue", "a = 'b'"]
        );
    }

    #[test]
    fn messages_are_one_line_each() {
        let text = Value { content_type: None, properties: Vec::new(), body: b"hello".to_vec() };
        let bytes = Value { body: b"\xff\xfe".to_vec(), ..text.clone() };
        assert_eq!(
            message_line(&json!({"position": 7, "redeliveries": 0}), Some(&text)),
            "7 hello"
        );
        let cut = json!({"position": 8, "redeliveries": 2, "cut": 99});
        assert_eq!(message_line(&cut, Some(&text)), "8 (redelivered 2 times) hello… (99 bytes)");
        let line = message_line(&json!({"position": 9, "redeliveries": 0}), Some(&bytes));
        assert_eq!(line, "9 (2 bytes that are no text)");
    }
}
