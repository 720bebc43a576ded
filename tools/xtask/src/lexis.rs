//! Just enough of Rust's lexical rules to tell code from comments, strings and tests.
//!
//! Relies on sources that compile. Invariant: results have as many lines as the source, so that line
//! numbers agree.

/// A function of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line its signature begins on, counted from 1.
    pub line: usize,
    /// Lines from signature to closing brace.
    pub lines: usize,
}

/// The source with comments and the contents of strings blanked out.
pub fn code(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match skip(bytes, at) {
            Some(end) => end.min(bytes.len()),
            None => {
                out.push(bytes[at]);
                at += 1;
                continue;
            }
        };
        out.extend(bytes[at..end].iter().map(|byte| match byte {
            b'\n' => b'\n',
            _ => b' ',
        }));
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The code (see [`code`]) with modules marked `#[cfg(test)]` blanked out too.
pub fn without_tests(code: &str) -> String {
    let mut out = code.to_owned();
    while let Some(start) = out.find("#[cfg(test)]") {
        let end = block_end(&out, start).unwrap_or(out.len());
        let blank: String =
            out[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        out.replace_range(start..end, &blank);
    }
    out
}

/// The functions with bodies in the code.
pub fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        let before = code[..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let name: String =
            code[start + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let (Some(end), false) = (block_end(code, start), name.is_empty()) else {
            continue;
        };
        let text = &code[start..end];
        if text.ends_with('}') {
            found.push(Function {
                name,
                line: 1 + code[..start].matches('\n').count(),
                lines: 1 + text.matches('\n').count(),
            });
        }
    }
    found
}

/// Whether the text holds the word, not as part of a longer one.
pub fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + word.len()..].chars().next();
        let open_end = word.ends_with(is_part);
        !(before.is_some_and(is_part) || open_end && after.is_some_and(is_part))
    })
}

/// Where the item that begins at `start` ends: behind its braces, or behind a semicolon outside
/// brackets.
fn block_end(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut brackets = 0_usize;
    for (offset, byte) in code.as_bytes().get(start..)?.iter().enumerate() {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(start + offset + 1);
                }
            }
            b';' if depth == 0 && brackets == 0 => return Some(start + offset + 1),
            _ => {}
        }
    }
    None
}

/// Where the comment, string or character that begins here ends; `None` if code begins here.
fn skip(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let boundary = at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest {
        [b'/', b'/', ..] => Some(at + find(rest, b"\n").unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(at + block_comment(rest)),
        [b'"', ..] => Some(at + quoted(rest, b'"')),
        [b'b', b'"', ..] if boundary => Some(at + 1 + quoted(&rest[1..], b'"')),
        [b'b', b'\'', ..] if boundary => Some(at + 1 + quoted(&rest[1..], b'\'')),
        [b'r', b'"' | b'#', ..] if boundary => raw(rest, 1).map(|len| at + len),
        [b'b', b'r', b'"' | b'#', ..] if boundary => raw(rest, 2).map(|len| at + len),
        [b'\'', b'\\', ..] => Some(at + quoted(rest, b'\'')),
        // A character, not a lifetime: closed after one (perhaps many-byte) character.
        [b'\'', ..] => {
            let text = std::str::from_utf8(&rest[1..rest.len().min(6)]).unwrap_or_else(|error| {
                std::str::from_utf8(&rest[1..1 + error.valid_up_to()]).unwrap_or("")
            });
            let width = text.chars().next()?.len_utf8();
            (rest.get(1 + width) == Some(&b'\'')).then_some(at + width + 2)
        }
        _ => None,
    }
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'\\' => at += 2,
            byte if *byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw(rest: &[u8], prefix: usize) -> Option<usize> {
    let hashes = rest[prefix..].iter().take_while(|b| **b == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = prefix + hashes + 1;
    Some(find(&rest[body..], &close).map_or(rest.len(), |len| body + len + close.len()))
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 && at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    at
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_vanish_and_code_stays() {
        let source = "let a = \"x // y\"; // gone\nlet b = r#\"say \"hi\" \"#; /* g /* h */ i */ let c = '\"';\nlet d: &'static str = b'\\'';done";
        let code = code(source);
        assert_eq!(code.lines().count(), source.lines().count());
        for gone in ["x", "y", "gone", "say", "hi", "g ", "\""] {
            assert!(!code.contains(gone), "{gone} in {code}");
        }
        for kept in ["let b", "let c", "&'static str", ";done"] {
            assert!(code.contains(kept), "{kept} not in {code}");
        }
    }

    #[test]
    fn test_modules_vanish() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { if x {} } }\nfn c() {}";
        let rest = without_tests(code);
        assert!(rest.contains("fn a") && rest.contains("fn c") && !rest.contains("fn b"));
        assert_eq!(rest.lines().count(), 4);
        assert!(without_tests("#[cfg(test)]\nmod laws;\nfn d() {}").contains("fn d"));
    }

    #[test]
    fn functions_are_measured() {
        let found =
            functions("trait T {\n fn no(&self) -> [u8; 2];\n}\npub fn yes()\n{\n  x;\n}\n");
        let expected = Function { name: "yes".to_owned(), line: 4, lines: 4 };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("use std::fs::File;", "fs::"));
        assert!(!has_word("offs::X", "fs::"));
        assert!(has_word("a Instant b", "Instant"));
        assert!(!has_word("InstantBook", "Instant"));
    }
}
