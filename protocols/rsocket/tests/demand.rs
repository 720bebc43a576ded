//! Demand against a model: whatever both sides do, the session sends no more than was wanted, asks for no
//! more than it can answer, and forgets nothing.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::rig::{Rig, route, run};
use proptest::prelude::*;
use tiderace_base::Span;
use tiderace_rsocket::frame::{Body, Frame, Interaction, NUMBER_MAX, Payload};
use tiderace_rsocket::{EchoOptions, RSocketOptions};
use tiderace_wire::{Command, Exchange, ExchangeKey, Kind};

/// What the client of a channel does.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Asks for more.
    Demand(u32),
    /// Sends an item, if it may.
    Item,
    /// The other side answers, or says something.
    Answer,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let demand = prop_oneof![1..9u32, Just(NUMBER_MAX)];
    let step = prop_oneof![demand.prop_map(Step::Demand), Just(Step::Item), Just(Step::Answer)];
    proptest::collection::vec(step, 0..60)
}

/// What a channel's client has counted.
#[derive(Debug, Default)]
struct Client {
    wanted: u64,
    got: u64,
    granted: u64,
    sent: u64,
}

impl Client {
    fn hear(&mut self, rig: &mut Rig) {
        for frame in rig.frames() {
            match Frame::read(&frame).unwrap().body {
                Body::Payload(item) => self.got += u64::from(item.next),
                Body::RequestN(items) => self.granted += u64::from(items),
                other => panic!("{other:?}"),
            }
        }
        assert!(self.got <= self.wanted, "{self:?}");
    }

    fn may_send(&self) -> bool {
        self.sent < self.granted
    }
}

proptest! {
    #[test]
    fn echo_channels_answer_every_item_within_the_demand(initial in 1..9u32, steps in steps()) {
        let echo = Some(EchoOptions { interval: Span::from_secs(1), bytes_max: 1000 });
        let options = RSocketOptions { echo, channel_window: 5, ..RSocketOptions::default() };
        let mut rig = Rig::with(options);
        let mut client = Client { wanted: initial.into(), ..Client::default() };
        rig.request(Interaction::Channel, 1, initial, None, b"first");
        client.hear(&mut rig);
        for step in steps {
            match step {
                Step::Demand(items) => {
                    client.wanted += u64::from(items);
                    rig.send(&Frame::request_n(1, items));
                }
                Step::Item if client.may_send() => {
                    client.sent += 1;
                    rig.send(&Frame::item(1, Payload::data(b"x"), false));
                }
                Step::Item | Step::Answer => {}
            }
            client.hear(&mut rig);
            prop_assert_eq!(client.got, client.sent + 1, "each item comes back at once");
            // As many as can be answered may come, and at least one if any can.
            let room = client.wanted - client.got;
            prop_assert!(client.granted - client.sent <= room.min(5));
            prop_assert!(room == 0 || client.may_send());
        }
        prop_assert!(rig.end.is_none());
    }

    #[test]
    fn publishing_channels_acknowledge_every_item(initial in 1..9u32, steps in steps()) {
        let options = RSocketOptions { channel_window: 5, ..RSocketOptions::default() };
        let mut rig = Rig::with(options);
        let mut client = Client { wanted: initial.into(), sent: 0, ..Client::default() };
        rig.request(Interaction::Channel, 1, initial, Some(&route("a")), b"first");
        let mut owed = std::collections::VecDeque::new();
        let note = |rig: &mut Rig, owed: &mut std::collections::VecDeque<u32>| {
            for command in rig.asked() {
                let Command::Publish { confirm: Some(confirm), .. } = command else { panic!() };
                owed.extend(confirm.from..=confirm.to);
            }
        };
        note(&mut rig, &mut owed);
        client.hear(&mut rig);
        for step in steps {
            match step {
                Step::Demand(items) => {
                    client.wanted += u64::from(items);
                    rig.send(&Frame::request_n(1, items));
                }
                Step::Item if client.may_send() => {
                    client.sent += 1;
                    rig.send(&Frame::item(1, Payload::data(b"x"), false));
                }
                Step::Item => {}
                Step::Answer => {
                    if let Some(token) = owed.pop_front() {
                        rig.confirm(token);
                    }
                }
            }
            note(&mut rig, &mut owed);
            client.hear(&mut rig);
            prop_assert_eq!(client.got + owed.len() as u64, client.sent + 1);
            prop_assert!(client.granted - client.sent + owed.len() as u64 <= client.wanted - client.got);
        }
        prop_assert!(rig.end.is_none());
    }

    #[test]
    fn conversations_deliver_all_in_order_within_the_demand(initial in 1..4u32, steps in steps()) {
        let mut rig = Rig::new();
        rig.request(Interaction::Channel, 1, initial, Some(&route("service:s")), b"first");
        let (mut wanted, mut said) = (u64::from(initial), 0u8);
        let mut got = Vec::new();
        for step in steps {
            match step {
                Step::Demand(items) => {
                    wanted += u64::from(items);
                    rig.send(&Frame::request_n(1, items));
                }
                Step::Answer | Step::Item => {
                    said += 1;
                    let exchange =
                        Exchange { key: ExchangeKey::caller(1), first: false, last: false, bare: false, credit: None };
                    let run = run(Kind::Service, "s", 1, &[&[said]]);
                    rig.deliver_exchange(u32::MAX, &run, exchange);
                }
            }
            for frame in rig.frames() {
                if let Body::Payload(item) = Frame::read(&frame).unwrap().body {
                    got.extend_from_slice(item.payload.data);
                }
            }
            let expected: Vec<u8> = (1..=said).take(wanted.min(255) as usize).collect();
            prop_assert_eq!(&got, &expected);
        }
    }
}

#[test]
fn who_wants_everything_cannot_want_more() {
    for (credit, expected) in [(NUMBER_MAX, 0), (NUMBER_MAX - 1, 1)] {
        let mut rig = Rig::new();
        rig.request(Interaction::Stream, 1, credit, Some(&route("a")), b"");
        rig.confirm(1);
        rig.commands.clear();
        rig.send(&Frame::request_n(1, 7));
        let is_credit = |command: &Command| matches!(command, Command::Credit { messages: 7, .. });
        assert_eq!(rig.commands.iter().filter(|command| is_credit(command)).count(), expected);
        assert_eq!((rig.commands.len(), rig.end), (expected, None), "{credit}");
    }
}
