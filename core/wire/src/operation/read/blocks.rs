//! The operations on blocks, read.

use tiderace_base::Close;

use super::{Given, bad};
use crate::operation::blocks::{
    BLOCK_TIME_DEFAULT, BLOCK_TIME_MAX, Block, BlockOperation, BlockQuery, Blocked,
};

impl Given<'_> {
    /// The operation of that name, if it is one on blocks.
    pub(super) fn block_operation(&self, what: &str) -> Result<Option<BlockOperation>, Close> {
        Ok(Some(match what {
            "block" => BlockOperation::Block(self.block()?),
            "unblock" => BlockOperation::Unblock(self.blocked("unblock")?),
            "blocks" => {
                let after = self.optional_text("after")?.map(|after| after.parse()).transpose()?;
                BlockOperation::List(BlockQuery { after, limit: self.small("limit")? })
            }
            _ => return Ok(None),
        }))
    }

    fn block(&self) -> Result<Block, Close> {
        let who = self.blocked("block")?;
        let lasts = self.span("for")?.unwrap_or(BLOCK_TIME_DEFAULT);
        if lasts.is_zero() || lasts > BLOCK_TIME_MAX {
            return Err(bad("`for` is how long the block lasts, such as \"1h\": at most 30 days"));
        }
        let (force, dry_run) = (self.truth("force")?, self.truth("dry_run")?);
        Ok(Block { who, lasts, reason: self.reason()?, force, dry_run })
    }

    fn blocked(&self, what: &str) -> Result<Blocked, Close> {
        match (self.network()?, self.name("principal")?) {
            (Some(network), None) => Ok(Blocked::Address(network)),
            (None, Some(name)) if !name.is_empty() => Ok(Blocked::Principal(name)),
            _ => Err(bad(format!("`{what}` wants to know who: one of `principal` and `address`"))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use tiderace_base::{CloseCode, Span, Time};

    use super::*;
    use crate::{Operation, Reading};

    fn parsed(text: &str) -> Result<BlockOperation, Close> {
        let (path, selector) = (|_: &str| unreachable!(), |_: &str| unreachable!());
        let reading = Reading { body: None, now: Time::ZERO, path: &path, selector: &selector };
        match Operation::parse(text.as_bytes(), &reading)? {
            Operation::Blocks(asked) => Ok(*asked),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn blocks_are_asked_for_in_json() {
        let ann = Blocked::Principal("ann".into());
        let network = Blocked::Address("10.0.0.0/8".parse().unwrap());
        let block = |who: &Blocked, lasts, reason: Option<&str>, force, dry_run| {
            let (who, reason) = (who.clone(), reason.map(Into::into));
            BlockOperation::Block(Block { who, lasts, reason, force, dry_run })
        };
        let hour = Span::from_secs(3600);
        for (text, expected) in [
            (r#"{"do":"block","principal":"ann"}"#, block(&ann, hour, None, false, false)),
            (
                r#"{"do":"block","address":"10.0.0.0/8","for":"30d","reason":"no","force":true,"dry_run":true}"#,
                block(&network, Span::from_secs(30 * 86_400), Some("no"), true, true),
            ),
            (
                r#"{"do":"unblock","address":"10.0.0.0/8"}"#,
                BlockOperation::Unblock(network.clone()),
            ),
            (r#"{"do":"blocks"}"#, BlockOperation::List(BlockQuery::default())),
            (
                r#"{"do":"blocks","after":"principal=ann","limit":7}"#,
                BlockOperation::List(BlockQuery { after: Some(ann.clone()), limit: 7 }),
            ),
        ] {
            assert_eq!(parsed(text).unwrap(), expected, "{text}");
        }
        // An address within IPv6 is the one of IPv4.
        let mapped = parsed(r#"{"do":"unblock","address":"::ffff:10.1.2.3"}"#).unwrap();
        assert_eq!(mapped, BlockOperation::Unblock("address=10.1.2.3".parse().unwrap()));
    }

    #[test]
    fn what_means_nobody_is_refused() {
        for (text, says) in [
            (r#"{"do":"block"}"#, "one of `principal` and `address`"),
            (r#"{"do":"block","principal":""}"#, "one of `principal` and `address`"),
            (r#"{"do":"block","principal":"a","address":"::1"}"#, "one of `principal`"),
            (r#"{"do":"block","address":"0.0.0.0/0"}"#, "every address"),
            (r#"{"do":"block","address":"example.org"}"#, "no IP address"),
            (r#"{"do":"block","principal":"a","for":"31d"}"#, "30 days"),
            (r#"{"do":"block","principal":"a","for":0}"#, "30 days"),
            (r#"{"do":"block","principal":"a","for":"soon"}"#, "`for`"),
            (r#"{"do":"block","principal":"a","reason":"a\nb"}"#, "one line"),
            (r#"{"do":"unblock"}"#, "`unblock` wants to know who"),
            (r#"{"do":"unblock","principal":"a","for":"1h"}"#, "for"),
            (r#"{"do":"blocks","after":"x"}"#, "`next`"),
        ] {
            let refused = parsed(text).unwrap_err();
            assert_eq!(refused.code, CloseCode::BadOperation, "{text}");
            assert!(refused.reason.contains(says), "{text}: {}", refused.reason);
        }
    }
}
