//! Deltas (section 8): made once, sent only to those who have what they change, always exact.
#![cfg(all(feature = "delta", feature = "vcdiff"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::support::{self, Rig, run, topic};
use tiderace_base::SampleValue;
use tiderace_delta::Offer;
use tiderace_native::NativeOptions;
use tiderace_native::codec::{Messages, ServerMessage, flag, subscribe as flags};
use tiderace_wire::{Framing, Kind, Run, SharedRun};

/// Successive values that differ in a digit or two.
fn body(at: u64) -> Vec<u8> {
    format!("{{\"bid\":1.08{at:03},\"ask\":1.09{at:03},\"name\":\"euro against dollar\"}}")
        .into_bytes()
}

fn quote(first: u64, version: u64, count: u64, previous: Option<&SharedRun>) -> SharedRun {
    let bodies: Vec<Vec<u8>> = (version..version + count).map(body).collect();
    let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
    let run = run(Kind::Topic, "fx/a", first, version, &bodies);
    SharedRun::after(Arc::new(run), previous.map(|known: &SharedRun| known.run_arc().clone()))
}

/// What the updates say, applied to what was there before, and how many of them were deltas.
fn applied(rig: &mut Rig, value: &mut Vec<u8>) -> (Vec<Vec<u8>>, usize) {
    applied_by(1, rig, value)
}

/// The same by some codec.
fn applied_by(codec: u64, rig: &mut Rig, value: &mut Vec<u8>) -> (Vec<Vec<u8>>, usize) {
    let (mut values, mut deltas) = (Vec::new(), 0);
    for frame in rig.frames() {
        for message in Messages::new(&frame) {
            let (kind, payload) = message.unwrap();
            let ServerMessage::Updates(entries) = ServerMessage::read(kind, payload).unwrap()
            else {
                continue;
            };
            for update in ServerMessage::updates(entries) {
                let update = update.unwrap();
                if update.flags & flag::DELTA == 0 {
                    *value = update.data.to_vec();
                } else {
                    assert!(update.data.len() < value.len());
                    *value = tiderace_delta::apply(codec, value, update.data, 1 << 20).unwrap();
                    deltas += 1;
                }
                values.push(value.clone());
            }
        }
    }
    (values, deltas)
}

#[test]
fn deltas_are_sent_to_those_who_have_the_value_before() {
    for (wish, path) in [(flags::DELTAS, "fx/a"), (flags::DELTAS | flags::PATTERN, "fx/*")] {
        let mut rig = Rig::new();
        let mut value = Vec::new();
        rig.subscribe(1, 2, wish, path);
        let first = quote(10, 1, 1, None);
        let second = quote(11, 2, 3, Some(&first));
        let third = quote(14, 5, 2, Some(&second));
        let fourth = quote(16, 7, 1, Some(&third));
        rig.deliver(2, &first);
        rig.deliver(2, &second);
        rig.flush();
        assert_eq!(applied(&mut rig, &mut value), ((1..5).map(body).collect(), 3), "{path}");
        // Conflation skips one: its first message is sent whole, the next is a delta to that.
        rig.deliver_part(2, &third, 1, 2);
        rig.deliver(2, &fourth);
        rig.flush();
        assert_eq!(applied(&mut rig, &mut value), (vec![body(6), body(7)], 1), "{path}");
        // The same again is no continuation.
        rig.deliver(2, &fourth);
        rig.flush();
        assert_eq!(applied(&mut rig, &mut value), (vec![body(7)], 0), "{path}");
    }
}

#[test]
fn a_new_subscription_begins_with_a_whole_value() {
    let mut rig = Rig::new();
    let mut value = Vec::new();
    rig.subscribe(1, 0, flags::DELTAS, "fx/a");
    let first = quote(10, 1, 1, None);
    rig.deliver(0, &first);
    let end = tiderace_native::codec::ClientMessage::Unsubscribe { request: 0, subscription: 0 };
    rig.send(&end);
    rig.subscribe(2, 0, flags::DELTAS, "fx/a");
    applied(&mut rig, &mut value);
    rig.deliver(0, &quote(11, 2, 1, Some(&first)));
    rig.flush();
    assert_eq!(applied(&mut rig, &mut value), (vec![body(2)], 0));
}

fn with(deltas: Offer) -> NativeOptions {
    NativeOptions { deltas, ..NativeOptions::default() }
}

#[test]
fn the_clients_best_codec_that_is_offered_is_used() {
    for (offered, codecs, agreed) in [
        (&["tiderace", "vcdiff"][..], &[2, 1][..], 2),
        (&["tiderace", "vcdiff"], &[7, 1, 2], 1),
        (&["vcdiff"], &[1, 2], 2),
        (&["tiderace"], &[2], 0),
        (&[], &[1, 2], 0),
    ] {
        let offer = Offer::of(offered.iter().copied(), 1 << 20);
        let options = with(offer);
        let metrics = options.metrics.clone();
        let mut rig = Rig::offering(options, Framing::Messages(&support::MESSAGES), codecs);
        let mut value = Vec::new();
        rig.subscribe(1, 0, flags::DELTAS, "fx/a");
        let first = quote(10, 1, 1, None);
        let second = quote(11, 2, 2, Some(&first));
        rig.deliver(0, &first);
        rig.deliver(0, &second);
        rig.flush();
        let (values, deltas) = applied_by(agreed, &mut rig, &mut value);
        assert_eq!((values, deltas), ((1..4).map(body).collect(), if agreed == 0 { 0 } else { 2 }));
        let [sent, saved] = metrics.samples().map(|sample| sample.value);
        assert_eq!(sent, SampleValue::Number(if agreed == 0 { 0 } else { 2 }));
        // Less than the bodies of the two.
        let most = (body(2).len() + body(3).len()) as u64;
        let SampleValue::Number(saved) = saved else { panic!("{saved:?}") };
        assert!(if agreed == 0 { saved == 0 } else { (1..most).contains(&saved) }, "{saved}");
    }
}

#[test]
fn deltas_can_be_switched_off() {
    let options = [
        (with(Offer::of([], 1 << 20)), flags::DELTAS),
        (with(Offer::of(["vcdiff"], 1 << 20)), flags::DELTAS),
        (with(Offer::of(["tiderace"], 20)), flags::DELTAS),
        (NativeOptions::default(), 0),
    ];
    for (options, wish) in options {
        let mut rig = Rig::with(options, Framing::Messages(&support::MESSAGES));
        let mut value = Vec::new();
        rig.subscribe(1, 0, wish, "fx/a");
        let first = quote(10, 1, 1, None);
        rig.deliver(0, &first);
        rig.deliver(0, &quote(11, 2, 1, Some(&first)));
        rig.flush();
        assert_eq!(applied(&mut rig, &mut value).1, 0);
    }
}

#[test]
fn values_with_nothing_in_common_are_sent_whole() {
    let mut rig = Rig::new();
    rig.subscribe(1, 0, flags::DELTAS, "fx/a");
    let first = topic("fx/a", 1, 1, &[b"0123456789abcdefghij"]);
    let other: Run = run(Kind::Topic, "fx/a", 2, 2, &[b"ABCDEFGHIJKLMNOPQRST"]);
    let second = SharedRun::after(Arc::new(other), Some(first.run_arc().clone()));
    rig.deliver(0, &first);
    rig.deliver(0, &second);
    rig.flush();
    let mut value = Vec::new();
    assert_eq!(applied(&mut rig, &mut value).1, 0);
    assert_eq!(value, b"ABCDEFGHIJKLMNOPQRST");
}
