//! What has become of messages that are traced, for who makes spans of it.
//!
//! Relies on who hands a run over having marked it. Invariant: for messages that are not traced there is nothing here, and
//! nothing is kept.

use std::rc::Weak;
use std::sync::Arc;

use tiderace_base::CloseCode;
use tiderace_topics::Path;
use tiderace_wire::{Destination, Run, SharedRun, Traced};

/// Something that has happened to messages that are traced; what time it is, who takes it knows.
#[derive(Debug)]
pub enum SpanFact {
    /// Their home has taken them, or somebody has refused them.
    Published {
        /// The messages.
        traced: Arc<Traced>,
        /// Where they were sent.
        destination: Destination,
        /// Why they were refused, if they were.
        refused: Option<CloseCode>,
    },
    /// They have been put where subscribers of this shard, or a consumer, will take them.
    Delivering {
        /// The messages of the run.
        traced: Arc<Traced>,
        /// Where they were sent.
        destination: Destination,
        /// Which messages of the run.
        range: std::ops::Range<u32>,
        /// How many subscriptions they wait for.
        deliveries: usize,
        /// How often they have been delivered before.
        redeliveries: u32,
        /// Gone when nobody waits for them any more; as many hold it as still do.
        run: Weak<SharedRun>,
    },
    /// A call is over for its caller.
    Called {
        /// The call.
        traced: Arc<Traced>,
        /// The service.
        service: Path,
        /// Why it was, if not because both sides have said their last.
        ended: Option<CloseCode>,
    },
}

/// The messages of a run that are traced, with where it goes, for when it is gone.
#[inline]
pub(crate) fn traced_of(run: &Run) -> Option<(Arc<Traced>, Destination)> {
    let traced = run.traced()?;
    Some((traced.clone(), run.destination().clone()))
}
