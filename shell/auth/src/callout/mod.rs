//! Call-outs: another server, of the operator's, is asked by HTTP who somebody is.
//!
//! The question and the answer are documented in `docs/authentication.md`. Relies on `pool` for threads, memory and order,
//! and on `failures` against guessing. How HTTP is spoken is the caller's closure. Invariants: no shard waits for an answer;
//! a server that does not answer lets nobody in, unless the configuration says so.

mod breaker;
mod cache;
mod pool;
mod reply;
mod turns;

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ring::hmac;
use ring::rand::SystemRandom;
use serde_json::{Map, Value};
use tiderace_base::{Span, Time, is_name};
use tiderace_wire::Credentials;

pub use self::pool::{CalloutCounters, CalloutLimits, OnAnswer};
use self::pool::{NoAnswer, Outcome, Pool, PoolHandle, Question, Said};
use self::reply::principal_of;
pub use self::reply::{CalloutProfile, Reply};
use crate::failures::{FailurePolicy, Failures};
use crate::lane::LoginRequest;
use crate::principal::{Principal, unix_time};
use crate::verifier::LoginError;

/// Bytes of a name, password and token together; longer ones are refused without a question, so that what waits is bounded.
const CREDENTIALS_BYTES_MAX: usize = 16 * 1024;

/// Posts a JSON text and returns the answer; the error says why there is none. Called on threads that may wait.
pub type Post = Box<dyn Fn(&str) -> Result<Reply, String> + Send + Sync>;

/// What is done with logins while the server does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Unanswered {
    /// They are refused.
    #[default]
    Deny,
    /// Who was accepted before, and not too long ago, is accepted again; others are refused.
    Cached,
    /// Everybody is accepted as this principal.
    Allow(Principal),
}

/// How logins are asked about.
#[derive(Clone, Debug)]
pub struct CalloutOptions {
    /// How much there may be of everything.
    pub limits: CalloutLimits,
    /// For how long an acceptance is remembered, if the answer does not say less.
    pub accepted_time: Span,
    /// For how long a refusal is.
    pub refused_time: Span,
    /// For how long an acceptance may be used while the server does not answer.
    pub unanswered_time: Span,
    /// What is done then.
    pub unanswered: Unanswered,
    /// What somebody is besides what an answer says.
    pub profile: CalloutProfile,
    /// When somebody who guesses passwords is no longer listened to.
    pub failures: FailurePolicy,
}

type Verdict = Result<Principal, LoginError>;

/// Asks about logins; owns the threads.
#[derive(Debug)]
pub struct Callout {
    pool: Pool<Verdict>,
    state: Arc<CalloutState>,
}

/// What all who ask share.
#[derive(Debug)]
struct CalloutState {
    key: hmac::Key,
    failures: Mutex<Failures>,
    unanswered: Unanswered,
    started: Instant,
}

/// A way to ask about logins.
#[derive(Clone, Debug)]
pub(crate) struct CalloutHandle {
    handle: PoolHandle<Verdict>,
    state: Arc<CalloutState>,
}

impl Callout {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the operating system grants no thread, or has no random numbers.
    pub fn start(
        options: CalloutOptions,
        post: Post,
        on_answer: OnAnswer,
        counters: Arc<CalloutCounters>,
    ) -> io::Result<Callout> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| io::Error::other("the operating system has no random numbers"))?;
        let state = CalloutState {
            key,
            failures: Mutex::new(Failures::new(options.failures)),
            unanswered: options.unanswered.clone(),
            started: Instant::now(),
        };
        let limits = options.limits;
        let ask = Box::new(move |question: &str| {
            let login = login_of(question);
            let reply = post(question).map_err(|reason| NoAnswer { reason, is_there: false })?;
            read(&reply, login.as_deref(), &options, unix_time())
        });
        let pool = Pool::start(limits, ask, on_answer, counters)?;
        Ok(Callout { pool, state: Arc::new(state) })
    }

    pub(crate) fn handle(&self) -> CalloutHandle {
        CalloutHandle { handle: self.pool.handle(), state: Arc::clone(&self.state) }
    }
}

impl CalloutHandle {
    /// Asks about a login, and never waits; it is answered here if the answer is remembered.
    pub(crate) fn submit(&self, request: LoginRequest) {
        let credentials = &request.credentials;
        if bytes_of(credentials) > CREDENTIALS_BYTES_MAX {
            return (request.answer)(Err(LoginError::Refused));
        }
        let text = question(&request).to_string();
        let secret = credentials.token.as_ref().or(credentials.passcode.as_ref());
        // Tokens cannot be guessed, so they are not counted.
        let login = credentials.login.as_deref().filter(|_| credentials.token.is_none());
        let guess = login.map(|login| (counted_name(login), request.address));
        if guess.as_ref().is_some_and(|guess| self.state.is_blocked(guess)) {
            return (request.answer)(Err(LoginError::TooManyFailures));
        }
        let share = match &guess {
            Some((name, _)) => name.clone(),
            None => tail(secret.map_or("", String::as_str)),
        };
        let tag = hmac::sign(&self.state.key, text.as_bytes());
        let mut hash = [0; 32];
        hash.copy_from_slice(tag.as_ref());
        let (address, answer) = (request.address, request.answer);
        let (state, counted) = (Arc::clone(&self.state), guess.clone());
        let told = Box::new(move |outcome: Outcome<Verdict>| {
            answer(state.verdict(outcome, counted.as_ref()));
        });
        let state = Arc::clone(&self.state);
        // What others guessed while this one waited counts as well.
        let is_void = Box::new(move || guess.as_ref().is_some_and(|guess| state.is_blocked(guess)));
        self.handle.ask(Question { hash, text, is_void }, (address, &share), told);
    }
}

