//! What PUBLISH says to a queue.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use crate::support::Rig;
use tiderace_native::codec::{ClientMessage, Destination, Publish, flag};
use tiderace_wire::{Command, Flags, Kind};

#[test]
fn queue_fields_say_when_a_message_is_delivered() {
    let mut rig = Rig::new();
    let publish = |request, flags, kind, properties| {
        let destination = Destination::Path(kind, "jobs");
        ClientMessage::Publish(Publish {
            request,
            flags,
            destination,
            expires_ms: None,
            properties,
            body: b"x",
        })
    };
    for (properties, expected) in [
        (&b"a:b\ndelay:500\nc:d\n"[..], &b"deliver-at:1000500\na:b\nc:d\n"[..]),
        (b"deliver-at:2000000\n", b"deliver-at:2000000\n"),
        (b"deliver-at:1\n", b""),
        (b"a:b\nmessage_group:g\ndelay:1\n", b"deliver-at:1000001\nmessage_group:g\na:b\n"),
    ] {
        rig.commands.clear();
        rig.send(&publish(0, flag::QUEUE_FIELDS, Kind::Queue, properties));
        let [Command::Publish { run, .. }] = &rig.commands[..] else { panic!() };
        let message = run.message(0).unwrap();
        assert_eq!(message.properties, expected);
        assert_eq!(message.flags.contains(Flags::DELAYED), !expected.is_empty());
        assert_eq!(message.deliver_at_ms().is_some(), !expected.is_empty());
    }
    for (properties, priority) in
        [(&b"a:b\npriority:9\n"[..], 9), (b"priority:0\n", 0), (b"a:b\n", 4)]
    {
        rig.commands.clear();
        rig.send(&publish(0, flag::QUEUE_FIELDS, Kind::Queue, properties));
        let [Command::Publish { run, .. }] = &rig.commands[..] else { panic!() };
        assert_eq!(run.priority(), priority);
    }
    // Without the flag they are properties like any others.
    rig.commands.clear();
    rig.send(&publish(0, 0, Kind::Queue, b"delay:500\n"));
    let [Command::Publish { run, .. }] = &rig.commands[..] else { panic!() };
    assert_eq!(run.message(0).unwrap().properties, b"delay:500\n");
    for ((kind, properties), request) in [
        (Kind::Queue, &b"delay:-1\n"[..]),
        (Kind::Queue, b"deliver-at:99999999999999999999\n"),
        (Kind::Topic, b"delay:5\n"),
    ]
    .into_iter()
    .zip(1..)
    {
        rig.commands.clear();
        rig.send(&publish(request, flag::QUEUE_FIELDS, kind, properties));
        assert!(rig.commands.is_empty());
        assert!(rig.received()[0].contains("bad-schedule"));
    }
}
