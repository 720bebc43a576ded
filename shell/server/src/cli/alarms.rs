//! `tiderace alarms`: what is wrong with a server, since when, and what to do.
//!
//! Relies on `client`, and on the topics below `$sys/alarms` that the server keeps. Invariant: an alarm that is there is
//! printed with its remedy.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value as Json, json};
use tiderace_client::SubscribeOptions;

use super::client::{Client, Message};
use super::connection::ConnectionArgs;
use super::destination::subscription;
use super::error::ClientError;
use super::output::printable;
use super::table::age;
use super::topics::{entries, once, print_line};

/// What holds all alarms.
const ALARMS: &str = "$sys/alarms/*";
/// An alarm, whether it is there or not.
const ONE_OF_THEM: &str = "$sys/alarms/shard-stalled";
/// Alarms that are listed; a server has some tens.
const MOST: u64 = 1000;

/// `tiderace alarms`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct AlarmsArgs {
    /// Go on with those that begin and end.
    #[arg(short, long)]
    follow: bool,
    /// Print each alarm as one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Does what the command line asks for.
pub(crate) fn run(args: &AlarmsArgs) -> anyhow::Result<()> {
    match args.follow {
        true => follow(args),
        false => list(args),
    }
}

fn list(args: &AlarmsArgs) -> anyhow::Result<()> {
    let operation = json!({"do": "fetch", "selector": ALARMS, "values": true, "limit": MOST});
    let answer = once(&args.connection, &operation, None)?;
    let values = entries(&answer, "topics").into_iter();
    let mut alarms: Vec<Json> =
        values.filter_map(|(_, value)| serde_json::from_slice(&value?.body).ok()).collect();
    alarms.sort_by_key(|alarm| (place(alarm), alarm["since"].as_u64()));
    if alarms.is_empty() {
        // Who may see none is not told so by a list.
        may_listen(args)?;
    }
    if alarms.is_empty() && !args.json {
        return print_line(b"nothing is wrong");
    }
    alarms.iter().try_for_each(|alarm| print(alarm, args.json))
}

/// Fails for who may not listen to alarms: a topic is refused to them, while patterns leave out what they may not see.
fn may_listen(args: &AlarmsArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    client.subscribe(subscription(ONE_OF_THEM, false)?)?;
    Ok(client.leave()?)
}

/// What is worse comes first.
fn place(alarm: &Json) -> usize {
    let severity = alarm["severity"].as_str().unwrap_or_default();
    ["critical", "warning"].iter().position(|known| *known == severity).unwrap_or(2)
}

fn follow(args: &AlarmsArgs) -> anyhow::Result<()> {
    may_listen(args)?;
    let mut client = args.connection.connect()?;
    client.subscribe(options()?)?;
    let mut there = Vec::new();
    loop {
        match next(&mut client)? {
            Some(message) => tell(&message, args.json, &mut there)?,
            None => return Ok(client.leave()?),
        }
    }
}

fn options() -> Result<SubscribeOptions, ClientError> {
    Ok(subscription(ALARMS, false)?.recoverable())
}

fn next(client: &mut Client) -> Result<Option<Message>, ClientError> {
    loop {
        match client.next_message(None) {
            Err(lost) if lost.is_lost() => client.reconnect(lost, None)?,
            other => return other,
        }
    }
}

/// Prints what has become of an alarm; `there` are the names of those that were printed and have not ended. Figures that
/// change are no news, but for programs.
fn tell(message: &Message, json: bool, there: &mut Vec<String>) -> anyhow::Result<()> {
    let name = message.path.rsplit('/').next().unwrap_or_default().to_owned();
    let was_there = there.contains(&name);
    if message.removed {
        there.retain(|other| *other != name);
        let line = if json {
            json!({"name": name, "ended": now_ms()}).to_string()
        } else {
            format!("over      {name}")
        };
        return print_line(printable(&line).as_bytes());
    }
    let Ok(alarm) = serde_json::from_slice::<Json>(&message.body) else { return Ok(()) };
    if !was_there {
        there.push(name);
    }
    if was_there && !json { Ok(()) } else { print(&alarm, json) }
}

fn print(alarm: &Json, json: bool) -> anyhow::Result<()> {
    if json {
        return print_line(printable(&alarm.to_string()).as_bytes());
    }
    lines(alarm, now_ms()).iter().try_for_each(|line| print_line(printable(line).as_bytes()))
}

/// An alarm, for people.
fn lines(alarm: &Json, now_ms: u64) -> [String; 4] {
    let text = |name: &str| alarm[name].as_str().unwrap_or_default();
    // The server's clock may be ahead of this one's.
    let since = now_ms.saturating_sub(alarm["since"].as_u64().unwrap_or(now_ms)) / 1000 * 1000;
    let since = if since == 0 { "now".to_owned() } else { format!("for {}", age(since)) };
    [
        format!("{:8}  {}  {since}", text("severity"), text("name")),
        format!("{:10}{}", "", text("what")),
        format!("{:10}{}", "", text("cause")),
        format!("{:10}what to do: {}", "", text("remedy")),
    ]
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_says_since_when_what_and_what_to_do() {
        let alarm = json!({"name": "store-full", "severity": "critical", "since": 1_000, "what": "no room", "cause": "The disk is full.", "remedy": "Make room."});
        let shown = lines(&alarm, 62_500);
        let expected = [
            "critical  store-full  for 1m 1s",
            "          no room",
            "          The disk is full.",
            "          what to do: Make room.",
        ];
        assert_eq!(shown, expected);
        assert!(lines(&alarm, 0)[0].ends_with("store-full  now"), "clocks differ");
    }

    #[test]
    fn the_worst_is_first() {
        let of = |severity: &str| place(&json!({"severity": severity}));
        assert_eq!(["critical", "warning", "info"].map(of), [0, 1, 2]);
    }
}
