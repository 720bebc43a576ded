//! STOMP's spelling of destinations, and back.
//!
//! | spelling | destination |
//! |---|---|
//! | `/topic/fx.EUR`, `/topic/fx/EUR` | topic `fx/EUR` |
//! | `/queue/a%2Eb` | queue `a.b` (one level with a dot in it) |
//! | `/queue/a%2Cb`, `/queue/100%25` | queue `a,b`, queue `100%` |
//! | `/dsub/audit` | queue `dsub/audit`, of a durable subscription |
//! | `/temp-queue/x`, `/temp-topic/x` | queue or topic `temp/<session>/x` |
//!
//! Levels are separated by `/` or `.`; a comma separates the parts of a composite destination.
//! `%2E`, `%2C` and `%25` stand for a dot, a comma and a percent sign inside a level; any other
//! percent sign stands for itself. Separators at the end are dropped, as Apollo does: `/queue/a.` is
//! `/queue/a`. Relies on `tiderace-topics`. Invariant: what
//! [`spell_destination`] writes, [`parse_destination`] reads as the same destination.

use std::borrow::Cow;

use tiderace_topics::{Path, PathError, Pattern};
use tiderace_wire::{DURABLE, Destination, Kind, Target, TemporaryName, is_durable};

use crate::limits::COMPOSITE_MAX;

/// Why a text names no destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// It begins with none of the known prefixes.
    #[error(
        "the destination begins with no known prefix. \
         Use /topic/, /queue/, /dsub/, /temp-topic/ or /temp-queue/."
    )]
    UnknownPrefix,
    /// The name behind the prefix is not acceptable.
    #[error("the destination is not acceptable: {0}.")]
    Name(#[from] PathError),
    /// More parts than one composite destination may have.
    #[error("the composite destination has more than {COMPOSITE_MAX} parts.")]
    TooManyParts,
}

/// How levels are separated when a destination is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// By `.`
    Dots,
    /// By `/`
    Slashes,
}

/// Parses one destination to send to; `session` is the name of the session's temporary
/// destinations.
///
/// # Errors
/// Says what is wrong with the text.
pub fn parse_destination(
    text: &str,
    session: &TemporaryName,
) -> Result<Destination, DestinationError> {
    let (kind, name) = canonical(text, session)?;
    Ok(Destination { kind, path: Path::parse(&name)? })
}

/// Parses the comma-separated destinations of a SEND; each is named once.
pub(crate) fn parse_destinations(
    text: &str,
    session: &TemporaryName,
) -> Result<Vec<Destination>, DestinationError> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let destination = parse_destination(part, session)?;
        if list.contains(&destination) {
            continue;
        }
        if list.len() == COMPOSITE_MAX {
            return Err(DestinationError::TooManyParts);
        }
        list.push(destination);
    }
    Ok(list)
}

/// Parses the comma-separated destinations and patterns of a SUBSCRIBE.
pub(crate) fn parse_targets(
    text: &str,
    session: &TemporaryName,
) -> Result<Vec<Target>, DestinationError> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let (kind, name) = canonical(part, session)?;
        let pattern = Pattern::parse(&name)?;
        let target = match pattern.as_path() {
            Some(path) => Target::Exact(Destination { kind, path }),
            None => Target::Pattern(kind, pattern),
        };
        if list.contains(&target) {
            continue;
        }
        if list.len() == COMPOSITE_MAX {
            return Err(DestinationError::TooManyParts);
        }
        list.push(target);
    }
    Ok(list)
}

/// The separator a subscriber uses: dots if there is one and no slash behind the prefix.
pub(crate) fn style_of(text: &str) -> Style {
    let mut names = text.split(',').map(|part| split_prefix(part).map_or("", |(_, _, name)| name));
    if text.contains('.') && names.all(|name| !name.contains('/')) {
        Style::Dots
    } else {
        Style::Slashes
    }
}

/// Spells a destination for a client.
pub fn spell_destination(destination: &Destination, style: Style) -> String {
    let prefix = match destination.kind {
        Kind::Queue => "/queue/",
        Kind::Service => "/service/",
        Kind::Topic => "/topic/",
    };
    let (mut text, mut name) = (String::from(prefix), destination.path.as_str());
    if destination.kind == Kind::Queue && is_durable(&destination.path) {
        name = name.split_once('/').map_or(name, |(_, name)| name);
        text = String::from(DURABLE_PREFIX);
    }
    spell_name(name, style, &mut text);
    text
}

/// Spells a temporary destination the way only its owner may: `/temp-queue/x`. `None` if it is not
/// one of that session's.
pub(crate) fn spell_own_temporary(
    destination: &Destination,
    session: &TemporaryName,
    style: Style,
) -> Option<String> {
    let name = destination.path.as_str().strip_prefix("temp/")?;
    let (owner, name) = name.split_once('/')?;
    if TemporaryName::parse(owner).as_ref() != Some(session) {
        return None;
    }
    let prefix = match destination.kind {
        Kind::Queue => "/temp-queue/",
        Kind::Service => "/service/",
        Kind::Topic => "/temp-topic/",
    };
    let mut text = String::from(prefix);
    spell_name(name, style, &mut text);
    Some(text)
}

