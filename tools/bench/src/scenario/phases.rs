//! The phases that Rubris prints: clients ready, channels complete, subscribe sent, subscribe complete.
//!
//! Ready is an open carrier, channels are complete with the server's greeting. Invariant: times count from
//! the moment the first client was ready, as Rubris's log does.

use crate::clients::client::Times;
use crate::report::table::{Table, thousands};

/// When clients reached each phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phases {
    /// Nanoseconds since the first was ready, rising, for each phase.
    reached: [Vec<u64>; 4],
}

impl Phases {
    /// Sorts the times of all clients.
    pub fn of(times: &[Times]) -> Phases {
        let begun = times.iter().map(|times| times.ready).min().unwrap_or(0);
        let sorted = |of: fn(&Times) -> u64| {
            let mut list: Vec<u64> =
                times.iter().map(|times| of(times).saturating_sub(begun)).collect();
            list.sort_unstable();
            list
        };
        let ready = sorted(|times| times.ready);
        let channels = sorted(|times| times.channels);
        let sent = sorted(|times| times.sent);
        Phases { reached: [ready, channels, sent, sorted(|times| times.complete)] }
    }

    /// From the first ready client to the last subscription, nanoseconds.
    pub fn subscribed_ns(&self) -> u64 {
        self.reached.iter().filter_map(|phase| phase.last()).max().copied().unwrap_or(0)
    }

    /// The table, a line for each hundred clients, or tenth of them if they are many.
    pub fn text(&self, name: &str, subscriptions: usize) -> String {
        let count = self.reached[0].len();
        let step = (count / 10).next_multiple_of(100).max(1);
        let mut table = Table::new(&["clients", NAMES[0], NAMES[1], NAMES[2], NAMES[3]]);
        let mut at = step.min(count);
        while at > 0 {
            let mut row = vec![thousands(at as u64)];
            for phase in &self.reached {
                row.push(phase.get(at - 1).map_or_else(String::new, |ns| seconds(*ns)));
            }
            table.row(row);
            at = if at == count { 0 } else { (at + step).min(count) };
        }
        format!(
            "\n{}: {} subscriptions\n{}",
            name,
            thousands((count * subscriptions) as u64),
            table.render()
        )
    }
}

fn seconds(ns: u64) -> String {
    #[allow(clippy::cast_precision_loss)]
    let seconds = ns as f64 / 1e9;
    format!("{seconds:.3} s")
}

const NAMES: [&str; 4] =
    ["Clients ready", "Channels complete", "Subscribe sent", "Subscribe complete"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_hundred() {
        let times: Vec<Times> = (0..250)
            .map(|at| Times {
                ready: 5 + at,
                channels: 6 + at,
                sent: 7 + at,
                complete: 2_000_000_000,
            })
            .collect();
        let phases = Phases::of(&times);
        let text = phases.text("polling", 1000);
        assert_eq!(text.lines().count(), 1 + 1 + 2 + 3, "{text}");
        assert!(text.contains("250,000 subscriptions"), "{text}");
        assert_eq!(phases.subscribed_ns(), 1_999_999_995);
    }
}
