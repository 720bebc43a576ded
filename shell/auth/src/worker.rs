//! The thread that hashes passwords, so that no shard has to.
//!
//! Relies on `verifier` and `failures`. The answer is a closure, called on the worker's thread: it should
//! only put the result into the mailbox of the shard that asked. Invariant: every accepted request is
//! answered exactly once, also when the worker stops.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tiderace_base::Time;
use tiderace_wire::Credentials;

use crate::failures::{FailurePolicy, Failures};
use crate::principal::Principal;
use crate::shares::{self, Place, Shares};
use crate::verifier::{Check, LoginError, Verifier};

/// Takes the result to the one that asked.
pub type Answer = Box<dyn FnOnce(Result<Principal, LoginError>) + Send>;

/// A login to verify.
pub struct LoginRequest {
    /// What the client sent.
    pub credentials: Credentials,
    /// Where the client is.
    pub address: IpAddr,
    /// Called with the result on the worker's thread.
    pub answer: Answer,
}

impl fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginRequest").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Owns the thread; dropping it stops the thread and answers what is left with [`LoginError::Busy`].
#[derive(Debug)]
pub struct AuthWorker {
    handle: AuthHandle,
    thread: Option<JoinHandle<()>>,
}

/// Hands logins to the worker. Each shard has its own clone.
#[derive(Debug, Clone)]
pub struct AuthHandle {
    queue: SyncSender<Message>,
    verifier: Arc<Verifier>,
    shares: Arc<Mutex<Shares>>,
    is_stopping: Arc<AtomicBool>,
}

/// `Stop` wakes a worker that waits for requests.
#[derive(Debug)]
enum Message {
    Login(Pending),
    Stop,
}

/// A request that answers for itself if nobody else does, whatever becomes of it in the queue, and its
/// place until it is done with.
#[derive(Debug)]
struct Pending {
    request: Option<LoginRequest>,
    _place: Place,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            (request.answer)(Err(LoginError::Busy));
        }
    }
}

impl AuthWorker {
    /// Starts the thread. `queue_max` logins may wait; at 20 ms each, 64 are about a second.
    ///
    /// # Errors
    /// When the operating system grants no thread.
    pub fn start(
        verifier: Arc<Verifier>,
        policy: FailurePolicy,
        queue_max: usize,
    ) -> io::Result<AuthWorker> {
        let (queue, requests) = sync_channel(queue_max.max(1));
        let is_stopping = Arc::new(AtomicBool::new(false));
        let handle = AuthHandle {
            queue,
            verifier: Arc::clone(&verifier),
            shares: Shares::new(queue_max.max(1)),
            is_stopping: Arc::clone(&is_stopping),
        };
        let thread = thread::Builder::new()
            .name("auth".to_owned())
            .spawn(move || run(&verifier, policy, requests, &is_stopping))?;
        Ok(AuthWorker { handle, thread: Some(thread) })
    }

    /// A handle for another thread.
    pub fn handle(&self) -> AuthHandle {
        self.handle.clone()
    }
}

impl Drop for AuthWorker {
    fn drop(&mut self) {
        self.handle.is_stopping.store(true, Ordering::Release);
        // A full queue needs no wake-up: the worker finds the flag at its next request.
        let _ = self.handle.queue.try_send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of an answer has been reported by the panic hook already.
            let _ = thread.join();
        }
    }
}

impl AuthHandle {
    /// Queues a login; never waits. One that takes no hashing, such as a token, is answered at once, by
    /// the caller's thread.
    ///
    /// # Errors
    /// [`LoginError::Busy`] when the client's address or name has its share of the queue, when the queue
    /// is full, or when the worker has stopped; the answer is not called then.
    pub fn submit(&self, mut request: LoginRequest) -> Result<(), LoginError> {
        if self.is_stopping.load(Ordering::Acquire) {
            return Err(LoginError::Busy);
        }
        request.credentials = match self.verifier.check(request.credentials) {
            Check::Decided(result) => {
                (request.answer)(result);
                return Ok(());
            }
            Check::NeedsHash(credentials) => credentials,
        };
        let name = request.credentials.login.as_deref().unwrap_or_default();
        let place = shares::take(&self.shares, request.address, name).ok_or(LoginError::Busy)?;
        let message = Message::Login(Pending { request: Some(request), _place: place });
        self.queue.try_send(message).map_err(|error| {
            let (TrySendError::Disconnected(message) | TrySendError::Full(message)) = error;
            if let Message::Login(mut pending) = message {
                // The caller learns it from the error instead.
                pending.request = None;
            }
            LoginError::Busy
        })
    }
}

fn run(
    verifier: &Verifier,
    policy: FailurePolicy,
    requests: Receiver<Message>,
    is_stopping: &AtomicBool,
) {
    let started = Instant::now();
    let mut failures = Failures::new(policy);
    while let Ok(Message::Login(mut pending)) = requests.recv() {
        if is_stopping.load(Ordering::Acquire) {
            // What still waits goes with the queue and is answered on the way, so that no client
            // hangs until its login times out.
            break;
        }
        let Some(request) = pending.request.take() else {
            continue;
        };
        let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (credentials, address) = (request.credentials, request.address);
        let result = verify(verifier, &mut failures, credentials, address, Time::from_nanos(nanos));
        (request.answer)(result);
    }
}

