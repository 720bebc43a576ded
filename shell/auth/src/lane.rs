//! A bounded queue of logins before a thread that verifies them.
//!
//! Relies on `shares`, so that nobody takes all places. Invariant: every login that is accepted is answered exactly once,
//! whatever becomes of it in the queue.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};

use tiderace_wire::Credentials;

use crate::principal::Principal;
use crate::shares::{self, Place, Shares};
use crate::verifier::LoginError;

/// Takes the result to the one that asked.
pub type Answer = Box<dyn FnOnce(Result<Principal, LoginError>) + Send>;

/// A login to verify.
pub struct LoginRequest {
    /// What the client sent.
    pub credentials: Credentials,
    /// Where the client is.
    pub address: IpAddr,
    /// The protocol that it speaks.
    pub protocol: &'static str,
    /// Whether TLS protects it.
    pub is_secured: bool,
    /// Who its certificate says that it is, if it has shown one that says so.
    pub certificate: Option<Principal>,
    /// Called with the result, on the thread that has it.
    pub answer: Answer,
}

impl LoginRequest {
    /// A login of which nothing else is known.
    pub fn new(credentials: Credentials, address: IpAddr, answer: Answer) -> LoginRequest {
        let (protocol, is_secured, certificate) = ("", false, None);
        LoginRequest { credentials, address, protocol, is_secured, certificate, answer }
    }
}

impl fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginRequest").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The end of the queue at which logins come. Each shard has its own clone.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    queue: SyncSender<Message>,
    shares: Arc<Mutex<Shares>>,
    flags: Flags,
}

/// What the thread is told beside its queue, which may be full. With the queue's own end it would never see the end of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    stopping: Arc<AtomicBool>,
    woken: Arc<AtomicBool>,
}

impl Flags {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Whether something has happened that logins may have waited for, since it was asked before.
    pub(crate) fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }
}

/// What the thread is given.
#[derive(Debug)]
pub(crate) enum Message {
    Login(Box<Pending>),
    /// Wakes a thread that waits for requests, so that it looks at its flags.
    Wake,
}

/// A request that answers for itself if nobody else does, whatever becomes of it, and its place until it is done with.
#[derive(Debug)]
pub(crate) struct Pending {
    request: Option<LoginRequest>,
    _place: Place,
}

impl Pending {
    /// The request, unless it has been answered.
    pub(crate) fn request(&self) -> Option<&LoginRequest> {
        self.request.as_ref()
    }

    /// Takes the request out, to be answered.
    pub(crate) fn take(&mut self) -> Option<LoginRequest> {
        self.request.take()
    }

    /// Answers it.
    pub(crate) fn answer(mut self, result: Result<Principal, LoginError>) {
        if let Some(request) = self.request.take() {
            (request.answer)(result);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            (request.answer)(Err(LoginError::Busy));
        }
    }
}

impl Lane {
    /// A queue with so many places, at least one, and the end at which the thread takes logins out.
    pub(crate) fn new(places: usize) -> (Lane, Receiver<Message>) {
        let (queue, requests) = sync_channel(places.max(1));
        let shares = Shares::new(places.max(1));
        (Lane { queue, shares, flags: Flags::default() }, requests)
    }

    /// Queues a login; never waits. `name` is what logins are counted by besides their address.
    pub(crate) fn submit(&self, request: LoginRequest, name: &str) -> Result<(), LoginError> {
        if self.flags.is_stopping() {
            return Err(LoginError::Busy);
        }
        let place = shares::take(&self.shares, request.address, name).ok_or(LoginError::Busy)?;
        let pending = Pending { request: Some(request), _place: place };
        let message = Message::Login(Box::new(pending));
        self.queue.try_send(message).map_err(|error| {
            let (TrySendError::Disconnected(message) | TrySendError::Full(message)) = error;
            if let Message::Login(mut pending) = message {
                // The caller learns it from the error instead.
                pending.request = None;
            }
            LoginError::Busy
        })
    }

    /// Something has happened that logins may have waited for.
    pub(crate) fn wake(&self) {
        self.flags.woken.store(true, Ordering::Release);
        // Before a full queue the thread is awake.
        let _ = self.queue.try_send(Message::Wake);
    }

    /// Has the thread stop, and answer what is left with [`LoginError::Busy`].
    pub(crate) fn stop(&self) {
        self.flags.stopping.store(true, Ordering::Release);
        let _ = self.queue.try_send(Message::Wake);
    }

    pub(crate) fn flags(&self) -> Flags {
        self.flags.clone()
    }
}
