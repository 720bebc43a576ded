//! `tiderace topics`: list, read, set, create and remove topics, and read what they keep.
//!
//! Relies on `client`. Invariant: with `--json` each line of output is one JSON object; without, values
//! are printed as they are.

use std::io::{BufWriter, Read, StdoutLock, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Map, Value as Json, json};

use super::client::{Answer, Value};
use super::connection::ConnectionArgs;
use super::error::ClientError;
use super::output::output_error;
use super::publish::is_json;

/// `tiderace topics`.
#[derive(Debug, Args)]
pub(crate) struct TopicsArgs {
    #[command(subcommand)]
    command: TopicsCommand,
}

#[derive(Debug, Subcommand)]
enum TopicsCommand {
    /// List topics in the order of their paths.
    #[command(disable_help_flag = true)]
    Ls(LsArgs),
    /// Show what a topic is and keeps, and how many subscriptions it has.
    #[command(disable_help_flag = true)]
    Show(ShowArgs),
    /// Print a topic's value.
    #[command(disable_help_flag = true)]
    Get(GetArgs),
    /// Give a topic a value; prints its version.
    #[command(disable_help_flag = true)]
    Set(SetArgs),
    /// Make a topic known, with a specification and a first value.
    #[command(disable_help_flag = true)]
    Create(CreateArgs),
    /// Remove topics, their values and their histories; prints how many.
    #[command(disable_help_flag = true)]
    Rm(RmArgs),
    /// Print the messages that a topic keeps, oldest first.
    #[command(disable_help_flag = true)]
    History(HistoryArgs),
}

