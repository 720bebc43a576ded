//! Limits of clients, by each protocol over real sockets: what is refused, and how, and what is slowed down.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use tiderace_client::{Destination, Event, Kind, Publish, SubscribeOptions};

use crate::program::logins::{
    LoggedIn, Native, PROTOCOLS, Show, SocketIo, Stomp, Way, authorization, exchange, log_in,
};
use crate::program::{Directory, Server};

const ANN: Show<'_> = Show::Token("the token of ann");
const BOB: Show<'_> = Show::Token("the token of bob");

/// A server whose users are ann, who is limited, and bob.
fn serve(directory: &Directory, limits: &str) -> Server {
    let token = |name: &str| {
        let path = directory.0.join(name);
        std::fs::write(&path, format!("the token of {name}")).unwrap();
        format!("[[token]]\nname = {name:?}\nsecret = \"file:{}\"\n", path.display())
    };
    let config = format!(
        "{}{}[[limit]]\nprincipals = [\"user:ann\"]\n{limits}\n\
         [[rule]]\nallow = [\"subscribe\", \"publish\"]\nprincipals = [\"*\"]\n\
         [[rule]]\nallow = [\"monitor\"]\nprincipals = [\"user:bob\"]\n",
        token("ann"),
        token("bob")
    );
    Server::start(&directory.0, &config)
}

/// How often a limit was reached, of all that is counted.
fn reached(address: SocketAddr, limit: &str) -> u64 {
    let way = Way::plain(address);
    let head = format!("GET /metrics HTTP/1.1\r\n{}", authorization(BOB));
    let (_, body) = exchange(&way, &head, "");
    let name = format!("tiderace_client_limits_reached_total{{limit=\"{limit}\"}} ");
    let line = body.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("{limit}: {body}")).parse().unwrap()
}

#[test]
fn every_protocol_says_that_there_are_too_many_connections() {
    let directory = Directory::new("limit-connections");
    let server = serve(&directory, "connections_max = 2");
    let way = Way::plain(server.address);
    let held = [Stomp::log_in(&way, ANN).unwrap(), Stomp::log_in(&way, ANN).unwrap()];
    for protocol in PROTOCOLS {
        let refused = log_in(protocol, &way, ANN).unwrap_err();
        let is_told = match protocol {
            // The head has no room for words.
            "sse" => refused.starts_with("HTTP/1.1 503"),
            _ => refused.contains("ann may have 2 connections"),
        };
        assert!(is_told, "{protocol}: {refused}");
        assert!(log_in(protocol, &way, BOB).is_ok() || protocol == "http", "{protocol}");
    }
    assert_eq!(reached(server.address, "connections_max"), PROTOCOLS.len() as u64);
    // An end makes room, which is seen when the server has noticed it.
    drop(held);
    for protocol in PROTOCOLS.into_iter().filter(|protocol| *protocol != "http") {
        while let Err(said) = log_in(protocol, &way, ANN) {
            let is_full = said.contains("2 connections") || said.starts_with("HTTP/1.1 503");
            assert!(is_full, "{protocol}: {said}");
        }
    }
}

#[test]
fn every_protocol_says_that_there_are_too_many_subscriptions() {
    let directory = Directory::new("limit-subscriptions");
    let server = serve(&directory, "subscriptions_max = 2");
    let way = Way::plain(server.address);
    let mut stomp = Stomp::log_in(&way, ANN).unwrap();
    for id in 0..2 {
        stomp.send(&format!("SUBSCRIBE\nid:{id}\ndestination:/topic/a{id}\nreceipt:{id}\n"));
        assert!(stomp.frame().starts_with("RECEIPT"));
    }
    let said = {
        let mut other = Stomp::log_in(&way, ANN).unwrap();
        other.send("SUBSCRIBE\nid:1\ndestination:/topic/b\nreceipt:1\n");
        other.frame()
    };
    assert!(said.starts_with("ERROR") && said.contains("too-many-subscriptions"), "{said}");
    assert!(said.contains("ann may have 2 subscriptions"), "{said}");
    let mut native = Native::log_in(&way, ANN).unwrap();
    native.0.send(|client, out| client.subscribe(SubscribeOptions::topic("b"), out)).unwrap();
    let mut said = String::new();
    while said.is_empty() {
        let tell = |event: Event<'_>| {
            if let Event::Refused { slug, .. } = event {
                slug.clone_into(&mut said);
            }
        };
        native.0.receive(tell).unwrap();
    }
    assert_eq!(said, "too-many-subscriptions");
    let client = SocketIo::log_in(&way, ANN).unwrap();
    client.post("421[\"subscribe\",\"b\"]");
    let said = client.poll();
    assert!(said.contains("too-many-subscriptions"), "{said}");
    let said = log_in("sse", &way, ANN).unwrap_err();
    assert!(said.starts_with("HTTP/1.1 429") && said.contains("Retry-After"), "{said}");
    assert_eq!(reached(server.address, "subscriptions_max"), 4);
    // What ends makes room for others.
    stomp.send("UNSUBSCRIBE\nid:0\nreceipt:9\n");
    assert!(stomp.frame().starts_with("RECEIPT"));
    client.post("422[\"subscribe\",\"b\"]");
    let said = client.poll();
    assert!(said.starts_with("432[") && !said.contains("code"), "{said}");
}

