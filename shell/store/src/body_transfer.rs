//! Bodies that lie in files, on their way out of a store and into one.
//!
//! Relies on `portable` for the form and on `order` for what may come. A body that several records have is written once.
//! Invariants: one part of a body is in memory at a time; what comes out of a store is what its record says, or the export
//! fails, and the same holds for what comes in.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::bodies::body_name;
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, DamageKind};
use crate::portable::{BODY_PART_BYTES_MAX, PortableError, PortableWriter};
use crate::record::{Body, Put, Record, encode_settle};
use crate::recovered::{RecoveredMessages, RecoveredStream};
use crate::store::Store;
use crate::transfer_error::TransferError;

/// Bodies that were written, with the numbers that they got.
#[derive(Debug, Default)]
pub(crate) struct BodiesOut(HashMap<(u64, u64, u64), u64>);

impl BodiesOut {
    /// Writes messages, and their body if that lies in a file and was not written before.
    pub(crate) fn write_messages<D: Disk>(
        &mut self,
        writer: &mut PortableWriter<impl Write>,
        store: &mut Store<D>,
        stream: &RecoveredStream,
        messages: &RecoveredMessages,
    ) -> Result<(), TransferError> {
        let RecoveredMessages { sequence, count, version, bytes, gone, body } = messages;
        let (stream, keep_from) = (stream.stream, 0);
        let (sequence, count, version) = (*sequence, *count, *version);
        let place = body.as_ref().map(|body| body.place);
        let known = place.and_then(|it| self.0.get(&(it.file, it.offset, it.length)).copied());
        let file = known.unwrap_or(self.0.len() as u64 + 1);
        let body = place.map(|it| Body { file, offset: 0, ..it });
        let put = Put { stream, sequence, count, version, keep_from, bytes, body };
        let written = writer.write(&Record::Put(put), !gone.is_empty());
        written.map_err(PortableError::System)?;
        if !gone.is_empty() {
            let gone =
                writer.write_frame(false, |to| encode_settle(stream, gone.iter().copied(), to));
            gone.map_err(PortableError::System)?;
        }
        if let Some(place) = place.filter(|_| known.is_none()) {
            self.0.insert((place.file, place.offset, place.length), file);
            write_body(writer, store, &place)?;
        }
        Ok(())
    }
}

fn write_body<D: Disk>(
    writer: &mut PortableWriter<impl Write>,
    store: &mut Store<D>,
    place: &Body,
) -> Result<(), TransferError> {
    let name = body_name(place.file);
    let damaged = |what| {
        let (file, offset, bytes) = (name.clone(), place.offset, place.length);
        TransferError::Damaged(Damage { file, offset, bytes, what, lost: None })
    };
    let unreadable = |error: io::Error| damaged(DamageKind::Unreadable(error.kind()));
    let mut file = store.body_file(place).map_err(unreadable)?;
    let (mut at, end) = (place.offset, place.offset.saturating_add(place.length));
    let mut block = vec![0; (BODY_PART_BYTES_MAX as u64).min(place.length) as usize];
    let mut sum = 0;
    while at < end {
        let bytes = (end - at).min(BODY_PART_BYTES_MAX as u64) as usize;
        let Some(block) = block.get_mut(..bytes) else { break };
        file.read(at, block).map_err(unreadable)?;
        sum = crc32c::crc32c_append(sum, block);
        let written = writer.write(&Record::BodyPart { bytes: block }, false);
        written.map_err(PortableError::System)?;
        at += bytes as u64;
    }
    if sum == place.checksum { Ok(()) } else { Err(damaged(DamageKind::Body)) }
}

/// Why a body is not taken.
#[derive(Debug)]
pub(crate) enum BodyRefused {
    /// Its file cannot be written.
    System(io::Error),
    /// It is not what its message says.
    Checksum,
}

impl From<io::Error> for BodyRefused {
    fn from(error: io::Error) -> BodyRefused {
        BodyRefused::System(error)
    }
}

/// Makes files of bodies that come in.
#[derive(Debug)]
pub(crate) struct BodiesIn {
    directory: PathBuf,
    /// The one that comes.
    coming: Option<Coming>,
}

#[derive(Debug)]
struct Coming {
    file: File,
    sum: u32,
    /// What it should be.
    checksum: u32,
}

impl BodiesIn {
    /// Files in the directory of a new store.
    pub(crate) fn new(directory: &Path) -> BodiesIn {
        BodiesIn { directory: directory.to_owned(), coming: None }
    }

    /// Takes a record whose place was checked, and whether nothing of a body is to come behind it. Their numbers are those
    /// of the files.
    ///
    /// # Errors
    /// When a body is not what it should be, or cannot be written.
    pub(crate) fn take<'a>(
        &mut self,
        record: Record<'a>,
        is_whole: bool,
    ) -> Result<Record<'a>, BodyRefused> {
        match &record {
            Record::Put(Put { body: Some(body), .. }) if !is_whole => {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600);
                let file = options.open(self.directory.join(body_name(body.file)))?;
                self.coming = Some(Coming { file, sum: 0, checksum: body.checksum });
            }
            Record::BodyPart { bytes } => {
                let Some(coming) = &mut self.coming else { return Err(BodyRefused::Checksum) };
                coming.file.write_all(bytes)?;
                coming.sum = crc32c::crc32c_append(coming.sum, bytes);
                if is_whole {
                    self.end()?;
                }
            }
            _ => {}
        }
        Ok(record)
    }

    fn end(&mut self) -> Result<(), BodyRefused> {
        let Some(Coming { file, sum, checksum, .. }) = self.coming.take() else { return Ok(()) };
        if sum != checksum {
            return Err(BodyRefused::Checksum);
        }
        file.sync_all()?;
        Ok(())
    }

    /// All have come: makes sure that their names are on the disk.
    ///
    /// # Errors
    /// When that is not certain.
    pub(crate) fn finish(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}
