//! What clients ask for and what they publish.

use tiderace_base::Span;
use tiderace_wire::{Browsing, Flags, Position, QueueStart, Replay};

/// What a client asks for in a subscription; targets are written like `topic:a/*`.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    pub targets: Vec<String>,
    pub selector: Option<&'static str>,
    pub explicit: bool,
    pub window: Option<u32>,
    pub exclusive: bool,
    pub browsing: Option<Browsing>,
    pub start: Option<QueueStart>,
    pub unretained: bool,
    pub confirm_values: bool,
    pub recoverable: bool,
    pub deltas: bool,
    pub since: Option<Position>,
    pub replay: Option<Replay>,
    pub interval: Span,
    pub credit: Option<u64>,
    pub notices: bool,
}

impl Wish {
    pub fn to(target: &str) -> Wish {
        Wish { targets: vec![target.to_owned()], ..Wish::default() }
    }
}

/// A message as it is published.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub body: String,
    pub properties: String,
    pub flags: Flags,
    pub expires_ms: Option<u64>,
}

impl Outgoing {
    pub fn new(body: impl Into<String>) -> Outgoing {
        let properties = String::new();
        Outgoing { body: body.into(), properties, flags: Flags::NONE, expires_ms: None }
    }
}
