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

use crate::options::EngineOptions;
use crate::packet::PacketType;
use crate::payload::{Form, jsonp};

/// What a polling session keeps while a poll is held and there is nothing to say: little.
pub(super) struct Polling {
    aside: Option<Box<Aside>>,
    pub(super) form: Form,
    /// Whether binary data stays base64 after an upgrade.
    pub(super) base64: bool,
    /// A poll waits for something to be written.
    pub(super) held: bool,
    /// Something was written for it.
    wrote: bool,
    /// A WebSocket tries to take over.
    upgrade: Upgrade,
}

const _: () = assert!(size_of::<Polling>() <= 16, "idle sessions are many");

/// What it keeps besides when there is something to keep.
struct Aside {
    /// The page's callback, for clients that poll by script elements.
    script: Option<u32>,
    /// What waits for the next poll, in the form of payloads.
    pending: OutQueue,
    /// The session's id until the handshake has been answered.
    sid: Option<String>,
    /// The session inside has ended and its last words wait for a poll.
    closing: Option<Close>,
    /// When waiting for that, or for the upgrade, ends.
    by: Time,
}

impl Default for Aside {
    fn default() -> Self {
        let (pending, by) = (OutQueue::new(), Time::NEVER);
        Aside { script: None, pending, sid: None, closing: None, by }
    }
}

impl Aside {
    fn is_empty(&self) -> bool {
        self.script.is_none()
            && self.pending.is_empty()
            && self.sid.is_none()
            && self.closing.is_none()
            && self.by == Time::NEVER
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Upgrade {
    None,
    Offered,
    Begun,
}

impl Polling {
    pub(super) fn new(form: Form, script: Option<u32>, base64: bool, sid: String) -> Polling {
        let aside = Some(Box::new(Aside { script, sid: Some(sid), ..Aside::default() }));
        Polling { aside, form, base64, held: false, wrote: false, upgrade: Upgrade::None }
    }

    pub(super) fn script(&self) -> Option<u32> {
        self.aside.as_ref()?.script
    }

    /// Why the session inside has ended, if its last words wait for a poll.
    pub(super) fn closing(&self) -> Option<&Close> {
        self.aside.as_ref()?.closing.as_ref()
    }

    /// When waiting for the last poll or for the upgrade ends.
    pub(super) fn by(&self) -> Time {
        self.aside.as_ref().map_or(Time::NEVER, |aside| aside.by)
    }

    /// Bytes that wait for the next poll.
    pub(super) fn unfetched(&self) -> usize {
        self.aside.as_ref().map_or(0, |aside| aside.pending.len())
    }

    /// Takes them out, as they were written.
    pub(super) fn take_unfetched(&mut self) -> Vec<u8> {
        let taken = self.aside.as_mut().map(|aside| aside.pending.take_bytes());
        self.tidy();
        taken.unwrap_or_default()
    }

    /// The session's id, once: for the answer to the handshake.
    pub(super) fn take_sid(&mut self) -> Option<String> {
        let sid = self.aside.as_mut()?.sid.take();
        self.tidy();
        sid
    }

    fn aside(&mut self) -> &mut Aside {
        self.aside.get_or_insert_default()
    }

    /// Forgets what is not needed any more.
    fn tidy(&mut self) {
        if self.aside.as_ref().is_some_and(|aside| aside.is_empty()) {
            self.aside = None;
        }
    }

    /// Where the session inside writes now.
    pub(super) fn output<'a>(&'a mut self, queue: &'a mut OutQueue) -> Output<'a> {
        self.look(queue);
        let framing = Framing::Messages(self.form.framing());
        let queue = if self.writes_through() { queue } else { &mut self.aside().pending };
        Output { framing, queue }
    }

    /// Something may have been written: notes whether it was for the held poll.
    pub(super) fn note(&mut self, queue: &OutQueue) {
        self.wrote |= self.held && !queue.is_empty();
        self.tidy();
    }

    /// Writes a packet for the next poll, whether one is held or not.
    pub(super) fn write_aside(&mut self, kind: PacketType) {
        let form = self.form;
        form.write(kind, "", self.aside().pending.tail());
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
        self.held && self.script().is_none()
    }

    pub(super) fn has_room(&self) -> bool {
        self.closing().is_none() && self.unfetched() < WRITE_BLOCK_BYTES
    }

    /// Takes what waits as a whole payload.
    pub(super) fn payload(&mut self) -> Vec<u8> {
        let mut payload = self.take_unfetched();
        payload.drain(..self.form.skip().min(payload.len()));
        self.wrap(payload)
    }

    pub(super) fn wrap(&self, payload: Vec<u8>) -> Vec<u8> {
        let Some(index) = self.script() else { return payload };
        let mut script = Vec::with_capacity(payload.len() + payload.len() / 8 + 32);
        jsonp::write(index, &payload, &mut script);
        script
    }

    /// A poll is held, and is answered by what has waited for it.
    pub(super) fn hold(&mut self, queue: &mut OutQueue) {
        self.held = true;
        if let Some(aside) = &mut self.aside
            && aside.script.is_none()
            && !aside.pending.is_empty()
        {
            queue.append(&mut aside.pending);
        }
        self.note(queue);
        if self.upgrade == Upgrade::Begun {
            self.hurry(queue);
        }
    }

    /// Ends a held poll for which there is nothing.
    pub(super) fn hurry(&mut self, queue: &mut OutQueue) {
        self.look(queue);
        if self.held && !self.wrote && self.unfetched() == 0 {
            self.write(PacketType::Noop, "", queue);
        }
    }

    /// Whether what has been gathered for a script is to be sent as the answer it waits for.
    pub(super) fn has_script(&self) -> bool {
        self.held && !self.wrote && self.script().is_some() && self.unfetched() > 0
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
        if self.held || self.unfetched() == 0 {
            return false;
        }
        let aside = self.aside();
        aside.closing = Some(close.clone());
        aside.by = now.time + options.ping_timeout;
        true
    }

    /// A WebSocket wants to take over.
    pub(super) fn offer(&mut self, now: Now, options: &EngineOptions) -> Result<(), Close> {
        if self.upgrade != Upgrade::None || self.closing().is_some() || !options.upgrades {
            let reason = "another WebSocket tries to take the session over, or none may";
            return Err(Close::new(CloseCode::UnexpectedFrame, reason));
        }
        self.upgrade = Upgrade::Offered;
        // The probe gives up by itself; this is for one that vanished without a word.
        self.aside().by = now.time + options.upgrade_timeout * 2;
        Ok(())
    }

    /// It works so far: polls are ended, so that the client can go over.
    pub(super) fn begin_upgrade(&mut self, queue: &mut OutQueue) {
        self.upgrade = Upgrade::Begun;
        self.hurry(queue);
    }

    pub(super) fn end_upgrade(&mut self) {
        self.upgrade = Upgrade::None;
        if let Some(aside) = &mut self.aside
            && aside.closing.is_none()
        {
            aside.by = Time::NEVER;
        }
        self.tidy();
    }

    /// Ends what waits too long; true if the session is closing, so that nothing else is due.
    pub(super) fn expire(&mut self, now: Now, context: &mut Context<'_>) -> bool {
        let over = now.time >= self.by();
        match self.closing() {
            Some(close) if over => context.finish(close.clone()),
            None if over => self.end_upgrade(),
            _ => {}
        }
        self.closing().is_some()
    }
}
