//! What sessions ask of the broker.
//!
//! Protocol-neutral: a STOMP SEND, an MQTT PUBLISH and an HTTP POST all become the same command.

mod credentials;
mod weight;

use bytes::Bytes;
use tiderace_base::limits::IN_FILE_BYTES_MIN;
use tiderace_base::{ShardId, Time};
use tiderace_filter::Selector;

use crate::{
    Call, Destination, Entrance, ExchangeSend, Flags, Kind, Meta, Position, Run, RunBuilder,
    SubscriptionKey, Target,
};

pub use credentials::Credentials;
pub use weight::Weight;

/// Stands for one answer a client waits for (a STOMP receipt); numbered by the session, rising.
pub type Token = u32;

/// A stretch of tokens, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// The first.
    pub from: Token,
    /// The last.
    pub to: Token,
}

impl Confirm {
    /// A single token.
    pub fn one(token: Token) -> Confirm {
        Confirm { from: token, to: token }
    }
}

/// How much may be under way to a consumer before it has to acknowledge. Zero bytes or messages
/// mean "this one does not count".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// Messages.
    pub messages: u32,
    /// Bytes of properties and bodies.
    pub bytes: u32,
}

/// How long a subscription goes on that shows the messages of a queue and takes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Browsing {
    /// Until it has shown what was in the queue when it began; [`crate::Reply::Browsed`] follows.
    ToEnd,
    /// Until it is ended: it shows what comes later, too.
    Following,
}

/// With which message of a queue a subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueStart {
    /// The first of at least that number ([`crate::number_of`] its version); with zero, the first that is there.
    Version(u64),
    /// The first that comes after the subscription.
    Next,
}

/// A new subscription.
#[derive(Clone, Debug)]
pub struct Subscribe {
    /// The session's own name for it.
    pub key: SubscriptionKey,
    /// What it listens to; several for composite destinations.
    pub targets: Vec<Target>,
    /// Only messages that match.
    pub selector: Option<Selector>,
    /// Whether the client acknowledges by [`Command::Settle`]; otherwise a message counts as
    /// consumed when it goes into the connection's write block.
    pub explicit: bool,
    /// What may be under way; the server's default if absent.
    pub prefetch: Option<Prefetch>,
    /// Only this consumer gets messages of its queues while it lives.
    pub exclusive: bool,
    /// Shows the messages of one queue and takes none; what is settled of them only makes room for more.
    pub browsing: Option<Browsing>,
    /// Where in a queue it begins.
    pub start: QueueStart,
    /// Answered by [`crate::Reply::Confirmed`] once every message published from then on will come.
    pub confirm: Option<Token>,
    /// Whether retained values are wanted first. Those of a pattern may be many: they come as the
    /// session takes them, each before what is newer of its topic, and most of them after the
    /// confirmation.
    pub retained: bool,
    /// Whether the confirmation waits until all retained values have been given.
    pub confirm_values: bool,
    /// Whether the client may come back for what it missed: its topics then keep a short history.
    pub recoverable: bool,
    /// Whether deliveries are to know the message before them ([`crate::SharedRun::previous`]).
    pub deltas: bool,
    /// Where the client left off: what came since is delivered first, instead of retained values.
    /// Needs a confirmation token; [`crate::Reply::Recovered`] precedes the confirmation.
    pub since: Option<Position>,
    /// Where to begin in what the topics keep, instead of with their values; of topics that keep no
    /// history the value comes.
    pub replay: Option<crate::Replay>,
    /// The shortest time between two updates of one topic; what comes in between is conflated as the
    /// topic says. Zero: none.
    pub interval: tiderace_base::Span,
    /// How many messages may come until more are asked for by [`Command::Credit`]. Messages of topics
    /// wait beyond that as the newest of each topic, merged if it says so; those of queues stay in
    /// their queue, and calls wait at their service (of a pattern of services, as many come from each
    /// home). Absent: no such bound.
    pub credit: Option<u64>,
    /// Whether the session wants to hear of topics that the subscription gains and loses
    /// ([`crate::Reply::Joined`], [`crate::Reply::Left`]).
    pub notices: bool,
}

