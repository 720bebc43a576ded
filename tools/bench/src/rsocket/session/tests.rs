#![allow(clippy::unwrap_used)]

use super::*;
use crate::clients::Counters;
use crate::clock::{Clock, SECOND_NS, Window};
use crate::rsocket::load::{Pulse, Random};
use crate::rsocket::walk::{Framing, Walker};
use crate::rsocket::wheel::Wheel;

/// A session with a clock that the test moves.
struct Bench {
    load: Load,
    session: Session,
    counters: Counters,
    said: Vec<u8>,
    random: Random,
    wheel: Wheel,
    pulse: Pulse,
    now_us: u64,
}

impl Bench {
    fn new(mode: RsocketMode, interval_us: u64, credit: Option<u32>) -> Bench {
        let load = Load { mode, interval_us, credit, payload: 16, metadata: Vec::new() };
        let mut session = Session::new(0);
        session.reserve(4, mode);
        Bench {
            load,
            session,
            counters: Counters::new(Clock::start(), Window::opening_at(0, 0, 10_000)),
            said: Vec::new(),
            random: Random::new(16, 1),
            wheel: Wheel::new(interval_us, START_US),
            pulse: Pulse::default(),
            now_us: START_US,
        }
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Session, &mut Turn<'_>) -> T) -> T {
        let mut turn = Turn {
            load: &self.load,
            now_ns: self.now_us * 1_000,
            counters: &mut self.counters,
            said: &mut self.said,
            random: &mut self.random,
            wheel: &mut self.wheel,
            pulse: &self.pulse,
        };
        act(&mut self.session, &mut turn)
    }

    fn begin(&mut self) {
        self.with(|session, turn| session.begin(turn));
    }

    /// Moves the clock and lets what is due be sent.
    fn pass(&mut self, micros: u64) {
        let end = self.now_us + micros;
        while self.now_us < end {
            self.now_us = (self.now_us + 500).min(end);
            let mut due = Vec::new();
            self.wheel.take(self.now_us, &mut due);
            for what in due {
                self.with(|session, turn| session.due(what as usize, turn));
            }
        }
    }

    /// The server says something.
    fn hear(&mut self, stream: u32, kind: (u8, u16), body: &[u8]) -> io::Result<()> {
        let mut wire = Vec::new();
        frame::append(&mut wire, stream, kind, |out| out.extend_from_slice(body));
        let walk = |session: &mut Session, turn: &mut Turn<'_>| {
            Walker::new(Framing::Lengths).feed(&wire, &mut Hearing { session, turn })
        };
        self.with(walk)
    }

    fn item(&mut self, stream: u32) {
        self.hear(stream, (frame::PAYLOAD, NEXT), b"sixteen bytes ..").unwrap();
    }

    fn answer(&mut self, stream: u32) {
        self.hear(stream, (frame::PAYLOAD, NEXT | COMPLETE), b"").unwrap();
    }

    /// What was said since the last call: streams, types and lengths.
    fn said(&mut self) -> Vec<(u32, u8, usize)> {
        struct List(Vec<(u32, u8, usize)>);
        impl Hear for List {
            fn frame(&mut self, bytes: &[u8], length: usize) -> io::Result<()> {
                let header = frame::header(bytes).unwrap();
                self.0.push((header.stream, header.kind, length));
                Ok(())
            }
        }
        let mut list = List(Vec::new());
        Walker::new(Framing::Lengths).feed(&std::mem::take(&mut self.said), &mut list).unwrap();
        list.0
    }

    /// The longest latency so far, in whole milliseconds, and how many there are.
    fn latency(&self) -> (u64, u64) {
        let total = self.counters.latency.total();
        (total.max() / 1_000_000, total.len())
    }
}

/// Near the end of the 32 bits that streams count microseconds in.
const START_US: u64 = (1 << 32) - 1_500_000;
const SECOND_US: u64 = SECOND_NS / 1_000;

