//! An open store: commits batches, tells what became of each, and gives room back between commits.
//!
//! Relies on `log`. Has no thread; [`crate::Committer`] gives it one. Invariants: a batch that is reported as
//! committed survives what [`Sync`] says; one that was refused does not come back; while the disk is full,
//! batches that only take away still find room in the reserve.

mod removing;
mod snapshot;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use tiderace_bodies::Charge;

use crate::batch::Batch;
use crate::bodies::{Bodies, body_name};
use crate::cleaning::CleanError;
use crate::declared::Declared;
use crate::disk::{Directory, Disk, DiskFile};
use crate::error::{CommitError, OpenError};
use crate::hold::Hold;
use crate::load::{self, LoadRequest, Loaded, OpenSegments, PendingLoad};
use crate::log::{Log, SegmentBytes};
use crate::metrics::{StoreMetrics, add, add_time, set};
use crate::opened::{Opened, Opening};
use crate::opening::open;
use crate::options::{Options, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Sync};
use crate::record::{Body, StreamId};
use crate::recovered::{OpenBody, Recovered};

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the log.
    Committed,
    /// It is not in the log, because there is no room. It may be tried again.
    Full,
    /// It is not in the log, because it has messages of a stream that is not declared: the batch that declared
    /// it was refused, or there was none. It may be tried again behind a declaration.
    Undeclared,
    /// It is not in the log, because it lacks a record that is larger than any the log can hold.
    TooLarge,
    /// Nobody knows whether it is in the log; nothing is acknowledged any more.
    Broken,
}

/// An open store.
#[derive(Debug)]
pub struct Store<D: Disk = Directory> {
    log: Log<D>,
    options: Options,
    metrics: Arc<StoreMetrics>,
    streams: Arc<AtomicU64>,
    open_segments: OpenSegments<D::File>,
    /// The reserve is on disk.
    has_reserve: bool,
    /// Cleaning has found damage and does not go on.
    is_cleaning_stopped: bool,
    /// Messages of queues have filled their share.
    are_queues_full: bool,
    /// Files with bodies that batches on their way will name.
    bodies: Arc<Bodies>,
    /// Files that no record names, and that are not removed yet.
    unneeded: Vec<u64>,
    /// So many of them were removed and are still open.
    opened: Arc<AtomicUsize>,
    /// How many files have come to be removed since some were, while nothing kept them.
    noted: usize,
    /// Those that can be removed as soon as the sync elsewhere is over.
    unneeded_then: Option<Vec<u64>>,
    /// While there is one that is not given up, nothing is removed.
    hold: Weak<Hold>,
}

/// Bytes that compacting goes through at once.
const COMPACT_BYTES: usize = 1 << 20;

/// Takes room that giving room back needs when there is none otherwise.
const RESERVE: &str = "reserve";

/// Names new streams. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StreamIds(Arc<AtomicU64>);

impl StreamIds {
    /// A stream that nobody else has. It has to be declared before anything else is said of it.
    pub fn next_stream(&self) -> StreamId {
        StreamId(self.0.fetch_add(1, Ordering::Relaxed))
    }

    /// A volatile stream that nobody else has.
    pub fn next_volatile_stream(&self) -> StreamId {
        StreamId::volatile(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

impl Store<Directory> {
    /// Opens the store in that directory, making it if it does not exist; gives what is in it.
    ///
    /// # Errors
    /// When the directory is in use, cannot be used, or is damaged.
    pub fn open(directory: &Path, options: Options) -> Result<(Store, Recovered), OpenError> {
        let disk = Directory::open(directory).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => OpenError::InUse { directory: directory.to_owned() },
            _ => OpenError::System {
                directory: directory.to_owned(),
                what: "open the store's directory",
                error,
            },
        })?;
        Store::open_on(disk, directory, options)
    }
}

impl<D: Disk> Store<D> {
    /// Opens the store on that disk; `directory` is for messages only.
    ///
    /// # Errors
    /// When the disk cannot be used, or is damaged.
    pub fn open_on(
        disk: D,
        directory: &Path,
        options: Options,
    ) -> Result<(Store<D>, Recovered), OpenError> {
        let salt = getrandom::u64().map_err(|error| OpenError::System {
            directory: directory.to_owned(),
            what: "get a random number from the operating system",
            error: std::io::Error::other(error),
        })?;
        let segment_bytes = options.segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let opening = Opening {
            segment_bytes: SegmentBytes(segment_bytes),
            accept_damage: options.accept_damage,
            // What is given up is looked for everywhere.
            is_thorough: options.accept_damage,
            salt,
        };
        let (mut store, recovered) = Store::of_log(open(disk, directory, opening)?, options);
        // A disk that is full already is reported at the next write.
        store.make_reserve();
        store.update_gauges();
        Ok((store, recovered))
    }

