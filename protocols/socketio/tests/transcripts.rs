//! Golden conversations: `tests/transcripts/*.txt` played against sessions and a small broker.
//!
//! A line `ann opens EIO=4` begins a client; `ann: text` is what it sends, `    ann hears: text` what it
//! hears then; `#` at the beginning of a message says that it is binary, `--` begins a comment.
//! `ann ends: code` is the end. With `BLESS=1` in the environment what is received is written anew.
// Whether to bless is asked of the environment, as test runners do.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;

use support::Node;

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
        }
        assert_eq!(played, std::fs::read_to_string(&path).unwrap(), "{}", path.display());
        count += 1;
    }
    assert!(count >= 5, "only {count} transcripts in {folder}");
}

/// Plays what clients do, and writes down what they hear.
fn play(script: &str) -> String {
    let (mut node, _) = Node::remembering();
    let mut names: Vec<(String, usize)> = Vec::new();
    let mut played = String::new();
    for line in script.lines() {
        if line.starts_with("    ") || line.contains(" ends: ") {
            continue;
        }
        played += &format!("{line}\n");
        if line.starts_with("--") || line.is_empty() {
            continue;
        }
        if let Some((name, query)) = line.split_once(" opens ") {
            let client = node.open(query);
            names.push((name.to_owned(), client));
        } else {
            let (name, message) = line.split_once(": ").unwrap();
            let client = names.iter().find(|(known, _)| known == name).unwrap().1;
            match message.strip_prefix('#') {
                Some(bytes) => node.send(client, false, bytes.as_bytes()),
                None => node.send(client, true, message.as_bytes()),
            }
        }
        for (name, client) in &names {
            for received in node.received(*client) {
                played += &format!("    {name} hears: {received}\n");
            }
            if let Some(code) = node.end(*client) {
                played += &format!("{name} ends: {}\n", code.slug());
            }
        }
    }
    played
}
