//! RSocket clients on simulated networks, over TCP and WebSocket: streams with and without credit,
//! clients that serve, and connections that are cut amid all of it, on nodes of several shards.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::common::world::World;
use tiderace_base::Span;
use tiderace_reactor::driver::sim::Client;
use tiderace_reactor::{Options, Placement};
use tiderace_rsocket::RSocketOptions;
use tiderace_rsocket::frame::{Body, Frame, Interaction, NUMBER_MAX, Payload};
use tiderace_rsocket::metadata::write_tag;
use tiderace_rsocket::requester::{Phase, Requester, RequesterOptions};
use tiderace_websocket::{MessageKind, encode_message};
use tiderace_wire::{Framing, MessageFraming};

/// How a client marks its messages on WebSocket.
static MASKED: MessageFraming = MessageFraming {
    id: 77,
    text: |_, _| {},
    binary: |_, _| {},
    armour: Some(|out, start, _| {
        let frame = out.split_off(start);
        encode_message(out, MessageKind::Binary, &frame, Some([9, 4, 7, 1]));
    }),
};

const UPGRADE: &str = "GET /rsocket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn world(seed: u64) -> World {
    let options = Options {
        shards: 1 + (seed % 4) as usize,
        placement: if seed.is_multiple_of(3) { Placement::Identified } else { Placement::Accepted },
        ..Options::default()
    };
    World::with(seed, options, |services| {
        let paths = Arc::from(["/rsocket".to_owned()]);
        let rsocket = Arc::new(RSocketOptions::default());
        services.protocols.push(tiderace_rsocket::protocol(rsocket, paths));
    })
}

/// A client, the connection that it has at the moment, and what its application has heard.
struct Peer {
    requester: Requester,
    wire: Client,
    websocket: bool,
    /// Bytes that are done with.
    read: usize,
    /// Of each item: its stream and data. Of other frames: the stream and their debug text.
    heard: Vec<(u32, String)>,
    /// Streams that the server has begun, with the data of their requests.
    asked: Vec<(u32, String)>,
    /// What was refused: the stream, and the code with the sentence.
    refused: Vec<(u32, String)>,
}

impl Peer {
    fn connect(world: &World, websocket: bool, token: Option<Vec<u8>>) -> Peer {
        Peer::with(world, websocket, RequesterOptions { token, ..RequesterOptions::default() })
    }

    fn with(world: &World, websocket: bool, options: RequesterOptions) -> Peer {
        let metadata_mime = "message/x.rsocket.routing.v0".into();
        let options = RequesterOptions { metadata_mime, ..options };
        let mut peer = Peer {
            requester: Requester::new(Arc::new(options), framing(websocket)),
            wire: open(world, websocket),
            websocket,
            read: 0,
            heard: Vec::new(),
            asked: Vec::new(),
            refused: Vec::new(),
        };
        peer.say(world, |requester, out| requester.begin(world.network.now(), out));
        peer
    }

    /// The same client on another connection.
    fn come_back(&mut self, world: &World) {
        (self.wire, self.read) = (open(world, self.websocket), 0);
        let framing = framing(self.websocket);
        self.say(world, |requester, out| requester.resume(world.network.now(), framing, out));
    }

    fn say<R>(&mut self, world: &World, act: impl FnOnce(&mut Requester, &mut Vec<u8>) -> R) -> R {
        let mut out = Vec::new();
        let result = act(&mut self.requester, &mut out);
        if !out.is_empty() {
            world.network.send(self.wire, &out);
        }
        result
    }

    fn ask(
        &mut self,
        world: &World,
        how: Interaction,
        credit: u32,
        route: &str,
        data: &str,
    ) -> u32 {
        let mut tag = Vec::new();
        write_tag(route, &mut tag);
        let (payload, now) = (Payload::new(&tag, data.as_bytes()), world.network.now());
        self.say(world, |requester, out| match how {
            Interaction::FireAndForget => requester.fire_and_forget(now, payload, out),
            Interaction::Response => requester.request_response(now, payload, out),
            Interaction::Stream => requester.request_stream(now, credit, payload, out),
            Interaction::Channel => requester.request_channel(now, credit, payload, false, out),
        })
        .unwrap()
    }

