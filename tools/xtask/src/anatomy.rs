//! The same duties are found in files of the same names in every protocol.
//!
//! Relies on names of files and constants. Invariants: a protocol that does not have a duty stands in
//! `WITHOUT` with the reason; the session's state diagram opens `session.rs`; every constant that ends in
//! `_MAX` is defined in `limits.rs`.

use crate::lexis::{code, without_tests};
use crate::{Finding, Tree};

/// Every duty, by the file that has it.
const DUTIES: &[(&str, &str)] = &[
    ("options.rs", "what the server's owner can set"),
    ("limits.rs", "every constant limit, with its reason"),
    ("session.rs", "the session and its states"),
    ("session/connect.rs", "the opening: versions, login, refusal"),
    ("session/subscribe.rs", "subscriptions and their ends"),
    ("session/publish.rs", "publishing"),
    ("session/deliver.rs", "messages on their way to the client"),
    ("session/deltas.rs", "values as differences"),
    ("session/exchange.rs", "calls and conversations"),
    ("session/operate.rs", "operations on topics"),
    ("session/subscriptions.rs", "the table of subscriptions"),
];

/// Duties that a protocol does not have, or has elsewhere, and why.
const WITHOUT: &[(&str, &str, &str)] = &[
    ("stomp", "session/exchange.rs", "STOMP has no calls: requests are messages with `reply-to`"),
    ("rsocket", "session/subscriptions.rs", "a subscription is a stream: `streams.rs`"),
    (
        "engineio",
        "session/connect.rs",
        "a carrier of other protocols: the opening is in `session/handshake.rs`",
    ),
    ("engineio", "session/subscribe.rs", CARRIES),
    ("engineio", "session/publish.rs", CARRIES),
    ("engineio", "session/deliver.rs", CARRIES),
    ("engineio", "session/deltas.rs", CARRIES),
    ("engineio", "session/exchange.rs", CARRIES),
    ("engineio", "session/operate.rs", CARRIES),
    ("engineio", "session/subscriptions.rs", CARRIES),
    ("events", "session/connect.rs", "every request logs in: `credentials.rs` and `session.rs`"),
    ("events", "session/subscribe.rs", ONE_REQUEST),
    ("events", "session/publish.rs", ONE_REQUEST),
    ("events", "session/deliver.rs", "a value is delivered in `value.rs`, a stream in `stream.rs`"),
    ("events", "session/deltas.rs", "Server-Sent Events are text, which deltas are not"),
    ("events", "session/exchange.rs", ONE_REQUEST),
    ("events", "session/operate.rs", ONE_REQUEST),
    ("events", "session/subscriptions.rs", "a session has one subscription"),
];
const CARRIES: &str = "a carrier of other protocols: the session inside does it";
const ONE_REQUEST: &str = "a session is one request, which `start.rs` turns into its command";

/// The only file of a protocol in which constants that end in `_MAX` are defined.
const LIMITS: &str = "limits.rs";

/// Duties without their file, rows without a use, heads without a diagram, limits elsewhere.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, DUTIES, WITHOUT)
}

fn check_against(
    tree: &Tree,
    duties: &[(&str, &str)],
    without: &[(&str, &str, &str)],
) -> Vec<Finding> {
    let protocols = protocols(tree);
    let mut findings = misspelt(&protocols, duties, without);
    for protocol in protocols {
        for (file, duty) in duties {
            let path = format!("protocols/{protocol}/src/{file}");
            let excused = without.iter().any(|(who, what, _)| *who == protocol && what == file);
            match (tree.file(&path).is_some(), excused) {
                (false, false) => findings.push(Finding::in_file(
                    &path,
                    format!("is missing; it has {duty}"),
                    "name the file so, or say in WITHOUT of tools/xtask/src/anatomy.rs why there is none",
                )),
                (true, true) => findings.push(Finding::in_file(
                    &path,
                    "is there, and WITHOUT says that it is not",
                    "remove the row from tools/xtask/src/anatomy.rs",
                )),
                _ => {}
            }
        }
        let session = tree.file(&format!("protocols/{protocol}/src/session.rs"));
        if let Some(file) = session.filter(|file| !has_diagram(&file.text)) {
            findings.push(Finding::in_file(
                &file.path,
                "does not open with a diagram of the session's states",
                "draw it in the head, between `//! ```text` and `//! ```",
            ));
        }
        findings.extend(limits_elsewhere(tree, &protocol));
    }
    findings
}

