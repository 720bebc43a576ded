//! The sides of a shard: its home with its views upon it, and its sessions with notices and exchanges upon them.
//!
//! Relies on the names of the rooms, and on `impl` blocks that end with a brace at the beginning of a line. Invariants:
//! no field of a side is of a room that the side may not know; no side is larger than `LINES_MAX`; the wiring alone
//! makes a side, and has methods of the whole broker, but for the files in `WHOLE`, which may only become fewer;
//! every side is in `SIDES`.

use crate::lexis::{code, has_word, without_tests};
use crate::{Finding, Tree};

/// A side: where it is, and the rooms that it may not know.
struct Side {
    path: &'static str,
    name: &'static str,
    unknown: &'static [&'static str],
}

const SIDES: &[Side] = &[
    Side {
        path: "core/broker/src/home_side.rs",
        name: "HomeSide",
        unknown: &[
            "Broker",
            "Deliveries",
            "ExchangeSide",
            "Exchanges",
            "Fanout",
            "NoticeSide",
            "Notices",
            "SessionSide",
            "Sessions",
            "ViewSide",
            "Views",
        ],
    },
    Side {
        path: "core/broker/src/loss_side.rs",
        name: "LossSide",
        unknown: &[
            "Broker",
            "Deliveries",
            "ExchangeSide",
            "Exchanges",
            "Fanout",
            "NoticeSide",
            "Notices",
            "SessionSide",
            "Sessions",
            "ViewSide",
            "Views",
        ],
    },
    Side {
        path: "core/broker/src/deputy_side.rs",
        name: "DeputySide",
        unknown: &[
            "Broker",
            "Deliveries",
            "ExchangeSide",
            "Exchanges",
            "Fanout",
            "NoticeSide",
            "Notices",
            "SessionSide",
            "Sessions",
            "ViewSide",
            "Views",
        ],
    },
    Side {
        path: "core/broker/src/session_side.rs",
        name: "SessionSide",
        unknown: &[
            "Broker",
            "ExchangeSide",
            "Exchanges",
            "Home",
            "HomeJournal",
            "HomeSide",
            "NoticeSide",
            "Notices",
            "ViewSide",
            "Views",
        ],
    },
    Side {
        path: "core/broker/src/notice_side.rs",
        name: "NoticeSide",
        unknown: &[
            "Broker",
            "ExchangeSide",
            "Exchanges",
            "Home",
            "HomeJournal",
            "HomeSide",
            "ViewSide",
            "Views",
        ],
    },
    Side {
        path: "core/broker/src/exchange_side.rs",
        name: "ExchangeSide",
        unknown: &[
            "Broker",
            "Home",
            "HomeJournal",
            "HomeSide",
            "NoticeSide",
            "Notices",
            "ViewSide",
            "Views",
        ],
    },
    Side {
        path: "core/broker/src/recall_side.rs",
        name: "RecallSide",
        unknown: &[
            "Broker",
            "Exchanges",
            "ExchangeSide",
            "Home",
            "HomeJournal",
            "HomeSide",
            "NoticeSide",
            "Notices",
            "ViewSide",
            "Views",
        ],
    },
    Side {
        path: "core/broker/src/view_side.rs",
        name: "ViewSide",
        unknown: &[
            "Broker",
            "Deliveries",
            "ExchangeSide",
            "Exchanges",
            "Fanout",
            "NoticeSide",
            "Notices",
            "SessionSide",
            "Sessions",
        ],
    },
];

/// How many lines the methods of one side may have, over all files.
const LINES_MAX: usize = 4_500;

/// The files that see all rooms.
const WIRING: &[&str] = &["core/broker/src/broker.rs", "core/broker/src/broker/"];
/// Other files with methods of the whole broker.
const WHOLE: &[&str] = &[];

/// Sides that know too much or are too large, and files besides the wiring that see the whole broker.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = check_fields(tree, SIDES);
    findings.extend(check_sizes(tree, SIDES, LINES_MAX));
    findings.extend(check_wiring(tree, WHOLE));
    findings.extend(check_listed(tree, SIDES));
    findings
}

