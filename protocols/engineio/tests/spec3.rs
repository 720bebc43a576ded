//! The sentences of the Engine.IO protocol, revision 3, one test each. The sentence stands above its
//! test, cited by section of the document `v3.md`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support;

use support::{Node, Received, body, field, polling, sid, text};
use tiderace_base::{CloseCode, Span};
use tiderace_engineio::EngineOptions;
use tiderace_engineio::payload::jsonp;

const BINARY: [(&str, &str); 1] = [("Content-Type", "application/octet-stream")];

// "Anatomy", 2: "Server responds with an `open` packet with JSON-encoded handshake data". It is text
// for every client.
#[test]
fn the_handshake_is_an_open_packet() {
    let mut node = Node::new();
    for query in ["EIO=3&transport=polling", "EIO=3&transport=polling&b64=1"] {
        let response = node.get(query);
        assert_eq!(field(&response, "Content-Type"), Some("text/plain; charset=UTF-8"));
        let (length, packet) = body(&response).split_once(':').unwrap();
        assert_eq!(length, packet.len().to_string());
        let sid = sid(packet);
        assert!(packet.starts_with(&format!(r#"0{{"sid":"{sid}","upgrades":["websocket"],"#)));
    }
    // What the protocol inside says first comes with it, as text too.
    for query in ["EIO=3&transport=polling&greet=0", "EIO=3&transport=polling&b64=1&greet=0"] {
        assert!(body(&node.get(query)).ends_with("}2:40"));
    }
    let socket = node.connect("EIO=3&transport=websocket&greet=0").unwrap();
    assert_eq!(node.received(socket)[1], text("40"));
}

// "Anatomy", 3: "Server must respond to periodic `ping` packets sent by the client with `pong`
// packets"; "2 ping": "a pong packet containing the same data".
#[test]
fn the_server_pongs() {
    let mut node = Node::new();
    let socket = node.connect("EIO=3&transport=websocket").unwrap();
    node.received(socket);
    let (query, _) = polling(&mut node, "EIO=3&b64=1");
    for _ in 0..3 {
        node.wait(Span::from_secs(44));
        node.send(socket, "2");
        node.send(socket, "2probe");
        assert_eq!(node.received(socket), [text("3"), text("3probe")]);
        assert_eq!(node.post(&query, "1:22:2x").status, 200);
        assert_eq!(body(&node.get(&query)), "1:32:3x");
    }
}

// Reference behaviour: the session ends when no ping has come for pingInterval and pingTimeout; a pong
// of the client's is an error.
#[test]
fn silence_ends_the_session() {
    let mut node = Node::new();
    let socket = node.connect("EIO=3&transport=websocket").unwrap();
    let (query, sid) = polling(&mut node, "EIO=3&b64=1");
    node.wait(Span::from_secs(44));
    node.send(socket, "4hello");
    assert!(node.ended(&sid).is_none());
    node.wait(Span::from_secs(1));
    assert_eq!(node.closed(socket), Some(CloseCode::HeartBeatTimeout));
    assert_eq!(node.post(&query, "1:2").status, 400);
    let socket = node.connect("EIO=3&transport=websocket").unwrap();
    node.send(socket, "3");
    assert_eq!(node.closed(socket), Some(CloseCode::UnexpectedFrame));
}

// "Payload": "<length1>:<packet1>[<length2>:<packet2>[...]]"; "length of the packet in characters",
// which are UTF-16 code units.
#[test]
fn text_payloads_count_characters() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=3&b64=1");
    assert_eq!(body(&node.post(&query, "6:4hello2:4\u{20ac}3:4\u{1f600}1:4")), "ok");
    let response = node.get(&query);
    assert_eq!(body(&response), "6:4hello2:4\u{20ac}3:4\u{1f600}1:4");
    assert_eq!(field(&response, "Content-Type"), Some("text/plain; charset=UTF-8"));
    // An empty payload.
    assert_eq!(body(&node.post(&query, "0:")), "ok");
    node.deliver(&sid, "\u{1f600}\u{1f600}".as_bytes());
    assert_eq!(body(&node.get(&query)), "5:4\u{1f600}\u{1f600}");
}

// "Payload": "binary data is sent [...] as base64 encoded strings. For the purposes of decoding, an
// identifier `b` is put before a packet encoding that contains binary data."
#[test]
fn clients_without_xhr2_get_base64() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=3&b64=1");
    assert_eq!(body(&node.post(&query, "6:4hello10:b4AQIDBA==")), "ok");
    assert_eq!(body(&node.get(&query)), "6:4hello10:b4AQIDBA==");
    let poll = node.poll(&query);
    node.deliver(&sid, &[0xff, 1, 2]);
    assert_eq!(body(&node.answer(poll).unwrap()), "6:b4/wEC");
    // It stays so on WebSockets, whose clients say so as well.
    let socket = node.connect("EIO=3&transport=websocket&b64=1").unwrap();
    node.received(socket);
    node.send(socket, "b4AQIDBA==");
    assert_eq!(node.received(socket), [text("b4AQIDBA==")]);
}

// "Payload": "When XHR2 is supported, a similar principle is used, but everything is encoded directly
// into binary".
#[test]
fn clients_with_xhr2_get_binary() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=3");
    let payload = [0, 6, 255, 52, 104, 101, 108, 108, 111, 1, 5, 255, 4, 1, 2, 3, 4];
    assert_eq!(body(&node.post(&query, "6:4hello10:b4AQIDBA==")), "ok");
    let response = node.get(&query);
    assert_eq!(response.body, payload[..]);
    assert_eq!(field(&response, "Content-Type"), Some("application/octet-stream"));
    assert_eq!(body(&node.ask("POST", &query, &BINARY, &payload)), "ok");
    assert_eq!(node.get(&query).body, payload[..]);
    let poll = node.poll(&query);
    node.deliver(&sid, &[0xff; 10]);
    assert_eq!(node.answer(poll).unwrap().body[..5], [1, 1, 1, 255, 4]);
    // Text is UTF-8, and its length is counted in bytes.
    let euro = [0, 4, 255, 52, 0xe2, 0x82, 0xac];
    assert_eq!(node.ask("POST", &query, &BINARY, &euro).status, 200);
    assert_eq!(node.get(&query).body, euro[..]);
    let poll = node.poll(&query);
    node.post(&query, "1:1");
    assert_eq!(node.answer(poll).unwrap().body, [0u8, 1, 255, b'6'][..]);
}

