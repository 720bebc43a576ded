//! What publishers, consumers, browsers, operators and the store do.

use proptest::prelude::*;

#[derive(Clone, Debug)]
pub enum Step {
    Publish {
        count: u8,
        persistent: bool,
        expires: bool,
        priority: u8,
    },
    /// All messages, the red ones, or the others.
    Consume {
        number: u8,
        messages: u32,
        red: Option<bool>,
        /// No version below it.
        from: u64,
    },
    Settle {
        number: u8,
        place: u8,
        count: u8,
        settlement: u8,
    },
    Leave {
        number: u8,
        lost: bool,
    },
    Commit {
        count: u8,
        refuse: bool,
    },
    Read,
    Give,
    TakeOut {
        from: u64,
        /// Where its queue orders by priority.
        rank: u64,
        more: u64,
        selective: bool,
        messages: u64,
    },
    Drop(u8),
    GiveBack(u8),
    Purge,
    Pass(u16),
    Damage,
    /// Shows all messages from a version on, or the red ones, or the others.
    Browse {
        number: u8,
        messages: u32,
        red: Option<bool>,
        follows: bool,
        from: u64,
    },
    /// A browser writes so many of those that it was shown.
    Write {
        number: u8,
        count: u8,
    },
    LeaveBrowser(u8),
}

pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u8..12, any::<bool>(), prop::bool::weighted(0.2), prop_oneof![Just(4u8), 0u8..10])
            .prop_map(|(count, persistent, expires, priority)| Step::Publish { count, persistent, expires, priority }),
        2 => (0u8..4, 1u32..6, any::<Option<bool>>(), prop_oneof![3 => Just(0u64), 1 => 0u64..60])
            .prop_map(|(number, messages, red, from)| Step::Consume { number, messages, red, from }),
        6 => (0u8..4, any::<u8>(), 1u8..6, 0u8..4)
            .prop_map(|(number, place, count, settlement)| Step::Settle { number, place, count, settlement }),
        1 => (0u8..4, any::<bool>()).prop_map(|(number, lost)| Step::Leave { number, lost }),
        6 => (1u8..5, prop::bool::weighted(0.15)).prop_map(|(count, refuse)| Step::Commit { count, refuse }),
        4 => Just(Step::Read),
        4 => Just(Step::Give),
        2 => (0u64..60, 0u64..9, 0u64..30, any::<bool>(), 1u64..9)
            .prop_map(|(from, rank, more, selective, messages)| Step::TakeOut { from, rank, more, selective, messages }),
        1 => any::<u8>().prop_map(Step::Drop),
        1 => any::<u8>().prop_map(Step::GiveBack),
        1 => Just(Step::Purge),
        1 => (1u16..200).prop_map(Step::Pass),
        1 => Just(Step::Damage),
        2 => (0u8..3, 1u32..6, any::<Option<bool>>(), any::<bool>(), prop_oneof![Just(0u64), 0u64..60])
            .prop_map(|(number, messages, red, follows, from)| Step::Browse { number, messages, red, follows, from }),
        5 => (0u8..3, 1u8..5).prop_map(|(number, count)| Step::Write { number, count }),
        1 => (0u8..3).prop_map(Step::LeaveBrowser),
    ]
}
