//! Somebody whose tokens are accepted: keys, and what the claims must say.
//!
//! Relies on `key_store` for keys that change. The time is passed in. Invariant: claims are read only behind a signature
//! that is right; every text that becomes a name is one.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tiderace_base::is_name;

use super::TOKEN_BYTES_MAX;
use super::algorithm::Algorithm;
use super::key::Key;
use super::key_store::KeyStore;
use crate::claims::{claims_of, find, groups_of};
use crate::credential::CredentialMark;
use crate::principal::Principal;

/// What the tokens of an issuer must say, and what is made of them.
#[derive(Clone, Debug, Default)]
pub struct IssuerOptions {
    /// Its name in the configuration, for messages.
    pub name: String,
    /// What `iss` must be, if that matters.
    pub issuer: Option<String>,
    /// One of these must be in `aud`. If there are none, a token with `aud` is for somebody else.
    pub audience: Vec<String>,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// The claim that is the client's name; dots lead into objects.
    pub name_claim: String,
    /// The claim with its groups: a list, or words.
    pub groups_claim: String,
    /// Groups that every bearer belongs to.
    pub groups: Vec<String>,
    /// The virtual host that bearers are bound to, or `*`.
    pub host: Option<String>,
    /// Claims that rules name.
    pub claims: Vec<String>,
    /// What its tokens are known by while the configuration has this issuer.
    pub credential: Option<CredentialMark>,
}

/// Somebody whose tokens are accepted.
#[derive(Debug)]
pub struct Issuer {
    options: IssuerOptions,
    keys: Arc<KeyStore>,
}

impl Issuer {
    /// Somebody who has shown one of its tokens.
    pub(crate) fn mark(&self, bearer: Principal) -> Principal {
        match self.options.credential {
            Some(credential) => bearer.shown_by(credential),
            None => bearer,
        }
    }
}

/// What is wrong with a token: for the log, not for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenProblem {
    /// It is for somebody else.
    #[error("`aud` names somebody else")]
    Audience,
    /// A claim is missing, or of the wrong kind.
    #[error("claim `{0}` is missing, or not what it should be")]
    Claim(String),
    /// It was valid once.
    #[error("it has expired")]
    Expired,
    /// It is no signed token, or signed in a way that is not accepted.
    #[error("it is no token that can be verified: {0}")]
    Form(&'static str),
    /// Somebody else made it.
    #[error("`iss` names somebody else")]
    Issuer,
    /// It will be valid later.
    #[error("it is not valid yet")]
    NotYet,
    /// No key fits.
    #[error("its signature is not right")]
    Signature,
    /// It names a key that is not known.
    #[error("it names a key that is not known")]
    UnknownKey,
}

/// A token taken apart.
pub(crate) struct Parts<'a> {
    algorithm: Algorithm,
    key: Option<String>,
    message: &'a [u8],
    payload: &'a str,
    signature: Vec<u8>,
}

impl<'a> Parts<'a> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// When it is none, is too long, or asks for what is not supported.
    pub(crate) fn of(token: &'a str) -> Result<Parts<'a>, TokenProblem> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenProblem::Form("it is too long"));
        }
        let no_token = || TokenProblem::Form("it is not three parts of base64url");
        let (message, signature) = token.rsplit_once('.').ok_or_else(no_token)?;
        let (header, payload) = message.split_once('.').ok_or_else(no_token)?;
        if payload.contains('.') {
            return Err(no_token());
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| no_token())?;
        let header = object(header).ok_or(TokenProblem::Form("its header is no object"))?;
        // Extensions that must be understood (RFC 7515 section 4.1.11): none is.
        if header.get("crit").is_some() {
            return Err(TokenProblem::Form("it has `crit`"));
        }
        let named = header.get("alg").and_then(Value::as_str).and_then(Algorithm::named);
        let algorithm = named.ok_or(TokenProblem::Form("its `alg` is not accepted"))?;
        let key = match header.get("kid") {
            None => None,
            Some(Value::String(key)) => Some(key.clone()),
            Some(_) => return Err(TokenProblem::Form("its `kid` is no text")),
        };
        Ok(Parts { algorithm, key, message: message.as_bytes(), payload, signature })
    }
}

