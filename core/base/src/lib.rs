//! Ids, time as a value, close codes, limits, the memory budget, slabs, timer wheel, numbers and how
//! they are written: what every layer shares.
//!
//! Nothing here reads a clock, opens a socket or starts a thread; every layer may rely on it and
//! it relies on none of them.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod addresses;
mod allowance;
mod close;
mod counter;
mod id;
pub mod limits;
mod local_peer;
mod memory;
mod metric;
mod name;
mod networks;
mod number;
mod numbered;
mod prefetch;
mod rate;
mod slab;
mod span;
mod time;
mod upstream_url;
mod varint;
mod wheel;

pub use addresses::{Addresses, AddressesError};
pub use allowance::{Allowance, Allowances, ClientLimit, ClientLimits, Wait};
pub use close::{CLOSE_CODES, Close, CloseCode, CloseRow, ErrorClass, Severity};
pub use counter::Counter;
pub use id::{SessionId, ShardId};
pub use local_peer::{LOCAL_NAMES, ShownPeer, is_local, is_local_name, local_peer, local_user};
pub use memory::{CountedBlock, Memory, MemoryUse, SharedCharge};
pub use metric::{MetricKind, MetricRow, Sample, SampleValue};
pub use name::is_name;
pub use networks::{Network, NetworkError, Networks, PrefixLength};
pub use number::{Arithmetic, Number};
pub use numbered::Numbered;
pub use prefetch::prefetch;
pub use rate::RateLimiter;
pub use slab::{Key, Slab};
pub use span::{SPAN_UNITS, SpanUnit, parse_span, write_span};
pub use time::{Now, Span, Time};
pub use upstream_url::{UpstreamUrl, UrlError};
pub use varint::{VARINT_BYTES_MAX, read_varint, write_varint};
pub use wheel::Wheel;
