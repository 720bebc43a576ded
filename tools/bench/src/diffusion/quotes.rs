//! The seed's message: quotes of two pairs of currencies in three sizes of deals, 950 bytes of JSON, of
//! which an update changes some digits.
//!
//! Every field keeps its length, so an update is a few bytes written in place. Invariant: the message is
//! what Diffusion's article printed, without its white space, in the first topic before any update.

use std::sync::Arc;

use crate::args::DiffusionChange;
use crate::clients::language::Language;
use crate::clients::publications::Publications;
use crate::clients::publisher::Source;
use crate::random::Random;

/// All topics' values and whose turn it is.
pub(crate) struct Quotes {
    prefix: String,
    change: DiffusionChange,
    publications: Arc<Publications>,
    values: Vec<Value>,
    random: Random,
    /// Topics that have their first value.
    begun: usize,
}

struct Value {
    text: Box<[u8]>,
    /// Its publications, counted on from 0.
    count: u16,
}

impl Quotes {
    /// Topics with values that differ; the first publications go to each of them once.
    pub(crate) fn new(
        prefix: &str,
        change: DiffusionChange,
        publications: Arc<Publications>,
        topics: usize,
    ) -> Quotes {
        let mut random = Random(topics as u64);
        let values = (0..topics).map(|topic| {
            let mut text: Box<[u8]> = MESSAGE.as_bytes().into();
            if topic > 0 {
                POINTS.iter().for_each(|at| digits(&mut text, *at, random.below(1000), 3));
            }
            Value { text, count: 0 }
        });
        let values = values.collect();
        Quotes { prefix: prefix.to_owned(), change, publications, values, random, begun: 0 }
    }

    /// Changes a value as quotes move.
    fn step(&mut self, topic: usize, unix_ms: u64) {
        let Some(value) = self.values.get_mut(topic) else { return };
        let (text, random) = (&mut value.text, &mut self.random);
        let price = random.below(POINTS.len() as u64) as usize;
        let mut set = |at: Option<&usize>, value: u64, count: usize| {
            at.iter().for_each(|at| digits(text, **at, value, count));
        };
        match self.change {
            DiffusionChange::Points => set(POINTS.get(price), random.below(1000), 3),
            DiffusionChange::Quote => {
                // Bid and offer of one size of deal, and when that pair moved.
                let bid = price / 2 * 2;
                set(POINTS.get(bid), random.below(1000), 3);
                set(POINTS.get(bid + 1), random.below(1000), 3);
                set(TIMES.first(), unix_ms, 13);
                set(TIMES.get(1 + bid / 6), unix_ms, 13);
            }
            DiffusionChange::All => {
                POINTS.iter().for_each(|at| set(Some(at), random.below(1000), 3));
                TIMES.iter().for_each(|at| set(Some(at), unix_ms, 13));
            }
        }
    }
}

impl Source for Quotes {
    fn publish(&mut self, language: &Language, due_unix_ns: u64, out: &mut Vec<u8>) {
        let topic = if self.begun < self.values.len() {
            self.begun += 1;
            self.begun - 1
        } else {
            let topic = self.random.below(self.values.len() as u64) as usize;
            self.step(topic, due_unix_ns / 1_000_000);
            topic
        };
        let Some(value) = self.values.get_mut(topic) else { return };
        self.publications.note(topic, value.count, due_unix_ns, &value.text);
        value.count = value.count.wrapping_add(1);
        language.publish(out, &path(&self.prefix, topic), &value.text);
    }
}

/// The path of a topic.
pub(crate) fn path(prefix: &str, topic: usize) -> String {
    format!("{prefix}/{topic}")
}

/// Different topics, chosen at random but the same for the same client in each run.
pub(crate) fn choose(client: usize, topics: usize, count: usize) -> Vec<usize> {
    let mut random = Random(client as u64 ^ 0x5eed);
    let mut known = std::collections::HashSet::new();
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count.min(topics) {
        let topic = random.below(topics as u64) as usize;
        if known.insert(topic) {
            chosen.push(topic);
        }
    }
    chosen
}

