//! The client's side and the session with each other: whole conversations through both state machines,
//! cut into pieces on the way.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::rig::{self, Rig, route, spell};
use proptest::prelude::*;
use tiderace_base::{Span, Time};
use tiderace_rsocket::frame::{Body, Frame, NUMBER_MAX, Payload};
use tiderace_rsocket::metadata::{Described, Mime, write_entry};
use tiderace_rsocket::requester::{Phase, Requester, RequesterOptions};
use tiderace_rsocket::{EchoOptions, Lease, RSocketOptions};
use tiderace_wire::{Command, Exchange, ExchangeKey, Framing, Kind, Reply, Takeover};

/// A client and a session, and what is on its way between them.
struct Pair {
    client: Requester,
    server: Rig,
    /// From the client.
    out: Vec<u8>,
    /// To the client.
    back: Vec<u8>,
    /// What the client's application has received.
    received: Vec<String>,
}

impl Pair {
    fn new(client: RequesterOptions, server: RSocketOptions) -> Pair {
        let mut pair = Pair {
            client: Requester::new(Arc::new(client), Framing::Stream),
            server: Rig::fresh(server),
            out: Vec::new(),
            back: Vec::new(),
            received: Vec::new(),
        };
        pair.client.begin(Time::ZERO, &mut pair.out);
        pair.turn();
        assert!(matches!(pair.server.asked()[..], [Command::Login(_)]));
        pair.server.reply(Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None });
        pair.turn();
        pair
    }

    fn echoing(client: RequesterOptions, server: RSocketOptions) -> Pair {
        let echo = Some(EchoOptions { interval: Span::from_secs(1), bytes_max: 1 << 20 });
        Pair::new(client, RSocketOptions { echo, ..server })
    }

    fn time(&self) -> Time {
        self.server.now.time
    }

    /// Everything on its way arrives, until nothing is.
    fn turn(&mut self) {
        loop {
            let said = std::mem::take(&mut self.out);
            said.chunks(7).for_each(|piece| self.server.send_bytes(piece));
            self.back.append(&mut self.server.queue.take_bytes());
            if self.back.is_empty() && self.out.is_empty() {
                return;
            }
            self.hear();
        }
    }

    fn hear(&mut self) {
        let bytes = std::mem::take(&mut self.back);
        let (mut from, now) = (0, self.server.now.time);
        for to in (0..bytes.len()).step_by(5).chain([bytes.len()]) {
            loop {
                let given = self.client.next(now, &bytes[from..to.max(from)], &mut self.out);
                let (done, frame) = given.unwrap();
                from += done;
                match frame {
                    Some(frame) => self.received.push(spell(&frame)),
                    None => break,
                }
            }
        }
        self.back = bytes[from..].to_vec();
    }

    fn wait(&mut self, span: Span) {
        self.server.wait(span);
        self.client.expire(self.server.now.time, &mut self.out).unwrap();
        self.turn();
    }

    fn received(&mut self) -> Vec<String> {
        self.turn();
        std::mem::take(&mut self.received)
    }
}

fn data(bytes: &[u8]) -> Payload<'_> {
    Payload::data(bytes)
}

#[test]
fn every_interaction_is_echoed() {
    let mut pair = Pair::echoing(RequesterOptions::default(), RSocketOptions::default());
    let now = pair.time();
    pair.client.fire_and_forget(now, data(b"forgotten"), &mut pair.out).unwrap();
    let response = pair.client.request_response(now, data(b"one"), &mut pair.out).unwrap();
    assert_eq!(pair.received(), [format!("{response} PAYLOAD CN one")]);
    let stream = pair.client.request_stream(now, 2, data(b"two"), &mut pair.out).unwrap();
    pair.turn();
    (0..4).for_each(|_| pair.wait(Span::from_secs(1)));
    assert_eq!(
        pair.received(),
        vec![format!("{stream} PAYLOAD N two"); 2],
        "there is demand for two"
    );
    pair.client.request_n(stream, NUMBER_MAX, &mut pair.out).unwrap();
    pair.turn();
    (0..3).for_each(|_| pair.wait(Span::from_secs(1)));
    assert_eq!(pair.received().len(), 3);
    pair.client.cancel(stream, &mut pair.out).unwrap();
    pair.turn();
    pair.wait(Span::from_secs(5));
    assert!(pair.received().is_empty());
    let channel = pair.client.request_channel(now, 10, data(b"a"), false, &mut pair.out).unwrap();
    assert!(pair.received().contains(&format!("{channel} PAYLOAD N a")));
    pair.client.send(channel, data(b"b"), true, &mut pair.out).unwrap();
    let end = [format!("{channel} PAYLOAD N b"), format!("{channel} PAYLOAD C")];
    assert_eq!(pair.received(), end);
    assert_eq!(pair.client.streams(), 0);
}

