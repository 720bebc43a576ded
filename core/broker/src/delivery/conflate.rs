//! Several updates of a topic in one: the newest, or all of them merged field by field.
//!
//! Relies on `tiderace_value` to merge. A removal is never hidden: of updates with a removal among them
//! the removal stays and what came before it goes, so that nothing of an earlier life of the topic
//! shows in a later one. Invariant: what stands in for several updates has the number and the version
//! of the newest, and is no larger and costs no more work than the limits say.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_value::merge::{MergeDepth, fields};
use tiderace_value::{Json, Limits};
use tiderace_wire::{Flags, MergedParts, Message, Meta, Run, SharedRun};

use crate::delivery::backlog::Pending;

/// What updates were reduced to.
#[derive(Debug)]
pub(crate) struct Conflated {
    /// The removal before the last update, if there was one among them.
    pub(crate) removal: Option<Pending>,
    /// One message: the newest, or what was merged.
    pub(crate) last: Pending,
    /// How many messages were given up.
    pub(crate) given_up: u64,
}

/// Bytes of both sides together and of the result; of larger values the newest counts.
pub(crate) const MERGE_BYTES_MAX: usize = 256 * 1024;
/// The most steps of one merging: a few milliseconds at worst, and far more than values of that size
/// take that nobody has made to be slow.
const LIMITS: Limits = Limits { bytes_max: MERGE_BYTES_MAX, depth_max: 64, steps_max: 100_000 };

/// Reduces what waits and what is newer, both of one topic and for one subscription. The last one has
/// the `reached` of what is newer; putting it elsewhere changes that.
pub(crate) fn conflated(waiting: Option<&Pending>, newer: Pending, merge: bool) -> Conflated {
    let count = waiting.map_or(0, Pending::len) + newer.len();
    let removal_at = |pending: &Pending, before_last: bool| {
        let end = pending.to - u32::from(before_last);
        (pending.from..end).rev().find(|index| is_removal(pending, *index))
    };
    if newer.is_removal() {
        let last = Pending { from: newer.to - 1, ..newer };
        return Conflated { removal: None, last, given_up: u64::from(count - 1) };
    }
    if let Some(at) = removal_at(&newer, true) {
        let removal = Pending { run: newer.run.clone(), from: at, to: at + 1, ..newer };
        let removal = Pending { reached: removal.first(), ..removal };
        let last = joined(None, Pending { from: at + 1, ..newer }, merge);
        return Conflated { removal: Some(removal), last, given_up: u64::from(count - 2) };
    }
    let removed = waiting.and_then(|waiting| Some((waiting, removal_at(waiting, false)?)));
    let Some((waiting, at)) = removed else {
        let last = joined(waiting.map(|waiting| (waiting, waiting.from)), newer, merge);
        return Conflated { removal: None, last, given_up: u64::from(count - 1) };
    };
    let removal = Pending { run: waiting.run.clone(), from: at, to: at + 1, ..*waiting };
    let rest = (at + 1 < waiting.to).then_some((waiting, at + 1));
    let last = joined(rest, newer, merge);
    Conflated { removal: Some(removal), last, given_up: u64::from(count - 2) }
}

fn is_removal(pending: &Pending, index: u32) -> bool {
    let message = pending.run.run().message(index as usize);
    message.is_some_and(|message| message.flags.contains(Flags::RETAIN_REMOVE))
}

/// One update of those that wait, from that place on, and those that are newer, none a removal.
fn joined(waiting: Option<(&Pending, u32)>, newer: Pending, merge: bool) -> Pending {
    let newest = Pending { run: newer.run.clone(), from: newer.to - 1, ..newer };
    if !merge || (waiting.is_none() && newer.len() == 1) {
        return newest;
    }
    let (run, older) = match waiting {
        Some((waiting, from)) => (&waiting.run, (from, waiting.to)),
        None => (&newer.run, (newer.from, newer.from)),
    };
    let parts = MergedParts { older, newer: (newer.from, newer.to) };
    let from = waiting
        .map_or(newer.first(), |(waiting, from)| waiting.first() + u64::from(from - waiting.from));
    let merged = newer.run.merged_with(run, parts, || {
        let merged = merged(run, &newer.run, parts)?;
        Some(SharedRun::merged(Arc::new(merged), from))
    });
    match merged {
        Some(run) => Pending { run, from: 0, to: 1, ..newest },
        None => newest,
    }
}

/// Merges messages of two runs in turn; `None` if the newest is all there is to say.
fn merged(older: &Rc<SharedRun>, newer: &Rc<SharedRun>, parts: MergedParts) -> Option<Run> {
    let of = |run: &Rc<SharedRun>, (from, to): (u32, u32)| {
        let run = run.clone();
        (from..to).map(move |index| (run.clone(), index as usize))
    };
    let mut body: Option<Vec<u8>> = None;
    // A body in a file is no value that could be merged, and not copied into memory.
    if older.run().body_in_file().or(newer.run().body_in_file()).is_some() {
        return None;
    }
    for (run, index) in of(older, parts.older).chain(of(newer, parts.newer)) {
        let next = run.run().message(index)?.body;
        let both = body.and_then(|before| joined_text(&before, next));
        body = Some(both.unwrap_or_else(|| next.to_vec()));
    }
    let run = newer.run();
    let index = parts.newer.1.checked_sub(1)? as usize;
    let newest: Message<'_> = run.message(index)?;
    let body = body.filter(|body| *body != newest.body)?;
    let meta = Meta { flags: newest.flags, expires_ms: newest.expires_ms };
    let destination = run.destination().clone();
    let mut made = Run::single(destination, run.published(), newest.properties, &body, meta);
    made.number_as(run, index);
    Some(made)
}

