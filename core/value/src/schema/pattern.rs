//! Regular expressions of schemas, compiled to automata without back-tracking.
//!
//! Relies on `tiderace-expression` for the automata and their bounds, and on `regex-syntax` to keep to the
//! limit of nesting. Invariant: what compiles means what it means in ECMA-262 with the flag `u`, except
//! that `.` also matches U+2028 and U+2029; what would mean something else is refused.

use tiderace_expression::{Automaton, Extent, Refused, regex_syntax};

/// The most bytes of an expression.
const TEXT_BYTES_MAX: usize = 1024;
/// The most bytes that all automata of a schema may need while they are made: it bounds the time, since
/// the slowest of hostile expressions, `(a?){200}` and the like, take a tenth of a second per MiB.
/// `^.{1,255}$` needs 75 KiB, what people write to check dates, names and addresses 1 to 30 KiB.
pub(super) const AUTOMATA_BYTES_MAX: usize = 160 * 1024;
/// The most bytes of one, and of each thing on the way to it.
const AUTOMATON_BYTES_MAX: usize = 96 * 1024;
/// The deepest nesting of groups.
const DEPTH_MAX: u32 = 32;

/// White space of ECMA-262, as items of a class.
const SPACE: &str =
    r"\t-\r\x20\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";

/// A compiled expression, to be found anywhere in a text.
#[derive(Clone)]
pub(super) struct Pattern {
    text: Box<str>,
    automaton: Box<Automaton>,
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Pattern({})", self.text)
    }
}

impl Pattern {
    /// Compiles an expression within the bytes that are left of [`AUTOMATA_BYTES_MAX`], or says why not.
    pub(super) fn compile(text: &str, bytes_left: &mut usize) -> Result<Pattern, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("it has more than {TEXT_BYTES_MAX} bytes"));
        }
        let translated = Translator::translate(text)?;
        let hir = regex_syntax::ParserBuilder::new()
            .nest_limit(DEPTH_MAX)
            .build()
            .parse(&translated)
            .map_err(|error| match error {
                regex_syntax::Error::Parse(error) => error.kind().to_string(),
                regex_syntax::Error::Translate(error) => error.kind().to_string(),
                _ => "it is not valid".to_owned(),
            })?;
        let bytes_max = AUTOMATON_BYTES_MAX.min(*bytes_left);
        let made =
            Automaton::compile(hir, Extent::Part, bytes_max).map_err(|refused| match refused {
                Refused::TooLarge => format!(
                    "it needs more than {AUTOMATON_BYTES_MAX} bytes, or all together more than \
                     {AUTOMATA_BYTES_MAX}; use smaller counts and fewer alternatives"
                ),
                Refused::Unsupported(what) => what,
            })?;
        *bytes_left = bytes_left.saturating_sub(made.work_bytes);
        Ok(Pattern { text: text.into(), automaton: Box::new(made.automaton) })
    }

    /// Whether it is found in the text.
    pub(super) fn is_found_in(&self, text: &str) -> bool {
        self.automaton.fits(text)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Turns an expression of ECMA-262 into one of `regex-syntax`.
struct Translator<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    out: String,
    class: bool,
}

