//! A connection against a scripted server, in memory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use tiderace_client::{
    Auth, Client, ClientMessage, Connection, ConnectionError, Destination, Event, Kind, Publish,
    SubscribeOptions, Welcome,
};
use tiderace_native::codec::{AddressList, Messages, ServerMessage};
use tiderace_websocket::handshake::accept_key;
use tiderace_websocket::{
    Decoder, Event as Frame, Limits, MessageKind, Role, encode_close, encode_message, encode_ping,
};

/// A stream whose other end answers by a script.
struct Wire {
    /// What the server has to say, in the pieces in which it is read; nothing is a read that timed out.
    incoming: VecDeque<Option<Vec<u8>>>,
    /// What the client has written behind the handshake.
    written: Vec<u8>,
    upgraded: bool,
    /// Writing fails from now on.
    broken: bool,
    /// Signals that come before the next reads.
    signals: usize,
}

impl Wire {
    fn new() -> Wire {
        let (incoming, written) = (VecDeque::new(), Vec::new());
        Wire { incoming, written, upgraded: false, broken: false, signals: 0 }
    }

    fn say(&mut self, bytes: &[u8]) {
        self.incoming.push_back(Some(bytes.to_vec()));
    }

    /// The transport messages that the client has sent.
    fn sent(&mut self) -> Vec<Vec<u8>> {
        let (mut decoder, mut sent) = (Decoder::new(Role::Server), Vec::new());
        let limits = Limits { message_bytes_max: 64 << 20, ..Limits::default() };
        loop {
            let decoded = decoder.decode(&limits, &mut self.written).unwrap();
            let consumed = decoded.consumed;
            match decoded.event {
                Frame::Message { payload, .. } => sent.push(payload.to_vec()),
                Frame::Pong(payload) => sent.push([b"pong ", payload].concat()),
                Frame::Incomplete { .. } => return sent,
                other => panic!("{other:?}"),
            }
            self.written.drain(..consumed);
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.signals > 0 {
            self.signals -= 1;
            return Err(io::ErrorKind::Interrupted.into());
        }
        match self.incoming.pop_front() {
            Some(Some(mut piece)) => {
                let rest = piece.split_off(piece.len().min(buffer.len()));
                if !rest.is_empty() {
                    self.incoming.push_front(Some(rest));
                }
                buffer[..piece.len()].copy_from_slice(&piece);
                Ok(piece.len())
            }
            Some(None) => Err(io::ErrorKind::WouldBlock.into()),
            None => Ok(0),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.upgraded {
            self.written.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        self.upgraded = true;
        let head = std::str::from_utf8(bytes).unwrap();
        assert!(head.starts_with("GET /tiderace HTTP/1.1\r\nHost: example.org:1\r\n"), "{head}");
        let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
        let accept = accept_key(key.as_bytes());
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: tiderace.v1\r\n\r\n",
            std::str::from_utf8(&accept).unwrap()
        );
        // The head comes before whatever the script has prepared.
        self.incoming.push_front(Some(answer.into_bytes()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn frame(message: &ServerMessage<'_>) -> Vec<u8> {
    let (mut payload, mut out) = (Vec::new(), Vec::new());
    message.write(&mut payload);
    encode_message(&mut out, MessageKind::Binary, &payload, None);
    out
}

fn welcome() -> Vec<u8> {
    frame(&ServerMessage::Welcome(Welcome {
        version: 1,
        name: "ann",
        epoch: b"\x01",
        ping_ms: 0,
        message_bytes_max: 1 << 20,
        subscriptions_max: 10,
        declarations_max: 10,
        jitter_ms: 0,
        codecs: Vec::new(),
        features: 0,
        node: "",
        server: "fake",
    }))
}

fn close() -> Vec<u8> {
    let (slug, sentence) = ("stopping", "The server is stopping.");
    frame(&ServerMessage::Close {
        code: 1,
        slug,
        sentence,
        reconnect: true,
        jitter_ms: 0,
        addresses: AddressList::EMPTY,
    })
}

fn opened() -> Connection<Wire> {
    let mut wire = Wire::new();
    wire.say(&welcome());
    let mut connection = Connection::new(wire, Client::new("test"));
    connection.open("example.org:1", Auth::Anonymous).unwrap();
    connection.stream_mut().sent();
    connection
}

fn publish(connection: &mut Connection<Wire>, body: &[u8]) -> Option<u32> {
    let destination = Destination::Path(Kind::Topic, "a");
    let message =
        Publish { request: 0, flags: 0, destination, expires_ms: None, properties: b"", body };
    connection.send(|client, out| client.publish(message, true, out)).unwrap()
}

#[test]
fn a_read_that_times_out_loses_nothing() {
    let mut connection = opened();
    let bytes = frame(&ServerMessage::Ok { first: 1, last: 1 });
    for byte in &bytes {
        connection.stream_mut().incoming.push_back(None);
        connection.stream_mut().say(&[*byte]);
    }
    let (mut late, mut told) = (0, Vec::new());
    while told.is_empty() {
        match connection.receive(|event| told.push(format!("{event:?}"))) {
            Ok(()) => {}
            Err(error) if error.is_timeout() => late += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((late, told), (bytes.len(), vec!["Done { first: 1, last: 1 }".to_owned()]));
}

#[test]
fn a_signal_is_no_end_of_a_connection() {
    let mut connection = opened();
    connection.stream_mut().say(&frame(&ServerMessage::Ok { first: 1, last: 1 }));
    connection.stream_mut().signals = 2;
    let mut told = Vec::new();
    connection.receive(|event| told.push(format!("{event:?}"))).unwrap();
    assert_eq!(told, ["Done { first: 1, last: 1 }"]);
}

#[test]
fn what_is_said_goes_together_and_large_messages_alone() {
    let mut connection = opened();
    for body in [&b"1"[..], b"2"] {
        publish(&mut connection, body);
    }
    assert!(connection.stream_mut().sent().is_empty(), "nothing is sent before it is much");
    publish(&mut connection, &[b'x'; 100_000]);
    let sent = connection.stream_mut().sent();
    let counts: Vec<_> = sent.iter().map(|message| Messages::new(message).count()).collect();
    assert_eq!(counts, [2, 1]);
    publish(&mut connection, b"4");
    connection.stream_mut().say(&frame(&ServerMessage::Ok { first: 1, last: 4 }));
    connection.receive(|_| ()).unwrap();
    assert_eq!(connection.stream_mut().sent().len(), 1, "who waits sends what was said");
}

#[test]
fn pings_are_answered_and_let_the_caller_go_on() {
    let mut connection = opened();
    let mut ping = Vec::new();
    encode_ping(&mut ping, b"you?", None);
    connection.stream_mut().say(&ping);
    connection.receive(|event| panic!("{event:?}")).unwrap();
    assert_eq!(connection.stream_mut().sent(), [b"pong you?"]);
}

#[test]
fn the_reason_of_an_end_is_told() {
    let mut connection = opened();
    connection.stream_mut().say(&close());
    let mut closed = false;
    let error = connection.receive(|event| closed = matches!(event, Event::Closed { .. }));
    assert_eq!(error.unwrap_err().to_string(), "The server is stopping. (stopping)");
    assert!(closed);

    let mut bytes = Vec::new();
    encode_close(&mut bytes, None, "", None);
    let mut connection = opened();
    connection.stream_mut().say(&bytes);
    assert!(matches!(connection.receive(|_| ()), Err(ConnectionError::Closed)));
    assert!(matches!(opened().receive(|_| ()), Err(ConnectionError::Closed)));
}

#[test]
fn a_write_that_fails_says_what_the_server_said_before() {
    let mut connection = opened();
    connection.stream_mut().say(&frame(&ServerMessage::Ok { first: 9, last: 9 }));
    connection.stream_mut().say(&close());
    connection.stream_mut().broken = true;
    publish(&mut connection, b"x");
    assert!(matches!(connection.flush(), Err(ConnectionError::Refused { .. })));

    let mut connection = opened();
    connection.stream_mut().broken = true;
    publish(&mut connection, b"x");
    assert!(matches!(connection.flush(), Err(ConnectionError::Io(_))));
}

#[test]
fn a_client_goes_on_with_its_subscriptions_on_another_connection() {
    let mut connection = opened();
    let jobs = SubscribeOptions::queue("jobs");
    let id = connection.send(|client, out| client.subscribe(jobs, out)).unwrap();
    assert!(connection.client().awaits(id));
    connection.stream_mut().say(&frame(&ServerMessage::Ok { first: 1, last: 1 }));
    connection.receive(|_| ()).unwrap();
    assert!(!connection.client().awaits(id));
    let mut wire = Wire::new();
    wire.say(&welcome());
    let mut again = Connection::new(wire, connection.into_client());
    again.open("example.org:1", Auth::Anonymous).unwrap();
    let sent = again.stream_mut().sent().concat();
    let messages: Vec<_> = Messages::new(&sent)
        .map(Result::unwrap)
        .map(|(kind, payload)| ClientMessage::read(kind, payload).unwrap())
        .collect();
    assert!(matches!(messages[..], [ClientMessage::Hello(_), ClientMessage::Subscribe(_)]));
    assert_eq!(again.client().subscription(id).map(SubscribeOptions::path), Some("jobs"));
}

#[test]
fn what_is_no_such_server_is_named() {
    struct Web(&'static [u8]);
    impl Read for Web {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }
    impl Write for Web {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let web = Web(b"HTTP/1.1 404 Not Found\r\n\r\n");
    let mut connection = Connection::new(web, Client::new("test"));
    let error = connection.open("example.org:1", Auth::Anonymous).unwrap_err().to_string();
    assert_eq!(
        error,
        "no WebSocket at /tiderace: the server answered with status 404 instead of 101"
    );
}

#[test]
fn a_connection_goes_on_over_another_stream() {
    let mut wire = Wire::new();
    wire.say(&welcome());
    let mut connection = Connection::new(wire, Client::new("test"));
    connection.open("example.org:1", Auth::Anonymous).unwrap();
    let options = SubscribeOptions::topic("a").recoverable();
    connection.send(|client, out| client.subscribe(options, out)).unwrap();
    // Half a frame came before it broke, and half a message was not sent.
    connection.stream_mut().say(&welcome()[..3]);
    connection.stream_mut().broken = true;
    assert!(connection.receive(|_| ()).is_err());
    let mut wire = Wire::new();
    wire.say(&welcome());
    connection.reopen(wire, "example.org:1", Auth::Anonymous).unwrap();
    let sent = connection.stream_mut().sent();
    let messages: Vec<String> = Messages::new(&sent[0])
        .map(Result::unwrap)
        .map(|(kind, payload)| format!("{:?}", ClientMessage::read(kind, payload).unwrap()))
        .collect();
    assert!(messages[0].starts_with("Hello("), "{messages:?}");
    assert!(
        messages[1].contains("path: \"a\"") && messages[1].contains("position: Some"),
        "{messages:?}"
    );
    assert_eq!(messages.len(), 2);
}
