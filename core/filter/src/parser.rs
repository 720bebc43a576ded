//! A Pratt parser from tokens to the compiled form.
//!
//! Relies on `lexer` for tokens and on `predicate` for the operators that are words. Invariant:
//! recursion happens only under [`Parser::nested`] or to a higher [`Power`], so the stack is
//! bounded by `DEPTH_MAX` × the number of powers.

use tiderace_base::Arithmetic;

use crate::compiled::{Condition, Literal, Operand};
use crate::error::{Problem, SelectorError, shown};
use crate::lexer::{Keyword, Lexer, Token, TokenKind};
use crate::limits::{DEPTH_MAX, NODES_MAX, TEXT_BYTES_MAX};
use crate::parsed::{Parsed, Shape, all, any, chain};
use crate::relation::Relation;

/// The condition that `text` spells.
pub(crate) fn parse(text: &str) -> Result<Condition, SelectorError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Problem::TooLong.at(boundary_before(text, TEXT_BYTES_MAX)));
    }
    let mut lexer = Lexer::new(text);
    let ahead = lexer.token()?;
    if ahead.kind == TokenKind::End {
        return Err(Problem::Empty.at(0));
    }
    let mut parser = Parser { lexer, ahead, depth: 0, nodes: 0 };
    let parsed = parser.expression(Power::Or)?;
    if parser.ahead.kind != TokenKind::End {
        return Err(parser.unexpected(match parsed.shape {
            Shape::Condition(_) => "AND, OR or the end of the selector",
            Shape::Operand(_) => "an operator or the end of the selector",
        }));
    }
    parsed.condition()
}

/// How tightly an operator binds, loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Power {
    Or,
    And,
    Not,
    Predicate,
    Sum,
    Product,
    Sign,
}

pub(crate) struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token, not yet consumed.
    pub(crate) ahead: Token<'a>,
    depth: usize,
    nodes: usize,
}

impl<'a> Parser<'a> {
    /// Reads an expression of operators that bind at least as tightly as `floor`.
    pub(crate) fn expression(&mut self, floor: Power) -> Result<Parsed, SelectorError> {
        let (mut left, mut ceiling) = self.prefix(floor)?;
        while let Some(power) = infix_power(&self.ahead.kind) {
            // Above the ceiling stands, for example, the second `=` of `a = b = c`.
            if power < floor || power > ceiling {
                break;
            }
            left = self.infix(power, left)?;
            // Predicates do not chain, so what follows one binds more loosely.
            ceiling = if power == Power::Predicate { Power::Not } else { power };
        }
        Ok(left)
    }