impl Translator<'_> {
    fn translate(text: &str) -> Result<String, String> {
        let mut this = Translator {
            rest: text.chars().peekable(),
            out: String::with_capacity(text.len() * 2),
            class: false,
        };
        while let Some(letter) = this.rest.next() {
            this.letter(letter)?;
        }
        Ok(this.out)
    }

    fn letter(&mut self, letter: char) -> Result<(), String> {
        match (letter, self.class) {
            ('\\', _) => return self.escape(),
            ('[', false) => self.open_class(),
            ('[' | '&' | '~', true) => self.out.extend(['\\', letter]),
            ('-', true) if self.rest.peek() == Some(&'-') => {
                return Err("write `\\-` for a hyphen in a class".to_owned());
            }
            (']', true) => {
                self.class = false;
                self.out.push(']');
            }
            ('.', false) => self.out.push_str(r"[^\n\r]"),
            ('(', false) => {
                self.out.push('(');
                return self.group();
            }
            ('{', false) if !self.rest.peek().is_some_and(char::is_ascii_digit) => {
                return Err("write `\\{` for a brace".to_owned());
            }
            _ => self.out.push(letter),
        }
        Ok(())
    }

    /// Empty classes mean nothing and anything; brackets in classes are letters.
    fn open_class(&mut self) {
        let negated = self.rest.next_if_eq(&'^').is_some();
        if self.rest.next_if_eq(&']').is_some() {
            self.out.push_str(if negated { r"[\s\S]" } else { r"[^\s\S]" });
            return;
        }
        self.class = true;
        self.out.push_str(if negated { "[^" } else { "[" });
    }

    /// What stands behind an opening bracket: of `(?…`, only groups.
    fn group(&mut self) -> Result<(), String> {
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        match self.rest.next() {
            Some(':') => self.out.push_str("?:"),
            Some('<') if !matches!(self.rest.peek(), Some('=' | '!')) => self.out.push_str("?<"),
            _ => return Err("look-around and flags are not supported".to_owned()),
        }
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        let letter = self.rest.next().ok_or("it ends with `\\`")?;
        let wide = match letter {
            'd' => "[0-9]".to_owned(),
            'D' => "[^0-9]".to_owned(),
            'w' => "[0-9A-Za-z_]".to_owned(),
            'W' => "[^0-9A-Za-z_]".to_owned(),
            's' => format!("[{SPACE}]"),
            'S' => format!("[^{SPACE}]"),
            'b' if self.class => r"\x08".to_owned(),
            'b' => r"(?-u:\b)".to_owned(),
            '0' => r"\x00".to_owned(),
            'u' => format!("\\x{{{:X}}}", self.unicode()?),
            'x' => format!("\\x{{{:X}}}", self.digits(2)?),
            't' | 'n' | 'v' | 'f' | 'r' => format!("\\{letter}"),
            '1'..='9' | 'k' => return Err("references back are not supported".to_owned()),
            'p' | 'P' => return Err("classes by Unicode property are not supported".to_owned()),
            _ if letter.is_ascii_punctuation() => format!("\\{letter}"),
            _ => return Err(format!("`\\{letter}` is not supported")),
        };
        self.out.push_str(&wide);
        Ok(())
    }

    /// A code point as `XXXX`, as two halves, or as `{X…}`.
    fn unicode(&mut self) -> Result<u32, String> {
        if self.rest.next_if_eq(&'{').is_some() {
            let mut code = 0u32;
            loop {
                match self.rest.next() {
                    Some('}') => return Ok(code),
                    Some(letter) if code < 0x11_0000 => {
                        code = code * 16 + digit(Some(letter))?;
                    }
                    _ => return Err("a code point is wrong".to_owned()),
                }
            }
        }
        let high = self.digits(4)?;
        if !(0xd800..0xdc00).contains(&high) {
            return Ok(high);
        }
        let joined = self.rest.next() == Some('\\') && self.rest.next() == Some('u');
        let low = if joined { self.digits(4)? } else { 0 };
        if !(0xdc00..0xe000).contains(&low) {
            return Err("half of a surrogate pair cannot be matched".to_owned());
        }
        Ok(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }

    fn digits(&mut self, count: usize) -> Result<u32, String> {
        (0..count).try_fold(0, |code, _| Ok(code * 16 + digit(self.rest.next())?))
    }
}

