//! Golden conversations: `tests/transcripts/*.txt` played against a session and the broker, once in
//! whole pieces and once byte by byte.
//!
//! The syntax is that of [`tiderace_corpus::transcripts`]. In a text `^@` is a NUL and `^M` at the end of a
//! line a carriage return; `<eol>` is a heart-beat.
#![allow(clippy::unwrap_used)]

use crate::support::Rig;
use tiderace_base::Span;
use tiderace_corpus::transcripts::{Player, Step, end, replay, server};

#[test]
fn conversations_go_as_written() {
    let player = |piece| Stage { rig: Rig::new(), piece, input: String::new(), ended: false };
    replay(env!("CARGO_MANIFEST_DIR"), 8, &[usize::MAX, 1], player);
}

struct Stage {
    rig: Rig,
    /// Bytes of the pieces in which input comes.
    piece: usize,
    /// The beginning of a frame, whose lines are not all there.
    input: String,
    ended: bool,
}

impl Player for Stage {
    fn play(&mut self, step: Step<'_>) -> Vec<String> {
        match step {
            Step::Wait(millis) => self.rig.wait(Span::from_millis(millis)),
            Step::Client { text, more, .. } => {
                self.input += &text.replace("^M", "\r").replace("^@", "\0");
                // A line that ends in a NUL has no EOL behind it, and what it ends is sent.
                let whole = self.input.ends_with('\0');
                if !whole {
                    self.input.push('\n');
                }
                if more && !whole {
                    return Vec::new();
                }
                let input = std::mem::take(&mut self.input);
                for part in input.as_bytes().chunks(self.piece.min(input.len())) {
                    self.rig.send(part);
                }
            }
            Step::Reply(text) => panic!("the broker replies by itself: {text}"),
        }
        self.received()
    }
}

impl Stage {
    /// What came since the last call, and once how it ended.
    fn received(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut rest = self.rig.received();
        while !rest.is_empty() {
            if let Some(tail) = rest.strip_prefix('\n') {
                lines.push(server("", "<eol>"));
                rest = tail.to_owned();
                continue;
            }
            let (frame, tail) = rest.split_once('\0').unwrap();
            lines.extend(format!("{frame}^@").split('\n').map(|line| server("", line)));
            rest = tail.to_owned();
        }
        if let Some(close) =
            self.rig.end.as_ref().filter(|_| !std::mem::replace(&mut self.ended, true))
        {
            lines.push(server("", &end(close.code.slug())));
        }
        lines
    }
}
