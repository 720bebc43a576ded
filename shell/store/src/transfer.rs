//! Takes everything out of a store that nobody uses, and makes a store of it again.
//!
//! Relies on `inspect`'s way of looking, on `portable` for the form, and on an ordinary store for what is made.
//! Invariants: exporting changes nothing, and gives all or fails; a directory has either the whole of what was
//! imported or nothing.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::batch::Batch;
use crate::body_transfer::{BodiesIn, BodiesOut, BodyRefused};
use crate::header::segment_number;
use crate::inspect::{InspectError, open_quiet};
use crate::load::LoadRequest;
use crate::new_directory::NewDirectory;
use crate::options::{Options, Sync};
use crate::order::Order;
use crate::portable::{PortableError, PortableReader, PortableWriter};
use crate::record::{Declaration, Record};
use crate::recovered::{RecoveredMessages, RecoveredStream};
use crate::store::{Outcome, Store};
use crate::transfer_error::TransferError;

/// Bytes of messages that are in memory at once.
const PART_BYTES: usize = 4 << 20;

/// What was taken out of a store or put into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Topics and queues.
    pub streams: u64,
    /// Messages; those that are gone of a record are not counted.
    pub messages: u64,
    /// Named values.
    pub values: u64,
    /// Bytes of the portable form.
    pub bytes: u64,
}

/// A log that was made short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of its segments before.
    pub bytes_before: u64,
    /// And now.
    pub bytes_after: u64,
}

/// Writes everything that is in the store of a directory, which no server may use meanwhile. `progress` is told the
/// messages that are written and how many there are.
///
/// # Errors
/// When the store is in use, is none, or is damaged; when `to` does not take it.
pub fn export(
    directory: &Path,
    to: impl Write,
    mut progress: impl FnMut(u64, u64),
) -> Result<Transferred, TransferError> {
    let (mut store, recovered) = open_quiet(directory)?;
    if let Some(damage) = recovered.report.damage.first() {
        return Err(TransferError::Damaged(damage.clone()));
    }
    let has_bodies = store.has_bodies();
    let mut writer = PortableWriter::begin(to, has_bodies).map_err(PortableError::System)?;
    let mut bodies = BodiesOut::default();
    let total = recovered.streams.iter().map(messages_of).sum();
    let mut done = Transferred::default();
    for (name, value) in &recovered.values {
        writer.write(&Record::Set { name, value }, false).map_err(PortableError::System)?;
        done.values += 1;
    }
    for stream in &recovered.streams {
        writer.write(&declaration(stream), false).map_err(PortableError::System)?;
        done.streams += 1;
        for messages in &stream.messages {
            bodies.write_messages(&mut writer, &mut store, stream, messages)?;
            done.messages += count(messages);
        }
        let mut next = stream.stored.first().map(|range| range.first);
        while let Some(first) = next {
            let (ticket, stream_id, last) = (0, stream.stream, u64::MAX);
            let bytes_max = PART_BYTES;
            let request =
                LoadRequest { ticket, stream: stream_id, beside: None, first, last, bytes_max };
            let loaded = store.load(&request);
            if let Some(damaged) = loaded.damaged.first() {
                return Err(TransferError::Damaged(damaged.damage.clone()));
            }
            if let Some(kind) = loaded.delayed {
                let (what, path) = ("read messages of", directory.to_owned());
                return Err(TransferError::System { what, path, error: kind.into() });
            }
            for messages in &loaded.messages {
                bodies.write_messages(&mut writer, &mut store, stream, messages)?;
                done.messages += count(messages);
            }
            progress(done.messages, total);
            next = loaded.next;
        }
        progress(done.messages, total);
    }
    done.bytes = writer.finish().map_err(PortableError::System)?;
    Ok(done)
}

/// Makes a store of what [`export`] has written. `progress` is told the bytes that were read.
///
/// # Errors
/// When the directory has something in it, is a mount point, or is that of another import; when the bytes are not whole,
/// or have what no export writes. Then no store is made.
pub fn import(
    from: impl Read,
    directory: &Path,
    progress: impl FnMut(u64),
) -> Result<Transferred, TransferError> {
    NewDirectory::check(directory)?;
    let reader = PortableReader::begin(from)?;
    let made = NewDirectory::begin(directory, ".import")?;
    let done = fill(reader, made.path(), progress)?;
    made.finish()?;
    Ok(done)
}

