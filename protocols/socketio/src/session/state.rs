//! What a session knows, and what all its duties need of that.
//!
//! Relies on the tables beside it, each of which keeps what belongs to one duty. Invariant: what is rarely used costs
//! eight bytes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tiderace_base::{Close, Time};
use tiderace_topics::Path;
use tiderace_wire::{
    Bases, Credentials, Kind, Opening, Target, Token, bad_name, parse_path, parse_selector,
};

use super::assembly::Assembly;
use super::exchanges::Exchanges;
use super::held::HeldMessages;
use super::namespace::Namespaces;
use super::questions::Questions;
use super::subscriptions::Subscriptions;
use super::trail::{Resume, Trail};
use crate::options::SocketOptions;
use crate::query;

/// Which protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// Socket.IO 1 and 2, over Engine.IO 3: `/` is connected from the beginning.
    V4,
    /// Socket.IO 3 and 4, over Engine.IO 4.
    V5,
}

/// How far the login has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Login {
    /// Nothing was asked for.
    None,
    /// The broker is looking at credentials.
    Pending,
    /// The client is known.
    Done,
}

/// One client's conversation in Socket.IO.
pub(crate) struct SocketSession {
    pub(super) options: Arc<SocketOptions>,
    pub(super) namespaces: Namespaces,
    pub(super) subscriptions: Subscriptions,
    pub(super) cold: Option<Box<ColdState>>,
    pub(super) principal: Option<Arc<str>>,
    /// How far the client has come, once that matters.
    pub(super) trail: Option<Box<Trail>>,
    /// The node's present life.
    pub(super) epoch: u64,
    /// Two words, so that the session needs no alignment to sixteen bytes.
    pub(super) secret: [u64; 2],
    /// When a client that connects to nothing is given up.
    pub(super) deadline: Time,
    pub(super) tokens: Token,
    pub(super) calls: u32,
    pub(super) asks: u64,
    /// Connects to namespaces so far.
    pub(super) connects: u32,
    pub(super) version: Version,
    pub(super) login: Login,
    /// Whether the principal's name is not authenticated.
    pub(super) anonymous: bool,
    /// Whether the session said itself that it is over.
    pub(super) over: bool,
}

const _: () = assert!(size_of::<SocketSession>() <= 176, "there may be millions of idle ones");

/// What most sessions need only for moments.
#[derive(Default)]
pub(super) struct ColdState {
    /// The credentials of the request the session began with.
    pub(super) credentials: Option<Credentials>,
    /// Whose login is under way, in order.
    pub(super) logins: VecDeque<LoginFor>,
    /// What namespaces asked to go on with.
    pub(super) resumes: BTreeMap<u8, Resume>,
    pub(super) questions: Questions,
    pub(super) exchanges: Exchanges,
    /// The packet whose attachments are coming.
    pub(super) assembly: Option<Assembly>,
    pub(super) held: HeldMessages,
    /// What subscriptions with deltas were sent last.
    pub(super) bases: Bases,
}

impl ColdState {
    fn is_empty(&self) -> bool {
        self.credentials.is_none()
            && self.logins.is_empty()
            && self.resumes.is_empty()
            && self.questions.is_empty()
            && self.exchanges.is_empty()
            && self.assembly.is_none()
            && self.held.is_empty()
            && self.bases.is_empty()
    }
}

/// Whose login is under way.
#[derive(Debug)]
pub(super) enum LoginFor {
    /// The namespaces'.
    Connect,
    /// An event's.
    Event {
        /// The number of its namespace.
        namespace: u8,
        ack: Option<u64>,
    },
}

impl SocketSession {
    /// Begins a conversation.
    pub(crate) fn new(options: Arc<SocketOptions>, opening: &Opening<'_>) -> SocketSession {
        let revision = opening.request.and_then(|request| request.query_value("EIO"));
        let version = if revision == Some("3") { Version::V4 } else { Version::V5 };
        let credentials =
            opening.request.and_then(|request| query::of_request(request, version == Version::V4));
        let cold = credentials
            .is_some()
            .then(|| Box::new(ColdState { credentials, ..ColdState::default() }));
        let secret = opening.ticket.secret;
        SocketSession {
            namespaces: Namespaces::default(),
            subscriptions: Subscriptions::default(),
            cold,
            principal: None,
            anonymous: true,
            trail: None,
            epoch: opening.epoch,
            secret: [(secret >> 64) as u64, secret as u64],
            deadline: opening.now.time + options.connect_timeout,
            options,
            tokens: 0,
            calls: 0,
            asks: 0,
            connects: 0,
            version,
            login: Login::None,
            over: false,
        }
    }

    /// What most sessions need only for moments, made if there is none.
    #[inline]
    pub(super) fn cold(&mut self) -> &mut ColdState {
        self.cold.get_or_insert_default()
    }

    pub(super) fn secret(&self) -> u128 {
        let [high, low] = self.secret;
        u128::from(high) << 64 | u128::from(low)
    }

    /// The next token.
    #[inline]
    pub(super) fn token(&mut self) -> Token {
        self.tokens = self.tokens.wrapping_add(1);
        self.tokens
    }

    /// Forgets what is not needed any more.
    #[inline]
    pub(super) fn tidy(&mut self) {
        if self.cold.as_ref().is_some_and(|cold| cold.is_empty()) {
            self.cold = None;
        }
    }

    /// How far the client has come, noted from now on.
    #[inline]
    pub(super) fn trail(&mut self) -> &mut Trail {
        let epoch = self.epoch;
        self.trail.get_or_insert_with(|| Trail::new(epoch))
    }

    /// Whether this session may be gone on with.
    #[inline]
    pub(super) fn remembers(&self) -> bool {
        self.version == Version::V5 && self.options.recovery.is_some()
    }

    /// The path of that name; `~/` begins with the client's own.
    pub(super) fn path(&self, name: &str) -> Result<Path, Close> {
        parse_path(name, self.owner())
    }

    /// Whose topics `~/` stands for: nobody's for anonymous clients.
    fn owner(&self) -> Option<&str> {
        self.principal.as_deref().filter(|_| !self.anonymous)
    }

    /// What a name of topics stands for: one, or a selector of many.
    pub(super) fn topics(&self, name: &str) -> Result<Vec<Target>, Close> {
        let selector = parse_selector(name, self.owner())?;
        Ok(Target::of(Kind::Topic, selector))
    }

    /// The topic of a room, or of the namespace itself if the name is empty.
    pub(super) fn room_path(&self, namespace: &str, room: &str) -> Result<Path, Close> {
        let mut text = String::with_capacity(64);
        for part in [&*self.options.application_prefix, namespace.trim_start_matches('/'), room] {
            if part.is_empty() {
                continue;
            }
            if !text.is_empty() {
                text.push('/');
            }
            text.push_str(part);
        }
        Path::parse(&text).map_err(|error| {
            let name = if room.is_empty() { namespace } else { room };
            bad_name(name, error)
        })
    }
}
