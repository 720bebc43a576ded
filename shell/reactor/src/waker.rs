//! The way into a shard for threads that are no shards, and for shards that find it asleep.
//!
//! Login workers, the store and the owner of the node leave events behind a lock, which the shard looks at
//! only when a flag says so. Invariant: a shard is woken at most once per sleep, and never sleeps while
//! something waits for it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use tiderace_base::{Close, CloseCode, Key, SessionId, Span};
use tiderace_broker::{AccessChange, Operated, Principal, StoreLoaded};
use tiderace_tls::Settings;
use tiderace_wire::{NodeReport, OperationResult, Token};

use crate::audit::Audit;
use crate::decided_login::DecidedLogin;
use crate::drain::board::DrainPlan;
use crate::driver::Wake;
use crate::session_walks::SessionJob;

/// What other threads tell a shard.
pub(crate) enum Notice {
    /// A login was decided.
    Verified(DecidedLogin),
    /// Records were stored or refused.
    Store(CommitResult),
    /// Messages were read back.
    Loaded(StoreLoaded),
    /// The spool has caught up with a frame of that connection, or has done with it.
    Spooled(Key),
    /// The addresses of the name that an attempt to reach an upstream has asked for.
    Resolved { upstream: usize, attempt: u64, addresses: io::Result<Vec<SocketAddr>> },
    /// Rules, limits and credentials are others.
    AccessChanged(Arc<AccessChange>),
    /// What a session has asked the node for was done, or not.
    NodeOperated { asked: Asked, result: Operated },
    /// The shard's sessions are to be looked at.
    Walk(Arc<SessionJob>),
    /// Connections that come from now on are secured by these.
    Secure(Settings),
    /// The node stops within this time.
    Shutdown(Span),
    /// The node sends its clients elsewhere, by the drain of this number.
    Drain(DrainPlan, u64),
    /// It does not any more; this end has a number like a beginning.
    DrainCancelled(u64),
}

/// The way into one shard for every other thread.
pub(crate) struct Waker {
    sleeping: AtomicBool,
    has_notices: AtomicBool,
    notices: Mutex<Vec<Notice>>,
    /// Bytes of messages sent to the shard and not handled by it.
    under_way: AtomicUsize,
    wake: Arc<dyn Wake>,
}

impl Waker {
    pub(crate) fn new(wake: Arc<dyn Wake>) -> Waker {
        Waker {
            sleeping: AtomicBool::new(false),
            has_notices: AtomicBool::new(false),
            notices: Mutex::new(Vec::new()),
            under_way: AtomicUsize::new(0),
            wake,
        }
    }

    /// Leaves a notice; any thread may.
    pub(crate) fn notify(&self, notice: Notice) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.push(notice);
        self.has_notices.store(true, Ordering::SeqCst);
        drop(notices);
        self.wake();
    }

    /// The notices left since the last call.
    pub(crate) fn take_notices(&self) -> Vec<Notice> {
        if !self.has_notices.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.has_notices.store(false, Ordering::SeqCst);
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *notices)
    }

    /// Whether notices wait, to the shard that is about to sleep.
    pub(crate) fn has_notices(&self) -> bool {
        self.has_notices.load(Ordering::SeqCst)
    }

    /// Bytes of messages sent to the shard and not handled by it.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Messages of so many bytes are about to be sent to the shard.
    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.under_way.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The shard has handled messages of so many bytes; says how many were under way before.
    pub(crate) fn remove_bytes(&self, bytes: usize) -> usize {
        self.under_way.fetch_sub(bytes, Ordering::Relaxed)
    }

    /// The shard is gone for good, and its messages with it.
    pub(crate) fn forget_messages(&self) {
        self.under_way.store(0, Ordering::Relaxed);
    }

    /// Wakes the shard if it sleeps. To be called after the message is where the shard finds it.
    pub(crate) fn wake(&self) {
        // Orders the message before the look at the flag, as `park` orders the flag before its look at
        // the message: one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::Relaxed) {
            self.wake.wake();
        }
    }

    /// The shard is about to sleep: a message sent after this call wakes it, one sent before has to be
    /// looked for now.
    pub(crate) fn park(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn unpark(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }
}

