//! The message and how it changes: quotes of two currency pairs with three tiers each, 950 bytes of
//! JSON, as in Diffusion's published benchmark.
//!
//! Relies on a seed, so that every run has the same values.

/// One way of changing.
pub(crate) struct Pattern {
    pub(crate) name: &'static str,
    change: fn(&mut Message, &mut Chance),
}

pub(crate) const PATTERNS: &[Pattern] = &[
    Pattern { name: "W1 one field", change: one_field },
    Pattern { name: "W2 two fields, two times", change: two_fields },
    Pattern { name: "W3 all fields and times", change: all_fields },
    Pattern { name: "W4 lengths change", change: length },
    Pattern { name: "W5 an element comes or goes", change: element },
    Pattern { name: "W6 unrelated", change: unrelated },
];

/// So many successive values.
pub(crate) fn values(pattern: &Pattern, count: usize) -> Vec<Vec<u8>> {
    let mut message = Message::seed();
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut values = vec![message.json()];
    assert_eq!(values[0].len(), 950, "the seed's message");
    while values.len() < count {
        (pattern.change)(&mut message, &mut chance);
        values.push(message.json());
    }
    values
}

#[derive(Clone)]
struct Tier {
    high: String,
    open: String,
    low: String,
    bid: [String; 2],
    offer: [String; 2],
}

struct Pair {
    timestamp: u64,
    name: String,
    tiers: Vec<Tier>,
}

struct Message {
    timestamp: u64,
    name: String,
    pairs: Vec<Pair>,
    /// In place of all that.
    other: Option<String>,
}

impl Message {
    fn seed() -> Message {
        let tier = |all: [&str; 3], bid: [&str; 2], offer: [&str; 2]| Tier {
            high: all[0].to_owned(),
            open: all[1].to_owned(),
            low: all[2].to_owned(),
            bid: bid.map(str::to_owned),
            offer: offer.map(str::to_owned),
        };
        let usd = ["1.09407", "1.09625", "1.09741"];
        let gbp = ["0.88951", "0.89102", "0.89225"];
        let pairs = vec![
            Pair {
                timestamp: 1_570_097_621_137,
                name: "EUR-USD".to_owned(),
                tiers: vec![
                    tier(usd, ["1.09", "485"], ["1.09", "486"]),
                    tier(usd, ["1.0355", "485"], ["1.1445", "486"]),
                    tier(usd, ["0.981", "485"], ["1.199", "486"]),
                ],
            },
            Pair {
                timestamp: 1_570_097_629_409,
                name: "EUR-GBP".to_owned(),
                tiers: vec![
                    tier(gbp, ["0.89", "087"], ["0.89", "091"]),
                    tier(gbp, ["0.8455", "087"], ["0.9345", "091"]),
                    tier(gbp, ["0.801", "087"], ["0.979", "091"]),
                ],
            },
        ];
        let name = "EUR-USD".to_owned();
        Message { timestamp: 1_570_097_621_137, name, pairs, other: None }
    }

