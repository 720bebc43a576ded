//! The client against scripted servers on the loopback interface.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use serde_json::json;
use tiderace_client::{ClientMessage, Welcome};
use tiderace_native::codec::{
    AddressList, Messages, Queued, ServerMessage, begin_message, end_message, kind,
};
use tiderace_websocket::handshake::accept_key;
use tiderace_websocket::{
    Decoder, Event as Frame, Limits, MessageKind, Role, encode_close, encode_message, encode_ping,
};

use super::*;

/// What a scripted server says to each message: whole transport messages; `None` closes the connection
/// behind what it has said.
type Script = fn(&ClientMessage<'_>, &mut Vec<Vec<u8>>) -> Option<()>;

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
        let mut open = true;
        loop {
            let decoded = decoder.decode(&Limits::default(), &mut input).unwrap();
            let consumed = decoded.consumed;
            let mut waits = false;
            match decoded.event {
                Frame::Message { payload, .. } if open => {
                    for (kind, payload) in Messages::new(payload).map(Result::unwrap) {
                        let message = ClientMessage::read(kind, payload).unwrap();
                        told.push(format!("{message:?}"));
                        let mut answers = Vec::new();
                        open = open && script(&message, &mut answers).is_some();
                        let mut out = Vec::new();
                        for answer in answers {
                            encode_ping(&mut out, b"", None);
                            encode_message(&mut out, MessageKind::Binary, &answer, None);
                        }
                        if !open {
                            encode_close(&mut out, None, "", None);
                        }
                        let _ = (&stream).write_all(&out);
                    }
                }
                Frame::Incomplete { .. } => waits = true,
                _ => {}
            }
            input.drain(..consumed);
            // Reading on keeps the kernel from resetting the connection before the client has read.
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
        node: "",
        server: "fake",
    }))
}

fn done(request: u32) -> Vec<u8> {
    written(&ServerMessage::Ok { first: request, last: request })
}

fn no(request: u32) -> Vec<u8> {
    let (slug, sentence) = ("not-authorised", "No.");
    written(&ServerMessage::Error { request, code: 401, slug, sentence })
}

/// Two messages of a queue, numbered from 7.
fn queued(subscription: u32) -> Vec<u8> {
    let queued =
        Queued { flags: 0, id: subscription, home: 3, first: 7, redeliveries: 0, entries: b"" };
    let mut out = Vec::new();
    let start = begin_message(kind::QUEUED, &mut out);
    queued.write_head(&mut out);
    QueuedEntry { flags: 1, properties: b"a:1\n", body: b"m1" }.write(&mut out);
    QueuedEntry { flags: 0, properties: b"", body: b"m2" }.write(&mut out);
    end_message(start, &mut out);
    out
}

/// A server as it should be: welcomes, confirms, sends two messages to a subscriber, and answers
/// operations: `remove` by a refusal, others by a page behind some words.
fn good(message: &ClientMessage<'_>, answers: &mut Vec<Vec<u8>>) -> Option<()> {
    match message {
        ClientMessage::Hello(_) => answers.push(welcome()),
        ClientMessage::Subscribe(subscribe) => {
            answers.push(queued(subscribe.subscription));
            answers.push(done(subscribe.request));
        }
        ClientMessage::Publish(publish) => answers.push(done(publish.request)),
        ClientMessage::Settle(settle) => answers.push(done(settle.request)),
        ClientMessage::Operate(operate) if operate.operation.contains("remove") => {
            answers.push(no(operate.request));
        }
        ClientMessage::Operate(operate) => {
            let mut entries = Vec::new();
            QueuedEntry { flags: 1, properties: b"", body: b"{}" }.write(&mut entries);
            let properties = b"content-type:image/png\n";
            QueuedEntry { flags: 0, properties, body: b"\xff" }.write(&mut entries);
            let result = r#"{"topics":[{"bytes":2},{"bytes":1}]}"#;
            let result = ResultMessage { request: operate.request, result, entries: &entries };
            answers.push(written(&ServerMessage::Pong(b"")));
            answers.push(written(&ServerMessage::Result(result)));
        }
        _ => {}
    }
    Some(())
}

const NOBODY: Login = Login { login: None, passcode: None };

fn connect(port: u16, login: &Login) -> Result<Client, ClientError> {
    let target =
        Target { at: At::Host { host: "127.0.0.1".to_owned(), port }, tls: TlsArgs::default() };
    Client::connect(vec![target], login.clone())
}

fn topic(body: &[u8]) -> Publish<'_> {
    draft(Kind::Topic, "a", 0, b"", body)
}

