//! Operations: from a session to the homes of the topics that they concern, and their answers back.
//!
//! An operation on one path is done by the path's home. One on a selector is done by every home for
//! its own topics, and the session's shard puts the answers together. Who asks travels along, since
//! what is allowed is found at the home, where owners are known. Invariant: every operation is
//! answered once, or its session has ended.

use tiderace_base::{CloseCode, Now, SessionId};
use tiderace_journal::{AnswerKind, Awaited};
use tiderace_topics::compiled_bytes;
use tiderace_wire::{Browsable, Operation, OperationResult, QueueQuery, Reply, Token};

use crate::BrokerOptions;
use crate::effects::{AskNode, Effects, NodeEffect};
use crate::fetch::bytes_of;
use crate::home::queue_jobs::Chosen;
use crate::home_side::HomeSide;
use crate::journal::Answer;
use crate::messages::{LocalMessage, ToHome};
use crate::places::{Place, PlaceSet, REGISTRAR};
use crate::price::{COMPILED, COPIED_BYTES, LISTED};
use crate::relay::Relay;
use crate::requester::{Done, Operated, Requester};
use crate::scatter_gather::ScatterGather;
use crate::session_side::SessionSide;
use crate::work::Deferred;

impl SessionSide<'_> {
    /// On the session's shard.
    pub(crate) fn operate(
        &mut self,
        session: SessionId,
        token: Token,
        operation: Operation,
        effects: &mut Effects,
    ) {
        let Some(mut requester) = self.requester(session, token) else { return };
        let is_held = self.held_by(&operation).is_some();
        let may = BrokerOptions::may_come_by(&requester.principal, &operation);
        match may.and_then(|()| self.options.operated_at(&requester.principal, &operation, is_held))
        {
            Ok(None) => {}
            Ok(Some((home, principal))) => {
                let relay = ToHome::Relay(Relay::operation(principal, requester, operation));
                return self.send(home, relay, effects);
            }
            Err(close) => return self.loopback.answer_operation(&requester, Err(close), effects),
        }
        if !self.may_hold(session, &operation) {
            let result = Err(CloseCode::TooManyTopics.into());
            return self.loopback.answer_operation(&requester, result, effects);
        }
        match operation {
            Operation::Session => {
                let name = requester.principal.name.clone();
                let result = OperationResult::Session(name, self.state_of(session));
                self.loopback.answer_operation(&requester, Ok(result), effects);
            }
            Operation::Will(will) => self.give_will(requester, will, effects),
            Operation::Fetch(_) => self.scatter(&requester, operation, effects),
            Operation::Topic { ref path } => {
                match self.options.may_show_topic(requester.caller(), path) {
                    Ok(()) => self.scatter(&requester, operation, effects),
                    Err(close) => self.loopback.answer_operation(&requester, Err(close), effects),
                }
            }
            Operation::Remove { .. } => {
                self.note_jobs(session, self.homes());
                self.scatter(&requester, operation, effects);
            }
            Operation::Browse(browse) => self.send_for_page(requester, browse, effects),
            Operation::Sessions(_)
            | Operation::Kick(_)
            | Operation::Blocks(_)
            | Operation::Traces(_)
            | Operation::Drain(_)
            | Operation::DrainCancel
            | Operation::DrainState
            | Operation::Stats
            | Operation::Node(_) => self.ask_node(&requester, operation, effects),
            Operation::View { .. } => {
                self.send_operation(REGISTRAR, requester, operation, effects);
            }
            Operation::Views => {
                let requester = Box::new(requester);
                self.loopback.hand_on(LocalMessage::ListViews { requester });
            }
            Operation::Create { ref path, .. }
            | Operation::Amend { ref path, .. }
            | Operation::Abandon { ref path }
            | Operation::Claim { ref path }
            | Operation::Release { ref path }
            | Operation::Lock { name: ref path, .. }
            | Operation::Unlock { name: ref path } => {
                let home = self.options.home_of(path);
                self.note_holding(session, token, &operation);
                self.send_operation(home, requester, operation, effects);
            }
            Operation::Queue(QueueQuery { ref path, .. })
            | Operation::PauseQueue { ref path, .. } => {
                let home = self.options.home_of(path);
                self.send_operation(home, requester, operation, effects);
            }
            Operation::CreateSubscription(ref about) => {
                let home = self.options.home_of(&about.queue);
                self.send_operation(home, requester, operation, effects);
            }
            Operation::DeleteSubscription { ref queue } => {
                let home = self.options.home_of(queue);
                self.send_operation(home, requester, operation, effects);
            }
            Operation::Purge { ref path, .. } => {
                let home = self.options.home_of(path);
                self.note_job(session, home);
                self.send_operation(home, requester, operation, effects);
            }
            Operation::Peek(ref peek) => {
                let home = self.options.home_of(&peek.path);
                self.send_operation(home, requester, operation, effects);
            }
            Operation::Move(ref asked) => {
                let home = self.options.home_of(&asked.from);
                self.note_job(session, home);
                self.send_operation(home, requester, operation, effects);
            }
            Operation::History(ref query) => {
                let home = self.options.home_of(&query.path);
                self.send_operation(home, requester, operation, effects);
            }
            Operation::Update(ref update) => {
                let home = self.options.home_of(&update.path);
                match self.fence_for(session, update.condition.as_ref()) {
                    Ok(fence) => {
                        requester.fence = fence;
                        self.note_holding(session, token, &operation);
                        self.send_operation(home, requester, operation, effects);
                    }
                    Err(close) => self.loopback.answer_operation(&requester, Err(close), effects),
                }
            }
        }
    }

    /// A session that asks for something, if it is there and has logged in.
    fn requester(&self, session: SessionId, token: Token) -> Option<Requester> {
        let principal = self.session(session)?.principal.as_deref()?.clone();
        Some(Requester { session, token, principal, fence: 0 })
    }

    /// What concerns the node as a whole is done by who runs it, if the session may ask for it; who runs it answers in any
    /// case, and so hears of what was refused.
    fn ask_node(&mut self, requester: &Requester, operation: Operation, effects: &mut Effects) {
        let allowed = self.options.may_ask_node(&requester.principal, &operation);
        let Some(link) = self.session(requester.session).map(|record| record.link) else { return };
        let Requester { session, token, .. } = *requester;
        let asked = AskNode { link, session, token, operation, allowed };
        effects.node.push(NodeEffect::Ask(asked));
    }

    pub(crate) fn send_operation(
        &mut self,
        home: Place,
        requester: Requester,
        operation: Operation,
        effects: &mut Effects,
    ) {
        let (requester, operation) = (Box::new(requester), Box::new(operation));
        self.send(home, ToHome::Operate { requester, operation }, effects);
    }

    /// Asks every home.
    fn scatter(&mut self, requester: &Requester, operation: Operation, effects: &mut Effects) {
        let homes = self.homes();
        let gather = ScatterGather::new(homes, &operation);
        let asked = gather.slice().unwrap_or(operation);
        self.sessions.begin_gather(requester.session, requester.token, gather);
        self.ask_homes(homes, requester, &asked, effects);
    }

    fn ask_homes(
        &mut self,
        homes: PlaceSet,
        requester: &Requester,
        operation: &Operation,
        effects: &mut Effects,
    ) {
        for home in homes.iter() {
            let (requester, operation) = (Box::new(requester.clone()), Box::new(operation.clone()));
            // Which homes have yet to answer is known without a pending request for each.
            self.loopback.send(home, ToHome::Operate { requester, operation }, effects);
        }
    }

    /// On the session's shard: an answer has come.
    pub(crate) fn operated(
        &mut self,
        from: Place,
        session: SessionId,
        token: Token,
        result: Operated,
        effects: &mut Effects,
    ) {
        let Some(gather) = self.sessions.gather_mut(session, token) else {
            self.note_answer(session, token, &result);
            self.note_will(session, token, &result);
            return self.reply(session, told(token, result), effects);
        };
        if !gather.take_in(from, result) {
            return;
        }
        if let Some((homes, slice)) = gather.next_round()
            && let Some(requester) = self.requester(session, token)
        {
            return self.ask_homes(homes, &requester, &slice, effects);
        }
        let Some(gathered) = self.sessions.end_gather(session, token) else { return };
        self.reply(session, told(token, gathered.into_result()), effects);
    }
}

