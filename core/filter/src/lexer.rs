//! Cuts a selector text into tokens, one at a time.
//!
//! Relies on `error`. Invariant: every token, and every error, begins on a character boundary,
//! and each call moves forward or reports the end.

use std::borrow::Cow;

use tiderace_base::Arithmetic;

use crate::error::{Problem, SelectorError};
use crate::relation::Relation;

/// A token and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Token<'a> {
    /// Byte offset of its first character.
    pub(crate) at: usize,
    /// Its characters as they stand in the text.
    pub(crate) source: &'a str,
    pub(crate) kind: TokenKind<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind<'a> {
    Name(Cow<'a, str>),
    Text(Cow<'a, str>),
    /// Unsigned, because the sign is a token of its own; the parser narrows it.
    Integer(u64),
    Float(f64),
    Keyword(Keyword),
    Relation(Relation),
    /// `+ - * / %`, also as a sign.
    Operator(Arithmetic),
    Open,
    Close,
    Comma,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyword {
    And,
    Between,
    Escape,
    False,
    In,
    Is,
    Like,
    Not,
    Null,
    Or,
    True,
}

/// The part of the text that has not been cut yet.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Lexer { text, at: 0 }
    }

    /// The next token; after the last one [`TokenKind::End`], as often as asked.
    pub(crate) fn token(&mut self) -> Result<Token<'a>, SelectorError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        let at = self.text.len() - trimmed.len();
        let (kind, length) = scan(trimmed).map_err(|problem| problem.at(at))?;
        self.at = at + length;
        Ok(Token { at, source: trimmed.get(..length).unwrap_or_default(), kind })
    }
}

/// The token at the start of `rest`, and its length in bytes.
fn scan(rest: &str) -> Result<(TokenKind<'_>, usize), Problem> {
    let mut characters = rest.chars();
    let Some(first) = characters.next() else {
        return Ok((TokenKind::End, 0));
    };
    let second = characters.next();
    if let Some(symbol) = symbol(first, second) {
        return Ok(symbol);
    }
    match first {
        '\'' => {
            let (text, length) = quoted(rest, '\'').ok_or(Problem::UnterminatedString)?;
            Ok((TokenKind::Text(text), length))
        }
        '"' => match quoted(rest, '"').ok_or(Problem::UnterminatedName)? {
            (name, _) if name.is_empty() => Err(Problem::EmptyName),
            (name, length) => Ok((TokenKind::Name(name), length)),
        },
        '0'..='9' => number(rest),
        '.' if second.is_some_and(|second| second.is_ascii_digit()) => number(rest),
        _ if begins_name(first) => Ok(name_or_keyword(rest)),
        found => Err(Problem::UnexpectedCharacter { found }),
    }
}

fn symbol(first: char, second: Option<char>) -> Option<(TokenKind<'static>, usize)> {
    let relation = |relation, length| Some((TokenKind::Relation(relation), length));
    let single = |kind| Some((kind, 1));
    match (first, second) {
        ('=', _) => relation(Relation::Equal, 1),
        ('<', Some('>')) | ('!', Some('=')) => relation(Relation::NotEqual, 2),
        ('<', Some('=')) => relation(Relation::LessOrEqual, 2),
        ('>', Some('=')) => relation(Relation::GreaterOrEqual, 2),
        ('<', _) => relation(Relation::Less, 1),
        ('>', _) => relation(Relation::Greater, 1),
        ('+', _) => single(TokenKind::Operator(Arithmetic::Add)),
        ('-', _) => single(TokenKind::Operator(Arithmetic::Subtract)),
        ('*', _) => single(TokenKind::Operator(Arithmetic::Multiply)),
        ('/', _) => single(TokenKind::Operator(Arithmetic::Divide)),
        ('%', _) => single(TokenKind::Operator(Arithmetic::Remainder)),
        ('(', _) => single(TokenKind::Open),
        (')', _) => single(TokenKind::Close),
        (',', _) => single(TokenKind::Comma),
        _ => None,
    }
}

/// What stands between two `quote`s, a doubled one inside meaning itself.
fn quoted(rest: &str, quote: char) -> Option<(Cow<'_, str>, usize)> {
    let body = rest.strip_prefix(quote)?;
    let mut end = 0;
    let mut doubled = false;
    loop {
        end += body.get(end..)?.find(quote)?;
        if !body.get(end + 1..)?.starts_with(quote) {
            break;
        }
        doubled = true;
        end += 2;
    }
    let inside = body.get(..end)?;
    let inside = if doubled {
        let mut pair = String::from(quote);
        pair.push(quote);
        Cow::Owned(inside.replace(&pair, quote.encode_utf8(&mut [0; 4])))
    } else {
        Cow::Borrowed(inside)
    };
    Some((inside, end + 2))
}

