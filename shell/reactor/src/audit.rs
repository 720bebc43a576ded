//! Changes that sessions have asked for, until what has come of them is known and told to who keeps the record.
//!
//! ```text
//!   broker ─▶ a change was asked for ─▶ waits ─▶ its answer, or the end of its session ─▶ `Operator::record`
//!                                         └─▶ asked of the node: goes with the right to answer
//! ```
//! Relies on each operation to have one answer with its token, or none when its session has ended. Invariants: each change that was
//! asked for is recorded once, whatever came of it, and what only says what would be done if it was refused; no more than [`WAITING_MAX`] wait on a shard.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_base::{Close, SessionId};
use tiderace_broker::AskedChange;
use tiderace_wire::{AuditOutcome, AuditRecord, Audited, OperationResult, Reply, Token};

/// A change that somebody has asked for.
pub(crate) struct Audit {
    who: Arc<str>,
    via: Option<Arc<str>>,
    from: Option<SocketAddr>,
    what: Audited,
    /// Hands it to who keeps the record.
    tell: Box<dyn FnOnce(AuditRecord) + Send>,
}

/// Changes of a shard whose answers are awaited.
const WAITING_MAX: usize = 1_024;

impl Audit {
    /// One that is awaited: where its client is, and who is told of what has come of it.
    pub(crate) fn new(
        change: AskedChange,
        from: Option<SocketAddr>,
        tell: impl FnOnce(AuditRecord) + Send + 'static,
    ) -> Audit {
        let AskedChange { who, via, mut what, .. } = change;
        // No more of it is kept while it waits than is recorded.
        what.on = AuditRecord::clipped(&what.on).to_owned();
        Audit { who, via, from, what, tell: Box::new(tell) }
    }

    /// Has it recorded with what came of it.
    pub(crate) fn end(self, result: Result<&OperationResult, &Close>) {
        let outcome = match result {
            Ok(result) => {
                let mut json = Vec::new();
                result.write_json(&mut json, false);
                AuditOutcome::Done(AuditRecord::clipped(&String::from_utf8_lossy(&json)).into())
            }
            Err(close) => {
                let (code, reason) =
                    (close.code.slug(), AuditRecord::clipped(&close.reason).into());
                AuditOutcome::Refused { code, reason }
            }
        };
        self.record(outcome);
    }

    /// The same, where nobody is there to be told.
    pub(crate) fn end_unanswered(self) {
        self.record(AuditOutcome::Unanswered);
    }

    fn record(self, outcome: AuditOutcome) {
        let Audit { who, via, from, what, tell } = self;
        let Audited { verb, on, is_dry } = what;
        if is_dry && !matches!(outcome, AuditOutcome::Refused { .. }) {
            return;
        }
        let on = on.into();
        tell(AuditRecord { who, via, from, verb, on, outcome });
    }
}

/// The changes of a shard whose answers are awaited.
#[derive(Default)]
pub(crate) struct Audits(BTreeMap<(SessionId, Token), Audit>);

impl Audits {
    /// Whether none is awaited: nothing else has to be asked then.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A change is awaited.
    pub(crate) fn begin(&mut self, session: SessionId, token: Token, audit: Audit) {
        if self.0.len() >= WAITING_MAX {
            return audit.end_unanswered();
        }
        // A session that uses a token twice cannot tell the answers apart either.
        if let Some(before) = self.0.insert((session, token), audit) {
            before.end_unanswered();
        }
    }

    /// The change that has that token, which is awaited no longer.
    pub(crate) fn take(&mut self, session: SessionId, token: Token) -> Option<Audit> {
        self.0.remove(&(session, token))
    }

    /// A session is answered.
    pub(crate) fn answered(&mut self, session: SessionId, reply: &Reply) {
        let (token, result) = match reply {
            Reply::Operated { token, result } => (*token, Ok(&**result)),
            Reply::Refused { token: Some(token), close } => (*token, Err(close)),
            _ => return,
        };
        if let Some(audit) = self.take(session, token) {
            audit.end(result);
        }
    }