/// What a session is told of an operation.
fn told(token: Token, result: Operated) -> Reply {
    match result {
        Ok(result) => Reply::Operated { token, result: Box::new(result) },
        Err(close) => Reply::Refused { token: Some(token), close },
    }
}

impl HomeSide<'_> {
    /// At a home: does it if it fits into the turn, or lets it wait for the next.
    pub(crate) fn operate_at_home(
        &mut self,
        now: Now,
        requester: Requester,
        operation: Operation,
        effects: &mut Effects,
    ) {
        let (session, price) = (requester.session, self.price_of_operation(&operation));
        if self.must_catch_up(&operation) || !self.may_run(now, session, price) {
            let what = Deferred::Operation(Box::new((requester, operation)));
            return self.defer(session, what, effects);
        }
        self.do_operation(now, requester, operation, effects);
    }

    /// At a home: does it, and answers unless that takes longer.
    pub(crate) fn do_operation(
        &mut self,
        now: Now,
        requester: Requester,
        operation: Operation,
        effects: &mut Effects,
    ) {
        self.relieve_feeds(now, effects);
        let before = self.journal.last_record();
        let compiled = compiled_bytes();
        let kind = kind_of(&operation);
        let result = match operation {
            Operation::Create { path, spec, value } => {
                self.create_topic(now, &requester, &path, &spec, value, effects)
            }
            Operation::Update(update) => self.update_topic(now, &requester, &update, effects),
            Operation::Amend { path, version, value } => {
                self.amend(now, &requester, &path, version, &value, effects)
            }
            Operation::CreateSubscription(about) => {
                self.create_subscription(&requester, now, *about, effects)
            }
            Operation::Remove { selector } => {
                return self.begin_removal(now, requester, selector, effects);
            }
            Operation::Purge { path, selector, up_to } => {
                let chosen = Chosen::new(selector, None, up_to);
                return self.begin_purge(now, requester, &path, chosen, effects);
            }
            Operation::Peek(peek) => return self.begin_peek(now, requester, *peek, effects),
            Operation::Move(asked) => return self.begin_move(now, requester, *asked, effects),
            Operation::Lock { name, timeout } => {
                return self.lock(now, requester, name, timeout, effects);
            }
            // Neither the sessions nor the views of the shard are the home's.
            Operation::Topic { path } => {
                let topic = Box::new(self.topic_at_home(now, path));
                let requester = Box::new(requester);
                return self.loopback.hand_on(LocalMessage::ShowTopic { requester, topic });
            }
            Operation::Browse(browse) if browse.what == Browsable::Sessions => {
                let requester = Box::new(requester);
                return self.loopback.hand_on(LocalMessage::BrowseSessions { requester, browse });
            }
            Operation::View { name, text } => {
                let requester = Box::new(requester);
                return self.loopback.hand_on(LocalMessage::ChangeView { requester, name, text });
            }
            other => self.do_other(now, &requester, other, effects).map(Done::from),
        };
        // What the schemas of a specification or the expressions of a view have taken.
        self.work.charge_at(now, COMPILED * (compiled_bytes() - compiled));
        // What is there already may stand in earlier records, for which the answer waits as well.
        let appended = self.journal.appended_since(before);
        let own = |record: u64| Awaited { after: before, until: appended.max(record) };
        match result {
            Ok(Done { result, record, fed: Some(fed) }) => {
                let answer = Answer::Operated(Box::new(requester), Box::new(result));
                self.answer_fed(now, *fed, (own(record), answer), effects);
            }
            Ok(Done { result, record, fed: None }) => {
                self.answer_stored((own(record), kind), &requester, Ok(result), effects);
            }
            Err(close) => self.answer_stored((own(0), kind), &requester, Err(close), effects),
        }
    }

    /// An operation that is answered at once and writes no topic's value for its session.
    fn do_other(
        &mut self,
        now: Now,
        requester: &Requester,
        operation: Operation,
        effects: &mut Effects,
    ) -> Operated {
        match operation {
            Operation::Fetch(fetch) => {
                let page = self.slice(now, requester, &fetch);
                let bytes = page.topics.iter().map(bytes_of).sum::<usize>() as u64;
                let listed = LISTED * page.topics.len() as u64 + bytes / COPIED_BYTES;
                self.work.charge_at(now, listed);
                Ok(OperationResult::Page(Box::new(page)))
            }
            Operation::Browse(browse) => Ok(self.browse(now, requester, &browse)),
            Operation::Queue(query) => self.show_queue(now, requester, &query),
            Operation::PauseQueue { path, on } => {
                self.pause_queue(now, requester, (&path, on), effects)
            }
            Operation::DeleteSubscription { queue } => {
                self.delete_subscription(requester, &queue, effects)
            }
            Operation::Unlock { name } => self.unlock(now, requester, &name, effects),
            Operation::Abandon { path } => {
                self.abandon(&path, requester.session);
                Ok(OperationResult::Done)
            }
            Operation::Claim { path } => self.claim(now, requester, &path),
            Operation::Release { path } => self.release_claim(requester, &path),
            Operation::History(query) => self.read_history(now, requester, &query),
            Operation::Will(will) => self.check_will(requester, will.as_deref()),
            _ => Err(CloseCode::BadRequest.into()),
        }
    }
}

/// What an answer to an operation says that is done in one turn.
fn kind_of(operation: &Operation) -> AnswerKind {
    match operation {
        Operation::DeleteSubscription { .. } => AnswerKind::Removal,
        _ => AnswerKind::Write,
    }
}
