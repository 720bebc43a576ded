//! The streams of a shard's HTTP/2 connections, and the ends, here, of those of other shards.

use std::collections::HashMap;
use std::io;

use tiderace_base::limits::COPY_BYTES_MAX;
use tiderace_base::{Key, ShardId, Slab};
use tiderace_http2::{AnswerReader, AnswerStep, Body, Received, Stream};
use tiderace_wire::OutQueue;

use crate::h2::letters::{Graft, TunnelLetter};
use crate::mailbox::{Letter, Post};

/// The tunnels of a shard.
#[derive(Debug, Default)]
pub(crate) struct Tunnels {
    pub(crate) slab: Slab<Tunnel>,
    /// The ends, here, of tunnels of other shards.
    pub(crate) branches: Slab<Branch>,
    /// By the slot of the record that each carries.
    pub(crate) places: HashMap<u32, Place>,
}

/// What carries a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Tunnel(Key),
    Branch(Key),
}

/// One stream of an HTTP/2 connection.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// The record that it carries, or where that went.
    pub(crate) end: End,
    /// What has come and was not read.
    pub(crate) inbox: Vec<u8>,
    /// Bytes of the client's window that are to be given back when the inbox is read.
    pub(crate) owed: usize,
    /// Bytes of its record's queue that the hub counts.
    pub(crate) counted: usize,
    /// Whether the client has said all.
    pub(crate) is_ended: bool,
    /// Whether that is an end for the record: that of a request is none.
    pub(crate) is_duplex: bool,
    /// The record of the HTTP/2 connection, and the place among its tunnels.
    pub(crate) hub: Key,
    pub(crate) place: usize,
    pub(crate) body: Body,
    pub(crate) stream: Stream,
    pub(crate) answer: AnswerReader,
}

/// Where a tunnel leads.
#[derive(Debug)]
pub(crate) enum End {
    /// To a record of this shard.
    Here(Key),
    /// To one of another shard.
    There(Box<Relay>),
}

/// What a stream is to its record.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// The first bytes: the head of a request, or none.
    pub(crate) head: Vec<u8>,
    pub(crate) is_duplex: bool,
    pub(crate) body: Body,
    pub(crate) answer: AnswerReader,
}

impl Tunnels {
    pub(crate) fn open(
        &mut self,
        record: Key,
        hub: (Key, usize),
        stream: Stream,
        beginning: Beginning,
    ) -> Key {
        let Beginning { head, is_duplex, body, answer } = beginning;
        let (hub, place) = hub;
        let tunnel = Tunnel {
            end: End::Here(record),
            inbox: head,
            owed: 0,
            counted: 0,
            is_ended: false,
            is_duplex,
            hub,
            place,
            body,
            stream,
            answer,
        };
        let key = self.slab.insert(tunnel);
        self.places.insert(record.slot, Place::Tunnel(key));
        key
    }

    /// A record has come whose tunnel is another shard's.
    pub(crate) fn graft(&mut self, branch: Branch) -> Key {
        let slot = branch.record.slot;
        let key = self.branches.insert(branch);
        self.places.insert(slot, Place::Branch(key));
        key
    }

    /// A record leaves for another shard; its tunnel, unless that is another shard's.
    pub(crate) fn depart(&mut self, record: Key, shard: ShardId) -> Option<(Key, bool)> {
        let Some(Place::Tunnel(key)) = self.places.get(&record.slot).copied() else {
            return None;
        };
        let tunnel = self.slab.get_mut(key)?;
        tunnel.end = End::There(Box::new(Relay::new(shard)));
        self.places.remove(&record.slot);
        Some((key, tunnel.is_duplex))
    }

    /// The connection of a record's tunnel, if it is of this shard.
    pub(crate) fn hub_of(&mut self, record: Key) -> Option<Key> {
        match self.of(record)? {
            Carrier::Tunnel(tunnel) => Some(tunnel.hub),
            Carrier::Branch(_) => None,
        }
    }

    /// A client has logged in on a record whose tunnel is another shard's: that shard hears of it.
    pub(crate) fn tell_login<S>(&mut self, record: Key, post: &mut Post<S>) {
        if let Some(Carrier::Branch(branch)) = self.of(record) {
            branch.tell_login(post);
        }
    }

    /// Whether a record's tunnel is another shard's.
    pub(crate) fn is_branch(&self, record: Key) -> bool {
        matches!(self.places.get(&record.slot), Some(Place::Branch(_)))
    }

    pub(crate) fn remove(&mut self, tunnel: Key) -> Option<Tunnel> {
        self.slab.remove(tunnel)
    }

    pub(crate) fn get_mut(&mut self, tunnel: Key) -> Option<&mut Tunnel> {
        self.slab.get_mut(tunnel)
    }

    /// The tunnel that carries a record.
    pub(crate) fn of(&mut self, record: Key) -> Option<Carrier<'_>> {
        match *self.places.get(&record.slot)? {
            Place::Tunnel(key) => self.slab.get_mut(key).map(Carrier::Tunnel),
            Place::Branch(key) => self.branches.get_mut(key).map(Carrier::Branch),
        }
    }

    /// From now on another record is carried.
    pub(crate) fn rebind(&mut self, from: Key, to: Key) {
        if let Some(place) = self.places.remove(&from.slot) {
            self.places.insert(to.slot, place);
        }
        match self.of(to) {
            Some(Carrier::Tunnel(tunnel)) => tunnel.end = End::Here(to),
            Some(Carrier::Branch(branch)) => branch.record = to,
            None => {}
        }
    }

    pub(crate) fn take(&mut self, record: Key) -> Taken {
        match self.places.remove(&record.slot) {
            Some(Place::Tunnel(key)) => self.slab.remove(key).map_or(Taken::Nothing, Taken::Tunnel),
            Some(Place::Branch(key)) => {
                self.branches.remove(key).map_or(Taken::Nothing, Taken::Branch)
            }
            None => Taken::Nothing,
        }
    }
}

