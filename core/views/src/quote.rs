//! Texts as a view writes them: JSON strings.

use std::fmt;

/// A text, displayed in quotes.
#[derive(Debug)]
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        tiderace_value::append_text(&mut out, self.0);
        f.write_str(&String::from_utf8_lossy(&out))
    }
}
