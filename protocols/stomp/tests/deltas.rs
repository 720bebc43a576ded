//! Updates as differences: asked for by `deltas`, told by headers, exact.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::{MESSAGES, Rig};
use tiderace_base::CloseCode;
use tiderace_delta::{Codec, Offer};
use tiderace_stomp::StompOptions;
use tiderace_wire::Framing;

fn body(at: usize) -> String {
    format!("{{\"bid\":1.08{at:03},\"ask\":1.09{at:03},\"name\":\"euro against dollar\"}}")
}

fn send(rig: &mut Rig, path: &str, at: usize) {
    rig.send(format!("SEND\ndestination:/topic/{path}\n\n{}\0", body(at)).as_bytes());
}

/// One MESSAGE: its headers and its body.
struct Received {
    headers: String,
    body: Vec<u8>,
}

impl Received {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    }

    /// The whole body, `old` being the one before.
    fn whole(&self, old: &[u8]) -> Vec<u8> {
        let Some(name) = self.header("delta") else { return self.body.clone() };
        let version: u64 = self.header("version").unwrap().parse().unwrap();
        assert_eq!(self.header("base-version"), Some((version - 1).to_string().as_str()));
        (Codec::named(name).unwrap().decode)(old, &self.body, 1 << 20).unwrap()
    }
}

/// The MESSAGE frames that came, by their lengths.
fn received(rig: &mut Rig) -> Vec<Received> {
    let bytes = rig.received_bytes();
    let mut rest = &bytes[..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let end = rest.windows(2).position(|pair| pair == b"\n\n").unwrap();
        let headers = String::from_utf8(rest[..end].to_vec()).unwrap();
        assert!(headers.contains("MESSAGE\n"), "{headers}");
        let head = Received { headers, body: Vec::new() };
        let len: usize = head.header("content-length").unwrap().parse().unwrap();
        found.push(Received { body: rest[end + 2..end + 2 + len].to_vec(), ..head });
        assert_eq!(rest[end + 2 + len], 0);
        rest = &rest[end + 3 + len..];
    }
    found
}

#[test]
fn values_after_the_first_come_as_differences() {
    for codec in ["vcdiff", "tiderace", "vcdiff,tiderace"] {
        for framing in [Framing::Stream, Framing::Messages(&MESSAGES)] {
            let mut rig = Rig::with(StompOptions::default(), framing);
            rig.connect("1.2");
            rig.say(&format!("SUBSCRIBE\nid:1\ndestination:/topic/fx.*\ndeltas:{codec}\n\n\0"));
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for at in 0..4 {
                send(&mut rig, "fx/a", at);
                send(&mut rig, "fx/b", 10 + at);
                let found = received(&mut rig);
                let [first, second] = &found[..] else { panic!("two messages") };
                for (message, value, at) in [(first, &mut a, at), (second, &mut b, 10 + at)] {
                    let named = message.header("delta");
                    assert_eq!(named, (at % 10 > 0).then_some(codec.split(',').next().unwrap()));
                    *value = message.whole(value);
                    assert_eq!(*value, body(at).as_bytes());
                    // The first version of a topic is the number that its home gave the message.
                    let version = at % 10 + 1 + usize::from(at >= 10);
                    assert_eq!(message.header("version"), Some(version.to_string().as_str()));
                }
            }
        }
    }
}

#[test]
fn runs_of_several_messages_are_as_exact() {
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/topic/a\ndeltas:vcdiff\n\n\0");
    let frames = |from: usize| {
        (from..from + 3)
            .map(|at| {
                format!("SEND\ndestination:/topic/a\nversion:99\ndelta:x\nk:v\n\n{}\0", body(at))
            })
            .collect::<String>()
    };
    let mut value = Vec::new();
    for from in [0, 3] {
        rig.send(frames(from).as_bytes());
        let found = received(&mut rig);
        for (at, message) in (from..).zip(&found) {
            value = message.whole(&value);
            assert_eq!(value, body(at).as_bytes());
            // What a publisher says in the server's name does not pass.
            assert_eq!(message.headers.matches("version:99").count(), 0);
            assert_eq!(message.header("k"), Some("v"));
            assert_eq!(message.header("delta").is_some(), at > 0);
        }
        assert_eq!(found.len(), 3);
    }
}

#[test]
fn a_new_subscription_begins_with_a_whole_value() {
    let mut rig = Rig::connected("1.2");
    let subscribe = "SUBSCRIBE\nid:1\ndestination:/topic/a\ndeltas:vcdiff\n\n\0";
    rig.say(subscribe);
    send(&mut rig, "a", 0);
    send(&mut rig, "a", 1);
    rig.say("UNSUBSCRIBE\nid:1\n\n\0");
    rig.say(subscribe);
    received(&mut rig);
    send(&mut rig, "a", 2);
    let found = received(&mut rig);
    assert_eq!((found[0].header("delta"), found[0].header("version")), (None, Some("3")));
    assert_eq!(found[0].body, body(2).as_bytes());
}

#[test]
fn what_is_not_offered_is_sent_whole() {
    let deltas = Offer::of(["tiderace"], 1 << 10);
    let mut rig = Rig::with(StompOptions { deltas, ..StompOptions::default() }, Framing::Stream);
    rig.connect("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/topic/a\ndeltas:vcdiff\n\n\0");
    send(&mut rig, "a", 0);
    send(&mut rig, "a", 1);
    let found = received(&mut rig);
    assert!(found.iter().all(|message| message.header("version").is_none()));
    assert_eq!(found[1].body, body(1).as_bytes());
}

#[test]
fn mistakes_are_refused() {
    for headers in [
        "destination:/topic/a\ndeltas:true",
        "destination:/topic/a\ndeltas:vcdiff,bsdiff",
        "destination:/queue/a\ndeltas:vcdiff",
        "destination:/topic/a,/queue/a\ndeltas:vcdiff",
        "destination:/topic/a\nack:client\ndeltas:vcdiff",
    ] {
        let mut rig = Rig::connected("1.2");
        let said = rig.say(&format!("SUBSCRIBE\nid:1\n{headers}\n\n\0"));
        assert_eq!(rig.end.as_ref().map(|close| close.code), Some(CloseCode::BadHeader), "{said}");
        assert!(said.contains("deltas"), "{said}");
    }
}
