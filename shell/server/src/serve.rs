//! Brings the server to life and to an orderly end.
//!
//! Order of birth: logging, store, identities, login worker, event loops, control. Order of death: readiness, new
//! connections, sessions (paced by a drain if there is one, else over the grace period), event loops, store, spans; control and
//! the login worker end with the process.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;
use std::time::SystemTime;

use anyhow::Context;
use tiderace_auth::AuthWorker;
use tiderace_auth::callout::CalloutCounters;
use tiderace_base::is_name;
use tiderace_bodies::Maps;
use tiderace_broker::BrokerOptions;
use tiderace_config::{Config, ListenerConfig};
use tiderace_native::NativeMetrics;
use tiderace_reactor::{Options, Services, SpawnError, StoreGateway, spawn_on};
use tiderace_rsocket::RSocketMetrics;
use tiderace_wire::{Opening, Request};
use tracing::{info, warn};

use crate::alarms::{self, Lookout};
use crate::audit::AuditLog;
use crate::cli::{ServeRequest, development_banner, port_owner};
use crate::control::{self, Control, Duties, Reloader};
use crate::login::{Certificates, Logins};
use crate::monitor::{self, Monitor};
use crate::persistence::Persistence;
use crate::resources::Resources;
use crate::signals::{self, Signals};
use crate::stats::Operations;
use crate::tls::{self, CertificateWatch, TlsState};
use crate::upstreams::Identity;
use crate::www::Www;
use crate::{
    allocator, compose, drain, events, identities, logging, page, service_manager, socketio,
    sockets, telemetry, traces, upstreams, watchdog,
};

/// Logins that may wait for the worker: about a second's work.
const LOGINS_WAITING_MAX: usize = 64;
/// How long the store may take for its last writes, once all sessions have ended.
const CLOSING: Duration = Duration::from_secs(30);

