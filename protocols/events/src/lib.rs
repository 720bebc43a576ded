//! REST and Server-Sent Events as sans-I/O sessions, one for each request.
//!
//! ```text
//!   request ─▶ LoggingIn ─LoggedIn─▶ Working ─Confirmed, delivered─▶ answered, end
//!                  │ Refused            │ a stream was allowed
//!                  └─▶ 401, end         └─▶ Streaming ─▶ events until either side ends
//! ```
//! Relies on the contract in `tiderace-wire` alone. Invariants: every request gets exactly one
//! answer; nothing is asked of the broker before the login but the login; no byte sequence panics,
//! and nothing grows without a limit from [`EventsOptions`].

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod accept;
mod answer;
mod batch;
mod budget;
mod content;
mod credentials;
mod encode;
mod idempotency;
mod limits;
mod manage;
mod options;
mod parameters;
mod publication;
mod request;
mod rest_operations;
mod route;
mod session;
mod uri;

use std::sync::Arc;

use tiderace_wire::{Detect, HttpFace, Opening, Protocol, Request, Session};

pub use budget::ListBudget;
pub use idempotency::{Claim, Idempotency, IdempotencyTable};
pub use options::EventsOptions;
pub use uri::{decode_form, decode_path};

/// The registration value: what the server needs to know to speak REST and Server-Sent Events.
pub fn protocol(options: Arc<EventsOptions>) -> Protocol {
    let face = HttpFace {
        route: {
            let options = options.clone();
            Arc::new(move |request: &Request<'_>| route::route(&options, request))
        },
        unknown: Arc::new(|_: &Request<'_>| answer::Fault::not_found("no such session").response()),
        too_large: {
            let options = options.clone();
            Arc::new(move |request: &Request<'_>| route::too_large(&options, request))
        },
        body_bytes_max: options.message_bytes_max.max(options.batch_bytes_max),
        large_body_bytes_max: options.large_message_bytes_max,
    };
    let open = move |opening: &Opening<'_>| -> Box<dyn Session> {
        Box::new(session::EventsSession::new(options.clone(), opening))
    };
    Protocol {
        name: "events",
        detect: |_| Detect::No,
        subprotocols: &[],
        websocket_paths: [].into(),
        stream_paths: [].into(),
        http: Some(face),
        open: Arc::new(open),
    }
}
