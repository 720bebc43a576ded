//! The load generator behind `tiderace bench`: producers, consumers, peers and bare baselines.
//!
//! It speaks STOMP with code of its own, not the server's, so that a fault in the server's codec
//! cannot hide itself, and so that a message costs the generator a few tens of nanoseconds.
//! Relies on Linux for CPU accounting (`/proc`) and on loopback for its bare baselines.
//! Invariant: a figure is printed only together with what limits its meaning (lost or reordered
//! messages, a generator that was the bottleneck, a server that could not be accounted).

pub mod args;
pub mod bare;
pub mod body;
mod child;
pub mod clients;
pub mod clock;
pub mod compare;
pub mod connections;
pub mod cpu;
pub mod diffusion;
pub mod edges;
pub mod fanout;
mod folder;
pub mod forwarder;
pub mod large;
pub mod latency;
pub mod machine;
pub mod matrix;
mod published;
pub mod queue;
pub mod queues;
mod random;
mod reading;
pub mod report;
pub mod rsocket;
pub mod rubris;
pub mod scenario;
mod scrape;
mod server;
pub mod sessions;
pub mod socketio;
pub mod stomp;
pub mod store;
pub mod subscriptions;
pub mod target;
pub mod topics;

pub use args::{BenchArgs, BenchCommand};

/// Runs one `bench` sub-command to its end and prints its report.
///
/// # Errors
/// A sentence that says what failed and what to do about it.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    match &args.command {
        BenchCommand::Stomp(stomp) => matrix::run(stomp),
        BenchCommand::Fanout(fanout) => fanout::run(fanout),
        BenchCommand::Bare(bare) => bare::run(bare),
        BenchCommand::Rubris(rubris) => rubris::run(rubris),
        BenchCommand::Diffusion(diffusion) => diffusion::run(diffusion),
        BenchCommand::Edges(edges) => edges::run(edges),
        BenchCommand::Topics(topics) => topics::run(topics),
        BenchCommand::Store(store) => store::run(store),
        BenchCommand::Queue(queue) => queue::run(queue),
        BenchCommand::Queues(queues) => queues::run(queues),
        BenchCommand::Large(large) => large::run(large),
        BenchCommand::Subscriptions(args) => subscriptions::run(args),
        BenchCommand::Socketio(socketio) => socketio::run(socketio),
        BenchCommand::Rsocket(rsocket) => rsocket::run(rsocket),
        BenchCommand::Connections(connections) => connections::run(connections),
        BenchCommand::Sessions(sessions) => sessions::run(sessions),
        BenchCommand::Worker(worker) => connections::worker::run(worker),
        BenchCommand::Compare(compare) => compare::run(compare),
        BenchCommand::Forwarder(forwarder) => forwarder::run(forwarder),
        BenchCommand::BareWriter(writer) => bare::run_writer(writer),
    }
}
