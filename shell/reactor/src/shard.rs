//! Everything that one event loop owns.
//!
//! A shard lives on one thread; nothing is shared but counters. What it owns knows nothing of the shard; what
//! happens in a turn is told in files of their own ([`crate::turn`] is the table of contents).

use std::collections::BTreeSet;
use std::sync::Arc;

use tiderace_base::{Key, Now, SessionId, ShardId, Slab};
use tiderace_broker::{Broker, Effects};
use tiderace_wire::Commands;

use crate::acceptor::Accepting;
use crate::audit::Audits;
use crate::client_session_ids::ClientSessionIds;
use crate::connection::Connection;
use crate::date::Dates;
use crate::detached_sessions::Detached;
use crate::drain::draining::Draining;
use crate::driver::Driver;
use crate::h2::streams::H2Streams;
use crate::large_frames::LargeFrames;
use crate::limited_sessions::LimitedSessions;
use crate::log::EndLog;
use crate::login_ends::LoginEnds;
use crate::mailbox::Post;
use crate::metrics::ShardMetrics;
use crate::pool::Pool;
use crate::session_begins::SessionBegins;
use crate::session_walks::SessionWalks;
use crate::shared::Shared;
use crate::spans::ShardSpans;
use crate::spare::Spare;
use crate::stopping::Stopping;
use crate::store_gateway::ShardStore;
use crate::tls_sessions::Secure;
use crate::traces::ShardTraces;
use crate::turn_clock::TurnClock;
use crate::unfinished_input::UnfinishedInput;
use crate::upstream::table::Upstreams;
use crate::work_lists::Lists;

/// One event loop and everything it owns.
pub struct Shard<D: Driver> {
    pub(crate) id: ShardId,
    pub(crate) driver: D,
    pub(crate) shared: Arc<Shared>,
    pub(crate) metrics: Arc<ShardMetrics>,
    pub(crate) post: Post<D::Stream>,
    pub(crate) broker: Broker,
    pub(crate) store: Option<Box<dyn ShardStore>>,
    pub(crate) connections: Slab<Connection<D::Stream>>,
    pub(crate) h2_streams: H2Streams,
    pub(crate) secure: Secure,
    pub(crate) pool: Pool,
    pub(crate) spare: Spare,
    pub(crate) commands: Commands,
    pub(crate) effects: Box<Effects>,
    pub(crate) lists: Lists,
    pub(crate) now: Now,
    pub(crate) dates: Dates,
    pub(crate) accepting: Accepting,
    pub(crate) stopping: Option<Stopping>,
    pub(crate) draining: Option<Box<Draining>>,
    pub(crate) end_log: EndLog,
    /// The records of [`crate::Services::internal_sessions`].
    pub(crate) internal_sessions: Vec<Key>,
    pub(crate) upstreams: Upstreams,
    pub(crate) unfinished: UnfinishedInput,
    pub(crate) large_input: LargeFrames,
    pub(crate) client_session_ids: ClientSessionIds,
    pub(crate) detached: Detached,
    pub(crate) login_ends: LoginEnds,
    pub(crate) limited: LimitedSessions,
    pub(crate) session_begins: SessionBegins,
    pub(crate) walks: SessionWalks,
    /// The sessions that have read of what the node keeps for who reads it.
    pub(crate) node_readers: BTreeSet<SessionId>,
    pub(crate) audits: Audits,
    pub(crate) traces: ShardTraces,
    /// Absent if no messages are traced.
    pub(crate) spans: Option<Box<ShardSpans>>,
    pub(crate) clock: TurnClock,
}

impl<D: Driver> Shard<D> {
    pub(crate) fn new(
        id: ShardId,
        mut driver: D,
        shared: Arc<Shared>,
        post: Post<D::Stream>,
    ) -> Shard<D> {
        let now = driver.now();
        let metrics = shared.metrics.get(id.index()).cloned();
        let secure = Secure::new(shared.options.tls.clone());
        let spans = shared.options.spans.as_ref();
        let spans = spans.map(|options| Box::new(ShardSpans::new(options, id)));
        Shard {
            id,
            metrics: metrics.unwrap_or_else(|| Arc::new(ShardMetrics::new([]))),
            broker: Broker::new(id, Arc::clone(&shared.services.broker)),
            store: None,
            driver,
            shared,
            post,
            connections: Slab::new(),
            h2_streams: H2Streams::default(),
            secure,
            pool: Pool::default(),
            commands: Commands::new(),
            effects: Box::default(),
            spare: Spare::default(),
            lists: Lists::default(),
            now,
            accepting: Accepting::default(),
            stopping: None,
            draining: None,
            dates: Dates::default(),
            end_log: EndLog::default(),
            internal_sessions: Vec::new(),
            upstreams: Upstreams::default(),
            unfinished: UnfinishedInput::new(now.time),
            large_input: LargeFrames::default(),
            client_session_ids: ClientSessionIds::default(),
            detached: Detached::default(),
            login_ends: LoginEnds::default(),
            limited: LimitedSessions::default(),
            session_begins: SessionBegins::default(),
            walks: SessionWalks::default(),
            node_readers: BTreeSet::new(),
            audits: Audits::default(),
            traces: ShardTraces::default(),
            spans,
            clock: TurnClock::new(now.time),
        }
    }

    /// Connections on this shard now.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }
}
