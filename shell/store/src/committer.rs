//! The thread that owns the store, so that no shard ever waits for a disk.
//!
//! Relies on `store` and `reader`. Shards hand batches over with a ticket each; the thread writes all that wait at
//! once, syncs once, and then says what became of each ticket. While it syncs, the next batches gather, so a slow
//! disk makes larger groups. Invariants: batches of one submitter are committed in their order; a submitter
//! has a bounded number of bytes waiting, also of what it asks to be read back; each ticket is answered once, in
//! order, unless it was handed over
//! while the committer was being dropped.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::backups::{Asked, Backups};
use crate::batch::Batch;
use crate::disk::Disk;
use crate::error::CommitError;
use crate::keeper::{Keeper, Work};
use crate::load::LoadRequest;
use crate::metrics::StoreMetrics;
use crate::notice::{Done, Notice, Report};
use crate::options::Sync;
use crate::reader::{Loading, Reader, ReaderDone};
use crate::record::StreamId;
use crate::removed_files::RemovedFiles;
use crate::store::{Outcome, Store, StreamIds};

/// A group takes no more batches from here on: what waits behind a sync stays bounded.
const GROUP_BYTES_MAX: usize = 8 << 20;
/// Bytes of an old segment that cleaning goes through between two commits, at least.
const CLEAN_BYTES: usize = 256 << 10;
/// Cleaning goes through so many times what was written, so that it keeps ahead of any writer.
const CLEAN_FACTOR: usize = 4;
/// What a batch costs in memory beside its bytes.
const BATCH_OVERHEAD: usize = 256;
/// Bytes that one submitter may have asked to be read back, and the most that an answer has; a single record that is
/// larger comes alone.
const LOADING_BYTES_MAX: usize = 16 << 20;
/// What a request costs beside the bytes of its answer: no submitter has more than some hundreds under way.
const LOAD_OVERHEAD: usize = 64 << 10;
/// Loads that the reader may have before it: the files of each are open.
const LOADS_BEGUN_MAX: usize = 8;
/// How long batches that nobody waits for are held back, so that they share a sync with some that are awaited: on a
/// disk that syncs quickly a producer who waits for each receipt would otherwise wait for the syncs of consumers as well.
const DELAY_MAX: Duration = Duration::from_millis(5);
/// Bytes of such batches that are held back at most.
const DELAYED_BYTES_MAX: usize = 256 << 10;
/// How often a full disk is looked at again.
const ROOM_INTERVAL: Duration = Duration::from_secs(1);

/// A batch that was not taken.
#[derive(Debug)]
pub struct Refused {
    /// The batch.
    pub batch: Batch,
    /// Why.
    pub reason: RefusedReason,
}

/// Why a batch was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedReason {
    /// Too much of this submitter waits; there will be room after its next [`Done`], or, for a request to load,
    /// its next [`Notice::Loaded`].
    #[error("too many persistent messages wait for the disk; try again after the next answer")]
    Waiting,
    /// The committer has stopped.
    #[error("the store has stopped; nothing is kept from now on")]
    Stopped,
}

/// Owns the thread; dropping it commits what waits and closes the log.
#[derive(Debug)]
pub struct Committer {
    queue: Sender<Message>,
    is_stopping: Arc<AtomicBool>,
    waiting_bytes_max: usize,
    streams: StreamIds,
    metrics: Arc<StoreMetrics>,
    keeper: Keeper,
    thread: Option<JoinHandle<()>>,
}

/// Hands batches of one shard to the committer. There must be one per shard, since order and room belong to
/// it.
pub struct Submitter {
    shard: u16,
    queue: Sender<Message>,
    /// Bytes handed over and not yet answered.
    waiting: Arc<AtomicUsize>,
    /// Bytes asked to be read back and not yet answered.
    loading: Arc<AtomicUsize>,
    /// Keeps bodies of large messages.
    keeper: Sender<Work>,
    /// Batches that wait there.
    keeping: Arc<AtomicUsize>,
    waiting_bytes_max: usize,
    is_stopping: Arc<AtomicBool>,
    streams: StreamIds,
}

