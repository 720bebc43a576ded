//! Golden conversations: `tests/transcripts/*.txt` played against a session and a small broker,
//! once in whole pieces and once byte by byte.
//!
//! Lines begin with `C: ` (client), `S: ` (server), `+` (time passes) or `#` (comment); `^@` is a
//! NUL, `^M` at the end of a line a carriage return. `S: <eol>` is a heart-beat, `S: <end CODE>` the
//! end of the connection. With `BLESS=1` in the environment the answers are written anew.
// Whether to bless is asked of the environment, as test runners do.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;

use support::Rig;
use tiderace_base::Span;

#[test]
fn conversations_go_as_written() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let script = std::fs::read_to_string(&path).unwrap();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, play(&script, usize::MAX, None)).unwrap();
            count += 1;
            continue;
        }
        for piece in [usize::MAX, 1] {
            play(&script, piece, Some(&path.display().to_string()));
        }
        count += 1;
    }
    assert!(count >= 8, "only {count} transcripts in {folder}");
}

/// Plays a script; compares the answers if the script has a name, and gives the script as it went.
fn play(script: &str, piece: usize, name: Option<&str>) -> String {
    let mut played = String::new();
    let mut rig = Rig::new();
    let mut ended = false;
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        played += &format!("{line}\n");
        if let Some(span) = line.strip_prefix('+') {
            let millis: u64 = span.strip_suffix("ms").unwrap().parse().unwrap();
            rig.wait(Span::from_millis(millis));
        } else if let Some(first) = spoken(line, "C:") {
            let mut text = first;
            while !text.ends_with('\0')
                && let Some(more) = lines.peek().and_then(|line| spoken(line, "C:"))
            {
                text.push_str(&more);
                played += &format!("{}\n", lines.next().unwrap());
            }
            for part in text.as_bytes().chunks(piece.min(text.len())) {
                rig.send(part);
            }
        } else {
            assert!(line.is_empty() || line.starts_with('#') || line.starts_with("S:"), "{line}");
        }
        let mut expected = Vec::new();
        while let Some(line) = lines.peek().filter(|line| line.starts_with("S:")) {
            expected.push(line.trim_end().to_owned());
            lines.next();
        }
        let said = said(&mut rig, &mut ended);
        played.extend(said.iter().map(|line| format!("{line}\n")));
        if let Some(name) = name {
            assert_eq!(said, expected, "{name}, pieces of {piece}, after {line:?}");
        }
    }
    played
}

/// A client's line; one that ends in a NUL has no EOL behind it, and what it ends is sent.
fn spoken(line: &str, who: &str) -> Option<String> {
    let text = line.strip_prefix(who)?;
    let text = text.strip_prefix(' ').unwrap_or(text);
    let text = text.replace("^M", "\r").replace("^@", "\0");
    Some(if text.ends_with('\0') { text } else { text + "\n" })
}

/// What was said since the last call, and once how it ended.
fn said(rig: &mut Rig, ended: &mut bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = rig.received();
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('\n') {
            lines.push("S: <eol>".to_owned());
            rest = tail.to_owned();
            continue;
        }
        let (frame, tail) = rest.split_once('\0').unwrap();
        let frame = format!("{frame}^@");
        lines.extend(frame.split('\n').map(|line| format!("S: {line}").trim_end().to_owned()));
        rest = tail.to_owned();
    }
    if let Some(end) = rig.end.as_ref().filter(|_| !std::mem::replace(ended, true)) {
        lines.push(format!("S: <end {}>", end.code.slug()));
    }
    lines
}
