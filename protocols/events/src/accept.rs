//! In which form a client wants a stream: its `Accept` field, by weight, and `envelope`.
//!
//! Relies on `encode` for the forms. Invariant: what has the weight 0 is not sent.

use tiderace_wire::Request;

use crate::answer::{Fault, HttpFault};
use crate::content::essence;
use crate::encode::Form;
use crate::parameters::choice;

/// The form asked for; absent where the topics decide.
pub(crate) fn form(request: &Request<'_>) -> Result<Option<Form>, Fault> {
    let objects = match choice(request, "envelope", "tiderace-envelope")? {
        Some(true) => Some(Form::Object),
        Some(false) => Some(Form::Plain),
        None => None,
    };
    let Some(accept) = request.text_field("accept").filter(|accept| !accept.trim().is_empty())
    else {
        return Ok(objects);
    };
    let lines = ["application/x-ndjson", "application/ndjson", "application/jsonl"];
    let lines = lines.map(|kind| wish(accept, kind)).into_iter().max().unwrap_or_default();
    let events = wish(accept, "text/event-stream");
    // What is named comes before what a wildcard allows, then what is wished for more; events otherwise.
    if events.quality > 0 && (events.is_named, events.quality) >= (lines.is_named, lines.quality) {
        return Ok(objects);
    }
    if lines.quality > 0 {
        return Ok(Some(Form::Lines));
    }
    if events.quality > 0 {
        return Ok(objects);
    }
    let text = "a stream comes as text/event-stream or as application/x-ndjson";
    Err(Fault::of_http(HttpFault::NotAcceptable, text))
}

/// How much a client wants a media type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Wish {
    /// Whether it is named, and not only allowed by a wildcard.
    is_named: bool,
    /// In thousandths; zero: not at all.
    quality: u16,
}

/// What an `Accept` field says of a media type: its most precise range counts (RFC 9110 section 12.5.1).
fn wish(accept: &str, kind: &str) -> Wish {
    let (main, _) = kind.split_once('/').unwrap_or((kind, ""));
    let ranges = accept.split(',').filter_map(|range| {
        let name = essence(range);
        let precision = match name.strip_suffix("/*") {
            Some("*") => 0,
            Some(wide) if wide == main => 1,
            _ if name == kind => 2,
            _ => return None,
        };
        Some((precision, quality(range)))
    });
    let found = ranges.max_by_key(|(precision, quality)| (*precision, *quality));
    let (precision, quality) = found.unwrap_or_default();
    Wish { is_named: precision == 2 && quality > 0, quality }
}

/// The weight of a media range, in thousandths (RFC 9110 section 12.4.2).
fn quality(range: &str) -> u16 {
    let weight = range.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>().ok())?
    });
    (weight.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_comes_in_the_form_that_is_wanted() {
        for (accept, expected) in [
            ("", Some(None)),
            ("text/event-stream", Some(None)),
            ("application/x-ndjson", Some(Some(Form::Lines))),
            ("application/x-ndjson, text/event-stream", Some(None)),
            ("application/x-ndjson, text/event-stream;q=0.5", Some(Some(Form::Lines))),
            ("application/x-ndjson, */*", Some(Some(Form::Lines))),
            ("*/*", Some(None)),
            ("text/*", Some(None)),
            ("application/*", Some(Some(Form::Lines))),
            ("text/event-stream;q=0", None),
            ("text/event-stream; Q=0.000", None),
            ("text/event-stream;q=0, */*", Some(Some(Form::Lines))),
            ("text/html, */*;q=0", None),
            ("*/*;q=0, application/jsonl", Some(Some(Form::Lines))),
            ("text/html", None),
            ("text/event-stream;q=nonsense", Some(None)),
        ] {
            let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
            let fields: &[(&str, &[u8])] = &[("Accept", accept.as_bytes())];
            let (method, path, query, body) = ("GET", "/events", None, &b""[..]);
            let request = Request { method, path, query, fields, body, peer };
            assert_eq!(form(&request).ok(), expected, "{accept:?}");
        }
    }
}
