//! The vectors that the clients in other languages are tested with hold here as well.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use serde_json::{Map, Value, json};
use tiderace_native::codec::{
    Auth, ClientMessage, ConsumerMessage, Destination, Messages, QueuedEntries, QueuedEntry,
    ServerMessage, Update, Updates, Version, flag, subscribe,
};
use tiderace_wire::{Kind, Replay};

#[test]
fn the_vectors_are_read_and_written() {
    assert!(check(include_str!("vectors/messages.json"), false) >= 44);
}

/// What edges and their upstreams say to each other; updates are of subscriptions with NUMBERED.
#[test]
fn the_vectors_of_edges_are_read_and_written() {
    assert!(check(include_str!("vectors/edges.json"), true) >= 9);
}

fn check(text: &str, are_numbered: bool) -> usize {
    let rows: Vec<Value> = serde_json::from_str(text).unwrap();
    for row in &rows {
        let bytes = unhex(row["hex"].as_str().unwrap());
        let (kind, payload) = Messages::new(&bytes).next().unwrap().unwrap();
        let mut written = Vec::new();
        let (name, fields) = if row["from"] == "client" {
            let message = ClientMessage::read(kind, payload).unwrap();
            message.write(&mut written);
            client(&message)
        } else {
            let message = ServerMessage::read(kind, payload).unwrap();
            message.write(&mut written);
            server(&message, are_numbered)
        };
        assert_eq!((json!(name), fields), (row["type"].clone(), row["fields"].clone()), "{row}");
        // Lengths may have been padded; the payload is the same.
        assert_eq!(Messages::new(&written).next(), Some(Ok((kind, payload))), "{row}");
    }
    rows.len()
}

fn client(message: &ClientMessage<'_>) -> (&'static str, Value) {
    match message {
        ClientMessage::Hello(hello) => {
            let mut fields = json!({
                "version": hello.version, "codecs": hello.codecs, "client": hello.client,
                "position": hex(hello.position),
            });
            if let Some(host) = hello.host {
                fields["host"] = json!(host);
            }
            if let Some(edge) = hello.edge {
                fields["edge"] = json!(edge);
            }
            ("HELLO", with(fields, auth(hello.auth)))
        }
        ClientMessage::Login { request, auth: who } => {
            ("LOGIN", with(json!({"request": request}), auth(*who)))
        }
        ClientMessage::Subscribe(message) => {
            let mut flags = message.flags;
            let mut more = json!({});
            if let Some(selector) = message.selector {
                flags |= subscribe::SELECTOR;
                more["selector"] = json!(selector);
            }
            if let Some(prefetch) = message.prefetch {
                flags |= subscribe::WINDOW;
                more["window"] = json!([prefetch.messages, prefetch.bytes]);
            }
            if let Some(position) = message.position {
                flags |= subscribe::RESUME;
                more["position"] = json!(hex(position));
            }
            if let Some(replay) = message.replay {
                flags |= subscribe::REPLAY;
                more["replay"] = match replay {
                    Replay::Last(count) => json!(["last", count]),
                    Replay::Version(version) => json!(["version", version]),
                    Replay::Time(time) => json!(["time", time]),
                };
            }
            if let Some(interval_ms) = message.interval_ms {
                flags |= subscribe::INTERVAL;
                more["interval_ms"] = json!(interval_ms);
            }
            if let Some(start) = message.start {
                flags |= subscribe::START;
                more["start"] = json!(start);
            }
            if let Some(credit) = message.credit {
                flags |= subscribe::CREDIT;
                more["credit"] = json!(credit);
            }
            let fields = json!({
                "request": message.request, "subscription": message.subscription, "flags": flags,
                "kind": kind_number(message.kind), "path": message.path,
            });
            ("SUBSCRIBE", with(fields, more))
        }
        ClientMessage::Unsubscribe { request, subscription } => {
            ("UNSUBSCRIBE", json!({"request": request, "subscription": subscription}))
        }
        ClientMessage::Declare { declared, kind, path } => {
            ("DECLARE", json!({"declared": declared, "kind": kind_number(*kind), "path": path}))
        }
        ClientMessage::Publish(message) => {
            let mut more = destination(message.destination);
            let mut flags = message.flags;
            if let Some(expires_ms) = message.expires_ms {
                flags |= flag::EXPIRES;
                more["expires_ms"] = json!(expires_ms);
            }
            let (flags, more) = properties(flags, message.properties, more);
            let fields =
                json!({"request": message.request, "flags": flags, "body": hex(message.body)});
            ("PUBLISH", with(fields, more))
        }
        ClientMessage::Settle(message) => (
            "SETTLE",
            json!({
                "request": message.request, "subscription": message.subscription,
                "home": message.home, "reject": message.reject, "ranges": message.ranges,
            }),
        ),
        ClientMessage::Call(message) => {
            let (mut flags, mut more) =
                properties(message.flags, message.properties, destination(message.destination));
            if let Some(credit) = message.credit {
                flags |= flag::CREDIT;
                more["credit"] = json!(credit);
            }
            let fields = json!({
                "number": message.number, "flags": flags, "timeout_ms": message.timeout_ms,
                "body": hex(message.body),
            });
            ("CALL", with(fields, more))
        }
        ClientMessage::Send(message) => {
            let (flags, more) = properties(message.flags, message.properties, json!({}));
            let fields =
                json!({"number": message.number, "flags": flags, "body": hex(message.body)});
            ("SEND", with(fields, more))
        }
        ClientMessage::Cancel { responder, number, code, sentence } => (
            "CANCEL",
            json!({"responder": responder, "number": number, "code": code, "sentence": sentence}),
        ),
        ClientMessage::Credit { bytes } => ("CREDIT", json!({"bytes": bytes})),
        ClientMessage::Ping(bytes) => ("PING", json!({"bytes": hex(bytes)})),
        ClientMessage::Bye => ("BYE", json!({})),
        ClientMessage::Operate(message) => {
            let mut fields = json!({"request": message.request, "operation": message.operation});
            if let Some(body) = message.body {
                fields["body"] = json!(hex(body));
            }
            ("OPERATE", fields)
        }
        ClientMessage::Principal(told) => (
            "PRINCIPAL",
            json!({
                "id": told.id, "anonymous": told.anonymous, "name": told.name,
                "groups": told.groups, "claims": told.claims,
            }),
        ),
        ClientMessage::Want { number, messages } => {
            ("WANT", json!({"number": number, "messages": messages}))
        }
        ClientMessage::Consumer(message) => ("CONSUMER", consumer(message)),
        ClientMessage::As(message) => {
            ("AS", json!({"principal": message.principal, "messages": hex(message.messages)}))
        }
        ClientMessage::Other(_) => ("", json!({})),
    }
}

