//! The backup that somebody reads, a piece at a time.
//!
//! It goes to who asks for it and not into a file of this machine: a server in a container or behind a service manager may
//! write nowhere but into its store. Relies on the store for what is in it. Invariants: at most one is under way, and it
//! ends by itself when nobody reads on, or only slowly, or who reads it is gone; memory is bounded by a piece; who was not told its number cannot read it.

use std::time::{Duration, Instant, SystemTime};

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_store::{BackupArchive, BackupError, Backups};
use tiderace_wire::{BackupPart, BackupSize, NodeReport};
use tracing::{info, warn};

/// Bytes of a piece.
const PIECE_BYTES: usize = 1 << 20;
/// A backup that nobody reads on for so long is over: while one is under way, the store does not get shorter.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// However slowly somebody reads, the store gets shorter again after that.
const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Numbers that JSON has in every language have so many bits.
const NUMBER_BITS: u32 = 53;

/// Backups of the store, if there is one.
pub(super) struct Backup {
    source: Option<Backups>,
    running: Option<Running>,
}

/// One that somebody reads.
struct Running {
    /// Drawn by lot: only who has begun it knows it. It stands in no log.
    number: u64,
    archive: BackupArchive,
    /// The session that has begun it, and whether it alone has read all of it so far. By REST each request is a session, so that the end
    /// of one means nothing.
    reader: (SessionId, Reads),
    /// Bytes that were read.
    at: u64,
    begun: Instant,
    /// When it is over unless somebody reads on.
    until: Instant,
    /// When it is over anyway.
    ends: Instant,
}

/// Who has read a backup so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Nobody,
    /// Who has begun it.
    Beginner,
    /// Others, too.
    Others,
}

impl Backup {
    pub(super) fn new(source: Option<Backups>) -> Backup {
        Backup { source, running: None }
    }

    /// When it is over unless somebody reads on.
    pub(super) fn until(&self) -> Option<Instant> {
        self.running.as_ref().map(|running| running.until.min(running.ends))
    }

    /// Ends one that nobody reads on. If `is_idle` is not set, who reads on may be among those that wait, and is waited for once
    /// more.
    pub(super) fn forget_silent(&mut self, now: Instant, is_idle: bool) {
        let grace = if is_idle { Duration::ZERO } else { SILENCE_MAX };
        let Some(running) = &self.running else { return };
        if running.ends <= now {
            self.end("it was not read within 24 h");
        } else if running.until + grace <= now {
            self.end("nobody has read on for 30 s");
        }
    }

    /// Ends one whose reader is gone.
    pub(super) fn reader_ended(&mut self, session: SessionId) {
        let running = self.running.as_ref();
        if running.is_some_and(|running| running.reader == (session, Reads::Beginner)) {
            self.end("the session that read it has ended");
        }
    }

    /// What would be in a backup.
    pub(super) fn look(&self) -> Result<NodeReport, Close> {
        let snapshot = self.source()?.look().map_err(|error| refused(&error))?;
        let size = size_of(&BackupArchive::new(snapshot, VERSION, 0));
        Ok(NodeReport::Backup { backup: None, size })
    }

    /// Begins one.
    pub(super) fn begin(
        &mut self,
        session: SessionId,
        clock: &impl Fn() -> Instant,
    ) -> Result<NodeReport, Close> {
        let number = getrandom::u64().map_err(|error| {
            let reason = format!("no random number can be had for a backup: {error}");
            Close::new(CloseCode::StoreUnavailable, reason)
        })?;
        let number = number >> (u64::BITS - NUMBER_BITS);
        let snapshot = self.source()?.begin().map_err(|error| refused(&error))?;
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let archive = BackupArchive::new(snapshot, VERSION, time_ms);
        let size = size_of(&archive);
        info!(event = "backup-begun", bytes = size.bytes, "a backup has begun");
        let begun = clock();
        let (until, ends) = (begun + SILENCE_MAX, begun + TIME_MAX);
        let reader = (session, Reads::Nobody);
        self.running = Some(Running { number, archive, reader, at: 0, begun, until, ends });
        Ok(NodeReport::Backup { backup: Some(number), size })
    }

    /// The next piece of one; it is over with the last.
    pub(super) fn read(
        &mut self,
        session: SessionId,
        (number, from): (u64, u64),
        clock: &impl Fn() -> Instant,
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
        running.reader.1 = match running.reader {
            (beginner, Reads::Nobody | Reads::Beginner) if beginner == session => Reads::Beginner,
            _ => Reads::Others,
        };
        // Behind the disk, which may have taken long.
        let now = clock();
        running.until = now + SILENCE_MAX;
        let more = running.at < running.archive.bytes();
        if !more {
            let (bytes, seconds) =
                (running.at, now.saturating_duration_since(running.begun).as_secs_f32());
            info!(event = "backup-done", bytes, seconds, "a backup has been read");
            self.running = None;
        }
        let part = BackupPart::new(from, more, &piece).map(NodeReport::BackupPart);
        part.ok_or_else(|| CloseCode::BadOperation.into())
    }