/// What became of records, and what may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitResult {
    /// All up to this number are kept.
    Stored(u64),
    /// Those up to this number that were not answered before are not kept.
    Refused {
        /// The number.
        up_to: u64,
        /// Nothing will be kept in this life of the server.
        is_fatal: bool,
    },
    /// The record with this number is not kept, for the file of its body could not be. Said before the answer to it, which
    /// is about those around it.
    BodyRefused(u64),
    /// Messages of queues have filled their share of the store, or there is room for some again.
    QueuesFull(bool),
}

/// The right to answer one login, once. Forgetting to answer refuses the login.
pub struct Answer {
    session: SessionId,
    wakers: Arc<[Waker]>,
    answered: bool,
}

impl Answer {
    pub(crate) fn new(session: SessionId, wakers: Arc<[Waker]>) -> Answer {
        Answer { session, wakers, answered: false }
    }

    /// The session that wants to log in, for logs.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Decides the login. Wakes the session's shard; never blocks for long.
    pub fn send(mut self, result: Result<Principal, Close>) {
        self.post(result, None);
    }

    /// Accepts the login for a while: then the session ends, unless it has logged in again.
    pub fn accept_for(mut self, principal: Principal, valid_for: Span) {
        self.post(Ok(principal), Some(valid_for));
    }

    fn post(&mut self, result: Result<Principal, Close>, valid_for: Option<Span>) {
        self.answered = true;
        if let Some(waker) = self.wakers.get(self.session.shard.index()) {
            let decided = DecidedLogin { session: self.session, result, valid_for };
            waker.notify(Notice::Verified(decided));
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.answered {
            let reason = "the login could not be checked; try again";
            self.post(Err(Close::new(CloseCode::LoginFailed, reason)), None);
        }
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Who has asked for something, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) link: u32,
    pub(crate) session: SessionId,
    pub(crate) token: Token,
}

/// The right to answer one operation, once. Forgetting to answer refuses it.
pub struct NodeAnswer {
    asked: Asked,
    /// What is recorded of it, if it is a change.
    audit: Option<Audit>,
    wakers: Arc<[Waker]>,
    is_answered: bool,
}

impl NodeAnswer {
    pub(crate) fn new(asked: Asked, audit: Option<Audit>, wakers: Arc<[Waker]>) -> NodeAnswer {
        NodeAnswer { asked, audit, wakers, is_answered: false }
    }

    /// The session that has asked.
    pub fn session(&self) -> SessionId {
        self.asked.session
    }

    /// Says what came of it. Wakes the session's shard; never blocks for long.
    pub fn send(self, result: Result<NodeReport, Close>) {
        self.tell(result.map(|report| OperationResult::Node(Box::new(report))));
    }

    /// The same, whatever kind of answer it is.
    pub(crate) fn tell(mut self, result: Operated) {
        self.post(result);
    }

    fn post(&mut self, result: Operated) {
        self.is_answered = true;
        if let Some(audit) = self.audit.take() {
            audit.end(result.as_ref());
        }
        if let Some(waker) = self.wakers.get(self.asked.session.shard.index()) {
            waker.notify(Notice::NodeOperated { asked: self.asked, result });
        }
    }
}

impl Drop for NodeAnswer {
    fn drop(&mut self) {
        if !self.is_answered {
            let reason = "this server does nothing of that kind now; try again";
            self.post(Err(Close::new(CloseCode::BadOperation, reason)));
        }
    }
}

impl std::fmt::Debug for NodeAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeAnswer").field("asked", &self.asked).finish_non_exhaustive()
    }
}
