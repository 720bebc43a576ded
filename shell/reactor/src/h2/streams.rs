//! The streams of a shard's HTTP/2 connections, and the ends, here, of those of other shards.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tiderace_base::limits::COPY_BYTES_MAX;
use tiderace_base::{Key, ShardId, Slab};
use tiderace_http2::{AnswerHead, Body, Received, Sending, Stream};
use tiderace_wire::OutQueue;

use crate::h2::messages::{RemoteStreamId, RemoteStreamMessage};
use crate::mailbox::{Post, ShardMessage};
use crate::options::ClientTls;

/// The streams of HTTP/2 of a shard.
#[derive(Debug, Default)]
pub(crate) struct H2Streams {
    pub(crate) slab: Slab<H2Stream>,
    /// The ends, here, of streams of other shards.
    pub(crate) remote_streams: Slab<RemoteStream>,
    /// By the slot of the record that each carries.
    pub(crate) places: HashMap<u32, Place>,
}

/// What carries a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    H2Stream(Key),
    RemoteStream(Key),
}

/// One stream of an HTTP/2 connection.
#[derive(Debug)]
pub(crate) struct H2Stream {
    /// The record that it carries, or where that went.
    pub(crate) end: End,
    /// What has come and was not read.
    pub(crate) inbox: Vec<u8>,
    /// Bytes of the client's window that are to be given back when the inbox is read.
    pub(crate) owed: usize,
    /// Bytes of its record's queue that the HTTP/2 connection counts.
    pub(crate) counted: usize,
    /// Whether the client has said all.
    pub(crate) is_ended: bool,
    /// Whether that is an end for the record: that of a request is none.
    pub(crate) is_duplex: bool,
    /// The record of the HTTP/2 connection, and the place among its streams.
    pub(crate) h2: Key,
    pub(crate) place: usize,
    pub(crate) body: Body,
    pub(crate) stream: Stream,
}

/// Where a stream of HTTP/2 leads.
#[derive(Debug)]
pub(crate) enum End {
    /// To a record of this shard.
    Here(Key),
    /// To one of another shard.
    There(Box<RemoteRecord>),
}

/// What a stream is to its record.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// The first bytes: the head of a request, or none.
    pub(crate) head: Vec<u8>,
    pub(crate) is_duplex: bool,
    pub(crate) body: Body,
}

impl H2Streams {
    pub(crate) fn open(
        &mut self,
        record: Key,
        h2: (Key, usize),
        stream: Stream,
        beginning: Beginning,
    ) -> Key {
        let Beginning { head, is_duplex, body } = beginning;
        let (h2, place) = h2;
        let h2_stream = H2Stream {
            end: End::Here(record),
            inbox: head,
            owed: 0,
            counted: 0,
            is_ended: false,
            is_duplex,
            h2,
            place,
            body,
            stream,
        };
        let key = self.slab.insert(h2_stream);
        self.places.insert(record.slot, Place::H2Stream(key));
        key
    }

    /// A record has come whose stream is another shard's.
    pub(crate) fn add_remote(&mut self, remote_stream: RemoteStream) -> Key {
        let slot = remote_stream.record.slot;
        let key = self.remote_streams.insert(remote_stream);
        self.places.insert(slot, Place::RemoteStream(key));
        key
    }

    /// A record leaves for another shard; its stream, unless that is another shard's.
    pub(crate) fn depart(&mut self, record: Key, shard: ShardId) -> Option<(Key, bool)> {
        let Some(Place::H2Stream(key)) = self.places.get(&record.slot).copied() else {
            return None;
        };
        let h2_stream = self.slab.get_mut(key)?;
        h2_stream.end = End::There(Box::new(RemoteRecord::new(shard)));
        self.places.remove(&record.slot);
        Some((key, h2_stream.is_duplex))
    }

