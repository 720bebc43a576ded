//! An event of a trace as a line of JSON.
//!
//! Invariant: a line is an object of JSON, whatever texts it was given, and its texts are bounded.

use tiderace_base::SessionId;
use tiderace_value::append_text;

use crate::spell;

/// Bytes of a line behind which no other body is shown.
const BODIES_BYTES_MAX: usize = 2_048;
/// Bytes of a text that is no body, at most: longer ones are cut.
const TEXT_BYTES_MAX: usize = 1_024;

/// An event that is being written.
#[derive(Clone, Debug)]
pub struct TraceLine(Vec<u8>);

impl TraceLine {
    /// Begins an event.
    pub fn new(time_ms: u64, event: &str) -> TraceLine {
        TraceLine(format!(r#"{{"time":{time_ms},"event":"{event}""#).into_bytes())
    }

    /// Says which session it is of.
    #[must_use]
    pub fn session(self, session: SessionId) -> TraceLine {
        self.text("session", &spell(session))
    }

    /// Adds a member that is a text.
    #[must_use]
    pub fn text(mut self, name: &str, text: &str) -> TraceLine {
        self.begin(name);
        append_text(&mut self.0, cut(text, TEXT_BYTES_MAX));
        self
    }

    /// The same if there is one.
    #[must_use]
    pub fn some_text(self, name: &str, text: Option<&str>) -> TraceLine {
        match text {
            Some(text) => self.text(name, text),
            None => self,
        }
    }

    /// Adds a member that is a whole number.
    #[must_use]
    pub fn number(mut self, name: &str, number: u64) -> TraceLine {
        self.begin(name);
        self.0.extend_from_slice(number.to_string().as_bytes());
        self
    }

    /// Adds bodies as texts, so many bytes of each at most. What is no UTF-8 is shown as U+FFFD.
    #[must_use]
    pub fn bodies<'a>(mut self, bodies: impl Iterator<Item = &'a [u8]>, most: usize) -> TraceLine {
        self.begin("bodies");
        self.0.push(b'[');
        for (place, body) in bodies.enumerate() {
            if self.0.len() > BODIES_BYTES_MAX {
                break;
            }
            if place > 0 {
                self.0.push(b',');
            }
            let shown = body.get(..most).unwrap_or(body);
            append_text(&mut self.0, &String::from_utf8_lossy(shown));
        }
        self.0.push(b']');
        self
    }

    /// The event.
    pub fn end(mut self) -> Box<[u8]> {
        self.0.push(b'}');
        self.0.into()
    }

    fn begin(&mut self, name: &str) {
        self.0.extend_from_slice(format!(",\"{name}\":").as_bytes());
    }
}

/// The beginning of a text, of at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_line_is_an_object_whatever_it_says() {
        let session = SessionId { shard: tiderace_base::ShardId(0), slot: 17, generation: 1 };
        let line = TraceLine::new(5, "published").session(session).text("path", "a\"b\n");
        let bodies: [&[u8]; 3] = [b"hello", b"\xff", b"a"];
        let line = line.some_text("name", None).number("messages", 3);
        let line = line.bodies(bodies.into_iter(), 2).end();
        let expected = r#"{"time":5,"event":"published","session":"0-17-1","path":"a\"b\n","messages":3,"bodies":["he","�","a"]}"#;
        assert_eq!(String::from_utf8(line.into()).unwrap(), expected);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let line = TraceLine::new(5, "x").text("path", &"ä".repeat(2_000)).end();
        let text = String::from_utf8(line.into()).unwrap();
        assert_eq!(text.matches('ä').count(), TEXT_BYTES_MAX / 2);
    }
}
