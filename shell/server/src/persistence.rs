//! Between the shards' brokers and the store: records become batches, and answers come back.
//!
//! Relies on the store's committer, which has a thread of its own. Invariants: a shard's batches are
//! handed over in order, and while one waits for room none follows; all that was handed over is
//! committed before [`Persistence::finish`] returns.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use bytes::Bytes;
use tiderace_base::{Now, ShardId};
use tiderace_bodies::Maps;
use tiderace_broker::{
    Broker, DamagedRecord, LoadedRecord, NumbersGiven, StoreLoad, StoreLoaded, StoreRecord,
    StoredKind, TakenRecords, queue_owner,
};
use tiderace_config::StoreConfig;
use tiderace_reactor::{CommitResult, ShardStore, StoreAnswers, StoreGateway};
use tiderace_spool::Spool;
use tiderace_store::{
    Backups, Batch, Committer, DamagedMessages, Declaration, Done, LoadRequest, Loaded, Mark,
    Notice, OpenBody, Outcome, Put, Recovered, RefusedReason, Store, StoreMetrics, StreamId,
    StreamKind, Submitter,
};
use tracing::{error, info, warn};

use crate::compose;
use crate::restoring::{self, values};
use crate::store_damage::tell_damage;

/// How often somebody who waits for a long recovery is told that it goes on.
const PROGRESS: Duration = Duration::from_secs(2);

/// How long somebody waits for what is kept for the node: less than the 10 s after which the command line takes a server for gone.
const KEEPING: Duration = Duration::from_secs(5);
/// Stands for the node as a whole where shards have their numbers.
const NODE: u16 = u16::MAX;

/// Who waits for what is kept for the node as a whole.
type NodeWaits = Mutex<Option<(u64, SyncSender<bool>)>>;

/// The store of a running server.
pub(crate) struct Persistence {
    committer: Mutex<Option<Committer>>,
    metrics: Arc<StoreMetrics>,
    ways_back: Arc<Mutex<Vec<Option<StoreAnswers>>>>,
    /// Who waits for what is kept for the node as a whole.
    node_waits: Arc<NodeWaits>,
    /// Numbers of that.
    node_tickets: AtomicU64,
    /// Messages of queues have filled their share of the store.
    are_queues_full: Arc<AtomicBool>,
    /// What has survived, until every shard has taken its part.
    recovered: Mutex<Option<(Arc<Survived>, usize)>>,
    /// By these bodies are known that lie in files.
    maps: Arc<Maps>,
    streams_from: u64,
    given: NumbersGiven,
    /// Whether something of the store could not be read, and is lost.
    is_damaged: bool,
}

/// What has survived.
struct Survived {
    recovered: Recovered,
    /// Bodies of topics' messages that lie in files, by stream and number.
    bodies: Bodies,
}

/// Bodies that lie in files, by stream and number of their messages.
pub(crate) type Bodies = HashMap<(StreamId, u64), Bytes>;

