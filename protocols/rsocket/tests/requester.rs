//! Conversations of the client's side with a server that reads from a script.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use tiderace_base::{Span, Time};
use tiderace_rsocket::fragment::Fragments;
use tiderace_rsocket::frame::{
    Body, ErrorCode, Frame, Interaction, Item, KeepAlive, Lease, NUMBER_MAX, PREFIX_BYTES, Payload,
    Request, Split, split,
};
use tiderace_rsocket::requester::{Phase, Refused, Requester, RequesterError, RequesterOptions};
use tiderace_wire::Framing;

/// A client and the bytes between it and its server.
struct ExchangeState {
    client: Requester,
    now: Time,
    out: Vec<u8>,
}

/// What the application hears, in a form that can be kept.
type Received = (u32, String);

fn text(frame: &Frame<'_>) -> Received {
    let shown = |payload: &Payload<'_>| {
        let metadata = payload.metadata.map(|bytes| format!("[{}]", bytes.escape_ascii()));
        format!("{}{}", metadata.unwrap_or_default(), payload.data.escape_ascii())
    };
    let words = match &frame.body {
        Body::Payload(item) => {
            let next = if item.next { "next" } else { "" };
            let end = if item.complete { " complete" } else { "" };
            format!("{next}{end} {}", shown(&item.payload)).trim().to_owned()
        }
        Body::Request(request) => {
            let end = if request.complete { " complete" } else { "" };
            format!(
                "{} {}{end} {}",
                request.interaction.name(),
                request.credit,
                shown(&request.payload)
            )
        }
        Body::RequestN(items) => format!("n {items}"),
        Body::Error(failure) => format!("{} {}", failure.code, failure.text.escape_ascii()),
        Body::KeepAlive(sign) => {
            format!("alive {} {} {}", sign.respond, sign.position, sign.data.escape_ascii())
        }
        Body::Lease(lease) => format!("lease {} {}", lease.ttl_ms, lease.requests),
        Body::MetadataPush(metadata) => format!("push {}", metadata.escape_ascii()),
        Body::Setup(setup) => {
            format!("setup lease {} token {}", setup.lease, setup.token.is_some())
        }
        Body::Resume(resume) => format!("resume {} {}", resume.received, resume.available),
        Body::ResumeOk(position) => format!("resumed {position}"),
        other => format!("{other:?}").to_lowercase(),
    };
    (frame.stream, words)
}

impl ExchangeState {
    fn fresh(options: RequesterOptions) -> ExchangeState {
        let client = Requester::new(Arc::new(options), Framing::Stream);
        ExchangeState { client, now: Time::ZERO, out: Vec::new() }
    }

    fn begun(options: RequesterOptions) -> ExchangeState {
        let mut state = ExchangeState::fresh(options);
        state.client.begin(state.now, &mut state.out);
        state.out.clear();
        state
    }

    /// What the client has said since.
    fn said(&mut self) -> Vec<Received> {
        let bytes = std::mem::take(&mut self.out);
        let (mut rest, mut said) = (&bytes[..], Vec::new());
        while let Ok(Split::Frame(frame)) = split(rest, 1 << 24) {
            said.push(text(&Frame::read(frame).unwrap()));
            rest = &rest[PREFIX_BYTES + frame.len()..];
        }
        assert!(rest.is_empty());
        said
    }

    /// The server says this, in pieces of a byte; what the application hears of it.
    fn hear(&mut self, frames: &[Frame<'_>]) -> Result<Vec<Received>, RequesterError> {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.write(Framing::Stream, &mut bytes));
        let (mut received, mut from) = (Vec::new(), 0);
        for to in 1..=bytes.len() {
            loop {
                let (done, frame) = self.client.next(self.now, &bytes[from..to], &mut self.out)?;
                from += done;
                match frame {
                    Some(frame) => received.push(text(&frame)),
                    None => break,
                }
            }
        }
        assert_eq!(from, bytes.len());
        Ok(received)
    }

    fn later(&mut self, millis: u64) {
        self.now = self.now + Span::from_millis(millis);
    }
}

fn data(bytes: &[u8]) -> Payload<'_> {
    Payload::data(bytes)
}

