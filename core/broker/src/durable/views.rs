//! Views that clients put: how the store keeps them, and how they come back.
//!
//! Each lies under a number of its own among the named values; the numbers say which was put first.
//! Relies on the registrar alone saying something of views. Invariants: all shards restore the same
//! views in the same order; views of the configuration are not kept, and one of the same name that
//! was put goes.

use std::sync::Arc;

use tiderace_journal::{RecordSubject, StoreRecord};
use tiderace_topics::Path;
use tiderace_views::View;

use super::Unrestorable;
use super::codec::Fields;
use crate::broker::Broker;
use crate::collections::Map;

/// Named values below this are views.
const VIEWS: &str = "views/";
/// The form that is written; another one is not understood.
const FORM: u8 = 1;

/// A view as the store has it.
#[derive(Debug, PartialEq, Eq)]
struct KeptView {
    number: u64,
    name: Path,
    text: Box<str>,
}

impl KeptView {
    fn encode(name: &Path, text: &str) -> Vec<u8> {
        let name = name.as_str();
        let mut out = Vec::with_capacity(3 + name.len() + text.len());
        out.push(FORM);
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(text.as_bytes());
        out
    }

    fn decode(number: &str, value: &[u8]) -> Option<KeptView> {
        let mut fields = Fields(value);
        if fields.byte()? != FORM {
            return None;
        }
        let length = u16::from_le_bytes(*fields.array()?);
        let name = std::str::from_utf8(fields.take(usize::from(length))?).ok()?;
        let text = std::str::from_utf8(fields.0).ok()?;
        let (number, name) = (number.parse().ok()?, Path::parse(name).ok()?);
        Some(KeptView { number, name, text: text.into() })
    }
}

impl Broker {
    /// At the registrar: a view was put, has changed or is gone. What is said of it is what there
    /// is.
    pub(crate) fn append_view(&mut self, number: u64) {
        let Some(durable) = self.durable.as_deref_mut() else { return };
        let name = format!("{VIEWS}{number}");
        let record = match self.views.kept_as(number) {
            Some((path, view)) => {
                StoreRecord::Set { name, value: KeptView::encode(path, view.text()) }
            }
            None => StoreRecord::Unset { name },
        };
        durable.journal.append(record, RecordSubject::View(number));
    }

    /// Refuses to change a view if the change would not be stored.
    pub(crate) fn check_view_store(&self, name: &Path) -> Result<(), tiderace_base::Close> {
        if self.is_configured_view(name) { Ok(()) } else { self.check_outage() }
    }

    /// Whether views of that name come from the configuration when the server starts.
    pub(crate) fn is_configured_view(&self, name: &Path) -> bool {
        self.options.views.iter().any(|(configured, _)| configured == name)
    }

    /// Takes views back, found in the store's named values, after [`Broker::begin_durability`]. The
    /// registrar says which do not come back.
    pub fn restore_views<'a>(
        &mut self,
        values: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Vec<Unrestorable> {
        let mut problems = Vec::new();
        let mut kept: Vec<KeptView> = Vec::new();
        let mut last = 0;
        for (name, value) in values {
            let Some(number) = name.strip_prefix(VIEWS) else { continue };
            last = number.parse().map_or(last, |number: u64| number.max(last));
            match KeptView::decode(number, value) {
                Some(view) => kept.push(view),
                None => problems.push(Unrestorable::ViewForm(name.into())),
            }
        }
        kept.sort_unstable_by_key(|view| view.number);
        self.views.kept_until(last);
        // Of two of one name the newer one counts: that the older one is gone was not stored.
        let newest: Map<Path, u64> =
            kept.iter().map(|view| (view.name.clone(), view.number)).collect();
        let is_registrar = self.shard == self.registrar();
        for view in kept {
            let KeptView { number, name, text } = view;
            let is_configured = self.is_configured_view(&name);
            if is_configured || newest.get(&name) != Some(&number) {
                if is_registrar {
                    self.append_view(number);
                }
                if is_configured {
                    problems.push(Unrestorable::ViewConfigured(name));
                }
                continue;
            }
            match View::parse(&text) {
                Ok(view) => self.views.take_back(name, Arc::new(view), number),
                Err(error) => problems.push(Unrestorable::View { name, error: Box::new(error) }),
            }
        }
        if !is_registrar {
            problems.clear();
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(number: u64, text in ".{0,50}", name in "[a-zä]{1,9}(/[a-z]{1,9}){0,3}") {
            let name = Path::parse(&name).unwrap();
            let bytes = KeptView::encode(&name, &text);
            let read = KeptView::decode(&number.to_string(), &bytes).unwrap();
            prop_assert_eq!(read, KeptView { number, name, text: text.into() });
        }

        #[test]
        fn anything_can_be_read(number in "[0-9]{0,30}", bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut formed = vec![FORM];
            formed.extend_from_slice(&bytes);
            if let Some(view) = KeptView::decode(&number, &formed) {
                prop_assert_eq!(KeptView::encode(&view.name, &view.text), formed);
            }
        }
    }
}