impl Persistence {
    /// Opens the store that is configured, if one is, and reads it. `epoch` is that of this life of the
    /// server. Bodies that lie in files are known by `maps`, and count as those of the spool do.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(crate) fn open(
        config: &StoreConfig,
        epoch: u64,
        shards: usize,
        (maps, spool): (Arc<Maps>, Option<Arc<Spool>>),
    ) -> anyhow::Result<Option<Persistence>> {
        let Some(directory) = &config.directory else { return Ok(None) };
        let begun = Instant::now();
        let (mut store, recovered) = telling_progress(directory, || {
            Store::open(Path::new(directory), compose::store(config))
        })
        .context("the store cannot be opened")?;
        let report = &recovered.report;
        tell_damage(&recovered);
        info!(
            event = "store-opened",
            directory,
            topics = recovered.streams.len(),
            bytes = report.bytes,
            cut = report.cut,
            seconds = begun.elapsed().as_secs_f32(),
            "the store is open"
        );
        if let Some(spool) = spool {
            let queues = recovered.streams.iter().filter(|it| it.kind == StreamKind::Queue);
            let owners: HashMap<StreamId, _> =
                queues.map(|queue| (queue.stream, queue_owner(&queue.spec))).collect();
            let owner = |stream| owners.get(&stream).cloned().flatten();
            store.charge_bodies(|stream, bytes| spool.charge(owner(stream), bytes));
        }
        let bodies = map_bodies(&mut store, &recovered, &maps)?;
        let ways_back: Arc<Mutex<Vec<Option<StoreAnswers>>>> =
            Arc::new(Mutex::new((0..shards).map(|_| None).collect()));
        let given = NumbersGiven::find(values(&recovered));
        let mut batch = Batch::new();
        for record in given.reserve(epoch, shards) {
            add(&mut batch, &record, &maps)?;
        }
        if let (_, Some(problem)) = store.commit(vec![batch]) {
            warn!(event = "store-trouble", %problem, "the store takes nothing now");
        }
        let is_damaged = !recovered.report.damage.is_empty();
        let streams_from = store.stream_ids().next_stream().0;
        let metrics = store.metrics();
        let are_queues_full = Arc::<AtomicBool>::default();
        let node_waits = Arc::<NodeWaits>::default();
        let report = {
            let ways_back = Arc::clone(&ways_back);
            let (are_queues_full, maps) = (Arc::clone(&are_queues_full), Arc::clone(&maps));
            let node_waits = Arc::clone(&node_waits);
            move |notice: Notice<'_>| {
                if let Notice::Done(done) = &notice {
                    tell_node(&node_waits, done);
                }
                if let Notice::QueuesFull(are_full) = notice {
                    are_queues_full.store(are_full, Ordering::SeqCst);
                }
                tell(&ways_back, &maps, notice);
            }
        };
        let committer = Committer::start(store, report)
            .context("the thread of the store could not be started")?;
        Ok(Some(Persistence {
            committer: Mutex::new(Some(committer)),
            metrics,
            ways_back,
            node_waits,
            node_tickets: AtomicU64::new(0),
            are_queues_full,
            recovered: Mutex::new(Some((Arc::new(Survived { recovered, bodies }), shards))),
            maps,
            streams_from,
            given,
            is_damaged,
        }))
    }

    /// What the store counts.
    pub(crate) fn metrics(&self) -> &StoreMetrics {
        &self.metrics
    }

    /// Where backups of the store come from.
    pub(crate) fn backups(&self) -> Option<Backups> {
        lock(&self.committer).as_ref().map(Committer::backups)
    }

    /// Whether something of the store could not be read when it was opened, so that values may be gone, or older than they were.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// A named value that has survived; to be asked for before the shards take what has.
    pub(crate) fn value(&self, name: &str) -> Option<Vec<u8>> {
        let held = lock(&self.recovered);
        let (survived, _) = held.as_ref()?;
        values(&survived.recovered).find(|(known, _)| *known == name).map(|(_, value)| value.into())
    }

    /// Keeps a named value, and waits until it is. Not for threads of shards.
    ///
    /// # Errors
    /// When it is not kept, or nobody knows within some seconds whether it is.
    pub(crate) fn keep(&self, name: &str, value: &[u8]) -> anyhow::Result<()> {
        let mut batch = Batch::new();
        batch.set(name, value)?;
        let (sender, kept) = sync_channel(1);
        let submitter = lock(&self.committer).as_ref().map(|it| it.submitter(NODE));
        let submitter = submitter.context("the store has stopped")?;
        let ticket = self.node_tickets.fetch_add(1, Ordering::Relaxed);
        {
            let mut waits = lock(&self.node_waits);
            // On a disk that answers nothing, no more than one waits.
            ensure!(
                waits.is_none(),
                "the store has not answered yet about the change before; look at the disk"
            );
            *waits = Some((ticket, sender));
        }
        submitter.try_submit(ticket, batch).map_err(|_| anyhow!("the store has stopped"))?;
        match kept.recv_timeout(KEEPING) {
            Ok(true) => Ok(()),
            Ok(false) => Err(anyhow!(
                "nothing has changed: the store does not take it, and the log says why"
            )),
            Err(_) => Err(anyhow!(
                "the store did not answer within {} s, so that it is not known whether this is kept; ask for it again, and look at the disk",
                KEEPING.as_secs()
            )),
        }
    }

    /// Whether nothing persistent is acknowledged any more, until the server is started again.
    pub(crate) fn has_failed(&self) -> bool {
        self.metrics.is_broken()
    }

    /// Commits what waits and closes the log; to be called when the shards have ended.
    pub(crate) fn finish(&self) {
        drop(lock(&self.committer).take());
    }

    /// What has survived; the last shard that asks takes it along.
    fn recovered(&self) -> Option<Arc<Survived>> {
        let mut held = lock(&self.recovered);
        let (recovered, left) = held.as_mut()?;
        *left = left.saturating_sub(1);
        let recovered = Arc::clone(recovered);
        if *left == 0 {
            *held = None;
        }
        Some(recovered)
    }
}

