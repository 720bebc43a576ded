//! A regular expression that has been read, as an automaton without back-tracking.
//!
//! What may stand in an expression is up to those who read it: selectors and schemas differ there.
//! Matching takes one step for each byte of a text, without allocation, cache or lock. Relies on
//! `regex-automata` to keep to the bytes it is given, which bound the time of compiling, and on texts
//! being UTF-8. Invariant: what compiles needs no more than those bytes, also on the way.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod shorten;

use std::cell::Cell;

use regex_automata::dfa::{Automaton as _, StartKind, dense, sparse};
use regex_automata::nfa::thompson;
use regex_automata::util::{primitives::StateID, start};
use regex_automata::{Anchored, MatchKind};
pub use regex_syntax;
use regex_syntax::hir::Hir;

/// How much of a text an expression has to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// Some part of it.
    Part,
}

thread_local! {
    static WORK_BYTES: Cell<u64> = const { Cell::new(0) };
}

/// What this thread has made on the way to automata since it began, in bytes: compiling takes up to a
/// tenth of a second for each MiB, whether the expression is refused in the end or not. A byte that takes longer
/// counts as several. It is counted for the thread because expressions are compiled deep inside of what reads
/// selectors, schemas and views, and its caller has a budget to charge: the difference of before and after.
pub fn work_bytes() -> u64 {
    WORK_BYTES.get()
}

/// How many bytes one byte of an automaton counts for that looks for a part of a text. A match may begin at each character, so
/// that each state is made of many positions in the expression, and of all of these the next ones are computed.
const PART_WEIGHT: usize = 3;

/// A compiled expression.
#[derive(Clone)]
pub struct Automaton {
    states: sparse::DFA<Vec<u8>>,
    start: StateID,
    extent: Extent,
}

/// Why an expression does not become an automaton.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It would take more bytes than it may.
    #[error("it needs too many bytes")]
    TooLarge,
    /// Something in it that automata cannot do.
    #[error("{0}")]
    Unsupported(String),
}

/// An automaton, and what the work of making it came to.
#[derive(Debug)]
pub struct Made {
    /// The automaton.
    pub automaton: Automaton,
    /// Bytes of what was made on the way, which is what the time was needed for.
    pub work_bytes: usize,
}

impl Automaton {
    /// Compiles an expression within as many bytes, for the automaton and for each thing on the way.
    ///
    /// # Errors
    /// When they are not enough, or the expression looks at Unicode's word boundaries.
    pub fn compile(hir: Hir, extent: Extent, bytes_max: usize) -> Result<Made, Refused> {
        let made = Automaton::make(hir, extent, bytes_max);
        let counted = match (&made, extent) {
            (Err(_), _) => bytes_max,
            (Ok(made), Extent::Whole) => made.work_bytes,
            // The sets of positions are kept within `bytes_max`, so that it takes no longer than one that is refused when
            // these are full.
            (Ok(made), Extent::Part) => {
                (PART_WEIGHT * made.work_bytes).min(bytes_max.max(made.work_bytes))
            }
        };
        WORK_BYTES.set(WORK_BYTES.get() + counted as u64);
        made
    }

    fn make(hir: Hir, extent: Extent, bytes_max: usize) -> Result<Made, Refused> {
        let bytes_max = Some(bytes_max);
        let (start_kind, anchored) = match extent {
            Extent::Whole => (StartKind::Anchored, Anchored::Yes),
            Extent::Part => (StartKind::Unanchored, Anchored::No),
        };
        let nfa = thompson::Compiler::new()
            .configure(
                thompson::Config::new()
                    .utf8(false)
                    .nfa_size_limit(bytes_max)
                    .which_captures(thompson::WhichCaptures::None),
            )
            .build_from_hir(&shorten::shorten(hir))
            .map_err(|error| refused(error.size_limit().is_some(), &error))?;
        let dense = dense::Builder::new()
            .configure(
                dense::Config::new()
                    .start_kind(start_kind)
                    // All, not only the preferred one: the whole text may have to fit, however it does.
                    .match_kind(MatchKind::All)
                    .dfa_size_limit(bytes_max)
                    .determinize_size_limit(bytes_max),
            )
            .build_from_nfa(&nfa)
            .map_err(|error| refused(error.is_size_limit_exceeded(), &error))?;
        let work_bytes = nfa.memory_usage() + dense.memory_usage();
        let states = dense.to_sparse().map_err(|error| refused(false, &error))?;
        let start = states
            .start_state(&start::Config::new().anchored(anchored))
            .map_err(|error| refused(false, &error))?;
        Ok(Made { automaton: Automaton { states, start, extent }, work_bytes })
    }

