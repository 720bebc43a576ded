//! Passing on to an upstream what clients of this node ask of its topics, and its answers back.
//!
//! ```text
//!  session ──Relay──▶ waits ──Publish, Operate──▶ upstream ──Answered──▶ session
//!                       │ the upstream is away for too long, or too much waits: "upstream-away", nothing was done
//!                       └ sent, and the connection is lost before the answer: "outcome-unknown"
//! ```
//! Relies on [`Relays`](super::relays::Relays) for order and bounds, and on the upstream for one answer to each request.
//! Invariants: no request is sent twice; each that wants an answer has one, which says "done" only if the upstream has said
//! so.

use tiderace_base::{Close, CloseCode, MemoryUse, Now, SessionId, Span};
use tiderace_topics::Path;
use tiderace_wire::{Change, Confirm, Kind, Operation, ToUpstream};

use super::Deputy;
use super::relays::{Answers, Sent};
use super::settling::set_request;
use crate::Action;
use crate::deputy_side::DeputySide;
use crate::effects::Effects;
use crate::messages::{LocalMessage, ToPublisher};
use crate::places::Place;
use crate::relay::{Relay, Wanted};
use crate::requester::{Operated, Requester};
use crate::room::check_room;

/// Requests that are refused in one call.
const REFUSED_AT_ONCE: usize = 4096;

