//! Which messages are traced, and the ids of their spans.
//!
//! Relies on a seed that no other shard or server has. Invariant: a message costs no memory by being looked at.

use std::num::{NonZeroU64, NonZeroU128};

use tiderace_wire::{SpanContext, SpanId, TraceId, TraceParent};

/// Which messages are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// How many of a million, of those whose client does not say that it traces them.
    pub per_million: u32,
    /// Whether messages belong to the trace that their client names.
    pub follow_parents: bool,
}

/// Chooses messages.
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: Random,
    /// The second of those that were followed last, and how many they were.
    followed: (u64, u32),
}

impl Sampler {
    /// One with a seed of its own.
    pub fn new(sampling: Sampling, seed: u128) -> Sampler {
        let (high, low) = ((seed >> 64) as u64, seed as u64);
        Sampler { sampling, random: Random(high, low), followed: (0, 0) }
    }

    /// Where the span of a message with these properties stands, if it is to be traced. `second` is that of the clock: in one
    /// `FOLLOWED_MAX` messages are traced because their clients say so, and of others chance decides.
    pub fn choose(&mut self, second: u64, properties: &[u8]) -> Option<SpanContext> {
        let parent = match self.sampling.follow_parents {
            true => TraceParent::of(properties),
            false => None,
        };
        let is_wanted = parent.is_some_and(|parent| parent.is_sampled);
        let is_chosen = is_wanted && self.may_follow(second) || self.draw();
        if !is_chosen {
            return None;
        }
        let trace = parent.map_or_else(|| self.trace(), |parent| parent.trace);
        Some(SpanContext { trace, span: self.span(), parent: parent.map(|parent| parent.span) })
    }

    /// Whether one more is traced because its client says so.
    fn may_follow(&mut self, second: u64) -> bool {
        if self.followed.0 != second {
            self.followed = (second, 0);
        }
        let may = self.followed.1 < FOLLOWED_MAX;
        self.followed.1 += u32::from(may);
        may
    }

    /// The id of another span.
    pub fn span(&mut self) -> SpanId {
        loop {
            if let Some(id) = NonZeroU64::new(self.random.next()) {
                return SpanId(id);
            }
        }
    }

    fn trace(&mut self) -> TraceId {
        loop {
            let number = u128::from(self.random.next()) << 64 | u128::from(self.random.next());
            if let Some(id) = NonZeroU128::new(number) {
                return TraceId(id);
            }
        }
    }

    fn draw(&mut self) -> bool {
        let most = u64::from(self.sampling.per_million);
        // Of 2^64 numbers a million more or less makes no difference.
        most > 0 && self.random.next() % MILLION < most
    }
}

/// Messages of a second that a shard traces because their clients say so.
pub(crate) const FOLLOWED_MAX: u32 = 5_000;
const MILLION: u64 = 1_000_000;

/// Two of Steele and Vigna's SplitMix64, so that as many sequences differ as there are seeds. Ids have to differ; nobody
/// is kept from guessing them.
#[derive(Debug)]
struct Random(u64, u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.1 = self.1.wrapping_add(0xd1b5_4a32_d192_ed03);
        mixed(self.0) ^ mixed(self.1).rotate_left(32)
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const SAMPLED: &[u8] = b"traceparent:00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n";
    const UNSAMPLED: &[u8] =
        b"traceparent:00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00\n";

    fn sampler(per_million: u32, follow_parents: bool) -> Sampler {
        Sampler::new(Sampling { per_million, follow_parents }, 7)
    }

    #[test]
    fn who_records_everything_has_so_much_of_it_traced_in_a_second() {
        let mut sampler = sampler(0, true);
        let mut followed =
            |second| (0..6_000).filter(|_| sampler.choose(second, SAMPLED).is_some()).count();
        assert_eq!(followed(1), FOLLOWED_MAX as usize);
        assert_eq!(followed(2), FOLLOWED_MAX as usize);
    }

    #[test]
    fn a_client_that_records_is_followed_unless_that_is_off() {
        let context = sampler(0, true).choose(1, SAMPLED).unwrap();
        assert_eq!(context.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.parent.unwrap().to_string(), "00f067aa0ba902b7");
        assert_ne!(Some(context.span), context.parent);
        assert_eq!(sampler(0, true).choose(1, UNSAMPLED), None);
        assert_eq!(sampler(0, true).choose(1, b""), None);
        assert_eq!(sampler(0, false).choose(1, SAMPLED), None);
        // Who is chosen all the same stays in its trace, if the client may say which that is.
        let joined = sampler(1_000_000, true).choose(1, UNSAMPLED).unwrap();
        assert_eq!(joined.trace, context.trace);
        let own = sampler(1_000_000, false).choose(1, SAMPLED).unwrap();
        assert!(own.trace != context.trace && own.parent.is_none());
    }

    #[test]
    fn as_many_are_chosen_as_are_to_be() {
        for per_million in [0, 1000, 250_000, 1_000_000] {
            let mut sampler = sampler(per_million, true);
            let chosen = (0..100_000).filter(|_| sampler.choose(1, b"a:b\n").is_some()).count();
            let expected = per_million as usize / 10;
            assert!(chosen.abs_diff(expected) <= expected / 5, "{per_million}: {chosen}");
        }
    }

    #[test]
    fn ids_differ_between_messages_and_between_seeds() {
        let mut seen = HashSet::new();
        for seed in [0, 1, 1 << 64, u128::MAX] {
            let sampling = Sampling { per_million: 1_000_000, follow_parents: true };
            let mut sampler = Sampler::new(sampling, seed);
            for _ in 0..1000 {
                let context = sampler.choose(1, b"").unwrap();
                assert!(seen.insert(context.trace.0.get()));
                assert!(seen.insert(u128::from(context.span.0.get())));
            }
        }
    }

    proptest! {
        #[test]
        fn any_properties_are_looked_at(block in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = sampler(0, true).choose(1, &block);
        }
    }
}
