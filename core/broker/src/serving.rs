//! Services between the shards: the mail about them, and what a home does with it.
//!
//! ```text
//!   caller's shard ──Call──▶ home ──Assigned──▶ responder's shard
//!        ▲ ◀───────────────Met─────────────────────┘ │
//!        └───────────────────Spoken─────────────────▶┘ and back
//!                            home ◀──Released── when the exchange is over
//! ```
//! Every call is answered to its caller's shard once by [`ServiceMail::Met`] or, from its home, by
//! [`ServiceMail::Ended`]; every call that was assigned is released once.

use std::collections::VecDeque;

use tiderace_base::{Close, CloseCode, Key, Now, SessionId, ShardId};
use tiderace_queues::Consume;
use tiderace_topics::Path;
use tiderace_wire::SubscriptionKey;

use crate::broker::Broker;
use crate::effects::{Answer, Asker, Effects, Mail};
use crate::exchange::Said;
use crate::service::{Address, Calling, Responding, Step};

/// What shards tell each other about services and exchanges.
#[derive(Debug)]
pub enum ServiceMail {
    /// To a home: somebody calls. Comes back if the responder had gone.
    Call(Calling),
    /// To a home: the caller no longer waits.
    Cancel {
        /// What was called.
        service: Path,
        /// Who, on the sender's shard.
        caller: Key,
    },
    /// To a home: an exchange is over.
    Released {
        /// Whose place is free.
        responder: Key,
    },
    /// To a responder's shard.
    Assigned(Responding, Calling),
    /// To the caller's shard: who answers.
    Met {
        /// The caller's end.
        caller: Key,
        /// The responder's, on the sender's shard.
        responder: Key,
    },
    /// To the other side of an exchange.
    Spoken {
        /// Its end.
        to: Key,
        /// One message.
        said: Said,
    },
    /// To one side of an exchange: it is over.
    Ended {
        /// Its end.
        to: Key,
        /// Why.
        close: Close,
    },
}

/// Mail of a shard to itself, taken in order: one piece may lead to many others.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    mail: VecDeque<ServiceMail>,
    /// Whether somebody is at it.
    open: bool,
}

impl ServiceMail {
    /// Bytes it keeps in memory.
    pub fn bytes(&self) -> usize {
        match self {
            ServiceMail::Call(call) | ServiceMail::Assigned(_, call) => call.run.bytes(),
            ServiceMail::Spoken { said, .. } => said.run.bytes(),
            _ => 0,
        }
    }
}

impl Broker {
    /// Sends mail to a shard, which may be this one.
    pub(crate) fn post(&mut self, now: Now, to: ShardId, mail: ServiceMail, effects: &mut Effects) {
        if to != self.shard {
            effects.mail.push((to, Mail::Service(Box::new(mail))));
            return;
        }
        self.inbox.mail.push_back(mail);
        if std::mem::replace(&mut self.inbox.open, true) {
            return;
        }
        while let Some(mail) = self.inbox.mail.pop_front() {
            self.service_mail(now, to, mail, effects);
        }
        self.inbox.open = false;
    }

    pub(crate) fn service_mail(
        &mut self,
        now: Now,
        from: ShardId,
        mail: ServiceMail,
        effects: &mut Effects,
    ) {
        match mail {
            ServiceMail::Call(call) => {
                let mut out = Vec::new();
                let options = self.options.clone();
                self.services.call(call, &options.services, &mut out);
                self.take_steps(now, out, effects);
            }
            ServiceMail::Cancel { service, caller } => {
                let caller = Address { shard: from, key: caller };
                if self.services.cancel(&service, caller) {
                    let close = CloseCode::CallCancelled.into();
                    self.post(now, from, ServiceMail::Ended { to: caller.key, close }, effects);
                }
            }
            ServiceMail::Released { responder } => {
                let mut out = Vec::new();
                self.services.release(responder, &mut out);
                self.take_steps(now, out, effects);
            }
            ServiceMail::Assigned(to, call) => self.assigned(now, from, to, call, effects),
            ServiceMail::Met { caller, responder } => {
                self.met(now, caller, Address { shard: from, key: responder }, effects);
            }
            ServiceMail::Spoken { to, said } => self.heard(now, to, said, effects),
            ServiceMail::Ended { to, close } => self.told_of_end(now, to, close, effects),
        }
    }

    /// At a home: a subscription begins to serve.
    pub(crate) fn serve(
        &mut self,
        now: Now,
        from: ShardId,
        consume: &Consume,
        asker: Asker,
        effects: &mut Effects,
    ) {
        // The answer first: calls may follow it, never overtake it.
        self.answer(now, from, asker, Answer::default(), effects);
        let window = match consume.window.messages {
            0 => self.options.services.window,
            messages => messages,
        };
        let responding = Responding {
            session: consume.session,
            key: consume.key,
            epoch: asker.epoch,
            responder: Key::default(),
        };
        let mut out = Vec::new();
        let most = (window, consume.credit);
        self.services.serve(responding, &consume.target, most, &mut out);
        self.take_steps(now, out, effects);
    }

    /// At a home: somebody who serves may be given more calls.
    pub(crate) fn credit_responder(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        calls: u64,
        effects: &mut Effects,
    ) {
        let mut out = Vec::new();
        self.services.credit(session, key, calls, &mut out);
        self.take_steps(now, out, effects);
    }

    /// At a home: a subscription ends.
    pub(crate) fn serve_no_more(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        effects: &mut Effects,
    ) {
        let mut out = Vec::new();
        self.services.leave(session, key, &mut out);
        self.take_steps(now, out, effects);
    }

    fn take_steps(&mut self, now: Now, out: Vec<Step>, effects: &mut Effects) {
        for step in out {
            match step {
                Step::Assign(to, call) => {
                    let shard = to.session.shard;
                    self.post(now, shard, ServiceMail::Assigned(to, call), effects);
                }
                Step::Refuse(caller, code) => {
                    let mail = ServiceMail::Ended { to: caller.key, close: code.into() };
                    self.post(now, caller.shard, mail, effects);
                }
            }
        }
    }
}
