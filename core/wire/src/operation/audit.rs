//! The record of changes: what each line of it says, and how it is asked for.
//!
//! Who keeps the record is who runs the node; what a line is, and how it is written as JSON, is here. Invariants: lines are numbered
//! without gaps in the order in which they were written; a page says which number goes before the next one, and how many were
//! not to be had any more.

use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_base::ShownPeer;
use tiderace_value::append_text;

/// Where rules are looked up for who may read the record.
pub const AUDIT: &str = "$sys/audit";

/// Lines of a page, if nobody says how many, and at most.
const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 500;
/// What an entry takes as JSON beside its texts.
const ENTRY_BYTES: usize = 160;

/// Which part of the record is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only lines behind that number, the first of them; absent: the last ones that there are.
    pub after: Option<u64>,
    /// At most so many; zero: as many as is usual. The server has a limit of its own.
    pub limit: u32,
    /// Only what that principal has asked for; of a virtual host: `@HOST/NAME`.
    pub who: Option<Box<str>>,
    /// Only what is called so.
    pub verb: Option<Box<str>>,
}

impl AuditQuery {
    /// How many lines the page may have.
    pub fn entries_max(&self) -> usize {
        let limit = if self.limit == 0 { LIMIT_DEFAULT } else { self.limit };
        limit.min(LIMIT_MAX) as usize
    }

    /// Whether a line is one of those that are wanted, wherever it stands.
    pub fn wants(&self, entry: &AuditEntry) -> bool {
        self.who.as_ref().is_none_or(|who| **who == *entry.record.who)
            && self.verb.as_ref().is_none_or(|verb| **verb == *entry.record.verb)
    }

    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.who, &self.verb].into_iter().flatten();
        texts.map(|text| text.len()).sum()
    }
}

/// A line of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number: one more than that of the line before it.
    pub number: u64,
    /// When it was written, in milliseconds since 1970.
    pub time_ms: u64,
    /// What it says.
    pub record: AuditRecord,
}

/// What is recorded of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// Who has asked, of a virtual host `@HOST/NAME`; empty in a line for several.
    pub who: Arc<str>,
    /// The server that has passed that on for somebody who is connected to it.
    pub via: Option<Arc<str>>,
    /// Where the client was; absent if nobody was connected to ask.
    pub from: Option<SocketAddr>,
    /// What was asked for; empty in a line for several.
    pub verb: &'static str,
    /// What it was about.
    pub on: Box<str>,
    /// What has come of it.
    pub outcome: AuditOutcome,
}

/// What has come of something that would change the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditOutcome {
    /// It was done, and this was the answer.
    Done(Box<str>),
    /// It was not done.
    Refused {
        /// The code of the error.
        code: &'static str,
        /// Its sentence.
        reason: Box<str>,
    },
    /// Who had asked was gone before the answer: it was done, or in part, or not.
    Unanswered,
    /// So many of one minute that were not done have no line of their own.
    LeftOut(u64),
}

impl AuditOutcome {
    /// Its word.
    pub fn word(&self) -> &'static str {
        match self {
            AuditOutcome::Done(_) => "done",
            AuditOutcome::Refused { .. } => "refused",
            AuditOutcome::Unanswered => "unanswered",
            AuditOutcome::LeftOut(_) => "left-out",
        }
    }

    fn bytes(&self) -> usize {
        match self {
            AuditOutcome::Done(result) => result.len(),
            AuditOutcome::Refused { code, reason } => code.len() + reason.len(),
            AuditOutcome::Unanswered | AuditOutcome::LeftOut(_) => 0,
        }
    }
}

impl AuditRecord {
    /// Bytes of each of its texts, at most.
    pub const TEXT_BYTES_MAX: usize = 1_024;