    /// The store of a log that is open.
    pub(crate) fn of_log(opened: Opened<D>, options: Options) -> (Store<D>, Recovered) {
        let Opened { log, recovered, streams_below, bodies_below } = opened;
        let files = log.index.bodies().files().map(|(number, _)| number);
        let bodies = Arc::new(Bodies::new(files, bodies_below));
        let store = Store {
            log,
            options,
            metrics: Arc::default(),
            streams: Arc::new(AtomicU64::new(streams_below)),
            open_segments: OpenSegments::new(),
            has_reserve: false,
            is_cleaning_stopped: false,
            are_queues_full: false,
            bodies,
            unneeded: Vec::new(),
            opened: Arc::default(),
            noted: 0,
            unneeded_then: None,
            hold: Weak::new(),
        };
        (store, recovered)
    }

    /// What the store counts.
    pub fn metrics(&self) -> Arc<StoreMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Where names of new streams come from.
    pub fn stream_ids(&self) -> StreamIds {
        StreamIds(Arc::clone(&self.streams))
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Commits batches in their order. Says what became of each; and why, if not all are in the log.
    pub fn commit(&mut self, batches: Vec<Batch>) -> (Vec<Outcome>, Option<CommitError>) {
        let mut outcomes = vec![Outcome::Committed; batches.len()];
        let (mut places, mut batches) = self.with_declared(batches, &mut outcomes);
        let count = batches.len();
        let grows = batches.iter().any(Batch::grows);
        let bytes: usize = batches.iter().map(Batch::bytes).sum();
        let records: u64 = batches.iter().map(|batch| u64::from(batch.records())).sum();
        let has_room = self.has_reserve || self.options.reserve_bytes == 0 || !grows;
        let whole = match (count, has_room) {
            (0, _) => Ok(()),
            (_, true) => self.log.append(&mut batches),
            (_, false) => Err(no_reserve()),
        };
        let mut problem = match whole {
            Ok(()) => {
                self.count_written(bytes, count as u64, records);
                None
            }
            Err(CommitError::Full(error)) => {
                let outcome = self.commit_singly(batches, places.drain(..), &mut outcomes);
                Some(outcome.err().unwrap_or(CommitError::Full(error)))
            }
            Err(error) => Some(error),
        };
        if self.options.sync == Sync::Always
            && !matches!(problem, Some(CommitError::Broken { .. }))
            && let Err(error) = self.sync()
        {
            problem = Some(error);
        }
        // What is acknowledged must be where the next start looks for it.
        if outcomes.contains(&Outcome::Committed)
            && !matches!(problem, Some(CommitError::Broken { .. }))
            && let Err(error) = self.log.verify()
        {
            problem = Some(error);
        }
        if matches!(problem, Some(CommitError::Broken { .. })) {
            outcomes.fill(Outcome::Broken);
            set(&self.metrics.is_broken, 1);
        }
        let refused = outcomes.iter().filter(|outcome| **outcome != Outcome::Committed).count();
        add(&self.metrics.refused, refused as u64);
        let is_full = matches!(problem, Some(CommitError::Full(_)));
        set(&self.metrics.is_full, u64::from(is_full));
        if is_full {
            self.give_up_hold();
        }
        (outcomes, problem)
    }

    /// Waits until everything committed so far is on disk.
    ///
    /// # Errors
    /// When that is not certain.
    pub fn sync(&mut self) -> Result<(), CommitError> {
        if !self.log.is_dirty() {
            return Ok(());
        }
        let begun = Instant::now();
        let result = self.log.sync();
        add(&self.metrics.syncs, 1);
        add_time(&self.metrics.sync_time, begun.elapsed());
        set(&self.metrics.is_broken, u64::from(self.log.is_broken));
        result
    }

    /// Whether something committed is not on disk for certain.
    pub fn is_dirty(&self) -> bool {
        self.log.is_dirty()
    }

    /// Whether [`Store::clean`] has something to do.
    pub fn is_cleaning_due(&self) -> bool {
        let may_clean = !self.is_cleaning_stopped && !self.log.is_broken;
        may_clean && self.log.is_cleaning_due() && !self.is_held()
    }

    /// Gives room back: goes through some `budget` bytes of what is oldest.
    ///
    /// # Errors
    /// A sentence, if cleaning does not go on: the disk is full or damaged.
    pub fn clean(&mut self, budget: usize) -> Result<(), String> {
        let result = self.log.clean(budget);
        self.open_segments.forget_below(self.log.oldest);
        add(&self.metrics.cleaned_bytes, budget as u64);
        self.update_gauges();
        match result {
            Ok(()) => Ok(()),
            Err(CleanError::Commit(CommitError::Full(error))) if self.has_reserve => {
                self.drop_reserve();
                Err(CommitError::Full(error).to_string())
            }
            Err(error) => {
                self.is_cleaning_stopped = !error.may_pass();
                Err(error.to_string())
            }
        }
    }

    /// Takes what was committed into the index. A caller that has time after telling what became of the
    /// batches does it then.
    pub fn settle(&mut self) {
        self.log.account();
        self.update_gauges();
    }

    /// Whether messages of queues have filled their share, and have not left a tenth of it since.
    pub fn are_queues_full(&self) -> bool {
        self.are_queues_full
    }

    /// Finds the messages that a request asks for. What was committed is found, and what was refused is not.
    pub fn begin_load(&mut self, shard: u16, request: &LoadRequest) -> PendingLoad<D::File> {
        load::begin(&mut self.log, &mut self.open_segments, &self.bodies, shard, request)
    }

    /// Finds messages and reads them at once, which waits for the disk.
    pub fn load(&mut self, request: &LoadRequest) -> Loaded {
        self.begin_load(0, request).read()
    }

    /// Where the store is, if it is on a file system of the operating system.
    pub(crate) fn directory(&self) -> Option<PathBuf> {
        self.log.disk.path().map(Path::to_owned)
    }

    /// The files with bodies.
    pub(crate) fn bodies(&self) -> Arc<Bodies> {
        Arc::clone(&self.bodies)
    }

    /// Whether some message has its body in a file.
    pub(crate) fn has_bodies(&self) -> bool {
        self.log.index.bodies().count() > 0
    }

    /// The file of a body, to read it.
    pub(crate) fn body_file(&mut self, body: &Body) -> std::io::Result<D::File> {
        self.log.disk.open(&body_name(body.file))
    }

    /// Opens the file of a body.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open_body(&mut self, body: &Body) -> std::io::Result<OpenBody> {
        let file = self.body_file(body)?;
        Ok(OpenBody::new(*body, file, self.bodies.charge(body.file)))
    }