    fn json(&self) -> Vec<u8> {
        if let Some(other) = &self.other {
            return other.clone().into_bytes();
        }
        let list = |parts: Vec<String>| parts.join(",");
        let price =
            |[big, points]: &[String; 2]| format!(r#"{{"big":"{big}","points":"{points}"}}"#);
        let tier = |tier: &Tier| {
            let Tier { high, open, low, bid, offer } = tier;
            let (bid, offer) = (price(bid), price(offer));
            format!(
                r#"{{"high":"{high}","open":"{open}","low":"{low}","bid":{bid},"offer":{offer}}}"#
            )
        };
        let pair = |Pair { timestamp, name, tiers }: &Pair| {
            let tiers = list(tiers.iter().map(tier).collect());
            format!(r#"{{"timestamp":"{timestamp}","pairName":"{name}","tiers":[{tiers}]}}"#)
        };
        let Message { timestamp, name, pairs, .. } = self;
        let pairs = list(pairs.iter().map(pair).collect());
        format!(r#"{{"timestamp":"{timestamp}","pairName":"{name}","pairs":[{pairs}]}}"#)
            .into_bytes()
    }

    fn tiers(&mut self) -> impl Iterator<Item = &mut Tier> {
        self.pairs.iter_mut().flat_map(|pair| &mut pair.tiers)
    }

    /// One of the prices, by chance.
    fn price(&mut self, chance: &mut Chance) -> &mut [String; 2] {
        let all = self.tiers().count() as u64;
        let (tier, bid) = (chance.below(all) as usize, chance.below(2) == 0);
        let tier = self.tiers().nth(tier).unwrap();
        if bid { &mut tier.bid } else { &mut tier.offer }
    }
}

/// Points of one price.
fn one_field(message: &mut Message, chance: &mut Chance) {
    message.price(chance)[1] = chance.digits(3);
}

/// Points of two prices, the message's time and that of one pair.
fn two_fields(message: &mut Message, chance: &mut Chance) {
    one_field(message, chance);
    one_field(message, chance);
    message.timestamp += chance.below(5_000);
    let pair = chance.below(2) as usize;
    message.pairs[pair].timestamp = message.timestamp;
}

/// Points of all twelve prices and all times.
fn all_fields(message: &mut Message, chance: &mut Chance) {
    for tier in message.tiers() {
        tier.bid[1] = chance.digits(3);
        tier.offer[1] = chance.digits(3);
    }
    message.timestamp += chance.below(5_000);
    let timestamp = message.timestamp;
    message.pairs.iter_mut().for_each(|pair| pair.timestamp = timestamp);
}

/// The first part of a price, with three to six digits.
fn length(message: &mut Message, chance: &mut Chance) {
    let digits = 2 + chance.below(4) as usize;
    message.price(chance)[0] = format!("{}.{}", chance.below(2), chance.digits(digits));
}

/// A tier of a pair comes, at any place and with prices of its own, or goes.
fn element(message: &mut Message, chance: &mut Chance) {
    let pair = chance.below(2) as usize;
    let tiers = &mut message.pairs[pair].tiers;
    let comes = tiers.len() < 2 || (tiers.len() < 5 && chance.below(2) == 0);
    if !comes {
        tiers.remove(chance.below(tiers.len() as u64) as usize);
        return;
    }
    let mut tier = tiers[0].clone();
    for price in [&mut tier.bid, &mut tier.offer] {
        price[0] = format!("{}.{}", chance.below(2), chance.digits(4));
    }
    tiers.insert(chance.below(tiers.len() as u64 + 1) as usize, tier);
}

/// Another record altogether: other fields, other values.
fn unrelated(message: &mut Message, chance: &mut Chance) {
    let mut text = String::from("{");
    while text.len() < 925 {
        let name = WORDS[chance.below(WORDS.len() as u64) as usize];
        let separator = if text.len() > 1 { "," } else { "" };
        let value = match chance.below(3) {
            0 => chance.digits(5).trim_start_matches('0').to_owned() + "1",
            1 => format!("\"{}\"", chance.letters(12)),
            _ => format!("\"{}\"", chance.digits(9)),
        };
        // A number, so that no name comes twice.
        text += &format!(r#"{separator}"{name}{}":{value}"#, chance.below(1_000_000));
    }
    text.push('}');
    message.other = Some(text);
}

const WORDS: &[&str] = &[
    "amount", "book", "change", "date", "error", "floor", "grade", "hour", "item", "kind", "line",
    "market", "number", "order", "place", "rate", "size", "trade", "unit", "volume", "width",
    "year",
];

/// A small generator (xorshift), the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }

    fn digits(&mut self, count: usize) -> String {
        (0..count).map(|_| char::from(b'0' + self.below(10) as u8)).collect()
    }

    fn letters(&mut self, count: usize) -> String {
        (0..count).map(|_| char::from(b'a' + self.below(26) as u8)).collect()
    }
}
