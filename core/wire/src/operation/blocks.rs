//! Blocks: principals and addresses that are kept out for a while.
//!
//! What is blocked, and for how long, is data here; who keeps it, and asks, is the event loop. Invariants: a block ends by itself;
//! lists of blocks come in one order, a page at a time.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Network, Span};
use tiderace_value::append_text;

use super::sessions::SessionFilter;

/// How long a block lasts at most.
pub const BLOCK_TIME_MAX: Span = Span::from_secs(30 * 86_400);
/// How long one lasts if nobody says how long.
pub const BLOCK_TIME_DEFAULT: Span = Span::from_secs(3_600);
/// Blocks that there may be at once on a node.
pub const BLOCKS_MAX: usize = 10_000;
/// Entries of a page of a list, if nobody says how many, and at most.
const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 500;

/// Who is kept out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocked {
    /// Clients with an address in there.
    Address(Network),
    /// Who logs in as that; of a virtual host: `@HOST/NAME`.
    Principal(Box<str>),
}

impl Blocked {
    /// The sessions that are meant by it.
    pub fn filter(&self) -> SessionFilter {
        match self {
            Blocked::Address(network) => {
                SessionFilter { address: Some(*network), ..SessionFilter::default() }
            }
            Blocked::Principal(name) => {
                SessionFilter { principal: Some(name.clone()), ..SessionFilter::default() }
            }
        }
    }

    /// Whether clients of that address are kept out by it.
    pub fn is_of(&self, address: IpAddr) -> bool {
        matches!(self, Blocked::Address(network) if network.contains(address))
    }

    fn bytes(&self) -> usize {
        match self {
            Blocked::Address(_) => ADDRESS_BYTES,
            Blocked::Principal(name) => name.len(),
        }
    }

    /// Appends it as a member of an object of JSON.
    fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Blocked::Address(network) => {
                out.extend_from_slice(format!("\"address\":\"{network}\"").as_bytes());
            }
            Blocked::Principal(name) => {
                out.extend_from_slice(b"\"principal\":");
                append_text(out, name);
            }
        }
    }
}

impl fmt::Display for Blocked {
    /// As logs have it, and places in lists.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocked::Address(network) => write!(f, "address={network}"),
            Blocked::Principal(name) => write!(f, "principal={name}"),
        }
    }
}

impl FromStr for Blocked {
    type Err = Close;

    /// The one of a place in a list.
    fn from_str(text: &str) -> Result<Blocked, Close> {
        let wrong = || {
            let reason = "`after` is what `next` was in the page before";
            Close::new(CloseCode::BadOperation, reason)
        };
        match text.split_once('=') {
            Some(("address", network)) => {
                network.parse().map(Blocked::Address).map_err(|_| wrong())
            }
            Some(("principal", name)) => Ok(Blocked::Principal(name.into())),
            _ => Err(wrong()),
        }
    }
}

/// What is asked about blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockOperation {
    /// Somebody is to be kept out, and the sessions of it end; [`BlockResult::Blocked`].
    Block(Block),
    /// Nobody is to be kept out by that any more; [`BlockResult::Unblocked`].
    Unblock(Blocked),
    /// A page of those that there are; [`BlockResult::Page`].
    List(BlockQuery),
}

impl BlockOperation {
    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        size_of::<BlockOperation>()
            + match self {
                BlockOperation::Block(block) => {
                    block.who.bytes() + block.reason.as_ref().map_or(0, |reason| reason.len())
                }
                BlockOperation::Unblock(who) => who.bytes(),
                BlockOperation::List(query) => query.after.as_ref().map_or(0, Blocked::bytes),
            }
    }
}

/// A block that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Who is to be kept out.
    pub who: Blocked,
    /// For how long.
    pub lasts: Span,
    /// What clients are told besides.
    pub reason: Option<Box<str>>,
    /// Whether that may be who asks.
    pub force: bool,
    /// Whether it is only to be said how many sessions would end.
    pub dry_run: bool,
}

/// What clients are told that are blocked.
pub fn blocked_close(reason: Option<&str>) -> Close {
    match reason {
        None => CloseCode::Blocked.into(),
        Some(reason) => {
            let sentence = format!("An operator keeps this client out: {reason}");
            Close::new(CloseCode::Blocked, sentence)
        }
    }
}

/// Which page of the blocks is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockQuery {
    /// Only those behind that one: addresses by their bits, then principals by their names.
    pub after: Option<Blocked>,
    /// At most so many; zero: as many as is usual. The server has a limit of its own.
    pub limit: u32,
}

impl BlockQuery {
    /// How many entries the page may have.
    pub fn entries_max(&self) -> usize {
        let limit = if self.limit == 0 { LIMIT_DEFAULT } else { self.limit };
        limit.min(LIMIT_MAX) as usize
    }
}

/// A block that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// Who is kept out.
    pub who: Blocked,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Until when.
    pub until_ms: u64,
    /// What clients are told besides.
    pub reason: Option<Box<str>>,
    /// Who has asked for it.
    pub by: Arc<str>,
}

