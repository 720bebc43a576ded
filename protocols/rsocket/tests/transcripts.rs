//! Golden conversations: `tests/transcripts/*.txt` played against a session.
//!
//! The syntax is that of [`tiderace_corpus::transcripts`]. A frame is its stream, its type, its fields, and metadata
//! in brackets: a route, options behind `?` and properties behind `;`, joined by commas.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::rig::{Rig, described, route_with, setup, spell};
use tiderace_base::{CLOSE_CODES, Close, Span};
use tiderace_corpus::transcripts::{self, Player, Step, replay};
use tiderace_rsocket::frame::{
    Body, ErrorCode, Frame, Interaction, Item, KeepAlive, Lease, Payload, Request, Setup,
};
use tiderace_rsocket::metadata::{Authentication, Described, Mime, write_entry};
use tiderace_rsocket::{EchoOptions, MESSAGE_MIME, PROPERTIES_MIME, RSocketOptions};
use tiderace_wire::{Command, Exchange, ExchangeKey, Framing, Kind, Reply, Side, Target};

#[test]
fn conversations_go_as_written() {
    let player = |piece| {
        let echo = Some(EchoOptions { interval: Span::from_secs(1), bytes_max: 1 << 20 });
        let rig = Rig::fresh(RSocketOptions { echo, ..RSocketOptions::default() });
        Stage { rig, piece, token: None, ended: false }
    };
    replay(env!("CARGO_MANIFEST_DIR"), 8, &[usize::MAX, 1], player);
}

struct Stage {
    rig: Rig,
    /// Bytes of the pieces in which input comes.
    piece: usize,
    /// Of what the broker was asked last.
    token: Option<u32>,
    ended: bool,
}

impl Player for Stage {
    fn play(&mut self, step: Step<'_>) -> Vec<String> {
        match step {
            Step::Wait(millis) => self.rig.wait(Span::from_millis(millis)),
            Step::Client { text, .. } => {
                let bytes = client(text);
                bytes
                    .chunks(self.piece.min(bytes.len()))
                    .for_each(|part| self.rig.send_bytes(part));
            }
            Step::Reply(text) => answer(&mut self.rig, text, self.token),
        }
        let mut lines = Vec::new();
        for frame in self.rig.frames() {
            lines.push(transcripts::server("", &server(&Frame::read(&frame).unwrap())));
        }
        for command in self.rig.asked() {
            let (words, asked) = broker(&command);
            self.token = asked.or(self.token);
            lines.push(transcripts::broker(&words));
        }
        if let (false, Some(close)) = (self.ended, &self.rig.end) {
            lines.push(transcripts::server("", &transcripts::end(close.code.slug())));
            self.ended = true;
        }
        lines
    }
}

/// The bytes of a client's frame.
fn client(text: &str) -> Vec<u8> {
    let mut words = text.splitn(3, ' ');
    let stream: u32 = words.next().unwrap().parse().unwrap();
    let (kind, rest) = (words.next().unwrap(), words.next().unwrap_or_default());
    let (metadata, rest) = match rest.split_once("] ").or(rest.strip_suffix(']').map(|m| (m, ""))) {
        Some((before, data)) if before.contains('[') => {
            let (fields, inside) = before.split_once('[').unwrap();
            (Some(metadata(inside)), format!("{fields}{data}"))
        }
        _ => (None, rest.to_owned()),
    };
    let mut fields = rest.splitn(3, ' ');
    let mut field = || fields.next().unwrap_or_default();
    let number = |text: &str| text.parse::<u32>().unwrap();
    let payload = |data: &'static str| Payload { metadata: None, data: data.as_bytes() };
    let body = match kind {
        "SETUP" => {
            let lease = rest.contains("lease");
            let token = rest.contains("token").then_some(&b"0123456789abcdef"[..]);
            let lifetime_ms = if rest.contains("short") { 2000 } else { 90_000 };
            let payload = Payload { metadata: metadata.as_deref(), data: b"" };
            Body::Setup(Setup { lease, token, lifetime_ms, payload, ..setup() })
        }
        "REQUEST" => {
            let interaction = match field() {
                "response" => Interaction::Response,
                "fnf" => Interaction::FireAndForget,
                "stream" => Interaction::Stream,
                _ => Interaction::Channel,
            };
            let credit = if interaction.has_credit() { number(field()) } else { 0 };
            let data = [field(), field()].join(" ");
            let payload = Payload { metadata: metadata.as_deref(), data: data.trim().as_bytes() };
            let request = Request { interaction, follows: false, complete: false, credit, payload };
            let mut bytes = Vec::new();
            Frame { stream, body: Body::Request(request) }.write(Framing::Stream, &mut bytes);
            return bytes;
        }
        "PAYLOAD" => {
            let marks = field();
            let data = [field(), field()].join(" ");
            let payload = Payload { metadata: metadata.as_deref(), data: data.trim().as_bytes() };
            let has = |letter| marks.contains(letter);
            let item = Item { follows: has('F'), complete: has('C'), next: has('N'), payload };
            let mut bytes = Vec::new();
            Frame { stream, body: Body::Payload(item) }.write(Framing::Stream, &mut bytes);
            return bytes;
        }
        "REQUEST_N" => Body::RequestN(number(field())),
        "CANCEL" => Body::Cancel,
        "LEASE" => Body::Lease(Lease {
            ttl_ms: number(field()),
            requests: number(field()),
            metadata: None,
        }),
        "KEEPALIVE" => {
            Body::KeepAlive(KeepAlive { respond: true, position: 0, data: payload("ping").data })
        }
        "METADATA_PUSH" => Body::MetadataPush(b"push"),
        "ERROR" => return error(stream, field()),
        other => panic!("{other}"),
    };
    let mut bytes = Vec::new();
    Frame { stream, body }.write(Framing::Stream, &mut bytes);
    bytes
}

