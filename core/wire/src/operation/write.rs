//! What came of operations, as JSON text: the one form in which every protocol tells it.
//!
//! A value is written as `value` if it is JSON by its content type, as `text` if it is UTF-8, else as
//! `base64`; or it is left to the protocol, which has better ways. Invariant: what is written is
//! valid JSON whatever was published.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tiderace_value::{Json, append_text};

use super::sessions::{SessionPage, spell};
use super::{
    BackupPart, ConsumerEntry, Event, IdentityEntry, Listing, ListingEntry, MovedMessages,
    NodeReport, OperationResult, PeekedMessage, PeekedMessages, QueueDetails, QueueEntry,
    QueueSettings, ServiceEntry, SessionEntry, SessionState, TopicDetails, TopicEntry,
};
use crate::{Flags, Run, properties};

/// Names, numbers and brackets of a topic or an event as JSON, about.
const JSON_BYTES: usize = 80;
/// How deeply a value may be nested to be shown as JSON.
const DEPTH_MAX: usize = 256;

/// A list that is being written.
struct List<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl List<'_> {
    fn next(&mut self) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
        self.out
    }
}

impl OperationResult {
    /// Appends it as JSON. With `values` they are in the text; without, the text says `"bytes"` where
    /// one is, and the protocol sends them beside it in the order of [`OperationResult::values`].
    pub fn write_json(&self, out: &mut Vec<u8>, values: bool) {
        // What grows by doubling is copied and takes new memory each time.
        out.reserve(self.json_bytes(values));
        match self {
            OperationResult::Done => out.extend_from_slice(b"{}"),
            OperationResult::Drain(status) => status.write_json(out),
            OperationResult::Stats(text) => out.extend_from_slice(text.as_bytes()),
            OperationResult::Node(report) => match &**report {
                NodeReport::BackupPart(part) => write_part(out, part, values),
                report => report.write_json(out),
            },
            OperationResult::Created { existed } => {
                print(out, format_args!("{{\"existed\":{existed}}}"))
            }
            OperationResult::Removed { topics } => {
                print(out, format_args!("{{\"topics\":{topics}}}"))
            }
            OperationResult::Updated { version } => {
                print(out, format_args!("{{\"version\":{version}}}"))
            }
            OperationResult::Locked { fence } => print(out, format_args!("{{\"fence\":{fence}}}")),
            OperationResult::Page(page) => {
                out.extend_from_slice(b"{\"topics\":[");
                let mut list = List { out, empty: true };
                for entry in &page.topics {
                    write_entry(list.next(), entry, values);
                }
                print(out, format_args!("],\"more\":{}", page.more));
                if let Some(next) = &page.next {
                    out.extend_from_slice(b",\"next\":");
                    append_text(out, next.as_str());
                }
                out.push(b'}');
            }
            OperationResult::Topic(topic) => write_topic(out, topic),
            OperationResult::Events(events) => {
                out.extend_from_slice(b"{\"events\":[");
                let mut list = List { out, empty: true };
                for event in &events.events {
                    write_event(list.next(), event, values);
                }
                print(out, format_args!("],\"more\":{}}}", events.more));
            }
            OperationResult::Views(views) => {
                out.extend_from_slice(b"{\"views\":[");
                let mut list = List { out, empty: true };
                for view in views {
                    let out = list.next();
                    out.extend_from_slice(b"{\"name\":");
                    append_text(out, view.name.as_str());
                    out.extend_from_slice(b",\"text\":");
                    append_text(out, &view.text);
                    out.push(b'}');
                }
                out.extend_from_slice(b"]}");
            }
            OperationResult::Session(name, state) => {
                out.extend_from_slice(b"{\"name\":");
                append_text(out, name);
                out.push(b',');
                write_state(out, state);
                out.push(b'}');
            }
            OperationResult::Sessions(page) => write_sessions(out, page),
            OperationResult::Kicked { sessions, dry_run } => {
                print(out, format_args!(r#"{{"sessions":{sessions},"dry_run":{dry_run}}}"#));
            }
            OperationResult::Blocks(result) => result.write_json(out),
            OperationResult::Traces(result) => result.write_json(out),
            OperationResult::Listing(page) => write_listing(out, page),
            OperationResult::Queue(queue) => write_details(out, queue),
            OperationResult::Messages(page) => write_messages(out, page, values),
            OperationResult::Purged { messages, up_to } => {
                print(out, format_args!(r#"{{"messages":{messages},"up_to":{up_to}}}"#))
            }
            OperationResult::Moved(moved) => write_moved(out, moved),
        }
    }

    /// About how long it is as JSON.
    fn json_bytes(&self, values: bool) -> usize {
        let body = |run: &Run, place: usize| match run.message(place) {
            Some(message) if values => message.body.len() + message.properties.len(),
            _ => 0,
        };
        match self {
            OperationResult::Page(page) => {
                let entry = |entry: &TopicEntry| {
                    let spec = entry.spec.as_ref().map_or(0, |spec| spec.written_bytes());
                    let value = entry.value.as_ref().map_or(0, |run| body(run, 0));
                    entry.path.as_str().len() + spec + value
                };
                page.topics.iter().map(|it| JSON_BYTES + entry(it)).sum::<usize>() + JSON_BYTES
            }
            OperationResult::Events(events) => {
                let event = |event: &Event| {
                    event.author.as_ref().map_or(0, |name| name.len())
                        + body(&event.run, event.place)
                };
                events.events.iter().map(|it| JSON_BYTES + event(it)).sum::<usize>() + JSON_BYTES
            }
            OperationResult::Sessions(page) => {
                page.bytes() + (page.sessions.len() + 1) * JSON_BYTES
            }
            OperationResult::Blocks(result) => result.bytes() + JSON_BYTES,
            OperationResult::Traces(result) => result.bytes() + JSON_BYTES,
            OperationResult::Stats(text) => text.len(),
            OperationResult::Listing(page) => {
                let bytes = |entry: &ListingEntry| JSON_BYTES + entry.bytes();
                page.entries.iter().map(bytes).sum::<usize>() + JSON_BYTES
            }
            OperationResult::Queue(queue) => {
                let bytes = |entry: &ConsumerEntry| 2 * JSON_BYTES + entry.bytes();
                queue.consumers.iter().map(bytes).sum::<usize>() + 4 * JSON_BYTES
            }
            OperationResult::Messages(page) => {
                let bytes = |it: &PeekedMessage| JSON_BYTES + body(&it.run, it.place);
                page.messages.iter().map(bytes).sum::<usize>() + JSON_BYTES
            }
            OperationResult::Node(report) => match &**report {
                // Four digits of base64 for three bytes.
                NodeReport::BackupPart(part) => JSON_BYTES + body(part.run(), 0) / 3 * 4,
                NodeReport::Audit(page) => page.bytes() + JSON_BYTES,
                NodeReport::Config(page) => page.bytes() + JSON_BYTES,
                NodeReport::Identities(page) => {
                    page.entries.iter().map(IdentityEntry::bytes).sum::<usize>() + JSON_BYTES
                }
                _ => 0,
            },
            _ => 0,
        }
    }

    /// The values in it: runs, and their places in these.
    pub fn values(&self) -> Vec<(&Arc<Run>, usize)> {
        match self {
            OperationResult::Page(page) => {
                page.topics.iter().filter_map(|entry| Some((entry.value.as_ref()?, 0))).collect()
            }
            OperationResult::Events(events) => {
                events.events.iter().map(|event| (&event.run, event.place)).collect()
            }
            OperationResult::Messages(page) => {
                page.messages.iter().map(|message| (&message.run, message.place)).collect()
            }
            OperationResult::Node(report) => match &**report {
                NodeReport::BackupPart(part) => vec![(part.run(), 0)],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

fn write_part(out: &mut Vec<u8>, part: &BackupPart, values: bool) {
    print(out, format_args!("{{\"from\":{},\"more\":{}", part.from, part.more));
    write_value(out, part.run(), 0, values);
    out.push(b'}');
}

fn write_sessions(out: &mut Vec<u8>, page: &SessionPage) {
    out.extend_from_slice(b"{\"sessions\":[");
    let mut list = List { out, empty: true };
    for session in &page.sessions {
        write_session(list.next(), session);
    }
    print(out, format_args!("],\"matched\":{},\"more\":{}", page.matched, page.next.is_some()));
    if let Some(next) = &page.next {
        print(out, format_args!(",\"next\":\"{next}\""));
    }
    out.push(b'}');
}

fn write_session(out: &mut Vec<u8>, session: &SessionEntry) {
    print(out, format_args!("{{\"id\":\"{}\",\"name\":", spell(session.id)));
    append_text(out, &session.name);
    out.push(b',');
    write_state(out, &session.state);
    if let Some(facts) = &session.facts {
        facts.write_json(out);
    }
    out.push(b'}');
}

fn write_listing(out: &mut Vec<u8>, page: &Listing) {
    print(out, format_args!("{{\"{}\":[", page.what.name()));
    let mut list = List { out, empty: true };
    for entry in &page.entries {
        let out = list.next();
        match entry {
            ListingEntry::Session(session) => write_session(out, session),
            ListingEntry::Queue(queue) => write_queue(out, queue),
            ListingEntry::Service(service) => write_service(out, service),
        }
    }
    print(out, format_args!("],\"more\":{}", page.next.is_some()));
    if let Some(next) = &page.next {
        print(out, format_args!(",\"next\":\"{next}\""));
    }
    out.push(b'}');
}

fn write_queue(out: &mut Vec<u8>, queue: &QueueEntry) {
    out.push(b'{');
    write_queue_fields(out, queue);
    out.push(b'}');
}

fn write_queue_fields(out: &mut Vec<u8>, queue: &QueueEntry) {
    let QueueEntry { path, messages, in_flight, delayed, groups, bytes, consumers, .. } = queue;
    out.extend_from_slice(b"\"path\":");
    append_text(out, path.as_str());
    print(
        out,
        format_args!(
            r#","messages":{messages},"in_flight":{in_flight},"delayed":{delayed},"groups":{groups},"bytes":{bytes}"#
        ),
    );
    let QueueEntry { swapped, swapped_bytes, browsers, full, paused, oldest_ms, .. } = queue;
    if *swapped > 0 {
        let text = format_args!(r#","swapped":{swapped},"swapped_bytes":{swapped_bytes}"#);
        print(out, text);
    }
    print(out, format_args!(r#","consumers":{consumers}"#));
    if *browsers > 0 {
        print(out, format_args!(r#","browsers":{browsers}"#));
    }
    print(out, format_args!(r#","full":{full},"paused":{paused}"#));
    let QueueEntry { topics, patterns, selector, owner, .. } = queue;
    for (name, text) in [("topics", topics), ("selector", selector), ("owner", owner)] {
        if let Some(text) = text {
            print(out, format_args!(",\"{name}\":"));
            append_text(out, text);
        }
    }
    for (place, pattern) in patterns.iter().enumerate() {
        let before: &[u8] = if place == 0 { b",\"patterns\":[" } else { b"," };
        out.extend_from_slice(before);
        append_text(out, pattern.as_str());
    }
    if !patterns.is_empty() {
        out.push(b']');
    }
    if let Some(oldest_ms) = oldest_ms {
        print(out, format_args!(",\"oldest_ms\":{oldest_ms}"));
    }
}

fn write_details(out: &mut Vec<u8>, queue: &QueueDetails) {
    out.push(b'{');
    write_queue_fields(out, &queue.entry);
    if let Some((bytes, most)) = queue.account {
        print(out, format_args!(r#","owner_bytes":{bytes},"owner_bytes_max":{most}"#));
    }
    write_settings(out, &queue.settings);
    out.extend_from_slice(b",\"listed\":[");
    let mut list = List { out, empty: true };
    for consumer in &queue.consumers {
        write_consumer(list.next(), consumer);
    }
    print(out, format_args!("],\"more\":{}", queue.next.is_some()));
    if let Some(next) = queue.next {
        print(out, format_args!(",\"next\":{next}"));
    }
    out.push(b'}');
}

fn write_settings(out: &mut Vec<u8>, settings: &QueueSettings) {
    let QueueSettings { memory_bytes_max, disk_bytes_max, prefetch, redeliveries_max, .. } =
        settings;
    let QueueSettings { dead_letter, .. } = settings;
    print(
        out,
        format_args!(
            r#","options":{{"memory_bytes_max":{memory_bytes_max},"disk_bytes_max":{disk_bytes_max},"prefetch_count":{},"prefetch_bytes":{},"redeliveries_max":{redeliveries_max}"#,
            prefetch.messages, prefetch.bytes
        ),
    );
    if let Some(dead_letter) = dead_letter {
        out.extend_from_slice(b",\"dead_letter\":");
        append_text(out, dead_letter.as_str());
    }
    print(out, format_args!(",\"idle_ms\":{}", settings.idle_ms));
    let QueueSettings { redelivery_delay_ms: delay, redelivery_delay_max_ms: delay_max, .. } =
        settings;
    print(
        out,
        format_args!(
            r#","redelivery_delay_ms":{delay},"redelivery_delay_factor":{},"redelivery_delay_max_ms":{delay_max},"delay_max_ms":{}"#,
            settings.redelivery_delay_factor, settings.delay_max_ms
        ),
    );
    let QueueSettings {
        messages_max,
        full_policy,
        dispatch,
        dead_letter_expired,
        mirrored,
        priorities,
        ..
    } = settings;
    print(
        out,
        format_args!(
            r#","messages_max":{messages_max},"full_policy":"{full_policy}","dispatch":"{dispatch}","dead_letter_expired":{dead_letter_expired},"mirrored":{mirrored},"priorities":{priorities}"#
        ),
    );
    out.push(b'}');
}

fn write_consumer(out: &mut Vec<u8>, consumer: &ConsumerEntry) {
    let ConsumerEntry { session, subscription, in_flight, in_flight_bytes, prefetch, .. } =
        consumer;
    print(
        out,
        format_args!(
            r#"{{"session":"{}","subscription":{},"in_flight":{in_flight},"in_flight_bytes":{in_flight_bytes},"prefetch_count":{},"prefetch_bytes":{}"#,
            spell(*session),
            subscription.0,
            prefetch.messages,
            prefetch.bytes
        ),
    );
    if let Some(credit) = consumer.credit {
        print(out, format_args!(",\"credit\":{credit}"));
    }
    if let Some(selector) = &consumer.selector {
        out.extend_from_slice(b",\"selector\":");
        append_text(out, selector);
    }
    let ConsumerEntry { exclusive, active, explicit, .. } = consumer;
    print(
        out,
        format_args!(r#","exclusive":{exclusive},"active":{active},"settles":{explicit}}}"#),
    );
}

fn write_messages(out: &mut Vec<u8>, page: &PeekedMessages, values: bool) {
    out.extend_from_slice(b"{\"messages\":[");
    let mut list = List { out, empty: true };
    for message in &page.messages {
        write_peeked(list.next(), message, values);
    }
    print(out, format_args!("],\"more\":{}", page.next.is_some()));
    if let Some(next) = page.next {
        print(out, format_args!(",\"next\":{next}"));
    }
    out.push(b'}');
}

fn write_peeked(out: &mut Vec<u8>, peeked: &PeekedMessage, values: bool) {
    let PeekedMessage { run, place, position, redeliveries, age_ms, cut } = peeked;
    print(
        out,
        format_args!(r#"{{"position":{position},"redeliveries":{redeliveries},"age_ms":{age_ms}"#),
    );
    let message = run.message(*place);
    if let Some(expires) = message.and_then(|message| message.expires_ms) {
        print(out, format_args!(",\"expires\":{expires}"));
    }
    let persistent = message.is_some_and(|message| message.flags.contains(Flags::PERSISTENT));
    print(out, format_args!(",\"persistent\":{persistent}"));
    if let Some(bytes) = cut {
        print(out, format_args!(",\"cut\":{bytes}"));
    }
    write_value(out, run, *place, values);
    out.push(b'}');
}

fn write_moved(out: &mut Vec<u8>, moved: &MovedMessages) {
    let MovedMessages { messages, kept, refused, up_to } = moved;
    print(out, format_args!(r#"{{"messages":{messages},"kept":{kept},"up_to":{up_to}"#));
    if let Some(close) = refused {
        print(out, format_args!(",\"refused\":{{\"code\":\"{}\",\"reason\":", close.code.slug()));
        append_text(out, &close.reason);
        out.push(b'}');
    }
    out.push(b'}');
}

fn write_service(out: &mut Vec<u8>, service: &ServiceEntry) {
    out.extend_from_slice(b"{\"names\":[");
    let mut list = List { out, empty: true };
    for name in &service.names {
        append_text(list.next(), name);
    }
    let ServiceEntry { session, open, prefetch, .. } = service;
    let session = spell(*session);
    print(out, format_args!(r#"],"session":"{session}","open":{open},"prefetch":{prefetch}}}"#));
}

fn write_state(out: &mut Vec<u8>, state: &SessionState) {
    print(
        out,
        format_args!(
            r#""subscriptions":{},"backlog_messages":{},"backlog_bytes":{},"conflated":{},"dropped":{}"#,
            state.subscriptions,
            state.backlog_messages,
            state.backlog_bytes,
            state.conflated,
            state.dropped
        ),
    );
}

fn write_entry(out: &mut Vec<u8>, entry: &TopicEntry, values: bool) {
    out.extend_from_slice(b"{\"path\":");
    append_text(out, entry.path.as_str());
    if entry.version > 0 {
        print(out, format_args!(",\"version\":{}", entry.version));
    }
    if let Some(spec) = &entry.spec {
        out.extend_from_slice(b",\"spec\":");
        out.extend_from_slice(&spec.to_json());
    }
    if let Some(run) = &entry.value {
        write_value(out, run, 0, values);
    }
    out.push(b'}');
}

fn write_topic(out: &mut Vec<u8>, topic: &TopicDetails) {
    let TopicDetails { path, entry, upstream, exact, by_pattern } = topic;
    match entry {
        // The value is no part of it: who may see values subscribes.
        Some(entry) => {
            write_entry(out, entry, false);
            out.pop();
        }
        None => {
            out.extend_from_slice(b"{\"path\":");
            append_text(out, path.as_str());
        }
    }
    match upstream {
        Some(upstream) => {
            out.extend_from_slice(b",\"upstream\":");
            append_text(out, upstream);
        }
        None => print(out, format_args!(",\"exists\":{}", entry.is_some())),
    }
    print(out, format_args!(",\"subscriptions\":{exact},\"by_pattern\":{by_pattern}}}"));
}

fn write_event(out: &mut Vec<u8>, event: &Event, values: bool) {
    print(out, format_args!("{{\"version\":{},\"time\":{}", event.version, event.time_ms));
    if let Some(author) = &event.author {
        out.extend_from_slice(b",\"author\":");
        append_text(out, author);
    }
    if let Some(amends) = event.amends {
        print(out, format_args!(",\"amends\":{amends}"));
    }
    write_value(out, &event.run, event.place, values);
    out.push(b'}');
}

fn write_value(out: &mut Vec<u8>, run: &Run, place: usize, values: bool) {
    let Some(message) = run.message(place) else { return };
    if !values {
        print(out, format_args!(",\"bytes\":{}", message.body.len()));
        return;
    }
    let kind = properties::find(message.properties, "content-type");
    let essence = kind.as_deref().map(|kind| kind.split(';').next().unwrap_or_default().trim());
    let json = essence.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    let binary = essence.is_some_and(|kind| kind.eq_ignore_ascii_case("application/octet-stream"));
    if json && let Ok(json) = Json::parse(message.body, DEPTH_MAX) {
        out.extend_from_slice(b",\"value\":");
        out.extend_from_slice(json.text().as_bytes());
    } else if let Ok(text) = std::str::from_utf8(message.body)
        && !binary
    {
        out.extend_from_slice(b",\"text\":");
        append_text(out, text);
    } else {
        out.extend_from_slice(b",\"base64\":");
        append_text(out, &STANDARD.encode(message.body));
    }
    let mut named = properties::raw(message.properties)
        .filter(|(name, _)| !name.eq_ignore_ascii_case(b"content-type"))
        .peekable();
    if named.peek().is_some() {
        out.extend_from_slice(b",\"properties\":{");
        let mut list = List { out, empty: true };
        for (name, value) in named {
            let out = list.next();
            append_text(out, &properties::decode(name));
            out.push(b':');
            append_text(out, &properties::decode(value));
        }
        out.push(b'}');
    }
}

fn print(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    // Writing to memory does not fail.
    let _ = out.write_fmt(text);
}
