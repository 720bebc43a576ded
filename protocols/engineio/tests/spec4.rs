//! The sentences of the Engine.IO protocol, revision 4, one test each. The sentence stands above its
//! test, cited by section of the document `v4-current.md`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support;

use support::{Node, Received, body, field, polling, sid, text};
use tiderace_base::{CloseCode, Span};
use tiderace_engineio::EngineOptions;

// "Query parameters": "If a mandatory query parameter is missing, then the server MUST respond with an
// HTTP 400 error status."
#[test]
fn mandatory_parameters_are_mandatory() {
    let mut node = Node::new();
    for (query, code) in [
        ("transport=polling", 5),
        ("EIO=abc&transport=polling", 5),
        ("EIO=5&transport=polling", 5),
        ("EIO=4", 0),
        ("EIO=4&transport=abc", 0),
        ("EIO=4&transport=__proto__", 0),
        ("EIO=4&transport=websocket", 3),
        ("EIO=4&transport=polling&sid=abc", 1),
        ("EIO=4&transport=polling&sid=constructor", 1),
    ] {
        let response = node.get(query);
        assert_eq!(response.status, 400, "{query}");
        assert!(body(&response).starts_with(&format!("{{\"code\":{code},\"message\":")), "{query}");
        assert_eq!(field(&response, "Content-Type"), Some("application/json"));
    }
}

// "WebSocket": "If a mandatory query parameter is missing, then the server MUST close the WebSocket
// connection."
#[test]
fn web_sockets_need_their_parameters_too() {
    let mut node = Node::new();
    for query in ["transport=websocket", "EIO=4", "EIO=4&transport=abc", "EIO=4&transport=polling"]
    {
        assert_eq!(node.connect(query).unwrap_err().status, 400, "{query}");
    }
}

// "Sending data": "The server MUST return an HTTP 400 response if the session ID (from the `sid` query
// parameter) is not known."
#[test]
fn unknown_sessions_are_refused() {
    let mut node = Node::new();
    let (query, _) = polling(&mut node, "EIO=4");
    let (_, known) = query.split_once("sid=").unwrap();
    // The secret is compared, not only the place.
    let mut other: Vec<char> = known.chars().collect();
    other[30] = if other[30] == 'A' { 'B' } else { 'A' };
    let other: String = other.into_iter().collect();
    let response = node.post(&format!("EIO=4&transport=polling&sid={other}"), "4hello");
    assert_eq!(response.status, 400);
    assert_eq!(body(&response), r#"{"code":1,"message":"Session ID unknown"}"#);
}

// "Sending data": "To indicate success, the server MUST return an HTTP 200 response, with the string
// `ok` in the response body."
#[test]
fn packets_are_taken_with_ok() {
    let mut node = Node::new();
    let (query, _) = polling(&mut node, "EIO=4");
    let response = node.post(&query, "4hello");
    assert_eq!((response.status, body(&response)), (200, "ok"));
    assert_eq!(field(&response, "Content-Type"), Some("text/html"));
    assert_eq!(field(&response, "Cache-Control"), Some("no-store"));
}

// "Receiving data": "Once there are some packets to be sent, the server SHOULD encode them and send
// them in the response body of the HTTP request."
#[test]
fn polls_wait_for_packets() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=4");
    let poll = node.poll(&query);
    assert!(node.answer(poll).is_none());
    node.deliver(&sid, b"news");
    let response = node.answer(poll).unwrap();
    assert_eq!((response.status, body(&response)), (200, "4news"));
    assert_eq!(field(&response, "Content-Type"), Some("text/plain; charset=UTF-8"));
    assert_eq!(field(&response, "Cache-Control"), Some("no-store"));
    // What came while nobody polled waits.
    node.post(&query, "4one\x1e4two");
    node.deliver(&sid, b"three");
    assert_eq!(body(&node.get(&query)), "4one\x1e4two\x1e4three");
}

// "Receiving data": "a client MUST NOT have more than one active `GET` request. Should it happen, the
// server MUST return an HTTP 400 error status and close the session."
#[test]
fn a_second_poll_ends_the_session() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=4");
    let first = node.poll(&query);
    let second = node.get(&format!("{query}&t=burst"));
    assert_eq!(second.status, 400);
    let first = node.answer(first).unwrap();
    assert_eq!((first.status, body(&first)), (200, "1"));
    assert_eq!(node.ended(&sid).unwrap().code, CloseCode::UnexpectedFrame);
    assert_eq!(node.get(&query).status, 400);
}

// Reference behaviour: a poll that its client gives up ends the session, since what was on its way is
// lost.
#[test]
fn an_abandoned_poll_ends_the_session() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=4");
    let poll = node.poll(&query);
    node.abandon(poll);
    assert_eq!(node.ended(&sid).unwrap().code, CloseCode::PeerGone);
    assert_eq!(node.get(&query).status, 400);
}

