//! Golden conversations: `tests/transcripts/*.txt` played against a session and a small broker,
//! once in whole pieces and once byte by byte.
//!
//! Lines begin with `C: ` (client), `S: ` (server), `+` (time passes) or `#` (comment); `^@` is a
//! NUL. `S: <eol>` is a heart-beat, `S: <end CODE>` the end of the connection.
#![allow(clippy::unwrap_used)]

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
        for piece in [usize::MAX, 1] {
            play(&script, piece, &path.display().to_string());
        }
        count += 1;
    }
    assert!(count >= 8, "only {count} transcripts in {folder}");
}

fn play(script: &str, piece: usize, name: &str) {
    let mut rig = Rig::new();
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(span) = line.strip_prefix('+') {
            let millis: u64 = span.strip_suffix("ms").unwrap().parse().unwrap();
            rig.wait(Span::from_millis(millis));
        } else if let Some(first) = spoken(line, "C:") {
            let mut text = first;
            while let Some(more) = lines.peek().and_then(|line| spoken(line, "C:")) {
                text.push_str(&more);
                lines.next();
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
        assert_eq!(said(&mut rig), expected, "{name}, pieces of {piece}, after {line:?}");
    }
}

/// A client's line; one that ends a frame has no EOL behind its NUL.
fn spoken(line: &str, who: &str) -> Option<String> {
    let text = line.strip_prefix(who)?;
    let text = text.strip_prefix(' ').unwrap_or(text);
    Some(match text.strip_suffix("^@") {
        Some(body) => format!("{body}\0"),
        None => format!("{}\n", text.replace("^M", "\r")),
    })
}

fn said(rig: &mut Rig) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = rig.heard();
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
    if let Some(end) = &rig.end {
        lines.push(format!("S: <end {}>", end.code.slug()));
        rig.end = None;
    }
    lines
}
