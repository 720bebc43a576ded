//! A node that sends its clients to other nodes, as an operation, and how far it has come.
//!
//! ```text
//!   Serving ──drain──▶ Announced ──delay──▶ Draining ──all have left──▶ Drained
//!      ▲                     │     listeners closed, goodbyes in slots      │
//!      │ all are open        ▼                                              │
//!      └────────────────  Opening  ◀──────────── drain-cancel ──────────────┘
//! ```
//! Invariant: the words for states are the same in every protocol, in metrics and in logs.

use tiderace_base::{Addresses, Span};
use tiderace_value::append_text;

/// Over how long the goodbyes of a drain may be spread, at most.
pub const DRAIN_OVER_MAX: Span = Span::from_secs(24 * 3600);
/// How long a drain may be announced before listeners close, at most.
pub const DRAIN_DELAY_MAX: Span = Span::from_secs(3600);

/// What a drain is to be like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainRequest {
    /// Over how long the goodbyes are spread.
    pub over: Span,
    /// How long the node says that it drains before listeners close.
    pub delay: Span,
    /// Where clients are told to go.
    pub to: Option<Addresses>,
    /// Whether the node stops when all have left.
    pub exit: bool,
}

/// How far a node has come with sending its clients elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DrainPhase {
    /// It does not drain.
    #[default]
    Serving = 0,
    /// It says that it will, and still accepts.
    Announced = 1,
    /// It accepts no more, and says its goodbyes.
    Draining = 2,
    /// All clients have left.
    Drained = 3,
    /// It was told to serve again, and listeners that it had closed are not all open.
    Opening = 4,
}

impl DrainPhase {
    /// Its word in protocols and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            DrainPhase::Serving => "serving",
            DrainPhase::Announced => "announced",
            DrainPhase::Draining => "draining",
            DrainPhase::Drained => "drained",
            DrainPhase::Opening => "opening",
        }
    }

    /// The phase of that number; of a number that is none, [`DrainPhase::Serving`].
    pub fn numbered(number: u8) -> DrainPhase {
        use DrainPhase::{Announced, Drained, Draining, Opening, Serving};
        let all = [Announced, Draining, Drained, Opening];
        all.into_iter().find(|it| *it as u8 == number).unwrap_or(Serving)
    }
}

/// How a node's drain stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainStatus {
    /// How far it has come.
    pub phase: DrainPhase,
    /// What it is like; all absent while there is none.
    pub request: DrainRequest,
    /// Since it was asked for.
    pub elapsed: Span,
    /// Connections, and sessions without one, that are to leave and have not.
    pub connections: u64,
    /// How many there were when listeners closed.
    pub connections_at_begin: u64,
    /// Goodbyes said.
    pub goodbyes: u64,
    /// Listeners that accept now.
    pub listeners: u64,
    /// Of these, those that a drain leaves open.
    pub stays_open: u64,
    /// Whether it ends with the node's end, so that it cannot be cancelled.
    pub is_final: bool,
}

impl DrainStatus {
    /// Appends it as JSON.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        let DrainRequest { over, delay, to, exit } = &self.request;
        let (phase, is_final) = (self.phase.as_str(), self.is_final);
        let text = format!(
            r#"{{"state":"{phase}","connections":{},"connections_at_begin":{},"goodbyes":{},"listeners":{},"stays_open":{},"elapsed_ms":{},"delay_ms":{},"over_ms":{},"exit":{exit},"final":{is_final},"to":["#,
            self.connections,
            self.connections_at_begin,
            self.goodbyes,
            self.listeners,
            self.stays_open,
            self.elapsed.as_millis(),
            delay.as_millis(),
            over.as_millis(),
        );
        out.extend_from_slice(text.as_bytes());
        for (place, address) in to.iter().flat_map(Addresses::iter).enumerate() {
            out.extend_from_slice(if place == 0 { b"" } else { b"," });
            append_text(out, address);
        }
        out.extend_from_slice(b"]}");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_json() {
        let to = Addresses::new(["wss://b.example.org", "tcp://c.example.org:1"]).unwrap();
        let request = DrainRequest { over: Span::from_secs(600), to, ..DrainRequest::default() };
        let status = DrainStatus {
            phase: DrainPhase::Draining,
            request,
            connections: 7,
            connections_at_begin: 9,
            ..DrainStatus::default()
        };
        let mut out = Vec::new();
        status.write_json(&mut out);
        let expected = concat!(
            r#"{"state":"draining","connections":7,"connections_at_begin":9,"goodbyes":0,"listeners":0,"stays_open":0,"#,
            r#""elapsed_ms":0,"delay_ms":0,"over_ms":600000,"exit":false,"final":false,"#,
            r#""to":["wss://b.example.org","tcp://c.example.org:1"]}"#
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn phases_have_numbers_of_their_own() {
        use DrainPhase::{Announced, Drained, Draining, Opening, Serving};
        for phase in [Serving, Announced, Draining, Drained, Opening] {
            assert_eq!(DrainPhase::numbered(phase as u8), phase);
        }
    }
}