impl Subscribe {
    /// A subscription with the usual choices: retained values first, messages settled by delivery.
    pub fn new(key: SubscriptionKey, targets: Vec<Target>) -> Subscribe {
        Subscribe {
            key,
            targets,
            selector: None,
            explicit: false,
            prefetch: None,
            exclusive: false,
            browsing: None,
            start: QueueStart::Version(0),
            confirm: None,
            retained: true,
            confirm_values: false,
            recoverable: false,
            deltas: false,
            since: None,
            replay: None,
            interval: tiderace_base::Span::ZERO,
            credit: None,
            notices: false,
        }
    }
}

/// What becomes of delivered messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Consumed.
    Accept,
    /// Given back: delivered again, here or elsewhere, until the limit of redeliveries.
    Reject,
    /// Given back unread, as new, behind which the subscription ends: a node says so of what it has not handed to its own
    /// consumer.
    Release,
}

/// An acknowledgement of messages of one subscription from one home shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    /// Whose messages.
    pub key: SubscriptionKey,
    /// The shard that numbered them ([`Run::home`]).
    pub home: ShardId,
    /// Stretches of their numbers, both ends included. With none nothing is settled, and the answer says that the store
    /// has all that this session has settled before at that home, if there is one.
    pub ranges: Vec<(u64, u64)>,
    /// What becomes of them.
    pub outcome: Outcome,
    /// Answered when it has been done.
    pub confirm: Option<Token>,
}

/// One request to the broker.
#[derive(Debug)]
pub enum Command {
    /// Says who the client is; answered by [`crate::Reply::LoggedIn`] or [`crate::Reply::Refused`].
    /// Commands before the answer are refused.
    Login(Credentials),
    /// Sends messages. Confirmed when the destination's home has taken them.
    Publish {
        /// The messages, not yet numbered.
        run: Run,
        /// The receipts asked for by messages of the run.
        confirm: Option<Confirm>,
        /// Whether the run's first message asked for the first of them: it is the one to blame if
        /// the run is refused.
        confirm_first: bool,
    },
    /// Acknowledges.
    Settle(Settle),
    /// Publications and settlements between `true` and `false` take effect together: each home does what it is told
    /// whole or, if it refuses a persistent message for a queue, not at all. They come in one turn.
    Together(bool),
    /// Subscribes; on a [`Kind::Service`] it begins to serve, with at most the prefetch's messages
    /// as open exchanges.
    Subscribe(Box<Subscribe>),
    /// Begins an exchange with a responder.
    Call(Box<Call>),
    /// Says more in an exchange.
    SendExchange(Box<ExchangeSend>),
    /// Ends an exchange for both sides. The other side hears what was said before first; what waits
    /// for this one is dropped.
    Cancel {
        /// Which.
        exchange: crate::ExchangeKey,
        /// What to tell the other side.
        close: tiderace_base::Close,
    },
    /// A caller wants so many messages more in an exchange that it began with [`Call::credit`]. The sum saturates.
    ExchangeCredit {
        /// Which.
        exchange: crate::ExchangeKey,
        /// How many more.
        messages: u64,
    },
    /// Does something with topics; answered by [`crate::Reply::Operated`] or
    /// [`crate::Reply::Refused`] with the token.
    Operate {
        /// Stands for the answer.
        token: Token,
        /// What.
        operation: Box<crate::Operation>,
    },
    /// Allows so many messages more to a subscription that began with [`Subscribe::credit`]. The sum
    /// saturates.
    Credit {
        /// Which.
        key: SubscriptionKey,
        /// How many more.
        messages: u64,
    },
    /// Ends a subscription in good order; messages under way go back to their queues.
    Unsubscribe {
        /// Which.
        key: SubscriptionKey,
        /// Answered when it has been done.
        confirm: Option<Token>,
    },
    /// The same of a subscription whose consumer was lost: what it has most likely taken counts as failed.
    Lose {
        /// Which.
        key: SubscriptionKey,
        /// Answered when it has been done.
        confirm: Option<Token>,
    },
    /// What follows in this turn is asked for somebody else, whose node passes it on; absent: for the session itself again.
    /// Only what the rules let the session pass on is done, and only what they let that principal do.
    ActAs(Option<std::sync::Arc<crate::EndPrincipal>>),
    /// An upstream of this node says something: only sessions that the node itself has opened to one give it.
    Upstream(Box<crate::FromUpstream>),
    /// The client says goodbye: its will is not published, and what it leaves unsettled when its
    /// session ends was not lost with it. Not answered.
    Goodbye,
}

