//! Aliases: tokens of their own choice by which clients name their sessions.
//!
//! An alias has a home shard, which knows the session that has it; the session's shard gives it up when
//! the session ends. Questions and answers are mail between shards, in order, so a release never
//! overtakes the question before it. Relies on the session's principal being known when it asks.
//! Invariants: at most one session of a protocol has an alias at a time; only whoever is the same
//! principal, or has not said who it is, finds it; an alias is never in a log.

use std::collections::HashMap;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, ShardId};
use tiderace_wire::{ALIAS_BYTES_MAX, ALIAS_BYTES_MIN, Ticket};

use crate::driver::Driver;
use crate::mailbox::Letter;
use crate::shard::Shard;

/// An alias within its protocol.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Alias {
    /// The protocol's place among those that are served.
    pub(crate) protocol: u16,
    pub(crate) bytes: Box<[u8]>,
}

/// The aliases of one shard.
#[derive(Default)]
pub(crate) struct Aliases {
    /// As a home: who has which.
    known: HashMap<Alias, Entry>,
    /// What sessions here have, or have asked for.
    held: HashMap<Key, (Alias, Ticket)>,
    /// Answers that sessions here have not been told.
    answers: Vec<(Key, Result<(), CloseCode>)>,
    /// What connections here have not been told that look for a session.
    found: Vec<(Key, Option<Ticket>)>,
}

struct Entry {
    ticket: Ticket,
    principal: Arc<str>,
}

/// What shards tell each other of aliases.
pub(crate) enum AliasMail {
    /// To the home: a session wants it.
    Ask { alias: Alias, ticket: Ticket, principal: Arc<str> },
    /// To the session's shard: whether it has it.
    Answer { session: Key, outcome: Result<(), CloseCode> },
    /// To the home: a connection looks for the session that has it.
    Find { alias: Alias, principal: Option<Arc<str>>, shard: ShardId, seeker: Key },
    /// To the connection's shard: which that is.
    Found { seeker: Key, ticket: Option<Ticket> },
    /// To the home: the session that has it, or has asked for it, ends.
    Release { alias: Alias, ticket: Ticket },
}

impl AliasMail {
    /// What it counts for, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            AliasMail::Ask { alias, .. }
            | AliasMail::Find { alias, .. }
            | AliasMail::Release { alias, .. } => alias.bytes.len(),
            AliasMail::Answer { .. } | AliasMail::Found { .. } => 0,
        }
    }
}

impl Alias {
    /// Its home: a stable hash (FNV-1a), spread over the shards.
    pub(crate) fn home(&self, shards: usize) -> ShardId {
        let mix =
            |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let hash = self.bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix);
        ShardId(((hash ^ (hash >> 32)) % shards.max(1) as u64) as u16)
    }
}

impl Aliases {
    /// Gives an alias to a session, unless another one has it.
    fn give(
        &mut self,
        alias: Alias,
        ticket: Ticket,
        principal: Arc<str>,
        most: usize,
    ) -> Result<(), CloseCode> {
        if self.known.contains_key(&alias) {
            return Err(CloseCode::AliasTaken);
        }
        if self.known.len() >= most {
            return Err(CloseCode::TooManyDetached);
        }
        self.known.insert(alias, Entry { ticket, principal });
        Ok(())
    }

    fn release(&mut self, alias: &Alias, ticket: Ticket) {
        if self.known.get(alias).is_some_and(|entry| entry.ticket == ticket) {
            self.known.remove(alias);
        }
    }

    /// The session that has an alias, for somebody who has shown to be that principal, or nobody.
    fn find(&self, alias: &Alias, principal: Option<&str>) -> Option<Ticket> {
        let entry = self.known.get(alias)?;
        principal.is_none_or(|name| name == &*entry.principal).then_some(entry.ticket)
    }

    /// Whether sessions or connections wait to be told.
    pub(crate) fn has_answers(&self) -> bool {
        !self.answers.is_empty() || !self.found.is_empty()
    }
}

impl<D: Driver> Shard<D> {
    /// A session asks to be known by an alias.
    pub(crate) fn ask_alias(&mut self, key: Key, bytes: Box<[u8]>) {
        if !(ALIAS_BYTES_MIN..=ALIAS_BYTES_MAX).contains(&bytes.len()) {
            return self.aliases.answers.push((key, Err(CloseCode::BadAlias)));
        }
        let Some(live) = self.connections.get_mut(key).and_then(|record| record.live()) else {
            return;
        };
        let (protocol, id) = (live.protocol, live.id);
        let secret = live.session.secret().filter(|_| live.session.is_established());
        let named = secret.zip(self.broker.principal_name(id));
        let Some((secret, principal)) = named.filter(|_| !self.aliases.held.contains_key(&key))
        else {
            return self.aliases.answers.push((key, Err(CloseCode::BadAlias)));
        };
        let alias = Alias { protocol, bytes };
        let ticket = Ticket { shard: self.id, key, secret };
        self.aliases.held.insert(key, (alias.clone(), ticket));
        let home = alias.home(self.shared.doors.len());
        self.post_alias(home, AliasMail::Ask { alias, ticket, principal });
    }

