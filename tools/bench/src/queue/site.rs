//! The servers of `bench queue`: one of our own for each cell, which has just begun, or one that runs already.
//!
//! Invariant: our own server and its store go with their site.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;

use crate::args::QueueArgs;
use crate::folder::Folder;
use crate::scrape;
use crate::server::Server;
use crate::target::Target;

/// A server to be measured.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) target: Target,
    pub(super) args: &'a QueueArgs,
    ours: Option<Ours>,
}

/// A server that was started for a cell.
#[derive(Debug)]
struct Ours {
    /// `None` while it is killed.
    server: Option<Server>,
    sections: String,
    // Behind the server, so that this has ended before its directory is removed.
    _folder: Folder,
}

impl<'a> Site<'a> {
    /// Starts a server with a store below a directory.
    ///
    /// # Errors
    /// A sentence when it does not start.
    pub(super) fn start(args: &'a QueueArgs, directory: &Folder) -> anyhow::Result<Site<'a>> {
        let folder = directory.below("store")?;
        // Messages that are not persistent have a store as well: what is too much for memory goes there.
        let sections = format!("[store]\ndirectory = {:?}\nsync = {:?}\n", folder.path, args.sync);
        let server = Server::start(args.server.as_ref(), &sections, &args.settings)?;
        let target = Target::local(OURS, server.address, server.pid());
        let ours = Ours { server: Some(server), sections, _folder: folder };
        Ok(Site { target, args, ours: Some(ours) })
    }

    /// A server that runs already.
    pub(super) fn running(args: &'a QueueArgs, target: Target) -> Site<'a> {
        Site { target, args, ours: None }
    }

    pub(super) fn is_ours(&self) -> bool {
        self.ours.is_some()
    }

    /// A queue that nobody has used before.
    pub(super) fn queue(&self, cell: &str) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("{}bench.{:x}.{cell}", self.target.queue_prefix, since.as_millis() & 0xFFFF_FFFF)
    }

    /// Kills our own server and starts it again; false if it is another's.
    ///
    /// # Errors
    /// A sentence when it does not start.
    pub(super) fn restart(&mut self) -> anyhow::Result<bool> {
        let Some(ours) = &mut self.ours else { return Ok(false) };
        // SIGKILL: nothing is written any more.
        drop(ours.server.take());
        let server = Server::start(self.args.server.as_ref(), &ours.sections, &self.args.settings)
            .context("starting it again")?;
        self.target = Target::local(OURS, server.address, server.pid());
        ours.server = Some(server);
        Ok(true)
    }

    /// What our own server has written so far.
    pub(super) fn written(&self) -> Option<Written> {
        self.ours.as_ref().filter(|_| !self.args.volatile)?;
        Some(Written {
            bytes: scrape::metric(self.target.address, "tiderace_store_bytes_written_total")?,
            syncs: scrape::metric(self.target.address, "tiderace_store_syncs_total")?,
        })
    }
}

/// What a store has counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    pub(super) bytes: u64,
    pub(super) syncs: u64,
}

impl Written {
    /// What was written between two looks.
    pub(super) fn between(before: Option<Written>, after: Option<Written>) -> Option<Written> {
        let (before, after) = before.zip(after)?;
        let bytes = after.bytes.saturating_sub(before.bytes);
        Some(Written { bytes, syncs: after.syncs.saturating_sub(before.syncs) })
    }
}

/// The name of our own server.
pub(super) const OURS: &str = "tiderace";
