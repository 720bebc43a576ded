//! Lists of all sessions of a node: which of them, in which order, a page at a time.
//!
//! Each shard keeps the best entries of its own sessions, and the lists of all shards are merged into one page.
//! Invariants: the entries of pages that follow each other come in one order; a session that stays as it is stands in one
//! page.

use std::cmp::Reverse;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Network, SessionId, ShardId, is_local};
use tiderace_value::append_text;

use super::{SessionEntry, SessionState};

/// Entries of one page, at most.
pub const SESSIONS_LIMIT_MAX: u32 = 500;
/// Entries of one page if nobody says how many.
const LIMIT_DEFAULT: u32 = 100;

/// Which sessions are meant: those for which all that is given holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// The one of that id.
    pub id: Option<SessionId>,
    /// Those of a protocol, by its name.
    pub protocol: Option<Box<str>>,
    /// Those that are logged in as that; of a virtual host: `@HOST/NAME`.
    pub principal: Option<Box<str>>,
    /// Those whose client has an address in there.
    pub address: Option<Network>,
    /// Those for which at least so many bytes wait.
    pub backlog: u64,
}

impl SessionFilter {
    /// Whether it means all sessions.
    pub fn is_empty(&self) -> bool {
        *self == SessionFilter::default()
    }

    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        [&self.protocol, &self.principal].into_iter().flatten().map(|text| text.len()).sum()
    }
}

impl fmt::Display for SessionFilter {
    /// What was given, as it is written into a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SessionFilter { id, protocol, principal, address, backlog } = self;
        let parts = [
            id.map(|id| format!("id={}", spell(id))),
            protocol.as_ref().map(|it| format!("protocol={it}")),
            principal.as_ref().map(|it| format!("principal={it}")),
            address.map(|it| format!("address={it}")),
            (*backlog > 0).then(|| format!("backlog={backlog}")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// Bytes of the reason that an operator gives, at most: with the sentence before it, it fits into the close of a WebSocket.
pub const REASON_BYTES_MAX: usize = 80;

/// Which sessions are to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kick {
    /// Those, but for the one that asks.
    pub filter: SessionFilter,
    /// Whether it is only to be said how many these are.
    pub dry_run: bool,
    /// What their clients are told besides.
    pub reason: Option<Box<str>>,
}

impl Kick {
    /// What clients are told.
    pub fn close(&self) -> Close {
        match &self.reason {
            None => CloseCode::Kicked.into(),
            Some(reason) => Close::new(
                CloseCode::Kicked,
                format!("An operator has ended the session: {reason}"),
            ),
        }
    }
}

/// In which order sessions are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionOrder {
    /// First those for which most waits, or that have lost most; of those that are alike, as by id.
    #[default]
    Backlog,
    /// First those that have most subscriptions; of those that are alike, as by id.
    Subscriptions,
    /// First those that came last; of those that came in the same second, as by id.
    Since,
    /// By their ids, which stay what they are.
    Id,
}

impl SessionOrder {
    /// All of them with their names in protocols.
    pub const ALL: [(&'static str, SessionOrder); 4] = [
        ("backlog", SessionOrder::Backlog),
        ("subscriptions", SessionOrder::Subscriptions),
        ("since", SessionOrder::Since),
        ("id", SessionOrder::Id),
    ];
}

/// Which page of the sessions is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Of which sessions.
    pub filter: SessionFilter,
    /// In which order.
    pub order: SessionOrder,
    /// Only those behind that place.
    pub after: Option<SessionRank>,
    /// At most so many; zero: as many as is usual. The server has a limit of its own.
    pub limit: u32,
}

impl SessionQuery {
    /// How many entries the page may have.
    pub fn entries_max(&self) -> usize {
        let limit = if self.limit == 0 { LIMIT_DEFAULT } else { self.limit };
        limit.min(SESSIONS_LIMIT_MAX) as usize
    }

    /// The place of a session in the order that is wanted; it is there since so many milliseconds after 1970.
    pub fn rank(&self, id: SessionId, state: &SessionState, since_ms: u64) -> SessionRank {
        let (most, lost) = match self.order {
            SessionOrder::Id => (0, 0),
            SessionOrder::Subscriptions => (state.subscriptions, 0),
            SessionOrder::Since => (since_ms, 0),
            SessionOrder::Backlog => (state.backlog_bytes, state.conflated + state.dropped),
        };
        SessionRank { most: Reverse(most), lost: Reverse(lost), id }
    }

