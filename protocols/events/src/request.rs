//! What a request asks for, before it is known who asks.
//!
//! Relies on the route for path and method. Invariant: nothing here depends on the identity; names
//! are decoded, but resolved only once the client has logged in.

use std::borrow::Cow;

use bytes::Bytes;
use tiderace_base::{Close, CloseCode, Span, parse_span};
use tiderace_topics::{Path, Selector};
use tiderace_value::Json;
use tiderace_wire::{
    Credentials, Flags, Kind, Position, QueueFields, Replay, Request, TRACEPARENT, TraceParent,
    parse_path, parse_selector, properties,
};

use crate::accept::form;
use crate::answer::Fault;
use crate::batch::{self, Item};
use crate::content::{CONTENT_TYPE, essence, is_field_value};
use crate::credentials::credentials;
use crate::encode::Form;
use crate::limits::{
    CALL_TIMEOUT, JSON_DEPTH_MAX, KEY_BYTES_MAX, PROPERTIES_MAX, TRACESTATE_BYTES_MAX,
};
use crate::manage;
use crate::options::EventsOptions;
use crate::parameters::{choice, parameter, undecodable, undecodable_path};
use crate::publication::Publication;
use crate::rest_operations::{self, Operating};
use crate::route::{Resource, origin};
use crate::uri::{decode_path, values};

/// A request, understood.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) credentials: Credentials,
    /// The page that asks, to be named in the answer.
    pub(crate) origin: Option<Box<str>>,
    /// The key under which the answer is remembered, and what tells this request from others.
    pub(crate) key: Option<(String, u64)>,
    pub(crate) task: Task,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Task {
    /// Tell a retained value: unless the client knows it (`If-None-Match`), and only if it is the one it
    /// wants (`If-Match`).
    Value { name: String, known: Option<String>, wanted: Option<String> },
    /// Tell the retained values of a pattern.
    List { pattern: String, limit: usize },
    /// Publish or send; a removal is answered without a body.
    Publish { message: Publication, removes: bool },
    /// Publish several.
    Batch { items: Vec<Item> },
    /// Call a service.
    Call { name: String, properties: Vec<u8>, body: Vec<u8>, timeout: Span },
    /// Something with topics.
    Operate(Operating),
    /// Stream what is published.
    Listen {
        names: Vec<String>,
        since: Since,
        form: Option<Form>,
        options: ListenOptions,
        is_head: bool,
    },
}

/// How a stream wants its topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenOptions {
    /// Where to begin in what the topics keep.
    pub(crate) replay: Option<Replay>,
    /// The shortest time between two updates of a topic.
    pub(crate) interval: Span,
    /// Whether to hear of topics that come and go.
    pub(crate) notices: bool,
}

/// Where a stream goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// With the retained values.
    Beginning,
    /// There.
    Position(Position),
    /// Nobody knows: the client named a place that is none.
    Unknown,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
    pub(crate) name: &'a str,
    pub(crate) anonymous: bool,
    /// The virtual host that the session is in.
    pub(crate) host: Option<&'a str>,
}

impl Task {
    /// Whether the answer depends on deliveries.
    pub(crate) fn wants_deliveries(&self) -> bool {
        matches!(self, Task::Value { .. } | Task::List { .. } | Task::Call { .. })
    }
}

impl Who<'_> {
    /// The path of that name.
    pub(crate) fn path(self, name: &str) -> Result<Path, Close> {
        parse_path(name, self.principal())
    }

    /// The selector of that name.
    pub(crate) fn selector(self, name: &str) -> Result<Selector, Close> {
        parse_selector(name, self.principal())
    }

    /// Whose topics `~/` stands for.
    fn principal(&self) -> Option<&str> {
        Some(self.name).filter(|_| !self.anonymous)
    }
}

/// Understands a request. Its body may lie in a file.
pub(crate) fn read(
    options: &EventsOptions,
    request: &Request<'_>,
    file: Option<Bytes>,
) -> Result<PendingRequest, Fault> {
    let Some(resource) = Resource::of(options, request.path) else {
        return Err(Fault::not_found("nothing is here"));
    };
    Ok(PendingRequest {
        credentials: credentials(request)?,
        origin: origin(request).map(Into::into),
        key: key(options, request)?,
        task: task(options, resource, request, file)?,
    })
}

