//! Routes: which topic, queue or service a request is for.
//!
//! | route | request-response | fire-and-forget | request-stream | request-channel |
//! |---|---|---|---|---|
//! | `PATH`, `topic:PATH` | publish, or the value | publish | subscribe | publish each |
//! | `queue:PATH` | send | send | consume | send each |
//! | `service:PATH` | call | call | call, many answers | conversation |
//! | `serve:PATH` | – | – | serve | serve, by channels |
//! | `operate:` | an operation | an operation | – | – |
//! | `echo`, none | echo | nothing | echo | echo |
//!
//! Relies on nothing. Invariant: a path that looks like one of the others can be spelled with `topic:`.

use tiderace_wire::Kind;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// A topic, a queue or a service; of topics perhaps several.
    Destination(Kind, &'a str),
    /// To serve.
    Serve(&'a str),
    /// An operation on topics.
    Operate,
    /// The responder for load tests.
    Echo,
    /// Nothing was said.
    Nowhere,
}

impl<'a> Route<'a> {
    /// The route of that text; `echo` if there is a responder for load tests.
    pub(super) fn of(text: Option<&'a str>, echo: bool) -> Route<'a> {
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return if echo { Route::Echo } else { Route::Nowhere };
        };
        if echo && text == "echo" {
            return Route::Echo;
        }
        match text.split_once(':') {
            Some(("topic", path)) => Route::Destination(Kind::Topic, path),
            Some(("queue", path)) => Route::Destination(Kind::Queue, path),
            Some(("service", path)) => Route::Destination(Kind::Service, path),
            Some(("serve", path)) => Route::Serve(path),
            Some(("operate", "")) => Route::Operate,
            _ => Route::Destination(Kind::Topic, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_told_apart() {
        use Kind::{Queue, Service, Topic};
        for (text, expected) in [
            ("fx/EUR", Route::Destination(Topic, "fx/EUR")),
            ("topic:queue:x", Route::Destination(Topic, "queue:x")),
            ("queue:jobs", Route::Destination(Queue, "jobs")),
            ("service:sum", Route::Destination(Service, "sum")),
            ("serve:sum", Route::Serve("sum")),
            ("operate:", Route::Operate),
            ("operate:x", Route::Destination(Topic, "operate:x")),
            ("a:b", Route::Destination(Topic, "a:b")),
            ("?fx/[A-Z]:", Route::Destination(Topic, "?fx/[A-Z]:")),
        ] {
            assert_eq!(Route::of(Some(text), true), expected, "{text}");
        }
        assert_eq!(Route::of(Some("echo"), true), Route::Echo);
        assert_eq!(Route::of(Some("echo"), false), Route::Destination(Topic, "echo"));
        assert_eq!(Route::of(None, true), Route::Echo);
        assert_eq!(Route::of(Some(""), false), Route::Nowhere);
    }
}
