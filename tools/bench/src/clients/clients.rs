//! All clients: the workers that run them, each on a thread, through connecting and levels of load.
//!
//! Invariant: a level's counts and latencies are of its own window; what was on its way before is
//! drained first.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;

use crate::clients::client::{Client, ClientSpec, Step, Times};
use crate::clients::counters::Counters;
use crate::clients::worker::{self, Goal};
use crate::clock::{Clock, SECOND_NS, Window};
use crate::stomp::cell::source_address;
use crate::stomp::connect::dial;
use crate::stomp::shared::Shared;
use crate::stomp::watch::{Observation, Watch};

/// What the clients are to be.
#[derive(Debug, Clone)]
pub struct ClientsSpec {
    /// The server.
    pub address: SocketAddr,
    /// Its processes, for accounting.
    pub pids: Vec<u32>,
    /// Threads.
    pub workers: usize,
    /// Clients of each.
    pub clients: usize,
    /// The first of the loopback source addresses to use.
    pub source_base: usize,
    /// What each client is to be.
    pub client: ClientSpec,
}

/// Connected clients.
#[derive(Debug)]
pub struct Clients {
    workers: Vec<Vec<Client>>,
    pids: Vec<u32>,
}

/// One level of load, measured.
#[derive(Debug, Clone)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// Deliveries per second that were asked for; none if as many as possible.
    pub asked_per_s: Option<f64>,
    /// Rates, CPU, memory.
    pub observed: Observation,
    /// What was received, latencies included.
    pub counters: Counters,
    /// Clients lost and other errors.
    pub errors: u64,
    /// The first of them.
    pub problem: Option<String>,
}

