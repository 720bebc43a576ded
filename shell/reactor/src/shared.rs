//! What all shards of a node know: options, services, and the few numbers they share.
//!
//! Everything here is either constant or touched only when a connection comes or goes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tiderace_base::ShardId;

use crate::blocks::Blocks;
use crate::connection::NO_LISTENER;
use crate::drain::board::DrainBoard;
use crate::limit_registry::LimitRegistry;
use crate::metrics::ShardMetrics;
use crate::options::{Options, Services};
use crate::sniff::Pin;
use crate::traces::TraceBoard;
use crate::upstream::status::UpstreamStatuses;
use crate::waker::Waker;

/// One node's common knowledge.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) services: Services,
    /// What each listener is pinned to.
    pub(crate) pins: Vec<Pin>,
    /// Every WebSocket subprotocol with its protocol's place, best first.
    pub(crate) subprotocols: Vec<(&'static str, u16)>,
    pub(crate) metrics: Vec<Arc<ShardMetrics>>,
    pub(crate) wakers: Arc<[Waker]>,
    /// How it stands with each of the upstreams.
    pub(crate) upstreams: UpstreamStatuses,
    /// Shards that still have connections while the node stops.
    pub(crate) unfinished: AtomicUsize,
    /// Connections per shard, those on their way to it included.
    loads: Vec<AtomicU32>,
    /// Of these, those that a drain leaves alone, since their listener stays open.
    staying: Vec<AtomicU32>,
    /// How the node's drain stands.
    pub(crate) drain: DrainBoard,
    turn: AtomicU32,
    /// Shards whose memory is used up.
    full: AtomicU32,
    /// Sockets of clients, whatever they carry: sessions that requests carry have none of their own.
    sockets: AtomicUsize,
    /// What each address has, if that is limited.
    addresses: Mutex<HashMap<IpAddr, AddressLoad>>,
    /// What clients have of what the limits of the configuration allow.
    pub(crate) limits: LimitRegistry,
    /// Who is kept out.
    pub(crate) blocks: Blocks,
    /// What is traced.
    pub(crate) traces: TraceBoard,
    /// One count more for each walk over the sessions that is open.
    pub(crate) session_lists: Arc<()>,
    /// The same of walks that end sessions.
    pub(crate) session_kicks: Arc<()>,
}

/// What one address has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AddressLoad {
    connections: u32,
    /// Those that requests carry; each is limited like connections, for one connection could open any
    /// number.
    sessions: u32,
    /// Its TLS handshakes that are under way.
    handshakes: u32,
}

impl Shared {
    pub(crate) fn new(
        options: Options,
        services: Services,
        pins: Vec<Pin>,
        wakers: Arc<[Waker]>,
    ) -> Shared {
        let names = || services.protocols.iter().map(|protocol| protocol.name);
        let shards = wakers.len();
        Shared {
            pins,
            subprotocols: services
                .protocols
                .iter()
                .zip(0u16..)
                .flat_map(|(protocol, index)| {
                    protocol.subprotocols.iter().map(move |name| (*name, index))
                })
                .collect(),
            metrics: (0..shards).map(|_| Arc::new(ShardMetrics::new(names()))).collect(),
            wakers,
            upstreams: UpstreamStatuses::new(&options.upstreams),
            unfinished: AtomicUsize::new(shards),
            loads: (0..shards).map(|_| AtomicU32::new(0)).collect(),
            staying: (0..shards).map(|_| AtomicU32::new(0)).collect(),
            drain: DrainBoard::default(),
            turn: AtomicU32::new(0),
            full: AtomicU32::new(0),
            sockets: AtomicUsize::new(0),
            addresses: Mutex::default(),
            limits: LimitRegistry::default(),
            blocks: Blocks::default(),
            traces: TraceBoard::default(),
            session_lists: Arc::default(),
            session_kicks: Arc::default(),
            options,
            services,
        }
    }

    /// A shard's memory is used up, or no longer.
    pub(crate) fn note_full(&self, is_full: bool) {
        match is_full {
            true => self.full.fetch_add(1, Ordering::Relaxed),
            false => self.full.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Whether the memory of some shard is used up: what any shard reads may be for that one.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed) > 0
    }

    /// The protocol whose byte stream a POST by HTTP/2 to that path carries.
    pub(crate) fn stream_protocol(&self, path: &str) -> Option<u16> {
        let protocols = self.services.protocols.iter().zip(0u16..);
        let mut of_path = protocols
            .filter(|(protocol, _)| protocol.stream_paths.iter().any(|known| known == path));
        of_path.next().map(|(_, index)| index)
    }

    /// The shard with the fewest connections; of several, each in its turn.
    pub(crate) fn lightest(&self) -> ShardId {
        let shards = self.loads.len();
        let first = self.turn.fetch_add(1, Ordering::Relaxed) as usize;
        let load =
            |shard: &usize| self.loads.get(*shard).map_or(0, |load| load.load(Ordering::Relaxed));
        let lightest = (0..shards).map(|step| first.wrapping_add(step) % shards).min_by_key(load);
        ShardId(lightest.unwrap_or(0) as u16)
    }

