//! What a home appends to the store, and the answers that wait until it is committed.
//!
//! ```text
//!   append ─▶ records ──take──▶ the store ──committed / failed──▶ answers set free
//!     └─ number ─▶ hold(records, answer)
//! ```
//! Each record has a number. An answer is held until the number of the last record that belongs to
//! it. The store takes records in their order and answers every number, with [`Journal::committed`]
//! or with [`Journal::failed`]. A store that fails is an outage: answers are refused, and the
//! records that were refused are noted by their [`RecordSubject`], so that they can be appended
//! again as soon as the store works. What only an answer is about (messages for a queue, which are
//! refused to their publisher) has no subject and is not appended again.
//!
//! A record whose message has its body in a file may be refused alone, with [`Journal::body_refused`]: that is no outage. An
//! answer is refused for it if that record is one of its own; what it waits for besides is not.
//!
//! The journal is pure: it knows neither topics nor sessions, and what an answer is its user
//! decides. Invariants: no answer is set free as committed before all records that it waits for are
//! committed; answers are set free in the order of their records; a subject that the store has
//! refused stays noted until it is appended again.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod awaited;
mod journal;
mod load;
mod outage;
mod record;
mod refused;
mod refused_bodies;

pub use awaited::Awaited;
pub use journal::{AnswerKind, Journal, Settled, TakenRecords};
pub use load::{DamagedRecord, LoadedRecord, StoreLoad, StoreLoaded};
pub use outage::{NotStored, StoreOutage};
pub use record::{RecordBody, RecordSubject, StoreRecord, StoredKind, Streams};
