//! What a home refuses because a queue, or its owner, has as much as it may, and what is said then.
//!
//! Relies on the queues for what they have. Invariant: what is refused here has changed nothing.

use tiderace_base::{Close, CloseCode};
use tiderace_queues::{Consume, OverQuota, Refusal};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, Run, Target};

use super::Home;
use crate::BrokerOptions;
use crate::collections::Map;
use crate::maker::Maker;
use crate::messages::ToHome;
use crate::publisher::Recipients;
use crate::runs::size_of_run;

/// What a transaction publishes to one queue.
struct Part<'a> {
    path: &'a Path,
    maker: Maker<'a>,
    /// Messages and bytes.
    size: (usize, usize),
    runs: usize,
}

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

    /// Whether a queue takes messages of another one, which that owner has.
    ///
    /// # Errors
    /// Says why it does not.
    pub(crate) fn check_room_for_moved(
        &self,
        run: &Run,
        (owner, mover): (Maker<'_>, Maker<'_>),
        options: &BrokerOptions,
    ) -> Result<(), Close> {
        let path = &run.destination().path;
        let of = |path: &Path| options.queue_of(path, mover);
        let refusal = self.queues.refusal_of_moved(path, size_of_run(run), owner, of);
        refusal.map_or(Ok(()), |refusal| Err(refused(path, refusal)))
    }

    /// Whether the queues of a transaction take all that it publishes, and their owners may have it all. What a queue
    /// of it drops for that is not asked for.
    ///
    /// # Errors
    /// Says why the first that has no room does not.
    pub(crate) fn check_room_together(
        &self,
        parts: &[(ToHome, Recipients)],
        options: &BrokerOptions,
    ) -> Result<(), Close> {
        let all = self.sizes_by_queue(parts, options);
        for Part { path, maker, size, runs } in &all {
            self.check_room(path, (*size, *runs == 1), *maker, options)?;
        }
        // A session has one name, so who makes one of them makes all.
        let maker = all.iter().find_map(|part| part.maker);
        let sizes = all.iter().map(|part| (part.path, part.size.1, part.size.0));
        let over = self.queues.refuses_together(sizes, |path| options.queue_of(path, maker));
        over.map_or(Ok(()), |(path, over)| Err(owner_full(path, over)))
    }

    /// What sessions publish in a transaction to each queue, by itself or to the topic that feeds it.
    fn sizes_by_queue<'a>(
        &self,
        parts: &'a [(ToHome, Recipients)],
        options: &BrokerOptions,
    ) -> Vec<Part<'a>> {
        let mut all: Vec<Part<'a>> = Vec::new();
        let mut places: Map<&Path, usize> = Map::default();
        for (run, maker) in published(parts) {
            let Destination { kind, path } = run.destination();
            let place = places.get(path).copied();
            let has_queue = || place.is_some() || self.queues.has(path);
            if *kind != Kind::Queue && !(options.mirrors(path) && has_queue()) {
                continue;
            }
            let (messages, bytes) = size_of_run(run);
            match place.and_then(|place| all.get_mut(place)) {
                Some(part) => {
                    part.size = (part.size.0 + messages, part.size.1 + bytes);
                    part.runs += 1;
                }
                None => {
                    places.insert(path, all.len());
                    all.push(Part { path, maker, size: (messages, bytes), runs: 1 });
                }
            }
        }
        all
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
        ToHome::PublishAsOwner { run, author, .. } => Some((&**run, Some(author))),
        _ => None,
    })
}
