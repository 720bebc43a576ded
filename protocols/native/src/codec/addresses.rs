//! Where CLOSE tells a client to go: a count and so many texts, behind the fields that every client knows.
//!
//! Invariant: an empty list is not written at all, so such a message is as it was before there were lists.

use tiderace_wire::write_varint;

use super::{CodecError, Reader, write_bytes};

/// Addresses of servers, as they stand in a message or as they are given.
#[derive(Clone, Copy, Debug)]
pub enum AddressList<'a> {
    /// Their bytes, which have been checked: so many texts one after another.
    Read(usize, &'a [u8]),
    /// To be written, with commas between them.
    Given(&'a str),
}

impl<'a> AddressList<'a> {
    /// None.
    pub const EMPTY: AddressList<'static> = AddressList::Given("");

    /// The list at the end of a message, if there is one.
    pub(super) fn read(from: &mut Reader<'a>) -> Result<AddressList<'a>, CodecError> {
        if from.is_empty() {
            return Ok(AddressList::EMPTY);
        }
        let count: usize = from.number()?;
        let mut rest = *from;
        for _ in 0..count {
            from.text()?;
        }
        Ok(AddressList::Read(count, rest.rest()))
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let count = self.iter().count();
        if count > 0 {
            write_varint(out, count as u64);
            self.iter().for_each(|address| write_bytes(out, address.as_bytes()));
        }
    }

    /// Each of them, the best first.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> {
        let (count, bytes, given) = match *self {
            AddressList::Read(count, bytes) => (count, bytes, ""),
            AddressList::Given(given) => (0, &[][..], given),
        };
        let mut reader = Reader::new(bytes);
        let read = (0..count).map_while(move |_| reader.text().ok());
        read.chain(given.split(',').filter(|address| !address.is_empty()))
    }
}

impl PartialEq for AddressList<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for AddressList<'_> {}