#[test]
fn streams_have_a_beat_of_their_own() {
    let mut bench = Bench::new(RsocketMode::Stream, SECOND_US, None);
    bench.begin();
    bench.begin();
    let request = 6 + 4 + 16;
    assert_eq!(bench.said(), [(1, REQUEST_STREAM, request), (3, REQUEST_STREAM, request)]);
    bench.pass(700_000);
    bench.item(3);
    assert_eq!(bench.latency(), (0, 0), "the first sets the beat");
    bench.pass(1_050_000);
    bench.item(3);
    assert_eq!(bench.latency(), (50, 1));
    // The second was early rather than the first on time.
    bench.pass(900_000);
    bench.item(3);
    assert_eq!(bench.latency(), (50, 2));
    bench.pass(3_010_000);
    bench.item(3);
    assert_eq!(bench.latency().0 / 10, 201, "two were left out");
    bench.pass(990_000);
    bench.item(3);
    bench.pass(1_000_000);
    bench.item(3);
    assert_eq!((bench.latency().0 / 10, bench.latency().1), (201, 5), "and are not charged again");
    assert_eq!((bench.counters.received, bench.session.open()), (6, 2));
    assert!(bench.said().is_empty());
}

#[test]
fn more_is_asked_for_when_half_has_come() {
    let mut bench = Bench::new(RsocketMode::Stream, 0, Some(4));
    bench.begin();
    bench.said();
    for round in 0..10 {
        bench.item(1);
        assert!(bench.said().is_empty(), "{round}");
        bench.item(1);
        assert_eq!(bench.said(), [(1, frame::REQUEST_N, 10)], "{round}");
    }
    assert_eq!(bench.latency(), (0, 0), "without a schedule there is no latency");
}

#[test]
fn one_request_is_under_way_and_delay_is_charged_to_those_it_delayed() {
    let mut bench = Bench::new(RsocketMode::RequestResponse, SECOND_US, None);
    bench.begin();
    assert_eq!(bench.said(), [(1, REQUEST_RESPONSE, 22)]);
    bench.pass(5_000);
    bench.answer(1);
    assert_eq!(bench.latency(), (5, 1));
    assert!(bench.said().is_empty());
    bench.pass(SECOND_US);
    assert_eq!(bench.said(), [(3, REQUEST_RESPONSE, 22)]);
    // 2.5 s without an answer: the next one was due a second after this one.
    bench.pass(2_500_000);
    assert!(bench.said().is_empty());
    bench.answer(3);
    assert_eq!(bench.latency(), (2_506, 2));
    assert_eq!(bench.said(), [(5, REQUEST_RESPONSE, 22)]);
    bench.answer(5);
    assert_eq!(bench.latency().1, 3);
    bench.pass(1_000);
    assert_eq!(bench.said(), [(7, REQUEST_RESPONSE, 22)], "due half a second ago");
    bench.answer(7);
    bench.pass(400_000);
    assert!(bench.said().is_empty());
    bench.pass(200_000);
    assert_eq!(bench.said(), [(9, REQUEST_RESPONSE, 22)]);
}

#[test]
fn flat_out_the_next_request_follows_the_answer() {
    let mut bench = Bench::new(RsocketMode::RequestResponse, 0, None);
    for _ in 0..3 {
        bench.begin();
    }
    assert_eq!(bench.said().len(), 3);
    // One that is never answered keeps its id.
    let mut next = 7;
    let mut waiting = vec![3, 5];
    for _ in 0..100 {
        bench.pass(100);
        bench.answer(waiting.remove(0));
        let said = bench.said();
        assert_eq!(said.len(), 1);
        assert_eq!(said[0].1, REQUEST_RESPONSE);
        assert!(said[0].0 >= next && said[0].0 <= next + 2, "{} {next}", said[0].0);
        next = said[0].0 + 2;
        waiting.push(said[0].0);
    }
    bench.answer(9_999);
    assert!(bench.said().is_empty(), "an answer to nothing");
    assert_eq!((bench.counters.received, bench.session.open()), (100, 3));
}

