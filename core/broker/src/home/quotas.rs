//! What a home refuses because a queue, or its owner, has as much as it may, and what is said then.
//!
//! Relies on the queues for what they have. Invariant: what is refused here has changed nothing.

use tiderace_base::{Close, CloseCode};
use tiderace_queues::{Consume, OverQuota, Refusal};
use tiderace_topics::Path;
use tiderace_wire::{Kind, Run, Target};

use super::Home;
use crate::BrokerOptions;
use crate::collections::Map;
use crate::maker::Maker;
use crate::messages::ToHome;
use crate::publisher::Recipients;
use crate::runs::size_of_run;

impl Home {
    /// Whether a queue takes so many more messages with so many bytes, and may be made if it is not there.
    ///
    /// # Errors
    /// Says why it does not.
    #[inline]
    pub(crate) fn check_room(
        &self,
        path: &Path,
        (more, are_alone): ((usize, usize), bool),
        maker: Maker<'_>,
        options: &BrokerOptions,
    ) -> Result<(), Close> {
        let refusal = self.queues.refusal(path, (more, are_alone), maker, options);
        refusal.map_or(Ok(()), |refusal| Err(refused(path, refusal)))
    }

    /// Whether the queues of a transaction take all that it publishes.
    ///
    /// # Errors
    /// Says why the first that has no room does not.
    pub(crate) fn check_room_together(
        &self,
        parts: &[(ToHome, Recipients)],
        options: &BrokerOptions,
    ) -> Result<(), Close> {
        let all = sizes_by_queue(parts);
        let mut paths = published(parts).map(|(run, maker)| (&run.destination().path, maker));
        paths.try_for_each(|(path, maker)| match all.get(path) {
            Some((messages, bytes, runs)) => {
                self.check_room(path, ((*messages, *bytes), *runs == 1), maker, options)
            }
            None => Ok(()),
        })
    }

    /// Whether a queue may be made that is to be empty.
    ///
    /// # Errors
    /// When its owner has as many as it may.
    pub(crate) fn check_new_queue(
        &self,
        path: &Path,
        maker: Maker<'_>,
        options: &BrokerOptions,
    ) -> Result<(), Close> {
        if self.queues.has(path) {
            return Ok(());
        }
        let over = self.queues.refuses_queue(path, maker, options);
        over.map_or(Ok(()), |over| Err(owner_full(path, over)))
    }

    /// Whether somebody may consume, whose queue is made if it is not there.
    ///
    /// # Errors
    /// When its owner has as many as it may.
    pub(crate) fn check_consumer(
        &self,
        consume: &Consume,
        options: &BrokerOptions,
    ) -> Result<(), Close> {
        let Target::Exact(queue) = &consume.target else { return Ok(()) };
        if consume.browsing.is_some() {
            return Ok(());
        }
        self.check_new_queue(&queue.path, consume.owner.as_ref(), options)
    }
}

#[cold]
fn refused(path: &Path, refusal: Refusal) -> Close {
    let (messages, bytes) = match refusal {
        Refusal::Full(messages, bytes) => (messages, bytes),
        Refusal::Owner(over) => return owner_full(path, over),
    };
    let reason = format!(
        "the queue {path} is full: it has {messages} messages of {bytes} bytes. Send again when consumers have taken some"
    );
    Close::new(CloseCode::QueueFull, reason)
}

/// How much its owner has is no business of who merely sends there.
#[cold]
fn owner_full(path: &Path, over: OverQuota) -> Close {
    let reason = match over {
        OverQuota::Bytes(_, most) => format!(
            "the queue {path} takes no more: all queues of its owner together may hold {most} bytes of messages \
             (`queues.principal_bytes_max`). Send again when consumers have taken some from any of them"
        ),
        OverQuota::Queues(most) => format!(
            "the queue {path} is not made: its owner would have more than {most} queues at one shard \
             (`queues.principal_queues_max`). Use fewer, or wait until some that nobody uses are gone"
        ),
    };
    Close::new(CloseCode::AccountFull, reason)
}

/// What sessions publish in a transaction.
fn published(parts: &[(ToHome, Recipients)]) -> impl Iterator<Item = (&Run, Maker<'_>)> {
    parts.iter().filter_map(|(part, _)| match part {
        ToHome::Publish { run, origin: Some(_), author, .. } => Some((&**run, author.as_ref())),
        _ => None,
    })
}

/// Messages, bytes and runs of that for each queue.
fn sizes_by_queue(parts: &[(ToHome, Recipients)]) -> Map<&Path, (usize, usize, usize)> {
    let mut all: Map<&Path, (usize, usize, usize)> = Map::default();
    for (run, _) in published(parts).filter(|(run, _)| run.destination().kind == Kind::Queue) {
        let (messages, bytes) = size_of_run(run);
        let known = all.entry(&run.destination().path).or_default();
        *known = (known.0 + messages, known.1 + bytes, known.2 + 1);
    }
    all
}
