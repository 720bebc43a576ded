//! All clients of one server and transport: connecting, then step after step of more streams.
//!
//! Invariant: streams stay open from step to step, and a step's rates and latencies are of its own window, which
//! begins when its last stream should be open and the warm-up is over.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;

use super::client::Client;
use super::load::{Load, Pulse};
use super::worker::{Task, Worker};
use crate::args::RsocketTransport;
use crate::clients::carrier::Place;
use crate::clients::{Counters, Level};
use crate::clock::{Clock, SECOND_NS, Window};
use crate::stomp::cell::source_address;
use crate::stomp::connect::dial;
use crate::stomp::shared::Shared;
use crate::stomp::watch::Watch;

/// What the clients are to be.
#[derive(Debug, Clone)]
pub(super) struct ClientsSpec {
    pub address: SocketAddr,
    pub transport: RsocketTransport,
    pub place: Arc<Place>,
    pub connections: usize,
    pub threads: usize,
    /// The most streams there will be.
    pub streams_max: usize,
    pub load: Load,
}

/// Connected clients.
#[derive(Debug)]
pub(super) struct Clients {
    workers: Vec<Worker>,
    load: Load,
    pulse: Arc<Pulse>,
    clock: Clock,
}

/// How long the parts of a step take, seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub ramp_up: u64,
    pub warm_up: u64,
    pub duration: u64,
}

impl Clients {
    /// Connects all clients.
    pub(super) fn connect(
        spec: &ClientsSpec,
        pulse: &Arc<Pulse>,
        clock: Clock,
    ) -> anyhow::Result<Clients> {
        let shared = Arc::new(Shared::new(clock, Window::opening_at(0, 0, 0)));
        let begun = Instant::now();
        let results: Vec<anyhow::Result<Worker>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..spec.threads)
                .map(|worker| {
                    let (shared, pulse) = (&shared, &**pulse);
                    scope.spawn(move || connect_worker(spec, worker, pulse, shared))
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
            workers.iter().flat_map(|worker| &worker.clients).filter(|it| !it.is_open()).count();
        anyhow::ensure!(
            missing == 0,
            "{missing} connections were not open within {} s",
            CONNECT_TIME_MAX.as_secs()
        );
        Ok(Clients { workers, load: spec.load.clone(), pulse: Arc::clone(pulse), clock })
    }

    /// Goes up to as many streams and measures.
    pub(super) fn step(
        &mut self,
        name: &str,
        streams: usize,
        pids: &[u32],
        times: Times,
        bar: &ProgressBar,
    ) -> anyhow::Result<Level> {
        bar.set_prefix(name.to_owned());
        let begin_ns = self.clock.now_ns();
        let end_ns = begin_ns + times.ramp_up * SECOND_NS;
        let warm_up = times.ramp_up + times.warm_up;
        let window = Window::opening_at(begin_ns, warm_up, times.duration);
        let shared = Arc::new(Shared::new(self.clock, window));
        let empty = Counters::new(self.clock, window);
        let (load, pulse, workers) = (&self.load, &*self.pulse, self.workers.len());
        let (observed, tallies) = thread::scope(|scope| {
            let threads: Vec<_> = self
                .workers
                .iter_mut()
                .enumerate()
                .map(|(at, worker)| {
                    let (mut counters, shared) = (empty.clone(), &shared);
                    let task =
                        Task::Load { begin_ns, end_ns, streams: share(streams, workers, at) };
                    scope.spawn(move || {
                        worker.run(task, (load, pulse), &mut counters, shared).map(|()| counters)
                    })
                })
                .collect();
            let observed = Watch::of_processes(pids.to_vec(), &shared, true).observe(bar);
            shared.stop.store(true, Relaxed);
            let tallies: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            (observed, tallies)
        });
        let mut counters = empty;
        for one in tallies {
            let one = one.map_err(|_| panicked())?;
            counters.merge(&one.context("a generator thread could not poll its sockets")?);
        }
        #[allow(clippy::cast_precision_loss)]
        let asked = (self.load.interval_us > 0)
            .then(|| streams as f64 * 1e6 / self.load.interval_us as f64);
        Ok(Level {
            name: name.to_owned(),
            asked_per_s: asked,
            observed,
            counters,
            errors: shared.errors.load(Relaxed),
            problem: shared.problem(),
        })
    }
}

/// What falls to one of so many.
pub(super) fn share(whole: usize, parts: usize, at: usize) -> usize {
    whole / parts + usize::from(at < whole % parts)
}

fn connect_worker(
    spec: &ClientsSpec,
    number: usize,
    pulse: &Pulse,
    shared: &Arc<Shared>,
) -> anyhow::Result<Worker> {
    let clock = shared.clock;
    let mut worker = Worker::new(&spec.load, number, clock.now_ns());
    let count = share(spec.connections, spec.threads, number);
    let each = spec.streams_max.div_ceil(spec.connections);
    let routed = !spec.load.metadata.is_empty();
    let mut counters = Counters::new(clock, shared.window);
    let mut wait =
        |worker: &mut Worker| worker.run(Task::Connect, (&spec.load, pulse), &mut counters, shared);
    for index in 0..count {
        let source = spec.address.ip().is_loopback();
        let source = source.then(|| source_address(number * count + index));
        let stream = dial(spec.address, source)
            .with_context(|| format!("connection {} of {count}", index + 1))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let carried = (spec.transport, &spec.place);
        let mut client = Client::new(stream, carried, index as u32, routed, clock.now_ns());
        client.session.reserve(each, spec.load.mode);
        client.write().with_context(|| format!("connection {} of {count}", index + 1))?;
        pulse.connections.fetch_add(1, Relaxed);
        worker.clients.push(client);
        // What has been opened goes on while the rest is: a server closes those who say nothing.
        if worker.clients.len().is_multiple_of(OPENED_AT_ONCE) {
            wait(&mut worker)?;
        }
        if shared.is_stopped() {
            break;
        }
    }
    wait(&mut worker)?;
    Ok(worker)
}

fn panicked() -> anyhow::Error {
    anyhow!("a generator thread panicked; please report it")
}

/// Clients that connect at a time, per thread.
const OPENED_AT_ONCE: usize = 1_000;
const CONNECT_TIME_MAX: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (whole, parts) in [(10, 3), (9, 3), (2, 5), (0, 1)] {
            assert_eq!((0..parts).map(|at| share(whole, parts, at)).sum::<usize>(), whole);
        }
    }
}
