//! What survives: a segmented, checksummed log of streams with group commit and recovery.
//!
//! A **stream** is the persistence of one topic or queue, by a number. A **batch** of records is in the log
//! whole or not at all. The **committer** is a thread that writes all batches that wait in one go and syncs
//! once for all of them; shards never wait for a disk.
//!
//! ```text
//! shard ──Batch, ticket──▶ Submitter ──▶ committer: append, sync ──Notice::Done──▶ message to the shard
//!                                             ├─ between commits: clean (give room back)
//! shard ──LoadRequest────▶ Submitter ──▶      └─ find places ──▶ reader: read, verify ──Notice::Loaded──▶ shard
//! ```
//! What survives what:
//!
//! | | the end of the process | the loss of power | a restart |
//! |---|---|---|---|
//! | a batch that was committed | yes | as [`Sync`] says | yes |
//! | records of a volatile stream ([`StreamId::volatile`]) | no | no | no: the next opening drops them |
//! | a batch that was refused | no, also not later | no | no |
//!
//! Volatile streams are for messages that need not survive and for which there is no room in memory. They are in
//! the same log and are read back like others, but no commit waits for a sync because of them.
//!
//! How it is meant to be used:
//!
//! 1. Before the port opens, [`Store::open`] gives the store and what is in it ([`Recovered`]): each stream goes
//!    to the home of its path, which remembers its [`StreamId`] and goes on behind its [`Mark`]. Of queues it gives
//!    which messages are there, not the messages.
//! 2. [`Committer::start`] gets a closure that turns [`Notice::Done`] into messages for the shards, and each shard
//!    gets its [`Submitter`].
//! 3. Once a turn, a shard hands over one [`Batch`] with all that its broker wants kept, under a ticket that
//!    rises. Confirmations of those messages wait for the ticket; fan-out does not. If
//!    [`Submitter::try_submit`] refuses, the shard keeps the batch, holds its publishers back, and tries again
//!    when a ticket is done.
//! 4. [`Outcome::Full`], [`Outcome::Undeclared`] and [`Outcome::TooLarge`] refuse the messages of the batch: their publishers are told
//!    that they are not kept, and what the batch declared is declared again. [`Outcome::Broken`] means that nothing may be confirmed until the server is started again.
//! 5. Messages that the shard does not keep in memory are asked for with [`Submitter::load`] and come with
//!    [`Notice::Loaded`], read by a thread of their own: no commit waits for them. What was settled
//!    in a batch that was answered as committed before is not given, or said to be gone (a load overtakes batches that
//!    were handed over and are not answered yet); what cannot be read any more is said to be damaged, and what lies behind it is given.
//! 6. When the shards have stopped, dropping the [`Committer`] commits what waits and closes the log.
//!
//! A topic that holds one value puts each message with `keep_from` equal to its number; one with a history of
//! `n` with the number `n` before; a queue with 0, and settles what was consumed.
//!
//! Relies on the file system through [`Disk`]. The form of the files, and why, stands in
//! `docs/decisions/0005-the-store.md`. Invariant: what was acknowledged is there after a restart, in order and
//! whole, or opening fails and says which bytes are damaged.

mod archive;
mod archive_reader;
mod backups;
mod batch;
mod bodies;
mod bodies_needed;
mod body_check;
mod body_transfer;
mod checks;
mod clean;
mod cleaning;
mod committer;
mod contents;
mod declared;
mod disk;
mod error;
mod fields;
mod frame;
mod header;
mod high_water;
mod hold;
mod index;
mod inspect;
mod keeper;
mod listing;
mod load;
mod lock;
mod log;
mod lost;
mod messages;
mod metrics;
mod new_directory;
mod notice;
mod onlooker;
mod opened;
mod opening;
mod options;
mod order;
mod portable;
mod put;
mod ranges;
mod reader;
mod record;
mod recover;
mod recovered;
mod removed_files;
mod restore;
mod room;
mod salvage;
mod scan;
mod sealed;
mod segment_read;
mod set_aside;
mod settled;
mod shared;
mod shared_records;
mod snapshot;
mod store;
mod streams;
mod summary;
mod transfer;
mod transfer_error;
mod watch;

pub use archive::BackupArchive;
pub use archive_reader::{ArchiveError, ArchiveSink, BackupContents, read_backup};
pub use backups::{BackupError, Backups};
pub use batch::{BATCH_BYTES_MAX, Batch, TooLarge};
pub use committer::{Committer, Refused, RefusedReason, Submitter};
pub use disk::{Directory, Disk, DiskFile, OpenFile};
pub use error::{CommitError, Damage, DamageKind, OpenError};
pub use frame::{Frame, FrameError, Seed};
pub use header::{Header, HeaderError};
pub use inspect::{InspectError, Inspected, InspectedSegment, Look, inspect};
pub use load::{DamagedMessages, LoadRequest, Loaded, PendingLoad};
pub use lost::LostRecord;
pub use metrics::{STORE_METRICS, StoreMetrics};
pub use notice::{Done, Notice};
pub use options::{Options, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Sync};
pub use portable::{PortableError, PortableReader};
pub use record::{Body, Declaration, Mark, Put, Ranges, Record, StreamId, StreamKind};
pub use recovered::{
    OpenBody, Recovered, RecoveredMessages, RecoveredStream, Report, SetAside, StoredRange,
};
pub use removed_files::RemovedFiles;
pub use restore::{check_backup, restore};
pub use scan::{ScanEnd, scan};
pub use settled::Stretches;
pub use shared::{Owners, PutShared};
pub use snapshot::Snapshot;
pub use store::{Outcome, Store, StreamIds};
pub use summary::{Volatile, read as read_summary};
pub use transfer::{Compacted, Transferred, compact, export, import};
pub use transfer_error::TransferError;
