//! BROWSE, FOLLOW, START and BROWSED (`docs/protocol.md`, sections 4 and 5).

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use crate::support::{Rig, subscribe};
use tiderace_native::codec::{ClientMessage, SubscribeMessage, subscribe as flags};
use tiderace_wire::{Browsing, Command, Kind, QueueStart, Reply, SubscriptionKey};

#[test]
fn subscribe_says_how_a_queue_is_shown_and_where_it_begins() {
    for (flag, start, expected) in [
        (0, None, (None, QueueStart::Version(0))),
        (flags::FOLLOW, None, (None, QueueStart::Version(0))),
        (flags::BROWSE, None, (Some(Browsing::ToEnd), QueueStart::Version(0))),
        (flags::BROWSE | flags::FOLLOW, Some(0), (Some(Browsing::Following), QueueStart::Next)),
        (flags::EXPLICIT, Some(7), (None, QueueStart::Version(7))),
    ] {
        let mut rig = Rig::new();
        let kind = Kind::Queue;
        let message = SubscribeMessage { kind, start, ..subscribe(1, 3, flag, "jobs") };
        rig.send(&ClientMessage::Subscribe(message));
        let [Command::Subscribe(wish)] = &rig.commands[..] else { panic!() };
        assert_eq!((wish.browsing, wish.start), expected);
    }
}

#[test]
fn the_end_of_a_queue_is_told() {
    let mut rig = Rig::new();
    let kind = Kind::Queue;
    let message = SubscribeMessage { kind, ..subscribe(1, 3, flags::BROWSE, "jobs") };
    rig.send(&ClientMessage::Subscribe(message));
    rig.confirm(1);
    rig.received();
    rig.reply(Reply::Browsed { key: SubscriptionKey(3) });
    assert_eq!(rig.received(), ["Browsed { subscription: 3 }"]);
}
