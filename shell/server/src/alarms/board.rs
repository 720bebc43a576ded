//! The alarms that are there, for those who tell of them: topics, metrics.
//!
//! One thread writes, others read. Invariant: a reader that sees another number of the board sees what it stands for, or
//! something newer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value as Json, json};
use tiderace_base::{Sample, SampleValue};

use super::table::ALARMS;
use super::watch::Present;
use crate::metrics::ALARM;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct AlarmBoard {
    present: Mutex<Vec<Present>>,
    /// How often that has changed.
    changes: AtomicU64,
}

impl AlarmBoard {
    /// These are there from now on.
    pub(super) fn set(&self, present: Vec<Present>) {
        let mut held = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = held.len() == present.len()
            && held.iter().zip(&present).all(|(a, b)| {
                (a.row.name, a.since_ms, &a.what) == (b.row.name, b.since_ms, &b.what)
            });
        if !is_same {
            *held = present;
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// A number that is another one after each change.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The values of `$sys/alarms/NAME`, by their names.
    pub(super) fn values(&self) -> Vec<(&'static str, Json)> {
        let held = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().map(|present| (present.row.name, value(present))).collect()
    }

    /// The metrics: one for each alarm that there could be.
    pub(crate) fn samples(&self) -> Vec<Sample<'static>> {
        let held = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |name| held.iter().any(|present| present.row.name == name);
        let sample = |(name, severity): (&'static str, &'static str)| Sample {
            row: &ALARM,
            labels: vec![name, severity],
            value: SampleValue::Number(u64::from(is_there(name))),
        };
        ALARMS.iter().map(|row| sample((row.name, row.severity.as_str()))).collect()
    }
}

fn value(present: &Present) -> Json {
    let row = present.row;
    json!({
        "name": row.name,
        "severity": row.severity.as_str(),
        "since": present.since_ms,
        "what": present.what,
        "cause": row.cause,
        "remedy": row.remedy,
    })
}
