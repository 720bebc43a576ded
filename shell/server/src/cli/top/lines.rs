//! A picture as lines of text.
//!
//! Pure. Invariants: no line is wider than the space, and there are no more of them; what clients have chosen, such as their
//! names, commands no terminal. What matters most stands at the left and at the top, so that a small terminal shows it.

use console::{Style, truncate_str};
use serde_json::Value as Json;

use crate::cli::connections::{name_of, since_of, transport_of};
use crate::cli::output::printable;
use crate::cli::table::{Table, age, bytes, now_ms};

/// Columns that a name may take.
const NAME_WIDTH: usize = 32;

/// How much may be shown.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Columns; absent: as many as it takes.
    pub(super) width: Option<usize>,
    /// Lines; absent: as many as it takes.
    pub(super) height: Option<usize>,
    /// Rows of each table.
    pub(super) rows: usize,
    /// Whether a terminal shows it.
    pub(super) is_styled: bool,
}

/// The lines.
pub(super) fn lines(figures: &Json, space: &Space) -> Vec<String> {
    let mut lines = header(figures, space);
    let most = space.height.unwrap_or(usize::MAX);
    let room = most.saturating_sub(lines.len());
    let queues = figures["queues"].as_array().map_or(0, Vec::len);
    // A third of what is left is for queues, with the line above them and their names.
    let queue_rows = if queues == 0 { 0 } else { queues.min(room.saturating_sub(4) / 3) };
    // Why they are missing takes the line above as well.
    let are_missing = figures["missing"].get("queues").is_some();
    let queue_lines = match queue_rows {
        0 if are_missing => 2,
        0 => 0,
        rows => rows + 2,
    };
    let session_rows = room.saturating_sub(queue_lines + 2);
    lines.push(String::new());
    lines.extend(sessions(figures, session_rows.min(space.rows), space));
    if queue_rows > 0 || are_missing {
        lines.push(String::new());
        lines.extend(queues_of(figures, queue_rows.min(space.rows), space));
    }
    lines.truncate(most);
    lines.into_iter().map(|line| fit(&line, space)).collect()
}

/// A line that is as wide as may be.
fn fit(line: &str, space: &Space) -> String {
    space.width.map_or_else(|| line.to_owned(), |width| truncate_str(line, width, "…").into_owned())
}

fn header(figures: &Json, space: &Space) -> Vec<String> {
    if let Some(reason) = figures["missing"]["figures"].as_str() {
        return vec![format!("no figures of the node: {}", printable(reason))];
    }
    vec![
        node(figures),
        rates(figures),
        connections(figures),
        memory(&figures["memory"]),
        store(&figures["store"]),
        backlog(&figures["backlog"]),
        alarms(figures, space),
    ]
}

fn node(figures: &Json) -> String {
    let text = |name: &str| printable(figures[name].as_str().unwrap_or_default());
    let number = |name: &str| figures[name].as_u64().unwrap_or(0);
    let uptime = age(number("uptime_ms") / 1000 * 1000);
    let shards = counted(number("shards"), "shard");
    let mut line = format!("tiderace {}  {}  up {uptime}  {shards}", text("version"), text("node"));
    if let Some(cpu) = figures["cpu"].as_f64() {
        let processors = figures["processors"].as_f64().unwrap_or(1.0);
        line.push_str(&format!(
            "  cpu {:.1} % of {processors:.0} processors",
            cpu * 100.0 / processors.max(1.0)
        ));
    }
    line
}

fn rates(figures: &Json) -> String {
    let rate = |name: &str| figures["rates"][name].as_f64();
    let messages = |name: &str| {
        rate(name).map_or("-".to_owned(), |rate| match rate {
            rate if rate < 10.0 => format!("{rate:.1}"),
            rate => format!("{rate:.0}"),
        })
    };
    let volume = |name: &str| {
        rate(name).map_or("-".to_owned(), |rate| match rate as u64 {
            few @ ..1024 => format!("{few} bytes"),
            many => bytes(many),
        })
    };
    format!(
        "in  {} messages/s  {}/s   out  {} messages/s  {}/s",
        messages("messages_in"),
        volume("bytes_in"),
        messages("messages_out"),
        volume("bytes_out")
    )
}

fn connections(figures: &Json) -> String {
    let by_protocol = figures["connections"].as_object();
    let mut all: Vec<(&String, u64)> = by_protocol
        .into_iter()
        .flatten()
        .map(|(name, count)| (name, count.as_u64().unwrap_or(0)))
        .collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let sum: u64 = all.iter().map(|(_, count)| count).sum();
    let parts: Vec<String> = all.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    let subscriptions = counted(figures["subscriptions"].as_u64().unwrap_or(0), "subscription");
    format!("connections {sum}{parts}; {subscriptions}")
}

