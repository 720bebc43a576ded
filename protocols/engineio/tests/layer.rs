//! What the layer does for the protocol inside, and what the options change.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support;

use support::{Node, Received, body, field, polling, text};
use tiderace_base::{CloseCode, Span};
use tiderace_engineio::{CookieOptions, EngineOptions};

#[test]
fn the_end_of_what_is_inside_is_told() {
    let mut node = Node::new();
    let socket = node.connect("EIO=4&transport=websocket").unwrap();
    node.received(socket);
    node.send(socket, "4leave");
    assert_eq!(node.received(socket), [text("4left"), text("1")]);
    assert_eq!(node.closed(socket), Some(CloseCode::Done));
    let socket = node.connect("EIO=4&transport=websocket").unwrap();
    node.received(socket);
    node.send(socket, "4fail");
    assert_eq!(node.received(socket), [text("4bye login-failed"), text("1")]);
    assert_eq!(node.closed(socket), Some(CloseCode::LoginFailed));
    let (query, sid) = polling(&mut node, "EIO=4");
    let poll = node.poll(&query);
    assert_eq!(body(&node.post(&query, "4fail\x1e4unheard")), "ok");
    assert_eq!(body(&node.answer(poll).unwrap()), "4bye login-failed\x1e1");
    assert_eq!(node.ended(&sid).unwrap().code, CloseCode::LoginFailed);
    let (_, sid) = polling(&mut node, "EIO=4");
    node.end(&sid, CloseCode::ShuttingDown);
    let socket = node.connect("EIO=4&transport=websocket&b64=1").unwrap();
    node.received(socket);
    node.send(socket, "4leave");
    assert_eq!(node.received(socket), [text("4left"), text("1")]);
}

#[test]
fn last_words_wait_for_a_poll() {
    let mut node = Node::new();
    for (word, words) in [("4leave", "4left\x1e1"), ("4fail", "4bye login-failed\x1e1")] {
        let (query, sid) = polling(&mut node, "EIO=4");
        assert_eq!(body(&node.post(&query, &format!("{word}\x1e4unheard"))), "ok");
        assert!(node.ended(&sid).is_none());
        assert_eq!(node.post(&query, "4hello").status, 400);
        let upgrade = node.connect(&query.replace("polling", "websocket")).unwrap();
        assert!(node.closed(upgrade).is_some());
        assert_eq!(body(&node.get(&query)), words);
        assert!(node.ended(&sid).is_some());
        assert_eq!(node.get(&query).status, 400);
        // Not for ever.
        let (query, sid) = polling(&mut node, "EIO=4");
        node.post(&query, word);
        node.wait(Span::from_secs(20));
        assert!(node.ended(&sid).is_some());
    }
}

#[test]
fn what_is_inside_is_woken() {
    let mut node = Node::new();
    let (query, _) = polling(&mut node, "EIO=4");
    let poll = node.poll(&query);
    node.post(&query, "4wake");
    assert!(node.answer(poll).is_none());
    node.wait(Span::from_secs(1));
    assert_eq!(body(&node.answer(poll).unwrap()), "4awake");
    let socket = node.connect("EIO=4&transport=websocket").unwrap();
    node.send(socket, "4wake");
    node.wait(Span::from_secs(1));
    assert_eq!(node.received(socket)[1], text("4awake"));
}

#[test]
fn deliveries_and_answers_share_a_poll() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=4");
    node.deliver(&sid, b"first");
    node.post(&query, "4second");
    assert_eq!(body(&node.get(&query)), "4second\x1e4first");
    let socket = node.connect("EIO=4&transport=websocket").unwrap();
    node.received(socket);
    node.send_binary(socket, &[]);
    assert_eq!(node.received(socket), [Received::Binary(Vec::new())]);
}

#[test]
fn what_nobody_fetches_does_not_pile_up() {
    let options = EngineOptions { payload_bytes_max: 100_000, ..EngineOptions::default() };
    let mut node = Node::with(options);
    let (query, sid) = polling(&mut node, "EIO=4");
    let message = format!("4{}", "x".repeat(90_000));
    for _ in 0..12 {
        assert_eq!(node.post(&query, &message).status, 200);
    }
    assert!(node.ended(&sid).is_none());
    node.post(&query, &message);
    assert_eq!(node.ended(&sid).unwrap().code, CloseCode::SlowConsumer);
}

// Answers to pings wait like everything else for a client that does not poll.
#[test]
fn a_client_that_pings_and_does_not_poll_does_not_fill_memory() {
    let mut node = Node::new();
    let (query, sid) = polling(&mut node, "EIO=3&b64=1");
    let data = "a".repeat(900_000);
    let ping = format!("{}:2{data}", 1 + data.len());
    for count in 0.. {
        assert!(count < 4, "{count} pongs of {} bytes wait", data.len());
        if node.post(&query, &ping).status != 200 || node.ended(&sid).is_some() {
            break;
        }
    }
    assert_eq!(node.ended(&sid).unwrap().code, CloseCode::SlowConsumer);
}

#[test]
fn a_cookie_may_name_the_session() {
    let cookie = Some(CookieOptions { name: "io".to_owned() });
    let mut node = Node::with(EngineOptions { cookie, ..EngineOptions::default() });
    let response = node.get("EIO=4&transport=polling");
    let sid = support::sid(body(&response));
    let cookie = format!("io={sid}; Path=/; HttpOnly; SameSite=Lax");
    assert_eq!(field(&response, "Set-Cookie"), Some(&*cookie));
    let query = format!("EIO=4&transport=polling&sid={sid}");
    assert_eq!(field(&node.post(&query, "4a"), "Set-Cookie"), None);
}

#[test]
fn transports_can_be_switched_off() {
    let mut node = Node::with(EngineOptions { polling: false, ..EngineOptions::default() });
    assert!(body(&node.get("EIO=4&transport=polling")).starts_with(r#"{"code":0,"#));
    assert!(node.connect("EIO=4&transport=websocket").is_ok());
    let mut node = Node::with(EngineOptions { websocket: false, ..EngineOptions::default() });
    assert!(body(&node.get("EIO=4&transport=polling")).contains(r#""upgrades":[]"#));
    assert_eq!(node.connect("EIO=4&transport=websocket").unwrap_err().status, 400);
    let mut node = Node::with(EngineOptions { upgrades: false, ..EngineOptions::default() });
    let (query, _) = polling(&mut node, "EIO=4");
    assert_eq!(node.connect(&query.replace("polling", "websocket")).unwrap_err().status, 400);
    let mut node = Node::with(EngineOptions { jsonp: false, ..EngineOptions::default() });
    assert_eq!(node.get("EIO=3&transport=polling&j=0").status, 400);
}
