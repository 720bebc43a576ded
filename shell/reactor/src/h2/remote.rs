//! Tunnels whose record lives on another shard, where the session is that its request is for.
//!
//! A socket can move; a stream of HTTP/2 cannot leave its connection. So its record moves alone, and its
//! bytes go by mail: the tunnel stays as a [`Relay`], the record is carried by a [`Branch`].
//! ```text
//!   tunnel ──Came─────────▶ branch: for its inbox       tunnel ◀─Taken──── branch: what was read of it
//!   tunnel ◀─Said────────── branch: within its credit   tunnel ──Room────▶ branch: what was sent of it
//!   tunnel ──Over─────────▶ branch: all is sent, or the stream is gone
//! ```
//! Invariants: in each direction no more is under way than the client's window, or the credit, allows;
//! letters between two shards keep their order. A record moves so once: its answer ends the stream.

use tiderace_base::{CloseCode, Key, ShardId};

use crate::connection::{Connection, Flags, Stage};
use crate::driver::Driver;
use crate::h2::letters::{Graft, TunnelLetter};
use crate::h2::streams::{Branch, End, Looked};
use crate::mailbox::Letter;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Whether a record is carried by a tunnel of another shard, so that it cannot move again.
    pub(crate) fn is_rooted(&self, key: Key) -> bool {
        self.tunnels.is_branch(key)
    }

    /// A record that a tunnel carries leaves for another shard.
    pub(crate) fn send_by_tunnel(
        &mut self,
        key: Key,
        mut connection: Connection<D::Stream>,
        shard: ShardId,
    ) {
        let Some((tunnel, is_duplex)) = self.tunnels.depart(key, shard) else {
            return;
        };
        self.metrics.migrated.add(1);
        connection.armed = tiderace_base::Time::NEVER;
        connection.flags.leave_shard();
        let graft = Graft { home: self.id, tunnel, is_duplex };
        self.post.send(shard, Letter::Branch(Box::new(connection), graft));
    }

    /// A record comes in that a tunnel of another shard carries.
    pub(crate) fn arrive_by_tunnel(&mut self, connection: Connection<D::Stream>, graft: Graft) {
        let starting = matches!(connection.stage, Stage::Starting(_));
        let seeking = matches!(connection.stage, Stage::Seeking(_));
        let gauge = connection.stage.gauge();
        let record = self.connections.insert(connection);
        self.change_gauge(None, Some(gauge));
        let credit = CREDIT_BYTES;
        let inbox = Vec::new();
        let branch = Branch { record, graft, inbox, is_ended: false, credit };
        let branch = self.tunnels.graft(branch);
        let bound = TunnelLetter::Bound { tunnel: graft.tunnel, branch };
        self.post.send(graft.home, Letter::Tunnel(bound));
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

    /// A letter from the other end of a tunnel.
    pub(crate) fn hear_tunnel(&mut self, from: ShardId, letter: TunnelLetter) {
        match letter {
            TunnelLetter::Bound { tunnel, branch } => self.bind(from, tunnel, branch),
            TunnelLetter::Taken { tunnel, bytes } => {
                if let Some(tunnel) = self.tunnels.get_mut(tunnel) {
                    let released = tunnel.release(bytes);
                    let hub = tunnel.hub;
                    self.count_read(hub, released);
                    self.rouse_hub(hub);
                }
            }
            TunnelLetter::LoggedIn { tunnel } => {
                if let Some(hub) = self.tunnels.get_mut(tunnel).map(|tunnel| tunnel.hub) {
                    self.widen_hub(hub);
                }
            }
            TunnelLetter::Said { tunnel, bytes } => {
                if let Some(End::There(relay)) =
                    self.tunnels.get_mut(tunnel).map(|tunnel| &mut tunnel.end)
                {
                    bytes.into_iter().for_each(|block| relay.unsent.share(block));
                    self.send_relayed(tunnel);
                }
            }
            TunnelLetter::Finished { tunnel } => {
                if let Some(End::There(relay)) =
                    self.tunnels.get_mut(tunnel).map(|tunnel| &mut tunnel.end)
                {
                    relay.is_finished = true;
                    self.send_relayed(tunnel);
                }
            }
            TunnelLetter::Gone { tunnel } => self.drop_relay(tunnel),
            TunnelLetter::Came { branch, bytes, is_ended } => {
                let Some(branch) = self.tunnels.branches.get_mut(branch) else {
                    return;
                };
                branch.inbox.extend_from_slice(&bytes);
                branch.is_ended |= is_ended;
                let ends = is_ended && branch.graft.is_duplex;
                if let Some(connection) = self.connections.get_mut(branch.record) {
                    let flags = &mut connection.flags;
                    flags.set(Flags::READABLE);
                    if ends {
                        flags.note_peer_ending();
                    }
                    self.lists.inbox(branch.record, flags);
                }
            }
            TunnelLetter::Room { branch, bytes } => {
                let Some(branch) = self.tunnels.branches.get_mut(branch) else {
                    return;
                };
                branch.credit += bytes;
                if let Some(connection) = self.connections.get_mut(branch.record) {
                    connection.flags.set(Flags::WRITABLE);
                    if connection.outgoing.is_some() || connection.flags.has(Flags::BACKLOG) {
                        self.lists.write(branch.record, &mut connection.flags);
                    }
                }
            }
            TunnelLetter::Over { branch } => {
                if let Some(branch) = self.tunnels.branches.get_mut(branch) {
                    let record = branch.record;
                    self.discard(record, CloseCode::PeerGone);
                    self.drain_effects();
                }
            }
        }
    }

    /// The record of a tunnel has arrived: what has come meanwhile follows it.
    fn bind(&mut self, shard: ShardId, tunnel: Key, branch: Key) {
        match self.tunnels.get_mut(tunnel).map(|tunnel| &mut tunnel.end) {
            Some(End::There(relay)) => {
                relay.branch = Some(branch);
                self.relay(tunnel, Looked::Room);
            }
            _ => self.post.send(shard, Letter::Tunnel(TunnelLetter::Over { branch })),
        }
    }

    /// A tunnel without its record has something, or room.
    pub(crate) fn relay(&mut self, key: Key, looked: Looked) {
        if looked == Looked::Reset {
            self.end_relay(key);
            return self.drop_relay(key);
        }
        let Some(tunnel) = self.tunnels.get_mut(key) else {
            return;
        };
        let (bytes, is_ended) = match &tunnel.end {
            End::There(relay) if relay.branch.is_some() => tunnel.take_inbox(),
            _ => (Vec::new(), false),
        };
        let End::There(relay) = &mut tunnel.end else { return };
        if let Some(branch) = relay.branch {
            let shard = relay.shard;
            let is_news = is_ended && !std::mem::replace(&mut relay.is_told, is_ended);
            if !bytes.is_empty() || is_news {
                let letter = TunnelLetter::Came { branch, bytes, is_ended };
                self.post.send(shard, Letter::Tunnel(letter));
            }
        }
        self.send_relayed(key);
    }

    /// Sends what the record of a tunnel has said, as far as the client's window allows.
    fn send_relayed(&mut self, key: Key) {
        let Some(tunnel) = self.tunnels.get_mut(key) else {
            return;
        };
        let hub = tunnel.hub;
        let End::There(relay) = &mut tunnel.end else { return };
        let mut unsent = std::mem::take(&mut relay.unsent);
        let (shard, branch, is_finished) = (relay.shard, relay.branch, relay.is_finished);
        let before = unsent.len();
        let sent = tunnel.send(&mut unsent);
        let (count, is_done) = (before - unsent.len(), unsent.is_empty());
        if let End::There(relay) = &mut tunnel.end {
            relay.unsent = unsent;
        }
        if is_done && is_finished {
            tunnel.finish();
        }
        self.rouse_hub(hub);
        let Some(branch) = branch else { return };
        if sent.is_err() || is_done && is_finished {
            self.post.send(shard, Letter::Tunnel(TunnelLetter::Over { branch }));
            self.drop_relay(key);
        } else if count > 0 {
            self.post.send(shard, Letter::Tunnel(TunnelLetter::Room { branch, bytes: count }));
        }
    }

    /// The stream of a tunnel is gone: its record hears so.
    pub(crate) fn end_relay(&mut self, key: Key) {
        if let Some(End::There(relay)) = self.tunnels.get_mut(key).map(|tunnel| &tunnel.end)
            && let Some(branch) = relay.branch
        {
            let shard = relay.shard;
            self.post.send(shard, Letter::Tunnel(TunnelLetter::Over { branch }));
        }
    }

    /// A tunnel without its record goes.
    pub(crate) fn drop_relay(&mut self, key: Key) {
        if let Some(tunnel) = self.tunnels.remove(key) {
            self.metrics.http2_streams.sub(1);
            self.count_unsent(tunnel.hub, tunnel.counted, 0);
            self.count_read(tunnel.hub, tunnel.owed());
            self.leave_hub(tunnel.hub, tunnel.place);
        }
    }
}

/// What a record may have under way to its tunnel.
const CREDIT_BYTES: usize = 64 * 1024;
