//! Reads expressions: recursive descent, loosest operators first.
//!
//! Relies on `cursor` for the limits of depth and number. Invariant: every level of recursion goes
//! through [`Cursor::nested`] or takes a whole operand.

use tiderace_base::Arithmetic;
use tiderace_topics::Regex;
use tiderace_value::Json;

use crate::cursor::Cursor;
use crate::error::{Problem, ViewError};
use crate::expression::{Comparison, Expression, Operator};
use crate::function::Function;
use crate::levels::Levels;
use crate::number;
use crate::pointer::{Place, Pointer};

type Read<T> = Result<T, ViewError>;

const OPERAND: &str = "a value: a pointer such as `/price`, a number, a text in double quotes, …";

/// Reads the expression that comes next.
pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Read<Expression> {
    let mut left = and(cursor)?;
    while cursor.take_word("or") {
        left = two(cursor, Operator::Or, left, and)?;
    }
    Ok(left)
}

fn and(cursor: &mut Cursor<'_>) -> Read<Expression> {
    let mut left = not(cursor)?;
    while cursor.take_word("and") {
        left = two(cursor, Operator::And, left, not)?;
    }
    Ok(left)
}

fn not(cursor: &mut Cursor<'_>) -> Read<Expression> {
    if cursor.take_word("not") {
        cursor.node()?;
        let inner = cursor.nested(not)?;
        return Ok(Expression::Not(Box::new(inner)));
    }
    comparison(cursor)
}

fn comparison(cursor: &mut Cursor<'_>) -> Read<Expression> {
    let left = sum(cursor)?;
    let found = Comparison::ALL.into_iter().find(|comparison| cursor.take(comparison.text()));
    let whole = if let Some(comparison) = found {
        two(cursor, Operator::Compare(comparison), left, sum)?
    } else if cursor.take_word("in") {
        two(cursor, Operator::In, left, sum)?
    } else if cursor.take_word("matches") {
        Expression::Matches(Box::new(left), regex(cursor)?)
    } else {
        return Ok(left);
    };
    let at = cursor.next();
    if Comparison::ALL.into_iter().any(|comparison| cursor.rest().starts_with(comparison.text()))
        && !cursor.rest().starts_with('>')
    {
        let expected = "`and`, `or` or the next clause; comparisons do not chain";
        let problem = Problem::Unexpected { found: crate::error::shown(cursor.rest()), expected };
        return Err(cursor.wrong(at, problem));
    }
    Ok(whole)
}

fn regex(cursor: &mut Cursor<'_>) -> Read<Regex> {
    cursor.node()?;
    let at = cursor.next();
    if cursor.peek() != Some('"') {
        return Err(cursor.unexpected("a regular expression in double quotes"));
    }
    cursor.regex()?;
    let text = cursor.quoted()?;
    // The place is that of the text without its escapes, so at most too far left.
    Regex::parse(&text).map_err(|(within, why)| cursor.wrong(at + 1 + within, Problem::Regex(why)))
}

fn sum(cursor: &mut Cursor<'_>) -> Read<Expression> {
    let mut left = product(cursor)?;
    loop {
        let arithmetic = match cursor.peek() {
            Some('+') => Arithmetic::Add,
            Some('-') => Arithmetic::Subtract,
            _ => return Ok(left),
        };
        cursor.pass(1);
        left = two(cursor, Operator::Calculate(arithmetic), left, product)?;
    }
}

fn product(cursor: &mut Cursor<'_>) -> Read<Expression> {
    let mut left = signed(cursor)?;
    loop {
        let arithmetic = match cursor.peek() {
            Some('*') => Arithmetic::Multiply,
            Some('%') => Arithmetic::Remainder,
            Some('/') if Pointer::begins(cursor) => {
                let expected =
                    "an operator or the next clause; a division has blanks around its `/`";
                return Err(cursor.unexpected(expected));
            }
            Some('/') => Arithmetic::Divide,
            _ => return Ok(left),
        };
        cursor.pass(1);
        left = two(cursor, Operator::Calculate(arithmetic), left, signed)?;
    }
}

fn signed(cursor: &mut Cursor<'_>) -> Read<Expression> {
    if cursor.peek() != Some('-') {
        return primary(cursor);
    }
    if cursor.rest().chars().nth(1).is_some_and(|digit| digit.is_ascii_digit()) {
        return number(cursor);
    }
    cursor.pass(1);
    cursor.node()?;
    let inner = cursor.nested(signed)?;
    Ok(Expression::Negate(Box::new(inner)))
}

