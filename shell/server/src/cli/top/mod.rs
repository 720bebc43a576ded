//! `tiderace top`: how a running server fares, drawn anew every second or two.
//!
//! ```text
//!   stats, sessions, queues ─▶ figures (JSON) ─┬─▶ lines ─▶ screen, or standard output
//!    requests of bounded lists                 └─▶ --json
//! ```
//! Relies on `client`; it is a client as any other. Invariants: a picture costs the server a request for what it counts, one for
//! sessions, and one for the queues of each shard, all of bounded lists; what somebody may not see is said, and the rest is shown; a terminal is left as it was.

mod figures;
mod lines;
mod screen;

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::{Value as Json, json};

use super::client::Client;
use super::connection::ConnectionArgs;
use super::error::ClientError;
use super::output::{note, output_error, printable};
use super::publish::duration;
use super::topics::print_line;
use figures::{Seen, figures};
use lines::{Space, lines};
use screen::Screen;

/// Rows of each table where there is no terminal whose height says how many.
const ROWS: usize = 10;
/// Sessions that a server lists at once.
const ROWS_MAX: usize = 500;
/// Queues that are looked at for those with most messages.
const QUEUES: usize = 500;
/// Pages that they may come in: a server has no more shards.
const PAGES: usize = tiderace_base::limits::SHARDS_MAX;
/// How long a connection is left alone, at most: a server closes those that do not answer it.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// `tiderace top`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct TopArgs {
    /// Sessions for which most waits, that have most subscriptions, or that came last.
    #[arg(long, value_enum, default_value = "backlog", value_name = "ORDER")]
    sort: Sort,
    /// How often it is drawn, and over how long rates are counted.
    #[arg(long, value_name = "DURATION", value_parser = interval, default_value = "2s")]
    interval: Duration,
    /// Rows of each table, at most [default: as many as fit, or 10 where there is no terminal].
    #[arg(short = 'n', long, value_name = "ROWS", value_parser = rows)]
    rows: Option<usize>,
    /// Print one picture, after one interval, and end.
    #[arg(long)]
    once: bool,
    /// Print each picture as one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sort {
    Backlog,
    Subscriptions,
    Since,
}

impl Sort {
    fn name(self) -> &'static str {
        match self {
            Sort::Backlog => "backlog",
            Sort::Subscriptions => "subscriptions",
            Sort::Since => "since",
        }
    }
}

/// For clap: how often.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    let is_bounded = (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&interval);
    if is_bounded { Ok(interval) } else { Err("write a duration from 100ms to 1h".to_owned()) }
}

/// For clap: how many rows.
fn rows(text: &str) -> Result<usize, String> {
    let rows = text.parse().ok().filter(|rows| (1..=ROWS_MAX).contains(rows));
    rows.ok_or_else(|| format!("write a number from 1 to {ROWS_MAX}"))
}

/// Does what the command line asks for.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    let is_drawn = !args.json && !args.once && std::io::stdout().is_terminal();
    // The terminal is taken when the server has answered: what is wrong before that is said as always.
    let first = look(&mut client, args, rows_of(args, is_drawn))?;
    let screen = if is_drawn { Some(Screen::open()?) } else { None };
    let mut view = View { args, screen, last: None };
    if is_drawn {
        // Without an interval there are no rates yet.
        view.show(figures(&first, None, args.sort.name()))?;
    }
    let mut before = first.stats.ok();
    loop {
        if let Err(lost) = view.wait(&mut client)? {
            again(&mut client, lost, &mut view, &mut before)?;
        }
        match look(&mut client, args, view.rows()) {
            Ok(seen) => {
                view.show(figures(&seen, before.as_ref(), args.sort.name()))?;
                before = seen.stats.ok();
            }
            Err(lost) => again(&mut client, lost, &mut view, &mut before)?,
        }
        if args.once && view.last.is_some() {
            return Ok(client.leave()?);
        }
    }
}

/// How many rows a table may have.
fn rows_of(args: &TopArgs, is_drawn: bool) -> usize {
    let fit = if is_drawn { Screen::size().1.clamp(1, ROWS_MAX) } else { ROWS };
    args.rows.unwrap_or(fit)
}

/// Connects again; what was counted before means nothing to what comes.
fn again(
    client: &mut Client,
    lost: ClientError,
    view: &mut View<'_>,
    before: &mut Option<Json>,
) -> Result<(), ClientError> {
    if !lost.is_lost() || view.args.once {
        return Err(lost);
    }
    *before = None;
    client.reconnect_saying(lost, None, &mut |text| view.say(text))
}