impl Clients {
    /// Connects all clients and waits until all listen; `paths` says to what the client of that
    /// number does.
    ///
    /// # Errors
    /// A sentence when a connection fails or a client does not get through in time.
    pub fn connect(
        spec: &ClientsSpec,
        paths: impl Fn(usize) -> Vec<String> + Sync,
    ) -> anyhow::Result<Clients> {
        let clock = Clock::start();
        let shared = Arc::new(Shared::new(clock, Window::opening_at(0, 0, 1)));
        let begun = Instant::now();
        let results: Vec<anyhow::Result<Vec<Client>>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..spec.workers)
                .map(|worker| {
                    let (shared, paths) = (&shared, &paths);
                    scope.spawn(move || connect_worker(spec, worker, paths, shared))
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                thread::sleep(Duration::from_millis(2));
                if begun.elapsed() > CONNECT_TIME_MAX || shared.problem().is_some() {
                    shared.stop.store(true, Relaxed);
                }
            }
            threads.into_iter().map(|thread| thread.join().map_err(|_| panicked())?).collect()
        });
        let workers = results.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        if let Some(problem) = shared.problem() {
            return Err(anyhow!(problem).context("the clients could not all connect"));
        }
        let missing =
            workers.iter().flatten().filter(|client| client.step != Step::Complete).count();
        anyhow::ensure!(
            missing == 0,
            "{missing} clients were not subscribed within {} s",
            CONNECT_TIME_MAX.as_secs()
        );
        Ok(Clients { workers, pids: spec.pids.clone() })
    }

    /// When each client reached each phase.
    pub fn times(&self) -> Vec<Times> {
        self.workers.iter().flatten().map(|client| client.times).collect()
    }

    /// How many clients there are.
    pub fn len(&self) -> usize {
        self.workers.iter().map(Vec::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads for a window of time and measures.
    ///
    /// # Errors
    /// When a thread fails.
    pub fn level(
        &mut self,
        name: &str,
        asked_per_s: Option<f64>,
        (warm_up_s, duration_s): (u64, u64),
        bar: &ProgressBar,
    ) -> anyhow::Result<Level> {
        bar.set_prefix(name.to_owned());
        let clock = Clock::start();
        let window = Window::opening_at(clock.now_ns(), warm_up_s, duration_s);
        let shared = Arc::new(Shared::new(clock, window));
        let pids = self.pids.clone();
        let (observed, counters) =
            self.read(&shared, |shared| Watch::of_processes(pids, shared, true).observe(bar))?;
        Ok(Level {
            name: name.to_owned(),
            asked_per_s,
            observed,
            counters,
            errors: shared.errors.load(Relaxed),
            problem: shared.problem(),
        })
    }

    /// Reads until nothing has come for a while.
    ///
    /// # Errors
    /// When a thread fails.
    pub fn drain(&mut self) -> anyhow::Result<()> {
        let clock = Clock::start();
        let shared = Arc::new(Shared::new(clock, Window::opening_at(0, 0, 1)));
        self.read(&shared, |shared| {
            let (mut last, mut quiet_since_ns) = (u64::MAX, 0);
            loop {
                thread::sleep(Duration::from_millis(20));
                let (received, now_ns) = (shared.received.load(Relaxed), clock.now_ns());
                if received != last {
                    (last, quiet_since_ns) = (received, now_ns);
                }
                if now_ns - quiet_since_ns > QUIET_NS || now_ns > DRAIN_NS_MAX {
                    return;
                }
            }
        })?;
        Ok(())
    }

    /// Runs the workers while `meanwhile` runs.
    fn read<T>(
        &mut self,
        shared: &Arc<Shared>,
        meanwhile: impl FnOnce(&Arc<Shared>) -> T,
    ) -> anyhow::Result<(T, Counters)> {
        let empty = Counters::new(shared.clock, shared.window);
        let (value, tallies) = thread::scope(|scope| {
            let threads: Vec<_> = self
                .workers
                .iter_mut()
                .map(|worker| {
                    let mut counters = empty.clone();
                    scope.spawn(move || {
                        worker::run(worker, &mut counters, shared, Goal::Stopped).map(|()| counters)
                    })
                })
                .collect();
            let value = meanwhile(shared);
            shared.stop.store(true, Relaxed);
            let tallies: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            (value, tallies)
        });
        let mut sum = empty;
        for counters in tallies {
            let counters = counters.map_err(|_| panicked())?;
            sum.merge(&counters.context("a generator thread could not poll its sockets")?);
        }
        Ok((value, sum))
    }
}

fn connect_worker(
    spec: &ClientsSpec,
    worker: usize,
    paths: &(impl Fn(usize) -> Vec<String> + Sync),
    shared: &Arc<Shared>,
) -> anyhow::Result<Vec<Client>> {
    let mut clients = Vec::with_capacity(spec.clients);
    for index in 0..spec.clients {
        let number = worker * spec.clients + index;
        let source = spec.address.ip().is_loopback();
        let source = source.then(|| source_address(spec.source_base + number));
        let stream = dial(spec.address, source)
            .with_context(|| format!("connection {} of {}", index + 1, spec.clients))?;
        stream.set_nodelay(true)?;
        clients.push(Client::new(stream, &spec.client, paths(number), spec.source_base + number));
        // What has been opened goes on while the rest is: a server closes those who say nothing.
        if clients.len() % OPENED_AT_ONCE == 0 {
            worker::run(&mut clients, &mut Counters::idle(), shared, Goal::Complete)?;
        }
        if shared.is_stopped() {
            break;
        }
    }
    worker::run(&mut clients, &mut Counters::idle(), shared, Goal::Complete)?;
    Ok(clients)
}

fn panicked() -> anyhow::Error {
    anyhow!("a generator thread panicked; please report it")
}

/// Clients that connect at a time, per thread.
const OPENED_AT_ONCE: usize = 2_000;
const CONNECT_TIME_MAX: Duration = Duration::from_secs(300);
const QUIET_NS: u64 = SECOND_NS / 2;
const DRAIN_NS_MAX: u64 = 30 * SECOND_NS;