/// The commands of one turn of one session, in order.
#[derive(Debug, Default)]
pub struct Commands {
    list: Vec<Command>,
    open: Option<Open>,
    now: Time,
    /// The file that the session's input lies in, if it does.
    input: Option<Bytes>,
    entrance: Entrance,
}

#[derive(Debug)]
struct Open {
    builder: RunBuilder,
    confirm: Option<Confirm>,
    confirm_first: bool,
    /// Marks that all messages of the run have, or none.
    uniform: Flags,
    /// Which of these they have.
    flags: Flags,
}

impl Open {
    fn new(destination: Destination, now: Time) -> Open {
        let uniform = match destination.kind {
            Kind::Queue => Flags::OF_RUN | Flags::DELAYED,
            // Whether the store has it is up to the topic, and a call is never stored.
            Kind::Topic | Kind::Service => Flags::DELAYED,
        };
        let builder = RunBuilder::new(destination, now);
        Open { builder, confirm: None, confirm_first: false, uniform, flags: Flags::NONE }
    }
}

impl Commands {
    /// No commands.
    pub fn new() -> Commands {
        Commands::default()
    }

    /// Tells what time the turn's runs are published at.
    pub fn begin_turn(&mut self, now: Time) {
        self.now = now;
    }

    /// The session's input lies in a file: large bodies that are parts of it stay there. Absent: it lies in memory.
    pub fn set_input_file(&mut self, input: Option<Bytes>) {
        self.input = input;
    }

    /// Tells by which way the session has come that gives them.
    pub fn set_entrance(&mut self, entrance: Entrance) {
        self.entrance = entrance;
    }

    /// By which way the session has come that gives them.
    pub fn entrance(&self) -> Entrance {
        self.entrance
    }

    /// A large part of the session's input as a part of the file that it lies in, for a message that is published in a
    /// later call ([`crate::RunBuilder::finish_in_file`]). Absent if it lies in memory, or is small.
    pub fn part_in_file(&self, part: &[u8]) -> Option<Bytes> {
        part_of(self.input.as_ref()?, part)
    }

    /// Appends a command.
    pub fn push(&mut self, command: Command) {
        self.close_run();
        self.list.push(command);
    }

    /// Notes that the client says goodbye: see [`Command::Goodbye`].
    pub fn take_leave(&mut self) {
        self.push(Command::Goodbye);
    }

    /// Begins a message: its properties are to be appended to what is returned (see
    /// [`RunBuilder::properties`]), then [`Commands::publish`] ends it. Consecutive messages to one
    /// destination share a run; those to a queue only if they do not differ in [`Flags::OF_RUN`], for what
    /// becomes of a run (whether the store has it, whether it is refused, its place in the order) becomes of each of its
    /// messages.
    pub fn message(&mut self, destination: &Destination) -> &mut Vec<u8> {
        let fits = self.open.as_ref().is_some_and(|open| {
            let known = open.builder.destination();
            open.builder.has_room()
                && known.kind == destination.kind
                && (known.path.is_same(&destination.path) || known.path == destination.path)
        });
        if !fits {
            self.close_run();
        }
        let now = self.now;
        self.open.get_or_insert_with(|| Open::new(destination.clone(), now)).builder.properties()
    }

    /// Ends the message begun last. One that is delayed is a run of its own: it waits, and is refused, alone; and so is
    /// one whose body is large and part of an input that lies in a file ([`Commands::set_input_file`]).
    pub fn publish(&mut self, body: &[u8], meta: Meta, confirm: Option<Token>) {
        let Some(open) = &mut self.open else { return };
        let is_alone = meta.flags.contains(Flags::DELAYED) && !open.builder.is_empty();
        if is_alone || self.input.is_some() || open.flags.differs(meta.flags, open.uniform) {
            return self.publish_apart(body, meta, confirm);
        }
        if let Some(token) = confirm {
            open.confirm_first |= open.builder.is_empty();
            let from = open.confirm.map_or(token, |confirm| confirm.from);
            open.confirm = Some(Confirm { from, to: token });
        }
        open.builder.finish(body, meta);
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.open.as_ref().is_none_or(|open| open.builder.is_empty())
    }

