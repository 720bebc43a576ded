//! The client against scripted servers on the loopback interface.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use serde_json::json;
use tiderace_native::codec::{ResultMessage, Welcome};
use tiderace_websocket::handshake::accept_key;

use super::*;

/// What a scripted server says to each message: whole transport messages.
type Script = fn(&ClientMessage<'_>) -> Vec<Vec<u8>>;

/// Serves one connection until it ends; gives what it was told.
fn server(script: Script) -> (u16, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut key = String::new();
        for line in reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty())
        {
            if let Some(value) = line.strip_prefix("Sec-WebSocket-Key: ") {
                key = value.to_owned();
            }
        }
        let accepted = accept_key(key.as_bytes());
        let accepted = std::str::from_utf8(&accepted).unwrap();
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accepted}\r\nSec-WebSocket-Protocol: tiderace.v1\r\n\r\n"
        );
        (&stream).write_all(head.as_bytes()).unwrap();
        let (mut decoder, mut input, mut told) =
            (Decoder::new(Role::Server), Vec::new(), Vec::new());
        loop {
            let decoded = decoder.decode(&LIMITS, &mut input).unwrap();
            let consumed = decoded.consumed;
            let mut waits = false;
            match decoded.event {
                Event::Message { payload, .. } => {
                    for (kind, payload) in Messages::new(payload).map(Result::unwrap) {
                        let message = ClientMessage::read(kind, payload).unwrap();
                        told.push(format!("{message:?}"));
                        let mut out = Vec::new();
                        for answer in script(&message) {
                            encode_message(&mut out, MessageKind::Binary, &answer, None);
                        }
                        (&stream).write_all(&out).unwrap();
                    }
                }
                Event::Pong(_) => told.push("pong".to_owned()),
                _ => waits = true,
            }
            input.drain(..consumed);
            let read =
                if waits { reader.fill_buf().unwrap_or_default().to_vec() } else { continue };
            reader.consume(read.len());
            input.extend_from_slice(&read);
            if read.is_empty() {
                return told;
            }
        }
    });
    (port, thread)
}

fn written(message: &ServerMessage<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.write(&mut out);
    out
}

fn welcome() -> Vec<u8> {
    written(&ServerMessage::Welcome(Welcome {
        version: 1,
        name: "ann",
        epoch: b"\x01",
        ping_ms: 0,
        message_bytes_max: 1000,
        subscriptions_max: 10,
        declarations_max: 10,
        jitter_ms: 0,
        codecs: Vec::new(),
        features: 0,
        server: "fake",
    }))
}

/// Welcomes, and answers every operation: `remove` by a refusal, others by a page behind some words.
fn good(message: &ClientMessage<'_>) -> Vec<Vec<u8>> {
    let ClientMessage::Operate(operate) = message else {
        return if matches!(message, ClientMessage::Hello(_)) {
            vec![welcome()]
        } else {
            Vec::new()
        };
    };
    let request = operate.request;
    if operate.operation.contains("remove") {
        let (slug, sentence) = ("not-authorised", "No.");
        return vec![written(&ServerMessage::Error { request, code: 401, slug, sentence })];
    }
    let mut entries = Vec::new();
    QueuedEntry { flags: 1, properties: b"", body: b"{}" }.write(&mut entries);
    let properties = b"content-type:image/png\n";
    QueuedEntry { flags: 0, properties, body: b"\xff" }.write(&mut entries);
    let result = r#"{"topics":[{"bytes":2},{"bytes":1}]}"#;
    let result = ResultMessage { request, result, entries: &entries };
    vec![written(&ServerMessage::Pong(b"")), written(&ServerMessage::Result(result))]
}

fn login<'a>() -> Login<'a> {
    Login { login: Some("ann"), passcode: Some("pw") }
}

#[test]
fn operations_are_answered_with_their_values() {
    let (port, server) = server(good);
    let mut client =
        NativeClient::connect("127.0.0.1", port, &TlsArgs::default(), &login()).unwrap();
    let answer = client.operate(&json!({"do": "fetch"}), Some(b"x")).unwrap();
    assert_eq!(answer.result["topics"][0]["bytes"], json!(2));
    let kinds: Vec<_> =
        answer.values.iter().map(|value| (value.content_type.as_deref(), &*value.body)).collect();
    assert_eq!(kinds, [(Some("application/json"), &b"{}"[..]), (Some("image/png"), &b"\xff"[..])]);
    let refused = client.operate(&json!({"do": "remove"}), None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the server says no: No. (not-authorised) (log in with -u and -P)"
    );
    client.leave().unwrap();
    let told = server.join().unwrap();
    assert!(told[0].contains("Password { user: \"ann\", password: \"pw\" }"), "{told:?}");
    let first = "Operate(OperateMessage { request: 1, operation: \"{\\\"do\\\":\\\"fetch\\\"}\"";
    assert!(told[1].starts_with(first) && told[1].contains("body: Some([120])"), "{told:?}");
    assert_eq!(told[3], "Bye");
}

#[test]
fn what_the_server_says_last_is_told() {
    let (port, _server) = server(|_| {
        let (slug, sentence) = ("login-failed", "Wrong password.");
        let close =
            ServerMessage::Close { code: 400, slug, sentence, reconnect: false, jitter_ms: 0 };
        vec![written(&close)]
    });
    let error = NativeClient::connect("127.0.0.1", port, &TlsArgs::default(), &login())
        .unwrap_err()
        .to_string();
    assert_eq!(error, "the server says no: Wrong password. (login-failed) (log in with -u and -P)");
}

#[test]
fn what_is_no_websocket_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1000]);
        stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n").unwrap();
    });
    let error = NativeClient::connect("127.0.0.1", port, &TlsArgs::default(), &login())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no WebSocket at /tiderace: the server answered with status 404"),
        "{error}"
    );
    server.join().unwrap();
}