#[test]
fn a_client_that_sends_too_fast_is_slowed_down_and_requests_are_refused() {
    let directory = Directory::new("limit-rate");
    let server = serve(&directory, "messages_per_second = 20");
    let way = Way::plain(server.address);
    let mut bob = Stomp::log_in(&way, BOB).unwrap();
    bob.send("SUBSCRIBE\nid:1\ndestination:/topic/a\nreceipt:1\n");
    assert!(bob.frame().starts_with("RECEIPT"));
    let expect = |bob: &mut Stomp, count: usize| {
        for number in 0..count {
            let frame = bob.frame();
            assert!(
                frame.starts_with("MESSAGE") && frame.ends_with(&format!("m{number}")),
                "{frame}"
            );
        }
    };
    // All that ann has sent comes, in its order, by each protocol: first in one write, then on a WebSocket, then in one request.
    let mut stomp = Stomp::log_in(&way, ANN).unwrap();
    let sends = (0..60).map(|number| format!("SEND\ndestination:/topic/a\n\nm{number}\0"));
    stomp.send(&format!(
        "{}SEND\ndestination:/topic/a\nreceipt:1\n\nm60",
        sends.collect::<String>()
    ));
    expect(&mut bob, 60);
    let frame = bob.frame();
    assert!(frame.trim_end().ends_with("m60"), "{frame}");
    assert!(stomp.frame().starts_with("RECEIPT"));
    assert!(reached(server.address, "messages_per_second") > 0);
    let mut native = Native::log_in(&way, ANN).unwrap();
    for number in 0..60 {
        let body = format!("m{number}");
        let message = Publish {
            request: 0,
            flags: 0,
            destination: Destination::Path(Kind::Topic, "a"),
            expires_ms: None,
            properties: &[],
            body: body.as_bytes(),
        };
        native.0.send(|client, out| client.publish(message, false, out)).unwrap();
        native.0.flush().unwrap();
    }
    expect(&mut bob, 60);
    let client = SocketIo::log_in(&way, ANN).unwrap();
    let events = (0..60).map(|number| format!("42[\"publish\",\"a\",\"m{number}\"]"));
    client.post(&events.collect::<Vec<_>>().join("\u{1e}"));
    for _ in 0..60 {
        assert!(bob.frame().starts_with("MESSAGE"));
    }
    // A request of its own is told to come back later, and was not done.
    let post = |body: &str| {
        let head = format!("POST /topics/b HTTP/1.1\r\n{}", authorization(ANN));
        exchange(&way, &head, body)
    };
    let refused = (0..1000).map(|_| post("x")).find(|(head, _)| !head.starts_with("HTTP/1.1 200"));
    let (head, body) = refused.unwrap();
    assert!(head.starts_with("HTTP/1.1 429") && head.contains("Retry-After"), "{head}");
    assert!(body.contains("rate-limited") && body.contains("limit.messages_per_second"), "{body}");
    // Others are not concerned, and ann may listen.
    let head = format!("POST /topics/b HTTP/1.1\r\n{}", authorization(BOB));
    for _ in 0..30 {
        assert!(exchange(&way, &head, "x").0.starts_with("HTTP/1.1 200"));
    }
    assert!(LoggedIn::begin("sse", &way, ANN).is_ok());
}

#[test]
fn a_client_is_written_to_at_its_pace_and_gets_all() {
    let directory = Directory::new("limit-pace");
    let server = serve(&directory, "sent_bytes_per_second = \"64 KiB\"");
    let way = Way::plain(server.address);
    let mut stomp = Stomp::log_in(&way, ANN).unwrap();
    stomp.send("SUBSCRIBE\nid:1\ndestination:/topic/a\nreceipt:1\n");
    assert!(stomp.frame().starts_with("RECEIPT"));
    let mut events = TcpStream::connect(server.address).unwrap();
    let request =
        format!("GET /events?topic=a HTTP/1.1\r\nHost: localhost\r\n{}\r\n", authorization(ANN));
    events.write_all(request.as_bytes()).unwrap();
    let mut head = [0; 15];
    events.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    let mut bob = Stomp::log_in(&way, BOB).unwrap();
    let body = "x".repeat(1000);
    for number in 0..150 {
        bob.send(&format!("SEND\ndestination:/topic/a\n\n{number} {body}"));
    }
    for number in 0..150 {
        let frame = stomp.frame();
        assert!(frame.contains(&format!("\n\n{number} ")), "{frame}");
    }
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains("149 xxx") {
        let count = events.read(&mut buffer).unwrap();
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    assert!(reached(server.address, "sent_bytes_per_second") > 2);
}
