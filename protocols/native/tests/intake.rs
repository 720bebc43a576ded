//! How much of a message is taken in before others have their turn.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::{Rig, subscribe};
use tiderace_base::limits::{INTAKE_COMPILED_BYTES_MAX, INTAKE_MESSAGES_MAX};
use tiderace_native::codec::{ClientMessage, Destination, Publish};
use tiderace_topics::compiled_bytes;
use tiderace_wire::{Command, Kind};

#[test]
fn a_message_of_many_messages_is_taken_in_over_several_turns() {
    let publish = ClientMessage::Publish(Publish {
        request: 0,
        flags: 0,
        destination: Destination::Path(Kind::Topic, "a"),
        expires_ms: None,
        properties: b"",
        body: b"",
    });
    let mut many = Vec::new();
    for _ in 0..5 * INTAKE_MESSAGES_MAX {
        publish.write(&mut many);
    }
    let mut rig = Rig::new();
    rig.send_bytes(&many);
    assert_eq!(rig.pieces, 5);
    let published = |command: &Command| match command {
        Command::Publish { run, .. } => run.len(),
        _ => 0,
    };
    assert_eq!(rig.commands.iter().map(published).sum::<usize>(), 5 * INTAKE_MESSAGES_MAX);
}

#[test]
fn dear_selectors_are_taken_in_over_several_turns() {
    let mut many = Vec::new();
    let paths: Vec<String> =
        (1..=400).map(|number| format!("?a/{number}/(a|b|[c-x]{{1,4}}){{1,3}}")).collect();
    for (path, number) in paths.iter().zip(1..) {
        ClientMessage::Subscribe(subscribe(number, number, 256, path)).write(&mut many);
    }
    let mut rig = Rig::new();
    let before = compiled_bytes();
    rig.send_bytes(&many);
    let shares = (compiled_bytes() - before) / INTAKE_COMPILED_BYTES_MAX;
    assert!(shares >= 4, "the test is to take long: {shares}, {:?}", rig.end);
    // The one with which a share is used up goes beyond it.
    assert!(rig.pieces as u64 > shares / 2, "{} turns for {shares} shares", rig.pieces);
    assert_eq!(rig.commands.len(), 400, "{:?}", rig.end);
}
