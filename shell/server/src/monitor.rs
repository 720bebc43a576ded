//! What the server tells about itself over HTTP: metrics, health, and where the documentation is.
//!
//! Runs on a shard, so nothing here waits. Invariant: who may not read something learns nothing but
//! that.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;

use tiderace_auth::callout::CalloutCounters;
use tiderace_auth::{AuthHandle, Check};
use tiderace_base::{Sample, SampleValue};
use tiderace_broker::{Action, Rules, managed_elsewhere};
use tiderace_config::{MonitoringAccess, MonitoringConfig};
use tiderace_native::NativeMetrics;
use tiderace_reactor::NodeControl;
use tiderace_rsocket::RSocketMetrics;
use tiderace_spool::Spool;
use tiderace_telemetry::SpanQueue;
use tiderace_wire::{Credentials, DrainPhase, Entrance, Request, Response};

use crate::alarms::AlarmBoard;
use crate::audit::AuditLog;
use crate::control::ReloadCounters;
use crate::drain;
use crate::exposition::Exposition;
use crate::logging;
use crate::login::principal;
use crate::metrics::{
    ALARM_FAILURES, BUILD_INFO, LARGE_MESSAGE_BYTES, LARGE_MESSAGES, LARGE_MESSAGES_ARRIVING,
    LOGIN_CALLOUTS, LOGIN_CALLOUTS_IN_FLIGHT,
};
use crate::persistence::Persistence;
use crate::process;
use crate::resources::Resources;
use crate::telemetry;
use crate::tls::TlsState;
use crate::upstreams;

/// Answers requests about the server.
pub(crate) struct Monitor {
    /// The node's name.
    pub(crate) name: String,
    /// How many event loops it has.
    pub(crate) shards: usize,
    /// When it was started.
    pub(crate) started: SystemTime,
    pub(crate) access: MonitoringConfig,
    /// Whether proxies say where requests come from.
    pub(crate) is_behind_proxies: bool,
    /// Who may do what; others when the configuration is read again.
    pub(crate) rules: RwLock<Arc<Rules>>,
    pub(crate) logins: AuthHandle,
    /// What has come of reading the configuration again.
    pub(crate) reloads: Arc<ReloadCounters>,
    /// The record of changes.
    pub(crate) audit: Arc<AuditLog>,
    /// Set once the node runs.
    pub(crate) node: OnceLock<NodeControl>,
    /// Set once the node runs, if it speaks TLS.
    pub(crate) tls: OnceLock<Arc<TlsState>>,
    /// What has become of questions about logins, if somebody is asked.
    pub(crate) callouts: Option<Arc<CalloutCounters>>,
    /// Where spans of traced messages wait, if messages are traced.
    pub(crate) spans: Option<Arc<SpanQueue>>,
    /// The store, if there is one.
    pub(crate) persistence: Option<Arc<Persistence>>,
    /// Where large messages have a place, if they do.
    pub(crate) spool: Option<Arc<Spool>>,
    /// Set once RSocket's sessions count.
    pub(crate) rsocket: OnceLock<Arc<RSocketMetrics>>,
    /// What native sessions count.
    pub(crate) native: Arc<NativeMetrics>,
    /// What is wrong with the server.
    pub(crate) alarms: Arc<AlarmBoard>,
    /// How often looking for that has failed.
    pub(crate) alarm_failures: Arc<AtomicU64>,
    /// Files and disks.
    pub(crate) resources: Resources,
    /// Whether new connections are welcome.
    pub(crate) ready: AtomicBool,
}

/// What is answered here whatever pages are served.
pub(crate) const PATHS: [&str; 3] = ["/livez", "/readyz", "/metrics"];