fn digits(text: &mut [u8], at: usize, mut value: u64, count: usize) {
    for place in text.iter_mut().skip(at).take(count).rev() {
        *place = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// From diffusiondata.com, "Benchmarking and scaling subscribers".
const MESSAGE: &str = concat!(
    r#"{"timestamp":"1570097621137","pairName":"EUR-USD","pairs":["#,
    r#"{"timestamp":"1570097621137","pairName":"EUR-USD","tiers":["#,
    r#"{"high":"1.09407","open":"1.09625","low":"1.09741","bid":{"big":"1.09","points":"485"},"offer":{"big":"1.09","points":"486"}},"#,
    r#"{"high":"1.09407","open":"1.09625","low":"1.09741","bid":{"big":"1.0355","points":"485"},"offer":{"big":"1.1445","points":"486"}},"#,
    r#"{"high":"1.09407","open":"1.09625","low":"1.09741","bid":{"big":"0.981","points":"485"},"offer":{"big":"1.199","points":"486"}}]},"#,
    r#"{"timestamp":"1570097629409","pairName":"EUR-GBP","tiers":["#,
    r#"{"high":"0.88951","open":"0.89102","low":"0.89225","bid":{"big":"0.89","points":"087"},"offer":{"big":"0.89","points":"091"}},"#,
    r#"{"high":"0.88951","open":"0.89102","low":"0.89225","bid":{"big":"0.8455","points":"087"},"offer":{"big":"0.9345","points":"091"}},"#,
    r#"{"high":"0.88951","open":"0.89102","low":"0.89225","bid":{"big":"0.801","points":"087"},"offer":{"big":"0.979","points":"091"}}]}"#,
    "]}",
);

/// Where the points of bids and offers begin, tier by tier.
const POINTS: [usize; 12] = places(MESSAGE.as_bytes(), br#""points":""#);
/// Where times begin: the message's, then each pair's.
const TIMES: [usize; 3] = places(MESSAGE.as_bytes(), br#""timestamp":""#);

/// What follows each occurrence.
const fn places<const N: usize>(text: &[u8], name: &[u8]) -> [usize; N] {
    let mut found = [0; N];
    let (mut at, mut count) = (0, 0);
    while at + name.len() <= text.len() {
        let mut same = 0;
        while same < name.len() && text[at + same] == name[same] {
            same += 1;
        }
        if same == name.len() {
            found[count] = at + same;
            count += 1;
        }
        at += 1;
    }
    assert!(count == N);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Speech;

    fn quotes(change: DiffusionChange) -> (Quotes, Arc<Publications>) {
        let publications = Arc::new(Publications::new(3));
        (Quotes::new("fx", change, Arc::clone(&publications), 3), publications)
    }

    #[test]
    fn the_message_is_json_of_950_bytes() {
        let parsed: serde_json::Value = serde_json::from_str(MESSAGE).unwrap_or_default();
        assert_eq!(parsed["pairs"][1]["tiers"][2]["offer"]["points"], "091");
        assert_eq!(MESSAGE.len(), 950);
        assert_eq!(&MESSAGE[TIMES[2]..TIMES[2] + 13], "1570097629409");
    }

    #[test]
    fn each_topic_begins_once_and_updates_change_what_they_should() {
        for (change, most) in
            [(DiffusionChange::Points, 3), (DiffusionChange::Quote, 32), (DiffusionChange::All, 75)]
        {
            let (mut quotes, publications) = quotes(change);
            let (language, mut out) = (Language::new(Speech::Native, 0), Vec::new());
            for _ in 0..3 {
                quotes.publish(&language, 1, &mut out);
            }
            assert!(quotes.values.iter().all(|value| value.count == 1));
            assert_eq!(&*quotes.values[0].text, MESSAGE.as_bytes());
            for at in 0..200 {
                let before: Vec<_> = quotes.values.iter().map(|value| value.text.clone()).collect();
                quotes.publish(&language, at * 1_000_000_000, &mut out);
                let pairs = before.iter().zip(&quotes.values);
                let changed = pairs.map(|(before, now)| {
                    before.iter().zip(&*now.text).filter(|(one, other)| one != other).count()
                });
                assert!(changed.sum::<usize>() <= most);
            }
            assert_eq!((publications.published(), publications.value_bytes()), (203, 950.0));
            for value in &quotes.values {
                assert!(serde_json::from_slice::<serde_json::Value>(&value.text).is_ok());
            }
        }
    }

    #[test]
    fn clients_have_different_topics_of_their_own() {
        let one = choose(1, 1000, 100);
        let distinct: std::collections::HashSet<_> = one.iter().collect();
        assert_eq!((one.len(), distinct.len()), (100, 100));
        assert_ne!(one, choose(2, 1000, 100));
        assert_eq!(choose(5, 3, 100).len(), 3);
    }
}