/// Runs the server until it is told to stop.
///
/// # Errors
/// When an address cannot be listened on, an identity cannot be used, or a thread cannot be started.
pub(crate) fn serve(request: ServeRequest) -> anyhow::Result<()> {
    let ServeRequest { loaded, load, development } = request;
    allocator::refuse_huge_pages();
    // Before there are other threads.
    let sockets = sockets::take()?;
    logging::start(&loaded.config.log);
    let audit = Arc::<AuditLog>::default();
    let (control, asks) = Control::new(audit.clone());
    let signals = Signals::take(control.clone())?;
    let files_max = raise_file_limit();
    // What was put in an earlier life of the server says who may come in.
    let epoch = u64::from_ne_bytes(random()?);
    let maps = Maps::open().context("the thread that unmaps files could not be started")?;
    let spool = compose::spool(&loaded.config.large_messages, &maps)?;
    let bodies = (maps, spool.clone());
    let shards = compose::shards(&loaded.config);
    let persistence = Persistence::open(&loaded.config.store, epoch, shards, bodies)?.map(Arc::new);
    let (loaded, put) = control::with_kept(loaded, persistence.as_deref())?;
    let config = &loaded.config;
    let verifier = Arc::new(identities::verifier(&config.auth, None)?);
    let mut signed = identities::signed_tokens(&config.auth, verifier.marks(), None)?;
    let worker = AuthWorker::start(
        verifier.clone(),
        identities::failure_policy(&config.auth),
        LOGINS_WAITING_MAX,
    )
    .and_then(|worker| worker.with_issuers(signed.issuers.clone()))
    .context("the login worker's thread could not be started")?;
    let counters = Arc::new(CalloutCounters::default());
    let worker = match identities::callout(&config.auth, counters.clone())? {
        Some(callout) => worker.with_callout(callout),
        None => worker,
    };
    signed
        .fetch_keys(&worker.handle(), None)
        .context("the thread that fetches keys could not be started")?;
    let identity = Identity::new(node_name(config)?);
    let exporter = telemetry::start(config.telemetry.as_ref(), &identity.node)?;
    let broker = Arc::new(BrokerOptions {
        epoch,
        temporary_secret: u128::from_ne_bytes(random()?),
        ..compose::broker(config, memory_bytes())?
    });
    let monitor = Arc::new(Monitor {
        name: identity.node.clone(),
        shards: compose::shards(config),
        started: SystemTime::now(),
        access: config.monitoring.clone(),
        is_behind_proxies: config.proxy.is_on(),
        rules: RwLock::new(Arc::new(broker.rules.clone())),
        logins: worker.handle(),
        reloads: Arc::default(),
        audit: audit.clone(),
        node: OnceLock::new(),
        persistence: persistence.clone(),
        spool: spool.clone(),
        rsocket: OnceLock::new(),
        tls: OnceLock::new(),
        callouts: config.auth.http.is_some().then_some(counters),
        spans: exporter.as_ref().map(|exporter| exporter.queue().clone()),
        native: Arc::new(NativeMetrics::new(compose::shards(config))),
        alarms: Arc::default(),
        alarm_failures: Arc::default(),
        resources: Resources::new(config, files_max),
        ready: AtomicBool::new(true),
    });
    let native = Arc::new(compose::native(config, &identity, monitor.native.clone()));
    let mut protocols = vec![
        // One line per protocol.
        tiderace_native::protocol(native.clone(), config.native.websocket_paths.clone().into()),
        tiderace_engineio::protocol(
            "native-engineio",
            Arc::new(compose::engineio(config)),
            config.native.engineio_paths.clone().into(),
            Arc::new(move |opening: &Opening<'_>| tiderace_native::open(&native, opening)),
        ),
        tiderace_engineio::protocol(
            "socketio",
            Arc::new(compose::engineio(config)),
            config.socketio.paths.clone().into(),
            tiderace_socketio::inner(Arc::new(socketio::options(config)?)),
        ),
        tiderace_stomp::protocol(
            Arc::new(compose::stomp(config)),
            config.stomp.websocket_paths.clone().into(),
        ),
    ];
    if config.events.enabled {
        protocols.push(tiderace_events::protocol(Arc::new(events::options(config)?)));
    }
    let rsocket = Arc::new(RSocketMetrics::new(compose::shards(config)));
    if config.rsocket.enabled {
        protocols.push(tiderace_rsocket::protocol(
            Arc::new(compose::rsocket(config, rsocket.clone())),
            config.rsocket.websocket_paths.clone().into(),
        ));
    }
    // Nobody else sets it.
    let _ = monitor.rsocket.set(rsocket);
    let www = config.server.www.as_deref().map(Www::open).transpose()?;
    let services = Services {
        protocols,
        http: {
            let monitor = monitor.clone();
            let (has_page, has_sdk) = (development && !config.proxy.is_on(), config.server.sdk);
            Arc::new(move |request: &Request<'_>, entrance| {
                if monitor::PATHS.contains(&request.path) {
                    return monitor.answer(request, entrance);
                }
                let own = www.as_ref().and_then(|www| www.answer(request));
                own.or_else(|| has_sdk.then(|| page::sdk(request)).flatten())
                    .or_else(|| has_page.then(|| page::answer(request)).flatten())
                    .unwrap_or_else(|| monitor.answer(request, entrance))
            })
        },
        verifier: Arc::new(Logins {
            worker: worker.handle(),
            certificates: Certificates::new(&config.tls),
        }),
        broker,
        internal_sessions: crate::feed::internal_sessions(config, development)
            .into_iter()
            .chain(upstreams::shown(config, &monitor))
            .chain([alarms::shown(&monitor.alarms), traces::shown(&monitor)])
            .collect(),
        operator: Arc::new(Operations { control, monitor: monitor.clone() }),
        store_gateway: persistence.clone().map(|persistence| persistence as Arc<dyn StoreGateway>),
        spool,
    };
    let secured = tls::read(config)?;
    let validities = secured.as_ref().map(|read| read.validities.clone());
    let settings = secured.map(|read| read.settings);
    let seed = u128::from_ne_bytes(random()?);
    let options = Options {
        spans: telemetry::spans(config.telemetry.as_ref(), exporter.as_ref(), seed),
        ..compose::reactor(config, files_max, settings, &identity)?
    };
    // Clients can connect as soon as the first listener is there, before all threads are.
    signals.serving();
    let node = spawn_on(sockets, options, services).map_err(not_started)?;
    // Nobody else sets it.
    let _ = monitor.node.set(node.control());
    let certificates = validities.map(|validities| {
        let state = Arc::new(TlsState::new(validities));
        let _ = monitor.tls.set(state.clone());
        CertificateWatch::new(config, node.control(), state)
    });
    let ending = Arc::new(RwLock::new(config.server.clone()));
    let reloader = Reloader {
        load,
        running: loaded.clone(),
        read: loaded.tables.clone(),
        put,
        told_put: Default::default(),
        persistence: persistence.clone(),
        worker,
        verifier,
        signed,
        node: node.control(),
        monitor: monitor.clone(),
        ending: ending.clone(),
        told: None,
    };
    let serving = serving(&node.addresses);
    let backups = persistence.as_ref().and_then(|persistence| persistence.backups());
    let duties = Duties { reloader, certificates, backups, audit, serving: serving.clone() };
    control::start(asks, duties)?;
    announce(development, config, &node.addresses);
    monitor
        .resources
        .watch_disks()
        .context("a thread that looks at a disk could not be started")?;
    drain::watch(node.control(), signals.stopper)?;
    let is_stopping = Arc::<AtomicBool>::default();
    watchdog::start(node.control(), is_stopping.clone(), serving.clone())?;
    service_manager::ready(&serving);
    let mut lookout = Lookout::new(monitor.clone());
    let signal = signals::wait(&signals.stop, &mut lookout)?;
    let ending = ending.read().unwrap_or_else(PoisonError::into_inner).clone();
    // Behind the clients: the store, and the last spans.
    let closing = CLOSING + exporter.as_ref().map_or(Duration::ZERO, |_| telemetry::FINISHING);
    if signal != drain::DRAINED
        && let Some(request) = drain::at_the_end(&ending)
    {
        info!(
            event = "server-draining",
            signal,
            "clients are sent elsewhere before the server stops; another signal ends it at once"
        );
        let most = drain::longest(&request) + ending.shutdown_grace + closing;
        service_manager::stopping("Sends its clients to other servers, then stops.", most);
        drain::finish(&node.control(), request, &mut lookout);
    }
    info!(
        event = "server-stopping",
        signal,
        grace_s = ending.shutdown_grace.as_secs_f32(),
        "stopping"
    );
    service_manager::stopping("Stops.", ending.shutdown_grace + closing);
    is_stopping.store(true, Ordering::Release);
    monitor.ready.store(false, Ordering::Relaxed);
    node.shutdown(ending.shutdown_grace);
    let ended = node.join().context("an event loop failed");
    if let Some(persistence) = persistence {
        persistence.finish();
    }
    if let Some(exporter) = exporter
        && !exporter.finish(telemetry::FINISHING)
    {
        warn!(event = "spans-lost", "the collector has not taken the last spans in time");
    }
    ended?;
    info!(event = "server-stopped", "stopped");
    Ok(())
}

