//! Tables for people: columns as wide as what is in them, with their names above.
//!
//! Relies on nothing. Invariant: the names of the columns are printed once, whatever the pages are.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use super::output::{output_error, printable};

/// A table that is printed a page at a time.
#[derive(Debug)]
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// Whether the names are printed already.
    begun: bool,
}

#[derive(Debug)]
struct Column {
    name: &'static str,
    /// Whether it ends in line: numbers do.
    is_right: bool,
    width: usize,
}

impl Table {
    /// A table with these columns; `>` before a name: of numbers.
    pub(super) fn new(names: &[&'static str]) -> Table {
        let column = |name: &&'static str| {
            let (is_right, name) = match name.strip_prefix('>') {
                Some(name) => (true, name),
                None => (false, *name),
            };
            Column { name, is_right, width: name.chars().count() }
        };
        Table { columns: names.iter().map(column).collect(), rows: Vec::new(), begun: false }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, row: Vec<String>) {
        for (column, cell) in self.columns.iter_mut().zip(&row) {
            column.width = column.width.max(cell.chars().count());
        }
        self.rows.push(row);
    }

    /// The lines of the rows, which are taken out; before the first of them the names.
    pub(super) fn lines(&mut self) -> Vec<String> {
        let rows = std::mem::take(&mut self.rows);
        let mut lines = Vec::new();
        if !rows.is_empty() && !std::mem::replace(&mut self.begun, true) {
            let names: Vec<String> =
                self.columns.iter().map(|column| column.name.to_owned()).collect();
            lines.push(self.line(&names));
        }
        lines.extend(rows.iter().map(|row| self.line(row)));
        lines
    }

    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (column, cell) in self.columns.iter().zip(row) {
            let space = " ".repeat(column.width.saturating_sub(cell.chars().count()));
            let (before, after) = if column.is_right { (&*space, "") } else { ("", &*space) };
            line.push_str(before);
            line.push_str(cell);
            line.push_str(after);
            line.push_str("  ");
        }
        line.trim_end().to_owned()
    }
}

/// Prints what is in a table, and takes it out.
pub(super) fn print_table(table: &mut Table) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in table.lines() {
        writeln!(out, "{}", printable(&line)).map_err(output_error)?;
    }
    out.flush().map_err(output_error)
}

/// A number of bytes, as people read it.
pub(super) fn bytes(count: u64) -> String {
    let mut scaled = count as f64;
    for unit in ["", " KiB", " MiB", " GiB"] {
        if scaled < 1024.0 || unit == " GiB" {
            return if unit.is_empty() { count.to_string() } else { format!("{scaled:.1}{unit}") };
        }
        scaled /= 1024.0;
    }
    count.to_string()
}

/// A stretch of time, as people read it.
pub(super) fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, 0) => format!("{ms}ms"),
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (0, hours, minutes, _) => format!("{hours}h {minutes}m"),
        (days, hours, _, _) => format!("{days}d {hours}h"),
    }
}

/// So many sessions, in words.
pub(super) fn sessions(count: u64) -> String {
    if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") }
}

/// The time of day, in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_in_line_and_named_once() {
        let mut table = Table::new(&["QUEUE", ">READY", "STATE"]);
        assert!(table.lines().is_empty());
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        table.row(row(["jobs/a", "1", "full"]));
        table.row(row(["b", "1000000", ""]));
        let wanted = ["QUEUE     READY  STATE", "jobs/a        1  full", "b       1000000"];
        assert_eq!(table.lines(), wanted);
        table.row(row(["c", "2", ""]));
        assert_eq!(table.lines(), ["c             2"]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0, 1023, 1024, 1 << 20, 3 << 40].map(bytes),
            ["0", "1023", "1.0 KiB", "1.0 MiB", "3072.0 GiB"]
        );
        assert_eq!(
            [5, 59_999, 61_000, 3_700_000, 90_000_000].map(age),
            ["5ms", "59s", "1m 1s", "1h 1m", "1d 1h"]
        );
    }
}
