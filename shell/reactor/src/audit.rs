//! The lines of the log that say who has changed the node as a whole, or wanted to.
//!
//! Relies on operations to say what they are about. Invariant: each change that was asked for has one line, whatever came of
//! it.

use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_base::Close;
use tiderace_broker::Operated;
use tiderace_wire::OperationResult;

/// A change that somebody has asked for.
#[derive(Debug)]
pub(crate) struct Audit {
    pub(crate) who: Arc<str>,
    pub(crate) from: SocketAddr,
    pub(crate) verb: &'static str,
    pub(crate) on: String,
}

/// Bytes of what came of a change that are written, at most.
const RESULT_BYTES_MAX: usize = 1_024;

impl Audit {
    /// Writes what came of it.
    pub(crate) fn end(&self, result: &Operated) {
        match result {
            Ok(result) => self.done(result),
            Err(close) => self.refused(close),
        }
    }

    fn done(&self, result: &OperationResult) {
        let mut json = Vec::new();
        result.write_json(&mut json, false);
        json.truncate(RESULT_BYTES_MAX);
        let result = String::from_utf8_lossy(&json);
        let Audit { who, from, verb, on } = self;
        tracing::info!(
            target: "tiderace::audit",
            event = "audit", who = &**who, %from, verb, on, outcome = "done", %result
        );
    }

    fn refused(&self, close: &Close) {
        let Audit { who, from, verb, on } = self;
        let (code, reason) = (close.code.slug(), &*close.reason);
        tracing::warn!(
            target: "tiderace::audit",
            event = "audit", who = &**who, %from, verb, on, outcome = "refused", code, reason
        );
    }
}
