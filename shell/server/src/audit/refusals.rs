//! How many lines the record has for what was not done: some a minute for each who and what, and one that counts the rest.
//!
//! Relies on the caller for the time. Invariants: no more than [`PAIRS_MAX`] are told apart at a time, and all others have the lines of
//! one together; what was left out is said once its minute is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::WINDOW;

/// Lines of a minute for what somebody is refused of one kind.
pub(super) const LINES_MAX: u32 = 10;
/// Pairs of who and what that have lines of their own in a minute.
pub(super) const PAIRS_MAX: usize = 64;

/// Who, and what.
type Pair = (Arc<str>, &'static str);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    pairs: BTreeMap<Pair, Minute>,
    /// Of all those that have none of their own.
    others: Option<Minute>,
}

#[derive(Debug)]
struct Minute {
    ends: Instant,
    lines: u32,
    left_out: u64,
}

impl Minute {
    fn begin(now: Instant) -> Minute {
        Minute { ends: now + WINDOW, lines: 0, left_out: 0 }
    }
}

impl Refusals {
    /// Whether there is a line for it, which it has then. To be called when [`Refusals::next_over`] has nothing to say.
    pub(super) fn admit(&mut self, now: Instant, who: &Arc<str>, verb: &'static str) -> bool {
        let pair = (who.clone(), verb);
        let has_place = self.pairs.len() < PAIRS_MAX || self.pairs.contains_key(&pair);
        let minute = match has_place {
            true => self.pairs.entry(pair).or_insert_with(|| Minute::begin(now)),
            false => self.others.get_or_insert_with(|| Minute::begin(now)),
        };
        minute.lines = minute.lines.saturating_add(1);
        minute.lines <= LINES_MAX
    }

    /// Counts what has no line; whether it is the first of its minute.
    pub(super) fn leave_out(&mut self, who: &Arc<str>, verb: &'static str) -> bool {
        let own = self.pairs.get_mut(&(who.clone(), verb));
        let Some(minute) = own.or(self.others.as_mut()) else { return false };
        minute.left_out += 1;
        minute.left_out == 1
    }

    /// When something is to be said.
    pub(super) fn until(&self) -> Option<Instant> {
        let minutes = self.pairs.values().chain(&self.others);
        minutes.filter(|minute| minute.left_out > 0).map(|minute| minute.ends).min()
    }

    /// Who was refused what more often than there were lines, in a minute that is over; nobody and nothing for the others.
    pub(super) fn next_over(&mut self, now: Instant) -> Option<(Arc<str>, &'static str, u64)> {
        self.pairs.retain(|_, minute| minute.ends > now || minute.left_out > 0);
        let mut over = self.pairs.iter().filter(|(_, minute)| minute.ends <= now);
        if let Some(pair) = over.next().map(|(pair, _)| pair.clone()) {
            let left_out = self.pairs.remove(&pair).map_or(0, |minute| minute.left_out);
            return Some((pair.0, pair.1, left_out));
        }
        let others = self.others.take_if(|minute| minute.ends <= now)?;
        (others.left_out > 0).then(|| ("".into(), "", others.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_have_no_more_lines_than_there_are_places() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let (mut lines, mut woken) = (0, 0);
        for number in 0..10_000 {
            let who: Arc<str> = format!("client-{number}").into();
            if refusals.admit(now, &who, "kick") {
                lines += 1;
            } else {
                woken += usize::from(refusals.leave_out(&who, "kick"));
            }
        }
        assert_eq!(woken, 1, "one minute is waited for");
        assert_eq!(lines, PAIRS_MAX + LINES_MAX as usize);
        assert_eq!(refusals.pairs.len(), PAIRS_MAX);
        assert_eq!(refusals.next_over(now), None);
        let left_out = 10_000 - lines as u64;
        assert_eq!(refusals.next_over(now + WINDOW), Some(("".into(), "", left_out)));
        assert_eq!(refusals.next_over(now + WINDOW), None);
        assert!(refusals.pairs.is_empty() && refusals.others.is_none());
    }
}
