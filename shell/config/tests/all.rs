//! All tests of this crate in one program: what they share is compiled once.

mod refusals;
mod support;
mod upstreams;
mod values;