/// What carries a record, to be worked with.
pub(crate) enum Carrier<'a> {
    Tunnel(&'a mut Tunnel),
    Branch(&'a mut Branch),
}

/// What carried a record.
pub(crate) enum Taken {
    Tunnel(Tunnel),
    Branch(Branch),
    Nothing,
}

impl Tunnel {
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
        let (mut has_room, mut is_last) = (true, false);
        while !queue.is_empty() {
            match self.answer.step(queue.front()).map_err(|_| Broken::Answer)? {
                AnswerStep::Skip(count) => queue.advance(count),
                AnswerStep::Head { consumed, head, ends } => {
                    queue.advance(consumed);
                    if !self.stream.respond(head, ends) {
                        return Err(Broken::Stream);
                    }
                }
                AnswerStep::Data(count) => {
                    let room = self.stream.room(batch.len() + count).saturating_sub(batch.len());
                    let count = count.min(room);
                    if count == 0 {
                        has_room = false;
                        break;
                    }
                    if count >= COPY_BYTES_MAX {
                        self.send_batch(&mut batch, false)?;
                        let block = queue.take(count);
                        is_last = self.answer.took(count);
                        if !self.stream.send(block, is_last) {
                            return Err(Broken::Stream);
                        }
                    } else {
                        batch.extend_from_slice(queue.front().get(..count).unwrap_or_default());
                        queue.advance(count);
                        is_last = self.answer.took(count);
                    }
                }
                // Nothing of ours follows an answer; what did would be lost with the stream.
                AnswerStep::End => queue.clear(0),
            }
        }
        self.send_batch(&mut batch, is_last)?;
        Ok(has_room)
    }

    pub(crate) fn send_batch(&mut self, batch: &mut Vec<u8>, is_last: bool) -> Result<(), Broken> {
        if batch.is_empty() || self.stream.send(std::mem::take(batch).into(), is_last) {
            return Ok(());
        }
        Err(Broken::Stream)
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

/// Why nothing can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The stream is of no use any more.
    Stream,
    /// What was written is no answer: a defect.
    Answer,
}

/// The near end: what a tunnel is without its record.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) shard: ShardId,
    /// Where the record is, when that is known.
    pub(crate) branch: Option<Key>,
    /// What the record has said and the client's window does not allow yet.
    pub(crate) unsent: OutQueue,
    /// Whether the record has said all.
    pub(crate) is_finished: bool,
    /// Whether the record knows that the client has.
    pub(crate) is_told: bool,
}

impl Relay {
    pub(crate) fn new(shard: ShardId) -> Relay {
        Relay { shard, branch: None, unsent: OutQueue::new(), is_finished: false, is_told: false }
    }
}

/// The far end: what carries a record away from its tunnel.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) record: Key,
    pub(crate) graft: Graft,
    pub(crate) inbox: Vec<u8>,
    pub(crate) is_ended: bool,
    /// Bytes that may be under way to the tunnel.
    pub(crate) credit: usize,
}

impl Branch {
    /// Fills `space` with what has come.
    pub(crate) fn read<S>(&mut self, space: &mut [u8], post: &mut Post<S>) -> io::Result<usize> {
        let count = read_inbox(&mut self.inbox, self.is_ended && self.graft.is_duplex, space)?;
        let tunnel = self.graft.tunnel;
        if count > 0 {
            self.tell(TunnelLetter::Taken { tunnel, bytes: count }, post);
        }
        Ok(count)
    }

    /// Sends what the credit allows; false if it allows no more.
    pub(crate) fn send<S>(&mut self, queue: &mut OutQueue, post: &mut Post<S>) -> bool {
        let mut bytes = Vec::new();
        while !queue.is_empty() && self.credit > 0 {
            let block = queue.take(self.credit);
            self.credit -= block.len();
            bytes.push(block);
        }
        let tunnel = self.graft.tunnel;
        if !bytes.is_empty() {
            self.tell(TunnelLetter::Said { tunnel, bytes }, post);
        }
        queue.is_empty()
    }

    /// Nothing more will be sent.
    pub(crate) fn finish<S>(&mut self, post: &mut Post<S>) {
        self.tell(TunnelLetter::Finished { tunnel: self.graft.tunnel }, post);
    }

    /// A client has logged in.
    pub(crate) fn tell_login<S>(&self, post: &mut Post<S>) {
        self.tell(TunnelLetter::LoggedIn { tunnel: self.graft.tunnel }, post);
    }

    /// The record has gone.
    pub(crate) fn leave<S>(self, post: &mut Post<S>) {
        self.tell(TunnelLetter::Gone { tunnel: self.graft.tunnel }, post);
    }

    pub(crate) fn tell<S>(&self, letter: TunnelLetter, post: &mut Post<S>) {
        post.send(self.graft.home, Letter::Tunnel(letter));
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
