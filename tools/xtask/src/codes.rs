//! Protocols look up in the table of codes what an error means to them; they do not decide by themselves.
//!
//! Relies on codes written `CloseCode::Name`. A protocol may make an error with any code. Invariant: no
//! protocol asks which code an error has, reads the table past its methods, or writes a status of HTTP
//! beside a code, but for the files in `EXCEPT`.

use crate::lexis::{code, without_tests};
use crate::{Finding, Tree};

/// Files that ask for single codes, and why the table cannot say what they need.
const EXCEPT: &[(&str, &str)] = &[
    (
        "protocols/native/src/upstream/exchange.rs",
        "a responder's own words are for its caller as they are, unlike what the upstream says itself",
    ),
    (
        "protocols/rsocket/src/session/faults.rs",
        "its counters tell which limit a request met, and RSocket has a code of its own for a server that stops",
    ),
];

const TABLE: &str = "CLOSE_CODES";
const CODE: &str = "CloseCode";
const INSTEAD: &str =
    "ask a method of `CloseCode` or `Close` for what the table in core/base/src/close.rs says";

/// Files of protocols that decide by themselves, and rows of the table that nothing needs.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, EXCEPT)
}

fn check_against(tree: &Tree, except: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut needed = Vec::new();
    for file in &tree.files {
        let is_protocol = file.path.starts_with("protocols/") && file.path.contains("/src/");
        if !is_protocol || !file.path.ends_with(".rs") {
            continue;
        }
        let code = without_tests(&code(&file.text));
        let mut found: Vec<(usize, &str)> = decisions(&code);
        found.sort_unstable();
        if except.iter().any(|(path, _)| *path == file.path) {
            if !found.is_empty() {
                needed.push(file.path.as_str());
            }
            continue;
        }
        findings.extend(found.into_iter().map(|(at, what)| {
            let line = code[..at].matches('\n').count() + 1;
            Finding::at_line(&file.path, line, what, INSTEAD)
        }));
    }
    for (path, _) in except.iter().filter(|(path, _)| !needed.contains(path)) {
        findings.push(Finding::in_file(
            path,
            "asks for no single code, and EXCEPT says that it does",
            "remove the row from tools/xtask/src/codes.rs",
        ));
    }
    findings
}

/// Where code asks which code an error has, and how.
fn decisions(code: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    found.extend(words(code, TABLE).map(|at| (at, "reads the table of codes by itself")));
    for (at, _) in code.match_indices(".slug()") {
        let after = code[at + ".slug()".len()..].trim_start();
        if compares(after) || after.starts_with('{') {
            found.push((at, "compares the short name of a code"));
        }
    }
    for at in words(code, CODE) {
        let after = &code[at + CODE.len()..];
        if is_imported(code, at) && (after.starts_with("::") || after.starts_with(" as ")) {
            found.push((at, "imports codes under names that hide what they are"));
        } else if let Some(name) = after.strip_prefix("::") {
            let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
            if asks(&code[..at], name[end..].trim_start()) {
                found.push((at, "decides by itself what a code means"));
            } else if has_status(&code[..at]) {
                found.push((at, "writes a status beside a code"));
            }
        }
    }
    found
}

/// The places of a whole word.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        !code[..*at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part)
    })
}

/// Whether what stands there belongs to a `use` line.
fn is_imported(code: &str, at: usize) -> bool {
    let line = &code[code[..at].rfind(';').map_or(0, |end| end + 1)..at];
    let line = line.rsplit('\n').find(|line| line.contains("use ")).unwrap_or_default();
    line.trim_start().starts_with("use ") || line.trim_start().starts_with("pub")
}

/// Whether a code between these two texts is a pattern, or is compared.
fn asks(before: &str, after: &str) -> bool {
    let before = before.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let before = before.trim_end();
    let is_pattern = after.starts_with("=>")
        || after.starts_with("if ")
        || after.starts_with('|') && !after.starts_with("||")
        || after.starts_with('=') && !after.starts_with("==");
    is_pattern
        || compares(after)
        || before.ends_with("==")
        || before.ends_with("!=")
        || is_within_matches(before)
}

fn compares(after: &str) -> bool {
    after.starts_with("==") || after.starts_with("!=")
}

/// Whether a text ends inside the parentheses of a `matches!`.
fn is_within_matches(before: &str) -> bool {
    let Some((_, inside)) = before.rsplit_once("matches!(") else { return false };
    let mut depth = 1i32;
    for c in inside.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 {
            return false;
        }
    }
    true
}

/// Whether a number is the argument before.
fn has_status(before: &str) -> bool {
    let before = before.trim_end().strip_suffix(',').unwrap_or_default();
    let start = before.trim_end_matches(|c: char| c.is_ascii_digit());
    before.len() - start.len() == 3 && start.ends_with(['(', ' ', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "protocols/stomp/src/session.rs";

    fn found(text: &str) -> usize {
        check_against(&Tree::of(&[(FILE, text)]), &[]).len()
    }

    #[test]
    fn errors_may_be_made_with_any_code() {
        for text in [
            "use tiderace_base::{Close, CloseCode};",
            "return Err(CloseCode::BadText.into());",
            "text.map_err(|_| CloseCode::BadText)?;",
            "let code = match error { E::A => CloseCode::BadText, _ => CloseCode::BadFrame };",
            "context.finish(CloseCode::Done);",
            "if close.code.is_silent() { write(close.code.slug()); }",
            "Fault::new(CloseCode::BadText, text)",
            "let is = matches!(kind, Kind::A); let code = CloseCode::BadText;",
            "// match code { CloseCode::Done => 1 }",
            "#[cfg(test)] mod tests { fn f() { assert!(code == CloseCode::Done); } }",
        ] {
            assert_eq!(found(text), 0, "{text}");
        }
    }

    #[test]
    fn a_protocol_that_decides_by_itself_is_found() {
        for text in [
            "match code { CloseCode::LoginFailed => 401, _ => 400 }",
            "match code { tiderace_base::CloseCode::LoginFailed if x => 401, _ => 400 }",
            "match code { CloseCode::LoginFailed\n | OTHER => 401, _ => 400 }",
            "if close.code == CloseCode::Done { return; }",
            "if CloseCode::Done != close.code { return; }",
            "if matches!(close.code, CloseCode::Done) { return; }",
            "if let CloseCode::Done = close.code { return; }",
            "use tiderace_base::CloseCode::{Done, PeerGone};",
            "    use tiderace_base::CloseCode::Done;",
            "use tiderace_base::{Close, CloseCode as Code};",
            "let row = CLOSE_CODES.get(code.index());",
            "if close.code.slug() == NAME { return; }",
            "Fault::new(413, CloseCode::FrameTooLarge.slug(), text)",
        ] {
            assert_eq!(found(text), 1, "{text}");
        }
    }

    #[test]
    fn a_row_that_nothing_needs_is_found() {
        let tree = Tree::of(&[(FILE, "if close.code == CloseCode::Done { return; }")]);
        assert_eq!(check_against(&tree, &[(FILE, "so")]), []);
        let tree = Tree::of(&[(FILE, "fn f() {}")]);
        assert_eq!(check_against(&tree, &[(FILE, "so")]).len(), 1);
        assert_eq!(check_against(&tree, &[("protocols/x/src/y.rs", "so")]).len(), 1);
    }
}
