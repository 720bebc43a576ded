//! Clients of each protocol: they spell an attempt as bytes and read from bytes what came of it.

use std::sync::Arc;

use tiderace_base::Span;
use tiderace_client::{Client as Native, Event, SubscribeOptions};
use tiderace_native::codec::{Auth, Content, Destination, Publish};
use tiderace_reactor::driver::sim::Client;
use tiderace_rsocket::frame::{Body, Frame, Payload};
use tiderace_rsocket::metadata::{Authentication, Mime, write_entry, write_tag};
use tiderace_rsocket::requester::{Requester, RequesterOptions};
use tiderace_websocket::{MessageKind, encode_message};
use tiderace_wire::{Framing, Kind};

use super::oracle::MOVED_TO;
use super::{Deed, Verb};
use crate::common::world::World;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    Stomp,
    SocketIo,
    RSocket,
    Native,
    Rest,
}

pub const SPEECHES: [Speech; 5] =
    [Speech::Stomp, Speech::SocketIo, Speech::RSocket, Speech::Native, Speech::Rest];

impl Speech {
    /// Whether an answer says that it was done. What is allowed may fail for other reasons, such as
    /// another's claim.
    pub fn is_done(self, said: &str) -> bool {
        match self {
            Speech::Stomp => !said.contains("ERROR\n"),
            Speech::SocketIo => !said.contains(r#""ok":false"#),
            Speech::RSocket | Speech::Native => said.is_empty(),
            Speech::Rest => said.starts_with("HTTP/1.1 2"),
        }
    }

    /// Whether the protocol has words for that.
    pub fn can(self, deed: &Deed) -> bool {
        match self {
            Speech::Stomp => matches!(
                deed.verb,
                Verb::Publish
                    | Verb::Subscribe
                    | Verb::SubscribePattern
                    | Verb::Send
                    | Verb::Receive
                    | Verb::UpdateIf
                    | Verb::Patch
            ),
            Speech::Rest => {
                !matches!(deed.verb, Verb::Receive | Verb::Lock | Verb::Claim | Verb::Will)
            }
            _ => true,
        }
    }
}

/// One client on one connection.
pub struct Speaker {
    pub speech: Speech,
    pub name: &'static str,
    wire: Client,
    read: usize,
    count: u32,
    native: Native,
    requester: Requester,
}

impl Speaker {
    /// Connects and logs in.
    pub fn connect(world: &mut World, speech: Speech, name: &'static str) -> Speaker {
        let mut metadata = Vec::new();
        if !name.is_empty() {
            let mut simple = Vec::new();
            Authentication::Simple { user: name, password: "x" }.write(&mut simple);
            write_entry(Mime::AUTHENTICATION, &simple, &mut metadata);
        }
        let options = RequesterOptions {
            metadata: (!metadata.is_empty()).then_some(metadata),
            lifetime_ms: 80_000_000,
            ..RequesterOptions::default()
        };
        let mut speaker = Speaker {
            speech,
            name,
            wire: world.network.connect(0),
            read: 0,
            count: 0,
            native: Native::new("test"),
            requester: Requester::new(Arc::new(options), Framing::Stream),
        };
        speaker.log_in(world);
        speaker
    }

