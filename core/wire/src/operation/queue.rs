//! What can be done with queues beyond sending and consuming, and what comes of it.
//!
//! A message in a queue has a position, by which pages of a look go on: it rises in the order of the queue, and stays
//! as long as the message is ready. What is done with many messages is done in slices, for those that are ready when
//! it begins; the answer comes when all are done.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_filter::Selector;
use tiderace_topics::Path;

use super::QueueEntry;
use crate::{Prefetch, Run, SubscriptionKey};

/// Messages of one page, at most.
pub const PEEK_LIMIT_MAX: u32 = 1_000;
/// Messages of one page if nobody says how many.
const PEEK_LIMIT_DEFAULT: u32 = 32;
/// Bytes of each body in a page, at most.
pub const PEEK_BODY_BYTES_MAX: u32 = 64 << 10;
/// Bytes of each body if nobody says how many.
const PEEK_BODY_BYTES_DEFAULT: u32 = 4 << 10;
/// Consumers of one page, at most.
const CONSUMERS_MAX: u32 = 1_000;
/// Consumers of one page if nobody says how many.
const CONSUMERS_DEFAULT: u32 = 100;
/// Bytes of a selector over messages.
pub(super) const SELECTOR_BYTES_MAX: usize = 16 << 10;

/// One queue is to be shown, with a page of its consumers.
#[derive(Clone, Debug)]
pub struct QueueQuery {
    /// Which.
    pub path: Path,
    /// Where the page of consumers begins; see [`QueueDetails::next`].
    pub after: u32,
    /// At most so many consumers; zero: as many as is usual. The server has a limit of its own.
    pub limit: u32,
}

impl QueueQuery {
    /// How many consumers the page may have.
    pub fn consumers_max(&self) -> usize {
        let limit = if self.limit == 0 { CONSUMERS_DEFAULT } else { self.limit };
        limit.min(CONSUMERS_MAX) as usize
    }
}

/// Which ready messages of a queue to look at without taking them.
#[derive(Clone, Debug)]
pub struct Peek {
    /// Which queue.
    pub path: Path,
    /// Only messages from this position on.
    pub from: u64,
    /// At most so many; zero: as many as is usual. The server has a limit of its own.
    pub limit: u32,
    /// Bytes of each body that are wanted; zero: as many as is usual. The server has a limit of its own.
    pub body_bytes: u32,
    /// Only messages that match.
    pub selector: Option<Selector>,
}

impl Peek {
    /// How many messages the page may have.
    pub fn messages_max(&self) -> usize {
        let limit = if self.limit == 0 { PEEK_LIMIT_DEFAULT } else { self.limit };
        limit.min(PEEK_LIMIT_MAX) as usize
    }

    /// How many bytes each body may have.
    pub fn body_bytes_max(&self) -> usize {
        let bytes = if self.body_bytes == 0 { PEEK_BODY_BYTES_DEFAULT } else { self.body_bytes };
        bytes.min(PEEK_BODY_BYTES_MAX) as usize
    }
}

/// Ready messages are to go from a queue to another one.
#[derive(Clone, Debug)]
pub struct MoveMessages {
    /// From where.
    pub from: Path,
    /// To where; absent, of dead letters alone: to where each of them came from.
    pub to: Option<Path>,
    /// Whether they are dead letters that begin anew: what says so is taken off them.
    pub redrive: bool,
    /// Only messages that match.
    pub selector: Option<Selector>,
    /// At most so many.
    pub limit: Option<u64>,
    /// Only messages up to this position.
    pub up_to: Option<u64>,
}

/// All that is known of one queue, with a page of its consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDetails {
    /// How it stands.
    pub entry: QueueEntry,
    /// What was chosen for it.
    pub settings: QueueSettings,
    /// Consumers; there may be none although there are more behind them.
    pub consumers: Vec<ConsumerEntry>,
    /// Where the next page begins, if this is not the last.
    pub next: Option<u32>,
    /// Bytes of messages in all queues of its owner, and how many there may be, if that is bounded.
    pub account: Option<(u64, u64)>,
}

