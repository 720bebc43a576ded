//! Packets of the client: what each asks for.
//!
//! Relies on `packet` for what may come. Invariant: a packet that is not a client's to send ends the session.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{Context, Incoming};

use super::inner::give;
use super::state::EngineSession;
use crate::packet::{Packet, PacketType};

impl EngineSession {
    /// Takes a packet in; false if nothing more is to be taken in.
    #[inline]
    pub(super) fn packet(
        &mut self,
        now: Now,
        packet: &Packet<'_>,
        context: &mut Context<'_>,
    ) -> Result<bool, Close> {
        match packet.kind {
            PacketType::Message => {
                let (bytes, text) = packet.data.bytes();
                let message = Incoming { text, bytes };
                self.call_inner(now, context, |inner, within| give(inner, now, message, within));
            }
            PacketType::Ping => self.pinged(now, packet, context)?,
            PacketType::Pong => self.ponged(now)?,
            PacketType::Close => {
                context.commands.take_leave();
                return Ok(false);
            }
            PacketType::Noop => {}
            PacketType::Open | PacketType::Upgrade => {
                let reason = "this packet is not a client's to send here";
                return Err(Close::new(CloseCode::UnexpectedFrame, reason));
            }
        }
        Ok(!context.is_finished() && !self.is_closing())
    }
}
