//! The rules of RSocket's extensions for metadata, one test each. Above each test stands the page of
//! <https://github.com/rsocket/rsocket/tree/master/Extensions> and what it demands, in our words.
#![allow(clippy::unwrap_used)]

use tiderace_rsocket::metadata::{
    Authentication, Described, Entries, Entry, MetadataError, Mime, MimeTypes, Tags, Tracing,
    WELL_KNOWN, write_entry, write_tag,
};

fn entries(bytes: &[u8]) -> Result<Vec<Entry<'_>>, MetadataError> {
    Entries::new(bytes).collect()
}

// CompositeMetadata.md: a number of 7 bits behind a set bit, 24 bits of length, the payload.
#[test]
fn an_entry_of_a_well_known_type_begins_with_its_number() {
    let mut bytes = Vec::new();
    write_entry(Mime::ROUTING, b"abc", &mut bytes);
    assert_eq!(bytes, b"\xfe\0\0\x03abc");
    assert_eq!(entries(&bytes), Ok(vec![Entry { mime: Mime::ROUTING, bytes: b"abc" }]));
}

// CompositeMetadata.md: otherwise the type's name behind its length; rsocket-java, -js and -py say one
// less than it has.
#[test]
fn an_entry_of_another_type_begins_with_its_name() {
    let mut bytes = Vec::new();
    write_entry(Mime::Name("x/abc"), b"!", &mut bytes);
    assert_eq!(bytes, b"\x04x/abc\0\0\x01!");
    assert_eq!(entries(&bytes), Ok(vec![Entry { mime: Mime::Name("x/abc"), bytes: b"!" }]));
}

// CompositeMetadata.md: a reader that does not know a type skips its entry.
#[test]
fn entries_of_unknown_types_are_skipped() {
    let mut bytes = Vec::new();
    write_entry(Mime::Id(0x70), b"?", &mut bytes);
    write_entry(Mime::Name("x/y"), b"?", &mut bytes);
    write_entry(Mime::ROUTING, b"\x01a", &mut bytes);
    assert_eq!(Described::read(Mime::COMPOSITE, &bytes).unwrap().route, Some("a"));
}

// CompositeMetadata.md: several entries of a type are allowed, and their order is kept.
#[test]
fn the_order_of_entries_is_kept() {
    let mut bytes = Vec::new();
    for text in ["one", "two", "three"] {
        write_entry(Mime::TEXT, text.as_bytes(), &mut bytes);
    }
    let texts: Vec<_> = Entries::new(&bytes).map(|entry| entry.unwrap().bytes).collect();
    assert_eq!(texts, [&b"one"[..], b"two", b"three"]);
}

// WellKnownMimeTypes.md: the table.
#[test]
fn well_known_types_have_their_numbers() {
    for (id, name) in [
        (0x00, "application/avro"),
        (0x05, "application/json"),
        (0x21, "text/plain"),
        (0x2a, "application/x-flatbuffers"),
        (0x7a, "message/x.rsocket.mime-type.v0"),
        (0x7b, "message/x.rsocket.accept-mime-types.v0"),
        (0x7c, "message/x.rsocket.authentication.v0"),
        (0x7d, "message/x.rsocket.tracing-zipkin.v0"),
        (0x7e, "message/x.rsocket.routing.v0"),
        (0x7f, "message/x.rsocket.composite-metadata.v0"),
    ] {
        assert_eq!(Mime::named(name).id(), Some(id));
    }
    assert_eq!(WELL_KNOWN.len(), 0x2b + 6);
}

// Routing.md: tags of 8 bits of length and UTF-8.
#[test]
fn a_route_is_tags_behind_their_lengths() {
    let mut bytes = Vec::new();
    write_tag("person.1", &mut bytes);
    write_tag("ä", &mut bytes);
    assert_eq!(bytes, b"\x08person.1\x02\xc3\xa4");
    let tags: Result<Vec<_>, _> = Tags::new(&bytes).collect();
    assert_eq!(tags, Ok(vec!["person.1", "ä"]));
    let long = "t".repeat(255);
    bytes.clear();
    write_tag(&long, &mut bytes);
    assert_eq!(Tags::new(&bytes).next(), Some(Ok(&long[..])));
}

// Security/Authentication.md, Simple.md, WellKnownAuthTypes.md: 0x00 is a user of 16 bits of length
// and the password behind it.
#[test]
fn simple_authentication_is_user_and_password() {
    let expected = Authentication::Simple { user: "ann", password: "sesame" };
    assert_eq!(Authentication::read(b"\x80\0\x03annsesame"), Ok(expected));
    let long = "u".repeat(300);
    let expected = Authentication::Simple { user: &long, password: "" };
    let bytes = [b"\x80\x01\x2c", long.as_bytes()].concat();
    assert_eq!(Authentication::read(&bytes), Ok(expected));
}

// Security/Bearer.md, WellKnownAuthTypes.md: 0x01 is a token.
#[test]
fn bearer_authentication_is_a_token() {
    assert_eq!(Authentication::read(b"\x81abc"), Ok(Authentication::Bearer("abc")));
}

// Security/Authentication.md: other types have a name behind its length.
#[test]
fn authentication_of_other_types_has_a_name() {
    let named = Authentication::read(b"\x02ntlxyz");
    assert_eq!(named, Ok(Authentication::Named("ntl", b"xyz")));
}

// PerStreamDataMimeTypesDefinition.md: what the data of a stream is, and what its answers may be.
#[test]
fn streams_may_have_types_of_their_own() {
    let mut bytes = Vec::new();
    write_entry(Mime::TYPE, b"\x85", &mut bytes);
    write_entry(Mime::ACCEPTED, b"\xa1\x02x/y", &mut bytes);
    let described = Described::read(Mime::COMPOSITE, &bytes).unwrap();
    assert_eq!(described.data_mime, Some(Mime::JSON));
    let accepted: Vec<_> =
        MimeTypes::new(described.accepted.unwrap()).map(Result::unwrap).collect();
    assert_eq!(accepted, [Mime::TEXT, Mime::Name("x/y")]);
}

// Tracing-Zipkin.md: flags, then ids of the lengths that they say.
#[test]
fn tracing_has_the_ids_that_its_flags_say() {
    let short = [&b"\xa0"[..], &1u64.to_be_bytes(), &2u64.to_be_bytes()].concat();
    let read = Tracing::read(&short).unwrap();
    assert_eq!(read.to_b3(), "0000000000000001-0000000000000002-1");
    let long = [&b"\xcc"[..], &1u128.to_be_bytes(), &2u64.to_be_bytes(), &3u64.to_be_bytes()];
    let read = Tracing::read(&long.concat()).unwrap();
    let text = "00000000000000000000000000000001-0000000000000002-d-0000000000000003";
    assert_eq!(read.to_b3(), text);
    assert_eq!(Tracing::read(b"\x10").unwrap().to_b3(), "0", "ids need not be there");
}