// "Packet": "When sending binary data, the packet type id is sent in the first byte of the binary
// contents". On WebSockets: "encode packets individually and `send()` them in succession".
#[test]
fn frames_carry_one_packet() {
    let mut node = Node::new();
    let socket = node.connect("EIO=3&transport=websocket").unwrap();
    node.received(socket);
    node.send(socket, "4hello");
    node.send_binary(socket, &[4, 1, 2, 3, 4]);
    assert_eq!(node.received(socket), [text("4hello"), Received::Binary(vec![4, 1, 2, 3, 4])]);
    node.send_binary(socket, b"4");
    assert_eq!(node.closed(socket), Some(CloseCode::BadFrame));
}

// "XHR": "The server must support CORS responses."
#[test]
fn pages_of_allowed_origins_may_read() {
    let options = EngineOptions::default();
    let mut node = Node::with(EngineOptions { credentials: true, ..options.clone() });
    let ours = [("Origin", "https://app.example"), ("Host", "here")];
    let response = node.ask("GET", "EIO=3&transport=polling", &ours, b"");
    assert_eq!(field(&response, "Access-Control-Allow-Origin"), Some("https://app.example"));
    assert_eq!(field(&response, "Access-Control-Allow-Credentials"), Some("true"));
    assert_eq!(field(&response, "Vary"), Some("Origin"));
    let ask = [ours[0], ("Access-Control-Request-Headers", "x-token")];
    let response = node.ask("OPTIONS", "EIO=3&transport=polling&sid=x", &ask, b"");
    assert_eq!(response.status, 204);
    assert_eq!(field(&response, "Access-Control-Allow-Headers"), Some("x-token"));
    assert_eq!(field(&response, "Access-Control-Allow-Methods"), Some("GET, POST"));
    let mut node = Node::with(options);
    let response = node.ask("GET", "EIO=3&transport=polling", &ours, b"");
    assert_eq!(field(&response, "Access-Control-Allow-Credentials"), None);
    for origin in ["https://app.example\r\nX: y", "\u{0}"] {
        let response = node.ask("GET", "EIO=3&transport=polling", &[("Origin", origin)], b"");
        assert_eq!(response.status, 400);
        assert!(body(&response).starts_with("{\"code\":3,"));
        assert_eq!(field(&response, "Access-Control-Allow-Origin"), None);
    }
}

