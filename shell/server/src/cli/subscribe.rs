//! `tiderace sub` and `tiderace queue receive`: print the messages of topics or queues.
//!
//! Relies on `client`. Invariants: a message of a queue is acknowledged only after it has been printed; a
//! connection that is lost is made again, unless all that is wanted was in a queue at that time.

use std::io::{BufWriter, StdoutLock, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use tiderace_client::{Kind, Prefetch, Replay, SubscribeOptions};

use super::client::{Client, Message};
use super::connection::ConnectionArgs;
use super::destination::subscription;
use super::error::ClientError;
use super::output::output_error;
use super::publish::duration;
use super::render::{Style, columns, render};

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
    #[command(flatten)]
    print: PrintArgs,
    /// Begin with the last messages that topics keep, so many of each, instead of with their values.
    #[arg(long, value_name = "N", conflicts_with = "queue")]
    last: Option<u32>,
    /// Begin with what topics keep since then: so long ago, such as 10m, or milliseconds since 1970.
    #[arg(long, value_name = "TIME", value_parser = since, conflicts_with_all = ["queue", "last"])]
    since: Option<u64>,
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
    /// End when the connection is lost, instead of connecting again.
    #[arg(long)]
    no_reconnect: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// `tiderace queue receive`.
#[derive(Debug, Args)]
pub(crate) struct ReceiveArgs {
    /// Queues, such as jobs/mail, or jobs/** for all below (quote wildcards).
    #[arg(required = true, value_name = "QUEUE")]
    queues: Vec<String>,
    #[command(flatten)]
    print: PrintArgs,
    /// Messages that may be under way unacknowledged.
    #[arg(long, value_name = "N")]
    prefetch: Option<u32>,
    /// Be the only consumer.
    #[arg(long)]
    exclusive: bool,
    /// Acknowledge nothing: what was printed is delivered again when this command ends.
    #[arg(long)]
    no_ack: bool,
    /// End when the connection is lost, instead of connecting again.
    #[arg(long)]
    no_reconnect: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Which messages are printed, and how.
#[derive(Debug, Args)]
struct PrintArgs {
    /// Exit after that many messages.
    #[arg(short = 'C', long, visible_short_alias = 'n', value_name = "N")]
    count: Option<u64>,
    /// Exit with an error if no message comes for so long, such as 5s.
    #[arg(short = 'W', long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Print the path in front of each message, even if there is only one.
    #[arg(short, long)]
    verbose: bool,
    /// Print each message as one line of JSON with topic, headers (its properties) and body.
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
    /// Do not cut long messages to the width of the terminal.
    #[arg(long)]
    full: bool,
    /// Only messages whose properties satisfy this SQL-92 condition.
    #[arg(long, value_name = "CONDITION")]
    selector: Option<String>,
}

impl PrintArgs {
    fn style(&self, subscriptions: &[SubscribeOptions]) -> Style {
        if self.json {
            return Style::Json;
        }
        // Who has asked for one topic knows which it is.
        let is_one = matches!(subscriptions, [only] if !only.is_pattern());
        let columns = if self.full { None } else { columns() };
        Style::Line { with_path: self.verbose || !is_one, columns }
    }
}

/// Prints messages until the count is reached or the timeout is over.
pub(crate) fn run(args: &SubscribeArgs) -> anyhow::Result<()> {
    let options = args.paths.iter().map(|path| options(args, path));
    let printing = Printing {
        args: &args.print,
        options: options.collect::<Result<_, _>>()?,
        acknowledges: true,
        reconnects: !args.no_reconnect && !args.browse,
    };
    printing.run(&args.connection)
}

/// Prints messages of queues and acknowledges each.
pub(crate) fn receive(args: &ReceiveArgs) -> anyhow::Result<()> {
    let mut options = Vec::new();
    for queue in &args.queues {
        let mut wanted = filtered(subscription(queue, true)?, &args.print);
        if wanted.kind() != Kind::Queue {
            return Err(ClientError::Usage(format!("{queue:?} is no queue")).into());
        }
        if let Some(messages) = args.prefetch {
            wanted = wanted.prefetch(Prefetch { messages, bytes: 0 });
        }
        options.push(if args.exclusive { wanted.exclusive() } else { wanted });
    }
    let printing = Printing {
        args: &args.print,
        options,
        acknowledges: !args.no_ack,
        reconnects: !args.no_reconnect,
    };
    printing.run(&args.connection)
}

/// Messages on their way to standard output.
struct Printing<'a> {
    args: &'a PrintArgs,
    options: Vec<SubscribeOptions>,
    acknowledges: bool,
    reconnects: bool,
}

impl Printing<'_> {
    fn run(self, connection: &ConnectionArgs) -> anyhow::Result<()> {
        let style = self.args.style(&self.options);
        let mut client = connection.connect()?;
        for options in &self.options {
            client.subscribe(options.clone())?;
        }
        let mut out = BufWriter::new(std::io::stdout().lock());
        let mut printed = 0;
        while self.args.count.is_none_or(|count| printed < count) {
            let Some(message) = self.next(&mut client, printed)? else { break };
            print(&mut out, &render(&message, style))?;
            if self.acknowledges {
                client.acknowledge(&message)?;
            }
            printed += 1;
        }
        Ok(client.leave()?)
    }

    /// The next message; `None` if there is no other. Connects again as often as it takes.
    fn next(&self, client: &mut Client, printed: u64) -> Result<Option<Message>, ClientError> {
        let until = self.args.timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match client.next_message(left) {
                Ok(None) if client.has_seen_all() => return Ok(None),
                Ok(Some(message)) => return Ok(Some(message)),
                Ok(None) => {
                    let timeout = self.args.timeout.unwrap_or_default();
                    let timeout = tiderace_config::format_duration(timeout);
                    return Err(ClientError::TimedOut(format!(
                        "no message came for {timeout}, after {printed} of them"
                    )));
                }
                Err(lost) if self.reconnects && lost.is_lost() => client.reconnect(lost, until)?,
                Err(error) => return Err(error),
            }
        }
    }
}

fn filtered(options: SubscribeOptions, print: &PrintArgs) -> SubscribeOptions {
    match &print.selector {
        Some(selector) => options.selector(selector),
        None => options,
    }
}

fn options(args: &SubscribeArgs, path: &str) -> Result<SubscribeOptions, ClientError> {
    let mut options = filtered(subscription(path, args.queue)?, &args.print);
    if options.kind() == Kind::Topic {
        options = options.recoverable();
    }
    if let Some(replay) = args.last.map(Replay::Last).or(args.since.map(Replay::Time)) {
        options = options.replay(replay);
    }
    if let Some(interval) = args.interval {
        options = options.interval_ms(milliseconds(interval));
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

/// For clap: so long ago, or a time, as milliseconds since 1970.
fn since(text: &str) -> Result<u64, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let ago = duration(text)
        .map_err(|_| "write how long ago, such as 10m, or milliseconds since 1970".to_owned())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(milliseconds(now.saturating_sub(ago)))
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Each message is seen as soon as it comes, also by a program at the other end of a pipe.
pub(super) fn print(out: &mut BufWriter<StdoutLock<'_>>, line: &[u8]) -> anyhow::Result<()> {
    out.write_all(line).and_then(|()| out.flush()).map_err(output_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_so_long_ago_or_a_number() {
        assert_eq!(since("1700000000000"), Ok(1_700_000_000_000));
        let now = since("0s");
        assert!(since("1h").is_ok_and(|hour| {
            now.is_ok_and(|now| (3_590_000..=3_600_000).contains(&(now - hour)))
        }));
        assert!(since("yesterday").is_err());
    }
}
