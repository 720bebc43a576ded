//! What Diffusion published.

use serde_json::{Value, json};

/// A row that Diffusion published.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) clients: u32,
    pub(crate) deltas: bool,
    pub(crate) events_per_s: f64,
    pub(crate) cores: f64,
    pub(crate) latency_ms: u32,
    pub(crate) megabits_per_s: f64,
}

impl Row {
    /// For the report in JSON.
    pub(crate) fn json(&self) -> Value {
        json!({
            "clients": self.clients,
            "deltas": self.deltas,
            "events_per_s": self.events_per_s,
            "cores": self.cores,
            "latency_ms": self.latency_ms,
            "megabits_per_s": self.megabits_per_s,
        })
    }
}

const fn row(clients: u32, deltas: bool, cores: f64, latency_ms: u32, megabits_per_s: f64) -> Row {
    let events_per_s = clients as f64 * 20.0;
    Row { clients, deltas, events_per_s, cores, latency_ms, megabits_per_s }
}

/// "Benchmarking and scaling subscribers", diffusiondata.com: c6in.4xlarge, 16 vCPU, clients on others.
pub(crate) const PUBLISHED: [Row; 6] = [
    row(5_000, false, 2.0, 1, 600.0),
    row(10_000, false, 3.0, 1, 1_200.0),
    row(20_000, false, 5.0, 1, 2_400.0),
    row(5_000, true, 2.5, 1, 103.0),
    row(10_000, true, 3.5, 1, 206.0),
    row(20_000, true, 5.6, 2, 412.0),
];