    /// Takes in what has come.
    fn hear(&mut self, world: &World) {
        let bytes = world.network.received(self.wire);
        let (now, mut out) = (world.network.now(), Vec::new());
        loop {
            let rest = &bytes[self.read..];
            let frame = if self.websocket {
                let Some((whole, message)) = message(rest, self.read == 0) else { break };
                self.read += whole;
                match message {
                    Some(message) => self.requester.message(now, message, &mut out).unwrap(),
                    None => None,
                }
            } else {
                let (done, frame) = self.requester.next(now, rest, &mut out).unwrap();
                self.read += done;
                if frame.is_none() {
                    break;
                }
                frame
            };
            match frame {
                Some(Frame { stream, body: Body::Payload(item) }) => {
                    let text = String::from_utf8(item.payload.data.to_vec()).unwrap();
                    self.heard.push((stream, text));
                }
                Some(Frame { stream, body: Body::Request(request) }) => {
                    let text = String::from_utf8(request.payload.data.to_vec()).unwrap();
                    self.asked.push((stream, text));
                }
                Some(Frame { stream, body: Body::Error(failure) }) if stream > 0 => {
                    let text = String::from_utf8_lossy(failure.text);
                    self.refused.push((stream, format!("{} {text}", failure.code)));
                }
                Some(Frame { body: Body::ResumeOk(_) | Body::RequestN(_), .. }) | None => {}
                Some(other) => panic!("seed {}: {other:?}", world.seed),
            }
        }
        if !out.is_empty() {
            world.network.send(self.wire, &out);
        }
    }

    /// What was heard of a stream.
    fn items(&self, stream: u32) -> Vec<&str> {
        self.heard.iter().filter(|(id, _)| *id == stream).map(|(_, text)| &text[..]).collect()
    }
}

fn framing(websocket: bool) -> Framing {
    if websocket { Framing::Messages(&MASKED) } else { Framing::Stream }
}

fn open(world: &World, websocket: bool) -> Client {
    let wire = world.network.connect(0);
    if websocket {
        world.network.send(wire, UPGRADE.as_bytes());
    }
    wire
}

/// The first whole message, or at first the answer to the upgrade, and what it takes.
fn message(bytes: &[u8], begins: bool) -> Option<(usize, Option<&[u8]>)> {
    if begins {
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        return Some((head + 4, None));
    }
    let [first, second, rest @ ..] = bytes else { return None };
    let (len, head) = match second {
        126 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), 4),
        127 => panic!("no message is as long"),
        len => (usize::from(*len), 2),
    };
    let message = bytes.get(head..head + len)?;
    Some((head + len, (first & 0x0f == 2).then_some(message)))
}

/// Runs until the condition holds of the peers, which take in what comes.
fn run(
    world: &mut World,
    peers: &mut [&mut Peer],
    what: &str,
    mut done: impl FnMut(&World, &mut [&mut Peer]) -> bool,
) {
    world.run_until(what, |world| {
        peers.iter_mut().for_each(|peer| peer.hear(world));
        done(world, peers)
    });
}

fn stop(mut world: World) {
    let seed = world.seed;
    world.control.shutdown(Span::from_secs(20));
    world.run_until("the end", World::is_over);
    assert_eq!(world.control.connections(), 0, "seed {seed}");
}

fn publish(world: &mut World, publisher: &mut Peer, topic: &str, text: &str) {
    let stream = publisher.ask(world, Interaction::Response, 0, topic, text);
    run(world, &mut [publisher], "a confirmation", |_, peers| !peers[0].items(stream).is_empty());
    assert_eq!(publisher.items(stream), [""]);
}