/// A name as guesses are counted by it, and from where they come.
type Guess = (String, IpAddr);

/// Servers that are asked may take names that differ in case, or in white space around them, for one.
fn counted_name(login: &str) -> String {
    login.trim().to_lowercase()
}

fn bytes_of(credentials: &Credentials) -> usize {
    let texts = [&credentials.login, &credentials.passcode, &credentials.token];
    texts.into_iter().flatten().map(String::len).sum()
}

impl CalloutState {
    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn is_blocked(&self, (name, address): &Guess) -> bool {
        self.failures().is_blocked(name, *address, self.now())
    }

    /// What becomes of a login; a password counts as right or wrong if the server said so.
    fn verdict(&self, outcome: Outcome<Verdict>, guess: Option<&Guess>) -> Verdict {
        match outcome {
            Outcome::Said(verdict) => {
                if let Some((name, address)) = guess {
                    let now = self.now();
                    match verdict.is_ok() {
                        true => self.failures().forgive(name, *address),
                        false => self.failures().record(name, *address, now),
                    }
                }
                verdict
            }
            Outcome::Busy => Err(LoginError::Busy),
            Outcome::Void => Err(LoginError::TooManyFailures),
            Outcome::Unanswered { last, is_there } => match (&self.unanswered, last) {
                (Unanswered::Cached, Some(last)) => last,
                // Who asks something that the server cannot answer is not let in by that.
                (Unanswered::Allow(principal), _) if !is_there => Ok(principal.clone()),
                _ => Err(LoginError::Unavailable),
            },
        }
    }
}

/// The question about a login, as `docs/authentication.md` describes it.
fn question(request: &LoginRequest) -> Value {
    let credentials = &request.credentials;
    let mut question = Map::new();
    let mut add = |name: &str, value: Value| question.insert(name.to_owned(), value);
    match (&credentials.token, &credentials.login, &credentials.passcode) {
        (Some(token), _, _) | (None, None, Some(token)) => {
            add("kind", "token".into());
            add("token", token.as_str().into());
        }
        (None, _, passcode) => {
            add("kind", "password".into());
            add("password", passcode.as_deref().unwrap_or_default().into());
        }
    }
    if let Some(login) = &credentials.login {
        add("user", login.as_str().into());
    }
    add("protocol", request.protocol.into());
    add("address", request.address.to_canonical().to_string().into());
    add("tls", request.is_secured.into());
    if let Some(name) = request.certificate.as_ref().and_then(Principal::name) {
        add("certificate", (**name).into());
    }
    Value::Object(question)
}

/// The name that a question asks about.
fn login_of(question: &str) -> Option<String> {
    let question: Value = serde_json::from_str(question).ok()?;
    Some(question.get("user")?.as_str()?.to_owned())
}

/// Reads an answer; `now` is in seconds since 1970.
fn read(
    reply: &Reply,
    login: Option<&str>,
    options: &CalloutOptions,
    now: u64,
) -> Result<Said<Verdict>, NoAnswer> {
    let is_there = reply.is_about_the_question();
    let judgement = reply.judge().map_err(|reason| NoAnswer { reason, is_there })?;
    let remembered =
        |usual: Span| judgement.cache.map_or(usual, |own| usual.min(Span::from_secs(own)));
    let refusal = |error| {
        let fresh = remembered(options.refused_time);
        Said { value: Err(error), fresh, kept: Span::ZERO, is_refusal: true }
    };
    let principal = match &judgement.verdict {
        // The answer has no other name for somebody who has given none that can be.
        Ok(object)
            if object.get("user").is_none_or(Value::is_null)
                && login.is_some_and(|login| !is_name(login)) =>
        {
            return Ok(refusal(LoginError::Refused));
        }
        Ok(object) => principal_of(object, login, &options.profile)
            .map_err(|reason| NoAnswer { reason, is_there: true })?,
        Err(None) => return Ok(refusal(LoginError::Refused)),
        Err(Some(reason)) => return Ok(refusal(LoginError::RefusedFor(reason.clone()))),
    };
    let left = principal.valid_until().map(|until| Span::from_secs(until.saturating_sub(now)));
    if left == Some(Span::ZERO) {
        return Ok(refusal(LoginError::Expired));
    }
    let left = left.unwrap_or(Span::MAX);
    let fresh = remembered(options.accepted_time).min(left);
    let kept = match options.unanswered {
        Unanswered::Cached => options.unanswered_time.min(left),
        Unanswered::Deny | Unanswered::Allow(_) => Span::ZERO,
    };
    Ok(Said { value: Ok(principal), fresh, kept, is_refusal: false })
}

/// The end of a token, which other tokens do not share.
pub(crate) fn tail(token: &str) -> String {
    let start = token.char_indices().rev().nth(15).map_or(0, |(at, _)| at);
    token.get(start..).unwrap_or_default().to_owned()
}
