//! A WebSocket takes the session over.
//!
//! Invariant: one WebSocket at a time may try, and none after one has succeeded; until then requests
//! carry the session, and those that wait are ended soon.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{Context, Takeover};

use super::carrier::Carrier;
use super::send::write_anew;
use super::state::EngineSession;
use crate::revision::Revision;

impl EngineSession {
    pub(super) fn taken_over(
        &mut self,
        now: Now,
        takeover: Takeover,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let Carrier::Polling(polling) = &mut self.carrier else {
            // Done can only come to a session that polls; the others are offers to refuse.
            return match takeover {
                Takeover::Failed => Ok(()),
                _ => Err(Close::new(
                    CloseCode::UnexpectedFrame,
                    "a WebSocket carries the session already",
                )),
            };
        };
        match takeover {
            Takeover::Offered => polling.offer(now, &self.options),
            Takeover::Begun => {
                polling.begin_upgrade(context.output.queue);
                self.respond_script(context);
                Ok(())
            }
            Takeover::Failed => {
                polling.end_upgrade();
                Ok(())
            }
            Takeover::Done => {
                let (form, base64) = (polling.form, polling.base64);
                let pending = polling.take_unfetched();
                self.carrier = if base64 { Carrier::Base64 } else { Carrier::WebSocket };
                if !pending.is_empty() {
                    write_anew(form, &pending, base64, &mut context.output);
                }
                if self.pinged && self.revision == Revision::Four {
                    // The ping may have crossed with the upgrade.
                    self.due = self.silence_ends(now.time);
                }
                Ok(())
            }
        }
    }
}
