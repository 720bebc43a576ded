//! How much input is taken in before others have their turn.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::rig::{Rig, route};
use tiderace_base::limits::INTAKE_COMPILED_BYTES_MAX;
use tiderace_rsocket::frame::{Body, Frame, Interaction, Payload, Request};
use tiderace_topics::compiled_bytes;
use tiderace_wire::Framing;

#[test]
fn dear_selectors_are_taken_in_over_several_turns() {
    let mut many = Vec::new();
    for number in 0..100 {
        let metadata = route(&format!("topic:?a/{number}/(a|b|[c-x]{{1,4}}){{1,3}}"));
        let request = Request {
            interaction: Interaction::Stream,
            follows: false,
            complete: false,
            credit: 1,
            payload: Payload { metadata: Some(&metadata), data: b"" },
        };
        let frame = Frame { stream: 2 * number + 1, body: Body::Request(request) };
        frame.write(Framing::Stream, &mut many);
    }
    let mut rig = Rig::new();
    let before = compiled_bytes();
    rig.send_bytes(&many);
    let shares = (compiled_bytes() - before) / INTAKE_COMPILED_BYTES_MAX;
    assert!(shares >= 2, "the test is to take long: {shares}");
    // The one with which a share is used up goes beyond it.
    assert!(rig.pieces as u64 > shares / 2, "{} turns for {shares} shares", rig.pieces);
    assert_eq!(rig.commands.len(), 100, "{:?}", rig.end);
}