/// A number as in Java: decimal or hexadecimal with an optional `L`, or with a fraction or an
/// exponent and an optional `D` or `F`.
fn number(rest: &str) -> Result<(TokenKind<'_>, usize), Problem> {
    let hexadecimal = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"));
    let (digits_length, radix) = match hexadecimal {
        Some(digits) => (2 + run(digits, char::is_ascii_hexdigit), 16),
        None => (run(rest, char::is_ascii_digit), 10),
    };
    let length = if radix == 16 { digits_length } else { float_length(rest, digits_length) };
    let digits = rest.get(..length).unwrap_or_default();
    let behind = rest.get(length..).unwrap_or_default();
    let is_float = length > digits_length;

    let suffixes: &[char] = if is_float { &['d', 'D', 'f', 'F'] } else { &['l', 'L'] };
    let suffix_length = usize::from(behind.starts_with(suffixes));
    let after = behind.get(suffix_length..).unwrap_or_default();
    if after.starts_with(continues_name) || hexadecimal.is_some() && digits_length == 2 {
        return Err(Problem::BadNumber);
    }

    let kind = if is_float {
        let float: f64 = digits.parse().map_err(|_| Problem::BadNumber)?;
        if !float.is_finite() {
            return Err(Problem::NumberOutOfRange);
        }
        TokenKind::Float(float)
    } else {
        let digits = if radix == 16 { digits.get(2..).unwrap_or_default() } else { digits };
        // The digits are known to be digits: only the size can be wrong.
        let integer = u64::from_str_radix(digits, radix).map_err(|_| Problem::NumberOutOfRange)?;
        TokenKind::Integer(integer)
    };
    Ok((kind, length + suffix_length))
}

/// The length with a fraction and an exponent, if they follow the whole digits.
fn float_length(rest: &str, whole_length: usize) -> usize {
    let mut length = whole_length;
    let behind = |length: usize| rest.get(length..).unwrap_or_default();
    if let Some(fraction) = behind(length).strip_prefix('.') {
        length += 1 + run(fraction, char::is_ascii_digit);
    }
    if let Some(exponent) = behind(length).strip_prefix(['e', 'E']) {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let digits_length = run(unsigned, char::is_ascii_digit);
        if digits_length > 0 {
            length += 1 + (exponent.len() - unsigned.len()) + digits_length;
        }
    }
    length
}

/// How many ASCII characters at the start of `text` satisfy `accepts`.
fn run(text: &str, accepts: fn(&char) -> bool) -> usize {
    text.chars().take_while(|character| character.is_ascii() && accepts(character)).count()
}

fn name_or_keyword(rest: &str) -> (TokenKind<'_>, usize) {
    let mut length = 0;
    let mut characters = rest.chars().peekable();
    while let Some(character) = characters.next() {
        // `content-type` is one name, while `a - b`, `a -b` and `a- b` subtract.
        let joins = |next: &char| *next != '.' && continues_name(*next);
        let hyphen = character == '-' && characters.peek().is_some_and(joins);
        if !hyphen && !continues_name(character) {
            break;
        }
        length += character.len_utf8();
    }
    let name = rest.get(..length).unwrap_or_default();
    let kind = KEYWORDS
        .iter()
        .find(|(spelling, _)| spelling.eq_ignore_ascii_case(name))
        .map_or(TokenKind::Name(Cow::Borrowed(name)), |(_, keyword)| TokenKind::Keyword(*keyword));
    (kind, length)
}

fn begins_name(character: char) -> bool {
    character.is_alphabetic() || matches!(character, '_' | '$')
}

fn continues_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$' | '.')
}

const KEYWORDS: [(&str, Keyword); 11] = [
    ("AND", Keyword::And),
    ("BETWEEN", Keyword::Between),
    ("ESCAPE", Keyword::Escape),
    ("FALSE", Keyword::False),
    ("IN", Keyword::In),
    ("IS", Keyword::Is),
    ("LIKE", Keyword::Like),
    ("NOT", Keyword::Not),
    ("NULL", Keyword::Null),
    ("OR", Keyword::Or),
    ("TRUE", Keyword::True),
];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sources(text: &str) -> Vec<&str> {
        let mut lexer = Lexer::new(text);
        let mut sources = Vec::new();
        loop {
            let token = lexer.token().unwrap();
            if token.kind == TokenKind::End {
                return sources;
            }
            sources.push(token.source);
        }
    }

    fn single(text: &str) -> TokenKind<'_> {
        Lexer::new(text).token().unwrap().kind
    }

    #[test]
    fn a_hyphen_inside_a_name_belongs_to_it() {
        assert_eq!(sources("content-type='a'"), ["content-type", "=", "'a'"]);
        assert_eq!(sources("a - b"), ["a", "-", "b"]);
        assert_eq!(sources("a -b"), ["a", "-", "b"]);
        assert_eq!(sources("a- b"), ["a", "-", "b"]);
        assert_eq!(sources("a--b"), ["a", "-", "-", "b"]);
        assert_eq!(sources("a-5"), ["a-5"]);
        assert_eq!(sources("5-a"), ["5", "-", "a"]);
        assert_eq!(sources("a-.5"), ["a", "-", ".5"]);
        assert_eq!(sources("not-me"), ["not-me"]);
    }

    #[test]
    fn quotes_are_doubled_inside() {
        assert_eq!(single("'it''s'"), TokenKind::Text("it's".into()));
        assert_eq!(single("''"), TokenKind::Text("".into()));
        assert_eq!(single("''''"), TokenKind::Text("'".into()));
        assert_eq!(single("\"a\"\"ü and\""), TokenKind::Name("a\"ü and".into()));
    }

    #[test]
    fn numbers_are_those_of_java() {
        for (text, value) in [("0", 0), ("017", 17), ("0x1F", 31), ("7L", 7), ("0Xffl", 255)] {
            assert_eq!(single(text), TokenKind::Integer(value), "{text}");
        }
        for (text, value) in [(".5", 0.5), ("7.", 7.0), ("1e3", 1e3), ("1.5E-2f", 0.015)] {
            assert_eq!(single(text), TokenKind::Float(value), "{text}");
        }
        assert_eq!(sources("1 e5"), ["1", "e5"]);
    }
}