// "WebSocket": "A client MUST NOT open more than one WebSocket connection per session. Should it
// happen, the server MUST close the WebSocket connection." The first one lives on.
#[test]
fn a_second_web_socket_is_closed() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=4");
    let query = query.replace("polling", "websocket");
    let first = node.connect(&query).unwrap();
    let second = node.connect(&query).unwrap();
    assert_eq!(node.closed(second), Some(CloseCode::UnexpectedFrame));
    node.send(first, "2probe");
    let third = node.connect(&query).unwrap();
    assert!(node.closed(third).is_some());
    node.send(first, "5");
    let fourth = node.connect(&query).unwrap();
    assert!(node.closed(fourth).is_some());
    node.send(first, "4hello");
    assert_eq!(node.received(first), [text("3probe"), text("4hello")]);
    assert!(node.ended(&sid).is_none());
}

// "Handshake": "If the server accepts the connection, then it MUST respond with an `open` packet with
// the following JSON-encoded payload".
#[test]
fn the_handshake_is_an_open_packet() {
    let mut node = Node::new();
    let response = node.get("EIO=4&transport=polling&token=x&t=abc");
    let sid = sid(body(&response));
    let tail = r#""pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}"#;
    assert_eq!(body(&response), format!(r#"0{{"sid":"{sid}","upgrades":["websocket"],{tail}"#));
    assert!(field(&response, "Set-Cookie").is_none());
    let socket = node.connect("EIO=4&transport=websocket").unwrap();
    let received = node.received(socket);
    let [Received::Text(open)] = &received[..] else { panic!("{received:?}") };
    assert!(open.contains(r#""upgrades":[]"#) && open.ends_with(tail), "{open}");
    // What the protocol inside says first comes with it.
    let response = node.get("EIO=4&transport=polling&greet=welcome");
    assert!(body(&response).ends_with("}\x1e4welcome"), "{response:?}");
    let socket = node.connect("EIO=4&transport=websocket&greet=welcome").unwrap();
    assert_eq!(node.received(socket)[1], text("4welcome"));
}

// "Handshake": "To establish a connection, the client MUST send an HTTP `GET` request to the server".
#[test]
fn the_handshake_is_a_get() {
    let mut node = Node::new();
    for method in ["POST", "PUT", "HEAD", "DELETE"] {
        let response = node.ask(method, "EIO=4&transport=polling", &[], b"");
        assert_eq!(body(&response), r#"{"code":2,"message":"Bad handshake method"}"#);
        assert_eq!(response.status, 400);
    }
    let (query, _) = polling(&mut node, "EIO=4");
    assert_eq!(node.ask("PUT", &query, &[], b"").status, 400);
}

// "Heartbeat": "At a given interval the server sends a `ping` packet and the client has a few seconds
// to send a `pong` packet back."
#[test]
fn the_server_pings() {
    let mut node = Node::new();
    let socket = node.connect("EIO=4&transport=websocket").unwrap();
    node.received(socket);
    for _ in 0..3 {
        node.wait(Span::from_millis(24_999));
        assert_eq!(node.received(socket), []);
        node.wait(Span::from_millis(1));
        assert_eq!(node.received(socket), [text("2")]);
        node.wait(Span::from_secs(19));
        node.send(socket, "3");
    }
    let (query, _) = polling(&mut node, "EIO=4");
    for _ in 0..3 {
        let poll = node.poll(&query);
        node.wait(Span::from_secs(25));
        assert_eq!(body(&node.answer(poll).unwrap()), "2");
        assert_eq!(node.post(&query, "3").status, 200);
    }
}

// "Heartbeat": "If the server does not receive a `pong` packet back, then it SHOULD consider that the
// connection is closed." Other packets do not count.
#[test]
fn silence_ends_the_session() {
    let mut node = Node::new();
    let socket = node.connect("EIO=4&transport=websocket").unwrap();
    node.wait(Span::from_millis(44_000));
    node.send(socket, "4hello");
    assert_eq!(node.closed(socket), None);
    node.wait(Span::from_millis(1_000));
    assert_eq!(node.closed(socket), Some(CloseCode::HeartBeatTimeout));
    let received = node.received(socket);
    assert_eq!(
        received[1..],
        [text("2"), text("4hello"), text("4bye heart-beat-timeout"), text("1")]
    );
    let (query, _) = polling(&mut node, "EIO=4");
    node.wait(Span::from_secs(45));
    assert_eq!(node.get(&query).status, 400);
}

// "Heartbeat": the direction is the server's; reference behaviour: a ping of the client's is an error.
#[test]
fn the_client_does_not_ping() {
    let mut node = Node::new();
    let socket = node.connect("EIO=4&transport=websocket").unwrap();
    node.send(socket, "2");
    assert_eq!(node.closed(socket), Some(CloseCode::UnexpectedFrame));
    let (query, sid) = polling(&mut node, "EIO=4");
    assert_eq!(node.post(&query, "2").status, 400);
    assert!(node.ended(&sid).is_some());
}

// "Upgrade": "The server MUST: send a `noop` packet to any pending `GET` request to cleanly close HTTP
// long-polling transport; respond with a `pong` packet with the string `probe` in the payload".
#[test]
fn an_upgrade_ends_polls() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=4");
    let poll = node.poll(&query);
    let socket = node.connect(&query.replace("polling", "websocket")).unwrap();
    assert!(node.answer(poll).is_none());
    node.send(socket, "2probe");
    assert_eq!(node.received(socket), [text("3probe")]);
    assert_eq!(body(&node.answer(poll).unwrap()), "6");
    assert_eq!(body(&node.get(&query)), "6");
    // Until the client has gone over, packets go out as before.
    node.post(&query, "4early");
    assert_eq!(body(&node.get(&query)), "4early");
    // "Finally, the client MUST send a `upgrade` packet to complete the upgrade". What waits then goes
    // out over the WebSocket.
    node.post(&query, "4waits\x1ebAQID");
    node.deliver(&sid, b"news");
    node.send(socket, "5");
    node.send(socket, "4hello");
    let binary = Received::Binary(vec![1, 2, 3]);
    assert_eq!(node.received(socket), [text("4waits"), binary, text("4news"), text("4hello")]);
    let response = node.get(&query);
    assert_eq!(response.status, 400);
    assert!(body(&response).starts_with(r#"{"code":3,"message":"Bad request""#));
    assert_eq!(node.post(&query, "4x").status, 400);
    node.wait(Span::from_secs(25));
    node.send(socket, "3");
    assert!(node.ended(&sid).is_none());
}

// Reference behaviour: any other first packet closes the WebSocket, and so does an upgrade that takes
// too long; the session goes on polling and may try again.
#[test]
fn an_upgrade_that_fails_changes_nothing() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=4");
    let upgrade = query.replace("polling", "websocket");
    for first in ["4hello", "2", "5", "2probe2", ""] {
        let socket = node.connect(&upgrade).unwrap();
        node.send(socket, first);
        assert!(node.closed(socket).is_some(), "{first}");
    }
    let socket = node.connect(&upgrade).unwrap();
    node.send(socket, "2probe");
    node.send(socket, "4hello");
    assert!(node.closed(socket).is_some());
    let poll = node.poll(&query);
    assert!(node.answer(poll).is_none());
    let socket = node.connect(&upgrade).unwrap();
    node.send(socket, "2probe");
    assert_eq!(body(&node.answer(poll).unwrap()), "6");
    node.wait(Span::from_secs(10));
    assert_eq!(node.closed(socket), Some(CloseCode::FrameTimeout));
    // One that vanishes without a word is given up by time.
    let socket = node.connect(&upgrade).unwrap();
    node.lose(socket);
    node.wait(Span::from_secs(10));
    let poll = node.poll(&query);
    node.wait(Span::from_secs(5));
    assert_eq!(body(&node.answer(poll).unwrap()), "2");
    node.post(&query, "3");
    node.wait(Span::from_secs(6));
    let socket = node.connect(&upgrade).unwrap();
    node.send(socket, "2probe");
    node.send(socket, "5");
    node.send(socket, "4hello");
    assert_eq!(node.received(socket), [text("3probe"), text("4hello")]);
    assert!(node.ended(&sid).is_none());
}

// "Upgrade": of a session that does not exist.
#[test]
fn upgrades_of_unknown_sessions_are_closed() {
    let mut node = Node::new();
    let (query, _) = polling(&mut node, "EIO=4");
    let (head, sid) = query.split_once("sid=").unwrap();
    let head = head.replace("polling", "websocket");
    let socket = node.connect(&format!("{head}sid=nobody")).unwrap_err();
    assert_eq!(socket.status, 400);
    let mut gone = Node::new();
    let socket = gone.connect(&format!("{head}sid={sid}")).unwrap();
    assert_eq!(gone.closed(socket), Some(CloseCode::BadRequest));
}

// "Packet encoding", "HTTP long-polling": "Binary payloads MUST be base64-encoded and prefixed with a
// `b` character".
#[test]
fn payloads_carry_text_and_base64() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=4");
    assert_eq!(body(&node.post(&query, "4hello\x1ebAQIDBA==")), "ok");
    assert_eq!(body(&node.get(&query)), "4hello\x1ebAQIDBA==");
    let poll = node.poll(&query);
    node.deliver(&sid, &[0xff, 1]);
    assert_eq!(body(&node.answer(poll).unwrap()), "b/wE=");
    node.post(&query, "4h\u{20ac}\u{1f600}");
    assert_eq!(body(&node.get(&query)), "4h\u{20ac}\u{1f600}");
}

// "Packet encoding", "WebSocket": "Each Engine.IO packet is sent in its own WebSocket frame. [...]
// Binary payloads are sent as is, without modification."
#[test]
fn frames_carry_one_packet() {
    let mut node = Node::new();
    let socket = node.connect("EIO=4&transport=websocket").unwrap();
    node.received(socket);
    node.send(socket, "4three");
    node.send_binary(socket, &[1, 2, 3, 4]);
    assert_eq!(
        node.received(socket),
        [text("4one"), text("4two"), text("4three"), Received::Binary(vec![1, 2, 3, 4])]
    );
    // Clients without binary WebSockets say so, and get and send base64.
    let socket = node.connect("EIO=4&transport=websocket&b64=1").unwrap();
    node.received(socket);
    node.send(socket, "bAQIDBA==");
    assert_eq!(node.received(socket), [text("bAQIDBA==")]);
}

// Reference behaviour: a packet that is none ends the session.
#[test]
fn bad_packets_end_the_session() {
    for payload in ["abc", "", "4a\x1e", "\x1e4a", "7", "b!", "0", "5"] {
        let mut node = Node::new();
        let (query, sid) = polling(&mut node, "EIO=4");
        let poll = node.poll(&query);
        let response = node.post(&query, payload);
        assert_eq!(response.status, 400, "{payload:?}");
        assert!(body(&response).starts_with(r#"{"code":3,"message":"Bad request","reason":"#));
        let poll = node.answer(poll).unwrap();
        assert!(poll.status == 200 && body(&poll).ends_with('1'), "{payload:?} {poll:?}");
        assert!(node.ended(&sid).is_some());
        assert_eq!(node.get(&query).status, 400);
    }
    let mut node = Node::new();
    for message in ["abc", "", "7", "b!", "0", "5"] {
        let socket = node.connect("EIO=4&transport=websocket").unwrap();
        node.send(socket, message);
        assert!(node.closed(socket).is_some(), "{message:?}");
    }
    let (query, _) = polling(&mut node, "EIO=4");
    let fields = [("Content-Type", "text/plain")];
    assert_eq!(node.ask("POST", &query, &fields, b"4\xff").status, 400);
}

// Reference behaviour: binary bodies are not of this revision.
#[test]
fn binary_bodies_are_refused() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=4");
    let fields = [("Content-Type", "application/octet-stream")];
    assert_eq!(node.ask("POST", &query, &fields, b"4hello").status, 400);
    assert!(node.ended(&sid).is_some());
}

// "Protocol": "close: Used to indicate that a transport can be closed." The pending poll is ended.
#[test]
fn a_close_packet_ends_the_session() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=4");
    let poll = node.poll(&query);
    assert_eq!(body(&node.post(&query, "1\x1e4unheard")), "ok");
    assert_eq!(body(&node.answer(poll).unwrap()), "6");
    assert_eq!(node.ended(&sid).unwrap().code, CloseCode::Done);
    assert_eq!(node.get(&query).status, 400);
    let socket = node.connect("EIO=4&transport=websocket").unwrap();
    node.send(socket, "1");
    assert_eq!(node.closed(socket), Some(CloseCode::Done));
}

// "maxPayload: The maximum number of bytes per chunk".
#[test]
fn large_payloads_are_refused() {
    let options =
        EngineOptions { payload_bytes_max: 10, packets_max: 3, ..EngineOptions::default() };
    let mut node = Node::with(options);
    let (query, sid) = polling(&mut node, "EIO=4");
    assert_eq!(node.post(&query, "4123456789").status, 200);
    assert_eq!(node.post(&query, "4123456789a").status, 413);
    assert_eq!(node.post(&query, "4\x1e4\x1e4").status, 200);
    assert!(node.ended(&sid).is_none());
    let response = node.post(&query, "4\x1e4\x1e4\x1e4");
    assert_eq!(response.status, 400);
    assert!(body(&response).contains("more packets than the server's limit"), "{response:?}");
    assert_eq!(node.ended(&sid).unwrap().code, CloseCode::FrameTooLarge);
    let socket = node.connect("EIO=4&transport=websocket").unwrap();
    node.send(socket, "4123456789");
    assert_eq!(node.closed(socket), None);
    node.send(socket, "4123456789a");
    assert_eq!(node.closed(socket), Some(CloseCode::FrameTooLarge));
}
