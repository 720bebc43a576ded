//! A store that takes no records.

use tiderace_base::{Close, CloseCode, Span, Time};

/// How often a store that is full is tried again.
const RETRY: Span = Span::from_secs(1);

/// Why nothing can be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutage {
    /// There is no room; it is tried again every second.
    Full,
    /// The store will not take any more until the server is started again.
    Failed,
}

impl From<StoreOutage> for Close {
    fn from(outage: StoreOutage) -> Close {
        let reason = match outage {
            StoreOutage::Failed => {
                "the store has failed, so nothing is kept from now on; the server's log says why, \
                 and it has to be started again"
            }
            StoreOutage::Full => {
                "the store has no room, so this may not survive a restart; send it again when \
                 there is room"
            }
        };
        Close::new(CloseCode::StoreUnavailable, reason)
    }
}

/// Why what an answer says is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// Nothing can be committed.
    Outage(StoreOutage),
    /// The file of its body could not be kept; all else goes on.
    Body,
}

impl From<NotStored> for Close {
    fn from(reason: NotStored) -> Close {
        match reason {
            NotStored::Outage(outage) => outage.into(),
            NotStored::Body => {
                let reason = "the store could not keep the file of this large message, so it may not survive a \
                              restart; the server's log says why. Send it again when there is room";
                Close::new(CloseCode::LargeMessagesFull, reason)
            }
        }
    }
}

/// An outage, and how far the attempts to end it are.
#[derive(Debug)]
pub(crate) struct Attempts {
    pub(crate) outage: StoreOutage,
    /// The number of the record with which the store is tried.
    probe: Option<u64>,
    retry_at: Time,
}

impl Attempts {
    pub(crate) fn new(now: Time, outage: StoreOutage) -> Attempts {
        Attempts { outage, probe: None, retry_at: now + RETRY }
    }

    /// Whether it is time to try again.
    pub(crate) fn are_due(&self, now: Time) -> bool {
        self.outage == StoreOutage::Full && self.probe.is_none() && now >= self.retry_at
    }

    pub(crate) fn wait_again(&mut self, now: Time) {
        self.retry_at = now + RETRY;
    }

    pub(crate) fn probe_with(&mut self, record: u64) {
        self.probe = Some(record);
    }

    /// Whether the store works again, since it has committed up to a number.
    pub(crate) fn have_succeeded(&self, committed: u64) -> bool {
        self.outage == StoreOutage::Full && self.probe.is_some_and(|probe| probe <= committed)
    }
}