    /// Counts the bytes of files with bodies that the store has: `charge` is given the bytes of each, and the first stream
    /// that needs it; what it gives is held until the file is gone, or only a backup keeps it.
    pub fn charge_bodies(&self, mut charge: impl FnMut(StreamId, u64) -> Charge) {
        let bodies = self.log.index.bodies();
        let mut streams = BTreeMap::<u64, StreamId>::new();
        for (stream, _, body) in bodies.records() {
            let first = streams.entry(body.file).or_insert(stream);
            *first = stream.min(*first);
        }
        for (number, bytes) in bodies.files() {
            if let Some(stream) = streams.get(&number) {
                self.bodies.set_charge(number, charge(*stream, bytes));
            }
        }
    }

    /// Writes what is needed of all that is older into new segments and removes the old ones: the log is then
    /// about as long as what is needed. `progress` is told the segments that are done and how many there are.
    ///
    /// # Errors
    /// A sentence, if the disk is full or damaged. What was done until then stays done, and nothing is lost.
    pub fn compact(&mut self, mut progress: impl FnMut(u32, u32)) -> Result<(), String> {
        let first = self.log.oldest;
        self.log.account();
        self.log.rotate().map_err(|error| error.to_string())?;
        let total = self.log.head_number() - first;
        while self.log.oldest - first < total {
            progress(self.log.oldest - first, total);
            self.clean(COMPACT_BYTES)?;
        }
        progress(total, total);
        self.sync().map_err(|error| error.to_string())
    }

    /// Bytes of the log, and bytes of it that are needed.
    pub fn size(&self) -> (u64, u64) {
        (self.log.total_bytes(), self.log.live_bytes())
    }

    /// After a full disk: makes the reserve again if there is room, without which batches that add are
    /// refused. It is worth trying from time to time.
    pub fn find_room(&mut self) {
        if !self.has_reserve {
            self.make_reserve();
        }
    }

    /// Ends the log so that any later damage to it is noticed.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn close(mut self) -> Result<(), CommitError> {
        self.log.close()
    }