impl StoreGateway for Persistence {
    fn begin(
        &self,
        shard: ShardId,
        now: Now,
        broker: &mut Broker,
        answers: StoreAnswers,
    ) -> Box<dyn ShardStore> {
        if let Some(way) = lock(&self.ways_back).get_mut(shard.index()) {
            *way = Some(answers.clone());
        }
        // What was said before there was a way.
        if self.are_queues_full.load(Ordering::SeqCst) {
            answers.tell(CommitResult::QueuesFull(true));
        }
        let submitter = lock(&self.committer).as_ref().map(|it| it.submitter(shard.0));
        if let Some(survived) = self.recovered() {
            let Survived { recovered, bodies } = &*survived;
            broker.begin_durability(self.streams_from, &self.given);
            restoring::restore_all(now, broker, recovered, bodies);
            broker.end_restoring();
        }
        let maps = Arc::clone(&self.maps);
        Box::new(ShardBatches { submitter, waiting: None, loads: VecDeque::new(), maps })
    }
}

/// The batches of one shard, and what it wants to be read back.
struct ShardBatches {
    submitter: Option<Submitter>,
    waiting: Option<(u64, Batch)>,
    loads: VecDeque<LoadRequest>,
    maps: Arc<Maps>,
}

impl ShardBatches {
    /// Asks for what is to be read back, as far as there is room.
    fn ask(&mut self) {
        let Some(submitter) = &self.submitter else { return };
        while let Some(load) = self.loads.front() {
            // One that has stopped is the end of the server.
            if submitter.load(*load) == Err(RefusedReason::Waiting) {
                return;
            }
            self.loads.pop_front();
        }
    }
}

impl ShardStore for ShardBatches {
    fn flush(&mut self) -> bool {
        self.ask();
        let (Some(submitter), Some((ticket, batch))) = (&self.submitter, self.waiting.take())
        else {
            return true;
        };
        match submitter.try_submit(ticket, batch) {
            Ok(()) => true,
            Err(refused) => {
                // One that has stopped is the end of the server: nobody waits for an answer any more.
                if refused.reason == RefusedReason::Waiting {
                    self.waiting = Some((ticket, refused.batch));
                }
                self.waiting.is_none()
            }
        }
    }

    fn load(&mut self, load: StoreLoad) {
        let StoreLoad { ticket, stream, beside, first, last, bytes_max } = load;
        let (stream, beside) = (StreamId(stream), beside.map(StreamId));
        self.loads.push_back(LoadRequest { ticket, stream, beside, first, last, bytes_max });
        self.ask();
    }

    fn submit(&mut self, taken: TakenRecords) {
        let TakenRecords { up_to, records, is_awaited } = taken;
        let mut batch = Batch::new();
        if !is_awaited {
            batch.allow_delay();
        }
        for record in &records {
            // The batch is refused as a whole then, in its turn.
            if let Err(too_large) = add(&mut batch, record, &self.maps) {
                error!(
                    event = "store-record-too-large",
                    %too_large,
                    "nothing of what was done together with this is kept; who waits for it is refused"
                );
            }
        }
        self.waiting = Some((up_to, batch));
        self.flush();
    }
}