/// A request to load that waits for its turn.
#[derive(Debug)]
struct Load {
    shard: u16,
    request: LoadRequest,
    loading: Loading,
}

/// Room that a batch takes of its submitter's, until it is answered: what was taken is given back, even if the batch has become
/// shorter since.
#[derive(Debug)]
struct Room {
    bytes: usize,
    waiting: Arc<AtomicUsize>,
}

impl Room {
    fn take(waiting: &Arc<AtomicUsize>, bytes: usize) -> Room {
        waiting.fetch_add(bytes, Ordering::Relaxed);
        Room { bytes, waiting: Arc::clone(waiting) }
    }

    fn give_back(self) {
        self.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[derive(Debug)]
enum Message {
    Batch {
        shard: u16,
        ticket: u64,
        batch: Batch,
        room: Room,
    },
    Load(Load),
    /// The reader has done what was handed over first.
    Reader(ReaderDone),
    /// Somebody wants to copy what is in the store.
    Backup(Asked),
    /// Nobody does any more.
    BackupOver,
    /// The disk has no room for a body.
    NoRoom,
    Stop,
}

impl Committer {
    /// Starts the threads. `report` is called on them, never on two at once: it should only put what it hears
    /// into the mailboxes of shards and into the log.
    ///
    /// # Errors
    /// When the operating system grants no threads.
    pub fn start<D: Disk>(
        store: Store<D>,
        report: impl FnMut(Notice<'_>) + Send + 'static,
    ) -> io::Result<Committer> {
        let (queue, messages) = channel();
        let (streams, metrics) = (store.stream_ids(), store.metrics());
        let waiting_bytes_max = store.options().waiting_bytes_max;
        let report = Report::new(report);
        let back = queue.clone();
        let reader = Reader::start(report.clone(), store.metrics(), move |done| {
            // If the committer has ended, nothing waits for its turn any more.
            let _ = back.send(Message::Reader(done));
        })?;
        let directory = store.directory();
        let back = queue.clone();
        let no_room = move || _ = back.send(Message::NoRoom);
        let keeper = Keeper::start(directory, store.bodies(), report.clone(), no_room)?;
        let worker = Worker {
            store,
            messages,
            queue: queue.clone(),
            report,
            reader,
            loads: VecDeque::new(),
            loads_begun: 0,
            backups: Vec::new(),
            is_stopping: false,
            are_queues_full: false,
            is_full: None,
            is_cleaning_blocked: false,
        };
        let thread = thread::Builder::new().name("store".to_owned()).spawn(move || worker.run())?;
        Ok(Committer {
            queue,
            is_stopping: Arc::default(),
            waiting_bytes_max,
            streams,
            metrics,
            keeper,
            thread: Some(thread),
        })
    }

    /// The submitter of a shard.
    pub fn submitter(&self, shard: u16) -> Submitter {
        Submitter {
            shard,
            queue: self.queue.clone(),
            waiting: Arc::default(),
            loading: Arc::default(),
            keeper: self.keeper.work(),
            keeping: Arc::default(),
            waiting_bytes_max: self.waiting_bytes_max,
            is_stopping: Arc::clone(&self.is_stopping),
            streams: self.streams.clone(),
        }
    }

    /// What the store counts.
    pub fn metrics(&self) -> Arc<StoreMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Where backups come from.
    pub fn backups(&self) -> Backups {
        let (queue, keeper) = (self.queue.clone(), self.keeper.work());
        Backups::new(move |asked| {
            // Behind what waits there, some of which may say what was consumed.
            let queue = queue.clone();
            let ask = move || _ = queue.send(Message::Backup(asked));
            keeper.send(Work::Behind(Box::new(ask))).is_ok()
        })
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Release);
        self.keeper.finish();
        let _ = self.queue.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of a report has been told by the panic hook already.
            let _ = thread.join();
        }
    }
}

impl Submitter {
    /// Hands a batch over; never blocks. Its ticket comes back in a [`Done`].
    ///
    /// # Errors
    /// When it is not taken; the batch comes back.
    pub fn try_submit(&self, ticket: u64, batch: Batch) -> Result<(), Box<Refused>> {
        let refuse = |batch, reason| Err(Box::new(Refused { batch, reason }));
        if self.is_stopping.load(Ordering::Acquire) {
            return refuse(batch, RefusedReason::Stopped);
        }
        let bytes = cost(&batch);
        let waiting = self.waiting.load(Ordering::Relaxed);
        // A batch that is larger than the bound goes alone.
        if waiting > 0 && waiting.saturating_add(bytes) > self.waiting_bytes_max {
            return refuse(batch, RefusedReason::Waiting);
        }
        let (shard, room) = (self.shard, Room::take(&self.waiting, bytes));
        if batch.has_bodies() || self.keeping.load(Ordering::Acquire) > 0 {
            self.keep(batch, move |batch| Message::Batch { shard, ticket, batch, room });
            return Ok(());
        }
        match self.queue.send(Message::Batch { shard, ticket, batch, room }) {
            Ok(()) => Ok(()),
            Err(error) => match error.0 {
                Message::Batch { batch, room, .. } => {
                    room.give_back();
                    refuse(batch, RefusedReason::Stopped)
                }
                _ => refuse(Batch::new(), RefusedReason::Stopped),
            },
        }
    }

