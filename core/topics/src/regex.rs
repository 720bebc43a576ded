//! Regular expressions of names, compiled to an automaton without back-tracking.
//!
//! Relies on `tiderace-expression` for the automaton and its bounds, and on `regex-syntax` to keep to
//! the limit of nesting. Invariant: an expression fits the same names as in the `regex` crate when the
//! whole name has to match, but for `\d`, `\s` and `\w`, which stand for ASCII characters.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tiderace_base::limits::{REGEX_AUTOMATON_BYTES_MAX, REGEX_BYTES_MAX, REGEX_DEPTH_MAX};
use tiderace_expression::regex_syntax::ast::{self, Ast};
use tiderace_expression::regex_syntax::hir::{self, Hir};
use tiderace_expression::{Automaton, Extent, Refused};

/// A compiled expression; cloning is cheap. Equal if the texts are.
#[derive(Clone)]
pub struct Regex(Arc<Compiled>);

struct Compiled {
    text: Box<str>,
    automaton: Automaton,
}

/// What is wrong with an expression, and where in it.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Offset in bytes.
    pub(crate) at: usize,
    pub(crate) text: String,
}

/// Reads an expression within its limits.
pub(crate) fn read(text: &str) -> Result<Hir, Problem> {
    if text.len() > REGEX_BYTES_MAX {
        let what = format!("the expression has {} bytes; at most {REGEX_BYTES_MAX}", text.len());
        return Err(Problem { at: 0, text: format!("{what} are allowed") });
    }
    let mut ast = ast::parse::ParserBuilder::new()
        .nest_limit(REGEX_DEPTH_MAX)
        .build()
        .parse(text)
        .map_err(|error| Problem { at: error.span().start.offset, text: said(error.kind()) })?;
    to_ascii(&mut ast)?;
    hir::translate::Translator::new()
        .translate(text, &ast)
        .map_err(|error| Problem { at: error.span().start.offset, text: said(error.kind()) })
}

impl Regex {
    /// Compiles an expression for texts other than names.
    ///
    /// # Errors
    /// What is wrong, and the byte where.
    pub fn parse(text: &str) -> Result<Regex, (usize, String)> {
        let hir = read(text).map_err(|problem| (problem.at, problem.text))?;
        compile(text, hir).map_err(|problem| (problem.at, problem.text))
    }

    /// Whether the whole name, or other text, fits.
    pub fn fits(&self, name: &str) -> bool {
        self.0.automaton.fits(name)
    }

    /// The expression.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// What it takes in memory, once for all its clones.
    pub fn bytes(&self) -> usize {
        size_of::<Compiled>() + self.0.text.len() + self.0.automaton.bytes()
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Regex) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.as_str() == other.as_str()
    }
}

impl Eq for Regex {}

impl Hash for Regex {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Regex({})", self.as_str())
    }
}

/// Makes `\d`, `\s` and `\w` stand for ASCII: their Unicode forms take a hundred times the memory.
/// Refuses what would need tables of Unicode, which this build may or may not have.
fn to_ascii(ast: &mut Ast) -> Result<(), Problem> {
    match ast {
        Ast::ClassPerl(class) => {
            let class = ascii(class);
            let kind = ast::ClassSet::Item(ast::ClassSetItem::Ascii(class.clone()));
            *ast = Ast::class_bracketed(ast::ClassBracketed {
                span: class.span,
                negated: false,
                kind,
            });
            Ok(())
        }
        Ast::ClassUnicode(class) => Err(unicode(&class.span)),
        Ast::ClassBracketed(class) => set_to_ascii(&mut class.kind),
        Ast::Repetition(repetition) => to_ascii(&mut repetition.ast),
        Ast::Group(group) => to_ascii(&mut group.ast),
        Ast::Alternation(alternation) => alternation.asts.iter_mut().try_for_each(to_ascii),
        Ast::Concat(concat) => concat.asts.iter_mut().try_for_each(to_ascii),
        Ast::Empty(_) | Ast::Flags(_) | Ast::Literal(_) | Ast::Dot(_) | Ast::Assertion(_) => Ok(()),
    }
}

