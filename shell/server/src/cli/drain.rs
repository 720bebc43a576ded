//! `tiderace drain`: sends the clients of a server to other servers, and shows how far that has come.
//!
//! Relies on `client`. The connection of this command stays until the drain is over, whichever listener it came by.
//! Invariant: it ends well only if all clients have left, or it was not to wait for that.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use serde_json::{Value as Json, json};
use tiderace_config::format_duration;

use super::client::Client;
use super::connection::ConnectionArgs;
use super::error::ClientError;
use super::output::{agrees, output_error};
use super::publish::duration;
use super::topics::{once, print_line};

/// `tiderace drain`.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Over how long the goodbyes are spread, such as 10m.
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = duration,
        required_unless_present_any = ["status", "cancel"]
    )]
    over: Option<Duration>,
    /// How long /readyz says that the server drains before its listeners close, so that load balancers have
    /// seen it.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    delay: Duration,
    /// Where clients are told to go, the best first, such as wss://b.example.org/tiderace.
    #[arg(long, value_name = "ADDRESS", num_args = 1..)]
    to: Vec<String>,
    /// Have the server stop when all have left.
    #[arg(long)]
    exit: bool,
    /// Return as soon as the drain has begun.
    #[arg(long)]
    no_wait: bool,
    /// Show how far a drain has come.
    #[arg(long, conflicts_with_all = ["over", "to", "exit", "no_wait", "cancel"])]
    status: bool,
    /// Take a drain back: listeners open again, and who has not left stays. Returns when they are open.
    #[arg(long, conflicts_with_all = ["over", "to", "exit", "no_wait"])]
    cancel: bool,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    /// Print lines of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Does what the command line asks for.
pub(crate) fn run(args: &DrainArgs) -> anyhow::Result<()> {
    let operation = match args.over {
        None => json!({"do": "drain-state"}),
        Some(over) => json!({
            "do": "drain", "over": millis(over), "delay": millis(args.delay), "to": args.to,
            "exit": args.exit,
        }),
    };
    let question = "Have all clients of this server leave?";
    if args.over.is_some() && !args.yes && !agrees(question)? {
        bail!("nobody was sent anywhere");
    }
    let show = Show::new(args.json);
    if args.cancel {
        return cancel(args.connection.connect()?, &show);
    }
    if args.over.is_none() || args.no_wait {
        let answer = once(&args.connection, &operation, None)?;
        show.line(&answer.result)?;
        if args.no_wait {
            warn_if_nobody_can_cancel(&answer.result)?;
        }
        return Ok(());
    }
    let mut client = args.connection.connect()?;
    let begun = client.operate(&operation, None)?.result;
    warn_if_nobody_can_cancel(&begun)?;
    wait(client, show, begun, args.exit)
}

/// Takes the drain back, and waits until the listeners are open again: who is told that the server serves may connect.
fn cancel(mut client: Client, show: &Show) -> anyhow::Result<()> {
    let mut status = client.operate(&json!({"do": "drain-cancel"}), None)?.result;
    let begun = Instant::now();
    while status["state"] == "opening" {
        if begun.elapsed() > OPENING_MOST {
            show.line(&status)?;
            bail!(
                "the drain is taken back, but listeners that it had closed cannot be opened again: the server tries \
                 every second, and its log says why (`listener-closed`)"
            );
        }
        std::thread::sleep(OPENING_INTERVAL);
        status = client.operate(&json!({"do": "drain-state"}), None)?.result;
    }
    show.line(&status)?;
    if status["state"] != "serving" {
        bail!("the drain was taken back, and another one has begun");
    }
    Ok(client.leave()?)
}

/// Shows how the drain goes on until all have left.
fn wait(mut client: Client, mut show: Show, begun: Json, exits: bool) -> anyhow::Result<()> {
    let mut status = begun;
    loop {
        show.progress(&status)?;
        match status["state"].as_str() {
            Some("drained") if exits => {}
            Some("drained") => {
                show.end()?;
                return Ok(client.leave()?);
            }
            Some("serving" | "opening") => {
                show.end()?;
                bail!("the drain has been cancelled");
            }
            _ => {}
        }
        std::thread::sleep(show.interval());
        status = match client.operate(&json!({"do": "drain-state"}), None) {
            Ok(answer) => answer.result,
            // It was told to stop, and does.
            Err(error) if exits && has_ended(&error, &status) => return show.end(),
            Err(error) => {
                show.end()?;
                return Err(error.into());
            }
        };
    }
}

/// Whether a server that was to stop at the end of its drain has: it says so, or it had come near its end and is gone.
fn has_ended(error: &ClientError, status: &Json) -> bool {
    is_near_its_end(status) || error.to_string().contains("(shutting-down)")
}

fn is_near_its_end(status: &Json) -> bool {
    let number = |name: &str| status[name].as_u64().unwrap_or(0);
    let left = (number("delay_ms") + number("over_ms")).saturating_sub(number("elapsed_ms"));
    status["state"] == "drained" || number("connections") == 0 || left < 2_000
}

