//! `tiderace audit`: who has changed a server, and who was not to.
//!
//! Relies on `client`, and on the numbers of the record. Invariants: no line is printed twice, and lines that the server does not keep any
//! more are said to be missing; the record is asked for a page at a time.

use std::collections::{BTreeMap, VecDeque};
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};

use super::client::Client;
use super::connection::ConnectionArgs;
use super::error::ClientError;
use super::output::{note, printable};
use super::topics::print_line;

/// Lines that are asked for at once.
const PAGE: usize = 500;
/// Lines that the last of which fit into one page, however long they are.
const ONE_PAGE: usize = 50;
/// How often the record is asked for again.
const INTERVAL: Duration = Duration::from_secs(1);

/// `tiderace audit`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct AuditArgs {
    /// Go on with those that come.
    #[arg(short, long)]
    follow: bool,
    /// Only what that principal has asked for; of a virtual host: @HOST/NAME.
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    /// Only what is called so, such as kick.
    #[arg(long, value_name = "VERB")]
    verb: Option<String>,
    /// How many of the last ones.
    #[arg(short = 'n', long = "number", value_name = "N", default_value_t = 20)]
    number: usize,
    /// Print each as one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Does what the command line asks for.
pub(crate) fn run(args: &AuditArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    let (last, mut places) = last_lines(&mut client, args)?;
    last.iter().try_for_each(|record| print(record, args.json))?;
    if !args.follow {
        return Ok(client.leave()?);
    }
    loop {
        sleep(INTERVAL);
        if let Err(lost) = go_on(&mut client, args, &mut places)? {
            if !lost.is_lost() {
                return Err(lost.into());
            }
            client.reconnect(lost, None)?;
        }
    }
}

/// How far records are known. A server that is started again begins another one, and so does another server to which a drain or a
/// load balancer leads.
#[derive(Debug, Default)]
struct Places {
    /// When the one began that is followed.
    since: u64,
    /// The number of the last line that is known of each, by when it began.
    after: BTreeMap<u64, u64>,
}

impl Places {
    fn after(&self) -> u64 {
        self.after.get(&self.since).copied().unwrap_or_default()
    }

    /// Whether a page is of the record that is followed; otherwise its record is followed from now on.
    fn follows(&mut self, page: &Json) -> bool {
        let since = page["since"].as_u64().unwrap_or_default();
        std::mem::replace(&mut self.since, since) == since
    }

    /// All of a page is known.
    fn pass(&mut self, page: &Json) {
        self.follows(page);
        self.after.insert(self.since, page["next"].as_u64().unwrap_or_default());
    }
}

/// The operation that asks for lines, behind a number or the last ones.
fn asking(args: &AuditArgs, after: Option<u64>, limit: usize) -> Json {
    let mut operation = json!({"do": "audit", "limit": limit});
    for (name, value) in [("who", &args.who), ("verb", &args.verb)] {
        if let Some(value) = value {
            operation[name] = json!(value);
        }
    }
    if let Some(after) = after {
        operation["after"] = json!(after);
    }
    operation
}

/// The last lines, and the place behind which others come.
fn last_lines(client: &mut Client, args: &AuditArgs) -> anyhow::Result<(VecDeque<Json>, Places)> {
    let mut places = Places::default();
    if args.number <= ONE_PAGE {
        // Zero would be as many as is usual.
        let page = client.operate(&asking(args, None, args.number.max(1)), None)?.result;
        let mut records = VecDeque::from(records(&page));
        records.truncate(args.number);
        places.pass(&page);
        return Ok((records, places));
    }
    let mut last = VecDeque::new();
    loop {
        let page = client.operate(&asking(args, Some(places.after()), PAGE), None)?.result;
        last.extend(records(&page));
        last.drain(..last.len().saturating_sub(args.number));
        places.pass(&page);
        if page["more"] != json!(true) {
            return Ok((last, places));
        }
    }
}

