//! `tiderace sub`: print the messages of topics or queues.
//!
//! Relies on `client`. Invariant: a message of a queue is acknowledged only after it has been printed.

use std::io::{BufWriter, StdoutLock, Write};
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::{Map, Value as Json, json};
use tiderace_client::{Prefetch, Replay, SubscribeOptions};

use super::client::Message;
use super::connection::ConnectionArgs;
use super::destination::subscription;
use super::output::output_error;
use super::publish::duration;

/// `tiderace sub`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct SubscribeArgs {
    /// Topics, such as fx/EUR-USD, fx/* (one level) or fx/** (all below; quote wildcards).
    #[arg(required = true)]
    paths: Vec<String>,
    /// Consume queues instead of topics.
    #[arg(short, long)]
    queue: bool,
    /// Exit after that many messages.
    #[arg(short = 'C', long, value_name = "N")]
    count: Option<u64>,
    /// Exit with an error if no message comes for so long, such as 5s.
    #[arg(short = 'W', long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Print the topic in front of each message.
    #[arg(short, long)]
    verbose: bool,
    /// Print each message as one line of JSON with topic, headers (its properties) and body.
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
    /// Only messages whose properties satisfy this SQL-92 condition.
    #[arg(long, value_name = "CONDITION")]
    selector: Option<String>,
    /// Begin with the last messages that topics keep, so many of each, instead of with their values.
    #[arg(long, value_name = "N", conflicts_with = "queue")]
    last: Option<u32>,
    /// At most one update of each topic in so long, such as 100ms.
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "queue")]
    interval: Option<Duration>,
    /// Of a queue: messages that may be under way unacknowledged.
    #[arg(long, value_name = "N", requires = "queue")]
    prefetch: Option<u32>,
    /// Of a queue: be its only consumer.
    #[arg(long, requires = "queue")]
    exclusive: bool,
    /// Of a queue: print its messages and leave them there; exit behind the last that is there.
    #[arg(long, requires = "queue", conflicts_with = "exclusive")]
    browse: bool,
    /// With --browse: go on with what comes.
    #[arg(long, requires = "browse")]
    follow: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Prints messages until the count is reached, the timeout is over or the connection ends.
pub(crate) fn run(args: &SubscribeArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    for path in &args.paths {
        client.subscribe(options(args, path)?)?;
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut printed = 0;
    while args.count.is_none_or(|count| printed < count) {
        let Some(message) = client.next_message(args.timeout)? else {
            if client.has_seen_all() {
                break;
            }
            let timeout = tiderace_config::format_duration(args.timeout.unwrap_or_default());
            bail!("no message came for {timeout}, after {printed} of them");
        };
        print(&mut out, args, &message)?;
        client.acknowledge(&message)?;
        printed += 1;
    }
    client.leave()?;
    Ok(())
}

fn options(args: &SubscribeArgs, path: &str) -> anyhow::Result<SubscribeOptions> {
    let mut options = subscription(path, args.queue)?;
    if let Some(selector) = &args.selector {
        options = options.selector(selector);
    }
    if let Some(last) = args.last {
        options = options.replay(Replay::Last(last));
    }
    if let Some(interval) = args.interval {
        options = options.interval_ms(u64::try_from(interval.as_millis()).unwrap_or(u64::MAX));
    }
    if let Some(messages) = args.prefetch {
        options = options.prefetch(Prefetch { messages, bytes: 0 });
    }
    Ok(match (args.browse, args.follow) {
        (true, true) => options.follow(),
        (true, false) => options.browse(),
        _ if args.exclusive => options.exclusive(),
        _ => options,
    })
}

fn print(
    out: &mut BufWriter<StdoutLock<'_>>,
    args: &SubscribeArgs,
    message: &Message,
) -> anyhow::Result<()> {
    let line = render(message, args.verbose, args.json);
    // Each message is seen as soon as it comes, also by a program at the other end of a pipe.
    out.write_all(&line).and_then(|()| out.flush()).map_err(output_error)
}

fn render(message: &Message, verbose: bool, is_json: bool) -> Vec<u8> {
    let mut line = match (is_json, verbose) {
        (true, _) => to_json(message).to_string().into_bytes(),
        (false, true) => [message.path.as_bytes(), b" ", &message.body].concat(),
        (false, false) => message.body.clone(),
    };
    line.push(b'\n');
    line
}

/// The body stands as text if it is UTF-8, else as hexadecimal digits in `body_hex`.
fn to_json(message: &Message) -> Json {
    let mut headers = Map::new();
    for (name, value) in &message.properties {
        // The first of repeated properties counts.
        headers.entry(name.clone()).or_insert_with(|| json!(value));
    }
    let mut object = Map::new();
    object.insert("topic".to_owned(), json!(message.path));
    object.insert("headers".to_owned(), Json::Object(headers));
    if message.removed {
        object.insert("removed".to_owned(), json!(true));
    }
    match std::str::from_utf8(&message.body) {
        Ok(text) => object.insert("body".to_owned(), json!(text)),
        Err(_) => {
            let digits: String = message.body.iter().map(|byte| format!("{byte:02x}")).collect();
            object.insert("body_hex".to_owned(), json!(digits))
        }
    };
    Json::Object(object)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_printed_in_three_ways() {
        let property = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut message = Message {
            path: "fx/EUR-USD".to_owned(),
            properties: vec![property("a", "1"), property("a", "2")],
            body: b"1.09".to_vec(),
            ..Message::default()
        };
        assert_eq!(render(&message, false, false), b"1.09\n");
        assert_eq!(render(&message, true, false), b"fx/EUR-USD 1.09\n");
        let json: Json = serde_json::from_slice(&render(&message, false, true)).unwrap();
        let headers = json!({ "a": "1" });
        assert_eq!(json, json!({ "topic": "fx/EUR-USD", "headers": headers, "body": "1.09" }));
        message.body = vec![0xff, 0x00];
        let json: Json = serde_json::from_slice(&render(&message, false, true)).unwrap();
        assert_eq!((json.get("body"), &json["body_hex"]), (None, &json!("ff00")));
        message = Message { body: vec![], removed: true, ..message };
        let json: Json = serde_json::from_slice(&render(&message, false, true)).unwrap();
        assert_eq!((&json["body"], &json["removed"]), (&json!(""), &json!(true)));
    }
}
