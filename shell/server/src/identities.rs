//! Who may come in, from the configuration: users, tokens, issuers of signed tokens with their keys, and the server that
//! is asked about all others.
//!
//! Relies on `tiderace_auth` to verify and on `fetch` for keys that are elsewhere. Invariant: a key that cannot be used
//! keeps the server from starting, but one that cannot be fetched does not: it may come later.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use tiderace_auth::callout::{
    self, Callout, CalloutCounters, CalloutLimits, CalloutOptions, CalloutProfile, OnAnswer, Reply,
};
use tiderace_auth::jwt::{
    Algorithm, Issuer, IssuerOptions, Key, KeyFetcher, KeySource, KeyStore, OnFetch, parse_key_set,
};
use tiderace_auth::{
    AnonymousAccess, AuthHandle, CredentialMark, CredentialMarks, FailurePolicy, Issuers,
    PasswordRecord, Principal, TokenRecord, UserRecord, Verifier,
};
use tiderace_base::Span;
use tiderace_broker::{Bearer, CredentialId};
use tiderace_config::{
    AuthConfig, JwtAlgorithm, JwtConfig, JwtKeys, Moment, PrincipalMatch, RuleConfig, TokenSecret,
    Unanswered, UserPassword,
};
use tiderace_topics::Placeholder;
use tracing::{info, warn};

use crate::fetch::Fetch;

/// The identities. Passwords in clear are hashed here, unless they were known before.
pub(crate) fn verifier(auth: &AuthConfig, before: Option<&Verifier>) -> anyhow::Result<Verifier> {
    let users = auth.users.iter().map(|user| UserRecord {
        name: user.name.clone(),
        password: match &user.password {
            UserPassword::Hash(hash) => PasswordRecord::Hash(hash.clone()),
            UserPassword::Plain(secret) => PasswordRecord::Plain(secret.expose().to_owned()),
        },
        groups: user.groups.clone(),
        host: user.host.clone(),
    });
    let tokens = auth.tokens.iter().map(|token| TokenRecord {
        name: token.name.clone(),
        secret: match &token.secret {
            TokenSecret::Digest(digest) => tiderace_auth::TokenSecret::Digest(*digest),
            TokenSecret::Plain(secret) => {
                tiderace_auth::TokenSecret::Plain(secret.expose().to_owned())
            }
        },
        principal: token.principal.clone(),
        groups: token.groups.clone(),
        host: token.host.clone(),
        until: token.until.map(Moment::unix),
    });
    // Somebody without credentials may come in if some rule speaks of such people; what they may do
    // there is the rules' business.
    let anonymous = !auth.is_enforced()
        || auth.rules.iter().any(|rule| {
            rule.allows()
                && rule
                    .principals
                    .iter()
                    .any(|who| matches!(who, PrincipalMatch::Anonymous | PrincipalMatch::Everybody))
        });
    let anonymous = if anonymous { AnonymousAccess::Accepted } else { AnonymousAccess::Refused };
    let verifier = match before {
        None => Verifier::new(users, tokens, anonymous)?,
        Some(before) => before.next(users, tokens, anonymous)?,
    };
    let verifier = if auth.jwt.is_empty() { verifier } else { verifier.with_signed_tokens() };
    let verifier = if auth.http.is_none() { verifier } else { verifier.with_callout() };
    Ok(if auth.has_client_names { verifier.with_certificates() } else { verifier })
}

