//! What the tests of the event loop share.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]

pub mod http2;
pub mod phoenix;
pub mod postbox;
pub mod protocols;
pub mod tls;
pub mod upstream;
pub mod world;

use std::sync::{Arc, Mutex};

use tiderace_base::{Close, CloseCode, Span};
use tiderace_base::{Sample, SampleValue};
use tiderace_broker::{BrokerOptions, Principal, SlowConsumer};
use tiderace_reactor::{Answer, LoginClient, NoOperator, Services, Verifier};
use tiderace_wire::{Credentials, Entrance, Request, Response};

/// Keeps logins until the test decides them; `mallory` is refused.
#[derive(Debug, Default)]
pub struct Desk(Mutex<Vec<(Credentials, Answer)>>, Mutex<Option<Span>>);

impl Verifier for Desk {
    fn submit(&self, credentials: Credentials, _: LoginClient, answer: Answer) {
        self.0.lock().unwrap().push((credentials, answer));
    }
}

impl Desk {
    /// Decides what waits; says how many.
    pub fn decide(&self) -> usize {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap());
        let count = waiting.len();
        for (credentials, answer) in waiting {
            match (judge(credentials), *self.1.lock().unwrap()) {
                (Ok(principal), Some(span)) => answer.accept_for(principal, span),
                (result, _) => answer.send(result),
            }
        }
        count
    }

    /// Logins that are decided from now on end after a time, or never.
    pub fn accept_for(&self, span: Option<Span>) {
        *self.1.lock().unwrap() = span;
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Decides logins at once.
#[derive(Debug)]
pub struct AtOnce;

impl Verifier for AtOnce {
    fn submit(&self, credentials: Credentials, _: LoginClient, answer: Answer) {
        answer.send(judge(credentials));
    }
}

fn judge(credentials: Credentials) -> Result<Principal, Close> {
    let login = credentials.login.unwrap_or_default();
    if login == "mallory" {
        return Err(CloseCode::LoginFailed.into());
    }
    Ok(Principal::named(login))
}

/// The echo and line protocols, with a page under `/page`.
pub fn services(verifier: Arc<dyn Verifier>) -> Services {
    let mut broker = BrokerOptions { verify_logins: true, ..BrokerOptions::default() };
    Arc::make_mut(&mut broker.topic_default).slow_consumer = SlowConsumer::Block;
    Services {
        spool: None,
        protocols: vec![protocols::echo_protocol(), protocols::line_protocol()],
        http: Arc::new(page),
        verifier,
        internal_sessions: Vec::new(),
        operator: Arc::new(NoOperator),
        store_gateway: None,
        broker: Arc::new(broker),
    }
}

fn page(request: &Request<'_>, _: Entrance) -> Response {
    match request.path {
        "/page" => Response {
            status: 200,
            headers: vec![("Content-Type", "text/plain".to_string())],
            body: format!("{} {}", request.method, request.query.unwrap_or("-")).into(),
        },
        "/large" => Response { status: 200, headers: vec![], body: vec![b'x'; 100_000].into() },
        _ => Response { status: 404, ..Response::default() },
    }
}

/// The value of a metric.
pub fn metric(samples: &[Sample<'_>], name: &str, labels: &[&str]) -> u64 {
    let found = samples.iter().find(|sample| sample.row.name == name && sample.labels == labels);
    match found.map(|sample| &sample.value) {
        Some(SampleValue::Number(value)) => *value,
        other => panic!("{name} {labels:?}: {other:?}"),
    }
}
