//! The operations on traces, read.

use tiderace_base::Close;

use super::{Given, bad};
use crate::operation::traces::{
    TRACE_BODY_BYTES_MAX, TRACE_TIME_DEFAULT, TRACE_TIME_MAX, TraceOperation, TraceRequest,
};

impl Given<'_> {
    /// The operation on traces of that name.
    pub(super) fn trace_operation(&self, what: &str) -> Result<TraceOperation, Close> {
        Ok(match what {
            "trace" => TraceOperation::Begin(self.trace()?),
            "traces" => TraceOperation::List,
            _ => {
                let missing =
                    || bad("`trace-end` wants `id`, the number that `trace` has answered");
                TraceOperation::End { id: self.number("id")?.ok_or_else(missing)? }
            }
        })
    }

    fn trace(&self) -> Result<TraceRequest, Close> {
        let session = self.session_id("session")?;
        let (principal, address) = (self.name("principal")?, self.network()?);
        let path = self.optional_text("path")?;
        let paths = match &path {
            Some(text) => (self.reading.selector)(text)?,
            None => Vec::new(),
        };
        if session.is_none() && principal.is_none() && address.is_none() && path.is_none() {
            return Err(bad(
                "`trace` wants to know what to trace: `session`, `principal`, `address` or `path`",
            ));
        }
        let lasts = self.span("for")?.unwrap_or(TRACE_TIME_DEFAULT);
        if lasts.is_zero() || lasts > TRACE_TIME_MAX {
            return Err(bad(
                "`for` is how long the trace lasts, such as \"5m\": at most 10 minutes",
            ));
        }
        let wrong = || bad("`sample` is a number above 0 and up to 1, such as 0.1");
        let sample = match self.field("sample") {
            None => 1.0,
            Some(json) => json.as_number().ok_or_else(wrong)?,
        };
        if sample.is_nan() || sample <= 0.0 || sample > 1.0 {
            return Err(wrong());
        }
        let bodies = self.small("bodies")?.min(TRACE_BODY_BYTES_MAX);
        Ok(TraceRequest { session, principal, address, paths, lasts, sample, bodies })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use tiderace_base::{CloseCode, Span, Time};
    use tiderace_topics::{Path, Pattern};

    use super::*;
    use crate::{Operation, Reading};

    fn parsed(text: &str) -> Result<TraceOperation, Close> {
        let path = |text: &str| Path::parse(text).map_err(|_| CloseCode::BadDestination.into());
        let selector = |text: &str| {
            let pattern = Pattern::parse(text).map_err(|_| Close::from(CloseCode::BadSelector));
            pattern.map(|pattern| vec![pattern])
        };
        let reading = Reading { body: None, now: Time::ZERO, path: &path, selector: &selector };
        match Operation::parse(text.as_bytes(), &reading)? {
            Operation::Traces(asked) => Ok(*asked),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn traces_are_asked_for_in_json() {
        let plain = TraceRequest {
            session: None,
            principal: Some("ann".into()),
            address: None,
            paths: Vec::new(),
            lasts: TRACE_TIME_DEFAULT,
            sample: 1.0,
            bodies: 0,
        };
        let all = TraceRequest {
            address: Some("10.0.0.0/8".parse().unwrap()),
            paths: vec![Pattern::parse("fx/**").unwrap()],
            lasts: Span::from_secs(600),
            sample: 0.25,
            bodies: TRACE_BODY_BYTES_MAX,
            ..plain.clone()
        };
        for (text, expected) in [
            (r#"{"do":"trace","principal":"ann"}"#, TraceOperation::Begin(plain)),
            (
                r#"{"do":"trace","principal":"ann","address":"10.0.0.0/8","path":"fx/**","for":"10m","sample":0.25,"bodies":9999}"#,
                TraceOperation::Begin(all),
            ),
            (r#"{"do":"traces"}"#, TraceOperation::List),
            (r#"{"do":"trace-end","id":7}"#, TraceOperation::End { id: 7 }),
        ] {
            assert_eq!(parsed(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_traced_is_refused() {
        for (text, says) in [
            (r#"{"do":"trace"}"#, "wants to know what"),
            (r#"{"do":"trace","session":"x"}"#, "`session` is the id"),
            (r#"{"do":"trace","address":"0.0.0.0/0"}"#, "every address"),
            (r#"{"do":"trace","path":"a","for":"11m"}"#, "10 minutes"),
            (r#"{"do":"trace","path":"a","for":0}"#, "10 minutes"),
            (r#"{"do":"trace","path":"a","sample":0}"#, "above 0"),
            (r#"{"do":"trace","path":"a","sample":"x"}"#, "above 0"),
            (r#"{"do":"trace-end"}"#, "wants `id`"),
        ] {
            let refused = parsed(text).unwrap_err();
            assert_eq!(refused.code, CloseCode::BadOperation, "{text}");
            assert!(refused.reason.contains(says), "{text}: {}", refused.reason);
        }
    }
}