    /// Whether a text fits, or a part of it.
    pub fn fits(&self, text: &str) -> bool {
        let states = &self.states;
        let mut state = self.start;
        for byte in text.bytes() {
            state = states.next_state(state, byte);
            if self.extent == Extent::Part && states.is_match_state(state) {
                return true;
            }
            if states.is_dead_state(state) {
                return false;
            }
        }
        states.is_match_state(states.next_eoi_state(state))
    }

    /// What it takes in memory besides itself.
    pub fn bytes(&self) -> usize {
        self.states.memory_usage()
    }
}

impl std::fmt::Debug for Automaton {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Automaton({:?}, {} bytes)", self.extent, self.bytes())
    }
}

fn refused(is_size: bool, error: &dyn std::fmt::Display) -> Refused {
    if is_size { Refused::TooLarge } else { Refused::Unsupported(error.to_string()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn compile(text: &str, extent: Extent) -> Result<Automaton, Refused> {
        let hir = regex_syntax::parse(text).unwrap();
        Automaton::compile(hir, extent, 64 << 10).map(|made| made.automaton)
    }

    #[test]
    fn what_is_refused_costs_as_much_as_it_was_allowed() {
        let before = work_bytes();
        compile("[ab]*a[ab]{20}", Extent::Whole).unwrap_err();
        assert_eq!(work_bytes() - before, 64 << 10);
        let before = work_bytes();
        compile("a[b-x]{3}", Extent::Whole).unwrap();
        assert!((1..64 << 10).contains(&(work_bytes() - before)));
    }

    #[test]
    fn what_is_looked_for_in_a_text_counts_as_more_up_to_what_a_refusal_costs() {
        let counted = |text: &str, bytes_max| {
            let before = work_bytes();
            let hir = regex_syntax::parse(text).unwrap();
            let made = Automaton::compile(hir, Extent::Part, bytes_max).unwrap();
            (work_bytes() - before, made.work_bytes as u64)
        };
        let (counted_bytes, bytes) = counted("a{20}", 64 << 10);
        assert_eq!(counted_bytes, 3 * bytes);
        let (counted_bytes, bytes) = counted("a{100}", 12 << 10);
        assert!(bytes < 12 << 10 && 3 * bytes > 12 << 10, "{bytes}");
        assert_eq!(counted_bytes, 12 << 10);
    }

    #[test]
    fn limits_are_kept_and_said_apart_from_what_is_not_supported() {
        for text in ["(a{1000}){1000}", "[ab]*a[ab]{20}"] {
            for extent in [Extent::Whole, Extent::Part] {
                assert_eq!(compile(text, extent).unwrap_err(), Refused::TooLarge, "{text}");
            }
        }
        let hir = regex_syntax::Parser::new().parse(r"(?u:\b)a").unwrap();
        let refused = Automaton::compile(hir, Extent::Whole, 64 << 10).unwrap_err();
        assert!(matches!(refused, Refused::Unsupported(_)), "{refused}");
    }

    #[test]
    fn the_work_counts_more_than_what_is_left_of_it() {
        let hir = regex_syntax::parse("a{200}").unwrap();
        let made = Automaton::compile(hir, Extent::Whole, 64 << 10).unwrap();
        assert!(made.work_bytes > made.automaton.bytes());
        assert!(made.work_bytes <= 128 << 10);
    }

    fn expression() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "[abü]",
            "[abü.]",
            Just("[^a]".to_owned()),
            Just("[a-cü-ý]".to_owned()),
            Just(r"[^\n\x80-\x{ff}]".to_owned()),
            Just("^".to_owned()),
            Just("$".to_owned()),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
                proptest::collection::vec(inner.clone(), 1..4)
                    .prop_map(|parts| format!("({})", parts.join("|"))),
                (inner, prop_oneof!["\\?", "\\*", "\\+", Just("{1,3}".to_owned())])
                    .prop_map(|(one, how)| format!("(?:{one}){how}")),
            ]
        })
    }

    proptest! {
        #[test]
        fn fits_what_the_regex_crate_matches(
            text in expression(),
            names in proptest::collection::vec("[abc1üÿ€.]{0,6}", 8),
        ) {
            let whole = ::regex::Regex::new(&format!("^(?:{text})$")).unwrap();
            let part = ::regex::Regex::new(&text).unwrap();
            for (extent, oracle) in [(Extent::Whole, whole), (Extent::Part, part)] {
                if let Ok(automaton) = compile(&text, extent) {
                    for name in &names {
                        prop_assert_eq!(automaton.fits(name), oracle.is_match(name), "{} {} {:?}", text, name, extent);
                    }
                }
            }
        }
    }
}
