//! What operators ask about blocks, and who is kept out by them.
//!
//! Relies on [`crate::blocks`] for who that is, and on walks over the sessions for those that end. Invariants: who asks does not keep himself out
//! unless he says that he wants to; a block that is refused has changed nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tiderace_base::{Close, CloseCode, Key, SessionId};
use tiderace_broker::{LOCAL, Principal};
use tiderace_wire::{Block, BlockOperation, BlockResult, Blocked, OperationResult, blocked_close};

use crate::blocks::until_ms;
use crate::driver::Driver;
use crate::metrics::Rejected;
use crate::outcome::Farewell;
use crate::session_walks::{BlockWork, SessionWork};
use crate::shard::Shard;
use crate::waker::NodeAnswer;

/// Whether commands and probes on this machine are not meant: a wide network takes them in unseen.
fn check_loopback(who: &Blocked) -> Result<(), Close> {
    let own = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let Some(own) = own.into_iter().find(|own| who.is_of(*own)) else { return Ok(()) };
    let reason = format!(
        "{who} takes in {own}, from where commands and probes on this machine ask; `force` blocks that all the same"
    );
    Err(Close::new(CloseCode::BadOperation, reason))
}

impl<D: Driver> Shard<D> {
    /// Does what a session that may asks about blocks. The answer to a block comes when all shards have looked at their sessions.
    pub(crate) fn operate_blocks(
        &mut self,
        link: u32,
        operation: BlockOperation,
        answer: NodeAnswer,
    ) {
        let blocks = &self.shared.blocks;
        let result = match operation {
            BlockOperation::Block(block) => {
                return match self.begin_block(link, answer.session(), block) {
                    Ok((work, open)) => self.start_walk(work, answer, open),
                    Err(close) => answer.tell(Err(close)),
                };
            }
            BlockOperation::Unblock(who) => {
                BlockResult::Unblocked { blocks: blocks.remove(self.now.time, &who) }
            }
            BlockOperation::List(query) => blocks.page(self.now.time, &query),
        };
        answer.tell(Ok(OperationResult::Blocks(Box::new(result))));
    }

    /// Keeps somebody out from now on, unless that is only to be tried; what is to be done with the sessions that are there.
    fn begin_block(
        &mut self,
        link: u32,
        asking: SessionId,
        block: Block,
    ) -> Result<(SessionWork, std::sync::Arc<()>), Close> {
        if matches!(block.who, Blocked::Principal(_)) && !self.broker.options().verify_logins {
            let reason = "logins are not verified here: a client that is kept out by its name takes another one; block the address, or configure users or tokens";
            return Err(Close::new(CloseCode::BadOperation, reason));
        }
        if matches!(&block.who, Blocked::Principal(name) if name.starts_with(LOCAL)) {
            let reason = "nobody who may use the admin socket is kept out of it; end his sessions by `kick`, or take `management.socket` out of the configuration";
            return Err(Close::new(CloseCode::BadOperation, reason));
        }
        if !block.force {
            check_loopback(&block.who)?;
            self.check_other(link, asking, &block.who)?;
        }
        let open = self.shared.open_walk(&self.shared.session_kicks)?;
        let until_ms = match block.dry_run {
            true => until_ms(self.now, &block),
            false => {
                let by = self.broker.principal_name(asking).unwrap_or_default();
                self.shared.blocks.put(self.now, &block, by)?
            }
        };
        let close = blocked_close(block.reason.as_deref());
        let (filter, dry_run) = (block.who.filter(), block.dry_run);
        let work = BlockWork { filter, close, until_ms, dry_run };
        Ok((SessionWork::Block(Box::new(work)), open))
    }

    /// Whether who asks is somebody else than who is to be kept out.
    fn check_other(&mut self, link: u32, asking: SessionId, who: &Blocked) -> Result<(), Close> {
        let key = self.find(link, asking);
        let address = key.and_then(|key| self.connections.get(key)).map(|it| it.peer.address());
        let principal = self.broker.principal_of(asking);
        let is_own = match who {
            Blocked::Address(_) => address.is_some_and(|address| who.is_of(address)),
            Blocked::Principal(name) => principal.is_some_and(|own| own.is_called(name)),
        };
        if !is_own {
            return Ok(());
        }
        let reason = format!(
            "{who} is where you ask from, or who you are; `force` blocks that all the same"
        );
        Err(Close::new(CloseCode::BadOperation, reason))
    }

    /// Whether a login may count: neither who it is nor its client's address is kept out.
    pub(crate) fn admit_unblocked(
        &mut self,
        key: Option<Key>,
        session: SessionId,
        principal: Principal,
    ) -> Result<Principal, Close> {
        let (now, blocks) = (self.now.time, &self.shared.blocks);
        let connection = key.and_then(|key| self.connections.get(key));
        let of_address = connection.and_then(|it| self.shared.kept_out(now, it.peer.socket()));
        let broker = &mut self.broker;
        let name = || broker.name_at_login(session, &principal);
        let blocked = of_address.or_else(|| blocks.of_principal(now, name));
        // Whom its login binds to no host is the same in each that it names.
        let is_bound = principal.host.as_deref().is_some_and(|host| host != "*");
        let own = || blocks.of_principal(now, || principal.name.clone());
        let blocked = blocked.or_else(|| if is_bound { None } else { own() });
        match blocked {
            None => Ok(principal),
            Some(close) => Err(close),
        }
    }

    /// Ends a session that begins now if its client is kept out: the connection may have been accepted before that, and
    /// had no session that could be ended.
    pub(crate) fn end_if_blocked(&mut self, key: Key) {
        let connection = self.connections.get(key);
        let close = connection.and_then(|it| self.shared.kept_out(self.now.time, it.peer.socket()));
        if let Some(close) = close {
            self.end(key, &close, Farewell::Full);
            self.drain_effects();
        }
    }

    /// Why the client that a proxy's connection has brought is kept out, if it is; it is counted then.
    pub(crate) fn blocked_client(&self, client: SocketAddr) -> Option<Close> {
        let blocked = self.shared.blocks.of_address(self.now.time, client.ip())?;
        self.metrics.count_rejected(Rejected::Blocked);
        // The line of the log has the proxy's address besides.
        Some(Close::new(blocked.code, format!("{} (a connection of {client})", blocked.reason)))
    }
}
