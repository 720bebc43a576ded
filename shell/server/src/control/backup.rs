//! The backup that somebody reads, a piece at a time.
//!
//! It goes to who asks for it and not into a file of this machine: a server in a container or behind a service manager may
//! write nowhere but into its store. Relies on the store for what is in it. Invariants: at most one is under way, and it
//! ends by itself when nobody reads on; memory is bounded by a piece.

use std::time::{Duration, Instant, SystemTime};

use tiderace_base::{Close, CloseCode};
use tiderace_store::{BackupArchive, BackupError, Backups};
use tiderace_wire::{BackupPart, BackupSize, NodeReport};
use tracing::{info, warn};

/// Bytes of a piece.
const PIECE_BYTES: usize = 1 << 20;
/// A backup that nobody reads on for so long is over: while one is under way, the store does not get shorter.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Backups of the store, if there is one.
pub(super) struct Backup {
    source: Option<Backups>,
    running: Option<Running>,
    /// The number of the last.
    last: u64,
}

/// One that somebody reads.
struct Running {
    number: u64,
    archive: BackupArchive,
    /// Bytes that were read.
    at: u64,
    begun: Instant,
    until: Instant,
}

impl Backup {
    pub(super) fn new(source: Option<Backups>) -> Backup {
        Backup { source, running: None, last: 0 }
    }

    /// When it is over unless somebody reads on.
    pub(super) fn until(&self) -> Option<Instant> {
        self.running.as_ref().map(|running| running.until)
    }

    /// Ends one that nobody reads on.
    pub(super) fn forget_silent(&mut self, now: Instant) {
        if self.until().is_some_and(|until| until <= now) {
            self.end("nobody has read on for 30 s");
        }
    }

    /// What would be in a backup.
    pub(super) fn look(&self) -> Result<NodeReport, Close> {
        let snapshot = self.source()?.look().map_err(|error| refused(&error))?;
        let size = size_of(&BackupArchive::new(snapshot, VERSION, 0));
        Ok(NodeReport::Backup { backup: None, size })
    }

    /// Begins one.
    pub(super) fn begin(&mut self, now: Instant) -> Result<NodeReport, Close> {
        let snapshot = self.source()?.begin().map_err(|error| refused(&error))?;
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let archive = BackupArchive::new(snapshot, VERSION, time_ms);
        let size = size_of(&archive);
        self.last += 1;
        info!(event = "backup-begun", backup = self.last, bytes = size.bytes, "a backup has begun");
        let until = now + SILENCE_MAX;
        self.running = Some(Running { number: self.last, archive, at: 0, begun: now, until });
        Ok(NodeReport::Backup { backup: Some(self.last), size })
    }

    /// The next piece of one; it is over with the last.
    pub(super) fn read(
        &mut self,
        (number, from): (u64, u64),
        now: Instant,
    ) -> Result<NodeReport, Close> {
        let running = self.running.as_mut().filter(|running| running.number == number);
        let Some(running) = running else {
            let reason = format!(
                "no backup {number} is under way; one that nobody reads on for 30 s is over: begin another"
            );
            return Err(Close::new(CloseCode::BadOperation, reason));
        };
        if from != running.at {
            let at = running.at;
            let reason =
                format!("backup {number} is read in order: the next byte is {at}, not {from}");
            return Err(Close::new(CloseCode::BadOperation, reason));
        }
        let piece = match running.archive.read(PIECE_BYTES) {
            Ok(piece) => piece,
            Err(error) => {
                self.end(&error.to_string());
                return Err(refused(&error));
            }
        };
        running.at += piece.len() as u64;
        running.until = now + SILENCE_MAX;
        let more = running.at < running.archive.bytes();
        if !more {
            let (bytes, seconds) = (running.at, running.begun.elapsed().as_secs_f32());
            info!(event = "backup-done", backup = number, bytes, seconds, "a backup has been read");
            self.running = None;
        }
        let part = BackupPart::new(from, more, &piece).map(NodeReport::BackupPart);
        part.ok_or_else(|| CloseCode::BadOperation.into())
    }

    fn end(&mut self, why: &str) {
        if let Some(Running { number, at, .. }) = self.running.take() {
            warn!(
                event = "backup-given-up",
                backup = number,
                bytes = at,
                why,
                "a backup was not read to its end"
            );
        }
    }

    fn source(&self) -> Result<&Backups, Close> {
        self.source.as_ref().ok_or_else(|| {
            let reason =
                "this server stores nothing (store.directory), so there is nothing to back up";
            Close::new(CloseCode::BadOperation, reason)
        })
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn size_of(archive: &BackupArchive) -> BackupSize {
    let (segments, bodies) = (archive.snapshot().segments(), archive.snapshot().bodies());
    BackupSize { bytes: archive.bytes(), segments, bodies }
}

/// What a client is told of a store that cannot be copied.
fn refused(error: &BackupError) -> Close {
    let code = match error {
        BackupError::Busy => CloseCode::BadOperation,
        _ => CloseCode::StoreUnavailable,
    };
    Close::new(code, error.to_string())
}
