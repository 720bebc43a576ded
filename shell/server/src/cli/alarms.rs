//! `tiderace alarms`: what is wrong with a server, since when, and what to do.
//!
//! Relies on `client`, and on the topics below `$sys/alarms` that the server keeps. Invariants: an alarm that is there is
//! printed with its remedy; one that was printed and ends is said to be over, also if that was while the connection was lost.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value as Json, json};
use tiderace_client::SubscribeOptions;

use super::client::{Answer, Client, Message};
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
    let answer = once(&args.connection, &all(), None)?;
    let mut alarms = present(&answer);
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

/// The operation that asks for all alarms.
pub(super) fn all() -> Json {
    json!({"do": "fetch", "selector": ALARMS, "values": true, "limit": MOST})
}

/// The alarms in its answer.
fn present(answer: &Answer) -> Vec<Json> {
    let values = entries(answer, "topics").into_iter();
    values.filter_map(|(_, value)| serde_json::from_slice(&value?.body).ok()).collect()
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
    let mut there = There::default();
    loop {
        match client.next_message(None) {
            Ok(Some(message)) => tell(&message, args.json, &mut there)?,
            Ok(None) => return Ok(client.leave()?),
            Err(lost) if lost.is_lost() => {
                if let Some(present) = come_back(&mut client, lost)? {
                    forget(&present, args.json, &mut there)?;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Connects again until it is known which alarms are there, if ends of others may have been missed.
fn come_back(client: &mut Client, mut lost: ClientError) -> anyhow::Result<Option<Vec<Json>>> {
    loop {
        client.reconnect(lost, None)?;
        match missed(client) {
            Err(again) if again.is_lost() => lost = again,
            known => return Ok(known?),
        }
    }
}

/// The alarms that are there now, if ends of others may have been missed.
fn missed(client: &mut Client) -> Result<Option<Vec<Json>>, ClientError> {
    if !client.has_missed()? {
        return Ok(None);
    }
    let answer = client.operate(&all(), None)?;
    client.knows_all();
    Ok(Some(present(&answer)))
}

fn options() -> Result<SubscribeOptions, ClientError> {
    Ok(subscription(ALARMS, false)?.recoverable())
}

/// The alarms that were printed and have not ended: their names, and since when each is there.
type There = BTreeMap<String, u64>;

/// Prints what has become of an alarm. Figures that change are no news, but for programs.
fn tell(message: &Message, json: bool, there: &mut There) -> anyhow::Result<()> {
    let name = message.path.rsplit('/').next().unwrap_or_default().to_owned();
    if message.removed {
        // It may have been said already, of what was missed.
        let was_there = there.remove(&name).is_some();
        return if was_there { print_over(&name, json) } else { Ok(()) };
    }
    let Ok(alarm) = serde_json::from_slice::<Json>(&message.body) else { return Ok(()) };
    if is_news(name, &alarm, there) || json { print(&alarm, json) } else { Ok(()) }
}

/// Notes that an alarm is there; whether it was not, or is so anew.
fn is_news(name: String, alarm: &Json, there: &mut There) -> bool {
    let since = alarm["since"].as_u64().unwrap_or_default();
    there.insert(name, since) != Some(since)
}

/// Prints that all have ended but those that are present.
fn forget(present: &[Json], json: bool, there: &mut There) -> anyhow::Result<()> {
    let is_there = |name: &str| present.iter().any(|alarm| alarm["name"] == name);
    let over: Vec<String> = there.keys().filter(|name| !is_there(name)).cloned().collect();
    over.iter().try_for_each(|name| {
        there.remove(name);
        print_over(name, json)
    })
}

fn print_over(name: &str, json: bool) -> anyhow::Result<()> {
    let line = if json {
        json!({"name": name, "ended": now_ms()}).to_string()
    } else {
        format!("over      {name}")
    };
    print_line(printable(&line).as_bytes())
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
    fn an_alarm_that_begins_anew_is_news_and_one_with_other_figures_is_not() {
        let mut there = There::new();
        let seen = [(1, "x"), (1, "y"), (2, "y"), (2, "z")].map(|(since, what)| {
            let alarm = json!({"since": since, "what": what});
            is_news("store-full".to_owned(), &alarm, &mut there)
        });
        assert_eq!(seen, [true, false, true, false]);
    }

    #[test]
    fn the_worst_is_first() {
        let of = |severity: &str| place(&json!({"severity": severity}));
        assert_eq!(["critical", "warning", "info"].map(of), [0, 1, 2]);
    }
}