#[test]
fn fragments_are_one_message() {
    let mut bench = Bench::new(RsocketMode::RequestResponse, SECOND_US, None);
    bench.begin();
    bench.hear(1, (frame::PAYLOAD, NEXT | FOLLOWS), b"half").unwrap();
    assert_eq!(bench.counters.received, 0);
    bench.answer(1);
    assert_eq!((bench.counters.received, bench.latency().1), (1, 1));
    let mut bench = Bench::new(RsocketMode::Stream, SECOND_US, None);
    bench.begin();
    bench.hear(1, (frame::PAYLOAD, NEXT | FOLLOWS), b"half").unwrap();
    bench.hear(1, (frame::PAYLOAD, NEXT), b"half").unwrap();
    assert_eq!(bench.counters.received, 1);
}

#[test]
fn channels_send_within_the_demand() {
    let mut bench = Bench::new(RsocketMode::Channel, SECOND_US, None);
    bench.begin();
    assert_eq!(bench.said(), [(1, REQUEST_CHANNEL, 26)]);
    bench.pass(1_000);
    bench.item(1);
    assert_eq!(bench.latency(), (1, 1));
    bench.pass(1_200_000);
    assert!(bench.said().is_empty(), "the server wants nothing");
    bench.hear(1, (frame::REQUEST_N, 0), &2_u32.to_be_bytes()).unwrap();
    assert_eq!(bench.said(), [(1, frame::PAYLOAD, 22)]);
    bench.item(1);
    assert_eq!(bench.latency(), (201, 2), "charged from when it was due");
    bench.pass(SECOND_US);
    assert_eq!(bench.said(), [(1, frame::PAYLOAD, 22)]);
    bench.item(1);
    bench.pass(SECOND_US * 2);
    assert!(bench.said().is_empty());
    // What has no end is not used up.
    for _ in 0..3 {
        bench.hear(1, (frame::REQUEST_N, 0), &frame::DEMAND_MAX.to_be_bytes()).unwrap();
    }
    assert_eq!(bench.said().len(), 1);
}

#[test]
fn streams_that_end_are_told_and_counted() {
    let mut bench = Bench::new(RsocketMode::Stream, SECOND_US, None);
    for _ in 0..4 {
        bench.begin();
    }
    bench.hear(1, (frame::ERROR, 0), b"\0\0\x02\x02too many streams").unwrap();
    assert_eq!(
        bench.session.complaint().unwrap(),
        "a stream failed with error 0x202: too many streams"
    );
    bench.hear(3, (frame::PAYLOAD, COMPLETE), b"").unwrap();
    bench.hear(5, (frame::CANCEL, 0), b"").unwrap();
    bench.hear(5, (frame::CANCEL, 0), b"").unwrap();
    bench.hear(99, (frame::CANCEL, 0), b"").unwrap();
    assert!(bench.session.complaint().unwrap().contains("completed"));
    assert_eq!(bench.session.open(), 1);
    assert_eq!(bench.pulse.streams.load(std::sync::atomic::Ordering::Relaxed), 1);
    let error = bench.hear(0, (frame::ERROR, 0), b"\0\0\x01\x01goodbye").unwrap_err();
    assert!(error.to_string().contains("0x101: goodbye"));
}

#[test]
fn signs_of_life_are_answered() {
    let mut bench = Bench::new(RsocketMode::Stream, SECOND_US, None);
    bench.hear(0, (frame::KEEPALIVE, frame::RESPOND), b"\0\0\0\0\0\0\0\0data").unwrap();
    bench.hear(0, (frame::KEEPALIVE, 0), b"\0\0\0\0\0\0\0\0data").unwrap();
    assert_eq!(bench.said(), [(0, frame::KEEPALIVE, 6 + 8 + 4)]);
}