/// The queue of the durable subscription with that id.
///
/// # Errors
/// When it cannot be a name.
pub(crate) fn parse_durable(id: &str, session: &TemporaryName) -> Result<Path, DestinationError> {
    Ok(parse_destination(&format!("{DURABLE_PREFIX}{id}"), session)?.path)
}

/// Rewrites a `reply-to` that names a temporary destination, so that receivers can send to it.
pub(crate) fn publish_reply_to(text: &str, session: &TemporaryName) -> Option<String> {
    if !text.starts_with("/temp-") {
        return None;
    }
    let destination = parse_destination(text, session).ok()?;
    Some(spell_destination(&destination, Style::Dots))
}

/// The kind and the canonical name a text spells.
fn canonical(text: &str, session: &TemporaryName) -> Result<(Kind, String), DestinationError> {
    let (kind, folder, name) = split_prefix(text).ok_or(DestinationError::UnknownPrefix)?;
    let mut path = match folder {
        Folder::None => String::with_capacity(name.len()),
        Folder::Durable => format!("{DURABLE}/"),
        Folder::Temporary => format!("temp/{session}/"),
    };
    let mut rest = name;
    while let Some(at) = rest.find(['.', '%']) {
        let (plain, tail) = rest.split_at(at);
        path.push_str(plain);
        let (character, length) = match tail.as_bytes() {
            [b'.', ..] => ('/', 1),
            [b'%', b'2', b'E' | b'e', ..] => ('.', 3),
            [b'%', b'2', b'C' | b'c', ..] => (',', 3),
            [b'%', b'2', b'5', ..] => ('%', 3),
            _ => ('%', 1),
        };
        path.push(character);
        rest = tail.get(length..).unwrap_or_default();
    }
    path.push_str(rest);
    Ok((kind, path))
}

/// The kind, the folder, and the name behind the prefix.
fn split_prefix(text: &str) -> Option<(Kind, Folder, &str)> {
    let text = trimmed(text);
    PREFIXES
        .iter()
        .find_map(|(prefix, kind, folder)| Some((*kind, *folder, text.strip_prefix(prefix)?)))
}

/// One destination without the separators at its end; a prefix without a name is left as it is.
fn trimmed(part: &str) -> &str {
    let rest = part.trim_end_matches(['.', '/']);
    let is_named = |(prefix, ..): &(&str, Kind, Folder)| rest.starts_with(prefix);
    if PREFIXES.iter().any(is_named) { rest } else { part }
}

/// What a client wrote for one or several destinations, without separators at their ends: so its
/// subscriptions are told apart by what they name.
pub(crate) fn without_ends(text: &str) -> Cow<'_, str> {
    if text.split(',').all(|part| trimmed(part).len() == part.len()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split(',').map(trimmed).collect::<Vec<_>>().join(","))
}

/// Where the destinations with a prefix lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folder {
    /// Nowhere but where their names say.
    None,
    /// With the durable subscriptions.
    Durable,
    /// With what is the session's alone.
    Temporary,
}

/// The prefix of durable subscriptions.
const DURABLE_PREFIX: &str = "/dsub/";

const PREFIXES: [(&str, Kind, Folder); 5] = [
    ("/topic/", Kind::Topic, Folder::None),
    ("/queue/", Kind::Queue, Folder::None),
    (DURABLE_PREFIX, Kind::Queue, Folder::Durable),
    ("/temp-topic/", Kind::Topic, Folder::Temporary),
    ("/temp-queue/", Kind::Queue, Folder::Temporary),
];

fn spell_name(name: &str, style: Style, text: &mut String) {
    let mut rest = name;
    while let Some(at) = rest.find(['/', '.', ',', '%']) {
        let (plain, tail) = rest.split_at(at);
        text.push_str(plain);
        let after = tail.get(1..).unwrap_or_default();
        text.push_str(match tail.as_bytes() {
            [b'/', ..] if style == Style::Dots => ".",
            [b'/', ..] => "/",
            [b'.', ..] => "%2E",
            [b',', ..] => "%2C",
            [b'%', b'2', b'E' | b'e' | b'C' | b'c' | b'5', ..] => "%25",
            _ => "%",
        });
        rest = after;
    }
    text.push_str(rest);
}