fn task(
    options: &EventsOptions,
    resource: Resource<'_>,
    request: &Request<'_>,
    file: Option<Bytes>,
) -> Result<Task, Fault> {
    match resource {
        Resource::Events => listen(options, request),
        Resource::Topics => topics(options, request),
        Resource::Operations => {
            check_size(options, request)?;
            Operating::written(request.body).map(Task::Operate)
        }
        Resource::Views(name) => {
            let name = name.map(|name| decode_path(name).ok_or_else(undecodable_path));
            rest_operations::views(name.transpose()?.as_deref(), request).map(Task::Operate)
        }
        Resource::Subscriptions(name) => {
            let name = name.map(|name| decode_path(name).ok_or_else(undecodable_path));
            rest_operations::subscriptions(name.transpose()?.as_deref(), request).map(Task::Operate)
        }
        Resource::Browse(what) => rest_operations::browse(what, request).map(Task::Operate),
        Resource::Manage(Some(place)) => {
            check_size(options, request)?;
            manage::operating(place, request).map(Task::Operate)
        }
        // Their answers were given when the request was sorted.
        Resource::Manage(None) | Resource::OpenApi => Err(manage::nothing()),
        Resource::Batch => Ok(Task::Batch { items: batch::read(options, request.body)? }),
        Resource::Destination(kind, name) => {
            let name = decode_path(name).ok_or_else(undecodable_path)?;
            let asked = |what: &str| values(request.query, what).next().is_some();
            match (kind, request.method) {
                (Kind::Topic, "PATCH") => {
                    check_size(options, request)?;
                    rest_operations::patch(&name, request).map(Task::Operate)
                }
                (Kind::Topic, "PUT") if asked("create") => {
                    rest_operations::create(&name, request).map(Task::Operate)
                }
                (Kind::Topic, "GET" | "HEAD") if asked("history") => {
                    rest_operations::history(&name, request).map(Task::Operate)
                }
                (Kind::Topic, "GET" | "HEAD") => {
                    let tags = |field| request.text_field(field).map(str::to_owned);
                    let (known, wanted) = (tags("if-none-match"), tags("if-match"));
                    Ok(Task::Value { name, known, wanted })
                }
                (Kind::Queue, "GET" | "HEAD") if asked("messages") => {
                    rest_operations::peek(&name, request).map(Task::Operate)
                }
                (Kind::Queue, "GET" | "HEAD") => {
                    rest_operations::queue(&name, request).map(Task::Operate)
                }
                (Kind::Queue, "DELETE") => {
                    rest_operations::purge(&name, request).map(Task::Operate)
                }
                (Kind::Topic, "DELETE") => {
                    rest_operations::unconditional(request)?;
                    let message = Publication {
                        kind,
                        name,
                        properties: Vec::new(),
                        body: Vec::new(),
                        file: None,
                        flags: Flags::RETAIN_REMOVE,
                        ttl_ms: None,
                        queue: QueueFields::default(),
                    };
                    Ok(Task::Publish { message, removes: true })
                }
                (Kind::Service, _) => call(options, name, request),
                _ => {
                    let is_large = file.is_some();
                    let message = publication(options, kind, name, request, file)?;
                    if kind == Kind::Topic {
                        let (name, block) = (&message.name, &message.properties);
                        if is_large && rest_operations::is_conditional(request)? {
                            check_size(options, request)?;
                        }
                        if let Some(operating) = rest_operations::conditional(name, request, block)?
                        {
                            let kept = choice(request, "retain", "tiderace-retain")?;
                            if message.ttl_ms.is_some() || kept == Some(false) {
                                let text = "what depends on a condition is kept until it is replaced: leave `ttl` and `retain=false` out, or the condition";
                                return Err(Fault::bad_request(text));
                            }
                            return Ok(Task::Operate(operating));
                        }
                    }
                    Ok(Task::Publish { message, removes: false })
                }
            }
        }
    }
}

