//! Messages between shards: one single-producer ring per pair, whole batches per turn.
//!
//! Nothing here blocks or drops: what is under way to each shard is counted in bytes, and while any
//! shard is behind nobody reads connections. Messages themselves always move on, so that shards which are
//! behind with each other's messages cannot wait for each other. A shard is woken at most once per
//! sleep ([`crate::waker`]).

use std::sync::Arc;

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use tiderace_base::ShardId;
use tiderace_broker::Envelope;

use crate::client_session_ids::ClientSessionIdMessage;
use crate::connection::Connection;
use crate::h2::messages::{RemoteStreamId, RemoteStreamMessage};
use crate::options::ClientTls;
use crate::tls_sessions::Secured;
use crate::waker::Waker;

/// What one shard sends another.
pub(crate) enum ShardMessage<S> {
    /// From broker to broker.
    Broker(Envelope),
    /// A connection moves in that a stream of HTTP/2 of the sender's carries.
    RemoteRecord(Box<Connection<S>>, RemoteStreamId, Option<Arc<ClientTls>>),
    /// Between a stream of HTTP/2 and the connection it carries.
    RemoteStream(RemoteStreamMessage),
    /// A connection moves in, with its TLS session if it has one.
    Connection(Box<Connection<S>>, Option<Box<Secured>>),
    /// About the tokens by which clients name their sessions.
    ClientSessionId(Box<ClientSessionIdMessage>),
}

impl<S> ShardMessage<S> {
    /// What it tells the broker, if it is for it.
    pub(crate) fn for_broker(&self) -> Option<&Envelope> {
        match self {
            ShardMessage::Broker(message) => Some(message),
            _ => None,
        }
    }

    /// What it counts for, in bytes; the same for its sender and its receiver.
    pub(crate) fn weight(&self) -> usize {
        let bytes = match self {
            ShardMessage::Broker(message) => message.body.bytes(),
            ShardMessage::RemoteStream(message) => message.bytes(),
            ShardMessage::Connection(..) | ShardMessage::RemoteRecord(..) => 0,
            ShardMessage::ClientSessionId(message) => message.bytes(),
        };
        bytes + MESSAGE_BYTES
    }
}

type Batch<S> = Vec<ShardMessage<S>>;

/// One shard's rings, to and from every other.
pub(crate) struct Post<S> {
    me: ShardId,
    wakers: Arc<[Waker]>,
    incoming: Vec<Option<Consumer<Batch<S>>>>,
    outgoing: Vec<Option<Producer<Batch<S>>>>,
    unsent: Vec<Batch<S>>,
    /// Bytes of `unsent` that the receivers' wakers do not count yet.
    uncounted: Vec<usize>,
    /// Whether any batch of `unsent` is not empty.
    pending: bool,
    /// Bytes of messages that were under way when the turn began and that were sent since.
    bytes: usize,
}

impl<S> Post<S> {
    /// The rings of a whole node, one value per shard.
    pub(crate) fn network(wakers: &Arc<[Waker]>) -> Vec<Post<S>> {
        let shards = wakers.len();
        let mut posts: Vec<Post<S>> = (0..shards)
            .map(|shard| Post {
                me: ShardId(shard as u16),
                wakers: Arc::clone(wakers),
                incoming: (0..shards).map(|_| None).collect(),
                outgoing: (0..shards).map(|_| None).collect(),
                unsent: (0..shards).map(|_| Vec::new()).collect(),
                uncounted: vec![0; shards],
                pending: false,
                bytes: 0,
            })
            .collect();
        for from in 0..shards {
            for to in (0..shards).filter(|to| *to != from) {
                let (producer, consumer) = RingBuffer::new(RING_BATCHES);
                if let Some(slot) = posts.get_mut(from).and_then(|p| p.outgoing.get_mut(to)) {
                    *slot = Some(producer);
                }
                if let Some(slot) = posts.get_mut(to).and_then(|p| p.incoming.get_mut(from)) {
                    *slot = Some(consumer);
                }
            }
        }
        posts
    }

    /// The way into this shard.
    pub(crate) fn waker(&self) -> Option<&Waker> {
        self.wakers.get(self.me.index())
    }

    /// Keeps a message for the next [`Post::flush`].
    pub(crate) fn send(&mut self, to: ShardId, message: ShardMessage<S>) {
        if let Some(batch) = self.unsent.get_mut(to.index())
            && let Some(uncounted) = self.uncounted.get_mut(to.index())
        {
            let weight = message.weight();
            *uncounted += weight;
            self.bytes += weight;
            batch.push(message);
            self.pending = true;
        }
    }

