//! What a request says of itself, gathered from its metadata in one walk.
//!
//! Relies on the readers beside it. Invariants: nothing is copied; unknown entries are skipped; of
//! what makes sense once only the first is taken, as everybody does.

use super::{Authentication, Entries, MetadataError, Mime, Tags};

/// What a request says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Described<'a> {
    /// The first tag of the routing metadata.
    pub route: Option<&'a str>,
    /// All its tags ([`Tags`]).
    pub tags: Option<&'a [u8]>,
    /// Who asks.
    pub authentication: Option<Authentication<'a>>,
    /// What its data is, if it is not what SETUP said.
    pub data_mime: Option<Mime<'a>>,
    /// What its answers may be ([`super::MimeTypes`]).
    pub accepted: Option<&'a [u8]>,
    /// What it is part of ([`super::Tracing`]).
    pub tracing: Option<&'a [u8]>,
}

impl<'a> Described<'a> {
    /// Reads metadata of the type that SETUP said it has. Of a type that is not known, nothing is read.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn read(mime: Mime<'_>, metadata: &'a [u8]) -> Result<Described<'a>, MetadataError> {
        Described::read_with(mime, metadata, |_, _| {})
    }

    /// The same, and tells of each entry that is not one of those here.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn read_with(
        mime: Mime<'_>,
        metadata: &'a [u8],
        mut other: impl FnMut(Mime<'a>, &'a [u8]),
    ) -> Result<Described<'a>, MetadataError> {
        let mut described = Described::default();
        if mime != Mime::COMPOSITE {
            described.take(mime, metadata)?;
            return Ok(described);
        }
        for entry in Entries::new(metadata) {
            let entry = entry?;
            if !described.take(entry.mime, entry.bytes)? {
                other(entry.mime, entry.bytes);
            }
        }
        Ok(described)
    }

    /// Whether it was one of those here.
    fn take(&mut self, mime: Mime<'_>, bytes: &'a [u8]) -> Result<bool, MetadataError> {
        // One look at the table of names, whatever comes of it.
        let Some(id) = mime.id().map(Mime::Id) else { return Ok(false) };
        if id == Mime::ROUTING {
            if self.tags.is_none() {
                self.tags = Some(bytes);
                self.route = Tags::new(bytes).next().transpose()?;
            }
        } else if id == Mime::AUTHENTICATION {
            if self.authentication.is_none() {
                self.authentication = Some(Authentication::read(bytes)?);
            }
        } else if id == Mime::TYPE {
            let read = Mime::take(&mut &*bytes)?;
            self.data_mime.get_or_insert(read);
        } else if id == Mime::ACCEPTED {
            self.accepted.get_or_insert(bytes);
        } else if id == Mime::TRACING {
            self.tracing.get_or_insert(bytes);
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{write_entry, write_tag};
    use super::*;

    fn route(tags: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        tags.iter().for_each(|tag| write_tag(tag, &mut bytes));
        bytes
    }

    #[test]
    fn the_first_of_each_kind_is_taken_and_others_are_told() {
        let mut bytes = Vec::new();
        write_entry(Mime::Name("x/y"), b"one", &mut bytes);
        write_entry(Mime::ROUTING, &route(&["a/b", "eu"]), &mut bytes);
        write_entry(Mime::ROUTING, &route(&["c"]), &mut bytes);
        write_entry(Mime::TYPE, b"\x85", &mut bytes);
        write_entry(Mime::ACCEPTED, b"\x85\xa1", &mut bytes);
        write_entry(Mime::TRACING, b"\x20", &mut bytes);
        write_entry(Mime::AUTHENTICATION, b"\x81secret", &mut bytes);
        write_entry(Mime::Name("x/z"), b"two", &mut bytes);
        let mut others = Vec::new();
        let described =
            Described::read_with(Mime::COMPOSITE, &bytes, |mime, bytes| others.push((mime, bytes)));
        let expected = Described {
            route: Some("a/b"),
            tags: Some(b"\x03a/b\x02eu"),
            authentication: Some(Authentication::Bearer("secret")),
            data_mime: Some(Mime::JSON),
            accepted: Some(b"\x85\xa1"),
            tracing: Some(b"\x20"),
        };
        assert_eq!(described, Ok(expected));
        assert_eq!(others, [(Mime::Name("x/y"), &b"one"[..]), (Mime::Name("x/z"), b"two")]);
    }

    #[test]
    fn metadata_may_be_of_one_type_alone() {
        let bytes = route(&["a"]);
        let described = Described::read(Mime::Name("message/x.rsocket.routing.v0"), &bytes);
        assert_eq!(described.unwrap().route, Some("a"));
        let unknown = Described::read(Mime::JSON, b"{}");
        assert_eq!(unknown, Ok(Described::default()));
    }

    #[test]
    fn malformed_metadata_is_refused() {
        for bytes in [&b"\xfe\0\0\x05\x01a"[..], b"\xfe\0\0\x02\x02a", b"\xfa\0\0\0", b"\xfe"] {
            assert!(Described::read(Mime::COMPOSITE, bytes).is_err(), "{bytes:?}");
        }
    }
}
