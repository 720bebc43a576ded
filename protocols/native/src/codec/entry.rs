//! Entries: the messages inside UPDATES and QUEUED, written in the hottest loop there is.

use tiderace_wire::write_varint;

use super::{CodecError, Reader, flag, write_bytes};

/// The version of an update as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Whole.
    Full(u64),
    /// The lowest 16 bits.
    Low(u16),
}

impl Version {
    /// The whole version, if the last one known was that.
    pub fn after(self, last: u64) -> u64 {
        match self {
            Version::Full(version) => version,
            Version::Low(low) => {
                // One more and one less, so that 0 stands for 65,536.
                let step = low.wrapping_sub(last as u16).wrapping_sub(1);
                last.wrapping_add(u64::from(step)).wrapping_add(1)
            }
        }
    }
}

/// The number that a message has at its source, of subscriptions with NUMBERED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Who gave it, as POSITION writes it: a home of the server by its shard, or another numbering as a whole.
    pub numbering: u64,
    /// The number.
    pub number: u64,
    /// Up to which number everything has been given that was asked for, once this update is; 0 if that is not known yet.
    pub reached: u64,
}

impl Numbers {
    fn read(from: &mut Reader<'_>) -> Result<Numbers, CodecError> {
        let (numbering, number) = (from.varint()?, from.varint()?);
        let written = from.varint()?;
        // Zigzag: a step back is written as an odd number.
        let step = (written >> 1) ^ (written & 1).wrapping_neg();
        Ok(Numbers { numbering, number, reached: number.wrapping_add(step) })
    }

    fn write(self, out: &mut Vec<u8>) {
        let step = self.reached.wrapping_sub(self.number) as i64;
        write_varint(out, self.numbering);
        write_varint(out, self.number);
        write_varint(out, ((step << 1) ^ (step >> 63)) as u64);
    }
}

/// One update of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    /// Content, ANNOUNCED, DELTA, REMOVED, VALUE.
    pub flags: u8,
    /// A subscription id, or a topic id if announced.
    pub id: u32,
    /// Its version.
    pub version: Version,
    /// The number of its message, where the subscription has NUMBERED.
    pub numbers: Option<Numbers>,
    /// Its properties, in the neutral form.
    pub properties: &'a [u8],
    /// The body, or a delta.
    pub data: &'a [u8],
}

impl<'a> Update<'a> {
    #[inline]
    fn read(from: &mut Reader<'a>, is_numbered: bool) -> Result<Update<'a>, CodecError> {
        let flags = from.flags(
            flag::CONTENT
                | flag::PROPERTIES
                | flag::ANNOUNCED
                | flag::FULL_VERSION
                | flag::DELTA
                | flag::REMOVED
                | flag::VALUE,
        )?;
        let id = from.number()?;
        let version = if flags & flag::FULL_VERSION == 0 {
            Version::Low(from.short()?)
        } else {
            Version::Full(from.varint()?)
        };
        let numbers = if is_numbered { Some(Numbers::read(from)?) } else { None };
        let properties = if flags & flag::PROPERTIES == 0 { b"" } else { from.bytes()? };
        let data = from.bytes()?;
        let flags = flags & !(flag::PROPERTIES | flag::FULL_VERSION);
        Ok(Update { flags, id, version, numbers, properties, data })
    }

    /// Appends it.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_head(self.data.len(), out);
        out.extend_from_slice(self.data);
    }

    /// Appends it up to its data, of which `len` bytes follow by other means.
    #[inline]
    pub fn write_head(&self, len: usize, out: &mut Vec<u8>) {
        let mut flags = self.flags;
        if !self.properties.is_empty() {
            flags |= flag::PROPERTIES;
        }
        match self.version {
            Version::Low(low) => {
                out.push(flags);
                write_varint(out, u64::from(self.id));
                out.extend_from_slice(&low.to_le_bytes());
            }
            Version::Full(version) => {
                out.push(flags | flag::FULL_VERSION);
                write_varint(out, u64::from(self.id));
                write_varint(out, version);
            }
        }
        if let Some(numbers) = self.numbers {
            numbers.write(out);
        }
        if !self.properties.is_empty() {
            write_bytes(out, self.properties);
        }
        write_varint(out, len as u64);
    }
}

/// The entries of an UPDATES message.
#[derive(Clone, Copy, Debug)]
pub struct Updates<'a> {
    from: Reader<'a>,
    are_numbered: bool,
}

impl<'a> Updates<'a> {
    /// Those in a payload, of subscriptions without NUMBERED.
    pub fn new(payload: &'a [u8]) -> Updates<'a> {
        Updates { from: Reader::new(payload), are_numbered: false }
    }

    /// Those in a payload, of subscriptions with NUMBERED.
    pub fn numbered(payload: &'a [u8]) -> Updates<'a> {
        Updates { from: Reader::new(payload), are_numbered: true }
    }
}

impl<'a> Iterator for Updates<'a> {
    type Item = Result<Update<'a>, CodecError>;

    /// After an error there is nothing more.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.from.is_empty() {
            return None;
        }
        let update = Update::read(&mut self.from, self.are_numbered);
        if update.is_err() {
            self.from.rest();
        }
        Some(update)
    }
}

/// One message of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedEntry<'a> {
    /// Content.
    pub flags: u8,
    /// Its properties, in the neutral form.
    pub properties: &'a [u8],
    /// Its body.
    pub body: &'a [u8],
}

impl<'a> QueuedEntry<'a> {
    fn read(from: &mut Reader<'a>) -> Result<QueuedEntry<'a>, CodecError> {
        let flags = from.flags(flag::CONTENT | flag::PROPERTIES)?;
        let properties = if flags & flag::PROPERTIES == 0 { b"" } else { from.bytes()? };
        Ok(QueuedEntry { flags: flags & flag::CONTENT, properties, body: from.bytes()? })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_head(self.body.len(), out);
        out.extend_from_slice(self.body);
    }

    /// Appends it up to its body, of which `len` bytes follow by other means.
    pub fn write_head(&self, len: usize, out: &mut Vec<u8>) {
        if self.properties.is_empty() {
            out.push(self.flags);
        } else {
            out.push(self.flags | flag::PROPERTIES);
            write_bytes(out, self.properties);
        }
        write_varint(out, len as u64);
    }
}

/// The entries of a QUEUED message.
#[derive(Clone, Copy, Debug)]
pub struct QueuedEntries<'a>(Reader<'a>);

impl<'a> QueuedEntries<'a> {
    /// Those in what follows the head of a payload.
    pub fn new(entries: &'a [u8]) -> QueuedEntries<'a> {
        QueuedEntries(Reader::new(entries))
    }
}

impl<'a> Iterator for QueuedEntries<'a> {
    type Item = Result<QueuedEntry<'a>, CodecError>;

    /// After an error there is nothing more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = QueuedEntry::read(&mut self.0);
        if entry.is_err() {
            self.0.rest();
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_versions_find_the_next_one_above_the_last() {
        for (last, version) in
            [(0, 1), (5, 6), (5, 70), (65_535, 65_536), (70_000, 131_000), (9, 65_545)]
        {
            assert_eq!(Version::Low(version as u16).after(last), version, "{last} {version}");
        }
        assert_eq!(Version::Full(3).after(9), 3);
    }
}
