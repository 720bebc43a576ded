//! A table of records whose time does not pass by itself.

use std::sync::atomic::{AtomicU64, Ordering};

use tiderace_base::{Span, Time};
use tiderace_socketio::{Record, Records, RecoveryTable};

/// Records behind a lock, as the server has them.
#[allow(clippy::disallowed_types, reason = "the server's table is locked too")]
pub struct Table {
    records: std::sync::Mutex<Records>,
    pub seconds: AtomicU64,
}

#[allow(clippy::disallowed_types, reason = "the server's table is locked too")]
impl Default for Table {
    fn default() -> Table {
        let records = Records::new(1 << 20, Span::from_secs(120));
        Table { records: std::sync::Mutex::new(records), seconds: AtomicU64::new(0) }
    }
}

impl Table {
    pub fn len(&self) -> usize {
        self.records.lock().unwrap().len()
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from_secs(self.seconds.load(Ordering::Relaxed))
    }
}

impl RecoveryTable for Table {
    fn keep(&self, record: Record) {
        self.records.lock().unwrap().keep(self.now(), record);
    }

    fn take(&self, pid: u128, principal: &str) -> Option<Record> {
        self.records.lock().unwrap().take(self.now(), pid, principal)
    }
}
