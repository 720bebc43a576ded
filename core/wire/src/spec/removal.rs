//! When a topic is removed by itself.
//!
//! ```text
//!   no subscribers for 10m
//!   no updates for 1h and no subscribers for 1m
//!   after 7d or session closes
//! ```
//! `and` binds closer than `or`. Invariant: [`Removal::to_text`] is read back as the same.

use tiderace_base::{Span, parse_span};

/// Conditions of one policy.
const CONDITIONS_MAX: usize = 16;

/// When to remove a topic: when all conditions of one of the groups hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Removal {
    /// The groups.
    pub any: Box<[Box<[RemovalCondition]>]>,
}

/// Something that may hold of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovalCondition {
    /// Nobody has subscribed to it for so long.
    NoSubscribers(Span),
    /// Nobody has published to it for so long.
    NoUpdates(Span),
    /// It was made so long ago.
    After(Span),
    /// The session that created it has ended.
    SessionCloses,
}

impl Removal {
    /// Reads a policy.
    ///
    /// # Errors
    /// Says which word is wrong and what could stand there.
    pub fn parse(text: &str) -> Result<Removal, String> {
        let mut words = text.split_whitespace().peekable();
        let (mut any, mut all, mut count) = (Vec::new(), Vec::new(), 0);
        loop {
            all.push(condition(&mut words)?);
            count += 1;
            if count > CONDITIONS_MAX {
                return Err(format!("has more than {CONDITIONS_MAX} conditions"));
            }
            match words.next() {
                Some("and") => {}
                Some("or") => any.push(std::mem::take(&mut all).into()),
                Some(other) => {
                    return Err(format!("has `{}` where `and` or `or` could stand", short(other)));
                }
                None => break,
            }
        }
        any.push(all.into());
        Ok(Removal { any: any.into() })
    }

    /// The policy as text.
    pub fn to_text(&self) -> String {
        let group = |all: &[RemovalCondition]| {
            let all: Vec<String> = all.iter().map(|condition| condition.to_text()).collect();
            all.join(" and ")
        };
        let any: Vec<String> = self.any.iter().map(|all| group(all)).collect();
        any.join(" or ")
    }

    /// Whether one of its conditions is on the session that created the topic.
    pub fn heeds_session(&self) -> bool {
        self.any.iter().any(|all| all.contains(&RemovalCondition::SessionCloses))
    }

    /// Whether the topic is to be removed, if `holds` says which conditions hold.
    pub fn is_due(&self, holds: impl Fn(RemovalCondition) -> bool) -> bool {
        self.any.iter().any(|all| all.iter().all(|condition| holds(*condition)))
    }
}

impl RemovalCondition {
    fn to_text(self) -> String {
        match self {
            RemovalCondition::NoSubscribers(span) => {
                format!("no subscribers for {}ms", span.as_millis())
            }
            RemovalCondition::NoUpdates(span) => format!("no updates for {}ms", span.as_millis()),
            RemovalCondition::After(span) => format!("after {}ms", span.as_millis()),
            RemovalCondition::SessionCloses => "session closes".to_owned(),
        }
    }
}

fn condition<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<RemovalCondition, String> {
    const KNOWN: &str =
        "known are `no subscribers for 10m`, `no updates for 1h`, `after 7d`, `session closes`";
    match words.next() {
        Some("no") => {
            let what = words.next();
            if !matches!(what, Some("subscribers" | "updates")) || words.next() != Some("for") {
                return Err(format!("has a condition that is not known; {KNOWN}"));
            }
            let span = span(words.next())?;
            Ok(match what {
                Some("subscribers") => RemovalCondition::NoSubscribers(span),
                _ => RemovalCondition::NoUpdates(span),
            })
        }
        Some("after") => Ok(RemovalCondition::After(span(words.next())?)),
        Some("session") if words.next() == Some("closes") => Ok(RemovalCondition::SessionCloses),
        _ => Err(format!("has a condition that is not known; {KNOWN}")),
    }
}

fn span(word: Option<&str>) -> Result<Span, String> {
    word.and_then(parse_span).ok_or_else(|| {
        let given = short(word.unwrap_or("nothing"));
        format!("has `{given}` where a span such as 30s, 10m, 2h or 7d is wanted")
    })
}

fn short(text: &str) -> String {
    text.chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mistakes_are_named() {
        let rows = [
            ("", "not known"),
            ("no readers for 10m", "not known"),
            ("no updates 10m", "not known"),
            ("no updates for ever", "`ever` where a span"),
            ("after", "`nothing` where a span"),
            ("after 7d then", "`then` where `and` or `or`"),
            ("after 7d or", "not known"),
            ("session ends", "not known"),
            (&["after 1s"; 17].join(" or "), "more than 16"),
        ];
        for (text, part) in rows {
            let error = Removal::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn and_binds_closer() {
        let removal = Removal::parse("no updates for 1h and after 2h or session closes").unwrap();
        let hour = RemovalCondition::NoUpdates(Span::from_secs(3600));
        assert!(!removal.is_due(|condition| condition == hour));
        assert!(removal.is_due(|condition| condition != RemovalCondition::SessionCloses));
        assert!(removal.is_due(|condition| condition == RemovalCondition::SessionCloses));
        assert!(removal.heeds_session());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            any in proptest::collection::vec(
                proptest::collection::vec((0..4, 0..100_000u64), 1..4), 1..4),
        ) {
            let condition = |(kind, millis)| {
                let span = Span::from_millis(millis);
                match kind {
                    0 => RemovalCondition::NoSubscribers(span),
                    1 => RemovalCondition::NoUpdates(span),
                    2 => RemovalCondition::After(span),
                    _ => RemovalCondition::SessionCloses,
                }
            };
            let group = |all: Vec<_>| all.into_iter().map(condition).collect();
            let removal = Removal { any: any.into_iter().map(group).collect() };
            prop_assert_eq!(Removal::parse(&removal.to_text()).unwrap(), removal);
        }
    }
}
