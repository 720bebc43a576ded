//! Looks at every value that a client gets: whether it is one that was published, comes in order, once, and with nothing left out
//! that was not told.
//!
//! Each topic has one publisher, which counts its values from one. The check goes by that count, which the servers know nothing of;
//! versions have to rise with it. Invariant: whatever a client was told, a value that is not the published one is wrong.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::speech::Message;

/// The body of a topic's value of that number.
pub(super) fn body(topic: &str, number: u64) -> String {
    json!({ "topic": topic, "n": number, "pad": pad(number) }).to_string()
}

fn pad(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(4)
}

/// The number of a value of a topic, if it is one that was published.
pub(super) fn number_of(topic: &str, value: &Value) -> Option<u64> {
    let number = value["n"].as_u64()?;
    let is_right = value["topic"] == topic && value["pad"] == pad(number).as_str();
    is_right.then_some(number)
}

/// What clients have got, all together.
#[derive(Debug, Clone, Default)]
pub(super) struct Counters {
    /// Values, each of which was looked at.
    pub(super) values: u64,
    /// Of them those that were told as having come before.
    pub(super) again: u64,
    /// Of them those that were the last ones of their topics already, behind the word that something may be missing.
    pub(super) anew: u64,
    /// Values that had come before, and nobody said so.
    pub(super) repeated: u64,
    /// Values that were left out, and nobody said so.
    pub(super) untold: u64,
    /// Values that were left out, and the client was told that some may be.
    pub(super) told: u64,
    /// Values that are not those that were published, or whose versions do not rise.
    pub(super) wrong: u64,
    /// The first thing that was not as it has to be.
    pub(super) problem: Option<String>,
}

impl Counters {
    pub(super) fn note(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }
}

/// What one client has of each topic.
#[derive(Debug, Default)]
pub(super) struct Seen {
    topics: HashMap<String, Last>,
    /// Whether something was missing since it came back last, told or not.
    pub(super) has_gap: bool,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    number: u64,
    version: u64,
    /// The client was told that something may be missing, and the next message has not come.
    may_jump: bool,
}

impl Seen {
    /// The number of the last value of a topic.
    pub(super) fn last(&self, topic: &str) -> Option<u64> {
        self.topics.get(topic).map(|last| last.number)
    }

    /// It does not listen to a topic any more.
    pub(super) fn forget(&mut self, topic: &str) {
        self.topics.remove(topic);
    }

    /// It begins with another set of topics.
    pub(super) fn forget_all(&mut self) {
        self.topics.clear();
    }

    /// Something may be missing: of a topic, or of all.
    pub(super) fn gap(&mut self, topic: Option<&str>) {
        match topic {
            Some(topic) => {
                if let Some(last) = self.topics.get_mut(topic) {
                    last.may_jump = true;
                }
            }
            None => self.topics.values_mut().for_each(|last| last.may_jump = true),
        }
    }

    /// Looks at a message.
    pub(super) fn check(&mut self, client: &str, message: &Message<'_>, counters: &mut Counters) {
        let Message { topic, version, value, is_repeated } = *message;
        counters.values += 1;
        let Some(number) = number_of(topic, value) else {
            counters.wrong += 1;
            return counters.note(format!("{client} got {value} as version {version} of {topic}"));
        };
        let next = Last { number, version, may_jump: false };
        let Some(last) = self.topics.get_mut(topic) else {
            self.topics.insert(topic.to_owned(), next);
            return;
        };
        let before = *last;
        if is_repeated && number <= before.number {
            counters.again += 1;
            return;
        }
        let at = || {
            format!(
                "{client}: {topic} has value {number}, version {version}, after value {}, version {}",
                before.number, before.version
            )
        };
        if number <= before.number {
            if number == before.number && before.may_jump {
                last.may_jump = false;
                counters.anew += 1;
            } else {
                counters.repeated += 1;
                counters.note(at());
            }
            return;
        }
        *last = next;
        if version <= before.version {
            counters.wrong += 1;
            counters.note(at());
        }
        let missing = number - before.number - 1;
        self.has_gap |= missing > 0;
        if before.may_jump {
            counters.told += missing;
        } else if missing > 0 {
            counters.untold += missing;
            counters.note(at());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks values of one topic: number, version, whether they are told as repeated.
    fn check(seen: &mut Seen, values: &[(u64, u64, bool)]) -> Counters {
        let mut counters = Counters::default();
        for (number, version, is_repeated) in values {
            let value: Value = serde_json::from_str(&body("t/1", *number)).unwrap_or_default();
            let (version, is_repeated) = (*version, *is_repeated);
            let message = Message { topic: "t/1", version, value: &value, is_repeated };
            seen.check("a client", &message, &mut counters);
        }
        counters
    }

    #[test]
    fn what_is_in_order_is_right_and_all_else_is_named() {
        let mut seen = Seen::default();
        let counters = check(&mut seen, &[(4, 9, false), (5, 10, false), (6, 11, false)]);
        assert_eq!((counters.values, counters.problem), (3, None));
        let counters = check(&mut seen, &[(6, 11, true), (5, 10, true), (7, 12, false)]);
        assert_eq!((counters.again, counters.repeated), (2, 0));
        assert_eq!(check(&mut seen, &[(7, 12, false)]).repeated, 1);
        assert_eq!((check(&mut seen, &[(10, 15, false)]).untold, seen.has_gap), (2, true));
        seen.gap(None);
        let counters = check(&mut seen, &[(10, 15, false), (12, 17, false)]);
        assert_eq!(
            (counters.anew, counters.told, counters.untold),
            (1, 0, 1),
            "the gap was before the first"
        );
        seen.gap(Some("t/1"));
        let counters = check(&mut seen, &[(14, 19, false)]);
        assert_eq!((counters.told, counters.untold), (1, 0));
        assert_eq!(check(&mut seen, &[(15, 19, false)]).wrong, 1, "a version twice");
    }

    #[test]
    fn a_value_of_another_topic_is_wrong() {
        let value: Value = serde_json::from_str(&body("t/2", 3)).unwrap_or_default();
        assert_eq!(number_of("t/2", &value), Some(3));
        let message = Message { topic: "t/1", version: 1, value: &value, is_repeated: false };
        let mut counters = Counters::default();
        Seen::default().check("a client", &message, &mut counters);
        assert_eq!(counters.wrong, 1);
        assert!(counters.problem.is_some_and(|problem| problem.contains("t/1")));
    }
}
