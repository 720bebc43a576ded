//! The comparisons of a selector.

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    /// Whether the relation asks which side is larger, not only whether they are the same.
    pub(crate) fn is_ordering(self) -> bool {
        !matches!(self, Relation::Equal | Relation::NotEqual)
    }
}