fn server(message: &ServerMessage<'_>, are_numbered: bool) -> (&'static str, Value) {
    match message {
        ServerMessage::Welcome(welcome) => {
            let mut fields = json!({
                "version": welcome.version, "name": welcome.name, "epoch": hex(welcome.epoch),
                "ping_ms": welcome.ping_ms, "message_bytes_max": welcome.message_bytes_max,
                "subscriptions_max": welcome.subscriptions_max,
                "declarations_max": welcome.declarations_max, "jitter_ms": welcome.jitter_ms,
                "codecs": welcome.codecs, "server": welcome.server,
            });
            if welcome.features > 0 {
                fields["features"] = json!(welcome.features);
            }
            if !welcome.node.is_empty() {
                fields["node"] = json!(welcome.node);
            }
            ("WELCOME", fields)
        }
        ServerMessage::Ok { first, last } => ("OK", json!({"first": first, "more": last - first})),
        ServerMessage::Error { request, code, slug, sentence } => {
            ("ERROR", json!({"request": request, "code": code, "slug": slug, "sentence": sentence}))
        }
        ServerMessage::Topic { topic, subscription, path } => {
            ("TOPIC", json!({"topic": topic, "subscription": subscription, "path": path}))
        }
        ServerMessage::Updates(entries) => {
            let read = if are_numbered { Updates::numbered } else { Updates::new };
            let entries: Vec<Value> = read(entries).map(|one| update(&one.unwrap())).collect();
            ("UPDATES", json!({"entries": entries}))
        }
        ServerMessage::Queued(queued) => {
            let entries = QueuedEntries::new(queued.entries);
            let entries: Vec<Value> = entries.map(|entry| self::queued(&entry.unwrap())).collect();
            let fields = json!({
                "flags": queued.flags, "id": queued.id, "home": queued.home, "first": queued.first,
                "redeliveries": queued.redeliveries, "entries": entries,
            });
            ("QUEUED", fields)
        }
        ServerMessage::Exchange(message) => {
            let mut more = json!({});
            if let Some(id) = message.id {
                more["id"] = json!(id);
            }
            let (flags, more) = properties(message.flags, message.properties, more);
            let fields =
                json!({"number": message.number, "flags": flags, "body": hex(message.body)});
            ("EXCHANGE", with(fields, more))
        }
        ServerMessage::Position(homes) => ("POSITION", json!({"homes": homes})),
        ServerMessage::Recovered { request, complete, continues } => {
            let fields = json!({"request": request, "complete": complete, "continues": continues});
            ("RECOVERED", fields)
        }
        ServerMessage::Ended { responder, number, code, slug, sentence } => (
            "ENDED",
            json!({
                "responder": responder, "number": number, "code": code, "slug": slug,
                "sentence": sentence,
            }),
        ),
        ServerMessage::Pong(bytes) => ("PONG", json!({"bytes": hex(bytes)})),
        ServerMessage::Close { code, slug, sentence, reconnect, jitter_ms, addresses } => {
            let fields = json!({
                "code": code, "slug": slug, "sentence": sentence, "reconnect": reconnect,
                "jitter_ms": jitter_ms,
            });
            let addresses: Vec<&str> = addresses.iter().collect();
            let more =
                if addresses.is_empty() { json!({}) } else { json!({"addresses": addresses}) };
            ("CLOSE", with(fields, more))
        }
        ServerMessage::LoggedIn { request, name } => {
            ("LOGGED_IN", json!({"request": request, "name": name}))
        }
        ServerMessage::Result(result) => {
            let values: Vec<Value> = result.values().map(|entry| queued(&entry.unwrap())).collect();
            let fields = json!({"result": result.result, "values": values});
            ("RESULT", with(json!({"request": result.request}), fields))
        }
        ServerMessage::Joined { subscription, path, spec, .. } => {
            ("JOINED", json!({"subscription": subscription, "path": path, "spec": spec}))
        }
        ServerMessage::Left { subscription, path, reason } => {
            ("LEFT", json!({"subscription": subscription, "path": path, "reason": reason}))
        }
        ServerMessage::Nodes(nodes) => ("NODES", json!({"hops": nodes.hops, "names": nodes.names})),
        ServerMessage::Wanted { number, messages } => {
            ("WANTED", json!({"number": number, "messages": messages}))
        }
        ServerMessage::Unsubscribed { subscription, code, slug, sentence } => (
            "UNSUBSCRIBED",
            json!({"subscription": subscription, "code": code, "slug": slug, "sentence": sentence}),
        ),
        ServerMessage::Browsed { subscription } => {
            ("BROWSED", json!({"subscription": subscription}))
        }
        ServerMessage::Follows { flags, id, version } => {
            ("FOLLOWS", json!({"flags": flags, "id": id, "version": version}))
        }
        ServerMessage::Other(_) => ("", json!({})),
    }
}