    /// A session has ended, and hears no answer any more.
    pub(crate) fn leave(&mut self, session: SessionId) {
        let own = (session, Token::MIN)..=(session, Token::MAX);
        let tokens: Vec<Token> = self.0.range(own).map(|((_, token), _)| *token).collect();
        for audit in tokens.into_iter().filter_map(|token| self.take(session, token)) {
            audit.end_unanswered();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Mutex;

    use tiderace_base::{CloseCode, ShardId};

    use super::*;

    type Told = Arc<Mutex<Vec<AuditRecord>>>;

    fn session(slot: u32) -> SessionId {
        SessionId { shard: ShardId(0), slot, generation: 0 }
    }

    fn audit(told: &Told, on: &str) -> Audit {
        let what = Audited { verb: "purge", on: on.to_owned(), is_dry: on == "dry" };
        let told = told.clone();
        let (link, session, token, who) = (0, session(1), 1, "ann".into());
        let change = AskedChange { link, session, token, who, via: None, what };
        Audit::new(change, None, move |record| told.lock().unwrap().push(record))
    }

    fn refused(token: Option<Token>) -> Reply {
        Reply::Refused { token, close: CloseCode::NotAuthorised.into() }
    }

    #[test]
    fn each_change_is_recorded_once_with_what_has_come_of_it() {
        let (records, mut audits) = (Told::default(), Audits::default());
        let told = |records: &Told| {
            let records = std::mem::take(&mut *records.lock().unwrap());
            let told = |it: AuditRecord| (it.on.to_string(), it.outcome.word());
            records.into_iter().map(told).collect::<Vec<_>>()
        };
        for (slot, token) in [(1, 1), (1, 2), (2, 1)] {
            audits.begin(session(slot), token, audit(&records, &format!("{slot}-{token}")));
        }
        // Others have other tokens, or none.
        audits.answered(session(1), &refused(None));
        audits.answered(session(2), &refused(Some(2)));
        assert_eq!(told(&records), []);
        audits.answered(session(1), &refused(Some(2)));
        audits.answered(session(1), &refused(Some(2)));
        assert_eq!(told(&records), [("1-2".to_owned(), "refused")]);
        audits.leave(session(1));
        audits.leave(session(1));
        assert_eq!(told(&records), [("1-1".to_owned(), "unanswered")]);
        let result = Box::new(OperationResult::Done);
        audits.answered(session(2), &Reply::Operated { token: 1, result });
        assert_eq!(told(&records), [("2-1".to_owned(), "done")]);
        assert!(audits.is_empty());
        // What only says what would be done is recorded if even that was refused.
        for token in [1, 2, 3] {
            audits.begin(session(1), token, audit(&records, "dry"));
        }
        let result = Box::new(OperationResult::Done);
        audits.answered(session(1), &Reply::Operated { token: 1, result });
        audits.answered(session(1), &refused(Some(2)));
        audits.leave(session(1));
        assert_eq!(told(&records), [("dry".to_owned(), "refused")]);
    }

    #[test]
    fn what_waits_is_bounded_and_so_are_texts() {
        let (records, mut audits) = (Told::default(), Audits::default());
        let long = "ä".repeat(AuditRecord::TEXT_BYTES_MAX);
        for token in 0..=WAITING_MAX as u32 {
            audits.begin(session(1), token, audit(&records, &long));
        }
        let told = std::mem::take(&mut *records.lock().unwrap());
        assert_eq!((told.len(), audits.0.len()), (1, WAITING_MAX));
        assert_eq!(told[0].on.len(), AuditRecord::TEXT_BYTES_MAX);
        assert_eq!(told[0].outcome, AuditOutcome::Unanswered);
        audits.begin(session(1), 7, audit(&records, "again"));
        assert_eq!(audits.0.len(), WAITING_MAX);
    }
}
