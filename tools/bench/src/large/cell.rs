//! One cell of `bench large`: a destination, a carrier, a server of its own.
//!
//! What sends and receives large messages runs on threads that let others go first, for in earnest it has processors
//! of its own: otherwise the latency of others would say how this machine shares its processors.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;

use crate::args::LargeArgs;
use crate::cpu;
use crate::folder::Folder;
use crate::server::Server;
use crate::stomp::cell::{self, CellSpec};
use crate::target::Target;

use super::client::{Carrier, Client};
use super::pattern::Pattern;

/// What is measured.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) name: &'static str,
    carrier: Carrier,
    is_topic: bool,
}

/// All of them. REST has no consumers of queues: what is sent by REST is received by STOMP there.
pub(super) const CELLS: [Cell; 6] = [
    Cell { name: "stomp-queue", carrier: Carrier::Stomp, is_topic: false },
    Cell { name: "stomp-topic", carrier: Carrier::Stomp, is_topic: true },
    Cell { name: "websocket-queue", carrier: Carrier::WebSocket, is_topic: false },
    Cell { name: "websocket-topic", carrier: Carrier::WebSocket, is_topic: true },
    Cell { name: "rest-queue", carrier: Carrier::Rest, is_topic: false },
    Cell { name: "rest-topic", carrier: Carrier::Rest, is_topic: true },
];

/// What one run of a cell has found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    /// Until the sender was told that the message was taken, s.
    pub(super) taken_s: f64,
    /// Until everyone had all of it, s.
    pub(super) received_s: f64,
    /// Copying a file of that size, s.
    pub(super) copy_s: f64,
    /// Large messages delivered in `received_s`.
    pub(super) receivers: usize,
    /// Anonymous memory of the server before the cell, when as many clients have had a small message, bytes.
    pub(super) idle_bytes: u64,
    /// The most of it meanwhile.
    pub(super) most_bytes: u64,
    /// The 99th percentile of the latency of others without large messages, ns; 0 if there were none.
    pub(super) alone_p99_ns: u64,
    /// The same beside them.
    pub(super) beside_p99_ns: u64,
}

/// Runs a cell on a server of its own.
///
/// # Errors
/// A sentence when the server or a connection is at fault, or something came wrong.
pub(super) fn run(
    cell: &Cell,
    args: &LargeArgs,
    directory: &Folder,
    pattern: &Pattern,
) -> anyhow::Result<Figures> {
    let files = directory.below("large")?;
    let sections = format!("[large_messages]\ndirectory = {:?}\n", files.path);
    let server = Server::start(args.server.as_ref(), &sections, &args.settings)?;
    let transfer = Transfer { cell, args, address: server.address, pattern };
    // What the first connections of any server take, whatever they send, is not the large message's.
    let small = LargeArgs { size: SMALL_BYTES, ..args.clone() };
    Transfer { args: &small, ..transfer }.run()?;
    let idle_bytes = anonymous_bytes(server.pid()).context("cannot read the server's memory")?;
    let most_bytes = AtomicU64::new(idle_bytes);
    let is_over = AtomicBool::new(false);
    let mut figures = thread::scope(|scope| {
        scope.spawn(|| watch(server.pid(), &most_bytes, &is_over));
        let figures = scope.spawn(|| yielding(|| transfer.run())).join();
        is_over.store(true, Ordering::Relaxed);
        joined(figures)
    })?;
    figures.most_bytes = most_bytes.into_inner();
    figures.idle_bytes = idle_bytes;
    if args.others > 0.0 {
        let target = Target::local("tiderace", server.address, server.pid());
        figures.alone_p99_ns = others(&target, args)?;
        let is_over = AtomicBool::new(false);
        figures.beside_p99_ns = thread::scope(|scope| {
            let large = scope.spawn(|| yielding(|| transfer.until(&is_over)));
            let others = others(&target, args);
            is_over.store(true, Ordering::Relaxed);
            joined(large.join())?;
            others
        })?;
    }
    Ok(figures)
}

/// Sending large messages and receiving them.
#[derive(Debug, Clone, Copy)]
struct Transfer<'a> {
    cell: &'a Cell,
    args: &'a LargeArgs,
    address: SocketAddr,
    pattern: &'a Pattern,
}

