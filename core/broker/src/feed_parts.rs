//! The messages of a topic's run as queues get them: for a mirror by itself, for durable subscriptions made once for all
//! that want the same of it.
//!
//! Relies on runs that share their buffer. Invariants: no subscription gets what its selector does not match; what is
//! kept for runs that have many kinds of selectors is bounded.

use tiderace_base::Memory;
use tiderace_filter::Selector;
use tiderace_topics::Path;
use tiderace_wire::{
    Destination, DurableSubscription, Flags, Kind, Message, Meta, QueueFields, Run, RunBuilder,
    SOURCE_TOPIC, properties, root_of,
};

/// Selections of one run that are kept; who wants another one gets messages of its own.
const SELECTIONS_MAX: usize = 16;

/// What was made of one run for the subscriptions that get it.
#[derive(Debug, Default)]
pub(crate) struct FeedParts {
    /// Several subscriptions get it, so that it is worth sharing.
    are_shared: bool,
    made: Vec<Selection>,
    /// Units of work that selectors have taken since that was asked.
    price: u64,
}

/// The messages that some subscriptions want.
#[derive(Debug)]
struct Selection {
    /// Whether they say their topic as its host does.
    in_host: bool,
    /// A bit for each message of the run.
    wanted: Box<[u64]>,
    parts: Vec<Run>,
}

impl FeedParts {
    /// Those of a run that so many queues get.
    pub(crate) fn for_queues(queues: usize) -> FeedParts {
        FeedParts { are_shared: queues > 1, ..FeedParts::default() }
    }

    /// Units of work that it has taken to find out who wants which messages, since that was asked last.
    pub(crate) fn take_price(&mut self) -> u64 {
        std::mem::take(&mut self.price)
    }

    /// The messages of a run that a subscription wants, as runs for its queue: such as survive and others apart, and those of
    /// each priority.
    pub(crate) fn of(
        &mut self,
        run: &Run,
        about: &DurableSubscription,
        memory: &Memory,
    ) -> Vec<Run> {
        let (queue, selector) = (&about.queue, about.selector.as_ref());
        let topic = &run.destination().path;
        let root = root_of(queue);
        if root.as_ref().is_some_and(|root| !root.shows(topic)) {
            return Vec::new();
        }
        let in_host = root.is_some_and(|root| root.holds(topic));
        if !self.are_shared {
            let mut price = 0;
            let wants = |_, message: &Message<'_>| is_wanted(message, selector, &mut price);
            let parts = parts_of(run, queue, wants, false);
            self.price += price;
            return parts;
        }
        let wanted = wanted_of(run, selector, &mut self.price);
        let known =
            self.made.iter().position(|known| known.wanted == wanted && known.in_host == in_host);
        if known.is_none() && self.made.len() >= SELECTIONS_MAX {
            return parts_of(run, queue, |at, _| has(&wanted, at), false);
        }
        let at = known.unwrap_or_else(|| {
            let mut parts = parts_of(run, queue, |at, _| has(&wanted, at), false);
            parts.iter_mut().for_each(|part| part.share(|bytes| memory.charge_body(bytes)));
            self.made.push(Selection { in_host, wanted, parts });
            self.made.len() - 1
        });
        let parts = self.made.get(at).into_iter().flat_map(|selection| &selection.parts);
        let destination = || Destination { kind: Kind::Queue, path: queue.clone() };
        parts.map(|part| part.shared_with(destination())).collect()
    }
}

/// A bit for each message that is one for a queue: that a value is gone is none.
fn wanted_of(run: &Run, selector: Option<&Selector>, price: &mut u64) -> Box<[u64]> {
    let mut wanted = vec![0u64; run.len().div_ceil(64)];
    for (at, message) in run.messages().enumerate() {
        let word = wanted.get_mut(at / 64);
        if let Some(word) = word.filter(|_| is_wanted(&message, selector, price)) {
            *word |= 1 << (at % 64);
        }
    }
    wanted.into()
}

fn has(wanted: &[u64], at: usize) -> bool {
    wanted.get(at / 64).is_some_and(|word| word & 1 << (at % 64) != 0)
}

/// The messages of a topic's run for the queue that has its name, which say what they say there, and no more.
pub(crate) fn parts_for_mirror(run: &Run, queue: &Path) -> Vec<Run> {
    parts_of(run, queue, |_, message| is_wanted(message, None, &mut 0), true)
}

/// Some messages of a topic's run, as runs for a queue: such as survive and others apart, and those of each priority.
fn parts_of(
    run: &Run,
    queue: &Path,
    mut is_in: impl FnMut(usize, &Message<'_>) -> bool,
    mirrors: bool,
) -> Vec<Run> {
    let destination = || Destination { kind: Kind::Queue, path: queue.clone() };
    let begin = || RunBuilder::new(destination(), run.published());
    let (mut parts, mut builder) = (Vec::new(), begin());
    let topics_alone = match mirrors {
        true => Flags::RETAIN | Flags::DEAD_LETTER,
        false => Flags::RETAIN | Flags::DEAD_LETTER | Flags::DELAYED,
    };
    let source = source_of(run, queue);
    let source = source.as_ref().unwrap_or(&run.destination().path).as_str();
    let wanted = run.messages().enumerate().filter(|(at, message)| is_in(*at, message));
    for (_, message) in wanted {
        let flags = message.flags.without(topics_alone) | QueueFields::marks(message.properties);
        if builder.differs(flags, Flags::OF_RUN) || !builder.has_room() {
            parts.push(std::mem::replace(&mut builder, begin()).build());
        }
        let block = builder.properties();
        // The messages before it are in the same buffer.
        let start = block.len();
        let lines = message.properties.split_inclusive(|byte| *byte == b'\n');
        for line in lines.filter(|line| mirrors || !is_source(line)) {
            block.extend_from_slice(line);
        }
        if !mirrors {
            properties::append(block, SOURCE_TOPIC, source);
        }
        let own = block.get(start..).unwrap_or_default();
        let escaped = if own.contains(&b'\\') { Flags::ESCAPED } else { Flags::NONE };
        let flags = flags | escaped;
        let meta = Meta { flags, expires_ms: message.expires_ms };
        builder.finish_as(run, &message, meta);
    }
    if !builder.is_empty() {
        parts.push(builder.build());
    }
    parts
}

/// What the topic is called in the virtual host of a queue, if it is in that host.
fn source_of(run: &Run, queue: &Path) -> Option<Path> {
    root_of(queue)?.without(&run.destination().path)
}

/// Whether a message is one for a queue, and what it took to find out: that a value is gone is none.
fn is_wanted(message: &Message<'_>, selector: Option<&Selector>, price: &mut u64) -> bool {
    if message.flags.contains(Flags::RETAIN_REMOVE) {
        return false;
    }
    selector.is_none_or(|selector| {
        let (is_selected, steps) = selector.look(message);
        *price += u64::from(steps);
        is_selected
    })
}

/// Whether a line of properties says to which topic a message was published, which nobody but the server says.
fn is_source(line: &[u8]) -> bool {
    let rest = line.strip_prefix(SOURCE_TOPIC.as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b":"))
}