impl DeputySide<'_> {
    /// A request for what an upstream keeps has come from its session.
    pub(crate) fn relay(&mut self, now: Now, relay: Relay, effects: &mut Effects) {
        let at = match self.deputy_for(&relay.wanted) {
            Ok(at) => at,
            Err(close) => return self.refuse_relay(relay, close, effects),
        };
        if let Err(close) = self.admit_relay(now, at, &relay) {
            return self.refuse_relay(relay, close, effects);
        }
        self.home.memory.charge(MemoryUse::Input, relay.bytes());
        let session = relay.session;
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        if deputy.relays.push(relay) {
            self.tell_relaying(session, true, effects);
        }
        self.send_relays(at, effects);
    }

    /// The deputy that a request is for, if the rules of this node let it be made.
    fn deputy_for(&self, wanted: &Wanted) -> Result<usize, Close> {
        let gone = || Close::from(CloseCode::UpstreamAway);
        match wanted {
            // That is not asked for, but said (`settling.rs`).
            Wanted::Say { .. } => Err(gone()),
            Wanted::Publish { run, .. } => match run.destination().kind {
                Kind::Queue => self.at_queue(&run.destination().path).ok_or_else(gone),
                _ => self.at_topic(&run.destination().path).ok_or_else(gone),
            },
            Wanted::Operate { requester, operation } => {
                if let Some((action, path)) = on_queue(operation) {
                    self.home.may_on_queue(requester, action, path)?;
                    if let Operation::Move(asked) = &**operation
                        && let Some(to) = &asked.to
                    {
                        self.home.may_on_queue(requester, Action::Send, to)?;
                    }
                    return self.at_queue(path).ok_or_else(gone);
                }
                self.may_relay(requester, operation)?;
                let path = match &**operation {
                    Operation::Create { path, .. } | Operation::Amend { path, .. } => path,
                    Operation::Update(update) => &update.path,
                    Operation::Remove { selector } => {
                        let named =
                            selector.first().and_then(|it| self.home.options.writing_upstream(it));
                        let is_its = |deputy: &Deputy| {
                            named.is_some_and(|(place, _)| place == usize::from(deputy.upstream))
                        };
                        return self.deputies.list.iter().position(is_its).ok_or_else(gone);
                    }
                    _ => return Err(CloseCode::BadRequest.into()),
                };
                self.at_topic(path).ok_or_else(gone)
            }
        }
    }

    /// Whether the rules of this node, and the owners of topics that it knows, let somebody ask for that. What is not
    /// known here counts as not there.
    fn may_relay(&self, requester: &Requester, operation: &Operation) -> Result<(), Close> {
        let home = &self.home;
        match operation {
            Operation::Create { path, value, .. } => {
                home.may_operate(requester, Action::Create, path)?;
                match value {
                    Some(_) => home.may_operate(requester, Action::Publish, path),
                    None => Ok(()),
                }
            }
            Operation::Update(update) => {
                let path = &update.path;
                if update.spec.is_some() && home.topic_named(path).is_none_or(|it| !it.is_known()) {
                    home.may_operate(requester, Action::Create, path)?;
                }
                home.may_operate(requester, Action::Publish, path)?;
                let depends =
                    update.condition.is_some() || !matches!(update.change, Change::Value(_));
                match depends {
                    true => home.may_operate(requester, Action::Subscribe, path),
                    false => Ok(()),
                }
            }
            Operation::Amend { path, .. } => home.may_operate(requester, Action::Publish, path),
            Operation::Remove { selector } => {
                let (rules, principal) = (&home.options.rules, &requester.principal);
                selector.iter().try_for_each(|pattern| match pattern.as_path() {
                    Some(path) => home.may_operate(requester, Action::Create, &path),
                    // Which topics there are is known at the upstream alone.
                    None => {
                        let action = Action::Create;
                        match rules.authorise_all(principal, action, Kind::Topic, pattern) {
                            true => Ok(()),
                            false => {
                                let (name, pattern) = (&*principal.name, pattern.as_str());
                                Err(crate::authorise::denied(name, action, Kind::Topic, pattern))
                            }
                        }
                    }
                })
            }
            _ => Err(CloseCode::BadRequest.into()),
        }
    }

    /// Whether a request may wait for the upstream.
    fn admit_relay(&self, now: Now, at: usize, relay: &Relay) -> Result<(), Close> {
        let Some(deputy) = self.deputies.list.get(at) else {
            return Err(CloseCode::UpstreamAway.into());
        };
        if deputy.relays.are_refused() {
            return Err(self.takes_none(at));
        }
        if deputy.link.is_none() && self.is_long_away(now, at) {
            return Err(self.away(at));
        }
        if !deputy.relays.have_room(relay.bytes()) {
            let name = self.name_of_upstream(at);
            let reason = format!(
                "too much waits for the upstream {name} already, and this was not passed on to it; try again later"
            );
            return Err(Close::new(CloseCode::UpstreamAway, reason));
        }
        check_room(self.home.memory, MemoryUse::Input, relay.bytes())
    }

    /// Sends requests, as many as may be under way.
    pub(super) fn send_relays(&mut self, at: usize, effects: &mut Effects) {
        while let Some(deputy) = self.deputies.list.get_mut(at)
            && let Some(link) = deputy.link
            && let Some((request, relay, resumes)) = deputy.relays.send_next()
        {
            self.home.memory.refund(MemoryUse::Input, relay.bytes());
            let Relay { session, principal, wanted } = relay;
            let asked = match wanted {
                Wanted::Publish { run, .. } => ToUpstream::Publish { request, principal, run },
                Wanted::Operate { operation, .. } => {
                    ToUpstream::Operate { request, principal, operation }
                }
                Wanted::Say { mut asked, confirm: Some(_) } => {
                    set_request(&mut asked, request);
                    *asked
                }
                Wanted::Say { asked, confirm: None } => {
                    // It is not answered.
                    deputy.relays.answered(request);
                    *asked
                }
            };
            let asked = Box::new(asked);
            self.home.loopback.hand_on(LocalMessage::Upstream { session: link, asked });
            if resumes {
                self.tell_relaying(session, false, effects);
            }
        }
    }

    /// The upstream says whether it takes requests.
    pub(super) fn requests_taken(&mut self, at: usize, taken: bool, effects: &mut Effects) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        deputy.relays.note_taken(taken);
        match taken {
            true => self.send_relays(at, effects),
            false => {
                let close = self.takes_none(at);
                self.refuse_waiting(at, &close, effects);
            }
        }
    }

    /// The upstream has answered a request.
    pub(super) fn relay_answered(
        &mut self,
        at: usize,
        (request, result): (u32, Operated),
        effects: &mut Effects,
    ) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(sent) = deputy.relays.answered(request) else { return };
        match &result {
            Ok(_) => self.home.metrics.upstream_relayed += 1,
            Err(_) => self.home.metrics.upstream_relay_refused += 1,
        }
        self.answer_relay(sent.session, sent.answers, result, effects);
        self.send_relays(at, effects);
    }

    /// The connection is lost: nobody knows what became of what was sent.
    pub(super) fn lose_relays(&mut self, at: usize, effects: &mut Effects) {
        let name = self.name_of_upstream(at);
        let reason = format!(
            "the connection to the upstream {name} was lost before it answered; what was asked for may have been done there, \
             or not"
        );
        let close = Close::new(CloseCode::OutcomeUnknown, reason);
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        for Sent { session, answers, .. } in deputy.relays.unlink() {
            self.home.metrics.upstream_relay_unknown += 1;
            // Who has asked for no answer has been promised nothing, and its message may be there.
            if !matches!(answers, Answers::Receipts(None)) {
                self.answer_relay(session, answers, Err(close.clone()), effects);
            }
        }
    }

    /// Housekeeping: what waits for an upstream that is away for too long, or takes no requests, is refused.
    pub(super) fn end_overdue_relays(&mut self, now: Now, at: usize, effects: &mut Effects) {
        let Some(deputy) = self.deputies.list.get(at).filter(|deputy| deputy.relays.some_wait())
        else {
            return;
        };
        let close = match deputy.link {
            Some(_) if deputy.relays.are_refused() => self.takes_none(at),
            None if self.is_long_away(now, at) => self.away(at),
            _ => return,
        };
        self.refuse_waiting(at, &close, effects);
    }

    /// Refuses what has waited longest, and the rest at the next housekeeping: very much may wait.
    fn refuse_waiting(&mut self, at: usize, close: &Close, effects: &mut Effects) {
        let mut left = REFUSED_AT_ONCE;
        while left > 0
            && let Some(deputy) = self.deputies.list.get_mut(at)
            && let Some((relay, resumes)) = deputy.relays.take_first()
        {
            left -= 1;
            self.home.memory.refund(MemoryUse::Input, relay.bytes());
            let session = relay.session;
            self.refuse_relay(relay, close.clone(), effects);
            if resumes {
                self.tell_relaying(session, false, effects);
            }
        }
    }

    fn refuse_relay(&mut self, relay: Relay, close: Close, effects: &mut Effects) {
        self.home.metrics.upstream_relay_refused += 1;
        let answers = Answers::of(&relay.wanted);
        self.answer_relay(relay.session, answers, Err(close), effects);
    }

    fn answer_relay(
        &mut self,
        session: SessionId,
        answers: Answers,
        result: Operated,
        effects: &mut Effects,
    ) {
        match (answers, result) {
            (Answers::Operation(requester), result) => {
                self.home.loopback.answer_operation(&requester, result, effects);
            }
            (Answers::Receipts(Some(confirm)), Ok(_)) => {
                self.home.confirm(session, confirm, effects);
            }
            (Answers::Receipts(None), Ok(_)) => {}
            (Answers::Receipts(confirm), Err(close)) => {
                let blame = confirm.map(|confirm: Confirm| confirm.from);
                self.home.refuse_run(Some(session), confirm, blame, &close, effects);
            }
        }
    }

    /// Tells a session's shard that it is not to be read, or again.
    pub(super) fn tell_relaying(&mut self, session: SessionId, on: bool, effects: &mut Effects) {
        self.home.send(Place::of(session), ToPublisher::Relaying { session, on }, effects);
    }

    pub(super) fn is_long_away(&self, now: Now, at: usize) -> bool {
        let Some(deputy) = self.deputies.list.get(at) else { return true };
        let upstream = self.home.options.upstreams.get(usize::from(deputy.upstream));
        let timeout = upstream.map_or(Span::ZERO, |upstream| upstream.timeout);
        now.time >= deputy.away + timeout
    }

    pub(super) fn away(&self, at: usize) -> Close {
        let name = self.name_of_upstream(at);
        let reason = format!(
            "the upstream {name} cannot be reached, so this was not passed on to it and nothing was done; try again later"
        );
        Close::new(CloseCode::UpstreamAway, reason)
    }

    pub(super) fn takes_none(&self, at: usize) -> Close {
        let name = self.name_of_upstream(at);
        let reason = format!(
            "the upstream {name} does not take requests of other nodes' clients; update it, or connect to it for this"
        );
        Close::new(CloseCode::TopicElsewhere, reason)
    }

    pub(super) fn name_of_upstream(&self, at: usize) -> String {
        let deputy = self.deputies.list.get(at);
        let upstream =
            deputy.and_then(|deputy| self.home.options.upstreams.get(usize::from(deputy.upstream)));
        upstream.map_or_else(String::new, |upstream| upstream.name.to_string())
    }
}

/// The right that an operation on a queue needs, and the queue.
fn on_queue(operation: &Operation) -> Option<(Action, &Path)> {
    match operation {
        Operation::Queue(query) => Some((Action::Browse, &query.path)),
        Operation::Purge { path, .. } | Operation::PauseQueue { path, .. } => {
            Some((Action::Manage, path))
        }
        Operation::Move(asked) => Some((Action::Manage, &asked.from)),
        _ => None,
    }
}
