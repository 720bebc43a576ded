//! Operations on queues that one node passes on to another: their text, and what the answer says.
//!
//! Relies on the text form in `read/queues.rs`. Invariant: an operation that is read back does what the first would have
//! done.

use tiderace_base::{CLOSE_CODES, Close, CloseCode};
use tiderace_filter::Selector;
use tiderace_value::{Json, append_text};

use super::{MoveMessages, MovedMessages, Operation, OperationResult};

/// Appends the text of an operation on queues; whether it is one that is passed on.
pub(super) fn write(out: &mut Vec<u8>, operation: &Operation) -> bool {
    match operation {
        Operation::Purge { path, selector, up_to } => {
            begin(out, "purge", "path", path.as_str());
            write_choice(out, selector.as_ref(), [("up_to", *up_to), ("limit", None)]);
        }
        Operation::PauseQueue { path, on } => {
            begin(out, if *on { "pause" } else { "resume" }, "path", path.as_str());
        }
        Operation::Move(asked) => {
            let MoveMessages { from, to, redrive, selector, limit, up_to } = &**asked;
            match redrive {
                true => begin(out, "redrive", "path", from.as_str()),
                false => begin(out, "move", "from", from.as_str()),
            }
            if let Some(to) = to {
                out.extend_from_slice(br#","to":"#);
                append_text(out, to.as_str());
            }
            write_choice(out, selector.as_ref(), [("up_to", *up_to), ("limit", *limit)]);
        }
        _ => return false,
    }
    out.push(b'}');
    true
}

/// What an answer says of messages in queues; absent if it says nothing of the kind.
pub(super) fn read(json: Json<'_>) -> Option<OperationResult> {
    let number = |name: &str| json.field(name).and_then(Json::as_unsigned);
    let (messages, up_to) = (number("messages")?, number("up_to")?);
    let Some(kept) = number("kept") else {
        return Some(OperationResult::Purged { messages, up_to });
    };
    let refused = match json.field("refused") {
        None => None,
        Some(refused) => {
            let text = |name: &str| refused.field(name).and_then(|it| it.as_text());
            let (slug, reason) = (text("code")?, text("reason")?);
            let known = CLOSE_CODES.iter().find(|row| *row.slug == *slug);
            let code = known.map_or(CloseCode::PeerLost, |row| row.code);
            Some(Close::new(code, reason.into_owned()))
        }
    };
    Some(OperationResult::Moved(Box::new(MovedMessages { messages, kept, refused, up_to })))
}

fn begin(out: &mut Vec<u8>, what: &str, name: &str, path: &str) {
    out.extend_from_slice(format!(r#"{{"do":"{what}","{name}":"#).as_bytes());
    append_text(out, path);
}

/// Which messages are meant.
fn write_choice(out: &mut Vec<u8>, selector: Option<&Selector>, numbers: [(&str, Option<u64>); 2]) {
    if let Some(selector) = selector {
        out.extend_from_slice(br#","selector":"#);
        append_text(out, selector.text());
    }
    for (name, number) in numbers {
        if let Some(number) = number {
            out.extend_from_slice(format!(r#","{name}":{number}"#).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::{Reading, parse_path, parse_selector};
    use tiderace_base::Time;

    fn again(text: &str) -> (Operation, Operation) {
        let read = |text: &[u8]| {
            let reading = Reading {
                body: None,
                now: Time::ZERO,
                path: &|text| parse_path(text, None),
                selector: &|text| Ok(parse_selector(text, None)?.patterns().to_vec()),
            };
            Operation::parse(text, &reading).unwrap()
        };
        let first = read(text.as_bytes());
        assert!(first.is_relayed());
        let mut written = Vec::new();
        assert!(first.write_json(&mut written).unwrap().is_none());
        let second = read(&written);
        (first, second)
    }

    #[test]
    fn operations_on_queues_are_read_back() {
        for text in [
            r#"{"do":"purge","path":"orders/a"}"#,
            r#"{"do":"purge","path":"orders/\"a","selector":"kind = 'x\"y'","up_to":7}"#,
            r#"{"do":"pause","path":"orders/a"}"#,
            r#"{"do":"resume","path":"orders/a"}"#,
            r#"{"do":"move","from":"orders/a","to":"orders/b","limit":3}"#,
            r#"{"do":"redrive","path":"orders/dead","selector":"a > 1","limit":0,"up_to":18446744073709551615}"#,
            r#"{"do":"redrive","path":"orders/dead","to":"orders/b"}"#,
        ] {
            let (first, second) = again(text);
            assert_eq!(format!("{first:?}"), format!("{second:?}"));
        }
    }

    #[test]
    fn answers_are_read() {
        let refused = Some(Close::new(CloseCode::QueueFull, "it is full"));
        let moved = |refused| MovedMessages { messages: 5, kept: 2, refused, up_to: 9 };
        for known in [
            OperationResult::Purged { messages: 4, up_to: u64::MAX },
            OperationResult::Moved(Box::new(moved(None))),
            OperationResult::Moved(Box::new(moved(refused))),
        ] {
            let mut text = Vec::new();
            known.write_json(&mut text, false);
            let read = OperationResult::parse(&text).unwrap();
            assert_eq!(format!("{read:?}"), format!("{known:?}"));
        }
        for text in
            [&br#"{"messages":[]}"#[..], br#"{"messages":1}"#, br#"{"messages":-1,"up_to":1}"#]
        {
            assert!(OperationResult::parse(text).is_none());
        }
    }
}