impl Transfer<'_> {
    /// Again and again, until the others have been measured; once at least.
    fn until(&self, is_over: &AtomicBool) -> anyhow::Result<()> {
        while !is_over.load(Ordering::Relaxed) {
            self.run()?;
        }
        Ok(())
    }

    /// One message to everyone who is to have it.
    fn run(&self) -> anyhow::Result<Figures> {
        let Cell { carrier, is_topic, .. } = *self.cell;
        let destination = if is_topic { "/topic/large" } else { "/queue/large" };
        let receivers = if is_topic { self.args.subscribers } else { 1 };
        let out = match (carrier, is_topic) {
            (Carrier::Rest, false) => Carrier::Stomp,
            (carrier, _) => carrier,
        };
        // Those that ask for a value ask when it is there, the others have subscribed before.
        let (is_ready, is_taken) = (Barrier::new(receivers + 1), Barrier::new(receivers + 1));
        let receive = |number: usize| -> anyhow::Result<()> {
            let connected = Client::connect(out, self.address, self.pattern).and_then(|mut one| {
                if out != Carrier::Rest {
                    one.subscribe(destination)?;
                }
                Ok(one)
            });
            is_ready.wait();
            if out == Carrier::Rest {
                is_taken.wait();
            }
            let mut client = connected?;
            client.receiver.is_thorough = number == 0;
            if out == Carrier::Rest {
                client.ask("large")?;
            }
            client.message()
        };
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..receivers).map(|number| scope.spawn(move || receive(number))).collect();
            let sender = Client::connect(carrier, self.address, self.pattern);
            is_ready.wait();
            let begun = Instant::now();
            let taken = sender.and_then(|mut one| one.publish(destination, self.args.size));
            let taken_s = begun.elapsed().as_secs_f64();
            if out == Carrier::Rest {
                is_taken.wait();
            }
            let received: Vec<_> =
                threads.into_iter().map(|thread| joined(thread.join())).collect();
            let received_s = begun.elapsed().as_secs_f64();
            taken?;
            received.into_iter().collect::<anyhow::Result<()>>()?;
            Ok(Figures { taken_s, received_s, receivers, ..Figures::default() })
        })
    }
}

/// The 99th percentile of the latency of small messages between two other clients, ns.
fn others(target: &Target, args: &LargeArgs) -> anyhow::Result<u64> {
    let spec = CellSpec {
        size: 1024,
        rate: Some(args.others),
        warm_up_s: 1,
        duration_s: args.seconds,
        ..CellSpec::default()
    };
    let outcome = cell::run(target, &spec, &ProgressBar::hidden()).context("the others")?;
    Ok(outcome.latency.total().value_at_quantile(0.99))
}

/// Runs something on this thread, and the threads that it starts, behind all others.
fn yielding<T>(run: impl FnOnce() -> T) -> T {
    if let Some(thread) = cpu::thread_id() {
        // Where it cannot be said the latency of others is worse, nothing else.
        let mut renice = Command::new("renice");
        renice.args(["-n", "10", "-p", &thread.to_string()]);
        let _ = renice.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
    run()
}

fn watch(pid: u32, most_bytes: &AtomicU64, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        most_bytes.fetch_max(anonymous_bytes(pid).unwrap_or(0), Ordering::Relaxed);
        thread::sleep(WATCH_INTERVAL);
    }
}

/// Memory of a process that is no file's, bytes.
fn anonymous_bytes(pid: u32) -> Option<u64> {
    anonymous_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn anonymous_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

fn joined<T>(result: thread::Result<anyhow::Result<T>>) -> anyhow::Result<T> {
    result.unwrap_or_else(|_| Err(anyhow!("a thread of the bench has failed; its error is above")))
}

/// A message that is no large one.
const SMALL_BYTES: u64 = 1024;
const WATCH_INTERVAL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_is_told() {
        let status = "VmRSS:\t  300 kB\nRssAnon:\t     120 kB\nRssFile:\t     180 kB\n";
        assert_eq!(anonymous_in(status), Some(120 * 1024));
        assert_eq!(anonymous_in("VmRSS:\t  300 kB\n"), None);
        assert!(anonymous_bytes(std::process::id()).is_some_and(|bytes| bytes > 0));
        assert_eq!(anonymous_bytes(u32::MAX), None);
    }
}