    fn log_in(&mut self, world: &mut World) {
        let name = self.name;
        match self.speech {
            Speech::Stomp => {
                let login = if name.is_empty() { String::new() } else { format!("login:{name}\n") };
                let frame = format!("STOMP\naccept-version:1.2\nhost:h\n{login}\n\0");
                self.say(world, frame.as_bytes(), "CONNECTED\n");
            }
            Speech::SocketIo => {
                self.upgrade(world, "/socket.io/?EIO=4&transport=websocket");
                let auth = match name {
                    "" => String::new(),
                    name => format!(r#"{{"user":"{name}","password":"x"}}"#),
                };
                self.tell(world, &format!("40{auth}"), "40{");
            }
            Speech::Native => {
                self.upgrade(world, "/tiderace");
                let auth = match name {
                    "" => Auth::Anonymous,
                    user => Auth::Password { user, password: "x" },
                };
                let mut out = Vec::new();
                self.native.connect(auth, &mut out);
                self.say_native(world, &out);
            }
            Speech::RSocket => {
                let mut out = Vec::new();
                self.requester.begin(world.network.now(), &mut out);
                world.network.send(self.wire, &out);
                world.run_for(QUIET);
            }
            Speech::Rest => {}
        }
    }

    /// Whether the server has ended the connection.
    pub fn is_over(&self, world: &World) -> bool {
        self.speech == Speech::Rest || world.network.is_ended(self.wire)
    }

    /// Tries it; the text of what came of it.
    pub fn attempt(&mut self, world: &mut World, deed: &Deed, spelling: usize) -> String {
        self.count += 1;
        match self.speech {
            Speech::Stomp => self.by_stomp(world, deed, spelling),
            Speech::SocketIo => self.by_socket_io(world, deed, spelling),
            Speech::RSocket => self.by_rsocket(world, deed, spelling),
            Speech::Native => self.by_native(world, deed),
            Speech::Rest => self.by_rest(world, deed, spelling),
        }
    }

    /// The last levels of the topics that a pattern names, by Socket.IO.
    pub fn list(&mut self, world: &mut World, selector: &str) -> Vec<String> {
        self.count += 1;
        let (number, operation) =
            (self.count, format!(r#"{{"do":"fetch","selector":"{selector}","limit":1000}}"#));
        let wanted = format!("43{number}[");
        let said = self.tell(world, &format!(r#"42{number}["operate",{operation}]"#), &wanted);
        assert!(!said.contains("\"next\":"), "one page has them all");
        let paths = said.split("\"path\":\"").skip(1);
        paths
            .filter_map(|rest| Some(rest.split('"').next()?.rsplit('/').next()?.to_owned()))
            .collect()
    }

    fn by_stomp(&mut self, world: &mut World, deed: &Deed, spelling: usize) -> String {
        let number = self.count;
        let mut name = deed.path.clone();
        if spelling % 2 == 1 {
            name = name.replace('/', ".");
        }
        let kind = match deed.verb {
            Verb::Send | Verb::Receive => "queue",
            _ => "topic",
        };
        let head = match deed.verb {
            // Who may take messages may look at them, and nobody else.
            Verb::Receive if self.count.is_multiple_of(2) => {
                format!("SUBSCRIBE\nid:{number}\nbrowser:true\n")
            }
            Verb::Subscribe | Verb::SubscribePattern | Verb::Receive => {
                format!("SUBSCRIBE\nid:{number}\n")
            }
            Verb::UpdateIf => "SEND\nif-version:999\n".to_owned(),
            Verb::Patch => "SEND\npatch:json\n".to_owned(),
            _ => "SEND\n".to_owned(),
        };
        let body = if deed.verb == Verb::Patch { PATCH } else { "" };
        let frame = format!("{head}destination:/{kind}/{name}\nreceipt:{number}\n\n{body}\0");
        self.read = world.network.received_len(self.wire);
        world.network.send(self.wire, frame.as_bytes());
        let receipt = format!("receipt-id:{number}\n");
        self.wait(world, |text| text.contains(&receipt))
    }

    fn by_socket_io(&mut self, world: &mut World, deed: &Deed, spelling: usize) -> String {
        let path = self.spelled(deed, spelling);
        let event = match deed.verb {
            Verb::Publish => format!(r#"["publish","{path}",1]"#),
            Verb::Subscribe | Verb::SubscribePattern => format!(r#"["subscribe","{path}"]"#),
            Verb::Send => format!(r#"["send","{path}",1]"#),
            Verb::Receive => {
                let browses = self.count.is_multiple_of(2);
                format!(r#"["receive","{path}",{{"browse":{browses}}}]"#)
            }
            _ => format!(r#"["operate",{}]"#, operation(deed)),
        };
        let number = self.count;
        self.tell(world, &format!("42{number}{event}"), &format!("43{number}["))
    }

    fn by_rsocket(&mut self, world: &mut World, deed: &Deed, spelling: usize) -> String {
        let path = self.spelled(deed, spelling);
        let (route, data) = match deed.verb {
            Verb::Publish => (format!("topic:{path}"), "1".to_owned()),
            Verb::Subscribe | Verb::SubscribePattern => (format!("topic:{path}"), String::new()),
            Verb::Send => (format!("queue:{path}"), "1".to_owned()),
            Verb::Receive => (format!("queue:{path}"), String::new()),
            _ => ("operate:".to_owned(), operation(deed)),
        };
        let (mut tag, mut metadata, mut out) = (Vec::new(), Vec::new(), Vec::new());
        write_tag(&route, &mut tag);
        write_entry(Mime::ROUTING, &tag, &mut metadata);
        let (payload, now) = (Payload::new(&metadata, data.as_bytes()), world.network.now());
        let listens = matches!(deed.verb, Verb::Subscribe | Verb::SubscribePattern | Verb::Receive);
        let stream = if listens {
            self.requester.request_stream(now, 1_000, payload, &mut out)
        } else {
            self.requester.request_response(now, payload, &mut out)
        };
        let stream = stream.unwrap();
        world.network.send(self.wire, &out);
        // A stream that is accepted says nothing until there is something.
        let end = world.network.now() + QUIET;
        let mut said = None;
        world.run_until("an answer", |world| {
            said = said.take().or_else(|| self.hear(world, stream));
            let ended = world.network.is_ended(self.wire);
            said = said.take().or_else(|| ended.then(|| ENDED.to_owned()));
            said.is_some() || listens && world.network.now() >= end
        });
        if listens {
            let mut out = Vec::new();
            let _ = self.requester.cancel(stream, &mut out);
            world.network.send(self.wire, &out);
        }
        said.unwrap_or_default()
    }

    /// What has come on a stream, as text.
    fn hear(&mut self, world: &World, stream: u32) -> Option<String> {
        let bytes = world.network.received(self.wire);
        let mut said = None;
        loop {
            let mut out = Vec::new();
            let now = world.network.now();
            let (done, frame) = self.requester.next(now, &bytes[self.read..], &mut out).unwrap();
            self.read += done;
            match frame {
                None => return said,
                Some(Frame { stream: of, body: Body::Payload(_) }) if of == stream => {
                    said.get_or_insert_default();
                }
                Some(Frame { stream: of, body: Body::Error(failure) }) if of == stream => {
                    said = Some(String::from_utf8_lossy(failure.text).into_owned());
                }
                Some(_) => {}
            }
        }
    }

    fn by_native(&mut self, world: &mut World, deed: &Deed) -> String {
        let mut out = Vec::new();
        let native = &mut self.native;
        match deed.verb {
            Verb::Publish | Verb::Send => {
                let kind = if deed.verb == Verb::Send { Kind::Queue } else { Kind::Topic };
                let message = Publish {
                    request: 0,
                    flags: Content::Json.bits(),
                    destination: Destination::Path(kind, &deed.path),
                    expires_ms: None,
                    properties: b"",
                    body: b"1",
                };
                native.publish(message, true, &mut out);
            }
            Verb::Subscribe => {
                native.subscribe(SubscribeOptions::topic(&deed.path), &mut out);
            }
            Verb::SubscribePattern => {
                native.subscribe(SubscribeOptions::topic(&deed.path).pattern(), &mut out);
            }
            Verb::Receive => {
                let options = SubscribeOptions::queue(&deed.path);
                let browses = self.count.is_multiple_of(2);
                native.subscribe(if browses { options.follow() } else { options }, &mut out);
            }
            _ => drop(native.operate(&operation(deed), None, &mut out)),
        }
        // Each attempt is one request; ids begin at 1 and rise by one.
        self.say_native_for(world, &out, self.count)
    }

    fn say_native(&mut self, world: &mut World, out: &[u8]) {
        self.say_native_for(world, out, 0);
    }

    /// Sends a message and waits for what answers a request; 0: for the welcome.
    fn say_native_for(&mut self, world: &mut World, out: &[u8], request: u32) -> String {
        world.network.send(self.wire, &masked(MessageKind::Binary, out));
        let (mut said, mut ended) = (None, false);
        world.run_until("an answer", |world| {
            let bytes = world.network.received(self.wire);
            while let Some((whole, message)) = message(&bytes[self.read..]) {
                let is_data = bytes[self.read] & 0x0f == 2;
                self.read += whole;
                if !is_data {
                    continue;
                }
                let heard = self.native.receive(message, |event| match event {
                    Event::Welcome(_) if request == 0 => said = Some(String::new()),
                    Event::Done { first, last } if (first..=last).contains(&request) => {
                        said = Some(String::new());
                    }
                    Event::Outcome(result) if result.request == request => {
                        said = Some(String::new());
                    }
                    Event::Refused { request: of, slug, .. } if of == request => {
                        said = Some(slug.to_owned());
                    }
                    _ => {}
                });
                heard.unwrap();
            }
            ended = world.network.is_ended(self.wire);
            said.is_some() || ended
        });
        said.unwrap_or_else(|| ENDED.to_owned())
    }

    fn by_rest(&mut self, world: &mut World, deed: &Deed, spelling: usize) -> String {
        let plain = self.spelled(deed, spelling);
        let path = match spelling % 3 {
            1 => plain.replace('/', "%2F").replace('a', "%61"),
            _ => plain,
        };
        let (request, body) = match deed.verb {
            Verb::Publish => (format!("POST /topics/{path}"), "1".to_owned()),
            Verb::Send => (format!("POST /queues/{path}"), "1".to_owned()),
            Verb::Subscribe | Verb::SubscribePattern => {
                (format!("GET /events?topic={path}"), String::new())
            }
            Verb::Create if spelling.is_multiple_of(2) => {
                (format!("PUT /topics/{path}?create"), spec(deed))
            }
            Verb::UpdateIf if spelling.is_multiple_of(2) => {
                (format!("PUT /topics/{path}"), "1".to_owned())
            }
            Verb::Patch if spelling.is_multiple_of(2) => {
                (format!("PATCH /topics/{path}"), PATCH.to_owned())
            }
            Verb::ShowQueue if spelling.is_multiple_of(2) => {
                (format!("GET /queues/{path}"), String::new())
            }
            Verb::Peek if spelling.is_multiple_of(2) => {
                (format!("GET /queues/{path}?messages"), String::new())
            }
            Verb::Purge if spelling.is_multiple_of(2) => {
                (format!("DELETE /queues/{path}?messages"), String::new())
            }
            _ => ("POST /operations".to_owned(), operation(deed)),
        };
        let condition = match deed.verb {
            Verb::UpdateIf if spelling.is_multiple_of(4) => "If-Match: \"999\"\r\n",
            Verb::UpdateIf if spelling.is_multiple_of(2) => "If-None-Match: *\r\n",
            Verb::Patch => "Content-Type: application/json-patch+json\r\n",
            _ => "",
        };
        let condition = if request.starts_with("POST /op") { "" } else { condition };
        let login = match self.name {
            "ann" => "Authorization: Basic YW5uOng=\r\n",
            "bob" => "Authorization: Basic Ym9iOng=\r\n",
            "root" => "Authorization: Basic cm9vdDp4\r\n",
            _ => "",
        };
        (self.wire, self.read) = (world.network.connect(0), 0);
        let length = body.len();
        let text = format!(
            "{request} HTTP/1.1\r\nHost: h\r\n{login}{condition}Content-Length: {length}\r\n\r\n{body}"
        );
        world.network.send(self.wire, text.as_bytes());
        let said = self.wait(world, |text| {
            let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
            head.starts_with("HTTP/1.1 2") || body.trim_end().ends_with('}')
        });
        world.network.finish(self.wire);
        said
    }

    /// The path as the client may write it: its own private paths also by `~`.
    fn spelled(&self, deed: &Deed, spelling: usize) -> String {
        let own = format!("user/{}/", self.name);
        match deed.path.strip_prefix(&own) {
            Some(rest) if spelling.is_multiple_of(5) && !self.name.is_empty() => {
                format!("~/{rest}")
            }
            _ => deed.path.clone(),
        }
    }

    fn upgrade(&mut self, world: &mut World, path: &str) {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        world.network.send(self.wire, request.as_bytes());
        let head = self.wait(world, |text| text.contains("\r\n\r\n"));
        self.read = head.find("\r\n\r\n").unwrap() + 4;
    }

    fn tell(&mut self, world: &mut World, text: &str, wanted: &str) -> String {
        let before = world.network.received_len(self.wire);
        world.network.send(self.wire, &masked(MessageKind::Text, text.as_bytes()));
        self.read = if wanted == "40{" { 0 } else { before };
        // The whole of it, and of what came behind: a list that is cut may end with a brace.
        let end = if wanted == "40{" { '}' } else { ']' };
        self.wait(world, |text| text.contains(wanted) && text.ends_with(end))
    }

    fn say(&mut self, world: &mut World, bytes: &[u8], wanted: &str) -> String {
        world.network.send(self.wire, bytes);
        self.wait(world, |text| text.contains(wanted))
    }

    /// Waits until what has come since `read` is what is wanted, or the connection has ended.
    fn wait(&self, world: &mut World, mut done: impl FnMut(&str) -> bool) -> String {
        let (mut said, mut ended, mut is_done) = (String::new(), false, false);
        world.run_until("an answer", |world| {
            let bytes = world.network.received(self.wire);
            said = String::from_utf8_lossy(&bytes[self.read..]).into_owned();
            ended = world.network.is_ended(self.wire);
            is_done = done(&said);
            is_done || ended
        });
        // STOMP says why it ends.
        if ended && !is_done && !said.contains("ERROR\n") {
            return ENDED.to_owned();
        }
        said
    }
}

/// The connection has ended without an answer, as it does now and then for silence: the clients here
/// answer no pings.
pub const ENDED: &str = "the connection has ended";
/// How long an answer takes at most.
const QUIET: Span = Span::from_secs(2);
const PATCH: &str = r#"[{"op":"test","path":"/a","value":1}]"#;

fn spec(deed: &Deed) -> String {
    deed.owner.map_or("{}".to_owned(), |owner| format!(r#"{{"owner":"{owner}"}}"#))
}

/// The one form in JSON that all protocols share.
fn operation(deed: &Deed) -> String {
    let path = &deed.path;
    match deed.verb {
        Verb::Create => format!(r#"{{"do":"create","path":"{path}","spec":{}}}"#, spec(deed)),
        Verb::CreateWithValue => {
            format!(r#"{{"do":"create","path":"{path}","spec":{},"value":1}}"#, spec(deed))
        }
        Verb::UpdateIf => {
            format!(r#"{{"do":"update","path":"{path}","value":1,"if":{{"version":999}}}}"#)
        }
        Verb::Patch => format!(r#"{{"do":"update","path":"{path}","patch":{PATCH}}}"#),
        Verb::History => format!(r#"{{"do":"history","path":"{path}","last":1}}"#),
        Verb::Lock => format!(r#"{{"do":"lock","name":"{path}"}}"#),
        Verb::Claim => format!(r#"{{"do":"claim","path":"{path}"}}"#),
        Verb::Will => format!(r#"{{"do":"will","path":"{path}","value":1}}"#),
        Verb::ShowQueue => format!(r#"{{"do":"queue","path":"{path}"}}"#),
        Verb::Peek => format!(r#"{{"do":"peek","path":"{path}"}}"#),
        Verb::Purge => format!(r#"{{"do":"purge","path":"{path}"}}"#),
        Verb::Pause => format!(r#"{{"do":"pause","path":"{path}"}}"#),
        Verb::Move => format!(r#"{{"do":"move","from":"{path}","to":"{MOVED_TO}"}}"#),
        _ => format!(r#"{{"do":"update","path":"{path}","value":1}}"#),
    }
}

fn masked(kind: MessageKind, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_message(&mut out, kind, payload, Some([9, 4, 7, 1]));
    out
}

/// The first whole message of a server, and what it takes.
fn message(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let [_, second, rest @ ..] = bytes else { return None };
    let (len, head) = match second {
        126 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), 4),
        127 => panic!("no message is as long"),
        len => (usize::from(*len), 2),
    };
    Some((head + len, bytes.get(head..head + len)?))
}
