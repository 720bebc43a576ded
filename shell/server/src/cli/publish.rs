//! `tiderace pub`: publish messages to a topic, or send them to a queue.
//!
//! Relies on `client`. Invariant: exits with 0 only after the server has confirmed every message.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use super::client::Client;
use super::connection::{ConnectionArgs, destination};

/// `tiderace pub`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct PublishArgs {
    /// The topic, such as fx/EUR-USD.
    path: String,
    /// The message. Without it: one of -l, -s, -f or -n.
    #[arg(required_unless_present_any = ["lines", "stdin", "file", "null"])]
    message: Option<String>,
    /// Publish each line of standard input as a message.
    #[arg(short, long, conflicts_with_all = ["message", "stdin", "file", "null"])]
    lines: bool,
    /// Publish all of standard input as one message.
    #[arg(short, long, conflicts_with_all = ["message", "file", "null"])]
    stdin: bool,
    /// Publish the content of a file as one message.
    #[arg(short, long, conflicts_with_all = ["message", "null"])]
    file: Option<PathBuf>,
    /// Publish an empty message.
    #[arg(short, long, conflicts_with = "message")]
    null: bool,
    /// Keep the message for later subscribers of the topic.
    #[arg(short, long, conflicts_with = "queue")]
    retain: bool,
    /// Send to a queue instead of a topic.
    #[arg(short, long)]
    queue: bool,
    /// Publish the message that many times.
    #[arg(long, default_value_t = 1, value_name = "TIMES", conflicts_with = "lines")]
    repeat: u64,
    /// Wait between repetitions, such as 500ms.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "repeat")]
    repeat_delay: Option<Duration>,
    /// Add a header to the messages.
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// What the messages are, such as text/plain. Without it: JSON if they are JSON.
    #[arg(short = 't', long = "type", value_name = "CONTENT-TYPE")]
    content_type: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Publishes and waits for the server's confirmation.
pub(crate) fn run(args: &PublishArgs) -> anyhow::Result<()> {
    let destination = destination(&args.path, args.queue);
    if destination.contains(['*', '+', '#']) {
        bail!("{:?} has a wildcard; name one topic to publish to", args.path);
    }
    let mut headers = args.headers.clone();
    if let Some(content_type) = &args.content_type {
        headers.push((CONTENT_TYPE.to_owned(), content_type.clone()));
    }
    if args.retain {
        headers.push(("retain".to_owned(), "set".to_owned()));
    }
    // Read before connecting: a slow producer must not run into the login timeout.
    let body = if args.lines { None } else { Some(body(args)?) };
    let mut client = args.connection.connect()?;
    match body {
        Some(body) => {
            let headers = with_type(&headers, &body);
            for turn in 0..args.repeat {
                if let Some(delay) = args.repeat_delay.filter(|_| turn > 0) {
                    client.confirm()?;
                    std::thread::sleep(delay);
                }
                client.send(&destination, &headers, &body)?;
            }
        }
        None => publish_lines(&mut client, &destination, &headers)?,
    }
    client.confirm()?;
    client.disconnect()?;
    Ok(())
}

/// Each line leaves as soon as no further one is waiting.
fn publish_lines(
    client: &mut Client,
    destination: &str,
    headers: &[(String, String)],
) -> anyhow::Result<()> {
    let mut input = BufReader::new(std::io::stdin().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        input.read_until(b'\n', &mut line).context("cannot read standard input")?;
        if line.is_empty() {
            return Ok(());
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        client.send(destination, &with_type(headers, text), text)?;
        if input.buffer().is_empty() {
            client.confirm()?;
        }
    }
}

/// Subscribers are to see what `topics set` would show them: without a type JSON would be a text to them.
fn with_type<'a>(headers: &'a [(String, String)], body: &[u8]) -> Cow<'a, [(String, String)]> {
    let is_told = headers.iter().any(|(name, _)| name == CONTENT_TYPE);
    if is_told || !is_json(body) {
        return headers.into();
    }
    let json = (CONTENT_TYPE.to_owned(), "application/json".to_owned());
    headers.iter().cloned().chain([json]).collect::<Vec<_>>().into()
}

/// Whether bytes are one JSON value.
pub(super) fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body).is_ok()
}

const CONTENT_TYPE: &str = "content-type";

fn body(args: &PublishArgs) -> anyhow::Result<Vec<u8>> {
    if let Some(message) = &args.message {
        return Ok(message.clone().into_bytes());
    }
    if let Some(file) = &args.file {
        return std::fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    }
    let mut body = Vec::new();
    if args.stdin {
        std::io::stdin().read_to_end(&mut body).context("cannot read standard input")?;
    }
    Ok(body)
}

/// For clap: a duration such as `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    tiderace_config::parse_duration(text)
        .ok_or_else(|| "write a duration such as 500ms or 5s".to_owned())
}

/// For clap: a header such as `type:quote`.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write a header as NAME:VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_are_json_say_so_unless_they_are_said_to_be_something_else() {
        let told = vec![(CONTENT_TYPE.to_owned(), "text/plain".to_owned())];
        let type_of = |headers: &[(String, String)], body: &[u8]| {
            let headers = with_type(headers, body);
            let found = headers.iter().find(|(name, _)| name == CONTENT_TYPE);
            found.map(|(_, value)| value.clone())
        };
        let json = Some("application/json".to_owned());
        for body in [&br#"{"bid":1.09}"#[..], b"1.1", b"[]", b"null", b"\"text\""] {
            assert_eq!(type_of(&[], body), json);
            assert_eq!(type_of(&told, body).as_deref(), Some("text/plain"));
        }
        for body in [&b"hello"[..], b"", b"{\"bid\":", b"1 2", &[0xff]] {
            assert_eq!(type_of(&[], body), None);
        }
    }
}
