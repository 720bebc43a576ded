//! Files with bodies of large messages: mapped, and known again by their bytes.
//!
//! ```text
//!   spool: what arrived ──▶ BodyFile ──Maps::map──▶ Bytes ─▶ messages ─▶ Maps::find ─▶ BodyFile ──▶ store: keeps it
//!   store: what it has kept ─▶ BodyFile ──Maps::map──▶ Bytes ─▶ messages
//! ```
//! Messages know bodies as bytes and nothing else. Who has to do something with the file itself, as the store that is to
//! keep it, finds it by where the bytes lie in memory. The files that were mapped last stay open, so that they can be given
//! names. A thread of its own unmaps, which may take long. Invariants: a bounded number of files is open; bytes of
//! a mapping do not change while somebody has them; each mapping is known from before its bytes are given out until
//! behind the last of them.

mod file;
mod maps;

pub use file::{BodyFile, BodyPart, Charge, Kept, checksum};
pub use maps::Maps;
