//! Private words that were replaced by those of the field do not come back.
//!
//! Relies on identifiers made of words, in snake case or camel case. Comments count as code does. The glossary
//! says what the words of the field mean, and what they were called here before.

use crate::{Finding, Tree, shape};

/// A word that was replaced.
struct Replaced {
    /// Where it is replaced: the beginning of paths.
    folder: &'static str,
    /// The word, in lower case and without a plural.
    word: &'static str,
    /// What stands in its place.
    now: &'static str,
}

/// The only file in which these words stand.
const HERE: &str = "tools/xtask/src/vocabulary.rs";
const BROKER: &str = "core/broker/";
const REACTOR: &str = "shell/reactor/src/";
const PROTOCOLS: &str = "protocols/";
const BENCH: &str = "tools/bench/";

/// Every word that was replaced, and where.
const REPLACED: &[Replaced] = &[
    Replaced { folder: REACTOR, word: "wishes", now: "SessionActions" },
    Replaced { folder: REACTOR, word: "hub", now: "H2Connection" },
    Replaced { folder: REACTOR, word: "tunnel", now: "H2Stream" },
    Replaced { folder: REACTOR, word: "branch", now: "RemoteStream" },
    Replaced { folder: REACTOR, word: "graft", now: "RemoteStreamId" },
    Replaced { folder: REACTOR, word: "relay", now: "RemoteRecord" },
    Replaced { folder: REACTOR, word: "door", now: "Waker" },
    Replaced { folder: REACTOR, word: "doze", now: "park" },
    Replaced { folder: REACTOR, word: "rouse", now: "wake" },
    Replaced { folder: "", word: "pour", now: "poll_write, wants_write" },
    Replaced { folder: REACTOR, word: "alias", now: "ClientSessionId" },
    Replaced { folder: REACTOR, word: "resident", now: "InternalSession" },
    Replaced { folder: REACTOR, word: "keeper", now: "StoreGateway" },
    Replaced { folder: "", word: "outturn", now: "OperationResult" },
    Replaced { folder: BROKER, word: "gathering", now: "ScatterGather" },
    Replaced { folder: BROKER, word: "portion", now: "SnapshotPage" },
    Replaced { folder: BROKER, word: "asker", now: "SubscribeRequestId" },
    Replaced { folder: BROKER, word: "extras", now: "SubscriberFlags" },
    Replaced { folder: BROKER, word: "faring", now: "session_stats" },
    Replaced { folder: REACTOR, word: "letter", now: "ShardMessage" },
    Replaced { folder: BENCH, word: "crowd", now: "clients" },
    Replaced { folder: BENCH, word: "crew", now: "worker" },
    Replaced { folder: BENCH, word: "gang", now: "processes" },
    Replaced { folder: BENCH, word: "ledger", now: "publications" },
    Replaced { folder: BENCH, word: "tally", now: "counters" },
    Replaced { folder: BROKER, word: "relent", now: "release_backpressure" },
    Replaced { folder: PROTOCOLS, word: "talk", now: "exchange, ExchangeState" },
    Replaced { folder: PROTOCOLS, word: "outlet", now: "Writer" },
    Replaced { folder: PROTOCOLS, word: "hearing", now: "inbound" },
    Replaced { folder: PROTOCOLS, word: "asking", now: "outbound" },
    Replaced { folder: "protocols/events/src/", word: "natural", now: "rest_operations" },
    Replaced { folder: PROTOCOLS, word: "rare", now: "cold, ColdState" },
    Replaced { folder: PROTOCOLS, word: "heard", now: "received, last_received" },
    Replaced { folder: "core/wire/", word: "window", now: "Prefetch" },
    Replaced { folder: "protocols/native/src/session/", word: "window", now: "prefetch" },
    Replaced { folder: BROKER, word: "relax", now: "caught_up" },
    Replaced { folder: BROKER, word: "press", now: "apply_backpressure" },
    Replaced { folder: BROKER, word: "lagging", now: "over_grace" },
    Replaced { folder: BROKER, word: "greet", now: "presence_watch" },
    Replaced { folder: BROKER, word: "attend", now: "presence_changed" },
    Replaced { folder: BROKER, word: "depart", now: "presence_leave" },
    Replaced { folder: "", word: "patience", now: "timeout" },
    Replaced { folder: "", word: "withhold", now: "defer" },
    Replaced { folder: "", word: "withheld", now: "deferred" },
    Replaced { folder: "", word: "vouch", now: "reached" },
    Replaced { folder: "", word: "glance", now: "peek" },
    Replaced { folder: BROKER, word: "mail", now: "messages between shards" },
    Replaced { folder: REACTOR, word: "mail", now: "messages between shards" },
    Replaced { folder: BROKER, word: "operator", now: "Requester" },
    Replaced {
        folder: "",
        word: "whoever",
        now: "who is meant: client, caller, publisher, responder",
    },
];

/// Identifiers that have such a word in them for a reason: clients know them.
const ALLOWED: &[&str] = &["AliasTaken", "BadAlias"];

/// Every use of a word that was replaced.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in shape::sources(tree) {
        let rows: Vec<&Replaced> =
            REPLACED.iter().filter(|row| file.path.starts_with(row.folder)).collect();
        if rows.is_empty() || file.path == HERE {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            for row in &rows {
                if uses(line, row.word) {
                    findings.push(Finding::at_line(
                        &file.path,
                        index + 1,
                        format!("`{}` is called {} now", row.word, row.now),
                        "use the word of the field; GLOSSARY.md has it",
                    ));
                }
            }
        }
    }
    findings
}

/// Whether a line has an identifier with that word in it, or its plural.
fn uses(line: &str, word: &str) -> bool {
    let identifiers = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let has = |identifier: &str| {
        words(identifier).any(|found| {
            let found = found.to_lowercase();
            let rest = found.strip_prefix(word);
            rest.is_some_and(|rest| matches!(rest, "" | "s" | "es"))
        })
    };
    identifiers.filter(|identifier| !ALLOWED.contains(identifier)).any(has)
}

/// The words of an identifier.
fn words(identifier: &str) -> impl Iterator<Item = &str> {
    identifier.split('_').flat_map(|part| {
        let mut starts: Vec<usize> = vec![0];
        let mut before = None;
        for (at, c) in part.char_indices() {
            if c.is_uppercase() && before.is_some_and(char::is_lowercase) {
                starts.push(at);
            }
            before = Some(c);
        }
        let ends: Vec<usize> = starts.iter().skip(1).copied().chain([part.len()]).collect();
        starts.into_iter().zip(ends).filter_map(|(start, end)| part.get(start..end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_identifiers_and_comments_and_nowhere_else() {
        for (line, expected) in [
            ("fn rouse_hub(key: Key)", true),
            ("// two hubs", true),
            ("struct HubKey;", true),
            ("let github = thub;", false),
            ("MY_HUB", true),
        ] {
            assert_eq!(uses(line, "hub"), expected, "{line}");
        }
        assert!(!uses("CloseCode::AliasTaken", "alias") && uses("let alias = 1;", "alias"));
    }

    #[test]
    fn a_word_that_comes_back_is_refused_where_it_was_replaced() {
        let bad = Tree::of(&[("shell/reactor/src/a.rs", "//! A.\nstruct Wishes;\n")]);
        assert_eq!(check(&bad).len(), 1);
        let elsewhere = Tree::of(&[("protocols/a/src/a.rs", "//! A.\nstruct Wishes;\n")]);
        assert_eq!(check(&elsewhere).len(), 0);
    }
}