/// Whether a target is a topic, or several.
pub(crate) fn is_topic(target: &Target) -> bool {
    match target {
        Target::Exact(destination) => destination.kind == Kind::Topic,
        Target::Pattern(kind, _) => *kind == Kind::Topic,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use tiderace_base::{SessionId, ShardId};

    fn name(number: u128) -> TemporaryName {
        TemporaryName::new(SessionId { shard: ShardId(1), slot: 2, generation: 3 }, number)
    }

    fn path(text: &str) -> String {
        let destination = parse_destination(text, &name(7)).unwrap();
        let own = name(7).to_string();
        format!("{} {}", destination.kind.name(), destination.path).replace(&own, "OWN")
    }

    #[test]
    fn reads_both_separators_and_the_escapes() {
        for (text, expected) in [
            ("/topic/fx.EUR", "topic fx/EUR"),
            ("/topic/fx/EUR", "topic fx/EUR"),
            ("/topic/a.b/c", "topic a/b/c"),
            ("/queue/a%2Eb", "queue a.b"),
            ("/queue/a%2eb.c", "queue a.b/c"),
            ("/queue/a%2Cb", "queue a,b"),
            ("/queue/100%25", "queue 100%"),
            ("/queue/100%", "queue 100%"),
            ("/queue/%41", "queue %41"),
            ("/dsub/audit.fx", "queue dsub/audit/fx"),
            ("/temp-queue/r.1", "queue temp/OWN/r/1"),
            ("/temp-topic/r", "topic temp/OWN/r"),
        ] {
            assert_eq!(path(text), expected);
        }
    }

    #[test]
    fn separators_at_the_end_are_dropped() {
        for (text, expected, name) in [
            ("/queue/a.", "queue a", "/queue/a"),
            ("/topic/a/", "topic a", "/topic/a"),
            ("/topic/a.b././", "topic a/b", "/topic/a.b"),
            ("/temp-queue/r.", "queue temp/OWN/r", "/temp-queue/r"),
            ("/queue/a%2E", "queue a.", "/queue/a%2E"),
            ("/queue/a%2E.", "queue a.", "/queue/a%2E"),
        ] {
            assert_eq!(path(text), expected);
            assert_eq!(without_ends(text), name);
        }
        let both = parse_targets("/topic/a.*.,/queue/b/", &name(7)).unwrap();
        assert_eq!(both, parse_targets("/topic/a.*,/queue/b", &name(7)).unwrap());
        assert_eq!(without_ends("/topic/a.*.,/queue/b/"), "/topic/a.*,/queue/b");
        assert_eq!(parse_destinations("/queue/a,/queue/a.", &name(7)).unwrap().len(), 1);
        let public = format!("/queue/temp.{}.r", name(7));
        assert_eq!(publish_reply_to("/temp-queue/r.", &name(7)), Some(public));
        assert_eq!(style_of("/topic/fx."), Style::Dots);
        assert_eq!(without_ends("no prefix."), "no prefix.");
    }

    #[test]
    fn refuses_what_names_nothing() {
        for text in [
            "",
            "/topic/",
            "/topic/.",
            "/temp-queue/",
            "/temp-queue/./",
            "topic/a",
            "/dsubs/a",
            "/dsub/",
            "/queue/a..b",
            "/queue/.a",
            "/topic/a.*",
            "/topic/a.*.",
        ] {
            assert!(parse_destination(text, &name(1)).is_err(), "{text}");
        }
        assert_eq!(parse_destination("/x/a", &name(1)), Err(DestinationError::UnknownPrefix));
        let many = vec!["/queue/a"; COMPOSITE_MAX + 1].join(",");
        assert_eq!(parse_destinations(&many, &name(1)).unwrap().len(), 1);
        let many: Vec<String> = (0..=COMPOSITE_MAX).map(|n| format!("/queue/{n}")).collect();
        assert_eq!(
            parse_destinations(&many.join(","), &name(1)),
            Err(DestinationError::TooManyParts)
        );
    }

    #[test]
    fn replies_to_temporary_queues_are_spelled_for_others() {
        let public = format!("/queue/temp.{}.r", name(7));
        assert_eq!(publish_reply_to("/temp-queue/r", &name(7)), Some(public));
        assert_eq!(publish_reply_to("/queue/r", &name(7)), None);
    }

    #[test]
    fn follows_the_separator_of_the_subscriber() {
        for (text, style) in [
            ("/topic/fx.*", Style::Dots),
            ("/topic/fx/*", Style::Slashes),
            ("/topic/*", Style::Slashes),
            ("/topic/a.*,/queue/b.*", Style::Dots),
            ("/topic/a.*,/queue/b/*", Style::Slashes),
        ] {
            assert_eq!(style_of(text), style, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_spelled_is_read_again(text in "[a-c.,%25eECc/]{1,16}", queue: bool, dots: bool) {
            let kind = if queue { Kind::Queue } else { Kind::Topic };
            let Ok(path) = Path::parse(&text) else { return Ok(()) };
            let destination = Destination { kind, path };
            let style = if dots { Style::Dots } else { Style::Slashes };
            let text = spell_destination(&destination, style);
            prop_assert_eq!(parse_destination(&text, &name(1)), Ok(destination.clone()));
            prop_assert_eq!(parse_targets(&text, &name(1)), Ok(vec![Target::Exact(destination)]));
        }

        #[test]
        fn own_temporary_spelling_is_read_again(text in "[a-c.,%25E/]{1,12}") {
            let Ok(path) = Path::parse(&format!("temp/{}/{text}", name(7))) else { return Ok(()) };
            let destination = Destination { kind: Kind::Queue, path };
            let text = spell_own_temporary(&destination, &name(7), Style::Dots).unwrap();
            prop_assert_eq!(parse_destination(&text, &name(7)), Ok(destination.clone()));
            prop_assert_eq!(spell_own_temporary(&destination, &name(8), Style::Dots), None);
        }
    }
}