/// The server that is asked about those who are not known here, if there is one.
///
/// # Errors
/// When the authorities cannot be read, or the operating system grants no thread.
pub(crate) fn callout(
    auth: &AuthConfig,
    counters: Arc<CalloutCounters>,
) -> anyhow::Result<Option<Callout>> {
    let Some(config) = &auth.http else { return Ok(None) };
    let fetch = Fetch::with(config.authorities.as_deref(), config.timeout, config.in_flight_max)
        .context("auth_http.authorities")?;
    let options = CalloutOptions {
        limits: CalloutLimits {
            in_flight_max: config.in_flight_max,
            waiting_max: config.waiting_max,
            entries_max: config.cache_entries_max,
        },
        accepted_time: config.accepted_time,
        refused_time: config.refused_time,
        unanswered_time: match config.unanswered {
            Unanswered::Cached(time) => time,
            Unanswered::Allow(..) | Unanswered::Deny => Span::ZERO,
        },
        unanswered: match &config.unanswered {
            Unanswered::Deny => callout::Unanswered::Deny,
            Unanswered::Cached(_) => callout::Unanswered::Cached,
            Unanswered::Allow(user, groups) => {
                let user = Principal::named(user, groups);
                callout::Unanswered::Allow(user.bound(config.host.as_deref()))
            }
        },
        profile: CalloutProfile {
            groups: config.groups.clone(),
            host: config.host.clone(),
            claims: claims_of_rules(auth).into_iter().collect(),
        },
        failures: failure_policy(auth),
    };
    let headers: Vec<(String, String)> = config
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), value.expose().to_owned()))
        .collect();
    let address = config.login_url.clone();
    let post = Box::new(move |question: &str| {
        let answer = fetch.post(&address, &headers, question)?;
        Ok(Reply { status: answer.status, body: answer.text? })
    });
    let callout = Callout::start(options, post, callout_told(), counters);
    callout.map(Some).context("the threads that ask about logins could not be started")
}

/// Time between two lines of the log that logins are not answered: who can bring a single one about fills no log.
const TOLD_INTERVAL: Duration = Duration::from_secs(60);

/// What the log has said last of logins that are asked about.
#[derive(Default)]
struct Told {
    is_away: bool,
    away_at: Option<Instant>,
}

impl Told {
    /// Whether the log is to say it.
    fn is_news(&mut self, is_away: bool, now: Instant) -> bool {
        let is_soon = |at: Instant| now.saturating_duration_since(at) < TOLD_INTERVAL;
        if is_away == self.is_away || (is_away && self.away_at.is_some_and(is_soon)) {
            return false;
        }
        self.is_away = is_away;
        if is_away {
            self.away_at = Some(now);
        }
        true
    }
}

/// Says in the log when logins are not answered any more, and when they are again.
fn callout_told() -> OnAnswer {
    let told = std::sync::Mutex::new(Told::default());
    Box::new(move |problem| {
        let Ok(mut told) = told.lock() else { return };
        if !told.is_news(problem.is_some(), Instant::now()) {
            return;
        }
        match problem {
            Some(problem) => warn!(
                event = "login-not-answered",
                reason = problem,
                "the server that is asked about logins has not answered as it should; auth_http.unanswered says what is done with them"
            ),
            None => info!(
                event = "login-answered",
                "the server that is asked about logins answers again"
            ),
        }
    })
}

/// When somebody who guesses passwords is no longer listened to.
pub(crate) fn failure_policy(auth: &AuthConfig) -> FailurePolicy {
    FailurePolicy { failures_max: auth.login_failures_max, window: auth.login_failure_window }
}

/// Those whose signed tokens are accepted, and where the keys of some come from.
pub(crate) struct SignedTokens {
    pub(crate) issuers: Arc<Issuers>,
    known: Vec<KnownIssuer>,
}

struct KnownIssuer {
    mark: CredentialMark,
    name: String,
    keys: JwtKeys,
    algorithms: Vec<JwtAlgorithm>,
    store: Arc<KeyStore>,
    fetching: Fetching,
}