fn two(
    cursor: &mut Cursor<'_>,
    operator: Operator,
    left: Expression,
    right: fn(&mut Cursor<'_>) -> Read<Expression>,
) -> Read<Expression> {
    cursor.node()?;
    let right = right(cursor)?;
    Ok(Expression::Two(operator, Box::new(left), Box::new(right)))
}

fn primary(cursor: &mut Cursor<'_>) -> Read<Expression> {
    cursor.node()?;
    match cursor.peek() {
        Some('(') => {
            cursor.pass(1);
            let inner = cursor.nested(parse)?;
            cursor.need(")", "an operator or `)`")?;
            Ok(inner)
        }
        Some('[') => {
            cursor.pass(1);
            cursor.nested(|cursor| list(cursor, "]")).map(Expression::Array)
        }
        Some('{') => {
            cursor.pass(1);
            cursor.nested(object)
        }
        Some('"') => Ok(Expression::Text(cursor.quoted()?.into())),
        Some(digit) if digit.is_ascii_digit() => number(cursor),
        _ => match Place::parse(cursor)? {
            Some(place) => Ok(Expression::At(place)),
            None => word(cursor),
        },
    }
}

fn word(cursor: &mut Cursor<'_>) -> Read<Expression> {
    let start = cursor.next();
    let word = cursor.word();
    let constant = match word {
        "null" => Some(Expression::Null),
        "true" => Some(Expression::Bool(true)),
        "false" => Some(Expression::Bool(false)),
        "key" => Some(Expression::Key),
        _ => None,
    };
    if let Some(constant) = constant {
        cursor.pass(word.len());
        return Ok(constant);
    }
    let function = Function::named(word);
    if function.is_none() && !matches!(word, "if" | "exists" | "path") {
        return Err(cursor.unexpected(OPERAND));
    }
    cursor.pass(word.len());
    match (word, function) {
        ("if", _) => cursor.nested(choice),
        ("exists", _) => match Place::parse(cursor)? {
            Some(place) => Ok(Expression::Exists(place)),
            None => Err(cursor.unexpected("a pointer to what must exist")),
        },
        ("path", _) => Levels::parse(cursor).map(Expression::Path),
        (_, Some(function)) => {
            cursor.need("(", "`(` and the arguments of the function")?;
            let arguments = cursor.nested(|cursor| list(cursor, ")"))?;
            function.takes(arguments.len()).map_err(|expected| {
                let problem = Problem::Arguments { function: function.name(), expected };
                cursor.wrong(start, problem)
            })?;
            Ok(Expression::Call(function, arguments))
        }
        _ => Err(cursor.unexpected(OPERAND)),
    }
}

fn choice(cursor: &mut Cursor<'_>) -> Read<Expression> {
    let test = parse(cursor)?;
    if !cursor.take_word("then") {
        return Err(cursor.unexpected("an operator or `then`"));
    }
    let then = parse(cursor)?;
    if !cursor.take_word("else") {
        return Err(cursor.unexpected("an operator or `else`"));
    }
    let otherwise = parse(cursor)?;
    Ok(Expression::If(Box::new([test, then, otherwise])))
}

fn list(cursor: &mut Cursor<'_>, closing: &str) -> Read<Vec<Expression>> {
    let mut elements = Vec::new();
    if cursor.take(closing) {
        return Ok(elements);
    }
    loop {
        elements.push(parse(cursor)?);
        if cursor.take(closing) {
            return Ok(elements);
        }
        cursor.need(",", "an operator, `,` or the closing bracket")?;
    }
}

fn object(cursor: &mut Cursor<'_>) -> Read<Expression> {
    let mut fields: Vec<(Expression, Expression)> = Vec::new();
    if cursor.take("}") {
        return Ok(Expression::Object(fields));
    }
    loop {
        let at = cursor.next();
        let name = match (cursor.peek(), cursor.word()) {
            (Some('"'), _) => Expression::Text(cursor.quoted()?.into()),
            (Some('['), _) => {
                cursor.pass(1);
                let name = parse(cursor)?;
                cursor.need("]", "an operator or `]`")?;
                name
            }
            (_, "") => return Err(cursor.unexpected("the name of a field")),
            (_, word) => {
                cursor.pass(word.len());
                Expression::Text(word.into())
            }
        };
        cursor.need(":", "`:` and the value of the field")?;
        if let Expression::Text(text) = &name
            && fields.iter().any(|(known, _)| *known == name)
        {
            return Err(cursor.wrong(at, Problem::Twice(crate::error::shown_name(text))));
        }
        fields.push((name, parse(cursor)?));
        if cursor.take("}") {
            return Ok(Expression::Object(fields));
        }
        cursor.need(",", "an operator, `,` or `}`")?;
    }
}

/// A number with its sign, as JSON writes it.
fn number(cursor: &mut Cursor<'_>) -> Read<Expression> {
    let start = cursor.next();
    let mut before = ' ';
    let mut in_number = |letter: char| {
        let sign = matches!(letter, '+' | '-') && matches!(before, 'e' | 'E' | ' ');
        before = letter;
        sign || letter.is_ascii_alphanumeric() || letter == '.'
    };
    let rest = cursor.rest();
    let end = rest.find(|letter| !in_number(letter)).unwrap_or(rest.len());
    let text = rest.get(..end).unwrap_or_default();
    let json = Json::parse(text.as_bytes(), 0).ok();
    let Some((json, number)) = json.and_then(|json| Some((json, number::read(json.text())?)))
    else {
        return Err(cursor.wrong(start, Problem::Number));
    };
    cursor.pass(end);
    if text.starts_with('-') {
        cursor.node()?;
    }
    Ok(match number::says(number, json) {
        true => Expression::Number(number),
        false => Expression::Exact(text.into()),
    })
}
