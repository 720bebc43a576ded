//! The walls inside the broker.
//!
//! Relies on the names of its files and fields. Invariants: messages between rooms take one way, which
//! one file knows; the broker has no more fields than `FIELDS`, of which no more than `VISIBLE` can be
//! seen outside their file, and both numbers may only become smaller; no other room sees a field of a
//! room in `ROOMS`; in folders of rooms all structs keep their fields to themselves but for those in `OPEN`,
//! which may only become fewer.

use crate::lexis::{code, without_tests};
use crate::{Finding, Tree};

/// Fields of the broker, and those of them that other files see.
const FIELDS: usize = 15;
const VISIBLE: usize = 0;

/// Folders of rooms in which no struct shows its fields.
const CLOSED: &[&str] = &["core/broker/src/home/"];
/// Structs of rooms whose fields others see: what is handed from room to room.
const OPEN: &[&str] = &[
    "Address",
    "Calling",
    "Kept",
    "LockAnswer",
    "NewSnapshot",
    "Page",
    "Responding",
    "Topics",
    "TopicsRequest",
];

const BROKER: &str = "core/broker/src/broker.rs";
/// The only file that knows how a message goes to another room.
const LOOPBACK: &str = "core/broker/src/loopback.rs";

/// Rooms whose state is their own: files beside theirs in the same folder may see it, others may not.
const ROOMS: &[(&str, &str)] = &[
    ("core/broker/src/delivery/mod.rs", "Deliveries"),
    ("core/broker/src/directory.rs", "Directory"),
    ("core/broker/src/exchange/mod.rs", "Exchanges"),
    ("core/broker/src/fanout.rs", "Fanout"),
    ("core/broker/src/home/mod.rs", "Home"),
    ("core/broker/src/journal/mod.rs", "HomeJournal"),
    ("core/broker/src/notices/mod.rs", "Notices"),
    ("core/broker/src/sessions.rs", "Sessions"),
    ("core/broker/src/topic_subscribers.rs", "TopicSubscribers"),
    ("core/broker/src/views/mod.rs", "Views"),
];

/// Messages that go past the list, a broker that has grown, and rooms that show their state.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = check_against(tree, FIELDS, VISIBLE);
    findings.extend(visible_state(tree, ROOMS));
    findings.extend(check_closed(tree, OPEN));
    findings
}

/// Fields of rooms that can be seen from outside, and rooms that are not there.
fn visible_state(tree: &Tree, rooms: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, room) in rooms {
        let file = tree.files.iter().find(|file| file.path == *path);
        let fields = file.map(|file| fields(&file.text, room)).unwrap_or_default();
        if fields.is_empty() {
            findings.push(Finding::in_file(
                path,
                format!("the room {room} is not here"),
                "write where it is to ROOMS in tools/xtask/src/rooms.rs",
            ));
        }
        findings.extend(fields.iter().filter(|field| field.starts_with("pub")).map(|field| {
            Finding::in_file(
                path,
                format!("other rooms can see `{field}` of {room}"),
                "make it private, and give the room a method that says what is to be done",
            )
        }));
    }
    findings
}

/// Fields of rooms that others see, and rows of the table that nothing needs.
fn check_closed(tree: &Tree, open: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = Vec::new();
    for file in &tree.files {
        if !CLOSED.iter().any(|room| file.path.starts_with(room)) {
            continue;
        }
        for name in open_structs(&without_tests(&code(&file.text))) {
            if !open.contains(&name.as_str()) {
                findings.push(Finding::in_file(
                    &file.path,
                    format!("`{name}` belongs to a room, and others see its fields"),
                    "make the fields private, and give the struct a method for what others need",
                ));
            }
            found.push(name);
        }
    }
    for name in open.iter().filter(|name| !found.iter().any(|known| known == *name)) {
        findings.push(Finding::in_file(
            "tools/xtask/src/rooms.rs",
            format!("`{name}` has no fields that others see any more"),
            "take it out of OPEN, so that it stays so",
        ));
    }
    findings
}

/// The structs with named fields of which some are visible outside their file.
fn open_structs(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("struct ") {
        if code[..at].chars().next_back().is_some_and(|before| !before.is_whitespace()) {
            continue;
        }
        let rest = &code[at + "struct ".len()..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        // Parentheses may also stand in the bounds of generics and behind `where`.
        let rest = behind_generics(rest).trim_start();
        if rest.starts_with([';', '(']) {
            continue;
        }
        let Some((_, body)) = rest.split_once('{') else { continue };
        let body = body.split_once('}').map_or(body, |(body, _)| body);
        if body.lines().any(|line| line.trim().starts_with("pub")) {
            found.push(name.to_owned());
        }
    }
    found
}

/// What follows the generics that a text begins with, if it does.
fn behind_generics(text: &str) -> &str {
    let mut depth = 0usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return &text[if c == '>' { at + 1 } else { at }..];
        }
        before = c;
    }
    ""
}

