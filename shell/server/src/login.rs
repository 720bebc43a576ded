//! Between the event loop's logins and the worker that verifies them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tiderace_auth::{AuthHandle, LoginError, LoginRequest};
use tiderace_base::{Close, CloseCode, Span};
use tiderace_broker::Principal;
use tiderace_reactor::{Answer, Verifier};
use tiderace_wire::Credentials;

/// Hands logins to the worker and its answers back.
pub(crate) struct Logins(pub(crate) AuthHandle);

impl Verifier for Logins {
    fn submit(&self, credentials: Credentials, peer: SocketAddr, answer: Answer) {
        // The worker gives no answer when it takes no request, so the way back is kept here too.
        let answer = Arc::new(std::sync::Mutex::new(Some(answer)));
        let reply = {
            let answer = answer.clone();
            move |result: Result<tiderace_auth::Principal, LoginError>| {
                let taken = answer.lock().ok().and_then(|mut answer| answer.take());
                let Some(answer) = taken else { return };
                match result {
                    Ok(accepted) => match accepted.valid_until() {
                        Some(until) => answer.accept_for(principal(accepted), time_left(until)),
                        None => answer.send(Ok(principal(accepted))),
                    },
                    Err(error) => answer.send(Err(refusal(error))),
                }
            }
        };
        let request =
            LoginRequest { credentials, address: peer.ip(), answer: Box::new(reply.clone()) };
        if let Err(error) = self.0.submit(request) {
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
            ..Principal::named(name.clone())
        },
    }
}

/// How long it is until then, which is in seconds since 1970.
fn time_left(until: u64) -> Span {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Span::from_secs(until).saturating_sub(now)
}

fn refusal(error: LoginError) -> Close {
    let code = match error {
        LoginError::Busy | LoginError::TooManyFailures => CloseCode::TooManyLogins,
        LoginError::CredentialsNeeded => CloseCode::LoginRequired,
        LoginError::Expired | LoginError::Refused => CloseCode::LoginFailed,
    };
    Close::new(code, error.to_string())
}
