//! Where a connection goes when the handling of its input is over.
//!
//! What makes a connection leave its record or its shard is found out while bytes of it are handled, which
//! have to be kept before it can go. So it is returned through the calls, up to where they are kept.

use tiderace_base::ShardId;
use tiderace_wire::{HandOver, Ticket};

/// A connection that leaves.
#[derive(Debug)]
pub(crate) struct Departure {
    /// How many of the bytes that are being handled are done with; the others go with it.
    pub(crate) consumed: usize,
    pub(crate) to: LeavesFor,
}

/// What a connection leaves for.
#[derive(Debug)]
pub(crate) enum LeavesFor {
    /// The shard whose request it is.
    Shard(ShardId),
    /// The session that this probe was for.
    Probed(Ticket),
    /// The session that its client has named.
    Named(HandOver),
}

impl Departure {
    /// A departure before anything is consumed.
    pub(crate) fn to(to: LeavesFor) -> Box<Departure> {
        Box::new(Departure { consumed: 0, to })
    }
}

/// What handling some bytes led to.
#[derive(Debug)]
pub(crate) enum Step {
    /// So many bytes are done with; the rest is for the stage that the connection is in now.
    Next(usize),
    /// So many bytes are done with; the rest waits.
    Wait(usize),
    /// The connection leaves with the rest.
    Leave(Box<Departure>),
}

const _: () =
    assert!(size_of::<Step>() <= 16, "it is returned for each piece of input, in registers");