/// What was chosen for a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Bytes of messages that it keeps in memory.
    pub memory_bytes_max: u64,
    /// Bytes of messages in the store alone at which publishers are asked to wait.
    pub disk_bytes_max: u64,
    /// What may be under way to a consumer that names nothing; zero: that one does not count.
    pub prefetch: Prefetch,
    /// Failures after which a message is dead; zero: never.
    pub redeliveries_max: u32,
    /// Where it goes then; absent: it is dropped.
    pub dead_letter: Option<Path>,
    /// How long it is kept without messages and consumers, in milliseconds.
    pub idle_ms: u64,
    /// How long a message waits that has failed once, in milliseconds.
    pub redelivery_delay_ms: u64,
    /// By how much it waits longer after each further failure.
    pub redelivery_delay_factor: u32,
    /// The longest that it waits, in milliseconds.
    pub redelivery_delay_max_ms: u64,
    /// For how long publishers may have messages wait, in milliseconds.
    pub delay_max_ms: u64,
    /// Messages with which it is full; zero: any number.
    pub messages_max: u64,
    /// What becomes of messages for it when it is full.
    pub full_policy: &'static str,
    /// Whether it and the topic of its name mirror each other.
    pub mirrored: bool,
    /// Whether the most urgent messages come first.
    pub priorities: bool,
    /// Which consumer gets the next message.
    pub dispatch: &'static str,
    /// Whether messages that expire are dead letters.
    pub dead_letter_expired: bool,
}

/// One consumer of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerEntry {
    /// Whose it is.
    pub session: SessionId,
    /// Which of its subscriptions.
    pub subscription: SubscriptionKey,
    /// Messages in flight to it, those of other queues that it consumes included.
    pub in_flight: u64,
    /// Their bytes.
    pub in_flight_bytes: u64,
    /// What may be in flight to it; zero: that one does not count.
    pub prefetch: Prefetch,
    /// How many messages it may still be given, if it gives credit.
    pub credit: Option<u64>,
    /// What it selects.
    pub selector: Option<Arc<str>>,
    /// Whether it wants the queue for itself.
    pub exclusive: bool,
    /// Whether it gets messages: nobody else has the queue for itself.
    pub active: bool,
    /// Whether its client settles.
    pub explicit: bool,
}

impl ConsumerEntry {
    /// Bytes of its texts.
    pub fn bytes(&self) -> usize {
        self.selector.as_ref().map_or(0, |selector| selector.len())
    }
}

/// Ready messages of a queue, in its order.
#[derive(Clone, Debug, Default)]
pub struct PeekedMessages {
    /// The messages; there may be none although there are more behind them.
    pub messages: Vec<PeekedMessage>,
    /// The position with which the next page begins, if there may be more.
    pub next: Option<u64>,
}

/// One ready message of a queue.
#[derive(Clone, Debug)]
pub struct PeekedMessage {
    /// The run it is in, or a run of its own if its body is cut.
    pub run: Arc<Run>,
    /// Its place there.
    pub place: usize,
    /// Its position.
    pub position: u64,
    /// How often a consumer had it before, as far as can be known, and did not accept it.
    pub redeliveries: u32,
    /// For how long it has been on the server, in milliseconds.
    pub age_ms: u64,
    /// Bytes of its body if that is cut.
    pub cut: Option<u64>,
}

/// What has become of messages that were to go to another queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedMessages {
    /// How many are there.
    pub messages: u64,
    /// How many had to stay.
    pub kept: u64,
    /// Why the first of these had to.
    pub refused: Option<Close>,
    /// The position up to which messages were looked at: none that came after the operation began has one as low. Who
    /// moves a part at a time asks for the next part with it, and comes to an end.
    pub up_to: u64,
}