    /// Hands a batch over behind those that wait until bodies are kept, or whose own have to be.
    #[cold]
    fn keep(&self, batch: Batch, message: impl FnOnce(Batch) -> Message + Send + 'static) {
        self.keeping.fetch_add(1, Ordering::Relaxed);
        let (queue, here) = (self.queue.clone(), Arc::clone(&self.keeping));
        // Nobody hears of one that comes while everything ends.
        let forward = Box::new(move |batch| drop(queue.send(message(batch))));
        let _ = self.keeper.send(Work::Batch { shard: self.shard, batch, forward, here });
    }

    /// Asks for messages of a stream; never blocks. The answer is a [`Notice::Loaded`], also if there is no such
    /// stream. What was answered as committed is found; of what was handed over and is not answered yet nothing is
    /// certain.
    ///
    /// # Errors
    /// When it is not taken, and will not be answered.
    pub fn load(&self, request: LoadRequest) -> Result<(), RefusedReason> {
        if self.is_stopping.load(Ordering::Acquire) {
            return Err(RefusedReason::Stopped);
        }
        let request =
            LoadRequest { bytes_max: request.bytes_max.min(LOADING_BYTES_MAX), ..request };
        let bytes = request.bytes_max + LOAD_OVERHEAD;
        let loading = self.loading.load(Ordering::Relaxed);
        if loading > 0 && loading.saturating_add(bytes) > LOADING_BYTES_MAX {
            return Err(RefusedReason::Waiting);
        }
        let loading = Loading::new(&self.loading, bytes);
        let message = Message::Load(Load { shard: self.shard, request, loading });
        self.queue.send(message).map_err(|_| RefusedReason::Stopped)
    }

    /// Bytes handed over and not yet answered.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// A stream that nobody else has.
    pub fn next_stream(&self) -> StreamId {
        self.streams.next_stream()
    }
}

impl fmt::Debug for Submitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitter").field("shard", &self.shard).finish_non_exhaustive()
    }
}

fn cost(batch: &Batch) -> usize {
    batch.bytes() + BATCH_OVERHEAD
}

struct Worker<D: Disk, R> {
    store: Store<D>,
    messages: Receiver<Message>,
    /// The way to itself.
    queue: Sender<Message>,
    report: Report<R>,
    reader: Reader<D::File>,
    /// Requests that are not handed to the reader yet.
    loads: VecDeque<Load>,
    /// Loads that the reader has.
    loads_begun: usize,
    /// Who waits for a snapshot.
    backups: Vec<Asked>,
    is_stopping: bool,
    /// What was said last of the share of queues.
    are_queues_full: bool,
    /// When a full disk was looked at last.
    is_full: Option<Instant>,
    /// Cleaning has found no room either.
    is_cleaning_blocked: bool,
}