/// Prints what has come behind a place. The inner error is that of the connection, the outer one that of printing.
fn go_on(
    client: &mut Client,
    args: &AuditArgs,
    places: &mut Places,
) -> anyhow::Result<Result<(), ClientError>> {
    loop {
        let page = match client.operate(&asking(args, Some(places.after()), PAGE), None) {
            Ok(answer) => answer.result,
            Err(error) => return Ok(Err(error)),
        };
        if !places.follows(&page) {
            note(
                "this is another record, since the server was started again or this is another server: the log of the one before has what came last",
            );
            continue;
        }
        let missed = page["missed"].as_u64().unwrap_or_default();
        if missed > 0 {
            note(&format!("{missed} records are missing: they were too many to be kept"));
        }
        records(&page).iter().try_for_each(|record| print(record, args.json))?;
        places.pass(&page);
        if page["more"] != json!(true) {
            return Ok(Ok(()));
        }
    }
}

fn records(page: &Json) -> Vec<Json> {
    page["records"].as_array().cloned().unwrap_or_default()
}

fn print(record: &Json, json: bool) -> anyhow::Result<()> {
    let line = if json { record.to_string() } else { printable(&sentence(record)) };
    print_line(line.as_bytes())
}

/// A record for people.
fn sentence(record: &Json) -> String {
    let text = |name: &str| record[name].as_str().filter(|text| !text.is_empty());
    let when = utc(record["time"].as_u64().unwrap_or_default());
    let mut line = format!("{when}  {}", text("who").unwrap_or("others"));
    if let Some(via) = text("via") {
        line += &format!(" via {via}");
    }
    if let Some(from) = text("from") {
        line += &format!(" ({from})");
    }
    line += &format!("  {}", text("verb").unwrap_or("anything"));
    if let Some(on) = text("on") {
        line += &format!(" {on}");
    }
    line += ": ";
    match (text("outcome").unwrap_or_default(), text("result"), text("reason")) {
        ("done", None | Some("{}"), _) => line += "done",
        ("done", Some(result), _) => line += &format!("done {result}"),
        ("left-out", ..) => {
            line += &format!("{} more were refused or not answered", record["count"])
        }
        (outcome, _, Some(reason)) => {
            line += &format!("{outcome}, {reason} ({})", text("code").unwrap_or_default());
        }
        (outcome, ..) => line += outcome,
    }
    line
}

/// A time in milliseconds since 1970 as a date and a time of the day.
fn utc(time_ms: u64) -> String {
    let seconds = time_ms / 1000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hours, minutes) = (of_day / 3600, of_day / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{:02}Z", of_day % 60)
}

/// The date of a day since 1970, in the Gregorian calendar: years are counted from March on, so that the day that some have more is
/// the last of them.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        for (time_ms, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00Z"),
            (1_767_225_599_000, "2025-12-31T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(time_ms), expected);
        }
    }

    #[test]
    fn a_record_is_a_sentence() {
        let done = json!({"number": 1, "time": 0, "who": "oli", "from": "10.1.2.3:5", "verb": "kick",
            "on": "principal=ann", "outcome": "done", "result": r#"{"sessions":1}"#});
        let refused = json!({"time": 0, "who": "ann", "via": "edge", "from": "10.1.2.3:5", "verb": "pause",
            "on": "queue=jobs", "outcome": "refused", "code": "not-authorised", "reason": "ann may not"});
        let signal = json!({"time": 0, "who": "signal", "verb": "reload", "outcome": "done", "result": "{}"});
        let left_out =
            json!({"time": 0, "who": "eve", "verb": "kick", "outcome": "left-out", "count": 7});
        let others = json!({"time": 0, "outcome": "left-out", "count": 7});
        for (record, expected) in [
            (done, r#"oli (10.1.2.3:5)  kick principal=ann: done {"sessions":1}"#),
            (
                refused,
                "ann via edge (10.1.2.3:5)  pause queue=jobs: refused, ann may not (not-authorised)",
            ),
            (signal, "signal  reload: done"),
            (left_out, "eve  kick: 7 more were refused or not answered"),
            (others, "others  anything: 7 more were refused or not answered"),
        ] {
            assert_eq!(sentence(&record), format!("1970-01-01T00:00:00Z  {expected}"));
        }
    }
}
