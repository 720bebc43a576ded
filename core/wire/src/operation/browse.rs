//! Lists of sessions, queues and services, a page at a time.
//!
//! A list is in the order of shards and, on each, of the places that entries have in memory. An entry keeps
//! its place as long as it lives. Invariant: what is there from the first page to the last is listed once,
//! whatever comes and goes meanwhile.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, SessionId, ShardId};
use tiderace_topics::{Path, Pattern};

use super::SessionEntry;

/// Entries of one page, at most.
pub const BROWSE_LIMIT_MAX: u32 = 1_000;
/// Entries of one page if nobody says how many.
const LIMIT_DEFAULT: u32 = 100;

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Browsable {
    /// Sessions that have logged in.
    Sessions,
    /// Queues.
    Queues,
    /// Who serves what.
    Services,
}

impl Browsable {
    /// All of them with their names in protocols.
    pub const ALL: [(&'static str, Browsable); 3] = [
        ("sessions", Browsable::Sessions),
        ("queues", Browsable::Queues),
        ("services", Browsable::Services),
    ];

    /// Its name in protocols.
    pub fn name(self) -> &'static str {
        Browsable::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }
}

/// Which page of which list is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browse {
    /// Of what.
    pub what: Browsable,
    /// Where the page begins.
    pub from: BrowseCursor,
    /// At most so many entries; zero: as many as is usual. The server has a limit of its own.
    pub limit: u32,
    /// Of queues only those that one of these names; empty: all.
    pub patterns: Vec<Pattern>,
}

impl Browse {
    /// How many entries the page may have.
    pub fn entries_max(&self) -> usize {
        let limit = if self.limit == 0 { LIMIT_DEFAULT } else { self.limit };
        limit.min(BROWSE_LIMIT_MAX) as usize
    }
}

/// A place in a list: a shard, and a place there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BrowseCursor {
    /// The shard.
    pub shard: ShardId,
    /// The place.
    pub slot: u32,
}

impl std::fmt::Display for BrowseCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.shard.0, self.slot)
    }
}

impl std::str::FromStr for BrowseCursor {
    type Err = Close;

    fn from_str(text: &str) -> Result<BrowseCursor, Close> {
        let cursor = text.split_once('-').and_then(|(shard, slot)| {
            Some(BrowseCursor { shard: ShardId(shard.parse().ok()?), slot: slot.parse().ok()? })
        });
        cursor.filter(|cursor| cursor.to_string() == text).ok_or_else(|| {
            let reason = "`after` is what `next` was in the page before";
            Close::new(CloseCode::BadOperation, reason)
        })
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Of what.
    pub what: Browsable,
    /// The entries; there may be none although there are more behind them.
    pub entries: Vec<ListingEntry>,
    /// Where the next page begins, if this is not the last.
    pub next: Option<BrowseCursor>,
}

/// One entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListingEntry {
    /// A session.
    Session(SessionEntry),
    /// A queue.
    Queue(QueueEntry),
    /// One who serves.
    Service(ServiceEntry),
}

impl ListingEntry {
    /// Bytes of its texts.
    pub fn bytes(&self) -> usize {
        match self {
            ListingEntry::Session(session) => session.bytes(),
            ListingEntry::Queue(queue) => {
                let texts = [&queue.topics, &queue.selector, &queue.owner].into_iter().flatten();
                let patterns = queue.patterns.iter().map(|pattern| pattern.as_str().len());
                queue.path.as_str().len()
                    + patterns.chain(texts.map(|text| text.len())).sum::<usize>()
            }
            ListingEntry::Service(service) => service.names.iter().map(|name| name.len()).sum(),
        }
    }
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueEntry {
    /// Its path.
    pub path: Path,
    /// Messages that are ready.
    pub messages: u64,
    /// Messages that consumers have and did not settle.
    pub in_flight: u64,
    /// Messages that wait for their time.
    pub delayed: u64,
    /// Message groups of which some message is in flight, or waits after a failure.
    pub groups: u64,
    /// Bytes of messages: ready, in flight and delayed.
    pub bytes: u64,
    /// Of the ready messages, those that are in the store alone.
    pub swapped: u64,
    /// Their bytes.
    pub swapped_bytes: u64,
    /// How many consume from it.
    pub consumers: u64,
    /// How many are shown its messages and take none.
    pub browsers: u64,
    /// Whether it has as much as it may.
    pub full: bool,
    /// Whether consumers get nothing until it is resumed.
    pub paused: bool,
    /// The topics that feed it, if some do.
    pub topics: Option<Arc<str>>,
    /// The same, one by one; none of a mirror.
    pub patterns: Vec<Pattern>,
    /// What it takes of these, if not everything.
    pub selector: Option<Arc<str>>,
    /// For how long the first of the ready messages has been on the server, in milliseconds.
    pub oldest_ms: Option<u64>,
    /// In whose account it counts.
    pub owner: Option<Arc<str>>,
}

/// One subscription that serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceEntry {
    /// The services, and patterns of services, that it serves and that the one who asks may browse.
    pub names: Vec<Arc<str>>,
    /// Whose it is.
    pub session: SessionId,
    /// Exchanges that are open.
    pub open: u64,
    /// How many may be.
    pub prefetch: u64,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::{Operation, OperationResult, Reading};