    fn end(&mut self, why: &str) {
        if let Some(Running { at, .. }) = self.running.take() {
            warn!(event = "backup-given-up", bytes = at, why, "a backup was not read to its end");
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::cell::Cell;
    use std::path::PathBuf;

    use tiderace_base::ShardId;
    use tiderace_store::{Batch, Committer, Options, Store};

    use super::*;

    /// A backup of a store with some MiB, which is removed.
    struct Stage {
        directory: PathBuf,
        backup: Backup,
        /// Its backups come from there.
        _committer: Committer,
        begun: Instant,
        now: Cell<Instant>,
        /// Which session reads; the first has begun it.
        by: u32,
    }

    fn session(slot: u32) -> SessionId {
        SessionId { shard: ShardId(0), slot, generation: 0 }
    }

    impl Stage {
        fn new(name: &str) -> Stage {
            let name = format!("tiderace-control-{}-{name}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&directory);
            let (mut store, _) = Store::open(&directory, Options::default()).unwrap();
            for number in 0..40 {
                let mut batch = Batch::new();
                batch.set(&format!("name/{number}"), &vec![7; 100_000]).unwrap();
                assert!(store.commit(vec![batch]).1.is_none());
            }
            let committer = Committer::start(store, |_| ()).unwrap();
            let backup = Backup::new(Some(committer.backups()));
            let now = Instant::now();
            let _committer = committer;
            Stage { directory, backup, _committer, begun: now, now: Cell::new(now), by: 1 }
        }

        fn begin(&mut self) -> u64 {
            match self.backup.begin(session(1), &|| self.now.get()).unwrap() {
                NodeReport::Backup { backup, .. } => backup.unwrap(),
                other => panic!("{other:?}"),
            }
        }

        /// Reads a piece, for which the disk takes that long.
        fn read(&mut self, number: u64, from: u64, takes: u64) -> Result<NodeReport, Close> {
            let clock = || {
                self.now.set(self.now.get() + Duration::from_secs(takes));
                self.now.get()
            };
            self.backup.read(session(self.by), (number, from), &clock)
        }

        /// So many seconds after the beginning; whether a backup is under way then.
        fn runs_at(&mut self, seconds: u64, is_idle: bool) -> bool {
            self.now.set(self.begun + Duration::from_secs(seconds));
            self.backup.forget_silent(self.now.get(), is_idle);
            self.backup.running.is_some()
        }
    }

    impl Drop for Stage {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }

    #[test]
    fn a_backup_is_over_when_nobody_reads_on() {
        let mut stage = Stage::new("silent");
        let number = stage.begin();
        assert!(stage.runs_at(29, true));
        // The time of the disk is not the reader's.
        stage.read(number, 0, 40).unwrap();
        assert!(stage.runs_at(29 + 40 + 29, true));
        assert!(stage.runs_at(29 + 40 + 31, false), "the reader may be among those that wait");
        assert!(!stage.runs_at(29 + 40 + 31, true));
        assert_eq!(stage.read(number, 1 << 20, 0).unwrap_err().code, CloseCode::BadOperation);
        // Nothing is held any more: there can be another, which not even waiting ones keep forever.
        let other = stage.begin();
        assert_ne!(number, other);
        assert!(!stage.runs_at(100 + 61, false));
    }

    #[test]
    fn a_backup_is_over_when_the_session_that_reads_it_has_ended() {
        let mut stage = Stage::new("gone");
        let number = stage.begin();
        stage.read(number, 0, 0).unwrap();
        stage.backup.reader_ended(session(2));
        assert!(stage.runs_at(1, true), "that was another one");
        stage.backup.reader_ended(session(1));
        assert!(!stage.runs_at(1, true));
        // By REST each request is a session, which ends when it is answered.
        let number = stage.begin();
        stage.backup.reader_ended(session(1));
        for by in [2, 1, 3] {
            stage.by = by;
            let at = stage.backup.running.as_ref().unwrap().at;
            stage.read(number, at, 0).unwrap();
            stage.backup.reader_ended(session(by));
            assert!(stage.runs_at(2, true));
        }
    }

    #[test]
    fn a_backup_that_is_read_slowly_is_over_after_a_day() {
        let mut stage = Stage::new("slow");
        stage.begin();
        let running = stage.backup.running.as_mut().unwrap();
        running.until = running.ends + SILENCE_MAX;
        assert_eq!(stage.backup.until(), Some(stage.begun + TIME_MAX));
        assert!(stage.runs_at(86_399, true) && !stage.runs_at(86_400, false));
    }

    #[test]
    fn who_guesses_cannot_read_the_backup_of_somebody_else() {
        let mut stage = Stage::new("guess");
        let number = stage.begin();
        assert!(number < 1 << NUMBER_BITS);
        let busy = stage.backup.begin(session(1), &Instant::now).unwrap_err();
        assert!(!busy.to_string().contains(&number.to_string()), "{busy}");
        for guess in [0, 1, 2, number ^ 1] {
            assert!(stage.read(guess, 0, 0).is_err());
        }
        assert!(stage.read(number, 0, 0).is_ok());
    }
}