/// What has come of an operation on blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockResult {
    /// Somebody is kept out, or would be.
    Blocked {
        /// Sessions that have ended by it, or would have.
        sessions: u64,
        /// Until when it lasts, in milliseconds since 1970.
        until_ms: u64,
        /// Whether it was only to be said.
        dry_run: bool,
    },
    /// Nobody is kept out by that any more.
    Unblocked {
        /// Blocks that there were of it: one, or none.
        blocks: u64,
    },
    /// A page of a list.
    Page {
        /// The blocks.
        blocks: Vec<BlockEntry>,
        /// How many there are, on this page or not.
        matched: u64,
        /// Whether there are more behind these.
        more: bool,
    },
}

impl BlockResult {
    /// Bytes of its texts, with what is written around each block.
    pub(super) fn bytes(&self) -> usize {
        let BlockResult::Page { blocks, .. } = self else { return 0 };
        let of = |entry: &BlockEntry| {
            let reason = entry.reason.as_ref().map_or(0, |reason| reason.len());
            ENTRY_BYTES + entry.who.bytes() + entry.by.len() + reason
        };
        blocks.iter().map(of).sum()
    }

    /// Appends it as JSON.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        let text = match self {
            BlockResult::Blocked { sessions, until_ms, dry_run } => {
                format!(r#"{{"sessions":{sessions},"until":{until_ms},"dry_run":{dry_run}}}"#)
            }
            BlockResult::Unblocked { blocks } => format!(r#"{{"blocks":{blocks}}}"#),
            BlockResult::Page { blocks, matched, more } => {
                out.extend_from_slice(b"{\"blocks\":[");
                for (place, entry) in blocks.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    entry.write_json(out);
                }
                out.extend_from_slice(
                    format!("],\"matched\":{matched},\"more\":{more}").as_bytes(),
                );
                if let Some(last) = blocks.last().filter(|_| *more) {
                    out.extend_from_slice(b",\"next\":");
                    append_text(out, &last.who.to_string());
                }
                "}".to_owned()
            }
        };
        out.extend_from_slice(text.as_bytes());
    }
}

impl BlockEntry {
    fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.who.write_json(out);
        let BlockEntry { since_ms, until_ms, .. } = self;
        out.extend_from_slice(format!(r#","since":{since_ms},"until":{until_ms}"#).as_bytes());
        if let Some(reason) = &self.reason {
            out.extend_from_slice(b",\"reason\":");
            append_text(out, reason);
        }
        out.extend_from_slice(b",\"by\":");
        append_text(out, &self.by);
        out.push(b'}');
    }
}

/// Bytes of a network as text, at most.
const ADDRESS_BYTES: usize = 43;
/// What an entry takes as JSON beside its texts.
const ENTRY_BYTES: usize = 120;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::OperationResult;

    fn json(result: BlockResult) -> String {
        let mut out = Vec::new();
        OperationResult::Blocks(Box::new(result)).write_json(&mut out, true);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_has_come_of_it_is_json() {
        let done = BlockResult::Blocked { sessions: 3, until_ms: 17, dry_run: false };
        assert_eq!(json(done), r#"{"sessions":3,"until":17,"dry_run":false}"#);
        assert_eq!(json(BlockResult::Unblocked { blocks: 1 }), r#"{"blocks":1}"#);
        let entry = |who, reason: Option<&str>| BlockEntry {
            who,
            since_ms: 1,
            until_ms: 2,
            reason: reason.map(Into::into),
            by: "oli".into(),
        };
        let address = entry(Blocked::Address("10.0.0.0/8".parse().unwrap()), None);
        let principal = entry(Blocked::Principal("a\"nn".into()), Some("later"));
        let page = BlockResult::Page { blocks: vec![address, principal], matched: 9, more: true };
        let expected = concat!(
            r#"{"blocks":[{"address":"10.0.0.0/8","since":1,"until":2,"by":"oli"},"#,
            r#"{"principal":"a\"nn","since":1,"until":2,"reason":"later","by":"oli"}],"#,
            r#""matched":9,"more":true,"next":"principal=a\"nn"}"#
        );
        assert_eq!(json(page), expected);
        let none = BlockResult::Page { blocks: Vec::new(), matched: 0, more: false };
        assert_eq!(json(none), r#"{"blocks":[],"matched":0,"more":false}"#);
    }

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in ["address=10.0.0.0/8", "address=2001:db8::1", "principal=@shop/a=b"] {
            assert_eq!(text.parse::<Blocked>().unwrap().to_string(), text);
        }
        for wrong in ["", "ann", "address=10.1.2.3/8", "address=", "group=x"] {
            assert!(wrong.parse::<Blocked>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_clients_are_told_fits_into_the_close_of_a_websocket() {
        let longest = "x".repeat(super::super::sessions::REASON_BYTES_MAX);
        assert!(blocked_close(Some(&longest)).reason.len() <= 123);
    }

    #[test]
    fn a_block_means_the_sessions_of_whom_it_keeps_out() {
        let network = Blocked::Address("10.0.0.0/8".parse().unwrap());
        assert_eq!(network.filter().to_string(), "address=10.0.0.0/8");
        assert!(network.is_of("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!network.is_of("11.0.0.1".parse().unwrap()));
        let ann = Blocked::Principal("ann".into());
        assert_eq!(ann.filter().to_string(), "principal=ann");
        assert!(!ann.is_of("10.1.2.3".parse().unwrap()));
    }
}
