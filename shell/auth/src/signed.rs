//! The thread that verifies signed tokens, so that no shard has to: a signature takes up to some hundred microseconds.
//!
//! Relies on `jwt`, `key_store` and `lane`. A queue apart from that of passwords: at 20 ms each they would hold tokens
//! up. Invariants: a token whose key is not known waits until the keys have been fetched, and no longer; what waits is
//! bounded.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};

use crate::current::Current;
use crate::jwt::{Issuer, Parts, Prospect, TokenProblem};
use crate::lane::{Flags, Lane, Message, Pending};
use crate::principal::{Principal, unix_time};
use crate::priority::yield_to_others;
use crate::verifier::LoginError;

/// Tokens that may wait for the thread: at 8 KiB and 100 µs each, 8 MiB and a tenth of a second.
const WAITING_MAX: usize = 1_024;
/// Of them, those that may wait for keys that are being fetched.
const PARKED_MAX: usize = 256;

/// Everybody whose tokens are accepted.
#[derive(Debug, Default)]
pub struct Issuers(Vec<Issuer>);

/// What a token is worth.
#[derive(Debug)]
enum Verdict {
    Bearer(Principal),
    Refused(Vec<TokenProblem>),
    /// Keys are being fetched of which one may be the token's.
    Waits,
}

impl Issuers {
    /// These; the first that accepts a token decides who its bearer is.
    pub fn new(issuers: Vec<Issuer>) -> Issuers {
        Issuers(issuers)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Who the bearer is, at a time in seconds since 1970.
    ///
    /// # Errors
    /// What each issuer has against the token.
    pub fn verify(&self, token: &str, now: u64) -> Result<Principal, Vec<TokenProblem>> {
        let parts = Parts::of(token).map_err(|problem| vec![problem])?;
        let mut problems = Vec::new();
        for issuer in &self.0 {
            match issuer.verify(&parts, now) {
                Ok(principal) => return Ok(issuer.mark(principal)),
                Err(problem) => problems.push(problem),
            }
        }
        Err(problems)
    }

    fn judge(&self, token: &str, now: u64) -> Verdict {
        match self.verify(token, now) {
            Ok(principal) => Verdict::Bearer(principal),
            Err(problems) => {
                let unknown = self.0.iter().zip(&problems);
                let mut unknown =
                    unknown.filter(|(_, problem)| **problem == TokenProblem::UnknownKey);
                // All of them are asked, not only the first.
                let soon = unknown.by_ref().fold(false, |soon, (issuer, _)| {
                    issuer.keys().want() == Prospect::Soon || soon
                });
                if soon {
                    return Verdict::Waits;
                }
                // The keys may have come between the two questions.
                let again = problems.contains(&TokenProblem::UnknownKey);
                let again = again.then(|| self.verify(token, now).ok()).flatten();
                again.map_or(Verdict::Refused(problems), Verdict::Bearer)
            }
        }
    }
}

/// Owns the thread; dropping it stops the thread.
#[derive(Debug)]
pub(crate) struct TokenWorker {
    lane: Lane,
    issuers: Current<Issuers>,
    thread: Option<JoinHandle<()>>,
}

impl TokenWorker {
    /// Starts the thread.
    pub(crate) fn start(issuers: Arc<Issuers>) -> io::Result<TokenWorker> {
        let (lane, requests) = Lane::new(WAITING_MAX);
        let issuers = Current::new(issuers);
        let thread = thread::Builder::new().name("tokens".to_owned()).spawn({
            let (flags, issuers) = (lane.flags(), issuers.clone());
            move || {
                yield_to_others();
                run(&issuers, &requests, &flags);
            }
        })?;
        Ok(TokenWorker { lane, issuers, thread: Some(thread) })
    }

    /// Others' tokens are accepted from now on; those that wait are verified by these.
    pub(crate) fn change(&self, issuers: Arc<Issuers>) {
        self.issuers.set(issuers);
        self.lane.wake();
    }

    pub(crate) fn lane(&self) -> &Lane {
        &self.lane
    }
}

impl Drop for TokenWorker {
    fn drop(&mut self) {
        self.lane.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of an answer has been reported by the panic hook already.
            let _ = thread.join();
        }
    }
}

fn run(issuers: &Current<Issuers>, requests: &Receiver<Message>, flags: &Flags) {
    let mut parked: Vec<Pending> = Vec::new();
    while let Ok(message) = requests.recv() {
        if flags.is_stopping() {
            // What still waits goes with the queue and is answered on the way.
            return;
        }
        if let Message::Login(pending) = message {
            judge(&issuers.get(), *pending, &mut parked);
        }
        if flags.take_woken() {
            let issuers = issuers.get();
            for pending in std::mem::take(&mut parked) {
                judge(&issuers, pending, &mut parked);
            }
        }
    }
}

fn judge(issuers: &Issuers, pending: Pending, parked: &mut Vec<Pending>) {
    let token = pending.request().and_then(|request| token_of(&request.credentials));
    let verdict =
        token.map_or(Verdict::Refused(Vec::new()), |token| issuers.judge(token, unix_time()));
    match verdict {
        Verdict::Bearer(principal) => {
            // A client that names itself besides must be who the token says.
            let login = pending.request().and_then(|request| request.credentials.login.as_deref());
            let is_other =
                login.is_some_and(|login| principal.name().is_none_or(|own| **own != *login));
            pending.answer(if is_other { Err(LoginError::Refused) } else { Ok(principal) });
        }
        Verdict::Waits if parked.len() < PARKED_MAX => parked.push(pending),
        Verdict::Waits => pending.answer(Err(LoginError::Busy)),
        Verdict::Refused(problems) => {
            let expired = problems.contains(&TokenProblem::Expired);
            pending.answer(Err(if expired { LoginError::Expired } else { LoginError::Refused }));
        }
    }
}

/// The token of these credentials: what clients send as such, or as the password of a name.
pub(crate) fn token_of(credentials: &tiderace_wire::Credentials) -> Option<&str> {
    credentials.token.as_deref().or(credentials.passcode.as_deref())
}