fn error(stream: u32, name: &str) -> Vec<u8> {
    let code = match name {
        "CONNECTION_CLOSE" => ErrorCode::CONNECTION_CLOSE,
        "CONNECTION_ERROR" => ErrorCode::CONNECTION_ERROR,
        "APPLICATION_ERROR" => ErrorCode::APPLICATION_ERROR,
        _ => ErrorCode(0x301),
    };
    let mut bytes = Vec::new();
    Frame::error(stream, code, "no").write(Framing::Stream, &mut bytes);
    bytes
}

/// What stands in brackets: a route, options, properties, or credentials.
fn metadata(text: &str) -> Vec<u8> {
    let (mut route, mut options, mut properties) = ("", String::new(), String::new());
    for part in text.split(',') {
        if let Some(option) = part.strip_prefix('?') {
            options += &format!("{option}\n");
        } else if let Some(property) = part.strip_prefix(';') {
            properties += &format!("{property}\n");
        } else if let Some(token) = part.strip_prefix("bearer ") {
            let (mut bytes, mut out) = (Vec::new(), Vec::new());
            Authentication::Bearer(token).write(&mut bytes);
            write_entry(Mime::AUTHENTICATION, &bytes, &mut out);
            return out;
        } else {
            route = part;
        }
    }
    route_with(route, &options, &properties)
}

/// A server's frame, its metadata in words.
fn server(frame: &Frame<'_>) -> String {
    let payload = match &frame.body {
        Body::Payload(item) => item.payload,
        Body::Request(request) => request.payload,
        _ => return spell(frame),
    };
    let Some(metadata) = payload.metadata else { return spell(frame) };
    let mut parts = Vec::new();
    let described = Described::read_with(Mime::COMPOSITE, metadata, |mime, bytes| {
        let sign = match mime.name() {
            Some(MESSAGE_MIME) => "!",
            Some(PROPERTIES_MIME) => ";",
            other => panic!("{other:?}"),
        };
        let lines = std::str::from_utf8(bytes).unwrap().lines();
        parts.extend(lines.map(|line| format!("{sign}{line}")));
    });
    let route = described.unwrap().route.map(str::to_owned);
    let metadata = route.into_iter().chain(parts).collect::<Vec<_>>().join(",");
    let raw = spell(frame);
    let (before, _) = raw.split_once('[').unwrap();
    let data = payload.data.escape_ascii();
    format!("{before}[{metadata}] {data}").trim_end().to_owned()
}