/// The batches of one commit, and whose they are.
#[derive(Default)]
struct Group {
    batches: Vec<Batch>,
    owners: Vec<(u16, u64, Room)>,
    bytes: usize,
    /// Somebody waits for one of them.
    is_awaited: bool,
}

impl Group {
    fn add(&mut self, shard: u16, ticket: u64, batch: Batch, room: Room) {
        self.bytes += batch.bytes();
        self.is_awaited |= !batch.may_wait();
        self.owners.push((shard, ticket, room));
        self.batches.push(batch);
    }
}

impl<D: Disk, R: FnMut(Notice<'_>) + Send + 'static> Worker<D, R> {
    fn run(mut self) {
        let mut synced = Instant::now();
        loop {
            self.tell_queues();
            let group = self.gather(synced);
            let written = group.bytes;
            if !group.batches.is_empty() {
                self.commit(group);
            } else if self.is_stopping && self.loads.is_empty() {
                break;
            }
            if let Sync::Interval(interval) = self.store.options().sync
                && synced.elapsed() >= interval
            {
                if let Err(error) = self.store.sync() {
                    self.tell(&error);
                }
                synced = Instant::now();
            }
            // Behind the commit: what came before they asked is in it.
            while let Some(asked) = self.backups.pop() {
                self.begin_backup(asked);
            }
            self.remove_bodies();
            self.clean(written);
        }
        // Whether that succeeds is said when the log is closed.
        let _ = self.store.sync();
        self.remove_bodies();
        self.reader.finish();
        if let Err(error) = self.store.close() {
            self.report.tell(Notice::Trouble { what: &error.to_string(), is_fatal: false });
        }
    }

    /// Waits for something to do, then takes all that waits. What nobody waits for is held back a little.
    fn gather(&mut self, synced: Instant) -> Group {
        let mut group = Group::default();
        let mut next = self.first(synced);
        let mut held_since = None;
        while let Some(message) = next {
            match message {
                Message::Batch { shard, ticket, batch, room } => {
                    group.add(shard, ticket, batch, room);
                }
                Message::Load(load) => self.loads.push_back(load),
                Message::Reader(ReaderDone::Read) => self.loads_begun -= 1,
                Message::Reader(ReaderDone::Synced(to, result)) => {
                    let removed = self.store.end_sync(to, result);
                    self.close_removed(removed);
                }
                Message::Backup(asked) => self.backups.push(asked),
                Message::BackupOver => {}
                Message::NoRoom => self.store.give_up_hold(),
                Message::Stop => self.is_stopping = true,
            }
            // Before the commit, which may take long.
            self.begin_loads();
            if group.bytes >= GROUP_BYTES_MAX {
                break;
            }
            next = self.messages.try_recv().ok();
            if next.is_none() && self.may_hold(&group) {
                let since = *held_since.get_or_insert_with(Instant::now);
                let left = DELAY_MAX.saturating_sub(since.elapsed());
                next = self.messages.recv_timeout(left).ok();
            }
        }
        group
    }

    /// Says what a backup has to copy, all of which stays there until it is over.
    fn begin_backup(&mut self, asked: Asked) {
        let queue = self.queue.clone();
        // A committer that has ended removes nothing any more.
        let over = move || _ = queue.send(Message::BackupOver);
        asked.answer(|is_held| self.store.snapshot(is_held.then(|| Box::new(over) as _)));
    }

    /// Whether a group may be held back for others to come.
    fn may_hold(&self, group: &Group) -> bool {
        self.store.options().sync == Sync::Always
            && !self.is_stopping
            && !group.batches.is_empty()
            && !group.is_awaited
            && group.bytes < DELAYED_BYTES_MAX
    }

    /// Finds the places of what is to be read next.
    fn begin_loads(&mut self) {
        while self.loads_begun < LOADS_BEGUN_MAX
            && let Some(Load { shard, request, mut loading }) = self.loads.pop_front()
        {
            let load = self.store.begin_load(shard, &request);
            loading.grow(load.bytes());
            self.loads_begun += 1;
            self.reader.read(load, loading);
        }
    }

    fn first(&mut self, synced: Instant) -> Option<Message> {
        if self.is_stopping && !self.loads.is_empty() {
            // The reader says when it has read something.
            return Some(self.messages.recv().unwrap_or(Message::Stop));
        }
        if self.is_cleaning_due() || self.is_stopping || self.store.is_removal_due() {
            return match self.messages.try_recv() {
                Ok(message) => Some(message),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Message::Stop),
            };
        }
        let wait = match self.store.options().sync {
            Sync::Interval(interval) if self.store.is_dirty() => {
                Some(interval.saturating_sub(synced.elapsed()))
            }
            _ => self.is_full.map(|looked| ROOM_INTERVAL.saturating_sub(looked.elapsed())),
        };
        let Some(wait) = wait else {
            return Some(self.messages.recv().unwrap_or(Message::Stop));
        };
        match self.messages.recv_timeout(wait) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Message::Stop),
        }
    }

    fn commit(&mut self, group: Group) {
        self.look_for_room();
        let grows = group.batches.iter().any(Batch::grows);
        let (outcomes, problem) = self.store.commit(group.batches);
        let has_room = grows && outcomes.contains(&Outcome::Committed);
        let done: Vec<Done> = group
            .owners
            .into_iter()
            .zip(outcomes)
            .map(|((shard, ticket, room), outcome)| {
                // Before the report, so that the shard that hears of it finds the room.
                room.give_back();
                Done { shard, ticket, outcome }
            })
            .collect();
        self.report.tell(Notice::Done(&done));
        match problem {
            Some(error) => self.tell(&error),
            None if has_room && self.is_full.take().is_some() => {
                self.report.tell(Notice::RoomAgain)
            }
            None => {}
        }
        self.store.settle();
    }

    /// Removes files of bodies that nobody needs. Their space is freed by the reader, for that may take long.
    fn remove_bodies(&mut self) {
        let removed = self.store.remove_bodies();
        self.close_removed(removed);
        if let Some((file, to)) = self.store.begin_sync() {
            self.reader.sync(file, to);
        }
    }

    fn close_removed(&mut self, removed: Result<RemovedFiles<D::File>, CommitError>) {
        match removed {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => self.reader.close(removed),
            Err(error) => self.tell(&error),
        }
    }

    /// Tells when messages of queues have filled their share, and when there is room for some again.
    fn tell_queues(&mut self) {
        let are_full = self.store.are_queues_full();
        if std::mem::replace(&mut self.are_queues_full, are_full) != are_full {
            self.report.tell(Notice::QueuesFull(are_full));
        }
    }

    /// Tells of trouble, of a full disk only when it was not full before.
    fn tell(&mut self, error: &CommitError) {
        let is_fatal = matches!(error, CommitError::Broken { .. });
        let is_new = is_fatal || self.is_full.is_none();
        if !is_fatal {
            self.is_full.get_or_insert_with(Instant::now);
        }
        if is_new {
            self.report.tell(Notice::Trouble { what: &error.to_string(), is_fatal });
        }
    }

    fn look_for_room(&mut self) {
        if self.is_full.is_some_and(|looked| looked.elapsed() >= ROOM_INTERVAL) {
            self.store.find_room();
            self.is_full = Some(Instant::now());
            self.is_cleaning_blocked = false;
        }
    }

    fn is_cleaning_due(&self) -> bool {
        !self.is_cleaning_blocked && self.store.is_cleaning_due()
    }

    fn clean(&mut self, written: usize) {
        self.look_for_room();
        if !self.is_cleaning_due() || self.is_stopping {
            return;
        }
        let budget = CLEAN_BYTES.max(written.saturating_mul(CLEAN_FACTOR));
        if let Err(what) = self.store.clean(budget) {
            // If it would go on, only room is missing: that is looked for from time to time.
            self.is_cleaning_blocked = self.store.is_cleaning_due();
            if self.is_cleaning_blocked {
                self.is_full.get_or_insert_with(Instant::now);
            }
            self.report.tell(Notice::Trouble { what: &what, is_fatal: false });
        }
    }
}