/// Two JSON objects merged, those within them too; `None` if they are no objects or too much.
fn joined_text(older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
    if older.len() + newer.len() > MERGE_BYTES_MAX {
        return None;
    }
    let older = Json::parse(older, LIMITS.depth_max).ok()?;
    let newer = Json::parse(newer, LIMITS.depth_max).ok()?;
    fields(older, newer, MergeDepth::All, LIMITS).ok().map(String::into_bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::delivery::backlog::Source;
    use proptest::prelude::*;
    use tiderace_base::{ShardId, Time};
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, Kind, RunBuilder, SubscriptionKey};

    /// Part of a run with these bodies; an empty one is a removal.
    fn pending(first: u64, bodies: &[&str]) -> Pending {
        let path = Path::parse("a").unwrap();
        let mut builder = RunBuilder::new(Destination { kind: Kind::Topic, path }, Time::ZERO);
        for body in bodies {
            let flags = if body.is_empty() { Flags::RETAIN_REMOVE } else { Flags::RETAIN };
            builder.properties().extend_from_slice(b"k:v\n");
            builder.finish(body.as_bytes(), Meta { flags, expires_ms: None });
        }
        let mut run = builder.build();
        run.number(ShardId(0), first);
        run.set_version(first + 100);
        let run = Rc::new(SharedRun::new(Arc::new(run)));
        let (to, reached) = (bodies.len() as u32, first + bodies.len() as u64 - 1);
        let key = SubscriptionKey(0);
        Pending {
            key,
            run,
            from: 0,
            to,
            redeliveries: 0,
            reached,
            source: Source::Topic,
            is_past: false,
        }
    }

    fn body(pending: &Pending) -> String {
        assert_eq!(pending.len(), 1);
        let message = pending.run.run().message(pending.from as usize).unwrap();
        String::from_utf8(message.body.to_vec()).unwrap()
    }

    #[test]
    fn fields_of_the_older_stay_unless_the_newer_has_them() {
        let older = pending(1, &[r#"{"a":1,"b":{"x":1}}"#]);
        let newer = pending(2, &[r#"{"b":{"y":2}}"#, r#"{"c":null}"#]);
        let both = conflated(Some(&older), newer, true);
        assert_eq!(body(&both.last), r#"{"a":1,"b":{"x":1,"y":2},"c":null}"#);
        assert_eq!((both.given_up, both.removal.is_none()), (2, true));
        let run = both.last.run.run();
        assert_eq!((run.first(), run.version(), both.last.reached), (3, 103, 3));
        assert_eq!((both.last.run.merged_from(), both.last.first()), (Some(1), 1));
        assert_eq!(run.message(0).unwrap().properties, b"k:v\n");
    }

    #[test]
    fn values_that_cannot_be_merged_give_way_to_the_newest() {
        let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(MERGE_BYTES_MAX));
        for (older, newer) in
            [("[1]", r#"{"a":1}"#), (r#"{"a":1}"#, "no json"), (&large, r#"{"b":1}"#)]
        {
            let both = conflated(Some(&pending(1, &[older])), pending(2, &[newer]), true);
            assert_eq!(body(&both.last), newer);
            assert!(!both.last.run.is_merged());
        }
    }

    #[test]
    fn a_removal_stays_and_nothing_from_before_it_shows_behind_it() {
        let removed = || pending(2, &[r#"{"a":1}"#, ""]);
        let both = conflated(Some(&removed()), pending(4, &[r#"{"b":1}"#]), true);
        assert_eq!((body(&both.removal.unwrap()).as_str(), both.given_up), ("", 1));
        assert_eq!(body(&both.last), r#"{"b":1}"#);
        let within = pending(4, &[r#"{"a":1}"#, "", r#"{"b":1}"#, r#"{"c":1}"#]);
        let both = conflated(Some(&pending(1, &[r#"{"z":1}"#])), within, true);
        assert_eq!(both.removal.unwrap().first(), 5);
        assert_eq!((body(&both.last).as_str(), both.given_up), (r#"{"b":1,"c":1}"#, 3));
        let both = conflated(Some(&removed()), pending(4, &["x", ""]), false);
        assert!(both.removal.is_none() && both.last.is_removal());
    }

    #[test]
    fn sessions_that_fell_behind_together_share_what_was_merged() {
        let (older, newer) = (pending(1, &[r#"{"a":1}"#]), pending(2, &[r#"{"b":1}"#]));
        let again = || Pending { run: newer.run.clone(), ..newer };
        let first = conflated(Some(&older), again(), true).last;
        let second = conflated(Some(&older), again(), true).last;
        assert!(Rc::ptr_eq(&first.run, &second.run));
        let other = pending(1, &[r#"{"c":1}"#]);
        assert_eq!(body(&conflated(Some(&other), again(), true).last), r#"{"c":1,"b":1}"#);
    }

    proptest! {
        #[test]
        fn merged_one_by_one_or_at_once_it_is_the_same(
            values in proptest::collection::vec((0usize..4, any::<u8>()), 1..20),
        ) {
            let texts: Vec<String> =
                values.iter().map(|(name, value)| format!(r#"{{"{name}":{value}}}"#)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let mut waiting: Option<Pending> = None;
            for (text, first) in texts.iter().zip(1..) {
                waiting = Some(conflated(waiting.as_ref(), pending(first, &[text]), true).last);
            }
            let at_once = conflated(None, pending(1, &texts), true).last;
            prop_assert_eq!(body(&waiting.unwrap()), body(&at_once));
        }
    }
}
