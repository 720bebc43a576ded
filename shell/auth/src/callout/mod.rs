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
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ring::hmac;
use ring::rand::SystemRandom;
use serde_json::{Map, Value};
use tiderace_base::{Span, Time};

use self::pool::{Asker, Outcome, Pool, Said};
pub use self::pool::{CalloutCounters, CalloutLimits, OnAnswer};
use self::reply::principal_of;
pub use self::reply::{CalloutProfile, Reply};
use crate::failures::{FailurePolicy, Failures};
use crate::lane::LoginRequest;
use crate::principal::Principal;
use crate::verifier::LoginError;

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
    asker: Asker<Verdict>,
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
            read(&post(question)?, login.as_deref(), &options, unix_time())
        });
        let pool = Pool::start(limits, ask, on_answer, counters)?;
        Ok(Callout { pool, state: Arc::new(state) })
    }

    pub(crate) fn handle(&self) -> CalloutHandle {
        CalloutHandle { asker: self.pool.asker(), state: Arc::clone(&self.state) }
    }
}

impl CalloutHandle {
    /// Asks about a login, and never waits; it is answered here if the answer is remembered.
    pub(crate) fn submit(&self, request: LoginRequest) {
        let question = question(&request);
        let credentials = &request.credentials;
        let secret = credentials.token.as_ref().or(credentials.passcode.as_ref());
        let (address, login) = (request.address, credentials.login.clone().unwrap_or_default());
        // Tokens cannot be guessed, so they are not counted.
        let is_guessable = credentials.token.is_none() && credentials.login.is_some();
        if is_guessable && self.state.is_blocked(&login, address) {
            return (request.answer)(Err(LoginError::TooManyFailures));
        }
        let share = match credentials.login.as_deref() {
            Some(login) if is_guessable => login.to_owned(),
            _ => tail(secret.map_or("", String::as_str)),
        };
        let text = question.to_string();
        let tag = hmac::sign(&self.state.key, text.as_bytes());
        let mut hash = [0; 32];
        hash.copy_from_slice(tag.as_ref());
        let (state, answer) = (Arc::clone(&self.state), request.answer);
        let told = Box::new(move |outcome: Outcome<Verdict>| {
            let verdict = match outcome {
                Outcome::Said(verdict) => {
                    if is_guessable {
                        state.count(&login, address, verdict.is_ok());
                    }
                    verdict
                }
                Outcome::Busy => Err(LoginError::Busy),
                Outcome::Away(last) => match (&state.unanswered, last) {
                    (Unanswered::Cached, Some(last)) => last,
                    (Unanswered::Allow(principal), _) => Ok(principal.clone()),
                    (Unanswered::Cached | Unanswered::Deny, _) => Err(LoginError::Unavailable),
                },
            };
            answer(verdict);
        });
        self.asker.ask(hash, text, (address, &share), told);
    }
}

impl CalloutState {
    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn is_blocked(&self, login: &str, address: IpAddr) -> bool {
        self.failures().is_blocked(login, address, self.now())
    }

    fn count(&self, login: &str, address: IpAddr, is_right: bool) {
        let now = self.now();
        match is_right {
            true => self.failures().forgive(login, address),
            false => self.failures().record(login, address, now),
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
) -> Result<Said<Verdict>, String> {
    let judgement = reply.judge()?;
    let remembered =
        |usual: Span| judgement.cache.map_or(usual, |own| usual.min(Span::from_secs(own)));
    let refusal = |error| {
        let fresh = remembered(options.refused_time);
        Said { value: Err(error), fresh, kept: Span::ZERO, is_refusal: true }
    };
    let principal = match &judgement.verdict {
        Ok(object) => principal_of(object, login, &options.profile)?,
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

/// Seconds since 1970.
fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
