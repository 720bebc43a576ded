//! The options of REST and Server-Sent Events, and the node's memory of answers.
//!
//! Relies on `tiderace-events` for the table. Invariant: the lock is held for one look-up at a time
//! and by requests that bring an `Idempotency-Key` alone.

use std::sync::{Arc, Mutex, PoisonError};

use tiderace_base::Time;
use tiderace_config::Config;
use tiderace_events::{Claim, EventsOptions, Idempotency, IdempotencyTable, ListBudget};
use tiderace_wire::Response;

use crate::compose;

/// Answers to requests with an `Idempotency-Key`, for all shards.
struct Memory(Mutex<IdempotencyTable>);

impl Idempotency for Memory {
    fn claim(&self, now: Time, key: &str, request: u64) -> Claim {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).claim(now, key, request)
    }

    fn settle(&self, now: Time, key: &str, answer: Option<&Response>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).settle(now, key, answer);
    }
}

/// The options of REST and Server-Sent Events.
pub(crate) fn options(config: &Config) -> anyhow::Result<EventsOptions> {
    let events = &config.events;
    let remembers = !events.idempotency_window.is_zero();
    let memory = || -> Arc<dyn Idempotency> {
        let table = IdempotencyTable::new(events.idempotency_bytes_max, events.idempotency_window);
        Arc::new(Memory(Mutex::new(table)))
    };
    Ok(EventsOptions {
        base_path: events.base_path.trim_end_matches('/').to_owned(),
        message_bytes_max: config.limits.message_bytes_max,
        large_message_bytes_max: compose::large_message_bytes_max(config),
        batch_bytes_max: events.batch_bytes_max,
        batch_items_max: events.batch_items_max,
        topics_max: events.stream_topics_max,
        list_max: events.list_max,
        lists: Arc::new(ListBudget::new(events.lists_bytes_max)),
        heart_beat: events.heart_beat,
        retry: events.retry,
        request_timeout: events.request_timeout,
        call_timeout_max: events.call_timeout_max,
        idempotency: remembers.then(memory),
    })
}
