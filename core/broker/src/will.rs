//! Wills: what is published when a session ends without having taken it back.
//!
//! A will is kept on its session's shard, and published with the rights that the session has at its
//! end. Where the rules refuse to publish there, the topic's home is asked whether the session owns
//! it. Invariant: a session has one will at most, and it is the one that was accepted last.

use tiderace_base::{Close, MemoryUse, SessionId};
use tiderace_wire::{Operation, OperationResult, Run, Token};

use crate::Action;
use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::places::key_of;
use crate::requester::Operated;
use crate::requester::Requester;
use crate::room::check_room;
use crate::session::AskedWill;
use crate::session_side::SessionSide;
use crate::temporary::check_temporary;

impl SessionSide<'_> {
    /// On its session's shard: a will is given, or taken back.
    pub(crate) fn give_will(
        &mut self,
        requester: Requester,
        will: Option<Box<Run>>,
        effects: &mut Effects,
    ) {
        let (session, token) = (requester.session, requester.token);
        let may = will.as_ref().map_or(Ok(()), |run| {
            check_temporary(run).and_then(|()| self.may_publish(session, run.destination()))
        });
        let room = will
            .as_ref()
            .map_or(Ok(()), |run| check_room(self.memory, MemoryUse::Wills, run.bytes()));
        if let Err(close) = room {
            return self.loopback.answer_operation(&requester, Err(close), effects);
        }
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        let rare = record.rare.get_or_insert_default();
        // Whatever is still being asked is not the last word.
        rare.asked_will = None;
        match (may, will) {
            (Ok(()), will) => {
                rare.set_will(will, self.memory);
                self.loopback.answer_operation(&requester, Ok(OperationResult::Done), effects);
            }
            (Err(_), Some(run)) if self.may_own(session, run.destination()) => {
                let home = self.options.home_of(&run.destination().path);
                let operation = Operation::Will(Some(run.clone()));
                if let Some(record) = self.sessions.get_mut(key_of(session)) {
                    let asked = AskedWill { token, run };
                    record.rare.get_or_insert_default().asked_will = Some(Box::new(asked));
                }
                self.send_operation(home, requester, operation, effects);
            }
            (Err(close), _) => self.loopback.answer_operation(&requester, Err(close), effects),
        }
    }

    /// On its session's shard: the client says goodbye.
    pub(crate) fn take_leave(&mut self, session: SessionId) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        let rare = record.rare.get_or_insert_default();
        rare.set_will(None, self.memory);
        (rare.asked_will, rare.leaving) = (None, true);
    }

    /// On the session's shard: a home has said whether the will that it was asked about may be left.
    pub(crate) fn note_will(
        &mut self,
        session: SessionId,
        token: Token,
        result: &Result<OperationResult, Close>,
    ) {
        let record = self.sessions.get_mut(key_of(session));
        let Some(rare) = record.and_then(|record| record.rare.as_mut()) else { return };
        let asked = rare.asked_will.take_if(|asked| asked.token == token);
        if let (Some(asked), Ok(_)) = (asked, result) {
            rare.set_will(Some(asked.run), self.memory);
        }
    }
}

impl HomeSide<'_> {
    /// At a topic's home: whether a session may leave a will there as the topic's owner.
    pub(crate) fn check_will(&self, requester: &Requester, will: Option<&Run>) -> Operated {
        let Some(run) = will else { return Ok(OperationResult::Done) };
        self.may_operate(requester, Action::Publish, &run.destination().path)?;
        Ok(OperationResult::Done)
    }
}