fn set_to_ascii(set: &mut ast::ClassSet) -> Result<(), Problem> {
    match set {
        ast::ClassSet::Item(item) => item_to_ascii(item),
        ast::ClassSet::BinaryOp(operation) => {
            set_to_ascii(&mut operation.lhs)?;
            set_to_ascii(&mut operation.rhs)
        }
    }
}

fn item_to_ascii(item: &mut ast::ClassSetItem) -> Result<(), Problem> {
    use ast::ClassSetItem as Item;
    match item {
        Item::Perl(class) => *item = Item::Ascii(ascii(class)),
        Item::Unicode(class) => return Err(unicode(&class.span)),
        Item::Bracketed(class) => return set_to_ascii(&mut class.kind),
        Item::Union(union) => return union.items.iter_mut().try_for_each(item_to_ascii),
        Item::Empty(_) | Item::Literal(_) | Item::Range(_) | Item::Ascii(_) => {}
    }
    Ok(())
}

fn ascii(class: &ast::ClassPerl) -> ast::ClassAscii {
    let kind = match class.kind {
        ast::ClassPerlKind::Digit => ast::ClassAsciiKind::Digit,
        ast::ClassPerlKind::Space => ast::ClassAsciiKind::Space,
        ast::ClassPerlKind::Word => ast::ClassAsciiKind::Word,
    };
    ast::ClassAscii { span: class.span, kind, negated: class.negated }
}

fn unicode(span: &ast::Span) -> Problem {
    let text = "classes by Unicode property are not supported; list the characters: [A-Za-zÄÖÜ]";
    Problem { at: span.start.offset, text: text.to_owned() }
}

/// The automaton of an expression that has been read.
pub(crate) fn compile(text: &str, hir: Hir) -> Result<Regex, Problem> {
    match Automaton::compile(hir, Extent::Whole, REGEX_AUTOMATON_BYTES_MAX) {
        Ok(made) => Ok(Regex(Arc::new(Compiled { text: text.into(), automaton: made.automaton }))),
        Err(refused) => Err(Problem { at: 0, text: said_of(&refused) }),
    }
}

fn said_of(refused: &Refused) -> String {
    match refused {
        Refused::TooLarge => format!(
            "the expression needs more than {REGEX_AUTOMATON_BYTES_MAX} bytes; use smaller counts \
             and fewer alternatives, or `*` and `**`"
        ),
        Refused::Unsupported(what) => format!("the expression cannot be used: {what}"),
    }
}

