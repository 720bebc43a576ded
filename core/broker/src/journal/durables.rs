//! What the store is told of a durable subscription: the description of its queue.
//!
//! Relies on nothing. Invariants: what is written is read back; what is not understood is not read at all, and stays in
//! the store.

use std::sync::Arc;

use tiderace_filter::Selector;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{DURABLE_TOPICS_MAX, DurableSubscription};

use super::codec::Fields;
use super::queues::QUEUE_FORM;
use crate::durables::Durable;

/// The form of the descriptions of queues that topics feed.
const FORM: u8 = 2;

/// What the store is told that a queue is: what feeds it, if somebody has made it a durable subscription, and who owns
/// it.
pub(crate) fn describe_queue(durable: Option<&Durable>, owner: Option<&Arc<str>>) -> Vec<u8> {
    let made = durable.and_then(|durable| Some((&durable.about, durable.owner.as_deref()?)));
    if let Some((about, owner)) = made {
        return describe_durable(about, owner);
    }
    let mut out = vec![QUEUE_FORM];
    out.extend(owner.into_iter().flat_map(|owner| owner.bytes()));
    out
}

/// Who owns a queue, or has made a durable subscription, by its description in the store.
pub fn queue_owner(description: &[u8]) -> Option<Arc<str>> {
    read_owner(description).unwrap_or_else(|| {
        let mut fields = Fields(description);
        (fields.byte()? == FORM).then_some(())?;
        let length = u32::from_le_bytes(*fields.array()?);
        let owner = fields.take(usize::try_from(length).ok()?)?;
        Some(account_of(std::str::from_utf8(owner).ok()?).into())
    })
}

/// In whose account the queue of a durable subscription counts: those of one name in several virtual hosts make their
/// subscriptions apart, but names of users are unique in the server, and so are accounts.
pub(crate) fn account_of(owner: &str) -> &str {
    let of_host = owner.strip_prefix('@').and_then(|rest| rest.split_once('/'));
    of_host.map_or(owner, |(_, name)| name)
}

/// Who owns a queue that nothing feeds, if its description is understood.
pub(crate) fn read_owner(description: &[u8]) -> Option<Option<Arc<str>>> {
    let owner = std::str::from_utf8(description.strip_prefix(&[QUEUE_FORM])?).ok()?;
    Some((!owner.is_empty()).then(|| owner.into()))
}

fn describe_durable(about: &DurableSubscription, owner: &str) -> Vec<u8> {
    let mut out = vec![FORM];
    let mut text = |text: &str| {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    };
    text(owner);
    text(about.selector.as_ref().map_or("", |selector| selector.text()));
    about.topics.iter().for_each(|topic| text(topic.as_str()));
    out
}

/// The durable subscription that a description says, and who made it; absent if it says none that is understood.
pub(crate) fn read_durable(
    path: &Path,
    description: &[u8],
) -> Option<(DurableSubscription, Arc<str>)> {
    let mut fields = Fields(description);
    if fields.byte()? != FORM {
        return None;
    }
    let mut text = || {
        let length = u32::from_le_bytes(*fields.array()?);
        let bytes = fields.take(usize::try_from(length).ok()?)?;
        Some((std::str::from_utf8(bytes).ok()?, fields.0.is_empty()))
    };
    let (owner, _) = text()?;
    let selector = match text()? {
        ("", _) => None,
        (selector, _) => Some(Selector::parse(selector).ok()?),
    };
    let mut topics = Vec::new();
    loop {
        let (topic, is_last) = text()?;
        topics.push(Pattern::parse(topic).ok()?);
        if is_last {
            break;
        }
        if topics.len() == DURABLE_TOPICS_MAX {
            return None;
        }
    }
    Some((DurableSubscription { queue: path.clone(), topics, selector }, owner.into()))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_account_is_a_users_in_all_virtual_hosts() {
        assert_eq!(["ann", "@shop/ann", "@ann"].map(account_of), ["ann", "ann", "@ann"]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            owner in ".{0,20}",
            topics in proptest::collection::vec("[a-z]{1,5}(/[a-z*]{1,5}){0,3}", 1..5),
            selector in proptest::option::of("[a-z]{2,5}x = '[a-z]{0,9}'"),
        ) {
            let queue = Path::parse("dsub/a").unwrap();
            let topics: Vec<_> = topics.iter().filter_map(|it| Pattern::parse(it).ok()).collect();
            prop_assume!(!topics.is_empty());
            let selector = selector.map(|text| Selector::parse(&text).unwrap());
            let about = DurableSubscription { queue: queue.clone(), topics, selector };
            let bytes = describe_durable(&about, &owner);
            let read = read_durable(&queue, &bytes);
            let account = queue_owner(&bytes);
            prop_assert_eq!(account.as_deref(), Some(account_of(&owner)));
            prop_assert_eq!(read, Some((about.clone(), Arc::from(owner.as_str()))));
            for cut in 0..bytes.len() {
                if let Some((cut, _)) = read_durable(&queue, bytes.get(..cut).unwrap()) {
                    // It ends between two topics.
                    prop_assert!(about.topics.starts_with(&cut.topics) && cut.topics != about.topics);
                }
            }
        }

        #[test]
        fn anything_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let queue = Path::parse("dsub/a").unwrap();
            let mut formed = vec![FORM];
            formed.extend_from_slice(&bytes);
            let _ = (read_durable(&queue, &bytes), read_durable(&queue, &formed));
            let _ = (queue_owner(&bytes), queue_owner(&formed));
        }
    }
}