    /// Consumes the next token.
    pub(crate) fn advance(&mut self) -> Result<Token<'a>, SelectorError> {
        let next = self.lexer.token()?;
        Ok(std::mem::replace(&mut self.ahead, next))
    }

    /// Consumes the next token if it is `kind`.
    pub(crate) fn accept(&mut self, kind: &TokenKind<'_>) -> Result<bool, SelectorError> {
        let found = self.ahead.kind == *kind;
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Consumes the next token, which must be `kind`.
    pub(crate) fn expect(
        &mut self,
        kind: &TokenKind<'_>,
        expected: &'static str,
    ) -> Result<(), SelectorError> {
        if self.accept(kind)? { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    /// The error that something else than the next token was expected.
    pub(crate) fn unexpected(&self, expected: &'static str) -> SelectorError {
        let problem = match self.ahead.kind {
            TokenKind::End => Problem::UnexpectedEnd { expected },
            _ => Problem::UnexpectedToken { found: shown(self.ahead.source), expected },
        };
        problem.at(self.ahead.at)
    }

    /// Counts the next token as an operand or operator.
    fn count(&mut self) -> Result<(), SelectorError> {
        if self.nodes == NODES_MAX {
            return Err(Problem::TooManyNodes.at(self.ahead.at));
        }
        self.nodes += 1;
        Ok(())
    }

    /// Consumes the next token, which opens a level.
    fn enter(&mut self) -> Result<(), SelectorError> {
        if self.depth == DEPTH_MAX {
            return Err(Problem::TooDeep.at(self.ahead.at));
        }
        self.depth += 1;
        self.advance().map(|_| ())
    }

    /// Consumes the next token and reads an expression one level below it.
    fn nested(&mut self, floor: Power) -> Result<Parsed, SelectorError> {
        self.enter()?;
        let parsed = self.expression(floor)?;
        self.depth -= 1;
        Ok(parsed)
    }

    /// Reads what can begin an expression, and how tightly an operator behind it may bind.
    fn prefix(&mut self, floor: Power) -> Result<(Parsed, Power), SelectorError> {
        let at = self.ahead.at;
        if self.ahead.kind == TokenKind::Keyword(Keyword::Not) && floor <= Power::Not {
            self.count()?;
            let inner = self.nested(Power::Not)?.condition()?;
            let shape = Shape::Condition(Condition::Not(Box::new(inner)));
            return Ok((Parsed { at, shape }, Power::And));
        }
        let shape = match self.ahead.kind {
            TokenKind::Open => {
                let inner = self.nested(Power::Or)?;
                self.expect(
                    &TokenKind::Close,
                    match inner.shape {
                        Shape::Condition(_) => "AND, OR or `)`",
                        Shape::Operand(_) => "an operator or `)`",
                    },
                )?;
                inner.shape
            }
            TokenKind::Operator(Arithmetic::Add | Arithmetic::Subtract) => {
                Shape::Operand(self.signed()?)
            }
            _ => Shape::Operand(self.leaf()?),
        };
        Ok((Parsed { at, shape }, Power::Sign))
    }

    /// Reads a sign and what it belongs to.
    fn signed(&mut self) -> Result<Operand, SelectorError> {
        self.count()?;
        let at = self.ahead.at;
        let negative = self.ahead.kind == TokenKind::Operator(Arithmetic::Subtract);
        self.enter()?;
        let operand = match self.ahead.kind {
            // Here and not in `leaf`, because the smallest integer has no positive twin.
            TokenKind::Integer(magnitude) if negative => {
                self.count()?;
                self.advance()?;
                Operand::Literal(Literal::Integer(negated(magnitude, at)?))
            }
            _ => {
                let inner = self.expression(Power::Sign)?.scalar()?;
                if negative {
                    Operand::Negated(Box::new(inner))
                } else {
                    Operand::Positive(Box::new(inner))
                }
            }
        };
        self.depth -= 1;
        Ok(operand)
    }

    fn leaf(&mut self) -> Result<Operand, SelectorError> {
        self.count()?;
        let operand = match &self.ahead.kind {
            TokenKind::Name(name) => Operand::Property(name.as_ref().into()),
            TokenKind::Keyword(Keyword::Null) => Operand::Null,
            _ => match self.literal()? {
                Some(literal) => return Ok(Operand::Literal(literal)),
                None => return Err(self.unexpected(VALUE_EXPECTED)),
            },
        };
        self.advance()?;
        Ok(operand)
    }

    /// Consumes the next token if it is an unsigned literal.
    pub(crate) fn literal(&mut self) -> Result<Option<Literal>, SelectorError> {
        let literal = match &self.ahead.kind {
            TokenKind::Text(text) => Literal::String(text.as_ref().into()),
            TokenKind::Integer(magnitude) => {
                let integer = i64::try_from(*magnitude);
                Literal::Integer(integer.map_err(|_| Problem::NumberOutOfRange.at(self.ahead.at))?)
            }
            TokenKind::Float(float) => Literal::Float(*float),
            TokenKind::Keyword(Keyword::True) => Literal::Boolean(true),
            TokenKind::Keyword(Keyword::False) => Literal::Boolean(false),
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(literal))
    }

    /// Reads the operator ahead, whose power is `power`, and what stands right of it.
    fn infix(&mut self, power: Power, left: Parsed) -> Result<Parsed, SelectorError> {
        self.count()?;
        let at = left.at;
        let shape = match (power, &self.ahead.kind) {
            (Power::Or, _) => {
                let left = left.condition()?;
                self.advance()?;
                Shape::Condition(any(left, self.expression(Power::And)?.condition()?))
            }
            (Power::And, _) => {
                let left = left.condition()?;
                self.advance()?;
                Shape::Condition(all(left, self.expression(Power::Not)?.condition()?))
            }
            (_, TokenKind::Relation(relation)) => {
                let relation = *relation;
                Shape::Condition(self.comparison(left, relation)?)
            }
            (_, TokenKind::Operator(operator)) => {
                let operator = *operator;
                let left = left.scalar()?;
                self.advance()?;
                let floor = if power == Power::Sum { Power::Product } else { Power::Sign };
                Shape::Operand(chain(left, operator, self.expression(floor)?.scalar()?))
            }
            _ => Shape::Condition(self.predicate(left.operand()?)?),
        };
        Ok(Parsed { at, shape })
    }

    fn comparison(&mut self, left: Parsed, relation: Relation) -> Result<Condition, SelectorError> {
        let side = |parsed: Parsed| {
            if relation.is_ordering() { parsed.scalar() } else { Ok(parsed.equatable()) }
        };
        let left = side(left)?;
        self.advance()?;
        let right = side(self.expression(Power::Sum)?)?;
        Ok(Condition::Compare { left, relation, right })
    }
}

/// The integer with this magnitude below zero; `at` is where its sign stands.
pub(crate) fn negated(magnitude: u64, at: usize) -> Result<i64, SelectorError> {
    0_i64.checked_sub_unsigned(magnitude).ok_or(Problem::NumberOutOfRange.at(at))
}

fn infix_power(kind: &TokenKind<'_>) -> Option<Power> {
    match kind {
        TokenKind::Keyword(Keyword::Or) => Some(Power::Or),
        TokenKind::Keyword(Keyword::And) => Some(Power::And),
        TokenKind::Relation(_)
        | TokenKind::Keyword(
            Keyword::Between | Keyword::In | Keyword::Is | Keyword::Like | Keyword::Not,
        ) => Some(Power::Predicate),
        TokenKind::Operator(Arithmetic::Add | Arithmetic::Subtract) => Some(Power::Sum),
        TokenKind::Operator(_) => Some(Power::Product),
        _ => None,
    }
}

/// The last character boundary of `text` at or before `at`.
fn boundary_before(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|offset| text.is_char_boundary(*offset)).unwrap_or(0)
}

const VALUE_EXPECTED: &str = "a header name, a number, 'text', TRUE, FALSE, NULL or `(`";