/// Sides of which nothing is said here.
fn check_listed(tree: &Tree, sides: &[Side]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_of_broker(&file.path)) {
        for declared in code(&file.text).split("struct ").skip(1) {
            let name: String = declared.chars().take_while(|c| c.is_alphanumeric()).collect();
            let listed = sides.iter().any(|side| side.name == name && side.path == file.path);
            if name.ends_with("Side") && !listed {
                findings.push(Finding::in_file(
                    &file.path,
                    format!("{name} is a side that SIDES does not know"),
                    "write it to SIDES in tools/xtask/src/sides.rs, with the rooms that it may not know",
                ));
            }
        }
    }
    findings
}

/// Fields of rooms that a side may not know, and sides that are not there.
fn check_fields(tree: &Tree, sides: &[Side]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Side { path, name, unknown } in sides {
        let file = tree.files.iter().find(|file| file.path == *path);
        let text = file.map(|file| code(&file.text)).unwrap_or_default();
        let body = text.split_once(&format!("struct {name}<")).map_or("", |(_, rest)| rest);
        let body = body.split_once("\n}").map_or("", |(body, _)| body);
        if body.is_empty() {
            findings.push(Finding::in_file(
                path,
                format!("{name} is not here"),
                "write where it is to SIDES in tools/xtask/src/sides.rs",
            ));
        }
        let known = unknown.iter().filter(|room| has_word(body, room));
        findings.extend(known.map(|room| {
            Finding::in_file(
                path,
                format!("{name} has a field of {room}"),
                "send a message, or let the wiring hand on what a method returns",
            )
        }));
    }
    findings
}

/// Sides whose methods have more lines than that.
fn check_sizes(tree: &Tree, sides: &[Side], most: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Side { path, name, .. } in sides {
        let inside = tree.files.iter().filter(|file| is_of_broker(&file.path));
        let lines: usize = inside.map(|file| lines_of(name, &file.text)).sum();
        if lines > most {
            findings.push(Finding::in_file(
                path,
                format!("the methods of {name} have {lines} lines, {most} are allowed"),
                "give a room that few of them touch a side of its own upon this one",
            ));
        }
    }
    findings
}

/// The lines of a type's `impl` blocks in a file.
fn lines_of(name: &str, text: &str) -> usize {
    let (name, mut lines, mut inside) = (format!(" {name}<"), 0, false);
    for line in text.lines() {
        let begins = line.starts_with("impl") && line.contains(&name);
        inside |= begins;
        lines += usize::from(inside);
        inside &= !(line.starts_with('}') || begins && line.ends_with("{}"));
    }
    lines
}

/// Whether a file has code of the broker, and not tests alone.
fn is_of_broker(path: &str) -> bool {
    path.starts_with("core/broker/src/") && !path.ends_with("/tests.rs")
}