fn received(stream: u32, words: &str) -> Received {
    (stream, words.to_owned())
}

#[test]
fn a_request_has_one_answer_whether_it_says_so_or_not() {
    let mut state = ExchangeState::begun(RequesterOptions::default());
    for (stream, complete) in [(1, true), (3, false)] {
        let id = state.client.request_response(state.now, data(b"?"), &mut state.out).unwrap();
        assert_eq!(id, stream);
        assert_eq!(state.said(), [received(stream, "response 0 ?")]);
        let answer = Frame::item(stream, data(b"!"), complete);
        assert_eq!(state.hear(&[answer]).unwrap(), [received(stream, "next complete !")]);
        assert!(!state.client.is_open(stream));
        assert_eq!(state.hear(&[answer]).unwrap(), [], "the stream is over");
    }
}

#[test]
fn a_stream_gives_what_was_asked_for() {
    let mut state = ExchangeState::begun(RequesterOptions::default());
    let id = state.client.request_stream(state.now, 2, data(b"all"), &mut state.out).unwrap();
    let one = Frame::item(id, data(b"x"), false);
    assert_eq!(state.hear(&[one, one]).unwrap().len(), 2);
    state.client.request_n(id, 1, &mut state.out).unwrap();
    assert_eq!(state.said(), [received(1, "stream 2 all"), received(1, "n 1")]);
    assert_eq!(state.hear(&[one]).unwrap().len(), 1);
    assert_eq!(state.hear(&[one]), Err(RequesterError::Overflow(1)));
    assert_eq!(state.client.phase(), Phase::Closed);
}

#[test]
fn credit_without_end_is_not_used_up() {
    let mut state = ExchangeState::begun(RequesterOptions::default());
    let id = state.client.request_stream(state.now, NUMBER_MAX, data(b""), &mut state.out).unwrap();
    for _ in 0..3 {
        state.client.request_n(id, NUMBER_MAX, &mut state.out).unwrap();
    }
    let end = Frame { stream: id, body: Body::Payload(item(false, true, b"")) };
    assert_eq!(state.hear(&[Frame::item(id, data(b"x"), false), end]).unwrap().len(), 2);
    assert_eq!(state.client.streams(), 0);
    let gone = state.client.request_n(id, 1, &mut state.out);
    assert_eq!(gone, Err(Refused::NoSuchStream(id)));
}

fn item(next: bool, complete: bool, bytes: &[u8]) -> Item<'_> {
    Item { follows: false, complete, next, payload: data(bytes) }
}

#[test]
fn a_channel_waits_for_credit_and_ends_when_both_have() {
    let mut state = ExchangeState::begun(RequesterOptions::default());
    let id = state.client.request_channel(state.now, 5, data(b"1"), false, &mut state.out).unwrap();
    let early = state.client.send(id, data(b"2"), false, &mut state.out);
    assert_eq!(early, Err(Refused::NoCredit(id)));
    assert_eq!(state.hear(&[Frame::request_n(id, 2)]).unwrap(), [received(1, "n 2")]);
    assert_eq!(state.client.credit(id), 2);
    state.client.send(id, data(b"2"), false, &mut state.out).unwrap();
    state.client.send(id, data(b"3"), true, &mut state.out).unwrap();
    assert_eq!(
        state.said(),
        [received(1, "channel 5 1"), received(1, "next 2"), received(1, "next complete 3")]
    );
    let more = state.client.send(id, data(b"4"), false, &mut state.out);
    assert_eq!(more, Err(Refused::NoSuchStream(id)));
    assert!(state.client.is_open(id));
    let answers = [Frame::item(id, data(b"a"), false), Frame::complete(id)];
    assert_eq!(state.hear(&answers).unwrap(), [received(1, "next a"), received(1, "complete")]);
    assert!(!state.client.is_open(id));
}

