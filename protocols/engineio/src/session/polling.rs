//! Long polling: requests carry the session.
//!
//! ```text
//!   GET ─▶ held ─▶ answered with what is written from then on, when the turn ends
//!   nobody polls ─▶ what is written waits aside for the next GET
//! ```
//! Invariants: the connection's queue is written to only while a request is held, so it is empty
//! otherwise, and a request that was held is known to be answered when what was written has gone.

use tiderace_base::limits::WRITE_BLOCK_BYTES;
use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{Context, Framing, OutQueue, Output};

use crate::EngineOptions;
use crate::packet::PacketType;
use crate::payload::{Form, jsonp};

/// What a polling session keeps.
pub(super) struct Polling {
    pub(super) form: Form,
    /// Whether binary data stays base64 after an upgrade.
    pub(super) base64: bool,
    /// The page's callback, for clients that poll by script elements.
    pub(super) script: Option<u32>,
    /// What waits for the next poll, in the form of payloads.
    pub(super) pending: OutQueue,
    /// A poll waits for something to be written.
    pub(super) held: bool,
    /// Something was written for it.
    wrote: bool,
    /// A WebSocket tries to take over.
    upgrade: Upgrade,
    /// The session's id until the handshake has been answered.
    pub(super) sid: String,
    /// The session inside has ended and its last words wait for a poll.
    pub(super) closing: Option<Close>,
    /// When waiting for that, or for the upgrade, ends.
    pub(super) by: Time,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Upgrade {
    None,
    Offered,
    Begun,
}

impl Polling {
    pub(super) fn new(form: Form, script: Option<u32>, base64: bool, sid: String) -> Polling {
        Polling {
            form,
            base64,
            script,
            pending: OutQueue::new(),
            held: false,
            wrote: false,
            upgrade: Upgrade::None,
            sid,
            closing: None,
            by: Time::NEVER,
        }
    }

    /// Where the session inside writes now.
    pub(super) fn output<'a>(&'a mut self, queue: &'a mut OutQueue) -> Output<'a> {
        self.look(queue);
        let queue = if self.writes_through() { queue } else { &mut self.pending };
        Output { framing: Framing::Messages(self.form.framing()), queue }
    }

    /// Notes whether something was written for the held poll.
    pub(super) fn note(&mut self, queue: &OutQueue) {
        self.wrote |= self.held && !queue.is_empty();
    }

    pub(super) fn write(&mut self, kind: PacketType, data: &str, queue: &mut OutQueue) {
        let (form, output) = (self.form, self.output(queue));
        form.write(kind, data, output.queue.tail());
        self.note(queue);
    }

    /// Nobody waits any more.
    pub(super) fn release(&mut self) {
        (self.held, self.wrote) = (false, false);
    }

    /// A held poll has been answered when what was written for it has gone.
    pub(super) fn look(&mut self, queue: &OutQueue) {
        if self.wrote && queue.is_empty() {
            self.release();
        }
    }

    /// Scripts are answered with everything in one string, so it is gathered first.
    fn writes_through(&self) -> bool {
        self.held && self.script.is_none()
    }

    pub(super) fn has_room(&self) -> bool {
        self.closing.is_none() && self.pending.len() < WRITE_BLOCK_BYTES
    }

    /// Takes what waits as a whole payload.
    pub(super) fn payload(&mut self) -> Vec<u8> {
        let mut payload = self.pending.take_bytes();
        payload.drain(..self.form.skip().min(payload.len()));
        self.wrap(payload)
    }

    pub(super) fn wrap(&self, payload: Vec<u8>) -> Vec<u8> {
        let Some(index) = self.script else { return payload };
        let mut script = Vec::with_capacity(payload.len() + payload.len() / 8 + 32);
        jsonp::write(index, &payload, &mut script);
        script
    }

    /// A poll is held, and is answered by what has waited for it.
    pub(super) fn hold(&mut self, queue: &mut OutQueue) {
        self.held = true;
        if self.script.is_none() && !self.pending.is_empty() {
            queue.append(&mut self.pending);
        }
        self.note(queue);
        if self.upgrade == Upgrade::Begun {
            self.hurry(queue);
        }
    }

    /// Ends a held poll for which there is nothing.
    pub(super) fn hurry(&mut self, queue: &mut OutQueue) {
        self.look(queue);
        if self.held && !self.wrote && self.pending.is_empty() {
            self.write(PacketType::Noop, "", queue);
        }
    }

    /// Whether what has been gathered for a script is to be sent as the answer it waits for.
    pub(super) fn has_script(&self) -> bool {
        self.script.is_some() && self.held && !self.wrote && !self.pending.is_empty()
    }

    /// Writes what has been gathered for a script as the body of its held answer.
    pub(super) fn write_script(&mut self, queue: &mut OutQueue) {
        if self.has_script() {
            let script = self.payload();
            queue.tail().extend_from_slice(&script);
            self.wrote = true;
        }
    }

    /// Whether the session lives on until a poll has fetched its last words.
    pub(super) fn waits_to_close(
        &mut self,
        now: Now,
        close: &Close,
        context: &Context<'_>,
        options: &EngineOptions,
    ) -> bool {
        self.look(context.output.queue);
        if self.held || self.pending.is_empty() {
            return false;
        }
        self.closing = Some(close.clone());
        self.by = now.time + options.ping_timeout;
        true
    }

    /// A WebSocket wants to take over.
    pub(super) fn offer(&mut self, now: Now, options: &EngineOptions) -> Result<(), Close> {
        if self.upgrade != Upgrade::None || self.closing.is_some() || !options.upgrades {
            let reason = "another WebSocket tries to take the session over, or none may";
            return Err(Close::new(CloseCode::UnexpectedFrame, reason));
        }
        self.upgrade = Upgrade::Offered;
        // The probe gives up by itself; this is for one that vanished without a word.
        self.by = now.time + options.upgrade_timeout * 2;
        Ok(())
    }

    /// It works so far: polls are ended, so that the client can go over.
    pub(super) fn begin_upgrade(&mut self, queue: &mut OutQueue) {
        self.upgrade = Upgrade::Begun;
        self.hurry(queue);
    }

    pub(super) fn end_upgrade(&mut self) {
        self.upgrade = Upgrade::None;
        if self.closing.is_none() {
            self.by = Time::NEVER;
        }
    }

    /// Ends what waits too long; true if the session is closing, so that nothing else is due.
    pub(super) fn expire(&mut self, now: Now, context: &mut Context<'_>) -> bool {
        let over = now.time >= self.by;
        match &self.closing {
            Some(close) if over => context.finished = Some(close.clone()),
            None if over => self.end_upgrade(),
            _ => {}
        }
        self.closing.is_some()
    }
}
