//! What clients of this node serve, as far as its upstream is to call them.
//!
//! Bookkeeping only. Invariants: a name is served under one number; a number is used again once the upstream has answered
//! its end, or has refused it.

use std::collections::BTreeMap;

use tiderace_wire::{Target, ToUpstream};

/// Services, by name or pattern, that an upstream is told of: each is a subscription there.
pub(super) const SERVED_MAX: usize = 1_024;

/// What is known of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Free,
    /// The upstream has been asked, and may have answered.
    Asked,
    /// The upstream would not have it: it is not asked again while somebody serves it.
    Refused,
    /// The upstream has been told that it is over.
    Ending,
}

/// All of one upstream.
#[derive(Debug, Default)]
pub(super) struct Serves {
    rows: Vec<Row>,
    numbers: BTreeMap<Box<str>, u32>,
    /// What was seen of the changes of the home when it was compared last.
    seen: Option<u64>,
}

impl Serves {
    /// Those that the upstream has been asked for.
    pub(super) fn len(&self) -> usize {
        self.rows.iter().filter(|row| **row == Row::Asked).count()
    }

    /// Whether there may be something to tell the upstream: the home counts so many changes.
    pub(super) fn are_old(&self, changes: u64) -> bool {
        self.seen != Some(changes)
    }

    /// What is to be said for the upstream to serve these, and nothing else.
    pub(super) fn compare(&mut self, changes: u64, wanted: Vec<Target>) -> Vec<ToUpstream> {
        self.seen = Some(changes);
        let mut said = Vec::new();
        let names: std::collections::BTreeSet<&str> = wanted.iter().map(Target::name).collect();
        let rows = &mut self.rows;
        self.numbers.retain(|name, key| {
            let is_wanted = names.contains(&**name);
            if !is_wanted && let Some(row) = rows.get_mut(*key as usize) {
                *row = match row {
                    Row::Asked => {
                        said.push(ToUpstream::ServeNoMore { key: *key });
                        Row::Ending
                    }
                    _ => Row::Free,
                };
            }
            is_wanted
        });
        for target in wanted {
            if self.numbers.contains_key(target.name()) || self.numbers.len() >= SERVED_MAX {
                continue;
            }
            let Some(key) = self.take_number() else { break };
            self.numbers.insert(target.name().into(), key);
            said.push(ToUpstream::Serve { key, target });
        }
        said
    }

    fn take_number(&mut self) -> Option<u32> {
        let free = self.rows.iter().position(|row| *row == Row::Free);
        let place = free.unwrap_or(self.rows.len());
        match self.rows.get_mut(place) {
            Some(row) => *row = Row::Asked,
            // Some of twice as many may be ending.
            None if place >= 2 * SERVED_MAX => return None,
            None => self.rows.push(Row::Asked),
        }
        Some(place as u32)
    }

    /// The upstream serves it by now; or does not any more, or would not.
    pub(super) fn answered(&mut self, key: u32, is_refused: bool, serves: bool) {
        let Some(row) = self.rows.get_mut(key as usize) else { return };
        *row = match (*row, is_refused, serves) {
            (Row::Asked, true, _) => Row::Refused,
            // A refusal answers the beginning; the number is free when the end is answered too.
            (Row::Ending, false, false) => Row::Free,
            (known, ..) => known,
        };
    }

    /// The connection is lost, and with it all that it served.
    pub(super) fn unlink(&mut self) {
        *self = Serves::default();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeSet, VecDeque};
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, Kind};

    fn target(number: usize) -> Target {
        let path = Path::parse(&format!("a/{number}")).unwrap();
        Target::Exact(Destination { kind: Kind::Service, path })
    }

    proptest! {
        #[test]
        fn the_upstream_serves_in_the_end_what_is_wanted(
            steps in proptest::collection::vec((any::<u8>(), 0usize..3), 1..60),
        ) {
            let mut serves = Serves::default();
            // What the upstream has: under which number which name. Whatever ends in 7 it refuses.
            let mut there: BTreeMap<u32, String> = BTreeMap::new();
            let mut asked = VecDeque::new();
            let mut wanted = BTreeSet::new();
            let answer = |serves: &mut Serves, there: &mut BTreeMap<u32, String>, said: ToUpstream| {
                match said {
                    ToUpstream::Serve { key, target } if target.name().ends_with('7') => {
                        serves.answered(key, true, false);
                    }
                    ToUpstream::Serve { key, target } => {
                        assert!(there.insert(key, target.name().to_owned()).is_none());
                        serves.answered(key, false, true);
                    }
                    ToUpstream::ServeNoMore { key } => {
                        there.remove(&key);
                        serves.answered(key, false, false);
                    }
                    other => panic!("{other:?}"),
                }
            };
            for ((bits, answered), changes) in steps.into_iter().zip(1..) {
                wanted = (0..8).filter(|bit| bits & 1 << bit != 0).collect();
                let targets = wanted.iter().map(|number| target(*number)).collect();
                asked.extend(serves.compare(changes, targets));
                prop_assert!(!serves.are_old(changes) && serves.are_old(changes + 1));
                for _ in 0..answered {
                    if let Some(said) = asked.pop_front() {
                        answer(&mut serves, &mut there, said);
                    }
                }
            }
            asked.drain(..).for_each(|said| answer(&mut serves, &mut there, said));
            let expected = wanted.into_iter().filter(|number| *number != 7);
            let expected: BTreeSet<String> = expected.map(|number| format!("a/{number}")).collect();
            prop_assert_eq!(there.into_values().collect::<BTreeSet<_>>(), expected);
        }
    }

    #[test]
    fn they_are_bounded_and_begin_anew_with_a_connection() {
        let mut serves = Serves::default();
        let many = || (0..SERVED_MAX + 10).map(target).collect::<Vec<_>>();
        assert_eq!(serves.compare(1, many()).len(), SERVED_MAX);
        assert_eq!((serves.len(), serves.compare(2, many()).len()), (SERVED_MAX, 0));
        serves.unlink();
        assert!(serves.are_old(2));
        assert_eq!(serves.compare(2, vec![target(1)]).len(), 1);
    }
}
