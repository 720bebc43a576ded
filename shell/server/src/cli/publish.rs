//! `tiderace pub` and `tiderace queue send`: publish messages to a topic, or send them to a queue.
//!
//! Relies on `client`. Invariant: exits with 0 only after the server has confirmed every message.

use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use tiderace_client::{Content, Kind, Publish, flag};
use tiderace_wire::properties;

use super::client::{Client, draft};
use super::connection::ConnectionArgs;
use super::destination::targets;
use super::error::ClientError;

/// `tiderace pub`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct PublishArgs {
    /// The topic, such as fx/EUR-USD.
    path: String,
    #[command(flatten)]
    message: MessageArgs,
    /// Keep the message for later subscribers of the topic.
    #[arg(short, long, conflicts_with = "queue")]
    retain: bool,
    /// Send to a queue instead of a topic.
    #[arg(short, long)]
    queue: bool,
    #[command(flatten)]
    queued: QueuedArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// `tiderace queue send`.
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The queue, such as jobs/mail.
    queue: String,
    #[command(flatten)]
    message: MessageArgs,
    #[command(flatten)]
    queued: QueuedArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What is published.
#[derive(Debug, Args)]
struct MessageArgs {
    /// The message. Without it, and without -l, -f or -n: what standard input has, without the end of its last line.
    #[arg(value_name = "MESSAGE")]
    body: Option<String>,
    /// Publish each line of standard input as a message.
    #[arg(short, long, conflicts_with_all = ["body", "stdin", "file", "null"])]
    lines: bool,
    /// Publish all of standard input as one message, exactly as it is.
    #[arg(long, conflicts_with_all = ["body", "file", "null"])]
    stdin: bool,
    /// Publish the content of a file as one message.
    #[arg(short, long, conflicts_with_all = ["body", "null"])]
    file: Option<PathBuf>,
    /// Publish an empty message.
    #[arg(short, long, conflicts_with = "body")]
    null: bool,
    /// Publish the message that many times.
    #[arg(long, default_value_t = 1, value_name = "TIMES", conflicts_with = "lines")]
    repeat: u64,
    /// Wait between repetitions, such as 500ms.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "repeat")]
    repeat_delay: Option<Duration>,
    /// The messages are worthless after so long, such as 30s.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires: Option<Duration>,
    /// Add a property to the messages, which STOMP shows as a header.
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// What the messages are, such as text/plain. Without it: JSON if they are JSON.
    #[arg(short = 't', long = "type", value_name = "CONTENT-TYPE")]
    content_type: Option<String>,
}

/// What queues do with messages.
#[derive(Debug, Args)]
struct QueuedArgs {
    /// The messages survive a restart of the server; for queues.
    #[arg(long, requires = "queue")]
    persistent: bool,
    /// The messages are delivered after so long, such as 5m; for queues.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "queue")]
    delay: Option<Duration>,
    /// The messages belong to this group, which goes to one consumer; for queues.
    #[arg(long, value_name = "GROUP", requires = "queue")]
    group: Option<String>,
    /// How urgent the messages are, from 0 to 9, the most urgent; for queues.
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(0..=9), requires = "queue")]
    priority: Option<u8>,
}

/// Publishes and waits for the server's confirmation.
pub(crate) fn run(args: &PublishArgs) -> anyhow::Result<()> {
    let PublishArgs { path, message, retain, queue, queued, connection } = args;
    let (kind, paths) = targets(path, *queue)?;
    Publisher { message, queued, retain: *retain, kind, paths }.run(connection)
}

/// Sends to a queue and waits for the server's confirmation.
pub(crate) fn send(args: &SendArgs) -> anyhow::Result<()> {
    let SendArgs { queue, message, queued, connection } = args;
    let (kind, paths) = targets(queue, true)?;
    Publisher { message, queued, retain: false, kind, paths }.run(connection)
}

/// Where messages go and what they are.
struct Publisher<'a> {
    message: &'a MessageArgs,
    queued: &'a QueuedArgs,
    retain: bool,
    kind: Kind,
    paths: Vec<String>,
}

impl Publisher<'_> {
    fn run(&self, connection: &ConnectionArgs) -> anyhow::Result<()> {
        // Read before connecting: a slow producer must not run into the login timeout.
        let body = if self.message.lines { None } else { Some(body(self.message)?) };
        let mut client = connection.connect()?;
        match body {
            Some(body) => {
                for turn in 0..self.message.repeat {
                    if let Some(delay) = self.message.repeat_delay.filter(|_| turn > 0) {
                        client.confirm()?;
                        std::thread::sleep(delay);
                    }
                    self.publish(&mut client, &body)?;
                }
            }
            None => publish_lines(&mut client, self)?,
        }
        Ok(client.leave()?)
    }

    fn publish(&self, client: &mut Client, body: &[u8]) -> Result<(), ClientError> {
        let MessageArgs { properties, content_type, expires, .. } = self.message;
        let QueuedArgs { persistent, delay, group, priority } = self.queued;
        let (content, mut block) = described(properties, content_type.as_deref(), body);
        let mut flags = content.bits()
            | if self.retain { flag::RETAIN } else { 0 }
            | if *persistent { flag::PERSISTENT } else { 0 };
        let milliseconds = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let expires_ms = expires.map(milliseconds);
        let of_queue = [
            ("delay", delay.map(|delay| milliseconds(delay).to_string())),
            ("message_group", group.clone()),
            ("priority", priority.map(|priority| priority.to_string())),
        ];
        for (name, value) in of_queue {
            let Some(value) = value else { continue };
            flags |= flag::QUEUE_FIELDS;
            properties::append(&mut block, name, &value);
        }
        for path in &self.paths {
            let message = draft(self.kind, path, flags, &block, body);
            client.publish(Publish { expires_ms, ..message })?;
        }
        Ok(())
    }
}

