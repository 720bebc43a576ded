//! Durable subscriptions: queues that topics feed, and their names.
//!
//! A durable subscription is the queue `dsub/NAME` with patterns of topics: what is published to these is put there,
//! whether anybody is connected or not. Consumers share its messages, and what is done with queues is done with it. Relies on paths.
//! Invariant: the queue of a subscription, and nothing else, has a path below `dsub`.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode};
use tiderace_filter::Selector;
use tiderace_topics::{Path, Pattern};

/// The queues of durable subscriptions lie below this.
pub const DURABLE: &str = "dsub";

/// Patterns of one durable subscription, at most.
pub const DURABLE_TOPICS_MAX: usize = 64;

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 256;

/// The property of a message of a durable subscription that says to which topic it was published.
pub const SOURCE_TOPIC: &str = "source-topic";

/// What a durable subscription is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableSubscription {
    /// Its queue.
    pub queue: Path,
    /// The topics that feed it.
    pub topics: Vec<Pattern>,
    /// Only messages that match.
    pub selector: Option<Selector>,
}

impl DurableSubscription {
    /// Bytes of its texts.
    pub fn bytes(&self) -> usize {
        let topics: usize = self.topics.iter().map(|topic| topic.as_str().len()).sum();
        let selector = self.selector.as_ref().map_or(0, |selector| selector.text().len());
        self.queue.as_str().len() + topics + selector
    }

    /// Its topics, as they are shown.
    pub fn topics_text(&self) -> Arc<str> {
        let topics: Vec<&str> = self.topics.iter().map(Pattern::as_str).collect();
        topics.join(",").into()
    }

    /// Its selector, as it is shown.
    pub fn selector_text(&self) -> Option<Arc<str>> {
        self.selector.as_ref().map(|selector| selector.text().into())
    }
}

/// Whether a path is that of a durable subscription's queue.
#[inline]
pub fn is_durable(path: &Path) -> bool {
    let rest = path.as_str().strip_prefix(DURABLE);
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// The queue of the durable subscription of that name.
///
/// # Errors
/// When it cannot be a name.
pub fn durable_queue(name: &str) -> Result<Path, Close> {
    let wrong = |why: String| {
        let reason = format!("a durable subscription cannot have that name: {why}");
        Close::new(CloseCode::BadOperation, reason)
    };
    if name.len() > NAME_BYTES_MAX {
        let bytes = name.len();
        return Err(wrong(format!("it has {bytes} bytes, at most {NAME_BYTES_MAX} do")));
    }
    // By itself first, since errors count its levels.
    let path = Path::parse(name).and_then(|_| Path::parse(&format!("{DURABLE}/{name}")));
    path.map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::{Operation, Reading};
    use tiderace_base::Time;

    #[test]
    fn the_queue_of_a_subscription_lies_below_a_prefix() {
        for (name, queue) in [("audit", "dsub/audit"), ("a/b", "dsub/a/b")] {
            let path = durable_queue(name).unwrap();
            assert_eq!((path.as_str(), is_durable(&path)), (queue, true));
        }
        for name in ["", "/a", "a//b", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert_eq!(durable_queue(name).unwrap_err().code, CloseCode::BadOperation, "{name}");
        }
        for path in ["dsub", "dsubs/a", "queue/dsub/a"] {
            assert!(!is_durable(&Path::parse(path).unwrap()), "{path}");
        }
    }

    fn parsed(text: &str) -> Result<Operation, Close> {
        let pattern = |text: &str| Ok(vec![Pattern::parse(text).unwrap()]);
        let reading = Reading {
            body: None,
            now: Time::ZERO,
            path: &|text| crate::parse_path(text, None),
            selector: &pattern,
        };
        Operation::parse(text.as_bytes(), &reading)
    }

    #[test]
    fn subscriptions_are_made_and_ended_by_operations() {
        let text = r#"{"do":"create-subscription","name":"audit","topics":["fx/**","gold"],"selector":"side = 'buy'"}"#;
        let Ok(Operation::CreateSubscription(made)) = parsed(text) else { panic!("{text}") };
        assert_eq!(made.queue.as_str(), "dsub/audit");
        assert_eq!(&*made.topics_text(), "fx/**,gold");
        assert_eq!(made.selector.unwrap().text(), "side = 'buy'");
        let text = r#"{"do":"create-subscription","name":"a","topics":"x/*"}"#;
        let Ok(Operation::CreateSubscription(made)) = parsed(text) else { panic!("{text}") };
        assert_eq!((made.topics.len(), made.selector), (1, None));
        let text = r#"{"do":"delete-subscription","name":"a"}"#;
        let Ok(Operation::DeleteSubscription { queue }) = parsed(text) else { panic!("{text}") };
        assert_eq!(queue.as_str(), "dsub/a");
    }

    #[test]
    fn what_is_no_subscription_is_refused_and_told_why() {
        let many = format!("[{}]", vec![r#""a""#; DURABLE_TOPICS_MAX + 1].join(","));
        for topics in ["7", "[]", "[7]", &many] {
            let text = format!(r#"{{"do":"create-subscription","name":"a","topics":{topics}}}"#);
            let close = parsed(&text).unwrap_err();
            assert_eq!(close.code, CloseCode::BadOperation, "{text}");
            assert!(close.reason.contains("topics"), "{}", close.reason);
        }
        // All topics together may have as many regular expressions as one selector.
        let levels = ["(a|b|[c-x]{6}){6}"; 12].join("/");
        let list = |count| {
            let topics: Vec<_> = (0..count).map(|it| format!(r#""?{it}/{levels}""#)).collect();
            let topics = topics.join(",");
            parsed(&format!(r#"{{"do":"create-subscription","name":"a","topics":[{topics}]}}"#))
        };
        assert!(list(8).is_ok());
        let refused = list(DURABLE_TOPICS_MAX).unwrap_err();
        assert!(refused.to_string().contains("regular expressions"), "{refused}");
        assert!(parsed(r#"{"do":"create-subscription","name":"a"}"#).is_err());
        assert!(parsed(r#"{"do":"create-subscription","topics":"a"}"#).is_err());
    }
}
