//! An expression as it was parsed, and its text.
//!
//! Relies on `pointer`. Invariant: what is displayed is read back as the same expression.

use std::fmt;

use tiderace_base::{Arithmetic, Number};
use tiderace_topics::Regex;

use crate::function::Function;
use crate::levels::Levels;
use crate::pointer::Place;
use crate::quote::Quoted;

/// What has a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Null,
    Bool(bool),
    Number(Number),
    /// A number that would be rounded if it were calculated with, as it was written.
    Exact(Box<str>),
    Text(Box<str>),
    /// A part of a value.
    At(Place),
    /// The name or number of the element that was expanded last.
    Key,
    /// Levels of the source's path.
    Path(Levels),
    Array(Vec<Expression>),
    /// Names and values; a name that is no text is calculated.
    Object(Vec<(Expression, Expression)>),
    /// Whether there is something.
    Exists(Place),
    Not(Box<Expression>),
    Negate(Box<Expression>),
    Two(Operator, Box<Expression>, Box<Expression>),
    Matches(Box<Expression>, Regex),
    If(Box<[Expression; 3]>),
    Call(Function, Vec<Expression>),
}

/// What stands between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Compare(Comparison),
    In,
    Calculate(Arithmetic),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How tightly each kind of expression holds together, loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Choice,
    Or,
    And,
    Not,
    Compare,
    Sum,
    Product,
    Sign,
    Whole,
}

impl Expression {
    fn binding(&self) -> Binding {
        match self {
            Expression::If(_) => Binding::Choice,
            Expression::Two(Operator::Or, ..) => Binding::Or,
            Expression::Two(Operator::And, ..) => Binding::And,
            Expression::Not(_) => Binding::Not,
            Expression::Two(Operator::Compare(_) | Operator::In, ..) => Binding::Compare,
            Expression::Matches(..) => Binding::Compare,
            Expression::Two(Operator::Calculate(arithmetic), ..) => match arithmetic {
                Arithmetic::Add | Arithmetic::Subtract => Binding::Sum,
                Arithmetic::Multiply | Arithmetic::Divide | Arithmetic::Remainder => {
                    Binding::Product
                }
            },
            Expression::Negate(_) => Binding::Sign,
            _ => Binding::Whole,
        }
    }
}

/// An operand, in brackets unless it holds at least so tightly.
struct Operand<'a>(&'a Expression, Binding);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.binding() < self.1 { write!(f, "({})", self.0) } else { self.0.fmt(f) }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Null => f.write_str("null"),
            Expression::Bool(truth) => truth.fmt(f),
            Expression::Number(number) => number.fmt(f),
            Expression::Exact(text) => f.write_str(text),
            Expression::Text(text) => Quoted(text).fmt(f),
            Expression::At(place) => place.fmt(f),
            Expression::Key => f.write_str("key"),
            Expression::Path(levels) => levels.fmt(f),
            Expression::Array(elements) => {
                f.write_str("[")?;
                list(f, elements)?;
                f.write_str("]")
            }
            Expression::Object(fields) => object(f, fields),
            Expression::Exists(place) => write!(f, "exists {place}"),
            Expression::Not(inner) => write!(f, "not {}", Operand(inner, Binding::Not)),
            // Always in brackets: a sign before digits belongs to the number.
            Expression::Negate(inner) => write!(f, "-({inner})"),
            Expression::Two(operator, left, right) => {
                let binding = self.binding();
                // Comparisons do not chain, everything else does to the left.
                let left_least = if binding == Binding::Compare { Binding::Sum } else { binding };
                let right_least = tighter(binding);
                write!(
                    f,
                    "{} {operator} {}",
                    Operand(left, left_least),
                    Operand(right, right_least)
                )
            }
            Expression::Matches(inner, regex) => {
                write!(f, "{} matches {}", Operand(inner, Binding::Sum), Quoted(regex.as_str()))
            }
            Expression::If(parts) => {
                let [test, then, otherwise] = &**parts;
                write!(f, "if {test} then {then} else {otherwise}")
            }
            Expression::Call(function, arguments) => {
                write!(f, "{}(", function.name())?;
                list(f, arguments)?;
                f.write_str(")")
            }
        }
    }
}

fn tighter(binding: Binding) -> Binding {
    match binding {
        Binding::Choice => Binding::Or,
        Binding::Or => Binding::And,
        Binding::And => Binding::Not,
        Binding::Not => Binding::Compare,
        Binding::Compare => Binding::Sum,
        Binding::Sum => Binding::Product,
        Binding::Product => Binding::Sign,
        Binding::Sign | Binding::Whole => Binding::Whole,
    }
}

fn list(f: &mut fmt::Formatter<'_>, expressions: &[Expression]) -> fmt::Result {
    for (index, expression) in expressions.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        write!(f, "{comma}{expression}")?;
    }
    Ok(())
}

fn object(f: &mut fmt::Formatter<'_>, fields: &[(Expression, Expression)]) -> fmt::Result {
    f.write_str("{")?;
    for (index, (name, expression)) in fields.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        match name {
            Expression::Text(name) => write!(f, "{comma}{}: {expression}", Quoted(name))?,
            name => write!(f, "{comma}[{name}]: {expression}")?,
        }
    }
    f.write_str("}")
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Or => "or",
            Operator::And => "and",
            Operator::In => "in",
            Operator::Compare(comparison) => comparison.text(),
            Operator::Calculate(arithmetic) => match arithmetic {
                Arithmetic::Add => "+",
                Arithmetic::Subtract => "-",
                Arithmetic::Multiply => "*",
                Arithmetic::Divide => "/",
                Arithmetic::Remainder => "%",
            },
        })
    }
}

impl Comparison {
    /// All of them, longer signs before those they begin with.
    pub(crate) const ALL: [Comparison; 6] = [
        Comparison::Unequal,
        Comparison::LessOrEqual,
        Comparison::GreaterOrEqual,
        Comparison::Equal,
        Comparison::Less,
        Comparison::Greater,
    ];

    /// Its sign.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::Unequal => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}