impl Issuer {
    /// An issuer with its keys.
    pub fn new(options: IssuerOptions, keys: Arc<KeyStore>) -> Issuer {
        Issuer { options, keys }
    }

    /// Its keys.
    pub(crate) fn keys(&self) -> &Arc<KeyStore> {
        &self.keys
    }

    /// Who the bearer is; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Says what is wrong with the token.
    pub(crate) fn verify(&self, parts: &Parts<'_>, now: u64) -> Result<Principal, TokenProblem> {
        let keys = self.keys.current();
        let mut fitting =
            keys.iter().filter(|key| key.fits(parts.key.as_deref(), parts.algorithm)).peekable();
        if fitting.peek().is_none() {
            return Err(TokenProblem::UnknownKey);
        }
        let is_right = |key: &Key| key.verifies(parts.algorithm, parts.message, &parts.signature);
        if !fitting.any(is_right) {
            return Err(TokenProblem::Signature);
        }
        let claims = object(parts.payload).ok_or(TokenProblem::Form("its payload is no object"))?;
        let expires = self.check(&claims, now)?;
        self.principal(&claims).map(|principal| principal.until(expires))
    }

    /// Checks what a token says about itself; when it ceases to be valid.
    fn check(&self, claims: &Value, now: u64) -> Result<u64, TokenProblem> {
        let options = &self.options;
        let wrong = |name: &str| TokenProblem::Claim(name.to_owned());
        let leeway = options.leeway.as_secs();
        let expires = date(claims.get("exp")).ok_or_else(|| wrong("exp"))?.saturating_add(leeway);
        if expires <= now {
            return Err(TokenProblem::Expired);
        }
        if let Some(begins) = claims.get("nbf") {
            let begins = date(Some(begins)).ok_or_else(|| wrong("nbf"))?;
            if begins > now.saturating_add(leeway) {
                return Err(TokenProblem::NotYet);
            }
        }
        if let Some(issuer) = &options.issuer
            && claims.get("iss").and_then(Value::as_str) != Some(issuer)
        {
            return Err(TokenProblem::Issuer);
        }
        let is_for = |name: &Value| {
            name.as_str().is_some_and(|name| options.audience.iter().any(|own| own == name))
        };
        let is_for_us = match claims.get("aud") {
            None => options.audience.is_empty(),
            Some(Value::Array(names)) => names.iter().any(is_for),
            Some(name) => is_for(name),
        };
        if is_for_us { Ok(expires) } else { Err(TokenProblem::Audience) }
    }

    fn principal(&self, claims: &Value) -> Result<Principal, TokenProblem> {
        let options = &self.options;
        let name = find(claims, &options.name_claim).and_then(Value::as_str);
        let name = name
            .filter(|name| is_name(name))
            .ok_or_else(|| TokenProblem::Claim(options.name_claim.clone()))?;
        let groups = groups_of(find(claims, &options.groups_claim), &options.groups)
            .ok_or_else(|| TokenProblem::Claim(options.groups_claim.clone()))?;
        let known = claims_of(claims, &options.claims);
        let principal = Principal::named(name, groups).bound(options.host.as_deref());
        Ok(principal.claiming(known))
    }
}

/// The object in a part of a token.
fn object(part: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice::<Value>(&bytes).ok().filter(Value::is_object)
}

/// A moment as RFC 7519 section 2 writes it: seconds since 1970, perhaps with a fraction, which is dropped.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
fn date(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    let fraction =
        || value.as_f64().filter(|date| (0.0..1e15).contains(date)).map(|date| date as u64);
    value.as_u64().or_else(fraction)
}