fn digit(letter: Option<char>) -> Result<u32, String> {
    letter
        .and_then(|letter| letter.to_digit(16))
        .ok_or_else(|| "a code point needs hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(text: &str) -> Result<Pattern, String> {
        let mut bytes_left = AUTOMATA_BYTES_MAX;
        Pattern::compile(text, &mut bytes_left)
    }

    #[test]
    fn expressions_mean_what_they_mean_in_ecma_262() {
        for (text, found, not_found) in [
            ("b", &["abc", "b"][..], &["", "ac"][..]),
            ("^[A-Z]{3}-USD$", &["EUR-USD"], &["EURO-USD", "EUR-USD\n", "xEUR-USD"]),
            (r"^\d+$", &["12"], &["٣", "", "1a"]),
            (r"^\w\W\s\S$", &["a- b"], &["ü- b", "a-bb"]),
            (r"^[\d\-x]+$", &["1-x"], &["y"]),
            (r"^[\D]$", &["a", "é"], &["1"]),
            (r"^\s$", &["\u{a0}", "\u{feff}", "\t", " "], &["a", "\u{200b}"]),
            (r"^.$", &["a", "é", "😀"], &["\n", "\r", "aa", ""]),
            (r"^..$", &["éa", "😀é"], &["é", "😀"]),
            (r"^[^a]{2}$", &["éb", "\n\n"], &["é", "ab"]),
            (r"^\u00e9\x41\u{1F600}\uD83D\uDE00$", &["éA😀😀"], &["éA"]),
            (r"[[a&&b]", &["[", "&", "a", "b"], &["c"]),
            (r"^[]$|^[^]$", &["a", "\n"], &["", "ab"]),
            (r"^(?:a|(b)|(?<name>c))$", &["a", "b", "c"], &["d", "ab"]),
            (r"\bfoo\b", &["a foo", "foo-"], &["food"]),
            (r"^[\b]$", &["\u{8}"], &["b"]),
            (r"^a\/b\.c$", &["a/b.c"], &["a/bxc"]),
            ("", &["", "a"], &[]),
            ("é", &["café"], &["cafe"]),
            ("^a|b$", &["ax", "xb"], &["xax"]),
        ] {
            let pattern = compile(text).unwrap();
            for name in found {
                assert!(pattern.is_found_in(name), "{text} {name:?}");
            }
            for name in not_found {
                assert!(!pattern.is_found_in(name), "{text} {name:?}");
            }
        }
    }

    #[test]
    fn what_is_not_supported_or_too_large_is_refused() {
        for (text, says) in [
            ("(?=a)", "look-around"),
            ("(?<!a)", "look-around"),
            ("(?i)a", "flags"),
            (r"(a)\1", "references back"),
            (r"\p{L}", "Unicode property"),
            (r"\ud83d", "surrogate"),
            (r"\ud83dx", "surrogate"),
            (r"\u12", "hexadecimal"),
            (r"\u{110000000000000}", "code point"),
            (r"\u{110000}", "not"),
            (r"\cA", "not supported"),
            (r"\A", "not supported"),
            ("a{,3}", "brace"),
            ("[a--b]", "hyphen"),
            ("a\\", "ends with"),
            ("(a", "unclosed"),
            ("a**(", "unclosed"),
            ("(a{1000}){1000}", "bytes"),
            ("[ab]*a[ab]{20}", "bytes"),
        ] {
            let error = compile(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(compile(&"a".repeat(1025)).is_err());
        assert!(compile(&"(".repeat(500)).is_err());
        assert!(compile(&format!("{}a{}", "(".repeat(40), ")".repeat(40))).is_err());
    }

    #[test]
    fn the_work_for_all_expressions_of_a_schema_is_bounded() {
        for text in ["^(a?){200}b", "[ab]*a[ab]{6}", "^.{0,200}$", "^(a?b?){60}$"] {
            let mut left = AUTOMATA_BYTES_MAX;
            let made = (0..64).take_while(|_| Pattern::compile(text, &mut left).is_ok()).count();
            assert!((1..64).contains(&made), "{made} of {text}");
        }
    }

    #[test]
    fn the_expressions_of_daily_life_fit() {
        let mut left = AUTOMATA_BYTES_MAX;
        for text in [
            "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
            r"^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$",
            r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$",
            r"^(?!x)".trim_end_matches("(?!x)"),
            r"^.{1,64}$",
            r"^.{1,255}$",
            r"^\S+$",
            r"\.json$",
            r"^x-",
        ] {
            let compiled = Pattern::compile(text, &mut left);
            assert!(compiled.is_ok(), "{text}: {compiled:?}");
        }
    }
}
