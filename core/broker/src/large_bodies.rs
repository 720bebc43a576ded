//! Bodies that lie in files, and who has to have them in memory.
//!
//! Functions without state. Invariant: what is taken into memory is no larger than a message there may be.

use tiderace_base::{Close, CloseCode, Memory};
use tiderace_wire::{Conflation, Run, TopicSpec, ValueType};

/// Why a topic has to have the body of a message in memory, if it has to: it looks into its values or merges them.
pub(crate) fn wants_memory(spec: &TopicSpec) -> Option<&'static str> {
    match spec {
        TopicSpec { value, .. } if *value != ValueType::Any => {
            Some("the topic has a type of value")
        }
        TopicSpec { series: true, .. } => Some("the topic is a time series"),
        TopicSpec { conflation: Conflation { merge: true, .. }, .. } => {
            Some("the topic merges its values")
        }
        _ => None,
    }
}

/// A message whose body lies in a file, with its body in memory, for a reason.
pub(crate) fn into_memory(
    run: Run,
    why: &str,
    bytes_max: usize,
    memory: &Memory,
) -> Result<Run, Close> {
    let bytes = run.body_in_file().map_or(0, |body| body.len());
    if bytes > bytes_max {
        let reason = format!(
            "the message has {bytes} bytes, and {bytes_max} (`limits.message_bytes_max`) is the most to {}, since {why}",
            run.destination().path
        );
        return Err(Close::new(CloseCode::BodyTooLarge, reason));
    }
    if memory.is_full() {
        return Err(CloseCode::MemoryFull.into());
    }
    Ok(run.into_memory())
}
