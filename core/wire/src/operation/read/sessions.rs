//! The operations on sessions, read.

use tiderace_base::{Close, Network, SessionId};

use super::{Given, bad, short};
use crate::operation::sessions::{
    Kick, REASON_BYTES_MAX, SessionFilter, SessionOrder, SessionQuery, parse_session_id,
};

/// Bytes of a protocol's or a principal's name in a filter, at most.
const NAME_BYTES_MAX: usize = 1024;

impl Given<'_> {
    /// Which page of the sessions is wanted.
    pub(super) fn session_query(&self) -> Result<SessionQuery, Close> {
        let after = self.optional_text("after")?.map(|after| after.parse()).transpose()?;
        let order = match self.optional_text("sort")? {
            None => SessionOrder::default(),
            Some(name) => {
                let known = SessionOrder::ALL.iter().find(|(known, _)| *known == name);
                let wrong = || {
                    let orders = SessionOrder::ALL.map(|(order, _)| order).join(", ");
                    bad(format!("`sort` is one of {orders}, not `{}`", short(&name)))
                };
                known.ok_or_else(wrong)?.1
            }
        };
        Ok(SessionQuery {
            filter: self.session_filter()?,
            order,
            after,
            limit: self.small("limit")?,
        })
    }

    /// Which sessions are meant.
    pub(super) fn session_filter(&self) -> Result<SessionFilter, Close> {
        Ok(SessionFilter {
            id: self.session_id("id")?,
            protocol: self.name("protocol")?,
            principal: self.name("principal")?,
            address: self.network()?,
            backlog: self.number("backlog")?.unwrap_or(0),
        })
    }

    /// Which sessions are to end.
    pub(super) fn kick(&self) -> Result<Kick, Close> {
        let filter = self.session_filter()?;
        if filter.is_empty() {
            return Err(bad(
                "`kick` wants to know which sessions: `id`, `protocol`, `principal`, `address` or `backlog`",
            ));
        }
        Ok(Kick { filter, dry_run: self.truth("dry_run")?, reason: self.reason()? })
    }

    /// A name that sessions may have. Filters are written into logs, so they are bounded.
    pub(super) fn name(&self, member: &str) -> Result<Option<Box<str>>, Close> {
        let Some(text) = self.optional_text(member)? else { return Ok(None) };
        if text.len() > NAME_BYTES_MAX {
            return Err(bad(format!("`{member}` has at most {NAME_BYTES_MAX} bytes")));
        }
        Ok(Some(text.as_ref().into()))
    }

    /// What an operator tells clients.
    pub(super) fn reason(&self) -> Result<Option<Box<str>>, Close> {
        let Some(text) = self.optional_text("reason")? else { return Ok(None) };
        if text.is_empty() || text.len() > REASON_BYTES_MAX || text.chars().any(char::is_control) {
            let most = REASON_BYTES_MAX;
            return Err(bad(format!("`reason` is one line of text, of at most {most} bytes")));
        }
        Ok(Some(text.as_ref().into()))
    }

    pub(super) fn session_id(&self, name: &str) -> Result<Option<SessionId>, Close> {
        let Some(text) = self.optional_text(name)? else { return Ok(None) };
        let wrong = || {
            let text = short(&text);
            bad(format!(
                "`{name}` is the id of a session as `sessions` lists it, such as 0-17-1, not `{text}`"
            ))
        };
        parse_session_id(&text).ok_or_else(wrong).map(Some)
    }

    pub(super) fn network(&self) -> Result<Option<Network>, Close> {
        let Some(text) = self.optional_text("address")? else { return Ok(None) };
        let wrong = |error| {
            bad(format!("`address` is an address, or a network such as 10.0.0.0/8: {error}"))
        };
        text.parse().map_err(wrong).map(Some)
    }

    pub(super) fn optional_text(
        &self,
        name: &str,
    ) -> Result<Option<std::borrow::Cow<'_, str>>, Close> {
        self.field(name).map(|_| self.text(name)).transpose()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use tiderace_base::{CloseCode, ShardId, Time};

    use super::*;
    use crate::{Operation, Reading};

    fn parsed(text: &str) -> Result<Operation, Close> {
        let (path, selector) = (|_: &str| unreachable!(), |_: &str| unreachable!());
        let reading = Reading { body: None, now: Time::ZERO, path: &path, selector: &selector };
        Operation::parse(text.as_bytes(), &reading)
    }

    #[test]
    fn a_list_of_sessions_is_asked_for_in_json() {
        let query = |text: &str| match parsed(text) {
            Ok(Operation::Sessions(query)) => *query,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(query(r#"{"do":"sessions"}"#), SessionQuery::default());
        let all = query(
            r#"{"do":"sessions","id":"1-2-3","protocol":"stomp","principal":"@shop/ann","address":"10.0.0.0/8","backlog":7,"sort":"id","after":"0-0-1-2-3","limit":9}"#,
        );
        let id = SessionId { shard: ShardId(1), slot: 2, generation: 3 };
        let filter = SessionFilter {
            id: Some(id),
            protocol: Some("stomp".into()),
            principal: Some("@shop/ann".into()),
            address: Some("10.0.0.0/8".parse().unwrap()),
            backlog: 7,
        };
        let after = Some("0-0-1-2-3".parse().unwrap());
        assert_eq!(all, SessionQuery { filter, order: SessionOrder::Id, after, limit: 9 });
    }

    #[test]
    fn a_kick_is_asked_for_in_json() {
        let text = r#"{"do":"kick","principal":"ann","reason":"too much","dry_run":true}"#;
        let Ok(Operation::Kick(kick)) = parsed(text) else { panic!("{text}") };
        let filter = SessionFilter { principal: Some("ann".into()), ..SessionFilter::default() };
        assert_eq!(*kick, Kick { filter, dry_run: true, reason: Some("too much".into()) });
    }

    #[test]
    fn what_means_no_session_is_refused() {
        for (text, says) in [
            (r#"{"do":"sessions","id":"x"}"#, "0-17-1"),
            (r#"{"do":"sessions","id":7}"#, "id"),
            (r#"{"do":"sessions","address":"example.org"}"#, "no IP address"),
            (r#"{"do":"sessions","address":"10.1.2.3/8"}"#, "10.0.0.0/8"),
            (r#"{"do":"sessions","sort":"name"}"#, "backlog, subscriptions, since, id"),
            (r#"{"do":"sessions","after":"0"}"#, "`next`"),
            (r#"{"do":"sessions","backlog":"7"}"#, "whole number"),
            (r#"{"do":"sessions","who":"ann"}"#, "principal"),
            (r#"{"do":"kick"}"#, "which sessions"),
            (r#"{"do":"kick","backlog":0}"#, "which sessions"),
            (r#"{"do":"kick","id":"0-1-1","reason":"a\nb"}"#, "one line"),
            (r#"{"do":"kick","id":"0-1-1","limit":5}"#, "dry_run"),
        ] {
            let refused = parsed(text).unwrap_err();
            assert_eq!(refused.code, CloseCode::BadOperation, "{text}");
            assert!(refused.reason.contains(says), "{text}: {}", refused.reason);
        }
    }
}
