//! `tiderace call`: call a service and print what it answers.
//!
//! Relies on `client`. Invariant: exits with 0 only after the service has said all that it has to say.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::client::{Client, Exchange, Message, refused};
use super::connection::ConnectionArgs;
use super::error::ClientError;
use super::output::output_error;
use super::publish::{described, duration, property, standard_input};
use super::render::{Style, columns, render};

/// `tiderace call`.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The service, such as prices/quote.
    service: String,
    /// What is asked; `-` stands for standard input. Without it, and without -f: nothing but the call itself.
    body: Option<String>,
    /// Ask what a file says.
    #[arg(short, long, conflicts_with = "body")]
    file: Option<PathBuf>,
    /// Exit with an error if no answer comes for so long, such as 500ms.
    #[arg(short = 'W', long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    timeout: Duration,
    /// Add a property to the call.
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// What the body is, such as text/plain. Without it: JSON if it is JSON.
    #[arg(short = 't', long = "type", value_name = "CONTENT-TYPE")]
    content_type: Option<String>,
    /// Print each answer as one line of JSON with service, headers (its properties) and body.
    #[arg(long)]
    json: bool,
    /// Do not cut long answers to the width of the terminal.
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Calls, and prints answers up to the last one.
pub(crate) fn run(args: &CallArgs) -> anyhow::Result<()> {
    let body = body(args)?;
    let (content, block) = described(&args.properties, args.content_type.as_deref(), &body);
    let mut client = args.connection.connect()?;
    let number = client.call(&args.service, content.bits(), &block, &body, args.timeout)?;
    let columns = if args.full { None } else { columns() };
    let style = if args.json { Style::Json } else { Style::Line { with_path: false, columns } };
    let mut out = BufWriter::new(std::io::stdout().lock());
    while let Some(answer) = next(&mut client, number, args)? {
        let Answer { message, is_last } = answer;
        if let Some(message) = message {
            let message = Message { path: args.service.clone(), ..message };
            let line = render(&message, style);
            out.write_all(&line).and_then(|()| out.flush()).map_err(output_error)?;
        }
        if is_last {
            break;
        }
    }
    Ok(client.leave()?)
}

/// Something that the service said.
struct Answer {
    message: Option<Message>,
    is_last: bool,
}

fn next(client: &mut Client, number: u32, args: &CallArgs) -> Result<Option<Answer>, ClientError> {
    // The server, which knows when the service spoke last, is to be first to say that it took too long.
    let said = client.next_exchange(Some(args.timeout + MARGIN))?;
    let late = |timeout| {
        let (service, timeout) = (&args.service, tiderace_config::format_duration(timeout));
        ClientError::TimedOut(format!("{service} did not answer within {timeout}"))
    };
    match said {
        None => {
            client.cancel(false, number, "the caller has waited long enough")?;
            Err(late(args.timeout))
        }
        Some(Exchange::Said { is_last, message, .. }) => Ok(Some(Answer { message, is_last })),
        Some(Exchange::Ended { slug, .. }) if slug == "call-timeout" => Err(late(args.timeout)),
        Some(Exchange::Ended { slug, sentence, .. }) => Err(refused(&slug, &sentence)),
    }
}

fn body(args: &CallArgs) -> anyhow::Result<Vec<u8>> {
    match (&args.body, &args.file) {
        (Some(dash), _) if dash == "-" => standard_input(),
        (Some(body), _) => Ok(body.clone().into_bytes()),
        (None, Some(file)) => {
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
        }
        (None, None) => Ok(Vec::new()),
    }
}

/// How much longer than the server this command waits.
const MARGIN: Duration = Duration::from_secs(2);
