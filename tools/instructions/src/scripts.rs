//! The scripts: on each hot path a fixed conversation, of which only the messages are counted.
//!
//! Invariant: a script fails if what it counts was not delivered, so that a path cannot become cheap
//! by doing nothing.

use anyhow::{Context, Result, ensure};
use tiderace_client::{Client, SubscribeOptions};
use tiderace_native::codec::{Auth, Content, Destination, Publish, flag};
use tiderace_websocket::MessageKind;
use tiderace_wire::Kind;

use crate::network::ClientId;
use crate::node::{Node, masked};

/// A hot path and the conversation that takes it.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    /// What one counted message is.
    pub(crate) unit: &'static str,
    /// Runs it; the number of messages that were counted.
    pub(crate) run: fn() -> Result<u64>,
}

/// All scripts.
pub(crate) const SCRIPTS: &[Script] = &[
    Script {
        name: "stomp-topic",
        unit: "a 20-byte SEND to one subscriber, read 64 KiB at a time",
        run: || stomp_one_to_one(1, "/topic/prices"),
    },
    Script {
        name: "stomp-topic-2-shards",
        unit: "the same with two shards",
        run: || stomp_one_to_one(2, "/topic/prices"),
    },
    Script {
        name: "stomp-queue",
        unit: "a 20-byte SEND to one consumer of a queue, read 64 KiB at a time",
        run: || stomp_one_to_one(1, "/queue/jobs"),
    },
    Script {
        name: "stomp-queue-acknowledged",
        unit: "a 20-byte SEND to a queue, delivered and acknowledged one by one",
        run: stomp_queue_acknowledged,
    },
    Script {
        name: "stomp-fan-out",
        unit: "one of 100 deliveries of a 1-KiB SEND, by WebSocket",
        run: stomp_fan_out,
    },
    Script {
        name: "stomp-single",
        unit: "a 20-byte SEND to one subscriber, one a turn",
        run: stomp_single,
    },
    Script {
        name: "native-topics",
        unit: "one of 1,000 deliveries of 1 KiB, 100 topics to 100 subscribers of 10 each",
        run: || topics(Speech::Native),
    },
    Script {
        name: "socketio-topics",
        unit: "the same to Socket.IO clients",
        run: || topics(Speech::SocketIo),
    },
    Script {
        name: "native-polling",
        unit: "one of 1,000 deliveries of 1 KiB to native clients that poll, an answer for each 10",
        run: || topics(Speech::NativePolling),
    },
    Script {
        name: "native-values",
        unit: "an update of a retained JSON value, sent as a delta to each of two subscribers",
        run: native_values,
    },
];

const WARM_UP: usize = 4;
const ROUNDS: usize = 12;

fn stomp(node: &mut Node) -> Result<ClientId> {
    let client = node.connect();
    node.ask(client, b"STOMP\naccept-version:1.2\nhost:a\n\n\0", b"CONNECTED\n")?;
    Ok(client)
}

fn stomp_subscribe(node: &mut Node, client: ClientId, destination: &str, ack: &str) -> Result<()> {
    let frame = format!("SUBSCRIBE\nid:0\ndestination:{destination}\nack:{ack}\nreceipt:1\n\n\0");
    node.ask(client, frame.as_bytes(), b"receipt-id:1\n")?;
    Ok(())
}

fn send_frame(destination: &str, body: usize) -> Vec<u8> {
    let mut frame = format!("SEND\ndestination:{destination}\n\n").into_bytes();
    frame.resize(frame.len() + body, b'x');
    frame.push(0);
    frame
}

fn stomp_one_to_one(shards: usize, destination: &str) -> Result<u64> {
    let mut node = Node::new(shards)?;
    let consumer = stomp(&mut node)?;
    stomp_subscribe(&mut node, consumer, destination, "auto")?;
    node.count_only(consumer);
    let producer = stomp(&mut node)?;
    let frame = send_frame(destination, 20);
    let count = (64 << 10) / frame.len();
    let chunk = frame.repeat(count);
    let mut before = 0;
    for round in 0..WARM_UP + ROUNDS {
        if round == WARM_UP {
            before = node.received(consumer);
        }
        node.send(producer, &chunk);
        if round < WARM_UP { node.settle()? } else { node.measured()? }
    }
    let messages = (count * ROUNDS) as u64;
    ensure!(node.received(consumer) - before > messages * 20, "messages are missing");
    Ok(messages)
}

fn stomp_single() -> Result<u64> {
    let mut node = Node::new(1)?;
    let consumer = stomp(&mut node)?;
    stomp_subscribe(&mut node, consumer, "/topic/prices", "auto")?;
    node.count_only(consumer);
    let producer = stomp(&mut node)?;
    let frame = send_frame("/topic/prices", 20);
    let rounds = 1000;
    for round in 0..100 + rounds {
        node.send(producer, &frame);
        if round < 100 { node.settle()? } else { node.measured()? }
    }
    ensure!(node.received(consumer) > (rounds * 20) as u64, "messages are missing");
    Ok(rounds as u64)
}

