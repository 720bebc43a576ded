//! Between the event loop's logins and the worker that verifies them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tiderace_auth::{AuthHandle, LoginError, LoginRequest};
use tiderace_base::{Close, CloseCode, Span, is_name};
use tiderace_broker::Principal;
use tiderace_config::{ClientName, TlsConfig};
use tiderace_reactor::{Answer, LoginClient, Verifier};
use tiderace_tls::{AlternativeName, Certificate};
use tiderace_wire::Credentials;

use crate::identities::credential_id;

/// Hands logins to the worker and its answers back.
pub(crate) struct Logins {
    pub(crate) worker: AuthHandle,
    pub(crate) certificates: Certificates,
}

/// How certificates say who their clients are.
pub(crate) struct Certificates {
    names: Vec<ClientName>,
    groups: Vec<String>,
    host: Option<String>,
}

impl Certificates {
    pub(crate) fn new(tls: &TlsConfig) -> Certificates {
        let (names, groups) = (tls.client_names.clone(), tls.client_groups.clone());
        Certificates { names, groups, host: tls.client_host.clone() }
    }

    /// Who has shown this, if it says so.
    fn principal(&self, certificate: &Certificate) -> Option<tiderace_auth::Principal> {
        let alternative = |wanted: fn(&AlternativeName) -> Option<&String>| {
            certificate.alternative_names.iter().find_map(wanted)
        };
        let name = |kind: &ClientName| {
            let name = match kind {
                ClientName::CommonName => certificate.common_name.as_ref(),
                ClientName::Dns => alternative(|name| match name {
                    AlternativeName::Dns(name) => Some(name),
                    _ => None,
                }),
                ClientName::Email => alternative(|name| match name {
                    AlternativeName::Email(name) => Some(name),
                    _ => None,
                }),
                ClientName::Uri => alternative(|name| match name {
                    AlternativeName::Uri(name) => Some(name),
                    _ => None,
                }),
            };
            name.filter(|name| is_name(name))
        };
        let name = self.names.iter().find_map(name)?;
        let principal = tiderace_auth::Principal::named(name, &self.groups);
        let until = u64::try_from(certificate.not_after).unwrap_or(0);
        Some(principal.bound(self.host.as_deref()).until(until))
    }
}

impl Verifier for Logins {
    fn submit(&self, credentials: Credentials, client: LoginClient, answer: Answer) {
        // The worker gives no answer when it takes no request, so the way back is kept here too.
        let answer = Arc::new(std::sync::Mutex::new(Some(answer)));
        let reply = {
            let answer = answer.clone();
            move |result: Result<tiderace_auth::Principal, LoginError>| {
                let taken = answer.lock().ok().and_then(|mut answer| answer.take());
                let Some(answer) = taken else { return };
                match result {
                    Ok(accepted) => match accepted.valid_until().map(time_left) {
                        Some(Span::ZERO) => answer.send(Err(refusal(&LoginError::Expired))),
                        Some(left) => answer.accept_for(principal(accepted), left),
                        None => answer.send(Ok(principal(accepted))),
                    },
                    Err(error) => answer.send(Err(refusal(&error))),
                }
            }
        };
        let shown = client.tls.as_ref().and_then(|tls| tls.certificate.as_ref());
        let request = LoginRequest {
            credentials,
            address: client.address.ip(),
            protocol: client.protocol,
            is_secured: client.tls.is_some(),
            certificate: shown.and_then(|shown| self.certificates.principal(shown)),
            answer: Box::new(reply.clone()),
        };
        if let Err(error) = self.worker.submit(request) {
            reply(Err(error));
        }
    }
}

/// An identity as the broker's rules see it.
pub(crate) fn principal(principal: tiderace_auth::Principal) -> Principal {
    match principal.name() {
        None => Principal::anonymous(),
        Some(name) => Principal {
            groups: principal.groups().into(),
            host: principal.host().cloned(),
            claims: principal.claims().iter().cloned().collect(),
            credential: principal.credential().map(credential_id).unwrap_or_default(),
            ..Principal::named(name.clone())
        },
    }
}

/// How long it is until then, which is in seconds since 1970.
fn time_left(until: u64) -> Span {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Span::from_secs(until).saturating_sub(now)
}

fn refusal(error: &LoginError) -> Close {
    let code = match error {
        LoginError::Busy | LoginError::TooManyFailures => CloseCode::TooManyLogins,
        LoginError::CredentialsNeeded => CloseCode::LoginRequired,
        LoginError::Expired | LoginError::Refused | LoginError::RefusedFor(_) => {
            CloseCode::LoginFailed
        }
        LoginError::Unavailable => CloseCode::LoginUnavailable,
    };
    Close::new(code, error.to_string())
}
