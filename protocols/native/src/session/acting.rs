//! PRINCIPAL and AS: what an edge passes on for its own clients.
//!
//! Relies on the broker for who may do that. Invariant: what stands in an AS is asked for its principal, and nothing else
//! is.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{Command, Context, EndPrincipal, Kind};

use super::NativeSession;
use crate::codec::{AsMessage, ClientMessage, Messages, PrincipalMessage};
use crate::limits::{AS_MESSAGES_MAX, PRINCIPALS_MAX};

impl NativeSession {
    pub(super) fn tell_principal(&mut self, told: &PrincipalMessage<'_>) -> Result<(), Close> {
        let place = (told.id as usize).checked_sub(1).filter(|place| *place < PRINCIPALS_MAX);
        let Some(place) = place else {
            let reason = format!("the ids of principals are 1 to {PRINCIPALS_MAX}");
            return Err(Close::new(CloseCode::BadHeader, reason));
        };
        let claim = |(name, value): &(&str, &str)| (Arc::from(*name), Arc::from(*value));
        let principal = EndPrincipal::new(
            told.name.into(),
            told.groups.iter().map(|group| Arc::from(*group)).collect(),
            told.claims.iter().map(claim).collect(),
            told.anonymous,
        );
        // There is no answer that could say so in a milder way.
        let principal = principal
            .map_err(|wrong| Close::new(CloseCode::BadHeader, format!("PRINCIPAL: {wrong}")))?;
        let known = &mut self.cold().principals;
        if known.len() <= place {
            known.resize(place + 1, None);
        }
        if let Some(slot) = known.get_mut(place) {
            *slot = Some(Arc::new(principal));
        }
        Ok(())
    }

    pub(super) fn act_as(
        &mut self,
        now: Now,
        message: AsMessage<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if message.count() > AS_MESSAGES_MAX {
            let reason = format!("AS holds at most {AS_MESSAGES_MAX} messages");
            return Err(Close::new(CloseCode::UnexpectedFrame, reason));
        }
        let place = (message.principal as usize).wrapping_sub(1);
        let known = self.cold.as_ref().and_then(|cold| cold.principals.get(place)?.clone());
        let Some(principal) = known else {
            let reason = format!("no PRINCIPAL has told who {} is", message.principal);
            return Err(Close::new(CloseCode::BadHeader, reason));
        };
        context.commands.push(Command::ActAs(Some(principal)));
        let done = self.do_for(now, message.messages, context);
        context.commands.push(Command::ActAs(None));
        done
    }

    fn do_for(
        &mut self,
        now: Now,
        messages: &[u8],
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let mut requests = 0;
        for message in Messages::new(messages) {
            let (kind, payload) = message.map_err(Close::from)?;
            match ClientMessage::read(kind, payload).map_err(Close::from)? {
                ClientMessage::Publish(publish) => self.publish(now, &publish, context)?,
                // One at most, so that the limit of requests in a transport message counts them all.
                ClientMessage::Operate(operate) if requests == 0 => {
                    requests += 1;
                    self.operate(now, &operate, context)?;
                }
                ClientMessage::Call(call) if requests == 0 => {
                    requests += 1;
                    self.call(&call, context)?;
                }
                ClientMessage::Subscribe(subscribe)
                    if requests == 0 && subscribe.kind == Kind::Queue =>
                {
                    requests += 1;
                    self.subscribe(&subscribe, context)?;
                }
                _ => {
                    let reason = "AS holds messages of the type PUBLISH, and at most one OPERATE, CALL or SUBSCRIBE to queues";
                    return Err(Close::new(CloseCode::UnexpectedFrame, reason));
                }
            }
        }
        Ok(())
    }
}