    /// The place of what is told of a session.
    fn rank_of(&self, entry: &SessionEntry) -> SessionRank {
        let since_ms = entry.facts.as_ref().map_or(0, |facts| facts.since_ms);
        self.rank(entry.id, &entry.state, since_ms)
    }
}

/// A place in the order of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionRank {
    /// What it is listed by.
    most: Reverse<u64>,
    lost: Reverse<u64>,
    id: SessionId,
}

impl fmt::Display for SessionRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.most.0, self.lost.0, spell(self.id))
    }
}

impl FromStr for SessionRank {
    type Err = Close;

    fn from_str(text: &str) -> Result<SessionRank, Close> {
        let mut parts = text.splitn(3, '-');
        let mut part = || parts.next();
        let rank = (|| {
            let (most, lost) = (part()?.parse().ok()?, part()?.parse().ok()?);
            let (most, lost) = (Reverse(most), Reverse(lost));
            Some(SessionRank { most, lost, id: parse_session_id(part()?)? })
        })();
        rank.filter(|rank| rank.to_string() == text).ok_or_else(|| {
            let reason = "`after` is what `next` was in the page before";
            Close::new(CloseCode::BadOperation, reason)
        })
    }
}

/// What is known of a session beside how it fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    /// The groups of who it is.
    pub groups: Arc<[Arc<str>]>,
    /// The virtual host that it is in.
    pub host: Option<Arc<str>>,
    /// Where its client is; behind a proxy that is trusted, what that has said of it. One of a Unix socket is shown as `local`.
    pub address: IpAddr,
    /// The port there; zero if the proxy has not said it.
    pub port: u16,
    /// Its protocol.
    pub protocol: &'static str,
    /// What carries it: `tcp`, `websocket`, `requests`, or `detached` while it waits for its client.
    pub transport: &'static str,
    /// Whether TLS protects what its client sends to the server.
    pub tls: bool,
    /// Since when it is there, in milliseconds since 1970.
    pub since_ms: u64,
}

/// One page of the sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPage {
    /// The sessions, in the order that was wanted.
    pub sessions: Vec<SessionEntry>,
    /// How many the filter means, on this page or not.
    pub matched: u64,
    /// Where the next page begins, if this is not the last.
    pub next: Option<SessionRank>,
}

impl SessionPage {
    /// The page of a node, of what each shard has found. A shard that has more behind what it gave has a `next`: what others
    /// have behind that waits for the next page.
    pub fn merge(query: &SessionQuery, parts: Vec<SessionPage>) -> SessionPage {
        let matched = parts.iter().map(|part| part.matched).sum();
        let whole_up_to = parts.iter().filter_map(|part| part.next).min();
        let rank = |entry: &SessionEntry| query.rank_of(entry);
        let mut sessions: Vec<SessionEntry> =
            parts.into_iter().flat_map(|part| part.sessions).collect();
        sessions.retain(|entry| whole_up_to.is_none_or(|last| rank(entry) <= last));
        sessions.sort_by_key(rank);
        let is_cut = sessions.len() > query.entries_max();
        sessions.truncate(query.entries_max());
        let next = if is_cut { sessions.last().map(rank) } else { whole_up_to };
        SessionPage { sessions, matched, next }
    }

    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        self.sessions.iter().map(SessionEntry::bytes).sum()
    }
}

impl SessionFacts {
    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        let groups = self.groups.iter().map(|group| group.len()).sum::<usize>();
        FACTS_BYTES + groups + self.host.as_ref().map_or(0, |host| host.len())
    }

    /// Appends it as members of an object of JSON, each behind a comma.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        if let Some(host) = &self.host {
            out.extend_from_slice(b",\"host\":");
            append_text(out, host);
        }
        out.extend_from_slice(b",\"groups\":[");
        for (place, group) in self.groups.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            append_text(out, group);
        }
        match is_local(self.address) {
            true => out.extend_from_slice(b"],\"address\":\"local\""),
            false => {
                let address = format!("],\"address\":\"{}\"", self.address);
                out.extend_from_slice(address.as_bytes());
            }
        }
        if self.port != 0 {
            out.extend_from_slice(format!(",\"port\":{}", self.port).as_bytes());
        }
        let SessionFacts { protocol, transport, tls, since_ms, .. } = self;
        out.extend_from_slice(
            format!(
                r#","protocol":"{protocol}","transport":"{transport}","tls":{tls},"since":{since_ms}"#
            )
            .as_bytes(),
        );
    }
}