fn memory(memory: &Json) -> String {
    let number = |name: &str| memory[name].as_u64();
    let (used, most) = (number("bytes").unwrap_or(0), number("max_bytes").unwrap_or(0));
    let share = used as f64 * 100.0 / most.max(1) as f64;
    let resident =
        number("resident_bytes").map(|resident| format!("; the process has {}", bytes(resident)));
    format!(
        "memory {} of {}, {share:.1} %{}",
        bytes(used),
        bytes(most),
        resident.unwrap_or_default()
    )
}

fn store(store: &Json) -> String {
    let Some(used) = store["bytes"].as_u64() else { return "store none".to_owned() };
    let free =
        store["disk_free_bytes"].as_u64().map(|free| format!(", {} free on its disk", bytes(free)));
    let state = match (store["broken"] == true, store["full"] == true) {
        (true, _) => "; it has failed",
        (_, true) => "; its disk is full",
        _ => "",
    };
    format!("store {}{}{state}", bytes(used), free.unwrap_or_default())
}

fn backlog(backlog: &Json) -> String {
    let number = |name: &str| backlog[name].as_u64().unwrap_or(0);
    format!(
        "backlog {} for clients; queues {} ready, {} in flight; {} paused",
        bytes(number("bytes")),
        number("queue_messages"),
        number("queue_in_flight"),
        counted(number("paused"), "publisher")
    )
}

