//! The options of Socket.IO, and the node's memory of connections that broke off.
//!
//! Relies on `tiderace-socketio` for the table. Invariant: the lock is held for one record at a time,
//! when a client breaks off or comes back, and never while messages flow.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tiderace_base::Time;
use tiderace_config::Config;
use tiderace_socketio::{Record, Records, RecoveryTable, SocketOptions};
use tiderace_topics::Path;

use crate::compose;

/// Connections that broke off, of all shards.
struct Memory {
    records: Mutex<Records>,
    /// When the table began: sessions end without being told the time.
    began: Instant,
}

impl Memory {
    fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }
}

impl RecoveryTable for Memory {
    fn keep(&self, record: Record) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).keep(self.now(), record);
    }

    fn take(&self, pid: u128, principal: &str) -> Option<Record> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.take(self.now(), pid, principal)
    }
}

/// The options of Socket.IO sessions.
///
/// # Errors
/// When an application namespace cannot be one.
pub(crate) fn options(config: &Config) -> anyhow::Result<SocketOptions> {
    let (socketio, limits) = (&config.socketio, &config.limits);
    let remembers = !socketio.recovery_window.is_zero();
    let memory = || -> Arc<dyn RecoveryTable> {
        let records = Records::new(socketio.recovery_bytes_max, socketio.recovery_window);
        Arc::new(Memory { records: Mutex::new(records), began: Instant::now() })
    };
    for name in &socketio.application_namespaces {
        let level = name.strip_prefix('/').unwrap_or_default();
        if name != "*" && Path::parse(level).is_err() {
            anyhow::bail!(
                "socketio.application_namespaces: `{name}` is no namespace; write `*`, or a name such as `/app`"
            );
        }
    }
    Ok(SocketOptions {
        connect_timeout: socketio.connect_timeout,
        attachments_timeout: socketio.attachments_timeout,
        attachments_max: socketio.attachments_max,
        message_bytes_max: limits.message_bytes_max,
        depth_max: socketio.depth_max,
        subscriptions_max: limits.subscriptions_per_session_max,
        namespaces_max: socketio.namespaces_max,
        exchanges_max: socketio.exchanges_max,
        call_timeout: socketio.call_timeout,
        application_namespaces: socketio.application_namespaces.clone(),
        application_prefix: socketio.application_prefix.trim_matches('/').to_owned(),
        application_echo: socketio.application_echo,
        application_recovery: socketio.application_recovery,
        deltas: compose::deltas(config),
        recovery: remembers.then(memory),
        ..SocketOptions::default()
    })
}