#[derive(Debug, Args)]
struct LsArgs {
    /// Which topics, such as fx/*, fx/** or ?fx/[A-Z]{3}-USD (quote wildcards).
    #[arg(default_value = "**")]
    selector: String,
    /// Print values too.
    #[arg(short, long)]
    values: bool,
    /// Print each topic as one line of JSON with version and specification.
    #[arg(long)]
    json: bool,
    /// List paths with more levels once, cut off there.
    #[arg(short, long, default_value_t = 0, value_name = "LEVELS", hide_default_value = true)]
    depth: u32,
    /// Stop after that many.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The topic.
    path: String,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct GetArgs {
    /// The topic.
    path: String,
    /// Print one line of JSON with version and specification.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// A value on the command line.
#[derive(Debug, Args)]
struct ValueArgs {
    /// The value: sent as JSON if it is JSON, else as text.
    #[arg(conflicts_with = "file")]
    value: Option<String>,
    /// Take the value from a file, - for standard input.
    #[arg(short, long)]
    file: Option<PathBuf>,
    /// Its content type, such as text/plain.
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    content_type: Option<String>,
}

#[derive(Debug, Args)]
struct SetArgs {
    /// The topic.
    path: String,
    #[command(flatten)]
    value: ValueArgs,
    /// Only if the present value is of this version.
    #[arg(long, value_name = "VERSION", conflicts_with = "if_absent")]
    if_version: Option<u64>,
    /// Only if there is no value.
    #[arg(long)]
    if_absent: bool,
    /// Create the topic with this specification (JSON) if it is not known.
    #[arg(long, value_name = "JSON", value_parser = specification)]
    spec: Option<Json>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// The topic.
    path: String,
    #[command(flatten)]
    value: ValueArgs,
    /// What is to be chosen for it (JSON), such as '{"type":"json","history":100}'.
    #[arg(long, value_name = "JSON", value_parser = specification)]
    spec: Option<Json>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct RmArgs {
    /// Which topics.
    selector: String,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
struct HistoryArgs {
    /// The topic.
    path: String,
    /// Only the last so many.
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "from")]
    last: Option<u64>,
    /// Only from this version on.
    #[arg(long, value_name = "VERSION")]
    from: Option<u64>,
    /// Print each message as one line of JSON with version and time.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Does what the command line asks for.
pub(crate) fn run(args: &TopicsArgs) -> anyhow::Result<()> {
    match &args.command {
        TopicsCommand::Ls(args) => list(args),
        TopicsCommand::Show(args) => show(args),
        TopicsCommand::Get(args) => get(args),
        TopicsCommand::Set(args) => set(args),
        TopicsCommand::Create(args) => create(args),
        TopicsCommand::Rm(args) => {
            let operation = json!({"do": "remove", "selector": args.selector});
            let answer = once(&args.connection, &operation, None)?;
            print_line(answer.result["topics"].to_string().as_bytes())
        }
        TopicsCommand::History(args) => history(args),
    }
}

fn list(args: &LsArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    let mut out = Lines::new();
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut after: Option<String> = None;
    while left > 0 {
        let mut operation = json!({
            "do": "fetch", "selector": args.selector, "values": args.values || args.json,
            "specs": args.json, "depth": args.depth, "limit": left.min(PAGE),
        });
        if let Some(after) = &after {
            operation["after"] = json!(after);
        }
        let answer = client.operate(&operation, None)?;
        let more = answer.result["more"] == json!(true);
        after = answer.result["next"].as_str().map(str::to_owned);
        for (entry, value) in entries(&answer, "topics") {
            let path = entry["path"].as_str().unwrap_or_default();
            match value {
                _ if args.json => out.line(&with_value(entry, value))?,
                Some(value) if args.values => {
                    out.line(&[path.as_bytes(), b" ", &value.body].concat())?;
                }
                _ => out.line(path.as_bytes())?,
            }
            left -= 1;
        }
        out.done()?;
        if !more {
            break;
        }
    }
    client.leave()?;
    Ok(())
}

fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let topic = once(&args.connection, &json!({"do": "topic", "path": args.path}), None)?.result;
    if args.json {
        return print_line(topic.to_string().as_bytes());
    }
    print_line(described(&topic).as_bytes())
}

/// What is known of a topic, a line each.
fn described(topic: &Json) -> String {
    let subscriptions = format!("{}, {} by a pattern", topic["subscriptions"], topic["by_pattern"]);
    let there = match (topic["upstream"].as_str(), topic["exists"] == json!(true)) {
        (Some(upstream), _) => format!("comes from the upstream {upstream}"),
        (None, true) => "is there".to_owned(),
        (None, false) => "is not there".to_owned(),
    };
    let path = topic["path"].as_str().unwrap_or_default();
    let mut lines = vec![format!("{path} {there}"), format!("subscriptions: {subscriptions}")];
    for (name, title) in
        [("version", "version"), ("bytes", "bytes of its value"), ("spec", "specification")]
    {
        if let Some(known) = topic.get(name) {
            lines.push(format!("{title}: {known}"));
        }
    }
    lines.join("\n")
}

fn get(args: &GetArgs) -> anyhow::Result<()> {
    let operation = json!({"do": "fetch", "selector": args.path, "values": true, "specs": true});
    let answer = once(&args.connection, &operation, None)?;
    let found = entries(&answer, "topics").into_iter().next();
    let Some((entry, value)) = found else {
        return Err(ClientError::Missing(format!("there is no topic {:?}", args.path)).into());
    };
    match value {
        _ if args.json => print_line(&with_value(entry, value)),
        Some(value) => print_line(&value.body),
        None => Err(ClientError::Missing(format!("the topic {:?} has no value", args.path)).into()),
    }
}

fn set(args: &SetArgs) -> anyhow::Result<()> {
    let mut operation = json!({"do": "update", "path": args.path});
    let Some(body) = args.value.put_into(&mut operation)? else {
        bail!("name the value, or a file with -f");
    };
    if let Some(version) = args.if_version {
        operation["if"] = json!({"version": version});
    } else if args.if_absent {
        operation["if"] = json!({"absent": true});
    }
    if let Some(spec) = &args.spec {
        operation["spec"] = spec.clone();
    }
    let answer = once(&args.connection, &operation, Some(&body))?;
    print_line(answer.result["version"].to_string().as_bytes())
}

fn create(args: &CreateArgs) -> anyhow::Result<()> {
    let mut operation = json!({"do": "create", "path": args.path});
    let body = args.value.put_into(&mut operation)?;
    if let Some(spec) = &args.spec {
        operation["spec"] = spec.clone();
    }
    let answer = once(&args.connection, &operation, body.as_deref())?;
    let existed = answer.result["existed"] == json!(true);
    print_line(if existed { b"it was there" } else { b"created" })
}

fn history(args: &HistoryArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    let mut out = Lines::new();
    let mut left = args.last.unwrap_or(u64::MAX);
    let mut from = ("version", args.from.unwrap_or(0));
    if let Some(last) = args.last {
        from = ("last", last);
    }
    loop {
        let operation = json!({"do": "history", "path": args.path, from.0: from.1});
        let answer = client.operate(&operation, None)?;
        for (event, value) in entries(&answer, "events") {
            from = ("version", event["version"].as_u64().unwrap_or(0) + 1);
            if left == 0 {
                break;
            }
            left -= 1;
            match value {
                _ if args.json => out.line(&with_value(event, value))?,
                Some(value) => out.line(&value.body)?,
                None => out.line(b"")?,
            }
        }
        out.done()?;
        if left == 0 || answer.result["more"] != json!(true) {
            client.leave()?;
            return Ok(());
        }
    }
}

impl ValueArgs {
    /// The value's bytes, if one is given; its type goes into the operation.
    fn put_into(&self, operation: &mut Json) -> anyhow::Result<Option<Vec<u8>>> {
        let body = match (&self.value, &self.file) {
            (Some(value), _) => value.clone().into_bytes(),
            (None, Some(file)) if file.as_os_str() == "-" => {
                let mut body = Vec::new();
                std::io::stdin().read_to_end(&mut body).context("cannot read standard input")?;
                body
            }
            (None, Some(file)) => {
                std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?
            }
            (None, None) => return Ok(None),
        };
        let content_type = match &self.content_type {
            Some(content_type) => content_type,
            None if is_json(&body) => "application/json",
            None if std::str::from_utf8(&body).is_ok() => "text/plain",
            None => "application/octet-stream",
        };
        operation["type"] = json!(content_type);
        Ok(Some(body))
    }
}

/// Connects, does one thing, leaves.
pub(super) fn once(
    connection: &ConnectionArgs,
    operation: &Json,
    body: Option<&[u8]>,
) -> anyhow::Result<Answer> {
    let mut client = connection.connect()?;
    let answer = client.operate(operation, body)?;
    client.leave()?;
    Ok(answer)
}

/// The entries of an answer's list with their values.
pub(super) fn entries<'a>(answer: &'a Answer, list: &str) -> Vec<(&'a Json, Option<&'a Value>)> {
    let mut values = answer.values.iter();
    let list = answer.result[list].as_array().map_or(&[][..], Vec::as_slice);
    list.iter().map(|entry| (entry, entry.get("bytes").and_then(|_| values.next()))).collect()
}

/// An entry with its value in place of the number of its bytes: as JSON, text or hexadecimal digits, and with its
/// properties.
pub(super) fn with_value(entry: &Json, value: Option<&Value>) -> Vec<u8> {
    let mut object: Map<String, Json> = entry.as_object().cloned().unwrap_or_default();
    object.remove("bytes");
    if let Some(value) = value {
        let is_json = value.content_type.as_deref() == Some("application/json");
        let json = if is_json { serde_json::from_slice::<Json>(&value.body).ok() } else { None };
        let (name, shown) = match (json, std::str::from_utf8(&value.body)) {
            (Some(json), _) => ("value", json),
            (None, Ok(text)) => ("text", json!(text)),
            (None, Err(_)) => {
                let digits = value.body.iter().map(|byte| format!("{byte:02x}"));
                ("hex", json!(digits.collect::<String>()))
            }
        };
        object.insert(name.to_owned(), shown);
        if !value.properties.is_empty() {
            let named = value.properties.iter().map(|(name, text)| (name.clone(), json!(text)));
            object.insert("properties".to_owned(), Json::Object(named.collect()));
        }
    }
    Json::Object(object).to_string().into_bytes()
}

/// Prints one line.
pub(super) fn print_line(line: &[u8]) -> anyhow::Result<()> {
    let mut out = Lines::new();
    out.line(line)?;
    out.done()
}

/// Standard output, line by line.
struct Lines(BufWriter<StdoutLock<'static>>);

impl Lines {
    fn new() -> Lines {
        Lines(BufWriter::new(std::io::stdout().lock()))
    }

    fn line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        self.0.write_all(line).and_then(|()| self.0.write_all(b"\n")).map_err(output_error)
    }

    /// What was printed so far is seen.
    fn done(&mut self) -> anyhow::Result<()> {
        self.0.flush().map_err(output_error)
    }
}

fn specification(text: &str) -> Result<Json, String> {
    let spec: Json = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if spec.is_object() {
        Ok(spec)
    } else {
        Err("write an object such as {\"type\":\"json\"}".to_owned())
    }
}

/// Topics asked for at a time.
const PAGE: u64 = 1000;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn value(content_type: Option<&str>, body: &[u8]) -> Value {
        let content_type = content_type.map(str::to_owned);
        Value { content_type, properties: Vec::new(), body: body.to_vec() }
    }