/// Asks for all that is shown. Fails for who may see nothing of it.
fn look(client: &mut Client, args: &TopArgs, rows: usize) -> Result<Seen, ClientError> {
    let sessions = json!({"do": "sessions", "sort": args.sort.name(), "limit": rows});
    let mut refused = None;
    let mut told = |answer: Result<Json, ClientError>| match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(ClientError::Refused { message, hint }) => {
            refused.get_or_insert(ClientError::Refused { message: message.clone(), hint });
            Ok(Err(message))
        }
        Err(lost) => Err(lost),
    };
    let stats = client.operate(&json!({"do": "stats"}), None).map(|answer| answer.result);
    let stats = told(stats)?;
    let sessions = told(client.operate(&sessions, None).map(|answer| answer.result))?;
    let mut seen = Seen { stats, sessions, queues: told(queues(client))? };
    seen.keep_queues(rows);
    match refused {
        Some(refused) if seen.is_nothing() => Err(refused),
        _ => Ok(seen),
    }
}

/// Queues of all shards, each of which gives a page of its own: as many as are looked at.
pub(super) fn queues(client: &mut Client) -> Result<Json, ClientError> {
    let mut operation = json!({"do": "queues"});
    let mut found = Vec::new();
    let mut has_more = true;
    for _ in 0..PAGES {
        operation["limit"] = json!(QUEUES - found.len());
        let mut page = client.operate(&operation, None)?.result;
        if let Some(queues) = page["queues"].as_array_mut() {
            found.append(queues);
        }
        has_more = page["more"] == true;
        if !has_more || found.len() >= QUEUES {
            break;
        }
        operation["after"] = page["next"].take();
    }
    Ok(json!({"queues": found, "more": has_more}))
}

/// Waits, and answers the server meanwhile.
fn wait(client: &mut Client, interval: Duration) -> Result<(), ClientError> {
    client.next_message(Some(interval)).map(drop)
}

/// Where pictures are shown.
struct View<'a> {
    args: &'a TopArgs,
    screen: Option<Screen>,
    last: Option<Json>,
}

impl View<'_> {
    fn rows(&self) -> usize {
        rows_of(self.args, self.screen.is_some())
    }

    fn show(&mut self, figures: Json) -> anyhow::Result<()> {
        if self.screen.is_some() {
            self.last = Some(figures);
            return self.draw("");
        }
        if self.args.json {
            print_line(figures.to_string().as_bytes())?;
        } else {
            let mut out = std::io::stdout().lock();
            if self.last.is_some() {
                writeln!(out).map_err(output_error)?;
            }
            for line in lines(&figures, &Space { rows: self.rows(), ..Space::default() }) {
                writeln!(out, "{line}").map_err(output_error)?;
            }
            out.flush().map_err(output_error)?;
        }
        self.last = Some(figures);
        Ok(())
    }

    /// Draws the last picture, with something to be said below it.
    fn draw(&self, said: &str) -> anyhow::Result<()> {
        let Some(screen) = &self.screen else { return Ok(()) };
        let (width, height) = Screen::size();
        let room = height.saturating_sub(usize::from(!said.is_empty()));
        let space =
            Space { width: Some(width), height: Some(room), rows: self.rows(), is_styled: true };
        let mut drawn =
            self.last.as_ref().map(|figures| lines(figures, &space)).unwrap_or_default();
        if !said.is_empty() {
            drawn.push(console::truncate_str(&printable(said), width, "…").into_owned());
        }
        screen.draw(&drawn).map_err(output_error)
    }

    /// Says that the connection was lost, and the like.
    fn say(&self, text: &str) {
        match self.screen {
            // A terminal that cannot be written to is noticed at the next picture.
            Some(_) => drop(self.draw(text)),
            None => note(text),
        }
    }

    /// Waits until the next picture is due, and draws the last one anew for a terminal of another size.
    fn wait(&self, client: &mut Client) -> anyhow::Result<Result<(), ClientError>> {
        let Some(screen) = &self.screen else { return Ok(wait(client, self.args.interval)) };
        let end = Instant::now() + self.args.interval;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Ok(()));
            }
            if screen.wants_drawing(left.min(SILENCE_MAX)) {
                self.draw("")?;
            }
            if let Err(lost) = wait(client, Duration::from_millis(1)) {
                return Ok(Err(lost));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_rows_are_bounded() {
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        assert!(interval("1ms").is_err() && interval("2h").is_err() && interval("x").is_err());
        assert_eq!((rows("1"), rows("500")), (Ok(1), Ok(500)));
        assert!(rows("0").is_err() && rows("501").is_err() && rows("x").is_err());
    }
}
