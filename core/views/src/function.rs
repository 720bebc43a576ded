//! The functions of the view language: one table of names and arguments.
//!
//! Relies on nothing. Invariant: the table has every function once.

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Text,
    Number,
    Round,
    Fixed,
    Floor,
    Ceiling,
    Abs,
    Min,
    Max,
    Sum,
    Length,
    Lower,
    Upper,
    Trim,
    Replace,
    Part,
    Join,
    First,
}

/// Functions that take the same.
struct Signature {
    least: usize,
    most: usize,
    /// For those who give something else.
    says: &'static str,
    functions: &'static [(Function, &'static str)],
}

/// Most arguments of a function that takes any number.
const MANY: usize = 64;

const fn taking(
    least: usize,
    most: usize,
    says: &'static str,
    functions: &'static [(Function, &'static str)],
) -> Signature {
    Signature { least, most, says, functions }
}

const SIGNATURES: &[Signature] = &[
    taking(1, 1, "one value", &[(Function::Text, "text"), (Function::Number, "number")]),
    taking(
        1,
        1,
        "one number",
        &[(Function::Floor, "floor"), (Function::Ceiling, "ceiling"), (Function::Abs, "abs")],
    ),
    taking(
        1,
        1,
        "one text",
        &[(Function::Lower, "lower"), (Function::Upper, "upper"), (Function::Trim, "trim")],
    ),
    taking(
        1,
        MANY,
        "numbers, or one array of them",
        &[(Function::Min, "min"), (Function::Max, "max"), (Function::Sum, "sum")],
    ),
    taking(1, 1, "one text, array or object", &[(Function::Length, "length")]),
    taking(
        1,
        2,
        "a number, and how many digits behind the point (else 0)",
        &[(Function::Round, "round")],
    ),
    taking(2, 2, "a number and how many digits behind the point", &[(Function::Fixed, "fixed")]),
    taking(
        3,
        3,
        "a text, what to look for and what to put there",
        &[(Function::Replace, "replace")],
    ),
    taking(
        3,
        3,
        "a text, a separator and the number of a part, from 0",
        &[(Function::Part, "part")],
    ),
    taking(2, 2, "an array and a separator", &[(Function::Join, "join")]),
    taking(1, MANY, "values, of which the first that exists counts", &[(Function::First, "first")]),
];

impl Function {
    /// The function of that name.
    pub(crate) fn named(name: &str) -> Option<Function> {
        rows().find(|(_, (_, known))| *known == name).map(|(_, (function, _))| *function)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        self.row().map_or("", |(_, name)| name)
    }

    /// Whether it takes so many arguments, and what it takes.
    pub(crate) fn takes(self, count: usize) -> Result<(), &'static str> {
        match self.row() {
            Some((taken, _)) if !(taken.least..=taken.most).contains(&count) => Err(taken.says),
            _ => Ok(()),
        }
    }

    fn row(self) -> Option<(&'static Signature, &'static str)> {
        let row = rows().find(|(_, (function, _))| *function == self)?;
        Some((row.0, row.1.1))
    }
}

fn rows() -> impl Iterator<Item = (&'static Signature, &'static (Function, &'static str))> {
    let rows = |taken: &'static Signature| taken.functions.iter().map(move |row| (taken, row));
    SIGNATURES.iter().flat_map(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_one_row() {
        let all: Vec<Function> = rows().map(|(_, row)| row.0).collect();
        for (taken, (function, name)) in rows() {
            assert!(taken.least <= taken.most);
            assert_eq!(Function::named(name), Some(*function));
            assert_eq!(function.name(), *name);
            assert_eq!(all.iter().filter(|other| *other == function).count(), 1);
        }
        assert_eq!(all.len(), Function::First as usize + 1);
    }
}
