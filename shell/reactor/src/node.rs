//! A node: its listeners, its shards with their threads, and the handle that ends them.
//!
//! Listeners are bound before any thread starts, so that a taken port is an error of [`spawn`]. A
//! shard that fails takes the process with it, unless the options say otherwise.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use tiderace_base::limits::SHARDS_MAX;
use tiderace_base::{Close, MetricRow, Now, Sample, ShardId, Span};
use tiderace_broker::AccessChange;
use tiderace_wire::{DrainPhase, DrainRequest, DrainStatus};

use crate::drain::board::DrainPlan;
use crate::driver::os::{AnyListener, ListeningSocket, LocalListener, OsDriver, open};
use crate::driver::sim::{Network, SimDriver};
use crate::driver::{Driver, Wake};
use crate::inherited::{GivenSockets, Inherited, InheritedError};
use crate::listener_at::ListenerAt;
use crate::mailbox::Post;
use crate::metrics::{NodeCounts, UPSTREAM_ROWS, broker_by_shard, collect, collect_broker};
use crate::options::{ListenerOptions, Options, Services};
use crate::shard::Shard;
use crate::shared::Shared;
use crate::sniff::Pin;
use crate::traces::TraceNews;
use crate::turn::Turn;
use crate::upstream::status::{UpstreamStatus, samples};
use crate::waker::{Notice, Waker};

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system said.
        error: io::Error,
    },
    /// The admin socket cannot be opened.
    #[error("cannot open the admin socket {}: {error}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What the operating system said, or who has it.
        error: io::Error,
    },
    /// A socket that the process was given cannot be used.
    #[error(transparent)]
    Inherited(#[from] InheritedError),
    /// A listener is pinned to a protocol that does not exist.
    #[error("there is no protocol named {name:?}; known are http, {known}")]
    UnknownProtocol {
        /// The name.
        name: String,
        /// The names that would do.
        known: String,
    },
    /// An upstream cannot be connected to as it is described.
    #[error("the upstream {name:?} cannot be used: {problem}")]
    Upstream {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// More shards than [`SHARDS_MAX`], or none.
    #[error("the number of shards must be between 1 and {SHARDS_MAX}")]
    Shards,
    /// The operating system refused a poll or a thread.
    #[error("cannot start an event loop: {0}")]
    System(#[from] io::Error),
}

/// A running node. Dropping it does not stop the node.
#[derive(Debug)]
pub struct NodeHandle {
    /// The addresses that are listened on, in the order of [`Options::listeners`], with ports that were chosen.
    pub addresses: Vec<SocketAddr>,
    control: NodeControl,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// What other threads may do with a node; cheap to clone.
#[derive(Clone)]
pub struct NodeControl {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for NodeControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shards = self.shared.wakers.len();
        f.debug_struct("NodeControl").field("shards", &shards).finish_non_exhaustive()
    }
}

impl NodeControl {
    /// The node's numbers, in the order of [`crate::METRICS`].
    pub fn metrics(&self) -> Vec<Sample<'_>> {
        let mut all: Vec<Sample<'_>> = collect(&self.shared.metrics);
        let upstreams = &self.shared.options.upstreams;
        all.extend(samples(upstreams, &self.shared.upstreams, UPSTREAM_ROWS));
        all
    }

    /// How it stands with the connections to the upstreams, in the order of [`Options::upstreams`].
    pub fn upstreams(&self) -> Vec<UpstreamStatus> {
        self.shared.upstreams.all()
    }

    /// The brokers' numbers, not older than a tick, in the order of their table.
    pub fn broker_metrics(&self) -> Vec<(&'static MetricRow, u64)> {
        collect_broker(&self.shared.metrics)
    }

    /// One of the brokers' numbers, shard by shard, not older than a tick; empty if their table has no such metric.
    pub fn broker_metric_by_shard(&self, name: &'static str) -> impl Iterator<Item = u64> {
        broker_by_shard(&self.shared.metrics, name)
    }

    /// Some of the event loops' numbers; costs some loads.
    pub fn counts(&self) -> NodeCounts {
        NodeCounts::of(&self.shared.metrics)
    }

    /// The upstreams that are away, each with the reason if there is one; nothing is allocated while there are none.
    pub fn upstreams_away(&self) -> Vec<(String, Option<String>)> {
        self.shared.upstreams.away()
    }

    /// What is to be done with the topics of traces. For the one session of the server's that does it, on one shard.
    pub fn collect_traces(&self, now: Now) -> TraceNews {
        self.shared.traces.collect(now)
    }

    /// The topic of the trace of that number is there, or is not for that reason.
    pub fn trace_topic_made(&self, id: u64, made: Result<(), Close>) {
        self.shared.traces.topic_made(id, made);
    }

    /// Sockets of clients that are open now.
    pub fn sockets(&self) -> usize {
        self.shared.sockets()
    }

    /// How many of them there may be.
    pub fn connections_max(&self) -> usize {
        self.shared.options.connections_max
    }

    /// Turns that each shard has ended. One that has nothing to do ends some twenty a second, so that a number which stays
    /// the same tells of a shard that hangs, or has ended with the node.
    pub fn turns(&self) -> impl Iterator<Item = u64> {
        self.shared.metrics.iter().map(|shard| shard.turns.value())
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// Connections open now, shard by shard.
    pub fn connections_by_shard(&self) -> Vec<usize> {
        self.shared.loads()
    }

    /// Secures connections that come from now on by other settings; those that are there go on with
    /// what they have. Changes nothing for a node without TLS.
    pub fn secure(&self, settings: &tiderace_tls::Settings) {
        if self.shared.options.tls.is_some() {
            for waker in self.shared.wakers.iter() {
                waker.notify(Notice::Secure(settings.clone()));
            }
        }
    }

    /// Holds to other rules, limits and credentials from now on, all shards at once. Sessions that may not have what they
    /// have end within a second or so; all others go on.
    pub fn change_access(&self, change: AccessChange) {
        let change = Arc::new(change);
        for waker in self.shared.wakers.iter() {
            waker.notify(Notice::AccessChanged(change.clone()));
        }
    }

    /// Sends the node's clients to other nodes, as the last thing that it does: the end of it is that of the node,
    /// to be brought about by [`NodeControl::shutdown`], behind which this does nothing. A drain that is under way is
    /// hurried, and cannot be cancelled any more. Returns at once.
    pub fn drain_finally(&self, request: DrainRequest) {
        // It is refused if it has been called before, or the node stops already.
        let _ = self.shared.begin_drain(DrainPlan { request, kept: None, is_final: true });
    }

    /// How the node's drain stands.
    pub fn drain_status(&self) -> DrainStatus {
        self.shared.drain_status()
    }

    /// How far the node's drain has come; costs one load.
    pub fn drain_phase(&self) -> DrainPhase {
        self.shared.drain.phase()
    }

    /// Waits until all clients have left, for so long at most. Not for a shard's thread.
    pub fn wait_drained(&self, most: Span) {
        self.shared.drain.wait_drained(most);
    }

    /// Waits until all clients have left by a drain after which the node is to stop, which may be never. Not for a
    /// shard's thread.
    pub fn wait_for_exit(&self) {
        self.shared.drain.wait_for_exit();
    }

    /// Stops accepting, says goodbye to every client, writes what is left and ends the shards, all
    /// within `grace`. Returns at once; later calls change nothing.
    pub fn shutdown(&self, grace: Span) {
        self.shared.drain.stop();
        for waker in self.shared.wakers.iter() {
            waker.notify(Notice::Shutdown(grace));
        }
    }
}

impl NodeHandle {
    /// For other threads.
    pub fn control(&self) -> NodeControl {
        self.control.clone()
    }

    /// See [`NodeControl::metrics`].
    pub fn metrics(&self) -> Vec<Sample<'_>> {
        self.control.metrics()
    }

    /// See [`NodeControl::shutdown`].
    pub fn shutdown(&self, grace: Span) {
        self.control.shutdown(grace);
    }

    /// Waits until all shards have ended.
    ///
    /// # Errors
    /// When a shard could not go on, or panicked; the process lives to see it only without
    /// [`Options::abort_on_failure`].
    pub fn join(self) -> io::Result<()> {
        let mut outcome = Ok(());
        for thread in self.threads {
            let ended =
                thread.join().unwrap_or_else(|_| Err(io::Error::other("an event loop panicked")));
            outcome = outcome.and(ended);
        }
        outcome
    }
}

/// Starts a node: one thread per shard.
///
/// # Errors
/// When an option cannot be fulfilled, or a thread cannot be started; shards that had begun before it run on
/// then, so the process has to end.
pub fn spawn(options: Options, services: Services) -> Result<NodeHandle, SpawnError> {
    spawn_on(GivenSockets::default(), options, services)
}

/// As [`spawn`], with sockets that the process was given by the one that started it: each is used by the listener of its
/// address, and closed by none as long as the node runs. Other listeners are opened here.
///
/// # Errors
/// As [`spawn`], and when a socket is that of a connection or no listener has its address: connections would wait there for ever.
pub fn spawn_on(
    sockets: GivenSockets,
    options: Options,
    services: Services,
) -> Result<NodeHandle, SpawnError> {
    if options.shards == 0 || options.shards > SHARDS_MAX {
        return Err(SpawnError::Shards);
    }
    check_upstreams(&options)?;
    let pins = pins(&options, &services)?;
    let mut listeners = open_all(Inherited::new(sockets)?, &options)?;
    let address = |it: &ListeningSocket| match &it.socket {
        AnyListener::Address(socket) => Some(socket.local_addr()),
        AnyListener::Local(_) => None,
    };
    let addresses = listeners.iter().filter_map(address).collect::<io::Result<_>>()?;
    let epoch = Instant::now();
    let mut drivers = Vec::new();
    let mut wakes = Vec::new();
    for _ in 0..options.shards {
        // The first shard accepts for all.
        let listeners = std::mem::take(&mut listeners);
        let (driver, wake) = OsDriver::new(listeners, options.socket, epoch)?;
        drivers.push(driver);
        wakes.push(wake);
    }
    let (shared, posts) = assemble::<OsDriver>(options, services, pins, wakes);
    let mut threads = Vec::new();
    for ((driver, post), index) in drivers.into_iter().zip(posts).zip(0u16..) {
        let shared = Arc::clone(&shared);
        let abort = shared.options.abort_on_failure;
        let thread = std::thread::Builder::new()
            .name(format!("shard-{index}"))
            .spawn(move || supervise(Shard::begin(ShardId(index), driver, shared, post), abort))?;
        threads.push(thread);
    }
    let control = NodeControl { shared };
    Ok(NodeHandle { addresses, control, threads })
}

/// A node without threads on a simulated network: the test runs its shards.
///
/// # Errors
/// When a listener is pinned to a protocol that does not exist, or an upstream cannot be used.
pub fn simulate(
    network: &Network,
    options: Options,
    services: Services,
) -> Result<(Vec<Shard<SimDriver>>, NodeControl), SpawnError> {
    let drivers = (0..options.shards).map(|shard| network.driver(shard)).collect();
    drive(drivers, options, services)
}

/// A node without threads on drivers of the caller's, one for each shard: the caller runs its shards.
///
/// # Errors
/// When a listener is pinned to a protocol that does not exist, or an upstream cannot be used.
pub fn drive<D: Driver>(
    drivers: Vec<(D, Arc<dyn Wake>)>,
    options: Options,
    services: Services,
) -> Result<(Vec<Shard<D>>, NodeControl), SpawnError> {
    let options = Options { shards: drivers.len(), ..options };
    check_upstreams(&options)?;
    let pins = pins(&options, &services)?;
    let (drivers, wakes): (Vec<D>, Vec<_>) = drivers.into_iter().unzip();
    let (shared, posts) = assemble::<D>(options, services, pins, wakes);
    let shards = drivers.into_iter().zip(posts).zip(0u16..);
    let shards = shards
        .map(|((driver, post), index)| {
            Shard::begin(ShardId(index), driver, Arc::clone(&shared), post)
        })
        .collect();
    Ok((shards, NodeControl { shared }))
}

fn assemble<D: Driver>(
    options: Options,
    mut services: Services,
    pins: Vec<Pin>,
    wakes: Vec<Arc<dyn Wake>>,
) -> (Arc<Shared>, Vec<Post<D::Stream>>) {
    // One number of shards, or destinations would have homes that do not exist.
    Arc::make_mut(&mut services.broker).shards = options.shards;
    let wakers: Arc<[Waker]> = wakes.into_iter().map(Waker::new).collect();
    let posts = Post::network(&wakers);
    (Arc::new(Shared::new(options, services, pins, wakers)), posts)
}

fn open_all(
    mut inherited: Inherited,
    options: &Options,
) -> Result<Vec<ListeningSocket>, SpawnError> {
    let address_of = |listener: &ListenerOptions| match &listener.at {
        ListenerAt::Address(address) => Some(*address),
        ListenerAt::Socket(_) => None,
    };
    let listeners = &options.listeners;
    let paths = listeners.iter().map(|listener| match &listener.at {
        ListenerAt::Socket(path) => inherited
            .take_unix(path)
            .map(|socket| AnyListener::Local(LocalListener::inherited(socket, path))),
        ListenerAt::Address(_) => None,
    });
    let local: Vec<Option<AnyListener>> = paths.collect();
    inherited.check_unix()?;
    let mut given = inherited.distribute(listeners.iter().filter_map(address_of))?.into_iter();
    let opened = listeners.iter().zip(local).map(|(wanted, local)| {
        let given = match &wanted.at {
            ListenerAt::Address(_) => given.next().flatten().map(AnyListener::Address),
            ListenerAt::Socket(_) => local,
        };
        let is_inherited = given.is_some();
        let opened = match given {
            Some(socket) => Ok(socket),
            None => open(&wanted.at, options.listen_backlog, &options.socket),
        };
        let socket = opened.map_err(|error| match wanted.at.clone() {
            ListenerAt::Address(address) => SpawnError::Listen { address, error },
            ListenerAt::Socket(path) => SpawnError::Socket { path, error },
        })?;
        Ok(ListeningSocket { socket, is_inherited })
    });
    opened.collect()
}

fn check_upstreams(options: &Options) -> Result<(), SpawnError> {
    let mut names = Vec::new();
    for upstream in &options.upstreams {
        let twin = names.contains(&&upstream.name).then(|| "another one has that name".to_owned());
        if let Some(problem) = twin.or_else(|| upstream.problem(options.shards)) {
            return Err(SpawnError::Upstream { name: upstream.name.clone(), problem });
        }
        names.push(&upstream.name);
    }
    Ok(())
}

fn pins(options: &Options, services: &Services) -> Result<Vec<Pin>, SpawnError> {
    let pin = |name: Option<&str>| {
        Pin::named(name, &services.protocols).ok_or_else(|| SpawnError::UnknownProtocol {
            name: name.unwrap_or_default().to_string(),
            known: services.protocols.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
        })
    };
    options.listeners.iter().map(|listener| pin(listener.protocol.as_deref())).collect()
}

/// Runs a shard and, if it fails, ends the process or says so.
fn supervise(mut shard: Shard<OsDriver>, abort: bool) -> io::Result<()> {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&mut shard)));
    let outcome = outcome.unwrap_or_else(|_| Err(io::Error::other("an event loop panicked")));
    if let Err(error) = &outcome {
        tracing::error!(event = "shard-failed", %error, abort, "an event loop cannot go on");
        if abort {
            // Before the shard's sockets are closed: nothing of it can be trusted now.
            std::process::abort();
        }
    }
    outcome
}

fn run(shard: &mut Shard<OsDriver>) -> io::Result<()> {
    while shard.turn()? == Turn::Continue {}
    Ok(())
}
