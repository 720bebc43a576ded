//! Remote streams: the record lives on another shard, where the session is that its request is for.
//!
//! A socket can move; a stream of HTTP/2 cannot leave its connection. So its record moves alone, and its
//! bytes go in messages: the stream keeps a [`crate::h2::streams::RemoteRecord`] instead, and the record is
//! carried by a [`RemoteStream`].
//! ```text
//!   stream ──Came──▶ remote stream: for its inbox       stream ◀─Taken── remote stream: what was read of it
//!   stream ◀Answered remote stream: the head of the answer, which needs no credit
//!   stream ◀─Said─── remote stream: within its credit   stream ──Room──▶ remote stream: what was sent of it
//!   stream ──Over──▶ remote stream: all is sent, or the stream is gone
//! ```
//! Invariants: in each direction no more is under way than the client's window, or the credit, allows;
//! messages between two shards keep their order. A record moves so once: its answer ends the stream.

use std::sync::Arc;

use tiderace_base::{CloseCode, Key, ShardId};

use crate::connection::{Connection, Flags, Stage};
use crate::driver::Driver;
use crate::h2::messages::{RemoteStreamId, RemoteStreamMessage};
use crate::h2::streams::{End, Looked, RemoteStream};
use crate::mailbox::ShardMessage;
use crate::options::ClientTls;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Whether a record is carried by a stream of HTTP/2 of another shard, so that it cannot move again.
    pub(crate) fn is_rooted(&self, key: Key) -> bool {
        self.h2_streams.is_remote(key)
    }

    /// A record that a stream of HTTP/2 carries leaves for another shard.
    pub(crate) fn send_by_h2_stream(
        &mut self,
        key: Key,
        mut connection: Connection<D::Stream>,
        shard: ShardId,
    ) {
        let h2 = self.h2_streams.h2_connection_of(key);
        let tls = h2.and_then(|h2| self.client_tls(h2));
        let Some((h2_stream, is_duplex)) = self.h2_streams.depart(key, shard) else {
            return;
        };
        self.metrics.migrated.add(1);
        connection.armed = tiderace_base::Time::NEVER;
        connection.flags.leave_shard();
        let origin = RemoteStreamId { home: self.id, h2_stream, is_duplex };
        self.post.send(shard, ShardMessage::RemoteRecord(Box::new(connection), origin, tls));
    }

    /// A record comes in that a stream of HTTP/2 of another shard carries.
    pub(crate) fn arrive_by_remote_stream(
        &mut self,
        connection: Connection<D::Stream>,
        origin: RemoteStreamId,
        tls: Option<Arc<ClientTls>>,
    ) {
        let starting = matches!(connection.stage, Stage::Starting(_));
        let seeking = matches!(connection.stage, Stage::Seeking(_));
        let gauge = connection.stage.gauge();
        let record = self.connections.insert(connection);
        self.change_gauge(None, Some(gauge));
        let credit = CREDIT_BYTES;
        let inbox = Vec::new();
        let remote_stream = RemoteStream { record, origin, tls, inbox, is_ended: false, credit };
        let remote_stream = self.h2_streams.add_remote(remote_stream);
        let bound = RemoteStreamMessage::Bound { h2_stream: origin.h2_stream, remote_stream };
        self.post.send(origin.home, ShardMessage::RemoteStream(bound));
        if let Some(connection) = self.connections.get_mut(record) {
            if connection.outgoing.is_some() {
                self.lists.write(record, &mut connection.flags);
            }
            if connection.input.is_some() {
                self.lists.again(record, &mut connection.flags);
            }
        }
        if starting {
            self.start(record);
        }
        if seeking {
            self.seek(record);
            self.drain_effects();
        }
        self.rearm(record);
    }

    /// A message from the other end of a remote stream.
    pub(crate) fn receive_remote_stream(&mut self, from: ShardId, message: RemoteStreamMessage) {
        match message {
            RemoteStreamMessage::Bound { h2_stream, remote_stream } => {
                self.bind(from, h2_stream, remote_stream)
            }
            RemoteStreamMessage::Taken { h2_stream, bytes } => {
                if let Some(h2_stream) = self.h2_streams.get_mut(h2_stream) {
                    let released = h2_stream.release(bytes);
                    let h2 = h2_stream.h2;
                    self.count_read(h2, released);
                    self.wake_h2(h2);
                }
            }
            RemoteStreamMessage::LoggedIn { h2_stream } => {
                if let Some(h2) = self.h2_streams.get_mut(h2_stream).map(|h2_stream| h2_stream.h2) {
                    self.widen_h2(h2);
                }
            }
            RemoteStreamMessage::Leaving { h2_stream } => {
                if let Some(h2) = self.h2_streams.get_mut(h2_stream).map(|h2_stream| h2_stream.h2) {
                    self.drain_h2(h2);
                }
            }
            RemoteStreamMessage::Answered { h2_stream, head, body_bytes } => {
                if let Some(h2_stream) = self.h2_streams.get_mut(h2_stream) {
                    h2_stream.stream.respond(*head, body_bytes);
                    let h2 = h2_stream.h2;
                    self.wake_h2(h2);
                }
            }
            RemoteStreamMessage::Said { h2_stream, bytes } => {
                if let Some(End::There(remote)) =
                    self.h2_streams.get_mut(h2_stream).map(|h2_stream| &mut h2_stream.end)
                {
                    bytes.into_iter().for_each(|block| remote.unsent.share(block));
                    self.send_for_remote(h2_stream);
                }
            }
            RemoteStreamMessage::Finished { h2_stream } => {
                if let Some(End::There(remote)) =
                    self.h2_streams.get_mut(h2_stream).map(|h2_stream| &mut h2_stream.end)
                {
                    remote.is_finished = true;
                    self.send_for_remote(h2_stream);
                }
            }
            RemoteStreamMessage::Gone { h2_stream } => self.drop_remote_record(h2_stream),
            RemoteStreamMessage::Came { remote_stream, bytes, is_ended } => {
                let Some(remote_stream) = self.h2_streams.remote_streams.get_mut(remote_stream)
                else {
                    return;
                };
                remote_stream.inbox.extend_from_slice(&bytes);
                remote_stream.is_ended |= is_ended;
                let ends = is_ended && remote_stream.origin.is_duplex;
                if let Some(connection) = self.connections.get_mut(remote_stream.record) {
                    let flags = &mut connection.flags;
                    flags.set(Flags::READABLE);
                    if ends {
                        flags.note_peer_ending();
                    }
                    self.lists.inbox(remote_stream.record, flags);
                }
            }
            RemoteStreamMessage::Room { remote_stream, bytes } => {
                let Some(remote_stream) = self.h2_streams.remote_streams.get_mut(remote_stream)
                else {
                    return;
                };
                remote_stream.credit += bytes;
                if let Some(connection) = self.connections.get_mut(remote_stream.record) {
                    connection.flags.set(Flags::WRITABLE);
                    if connection.outgoing.is_some() || connection.flags.has(Flags::BACKLOG) {
                        self.lists.write(remote_stream.record, &mut connection.flags);
                    }
                }
            }
            RemoteStreamMessage::Over { remote_stream } => {
                if let Some(remote_stream) = self.h2_streams.remote_streams.get_mut(remote_stream) {
                    let record = remote_stream.record;
                    self.discard(record, CloseCode::PeerGone);
                    self.drain_effects();
                }
            }
        }
    }

    /// The record of a stream of HTTP/2 has arrived: what has come meanwhile follows it.
    fn bind(&mut self, shard: ShardId, h2_stream: Key, remote_stream: Key) {
        match self.h2_streams.get_mut(h2_stream).map(|h2_stream| &mut h2_stream.end) {
            Some(End::There(remote)) => {
                remote.remote_stream = Some(remote_stream);
                self.forward(h2_stream, Looked::Room);
            }
            _ => self.post.send(
                shard,
                ShardMessage::RemoteStream(RemoteStreamMessage::Over { remote_stream }),
            ),
        }
    }

    /// A stream of HTTP/2 without its record has something, or room.
    pub(crate) fn forward(&mut self, key: Key, looked: Looked) {
        if looked == Looked::Reset {
            self.end_remote_record(key);
            return self.drop_remote_record(key);
        }
        let Some(h2_stream) = self.h2_streams.get_mut(key) else {
            return;
        };
        let (bytes, is_ended) = match &h2_stream.end {
            End::There(remote) if remote.remote_stream.is_some() => h2_stream.take_inbox(),
            _ => (Vec::new(), false),
        };
        let End::There(remote) = &mut h2_stream.end else { return };
        if let Some(remote_stream) = remote.remote_stream {
            let shard = remote.shard;
            let is_news = is_ended && !std::mem::replace(&mut remote.is_told, is_ended);
            if !bytes.is_empty() || is_news {
                let message = RemoteStreamMessage::Came { remote_stream, bytes, is_ended };
                self.post.send(shard, ShardMessage::RemoteStream(message));
            }
        }
        self.send_for_remote(key);
    }

    /// Sends what the record of a stream of HTTP/2 has said, as far as the client's window allows.
    fn send_for_remote(&mut self, key: Key) {
        let Some(h2_stream) = self.h2_streams.get_mut(key) else {
            return;
        };
        let h2 = h2_stream.h2;
        let End::There(remote) = &mut h2_stream.end else { return };
        let mut unsent = std::mem::take(&mut remote.unsent);
        let (shard, remote_stream, is_finished) =
            (remote.shard, remote.remote_stream, remote.is_finished);
        let before = unsent.len();
        let sent = h2_stream.send(&mut unsent);
        let (count, is_done) = (before - unsent.len(), unsent.is_empty());
        if let End::There(remote) = &mut h2_stream.end {
            remote.unsent = unsent;
        }
        if is_done && is_finished {
            h2_stream.finish();
        }
        self.wake_h2(h2);
        let Some(remote_stream) = remote_stream else { return };
        if sent.is_err() || is_done && is_finished {
            self.post.send(
                shard,
                ShardMessage::RemoteStream(RemoteStreamMessage::Over { remote_stream }),
            );
            self.drop_remote_record(key);
        } else if count > 0 {
            self.post.send(
                shard,
                ShardMessage::RemoteStream(RemoteStreamMessage::Room {
                    remote_stream,
                    bytes: count,
                }),
            );
        }
    }

    /// A stream is gone: its record on another shard hears so.
    pub(crate) fn end_remote_record(&mut self, key: Key) {
        if let Some(End::There(remote)) =
            self.h2_streams.get_mut(key).map(|h2_stream| &h2_stream.end)
            && let Some(remote_stream) = remote.remote_stream
        {
            let shard = remote.shard;
            self.post.send(
                shard,
                ShardMessage::RemoteStream(RemoteStreamMessage::Over { remote_stream }),
            );
        }
    }

    /// A stream of HTTP/2 without its record goes.
    pub(crate) fn drop_remote_record(&mut self, key: Key) {
        if let Some(h2_stream) = self.h2_streams.remove(key) {
            self.metrics.http2_streams.sub(1);
            self.count_unsent(h2_stream.h2, h2_stream.counted, 0);
            self.count_read(h2_stream.h2, h2_stream.owed());
            self.leave_h2(h2_stream.h2, h2_stream.place);
        }
    }
}

/// What a record may have under way to its stream.
const CREDIT_BYTES: usize = 64 * 1024;
