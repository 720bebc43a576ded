//! All tests of this crate in one program, so that what they share is compiled once; those that count the heap
//! of the whole process are in `heap`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod access;
mod authorisation;
mod before_login;
mod common;
mod drain;
mod http2;
mod http2_floods;
mod intake;
mod internal_sessions;
mod latency;
mod limits;
mod logins;
mod long_writes;
mod loopback;
mod pauses;
mod proxies;
mod requests;
mod resume;
mod rsocket;
mod rsocket_clients;
mod sessions;
mod simulation;
mod taken_in;
mod tls;
mod upstream;
mod upstream_nodes;
mod upstream_sockets;