#[test]
fn operations_are_answered_with_their_values() {
    let (port, server) = server(good);
    let login = Login { login: Some("ann".to_owned()), passcode: Some("pw".to_owned()) };
    let mut client = connect(port, &login).unwrap();
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
fn messages_are_confirmed_one_by_one() {
    let (port, server) = server(good);
    let mut client = connect(port, &NOBODY).unwrap();
    for number in 0..1_000u32 {
        client.publish(topic(&number.to_be_bytes())).unwrap();
        assert!(client.outstanding.len() < OUTSTANDING_MAX);
    }
    client.confirm().unwrap();
    assert!(client.outstanding.is_empty());
    client.leave().unwrap();
    let told = server.join().unwrap();
    let sent: Vec<_> = told.iter().filter(|message| message.starts_with("Publish")).collect();
    assert_eq!(sent.len(), 1_000);
    for (number, message) in (0u32..).zip(sent) {
        assert!(message.contains(&format!("body: {:?}", number.to_be_bytes())), "{message}");
    }
    assert_eq!(told.last().unwrap(), "Bye");
}

#[test]
fn messages_that_overtake_the_answer_are_kept_and_acknowledged() {
    let (port, server) = server(good);
    let mut client = connect(port, &NOBODY).unwrap();
    client.subscribe(SubscribeOptions::queue("jobs").explicit()).unwrap();
    for body in [b"m1", b"m2"] {
        let message = client.next_message(None).unwrap().unwrap();
        assert_eq!((&*message.path, &*message.body), ("jobs", &body[..]));
        client.acknowledge(&message).unwrap();
    }
    let timeout = Some(Duration::from_millis(1));
    assert_eq!(client.next_message(timeout).unwrap(), None, "nothing more comes");
    client.leave().unwrap();
    let told = server.join().unwrap();
    let settled: Vec<_> = told.iter().filter(|message| message.starts_with("Settle")).collect();
    assert_eq!(settled.len(), 2);
    for (message, number) in settled.iter().zip([7, 8]) {
        let said =
            format!("subscription: 0, home: 3, reject: false, ranges: [({number}, {number})]");
        assert!(message.contains(&said), "{message}");
    }
}

#[test]
fn properties_are_listed_with_the_content_type_first() {
    let (port, _server) = server(good);
    let mut client = connect(port, &NOBODY).unwrap();
    client.subscribe(SubscribeOptions::queue("jobs").explicit()).unwrap();
    let message = client.next_message(None).unwrap().unwrap();
    let listed: Vec<_> =
        message.properties.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(listed, [("content-type", "application/json"), ("a", "1")]);
}

#[test]
fn what_the_server_says_last_is_told() {
    let (port, _server) = server(|message, answers| {
        let (slug, sentence) = ("login-failed", "Wrong password.");
        let close = ServerMessage::Close {
            code: 400,
            slug,
            sentence,
            reconnect: false,
            jitter_ms: 0,
            addresses: AddressList::EMPTY,
        };
        assert!(matches!(message, ClientMessage::Hello(_)));
        answers.push(written(&close));
        None
    });
    let error = connect(port, &NOBODY).unwrap_err().to_string();
    assert_eq!(error, "the server says no: Wrong password. (login-failed) (log in with -u and -P)");
}

#[test]
fn a_refusal_after_sending_is_not_lost() {
    let (port, _server) = server(|message, answers| match message {
        ClientMessage::Publish(publish) => {
            answers.push(no(publish.request));
            None
        }
        _ => good(message, answers),
    });
    let mut client = connect(port, &NOBODY).unwrap();
    client.publish(topic(b"x")).unwrap();
    let error = client.confirm().unwrap_err().to_string();
    assert_eq!(error, "the server says no: No. (not-authorised) (log in with -u and -P)");
}

#[test]
fn a_subscription_that_is_refused_says_why() {
    let (port, _server) = server(|message, answers| match message {
        ClientMessage::Subscribe(subscribe) => {
            answers.push(no(subscribe.request));
            Some(())
        }
        _ => good(message, answers),
    });
    let mut client = connect(port, &NOBODY).unwrap();
    let error = client.subscribe(SubscribeOptions::topic("a")).unwrap_err().to_string();
    assert_eq!(error, "the server says no: No. (not-authorised) (log in with -u and -P)");
}

#[test]
fn other_servers_are_recognised() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1000]);
        stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n").unwrap();
    });
    let error = connect(port, &NOBODY).unwrap_err().to_string();
    assert!(error.starts_with("that is not the server that was expected: "), "{error}");
    assert!(
        error.contains("no WebSocket at /tiderace: the server answered with status 404"),
        "{error}"
    );
    server.join().unwrap();
}

#[test]
fn a_port_nobody_listens_on_says_what_to_do() {
    // The near end of a connection: nobody listens at its port, and nobody else is given it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = connect(port, &NOBODY).unwrap_err().to_string();
    assert!(error.starts_with(&format!("127.0.0.1:{port} does not answer: ")), "{error}");
    assert!(
        error.ends_with("start a server there with `tiderace`, or name another with -s"),
        "{error}"
    );
}