    #[test]
    fn cursors_are_read_as_they_are_written_and_in_no_other_way() {
        let cursor = BrowseCursor { shard: ShardId(3), slot: 70_000 };
        assert_eq!(cursor.to_string(), "3-70000");
        assert_eq!("3-70000".parse::<BrowseCursor>().unwrap(), cursor);
        for wrong in ["", "3", "-", "3-", "-3", "03-1", "3-+1", "70000-1", "1-4294967296", "1-1-1"]
        {
            let refused = wrong.parse::<BrowseCursor>().unwrap_err();
            assert_eq!(refused.code, CloseCode::BadOperation, "{wrong}");
        }
    }

    fn parsed(text: &str) -> Result<Operation, Close> {
        let (path, selector) = (|_: &str| unreachable!(), |_: &str| unreachable!());
        let reading = Reading {
            body: None,
            now: tiderace_base::Time::ZERO,
            path: &path,
            selector: &selector,
        };
        Operation::parse(text.as_bytes(), &reading)
    }

    #[test]
    fn pages_are_asked_for_in_json() {
        let text = r#"{"do":"browse","what":"queues","after":"1-5","limit":7}"#;
        let Ok(Operation::Browse(browse)) = parsed(text) else { panic!("{text}") };
        let from = BrowseCursor { shard: ShardId(1), slot: 5 };
        let patterns = Vec::new();
        assert_eq!(browse, Browse { what: Browsable::Queues, from, limit: 7, patterns });
        let Ok(Operation::Browse(first)) = parsed(r#"{"do":"browse","what":"sessions"}"#) else {
            panic!("a first page")
        };
        let from = BrowseCursor::default();
        let patterns = Vec::new();
        assert_eq!(first, Browse { what: Browsable::Sessions, from, limit: 0, patterns });
        for (wrong, said) in [
            (r#"{"do":"browse"}"#, "what"),
            (r#"{"do":"browse","what":"topics"}"#, "sessions, queues, services"),
            (r#"{"do":"browse","what":"queues","after":"x"}"#, "next"),
            (r#"{"do":"browse","what":"queues","path":"a"}"#, "after"),
        ] {
            let refused = parsed(wrong).unwrap_err();
            assert_eq!(refused.code, CloseCode::BadOperation);
            assert!(refused.reason.contains(said), "{refused}");
        }
    }

    #[test]
    fn pages_are_written_as_json() {
        let id = |slot| SessionId { shard: ShardId(0), slot, generation: 2 };
        let entry = |entry| vec![entry];
        let state = crate::SessionState { subscriptions: 1, ..Default::default() };
        let session = SessionEntry { id: id(1), name: "a\"n".into(), state, facts: None };
        let path = Path::parse("jobs/a").unwrap();
        let queue = QueueEntry {
            path,
            messages: 1,
            in_flight: 0,
            delayed: 7,
            groups: 8,
            bytes: 2,
            swapped: 0,
            swapped_bytes: 0,
            consumers: 3,
            browsers: 0,
            full: true,
            paused: false,
            topics: None,
            patterns: Vec::new(),
            selector: None,
            oldest_ms: None,
            owner: Some("ann".into()),
        };
        let names = vec!["a".into(), "b/*".into()];
        let service = ServiceEntry { names, session: id(4), open: 5, prefetch: 6 };
        let next = Some(BrowseCursor { shard: ShardId(1), slot: 9 });
        for (what, entries, next, expected) in [
            (
                Browsable::Sessions,
                entry(ListingEntry::Session(session)),
                None,
                r#"{"sessions":[{"id":"0-1-2","name":"a\"n","subscriptions":1,"backlog_messages":0,"backlog_bytes":0,"conflated":0,"dropped":0}],"more":false}"#,
            ),
            (
                Browsable::Queues,
                entry(ListingEntry::Queue(queue)),
                next,
                r#"{"queues":[{"path":"jobs/a","messages":1,"in_flight":0,"delayed":7,"groups":8,"bytes":2,"consumers":3,"full":true,"paused":false,"owner":"ann"}],"more":true,"next":"1-9"}"#,
            ),
            (
                Browsable::Services,
                entry(ListingEntry::Service(service)),
                None,
                r#"{"services":[{"names":["a","b/*"],"session":"0-4-2","open":5,"prefetch":6}],"more":false}"#,
            ),
        ] {
            let result = OperationResult::Listing(Box::new(Listing { what, entries, next }));
            let mut text = Vec::new();
            result.write_json(&mut text, true);
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }

    #[test]
    fn pages_are_bounded() {
        let page = |limit| {
            let from = BrowseCursor::default();
            let patterns = Vec::new();
            Browse { what: Browsable::Queues, from, limit, patterns }.entries_max()
        };
        assert_eq!([page(0), page(1), page(u32::MAX)], [100, 1, 1_000]);
    }
}