/// A command in words, and the token it brings.
fn broker(command: &Command) -> (String, Option<u32>) {
    let kind = |kind: Kind| format!("{kind:?}").to_lowercase();
    match command {
        Command::Login(credentials) => (
            format!("login {:?}", credentials.token.as_deref().or(credentials.login.as_deref())),
            None,
        ),
        Command::Publish { run, confirm, .. } => {
            let (destination, message) = (run.destination(), run.message(0).unwrap());
            let (body, lines) = (message.body.escape_ascii(), message.properties.escape_ascii());
            let confirmed = if confirm.is_some() { " confirm" } else { "" };
            let path = destination.path.as_str();
            let words =
                format!("publish {} {path} {body} ({lines}){confirmed}", kind(destination.kind));
            (words, confirm.map(|confirm| confirm.from))
        }
        Command::Subscribe(wish) => {
            let target = match &wish.targets[0] {
                Target::Exact(exact) => format!("{} {}", kind(exact.kind), exact.path.as_str()),
                Target::Pattern(of, pattern) => format!("{} {}", kind(*of), pattern.as_str()),
            };
            let credit = wish.credit.map_or(String::new(), |credit| format!(" credit {credit}"));
            let prefetch = wish.prefetch.map(|it| format!(" window {}", it.messages));
            let prefetch = prefetch.unwrap_or_default();
            (format!("subscribe {} {target}{credit}{prefetch}", wish.key.0), wish.confirm)
        }
        Command::Credit { key, messages } => (format!("credit {} {messages}", key.0), None),
        Command::Unsubscribe { key, .. } | Command::Lose { key, .. } => {
            (format!("unsubscribe {}", key.0), None)
        }
        Command::Settle(settle) => {
            (format!("settle {} {:?} {:?}", settle.key.0, settle.ranges, settle.outcome), None)
        }
        Command::Call(call) => {
            let (last, body) = (if call.last { " last" } else { "" }, call.body.escape_ascii());
            let credit = call.credit.map_or("".to_owned(), |credit| format!(" credit {credit}"));
            (format!("call {} {} {body}{last}{credit}", call.number, call.service.as_str()), None)
        }
        Command::ExchangeCredit { exchange, messages } => {
            (format!("wants {} {messages}", key(*exchange)), None)
        }
        Command::SendExchange(sent) => {
            let (last, body) = (if sent.last { " last" } else { "" }, sent.body.escape_ascii());
            (format!("send {} {body}{last}", key(sent.exchange)), None)
        }
        Command::Cancel { exchange, close } => {
            (format!("cancel {} {}", key(*exchange), close.code.slug()), None)
        }
        Command::Operate { token, .. } => ("operate".to_owned(), Some(*token)),
        Command::Together(on) => (format!("together {on}"), None),
        Command::Upstream(_) => ("upstream".to_owned(), None),
        Command::ActAs(_) => ("act as".to_owned(), None),
        Command::Goodbye => ("goodbye".to_owned(), None),
    }
}

fn key(exchange: ExchangeKey) -> String {
    let side = if exchange.side == Side::Caller { "caller" } else { "responder" };
    format!("{side} {}", exchange.number)
}

fn answer(rig: &mut Rig, reply: &str, token: Option<u32>) {
    let words: Vec<&str> = reply.splitn(5, ' ').collect();
    let close = |slug: &str| -> Close {
        CLOSE_CODES.iter().find(|row| row.slug == slug).unwrap().code.into()
    };
    let exchange = || match words[1] {
        "caller" => ExchangeKey::caller(words[2].parse().unwrap()),
        _ => ExchangeKey::responder(words[2].parse().unwrap()),
    };
    match words[0] {
        "logged-in" => {
            rig.reply(Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None })
        }
        "confirmed" => rig.confirm(token.unwrap()),
        "refused" => rig.reply(Reply::Refused { token, close: close(words[1]) }),
        "ended" => {
            rig.reply(Reply::ExchangeEnded { exchange: exchange(), close: close(words[3]) });
        }
        "deliver" => {
            let of = if words[2] == "topic" { Kind::Topic } else { Kind::Queue };
            let bodies: Vec<&[u8]> = words[4].split(' ').map(str::as_bytes).collect();
            rig.deliver(words[1].parse().unwrap(), &described(of, words[3], 7, "a:b\n", &bodies));
        }
        "wanted" => {
            let messages = words[3].parse().unwrap();
            rig.reply(Reply::ExchangeCredit { exchange: exchange(), messages });
        }
        // exchange SIDE NUMBER MARKS BODY; digits among the marks are the caller's credit.
        "exchange" => {
            let (first, last) = (words[3].contains('F'), words[3].contains('L'));
            let body = words.get(4).copied().unwrap_or_default();
            let run = described(Kind::Service, "sum", 1, "", &[body.as_bytes()]);
            let key = if first { 0 } else { u32::MAX };
            let bare = last && !first && body.is_empty();
            let credit: String = words[3].chars().filter(char::is_ascii_digit).collect();
            let credit = credit.parse().ok();
            rig.deliver_exchange(
                key,
                &run,
                Exchange { key: exchange(), first, last, bare, credit },
            );
        }
        other => panic!("{other}"),
    }
}
