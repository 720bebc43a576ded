//! Connections with something to do.
//!
//! Invariant: a connection is on each list at most once; its flags say on which.

use std::collections::VecDeque;

use tiderace_base::Key;

use crate::connection::Flags;
use crate::decided_login::DecidedLogin;
use crate::write_coalescing::WriteCoalescing;

/// Connections with something to do.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// To be read.
    pub(crate) read: Vec<Key>,
    /// To be written.
    pub(crate) write: Vec<Key>,
    /// To be written with more than others are to wait for: each in its turn, a little in each turn of the shard.
    pub(crate) long_writes: VecDeque<Key>,
    /// To be written once deliveries have waited for others to go along with them.
    pub(crate) coalescing: WriteCoalescing,
    /// To have their kept input handled again.
    pub(crate) again: Vec<Key>,
    /// Carried by HTTP/2, to be read after those who may bring them something.
    pub(crate) inbox: Vec<Key>,
    /// Connections of HTTP/2 to be written after those who may have given them something.
    pub(crate) h2_connections: Vec<Key>,
    /// Logins that were decided, to be told a few in each turn.
    pub(crate) decided: VecDeque<DecidedLogin>,
}

impl Lists {
    pub(crate) fn read(&mut self, key: Key, flags: &mut Flags) {
        if flags.raise(Flags::READ_LISTED) {
            self.read.push(key);
        }
    }

    /// Whether somebody is to be read.
    pub(crate) fn has_reads(&self) -> bool {
        !self.read.is_empty() || !self.inbox.is_empty()
    }

    pub(crate) fn inbox(&mut self, key: Key, flags: &mut Flags) {
        if flags.raise(Flags::READ_LISTED) {
            self.inbox.push(key);
        }
    }

    pub(crate) fn write(&mut self, key: Key, flags: &mut Flags) {
        if flags.raise(Flags::WRITE_LISTED) {
            self.write.push(key);
        }
    }

    pub(crate) fn write_long(&mut self, key: Key, flags: &mut Flags) {
        if flags.raise(Flags::LONG_LISTED) {
            self.long_writes.push_back(key);
        }
    }

    /// Whether somebody is to be written.
    pub(crate) fn has_writes(&self) -> bool {
        !self.write.is_empty() || !self.long_writes.is_empty()
    }

    pub(crate) fn again(&mut self, key: Key, flags: &mut Flags) {
        if flags.raise(Flags::AGAIN_LISTED) {
            self.again.push(key);
        }
    }
}