    /// Leaves out batches that lack a record, and those whose streams are not declared; says for each of the others which it was.
    fn with_declared(
        &mut self,
        batches: Vec<Batch>,
        outcomes: &mut [Outcome],
    ) -> (Vec<usize>, Vec<Batch>) {
        self.log.account();
        let mut declared = Declared::new(&self.log.index);
        let mut places = Vec::with_capacity(batches.len());
        let mut allowed = Vec::with_capacity(batches.len());
        for (place, (batch, outcome)) in batches.into_iter().zip(outcomes).enumerate() {
            // Bodies are kept before a batch comes here.
            if batch.is_incomplete() || batch.has_bodies() {
                *outcome = Outcome::TooLarge;
            } else if declared.allows(&batch) {
                places.push(place);
                allowed.push(batch);
            } else {
                *outcome = Outcome::Undeclared;
            }
        }
        (places, allowed)
    }

    /// Batches that add are refused; for those that take away, the reserve is given up if it must be.
    fn commit_singly(
        &mut self,
        batches: Vec<Batch>,
        places: impl Iterator<Item = usize>,
        outcomes: &mut [Outcome],
    ) -> Result<(), CommitError> {
        for (batch, place) in batches.into_iter().zip(places) {
            let Some(outcome) = outcomes.get_mut(place) else { continue };
            if batch.grows() && self.options.reserve_bytes > 0 {
                *outcome = Outcome::Full;
                continue;
            }
            // Again: a batch before may have been refused meanwhile.
            self.log.account();
            if !Declared::new(&self.log.index).allows(&batch) {
                *outcome = Outcome::Undeclared;
                continue;
            }
            let (bytes, records) = (batch.bytes(), u64::from(batch.records()));
            let mut batches = vec![batch];
            let mut appended = self.log.append(&mut batches);
            if matches!(appended, Err(CommitError::Full(_))) && self.has_reserve {
                self.drop_reserve();
                appended = self.log.append(&mut batches);
            }
            match appended {
                Ok(()) => self.count_written(bytes, 1, records),
                Err(CommitError::Full(_)) => *outcome = Outcome::Full,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn count_written(&self, bytes: usize, batches: u64, records: u64) {
        add(&self.metrics.bytes_written, bytes as u64);
        add(&self.metrics.batches, batches);
        add(&self.metrics.records, records);
        add(&self.metrics.commits, 1);
    }

    fn drop_reserve(&mut self) {
        if std::mem::take(&mut self.has_reserve) {
            // If it stays, there is no room for what follows, which is then refused.
            let _ = self.log.disk.remove(RESERVE).and_then(|()| self.log.disk.sync_names());
        }
    }

    fn make_reserve(&mut self) {
        let bytes = u64::from(self.options.reserve_bytes);
        if bytes == 0 || self.log.is_broken {
            return;
        }
        // What has the name is whole: the name is given last.
        let exists = self.log.disk.open(RESERVE).and_then(|mut file| file.bytes());
        if exists.is_ok_and(|length| length >= bytes) {
            self.has_reserve = true;
            return;
        }
        let temporary = format!("{RESERVE}.new");
        let made = self.log.disk.create(&temporary).and_then(|mut file| {
            let zeros = vec![0; 1 << 20];
            let mut left = bytes as usize;
            while left > 0 {
                let part = left.min(zeros.len());
                file.append(&[zeros.get(..part).unwrap_or_default()])?;
                left -= part;
            }
            file.sync()?;
            self.log.disk.rename(&temporary, RESERVE)?;
            self.log.disk.sync_names()
        });
        self.has_reserve = made.is_ok();
        if !self.has_reserve {
            let _ = self.log.disk.remove(&temporary);
        }
    }

    fn update_gauges(&mut self) {
        let body_bytes = self.log.index.bodies().bytes();
        let queue_bodies = self.log.index.bodies().queue_bytes();
        let bytes = self.log.index.queue_bytes().saturating_add(queue_bodies);
        let bytes_max = self.options.queue_bytes_max;
        let limit = if self.are_queues_full { bytes_max - bytes_max / 10 } else { bytes_max };
        self.are_queues_full = bytes_max > 0 && bytes > limit;
        set(&self.metrics.queue_bytes, bytes);
        set(&self.metrics.body_bytes, body_bytes);
        set(&self.metrics.body_files, self.log.index.bodies().count() as u64);
        set(&self.metrics.queues_full, u64::from(self.are_queues_full));
        set(&self.metrics.live_bytes, self.log.live_bytes());
        set(&self.metrics.total_bytes, self.log.total_bytes());
        set(&self.metrics.segments, self.log.segments.len() as u64);
        set(&self.metrics.streams, self.log.index.stream_count() as u64);
        set(&self.metrics.is_broken, u64::from(self.log.is_broken));
    }
}

fn no_reserve() -> CommitError {
    CommitError::Full(std::io::ErrorKind::StorageFull.into())
}