    /// The connection of a record's stream, if it is of this shard.
    pub(crate) fn h2_connection_of(&mut self, record: Key) -> Option<Key> {
        match self.of(record)? {
            Carrier::H2Stream(h2_stream) => Some(h2_stream.h2),
            Carrier::RemoteStream(_) => None,
        }
    }

    /// What the client of a record has shown whose stream is another shard's.
    pub(crate) fn tls_of_remote(&mut self, record: Key) -> Option<Arc<ClientTls>> {
        match self.of(record)? {
            Carrier::H2Stream(_) => None,
            Carrier::RemoteStream(remote_stream) => remote_stream.tls.clone(),
        }
    }

    /// A client has logged in on a record whose stream is another shard's: that shard hears of it.
    pub(crate) fn tell_login<S>(&mut self, record: Key, post: &mut Post<S>) {
        if let Some(Carrier::RemoteStream(remote_stream)) = self.of(record) {
            remote_stream.tell_login(post);
        }
    }

    /// The client of a record whose stream is another shard's is sent elsewhere: that shard hears of it.
    pub(crate) fn tell_leaving<S>(&mut self, record: Key, post: &mut Post<S>) {
        if let Some(Carrier::RemoteStream(remote_stream)) = self.of(record) {
            let h2_stream = remote_stream.origin.h2_stream;
            remote_stream.tell(RemoteStreamMessage::Leaving { h2_stream }, post);
        }
    }

    /// Whether a record's stream is another shard's.
    pub(crate) fn is_remote(&self, record: Key) -> bool {
        matches!(self.places.get(&record.slot), Some(Place::RemoteStream(_)))
    }

    pub(crate) fn remove(&mut self, h2_stream: Key) -> Option<H2Stream> {
        self.slab.remove(h2_stream)
    }

    pub(crate) fn get(&self, h2_stream: Key) -> Option<&H2Stream> {
        self.slab.get(h2_stream)
    }

    pub(crate) fn get_mut(&mut self, h2_stream: Key) -> Option<&mut H2Stream> {
        self.slab.get_mut(h2_stream)
    }

    /// The stream that carries a record.
    pub(crate) fn of(&mut self, record: Key) -> Option<Carrier<'_>> {
        match *self.places.get(&record.slot)? {
            Place::H2Stream(key) => self.slab.get_mut(key).map(Carrier::H2Stream),
            Place::RemoteStream(key) => self.remote_streams.get_mut(key).map(Carrier::RemoteStream),
        }
    }

    /// From now on another record is carried.
    pub(crate) fn rebind(&mut self, from: Key, to: Key) {
        if let Some(place) = self.places.remove(&from.slot) {
            self.places.insert(to.slot, place);
        }
        match self.of(to) {
            Some(Carrier::H2Stream(h2_stream)) => h2_stream.end = End::Here(to),
            Some(Carrier::RemoteStream(remote_stream)) => remote_stream.record = to,
            None => {}
        }
    }

    pub(crate) fn take(&mut self, record: Key) -> Taken {
        match self.places.remove(&record.slot) {
            Some(Place::H2Stream(key)) => {
                self.slab.remove(key).map_or(Taken::Nothing, Taken::H2Stream)
            }
            Some(Place::RemoteStream(key)) => {
                self.remote_streams.remove(key).map_or(Taken::Nothing, Taken::RemoteStream)
            }
            None => Taken::Nothing,
        }
    }
}

