//! The functions of the view language: one table of names, arguments and meanings.
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

/// A row of the table.
struct Row(Function, &'static str, usize, usize, &'static str);

/// Most arguments of a function that takes any number.
const MANY: usize = 64;

/// Function, name, least and most arguments, what it takes.
const ROWS: &[Row] = &[
    Row(Function::Text, "text", 1, 1, "one value"),
    Row(Function::Number, "number", 1, 1, "one value"),
    Row(Function::Round, "round", 1, 2, "a number, and how many digits behind the point (else 0)"),
    Row(Function::Fixed, "fixed", 2, 2, "a number and how many digits behind the point"),
    Row(Function::Floor, "floor", 1, 1, "one number"),
    Row(Function::Ceiling, "ceiling", 1, 1, "one number"),
    Row(Function::Abs, "abs", 1, 1, "one number"),
    Row(Function::Min, "min", 1, MANY, "numbers, or one array of them"),
    Row(Function::Max, "max", 1, MANY, "numbers, or one array of them"),
    Row(Function::Sum, "sum", 1, MANY, "numbers, or one array of them"),
    Row(Function::Length, "length", 1, 1, "one text, array or object"),
    Row(Function::Lower, "lower", 1, 1, "one text"),
    Row(Function::Upper, "upper", 1, 1, "one text"),
    Row(Function::Trim, "trim", 1, 1, "one text"),
    Row(Function::Replace, "replace", 3, 3, "a text, what to look for and what to put there"),
    Row(Function::Part, "part", 3, 3, "a text, a separator and the number of a part, from 0"),
    Row(Function::Join, "join", 2, 2, "an array and a separator"),
    Row(Function::First, "first", 1, MANY, "values, of which the first that exists counts"),
];

impl Function {
    /// The function of that name.
    pub(crate) fn named(name: &str) -> Option<Function> {
        ROWS.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        self.row().map_or("", |row| row.1)
    }

    /// Whether it takes so many arguments, and what it takes.
    pub(crate) fn takes(self, count: usize) -> Result<(), &'static str> {
        match self.row() {
            Some(Row(_, _, least, most, says)) if !(*least..=*most).contains(&count) => Err(says),
            _ => Ok(()),
        }
    }

    fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.0 == self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_one_row() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(row.2 <= row.3);
            assert_eq!(Function::named(row.1), Some(row.0));
            assert_eq!(row.0.name(), row.1);
            assert!(ROWS[..index].iter().all(|earlier| earlier.0 != row.0));
        }
        assert_eq!(ROWS.len(), Function::First as usize + 1);
    }
}