#[test]
fn a_requester_that_wants_no_more_says_so() {
    let mut state = ExchangeState::begun(RequesterOptions::default());
    let stream = state.client.request_stream(state.now, 1, data(b""), &mut state.out).unwrap();
    state.client.cancel(stream, &mut state.out).unwrap();
    assert_eq!(state.client.cancel(stream, &mut state.out), Err(Refused::NoSuchStream(stream)));
    assert_eq!(state.hear(&[Frame::item(stream, data(b"late"), false)]).unwrap(), []);
    // The server does not want the items of a channel, and goes on with its own.
    let channel =
        state.client.request_channel(state.now, 1, data(b""), false, &mut state.out).unwrap();
    assert_eq!(state.hear(&[Frame::cancel(channel)]).unwrap(), [received(channel, "cancel")]);
    assert!(state.client.is_open(channel));
    assert_eq!(state.hear(&[Frame::item(channel, data(b"x"), true)]).unwrap().len(), 1);
    assert!(!state.client.is_open(channel));
}

#[test]
fn errors_end_their_stream_and_unknown_ones_mean_nothing() {
    let mut state = ExchangeState::begun(RequesterOptions::default());
    let id = state.client.request_stream(state.now, 1, data(b""), &mut state.out).unwrap();
    let error = Frame::error(id, ErrorCode::APPLICATION_ERROR, "no");
    assert_eq!(state.hear(&[error]).unwrap(), [received(id, "APPLICATION_ERROR no")]);
    let others = [error, Frame::cancel(99), Frame::request_n(99, 1), Frame::complete(99)];
    assert_eq!(state.hear(&others).unwrap(), []);
}

#[test]
fn the_server_asks_and_is_answered() {
    let mut state = ExchangeState::begun(RequesterOptions::default());
    let request = |interaction, credit| {
        let (follows, complete, payload) = (false, false, data(b"?"));
        Body::Request(Request { interaction, follows, complete, credit, payload })
    };
    let asked = |stream, interaction, credit| Frame { stream, body: request(interaction, credit) };
    let questions = [
        asked(2, Interaction::Response, 0),
        asked(4, Interaction::Stream, 2),
        asked(6, Interaction::Channel, 1),
        asked(8, Interaction::FireAndForget, 0),
        // An id in use, and one of the client's.
        asked(4, Interaction::Response, 0),
        asked(11, Interaction::Response, 0),
    ];
    assert_eq!(
        state.hear(&questions).unwrap(),
        [
            received(2, "response 0 ?"),
            received(4, "stream 2 ?"),
            received(6, "channel 1 ?"),
            received(8, "fnf 0 ?")
        ]
    );
    let client = &mut state.client;
    client.send(2, data(b"!"), false, &mut state.out).unwrap();
    client.send(4, data(b"a"), false, &mut state.out).unwrap();
    client.send(4, data(b"b"), false, &mut state.out).unwrap();
    assert_eq!(client.send(4, data(b"c"), false, &mut state.out), Err(Refused::NoCredit(4)));
    client.complete(4, &mut state.out).unwrap();
    client.request_n(6, 7, &mut state.out).unwrap();
    client.fail(6, ErrorCode(0x301), "broken", &mut state.out).unwrap();
    assert_eq!(client.streams(), 0);
    assert_eq!(
        state.said(),
        [
            received(2, "next complete !"),
            received(4, "next a"),
            received(4, "next b"),
            received(4, "complete"),
            received(6, "n 7"),
            received(6, "0x301 broken")
        ]
    );
    // A requester that gives up.
    state.hear(&[asked(10, Interaction::Stream, 2)]).unwrap();
    assert_eq!(state.hear(&[Frame::cancel(10)]).unwrap(), [received(10, "cancel")]);
    assert_eq!(state.client.streams(), 0);
}

#[test]
fn the_server_may_not_ask_without_limit() {
    let mut state =
        ExchangeState::begun(RequesterOptions { requests_max: 2, ..Default::default() });
    let request = |stream| {
        let (follows, complete, credit, payload) = (false, false, 0, data(b"?"));
        let interaction = Interaction::Response;
        let body = Body::Request(Request { interaction, follows, complete, credit, payload });
        Frame { stream, body }
    };
    assert_eq!(state.hear(&[request(2), request(4), request(6)]).unwrap().len(), 2);
    assert_eq!(state.said(), [received(6, "REJECTED too many requests are open")]);
    state.client.send(2, data(b""), true, &mut state.out).unwrap();
    assert_eq!(state.hear(&[request(8)]).unwrap().len(), 1);
}