// "JSONP": "The server implementation must respond with valid JavaScript. The URL contains a query
// string parameter `j` that must be used in the response."
#[test]
fn scripts_are_answered_with_a_call() {
    let mut node = Node::new();
    let response = node.get("EIO=3&transport=polling&b64=1&j=7");
    assert_eq!(field(&response, "Content-Type"), Some("text/javascript; charset=UTF-8"));
    let script = body(&response).to_owned();
    assert!(script.starts_with(r#"___eio[7]("#) && script.ends_with(r#"}");"#), "{script}");
    let sid = sid(&script.replace('\\', ""));
    let query = format!("EIO=3&transport=polling&j=7&sid={sid}");
    let poll = node.poll(&query);
    assert!(node.answer(poll).is_none());
    node.deliver(&sid, "a\"b\u{2028}\n".as_bytes());
    assert_eq!(body(&node.answer(poll).unwrap()), "___eio[7](\"6:4a\\\"b\\u2028\\n\");");
    let poll = node.poll(&query);
    // "d=<escaped packet payload>"
    assert_eq!(body(&node.post(&query, "d=3%3A4%5C%5Cn2:4+10:b4AQIDBA%3D%3D")), "ok");
    assert_eq!(body(&node.answer(poll).unwrap()), r#"___eio[7]("3:4\\n");"#);
    assert_eq!(body(&node.get(&query)), r#"___eio[7]("2:4 10:b4AQIDBA==");"#);
    // Deliveries that are written together come in one call.
    node.deliver(&sid, b"later");
    node.deliver(&sid, &[0xff]);
    assert_eq!(body(&node.get(&query)), r#"___eio[7]("6:b4/w==6:4later");"#);
    // Polls are ended for an upgrade, and base64 goes on after it.
    let poll = node.poll(&query);
    let socket = node.connect(&format!("EIO=3&transport=websocket&sid={sid}")).unwrap();
    node.send(socket, "2probe");
    assert_eq!(body(&node.answer(poll).unwrap()), r#"___eio[7]("1:6");"#);
    node.post(&query, "d=6:4three");
    node.deliver(&sid, &[0xff]);
    node.send(socket, "5");
    let expected = ["3probe", "4one", "4two", "4three", "b4/w=="].map(text);
    assert_eq!(node.received(socket), expected);
}

// "Posting data": "`\n` gets escaped as `\\n` prior to being POSTd".
#[test]
fn escapes_of_forms_are_taken_back() {
    for (payload, form) in [
        ("3:4\\n", "d=3:4%5C%5Cn"),
        ("2:4\n", "d=2:4%5Cn"),
        ("4:4\\\\n", "d=4:4%5C%5C%5Cn"),
        ("2:4&", "x=1&d=2:4%26"),
        ("3:4a b", "d=3:4a+b"),
    ] {
        assert_eq!(jsonp::read(form.as_bytes()).unwrap(), payload.as_bytes(), "{form}");
    }
    for form in ["", "e=4", "d=%4", "d=%zz"] {
        assert!(jsonp::read(form.as_bytes()).is_err(), "{form}");
    }
}

// JSONP sessions end as others do, with an answer that is a call.
#[test]
fn scripts_hear_the_end() {
    for (payload, answer) in [
        ("d=1:1", r#"___eio[0]("1:6");"#),
        ("d=abc", r#"___eio[0]("1:1");"#),
        ("d=5:4fail", r#"___eio[0]("17:4bye login-failed1:1");"#),
        ("d=6:4leave", r#"___eio[0]("5:4left1:1");"#),
    ] {
        let mut node = Node::new();
        let response = node.get("EIO=3&transport=polling&b64=1&j=0");
        let sid = sid(&body(&response).replace('\\', ""));
        let query = format!("EIO=3&transport=polling&j=0&sid={sid}");
        let poll = node.poll(&query);
        node.post(&query, payload);
        assert_eq!(body(&node.answer(poll).unwrap()), answer, "{payload}");
        assert!(node.ended(&sid).is_some());
    }
    let mut node = Node::new();
    let response = node.get("EIO=3&transport=polling&b64=1&j=0");
    let sid = sid(&body(&response).replace('\\', ""));
    let poll = node.poll(&format!("EIO=3&transport=polling&j=0&sid={sid}"));
    node.end(&sid, CloseCode::ShuttingDown);
    let answer = node.answer(poll).unwrap();
    assert_eq!(body(&answer), r#"___eio[0]("18:4bye shutting-down1:1");"#);
}

// Reference behaviour: a packet that is none ends the session.
#[test]
fn bad_packets_end_the_session() {
    for payload in
        ["abc", "", "6", ":4", "3:4a", "2:4\u{1f600}", "1:4x", "-1:4", "1:7", "1:b", "4:b4!!"]
    {
        let mut node = Node::new();
        let (query, sid) = polling(&mut node, "EIO=3&b64=1");
        assert_eq!(node.post(&query, payload).status, 400, "{payload}");
        assert!(node.ended(&sid).is_some());
        assert_eq!(node.get(&query).status, 400);
    }
    for payload in [
        &b""[..],
        &[2, 1, 255, 52],
        &[0, 255, 52],
        &[0, 1, 52],
        &[0, 2, 255, 52],
        &[0, 10, 255, 52],
        &[1, 1, 255, 52],
        &[0, 2, 255, 52, 0xff],
        &[0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 255],
    ] {
        let mut node = Node::new();
        let (query, sid) = polling(&mut node, "EIO=3");
        assert_eq!(node.ask("POST", &query, &BINARY, payload).status, 400, "{payload:?}");
        assert!(node.ended(&sid).is_some());
    }
}

// "transport": the revision is that of the handshake; with it off, it is unknown.
#[test]
fn revisions_do_not_mix() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=3");
    assert_eq!(node.get(&query.replace("EIO=3", "EIO=4")).status, 400);
    assert!(node.ended(&sid).is_none());
    let mut node = Node::with(EngineOptions { revision_3: false, ..EngineOptions::default() });
    let response = node.get("EIO=3&transport=polling");
    assert_eq!(body(&response), r#"{"code":5,"message":"Unsupported protocol version"}"#);
}
