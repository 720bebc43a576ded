//! Routing metadata: tags, of which the first is the route.
//!
//! Relies on slices. Invariant: a tag is UTF-8 of at most 255 bytes.

use super::MetadataError;

/// The tags of routing metadata.
#[derive(Clone, Copy, Debug)]
pub struct Tags<'a>(&'a [u8]);

impl<'a> Tags<'a> {
    /// Those in a stretch of metadata.
    pub fn new(bytes: &'a [u8]) -> Tags<'a> {
        Tags(bytes)
    }

    fn take(&mut self) -> Result<&'a str, MetadataError> {
        let cut = MetadataError::Cut("a tag");
        let (len, rest) = self.0.split_first().ok_or(cut)?;
        let (tag, rest) = rest.split_at_checked(usize::from(*len)).ok_or(cut)?;
        self.0 = rest;
        simdutf8::basic::from_utf8(tag).map_err(|_| MetadataError::BadText("a tag"))
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = Result<&'a str, MetadataError>;

    /// After an error there is nothing more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let tag = self.take();
        if tag.is_err() {
            self.0 = &[];
        }
        Some(tag)
    }
}

/// Appends a tag.
pub fn write_tag(tag: &str, out: &mut Vec<u8>) {
    let len = tag.len();
    assert!(len <= 255, "a tag has at most 255 bytes, not {len}");
    out.push(len as u8);
    out.extend_from_slice(tag.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_as_they_were_written() {
        let long = "ä".repeat(127);
        let mut bytes = Vec::new();
        for tag in ["prices/eur", "", &long] {
            write_tag(tag, &mut bytes);
        }
        let read: Vec<_> = Tags::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(read, ["prices/eur", "", &long]);
    }

    #[test]
    fn what_is_no_tag_ends_the_list() {
        let read: Vec<_> = Tags::new(b"\x01a\x03bc").collect();
        assert_eq!(read, [Ok("a"), Err(MetadataError::Cut("a tag"))]);
        let read: Vec<_> = Tags::new(b"\x01\xff\x01a").collect();
        assert_eq!(read, [Err(MetadataError::BadText("a tag"))]);
    }
}