#[test]
fn leases_are_honoured_both_ways() {
    let mut state = ExchangeState::fresh(RequesterOptions { lease: true, ..Default::default() });
    state.client.begin(state.now, &mut state.out);
    assert_eq!(state.said(), [received(0, "setup lease true token false")]);
    let ask = |state: &mut ExchangeState| {
        state.client.fire_and_forget(state.now, data(b""), &mut state.out)
    };
    assert_eq!(ask(&mut state), Err(Refused::NoLease));
    let lease = |ttl_ms, requests| {
        Frame::connection(Body::Lease(Lease { ttl_ms, requests, metadata: None }))
    };
    assert_eq!(state.hear(&[lease(1000, 2)]).unwrap(), [received(0, "lease 1000 2")]);
    assert!(ask(&mut state).is_ok() && ask(&mut state).is_ok());
    assert_eq!(ask(&mut state), Err(Refused::NoLease));
    state.hear(&[lease(1000, 5)]).unwrap();
    state.later(1000);
    assert_eq!(ask(&mut state), Err(Refused::NoLease), "its time is over");
    state.hear(&[lease(1000, 5), lease(0, 0)]).unwrap();
    assert_eq!(ask(&mut state), Err(Refused::NoLease), "the last one holds");
    // The server needs one as well.
    state.out.clear();
    let asked = |stream| {
        let (follows, complete, credit, payload) = (false, false, 0, data(b"?"));
        let interaction = Interaction::Response;
        let body = Body::Request(Request { interaction, follows, complete, credit, payload });
        Frame { stream, body }
    };
    assert_eq!(state.hear(&[asked(2)]).unwrap(), []);
    assert_eq!(state.said(), [received(2, "REJECTED no lease")]);
    state.client.lease(state.now, 500, 1, &mut state.out).unwrap();
    assert_eq!(state.hear(&[asked(4), asked(6)]).unwrap(), [received(4, "response 0 ?")]);
    assert_eq!(state.said(), [received(0, "lease 500 1"), received(6, "REJECTED no lease")]);
}

#[test]
fn signs_of_life_are_given_and_answered() {
    let options = RequesterOptions { interval_ms: 100, lifetime_ms: 250, ..Default::default() };
    let mut state = ExchangeState::begun(options);
    assert_eq!(state.client.deadline(), Time::ZERO + Span::from_millis(100));
    state.later(100);
    state.client.expire(state.now, &mut state.out).unwrap();
    assert_eq!(state.said(), [received(0, "alive true 0")].map(|(id, words)| (id, words + " ")));
    let sign = |respond, bytes| {
        Frame::connection(Body::KeepAlive(KeepAlive { respond, position: 0, data: bytes }))
    };
    assert_eq!(state.hear(&[sign(true, b"xy")]).unwrap(), []);
    assert_eq!(state.said(), [received(0, "alive false 0 xy")]);
    assert_eq!(state.hear(&[sign(false, b"z")]).unwrap(), [received(0, "alive false 0 z")]);
    state.later(249);
    state.client.expire(state.now, &mut state.out).unwrap();
    state.later(1);
    let silent = Err(RequesterError::Silent(Span::from_millis(250)));
    assert_eq!(state.client.expire(state.now, &mut state.out), silent);
    assert_eq!(state.client.deadline(), Time::NEVER);
}

#[test]
fn messages_in_fragments_are_received_whole() {
    let mut state =
        ExchangeState::begun(RequesterOptions { fragment_bytes_max: 64, ..Default::default() });
    let (metadata, body) = (vec![b'm'; 100], vec![b'd'; 150]);
    let payload = Payload::new(&metadata, &body);
    let id = state.client.request_stream(state.now, 1, payload, &mut state.out).unwrap();
    let said = state.said();
    assert!(said.len() > 3 && said[0].1.starts_with("stream 1 [mmm"), "{said:?}");
    assert!(said[1..].iter().all(|(_, words)| words.starts_with("next")));
    let answer = Frame::item(id, payload, true);
    let fragments: Vec<_> = Fragments::new(answer, 64).collect();
    let whole = state.hear(&fragments).unwrap();
    assert_eq!(whole, [text(&answer)], "one item for one credit");
    assert_eq!(state.client.streams(), 0);
}

