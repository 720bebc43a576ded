//! What the server tells about itself over HTTP: metrics, health, and where the documentation is.
//!
//! Runs on a shard, so nothing here waits. Invariant: who may not read something learns nothing but
//! that.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tiderace_auth::{Check, Verifier};
use tiderace_broker::{Action, Rules};
use tiderace_config::{MonitoringAccess, MonitoringConfig};
use tiderace_reactor::{MetricKind, NodeControl, Sample, SampleValue};
use tiderace_rsocket::RSocketMetrics;
use tiderace_topics::Path;
use tiderace_wire::{Credentials, Kind, Request, Response};

use crate::logging;
use crate::login::principal;
use crate::persistence::Persistence;
use crate::process;
use crate::tls::TlsState;

/// Answers requests about the server.
pub(crate) struct Monitor {
    /// The node's name.
    pub(crate) name: String,
    pub(crate) access: MonitoringConfig,
    pub(crate) rules: Rules,
    pub(crate) verifier: Arc<Verifier>,
    /// Set once the node runs.
    pub(crate) node: OnceLock<NodeControl>,
    /// Set once the node runs, if it speaks TLS.
    pub(crate) tls: OnceLock<Arc<TlsState>>,
    /// Set once the store is open, if there is one.
    pub(crate) persistence: OnceLock<Option<Arc<Persistence>>>,
    /// Set once RSocket's sessions count.
    pub(crate) rsocket: OnceLock<Arc<RSocketMetrics>>,
    /// Whether new connections are welcome.
    pub(crate) ready: AtomicBool,
}

impl Monitor {
    /// The answer to a request.
    pub(crate) fn answer(&self, request: &Request<'_>) -> Response {
        if !matches!(request.method, "GET" | "HEAD") {
            let mut response =
                Response::refusal(405, "method-not-allowed", "only GET and HEAD are answered here");
            response.headers.push(("Allow", "GET, HEAD".to_owned()));
            return response;
        }
        match request.path {
            "/" => text(200, INDEX.to_owned()),
            "/livez" => {
                self.guarded(request, self.access.health_access, || text(200, "live\n".to_owned()))
            }
            "/readyz" => self.guarded(request, self.access.health_access, || self.readiness()),
            "/metrics" => self.guarded(request, self.access.metrics_access, || self.metrics()),
            _ => {
                Response::refusal(404, "not-found", "there is nothing here; / lists what there is")
            }
        }
    }

    fn readiness(&self) -> Response {
        if !self.ready.load(Ordering::Relaxed) {
            return Response::refusal(
                503,
                "stopping",
                "the server is stopping; connect to another one",
            );
        }
        let persistence = self.persistence.get().and_then(Option::as_ref);
        if persistence.is_some_and(|persistence| persistence.has_failed()) {
            return Response::refusal(
                503,
                "store-failed",
                "the store has failed and keeps nothing from now on; the log says why; start the server again",
            );
        }
        text(200, "ready\n".to_owned())
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
                let mut body = render(&self.name, node);
                process::render(&mut body);
                logging::render(&mut body);
                if let Some(state) = self.tls.get() {
                    state.render(&mut body);
                }
                if let Some(Some(persistence)) = self.persistence.get() {
                    render_store(&mut body, persistence);
                }
                if let Some(rsocket) = self.rsocket.get() {
                    render_rsocket(&mut body, rsocket);
                }
                body.into()
            },
        }
    }

    fn guarded(
        &self,
        request: &Request<'_>,
        access: MonitoringAccess,
        answer: impl FnOnce() -> Response,
    ) -> Response {
        let near = request.peer.ip().to_canonical().is_loopback();
        match access {
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
        let Check::Decided(Ok(who)) = self.verifier.check(credentials) else { return false };
        let Ok(path) = Path::parse("$sys/metrics") else { return false };
        self.rules.authorise(&principal(who), Action::Monitor, Kind::Topic, &path)
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

fn text(status: u16, body: String) -> Response {
    let headers = vec![("Content-Type", "text/plain; charset=utf-8".to_owned())];
    Response { status, headers, body: body.into() }
}

/// All metrics in the text format of Prometheus, version 0.0.4.
fn render(name: &str, node: &NodeControl) -> String {
    let mut out = String::with_capacity(16 << 10);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "# HELP tiderace_build_info The version that runs; always 1.");
    let _ = writeln!(out, "# TYPE tiderace_build_info gauge");
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(out, "tiderace_build_info{{version=\"{version}\",node=\"{name}\"}} 1");
    let mut last = "";
    for sample in &node.metrics() {
        let kind = match sample.row.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        head(&mut out, &mut last, sample.row.name, sample.row.help, kind);
        render_sample(&mut out, sample);
    }
    for (row, value) in node.broker_metrics() {
        head(
            &mut out,
            &mut last,
            row.name,
            row.help,
            if row.is_counter { "counter" } else { "gauge" },
        );
        let labels =
            if row.labels.is_empty() { String::new() } else { format!("{{{}}}", row.labels) };
        let _ = writeln!(out, "{}{labels} {value}", row.name);
    }
    out
}

/// The store's metrics.
fn render_store(out: &mut String, persistence: &Persistence) {
    let mut last = "";
    for (metric, value) in persistence.metrics().values() {
        let kind = if metric.is_counter { "counter" } else { "gauge" };
        head(out, &mut last, metric.name, metric.help, kind);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{} {value}", metric.name);
    }
}

/// RSocket's metrics.
fn render_rsocket(out: &mut String, metrics: &RSocketMetrics) {
    let mut last = "";
    for (row, values, value) in metrics.values() {
        let kind = if row.is_counter { "counter" } else { "gauge" };
        head(out, &mut last, row.name, row.help, kind);
        let labels = row.labels.iter().zip(values);
        let labels: Vec<String> =
            labels.map(|(label, text)| format!("{label}=\"{text}\"")).collect();
        let labels = labels.join(",");
        let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}{braced} {value}", row.name);
    }
}

/// The two lines that stand once above the samples of one name.
fn head<'a>(out: &mut String, last: &mut &'a str, name: &'a str, help: &str, kind: &str) {
    if *last != name {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        *last = name;
    }
}

fn render_sample(out: &mut String, sample: &Sample) {
    let name = sample.row.name;
    let labels: Vec<String> = sample
        .row
        .labels
        .iter()
        .zip(&sample.labels)
        .map(|(label, value)| format!("{label}=\"{value}\""))
        .collect();
    let labels = labels.join(",");
    let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    match &sample.value {
        SampleValue::Number(value) => {
            let _ = writeln!(out, "{name}{braced} {value}");
        }
        SampleValue::Histogram { buckets, nanos } => {
            let mut count = 0;
            for (power, bucket) in buckets.iter().enumerate() {
                count += bucket;
                // Below a microsecond and between the even powers nobody looks.
                if power >= 10 && power % 2 == 0 && power + 1 < buckets.len() {
                    let bound = (1u64 << power) as f64 / 1e9;
                    let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {count}");
                }
            }
            let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "{name}_sum {}\n{name}_count {count}", *nanos as f64 / 1e9);
        }
    }
}