/// Where the keys of an issuer come from, besides the configuration.
enum Fetching {
    Nowhere,
    /// From there, from when that begins.
    Planned(KeySource, Duration),
    /// Dropping it ends that.
    Begun(#[allow(dead_code, reason = "it is kept for its end")] KeyFetcher),
}

/// The issuers. Keys that do not change are read here; those that are fetched are the same as before, if there were some
/// from the same place.
pub(crate) fn signed_tokens(
    auth: &AuthConfig,
    marks: &CredentialMarks,
    before: Option<&SignedTokens>,
) -> anyhow::Result<SignedTokens> {
    let claims = claims_of_rules(auth);
    let (mut issuers, mut known) = (Vec::new(), Vec::new());
    for config in &auth.jwt {
        let same = before.and_then(|before| before.fetched(config));
        let (store, fetching) = match same {
            Some(same) => (same.store.clone(), Fetching::Nowhere),
            None => {
                let (fixed, source) =
                    keys(config).with_context(|| format!("the keys of jwt {:?}", config.name))?;
                let planned = source.map(|(source, interval)| Fetching::Planned(source, interval));
                (KeyStore::new(fixed), planned.unwrap_or(Fetching::Nowhere))
            }
        };
        let options = IssuerOptions {
            name: config.name.clone(),
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            leeway: config.leeway,
            name_claim: config.name_claim.clone(),
            groups_claim: config.groups_claim.clone(),
            groups: config.groups.clone(),
            host: config.host.clone(),
            claims: claims.iter().cloned().collect(),
            credential: Some(mark_of(config, marks)),
        };
        issuers.push(Issuer::new(options, store.clone()));
        let (name, keys) = (config.name.clone(), config.keys.clone());
        let algorithms = config.algorithms.clone();
        let mark = mark_of(config, marks);
        known.push(KnownIssuer { mark, name, keys, algorithms, store, fetching });
    }
    Ok(SignedTokens { issuers: Arc::new(Issuers::new(issuers)), known })
}

/// What an issuer's tokens are known by: all that decides which are accepted, and whom they stand for; of keys that are
/// fetched the place.
fn mark_of(config: &JwtConfig, marks: &CredentialMarks) -> CredentialMark {
    let JwtConfig { name, keys, algorithms, issuer, audience, groups, host, .. } = config;
    let keys = match keys {
        JwtKeys::Secret(secret) => secret.expose().as_bytes().to_vec(),
        // One that cannot be read is a problem already.
        JwtKeys::PublicKey(file) => fs::read(file).unwrap_or_default(),
        JwtKeys::Set { place, .. } => place.as_bytes().to_vec(),
    };
    let claims = (&config.name_claim, &config.groups_claim);
    let algorithms: Vec<&str> = algorithms.iter().map(|one| one.as_str()).collect();
    marks.of_issuer((name, keys, algorithms, issuer, audience, (groups, host, claims)))
}

type Source = Option<(KeySource, std::time::Duration)>;

/// The keys that are known at once, and where others come from.
fn keys(config: &JwtConfig) -> anyhow::Result<(Vec<Key>, Source)> {
    let choice: Vec<Algorithm> =
        config.algorithms.iter().filter_map(|word| Algorithm::named(word.as_str())).collect();
    let (place, interval, authorities) = match &config.keys {
        JwtKeys::Secret(secret) => {
            return Ok((vec![Key::secret(secret.expose().as_bytes(), &choice)?], None));
        }
        JwtKeys::PublicKey(file) => {
            let text = fs::read(file).with_context(|| format!("cannot read {file}"))?;
            let key = Key::from_pem(&text, &choice).with_context(|| file.clone())?;
            return Ok((vec![key], None));
        }
        JwtKeys::Set { place, interval, authorities } => (place.clone(), *interval, authorities),
    };
    if place.starts_with("https://") || place.starts_with("http://") {
        let fetch = Fetch::new(authorities.as_deref())?;
        let source: KeySource =
            Box::new(move || parse_key_set(&fetch.get(&place)?, &choice, false));
        return Ok((Vec::new(), Some((source, interval))));
    }
    let read = move || {
        let text = fs::read_to_string(&place).map_err(|error| format!("{place}: {error}"))?;
        parse_key_set(&text, &choice, true).map_err(|error| format!("{place}: {error}"))
    };
    let now = read().map_err(|error| anyhow!(error))?;
    Ok((now, Some((Box::new(read), interval))))
}

/// The claims that rules ask for.
pub(crate) fn claims_of_rules(auth: &AuthConfig) -> BTreeSet<String> {
    let paths = auth.rules.iter().flat_map(RuleConfig::paths);
    let placeholders = paths.filter_map(|path| Placeholder::all_of(path).ok()).flatten();
    placeholders
        .filter_map(|placeholder| match placeholder {
            Placeholder::Claim(name) => Some(name.to_string()),
            Placeholder::Group | Placeholder::User => None,
        })
        .collect()
}

impl SignedTokens {
    /// Whether these are the tokens that others accept, too.
    pub(crate) fn accepts_the_same(&self, other: &SignedTokens) -> bool {
        let marks = |of: &SignedTokens| of.known.iter().map(|known| known.mark).collect::<Vec<_>>();
        marks(self) == marks(other)
    }

