//! Golden conversations: `tests/transcripts/*.txt` played against the layer with an echo inside.
//!
//! `> GET QUERY`, `> POST QUERY BODY`, `> SOCKET QUERY`, `> TEXT MESSAGE`, `> HEX BYTES`, `> NEWS MESSAGE`
//! (a delivery), `> WAIT MS`; `$` in a query stands for `EIO` and `transport=polling&sid=…` of the session.
//! Answers: `< STATUS BODY` for requests, `< TEXT`, `< HEX` and `< END CODE` for WebSockets. `^` is the
//! record separator. With `BLESS=1` in the environment the answers are written anew.
// Whether to bless is asked of the environment, as test runners do.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

use crate::support;

use support::{Asked, Node, Received, Socket};
use tiderace_base::Span;

#[test]
fn conversations_go_as_written() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let script = std::fs::read_to_string(&path).unwrap();
        let played = play(&script);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &played).unwrap();
        } else {
            assert_eq!(played, script, "{}", path.display());
        }
        count += 1;
    }
    assert!(count >= 6, "only {count} transcripts in {folder}");
}

/// The script as it went.
fn play(script: &str) -> String {
    let mut stage = Stage {
        node: Node::new(),
        waiting: Vec::new(),
        sid: String::new(),
        head: String::new(),
        sockets: Vec::new(),
    };
    let mut played = String::new();
    for line in script.lines().filter(|line| !line.starts_with('<')) {
        played += &format!("{line}\n");
        if let Some(command) = line.strip_prefix("> ") {
            stage.act(command);
            played.extend(stage.said().iter().map(|said| format!("< {said}\n")));
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "{line}");
        }
    }
    played
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
            "WAIT" => self.node.wait(Span::from_millis(rest.parse().unwrap())),
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
                said.push(format!("END {}", code.slug()));
                self.sockets.retain(|known| *known != socket);
            }
        }
        said
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