    /// A turn begins: counts anew what is under way.
    pub(crate) fn begin_turn(&mut self) {
        let all = self.wakers.iter().map(|waker| waker.under_way());
        self.bytes = all.sum::<usize>() / self.wakers.len().max(1);
    }

    /// Bytes of messages on their way: this shard's part of those of all when the turn began, and those it
    /// has sent since.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sends what is kept; false if a ring was full.
    pub(crate) fn flush(&mut self) -> bool {
        if !self.pending {
            return true;
        }
        self.pending = false;
        let unsent = self.unsent.iter_mut().zip(&mut self.uncounted);
        for (((batch, uncounted), waker), ring) in
            unsent.zip(self.wakers.iter()).zip(&mut self.outgoing)
        {
            let weight = std::mem::take(uncounted);
            let Some(ring) = ring else {
                batch.clear();
                continue;
            };
            if batch.is_empty() {
                continue;
            }
            if ring.is_abandoned() {
                // The shard is gone for good, and its connections with it.
                batch.clear();
                waker.forget_messages();
                continue;
            }
            // Before the push, or the receiver could take away what was not counted yet.
            waker.add_bytes(weight);
            if let Err(PushError::Full(kept)) = ring.push(std::mem::take(batch)) {
                *batch = kept;
                self.pending = true;
            }
            waker.wake();
        }
        !self.pending
    }

    /// Whether some shard has so many bytes to handle that no shard should read.
    pub(crate) fn is_behind(&self) -> bool {
        self.wakers.iter().any(|waker| waker.under_way() > UNDER_WAY_BYTES_MAX)
    }

    /// Messages kept for the next [`Post::flush`].
    pub(crate) fn kept(&self) -> usize {
        self.unsent.iter().map(Vec::len).sum()
    }

    /// Whether a ring was full.
    pub(crate) fn has_unsent(&self) -> bool {
        self.pending
    }

    /// Takes the batches that are there, in rising order of their senders. Each message is followed
    /// by [`Post::handled`] when it has been dealt with.
    pub(crate) fn receive(&mut self, mut handle: impl FnMut(ShardId, ShardMessage<S>)) {
        for (from, ring) in self.incoming.iter_mut().enumerate() {
            let Some(ring) = ring else { continue };
            // Only what is there now: a busy sender must not keep this shard in the loop.
            for _ in 0..ring.slots() {
                let Ok(batch) = ring.pop() else { break };
                for message in batch {
                    handle(ShardId(from as u16), message);
                }
            }
        }
    }

    /// Messages of so many bytes have been handled: those who waited for that may read again, while
    /// this shard is still busy with the rest.
    pub(crate) fn handled(&self, weight: usize) {
        let Some(waker) = self.waker().filter(|_| weight > 0) else {
            return;
        };
        let before = waker.remove_bytes(weight);
        if before > UNDER_WAY_BYTES_LOW && before - weight <= UNDER_WAY_BYTES_LOW {
            for other in self.wakers.iter() {
                other.wake();
            }
        }
    }

    /// Announces that the shard will sleep; false if there is something to do after all.
    /// `reads_wait` says that it would read if no shard were behind.
    pub(crate) fn park(&self, reads_wait: bool) -> bool {
        let Some(waker) = self.waker() else {
            return true;
        };
        waker.park();
        !self.has_messages() && (!reads_wait || self.is_behind())
    }

    /// Whether messages or notices wait.
    pub(crate) fn has_messages(&self) -> bool {
        self.waker().is_some_and(|waker| waker.has_notices())
            || self.incoming.iter().flatten().any(|ring| !ring.is_empty())
    }

    /// Ends [`Post::park`].
    pub(crate) fn unpark(&self) {
        if let Some(waker) = self.waker() {
            waker.unpark();
        }
    }
}

