//! Rules for Prometheus and boards for Grafana in `deploy/monitoring`, made from tables beside the metrics.
//!
//! Invariant: an expression names metrics that some table has.

mod boards;
mod panels;
mod rules;
mod trends;

pub(crate) use panels::{connections, overview, queues, store, topics};
pub(crate) use rules::{rules, rules_test};
pub(crate) use trends::TRENDS;
