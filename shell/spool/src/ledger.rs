//! How much is in files, and whose it is.
//!
//! Invariant: what was charged is given back exactly once, when the value that stands for it is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::SpoolError;
use crate::options::Options;

/// What is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in files, arriving ones included.
    pub bytes: u64,
    /// Bodies that arrive.
    pub uploads: usize,
    /// Bodies that have come whole since the start.
    pub bodies_total: u64,
    /// Bodies that were refused or broken off since the start.
    pub failed_total: u64,
}

#[derive(Debug, Default)]
struct Counts {
    usage: Usage,
    owners: HashMap<Arc<str>, Share>,
}

/// What one owner has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Share {
    bytes: u64,
    uploads: usize,
}

/// The account of all files.
#[derive(Debug)]
pub(crate) struct Ledger {
    options: Options,
    counts: Mutex<Counts>,
}

/// Bytes of one owner in one file.
#[derive(Debug)]
pub(crate) struct Charge {
    ledger: Arc<Ledger>,
    owner: Arc<str>,
    bytes: u64,
}

/// The place of a body that arrives.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) charge: Charge,
    is_whole: bool,
}

impl Ledger {
    pub(crate) fn new(options: Options) -> Ledger {
        Ledger { options, counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn usage(&self) -> Usage {
        self.counts().usage
    }

    /// Takes a place for a body.
    pub(crate) fn begin(self: &Arc<Self>, owner: &Arc<str>) -> Result<Place, SpoolError> {
        let mut counts = self.counts();
        let share = counts.owners.get(owner).map_or(0, |share| share.uploads);
        let refused = match () {
            () if counts.usage.uploads >= self.options.uploads_max => SpoolError::TooManyUploads,
            () if share >= self.options.owner_uploads_max => SpoolError::OwnerHasTooMany,
            () => {
                counts.usage.uploads += 1;
                counts.owners.entry(owner.clone()).or_default().uploads += 1;
                let charge = Charge { ledger: self.clone(), owner: owner.clone(), bytes: 0 };
                return Ok(Place { charge, is_whole: false });
            }
        };
        counts.usage.failed_total += 1;
        Err(refused)
    }
}

impl Ledger {
    /// Counts bytes that lie in files already.
    pub(crate) fn charge_kept(self: &Arc<Self>, owner: Option<Arc<str>>, bytes: u64) -> Charge {
        let owner = owner.unwrap_or_else(|| Arc::from(""));
        let mut counts = self.counts();
        counts.usage.bytes += bytes;
        counts.owners.entry(owner.clone()).or_default().bytes += bytes;
        Charge { ledger: self.clone(), owner, bytes }
    }
}

impl Charge {
    /// Charges more, if there is room.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), SpoolError> {
        let options = &self.ledger.options;
        let mut counts = self.ledger.counts();
        if counts.usage.bytes.saturating_add(bytes) > options.disk_bytes_max {
            return Err(SpoolError::Full);
        }
        let share = counts.owners.entry(self.owner.clone()).or_default();
        if share.bytes.saturating_add(bytes) > options.owner_bytes_max {
            return Err(SpoolError::OwnerFull);
        }
        share.bytes += bytes;
        counts.usage.bytes += bytes;
        self.bytes += bytes;
        Ok(())
    }

    /// The same bytes as a charge of their own; this one has none left.
    fn take(&mut self) -> Charge {
        let bytes = std::mem::take(&mut self.bytes);
        Charge { ledger: self.ledger.clone(), owner: self.owner.clone(), bytes }
    }
}

impl Place {
    /// The body is whole: its place is free, and its bytes stay charged.
    pub(crate) fn finish(mut self) -> Charge {
        self.is_whole = true;
        self.charge.take()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.charge.ledger.counts();
        counts.usage.uploads -= 1;
        match self.is_whole {
            true => counts.usage.bodies_total += 1,
            false => counts.usage.failed_total += 1,
        }
        if let Some(share) = counts.owners.get_mut(&self.charge.owner) {
            share.uploads -= 1;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut counts = self.ledger.counts();
        counts.usage.bytes -= self.bytes;
        if let Some(share) = counts.owners.get_mut(&self.owner) {
            share.bytes -= self.bytes;
            if *share == Share::default() {
                counts.owners.remove(&self.owner);
            }
        }
    }
}