#[test]
fn a_client_that_comes_back_misses_and_repeats_nothing() {
    for seed in 0..100 {
        let mut world = world(seed);
        let mut publisher = Peer::connect(&world, seed % 2 == 0, None);
        let token = Some(format!("a token of enough bytes {seed}").into_bytes());
        let mut listener = Peer::connect(&world, seed % 5 == 0, token);
        let stream = listener.ask(&world, Interaction::Stream, NUMBER_MAX, "t/a", "");
        // Until it is subscribed, and its session can be found.
        let mut number = 0;
        while listener.items(stream).is_empty() {
            number += 1;
            publish(&mut world, &mut publisher, "t/a", &number.to_string());
            listener.hear(&world);
        }
        world.run_for(Span::from_secs(1));
        let (mut own, mut cuts, mut own_numbers) = (Vec::new(), 0, Vec::new());
        for _ in 0..40 {
            number += 1;
            publish(&mut world, &mut publisher, "t/a", &number.to_string());
            if listener.requester.phase() == Phase::Open && world.network.random(2) == 0 {
                number += 1;
                let text = number.to_string();
                own.push(listener.ask(&world, Interaction::Response, 0, "t/a", &text));
                own_numbers.push(number);
            }
            match world.network.random(4) {
                0 => {
                    // Lost in one way or another; the server may not notice.
                    match world.network.random(3) {
                        0 => world.network.reset(listener.wire),
                        1 => world.network.finish(listener.wire),
                        _ => world.network.stall(listener.wire, true),
                    }
                    world.run_for(Span::from_millis(world.network.random(500) as u64));
                    listener.come_back(&world);
                    cuts += 1;
                }
                1 => listener.hear(&world),
                _ => {}
            }
        }
        assert!(cuts > 0, "seed {seed}");
        let last = number.to_string();
        run(&mut world, &mut [&mut listener], "the last message and all answers", |_, peers| {
            let heard = peers[0].items(stream);
            heard.contains(&&last[..]) && own.iter().all(|id| !peers[0].items(*id).is_empty())
        });
        world.run_for(Span::from_secs(1));
        listener.hear(&world);
        let heard: Vec<u64> =
            listener.items(stream).iter().map(|text| text.parse().unwrap()).collect();
        let mut sorted = heard.clone();
        sorted.sort_unstable();
        let all: Vec<u64> = (heard[0]..=number).collect();
        assert_eq!(sorted, all, "seed {seed}: each message comes once");
        let others = heard.iter().filter(|number| !own_numbers.contains(number));
        assert!(others.is_sorted(), "seed {seed}: a publisher's messages come in order");
        for id in own {
            assert_eq!(listener.items(id), [""], "seed {seed}: each request is answered once");
        }
        stop(world);
    }
}

#[test]
fn without_credit_the_newest_waits() {
    for seed in 0..40 {
        let mut world = world(seed);
        let mut publisher = Peer::connect(&world, false, None);
        let mut listener = Peer::connect(&world, seed % 2 == 0, None);
        let stream = listener.ask(&world, Interaction::Stream, 3, "t/a", "");
        world.run_for(Span::from_secs(2));
        for number in 0..30 {
            publish(&mut world, &mut publisher, "t/a", &number.to_string());
        }
        world.run_for(Span::from_secs(2));
        listener.hear(&world);
        assert_eq!(listener.items(stream), ["0", "1", "2"], "seed {seed}");
        listener.say(&world, |requester, out| requester.request_n(stream, 5, out)).unwrap();
        run(&mut world, &mut [&mut listener], "the newest", |_, peers| {
            peers[0].items(stream).len() > 3
        });
        world.run_for(Span::from_secs(1));
        listener.hear(&world);
        assert_eq!(listener.items(stream)[3..], ["29"], "seed {seed}");
        listener.say(&world, |requester, out| requester.cancel(stream, out)).unwrap();
        publish(&mut world, &mut publisher, "t/a", "late");
        world.run_for(Span::from_secs(1));
        listener.hear(&world);
        assert_eq!(listener.items(stream).len(), 4, "seed {seed}");
        stop(world);
    }
}

