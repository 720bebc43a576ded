//! Temporary destinations: the paths below `temp/<name>/`, where the name stands for one session.
//!
//! ```text
//!   temp/AAAAAAABAAAAAQ…/replies
//!        └ session and 128 bits that nobody can guess
//! ```
//! The broker gives each session its name and decides who may do what below it; a protocol that offers
//! temporary destinations spells them. Invariant: the home of everything below a name is the shard of
//! its session, so that the shard which knows the session knows all that it has there.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tiderace_base::{SessionId, ShardId};
use tiderace_topics::Path;

/// The first level of all temporary destinations, and the separator.
const BELOW: &str = "temp/";
const BYTES: usize = 2 + 4 + 4 + 16;

/// The name of a session in the paths of its temporary destinations. Kept as bytes: there may be
/// millions of idle sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TemporaryName([u8; BYTES]);

impl TemporaryName {
    /// The name of a session; `secret` is random and known to the broker alone.
    pub fn new(session: SessionId, secret: u128) -> TemporaryName {
        let mut bytes = [0; BYTES];
        let parts = (session.shard.0.to_be_bytes().into_iter())
            .chain(session.slot.to_be_bytes())
            .chain(session.generation.to_be_bytes())
            .chain(secret.to_be_bytes());
        for (byte, part) in bytes.iter_mut().zip(parts) {
            *byte = part;
        }
        TemporaryName(bytes)
    }

    /// The session that the name says; true only if the broker would give it this name.
    pub fn session(&self) -> SessionId {
        let [a, b, c, d, e, f, g, h, i, j, ..] = self.0;
        SessionId {
            shard: ShardId(u16::from_be_bytes([a, b])),
            slot: u32::from_be_bytes([c, d, e, f]),
            generation: u32::from_be_bytes([g, h, i, j]),
        }
    }

    /// The name in a path below it, if the path is one of a temporary destination.
    pub fn of(path: &Path) -> Option<TemporaryName> {
        let rest = path.as_str().strip_prefix(BELOW)?;
        let (name, _) = rest.split_once('/')?;
        TemporaryName::parse(name)
    }

    /// The name in a text, if it is one.
    pub fn parse(text: &str) -> Option<TemporaryName> {
        let mut bytes = [0; BYTES + 2];
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
        let bytes = bytes.get(..length)?;
        Some(TemporaryName(bytes.try_into().ok()?))
    }
}

impl std::fmt::Display for TemporaryName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

/// Whether a path is kept for temporary destinations.
pub fn is_temporary(path: &Path) -> bool {
    path.as_str().starts_with(BELOW)
}

/// The shard that orders a destination's messages and keeps its state.
#[inline]
pub fn home_of(path: &Path, shards: usize) -> ShardId {
    let shards = shards.max(1) as u64;
    if is_temporary(path)
        && let Some(name) = TemporaryName::of(path)
    {
        return ShardId((u64::from(name.session().shard.0) % shards) as u16);
    }
    ShardId((path.stable_hash() % shards) as u16)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_is_read_again(shard in 0u16..64, slot: u32, generation: u32, secret: u128) {
            let session = SessionId { shard: ShardId(shard), slot, generation };
            let name = TemporaryName::new(session, secret);
            let path = Path::parse(&format!("temp/{name}/a/b")).unwrap();
            prop_assert_eq!(TemporaryName::of(&path), Some(name));
            prop_assert_eq!(name.session(), session);
            prop_assert_eq!(home_of(&path, 64), session.shard);
        }

        #[test]
        fn other_text_is_no_name(text in "[A-Za-z0-9_=-]{0,60}") {
            if let Some(name) = TemporaryName::parse(&text) {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }

    #[test]
    fn only_what_is_below_a_name_is_a_temporary_destination() {
        let name = TemporaryName::default();
        for text in [format!("temp/{name}"), "temp/7/reply".to_owned(), format!("tmp/{name}/a")] {
            assert_eq!(TemporaryName::of(&Path::parse(&text).unwrap()), None, "{text}");
        }
    }
}