/// What carries a record, to be worked with.
pub(crate) enum Carrier<'a> {
    H2Stream(&'a mut H2Stream),
    RemoteStream(&'a mut RemoteStream),
}

/// What carried a record.
pub(crate) enum Taken {
    H2Stream(H2Stream),
    RemoteStream(RemoteStream),
    Nothing,
}

impl H2Stream {
    /// Takes out what has come. Says whether the record has something to read, or has lost its stream.
    pub(crate) fn look(&mut self) -> Looked {
        if !self.stream.has_rung() {
            return Looked::Nothing;
        }
        let (inbox, owed, body) = (&mut self.inbox, &mut self.owed, self.body);
        let received = self.stream.receive(|data| {
            *owed += data.len();
            match body {
                Body::Plain => inbox.extend_from_slice(data),
                Body::Chunked => push_chunk(inbox, data),
            }
        });
        match received {
            Received::Reset => return Looked::Reset,
            Received::Ended if !self.is_ended => {
                self.is_ended = true;
                if self.body == Body::Chunked {
                    self.inbox.extend_from_slice(b"0\r\n\r\n");
                }
            }
            Received::Ended | Received::Open => {}
        }
        let ends = self.is_ended && self.is_duplex;
        if self.inbox.is_empty() && !ends { Looked::Room } else { Looked::Readable { ends } }
    }

    /// Fills `space` with what has come; how much that is, and how much of the client's windows is free again.
    pub(crate) fn read(&mut self, space: &mut [u8]) -> io::Result<(usize, usize)> {
        let count = read_inbox(&mut self.inbox, self.is_ended && self.is_duplex, space)?;
        Ok((count, self.release(count)))
    }

    /// So many bytes of the inbox have been read: the client may send as many more. Says how many that are:
    /// what is read is longer by its framing.
    pub(crate) fn release(&mut self, count: usize) -> usize {
        let released = self.owed.min(count);
        if released > 0 {
            self.owed -= released;
            self.stream.release(released);
        }
        released
    }

    /// Bytes of the client's windows that are used.
    pub(crate) fn owed(&self) -> usize {
        self.owed
    }

    /// All that has come, and whether nothing follows.
    pub(crate) fn take_inbox(&mut self) -> (Vec<u8>, bool) {
        (std::mem::take(&mut self.inbox), self.is_ended)
    }

    /// Our side ends.
    pub(crate) fn finish(&mut self) {
        self.stream.finish();
    }

    /// Sends what the client's window allows; false if it allows no more.
    pub(crate) fn send(&mut self, queue: &mut OutQueue) -> Result<bool, Broken> {
        let mut batch = Vec::new();
        let mut has_room = true;
        while !queue.is_empty() {
            match self.stream.sending() {
                // Its head could not be sent.
                Sending::Head => return Err(Broken),
                Sending::Body => {}
                // Nothing of ours follows an answer; what did would be lost with the stream.
                Sending::Ended => {
                    queue.clear(0);
                    break;
                }
            }
            let count = queue.front().len();
            let room = self.stream.room(batch.len() + count).saturating_sub(batch.len());
            let count = count.min(room);
            if count == 0 {
                has_room = false;
                break;
            }
            if count >= COPY_BYTES_MAX {
                self.send_batch(&mut batch)?;
                if !self.stream.send(queue.take(count)) {
                    return Err(Broken);
                }
            } else {
                batch.extend_from_slice(queue.front().get(..count).unwrap_or_default());
                queue.advance(count);
            }
        }
        self.send_batch(&mut batch)?;
        Ok(has_room)
    }

    fn send_batch(&mut self, batch: &mut Vec<u8>) -> Result<(), Broken> {
        if batch.is_empty() || self.stream.send(std::mem::take(batch).into()) {
            return Ok(());
        }
        Err(Broken)
    }
}

/// What a look at a stream has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    Nothing,
    /// There may be room.
    Room,
    /// There is something to read, and there may be room.
    Readable {
        ends: bool,
    },
    /// The client gave it up.
    Reset,
}

/// Nothing can be sent: the stream is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The near end: what a stream of HTTP/2 is without its record.
#[derive(Debug)]
pub(crate) struct RemoteRecord {
    pub(crate) shard: ShardId,
    /// Where the record is, when that is known.
    pub(crate) remote_stream: Option<Key>,
    /// What the record has said and the client's window does not allow yet.
    pub(crate) unsent: OutQueue,
    /// Whether the record has said all.
    pub(crate) is_finished: bool,
    /// Whether the record knows that the client has.
    pub(crate) is_told: bool,
}

