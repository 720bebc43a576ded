//! A client that sends anything, beside one that behaves: what checks of fuzzed bytes are made of.
//!
//! Relies on the world and its connections. Invariants: the two clients are on different shards; what one of them sends
//! never ends the other's session.

use tiderace_base::{Now, Span, Time};
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{Framing, Opening, Session};

use crate::{Connection, World};

/// Bytes that a session may keep for a client that comes back, in these worlds of short inputs.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Two clients of one protocol in one world.
pub struct Neighbours {
    world: World,
    client: Connection,
    other: Connection,
}

impl Neighbours {
    /// Opens both. Nobody may touch what begins with `b` or `refused`.
    ///
    /// # Panics
    /// Never: the patterns are right.
    pub fn open(framing: Framing, open: impl Fn(&Opening<'_>) -> Box<dyn Session>) -> Neighbours {
        let pattern = |text: &&str| Pattern::parse(text).expect("a pattern");
        let rule = |allow, paths: &[&str]| Rule {
            allow,
            actions: Action::ALL.iter().map(|(_, action)| *action).collect(),
            who: vec![Who::All],
            paths: paths.iter().map(pattern).collect(),
            kind: None,
        };
        let rules = Rules::new(vec![rule(true, &[]), rule(false, &["b", "b/**", "refused/**"])]);
        let options = BrokerOptions { shards: 2, rules, ..BrokerOptions::default() };
        let mut world = World::new(Now::default(), options, None);
        let other = Connection::open(&mut world, 1, framing, &open);
        let client = Connection::open(&mut world, 0, framing, &open);
        Neighbours { world, client, other }
    }

    /// The client that behaves says something; its session has to be in order afterwards.
    ///
    /// # Panics
    /// When it is not.
    pub fn prepare(&mut self, say: impl FnOnce(&mut Connection, &mut World)) {
        say(&mut self.other, &mut self.world);
        assert!(self.other.session().is_established(), "{:?}", self.other.end());
    }

    /// The other client does something, and both are given what comes of it.
    ///
    /// # Panics
    /// When the session of either breaks what all sessions keep.
    pub fn act(&mut self, act: impl FnOnce(&mut Connection, &mut World)) {
        act(&mut self.client, &mut self.world);
        self.other.run(&mut self.world);
        self.client.run(&mut self.world);
        for connection in [&self.client, &self.other] {
            let session = connection.session();
            assert!(session.deadline() > Time::ZERO, "a deadline before the beginning");
            assert!(session.kept_bytes() < KEPT_BYTES_MAX, "{} bytes kept", session.kept_bytes());
        }
        let end = self.other.end();
        assert_eq!(end, None, "what one client sends ends no other session");
    }

    /// Time passes.
    ///
    /// # Panics
    /// As [`Neighbours::act`].
    pub fn wait(&mut self, span: Span) {
        self.act(|client, world| client.wait(world, span));
    }

    /// What the sessions of both have said since the last call, framing included.
    pub fn take_outputs(&mut self) -> [Vec<u8>; 2] {
        [self.client.take_output(), self.other.take_output()]
    }
}
