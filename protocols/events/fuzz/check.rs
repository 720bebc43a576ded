//! What must hold for any request: no panic, exactly one answer, and an answer that can be written.
//! Shared by the fuzz targets and by the test that replays the corpus.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_base::{CloseCode, Now, Span};
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, Who};
use tiderace_events::{EventsOptions, decode_form, decode_path, protocol};
use tiderace_testkit::{Connection, World};
use tiderace_wire::{Framing, Opening, Request, Response, Route};

/// What is decoded and encoded again is decoded as the same.
pub fn uri(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for decode in [decode_path, decode_form] {
        if let Some(plain) = decode(text) {
            assert!(plain.len() <= text.len());
            let encoded: String = plain.bytes().map(|byte| format!("%{byte:02x}")).collect();
            assert_eq!(decode(&encoded), Some(plain));
        }
    }
}

/// Lines: method, path with query, fields; behind an empty one the body.
pub fn request(data: &[u8]) {
    let end = data.windows(2).position(|two| two == b"\n\n");
    let (head, body) = match end {
        Some(at) => (&data[..at], &data[at + 2..]),
        None => (data, &b""[..]),
    };
    let Ok(head) = std::str::from_utf8(head) else { return };
    let mut lines = head.split('\n');
    let method = lines.next().unwrap_or("");
    let target = lines.next().unwrap_or("");
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let fields: Vec<(&str, &[u8])> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name, value.as_bytes()))
        .collect();
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let request = Request { method, path, query, fields: &fields, body, peer };
    for refuses in [false, true] {
        play(&request, refuses);
    }
}

fn play(request: &Request<'_>, refuses: bool) {
    let events = protocol(Arc::new(EventsOptions {
        message_bytes_max: 200,
        batch_bytes_max: 300,
        batch_items_max: 4,
        topics_max: 3,
        list_max: 3,
        ..EventsOptions::default()
    }));
    let face = events.http.as_ref().expect("it is reached by HTTP");
    match (face.route)(request) {
        None => return,
        Some(Route::Respond(response)) => return check(&response),
        Some(_) => {}
    }
    let (mut world, peer) = (world(refuses), request.peer);
    let open = |world: &mut World, request: &Request<'_>| {
        Connection::open(world, 0, Framing::Stream, |opening| {
            (events.open)(&Opening { request: Some(request), ..*opening })
        })
    };
    let update = |world: &mut World, value: &[u8]| {
        let (method, path, query) = ("PUT", "/topics/a", None);
        let put = Request { method, path, query, fields: &[], body: value, peer };
        let mut other = open(world, &put);
        other.request(world, &put);
        let answers: Vec<u16> =
            other.take_responses().iter().map(|response| response.status).collect();
        let expected = if refuses { 401..500 } else { 200..300 };
        assert!(matches!(answers[..], [status] if expected.contains(&status)), "{answers:?}");
    };
    update(&mut world, b"x\ny");
    let mut client = open(&mut world, request);
    client.request(&mut world, request);
    // HEAD gets the head of a stream, and that is its end.
    let streams = client.is_stream() && client.end().is_none();
    update(&mut world, b"z");
    client.run(&mut world);
    let mut answers = client.take_responses();
    client.wait(&mut world, Span::from_secs(100_000));
    answers.extend(client.take_responses());
    assert_eq!(answers.len(), 1, "one answer");
    answers.iter().for_each(check);
    let in_order = client.end().is_none_or(|close| close.code == CloseCode::Done);
    assert!(in_order, "neither answers nor time end a session in disorder: {:?}", client.end());
    client.shut_down(&mut world);
    assert_eq!(client.take_output().is_empty(), !streams, "only streams write");
}

/// Two shards, in which everybody may do everything, or nothing.
fn world(refuses: bool) -> World {
    let rule = Rule {
        allow: !refuses,
        actions: Action::ALL.iter().map(|(_, action)| *action).collect(),
        who: vec![Who::All],
        paths: Vec::new(),
        kind: None,
    };
    let rules = Rules::new(vec![rule]);
    World::new(Now::default(), BrokerOptions { shards: 2, rules, ..BrokerOptions::default() }, None)
}

/// An answer that can be written: no line breaks in fields, a status that exists.
fn check(response: &Response) {
    assert!((200..600).contains(&response.status));
    for (name, value) in &response.headers {
        assert!(value.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{name}: {value:?}");
    }
}