fn alarms(figures: &Json, space: &Space) -> String {
    let alarms = figures["alarms"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |alarm: &Json, name: &str| printable(alarm[name].as_str().unwrap_or_default());
    let names: Vec<String> = alarms
        .iter()
        .map(|alarm| format!("{} {}", text(alarm, "severity"), text(alarm, "name")))
        .collect();
    match names.is_empty() {
        true => "alarms none".to_owned(),
        false => styled(
            format!("alarms {} (see tiderace alarms)", names.join(", ")),
            Style::new().red().bold(),
            space,
        ),
    }
}

/// The sessions, or why they are not shown.
fn sessions(figures: &Json, rows: usize, space: &Space) -> Vec<String> {
    if let Some(reason) = figures["missing"]["sessions"].as_str() {
        return vec![format!("no sessions: {}", printable(reason))];
    }
    let mut table = Table::new(&[
        "SESSION",
        ">BACKLOG",
        ">SUBS",
        ">SINCE",
        "PROTOCOL",
        "NAME",
        "ADDRESS",
        "TRANSPORT",
    ]);
    let now = figures["at"].as_u64().unwrap_or_else(now_ms);
    for session in figures["sessions"].as_array().into_iter().flatten().take(rows) {
        table.row(session_row(session, now));
    }
    titled(&mut table, space)
}

fn session_row(session: &Json, now: u64) -> Vec<String> {
    let text = |name: &str| printable(session[name].as_str().unwrap_or_default());
    let number = |name: &str| session[name].as_u64().unwrap_or_default();
    vec![
        text("id"),
        bytes(number("backlog_bytes")),
        number("subscriptions").to_string(),
        since_of(session, now),
        text("protocol"),
        truncate_str(&printable(&name_of(session)), NAME_WIDTH, "…").into_owned(),
        text("address"),
        transport_of(session),
    ]
}

/// The queues, or why they are not shown.
fn queues_of(figures: &Json, rows: usize, space: &Space) -> Vec<String> {
    if let Some(reason) = figures["missing"]["queues"].as_str() {
        return vec![format!("no queues: {}", printable(reason))];
    }
    let mut table = Table::new(&["QUEUE", ">READY", ">IN FLIGHT", ">BYTES", ">CONSUMERS", "STATE"]);
    for queue in figures["queues"].as_array().into_iter().flatten().take(rows) {
        table.row(queue_row(queue));
    }
    let mut lines = titled(&mut table, space);
    if figures["queues_more"] == true
        && let Some(names) = lines.first_mut()
    {
        names.push_str("  (of those that were looked at; there are more)");
    }
    lines
}

fn queue_row(queue: &Json) -> Vec<String> {
    let number = |name: &str| queue[name].as_u64().unwrap_or_default();
    let path = printable(queue["path"].as_str().unwrap_or_default());
    let state = [("paused", "paused"), ("full", "full")];
    let state: Vec<&str> =
        state.iter().filter(|(name, _)| queue[*name] == true).map(|(_, word)| *word).collect();
    vec![
        truncate_str(&path, NAME_WIDTH, "…").into_owned(),
        number("messages").to_string(),
        number("in_flight").to_string(),
        bytes(number("bytes")),
        number("consumers").to_string(),
        state.join(", "),
    ]
}

/// The lines of a table, with its names marked on a terminal.
fn titled(table: &mut Table, space: &Space) -> Vec<String> {
    let mut lines = table.lines();
    if let Some(names) = lines.first_mut() {
        *names = styled(std::mem::take(names), Style::new().bold(), space);
    }
    lines
}

fn styled(text: String, style: Style, space: &Space) -> String {
    let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    match space.is_styled && has_colours {
        true => style.force_styling(true).apply_to(text).to_string(),
        false => text,
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use console::measure_text_width;
    use serde_json::json;

    use super::*;

    fn shown() -> Json {
        let session = |id: &str, name: &str| {
            json!({"id": id, "name": name, "address": "10.1.2.3", "protocol": "stomp", "transport": "tcp",
                   "since": 1_000, "subscriptions": 2, "backlog_bytes": 2_048})
        };
        json!({
            "at": 62_000, "node": "a", "version": "0.1.0", "uptime_ms": 61_000, "shards": 1,
            "processors": 2.0, "cpu": 0.5,
            "rates": {"messages_in": 1.25, "messages_out": 1234.4, "bytes_in": 10.0, "bytes_out": 2048.0},
            "connections": {"native": 1, "stomp": 3}, "subscriptions": 7,
            "memory": {"bytes": 1024, "max_bytes": 4096, "resident_bytes": 1 << 20},
            "store": {"bytes": 4096, "disk_free_bytes": 1 << 20, "full": true, "broken": false},
            "backlog": {"bytes": 2048, "paused": 1, "queue_messages": 5, "queue_in_flight": 1},
            "alarms": [{"name": "store-full", "severity": "critical"}],
            "sessions": [session("0-1-1", "ann"), session("0-2-1", "an\u{1b}[2Jn漢字漢字漢字漢字漢字漢字漢字漢字漢字")],
            "queues": [{"path": "jobs", "messages": 5, "in_flight": 1, "bytes": 10, "consumers": 0, "paused": true}],
            "queues_more": false, "missing": {},
        })
    }

    #[test]
    fn a_picture_has_all_that_matters() {
        let lines = lines(&shown(), &Space { rows: 10, ..Space::default() });
        let expected = [
            "tiderace 0.1.0  a  up 1m 1s  1 shard  cpu 25.0 % of 2 processors",
            "in  1.2 messages/s  10 bytes/s   out  1234 messages/s  2.0 KiB/s",
            "connections 4: stomp 3, native 1; 7 subscriptions",
            "memory 1.0 KiB of 4.0 KiB, 25.0 %; the process has 1.0 MiB",
            "store 4.0 KiB, 1.0 MiB free on its disk; its disk is full",
            "backlog 2.0 KiB for clients; queues 5 ready, 1 in flight; 1 publisher paused",
            "alarms critical store-full (see tiderace alarms)",
            "",
        ];
        assert_eq!(lines[..8], expected);
        assert!(
            lines[8].starts_with("SESSION  BACKLOG  SUBS  SINCE  PROTOCOL  NAME"),
            "{lines:#?}"
        );
        assert!(lines[9].starts_with("0-1-1    2.0 KiB     2  1m 1s  stomp     ann"), "{lines:#?}");
        assert!(lines[10].contains(r"an\u{1b}[2Jn"), "{lines:#?}");
        assert!(lines[12].starts_with("QUEUE  READY  IN FLIGHT"), "{lines:#?}");
        assert!(lines[13].starts_with("jobs       5          1"), "{lines:#?}");
        assert_eq!(lines.len(), 14);
    }

    #[test]
    fn no_terminal_is_too_small() {
        for width in 1..120 {
            for height in 1..24 {
                let (width, height) = (Some(width), Some(height));
                let space = Space { width, height, rows: 10, is_styled: true };
                let drawn = lines(&shown(), &space);
                assert!(drawn.len() <= height.unwrap_or(0), "{width:?} {height:?}");
                let widest = drawn.iter().map(|line| measure_text_width(line)).max();
                assert!(widest <= width, "{width:?} {height:?}: {drawn:#?}");
                assert!(drawn.iter().all(|line| !line.contains("\u{1b}[2J")));
            }
        }
    }

    #[test]
    fn what_somebody_may_not_see_is_said() {
        let mut figures =
            json!({"missing": {"figures": "no a", "sessions": "no b", "queues": "no c"}});
        let space = Space { rows: 10, ..Space::default() };
        let expected =
            ["no figures of the node: no a", "", "no sessions: no b", "", "no queues: no c"];
        assert_eq!(lines(&figures, &space), expected);
        figures = shown();
        figures["missing"] = json!({"queues": "no c"});
        // However many sessions there are.
        figures["sessions"] = json!(vec![figures["sessions"][0].clone(); 20]);
        for height in [12, 40] {
            let space = Space { rows: 10, height: Some(height), ..Space::default() };
            let drawn = lines(&figures, &space);
            assert_eq!(drawn.last().map(String::as_str), Some("no queues: no c"), "{drawn:#?}");
        }
    }
}