#[test]
fn clients_serve_clients_across_shards() {
    for seed in 0..40 {
        let mut world = world(seed);
        let mut server = Peer::connect(&world, seed % 2 == 0, None);
        let serving = server.ask(&world, Interaction::Stream, 10, "serve:double", "");
        run(&mut world, &mut [&mut server], "to serve", |_, peers| {
            !peers[0].items(serving).is_empty()
        });
        let mut callers: Vec<Peer> =
            (0..3).map(|which| Peer::connect(&world, which == 0, None)).collect();
        let mut calls = Vec::new();
        for number in 0..30 {
            let caller = &mut callers[number % 3];
            let id =
                caller.ask(&world, Interaction::Response, 0, "service:double", &number.to_string());
            calls.push((number, id));
            world.step();
        }
        world.run_until("all answers", |world| {
            server.hear(world);
            for (stream, question) in std::mem::take(&mut server.asked) {
                let answer = (2 * question.parse::<usize>().unwrap()).to_string();
                server
                    .say(world, |requester, out| {
                        requester.send(stream, Payload::data(answer.as_bytes()), true, out)
                    })
                    .unwrap();
            }
            callers.iter_mut().for_each(|caller| caller.hear(world));
            calls.iter().all(|(number, id)| !callers[number % 3].items(*id).is_empty())
        });
        for (number, id) in calls {
            let answer = (2 * number).to_string();
            assert_eq!(callers[number % 3].items(id), [&answer[..]], "seed {seed}");
        }
        assert_eq!(server.requester.streams(), 1, "seed {seed}: only the registration is left");
        stop(world);
    }
}

#[test]
fn values_that_their_topic_does_not_take_are_refused() {
    for seed in 0..20 {
        let mut world = world(seed);
        let of =
            |kind: &str| RequesterOptions { data_mime: kind.into(), ..RequesterOptions::default() };
        let kinds = ["application/json", "application/cbor", "application/octet-stream"];
        let mut peers = kinds.map(|kind| Peer::with(&world, seed % 2 == 0, of(kind)));
        let create = |path: &str, kind: &str| {
            format!(r#"{{"do":"create","path":"{path}","spec":{{"type":"{kind}","retain":true}}}}"#)
        };
        for (path, kind) in [("j", "json"), ("n", "int64"), ("b", "binary")] {
            let made =
                peers[0].ask(&world, Interaction::Response, 0, "operate:", &create(path, kind));
            run(&mut world, &mut [&mut peers[0]], "a topic", |_, peers| {
                !peers[0].items(made).is_empty()
            });
        }
        // Who says so, where, what, and whether it is taken.
        for (who, topic, data, taken) in [
            (0, "j", "{\"a\":1}", true),
            (0, "j", "{\"a\":", false),
            (0, "n", "17", true),
            (0, "n", "1.5", false),
            (1, "j", "1", false),
            (1, "b", "1", true),
            (2, "j", "[1]", true),
            (2, "n", "many", false),
        ] {
            let peer = &mut peers[who];
            for how in [Interaction::Response, Interaction::Channel] {
                let stream = peer.ask(&world, how, 5, topic, data);
                run(&mut world, &mut [&mut *peer], "an answer", |_, peers| {
                    !peers[0].items(stream).is_empty() || !peers[0].refused.is_empty()
                });
                let refused = std::mem::take(&mut peer.refused);
                assert_eq!(
                    refused.is_empty(),
                    taken,
                    "seed {seed}: {data} to {topic}: {refused:?}"
                );
                let clear = format!("APPLICATION_ERROR bad-value: {topic} takes values of type ");
                assert!(
                    refused.iter().all(|(id, text)| *id == stream && text.starts_with(&clear)),
                    "seed {seed}: {refused:?}"
                );
            }
        }
        stop(world);
    }
}