#[test]
fn a_lost_connection_is_resumed_where_it_was() {
    let token = Some(vec![7; 16]);
    let mut state = ExchangeState::begun(RequesterOptions { token, ..Default::default() });
    let (first, second) = (
        state.client.request_stream(state.now, 9, data(b"one"), &mut state.out).unwrap(),
        state.client.request_stream(state.now, 9, data(b"two"), &mut state.out).unwrap(),
    );
    // The server has the first request only, whose frame takes 13 bytes.
    let item = Frame::item(first, data(b"abc"), false);
    assert_eq!(state.hear(&[item]).unwrap().len(), 1);
    state.out.clear();
    state.client.resume(state.now, Framing::Stream, &mut state.out);
    assert_eq!(state.said(), [received(0, "resume 9 0")]);
    let early = state.client.fire_and_forget(state.now, data(b""), &mut state.out);
    assert_eq!(early, Err(Refused::NotOpen));
    let resumed = Frame::connection(Body::ResumeOk(13));
    assert_eq!(state.hear(&[resumed]).unwrap(), [received(0, "resumed 13")]);
    assert_eq!(state.said(), [received(second, "stream 9 two")]);
    assert_eq!(state.hear(&[Frame::item(second, data(b"x"), false)]).unwrap().len(), 1);
    assert_eq!(state.client.position(), 16);
    // What the server has is forgotten.
    let sign = KeepAlive { respond: true, position: 26, data: b"" };
    state.hear(&[Frame::connection(Body::KeepAlive(sign))]).unwrap();
    state.out.clear();
    state.client.resume(state.now, Framing::Stream, &mut state.out);
    assert_eq!(state.said(), [received(0, "resume 16 26")]);
    let wrong = state.hear(&[resumed]);
    assert_eq!(wrong, Err(RequesterError::NotRetained { received: 13, first: 26 }));
}

#[test]
fn the_end_may_leave_time_for_what_is_open() {
    let mut state = ExchangeState::begun(RequesterOptions::default());
    let id = state.client.request_stream(state.now, 1, data(b""), &mut state.out).unwrap();
    let close = Frame::error(0, ErrorCode::CONNECTION_CLOSE, "later");
    assert_eq!(state.hear(&[close]).unwrap(), [received(0, "CONNECTION_CLOSE later")]);
    assert_eq!(state.client.phase(), Phase::Closing);
    let more = state.client.request_response(state.now, data(b""), &mut state.out);
    assert_eq!(more, Err(Refused::NotOpen));
    state.client.request_n(id, 1, &mut state.out).unwrap();
    assert_eq!(state.hear(&[Frame::complete(id)]).unwrap(), [received(id, "complete")]);
    let error = Frame::error(0, ErrorCode::CONNECTION_ERROR, "now");
    assert_eq!(state.hear(&[error]).unwrap().len(), 1);
    assert_eq!(state.client.phase(), Phase::Closed);
}

#[test]
fn what_a_server_does_not_say_ends_the_conversation_or_means_nothing() {
    let mut state = ExchangeState::begun(RequesterOptions::default());
    let harmless = [
        Frame::complete(77),
        Frame { stream: 3, body: Body::MetadataPush(b"not of a stream") },
        Frame::connection(Body::Ignored),
    ];
    assert_eq!(state.hear(&harmless).unwrap(), []);
    let push = Frame::connection(Body::MetadataPush(b"hello"));
    assert_eq!(state.hear(&[push]).unwrap(), [received(0, "push hello")]);
    let resumed = Frame::connection(Body::ResumeOk(0));
    assert_eq!(state.hear(&[resumed]), Err(RequesterError::Unexpected(0x0e)));
    let mut state =
        ExchangeState::begun(RequesterOptions { frame_bytes_max: 100, ..Default::default() });
    let long = vec![0; 101];
    let push = Frame::connection(Body::MetadataPush(&long));
    assert!(matches!(state.hear(&[push]), Err(RequesterError::Frame(_))));
}
