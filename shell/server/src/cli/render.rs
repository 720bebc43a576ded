//! How messages are printed: for people, each on a short line, and for programs, whole.
//!
//! Pure. Invariant: what a program reads from a pipe is never cut; a terminal never obeys what a message has in it.

use std::io::IsTerminal;

use serde_json::{Map, Value as Json, json};

use super::client::Message;
use super::output::printable;
use super::publish::is_json;

/// How messages are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// The body, behind the path if that is wanted; cut to the columns of a terminal.
    Line { with_path: bool, columns: Option<usize> },
    /// One line of JSON.
    Json,
}

/// The columns of the terminal that standard output is, if it is one.
pub(super) fn columns() -> Option<usize> {
    let out = std::io::stdout();
    let known = terminal_size::terminal_size_of(&out).map(|(width, _)| width.0.max(20).into());
    // Not every terminal says how wide it is.
    out.is_terminal().then_some(known.unwrap_or(80))
}

/// The line of a message, with its end.
pub(super) fn render(message: &Message, style: Style) -> Vec<u8> {
    let Style::Line { with_path, columns } = style else {
        let mut line = to_json(message);
        line.push('\n');
        return line.into_bytes();
    };
    let Some(columns) = columns else {
        let path: &[&[u8]] = if with_path { &[message.path.as_bytes(), b" "] } else { &[] };
        return [path, &[&message.body, b"\n"]].concat().concat();
    };
    let body = match (std::str::from_utf8(&message.body), message.removed) {
        (_, true) => "(removed)".to_owned(),
        // More than fits would be cut anyway.
        (Ok(text), _) => printable(&text.chars().take(columns + 1).collect::<String>()),
        (Err(_), _) => format!("({} bytes that are no text)", message.body.len()),
    };
    let path = if with_path { printable(&message.path) + " " } else { String::new() };
    (cut(path + &body, columns) + "\n").into_bytes()
}

/// At most so many characters, the last of which says that there were more.
fn cut(line: String, columns: usize) -> String {
    match line.char_indices().nth(columns) {
        None => line,
        Some(_) => line.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// A JSON body stands as it is, another as text if it is UTF-8, else as hexadecimal digits in `body_hex`.
fn to_json(message: &Message) -> String {
    let mut headers = Map::new();
    for (name, value) in &message.properties {
        // The first of repeated properties counts.
        headers.entry(name.clone()).or_insert_with(|| json!(value));
    }
    let says_json = headers.get("content-type").is_some_and(|told| told == "application/json");
    let mut object = Map::new();
    object.insert("headers".to_owned(), Json::Object(headers));
    if message.removed {
        object.insert("removed".to_owned(), json!(true));
    }
    object.insert("topic".to_owned(), json!(message.path));
    let body = match std::str::from_utf8(&message.body) {
        Ok(text) if says_json && is_json(&message.body) => {
            // Outside of JSON's strings ends of lines mean nothing, inside there are none.
            format!("\"body\":{}", text.trim().replace(['\n', '\r'], " "))
        }
        Ok(text) => format!("\"body\":{}", json!(text)),
        Err(_) => {
            let digits: String = message.body.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\"body_hex\":\"{digits}\"")
        }
    };
    let rest = Json::Object(object).to_string();
    format!("{{{body},{}", rest.trim_start_matches('{'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PIPE: Style = Style::Line { with_path: false, columns: None };

    fn message(body: &[u8]) -> Message {
        let property = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Message {
            path: "fx/EUR-USD".to_owned(),
            properties: vec![property("a", "1"), property("a", "2")],
            body: body.to_vec(),
            ..Message::default()
        }
    }

    fn text(message: &Message, style: Style) -> String {
        String::from_utf8(render(message, style)).unwrap()
    }

    #[test]
    fn messages_are_printed_in_three_ways() {
        let mut quote = message(b"1.09");
        assert_eq!(text(&quote, PIPE), "1.09\n");
        let with_path = Style::Line { with_path: true, columns: None };
        assert_eq!(text(&quote, with_path), "fx/EUR-USD 1.09\n");
        let expected = r#"{"body":"1.09","headers":{"a":"1"},"topic":"fx/EUR-USD"}"#;
        assert_eq!(text(&quote, Style::Json), format!("{expected}\n"));
        quote.body = vec![0xff, 0x00];
        let json: Json = serde_json::from_str(&text(&quote, Style::Json)).unwrap();
        assert_eq!((json.get("body"), &json["body_hex"]), (None, &json!("ff00")));
        quote = Message { body: vec![], removed: true, ..quote };
        let json: Json = serde_json::from_str(&text(&quote, Style::Json)).unwrap();
        assert_eq!((&json["body"], &json["removed"]), (&json!(""), &json!(true)));
    }

    #[test]
    fn bodies_that_are_json_stay_as_they_are_on_one_line() {
        let mut quote = message(b"{\n  \"bid\": 1.10\r\n}\n");
        quote.properties = vec![("content-type".to_owned(), "application/json".to_owned())];
        let line = text(&quote, Style::Json);
        assert!(line.starts_with("{\"body\":{   \"bid\": 1.10  },\"headers\":"), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
        quote.body = b"{\"bid\":".to_vec();
        let json: Json = serde_json::from_str(&text(&quote, Style::Json)).unwrap();
        assert_eq!(json["body"], json!("{\"bid\":"), "what only claims to be JSON is a text");
    }

    #[test]
    fn a_terminal_gets_short_lines_that_it_cannot_obey() {
        let style = Style::Line { with_path: true, columns: Some(20) };
        assert_eq!(text(&message(b"1.09"), style), "fx/EUR-USD 1.09\n");
        assert_eq!(text(&message(b"123456789"), style), "fx/EUR-USD 123456789\n");
        assert_eq!(text(&message(b"1234567890"), style), "fx/EUR-USD 12345678…\n");
        assert_eq!(text(&message("ééééééééééé".as_bytes()), style), "fx/EUR-USD éééééééé…\n");
        assert_eq!(text(&message(b"\x1b[2J"), style), "fx/EUR-USD \\u{1b}[2J\n");
        let wide = Style::Line { with_path: false, columns: Some(80) };
        assert_eq!(text(&message(&[0xff, 1]), wide), "(2 bytes that are no text)\n");
        assert_eq!(text(&Message { removed: true, ..message(b"") }, wide), "(removed)\n");
    }
}