/// Each line leaves as soon as no further one is waiting.
fn publish_lines(client: &mut Client, publisher: &Publisher<'_>) -> anyhow::Result<()> {
    let mut input = BufReader::new(std::io::stdin().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        input.read_until(b'\n', &mut line).context("cannot read standard input")?;
        if line.is_empty() {
            return Ok(());
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        publisher.publish(client, text)?;
        if input.buffer().is_empty() {
            client.confirm()?;
        }
    }
}

/// The content type in the form that has least bytes, and the other properties. Subscribers are to see what
/// `topics set` would show them: without a type JSON would be a text to them.
pub(super) fn described(
    given: &[(String, String)],
    content_type: Option<&str>,
    body: &[u8],
) -> (Content, Vec<u8>) {
    let listed = given.iter().find(|(name, _)| name == CONTENT_TYPE).map(|(_, value)| &**value);
    let told = listed.or(content_type).or(is_json(body).then_some("application/json"));
    let mut block = Vec::new();
    let mut content = Content::Untold;
    if let Some(told) = told {
        let mut line = Vec::new();
        properties::append(&mut line, CONTENT_TYPE, told);
        let known = [Content::Json, Content::Text, Content::Binary];
        match known.into_iter().find(|known| known.line() == line) {
            Some(known) => content = known,
            None => block = line,
        }
    }
    for (name, value) in given.iter().filter(|(name, _)| name != CONTENT_TYPE) {
        properties::append(&mut block, name, value);
    }
    (content, block)
}

/// Whether bytes are one JSON value.
pub(super) fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body).is_ok()
}

const CONTENT_TYPE: &str = "content-type";

fn body(args: &MessageArgs) -> anyhow::Result<Vec<u8>> {
    if let Some(message) = &args.body {
        return Ok(message.clone().into_bytes());
    }
    if let Some(file) = &args.file {
        return std::fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    }
    if args.null {
        return Ok(Vec::new());
    }
    if args.stdin {
        return standard_input();
    }
    let usage = |problem: &str| Err(ClientError::Usage(problem.to_owned()).into());
    if std::io::stdin().is_terminal() {
        return usage(
            "write the message behind the path, or pipe it in: echo hello | tiderace pub fx/note",
        );
    }
    let mut body = standard_input()?;
    if body.is_empty() {
        return usage(
            "there is no message, and standard input is empty; -n publishes an empty message",
        );
    }
    body.pop_if(|last| *last == b'\n');
    Ok(body)
}

/// All of it.
pub(super) fn standard_input() -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body).context("cannot read standard input")?;
    Ok(body)
}

/// For clap: a duration such as `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    tiderace_config::parse_duration(text)
        .ok_or_else(|| "write a duration such as 500ms or 5s".to_owned())
}

/// For clap: a property such as `type:quote`.
pub(super) fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, _)) if OPTIONS.iter().any(|(known, _)| *known == name) => {
            let instead = OPTIONS.iter().find(|(known, _)| *known == name).map_or("", |row| row.1);
            Err(format!("{name} is no property of a message: {instead}"))
        }
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write a property as NAME:VALUE".to_owned()),
    }
}

/// Headers by which STOMP says what is no property, and how it is said here.
const OPTIONS: &[(&str, &str)] = &[
    ("retain", "use -r"),
    ("ttl", "use --expires"),
    ("expires", "use --expires"),
    ("delay", "use --delay for a queue"),
    ("deliver-at", "use --delay for a queue"),
    (
        "persistent",
        "use --persistent for a queue; of a topic say it in its specification, as with `tiderace topics create`",
    ),
    ("if-version", "use `tiderace topics set --if-version`"),
    ("if-absent", "use `tiderace topics set --if-absent`"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_are_json_say_so_unless_they_are_said_to_be_something_else() {
        let given = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        for body in [&br#"{"bid":1.09}"#[..], b"1.1", b"[]", b"null", b"\"text\""] {
            assert_eq!(described(&[], None, body), (Content::Json, vec![]));
            assert_eq!(described(&[], Some("text/plain"), body), (Content::Text, vec![]));
            let listed = given(CONTENT_TYPE, "image/png");
            let block = b"content-type:image/png\n".to_vec();
            assert_eq!(described(&listed, Some("text/plain"), body), (Content::Untold, block));
        }
        for body in [&b"hello"[..], b"", b"{\"bid\":", b"1 2", &[0xff]] {
            assert_eq!(described(&[], None, body), (Content::Untold, vec![]));
        }
        let block = described(&given("a:b", "c"), None, b"1");
        assert_eq!(block, (Content::Json, b"a\\cb:c\n".to_vec()));
    }

    #[test]
    fn what_is_no_property_is_said_otherwise() {
        assert_eq!(property("type:quote:1"), Ok(("type".to_owned(), "quote:1".to_owned())));
        for wrong in ["type", ":quote", "ttl:500", "retain:set", "delay:5"] {
            assert!(property(wrong).is_err(), "{wrong}");
        }
    }
}
