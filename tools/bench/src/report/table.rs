//! Aligned columns for the terminal, and numbers a person can read.
//!
//! Invariant: the first column is flush left, all others flush right, widths count characters.

/// Rows of text under a header.
#[derive(Debug, Clone, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a header.
    pub fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|&name| name.to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The text, one line per row, with a rule under the header.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let line: Vec<String> = row.iter().zip(&widths).enumerate().map(align).collect();
            text += line.join("  ").trim_end();
            text.push('\n');
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                text += &rule.join("  ");
                text.push('\n');
            }
        }
        text
    }
}

fn align((column, (cell, width)): (usize, (&String, &usize))) -> String {
    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
}

/// `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate, rounded to a whole number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn rate(per_second: f64) -> String {
    thousands(per_second.max(0.0).round() as u64)
}

/// Nanoseconds in the unit that suits them.
pub fn duration(ns: u64) -> String {
    #[allow(clippy::cast_precision_loss)]
    let ns = ns as f64;
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        _ if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// Microseconds of CPU, or a dash.
pub fn microseconds(us: Option<f64>) -> String {
    us.map_or_else(
        || "–".to_owned(),
        |us| {
            if us < 10.0 { format!("{us:.3}") } else { format!("{us:.1}") }
        },
    )
}

/// The 99th percentile of recorded latencies, or a dash.
pub fn p99(histogram: &hdrhistogram::Histogram<u64>) -> String {
    if histogram.is_empty() {
        return "–".to_owned();
    }
    duration(histogram.value_at_quantile(0.99))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_by_characters() {
        let mut table = Table::new(&["cell", "µs"]);
        table.row(vec!["topic".into(), "1".into()]);
        assert_eq!(table.render(), "cell   µs\n─────  ──\ntopic   1\n");
    }

    #[test]
    fn numbers() {
        assert_eq!(
            (thousands(999), thousands(1_000), thousands(12_345_678)),
            ("999".into(), "1,000".into(), "12,345,678".into())
        );
        assert_eq!(
            (duration(950), duration(1_500), duration(2_000_000_000)),
            ("950 ns".into(), "1.5 µs".into(), "2.00 s".into())
        );
        assert_eq!((microseconds(None), microseconds(Some(0.25))), ("–".into(), "0.250".into()));
    }
}
