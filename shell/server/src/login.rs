//! Between the event loop's logins and the worker that verifies them.

use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_auth::{AuthHandle, LoginError, LoginRequest};
use tiderace_base::{Close, CloseCode};
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
                if let Some(answer) = taken {
                    answer.send(result.map(principal).map_err(refusal));
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
            name: name.clone(),
            groups: principal.groups().into(),
            anonymous: false,
            host: principal.host().cloned(),
        },
    }
}

fn refusal(error: LoginError) -> Close {
    let code = match error {
        LoginError::Busy | LoginError::TooManyFailures => CloseCode::TooManyLogins,
        LoginError::CredentialsNeeded => CloseCode::LoginRequired,
        LoginError::Refused => CloseCode::LoginFailed,
    };
    Close::new(code, error.to_string())
}
