//! What a fault has shown: figures, what each may be, and whether it is.
//!
//! Invariant: the table and the JSON are made of the same rows, and so is the verdict.

use std::fmt::Write as _;

use anyhow::bail;
use serde_json::{Value, json};

use super::checker::Counters;
use super::fleet::Fleet;
use crate::args::EdgeFaultArgs;
use crate::machine::Machine;
use crate::matrix;
use crate::report::table::{Table, thousands};
use crate::report::write;

/// Everything that was found.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    rows: Vec<Row>,
    remarks: Vec<String>,
}

#[derive(Debug)]
struct Row {
    what: &'static str,
    found: f64,
    unit: &'static str,
    bar: Bar,
}

/// What a figure may be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bar {
    /// Anything: it is told alone.
    None,
    /// At most this, or something is broken.
    Most(f64),
    /// At least this, or something is broken.
    Least(f64),
    /// At most this on a machine that has nothing else to do.
    Fast(f64),
}

impl Row {
    fn is_missed(&self, lenient: bool) -> bool {
        match self.bar {
            Bar::None => false,
            Bar::Most(most) => self.found > most,
            Bar::Least(least) => self.found < least,
            Bar::Fast(most) => !lenient && self.found > most,
        }
    }

    fn bar(&self) -> String {
        match self.bar {
            Bar::None => String::new(),
            Bar::Most(most) | Bar::Fast(most) => format!("≤ {}", self.number(most)),
            Bar::Least(least) => format!("≥ {}", self.number(least)),
        }
    }

    fn number(&self, number: f64) -> String {
        let text = match self.unit {
            "" => thousands(number as u64),
            "MiB" => format!("{number:.1}"),
            _ => format!("{number:.3}"),
        };
        format!("{text} {}", self.unit).trim_end().to_owned()
    }
}

impl Outcome {
    /// A figure that is told.
    pub(super) fn tell(&mut self, what: &'static str, found: f64, unit: &'static str) {
        self.rows.push(Row { what, found, unit, bar: Bar::None });
    }

    /// A count that may not be above a number.
    pub(super) fn at_most(&mut self, what: &'static str, found: u64, most: u64) {
        self.rows.push(Row { what, found: found as f64, unit: "", bar: Bar::Most(most as f64) });
    }

    /// A share that may not be below a number.
    pub(super) fn at_least(
        &mut self,
        what: &'static str,
        (found, unit): (f64, &'static str),
        least: f64,
    ) {
        self.rows.push(Row { what, found, unit, bar: Bar::Least(least) });
    }

    /// A figure that hangs on the machine, which may not be above a number.
    pub(super) fn fast(
        &mut self,
        what: &'static str,
        (found, unit): (f64, &'static str),
        most: f64,
    ) {
        self.rows.push(Row { what, found, unit, bar: Bar::Fast(most) });
    }

    /// A sentence below the table.
    pub(super) fn remark(&mut self, remark: String) {
        self.remarks.push(remark);
    }

    /// What clients have got.
    pub(super) fn counters(&mut self, fleet: &Fleet) {
        let Counters { values, again, anew, repeated, untold, told, wrong, problem } =
            &fleet.counters;
        self.tell("values, each looked at", *values as f64, "");
        self.at_most("wrong values", *wrong, 0);
        self.at_most("values left out, untold", *untold, 0);
        self.at_most("values that came twice, untold", *repeated, 0);
        self.tell("values left out, told", *told as f64, "");
        self.tell("values that came again, told", *again as f64, "");
        self.tell("values that came anew behind a gap", *anew as f64, "");
        self.remarks.extend(problem.iter().map(|problem| format!("the first: {problem}")));
        for (loss, count) in fleet.losses.iter().take(LOSSES_SHOWN) {
            self.remarks.push(format!("{} connections lost: {loss}", thousands(*count)));
        }
    }

    /// Prints everything and writes the file asked for.
    ///
    /// # Errors
    /// When the file cannot be written, or a figure is not what it may be.
    pub(super) fn finish(&self, name: &str, args: &EdgeFaultArgs) -> anyhow::Result<()> {
        let machine = Machine::detect();
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        let text = self.text(args.lenient);
        matrix::print(&format!("\n{command}\n{}\n\n{text}", machine.summary()))?;
        if let Some(path) = &args.json {
            let label = if args.label.is_empty() { name } else { &args.label };
            let mut json = self.json(args.lenient);
            json["label"] = label.into();
            json["command"] = command.into();
            json["date"] = machine.date.clone().into();
            json["version"] = machine.version.into();
            json["machine"] = machine.summary().into();
            write(path, &format!("{json:#}\n"))?;
        }
        let missed: Vec<&str> = self.missed(args.lenient).collect();
        if missed.is_empty() {
            return Ok(());
        }
        bail!("not as it has to be: {}", missed.join("; "))
    }

    fn missed(&self, lenient: bool) -> impl Iterator<Item = &'static str> {
        self.rows.iter().filter(move |row| row.is_missed(lenient)).map(|row| row.what)
    }

    fn text(&self, lenient: bool) -> String {
        let mut table = Table::new(&["what", "found", "may be", ""]);
        for row in &self.rows {
            let verdict = match row.bar {
                Bar::None => "",
                _ if row.is_missed(lenient) => "MISSED",
                _ => "ok",
            };
            let (what, found) = (row.what.to_owned(), row.number(row.found));
            table.row(vec![what, found, row.bar(), verdict.to_owned()]);
        }
        let mut text = table.render();
        for remark in &self.remarks {
            let _ = writeln!(text, "! {remark}");
        }
        let missed = self.missed(lenient).count();
        let verdict = if missed == 0 { "all as it has to be" } else { "NOT as it has to be" };
        let _ = writeln!(text, "{verdict}");
        text
    }

    fn json(&self, lenient: bool) -> Value {
        let rows = self.rows.iter().map(|row| {
            let (least, most) = match row.bar {
                Bar::None => (None, None),
                Bar::Least(least) => (Some(least), None),
                Bar::Most(most) | Bar::Fast(most) => (None, Some(most)),
            };
            let missed = row.is_missed(lenient);
            json!({ "what": row.what, "found": row.found, "unit": row.unit, "least": least, "most": most, "missed": missed })
        });
        json!({
            "figures": rows.collect::<Vec<_>>(),
            "remarks": self.remarks,
            "missed": self.missed(lenient).collect::<Vec<_>>(),
        })
    }
}

const LOSSES_SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_on_the_machine_decides_only_if_it_may() {
        let mut outcome = Outcome::default();
        outcome.at_most("gaps", 0, 0);
        outcome.at_least("complete", (99.95, "%"), 99.9);
        outcome.fast("back after", (3.5, "s"), 2.0);
        assert_eq!(outcome.missed(true).count(), 0);
        assert_eq!(outcome.missed(false).collect::<Vec<_>>(), ["back after"]);
        assert!(outcome.text(true).contains("all as it has to be"));
        outcome.at_most("repeats", 1, 0);
        assert_eq!(outcome.missed(true).collect::<Vec<_>>(), ["repeats"]);
        assert!(outcome.text(true).contains("NOT as it has to be"));
        assert_eq!(outcome.json(true)["missed"][0], "repeats");
    }
}
