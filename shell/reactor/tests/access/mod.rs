//! What the test of authorisation is made of.
#![allow(unreachable_pub, reason = "tests share these files")]

pub mod oracle;
pub mod speakers;

pub use oracle::{Deed, Oracle, Rule, Verb};
pub use speakers::{Speaker, Speech};
