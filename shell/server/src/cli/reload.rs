//! `tiderace reload` has a server read its configuration again, `tiderace log` says what its log is to have.
//!
//! Relies on `client`. Invariant: what is not held to before the next start is said to be so.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value as Json, json};
use tiderace_config::format_duration;

use super::connection::ConnectionArgs;
use super::publish::duration;
use super::topics::{once, print_line};

/// `tiderace reload`.
#[derive(Debug, Args)]
pub(crate) struct ReloadArgs {
    /// Check the configuration and say what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// `tiderace log`.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// The least important lines that are written from now on. Not given: as the configuration has it.
    #[arg(long, value_name = "LEVEL")]
    level: Option<Level>,
    /// After how long the level is again as the configuration has it, such as 15m.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, requires = "level")]
    lasts: Option<Duration>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Has the configuration read again.
pub(crate) fn run(args: &ReloadArgs) -> anyhow::Result<()> {
    let operation = json!({"do": "reload", "dry_run": args.dry_run});
    let answer = once(&args.connection, &operation, None)?.result;
    if args.json {
        return print_line(answer.to_string().as_bytes());
    }
    sentences(&answer).iter().try_for_each(|line| print_line(line.as_bytes()))
}

/// Has other lines written to the log.
pub(crate) fn run_log(args: &LogArgs) -> anyhow::Result<()> {
    let mut operation = json!({"do": "log"});
    if let Some(level) = args.level.and_then(|level| level.to_possible_value()) {
        operation["level"] = json!(level.get_name());
    }
    if let Some(lasts) = args.lasts {
        operation["for"] = json!(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
    }
    let answer = once(&args.connection, &operation, None)?.result;
    if args.json {
        return print_line(answer.to_string().as_bytes());
    }
    let level = answer["level"].as_str().unwrap_or_default();
    let line = match answer["for_ms"].as_u64() {
        Some(lasts) => format!("{level} for {}", format_duration(Duration::from_millis(lasts))),
        None => level.to_owned(),
    };
    print_line(line.as_bytes())
}

/// When a change is held to, for people.
pub(super) fn when(applies: &str) -> &str {
    match applies {
        "new-connections" => "new connections",
        "restart" => "at the next start",
        other => other,
    }
}

/// What has changed, an option a line.
fn sentences(answer: &Json) -> Vec<String> {
    let changes = answer["changes"].as_array().map_or(&[][..], Vec::as_slice);
    if changes.is_empty() {
        return vec!["nothing has changed".to_owned()];
    }
    let option = |change: &Json| change["option"].as_str().unwrap_or_default().to_owned();
    let width = changes.iter().map(|change| option(change).len()).max().unwrap_or(0);
    let line = |change: &Json| {
        let applies = when(change["applies"].as_str().unwrap_or_default());
        format!("{:width$}  {applies}", option(change))
    };
    changes.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_a_line() {
        let answer = json!({"dry_run": false, "changes": [
            {"option": "rule", "applies": "now"},
            {"option": "tls.certificate", "applies": "new-connections"},
            {"option": "server.shards", "applies": "restart"},
        ]});
        let expected = [
            "rule             now",
            "tls.certificate  new connections",
            "server.shards    at the next start",
        ];
        assert_eq!(sentences(&answer), expected);
        assert_eq!(sentences(&json!({"changes": []})), ["nothing has changed"]);
    }
}