fn publication(
    options: &EventsOptions,
    kind: Kind,
    name: String,
    request: &Request<'_>,
    file: Option<Bytes>,
) -> Result<Publication, Fault> {
    if file.is_none() || request.body.len() > options.large_message_bytes_max {
        check_size(options, request)?;
    }
    let retain = choice(request, "retain", "tiderace-retain")?;
    let retain = match kind {
        Kind::Topic => retain.unwrap_or(request.method == "PUT"),
        _ => false,
    };
    let persistent = choice(request, "persistent", "tiderace-persistent")? == Some(true);
    let ttl = parameter(request, "ttl", "tiderace-ttl")?;
    let mark = |on, mark| if on { mark } else { Flags::NONE };
    Ok(Publication {
        kind,
        name,
        properties: message_properties(request)?,
        body: if file.is_some() { Vec::new() } else { request.body.to_vec() },
        file,
        flags: mark(retain, Flags::RETAIN) | mark(persistent, Flags::PERSISTENT),
        ttl_ms: ttl.map(|text| span(&text, "ttl")).transpose()?.map(milliseconds),
        queue: queue_fields(request)?,
    })
}

/// What a message says to its queue.
fn queue_fields(request: &Request<'_>) -> Result<QueueFields<'static>, Fault> {
    let delay = parameter(request, "delay", "tiderace-delay")?;
    let deliver_at = parameter(request, "deliverAt", "tiderace-deliver-at")?;
    let group = parameter(request, "group", "tiderace-group")?;
    let priority = parameter(request, "priority", "tiderace-priority")?;
    let priority = priority.map(|text| QueueFields::parse_priority(&text));
    let moment = deliver_at.map(|text| QueueFields::parse_milliseconds("deliverAt", &text));
    Ok(QueueFields {
        delay_ms: delay.map(|text| span(&text, "delay")).transpose()?.map(milliseconds),
        deliver_at_ms: moment.transpose()?,
        group: group.map(Cow::Owned),
        priority: priority.transpose()?,
    })
}

fn call(options: &EventsOptions, name: String, request: &Request<'_>) -> Result<Task, Fault> {
    check_size(options, request)?;
    let timeout = match parameter(request, "timeout", "tiderace-timeout")? {
        None => CALL_TIMEOUT.min(options.call_timeout_max),
        Some(text) => span(&text, "timeout")?,
    };
    if timeout > options.call_timeout_max {
        let most = options.call_timeout_max.as_secs();
        return Err(Fault::bad_request(format!("`timeout` may be {most} s at most")));
    }
    Ok(Task::Call {
        name,
        properties: message_properties(request)?,
        body: request.body.to_vec(),
        timeout,
    })
}

/// `/topics` itself: what there is, by selector, or its removal.
fn topics(options: &EventsOptions, request: &Request<'_>) -> Result<Task, Fault> {
    let selector = values(request.query, "selector").next();
    let selector = selector.map(|text| text.ok_or_else(|| undecodable("selector"))).transpose()?;
    match (selector, request.method) {
        (Some(selector), "DELETE") => Ok(Task::Operate(rest_operations::remove(&selector))),
        (Some(selector), _) => rest_operations::fetch(&selector, request).map(Task::Operate),
        (None, "DELETE") => Err(Fault::bad_request("name what to remove: /topics?selector=old/**")),
        (None, _) => list(options, request),
    }
}

fn list(options: &EventsOptions, request: &Request<'_>) -> Result<Task, Fault> {
    if options.list_max == 0 {
        return Err(Fault::new(CloseCode::NotAuthorised, "lists are turned off"));
    }
    let pattern = match values(request.query, "pattern").next() {
        None => "**".to_owned(),
        Some(pattern) => pattern.ok_or_else(|| undecodable("pattern"))?,
    };
    let limit = match values(request.query, "limit").next() {
        None => options.list_max.min(LIST_USUAL),
        Some(text) => text
            .and_then(|text| text.parse().ok())
            .filter(|limit| (1..=options.list_max).contains(limit))
            .ok_or_else(|| {
                let most = options.list_max;
                Fault::bad_request(format!("`limit` must be a number from 1 to {most}"))
            })?,
    };
    Ok(Task::List { pattern, limit })
}

fn listen(options: &EventsOptions, request: &Request<'_>) -> Result<Task, Fault> {
    let mut names = Vec::new();
    for name in values(request.query, "topic") {
        let name = name.ok_or_else(|| undecodable("topic"))?;
        if names.len() == options.topics_max {
            let most = options.topics_max;
            let text = format!("one stream has at most {most} topics; use patterns");
            return Err(Fault::new(CloseCode::TooManySubscriptions, text));
        }
        names.push(name);
    }
    if names.is_empty() {
        return Err(Fault::bad_request("name one or several topics: /events?topic=fx/*"));
    }
    let since = match parameter(request, "lastEventId", "last-event-id")? {
        None => Since::Beginning,
        Some(text) if text.is_empty() => Since::Beginning,
        Some(text) => Position::decode(&text).map_or(Since::Unknown, Since::Position),
    };
    let (form, options, is_head) =
        (form(request)?, listen_options(request)?, request.method == "HEAD");
    Ok(Task::Listen { names, since, form, options, is_head })
}

fn listen_options(request: &Request<'_>) -> Result<ListenOptions, Fault> {
    let replay = match parameter(request, "replay", "tiderace-replay")? {
        None => None,
        Some(text) => Some(replay(&text).ok_or_else(|| {
            let text = "`replay` is last:10, version:7 or since:1700000000000 (milliseconds)";
            Fault::bad_request(text)
        })?),
    };
    let interval = match parameter(request, "interval", "tiderace-interval")? {
        None => Span::ZERO,
        Some(text) => span(&text, "interval")?,
    };
    let notices = choice(request, "notices", "tiderace-notices")?.unwrap_or(false);
    Ok(ListenOptions { replay, interval, notices })
}

fn replay(text: &str) -> Option<Replay> {
    let (what, number) = text.split_once(':')?;
    let number: u64 = number.parse().ok()?;
    Some(match what {
        "last" => Replay::Last(u32::try_from(number).ok()?),
        "version" => Replay::Version(number),
        "since" => Replay::Time(number),
        _ => return None,
    })
}

/// Refuses bodies that are larger than a message may be: batches alone may.
fn check_size(options: &EventsOptions, request: &Request<'_>) -> Result<(), Fault> {
    let most = options.message_bytes_max;
    if request.body.len() <= most {
        return Ok(());
    }
    let text = format!("a message may have {most} bytes");
    Err(Fault::new(CloseCode::FrameTooLarge, text))
}

/// The properties of a message: its content type and what `Tiderace-Property-NAME` fields say.
fn message_properties(request: &Request<'_>) -> Result<Vec<u8>, Fault> {
    let mut block = Vec::new();
    if let Some(kind) = request.field("content-type") {
        let kind = std::str::from_utf8(kind).ok().map(str::trim);
        let kind = kind.filter(|kind| is_field_value(kind));
        let kind = kind.ok_or_else(|| Fault::bad_request("the content type is malformed"))?;
        if essence(kind) == "application/json" {
            Json::parse(request.body, JSON_DEPTH_MAX)
                .map_err(|error| Fault::bad_request(format!("the body is no JSON: {error}")))?;
        }
        // What curl says of every body when it is not told otherwise.
        if !kind.is_empty() && essence(kind) != "application/x-www-form-urlencoded" {
            properties::append(&mut block, CONTENT_TYPE, kind);
        }
    }
    let mut count = 0;
    for (name, value) in request.fields {
        let Some(name) = property_name(name) else { continue };
        count += 1;
        let value = std::str::from_utf8(value).ok().filter(|_| count <= PROPERTIES_MAX);
        let Some(value) = value else {
            let text = format!("properties are UTF-8, and at most {PROPERTIES_MAX} of them");
            return Err(Fault::bad_request(text));
        };
        properties::append(&mut block, &name, value);
    }
    append_trace(request, &mut block);
    Ok(block)
}

fn property_name(field: &str) -> Option<String> {
    let (prefix, name) = field.split_at_checked(PROPERTY_PREFIX.len())?;
    (prefix.eq_ignore_ascii_case(PROPERTY_PREFIX) && !name.is_empty())
        .then(|| name.to_ascii_lowercase())
}

/// Fields by which a client says of which trace a request is (W3C Trace Context) go along under their own names. Others
/// set them on the way, so one that is malformed is left out, as the specification wants, and refuses nothing.
fn append_trace(request: &Request<'_>, block: &mut Vec<u8>) {
    let text = |name| request.field(name).and_then(|value| std::str::from_utf8(value).ok());
    let parent = text(TRACEPARENT).filter(|text| TraceParent::parse(text.as_bytes()).is_some());
    let Some(parent) = parent else { return };
    // What a client sets by itself as a property counts.
    if properties::find(block, TRACEPARENT).is_some() {
        return;
    }
    properties::append(block, TRACEPARENT, parent);
    if let Some(state) = text(TRACESTATE).filter(|text| text.len() <= TRACESTATE_BYTES_MAX) {
        properties::append(block, TRACESTATE, state);
    }
}

/// The idempotency key with everything it holds for but the principal and its virtual host.
fn key(options: &EventsOptions, request: &Request<'_>) -> Result<Option<(String, u64)>, Fault> {
    let Some(key) = request.field("idempotency-key") else {
        return Ok(None);
    };
    if !matches!(request.method, "POST" | "PUT") {
        return Ok(None);
    }
    let key = std::str::from_utf8(key).ok().map(str::trim);
    let key = key.filter(|key| {
        (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|byte| byte >= 0x20)
    });
    let Some(key) = key else {
        let text = format!("an idempotency key is a text of 1 to {KEY_BYTES_MAX} bytes");
        return Err(Fault::bad_request(text));
    };
    if request.body.len() > options.message_bytes_max.max(options.batch_bytes_max) {
        let text = "a request with an idempotency key is read as a whole, so its body may not be that large";
        return Err(Fault::new(CloseCode::FrameTooLarge, text));
    }
    let query = request.query.unwrap_or("").as_bytes();
    let parts = [request.method.as_bytes(), request.path.as_bytes(), query, request.body];
    Ok(Some((key.to_owned(), fingerprint(&parts))))
}

/// FNV-1a: tells a client's own requests apart, which is no place for attacks.
fn fingerprint(parts: &[&[u8]]) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    parts.iter().fold(0xcbf2_9ce4_8422_2325, |hash, part| {
        let hash = part.iter().fold(hash, |hash, byte| step(hash, *byte));
        step(hash, 0xff)
    })
}

