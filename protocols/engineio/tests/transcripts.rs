//! Golden conversations: `tests/transcripts/*.txt` played against the layer with an echo inside.
//!
//! The syntax is that of [`tiderace_corpus::transcripts`]. The client: `GET QUERY`, `POST QUERY BODY`, `SOCKET QUERY`,
//! `TEXT MESSAGE`, `HEX BYTES`, `NEWS MESSAGE` (a delivery); `$` in a query stands for `EIO` and
//! `transport=polling&sid=…` of the session. The server: `STATUS BODY` for requests, `TEXT` and `HEX` for
//! WebSockets. `^` is the record separator.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support;

use support::{Asked, Node, Received, Socket};
use tiderace_base::Span;
use tiderace_corpus::transcripts::{Player, Step, end, replay, server};

#[test]
fn conversations_go_as_written() {
    let player = |()| Stage {
        node: Node::new(),
        waiting: Vec::new(),
        sid: String::new(),
        head: String::new(),
        sockets: Vec::new(),
    };
    replay(env!("CARGO_MANIFEST_DIR"), 6, &[()], player);
}

impl Player for Stage {
    fn play(&mut self, step: Step<'_>) -> Vec<String> {
        match step {
            Step::Wait(millis) => self.node.wait(Span::from_millis(millis)),
            Step::Client { text, .. } => self.act(text),
            Step::Reply(text) => panic!("there is no broker: {text}"),
        }
        self.said().iter().map(|said| server("", said)).collect()
    }
}

struct Stage {
    node: Node,
    waiting: Vec<Asked>,
    sid: String,
    head: String,
    sockets: Vec<Socket>,
}

impl Stage {
    fn act(&mut self, command: &str) {
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        let (query, body) = rest.split_once(' ').unwrap_or((rest, ""));
        let query =
            query.replace('$', &format!("{}&transport=polling&sid={}", self.head, self.sid));
        let body = body.replace('^', "\x1e");
        match word {
            "GET" | "POST" => {
                if query.starts_with("EIO") && self.sid.is_empty() {
                    self.head = query.chars().take("EIO=4".len()).collect();
                }
                let asked = self.node.begin(word, &query, &[], body.as_bytes());
                self.waiting.push(asked);
            }
            "SOCKET" => {
                let query = query.replace("=polling", "=websocket");
                self.sockets.extend(self.node.connect(&query).ok());
            }
            "TEXT" => self.node.send(*self.sockets.last().unwrap(), rest),
            "HEX" => {
                let byte = |at| u8::from_str_radix(&rest[at..at + 2], 16).unwrap();
                let bytes: Vec<u8> = (0..rest.len()).step_by(2).map(byte).collect();
                self.node.send_binary(*self.sockets.last().unwrap(), &bytes);
            }
            "NEWS" => self.node.deliver(&self.sid, rest.as_bytes()),
            other => panic!("no such command: {other}"),
        }
    }

    fn said(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for asked in std::mem::take(&mut self.waiting) {
            let Some(response) = self.node.answer(asked) else {
                self.waiting.push(asked);
                continue;
            };
            let body = match std::str::from_utf8(&response.body) {
                Ok(body) if !body.contains('\0') => body.replace('\x1e', "^"),
                _ => hex(&response.body),
            };
            if body.contains("\"sid\"") {
                self.sid = support::sid(&body);
            }
            said.push(format!("{} {body}", response.status));
        }
        for socket in self.sockets.clone() {
            said.extend(self.node.received(socket).into_iter().map(|received| match received {
                Received::Text(text) => format!("TEXT {text}"),
                Received::Binary(bytes) => format!("HEX {}", hex(&bytes)),
            }));
            if let Some(code) = self.node.closed(socket) {
                said.push(end(code.slug()));
                self.sockets.retain(|known| *known != socket);
            }
        }
        said
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
