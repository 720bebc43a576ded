//! The echo responder: whose turn it is when not all have room, and how much it writes at once.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use crate::support::rig::Rig;
use tiderace_base::Span;
use tiderace_rsocket::frame::{Frame, Interaction, NUMBER_MAX};
use tiderace_rsocket::{EchoOptions, RSocketOptions};

fn echoing(interval: Span, bytes_max: usize) -> Rig {
    let echo = Some(EchoOptions { interval, bytes_max });
    Rig::with(RSocketOptions { echo, ..RSocketOptions::default() })
}

/// How many items each stream was sent since the last call.
fn items(rig: &mut Rig, counts: &mut BTreeMap<u32, usize>) -> usize {
    let frames = rig.frames();
    for frame in &frames {
        *counts.entry(Frame::read(frame).unwrap().stream).or_default() += 1;
    }
    frames.len()
}

/// Opens so many streams, each with a payload of one byte.
fn open(rig: &mut Rig, streams: u32, demand: u32) {
    for at in 0..streams {
        rig.request(Interaction::Stream, 2 * at + 1, demand, None, b"x");
    }
}

/// What a frame of theirs takes.
const FRAME_BYTES: usize = 3 + 6 + 1;

#[test]
fn a_tick_without_room_for_all_goes_on_where_the_last_one_stopped() {
    let second = Span::from_secs(1);
    let mut rig = echoing(second, 100);
    open(&mut rig, 100, NUMBER_MAX);
    let mut counts = BTreeMap::new();
    let mut each = 0;
    for _ in 0..50 {
        rig.wait(second);
        each = items(&mut rig, &mut counts);
        assert!((10..=12).contains(&each), "{each} frames in a tick for 100 bytes");
    }
    let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
    assert_eq!(counts.len(), 100, "{each} in a tick are less than all");
    assert!(most - least <= 1, "between {least} and {most} items");
}

#[test]
fn without_an_interval_a_block_is_filled_and_no_more() {
    let mut rig = echoing(Span::ZERO, 1 << 20);
    assert!(!rig.session.wants_write());
    open(&mut rig, 7, NUMBER_MAX);
    assert!(rig.session.wants_write());
    let mut counts = BTreeMap::new();
    for _ in 0..20 {
        assert!(rig.poll_write(4096), "there is always more");
        let bytes = rig.queue.len();
        assert!((4096..4096 + 8 * FRAME_BYTES).contains(&bytes), "{bytes} bytes");
        assert!(
            rig.poll_write(4096) && rig.queue.len() == bytes,
            "nothing was taken, nothing follows"
        );
        items(&mut rig, &mut counts);
    }
    let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
    assert!(most - least <= most / 10, "between {least} and {most} items");
}

#[test]
fn small_blocks_reach_everybody() {
    let mut rig = echoing(Span::ZERO, 1 << 20);
    open(&mut rig, 100, NUMBER_MAX);
    let mut counts = BTreeMap::new();
    for _ in 0..50 {
        assert!(rig.poll_write(10 * FRAME_BYTES));
        items(&mut rig, &mut counts);
    }
    let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
    assert!(counts.len() == 100 && most - least <= 1, "between {least} and {most} items");
}

#[test]
fn pouring_ends_with_the_demand_and_begins_with_it() {
    let mut rig = echoing(Span::ZERO, 1 << 20);
    open(&mut rig, 3, 5);
    let mut counts = BTreeMap::new();
    assert!(!rig.poll_write(1 << 16) && !rig.session.wants_write());
    assert_eq!(items(&mut rig, &mut counts), 15);
    rig.send(&Frame::request_n(3, 1000));
    assert!(rig.session.wants_write());
    assert!(rig.poll_write(1000), "one of many takes all the room");
    while rig.poll_write(1000) {
        items(&mut rig, &mut counts);
    }
    items(&mut rig, &mut counts);
    assert_eq!(counts, BTreeMap::from([(1, 5), (3, 1005), (5, 5)]));
    rig.send(&Frame::request_n(3, 1));
    rig.send(&Frame::cancel(3));
    assert!(!rig.poll_write(1000) && rig.queue.is_empty());
}
