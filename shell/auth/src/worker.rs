//! Logins that shards hand in, and the thread that hashes passwords, so that no shard has to.
//!
//! Relies on `lane`, `verifier` and `failures`; signed tokens go on to `signed`. The answer is a closure, called on the worker's thread: it should
//! only put the result into the mailbox of the shard that asked. Invariant: every accepted request is
//! answered exactly once, also when the worker stops.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tiderace_base::Time;
use tiderace_wire::Credentials;

use crate::callout::{Callout, CalloutHandle, tail};
use crate::current::Current;
use crate::failures::{FailurePolicy, Failures};
use crate::lane::{Flags, Lane, LoginRequest, Message};
use crate::principal::Principal;
use crate::priority::yield_to_others;
use crate::signed::{Issuers, TokenWorker, token_of};
use crate::verifier::{Check, LoginError, Verifier};

/// Owns the threads; dropping it stops them and answers what is left with [`LoginError::Busy`].
#[derive(Debug)]
pub struct AuthWorker {
    passwords: Lane,
    tokens: Option<TokenWorker>,
    callout: Option<Callout>,
    verifier: Current<Verifier>,
    thread: Option<JoinHandle<()>>,
}

/// Hands logins to the worker. Each shard has its own clone.
#[derive(Debug, Clone)]
pub struct AuthHandle {
    passwords: Lane,
    tokens: Option<Lane>,
    callout: Option<CalloutHandle>,
    verifier: Current<Verifier>,
}

impl AuthWorker {
    /// Starts the thread. `queue_max` logins with a password may wait; at 20 ms each, 64 are about a second.
    ///
    /// # Errors
    /// When the operating system grants no thread.
    pub fn start(
        verifier: Arc<Verifier>,
        policy: FailurePolicy,
        queue_max: usize,
    ) -> io::Result<AuthWorker> {
        let (lane, requests) = Lane::new(queue_max);
        let verifier = Current::new(verifier);
        let (known, flags) = (verifier.clone(), lane.flags());
        let thread = thread::Builder::new().name("auth".to_owned()).spawn(move || {
            yield_to_others();
            run(&known, policy, &requests, &flags);
        })?;
        let (tokens, callout) = (None, None);
        Ok(AuthWorker { passwords: lane, tokens, callout, verifier, thread: Some(thread) })
    }

    /// Starts another thread for signed tokens, of which nobody's may be accepted yet. The verifier must leave them to it.
    ///
    /// # Errors
    /// When the operating system grants no thread.
    pub fn with_issuers(mut self, issuers: Arc<Issuers>) -> io::Result<AuthWorker> {
        self.tokens = Some(TokenWorker::start(issuers)?);
        Ok(self)
    }

    /// Others come in from now on: logins that are verified after this know these users, tokens and issuers.
    pub fn change(&self, verifier: Arc<Verifier>, issuers: Arc<Issuers>) {
        if let Some(tokens) = &self.tokens {
            tokens.change(issuers);
        }
        self.verifier.set(verifier);
    }

    /// Leaves those whom the verifier does not know to another server. The verifier must do so, too.
    #[must_use]
    pub fn with_callout(mut self, callout: Callout) -> AuthWorker {
        self.callout = Some(callout);
        self
    }

    /// A handle for another thread.
    pub fn handle(&self) -> AuthHandle {
        AuthHandle {
            passwords: self.passwords.clone(),
            tokens: self.tokens.as_ref().map(|tokens| tokens.lane().clone()),
            callout: self.callout.as_ref().map(Callout::handle),
            verifier: self.verifier.clone(),
        }
    }
}

impl Drop for AuthWorker {
    fn drop(&mut self) {
        self.passwords.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of an answer has been reported by the panic hook already.
            let _ = thread.join();
        }
    }
}

impl AuthHandle {
    /// Queues a login; never waits. One that takes neither hashing, nor a signature, nor another server, such as a static
    /// token, is answered at once, by the caller's thread. Without credentials a client is who its certificate says.
    ///
    /// # Errors
    /// [`LoginError::Busy`] when the client's address or name has its share of the queue, when the queue
    /// is full, or when the worker has stopped; the answer is not called then.
    pub fn submit(&self, mut request: LoginRequest) -> Result<(), LoginError> {
        let Credentials { token, login, passcode, .. } = &request.credentials;
        if token.is_none()
            && login.is_none()
            && passcode.is_none()
            && let Some(principal) = request.certificate.take()
        {
            (request.answer)(Ok(principal));
            return Ok(());
        }
        let (credentials, lane) = match self.verifier.get().check(request.credentials) {
            Check::Decided(result) => {
                (request.answer)(result);
                return Ok(());
            }
            Check::NeedsHash(credentials) => (credentials, Some(&self.passwords)),
            Check::NeedsKey(credentials) => (credentials, self.tokens.as_ref()),
            Check::NeedsCallout(credentials) => {
                let callout = self.callout.as_ref().ok_or(LoginError::Refused)?;
                callout.submit(LoginRequest { credentials, ..request });
                return Ok(());
            }
        };
        request.credentials = credentials;
        let name = match &request.credentials {
            Credentials { token: None, login: Some(login), .. } => login.clone(),
            // Who sends one token again and again is told by its end, in which the signature is.
            credentials => tail(token_of(credentials).unwrap_or_default()),
        };
        lane.ok_or(LoginError::Refused)?.submit(request, &name)
    }

    /// Who knows the users and tokens now.
    pub fn verifier(&self) -> Arc<Verifier> {
        self.verifier.get()
    }

    /// Keys of signed tokens were fetched: what has waited for them is verified.
    pub fn keys_fetched(&self) {
        if let Some(tokens) = &self.tokens {
            tokens.wake();
        }
    }
}

fn run(
    verifier: &Current<Verifier>,
    policy: FailurePolicy,
    requests: &Receiver<Message>,
    flags: &Flags,
) {
    let started = Instant::now();
    let mut failures = Failures::new(policy);
    while let Ok(message) = requests.recv() {
        if flags.is_stopping() {
            // What still waits goes with the queue and is answered on the way, so that no client
            // hangs until its login times out.
            break;
        }
        let Message::Login(mut pending) = message else { continue };
        let Some(request) = pending.take() else { continue };
        let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (credentials, address) = (request.credentials, request.address);
        let result =
            verify(&verifier.get(), &mut failures, credentials, address, Time::from_nanos(nanos));
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
    use crate::lane::Answer;
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
        let answer = Box::new(move |result| replies.send(result).unwrap());
        LoginRequest::new(credentials, HERE, answer)
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
            Ok(worker.handle().verifier().principals().next().unwrap().clone())
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
        handle.submit(LoginRequest::new(login("holder", "x"), HERE, answer)).unwrap();
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

        worker.passwords.stop();
        release.send(()).unwrap();
        drop(worker);
        drop(replies);
        assert_eq!(results.iter().collect::<Vec<_>>(), vec![Err(LoginError::Busy); 2]);
        let (replies, _results) = channel();
        assert_eq!(handle.submit(request(login("bob", "x"), &replies)), Err(LoginError::Busy));
    }
}
