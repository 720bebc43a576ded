//! Golden conversations: `tests/transcripts/*.txt` played against sessions and the broker.
//!
//! The syntax is that of [`tiderace_corpus::transcripts`]. A client begins with `<open QUERY>`; `#` at the
//! beginning of a message says that it is binary.
#![allow(clippy::unwrap_used)]

use crate::support::Node;
use tiderace_corpus::transcripts::{Player, Step, end, replay, server};

#[test]
fn conversations_go_as_written() {
    let player = |()| Stage { node: Node::remembering().0, names: Vec::new() };
    replay(env!("CARGO_MANIFEST_DIR"), 5, &[()], player);
}

struct Stage {
    node: Node,
    /// The clients, by name.
    names: Vec<(String, usize)>,
}

impl Player for Stage {
    fn play(&mut self, step: Step<'_>) -> Vec<String> {
        let Step::Client { name, text, .. } = step else { panic!("{step:?}") };
        if let Some(query) = text.strip_prefix("<open ").and_then(|text| text.strip_suffix('>')) {
            let client = self.node.open(query);
            self.names.push((name.to_owned(), client));
        } else {
            let client = self.names.iter().find(|(known, _)| known == name).unwrap().1;
            match text.strip_prefix('#') {
                Some(bytes) => self.node.send(client, false, bytes.as_bytes()),
                None => self.node.send(client, true, text.as_bytes()),
            }
        }
        let mut lines = Vec::new();
        for (name, client) in &self.names {
            lines.extend(self.node.received(*client).iter().map(|text| server(name, text)));
            if let Some(code) = self.node.end(*client) {
                lines.push(server(name, &end(code.slug())));
            }
        }
        lines
    }
}
