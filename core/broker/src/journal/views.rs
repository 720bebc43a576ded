//! Views that clients put: how the store keeps them, and how they come back.
//!
//! Each lies under a number of its own among the named values; the numbers say which was put first.
//! Relies on the registrar alone saying something of views. Invariants: all shards restore the same
//! views in the same order; views of the configuration are not kept, and one of the same name that
//! was put goes.

use tiderace_journal::{RecordSubject, StoreRecord};
use tiderace_topics::Path;
use tiderace_views::View;

use super::codec::Fields;
use super::{HomeJournal, Unrestorable};

/// Named values below this are views.
const VIEWS: &str = "views/";
/// The form that is written; another one is not understood.
const FORM: u8 = 1;

/// A view as the store has it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeptView {
    pub(crate) number: u64,
    pub(crate) name: Path,
    pub(crate) text: Box<str>,
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

impl HomeJournal {
    /// At the registrar: a view was put, has changed or is gone; what is appended is what there is under its
    /// number.
    pub(crate) fn append_view(&mut self, number: u64, kept: Option<(&Path, &View)>) {
        let Some(open) = self.open.as_deref_mut() else { return };
        let name = format!("{VIEWS}{number}");
        let record = match kept {
            Some((path, view)) => {
                StoreRecord::Set { name, value: KeptView::encode(path, view.text()) }
            }
            None => StoreRecord::Unset { name },
        };
        open.journal.append(record, RecordSubject::View(number));
    }
}

/// The views among the store's named values, in the order in which they were put, and the last number that any
/// had.
pub(crate) fn read_views<'a>(
    values: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> (Vec<Result<KeptView, Unrestorable>>, u64) {
    let (mut kept, mut last) = (Vec::new(), 0);
    for (name, value) in values {
        let Some(number) = name.strip_prefix(VIEWS) else { continue };
        last = number.parse().map_or(last, |number: u64| number.max(last));
        let view = KeptView::decode(number, value);
        kept.push(view.ok_or_else(|| Unrestorable::ViewForm(name.into())));
    }
    kept.sort_by_key(|view| view.as_ref().map_or(0, |view| view.number));
    (kept, last)
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
