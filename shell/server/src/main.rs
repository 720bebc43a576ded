//! Tiderace: one server that pushes live data to everyone who is connected.
//!
//! The composition root: the only place that knows every part by name. `cli` reads the command line,
//! `compose` turns the configuration into the parts' own options, `serve` brings them to life and to
//! an orderly end, `monitor` answers HTTP requests about the server itself,
//! `page` those for the live page.

mod alarms;
mod allocator;
mod audit;
mod cli;
mod compose;
mod control;
mod drain;
mod events;
mod explain;
mod exposition;
mod feed;
mod fetch;
mod hosts;
mod identities;
mod logging;
mod login;
mod metrics;
mod monitor;
mod page;
mod persistence;
mod process;
mod proxies;
mod quotas;
mod resources;
mod restoring;
mod rules;
mod serve;
mod service_manager;
mod signals;
mod socketio;
mod sockets;
mod specs;
mod stats;
mod store_damage;
mod telemetry;
mod tls;
mod traces;
mod upstreams;
mod watchdog;
mod www;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(serve::serve)
}