    /// The issuer of that configuration, if its keys are fetched from the same place.
    fn fetched(&self, config: &JwtConfig) -> Option<&KnownIssuer> {
        self.known.iter().find(|known| {
            matches!(known.fetching, Fetching::Begun(_))
                && known.name == config.name
                && known.keys == config.keys
                && known.algorithms == config.algorithms
        })
    }

    /// Begins to fetch keys, each source on a thread of its own; what was fetched before goes on. Dropping this ends that.
    ///
    /// # Errors
    /// When the operating system grants no thread; what was before goes on then.
    pub(crate) fn fetch_keys(
        &mut self,
        worker: &AuthHandle,
        before: Option<&mut SignedTokens>,
    ) -> io::Result<()> {
        for issuer in &mut self.known {
            let planned = match std::mem::replace(&mut issuer.fetching, Fetching::Nowhere) {
                Fetching::Planned(source, interval) => (source, interval),
                other => {
                    issuer.fetching = other;
                    continue;
                }
            };
            let (worker, (source, interval)) = (worker.clone(), planned);
            let on_fetch = told(issuer.name.clone(), move || worker.keys_fetched());
            let fetcher = KeyFetcher::start(issuer.store.clone(), source, on_fetch, interval)?;
            issuer.fetching = Fetching::Begun(fetcher);
        }
        for known in before.into_iter().flat_map(|before| &mut before.known) {
            let same =
                self.known.iter_mut().find(|issuer| Arc::ptr_eq(&known.store, &issuer.store));
            if let Some(same) = same {
                std::mem::swap(&mut same.fetching, &mut known.fetching);
            }
        }
        Ok(())
    }
}

/// The credentials that are accepted, by the numbers that sessions know them by.
pub(crate) fn accepted(
    auth: &AuthConfig,
    verifier: &Verifier,
    signed: &SignedTokens,
) -> HashMap<CredentialId, Bearer> {
    let described = verifier.principals().filter_map(|principal| {
        let bearer = Bearer::Described {
            groups: principal.groups().into(),
            host: principal.host().cloned(),
        };
        Some((credential_id(principal.credential()?), bearer))
    });
    let issuers = signed.known.iter().map(|known| (credential_id(known.mark), Bearer::Named));
    let mut accepted = HashMap::new();
    for (known, bearer) in described.chain(issuers) {
        // Of equal tokens the first counts, as it does at a login.
        accepted.entry(known).or_insert(bearer);
    }
    if verifier.lets_anonymous_in() {
        accepted.insert(CredentialId::NOTHING, Bearer::Named);
    }
    if !auth.is_enforced() {
        accepted.insert(CredentialId::BELIEVED, Bearer::Named);
    }
    accepted
}

/// The number by which a session knows what it has logged in with.
pub(crate) fn credential_id(mark: CredentialMark) -> CredentialId {
    CredentialId(mark.number().max(CredentialId::VERIFIED_FROM))
}

/// Says in the log when keys cannot be fetched any more, and when they can again.
fn told(issuer: String, then: impl Fn() + Send + 'static) -> OnFetch {
    let last = std::sync::Mutex::new(None::<Option<String>>);
    Box::new(move |problem| {
        then();
        let Ok(mut last) = last.lock() else { return };
        let news = Some(problem.map(str::to_owned));
        if *last == news {
            return;
        }
        match problem {
            Some(problem) => warn!(
                event = "keys-not-fetched",
                issuer,
                reason = problem,
                "the keys of an issuer of tokens cannot be read; those of before hold, if there were any"
            ),
            None => {
                info!(event = "keys-fetched", issuer, "the keys of an issuer of tokens were read")
            }
        }
        *last = news;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_at_most_once_a_minute_that_logins_are_not_answered() {
        let start = Instant::now();
        let mut told = Told::default();
        let mut said =
            |second: u64, is_away| told.is_news(is_away, start + Duration::from_secs(second));
        assert!(!said(0, false), "all is as it should be");
        assert!(said(1, true) && !said(2, true));
        assert!(said(3, false) && !said(4, false));
        for second in 5..60 {
            assert!(!said(second, true) && !said(second, false), "{second}");
        }
        assert!(said(61, true), "it is so again, or still");
        assert!(said(62, false));
    }
}
