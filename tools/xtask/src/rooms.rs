//! The walls inside the broker.
//!
//! Relies on the names of its files and fields. Invariants: messages between rooms take one way, which
//! one file knows; the broker has no more fields than `FIELDS`, of which no more than `VISIBLE` can be
//! seen outside their file, and both numbers may only become smaller.

use crate::lexis::{code, without_tests};
use crate::{Finding, Tree};

/// Fields of the broker, and those of them that other files see.
const FIELDS: usize = 44;
const VISIBLE: usize = 41;

const BROKER: &str = "core/broker/src/broker.rs";
/// The only file that knows how a message goes to another room.
const LOOPBACK: &str = "core/broker/src/loopback.rs";

/// Messages that go past the list, and a broker that has grown.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, FIELDS, VISIBLE)
}

fn check_against(tree: &Tree, most: usize, most_visible: usize) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree
        .files
        .iter()
        .filter(|file| file.path.starts_with("core/broker/src/") && file.path != LOOPBACK)
        .filter(|file| without_tests(&code(&file.text)).contains(".mail.push("))
        .map(|file| {
            Finding::in_file(
                &file.path,
                "pushes a message to `Effects::mail` by itself",
                "call `Broker::send`, which also takes messages to this shard, in order",
            )
        })
        .collect();
    let Some(file) = tree.files.iter().find(|file| file.path == BROKER) else { return findings };
    let fields = fields(&file.text);
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

/// The lines that declare a field of the broker.
fn fields(text: &str) -> Vec<String> {
    let code = code(text);
    let body = code.split_once("pub struct Broker {").map_or("", |(_, rest)| rest);
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
            file(LOOPBACK, "effects.mail.push((to, mail));"),
        ];
        check_against(&Tree { files }, 2, 1)
    }

    const BROKER_OF_TWO: &str =
        "pub struct Broker {\n    pub(crate) a: u8,\n    /// Not: a field.\n    b: Map<A, B>,\n}\n";

    #[test]
    fn walls_that_stand_are_found_standing() {
        let tested = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { effects.mail.push(x) } }";
        assert!(findings(BROKER_OF_TWO, tested).is_empty());
    }

    #[test]
    fn a_message_that_goes_past_the_list_is_found() {
        assert_eq!(findings(BROKER_OF_TWO, "fn a() { effects.mail.push(x) }").len(), 1);
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
}
