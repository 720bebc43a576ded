//! What a session asks of the connection that carries it, beside bytes and commands.
//!
//! A call leaves its actions in a list, in the order in which the session asked for them; the event loop does
//! them in that order. Almost every call leaves none, and then the list costs nothing.

use tiderace_base::Close;

use crate::{HandOver, Response, Ticket};

/// How far a WebSocket has come that is to carry a session begun by other means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// It has been opened. A session that answers with an error refuses it: the WebSocket is closed
    /// and the session goes on as it was.
    Offered,
    /// The client tries it out: a held request is to be answered soon, whatever there is to say.
    Begun,
    /// From now on it carries the session.
    Done,
    /// It was given up; the session stays as it is.
    Failed,
}

/// One thing that a session asks of its connection.
#[derive(Clone, PartialEq, Eq)]
pub enum SessionAction {
    /// Ends the connection in good order once the output is written. Of several the last one counts.
    Finish(Close),
    /// Answers the request that was answered by [`crate::Answer::Hold`] or [`crate::Answer::Later`].
    Respond(Response),
    /// Answers such a request with a stream, as [`crate::Answer::Stream`] does.
    RespondWithStream(Response),
    /// Tells another session how its takeover by this WebSocket goes; after [`Takeover::Done`] the connection
    /// belongs to that one and this one ends without a word.
    TakeOver(Ticket, Takeover),
    /// Gives the connection to the session that the client asks to go on with, wherever on the node it lives.
    /// Heard after calls that give the session bytes, which must have consumed and written nothing: the bytes
    /// come again. [`mod@crate::hand_over`] tells the whole story.
    HandOver(HandOver),
    /// Lets a session that has logged in be found by this id until it ends; at most once. The answer is
    /// [`crate::Session::client_session_id_decided`].
    ClientSessionId(Box<[u8]>),
    /// Takes in no more in this turn, since others would wait for it ([`crate::Intake`]): how many bytes of a
    /// message were taken in. The rest comes again in the next turn as a message of its own. Of a stream
    /// [`crate::Progress::consumed`] says how many; any number will do.
    Yield(usize),
    /// Reads nothing more before the next [`crate::Session::reply`]: bytes of a stream are left that wait for it.
    Wait,
}

impl std::fmt::Debug for SessionAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Tickets and ids are secrets.
        f.write_str(match self {
            SessionAction::Finish(_) => "Finish",
            SessionAction::Respond(_) => "Respond",
            SessionAction::RespondWithStream(_) => "RespondWithStream",
            SessionAction::TakeOver(..) => "TakeOver",
            SessionAction::HandOver(_) => "HandOver",
            SessionAction::ClientSessionId(_) => "ClientSessionId",
            SessionAction::Yield(_) => "Yield",
            SessionAction::Wait => "Wait",
        })
    }
}

/// What one call, or several, have asked for, in their order.
#[derive(Debug, Default)]
pub struct SessionActions(Vec<SessionAction>);

impl SessionActions {
    /// Adds one at the end.
    pub fn push(&mut self, action: SessionAction) {
        self.0.push(action);
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the connection is to end.
    pub fn is_finished(&self) -> bool {
        self.0.iter().any(|action| matches!(action, SessionAction::Finish(_)))
    }

    /// Whether the connection may get another session by what was asked for, so that this one is not to be
    /// given more before that is done.
    pub fn moves_connection(&self) -> bool {
        let moves = |action: &SessionAction| {
            matches!(action, SessionAction::TakeOver(..) | SessionAction::HandOver(_))
        };
        self.0.iter().any(moves)
    }

    /// All of them, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, SessionAction> {
        self.0.iter()
    }

    /// Takes all of them out, in order; the list keeps its memory.
    pub fn drain(&mut self) -> std::vec::Drain<'_, SessionAction> {
        self.0.drain(..)
    }

    /// Takes out the end of the connection.
    pub fn take_finish(&mut self) -> Option<Close> {
        let mut finish = None;
        let is_finish = |action: &SessionAction| matches!(action, SessionAction::Finish(_));
        while let Some(at) = self.0.iter().position(is_finish) {
            if let SessionAction::Finish(close) = self.0.remove(at) {
                finish = Some(close);
            }
        }
        finish
    }

    /// Takes out the answer to the request that waits.
    pub fn take_response(&mut self) -> Option<Response> {
        let is_answer = |action: &SessionAction| matches!(action, SessionAction::Respond(_));
        match self.0.iter().position(is_answer).map(|at| self.0.remove(at)) {
            Some(SessionAction::Respond(response)) => Some(response),
            _ => None,
        }
    }

    /// Whether nothing more is to be read before the session has its answer.
    pub fn waits(&self) -> bool {
        self.0.contains(&SessionAction::Wait)
    }

    /// Takes out how much of a message was taken in, if the session goes on in the next turn.
    #[inline]
    pub fn take_yield(&mut self) -> Option<usize> {
        if self.0.is_empty() { None } else { self.find_yield() }
    }

    #[cold]
    fn find_yield(&mut self) -> Option<usize> {
        let is_yield = |action: &SessionAction| matches!(action, SessionAction::Yield(_));
        match self.0.iter().position(is_yield).map(|at| self.0.remove(at)) {
            Some(SessionAction::Yield(taken)) => Some(taken),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiderace_base::CloseCode;

    #[test]
    fn actions_are_done_in_their_order_and_taken_out_once() {
        let mut actions = SessionActions::default();
        assert!(actions.is_empty() && actions.take_yield().is_none());
        actions.push(SessionAction::Yield(3));
        actions.push(SessionAction::Finish(CloseCode::Done.into()));
        actions.push(SessionAction::Finish(CloseCode::PeerGone.into()));
        assert!(actions.is_finished() && !actions.moves_connection());
        assert_eq!((actions.take_yield(), actions.take_yield()), (Some(3), None));
        assert_eq!(actions.take_finish().map(|close| close.code), Some(CloseCode::PeerGone));
        assert!(actions.is_empty());
        actions.push(SessionAction::TakeOver(Ticket::default(), Takeover::Begun));
        actions.push(SessionAction::ClientSessionId(Box::default()));
        assert!(actions.moves_connection());
        let order: Vec<String> = actions.drain().map(|action| format!("{action:?}")).collect();
        assert_eq!(order, ["TakeOver", "ClientSessionId"]);
    }
}
