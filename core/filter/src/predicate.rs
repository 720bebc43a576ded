//! The predicates that are words: `BETWEEN`, `IN`, `LIKE`, `IS NULL` and their negations.
//!
//! Relies on `parser`, of which this is the second half. Invariant: lists and patterns hold
//! literals only, so they are compiled here, once, and never during evaluation.

use tiderace_base::Arithmetic;

use crate::compiled::{Choices, Condition, Literal, Operand};
use crate::error::{Problem, SelectorError};
use crate::lexer::{Keyword, TokenKind};
use crate::like::LikePattern;
use crate::limits::CHOICES_MAX;
use crate::parser::{Parser, Power, negated};

impl Parser<'_> {
    /// Reads the predicate that begins with the next token and speaks about `value`.
    pub(crate) fn predicate(&mut self, value: Operand) -> Result<Condition, SelectorError> {
        if self.accept(&TokenKind::Keyword(Keyword::Is))? {
            let negated = self.accept(&TokenKind::Keyword(Keyword::Not))?;
            self.expect(&TokenKind::Keyword(Keyword::Null), "NULL or NOT NULL")?;
            return Ok(Condition::IsNull { value, negated });
        }
        let negated = self.accept(&TokenKind::Keyword(Keyword::Not))?;
        if self.accept(&TokenKind::Keyword(Keyword::Between))? {
            let low = self.expression(Power::Sum)?.scalar()?;
            self.expect(&TokenKind::Keyword(Keyword::And), "AND and the upper bound")?;
            let high = self.expression(Power::Sum)?.scalar()?;
            Ok(Condition::Between { value, low, high, negated })
        } else if self.accept(&TokenKind::Keyword(Keyword::In))? {
            Ok(Condition::In { value, choices: self.choices()?, negated })
        } else if self.accept(&TokenKind::Keyword(Keyword::Like))? {
            Ok(Condition::Like { value, pattern: self.pattern()?, negated })
        } else {
            Err(self.unexpected("BETWEEN, IN or LIKE"))
        }
    }

    fn choices(&mut self) -> Result<Choices, SelectorError> {
        self.expect(&TokenKind::Open, "`(` and a list of 'text' or numbers")?;
        let mut literals = Vec::new();
        loop {
            if literals.len() == CHOICES_MAX {
                return Err(Problem::TooManyChoices.at(self.ahead.at));
            }
            literals.push(self.choice()?);
            if !self.accept(&TokenKind::Comma)? {
                break;
            }
        }
        self.expect(&TokenKind::Close, "`,` or `)`")?;
        Ok(Choices::new(literals))
    }

    fn choice(&mut self) -> Result<Literal, SelectorError> {
        let at = self.ahead.at;
        let negative = self.accept(&TokenKind::Operator(Arithmetic::Subtract))?;
        let signed = negative || self.accept(&TokenKind::Operator(Arithmetic::Add))?;
        match self.ahead.kind {
            TokenKind::Integer(magnitude) if negative => {
                self.advance()?;
                Ok(Literal::Integer(negated(magnitude, at)?))
            }
            TokenKind::Float(float) if negative => {
                self.advance()?;
                Ok(Literal::Float(-float))
            }
            TokenKind::Integer(_) | TokenKind::Float(_) => self.choice_literal("a number"),
            _ if signed => Err(self.unexpected("a number")),
            _ => self.choice_literal("'text', a number, TRUE or FALSE"),
        }
    }

    fn choice_literal(&mut self, expected: &'static str) -> Result<Literal, SelectorError> {
        match self.literal()? {
            Some(literal) => Ok(literal),
            None => Err(self.unexpected(expected)),
        }
    }

    fn pattern(&mut self) -> Result<LikePattern, SelectorError> {
        let pattern_at = self.ahead.at;
        let pattern = self.text("a 'pattern' in single quotes")?;
        let mut escape = None;
        if self.accept(&TokenKind::Keyword(Keyword::Escape))? {
            let escape_at = self.ahead.at;
            let text = self.text("one character in single quotes")?;
            let mut characters = text.chars();
            escape = characters.next();
            if escape.is_none() || characters.next().is_some() {
                return Err(Problem::BadEscape.at(escape_at));
            }
        }
        LikePattern::new(&pattern, escape).ok_or(Problem::BadEscape.at(pattern_at))
    }

    fn text(&mut self, expected: &'static str) -> Result<String, SelectorError> {
        let TokenKind::Text(text) = &self.ahead.kind else {
            return Err(self.unexpected(expected));
        };
        let text = text.to_string();
        self.advance()?;
        Ok(text)
    }
}
