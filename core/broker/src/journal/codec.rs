//! The bytes in which a topic's description and messages lie in the store.
//!
//! All numbers are little-endian. The store verifies the bytes by checksums; reading checks them
//! all the same. Invariants: what was written is read back; reading never panics and takes no more
//! memory than the bytes given.

use std::sync::Arc;

use bytes::Bytes;
use tiderace_base::{ShardId, Time};
use tiderace_wire::{Destination, Flags, Meta, Run, RunBuilder};

/// The form of descriptions; another one is not understood.
const FORM: u8 = 1;
/// The form in which messages are written; those of [`FORM`] are read as well.
const MESSAGES_FORM: u8 = 2;
const HAS_AUTHOR: u8 = 1;
const HAS_AMENDS: u8 = 2;
const IS_VALUE_ALONE: u8 = 4;
const HAS_FOLLOWS: u8 = 8;
/// The body of the only message lies in a file, and is given beside these bytes.
const BODY_APART: u8 = 16;

/// What is known of a topic beside its path and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Description<'a> {
    /// It was created, and is not only what the configuration says of its path.
    pub(crate) created: bool,
    /// When it was made, in milliseconds since 1970.
    pub(crate) made_ms: u64,
    /// Its specification as JSON.
    pub(crate) spec: &'a [u8],
}

/// What is kept of messages beside themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Circumstances {
    pub(crate) time_ms: u64,
    pub(crate) author: Option<Arc<str>>,
    pub(crate) amends: Option<u64>,
    /// It is the topic's value, and not among what the topic keeps besides.
    pub(crate) is_value_alone: bool,
    /// The version that the first of them follows, if that is not one less.
    pub(crate) follows: Option<u64>,
}

impl Description<'_> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(10 + self.spec.len());
        out.extend_from_slice(&[FORM, u8::from(self.created)]);
        out.extend_from_slice(&self.made_ms.to_le_bytes());
        out.extend_from_slice(self.spec);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Description<'_>> {
        let mut fields = Fields(bytes);
        if fields.byte()? != FORM {
            return None;
        }
        let created = fields.byte()? != 0;
        Some(Description { created, made_ms: fields.long()?, spec: fields.0 })
    }
}

/// Writes a run, with the number that its home gave the first message.
pub(super) fn encode(run: &Run, about: &Circumstances) -> Vec<u8> {
    let author = about.author.as_deref().unwrap_or_default();
    let author = author.get(..author.len().min(usize::from(u16::MAX))).unwrap_or_default();
    let mut out = Vec::with_capacity(32 + author.len() + run.len() * 16 + run.bytes());
    let marks = if about.author.is_some() { HAS_AUTHOR } else { 0 }
        | if about.amends.is_some() { HAS_AMENDS } else { 0 }
        | if about.is_value_alone { IS_VALUE_ALONE } else { 0 }
        | if about.follows.is_some() { HAS_FOLLOWS } else { 0 }
        | if run.body_in_file().is_some() { BODY_APART } else { 0 };
    out.extend_from_slice(&[MESSAGES_FORM, marks]);
    out.extend_from_slice(&about.time_ms.to_le_bytes());
    out.extend_from_slice(&run.first().to_le_bytes());
    if about.author.is_some() {
        out.extend_from_slice(&(author.len() as u16).to_le_bytes());
        out.extend_from_slice(author.as_bytes());
    }
    if let Some(amends) = about.amends {
        out.extend_from_slice(&amends.to_le_bytes());
    }
    if let Some(follows) = about.follows {
        out.extend_from_slice(&follows.to_le_bytes());
    }
    for message in run.messages() {
        out.extend_from_slice(&message.flags.bits().to_le_bytes());
        out.extend_from_slice(&(message.properties.len() as u32).to_le_bytes());
        out.extend_from_slice(&(message.body.len() as u32).to_le_bytes());
        if let Some(expires) = message.expires_ms {
            out.extend_from_slice(&expires.to_le_bytes());
        }
        out.extend_from_slice(message.properties);
        if run.body_in_file().is_none() {
            out.extend_from_slice(message.body);
        }
    }
    out
}

/// Reads a run, with its body if that was written apart. Its first message has the number that its home gave it, or zero if that was not
/// written; the home is still to be said.
pub(super) fn decode(
    (bytes, apart): (&[u8], Option<&Bytes>),
    destination: Destination,
    now: Time,
) -> Option<(Run, Circumstances)> {
    let mut fields = Fields(bytes);
    let form = fields.byte()?;
    if !(FORM..=MESSAGES_FORM).contains(&form) {
        return None;
    }
    let marks = fields.byte()?;
    let time_ms = fields.long()?;
    let number = if form == MESSAGES_FORM { fields.long()? } else { 0 };
    let author = match marks & HAS_AUTHOR {
        0 => None,
        _ => {
            let length = u16::from_le_bytes(*fields.array()?);
            Some(std::str::from_utf8(fields.take(usize::from(length))?).ok()?.into())
        }
    };
    let amends = if marks & HAS_AMENDS == 0 { None } else { Some(fields.long()?) };
    let follows = if marks & HAS_FOLLOWS == 0 { None } else { Some(fields.long()?) };
    let mut builder = RunBuilder::new(destination, now);
    while !fields.0.is_empty() {
        let flags = Flags::from_bits(u16::from_le_bytes(*fields.array()?));
        let properties = u32::from_le_bytes(*fields.array()?) as usize;
        let body = u32::from_le_bytes(*fields.array()?) as usize;
        let expires_ms = match flags.contains(Flags::EXPIRES) {
            true => Some(fields.long()?),
            false => None,
        };
        builder.properties().extend_from_slice(fields.take(properties)?);
        let meta = Meta { flags, expires_ms };
        if marks & BODY_APART == 0 {
            builder.finish(fields.take(body)?, meta);
            continue;
        }
        // It is a run of its own.
        let apart = apart.filter(|it| it.len() == body && fields.0.is_empty())?;
        if !builder.is_empty() {
            return None;
        }
        builder.finish_in_file(apart.clone(), meta);
    }
    if builder.is_empty() {
        return None;
    }
    let is_value_alone = marks & IS_VALUE_ALONE != 0;
    let mut run = builder.build();
    run.number(ShardId::default(), number);
    Some((run, Circumstances { time_ms, author, amends, is_value_alone, follows }))
}

