//! All tests of this crate in one program: what they share is compiled once.

mod forwarder;
mod rsocket;
mod sessions;
mod websocket;
