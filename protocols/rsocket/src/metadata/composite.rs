//! Composite metadata: entries of different types, one after the other.
//!
//! Relies on [`Mime`]. Invariants: the order is kept; an entry of an unknown type is an entry like all.

use super::{MetadataError, Mime};

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it is.
    pub mime: Mime<'a>,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// The entries of composite metadata.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a>(&'a [u8]);

impl<'a> Entries<'a> {
    /// Those in a frame's metadata.
    pub fn new(metadata: &'a [u8]) -> Entries<'a> {
        Entries(metadata)
    }

    fn take(&mut self) -> Result<Entry<'a>, MetadataError> {
        let mime = Mime::take(&mut self.0)?;
        let cut = MetadataError::Cut("an entry");
        let ([a, b, c], rest) = self.0.split_first_chunk::<3>().ok_or(cut)?;
        let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let (bytes, rest) = rest.split_at_checked(len).ok_or(cut)?;
        self.0 = rest;
        Ok(Entry { mime, bytes })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, MetadataError>;

    /// After an error there is nothing more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.take();
        if entry.is_err() {
            self.0 = &[];
        }
        Some(entry)
    }
}

/// Appends an entry.
pub fn write_entry(mime: Mime<'_>, bytes: &[u8], out: &mut Vec<u8>) {
    let len = bytes.len();
    assert!(len <= 0xff_ffff, "an entry of metadata has at most 16,777,215 bytes, not {len}");
    mime.write(out);
    let [_, a, b, c] = (len as u32).to_be_bytes();
    out.extend_from_slice(&[a, b, c]);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unknown_entries_are_in_their_places() {
        let mut bytes = Vec::new();
        write_entry(Mime::ROUTING, b"\x01a", &mut bytes);
        write_entry(Mime::Id(0x60), b"?", &mut bytes);
        write_entry(Mime::Name("x/y"), b"", &mut bytes);
        let read: Vec<_> = Entries::new(&bytes).map(Result::unwrap).collect();
        let expected = [
            Entry { mime: Mime::ROUTING, bytes: b"\x01a" },
            Entry { mime: Mime::Id(0x60), bytes: b"?" },
            Entry { mime: Mime::Name("x/y"), bytes: b"" },
        ];
        assert_eq!(read, expected);
    }

    proptest! {
        #[test]
        fn whatever_is_cut_off_says_so(
            entries in proptest::collection::vec(("[a-z/]{1,128}", proptest::collection::vec(any::<u8>(), 0..50)), 1..5),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut bytes = Vec::new();
            let mut ends = vec![0];
            for (name, content) in &entries {
                write_entry(Mime::Name(name), content, &mut bytes);
                ends.push(bytes.len());
            }
            let whole: Vec<_> = Entries::new(&bytes).map(Result::unwrap).collect();
            prop_assert_eq!(whole.len(), entries.len());
            for (entry, (name, content)) in whole.iter().zip(&entries) {
                prop_assert_eq!(entry.mime, Mime::Name(name));
                prop_assert_eq!(entry.bytes, content);
            }
            let cut = cut.index(bytes.len());
            let complete = Entries::new(&bytes[..cut]).all(|entry| entry.is_ok());
            prop_assert_eq!(complete, ends.contains(&cut));
        }
    }
}
