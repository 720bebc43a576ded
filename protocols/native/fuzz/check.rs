//! What must hold for any bytes: no panic, what is read is written as it was, and whatever a client
//! sends, what the session says can be read. Shared by the fuzz targets and by the test that replays
//! the corpus.
#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;

use tiderace_native::codec::{
    self, Auth, ClientMessage, Hello, Messages, Publish, QueuedEntries, ServerMessage,
    SubscribeMessage, Updates, flag, subscribe,
};
use tiderace_native::{NativeOptions, protocol};
use tiderace_testkit::Neighbours;
use tiderace_wire::{Framing, Kind, MessageFraming};

/// Messages of a client.
pub fn client(data: &[u8]) {
    for (kind, payload) in Messages::new(data).flatten() {
        let Ok(message) = ClientMessage::read(kind, payload) else { continue };
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        let (kind, payload) = Messages::new(&bytes).next().unwrap().unwrap();
        assert_eq!(ClientMessage::read(kind, payload).unwrap(), message);
    }
}

/// Messages of the server.
pub fn server(data: &[u8]) {
    for (kind, payload) in Messages::new(data).flatten() {
        let Ok(message) = ServerMessage::read(kind, payload) else { continue };
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        let (kind, payload) = Messages::new(&bytes).next().unwrap().unwrap();
        assert_eq!(ServerMessage::read(kind, payload).unwrap(), message);
        match message {
            ServerMessage::Updates(entries) => {
                again(entries, false);
                again(entries, true);
            }
            ServerMessage::Queued(queued) => {
                let _ = QueuedEntries::new(queued.entries).count();
            }
            ServerMessage::Result(result) => {
                let _ = result.values().count();
            }
            _ => {}
        }
    }
}

/// Entries that can be read are written as they were.
fn again(entries: &[u8], are_numbered: bool) {
    let read = |entries| {
        let updates = if are_numbered { Updates::numbered(entries) } else { Updates::new(entries) };
        updates.map_while(Result::ok).collect::<Vec<_>>()
    };
    let updates = read(entries);
    let mut bytes = Vec::new();
    updates.iter().for_each(|update| update.write(&mut bytes));
    assert_eq!(read(&bytes), updates);
}

static MESSAGES: MessageFraming = MessageFraming {
    id: 1,
    text: |_, _| {},
    binary: |len, out| out.extend_from_slice(&(len as u32).to_be_bytes()),
    armour: None,
};

/// A conversation with the broker: the first byte says how long each transport message is. Another client
/// publishes and serves meanwhile; some paths are refused.
pub fn session(data: &[u8]) {
    let [piece, bytes @ ..] = data else { return };
    let options = NativeOptions {
        message_bytes_max: 1000,
        subscriptions_max: 20,
        declarations_max: 5,
        topics_max: 3,
        ..NativeOptions::default()
    };
    let native = protocol(Arc::new(options), [].into());
    let framing = Framing::Messages(&MESSAGES);
    let mut clients = Neighbours::open(framing, |opening| (native.open)(opening));
    clients.prepare(|other, world| {
        for message in helpful() {
            let mut bytes = Vec::new();
            message.write(&mut bytes);
            other.message(world, false, &bytes);
        }
    });
    for part in bytes.chunks(usize::from(*piece).max(1)) {
        clients.act(|client, world| client.message(world, false, part));
        clients.take_outputs().iter().for_each(|bytes| check(bytes));
    }
}

/// What the other client says: it is there, its values are, and it serves and listens.
fn helpful() -> [ClientMessage<'static>; 6] {
    let auth = Auth::Password { user: "ann", password: "pw" };
    let (codecs, client, position) = (Vec::new(), "other", &b""[..]);
    let hello = Hello { version: 1, auth, codecs, client, position, host: None, edge: None };
    let publish = |request, path, body| {
        let (flags, expires_ms, properties) = (flag::RETAIN, None, &b"a:b\n"[..]);
        let destination = codec::Destination::Path(Kind::Topic, path);
        ClientMessage::Publish(Publish {
            request,
            flags,
            destination,
            expires_ms,
            properties,
            body,
        })
    };
    let subscribe = |request, subscription, kind, path, flags| {
        ClientMessage::Subscribe(SubscribeMessage {
            request,
            subscription,
            flags,
            kind,
            path,
            selector: None,
            prefetch: None,
            position: None,
            replay: None,
            interval_ms: None,
            start: None,
            credit: None,
        })
    };
    [
        ClientMessage::Hello(hello),
        publish(1, "a", b"one"),
        publish(2, "fx/EUR-USD", b"{\"bid\":1.5}"),
        subscribe(3, 0, Kind::Topic, "**", subscribe::PATTERN | subscribe::NOTICES),
        subscribe(4, 1, Kind::Service, "quotes", 0),
        subscribe(5, 2, Kind::Service, "a", 0),
    ]
}

/// All that was said can be read.
fn check(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((len, more)) = rest.split_first_chunk::<4>() {
        let (frame, more) = more.split_at(u32::from_be_bytes(*len) as usize);
        rest = more;
        for message in Messages::new(frame) {
            let (kind, payload) = message.unwrap();
            match ServerMessage::read(kind, payload).unwrap() {
                ServerMessage::Updates(entries) => {
                    Updates::new(entries).for_each(|entry| assert!(entry.is_ok()));
                }
                ServerMessage::Queued(queued) => {
                    QueuedEntries::new(queued.entries).for_each(|entry| assert!(entry.is_ok()));
                }
                ServerMessage::Result(result) => {
                    // Queues have bytes as well, and no values.
                    let is_list = result.result.starts_with("{\"queues\":");
                    let told = result.result.matches("\"bytes\":").count();
                    let told = if is_list { 0 } else { told };
                    assert_eq!(result.values().map(Result::unwrap).count(), told);
                }
                ServerMessage::Other(kind) => panic!("type {kind} was said"),
                _ => {}
            }
        }
    }
    assert!(rest.is_empty());
}