/// Batches a ring holds; bytes run out long before, unless they are tiny.
const RING_BATCHES: usize = 256;
/// Messages on their way to one shard, in bytes, beyond which nobody reads. A subscriber's backlog may grow
/// by twice that and two turns' worth of reading before its publishers hear that they are to wait:
/// far less than the broker lets it grow before it drops messages.
const UNDER_WAY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Messages on their way to one shard below which those who sleep until they may read are woken: early
/// enough that the shard does not run out of work meanwhile, late enough to be worth their while.
const UNDER_WAY_BYTES_LOW: usize = UNDER_WAY_BYTES_MAX / 2;
/// What a message counts for beyond its messages.
const MESSAGE_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tiderace_base::SessionId;
    use tiderace_broker::Principal;

    use crate::driver::Wake;
    use crate::waker::{Answer, Notice};

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Arc<Bell> {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn network(shards: usize) -> (Vec<Post<usize>>, Vec<Arc<Bell>>) {
        let bells: Vec<Arc<Bell>> = (0..shards).map(|_| Arc::default()).collect();
        let wakers = bells.iter().map(|bell| Waker::new(Arc::new(Arc::clone(bell)))).collect();
        (Post::network(&wakers), bells)
    }

    fn message(number: usize) -> ShardMessage<usize> {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        ShardMessage::Connection(
            Box::new(Connection::new(number, peer, 0, tiderace_base::Time::ZERO)),
            None,
        )
    }

    fn numbers(post: &mut Post<usize>) -> Vec<(u16, usize)> {
        let mut found = Vec::new();
        post.receive(|from, message| match message {
            ShardMessage::Connection(connection, _) => {
                found.extend(connection.stream.map(|it| (from.0, it)))
            }
            ShardMessage::Broker(_)
            | ShardMessage::RemoteRecord(..)
            | ShardMessage::RemoteStream(_)
            | ShardMessage::ClientSessionId(_) => {}
        });
        found
    }

    #[test]
    fn a_full_ring_keeps_messages_in_order() {
        let (mut posts, _) = network(2);
        let mut sent = 0;
        while posts[0].flush() {
            for _ in 0..3 {
                posts[0].send(ShardId(1), message(sent));
                sent += 1;
            }
            assert!(sent < 10_000, "rings are bounded");
        }
        assert!(posts[0].has_unsent());
        assert_eq!(posts[0].kept(), 3);
        posts[0].send(ShardId(1), message(sent));
        assert_eq!(posts[0].kept(), 4);
        let mut received = numbers(&mut posts[1]);
        assert!(posts[0].flush());
        assert_eq!(posts[0].kept(), 0);
        received.extend(numbers(&mut posts[1]));
        let expected: Vec<(u16, usize)> = (0..=sent).map(|number| (0, number)).collect();
        assert_eq!(received, expected);
    }

    #[test]
    fn a_sleeping_shard_is_woken_once() {
        let (mut posts, bells) = network(3);
        let rung = || bells[2].0.load(Ordering::Relaxed);
        posts[0].send(ShardId(2), message(1));
        posts[0].flush();
        assert_eq!(rung(), 0, "it is awake");
        assert!(!posts[2].park(false), "there is a message");
        posts[2].unpark();
        assert_eq!(numbers(&mut posts[2]), [(0, 1)]);
        assert!(posts[2].park(false));
        for from in [0, 1, 0] {
            posts[from].send(ShardId(2), message(from));
            posts[from].flush();
        }
        assert_eq!(rung(), 1);
        posts[2].unpark();
        assert_eq!(numbers(&mut posts[2]), [(0, 0), (0, 0), (1, 1)]);
    }

    #[test]
    fn a_shard_that_waits_to_read_is_woken_when_nobody_is_behind() {
        let (mut posts, bells) = network(3);
        let rung = |shard: usize| bells[shard].0.load(Ordering::Relaxed);
        for number in 0..=UNDER_WAY_BYTES_MAX / MESSAGE_BYTES {
            assert!(!posts[0].is_behind());
            posts[1].send(ShardId(2), message(number));
        }
        assert!(posts[1].flush());
        assert!(posts[0].is_behind());
        assert!(posts[0].park(true), "it waits for shard 2");
        let weight = numbers(&mut posts[2]).len() * MESSAGE_BYTES;
        posts[2].handled(weight / 4);
        assert_eq!(rung(0), 0, "not before enough is handled");
        posts[2].handled(weight / 2);
        assert_eq!(rung(0), 1);
        posts[0].unpark();
        assert!(!posts[0].is_behind());
        assert!(!posts[0].park(true), "it reads now");
        assert!(posts[0].park(false));
    }

    #[test]
    fn a_login_is_answered_once_even_if_forgotten() {
        let (posts, _) = network(1);
        let session = SessionId { shard: ShardId(0), slot: 1, generation: 2 };
        let waker = posts[0].waker().unwrap();
        Answer::new(session, Arc::clone(&posts[0].wakers)).send(Ok(Principal::anonymous()));
        drop(Answer::new(session, Arc::clone(&posts[0].wakers)));
        let notices = waker.take_notices();
        let accepted: Vec<bool> = notices
            .iter()
            .map(|notice| matches!(notice, Notice::Verified(decided) if decided.result.is_ok()))
            .collect();
        assert_eq!(accepted, [true, false]);
        assert!(waker.take_notices().is_empty());
    }
}