impl Monitor {
    /// The answer to a request that has come by that way.
    pub(crate) fn answer(&self, request: &Request<'_>, entrance: Entrance) -> Response {
        if !matches!(request.method, "GET" | "HEAD") {
            let mut response =
                Response::refusal(405, "method-not-allowed", "only GET and HEAD are answered here");
            response.headers.push(("Allow", "GET, HEAD".to_owned()));
            return response;
        }
        match request.path {
            "/" => text(200, INDEX.to_owned()),
            "/livez" => self.guarded((request, entrance), self.access.health_access, || {
                text(200, "live\n".to_owned())
            }),
            "/readyz" => {
                self.guarded((request, entrance), self.access.health_access, || self.readiness())
            }
            "/metrics" if entrance == Entrance::Clients => elsewhere(),
            "/metrics" => {
                self.guarded((request, entrance), self.access.metrics_access, || self.metrics())
            }
            _ => {
                Response::refusal(404, "not-found", "there is nothing here; / lists what there is")
            }
        }
    }

    /// Others may read from now on.
    pub(crate) fn change_rules(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    fn readiness(&self) -> Response {
        if !self.ready.load(Ordering::Relaxed) {
            return Response::refusal(
                503,
                "stopping",
                "the server is stopping; connect to another one",
            );
        }
        let phase = self.node.get().map(NodeControl::drain_phase).unwrap_or_default();
        if phase == DrainPhase::Opening {
            return Response::refusal(
                503,
                "draining",
                "the server opens its listeners again, and not all are open; the log says why if that lasts",
            );
        }
        if phase != DrainPhase::Serving {
            return Response::refusal(
                503,
                "draining",
                "the server sends its clients to other servers; connect to another one",
            );
        }
        let persistence = self.persistence.as_ref();
        if persistence.is_some_and(|persistence| persistence.has_failed()) {
            return Response::refusal(
                503,
                "store-failed",
                "the store has failed and keeps nothing from now on; the log says why; start the server again",
            );
        }
        let upstreams = self.node.get().map(NodeControl::upstreams).unwrap_or_default();
        let degraded: String = upstreams.iter().filter_map(upstreams::degraded).collect();
        text(200, if degraded.is_empty() { "ready\n".to_owned() } else { degraded })
    }

    fn metrics(&self) -> Response {
        let Some(node) = self.node.get() else {
            return Response::refusal(
                503,
                "starting",
                "the server is starting; ask again in a second",
            );
        };
        Response {
            status: 200,
            headers: vec![("Content-Type", "text/plain; version=0.0.4; charset=utf-8".to_owned())],
            body: {
                let mut out = Exposition::with_capacity(16 << 10);
                out.extend(self.samples(node));
                out.into_text().into()
            },
        }
    }

    /// All that is counted, those of one name together.
    pub(crate) fn samples<'a>(&'a self, node: &'a NodeControl) -> Vec<Sample<'a>> {
        let labels = vec![env!("CARGO_PKG_VERSION"), &self.name];
        let mut out = vec![Sample { row: &BUILD_INFO, labels, value: SampleValue::Number(1) }];
        out.extend(node.metrics());
        let broker = node.broker_metrics();
        out.extend(broker.into_iter().map(|(row, value)| Sample::number(row, value)));
        out.push(drain::remaining(&node.drain_status()));
        out.extend(self.native.samples());
        process::samples().for_each(|sample| out.push(sample));
        out.extend(self.resources.samples());
        out.extend(self.alarms.samples());
        let failures = self.alarm_failures.load(Ordering::Relaxed);
        out.push(Sample::number(&ALARM_FAILURES, failures));
        out.push(logging::sample());
        out.extend(self.reloads.samples());
        out.extend(self.audit.samples());
        out.extend(self.tls.get().into_iter().flat_map(|tls| tls.samples()));
        out.extend(self.callouts.iter().flat_map(|counters| callouts(counters)));
        out.extend(self.spans.iter().flat_map(|queue| telemetry::samples(queue)));
        if let Some(persistence) = &self.persistence {
            persistence.metrics().samples().for_each(|sample| out.push(sample));
        }
        if let Some(spool) = &self.spool {
            out.extend(large_messages(spool.usage()));
        }
        out.extend(self.rsocket.get().into_iter().flat_map(|rsocket| rsocket.samples()));
        out
    }

    fn guarded(
        &self,
        (request, entrance): (&Request<'_>, Entrance),
        access: MonitoringAccess,
        answer: impl FnOnce() -> Response,
    ) -> Response {
        // What comes by a proxy may come from anywhere, also if the proxy forgets to say so.
        let is_loopback = request.peer.ip().to_canonical().is_loopback();
        let near = is_loopback && !self.is_behind_proxies;
        match access {
            // A client that is let in at the admin socket has the rights of admins.
            _ if matches!(entrance, Entrance::Admin(_)) => answer(),
            MonitoringAccess::Open => answer(),
            MonitoringAccess::Loopback if near => answer(),
            MonitoringAccess::Loopback | MonitoringAccess::Authorised
                if self.may_monitor(request) =>
            {
                answer()
            }
            MonitoringAccess::Loopback | MonitoringAccess::Authorised => {
                let message =
                    "send Authorization: Bearer TOKEN with a token that a rule allows `monitor`";
                let mut response = Response::refusal(401, "not-authorised", message);
                response.headers.push(("WWW-Authenticate", "Bearer".to_owned()));
                response
            }
        }
    }

    /// Whether the request bears a token whose principal may monitor. Passwords are not accepted
    /// here: verifying one takes longer than a shard may wait.
    fn may_monitor(&self, request: &Request<'_>) -> bool {
        let token =
            request.text_field("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let Some(token) = token else { return false };
        let credentials =
            Credentials { token: Some(token.trim().to_owned()), ..Credentials::default() };
        let check = self.logins.verifier().check(credentials);
        let Check::Decided(Ok(who)) = check else { return false };
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        rules.may_at_node(&principal(who), Action::Monitor, "$sys/metrics")
    }
}

const INDEX: &str = "Tiderace pushes live data to everyone who is connected.\n\n\
    native       WebSocket at /tiderace, long polling at /engine.io/\n\
    Socket.IO    at /socket.io/\n\
    RSocket      tcp on this port, or WebSocket at /rsocket\n\
    STOMP        tcp on this port, or WebSocket at /stomp (subprotocol v12.stomp)\n\
    /events      what is published, as Server-Sent Events: /events?topic=demo/fx/*\n\
    /topics/...  a topic's value; POST publishes\n\
    /queues/...  POST sends to a queue\n\
    /services/.. POST calls a service\n\
    /metrics     for Prometheus\n\
    /livez       is the process alive?\n\
    /readyz      may traffic be sent here?\n";

/// What is told by others than clients is asked for where these do not come.
fn elsewhere() -> Response {
    let close = managed_elsewhere();
    Response::refusal(close.code.http(), close.code.slug(), &close.reason)
}

fn text(status: u16, body: String) -> Response {
    let headers = vec![("Content-Type", "text/plain; charset=utf-8".to_owned())];
    Response { status, headers, body: body.into() }
}
/// What is told of questions about logins.
fn callouts(counters: &CalloutCounters) -> [Sample<'static>; 7] {
    let asked = |outcome, count: &AtomicU64| Sample {
        row: &LOGIN_CALLOUTS,
        labels: vec![outcome],
        value: SampleValue::Number(count.load(Ordering::Relaxed)),
    };
    let in_flight = counters.in_flight.load(Ordering::Relaxed) as u64;
    [
        Sample::number(&LOGIN_CALLOUTS_IN_FLIGHT, in_flight),
        asked("answered", &counters.answered),
        asked("failed", &counters.failed),
        asked("cached", &counters.cached),
        asked("coalesced", &counters.coalesced),
        asked("busy", &counters.busy),
        asked("unavailable", &counters.unavailable),
    ]
}

/// What is told of large messages.
fn large_messages(usage: tiderace_spool::Usage) -> [Sample<'static>; 4] {
    let ended = |outcome, count| Sample {
        row: &LARGE_MESSAGES,
        labels: vec![outcome],
        value: SampleValue::Number(count),
    };
    [
        Sample::number(&LARGE_MESSAGE_BYTES, usage.bytes),
        Sample::number(&LARGE_MESSAGES_ARRIVING, usage.uploads as u64),
        ended("whole", usage.bodies_total),
        ended("failed", usage.failed_total),
    ]
}
