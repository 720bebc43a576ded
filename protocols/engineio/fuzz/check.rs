//! What must hold for any bytes: no panic, what is read can be written and read again, and no request
//! of a session that has ended stays without an answer. Shared by the fuzz targets and by the test
//! that replays the corpus.
#![allow(dead_code)]

#[path = "../tests/support/mod.rs"]
mod support;

use support::{Asked, Node, Socket};
use tiderace_base::Span;
use tiderace_engineio::payload::{Form, jsonp};
use tiderace_engineio::{EngineOptions, Packet, PacketType};
use tiderace_wire::Response;

pub fn payload4(data: &[u8]) {
    payload(Form::Text4, data);
}

pub fn payload3_text(data: &[u8]) {
    payload(Form::Text3, data);
    if let Ok(inside) = jsonp::read(data) {
        payload(Form::Text3, &inside);
    }
}

pub fn payload3_binary(data: &[u8]) {
    payload(Form::Binary3, data);
}

/// What is read is written and read again. Only messages may be binary.
fn payload(form: Form, data: &[u8]) {
    let read: Result<Vec<Packet<'_>>, _> = form.packets(data, 1000).collect();
    let Ok(read) = read else { return };
    let writable =
        |packet: &Packet<'_>| packet.kind == PacketType::Message || packet.data.bytes().1;
    if read.is_empty() || !read.iter().all(writable) {
        return;
    }
    let mut written = Vec::new();
    for packet in &read {
        form.write_packet(packet, &mut written);
    }
    // Revision 4 has no way to write its separator, nor to tell text with a `b` in front.
    let again: Result<Vec<Packet<'_>>, _> = form.packets(&written[form.skip()..], 1000).collect();
    assert_eq!(again, Ok(read));
}

/// The first byte chooses how the session begins; then come steps of a kind, a length and bytes.
pub fn session(data: &[u8]) {
    let [begin, steps @ ..] = data else { return };
    let options =
        EngineOptions { payload_bytes_max: 200, packets_max: 20, ..EngineOptions::default() };
    let mut player = Player::new(Node::with(options), *begin);
    let mut rest = steps;
    while let [kind, len, tail @ ..] = rest {
        let (bytes, tail) = tail.split_at(usize::from(*len).min(tail.len()));
        player.step(*kind, *len, bytes);
        rest = tail;
    }
    player.finish();
}

struct Player {
    node: Node,
    query: String,
    sid: String,
    socket: Option<Socket>,
    polls: Vec<Asked>,
}

impl Player {
    fn new(mut node: Node, begin: u8) -> Player {
        let eio = if begin & 1 == 0 { "EIO=4" } else { "EIO=3" };
        let base64 = if begin & 2 == 0 { "" } else { "&b64=1" };
        let script = if begin & 4 == 0 { "" } else { "&j=0" };
        let greet = if begin & 8 == 0 { "" } else { "&greet=hi" };
        let head = format!("{eio}{base64}{script}{greet}");
        if begin & 16 != 0 {
            let socket = node.connect(&format!("{head}&transport=websocket"));
            let socket = socket.expect("a handshake is not refused");
            let (query, sid) = (format!("{eio}&transport=polling"), String::new());
            return Player { node, query, sid, socket: Some(socket), polls: Vec::new() };
        }
        let response: Response = node.get(&format!("{head}&transport=polling"));
        let sid = support::sid(&support::body(&response).replace('\\', ""));
        let query = format!("{eio}{base64}{script}&transport=polling&sid={sid}");
        Player { node, query, sid, socket: None, polls: Vec::new() }
    }

    fn step(&mut self, kind: u8, len: u8, bytes: &[u8]) {
        let octets = [("Content-Type", "application/octet-stream")];
        match kind % 9 {
            0 => drop(self.node.begin("POST", &self.query, &[], bytes)),
            1 => drop(self.node.begin("POST", &self.query, &octets, bytes)),
            2 => {
                let poll = self.node.poll(&self.query);
                self.polls.push(poll);
            }
            3 => {
                let query = self.query.replace("=polling", "=websocket");
                if let Ok(socket) = self.node.connect(&query) {
                    self.socket = Some(socket);
                }
            }
            4 => {
                if let Some(socket) = self.socket {
                    self.node.send(socket, &String::from_utf8_lossy(bytes));
                }
            }
            5 => {
                if let Some(socket) = self.socket {
                    self.node.send_binary(socket, bytes);
                }
            }
            6 => self.node.wait(Span::from_millis(u64::from(len) * 500)),
            7 if !self.sid.is_empty() => self.node.deliver(&self.sid, bytes),
            8 => {
                if let Some(poll) = self.polls.last().copied()
                    && self.node.is_waiting(poll)
                {
                    self.node.abandon(poll);
                    self.polls.pop();
                }
            }
            _ => {}
        }
        if let Some(socket) = self.socket {
            // Judges that everything written is whole messages.
            self.node.received(socket);
        }
    }

    fn finish(mut self) {
        let waiting = self.polls.iter().filter(|poll| self.node.is_waiting(**poll)).count();
        assert!(waiting <= 1, "{waiting} polls wait");
        self.node.wait(Span::from_secs(1000));
        for poll in self.polls {
            assert!(self.node.answer(poll).is_some(), "a poll was never answered");
        }
        assert!(self.sid.is_empty() || self.node.ended(&self.sid).is_some(), "silence goes on");
    }
}