fn said(kind: &dyn fmt::Display) -> String {
    kind.to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Level;
    use crate::level::parse_regex as parse;
    use proptest::prelude::*;

    #[test]
    fn the_whole_name_has_to_fit() {
        for (text, name, expected) in [
            ("[A-Z]{3}-USD", "EUR-USD", true),
            ("[A-Z]{3}-USD", "EURO-USD", false),
            ("[A-Z]{3}-USD", "EUR-USD2", false),
            ("a|ab|abc", "abc", true),
            ("a?|[bc]", "ab", false),
            ("(?i)eur", "EuR", true),
            ("^a$|b.", "a", true),
            (r"\d+", "1234", true),
            (r"\d", "٣", false),
            (r"\D", "٣", true),
            (r"[\w-]+", "a_b-9", true),
            (r"\w", "ü", false),
            ("...", "aü€", true),
            ("..", "aü€", false),
            ("[^-]{2}-[äö]", "ü€-ä", true),
            ("[äö]", "ü", false),
            (r"a\x2Fb", "a", false),
            (r".*(?-u:\b)b.*", "a b", true),
        ] {
            let level = parse(text).unwrap();
            assert_eq!(level.fits(name), expected, "{text} {name}");
        }
    }

    #[test]
    fn errors_say_where_and_what_to_do() {
        for (text, at, what) in [
            ("a(b", 1, "unclosed group"),
            ("a*(*)", 3, "repetition operator missing expression"),
            (
                r"a\p{L}",
                1,
                "classes by Unicode property are not supported; list the characters: [A-Za-zÄÖÜ]",
            ),
            (
                r"a[x\pL]",
                3,
                "classes by Unicode property are not supported; list the characters: [A-Za-zÄÖÜ]",
            ),
            (r"(?-u:\xFF)", 5, "pattern can match invalid UTF-8"),
            (
                "(a{1000}){1000}",
                0,
                "the expression needs more than 24576 bytes; use smaller counts and fewer alternatives, or `*` and `**`",
            ),
            (
                "[ab]*a[ab]{20}",
                0,
                "the expression needs more than 24576 bytes; use smaller counts and fewer alternatives, or `*` and `**`",
            ),
            (
                r"\ba",
                0,
                "the expression cannot be used: unsupported regex feature for DFAs: cannot build DFAs for regexes with Unicode word boundaries; switch to ASCII word boundaries, or heuristically enable Unicode word boundaries or use a different regex engine",
            ),
            (r"(a)\1", 3, "backreferences are not supported"),
            ("a(?=b)", 1, "look-around, including look-ahead and look-behind, is not supported"),
        ] {
            let problem = parse(text).unwrap_err();
            assert_eq!((problem.at, &*problem.text), (at, what), "{text}");
        }
        let nested = format!("{}a{}", "(".repeat(40), ")".repeat(40));
        assert!(
            parse(&nested).unwrap_err().text.contains("nest"),
            "{}",
            parse(&nested).unwrap_err().text
        );
        assert!(parse(&"a".repeat(REGEX_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn hostile_expressions_stay_small() {
        let mut largest = 0;
        for text in [
            "(a{50}){50}".to_owned(),
            "((((a{9}){9}){9}){9}){9}".to_owned(),
            "(a|b)*a(a|b){11}".to_owned(),
            ".{1,1000}".to_owned(),
            "(((((.*)*)*)*)*)*".to_owned(),
            r"(?i)[\w&&[^\d--[_]]]".repeat(11),
            ".?".repeat(128),
            ".*x".repeat(85),
            "(?i)[a-zA-Zа-яА-Яα-ω]".repeat(8),
            "[^a][^b]?".repeat(28),
            "(a?){100}a{100}".to_owned(),
            "|".repeat(256),
            "()".repeat(128),
            "(?i)(?m)(?s)(?U)(?x)".repeat(12),
        ] {
            if let Ok(Level::Regex(regex)) = parse(&text) {
                largest = largest.max(regex.bytes());
                regex.fits(&"a".repeat(1024));
            }
        }
        assert!(largest <= REGEX_AUTOMATON_BYTES_MAX, "{largest} bytes");
    }

    fn expression() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "[abü]",
            "[abü.]",
            Just(r"\d".to_owned()),
            Just("[^a]".to_owned()),
            Just("[a-cü-ý]".to_owned()),
            Just(r"[\wé]".to_owned()),
            Just(r"\S".to_owned()),
            Just("(?i:A)".to_owned()),
            Just("^".to_owned()),
            Just("$".to_owned()),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
                proptest::collection::vec(inner.clone(), 1..4)
                    .prop_map(|parts| format!("({})", parts.join("|"))),
                (
                    inner.clone(),
                    prop_oneof!["\\?", "\\*", "\\+", "\\*\\?", Just("{1,3}".to_owned())]
                )
                    .prop_map(|(one, how)| format!("(?:{one}){how}")),
            ]
        })
    }

    proptest! {
        #[test]
        fn fits_what_the_regex_crate_matches(text in expression(), names in proptest::collection::vec("[abAcü1é€.]{1,6}", 8)) {
            // Classes of that crate are Unicode's; in ASCII brackets they are ours.
            let oracle = text.replace(r"\d", "[[:digit:]]").replace(r"\S", "[[:^space:]]").replace(r"[\wé]", "[[:word:]é]");
            let oracle = ::regex::Regex::new(&format!("^(?:{oracle})$")).unwrap();
            if let Ok(level) = parse(&text) {
                for name in names {
                    prop_assert_eq!(level.fits(&name), oracle.is_match(&name), "{} {} {:?}", text, name, level);
                }
            }
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,40}", other in "[ab.*+?(){}\\[\\]|^$\\\\pdw0-9,:i-]{0,30}", name in "\\PC{1,8}") {
            for text in [text, other] {
                if let Ok(level) = parse(&text) {
                    level.fits(&name);
                }
            }
        }
    }
}