impl RemoteRecord {
    pub(crate) fn new(shard: ShardId) -> RemoteRecord {
        RemoteRecord {
            shard,
            remote_stream: None,
            unsent: OutQueue::new(),
            is_finished: false,
            is_told: false,
        }
    }
}

/// The far end: what carries a record away from its stream.
#[derive(Debug)]
pub(crate) struct RemoteStream {
    pub(crate) record: Key,
    pub(crate) origin: RemoteStreamId,
    /// What the client had shown when the record left.
    pub(crate) tls: Option<Arc<ClientTls>>,
    pub(crate) inbox: Vec<u8>,
    pub(crate) is_ended: bool,
    /// Bytes that may be under way to the stream.
    pub(crate) credit: usize,
}

impl RemoteStream {
    /// Fills `space` with what has come.
    pub(crate) fn read<S>(&mut self, space: &mut [u8], post: &mut Post<S>) -> io::Result<usize> {
        let count = read_inbox(&mut self.inbox, self.is_ended && self.origin.is_duplex, space)?;
        let h2_stream = self.origin.h2_stream;
        if count > 0 {
            self.tell(RemoteStreamMessage::Taken { h2_stream, bytes: count }, post);
        }
        Ok(count)
    }

    /// Sends the head of the answer.
    pub(crate) fn respond<S>(&self, head: AnswerHead, body_bytes: Option<u64>, post: &mut Post<S>) {
        let (h2_stream, head) = (self.origin.h2_stream, Box::new(head));
        self.tell(RemoteStreamMessage::Answered { h2_stream, head, body_bytes }, post);
    }

    /// Sends what the credit allows; false if it allows no more.
    pub(crate) fn send<S>(&mut self, queue: &mut OutQueue, post: &mut Post<S>) -> bool {
        let mut bytes = Vec::new();
        while !queue.is_empty() && self.credit > 0 {
            let block = queue.take(self.credit);
            self.credit -= block.len();
            bytes.push(block);
        }
        let h2_stream = self.origin.h2_stream;
        if !bytes.is_empty() {
            self.tell(RemoteStreamMessage::Said { h2_stream, bytes }, post);
        }
        queue.is_empty()
    }

    /// Nothing more will be sent.
    pub(crate) fn finish<S>(&mut self, post: &mut Post<S>) {
        self.tell(RemoteStreamMessage::Finished { h2_stream: self.origin.h2_stream }, post);
    }

    /// A client has logged in.
    pub(crate) fn tell_login<S>(&self, post: &mut Post<S>) {
        self.tell(RemoteStreamMessage::LoggedIn { h2_stream: self.origin.h2_stream }, post);
    }

    /// The record has gone.
    pub(crate) fn leave<S>(self, post: &mut Post<S>) {
        self.tell(RemoteStreamMessage::Gone { h2_stream: self.origin.h2_stream }, post);
    }

    pub(crate) fn tell<S>(&self, message: RemoteStreamMessage, post: &mut Post<S>) {
        post.send(self.origin.home, ShardMessage::RemoteStream(message));
    }
}

/// Fills `space` with the front of an inbox; nothing is an end, or no more than a pause.
pub(crate) fn read_inbox(
    inbox: &mut Vec<u8>,
    is_over: bool,
    space: &mut [u8],
) -> io::Result<usize> {
    if inbox.is_empty() {
        return if is_over { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
    }
    let count = inbox.len().min(space.len());
    if let (Some(to), Some(from)) = (space.get_mut(..count), inbox.get(..count)) {
        to.copy_from_slice(from);
    }
    if count == inbox.len() {
        *inbox = Vec::new();
    } else {
        inbox.drain(..count);
    }
    Ok(count)
}

/// One chunk (RFC 9112 section 7.1).
fn push_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if !data.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
    }
}
