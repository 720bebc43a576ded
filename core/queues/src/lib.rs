//! Queues: ready and in-flight messages, dispatch, acknowledgement, redelivery, expiry.
//!
//! [`Queues`] holds the queues whose home is one shard together with their consumers, wherever
//! those are connected. It is pure: calls come in, [`Effect`]s go out. A message is in exactly one
//! place at a time: ready in its queue, in flight to one consumer, or gone.
//!
//! ```text
//!   publish ─▶ ready ──dispatch──▶ in flight ──accept──▶ gone
//!                ▲                     │
//!                └──reject, return, leave (same place in the order)
//!                └── delayed ◀─ fails ─┴── too many failures ─▶ dead letter
//! ```
//! A failure is a rejection, or the loss of a consumer that had most likely taken the message. What
//! merely lay unread in its window comes back as new ([`Queues::leave`]).

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod accounts;
mod browsers;
mod browsing;
mod consumer;
mod delayed;
mod dispatch;
mod effect;
mod fullness;
mod grouping;
mod groups;
mod inspect;
mod lines;
mod loading;
mod policy;
mod private;
mod queue;
mod queues;
mod quotas;
mod ranks;
mod ready;
mod segment;
mod settling;
mod stored;
mod survey;
mod swapped;
mod swapping;
mod taking;
mod upkeep;
mod versions;
mod waiting;
mod walk;
mod weight;

pub use accounts::{OverQuota, Quota, Quotas};
pub use consumer::{Consume, Ending, Settlement};
pub use effect::{DeathReason, Effect};
pub use fullness::Refusal;
pub use inspect::{ConsumerState, QueueChoices};
pub use loading::{LoadedPart, LoadedRun};
pub use policy::{DispatchPolicy, Dropped, FullPolicy, Policy};
pub use private::{gathers, is_private, reaches};
pub use queue::{QueueOptions, QueueState};
pub use queues::Queues;
pub use segment::{Consumed, Segment};
pub use swapped::Look;
pub use taking::{Slice, Taken};