fn warn_if_nobody_can_cancel(status: &Json) -> anyhow::Result<()> {
    if status["stays_open"] == 0 {
        let text = "tiderace: no listener stays open, so nobody can look at the drain or cancel it once they are \
                    closed; set `stays_open` of a `[[listener]]` for that\n";
        io::stderr().write_all(text.as_bytes())?;
    }
    Ok(())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// How the state of a drain is shown.
struct Show {
    is_json: bool,
    /// A bar that is drawn again and again.
    is_bar: bool,
    /// The state that was shown last, where each is shown once.
    last: Option<String>,
}

impl Show {
    fn new(is_json: bool) -> Show {
        let is_bar = !is_json && io::stdout().is_terminal();
        Show { is_json, is_bar, last: None }
    }

    /// How often it is asked for.
    fn interval(&self) -> Duration {
        if self.is_bar { Duration::from_millis(200) } else { Duration::from_secs(1) }
    }

    fn line(&self, status: &Json) -> anyhow::Result<()> {
        let text = if self.is_json { status.to_string() } else { sentence(status) };
        print_line(text.as_bytes())
    }

    fn progress(&mut self, status: &Json) -> anyhow::Result<()> {
        if self.is_bar {
            let mut out = io::stdout().lock();
            let text = format!("\r{} {}\x1b[K", bar(status), sentence(status));
            return out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(output_error);
        }
        let state = status["state"].as_str().unwrap_or_default();
        if self.is_json || self.last.as_deref() != Some(state) {
            self.last = Some(state.to_owned());
            self.line(status)?;
        }
        Ok(())
    }

    fn end(&self) -> anyhow::Result<()> {
        if self.is_bar { print_line(b"") } else { Ok(()) }
    }
}

/// How many have left of those that were there.
fn bar(status: &Json) -> String {
    const CELLS: u64 = 30;
    let number = |name: &str| status[name].as_u64().unwrap_or(0);
    let (all, left) = (number("connections_at_begin"), number("connections"));
    let gone = all.saturating_sub(left);
    let is_over = status["state"] == "drained";
    let cells = if is_over { CELLS } else { gone * CELLS / all.max(1) };
    let (done, open) = (cells as usize, (CELLS - cells) as usize);
    format!("[{}{}]", "#".repeat(done), "-".repeat(open))
}

fn sentence(status: &Json) -> String {
    let number = |name: &str| status[name].as_u64().unwrap_or(0);
    let span = |name: &str| format_duration(Duration::from_secs(number(name).div_ceil(1000)));
    let (left, all) = (number("connections"), number("connections_at_begin"));
    let elapsed = span("elapsed_ms");
    match status["state"].as_str().unwrap_or_default() {
        "opening" => {
            let open = number("listeners");
            format!(
                "opening: {left} connections; the drain is taken back, {open} listeners are open, others not yet"
            )
        }
        "serving" => format!("serving: {left} connections; no drain is under way"),
        "announced" => {
            let delay = span("delay_ms");
            format!("announced: {left} connections; listeners close {delay} after the beginning")
        }
        "draining" => {
            let over = Duration::from_millis(number("delay_ms") + number("over_ms"));
            format!("draining: {left} of {all} left, {elapsed} of {}", format_duration(over))
        }
        state => format!("{state}: {left} of {all} left after {elapsed}"),
    }
}

/// How often it is asked whether the listeners are open again.
const OPENING_INTERVAL: Duration = Duration::from_millis(20);
/// How long that is waited for: the server tries again after a second, some times.
const OPENING_MOST: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_as_they_leave() {
        let status = |state: &str, left: u64| {
            json!({"state": state, "connections": left, "connections_at_begin": 60, "elapsed_ms": 1500,
                   "delay_ms": 0, "over_ms": 60_000})
        };
        assert_eq!(bar(&status("draining", 60)), format!("[{}]", "-".repeat(30)));
        assert_eq!(bar(&status("draining", 20)), format!("[{}{}]", "#".repeat(20), "-".repeat(10)));
        assert_eq!(bar(&status("drained", 0)), format!("[{}]", "#".repeat(30)));
        assert_eq!(sentence(&status("draining", 20)), "draining: 20 of 60 left, 2s of 1min");
        assert_eq!(sentence(&status("drained", 0)), "drained: 0 of 60 left after 2s");
        assert!(sentence(&status("opening", 3)).contains("3 connections; the drain is taken back"));
    }

    #[test]
    fn a_server_that_was_to_stop_may_be_gone_only_near_its_end() {
        let status = |elapsed: u64, left: u64| {
            json!({"state": "draining", "connections": left, "elapsed_ms": elapsed, "delay_ms": 0,
                   "over_ms": 60_000})
        };
        assert!(!is_near_its_end(&status(10_000, 5)));
        assert!(is_near_its_end(&status(59_000, 5)) && is_near_its_end(&status(10_000, 0)));
    }
}