    #[test]
    fn values_go_to_the_entries_that_have_one() {
        let answer = Answer {
            result: json!({"topics": [{"path": "a", "bytes": 1}, {"path": "b"}, {"path": "c", "bytes": 2}]}),
            values: vec![value(None, b"x"), value(Some("application/json"), b"{}")],
        };
        let shown: Vec<String> = entries(&answer, "topics")
            .into_iter()
            .map(|(entry, value)| String::from_utf8(with_value(entry, value)).unwrap())
            .collect();
        assert_eq!(
            shown,
            [r#"{"path":"a","text":"x"}"#, r#"{"path":"b"}"#, r#"{"path":"c","value":{}}"#]
        );
        let line = with_value(&json!({"version": 1, "bytes": 1}), Some(&value(None, b"\xff")));
        assert_eq!(line, br#"{"hex":"ff","version":1}"#);
        let properties = vec![("k".to_owned(), "v".to_owned())];
        let line = with_value(&json!({}), Some(&Value { properties, ..value(None, b"x") }));
        assert_eq!(line, br#"{"properties":{"k":"v"},"text":"x"}"#);
    }

    #[test]
    fn values_are_json_text_or_bytes() {
        for (given, content_type, wanted) in [
            ("{\"a\":1}", None, "application/json"),
            ("hello", None, "text/plain"),
            ("1", Some("text/plain"), "text/plain"),
        ] {
            let args = ValueArgs {
                value: Some(given.to_owned()),
                file: None,
                content_type: content_type.map(str::to_owned),
            };
            let mut operation = json!({});
            let body = args.put_into(&mut operation).unwrap().unwrap();
            assert_eq!((body, operation["type"].as_str()), (given.into(), Some(wanted)));
        }
        assert!(specification("[]").is_err() && specification("{}").is_ok());
    }
}