    /// The commands, in order.
    pub fn listed(&mut self) -> &[Command] {
        self.close_run();
        &self.list
    }

    /// The commands in order, to be changed; what is published from then on is a run of its own.
    pub fn each_mut(&mut self) -> std::slice::IterMut<'_, Command> {
        self.close_run();
        self.list.iter_mut()
    }

    /// Hands the commands over, in order; the allocation stays.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Command> {
        self.close_run();
        self.list.drain(..)
    }

    /// The same of one that is not as those before it: it begins a run of its own.
    #[cold]
    fn publish_apart(&mut self, body: &[u8], meta: Meta, confirm: Option<Token>) {
        let Some(open) = &mut self.open else { return };
        if open.builder.is_empty() {
            open.flags = meta.flags;
        } else {
            let properties = open.builder.take_begun();
            let destination = open.builder.destination().clone();
            self.close_run();
            let open = self.open.insert(Open::new(destination, self.now));
            open.flags = meta.flags;
            open.builder.properties().extend_from_slice(&properties);
        }
        let file = self.input.take();
        match file.as_ref().and_then(|file| part_of(file, body)) {
            Some(body) => self.publish_in_file(body, meta, confirm),
            None => self.publish(body, meta, confirm),
        }
        self.input = file;
    }

    fn publish_in_file(&mut self, body: Bytes, meta: Meta, confirm: Option<Token>) {
        let Some(mut open) = self.open.take() else { return };
        open.builder.finish_in_file(body, meta);
        let (confirm, confirm_first) = (confirm.map(Confirm::one), confirm.is_some());
        self.list.push(Command::Publish { run: open.builder.build(), confirm, confirm_first });
    }

    fn close_run(&mut self) {
        if let Some(open) = self.open.take()
            && !open.builder.is_empty()
        {
            self.list.push(Command::Publish {
                run: open.builder.build(),
                confirm: open.confirm,
                confirm_first: open.confirm_first,
            });
        }
    }
}