fn check_against(tree: &Tree, most: usize, most_visible: usize) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree
        .files
        .iter()
        .filter(|file| file.path.starts_with("core/broker/src/") && file.path != LOOPBACK)
        .filter(|file| without_tests(&code(&file.text)).contains(".messages.push("))
        .map(|file| {
            Finding::in_file(
                &file.path,
                "pushes a message to `Effects::messages` by itself",
                "call `send` of the side of the shard, which also takes messages to this shard, in order",
            )
        })
        .collect();
    let Some(file) = tree.files.iter().find(|file| file.path == BROKER) else { return findings };
    let fields = fields(&file.text, "Broker");
    let visible = fields.iter().filter(|field| field.starts_with("pub")).count();
    for (what, is, most) in
        [("fields", fields.len(), most), ("fields that other files see", visible, most_visible)]
    {
        if is > most {
            findings.push(Finding::in_file(
                BROKER,
                format!("the broker has {is} {what}; at most {most} are allowed"),
                "give the state to the room that owns it, in a struct with private fields",
            ));
        }
        if is < most {
            findings.push(Finding::in_file(
                BROKER,
                format!("the broker has {is} {what}, and {most} are allowed"),
                "write the smaller number to tools/xtask/src/rooms.rs, so that it stays so",
            ));
        }
    }
    findings
}

/// The lines that declare a field of a struct.
fn fields(text: &str, name: &str) -> Vec<String> {
    let code = code(text);
    let body = code.split_once(&format!("struct {name} {{")).map_or("", |(_, rest)| rest);
    let body = body.split_once("\n}").map_or("", |(body, _)| body);
    let lines = body.lines().map(str::trim).filter(|line| line.contains(": "));
    lines.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::File;

    fn findings(broker: &str, other: &str) -> Vec<Finding> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = vec![
            file(BROKER, broker),
            file("core/broker/src/lock.rs", other),
            file(LOOPBACK, "effects.messages.push(Envelope { to });"),
        ];
        check_against(&Tree { files }, 2, 1)
    }

    const BROKER_OF_TWO: &str =
        "pub struct Broker {\n    pub(crate) a: u8,\n    /// Not: a field.\n    b: Map<A, B>,\n}\n";

    #[test]
    fn walls_that_stand_are_found_standing() {
        let tested = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { effects.messages.push(x) } }";
        assert!(findings(BROKER_OF_TWO, tested).is_empty());
    }

    #[test]
    fn a_message_that_goes_past_the_list_is_found() {
        assert_eq!(findings(BROKER_OF_TWO, "fn a() { effects.messages.push(x) }").len(), 1);
    }

    fn room(text: &str, open: &[&str]) -> Vec<Finding> {
        let path = "core/broker/src/home/locks.rs".to_owned();
        check_closed(&Tree { files: vec![File { path, text: text.to_owned() }] }, open)
    }

    #[test]
    fn a_field_of_a_room_that_others_see_is_found() {
        let closed = "/// pub x: u8\npub(crate) struct Locks {\n    by_name: Map<A, B>,\n}\nstruct Key(pub u8);\nimpl Locks {\n    pub fn a() {}\n}\n";
        assert!(room(closed, &[]).is_empty());
        let opened = closed.replace("    by_name", "    pub(crate) by_name");
        assert_eq!(room(&opened, &[]).len(), 1);
        assert!(room(&opened, &["Locks"]).is_empty());
        assert_eq!(room(closed, &["Locks"]).len(), 1, "the row is not needed any more");
    }

    #[test]
    fn fields_are_found_behind_any_generics() {
        for generics in ["", "<T>", "<F: Fn(u8) -> Option<u8>>", "<T> where T: Fn(u8) -> u8"] {
            let text = format!("struct Seen{generics} {{\n    pub(crate) of: u8,\n}}\n");
            assert_eq!(room(&text, &[]).len(), 1, "{generics}");
            let text = text.replace("pub(crate) ", "");
            assert_eq!(room(&text, &[]), [], "{generics}");
        }
        for tuple in
            ["struct One<F: Fn(u8)>(F);", "struct One;", "struct One<T>(T) where T: Fn(u8);"]
        {
            let text = format!("{tuple}\nimpl One {{\n    pub fn f() {{}}\n}}\n");
            assert_eq!(room(&text, &[]), [], "{tuple}");
        }
    }

    #[test]
    fn a_field_more_and_a_field_less_are_found() {
        let more = BROKER_OF_TWO.replace("}\n", "    c: u8,\n}\n");
        assert_eq!(findings(&more, "").len(), 1);
        let seen = BROKER_OF_TWO.replace("    b:", "    pub(crate) b:");
        assert_eq!(findings(&seen, "").len(), 1);
        let less = BROKER_OF_TWO.replace("    b: Map<A, B>,\n", "");
        assert_eq!(findings(&less, "").len(), 1);
    }

    #[test]
    fn a_room_that_shows_its_state_or_has_moved_is_found() {
        let text = "pub(crate) struct Home {\n    topics: Map<A, B>,\n}\n";
        let found = |text: &str, path: &str| {
            let file = File { path: "home.rs".to_owned(), text: text.to_owned() };
            visible_state(&Tree { files: vec![file] }, &[(path, "Home")]).len()
        };
        assert_eq!(found(text, "home.rs"), 0);
        assert_eq!(found(&text.replace("topics", "pub(crate) topics"), "home.rs"), 1);
        assert_eq!(found(text, "elsewhere.rs"), 1);
    }
}