/// Makes the log of a store as short as what is in it, which no server may use meanwhile. Takes room for some
/// segments beside it. `progress` is told the segments that are done and how many there are.
///
/// # Errors
/// When the store is in use, is none, or is damaged; when the disk is full. Nothing is lost then.
pub fn compact(
    directory: &Path,
    progress: impl FnMut(u32, u32),
) -> Result<Compacted, TransferError> {
    let entries = fs::read_dir(directory).map(|entries| entries.flatten());
    let has_segment = |entry: fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| segment_number(name).is_some())
    };
    // Opening would make a store where there is none.
    if !entries.is_ok_and(|mut entries| entries.any(has_segment)) {
        return Err(InspectError::Absent { directory: directory.to_owned() }.into());
    }
    let options = Options { sync: Sync::Never, reserve_bytes: 0, ..Options::default() };
    let (mut store, _) = Store::open(directory, options)?;
    let (bytes_before, _) = store.size();
    store.compact(progress).map_err(TransferError::Compact)?;
    let (bytes_after, _) = store.size();
    store.close()?;
    Ok(Compacted { bytes_before, bytes_after })
}

/// Puts all records into a new store.
fn fill(
    mut reader: PortableReader<impl Read>,
    directory: &Path,
    mut progress: impl FnMut(u64),
) -> Result<Transferred, TransferError> {
    let options = Options { sync: Sync::Never, reserve_bytes: 0, ..Options::default() };
    let (mut store, _) = Store::open(directory, options)?;
    let (mut batch, mut done, mut records) = (Batch::new(), Transferred::default(), 0u64);
    let (mut order, mut bodies) = (Order::default(), BodiesIn::new(directory));
    while let Some((record, more)) = reader.next_record()? {
        let gone = order.check(&record, more);
        let gone = gone.map_err(|what| TransferError::Unexpected { number: records, what })?;
        let record = match bodies.take(record, order.is_body_whole()) {
            Ok(record) => record,
            Err(BodyRefused::System(error)) => return Err(failed_body(directory, error)),
            Err(BodyRefused::Checksum) => {
                let what = "a body is not what was written";
                return Err(TransferError::Unexpected { number: records, what });
            }
        };
        match &record {
            Record::Declare(_) => done.streams += 1,
            Record::Set { .. } => done.values += 1,
            Record::Put(put) => done.messages += u64::from(put.count),
            _ => done.messages -= gone,
        }
        records += 1;
        if matches!(record, Record::BodyPart { .. }) {
            progress(reader.bytes());
            continue;
        }
        batch.add_record(&record);
        if !more && batch.bytes() > PART_BYTES {
            commit(&mut store, std::mem::take(&mut batch), records)?;
            progress(reader.bytes());
        }
    }
    order.finish().map_err(|what| TransferError::Unexpected { number: records, what })?;
    bodies.finish().map_err(|error| failed_body(directory, error))?;
    commit(&mut store, batch, records)?;
    store.close()?;
    done.bytes = reader.bytes();
    progress(done.bytes);
    Ok(done)
}

fn failed_body(directory: &Path, error: io::Error) -> TransferError {
    let (what, path) = ("write the body of a message in", directory.to_owned());
    TransferError::System { what, path, error }
}

fn commit(store: &mut Store, batch: Batch, records: u64) -> Result<(), TransferError> {
    if batch.is_empty() {
        return Ok(());
    }
    let (outcomes, problem) = store.commit(vec![batch]);
    match (problem, outcomes.first()) {
        (Some(error), _) => Err(error.into()),
        (None, Some(Outcome::Committed)) => {
            store.settle();
            Ok(())
        }
        (None, _) => {
            let (number, what) = (records, "its stream is not declared");
            Err(TransferError::Unexpected { number, what })
        }
    }
}

fn declaration(stream: &RecoveredStream) -> Record<'_> {
    let RecoveredStream { stream: id, kind, path, spec, mark, .. } = stream;
    Record::Declare(Declaration { stream: *id, kind: *kind, mark: *mark, path, spec })
}

/// How many messages of a record are there.
fn count(messages: &RecoveredMessages) -> u64 {
    let gone: u64 = messages.gone.iter().map(|(first, last)| last - first + 1).sum();
    u64::from(messages.count).saturating_sub(gone)
}

fn messages_of(stream: &RecoveredStream) -> u64 {
    let stored = stream.stored.iter().map(|range| range.count());
    stream.messages.iter().map(count).chain(stored).sum()
}