/// The selector of an operation.
pub(super) fn selector_of(text: &str) -> Result<Selector, Close> {
    let refused = |why: String| {
        let reason = format!("the selector cannot be used: {why}");
        Close::new(CloseCode::BadSelector, reason)
    };
    if text.len() > SELECTOR_BYTES_MAX {
        let bytes = text.len();
        return Err(refused(format!("it has {bytes} bytes, at most {SELECTOR_BYTES_MAX} do")));
    }
    Selector::parse(text).map_err(|error| refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::{
        Browsable, BrowseCursor, Destination, Kind, Listing, ListingEntry, Meta, Operation,
        OperationResult, Reading,
    };
    use tiderace_base::{ShardId, Time};

    fn parsed(text: &str) -> Result<Operation, Close> {
        let pattern = |text: &str| Ok(vec![tiderace_topics::Pattern::parse(text).unwrap()]);
        let reading = Reading {
            body: None,
            now: Time::ZERO,
            path: &|text| crate::parse_path(text, None),
            selector: &pattern,
        };
        Operation::parse(text.as_bytes(), &reading)
    }

    fn json(result: &OperationResult) -> String {
        let mut text = Vec::new();
        result.write_json(&mut text, true);
        tiderace_value::Json::parse(&text, 16).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn operations_on_queues_are_asked_for_in_json() {
        let Ok(Operation::Browse(list)) =
            parsed(r#"{"do":"queues","pattern":"jobs/*","after":"1-5","limit":7}"#)
        else {
            panic!("a list")
        };
        assert_eq!((list.what, list.limit, list.patterns.len()), (Browsable::Queues, 7, 1));
        assert_eq!(list.from, BrowseCursor { shard: ShardId(1), slot: 5 });
        let Ok(Operation::Queue(query)) =
            parsed(r#"{"do":"queue","path":"a","after":9,"limit":2}"#)
        else {
            panic!("one queue")
        };
        assert_eq!((query.after, query.consumers_max()), (9, 2));
        let text =
            r#"{"do":"peek","path":"a","from":5,"limit":3,"body_bytes":10,"selector":"x = 'y'"}"#;
        let Ok(Operation::Peek(peek)) = parsed(text) else { panic!("{text}") };
        assert_eq!((peek.from, peek.messages_max(), peek.body_bytes_max()), (5, 3, 10));
        assert_eq!(peek.selector.unwrap().text(), "x = 'y'");
        let Ok(Operation::Purge { path, selector: None, up_to: Some(9) }) =
            parsed(r#"{"do":"purge","path":"a/b","up_to":9}"#)
        else {
            panic!("purge")
        };
        assert_eq!(path.as_str(), "a/b");
        let Ok(Operation::Move(it)) =
            parsed(r#"{"do":"move","from":"a","to":"b","limit":4,"up_to":7}"#)
        else {
            panic!("move")
        };
        assert_eq!((it.to.unwrap().as_str(), it.limit, it.redrive), ("b", Some(4), false));
        assert_eq!(it.up_to, Some(7));
        let Ok(Operation::Move(it)) = parsed(r#"{"do":"redrive","path":"dlq/a"}"#) else {
            panic!("redrive")
        };
        assert_eq!((it.from.as_str(), it.to, it.redrive), ("dlq/a", None, true));
        for (text, on) in
            [(r#"{"do":"pause","path":"a"}"#, true), (r#"{"do":"resume","path":"a"}"#, false)]
        {
            let Ok(Operation::PauseQueue { on: read, .. }) = parsed(text) else { panic!("{text}") };
            assert_eq!(read, on);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let long = format!(
            r#"{{"do":"purge","path":"a","selector":"x = '{}'"}}"#,
            "y".repeat(SELECTOR_BYTES_MAX)
        );
        for (text, code, said) in [
            (r#"{"do":"peek"}"#, CloseCode::BadOperation, "path"),
            (r#"{"do":"peek","path":"a","selector":"x ="}"#, CloseCode::BadSelector, "selector"),
            (r#"{"do":"peek","path":"a","selector":1}"#, CloseCode::BadOperation, "selector"),
            (r#"{"do":"peek","path":"a","from":-1}"#, CloseCode::BadOperation, "from"),
            (
                r#"{"do":"purge","path":"a","limit":1}"#,
                CloseCode::BadOperation,
                "known are path, selector, up_to",
            ),
            (r#"{"do":"move","from":"a"}"#, CloseCode::BadOperation, "to"),
            (r#"{"do":"move","from":"a","to":"a"}"#, CloseCode::BadOperation, "itself"),
            (r#"{"do":"redrive","path":"a","to":"a"}"#, CloseCode::BadOperation, "itself"),
            (r#"{"do":"queues","what":"queues"}"#, CloseCode::BadOperation, "pattern"),
            (&long, CloseCode::BadSelector, "at most 16384"),
        ] {
            let refused = parsed(text).unwrap_err();
            assert_eq!(refused.code, code, "{refused}");
            assert!(refused.reason.contains(said), "{refused}");
        }
    }

    #[test]
    fn pages_are_bounded() {
        let path = || Path::parse("a").unwrap();
        let peek =
            |limit, body_bytes| Peek { path: path(), from: 0, limit, body_bytes, selector: None };
        let page =
            |limit, bytes| (peek(limit, bytes).messages_max(), peek(limit, bytes).body_bytes_max());
        assert_eq!(
            [page(0, 0), page(1, 1), page(u32::MAX, u32::MAX)],
            [(32, 4096), (1, 1), (1000, 65536)]
        );
        let consumers = |limit| QueueQuery { path: path(), after: 0, limit }.consumers_max();
        assert_eq!([consumers(0), consumers(3), consumers(u32::MAX)], [100, 3, 1000]);
    }

    fn entry() -> QueueEntry {
        QueueEntry {
            path: Path::parse("jobs/a").unwrap(),
            messages: 1,
            in_flight: 2,
            delayed: 6,
            groups: 9,
            bytes: 3,
            swapped: 1,
            swapped_bytes: 2,
            consumers: 4,
            browsers: 7,
            full: true,
            paused: false,
            topics: Some("fx/**".into()),
            patterns: vec![tiderace_topics::Pattern::parse("fx/**").unwrap()],
            selector: Some("side = 'buy'".into()),
            oldest_ms: Some(5),
            owner: None,
        }
    }

    #[test]
    fn answers_are_written_as_json() {
        let listing = Listing {
            what: Browsable::Queues,
            entries: vec![ListingEntry::Queue(entry())],
            next: None,
        };
        let of_queue = r#""path":"jobs/a","messages":1,"in_flight":2,"delayed":6,"groups":9,"bytes":3,"swapped":1,"swapped_bytes":2,"consumers":4,"browsers":7,"full":true,"paused":false,"topics":"fx/**","selector":"side = 'buy'","patterns":["fx/**"],"oldest_ms":5"#;
        assert_eq!(
            json(&OperationResult::Listing(Box::new(listing))),
            format!(r#"{{"queues":[{{{of_queue}}}],"more":false}}"#)
        );
        let consumer = ConsumerEntry {
            session: SessionId { shard: ShardId(0), slot: 1, generation: 2 },
            subscription: SubscriptionKey(3),
            in_flight: 4,
            in_flight_bytes: 5,
            prefetch: Prefetch { messages: 6, bytes: 0 },
            credit: Some(7),
            selector: Some("a = 'b\"'".into()),
            exclusive: false,
            active: true,
            explicit: true,
        };
        let settings = QueueSettings {
            memory_bytes_max: 10,
            disk_bytes_max: 9,
            prefetch: Prefetch { messages: 0, bytes: 11 },
            redeliveries_max: 12,
            dead_letter: Some(Path::parse("dlq/jobs/a").unwrap()),
            idle_ms: 13,
            redelivery_delay_ms: 14,
            redelivery_delay_factor: 15,
            redelivery_delay_max_ms: 16,
            delay_max_ms: 17,
            messages_max: 18,
            full_policy: "drop-head",
            mirrored: true,
            priorities: false,
            dispatch: "first",
            dead_letter_expired: true,
        };
        let (consumers, account) = (vec![consumer], Some((21, 22)));
        let details = QueueDetails { entry: entry(), settings, consumers, next: Some(9), account };
        assert_eq!(
            json(&OperationResult::Queue(Box::new(details))),
            [
                "{",
                of_queue,
                r#","owner_bytes":21,"owner_bytes_max":22"#,
                r#","options":{"memory_bytes_max":10,"disk_bytes_max":9,"prefetch_count":0,"prefetch_bytes":11,"redeliveries_max":12,"dead_letter":"dlq/jobs/a","idle_ms":13,"redelivery_delay_ms":14,"redelivery_delay_factor":15,"redelivery_delay_max_ms":16,"delay_max_ms":17,"messages_max":18,"full_policy":"drop-head","dispatch":"first","dead_letter_expired":true,"mirrored":true,"priorities":false}"#,
                r#","listed":[{"session":"0-1-2","subscription":3,"in_flight":4,"in_flight_bytes":5,"prefetch_count":6,"prefetch_bytes":0,"credit":7,"selector":"a = 'b\"'","exclusive":false,"active":true,"settles":true}]"#,
                r#","more":true,"next":9}"#
            ]
            .concat()
        );
        let destination = Destination { kind: Kind::Queue, path: Path::parse("a").unwrap() };
        let meta = Meta { expires_ms: Some(77), ..Meta::default() };
        let run = Run::single(destination, Time::ZERO, b"k:v\n", b"hi", meta);
        let message = PeekedMessage {
            run: Arc::new(run),
            place: 0,
            position: 8,
            redeliveries: 2,
            age_ms: 30,
            cut: Some(99),
        };
        let peeked = PeekedMessages { messages: vec![message], next: Some(9) };
        assert_eq!(
            json(&OperationResult::Messages(Box::new(peeked))),
            r#"{"messages":[{"position":8,"redeliveries":2,"age_ms":30,"expires":77,"persistent":false,"cut":99,"text":"hi","properties":{"k":"v"}}],"more":true,"next":9}"#
        );
        assert_eq!(
            json(&OperationResult::Purged { messages: 3, up_to: 8 }),
            r#"{"messages":3,"up_to":8}"#
        );
        let refused = Some(Close::new(CloseCode::MemoryFull, "no \"room\""));
        let moved = MovedMessages { messages: 1, kept: 2, refused, up_to: 8 };
        assert_eq!(
            json(&OperationResult::Moved(Box::new(moved))),
            r#"{"messages":1,"kept":2,"up_to":8,"refused":{"code":"memory-full","reason":"no \"room\""}}"#
        );
    }

    proptest::proptest! {
        #[test]
        fn the_patterns_of_a_subscription_come_back_one_by_one(
            texts in proptest::collection::vec(
                "[a-c,{}(\"]{1,6}|[?][a-c]{1,2},[a-c]{0,2}(\\{1,9\\})?|[a-c,]{1,3}/[*]{1,2}",
                1..9,
            ),
        ) {
            let parse = |text: &String| tiderace_topics::Pattern::parse(text).ok();
            let patterns: Vec<_> = texts.iter().filter_map(parse).collect();
            let entry = QueueEntry { patterns: patterns.clone(), ..entry() };
            let entries = vec![ListingEntry::Queue(entry)];
            let listing = Listing { what: Browsable::Queues, entries, next: None };
            let text = json(&OperationResult::Listing(Box::new(listing)));
            let parsed = tiderace_value::Json::parse(text.as_bytes(), 16).unwrap();
            let mut found = Vec::new();
            for (name, value) in parsed.fields() {
                if name.as_text().as_deref() != Some("queues") {
                    continue;
                }
                for (name, value) in value.elements().flat_map(|queue| queue.fields()) {
                    if name.as_text().as_deref() == Some("patterns") {
                        found.extend(value.elements().map(|it| it.as_text().unwrap().into_owned()));
                    }
                }
            }
            // What a subscription is made from is a selector each.
            let again = found.iter().flat_map(|text| {
                crate::parse_selector(text, None).unwrap().patterns().to_vec()
            });
            proptest::prop_assert_eq!(again.collect::<Vec<_>>(), patterns);
        }
    }
}