/// Rows that excuse a protocol that is not there, or the lack of what is no duty.
fn misspelt(
    protocols: &[String],
    duties: &[(&str, &str)],
    without: &[(&str, &str, &str)],
) -> Vec<Finding> {
    let is_known = |protocol: &str, file: &str| {
        protocols.iter().any(|known| known == protocol)
            && duties.iter().any(|(duty, _)| *duty == file)
    };
    let unknown = without.iter().filter(|(protocol, file, _)| !is_known(protocol, file));
    let finding = |(protocol, file, _): &(&str, &str, &str)| {
        Finding::in_file(
            "tools/xtask/src/anatomy.rs",
            format!("WITHOUT excuses {protocol} from {file}, which are no protocol and its duty"),
            "correct the row, or remove it",
        )
    };
    unknown.map(finding).collect()
}

/// The folders below `protocols/` that are crates.
fn protocols(tree: &Tree) -> Vec<String> {
    let crates = tree.files.iter().filter_map(|file| {
        let name = file.path.strip_prefix("protocols/")?.strip_suffix("/src/lib.rs")?;
        Some(name.to_owned())
    });
    crates.collect()
}

fn has_diagram(text: &str) -> bool {
    let head = text.lines().take_while(|line| line.starts_with("//!"));
    let head: Vec<&str> = head.collect();
    head.contains(&"//! ```text") && head.iter().any(|line| line.contains('▶'))
}

fn limits_elsewhere(tree: &Tree, protocol: &str) -> Vec<Finding> {
    let sources = format!("protocols/{protocol}/src/");
    let limits = format!("{sources}{LIMITS}");
    let mut findings = Vec::new();
    let files = tree.files.iter().filter(|file| file.path.starts_with(&sources));
    for file in files.filter(|file| file.path != limits && file.path.ends_with(".rs")) {
        for (index, line) in without_tests(&code(&file.text)).lines().enumerate() {
            // Constants of types are values of a specification.
            if line.starts_with(' ') {
                continue;
            }
            let name = line.split_once("const ").and_then(|(_, rest)| rest.split(':').next());
            if name.is_some_and(|name| name.ends_with("_MAX")) {
                findings.push(Finding::at_line(
                    &file.path,
                    index + 1,
                    "defines a limit",
                    "define it in the protocol's limits.rs, with its reason",
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "//! The session.\n//!\n//! ```text\n//!   A ─▶ B\n//! ```\n";

    fn findings(files: &[(&str, &str)], without: &[(&str, &str, &str)]) -> usize {
        let duties = [("session.rs", "the session"), ("options.rs", "options")];
        check_against(&Tree::of(files), &duties, without).len()
    }

    #[test]
    fn what_is_missing_superfluous_or_elsewhere_is_found() {
        let lib = ("protocols/a/src/lib.rs", "//! A.\n");
        let session = ("protocols/a/src/session.rs", HEAD);
        let options = ("protocols/a/src/options.rs", "//! Options.\n");
        let without = [("a", "options.rs", "there is nothing to set")];
        assert_eq!(findings(&[lib, session, options], &[]), 0);
        assert_eq!(findings(&[lib, session], &without), 0);
        assert_eq!(findings(&[lib, session], &[]), 1, "a duty without its file");
        assert_eq!(findings(&[lib, session, options], &without), 1, "a row without a use");
        for misspelt in [("b", "options.rs", "so"), ("a", "option.rs", "so")] {
            assert_eq!(findings(&[lib, session, options], &[misspelt]), 1, "{misspelt:?}");
        }
        let plain = ("protocols/a/src/session.rs", "//! The session.\n");
        assert_eq!(findings(&[lib, plain, options], &[]), 1, "no diagram");
        let limit = ("protocols/a/src/x.rs", "//! X.\npub(crate) const BYTES_MAX: usize = 1;\n");
        assert_eq!(findings(&[lib, session, options, limit], &[]), 1, "a limit elsewhere");
        let code =
            ("protocols/a/src/x.rs", "//! X.\nimpl Code {\n    pub const A_MAX: u8 = 1;\n}\n");
        assert_eq!(findings(&[lib, session, options, code], &[]), 0);
        let limits = ("protocols/a/src/limits.rs", limit.1);
        let tests =
            ("protocols/a/src/x.rs", "//! X.\n#[cfg(test)]\nmod tests { const A_MAX: u8 = 1; }\n");
        assert_eq!(findings(&[lib, session, options, limits, tests], &[]), 0);
    }
}
