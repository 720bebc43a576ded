//! MIME types: the numbers that stand for well-known ones, and the others by name.
//!
//! Relies on slices. Invariant: a type that has a number and a name is equal to itself, whichever of
//! them it came by.

use super::MetadataError;

/// A MIME type as it stands in metadata.
#[derive(Clone, Copy, Debug)]
pub enum Mime<'a> {
    /// By its number, of 7 bits; not all of them have a meaning.
    Id(u8),
    /// By name: ASCII, 1 to 128 bytes.
    Name(&'a str),
}

macro_rules! well_known {
    ($($id:literal $text:literal;)+) => {
        /// The well-known types: number and name, in order.
        pub const WELL_KNOWN: &[(u8, &str)] = &[$(($id, $text)),+];
    };
}

well_known! {
    0x00 "application/avro";
    0x01 "application/cbor";
    0x02 "application/graphql";
    0x03 "application/gzip";
    0x04 "application/javascript";
    0x05 "application/json";
    0x06 "application/octet-stream";
    0x07 "application/pdf";
    0x08 "application/vnd.apache.thrift.binary";
    0x09 "application/vnd.google.protobuf";
    0x0a "application/xml";
    0x0b "application/zip";
    0x0c "audio/aac";
    0x0d "audio/mp3";
    0x0e "audio/mp4";
    0x0f "audio/mpeg3";
    0x10 "audio/mpeg";
    0x11 "audio/ogg";
    0x12 "audio/opus";
    0x13 "audio/vorbis";
    0x14 "image/bmp";
    0x15 "image/gif";
    0x16 "image/heic-sequence";
    0x17 "image/heic";
    0x18 "image/heif-sequence";
    0x19 "image/heif";
    0x1a "image/jpeg";
    0x1b "image/png";
    0x1c "image/tiff";
    0x1d "multipart/mixed";
    0x1e "text/css";
    0x1f "text/csv";
    0x20 "text/html";
    0x21 "text/plain";
    0x22 "text/xml";
    0x23 "video/H264";
    0x24 "video/H265";
    0x25 "video/VP8";
    0x26 "application/x-hessian";
    0x27 "application/x-java-object";
    0x28 "application/cloudevents+json";
    0x29 "application/x-capnp";
    0x2a "application/x-flatbuffers";
    0x7a "message/x.rsocket.mime-type.v0";
    0x7b "message/x.rsocket.accept-mime-types.v0";
    0x7c "message/x.rsocket.authentication.v0";
    0x7d "message/x.rsocket.tracing-zipkin.v0";
    0x7e "message/x.rsocket.routing.v0";
    0x7f "message/x.rsocket.composite-metadata.v0";
}

/// The types that have a meaning here.
impl Mime<'static> {
    /// JSON.
    pub const JSON: Mime<'static> = Mime::Id(0x05);
    /// Any bytes.
    pub const OCTETS: Mime<'static> = Mime::Id(0x06);
    /// UTF-8.
    pub const TEXT: Mime<'static> = Mime::Id(0x21);
    /// What this stream's data is.
    pub const TYPE: Mime<'static> = Mime::Id(0x7a);
    /// What this stream's answers may be.
    pub const ACCEPTED: Mime<'static> = Mime::Id(0x7b);
    /// Who asks.
    pub const AUTHENTICATION: Mime<'static> = Mime::Id(0x7c);
    /// What the request is part of.
    pub const TRACING: Mime<'static> = Mime::Id(0x7d);
    /// Whom the request is for.
    pub const ROUTING: Mime<'static> = Mime::Id(0x7e);
    /// Several of these.
    pub const COMPOSITE: Mime<'static> = Mime::Id(0x7f);
}

impl<'a> Mime<'a> {
    /// The type of this name.
    pub fn named(name: &'a str) -> Mime<'a> {
        WELL_KNOWN
            .iter()
            .find(|(_, known)| known.eq_ignore_ascii_case(name))
            .map_or(Mime::Name(name), |(id, _)| Mime::Id(*id))
    }

    /// Its name; none if nobody gave its number a meaning.
    pub fn name(self) -> Option<&'a str> {
        match self {
            Mime::Name(name) => Some(name),
            Mime::Id(id) => WELL_KNOWN.iter().find(|row| row.0 == id).map(|row| row.1),
        }
    }

    /// Its number, if it has one.
    pub fn id(self) -> Option<u8> {
        match self {
            Mime::Id(id) => Some(id),
            Mime::Name(name) => match Mime::named(name) {
                Mime::Id(id) => Some(id),
                Mime::Name(_) => None,
            },
        }
    }