/// What is left to read.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| *byte)
    }

    pub(super) fn long(&mut self) -> Option<u64> {
        self.array().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;
    use tiderace_topics::Path;
    use tiderace_wire::{Kind, properties};

    fn somewhere() -> Destination {
        Destination { kind: Kind::Topic, path: Path::parse("a/b").unwrap() }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_and_cuts_are_noticed(
            rows in proptest::collection::vec(
                (".{0,20}", proptest::collection::vec(any::<u8>(), 0..50), any::<Option<u64>>(), any::<bool>()), 1..12),
            time_ms: u64,
            author in proptest::option::of(".{0,20}"),
            amends: Option<u64>,
            follows: Option<u64>,
            number in 0u64..u64::MAX / 2,
            cut in 1usize..400,
        ) {
            let mut builder = RunBuilder::new(somewhere(), Time::ZERO);
            for (text, body, expires_ms, retain) in &rows {
                properties::append(builder.properties(), "k", text);
                let flags = if *retain { Flags::RETAIN } else { Flags::NONE };
                builder.finish(body, Meta { flags, expires_ms: *expires_ms });
            }
            let mut run = builder.build();
            run.number(ShardId(3), number);
            let author = author.map(|name| name.as_str().into());
            let is_value_alone = cut % 2 == 0;
            let about = Circumstances { time_ms, author, amends, is_value_alone, follows };
            let bytes = encode(&run, &about);
            let (read, read_about) = decode((&bytes, None), somewhere(), Time::ZERO).unwrap();
            prop_assert_eq!(read_about, about);
            prop_assert_eq!(read.first(), number);
            prop_assert_eq!(read.len(), run.len());
            for (left, right) in read.messages().zip(run.messages()) {
                prop_assert_eq!(left.properties, right.properties);
                prop_assert_eq!(left.body, right.body);
                prop_assert_eq!(left.flags, right.flags);
                prop_assert_eq!(left.expires_ms, right.expires_ms);
            }
            let short = bytes.len().saturating_sub(cut);
            if let Some((read, _)) = decode((&bytes[..short], None), somewhere(), Time::ZERO) {
                prop_assert!(read.len() < run.len(), "only whole messages may be left out");
            }
        }

        #[test]
        fn a_body_in_a_file_is_written_apart(
            body in proptest::collection::vec(any::<u8>(), 0..50), expires_ms: Option<u64>, text in ".{0,20}",
        ) {
            let body = Bytes::from(body);
            let mut builder = RunBuilder::new(somewhere(), Time::ZERO);
            properties::append(builder.properties(), "k", &text);
            let (flags, author, amends, follows) = (Flags::RETAIN, None, None, Some(4));
            builder.finish_in_file(body.clone(), Meta { flags, expires_ms });
            let run = builder.build();
            let about = Circumstances { time_ms: 7, author, amends, is_value_alone: true, follows };
            let bytes = encode(&run, &about);
            let (read, read_about) = decode((&bytes, Some(&body)), somewhere(), Time::ZERO).unwrap();
            prop_assert_eq!(read_about, about);
            prop_assert_eq!(read.body_in_file(), Some(&body));
            let (left, right) = (read.message(0).unwrap(), run.message(0).unwrap());
            prop_assert_eq!((left.properties, left.expires_ms), (right.properties, right.expires_ms));
            prop_assert!(decode((&bytes, None), somewhere(), Time::ZERO).is_none());
            let longer = Bytes::from([&body[..], b"x"].concat());
            prop_assert!(decode((&bytes, Some(&longer)), somewhere(), Time::ZERO).is_none());
        }

        #[test]
        fn anything_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let apart = Bytes::from_static(b"body");
            for form in [FORM, MESSAGES_FORM] {
                let formed = [&[form], &bytes[..]].concat();
                if let Some((run, about)) = decode((&formed, Some(&apart)), somewhere(), Time::ZERO) {
                    prop_assert!(form == MESSAGES_FORM || run.first() == 0);
                    let again = encode(&run, &about);
                    prop_assert_eq!(decode((&again, Some(&apart)), somewhere(), Time::ZERO).unwrap().1, about);
                }
            }
            let formed = [&[FORM], &bytes[..]].concat();
            if let Some(description) = Description::decode(&formed) {
                let again = description.encode();
                prop_assert_eq!(Description::decode(&again), Some(description));
            }
        }
    }
}