#[test]
fn large_payloads_cross_in_fragments_both_ways() {
    let server = RSocketOptions { fragment_bytes: 64, ..RSocketOptions::default() };
    let client = RequesterOptions { fragment_bytes_max: 100, ..RequesterOptions::default() };
    let mut pair = Pair::echoing(client, server);
    let body: Vec<u8> = (0..5000u32).map(|number| b'a' + (number % 26) as u8).collect();
    let metadata = route("echo");
    let now = pair.time();
    let payload = Payload::new(&metadata, &body);
    pair.client.request_response(now, payload, &mut pair.out).unwrap();
    let expected = format!("1 PAYLOAD CN {}", body.escape_ascii());
    assert_eq!(pair.received(), [expected]);
    let channel = pair.client.request_channel(now, 9, data(&body), false, &mut pair.out).unwrap();
    pair.turn();
    pair.client.send(channel, data(&body), true, &mut pair.out).unwrap();
    let items = pair.received().into_iter().filter(|words| words.contains("PAYLOAD N"));
    assert_eq!(items.count(), 2, "fragments count as one item");
}

#[test]
fn leases_last_for_an_honest_client() {
    let lease = Lease { requests: 3, ttl: Span::from_secs(10) };
    let client = RequesterOptions { lease: true, ..RequesterOptions::default() };
    let server = RSocketOptions { lease, ..RSocketOptions::default() };
    let mut pair = Pair::echoing(client, server);
    assert_eq!(pair.received(), ["0 LEASE 10000 3"]);
    for _ in 0..3 {
        for _ in 0..3 {
            let now = pair.time();
            pair.client.request_response(now, data(b"x"), &mut pair.out).unwrap();
        }
        let now = pair.time();
        assert!(pair.client.request_response(now, data(b"x"), &mut pair.out).is_err());
        assert_eq!(pair.received().len(), 3);
        pair.wait(Span::from_secs(5));
        assert_eq!(pair.received(), ["0 LEASE 10000 3"], "the next comes before the last one ends");
    }
}

#[test]
fn both_say_that_they_live() {
    let client =
        RequesterOptions { interval_ms: 1000, lifetime_ms: 3000, ..RequesterOptions::default() };
    let mut pair = Pair::echoing(client, RSocketOptions::default());
    for _ in 0..20 {
        pair.wait(Span::from_millis(1000));
        assert_eq!(pair.received(), ["0 KEEPALIVE - 0"]);
    }
    assert!(pair.server.end.is_none());
    pair.server.wait(Span::from_secs(4));
    let end = pair.server.end.as_ref().map(|close| close.code);
    assert_eq!(end, Some(tiderace_base::CloseCode::HeartBeatTimeout));
    assert!(pair.received()[0].starts_with("0 ERROR CONNECTION_ERROR"));
    assert_eq!(pair.client.phase(), Phase::Closed);
}

#[test]
fn a_client_serves_what_another_calls() {
    let mut pair = Pair::new(RequesterOptions::default(), RSocketOptions::default());
    let now = pair.time();
    let metadata = route("serve:sum");
    let serving = Payload::new(&metadata, b"");
    let stream = pair.client.request_stream(now, 5, serving, &mut pair.out).unwrap();
    pair.turn();
    let Some(Command::Subscribe(subscribe)) = pair.server.asked().pop() else { panic!() };
    pair.server.confirm(subscribe.confirm.unwrap());
    assert_eq!(pair.received(), [format!("{stream} PAYLOAD N")]);
    let exchange = Exchange {
        key: ExchangeKey::responder(1),
        first: true,
        last: true,
        bare: false,
        credit: None,
    };
    pair.server.deliver_exchange(0, &rig::run(Kind::Service, "sum", 1, &[b"1+2"]), exchange);
    let received = pair.received();
    assert!(
        received[0].starts_with("2 REQUEST response") && received[0].ends_with("1+2"),
        "{received:?}"
    );
    pair.client.send(2, data(b"3"), true, &mut pair.out).unwrap();
    pair.turn();
    let [Command::SendExchange(sent)] = &pair.server.asked()[..] else { panic!() };
    assert!(sent.last && sent.body == b"3");
    assert!(!pair.client.is_open(2) && pair.client.is_open(stream));
}