/// A span such as `500ms`, `2s` or `5m`; a plain number is milliseconds.
fn span(text: &str, name: &str) -> Result<Span, Fault> {
    let plain = text.parse().ok().map(Span::from_millis);
    plain
        .or_else(|| parse_span(text))
        .filter(|span| !span.is_zero())
        .ok_or_else(|| Fault::bad_request(format!("`{name}` is a time such as 500ms, 2s or 5m")))
}

fn milliseconds(span: Span) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// What begins the names of fields that become properties.
const PROPERTY_PREFIX: &str = "tiderace-property-";
/// The field beside `traceparent`.
const TRACESTATE: &str = "tracestate";
/// Values in a list if the client does not say.
const LIST_USUAL: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units() {
        for (text, milliseconds) in
            [("250", 250), ("250ms", 250), ("2s", 2000), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(span(text, "ttl"), Ok(Span::from_millis(milliseconds)), "{text}");
        }
        for text in
            ["", "0", "0s", "s", "-1", "1.5s", "99999999999999999999", "18446744073709551615h"]
        {
            assert!(span(text, "ttl").is_err(), "{text}");
        }
    }

    #[test]
    fn the_tilde_is_the_users_own() {
        let who = Who { name: "ann", anonymous: false, host: None };
        assert_eq!(who.path("~/a/b").unwrap().as_str(), "user/ann/a/b");
        let status = |who: Who<'_>| who.path("~/a").map_err(|close| Fault::from(close).status);
        assert_eq!(status(Who { name: "a/b", ..who }), Err(400));
        assert_eq!(status(Who { anonymous: true, ..who }), Err(401));
    }

    #[test]
    fn fingerprints_tell_where_parts_end() {
        assert_ne!(fingerprint(&[b"ab", b"c"]), fingerprint(&[b"a", b"bc"]));
        assert_eq!(fingerprint(&[b"ab", b"c"]), fingerprint(&[b"ab", b"c"]));
    }
}