fn stomp_queue_acknowledged() -> Result<u64> {
    let mut node = Node::new(1)?;
    let consumer = stomp(&mut node)?;
    stomp_subscribe(&mut node, consumer, "/queue/jobs", "client-individual")?;
    let producer = stomp(&mut node)?;
    let count = 200;
    let chunk = send_frame("/queue/jobs", 20).repeat(count);
    for round in 0..WARM_UP + ROUNDS {
        node.send(producer, &chunk);
        if round < WARM_UP {
            node.settle()?
        } else {
            node.measured()?
        }
        let text = String::from_utf8(node.ask(consumer, b"", b"")?)?;
        let ids = text.lines().filter_map(|line| line.strip_prefix("ack:"));
        let acks: Vec<String> = ids.map(|id| format!("ACK\nid:{id}\n\n\0")).collect();
        ensure!(acks.len() == count, "{} of {count} messages came", acks.len());
        node.send(consumer, acks.concat().as_bytes());
        if round < WARM_UP { node.settle()? } else { node.measured()? }
    }
    Ok((count * ROUNDS) as u64)
}

fn stomp_fan_out() -> Result<u64> {
    let mut node = Node::new(1)?;
    let mut subscribers = Vec::new();
    for _ in 0..100 {
        let client = node.websocket("/stomp", Some("v12.stomp"))?;
        let connect = b"STOMP\naccept-version:1.2\nhost:a\n\n\0";
        node.ask(client, &masked(MessageKind::Text, connect), b"CONNECTED\n")?;
        let subscribe = b"SUBSCRIBE\nid:0\ndestination:/topic/prices\nreceipt:1\n\n\0";
        node.ask(client, &masked(MessageKind::Text, subscribe), b"receipt-id:1\n")?;
        node.count_only(client);
        subscribers.push(client);
    }
    let producer = stomp(&mut node)?;
    let frame = send_frame("/topic/prices", 1024);
    let rounds = 50;
    let mut before = 0;
    for round in 0..10 + rounds {
        if round == 10 {
            before = total(&node, &subscribers);
        }
        node.send(producer, &frame);
        if round < 10 { node.settle()? } else { node.measured()? }
    }
    let deliveries = (rounds * subscribers.len()) as u64;
    ensure!(total(&node, &subscribers) - before > deliveries * 1024, "messages are missing");
    Ok(deliveries)
}

fn total(node: &Node, clients: &[ClientId]) -> u64 {
    clients.iter().map(|client| node.received(*client)).sum()
}

/// A native client, connected.
fn native(node: &mut Node, subscriptions: Vec<SubscribeOptions>) -> Result<(ClientId, Client)> {
    let id = node.websocket("/tiderace", None)?;
    let mut client = Client::new("script");
    let mut out = Vec::new();
    client.connect(Auth::Anonymous, &mut out);
    for options in subscriptions {
        client.subscribe(options, &mut out);
    }
    node.ask(id, &masked(MessageKind::Binary, &out), b"")?;
    Ok((id, client))
}

