//! The selector itself: its text and its compiled form, shared between subscriptions.
//!
//! Relies on `parser` and `evaluate`. Invariant: a `Selector` exists only for a text that parsed,
//! and never changes.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::compiled::Condition;
use crate::error::SelectorError;
use crate::evaluate::{evaluate, priced};
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

    /// The same, and what it cost to find out, in steps of about three nanoseconds: it depends on the
    /// selector, and on how much there is to look through.
    pub fn look(&self, properties: &dyn Properties) -> (bool, u32) {
        let (truth, price) = priced(&self.shared.condition, properties);
        (truth == Some(true), price)
    }

    /// Tells it from all others that are there, but for its clones.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// How many clones of it there are, itself included.
    pub fn clones(&self) -> usize {
        Arc::strong_count(&self.shared)
    }

    /// The text this selector was parsed from.
    pub fn text(&self) -> &str {
        &self.shared.text
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Selector) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) || self.text() == other.text()
    }
}

impl Eq for Selector {}

impl Hash for Selector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl Borrow<str> for Selector {
    fn borrow(&self) -> &str {
        self.text()
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

    struct Headers(usize);

    impl Properties for Headers {
        fn property(&self, _: &str) -> Option<crate::Value<'_>> {
            Some(crate::Value::String("a".repeat(self.0).into()))
        }

        fn lookup_price(&self) -> u32 {
            self.0 as u32
        }
    }

    #[test]
    fn a_price_rises_with_the_selector_and_with_what_is_looked_through() {
        let price = |text: &str, bytes| Selector::parse(text).unwrap().look(&Headers(bytes)).1;
        let plain = price("x = 'a'", 1);
        assert!(plain < 64, "{plain}");
        assert!(price("x = 'a' AND x = 'a' AND x = 'a'", 1) > plain);
        assert!(price("x = 'a'", 1_000) >= plain + 999);
        assert!(price("x LIKE 'a%b'", 1_000) > 2_000);
        assert!(price("x LIKE '%a%a%a%a%a%b'", 16_000) > 30_000);
    }

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