    /// A session ends: its alias is free.
    pub(crate) fn release_alias(&mut self, key: Key) {
        if self.aliases.held.is_empty() {
            return;
        }
        if let Some((alias, ticket)) = self.aliases.held.remove(&key) {
            let home = alias.home(self.shared.doors.len());
            self.post_alias(home, AliasMail::Release { alias, ticket });
        }
    }

    /// A connection looks for the session that has an alias; it is told by [`Shard::found`].
    pub(crate) fn find_alias(&mut self, seeker: Key, alias: Alias, principal: Option<Arc<str>>) {
        let home = alias.home(self.shared.doors.len());
        let mail = AliasMail::Find { alias, principal, shard: self.id, seeker };
        self.post_alias(home, mail);
    }

    fn post_alias(&mut self, to: ShardId, mail: AliasMail) {
        match to == self.id {
            true => self.take_alias_mail(mail),
            false => self.post.send(to, Letter::Alias(Box::new(mail))),
        }
    }

    /// Takes mail about aliases; answers to sessions here wait for [`Shard::answer_aliases`].
    pub(crate) fn take_alias_mail(&mut self, mail: AliasMail) {
        match mail {
            AliasMail::Ask { alias, ticket, principal } => {
                let most = self.shared.options.connections_max;
                let outcome = self.aliases.give(alias, ticket, principal, most);
                let answer = AliasMail::Answer { session: ticket.key, outcome };
                self.post_alias(ticket.shard, answer);
            }
            AliasMail::Answer { session, outcome } => self.aliases.answers.push((session, outcome)),
            AliasMail::Find { alias, principal, shard, seeker } => {
                let ticket = self.aliases.find(&alias, principal.as_deref());
                self.post_alias(shard, AliasMail::Found { seeker, ticket });
            }
            AliasMail::Found { seeker, ticket } => self.aliases.found.push((seeker, ticket)),
            AliasMail::Release { alias, ticket } => self.aliases.release(&alias, ticket),
        }
    }

    /// Tells sessions whether they have the aliases that they asked for, and connections where the
    /// sessions are that they look for.
    pub(crate) fn answer_aliases(&mut self) {
        for (seeker, ticket) in std::mem::take(&mut self.aliases.found) {
            self.found(seeker, ticket);
        }
        for (key, outcome) in std::mem::take(&mut self.aliases.answers) {
            if outcome.is_err_and(|code| code != CloseCode::BadAlias) {
                self.aliases.held.remove(&key);
            }
            let outcome = outcome.map_err(Close::from);
            let called =
                self.call(key, |session, now, context| session.aliased(now, outcome, context));
            self.settle(key, called);
            self.wake_input(key);
            self.rearm(key);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn alias(protocol: u16, text: &str) -> Alias {
        Alias { protocol, bytes: text.as_bytes().into() }
    }

    fn ticket(secret: u128) -> Ticket {
        Ticket { secret, ..Ticket::default() }
    }

    #[test]
    fn one_session_at_a_time_has_an_alias() {
        let mut aliases = Aliases::default();
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let give = |aliases: &mut Aliases, secret, who: &Arc<str>| {
            aliases.give(alias(1, "token"), ticket(secret), who.clone(), 10)
        };
        assert_eq!(give(&mut aliases, 1, &ann), Ok(()));
        assert_eq!(give(&mut aliases, 2, &bob), Err(CloseCode::AliasTaken));
        aliases.release(&alias(1, "token"), ticket(2));
        assert_eq!(aliases.find(&alias(1, "token"), None), Some(ticket(1)), "it was not theirs");
        assert_eq!(aliases.find(&alias(1, "token"), Some("ann")), Some(ticket(1)));
        assert_eq!(aliases.find(&alias(1, "token"), Some("bob")), None);
        assert_eq!(aliases.find(&alias(2, "token"), None), None, "another protocol's");
        aliases.release(&alias(1, "token"), ticket(1));
        assert_eq!(give(&mut aliases, 2, &bob), Ok(()));
    }

    #[test]
    fn there_are_only_so_many() {
        let mut aliases = Aliases::default();
        for number in 0..4 {
            let outcome = aliases.give(alias(0, &number.to_string()), ticket(1), "a".into(), 3);
            assert_eq!(outcome.is_ok(), number < 3);
        }
    }

    #[test]
    fn homes_are_spread() {
        let mut counts = [0; 4];
        for number in 0..4_000u32 {
            counts[alias(0, &format!("token-{number}")).home(4).index()] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
