//! Exchange rates that wander: a kilobyte of JSON per pair of currencies, of which each message
//! changes little, as dealers send them.

use std::io::Write as _;

use super::pairs;
use super::random::Random;

/// The state of all pairs of one shard.
#[derive(Debug)]
pub(crate) struct Quotes {
    topics: Vec<Topic>,
    random: Random,
}

/// What one topic tells of: its pair, and another of the same base currency.
#[derive(Debug)]
struct Topic {
    pairs: [Pair; 2],
}

#[derive(Debug)]
struct Pair {
    base: &'static str,
    quoted: &'static str,
    changed_ms: u64,
    open: i64,
    high: i64,
    low: i64,
    /// Bid and offer for three sizes of deals, the smallest first.
    tiers: [(i64, i64); 3],
}

impl Quotes {
    /// The topics of these numbers.
    pub(crate) fn new(numbers: &[usize], mut random: Random) -> Quotes {
        let topics = numbers
            .iter()
            .map(|number| {
                let (base, quoted) = pairs::codes(*number);
                let other = if quoted == "GBP" || base == "GBP" { "CHF" } else { "GBP" };
                Topic { pairs: [(base, quoted), (base, other)].map(|pair| open(pair, &mut random)) }
            })
            .collect();
        Quotes { topics, random }
    }

    /// The place of the topic that changes next.
    pub(crate) fn choose(&mut self) -> usize {
        usize::try_from(self.random.below(self.topics.len() as u64)).unwrap_or(0)
    }

    /// Moves the topic in that place and writes it.
    pub(crate) fn write(&mut self, at: usize, wall_ms: u64, body: &mut Vec<u8>) {
        let Some(topic) = self.topics.get_mut(at) else { return };
        let [own, other] = &mut topic.pairs;
        if self.random.below(4) > 0 || other.changed_ms == 0 {
            own.step(wall_ms, &mut self.random);
        }
        if self.random.below(4) == 0 || other.changed_ms == 0 {
            other.step(wall_ms, &mut self.random);
        }
        // Writing to memory cannot fail.
        let name = format_args!("{}-{}", own.base, own.quoted);
        let (bid, ask) = own.tiers.first().copied().unwrap_or_default();
        // What people look for comes first; the rest is as dealers send it.
        let _ = write!(
            body,
            "{{\"bid\":{},\"ask\":{},\"timestamp\":\"{wall_ms}\",\"pairName\":\"{name}\",\"pairs\":[",
            Price(bid),
            Price(ask)
        );
        own.write(body);
        body.push(b',');
        other.write(body);
        body.extend_from_slice(b"]}");
    }
}

fn open((base, quoted): (&'static str, &'static str), random: &mut Random) -> Pair {
    let price = pairs::price(base, quoted).max(200);
    let open = price + random.around_zero(price / 500);
    let tiers = [1, 4, 12].map(|width| {
        let half = (price * width / 20_000).max(width);
        (open - half, open + half)
    });
    Pair { base, quoted, changed_ms: 0, open, high: open, low: open, tiers }
}

impl Pair {
    /// Most of the time the points of one price move.
    fn step(&mut self, wall_ms: u64, random: &mut Random) {
        self.changed_ms = wall_ms;
        let most = (self.open / 20_000).max(2);
        let moved = random.around_zero(most);
        let tier = usize::try_from(random.below(3)).unwrap_or(0);
        let (floor, roof) = (self.open * 9 / 10, self.open * 11 / 10);
        if let Some((bid, offer)) = self.tiers.get_mut(tier) {
            // Prices stay near where they opened and an offer above its bid.
            *bid = (*bid + moved).clamp(floor, *offer - 1);
            if random.below(2) == 0 {
                *offer = (*offer + moved).clamp(*bid + 1, roof);
            }
        }
        let (bid, offer) = self.tiers.first().copied().unwrap_or_default();
        let middle = (bid + offer) / 2;
        self.high = self.high.max(middle);
        self.low = self.low.min(middle);
    }

    fn write(&self, body: &mut Vec<u8>) {
        let Pair { base, quoted, changed_ms, .. } = self;
        let _ = write!(
            body,
            "{{\"timestamp\":\"{changed_ms}\",\"pairName\":\"{base}-{quoted}\",\"tiers\":["
        );
        for (at, (bid, offer)) in self.tiers.iter().enumerate() {
            if at > 0 {
                body.push(b',');
            }
            let (high, open, low) = (Price(self.high), Price(self.open), Price(self.low));
            let _ = write!(body, "{{\"high\":\"{high}\",\"open\":\"{open}\",\"low\":\"{low}\"");
            for (side, price) in [("bid", *bid), ("offer", *offer)] {
                let (big, points) = (price / 1_000, price % 1_000);
                let (whole, cents) = (big / 100, big % 100);
                let _ = write!(
                    body,
                    ",\"{side}\":{{\"big\":\"{whole}.{cents:02}\",\"points\":\"{points:03}\"}}"
                );
            }
            body.push(b'}');
        }
        body.extend_from_slice(b"]}");
    }
}

/// Hundred-thousandths.
struct Price(i64);

impl std::fmt::Display for Price {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:05}", self.0 / 100_000, self.0 % 100_000)
    }
}