/// Says who holds a port that is in use, if that can be seen, and what to do.
fn not_started(error: SpawnError) -> anyhow::Error {
    let address = match &error {
        SpawnError::Listen { address, error } if error.kind() == io::ErrorKind::AddrInUse => {
            *address
        }
        _ => {
            let context = "the server cannot start; `tiderace doctor` may tell more";
            return anyhow::Error::new(error).context(context);
        }
    };
    let port = address.port();
    let holder = match port_owner(port) {
        Some((pid, name)) => format!("{name} (process {pid}) listens on port {port} already"),
        None => format!("another process listens on port {port} already"),
    };
    anyhow::anyhow!(
        "cannot listen on {address}: {holder}; stop that, or listen elsewhere: \
         --listen {}:{}, or TIDERACE_LISTEN in the environment",
        address.ip(),
        port.checked_add(1).unwrap_or(7801),
    )
}

fn announce(development: bool, config: &Config, addresses: &[std::net::SocketAddr]) {
    let listeners: Vec<ListenerConfig> = config
        .listeners
        .iter()
        .zip(addresses)
        .map(|(listener, address)| ListenerConfig { address: *address, ..listener.clone() })
        .collect();
    for listener in &listeners {
        info!(
            event = "listening",
            listener = listener.name,
            address = %listener.address,
            protocol = ?listener.protocol,
            "listening"
        );
    }
    if let Some(path) = &config.management.socket {
        info!(event = "admin-socket-open", path, "the admin socket is open");
    }
    let shards = compose::shards(config);
    info!(event = "server-started", version = env!("CARGO_PKG_VERSION"), shards, "started");
    if development {
        let program = std::env::args().next().unwrap_or_else(|| "tiderace".to_owned());
        // A closed or full standard output ends no server.
        let _ =
            write!(io::stdout(), "{}", development_banner(&program, &listeners, &config.upstreams));
    }
}

/// How a server stands that has nothing to say of itself.
fn serving(addresses: &[std::net::SocketAddr]) -> String {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    format!("Serves on {}.", addresses.join(", "))
}

/// Bytes that are others in every life of the server: what clients remember of another life means
/// nothing in this one.
fn random<const BYTES: usize>() -> anyhow::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).context("the operating system has no random numbers")?;
    Ok(bytes)
}

/// The name of this server: the one that it was given, or the host's with a number that no other server has.
fn node_name(config: &Config) -> anyhow::Result<String> {
    if let Some(name) = &config.server.node {
        return Ok(name.clone());
    }
    let number = u32::from_ne_bytes(random()?);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok());
    let host = host.as_deref().map(str::trim).filter(|host| is_name(host) && host.len() <= 40);
    Ok(format!("{}-{number:08x}", host.unwrap_or("node")))
}

/// Raises the limit of open files as far as this process may; what it is then.
fn raise_file_limit() -> usize {
    rlimit::increase_nofile_limit(u64::MAX)
        .map_or(1024, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// The machine's memory; if it cannot be told, a modest guess.
fn memory_bytes() -> u64 {
    std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(1 << 30, |kib| kib * 1024)
}
