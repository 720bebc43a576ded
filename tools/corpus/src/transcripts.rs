//! Golden conversations: files that say what clients send and what the server answers, in one syntax for
//! all protocols.
//!
//! ```text
//!   # text              a comment
//!   +1500ms             time passes
//!   C: text             a client sends that; `C ann: text` where there are several
//!   S: text             the server sends that; `S ann: text` to that client
//!   S: <end CODE>       the connection ends, with that close code
//!   B: text             the session asks the broker for that
//!   R: text             the broker replies that
//! ```
//! What a text means is the protocol's part: its [`Player`]. Invariants: every file is played once for each
//! variant, and has to come out as it was written; with `BLESS=1` in the environment it is written anew.

use std::path::Path;

/// What a line does to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// So many milliseconds pass.
    Wait(u64),
    /// A client sends a text.
    Client {
        /// Its name; empty where there is one client only.
        name: &'a str,
        /// What it sends.
        text: &'a str,
        /// Whether the next line is of the same client.
        more: bool,
    },
    /// The broker replies.
    Reply(&'a str),
}

/// Plays one file against a session.
pub trait Player {
    /// Does a step, and gives the lines that follow from it: those of [`server`] and [`broker`].
    fn play(&mut self, step: Step<'_>) -> Vec<String>;
}

/// The line of what the server sends to a client; the name is empty where there is one client only.
pub fn server(name: &str, text: &str) -> String {
    let head = if name.is_empty() { "S:".to_owned() } else { format!("S {name}:") };
    format!("{head} {text}").trim_end().to_owned()
}

/// The line of what a session asks the broker for.
pub fn broker(text: &str) -> String {
    format!("B: {text}")
}

/// The text of the end of a connection.
pub fn end(code: &str) -> String {
    format!("<end {code}>")
}

/// Plays every file in `tests/transcripts` of the crate at `root`, which is its `CARGO_MANIFEST_DIR`, once
/// for each variant.
///
/// # Panics
/// When one does not go as written, or there are fewer than `least`.
pub fn replay<V: Copy + std::fmt::Debug, P: Player>(
    root: &str,
    least: usize,
    variants: &[V],
    player: impl Fn(V) -> P,
) {
    let folder = Path::new(root).join("tests/transcripts");
    let names = crate::names_in(&folder);
    assert!(names.len() >= least, "only {} transcripts in {}", names.len(), folder.display());
    for name in names {
        let path = folder.join(&name);
        let script = std::fs::read_to_string(&path).expect("a transcript can be read");
        for variant in variants {
            let played = play(&script, &mut player(*variant));
            if std::env::var_os("BLESS").is_some() {
                std::fs::write(&path, &played).expect("a transcript can be written");
                break;
            }
            assert!(played == script, "{name}, variant {variant:?}:\n{played}");
        }
    }
}

/// The script as it went.
fn play(script: &str, player: &mut impl Player) -> String {
    let mut played = String::new();
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        let who = speaker(line);
        if matches!(who, Some('S' | 'B')) {
            continue;
        }
        played.extend([line, "\n"]);
        let answers = match who {
            Some('R') => player.play(Step::Reply(parts(line).1)),
            Some(_) => {
                let (name, text) = parts(line);
                let more = lines
                    .peek()
                    .is_some_and(|next| speaker(next) == Some('C') && parts(next).0 == name);
                player.play(Step::Client { name, text, more })
            }
            None if line.is_empty() || line.starts_with('#') => Vec::new(),
            None => {
                let span = millis(line);
                let span = span.unwrap_or_else(|| panic!("a line of no transcript: {line}"));
                player.play(Step::Wait(span))
            }
        };
        for answer in answers {
            played.extend([answer.as_str(), "\n"]);
        }
    }
    played
}

/// The letter with which a line of somebody begins.
fn speaker(line: &str) -> Option<char> {
    let who = line.chars().next().filter(|who| matches!(who, 'C' | 'S' | 'B' | 'R'))?;
    matches!(line.get(1..2), Some(":" | " ")).then_some(who)
}

/// The name and the text of such a line.
fn parts(line: &str) -> (&str, &str) {
    let (head, text) = line.split_once(':').expect("a line of somebody has a colon");
    let name = head.get(1..).unwrap_or_default().trim();
    (name, text.strip_prefix(' ').unwrap_or(text))
}

fn millis(line: &str) -> Option<u64> {
    line.strip_prefix('+')?.strip_suffix("ms")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says what it is told.
    struct Echo;

    impl Player for Echo {
        fn play(&mut self, step: Step<'_>) -> Vec<String> {
            match step {
                Step::Wait(millis) => vec![server("", &format!("waited {millis}"))],
                Step::Client { name, text, more } => vec![server(name, &format!("{text} {more}"))],
                Step::Reply(text) => vec![broker(text)],
            }
        }
    }

    const SCRIPT: &str = "# One.\n\nC: a\nS: a true\nC: b:c\nS: b:c false\n+20ms\nS: waited 20\n\
        C ann: x\nS ann: x false\nC bob:\nS bob:  false\nR: yes\nB: yes\n";

    #[test]
    fn what_goes_as_written_is_written_so_again() {
        // The answer to the first line comes before the second one, which the script has between them.
        let script = SCRIPT.replace("a true", "a false");
        assert_eq!(play(&script, &mut Echo), script);
        let run_on = "C: a\nC: b\n";
        assert_eq!(play(run_on, &mut Echo), "C: a\nS: a true\nC: b\nS: b false\n");
    }

    #[test]
    fn what_goes_otherwise_is_seen() {
        let script = SCRIPT.replace("S: waited 20", "S: waited 30").replace("a true", "a false");
        assert_ne!(play(&script, &mut Echo), script);
        assert_eq!(server("", ""), "S:");
        assert_eq!(server("ann", &end("done")), "S ann: <end done>");
    }

    #[test]
    fn lines_of_nobody_are_no_time() {
        assert_eq!((millis("+20ms"), millis("> GET"), millis("+20")), (Some(20), None, None));
    }
}