fn verify(
    verifier: &Verifier,
    failures: &mut Failures,
    credentials: Credentials,
    address: IpAddr,
    now: Time,
) -> Result<Principal, LoginError> {
    let login = credentials.login.as_deref().unwrap_or_default();
    if failures.is_blocked(login, address, now) {
        return Err(LoginError::TooManyFailures);
    }
    let result =
        verifier.verify_password(login, credentials.passcode.as_deref().unwrap_or_default());
    match result {
        Ok(_) => failures.forgive(login, address),
        Err(_) => failures.record(login, address, now),
    }
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use super::*;
    use crate::verifier::AnonymousAccess;
    use crate::verifier::tests::{login, verifier};

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    type Reply = Result<Principal, LoginError>;

    fn start(failures_max: u32, queue_max: usize) -> AuthWorker {
        let policy = FailurePolicy { failures_max, window: Duration::from_secs(3_600) };
        AuthWorker::start(Arc::new(verifier(AnonymousAccess::Refused)), policy, queue_max).unwrap()
    }

    fn request(credentials: Credentials, replies: &Sender<Reply>) -> LoginRequest {
        let replies = replies.clone();
        LoginRequest {
            credentials,
            address: HERE,
            answer: Box::new(move |result| replies.send(result).unwrap()),
        }
    }

    #[test]
    fn logins_are_answered_and_guessing_is_stopped() {
        let worker = start(2, 16);
        let (replies, results) = channel();
        for password in ["swordfish", "wrong", "wronger", "swordfish"] {
            worker.handle().submit(request(login("bob", password), &replies)).unwrap();
        }
        assert_eq!(
            results.recv().unwrap(),
            Ok(Principal::named("bob", ["traders"]).bound(Some("shop")))
        );
        assert_eq!(results.recv().unwrap(), Err(LoginError::Refused));
        assert_eq!(results.recv().unwrap(), Err(LoginError::Refused));
        assert_eq!(
            results.recv().unwrap(),
            Err(LoginError::TooManyFailures),
            "not even the right password"
        );
    }

    /// A login from one of many addresses.
    fn from(address: u8, name: &str, replies: &Sender<Reply>) -> LoginRequest {
        let address = IpAddr::from([192, 0, 2, address]);
        LoginRequest { address, ..request(login(name, "swordfish"), replies) }
    }

    /// Holds the worker until the value is used, by a login from nowhere else.
    fn hold(handle: &AuthHandle) -> Sender<()> {
        let (release, gate) = channel::<()>();
        let (entered, is_inside) = channel();
        let answer: Answer = Box::new(move |_| {
            entered.send(()).unwrap();
            gate.recv().unwrap();
        });
        handle
            .submit(LoginRequest { credentials: login("holder", "x"), address: HERE, answer })
            .unwrap();
        is_inside.recv().unwrap();
        release
    }

    #[test]
    fn a_flood_from_one_address_leaves_places_for_others_and_none_is_lost() {
        let worker = start(0, 16);
        let handle = worker.handle();
        let release = hold(&handle);
        let (replies, results) = channel();
        let flood: Vec<_> =
            (0..100).map(|at| handle.submit(from(1, &format!("name {at}"), &replies))).collect();
        assert!(flood.contains(&Err(LoginError::Busy)));
        assert_eq!(handle.submit(from(2, "bob", &replies)), Ok(()));
        // One name from everywhere leaves places as well.
        let flood: Vec<_> = (10..200).map(|at| handle.submit(from(at, "ann", &replies))).collect();
        assert!(flood.contains(&Err(LoginError::Busy)));
        assert_eq!(handle.submit(from(3, "bob", &replies)), Ok(()));
        release.send(()).unwrap();
        drop(replies);
        let accepted = results.iter().filter(Result::is_ok).count();
        assert_eq!(accepted, 2, "both honest logins");
        // All places are free again.
        let release = hold(&handle);
        let (replies, results) = channel();
        assert_eq!(handle.submit(from(1, "bob", &replies)), Ok(()));
        release.send(()).unwrap();
        assert!(results.recv().unwrap().is_ok());
    }

    #[test]
    fn a_full_queue_refuses_and_a_stopping_worker_answers_all() {
        let worker = start(0, 3);
        let handle = worker.handle();
        let release = hold(&handle);

        let (replies, results) = channel();
        handle.submit(from(1, "bob", &replies)).unwrap();
        handle.submit(from(2, "ann", &replies)).unwrap();
        let refused = handle.submit(from(3, "eve", &replies));
        assert_eq!(refused, Err(LoginError::Busy));

        worker.handle.is_stopping.store(true, Ordering::Release);
        release.send(()).unwrap();
        drop(worker);
        drop(replies);
        assert_eq!(results.iter().collect::<Vec<_>>(), vec![Err(LoginError::Busy); 2]);
        let (replies, _results) = channel();
        assert_eq!(handle.submit(request(login("bob", "x"), &replies)), Err(LoginError::Busy));
    }
}