/// What facts take as JSON beside their texts.
const FACTS_BYTES: usize = 160;

/// A session's id as lists show it.
pub fn spell(id: SessionId) -> String {
    format!("{}-{}-{}", id.shard.0, id.slot, id.generation)
}

/// The session that an id of a list means, also with the `s` that topics and logs write before it.
pub fn parse_session_id(text: &str) -> Option<SessionId> {
    let text = text.strip_prefix('s').unwrap_or(text);
    let mut parts = text.split('-');
    let mut part = || parts.next();
    let shard = ShardId(part()?.parse().ok()?);
    let id = SessionId { shard, slot: part()?.parse().ok()?, generation: part()?.parse().ok()? };
    (spell(id) == text).then_some(id)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn id(shard: u16, slot: u32) -> SessionId {
        SessionId { shard: ShardId(shard), slot, generation: 1 }
    }

    fn entry(id: SessionId, backlog_bytes: u64, dropped: u64) -> SessionEntry {
        let state = SessionState { backlog_bytes, dropped, ..SessionState::default() };
        SessionEntry { id, name: "a".into(), state, facts: None }
    }

    fn facts(since_ms: u64) -> SessionFacts {
        SessionFacts {
            groups: ["ops".into(), "a\"b".into()].into(),
            host: Some("shop".into()),
            address: [10, 1, 2, 3].into(),
            port: 4711,
            protocol: "stomp",
            transport: "websocket",
            tls: true,
            since_ms,
        }
    }

    #[test]
    fn ids_are_read_as_they_are_written() {
        assert_eq!(parse_session_id("3-17-1"), Some(id(3, 17)));
        assert_eq!(parse_session_id("s3-17-1"), Some(id(3, 17)));
        for wrong in
            ["", "3-17", "3-17-1-1", "03-17-1", "ss3-17-1", "3-+7-1", "70000-1-1", "3-17-x"]
        {
            assert_eq!(parse_session_id(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn places_are_read_as_they_are_written_and_in_no_other_way() {
        let query = SessionQuery::default();
        let rank = query.rank(id(1, 5), &entry(id(1, 5), 7, 3).state, 0);
        assert_eq!(rank.to_string(), "7-3-1-5-1");
        assert_eq!("7-3-1-5-1".parse::<SessionRank>().unwrap(), rank);
        for wrong in ["", "7", "7-3", "7-3-s1-5-1", "7-3-1-5", "07-3-1-5-1", "-1-3-1-5-1"] {
            assert_eq!(wrong.parse::<SessionRank>().unwrap_err().code, CloseCode::BadOperation);
        }
    }

    #[test]
    fn a_filter_is_written_as_it_was_given() {
        let filter = SessionFilter {
            id: Some(id(1, 2)),
            principal: Some("ann".into()),
            address: Some("10.0.0.0/8".parse().unwrap()),
            ..SessionFilter::default()
        };
        assert_eq!(filter.to_string(), "id=1-2-1 principal=ann address=10.0.0.0/8");
        let longest =
            Kick { filter, dry_run: false, reason: Some("x".repeat(REASON_BYTES_MAX).into()) };
        assert!(longest.close().reason.len() <= 123, "the close of a WebSocket holds it");
    }

    #[test]
    fn pages_are_bounded() {
        let most = |limit| SessionQuery { limit, ..SessionQuery::default() }.entries_max();
        assert_eq!(
            [most(0), most(1), most(500), most(501), most(u32::MAX)],
            [100, 1, 500, 500, 500]
        );
    }

    #[test]
    fn a_page_is_json() {
        let mut session = entry(id(0, 1), 5, 0);
        session.facts = Some(Box::new(facts(17)));
        let next = Some(SessionQuery::default().rank(id(0, 1), &session.state, 0));
        let page = SessionPage { sessions: vec![session, entry(id(0, 2), 0, 0)], matched: 9, next };
        let mut out = Vec::new();
        crate::OperationResult::Sessions(Box::new(page)).write_json(&mut out, true);
        let expected = concat!(
            r#"{"sessions":[{"id":"0-1-1","name":"a","subscriptions":0,"backlog_messages":0,"backlog_bytes":5,"#,
            r#""conflated":0,"dropped":0,"host":"shop","groups":["ops","a\"b"],"address":"10.1.2.3","port":4711,"#,
            r#""protocol":"stomp","transport":"websocket","tls":true,"since":17},"#,
            r#"{"id":"0-2-1","name":"a","subscriptions":0,"backlog_messages":0,"backlog_bytes":0,"conflated":0,"#,
            r#""dropped":0}],"matched":9,"more":true,"next":"5-0-0-1-1"}"#
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn each_order_has_what_it_is_about_first() {
        let of = |slot, backlog, subscriptions, since_ms| {
            let mut entry = entry(id(0, slot), backlog, 0);
            entry.state.subscriptions = subscriptions;
            entry.facts = Some(Box::new(facts(since_ms)));
            entry
        };
        let all = [of(1, 0, 7, 1_000), of(2, 9, 0, 2_000), of(3, 5, 7, 9_000)];
        let sorted = |order| {
            let query = SessionQuery { order, ..SessionQuery::default() };
            let mut entries: Vec<_> = all.iter().collect();
            entries.sort_by_key(|entry| query.rank_of(entry));
            entries.iter().map(|entry| entry.id.slot).collect::<Vec<_>>()
        };
        assert_eq!(
            SessionOrder::ALL.map(|(_, order)| sorted(order)),
            [vec![2, 3, 1], vec![1, 3, 2], vec![3, 2, 1], vec![1, 2, 3]]
        );
    }

    #[test]
    fn sessions_that_end_meanwhile_hide_no_others() {
        let query = SessionQuery { order: SessionOrder::Id, limit: 2, ..SessionQuery::default() };
        let rank = |shard, slot| Some(query.rank(id(shard, slot), &SessionState::default(), 0));
        let page = |sessions: Vec<SessionId>, next| {
            let sessions = sessions.into_iter().map(|id| entry(id, 0, 0)).collect();
            SessionPage { sessions, matched: 5, next }
        };
        // The second of the first shard has ended after it was looked at; there are others behind it.
        let parts = vec![page(vec![id(0, 1)], rank(0, 2)), page(vec![id(1, 1)], None)];
        let merged = SessionPage::merge(&query, parts);
        assert_eq!(merged.sessions, [entry(id(0, 1), 0, 0)]);
        assert_eq!(merged.next, rank(0, 2));
        // All of them have.
        let merged = SessionPage::merge(&query, vec![page(vec![], rank(0, 2))]);
        assert_eq!((merged.sessions.len(), merged.next), (0, rank(0, 2)));
    }

    /// What one shard gives of its sessions.
    fn part(query: &SessionQuery, mut own: Vec<SessionEntry>) -> SessionPage {
        let matched = own.len() as u64;
        let rank = |entry: &SessionEntry| query.rank_of(entry);
        own.retain(|entry| query.after.is_none_or(|after| rank(entry) > after));
        own.sort_by_key(rank);
        let has_more = own.len() > query.entries_max();
        own.truncate(query.entries_max());
        let next = own.last().map(rank).filter(|_| has_more);
        SessionPage { sessions: own, matched, next }
    }

    proptest! {
        #[test]
        fn pages_list_each_session_once_and_in_order(
            sessions in proptest::collection::vec((0u16..3, 0u64..3, 0u64..2), 0..40),
            limit in 1u32..8,
            order in 0usize..SessionOrder::ALL.len(),
        ) {
            let all: Vec<SessionEntry> = sessions
                .iter()
                .zip(0..)
                .map(|((shard, backlog, dropped), slot)| {
                    let mut entry = entry(id(*shard, slot), *backlog, *dropped);
                    entry.state.subscriptions = (*backlog + 2 * *dropped) % 3;
                    entry.facts = Some(Box::new(facts(100 - *backlog)));
                    entry
                })
                .collect();
            let order = SessionOrder::ALL[order].1;
            let mut query = SessionQuery { order, limit, ..SessionQuery::default() };
            let mut listed = Vec::new();
            loop {
                let of = |shard| {
                    let own = all.iter().filter(|it| it.id.shard == ShardId(shard));
                    part(&query, own.cloned().collect())
                };
                let page = SessionPage::merge(&query, (0..3).map(of).collect());
                prop_assert_eq!(page.matched, all.len() as u64);
                prop_assert!(page.sessions.len() <= query.entries_max());
                listed.extend(page.sessions);
                let Some(next) = page.next else { break };
                // The place goes over the wire.
                query.after = Some(next.to_string().parse().unwrap());
            }
            let mut expected = all;
            expected.sort_by_key(|entry| query.rank_of(entry));
            prop_assert_eq!(listed, expected);
        }
    }
}
