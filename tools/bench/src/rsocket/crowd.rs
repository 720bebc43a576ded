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
use super::crew::{Crew, Task};
use super::load::{Load, Pulse};
use crate::args::RsocketTransport;
use crate::clock::{Clock, SECOND_NS, Window};
use crate::crowd::carrier::Place;
use crate::crowd::{Level, Tally};
use crate::stomp::cell::source_address;
use crate::stomp::connect::dial;
use crate::stomp::shared::Shared;
use crate::stomp::watch::Watch;

/// What a crowd is to be.
#[derive(Debug, Clone)]
pub(super) struct CrowdSpec {
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
pub(super) struct Crowd {
    crews: Vec<Crew>,
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

impl Crowd {
    /// Connects all clients.
    pub(super) fn connect(
        spec: &CrowdSpec,
        pulse: &Arc<Pulse>,
        clock: Clock,
    ) -> anyhow::Result<Crowd> {
        let shared = Arc::new(Shared::new(clock, Window::opening_at(0, 0, 0)));
        let begun = Instant::now();
        let results: Vec<anyhow::Result<Crew>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..spec.threads)
                .map(|crew| {
                    let (shared, pulse) = (&shared, &**pulse);
                    scope.spawn(move || connect_crew(spec, crew, pulse, shared))
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
        let crews = results.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        if let Some(problem) = shared.problem() {
            return Err(anyhow!(problem).context("the clients could not all connect"));
        }
        let missing =
            crews.iter().flat_map(|crew| &crew.clients).filter(|it| !it.is_open()).count();
        anyhow::ensure!(
            missing == 0,
            "{missing} connections were not open within {} s",
            CONNECT_TIME_MAX.as_secs()
        );
        Ok(Crowd { crews, load: spec.load.clone(), pulse: Arc::clone(pulse), clock })
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
        let empty = Tally::new(self.clock, window);
        let (load, pulse, crews) = (&self.load, &*self.pulse, self.crews.len());
        let (observed, tallies) = thread::scope(|scope| {
            let threads: Vec<_> = self
                .crews
                .iter_mut()
                .enumerate()
                .map(|(at, crew)| {
                    let (mut tally, shared) = (empty.clone(), &shared);
                    let task = Task::Load { begin_ns, end_ns, streams: share(streams, crews, at) };
                    scope.spawn(move || {
                        crew.run(task, (load, pulse), &mut tally, shared).map(|()| tally)
                    })
                })
                .collect();
            let observed = Watch::of_processes(pids.to_vec(), &shared, true).observe(bar);
            shared.stop.store(true, Relaxed);
            let tallies: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            (observed, tallies)
        });
        let mut tally = empty;
        for one in tallies {
            let one = one.map_err(|_| panicked())?;
            tally.merge(&one.context("a generator thread could not poll its sockets")?);
        }
        #[allow(clippy::cast_precision_loss)]
        let asked = (self.load.interval_us > 0)
            .then(|| streams as f64 * 1e6 / self.load.interval_us as f64);
        Ok(Level {
            name: name.to_owned(),
            asked_per_s: asked,
            observed,
            tally,
            errors: shared.errors.load(Relaxed),
            problem: shared.problem(),
        })
    }
}

/// What falls to one of so many.
pub(super) fn share(whole: usize, parts: usize, at: usize) -> usize {
    whole / parts + usize::from(at < whole % parts)
}

fn connect_crew(
    spec: &CrowdSpec,
    number: usize,
    pulse: &Pulse,
    shared: &Arc<Shared>,
) -> anyhow::Result<Crew> {
    let clock = shared.clock;
    let mut crew = Crew::new(&spec.load, number, clock.now_ns());
    let count = share(spec.connections, spec.threads, number);
    let each = spec.streams_max.div_ceil(spec.connections);
    let routed = !spec.load.metadata.is_empty();
    let mut tally = Tally::new(clock, shared.window);
    let mut wait =
        |crew: &mut Crew| crew.run(Task::Connect, (&spec.load, pulse), &mut tally, shared);
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
        crew.clients.push(client);
        // What has been opened goes on while the rest is: a server closes those who say nothing.
        if crew.clients.len().is_multiple_of(OPENED_AT_ONCE) {
            wait(&mut crew)?;
        }
        if shared.is_stopped() {
            break;
        }
    }
    wait(&mut crew)?;
    Ok(crew)
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