/// Adds a record. A body that lies in a file is known by its bytes.
fn add(
    batch: &mut Batch,
    record: &StoreRecord,
    maps: &Maps,
) -> Result<(), tiderace_store::TooLarge> {
    match record {
        StoreRecord::Declare { stream, kind, path, description, version } => {
            batch.declare(&Declaration {
                stream: StreamId(*stream),
                kind: match kind {
                    StoredKind::Topic => StreamKind::Topic,
                    StoredKind::Queue => StreamKind::Queue,
                },
                mark: Mark { sequence: *version, version: *version },
                path: path.as_str(),
                spec: description,
            })
        }
        StoreRecord::PutShared { owners, count, bytes } => {
            let owners = owners.iter().map(|(stream, first)| (StreamId(*stream), *first));
            batch.put_shared(&owners.collect::<Vec<_>>(), *count, bytes)
        }
        StoreRecord::Put { stream, first, count, keep_from, bytes, body } => {
            let put = Put {
                stream: StreamId(*stream),
                sequence: *first,
                count: *count,
                version: first + u64::from(*count) - 1,
                keep_from: *keep_from,
                bytes,
                body: None,
            };
            match body {
                None => batch.put(&put),
                Some(body) => match maps.find(&body.bytes) {
                    Some(part) => {
                        batch.put_with_body(body.record, &put, part)?;
                        body.settles.iter().try_for_each(|(stream, ranges)| {
                            batch.settle_with_body(StreamId(*stream), ranges)
                        })
                    }
                    // Whatever it is, the store cannot keep it.
                    None => {
                        batch.give_up();
                        Ok(())
                    }
                },
            }
        }
        StoreRecord::Trim { stream, up_to } => batch.trim(StreamId(*stream), *up_to),
        StoreRecord::Settle { stream, ranges } => batch.settle(StreamId(*stream), ranges),
        StoreRecord::Drop { stream } => batch.drop_stream(StreamId(*stream)),
        StoreRecord::Set { name, value } => batch.set(name, value),
        StoreRecord::Unset { name } => batch.unset(name),
    }
}

/// The bodies of topics' messages that lie in files.
fn map_bodies(store: &mut Store, recovered: &Recovered, maps: &Maps) -> anyhow::Result<Bodies> {
    let mut bodies = Bodies::new();
    for stream in &recovered.streams {
        for messages in &stream.messages {
            let Some(OpenBody { place, .. }) = &messages.body else { continue };
            let body = store.open_body(place).and_then(|open| map(&open, maps));
            let body = body.with_context(|| format!("a message of {} has no body", stream.path))?;
            bodies.insert((stream.stream, messages.sequence), body);
        }
    }
    Ok(bodies)
}

/// A body as memory.
fn map(body: &OpenBody, maps: &Maps) -> std::io::Result<Bytes> {
    let file = body.file.as_ref().ok_or(std::io::ErrorKind::NotFound)?;
    maps.map(file, body.place.offset, body.place.length)
}

/// Passes on what the store says. Runs on the store's thread.
fn tell(ways_back: &Mutex<Vec<Option<StoreAnswers>>>, maps: &Maps, notice: Notice<'_>) {
    match notice {
        Notice::Done(done) => {
            let ways_back = lock(ways_back);
            let mut done = done.iter().peekable();
            while let Some(answer) = done.next() {
                // Of several that went well the last says it for all.
                let next = done.peek();
                if next.is_some_and(|next| {
                    next.shard == answer.shard && is_kept(next) && is_kept(answer)
                }) {
                    continue;
                }
                if let Some(Some(way)) = ways_back.get(usize::from(answer.shard)) {
                    way.tell(news(answer));
                }
            }
        }
        Notice::BodiesRefused { shard, records } => {
            let ways_back = lock(ways_back);
            if let Some(Some(way)) = ways_back.get(usize::from(shard)) {
                records.iter().for_each(|record| way.tell(CommitResult::BodyRefused(*record)));
            }
        }
        Notice::Loaded(loaded) => {
            let ways_back = lock(ways_back);
            if let Some(Some(way)) = ways_back.get(usize::from(loaded.shard)) {
                way.tell_loaded(given(loaded, maps));
            }
        }
        Notice::Trouble { what, is_fatal: true } => {
            error!(event = "store-failed", what, "nothing is kept from now on");
        }
        Notice::Trouble { what, is_fatal: false } => {
            warn!(event = "store-trouble", what, "the store has trouble");
        }
        Notice::QueuesFull(are_full) => tell_queues_full(ways_back, are_full),
        Notice::RoomAgain => info!(event = "store-has-room", "the store has room again"),
    }
}

/// Tells who waits for what is kept for the node as a whole.
fn tell_node(node_waits: &NodeWaits, done: &[Done]) {
    for answer in done.iter().filter(|done| done.shard == NODE) {
        let mut waits = lock(node_waits);
        // One that comes late is nobody's any more.
        if let Some((_, waits)) = waits.take_if(|(ticket, _)| *ticket == answer.ticket) {
            // Who waits no more has been told that nobody knows.
            let _ = waits.try_send(is_kept(answer));
        }
    }
}