#[test]
fn a_lost_connection_loses_nothing() {
    let token = Some(b"0123456789abcdef".to_vec());
    let client = RequesterOptions { token, ..RequesterOptions::default() };
    let mut pair = Pair::echoing(client, RSocketOptions::default());
    assert_eq!(pair.server.alias.as_deref(), Some(&b"0123456789abcdef"[..]));
    pair.server
        .call(|session, now, context| session.client_session_id_decided(now, Ok(()), context));
    let now = pair.time();
    pair.client.request_response(now, data(b"one"), &mut pair.out).unwrap();
    pair.client.request_response(now, data(b"two"), &mut pair.out).unwrap();
    // Both arrive; of the answers only the first one and half of the second does.
    let said = std::mem::take(&mut pair.out);
    pair.server.send_bytes(&said);
    pair.back = pair.server.queue.take_bytes();
    let half = pair.back.len() - 4;
    pair.back.truncate(half);
    pair.hear();
    pair.client.request_response(now, data(b"three"), &mut pair.out).unwrap();
    // The connection is lost, and with it all that was on its way.
    (pair.out, pair.back) = (Vec::new(), Vec::new());
    assert_eq!(std::mem::take(&mut pair.received), ["1 PAYLOAD CN one"]);
    assert!(pair.server.session.detach(pair.server.now));
    pair.client.resume(now, Framing::Stream, &mut pair.out);
    assert!(pair.server.session.admits(pair.server.now, &pair.out));
    pair.server.input.clear();
    pair.server.call(|session, now, context| session.takeover(now, Takeover::Done, context));
    let received = pair.received();
    assert!(received[0].contains("ResumeOk"), "{received:?}");
    assert_eq!(received[1..], ["3 PAYLOAD CN two", "5 PAYLOAD CN three"]);
    assert_eq!(pair.client.streams(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    /// Whatever a client does with channels that come back, it is sent no more than it asked for, and
    /// the session never takes it for a cheat.
    #[test]
    fn credit_holds_both_ways(acts in proptest::collection::vec((0u8..5, 0usize..4, 1u32..9), 1..60)) {
        let mut pair = Pair::echoing(RequesterOptions::default(), RSocketOptions::default());
        let mut streams: Vec<u32> = Vec::new();
        let mut wanted: BTreeMap<u32, u32> = BTreeMap::new();
        for (act, which, items) in acts {
            let stream = streams.get(which).copied().unwrap_or_default();
            let now = pair.time();
            match act {
                0 if streams.len() < 4 => {
                    let (client, out) = (&mut pair.client, &mut pair.out);
                    let id = client.request_channel(now, items, data(b"x"), false, out).unwrap();
                    streams.push(id);
                    wanted.insert(id, items);
                }
                1 => {
                    if pair.client.request_n(stream, items, &mut pair.out).is_ok() {
                        *wanted.get_mut(&stream).unwrap() += items;
                    }
                }
                2 => {
                    for _ in 0..items {
                        let _ = pair.client.send(stream, data(b"y"), false, &mut pair.out);
                    }
                }
                3 => drop(pair.client.complete(stream, &mut pair.out)),
                _ => drop(pair.client.cancel(stream, &mut pair.out)),
            }
            if items % 2 == 0 {
                pair.turn();
            }
        }
        pair.turn();
        prop_assert!(pair.server.end.is_none());
        let mut got: BTreeMap<String, u32> = BTreeMap::new();
        for words in &pair.received {
            prop_assert!(!words.contains("ERROR"), "{}", words);
            if let Some((stream, _)) = words.split_once(" PAYLOAD N") {
                *got.entry(stream.to_owned()).or_default() += 1;
            }
        }
        for (stream, items) in got {
            prop_assert!(items <= wanted[&stream.parse::<u32>().unwrap()]);
        }
    }
}

#[test]
fn a_session_that_ends_says_so() {
    let mut pair = Pair::echoing(RequesterOptions::default(), RSocketOptions::default());
    let frame = Frame::connection(Body::ResumeOk(7));
    frame.write(Framing::Stream, &mut pair.out);
    let received = pair.received();
    assert_eq!(received, ["0 ERROR CONNECTION_ERROR unexpected-frame"]);
    assert_eq!(pair.client.phase(), Phase::Closed);
}

#[test]
fn tracing_is_handed_on() {
    let mut tracing = vec![0xac];
    tracing.extend((1..=32).collect::<Vec<u8>>());
    let mut metadata = route("service:sum");
    write_entry(Mime::TRACING, &tracing, &mut metadata);
    let mut pair = Pair::new(RequesterOptions::default(), RSocketOptions::default());
    let now = pair.time();
    let payload = Payload::new(&metadata, b"1+2");
    pair.client.request_response(now, payload, &mut pair.out).unwrap();
    pair.turn();
    let Some(Command::Call(call)) = pair.server.asked().pop() else { panic!() };
    let text = "b3:0102030405060708090a0b0c0d0e0f10-1112131415161718-1-191a1b1c1d1e1f20\n";
    assert!(String::from_utf8(call.properties).unwrap().ends_with(text));
    // To a client that serves, it is what it was.
    let serving = route("serve:sum");
    let payload = Payload::new(&serving, b"");
    pair.client.request_stream(now, 5, payload, &mut pair.out).unwrap();
    pair.turn();
    let exchange = Exchange {
        key: ExchangeKey::responder(1),
        first: true,
        last: true,
        bare: false,
        credit: None,
    };
    let asked = rig::described(Kind::Service, "sum", 1, text, &[b"1+2"]);
    pair.server.deliver_exchange(0, &asked, exchange);
    let frames = pair.server.frames();
    let Body::Request(request) = Frame::read(&frames[0]).unwrap().body else { panic!() };
    let told = Described::read(Mime::COMPOSITE, request.payload.metadata.unwrap()).unwrap();
    assert_eq!((told.route, told.tracing), (Some("sum"), Some(&tracing[..])));
    // What is no tracing is refused.
    let mut metadata = route("fx/EUR");
    write_entry(Mime::TRACING, b"\xac12", &mut metadata);
    let payload = Payload::new(&metadata, b"1");
    pair.client.request_response(now, payload, &mut pair.out).unwrap();
    assert_eq!(pair.received().last().unwrap(), "5 ERROR INVALID bad-header");
}