/// Files besides the wiring that see the whole broker or make a side, and rows of the table that are not needed.
fn check_wiring(tree: &Tree, whole: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = Vec::new();
    for file in &tree.files {
        if !is_of_broker(&file.path) || WIRING.iter().any(|wiring| file.path.starts_with(wiring)) {
            continue;
        }
        let text = without_tests(&code(&file.text));
        if text.contains("impl Broker {") {
            found.push(file.path.as_str());
            if !whole.contains(&file.path.as_str()) {
                findings.push(Finding::in_file(
                    &file.path,
                    "has methods of the whole broker",
                    "make them methods of a side or of a room, and let the wiring call them",
                ));
            }
        }
        let makes = |name: &str| {
            let declared = text.contains(&format!("struct {name}<"));
            !declared && text.contains(&format!("{name} {{"))
        };
        if SIDES.iter().any(|side| makes(side.name)) || text.contains("_side()") {
            findings.push(Finding::in_file(
                &file.path,
                "makes a side of the shard",
                "let the wiring in core/broker/src/broker/sides.rs make it",
            ));
        }
    }
    for path in whole.iter().filter(|path| !found.contains(path)) {
        findings.push(Finding::in_file(
            "tools/xtask/src/sides.rs",
            format!("{path} has no methods of the whole broker any more"),
            "take it out of WHOLE, so that it stays so",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::File;

    fn tree(path: &str, text: &str) -> Tree {
        Tree { files: vec![File { path: path.to_owned(), text: text.to_owned() }] }
    }

    const SIDE: &[Side] =
        &[Side { path: "side.rs", name: "HomeSide", unknown: &["Home", "Sessions"] }];
    const TEXT: &str = "/// Not: Sessions.\npub(crate) struct HomeSide<'a> {\n    pub(crate) journal: &'a mut HomeJournal,\n}\nfn of(sessions: Sessions) {}\n";

    #[test]
    fn a_side_that_knows_what_it_may_is_fine() {
        assert!(check_fields(&tree("side.rs", TEXT), SIDE).is_empty());
    }

    #[test]
    fn a_field_of_a_room_behind_the_wall_is_found() {
        let more = TEXT.replace("\n}\nfn", "\n    sessions: &'a mut Sessions,\n}\nfn");
        assert_eq!(check_fields(&tree("side.rs", &more), SIDE).len(), 1);
        assert_eq!(check_fields(&tree("elsewhere.rs", TEXT), SIDE).len(), 1, "it is not there");
    }

    #[test]
    fn a_side_that_is_too_large_is_found() {
        // Four lines and one.
        let text = "impl HomeSide<'_> {\n    fn a(&self) {}\n    fn b(&self) {}\n}\n\nimpl Default for HomeSide<'_> {}\n\nfn b() {\n}\n";
        let found = |path: &str, most: usize| check_sizes(&tree(path, text), SIDE, most).len();
        assert_eq!(found("core/broker/src/lock.rs", 5), 0);
        assert_eq!(found("core/broker/src/lock.rs", 4), 1);
        assert_eq!(found("core/broker/src/home/tests.rs", 4), 0);
        let other = text.replace("HomeSide", "ViewSide");
        assert_eq!(check_sizes(&tree("core/broker/src/lock.rs", &other), SIDE, 0).len(), 0);
    }

    #[test]
    fn a_side_that_is_not_listed_is_found() {
        let sides =
            &[Side { path: "core/broker/src/home_side.rs", name: "HomeSide", unknown: &[] }];
        let found = |path: &str| check_listed(&tree(path, TEXT), sides).len();
        assert_eq!(found("core/broker/src/home_side.rs"), 0);
        assert_eq!(found("core/broker/src/lock.rs"), 1);
        let more = TEXT.replace("HomeSide", "LockSide");
        assert_eq!(check_listed(&tree("core/broker/src/home_side.rs", &more), sides).len(), 1);
    }

    #[test]
    fn methods_of_the_whole_broker_are_found_outside_the_wiring() {
        let text = "impl Broker {\n    fn a(&self) {}\n}\n";
        let found =
            |path: &str, text: &str, whole: &[&str]| check_wiring(&tree(path, text), whole).len();
        assert_eq!(found("core/broker/src/lock.rs", text, &[]), 1);
        assert_eq!(found("core/broker/src/lock.rs", text, &["core/broker/src/lock.rs"]), 0);
        assert_eq!(found("core/broker/src/broker/turns.rs", text, &[]), 0);
        assert_eq!(found("core/broker/src/lock.rs", "", &["core/broker/src/lock.rs"]), 1);
        let tested = "#[cfg(test)]\nmod tests { fn a() { broker.session_side() } }";
        assert_eq!(found("core/broker/src/lock.rs", tested, &[]), 0);
    }

    #[test]
    fn a_side_that_is_made_outside_the_wiring_is_found() {
        let found = |text: &str| check_wiring(&tree("core/broker/src/lock.rs", text), &[]).len();
        assert_eq!(found("fn a(broker: &mut Broker) { broker.home_side().lock() }"), 1);
        assert_eq!(found("fn a() { HomeSide { shard } }"), 1);
        assert_eq!(found("impl HomeSide<'_> { fn a(&self) {} }"), 0);
    }
}
