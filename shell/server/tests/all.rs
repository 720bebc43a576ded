//! All tests of this crate in one program: what they share is compiled once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod admin_socket;
mod alarms;
mod audit;
mod authentication_page;
mod backups;
mod bench;
mod blocks;
mod callout;
mod certificates;
mod cli;
mod clients;
mod config_running;
mod connections;
mod crashes;
mod drain;
mod edges;
mod explain;
mod hosts;
mod identities;
mod lasting_logins;
mod limits;
mod management;
mod management_ways;
mod measures;
mod operations;
mod program;
mod proxies;
mod queue_crashes;
mod readme;
mod reload;
mod secured;
#[cfg(target_os = "linux")]
mod service_manager;
mod signed_tokens;
mod support;
mod telemetry;
mod top;
mod traces;