fn queued(entry: &QueuedEntry<'_>) -> Value {
    let (flags, more) = properties(entry.flags, entry.properties, json!({}));
    with(json!({"flags": flags, "body": hex(entry.body)}), more)
}

fn update(update: &Update<'_>) -> Value {
    let (flags, more) = properties(update.flags, update.properties, json!({}));
    let (flags, version) = match update.version {
        Version::Full(version) => (flags | flag::FULL_VERSION, version),
        Version::Low(low) => (flags, u64::from(low)),
    };
    let mut fields =
        json!({"flags": flags, "id": update.id, "version": version, "data": hex(update.data)});
    if let Some(numbers) = update.numbers {
        fields["numbering"] = json!(numbers.numbering);
        fields["number"] = json!(numbers.number);
        fields["reached"] = json!(numbers.reached);
    }
    with(fields, more)
}

fn auth(auth: Auth<'_>) -> Value {
    match auth {
        Auth::Anonymous => json!({"auth": "anonymous"}),
        Auth::Password { user, password } => {
            json!({"auth": "password", "user": user, "password": password})
        }
        Auth::Token(token) => json!({"auth": "token", "token": token}),
    }
}

fn destination(destination: Destination<'_>) -> Value {
    match destination {
        Destination::Declared(declared) => json!({"declared": declared}),
        Destination::Path(kind, path) => json!({"kind": kind_number(kind), "path": path}),
    }
}

fn properties(flags: u8, block: &[u8], mut more: Value) -> (u8, Value) {
    if block.is_empty() {
        return (flags, more);
    }
    more["properties"] = json!(std::str::from_utf8(block).unwrap());
    (flags | flag::PROPERTIES, more)
}

fn kind_number(kind: Kind) -> u8 {
    match kind {
        Kind::Topic => 0,
        Kind::Queue => 1,
        Kind::Service => 2,
    }
}

fn with(a: Value, b: Value) -> Value {
    let both: Map<String, Value> =
        [a, b].into_iter().flat_map(|value| value.as_object().unwrap().clone()).collect();
    Value::Object(both)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn consumer(message: &ConsumerMessage) -> Value {
    match message {
        ConsumerMessage::Grant { subscription, messages } => {
            json!({"what": 0, "subscription": subscription, "messages": messages})
        }
        ConsumerMessage::Release { subscription, home, ranges } => {
            json!({"what": 1, "subscription": subscription, "home": home, "ranges": ranges})
        }
        ConsumerMessage::Lost { subscription, request } => {
            json!({"what": 2, "subscription": subscription, "request": request})
        }
    }
}