/// A large body as a part of the file that it lies in, if it does.
fn part_of(file: &Bytes, body: &[u8]) -> Option<Bytes> {
    let (file_range, range) = (file.as_ptr_range(), body.as_ptr_range());
    let lies_in = range.start >= file_range.start && range.end <= file_range.end;
    (body.len() >= IN_FILE_BYTES_MIN && lies_in).then(|| file.slice_ref(body))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use tiderace_topics::Path;

    fn topic(name: &str) -> Destination {
        Destination { kind: Kind::Topic, path: Path::parse(name).unwrap() }
    }

    #[test]
    fn persistent_and_other_messages_to_a_queue_share_no_run() {
        for kind in [Kind::Queue, Kind::Topic] {
            let destination = Destination { kind, path: Path::parse("a").unwrap() };
            let mut commands = Commands::new();
            for (flags, token) in [
                (Flags::PERSISTENT, Some(1)),
                (Flags::PERSISTENT | Flags::ESCAPED, None),
                (Flags::NONE, Some(2)),
                (Flags::CHECKED, Some(3)),
                (Flags::PERSISTENT, None),
            ] {
                commands.message(&destination).extend_from_slice(b"k:v\n");
                commands.publish(b"x", Meta { flags, expires_ms: None }, token);
            }
            let runs = commands.drain().map(|command| match command {
                Command::Publish { run, confirm, confirm_first } => {
                    for message in run.messages() {
                        assert_eq!((message.properties, message.body), (&b"k:v\n"[..], &b"x"[..]));
                    }
                    (run.len(), run.any(Flags::PERSISTENT), confirm, confirm_first)
                }
                other => panic!("{other:?}"),
            });
            let runs: Vec<_> = runs.collect();
            let confirm = |from, to| Some(Confirm { from, to });
            match kind {
                Kind::Queue => assert_eq!(
                    runs,
                    [
                        (2, true, confirm(1, 1), true),
                        (2, false, confirm(2, 3), true),
                        (1, true, None, false)
                    ]
                ),
                _ => assert_eq!(runs, [(5, true, confirm(1, 3), true)]),
            }
        }
    }

    #[test]
    fn a_large_body_of_an_input_in_a_file_stays_there() {
        let file = Bytes::from(vec![b'x'; 2 * IN_FILE_BYTES_MIN]);
        let mut commands = Commands::new();
        let small = |commands: &mut Commands, token| {
            commands.message(&topic("a")).extend_from_slice(b"k:v\n");
            commands.publish(&file[..10], Meta::default(), token);
        };
        small(&mut commands, Some(1));
        commands.set_input_file(Some(file.clone()));
        small(&mut commands, Some(2));
        commands.message(&topic("a")).extend_from_slice(b"k:v\n");
        commands.publish(&file[1..IN_FILE_BYTES_MIN + 1], Meta::default(), Some(3));
        let elsewhere = vec![b'y'; IN_FILE_BYTES_MIN];
        commands.message(&topic("a")).extend_from_slice(b"k:v\n");
        commands.publish(&elsewhere, Meta::default(), None);
        commands.set_input_file(None);
        small(&mut commands, Some(5));
        let mut bodies = Vec::new();
        for command in commands.drain() {
            let Command::Publish { run, confirm, .. } = command else { panic!("{command:?}") };
            for message in run.messages() {
                assert_eq!(message.properties, b"k:v\n");
                bodies.push((message.body.len(), run.body_in_file().is_some(), confirm));
            }
        }
        let confirm = |token| Some(Confirm::one(token));
        assert_eq!(
            bodies[..3],
            [
                (10, false, confirm(1)),
                (10, false, confirm(2)),
                (IN_FILE_BYTES_MIN, true, confirm(3))
            ]
        );
        assert_eq!((bodies[3].0, bodies[3].1, bodies[4].0), (IN_FILE_BYTES_MIN, false, 10));
    }

    #[test]
    fn consecutive_messages_to_one_destination_share_a_run() {
        let mut commands = Commands::new();
        for (name, token) in
            [("a", None), ("a", Some(1)), ("a", Some(2)), ("b", Some(3)), ("a", None)]
        {
            commands.message(&topic(name)).extend_from_slice(b"k:v\n");
            commands.publish(b"x", Meta::default(), token);
        }
        commands.message(&topic("c")).extend_from_slice(b"abandoned");
        let runs: Vec<_> = commands
            .drain()
            .map(|command| match command {
                Command::Publish { run, confirm, confirm_first } => {
                    (run.destination().path.to_string(), run.len(), confirm, confirm_first)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            runs,
            [
                ("a".to_string(), 3, Some(Confirm { from: 1, to: 2 }), false),
                ("b".to_string(), 1, Some(Confirm::one(3)), true),
                ("a".to_string(), 1, None, false),
            ]
        );
    }

    #[test]
    fn a_delayed_message_is_a_run_of_its_own_with_its_own_receipt() {
        let mut commands = Commands::new();
        let delayed = Meta { flags: Flags::DELAYED, ..Meta::default() };
        let rows = [
            (Meta::default(), Some(1)),
            (delayed, Some(2)),
            (delayed, None),
            (Meta::default(), Some(3)),
            (Meta::default(), None),
        ];
        for ((meta, token), number) in rows.into_iter().zip(0..) {
            commands.message(&topic("a")).extend_from_slice(format!("n:{number}\n").as_bytes());
            commands.publish(b"x", meta, token);
        }
        let runs: Vec<_> = commands
            .drain()
            .map(|command| match command {
                Command::Publish { run, confirm, .. } => {
                    let blocks: Vec<u8> =
                        run.messages().flat_map(|it| it.properties.to_vec()).collect();
                    (String::from_utf8(blocks).unwrap(), confirm)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [
            ("n:0\n", Some(Confirm::one(1))),
            ("n:1\n", Some(Confirm::one(2))),
            ("n:2\n", None),
            ("n:3\nn:4\n", Some(Confirm::one(3))),
        ];
        assert_eq!(runs, expected.map(|(block, confirm)| (block.to_owned(), confirm)));
    }
}
