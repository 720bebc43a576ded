//! The selector itself: its text and its compiled form, shared between subscriptions.
//!
//! Relies on `parser` and `evaluate`. Invariant: a `Selector` exists only for a text that parsed,
//! and never changes.

use std::fmt;
use std::sync::Arc;

use crate::compiled::Condition;
use crate::error::SelectorError;
use crate::evaluate::evaluate;
use crate::parser::parse;
use crate::value::Properties;

/// A compiled message selector. Cloning shares it; it may be used from several threads.
#[derive(Clone)]
pub struct Selector {
    shared: Arc<Shared>,
}

struct Shared {
    text: Box<str>,
    condition: Condition,
}

impl Selector {
    /// Compiles `text`.
    ///
    /// # Errors
    /// When the text is empty, is no selector, or exceeds one of the limits
    /// ([`TEXT_BYTES_MAX`](crate::TEXT_BYTES_MAX), [`DEPTH_MAX`](crate::DEPTH_MAX),
    /// [`NODES_MAX`](crate::NODES_MAX), [`CHOICES_MAX`](crate::CHOICES_MAX)); the error says
    /// where and what was expected.
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        let condition = parse(text)?;
        Ok(Selector { shared: Arc::new(Shared { text: text.into(), condition }) })
    }

    /// Whether the message with these properties is selected. Unknown counts as no.
    pub fn matches(&self, properties: &dyn Properties) -> bool {
        evaluate(&self.shared.condition, properties) == Some(true)
    }

    /// The text this selector was parsed from.
    pub fn text(&self) -> &str {
        &self.shared.text
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Selector").field(&self.text()).finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_and_cross_threads() {
        fn shareable<T: Send + Sync + Clone>(_: &T) {}
        let selector = Selector::parse(" a = 'b' ").unwrap();
        shareable(&selector);
        assert!(Arc::ptr_eq(&selector.shared, &selector.clone().shared));
        assert_eq!(selector.text(), " a = 'b' ");
        assert_eq!(format!("{selector:?}"), "Selector(\" a = 'b' \")");
    }
}
