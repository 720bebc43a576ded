//! Large values that were replaced while somebody still had them.
//!
//! A retained value counts once, at its topic's home, however many backlogs refer to it. When a newer one
//! takes its place, those backlogs keep it in memory; so it counts here until the last of them lets go.

use std::sync::{Arc, Weak};

use tiderace_base::{Memory, MemoryUse};
use tiderace_wire::Run;

/// What was replaced and is still there, with its bytes.
#[derive(Debug, Default)]
pub(crate) struct Displaced(Vec<(Weak<Run>, usize)>);

impl Displaced {
    /// A topic no longer has that value.
    #[inline]
    pub(crate) fn note(&mut self, value: Option<Arc<Run>>, memory: &Memory) {
        if let Some(value) = value
            && value.bytes() >= LARGE_BYTES
        {
            self.note_large(&value, memory);
        }
    }

    #[cold]
    fn note_large(&mut self, value: &Arc<Run>, memory: &Memory) {
        if Arc::strong_count(value) > 1 {
            memory.charge(MemoryUse::Values, value.bytes());
            self.0.push((Arc::downgrade(value), value.bytes()));
        }
    }

    /// Forgets what nobody has any more.
    pub(crate) fn sweep(&mut self, memory: &Memory) {
        self.0.retain(|(value, bytes)| {
            let stays = value.strong_count() > 0;
            if !stays {
                memory.refund(MemoryUse::Values, *bytes);
            }
            stays
        });
    }
}

/// Smaller values are not worth the look: a session has few of them waiting beyond its watermark.
const LARGE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::Time;
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, Kind, Meta};

    #[test]
    fn what_somebody_still_has_counts_until_it_is_let_go() {
        let memory = Memory::new(10 << 20);
        let path = Path::parse("a").unwrap();
        let value = |bytes: usize| {
            let destination = Destination { kind: Kind::Topic, path: path.clone() };
            Arc::new(Run::single(destination, Time::ZERO, b"", &vec![0; bytes], Meta::default()))
        };
        let mut displaced = Displaced::default();
        displaced.note(Some(value(LARGE_BYTES)), &memory);
        assert_eq!(memory.used(), 0, "nobody has it");
        let (large, small) = (value(LARGE_BYTES), value(10));
        displaced.note(Some(large.clone()), &memory);
        displaced.note(Some(small.clone()), &memory);
        displaced.sweep(&memory);
        assert_eq!(memory.used(), large.bytes());
        drop(large);
        displaced.sweep(&memory);
        assert_eq!(memory.used(), 0);
    }
}