/// A native client by Engine.IO's polling, revision 3: its connection and the request by which it polls.
fn native_by_polling(
    node: &mut Node,
    subscriptions: Vec<SubscribeOptions>,
) -> Result<(ClientId, Vec<u8>)> {
    let id = node.connect();
    let path = "/tiderace/engine.io/?EIO=3&transport=polling";
    let open = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let opened = String::from_utf8_lossy(&node.ask(id, open.as_bytes(), b"\"sid\":")?).into_owned();
    let sid = opened.split_once("\"sid\":\"").and_then(|(_, rest)| rest.split_once('"'));
    let (sid, _) = sid.context("no session id")?;
    let mut client = Client::new("script");
    let mut out = Vec::new();
    client.connect(Auth::Anonymous, &mut out);
    for options in subscriptions {
        client.subscribe(options, &mut out);
    }
    // A binary payload: 1, the digits of the length, 255, the type of the packet, its bytes.
    let mut body = vec![1];
    body.extend((out.len() + 1).to_string().bytes().map(|digit| digit - b'0'));
    body.extend_from_slice(&[0xff, 4]);
    body.extend_from_slice(&out);
    let mut post = format!(
        "POST {path}&sid={sid} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    post.extend_from_slice(&body);
    node.ask(id, &post, b"HTTP/1.1 200")?;
    let poll = format!("GET {path}&sid={sid} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes();
    node.ask(id, &poll, b"HTTP/1.1 200")?;
    Ok((id, poll))
}

enum Speech {
    Native,
    NativePolling,
    SocketIo,
}

/// Clients that poll have a poll held when the messages come.
fn topics(speech: Speech) -> Result<u64> {
    const TOPICS: usize = 100;
    const EACH: usize = 10;
    let mut node = Node::new(1)?;
    let (mut subscribers, mut polls) = (Vec::new(), Vec::new());
    for subscriber in 0..TOPICS {
        let mine = (0..EACH).map(|step| (subscriber + step * 7) % TOPICS);
        let paths = mine.map(|topic| format!("fx/rate-{topic:03}"));
        let client = match speech {
            Speech::Native => {
                native(&mut node, paths.map(|path| SubscribeOptions::topic(&path)).collect())?.0
            }
            Speech::NativePolling => {
                let subscriptions = paths.map(|path| SubscribeOptions::topic(&path)).collect();
                let (client, poll) = native_by_polling(&mut node, subscriptions)?;
                polls.push((client, poll));
                client
            }
            Speech::SocketIo => socketio(&mut node, paths.collect())?,
        };
        node.count_only(client);
        subscribers.push(client);
    }
    let (publisher, mut sender) = native(&mut node, Vec::new())?;
    let body = [b'x'; 1024];
    let mut out = Vec::new();
    for topic in 0..TOPICS {
        publish(&mut sender, &format!("fx/rate-{topic:03}"), Content::Text, 0, &body, &mut out);
    }
    let batch = masked(MessageKind::Binary, &out);
    let mut before = 0;
    for round in 0..WARM_UP + ROUNDS {
        if round == WARM_UP {
            before = total(&node, &subscribers);
        }
        for sent in [polls.as_slice(), &[(publisher, batch.clone())]] {
            if sent.is_empty() {
                continue;
            }
            sent.iter().for_each(|(client, bytes)| node.send(*client, bytes));
            if round < WARM_UP { node.settle()? } else { node.measured()? }
        }
    }
    let deliveries = (ROUNDS * TOPICS * EACH) as u64;
    ensure!(total(&node, &subscribers) - before > deliveries * 1024, "messages are missing");
    Ok(deliveries)
}

fn socketio(node: &mut Node, paths: Vec<String>) -> Result<ClientId> {
    let client = node.websocket("/socket.io/?EIO=4&transport=websocket", None)?;
    node.ask(client, &masked(MessageKind::Text, b"40"), b"40{")?;
    for path in paths {
        let event = format!(r#"420["subscribe","{path}"]"#);
        node.ask(client, &masked(MessageKind::Text, event.as_bytes()), b"430[")?;
    }
    Ok(client)
}

fn publish(
    client: &mut Client,
    path: &str,
    content: Content,
    flags: u8,
    body: &[u8],
    out: &mut Vec<u8>,
) {
    let message = Publish {
        request: 0,
        flags: flags | content.bits(),
        destination: Destination::Path(Kind::Topic, path),
        expires_ms: None,
        properties: b"",
        body,
    };
    client.publish(message, false, out);
}

fn native_values() -> Result<u64> {
    const TOPICS: usize = 100;
    let mut node = Node::new(1)?;
    let mut subscribers = Vec::new();
    for _ in 0..2 {
        let subscriptions =
            (0..TOPICS).map(|topic| SubscribeOptions::topic(&format!("odds/{topic:03}")).deltas());
        let (client, _) = native(&mut node, subscriptions.collect())?;
        node.count_only(client);
        subscribers.push(client);
    }
    let (publisher, mut sender) = native(&mut node, Vec::new())?;
    let mut before = 0;
    for round in 0..WARM_UP + ROUNDS {
        if round == WARM_UP {
            before = total(&node, &subscribers);
        }
        let mut out = Vec::new();
        for topic in 0..TOPICS {
            let path = format!("odds/{topic:03}");
            publish(
                &mut sender,
                &path,
                Content::Json,
                flag::RETAIN,
                &quote(topic, round),
                &mut out,
            );
        }
        node.send(publisher, &masked(MessageKind::Binary, &out));
        if round < WARM_UP { node.settle()? } else { node.measured()? }
    }
    let updates = (ROUNDS * TOPICS) as u64;
    let bytes = total(&node, &subscribers).checked_sub(before).context("bytes were lost")?;
    let whole = updates * 2 * quote(0, 0).len() as u64;
    ensure!(bytes > updates * 2 * 8, "updates are missing: {bytes} bytes");
    ensure!(bytes < whole / 2, "updates came whole: {bytes} of {whole} bytes");
    Ok(updates)
}

/// About 1 KB of JSON, of which a few digits change from round to round.
fn quote(topic: usize, round: usize) -> Vec<u8> {
    let mut text = format!("{{\"event\":{topic},\"round\":{round},\"runners\":[");
    for runner in 0..12 {
        let price = 100 + (runner * 37 + if runner == round % 12 { round } else { 0 }) % 900;
        text += &format!(
            "{{\"id\":{runner},\"name\":\"Runner number {runner}\",\"price\":{price},\"size\":{}}},",
            price * 7
        );
    }
    text.pop();
    text += "]}";
    text.into_bytes()
}