    /// Takes one from the front of these bytes.
    pub(super) fn take(bytes: &mut &'a [u8]) -> Result<Mime<'a>, MetadataError> {
        let (first, rest) = bytes.split_first().ok_or(MetadataError::Cut("a MIME type"))?;
        if first & 0x80 != 0 {
            *bytes = rest;
            return Ok(Mime::Id(first & 0x7f));
        }
        // One less is said than there are, since none is empty: all implementations do so.
        let len = usize::from(*first) + 1;
        let (name, rest) = rest.split_at_checked(len).ok_or(MetadataError::Cut("a MIME type"))?;
        *bytes = rest;
        ascii(name).map(Mime::Name)
    }

    /// Appends it, by its number if it has one.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Mime::Id(id) => out.push(id | 0x80),
            Mime::Name(name) => match Mime::named(name) {
                Mime::Id(id) => out.push(id | 0x80),
                Mime::Name(name) => write_name(name, out),
            },
        }
    }
}

impl PartialEq for Mime<'_> {
    fn eq(&self, other: &Mime<'_>) -> bool {
        match (self.id(), other.id(), self, other) {
            (None, None, Mime::Name(one), Mime::Name(two)) => one.eq_ignore_ascii_case(two),
            (one, two, ..) => one == two,
        }
    }
}

impl Eq for Mime<'_> {}

/// Appends a name behind its length less one.
pub(super) fn write_name(name: &str, out: &mut Vec<u8>) {
    let len = name.len();
    assert!((1..=128).contains(&len), "a name in metadata has 1 to 128 bytes, not {len}");
    out.push((len - 1) as u8);
    out.extend_from_slice(name.as_bytes());
}

/// Bytes as ASCII text.
pub(super) fn ascii(bytes: &[u8]) -> Result<&str, MetadataError> {
    let text = std::str::from_utf8(bytes).map_err(|_| MetadataError::BadMime)?;
    if text.is_ascii() { Ok(text) } else { Err(MetadataError::BadMime) }
}

/// MIME types one after the other: what a stream's answers may be.
#[derive(Clone, Copy, Debug)]
pub struct MimeTypes<'a>(&'a [u8]);

impl<'a> MimeTypes<'a> {
    /// Those in a stretch of metadata.
    pub fn new(bytes: &'a [u8]) -> MimeTypes<'a> {
        MimeTypes(bytes)
    }
}

impl<'a> Iterator for MimeTypes<'a> {
    type Item = Result<Mime<'a>, MetadataError>;

    /// After an error there is nothing more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mime = Mime::take(&mut self.0);
        if mime.is_err() {
            self.0 = &[];
        }
        Some(mime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_the_same_types() {
        for (id, name) in WELL_KNOWN {
            assert_eq!(Mime::Id(*id), Mime::Name(name));
            assert_eq!(Mime::Name(name).id(), Some(*id));
            assert_eq!(Mime::Id(*id).name(), Some(*name));
        }
        assert_ne!(Mime::Name("a/b"), Mime::Name("a/c"));
        assert_eq!(Mime::Name("a/b"), Mime::Name("A/B"));
        assert_ne!(Mime::Name("a/b"), Mime::JSON);
        assert_eq!(Mime::Id(0x50).name(), None);
        assert_eq!(Mime::Id(0x50), Mime::Id(0x50));
        assert!(WELL_KNOWN.is_sorted());
    }

    #[test]
    fn types_are_read_as_they_were_written() {
        let long = "x".repeat(128);
        let types = [Mime::JSON, Mime::Name("a"), Mime::Name(&long), Mime::COMPOSITE];
        let mut bytes = Vec::new();
        types.iter().for_each(|mime| mime.write(&mut bytes));
        assert_eq!(bytes[..3], [0x85, 0, b'a']);
        assert_eq!(bytes[3], 127, "128 bytes are said by 127");
        let read: Result<Vec<_>, _> = MimeTypes::new(&bytes).collect();
        assert_eq!(read.unwrap(), types);
    }

    #[test]
    fn what_is_no_type_ends_the_list() {
        let read: Vec<_> = MimeTypes::new(b"\x85\x05ab").collect();
        assert_eq!(read, [Ok(Mime::JSON), Err(MetadataError::Cut("a MIME type"))]);
        let read: Vec<_> = MimeTypes::new(b"\x01\xc3\xa4\x85").collect();
        assert_eq!(read, [Err(MetadataError::BadMime)]);
    }
}