    /// As much of a text as is recorded.
    pub fn clipped(text: &str) -> &str {
        let mut end = text.len().min(AuditRecord::TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.get(..end).unwrap_or_default()
    }
}

impl AuditEntry {
    /// About what it takes, in memory as well as written as JSON.
    pub fn bytes(&self) -> usize {
        let AuditRecord { who, via, on, outcome, .. } = &self.record;
        let via = via.as_ref().map_or(0, |via| via.len());
        ENTRY_BYTES + who.len() + via + on.len() + outcome.bytes()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let AuditEntry { number, time_ms, record } = self;
        let AuditRecord { who, via, from, verb, on, outcome } = record;
        out.extend_from_slice(format!(r#"{{"number":{number},"time":{time_ms}"#).as_bytes());
        let from = from.map(|from| ShownPeer(from).to_string());
        let text = |name: &str, text: &str, out: &mut Vec<u8>| {
            out.extend_from_slice(format!(",\"{name}\":").as_bytes());
            append_text(out, text);
        };
        let named = [
            ("who", Some(&**who)),
            ("via", via.as_deref()),
            ("from", from.as_deref()),
            ("verb", Some(*verb)),
            ("on", Some(&**on)),
        ];
        for (name, value) in named {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                text(name, value, out);
            }
        }
        text("outcome", outcome.word(), out);
        match outcome {
            AuditOutcome::Done(result) => text("result", result, out),
            AuditOutcome::Refused { code, reason } => {
                text("code", code, out);
                text("reason", reason, out);
            }
            AuditOutcome::Unanswered => {}
            AuditOutcome::LeftOut(count) => {
                out.extend_from_slice(format!(",\"count\":{count}").as_bytes());
            }
        }
        out.push(b'}');
    }
}

/// A part of the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// The lines, the newest last.
    pub entries: Vec<Arc<AuditEntry>>,
    /// Behind this number the next page begins.
    pub next: u64,
    /// Whether there are more behind these.
    pub more: bool,
    /// Lines behind `after`, or at all, that are not kept any more.
    pub missed: u64,
    /// When the record began, with the server, in milliseconds since 1970: numbers of another one mean nothing to it.
    pub since_ms: u64,
}

impl AuditPage {
    /// Bytes of its texts, with what is written around them.
    pub(super) fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.bytes()).sum()
    }

    /// Appends it as JSON.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"records\":[");
        for (place, entry) in self.entries.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            entry.write_json(out);
        }
        let AuditPage { next, more, missed, since_ms, .. } = self;
        let rest =
            format!("],\"missed\":{missed},\"since\":{since_ms},\"more\":{more},\"next\":{next}}}");
        out.extend_from_slice(rest.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    use crate::{NodeReport, OperationResult};

    fn entry(number: u64, outcome: AuditOutcome) -> AuditEntry {
        let record = AuditRecord {
            who: "oli".into(),
            via: None,
            from: Some("10.1.2.3:5".parse().unwrap()),
            verb: "kick",
            on: "principal=ann".into(),
            outcome,
        };
        AuditEntry { number, time_ms: 17, record }
    }

    #[test]
    fn a_page_is_json() {
        let mut left_out = entry(4, AuditOutcome::LeftOut(9));
        (left_out.record.from, left_out.record.on) = (None, "".into());
        left_out.record.via = Some("edge".into());
        let refused =
            AuditOutcome::Refused { code: "not-authorised", reason: "oli \"may\" not".into() };
        let entries = vec![
            Arc::new(entry(2, AuditOutcome::Done(r#"{"sessions":1}"#.into()))),
            Arc::new(entry(3, refused)),
            Arc::new(left_out),
            Arc::new(entry(5, AuditOutcome::Unanswered)),
        ];
        let page = AuditPage { entries, next: 5, more: true, missed: 1, since_ms: 9 };
        let mut out = Vec::new();
        let report = NodeReport::Audit(Box::new(page));
        OperationResult::Node(Box::new(report)).write_json(&mut out, true);
        let expected = concat!(
            r#"{"records":[{"number":2,"time":17,"who":"oli","from":"10.1.2.3:5","verb":"kick","on":"principal=ann","#,
            r#""outcome":"done","result":"{\"sessions\":1}"},"#,
            r#"{"number":3,"time":17,"who":"oli","from":"10.1.2.3:5","verb":"kick","on":"principal=ann","#,
            r#""outcome":"refused","code":"not-authorised","reason":"oli \"may\" not"},"#,
            r#"{"number":4,"time":17,"who":"oli","via":"edge","verb":"kick","outcome":"left-out","count":9},"#,
            r#"{"number":5,"time":17,"who":"oli","from":"10.1.2.3:5","verb":"kick","on":"principal=ann","#,
            r#""outcome":"unanswered"}],"missed":1,"since":9,"more":true,"next":5}"#
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_query_means_who_and_what_it_names() {
        let line = entry(1, AuditOutcome::Unanswered);
        let query = |who: Option<&str>, verb: Option<&str>| AuditQuery {
            who: who.map(Into::into),
            verb: verb.map(Into::into),
            ..AuditQuery::default()
        };
        assert!(query(None, None).wants(&line) && query(Some("oli"), Some("kick")).wants(&line));
        assert!(!query(Some("ol"), None).wants(&line) && !query(None, Some("kic")).wants(&line));
    }
}
