//! `tiderace sub`: print the messages of topics or queues.
//!
//! Relies on `client`. Invariant: a message of a queue is acknowledged only after it has been printed.

use std::io::{BufWriter, StdoutLock, Write};
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::{Map, Value as Json, json};

use super::connection::{ConnectionArgs, destination, path};
use super::frame::Frame;
use super::output_error;
use super::publish::{duration, header};

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
    /// Print each message as one line of JSON with topic, headers and body.
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
    /// Only messages whose headers satisfy this SQL-92 condition.
    #[arg(long, value_name = "CONDITION")]
    selector: Option<String>,
    /// Add a header to the subscription.
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Prints messages until the count is reached, the timeout is over or the connection ends.
pub(crate) fn run(args: &SubscribeArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    let mut headers = args.headers.clone();
    headers.extend(args.selector.clone().map(|selector| ("selector".to_owned(), selector)));
    if args.queue && !headers.iter().any(|(name, _)| name == "ack") {
        headers.push(("ack".to_owned(), "client-individual".to_owned()));
    }
    for (index, path) in args.paths.iter().enumerate() {
        client.subscribe(&index.to_string(), &destination(path, args.queue), &headers)?;
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut printed = 0;
    while args.count.is_none_or(|count| printed < count) {
        let Some(message) = client.next_message(args.timeout)? else {
            let timeout = tiderace_config::format_duration(args.timeout.unwrap_or_default());
            bail!("no message came for {timeout}, after {printed} of them");
        };
        print(&mut out, args, &message)?;
        client.acknowledge(&message)?;
        printed += 1;
    }
    client.disconnect()?;
    Ok(())
}

fn print(
    out: &mut BufWriter<StdoutLock<'_>>,
    args: &SubscribeArgs,
    message: &Frame,
) -> anyhow::Result<()> {
    let line = render(message, args.verbose, args.json);
    // Each message is seen as soon as it comes, also by a program at the other end of a pipe.
    out.write_all(&line).and_then(|()| out.flush()).map_err(output_error)
}

fn render(message: &Frame, verbose: bool, is_json: bool) -> Vec<u8> {
    let topic = path(message.header("destination").unwrap_or_default());
    let mut line = match (is_json, verbose) {
        (true, _) => to_json(&topic, message).to_string().into_bytes(),
        (false, true) => [topic.as_bytes(), b" ", &message.body].concat(),
        (false, false) => message.body.clone(),
    };
    line.push(b'\n');
    line
}

/// The body stands as text if it is UTF-8, else as hexadecimal digits in `body_hex`.
fn to_json(topic: &str, message: &Frame) -> Json {
    let mut headers = Map::new();
    for (name, value) in &message.headers {
        // The first of repeated headers counts.
        headers.entry(name.clone()).or_insert_with(|| json!(value));
    }
    let mut object = Map::new();
    object.insert("topic".to_owned(), json!(topic));
    object.insert("headers".to_owned(), Json::Object(headers));
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
        let mut message = Frame::new("MESSAGE")
            .with("destination", "/topic/fx/EUR-USD")
            .with("a", "1")
            .with("a", "2");
        message.body = b"1.09".to_vec();
        assert_eq!(render(&message, false, false), b"1.09\n");
        assert_eq!(render(&message, true, false), b"fx/EUR-USD 1.09\n");
        let json: Json = serde_json::from_slice(&render(&message, false, true)).unwrap();
        let headers = json!({ "destination": "/topic/fx/EUR-USD", "a": "1" });
        assert_eq!(json, json!({ "topic": "fx/EUR-USD", "headers": headers, "body": "1.09" }));
        message.body = vec![0xff, 0x00];
        let json: Json = serde_json::from_slice(&render(&message, false, true)).unwrap();
        assert_eq!((json.get("body"), &json["body_hex"]), (None, &json!("ff00")));
    }
}
