//! One subscription of a session.
//!
//! Relies on values being kept as they are sent. Invariant: a subscription that acknowledges by
//! itself holds one allocation, with no more in it than what its client said.

use super::unacked::Unacked;
use crate::destination::Style;
use crate::header::append_value;
use crate::version::Version;

/// How a subscription's messages are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckMode {
    /// Not at all.
    Auto,
    /// Each message, with all before it.
    Client,
    /// Each message by itself.
    ClientIndividual,
}

/// One subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    /// Its id, an EOL and, with a single destination, that, as they are sent; without an id only
    /// the destination. If messages say their number, a NUL follows and the name of the header. There may be
    /// millions, so the lines are made of it when they are needed.
    text: Box<[u8]>,
    pub(super) mode: AckMode,
    /// Whether an acknowledgement allows another message.
    pub(super) has_credit: bool,
    /// Whether messages say their number in their destination.
    has_sequence: bool,
    /// The codec of its deltas; 0 for none.
    pub(super) codec: u8,
    /// Whether messages may be of several destinations, so that each says its own, in this style.
    pub(super) style: Option<Style>,
    /// Messages to be acknowledged.
    pub(super) unacked: Option<Box<Unacked>>,
}

const _: () = assert!(size_of::<Subscription>() <= 32, "there may be millions of idle ones");

/// How a subscription is named by its client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) text: &'a str,
    /// 1.0 without an id.
    pub(super) is_destination: bool,
}

impl Subscription {
    /// A subscription; `destination` is its spelling.
    pub(super) fn new(
        version: Version,
        name: Name<'_>,
        destination: &str,
        style: Option<Style>,
        mode: AckMode,
    ) -> Subscription {
        let mut text = Vec::with_capacity(name.text.len() + destination.len() + 1);
        if !name.is_destination {
            append_value(&mut text, version, name.text);
            text.push(b'\n');
        }
        if name.is_destination || style.is_none() {
            append_value(&mut text, version, destination);
        }
        Subscription {
            text: text.into(),
            mode,
            has_credit: false,
            has_sequence: false,
            codec: 0,
            style,
            unacked: None,
        }
    }

    /// Its messages say their number in a header of that name, which needs no escapes.
    pub(super) fn say_sequence(&mut self, name: &str) {
        self.text = [&self.text, &b"\0"[..], name.as_bytes()].concat().into();
        self.has_sequence = true;
    }

    /// The header in which they say it.
    pub(super) fn sequence(&self) -> Option<&[u8]> {
        if !self.has_sequence {
            return None;
        }
        let at = self.text.iter().rposition(|byte| *byte == 0)?;
        self.text.get(at + 1..)
    }

    /// What tells apart subscriptions whose messages begin with different lines.
    pub(super) fn variant(&self) -> &[u8] {
        &self.text
    }

    /// The lines its messages begin with.
    #[inline]
    pub(super) fn lines(&self) -> Vec<u8> {
        let (id, destination) = self.parts();
        let mut lines = Vec::with_capacity(self.text.len() + LABELS_BYTES);
        let mut line = |label: &[u8], value: &[u8]| {
            lines.extend_from_slice(label);
            lines.extend_from_slice(value);
            lines.push(b'\n');
        };
        if let Some(id) = id {
            line(b"subscription:", id);
        }
        if self.style.is_none() {
            line(b"destination:", destination);
        }
        lines
    }

    /// What the index knows it by.
    pub(super) fn name(&self) -> &[u8] {
        let (id, destination) = self.parts();
        id.unwrap_or(destination)
    }

    /// 1.0: the destination is its name.
    pub(super) fn is_nameless(&self) -> bool {
        self.parts().0.is_none()
    }

    /// The id and the destination.
    fn parts(&self) -> (Option<&[u8]>, &[u8]) {
        let text = self.text.split(|byte| *byte == 0).next().unwrap_or_default();
        let end = text.iter().position(|byte| *byte == b'\n');
        match end.and_then(|end| text.split_at_checked(end)) {
            Some((id, rest)) => (Some(id), rest.get(1..).unwrap_or_default()),
            None => (None, text),
        }
    }

    /// Whether a `subscription` header means it.
    pub(super) fn is_named(&self, version: Version, text: &str) -> bool {
        !self.is_nameless() && *self.name() == *spelled(version, text)
    }
}

/// A name as it is kept.
pub(super) fn spelled(version: Version, text: &str) -> Vec<u8> {
    let mut spelled = Vec::with_capacity(text.len());
    append_value(&mut spelled, version, text);
    spelled
}

/// Bytes of both lines but for their values.
const LABELS_BYTES: usize = b"subscription:\ndestination:\n".len();

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn id(text: &str) -> Name<'_> {
        Name { text, is_destination: false }
    }

    fn subscription(name: Name<'_>, style: Option<Style>) -> Subscription {
        Subscription::new(Version::V12, name, "/topic/a", style, AckMode::Auto)
    }

    #[test]
    fn messages_begin_with_what_the_subscriber_said() {
        let row = subscription(id("a:b"), None);
        assert_eq!(&*row.lines(), b"subscription:a\\cb\ndestination:/topic/a\n");
        assert!(row.is_named(Version::V12, "a:b"));
        let row = subscription(id("7"), Some(Style::Dots));
        assert_eq!(&*row.lines(), b"subscription:7\n");
        let nameless = Name { text: "/topic/a", is_destination: true };
        let row = Subscription::new(Version::V10, nameless, "/topic/a", None, AckMode::Auto);
        assert_eq!(&*row.lines(), b"destination:/topic/a\n");
        assert_eq!(row.name(), b"/topic/a");
        let row =
            Subscription::new(Version::V10, nameless, "/topic/a", Some(Style::Dots), AckMode::Auto);
        assert_eq!((&*row.lines(), row.name()), (&b""[..], &b"/topic/a"[..]));
        let row = Subscription::new(Version::V12, id(""), "/topic/a", None, AckMode::Auto);
        assert_eq!(&*row.lines(), b"subscription:\ndestination:/topic/a\n");
        assert!(row.is_named(Version::V12, "") && !row.is_nameless());
        assert_eq!(row.sequence(), None);
        for (name, version) in [(id("7"), Version::V12), (nameless, Version::V10)] {
            let new = || Subscription::new(version, name, "/topic/a", None, AckMode::Auto);
            let (plain, mut numbered) = (new(), new());
            numbered.say_sequence("seq");
            assert_eq!(numbered.sequence(), Some(&b"seq"[..]));
            assert_eq!((numbered.lines(), numbered.name()), (plain.lines(), plain.name()));
            assert_ne!(numbered.variant(), plain.variant(), "their messages differ");
        }
    }
}
