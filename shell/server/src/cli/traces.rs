//! `tiderace connections trace`, `traces` and `untrace`: see what chosen clients do, as they do it.
//!
//! Relies on `client`, and on the topic that the server answers with. Invariant: a trace that this command has begun ends with it, also by
//! Ctrl-C; if the connection is lost, it ends by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use tiderace_client::Replay;

use super::connection::ConnectionArgs;
use super::destination::subscription;
use super::error::ClientError;
use super::output::{note, printable};
use super::publish::duration;
use super::table::{Table, age, now_ms, print_table};
use super::topics::{once, print_line};

/// Events that came before this command listened, at most.
const BEFORE: u32 = 1_000;
/// How soon Ctrl-C is noticed while nothing comes.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// The session, by its id as `connections ls` shows it.
    id: Option<String>,
    /// Sessions that are logged in as that; of a virtual host: @HOST/NAME.
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Sessions whose clients have that address, or one in that network, such as 10.0.0.0/8.
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Only what is about such destinations: a path, or a pattern such as fx/** (quote wildcards).
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// For how long, such as 5m: at most 10m.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, default_value = "1m")]
    lasts: Duration,
    /// Which share of the events of messages, such as 0.1.
    #[arg(long, value_name = "SHARE")]
    sample: Option<f64>,
    /// Show so many bytes of each body, where you may read it: at most 512.
    #[arg(long, value_name = "BYTES")]
    bodies: Option<u32>,
    /// Print each event as one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
pub(super) struct TracesArgs {
    /// Print each trace as one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
pub(super) struct UntraceArgs {
    /// The number of the trace, as `connections traces` shows it.
    id: u64,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

impl TraceArgs {
    fn operation(&self) -> Json {
        let lasts = u64::try_from(self.lasts.as_millis()).unwrap_or(u64::MAX);
        let mut operation = json!({"do": "trace", "for": lasts});
        let texts = [
            ("session", &self.id),
            ("principal", &self.principal),
            ("address", &self.address),
            ("path", &self.path),
        ];
        for (name, value) in texts {
            if let Some(value) = value {
                operation[name] = json!(value);
            }
        }
        if let Some(sample) = self.sample {
            operation["sample"] = json!(sample);
        }
        if let Some(bodies) = self.bodies {
            operation["bodies"] = json!(bodies);
        }
        operation
    }
}

pub(super) fn trace(args: &TraceArgs) -> anyhow::Result<()> {
    let is_asked_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // A second one ends the command at once.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_asked_to_end))?;
        signal_hook::flag::register(signal, Arc::clone(&is_asked_to_end))?;
    }
    let mut client = args.connection.connect()?;
    let begun = client.operate(&args.operation(), None)?.result;
    let topic = begun["topic"].as_str().unwrap_or_default();
    client.subscribe(subscription(topic, false)?.replay(Replay::Last(BEFORE)))?;
    if !args.json {
        note(&format!("trace {} goes on for {}; Ctrl-C ends it", begun["id"], {
            tiderace_config::format_duration(args.lasts)
        }));
    }
    while !is_asked_to_end.load(Ordering::Relaxed) {
        let Some(message) = client.next_message(Some(LOOK))? else { continue };
        let event: Json = serde_json::from_slice(&message.body).unwrap_or_default();
        match args.json {
            true => print_line(event.to_string().as_bytes())?,
            false => print_line(printable(&sentence(&event)).as_bytes())?,
        }
        if event["event"] == "trace-ended" {
            return Ok(client.leave()?);
        }
    }
    client.operate(&json!({"do": "trace-end", "id": begun["id"]}), None)?;
    Ok(client.leave()?)
}

pub(super) fn list(args: &TracesArgs) -> anyhow::Result<()> {
    let result = once(&args.connection, &json!({"do": "traces"}), None)?.result;
    let mut table = Table::new(&[">ID", ">SINCE", ">LEFT", "BY", "WHAT", ">LEFT OUT"]);
    for trace in result["traces"].as_array().into_iter().flatten() {
        match args.json {
            true => print_line(trace.to_string().as_bytes())?,
            false => table.row(row(trace, now_ms())),
        }
    }
    print_table(&mut table)
}

pub(super) fn end(args: &UntraceArgs) -> anyhow::Result<()> {
    let operation = json!({"do": "trace-end", "id": args.id});
    let result = once(&args.connection, &operation, None)?.result;
    if result["traces"] == json!(0) {
        return Err(ClientError::Missing(format!("no trace {} goes on", args.id)).into());
    }
    match args.json {
        true => print_line(result.to_string().as_bytes()),
        false => print_line(format!("trace {} has ended", args.id).as_bytes()),
    }
}

fn row(trace: &Json, now_ms: u64) -> Vec<String> {
    let text = |name: &str| trace[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| trace[name].as_u64().unwrap_or_default();
    // The server's clock may be ahead of this one's, or behind; whole seconds are enough.
    let seconds = |span_ms: u64| age(span_ms / 1000 * 1000);
    vec![
        number("id").to_string(),
        seconds(now_ms.saturating_sub(number("since"))),
        seconds(number("until").saturating_sub(now_ms)),
        text("by"),
        text("what"),
        number("left_out").to_string(),
    ]
}

/// An event, for people.
fn sentence(event: &Json) -> String {
    let text = |name: &str| event[name].as_str();
    let of_day = event["time"].as_u64().unwrap_or_default() % 86_400_000;
    let (seconds, thousandths) = (of_day / 1000, of_day % 1000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut line = format!("{hours:02}:{minutes:02}:{:02}.{thousandths:03}Z", seconds % 60);
    for name in ["session", "name"] {
        if let Some(text) = text(name) {
            line += &format!("  {text}");
        }
    }
    let what = text("event").unwrap_or_default();
    if what == "left-out" {
        return line + &format!("  {} left out", event["count"]);
    }
    line += &format!("  {}", what.replace('-', " "));
    let said = [
        "do",
        "login",
        "topic",
        "queue",
        "service",
        "messages",
        "bytes",
        "subscription",
        "token",
        "protocol",
        "address",
        "side",
        "why",
        "code",
        "reason",
        "bodies",
    ];
    for name in said {
        match &event[name] {
            Json::Null => {}
            Json::String(text) if matches!(name, "do" | "code" | "why") => {
                line += &format!(" {text}")
            }
            Json::String(text) if name == "reason" => line += &format!(": {text}"),
            Json::String(text) => line += &format!(" {name} {text}"),
            other => line += &format!(" {name}={other}"),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_sentence() {
        for (event, expected) in [
            (
                json!({"time": 3_723_004, "event": "published", "session": "0-17-1", "name": "ann",
                    "topic": "fx/EUR", "messages": 2, "bytes": 40, "bodies": ["a", "b"]}),
                r#"01:02:03.004Z  0-17-1  ann  published topic fx/EUR messages=2 bytes=40 bodies=["a","b"]"#,
            ),
            (
                json!({"time": 0, "event": "ended", "session": "0-1-1", "code": "kicked", "reason": "An end."}),
                "00:00:00.000Z  0-1-1  ended kicked: An end.",
            ),
            (
                json!({"time": 0, "event": "asked", "session": "0-1-1", "do": "update", "topic": "a", "token": 3}),
                "00:00:00.000Z  0-1-1  asked update topic a token=3",
            ),
            (json!({"time": 0, "event": "left-out", "count": 42}), "00:00:00.000Z  42 left out"),
            (
                json!({"time": 0, "event": "trace-ended", "why": "time"}),
                "00:00:00.000Z  trace ended time",
            ),
        ] {
            assert_eq!(sentence(&event), expected);
        }
    }

    #[test]
    fn a_trace_is_a_row() {
        let trace = json!({"id": 3, "since": 1_000, "until": 61_000, "by": "oli", "what": "path=fx/** for=60000ms", "left_out": 4});
        let expected = ["3", "10s", "50s", "oli", "path=fx/** for=60000ms", "4"];
        assert_eq!(row(&trace, 11_000), expected);
    }
}
