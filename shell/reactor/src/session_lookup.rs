//! Sessions ask for aliases, and connections look for the sessions that have them.
//!
//! Questions and answers are mail between shards, in order, so a release never overtakes the question before
//! it. Relies on the session's principal being known when it asks.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, ShardId};
use tiderace_wire::{ALIAS_BYTES_MAX, ALIAS_BYTES_MIN, Ticket};

use crate::client_session_ids::{Alias, AliasMail};
use crate::driver::Driver;
use crate::mailbox::Letter;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// A session asks to be known by an alias.
    pub(crate) fn ask_alias(&mut self, key: Key, bytes: Box<[u8]>) {
        if !(ALIAS_BYTES_MIN..=ALIAS_BYTES_MAX).contains(&bytes.len()) {
            return self.aliases.answer(key, Err(CloseCode::BadAlias));
        }
        let Some(live) = self.connections.get_mut(key).and_then(|record| record.live()) else {
            return;
        };
        let (protocol, id) = (live.protocol, live.id);
        let secret = live.session.secret().filter(|_| live.session.is_established());
        let named = secret.zip(self.broker.principal_name(id));
        let Some((secret, principal)) = named.filter(|_| !self.aliases.holds(key)) else {
            return self.aliases.answer(key, Err(CloseCode::BadAlias));
        };
        let alias = Alias { protocol, bytes };
        let ticket = Ticket { shard: self.id, key, secret };
        self.aliases.hold(key, alias.clone(), ticket);
        let home = alias.home(self.shared.wakers.len());
        self.post_alias(home, AliasMail::Ask { alias, ticket, principal });
    }

    /// A session ends: its alias is free.
    pub(crate) fn release_alias(&mut self, key: Key) {
        if let Some((alias, ticket)) = self.aliases.let_go(key) {
            let home = alias.home(self.shared.wakers.len());
            self.post_alias(home, AliasMail::Release { alias, ticket });
        }
    }

    /// A connection looks for the session that has an alias; it is told by [`Shard::found`].
    pub(crate) fn find_alias(&mut self, seeker: Key, alias: Alias, principal: Option<Arc<str>>) {
        let home = alias.home(self.shared.wakers.len());
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
            AliasMail::Answer { session, outcome } => self.aliases.answer(session, outcome),
            AliasMail::Find { alias, principal, shard, seeker } => {
                let ticket = self.aliases.find(&alias, principal.as_deref());
                self.post_alias(shard, AliasMail::Found { seeker, ticket });
            }
            AliasMail::Found { seeker, ticket } => self.aliases.note_found(seeker, ticket),
            AliasMail::Release { alias, ticket } => self.aliases.release(&alias, ticket),
        }
    }

    /// Tells sessions whether they have the aliases that they asked for, and connections where the
    /// sessions are that they look for.
    pub(crate) fn answer_aliases(&mut self) {
        for (seeker, ticket) in self.aliases.take_found() {
            self.found(seeker, ticket);
        }
        for (key, outcome) in self.aliases.take_answers() {
            if outcome.is_err_and(|code| code != CloseCode::BadAlias) {
                self.aliases.let_go(key);
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
