//! Runs of what comes: updates of one topic that follow each other become one.
//!
//! Relies on the session to end what is open before anything else is told. Invariant: of each message of a run, version,
//! number and what is reached with it are those that were told, or what is reached is less until the next one.

use tiderace_base::Time;
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Commands, Destination, Flags, FromUpstream, Kind, Meta, RunBuilder, SubscriptionKey,
    UpstreamNumbers,
};

/// A message as it has come.
pub(super) struct Entry<'a> {
    pub(super) key: SubscriptionKey,
    pub(super) path: &'a Path,
    pub(super) version: u64,
    /// The version of the message before, if that is told.
    pub(super) follows: Option<u64>,
    pub(super) numbers: UpstreamNumbers,
    pub(super) flags: Flags,
    /// The line that its content type stands for.
    pub(super) content: &'static [u8],
    pub(super) properties: &'a [u8],
    pub(super) body: &'a [u8],
}

/// The run that is open.
#[derive(Default)]
pub(super) struct Gather(Option<Open>);

struct Open {
    key: SubscriptionKey,
    builder: RunBuilder,
    /// Of the first message.
    version: u64,
    follows: Option<u64>,
    /// Of the first message; what is reached with the last.
    numbers: UpstreamNumbers,
    count: u64,
}

impl Gather {
    /// Takes a message in.
    pub(super) fn add(&mut self, now: Time, entry: &Entry<'_>, commands: &mut Commands) {
        if !self.0.as_ref().is_some_and(|open| open.takes(entry)) {
            self.end(commands);
        }
        let open = self.0.get_or_insert_with(|| Open::new(now, entry));
        open.numbers.reached = entry.numbers.reached;
        open.count += 1;
        let block = open.builder.properties();
        let room = entry.content.len() + entry.properties.len() + entry.body.len();
        match block.capacity() {
            // The first of its run and mostly the only one.
            0 => block.reserve_exact(room),
            _ => block.reserve(room),
        }
        block.extend_from_slice(entry.content);
        block.extend_from_slice(entry.properties);
        open.builder.finish(entry.body, Meta { flags: entry.flags, expires_ms: None });
    }

    /// Tells of the run that is open, if one is.
    pub(super) fn end(&mut self, commands: &mut Commands) {
        let Some(open) = self.0.take() else { return };
        let mut run = open.builder.build();
        run.set_version(open.version);
        if let Some(before) = open.follows {
            run.set_follows(before);
        }
        run.set_upstream(Some(open.numbers));
        let messages = FromUpstream::Messages { key: open.key, run };
        commands.push(Command::Upstream(Box::new(messages)));
    }
}

impl Open {
    fn new(now: Time, entry: &Entry<'_>) -> Open {
        let destination = Destination { kind: Kind::Topic, path: entry.path.clone() };
        Open {
            key: entry.key,
            builder: RunBuilder::new(destination, now),
            version: entry.version,
            follows: entry.follows,
            numbers: entry.numbers,
            count: 0,
        }
    }

    /// Whether the message is the next one, and nothing of what is known of the last one is lost.
    fn takes(&self, entry: &Entry<'_>) -> bool {
        let (known, new) = (&self.numbers, &entry.numbers);
        let last = known.first + self.count - 1;
        // Of all but the last message a run says that no more is reached than the message itself, or than in the end.
        let reached = new.reached.min(last)..=new.reached;
        self.key == entry.key
            && self.builder.destination().path.is_same(entry.path)
            && self.builder.has_room()
            && entry.follows.is_none()
            && entry.version == self.version + self.count
            && new.numbering == known.numbering
            && new.first == last + 1
            && reached.contains(&known.reached)
    }
}
