//! The session without a client that keeps `$sys/upstreams/NAME` as it is.
//!
//! It lives on the first shard; the node's board says how it stands with each. Invariant: a value is published when it has
//! changed, at most a few times a second.

use std::sync::Arc;

use serde_json::Value as Json;
use tiderace_base::{Close, Now, ShardId, Span, Time};
use tiderace_config::Config;
use tiderace_topics::Path;
use tiderace_wire::{
    Context, Delivery, Destination, Flags, Kind, Meta, Open, Opening, Output, Progress, Reply,
    Session, properties,
};

use super::state::value;
use crate::monitor::Monitor;

/// How often it is looked whether something has changed.
const LOOK_INTERVAL: Span = Span::from_millis(250);

/// The session, if there are upstreams.
pub(crate) fn shown(config: &Config, monitor: &Arc<Monitor>) -> Option<Arc<Open>> {
    let names = config
        .upstreams
        .iter()
        .map(|upstream| Path::parse(&format!("$sys/upstreams/{}", upstream.name)).ok());
    let topics: Vec<Destination> =
        names.flatten().map(|path| Destination { kind: Kind::Topic, path }).collect();
    if topics.is_empty() {
        return None;
    }
    let monitor = Arc::clone(monitor);
    let open = move |opening: &Opening<'_>| -> Box<dyn Session> {
        let is_first = opening.shard == ShardId(0);
        Box::new(Shown {
            topics: topics.clone(),
            said: vec![Json::Null; topics.len()],
            monitor: Arc::clone(&monitor),
            due: if is_first { opening.now.time } else { Time::NEVER },
        })
    };
    Some(Arc::new(open))
}

struct Shown {
    /// One for each upstream, in their order.
    topics: Vec<Destination>,
    /// What was published last.
    said: Vec<Json>,
    monitor: Arc<Monitor>,
    due: Time,
}

impl Session for Shown {
    fn receive(
        &mut self,
        _now: Now,
        input: &[u8],
        _context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        Ok(Progress { consumed: input.len(), need: 0 })
    }

    fn reply(&mut self, _now: Now, _reply: Reply, _context: &mut Context<'_>) -> Result<(), Close> {
        Ok(())
    }

    fn deliver(&mut self, _now: Now, _delivery: &Delivery<'_>, _output: &mut Output<'_>) {}

    fn deadline(&self) -> Time {
        self.due
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.due = now.time + LOOK_INTERVAL;
        // The board is there a moment after the first turn.
        let statuses = self.monitor.node.get().map(|node| node.upstreams()).unwrap_or_default();
        for ((topic, said), status) in self.topics.iter().zip(&mut self.said).zip(&statuses) {
            let value = value(status);
            if value != *said {
                let meta = Meta { flags: Flags::RETAIN, expires_ms: None };
                properties::append(context.commands.message(topic), "content-type", JSON);
                context.commands.publish(value.to_string().as_bytes(), meta, None);
                *said = value;
            }
        }
        Ok(())
    }

    fn goodbye(&mut self, _close: &Close, _output: &mut Output<'_>) {}

    fn is_established(&self) -> bool {
        true
    }
}

const JSON: &str = "application/json";