/// Tells every shard whether messages of queues have filled their share of the store.
fn tell_queues_full(ways_back: &Mutex<Vec<Option<StoreAnswers>>>, are_full: bool) {
    match are_full {
        true => warn!(
            event = "store-queues-full",
            "messages of queues have filled their share of the store (store.queue_bytes_max)"
        ),
        false => info!(event = "store-queues-have-room", "messages of queues are taken again"),
    }
    for way in lock(ways_back).iter().flatten() {
        way.tell(CommitResult::QueuesFull(are_full));
    }
}

/// What was read for a shard, in its words. What could not be read is said here, where it is known why.
fn given(loaded: Loaded, maps: &Maps) -> StoreLoaded {
    let Loaded { ticket, messages, damaged, mut next, mut delayed, .. } = loaded;
    let mut records = Vec::with_capacity(messages.len());
    for messages in messages {
        let (first, count) = (messages.sequence, messages.count);
        let body = match messages.body.as_ref().map(|body| map(body, maps)).transpose() {
            Ok(body) => body,
            Err(error) => {
                // That there is no memory for it may pass.
                (next, delayed) = (Some(first), Some(error.kind()));
                break;
            }
        };
        let (gone, bytes) = (messages.gone, messages.bytes.into());
        records.push(LoadedRecord { first, count, gone, bytes, body });
    }
    if let Some(reason) = delayed {
        warn!(event = "queue-read-delayed", %reason, "messages of a queue cannot be read now; it is tried again");
    }
    let damaged = damaged.into_iter().map(|messages| {
        let DamagedMessages { sequence: first, count, gone, damage } = messages;
        error!(event = "queue-record-damaged", version = first, count, %damage, "messages of a queue cannot be read");
        DamagedRecord { first, count, gone }
    });
    StoreLoaded { ticket, records, damaged: damaged.collect(), next }
}

fn is_kept(done: &Done) -> bool {
    done.outcome == Outcome::Committed
}

fn news(done: &Done) -> CommitResult {
    match done.outcome {
        Outcome::Committed => CommitResult::Stored(done.ticket),
        Outcome::Broken => CommitResult::Refused { up_to: done.ticket, is_fatal: true },
        _ => CommitResult::Refused { up_to: done.ticket, is_fatal: false },
    }
}

/// Says now and then that it goes on, if that takes long.
fn telling_progress<T>(directory: &str, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (done, wait) = channel::<()>();
        scope.spawn(move || {
            let begun = Instant::now();
            while wait.recv_timeout(PROGRESS) == Err(RecvTimeoutError::Timeout) {
                let seconds = begun.elapsed().as_secs();
                info!(event = "store-reading", directory, seconds, "still reading the store");
            }
        });
        let result = work();
        drop(done);
        result
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tiderace_store::Options;

    use super::*;

    #[test]
    fn what_the_store_cannot_hold_is_refused_and_not_confirmed() {
        let folder =
            std::env::temp_dir().join(format!("tiderace-too-large-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let (store, _) = Store::open(&folder, Options::default()).unwrap();
        let (heard, hearing) = channel();
        let committer = Committer::start(store, move |notice| {
            if let Notice::Done(done) = notice {
                done.iter().for_each(|done| heard.send(news(done)).unwrap());
            }
        });
        let committer = committer.unwrap();
        let mut shard = ShardBatches {
            submitter: Some(committer.submitter(0)),
            waiting: None,
            loads: VecDeque::new(),
            maps: Maps::open().unwrap(),
        };
        let set = |name: &str, value| StoreRecord::Set { name: name.to_owned(), value };
        let taken = |up_to, records| TakenRecords { up_to, records, is_awaited: true };
        shard.submit(taken(1, vec![set("before", vec![1])]));
        // None of these bytes is touched.
        let too_large = set("too large", vec![0; 1200 << 20]);
        shard.submit(taken(3, vec![set("beside", vec![1]), too_large]));
        shard.submit(taken(4, vec![set("behind", vec![1])]));
        drop(committer);
        let heard: Vec<CommitResult> = hearing.iter().collect();
        let refused = CommitResult::Refused { up_to: 3, is_fatal: false };
        assert_eq!(heard, [CommitResult::Stored(1), refused, CommitResult::Stored(4)]);
        let (_, recovered) = Store::open(&folder, Options::default()).unwrap();
        assert!(values(&recovered).map(|(name, _)| name).eq(["before", "behind"]));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