    /// Connections of the whole node.
    pub(crate) fn connections(&self) -> usize {
        self.loads.iter().map(|load| load.load(Ordering::Relaxed) as usize).sum()
    }

    /// Connections of each shard.
    pub(crate) fn loads(&self) -> Vec<usize> {
        self.loads.iter().map(|load| load.load(Ordering::Relaxed) as usize).collect()
    }

    /// Counts a connection of a listener for a shard.
    pub(crate) fn gain(&self, shard: ShardId, listener: u16) {
        if let Some(load) = self.loads.get(shard.index()) {
            load.fetch_add(1, Ordering::Relaxed);
        }
        if self.stays_open(listener)
            && let Some(staying) = self.staying.get(shard.index())
        {
            staying.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends [`Shared::gain`].
    pub(crate) fn lose(&self, shard: ShardId, listener: u16) {
        if let Some(load) = self.loads.get(shard.index()) {
            load.fetch_sub(1, Ordering::Relaxed);
        }
        if self.stays_open(listener)
            && let Some(staying) = self.staying.get(shard.index())
        {
            staying.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a drain leaves the connections of a listener alone.
    pub(crate) fn stays_open(&self, listener: u16) -> bool {
        let options = self.options.listeners.get(usize::from(listener));
        listener == NO_LISTENER || options.is_some_and(|listener| listener.stays_open)
    }

    /// Connections of a shard that a drain sends away, but for the one by which it was asked for.
    pub(crate) fn to_go(&self, shard: ShardId) -> usize {
        let of = |counts: &[AtomicU32]| {
            counts.get(shard.index()).map_or(0, |count| count.load(Ordering::Relaxed))
        };
        of(&self.loads).saturating_sub(of(&self.staying)) as usize
    }

    /// Sockets of clients now.
    pub(crate) fn sockets(&self) -> usize {
        self.sockets.load(Ordering::Relaxed)
    }

    /// Whether the address may have another connection with a socket; counts it if so.
    pub(crate) fn admit(&self, address: IpAddr) -> bool {
        let is_admitted = self.admit_client(address);
        self.sockets.fetch_add(usize::from(is_admitted), Ordering::Relaxed);
        is_admitted
    }

    /// Whether the address may have another connection, whatever brings it; counts it if so.
    pub(crate) fn admit_client(&self, address: IpAddr) -> bool {
        let limit = self.options.connections_per_address_max;
        self.admit_one(address, limit, |load| &mut load.connections)
    }

    /// Whether the address may have another session that requests carry; counts it if so.
    pub(crate) fn admit_carried(&self, address: IpAddr) -> bool {
        let limit = self.options.connections_per_address_max;
        self.admit_one(address, limit, |load| &mut load.sessions)
    }

    /// Whether the address may have another TLS handshake under way; counts it if so.
    pub(crate) fn admit_handshake(&self, address: IpAddr) -> bool {
        let limit = self.options.handshakes_per_address_max;
        self.admit_one(address, limit, |load| &mut load.handshakes)
    }

    /// Trusted proxies have no limits: each brings many clients, which are counted once they are known.
    fn admit_one(
        &self,
        address: IpAddr,
        limit: usize,
        count: fn(&mut AddressLoad) -> &mut u32,
    ) -> bool {
        if limit == 0 || self.options.proxies.trusts(address) {
            return true;
        }
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let count = count(addresses.entry(address).or_default());
        if *count as usize >= limit {
            return false;
        }
        *count += 1;
        true
    }

    /// Ends [`Shared::admit`].
    pub(crate) fn dismiss(&self, address: IpAddr) {
        self.sockets.fetch_sub(1, Ordering::Relaxed);
        self.dismiss_client(address);
    }

    /// Ends [`Shared::admit_client`].
    pub(crate) fn dismiss_client(&self, address: IpAddr) {
        let limit = self.options.connections_per_address_max;
        self.dismiss_one(address, limit, |load| &mut load.connections);
    }

    /// Ends [`Shared::admit_carried`].
    pub(crate) fn dismiss_carried(&self, address: IpAddr) {
        let limit = self.options.connections_per_address_max;
        self.dismiss_one(address, limit, |load| &mut load.sessions);
    }

    /// Ends [`Shared::admit_handshake`].
    pub(crate) fn dismiss_handshake(&self, address: IpAddr) {
        let limit = self.options.handshakes_per_address_max;
        self.dismiss_one(address, limit, |load| &mut load.handshakes);
    }

    fn dismiss_one(&self, address: IpAddr, limit: usize, count: fn(&mut AddressLoad) -> &mut u32) {
        if limit == 0 || self.options.proxies.trusts(address) {
            return;
        }
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(load) = addresses.get_mut(&address) {
            *count(load) -= 1;
            if *load == AddressLoad::default() {
                addresses.remove(&address);
            }
        }
    }
}
