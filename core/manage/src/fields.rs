//! What rows of the table are made of: ways by REST and fields, and those fields that users, tokens, rules
//! and the configuration have.

use crate::Right;
use crate::verb::{Field, FieldKind, Rest};

pub(crate) const fn get(path: &'static str) -> Rest {
    Rest { method: "GET", path }
}

pub(crate) const fn post(path: &'static str) -> Rest {
    Rest { method: "POST", path }
}

pub(crate) const fn put(path: &'static str) -> Rest {
    Rest { method: "PUT", path }
}

pub(crate) const fn delete(path: &'static str) -> Rest {
    Rest { method: "DELETE", path }
}

pub(crate) const fn text(
    name: &'static str,
    bytes_max: usize,
    says: &'static str,
    example: &'static str,
) -> Field {
    Field { name, kind: FieldKind::Text(bytes_max), required: false, says, example }
}

pub(crate) const fn word(
    name: &'static str,
    words: &'static [&'static str],
    says: &'static str,
    example: &'static str,
) -> Field {
    Field { name, kind: FieldKind::Word(words), required: false, says, example }
}

pub(crate) const fn texts(name: &'static str, says: &'static str, example: &'static str) -> Field {
    Field { name, kind: FieldKind::Texts(64), required: false, says, example }
}

pub(crate) const fn number(
    name: &'static str,
    most: u64,
    says: &'static str,
    example: &'static str,
) -> Field {
    Field { name, kind: FieldKind::Number(most), required: false, says, example }
}

pub(crate) const fn span(
    name: &'static str,
    seconds_max: u64,
    says: &'static str,
    example: &'static str,
) -> Field {
    Field { name, kind: FieldKind::Span(seconds_max), required: false, says, example }
}

pub(crate) const fn truth(name: &'static str, says: &'static str) -> Field {
    Field { name, kind: FieldKind::Truth, required: false, says, example: "true" }
}

/// What users, tokens and rules are looked after by.
pub(crate) const IDENTITY: &[Right] = &[Right::node("admin", "$sys/identities")];
pub(crate) const USER: Field = text("name", 128, "Its name.", "\"ann\"");
pub(crate) const TOKEN: Field = text("name", 128, "Its name.", "\"feed\"");
pub(crate) const RULE: Field = text("name", 128, "Its name.", "\"sales-send\"");
pub(crate) const NUMBER_AFTER: Field =
    number("after", 0, "What `next` was in the page before.", "100");
pub(crate) const IDENTITY_LIMIT: Field = number("limit", 500, "How many, at most.", "100");
pub(crate) const GROUPS: Field = texts("groups", "Groups, for rules.", "[\"sales\"]");
pub(crate) const HOST: Field = text(
    "host",
    1024,
    "The virtual host that it is bound to, or `*` for the whole tree.",
    "\"shop\"",
);

pub(crate) const SESSIONS: &str = "$sys/sessions";
pub(crate) const STATS: &str = "$sys/stats";
pub(crate) const BLOCKS: &str = "$sys/blocks";
pub(crate) const TRACE: &str = "$sys/trace";
pub(crate) const AUDIT: &str = "$sys/audit";
pub(crate) const DRAIN: &str = "$sys/drain";
pub(crate) const CONFIG: &str = "$sys/config";
pub(crate) const BACKUP: &str = "$sys/backup";

pub(crate) const ID: Field = text("id", 0, "The id of a session, as lists show it.", "\"0-17-1\"");
pub(crate) const PROTOCOL: Field =
    text("protocol", 1024, "Sessions of that protocol.", "\"stomp\"");
pub(crate) const PRINCIPAL: Field = text(
    "principal",
    1024,
    "Sessions that are logged in as that; of a virtual host: `@HOST/NAME`.",
    "\"ann\"",
);
pub(crate) const ADDRESS: Field = text(
    "address",
    0,
    "Sessions whose clients have that address, or one in that network.",
    "\"10.0.0.0/8\"",
);
pub(crate) const BACKLOG: Field =
    number("backlog", 0, "Sessions for which at least so many bytes wait.", "1");
pub(crate) const SORT: Field = word(
    "sort",
    &["backlog", "subscriptions", "since", "id"],
    "First those for which most waits, that have most subscriptions, or that came last; or by their ids.",
    "\"backlog\"",
);
pub(crate) const SESSION_AFTER: Field =
    text("after", 0, "What `next` was in the page before.", "\"0-0-0-17-1\"");
pub(crate) const REASON: Field =
    text("reason", 80, "What the clients are told besides, on one line.", "\"try later\"");
/// Of what changes something: that it is only said what would change.
pub const DRY_RUN: Field = truth("dry_run", "Whether it is only said what would change.");
pub(crate) const BLOCKED: Field =
    text("principal", 1024, "Whom; of a virtual host: `@HOST/NAME`.", "\"ann\"");
pub(crate) const BLOCKED_ADDRESS: Field =
    text("address", 0, "The address, or the network.", "\"192.0.2.0/24\"");
pub(crate) const BLOCKED_FOR: Field =
    span("for", 30 * 86_400, "For how long; an hour if it is not given.", "\"15m\"");
pub(crate) const FORCE: Field =
    truth("force", "Whether that may take in who asks, or the server's own machine.");
pub(crate) const QUEUE: Field = text("path", 0, "The queue.", "\"jobs\"");
pub(crate) const TO: Field = text("to", 0, "The queue where they are to go.", "\"jobs-later\"");
pub(crate) const PATTERN: Field = text("pattern", 0, "Queues that match it.", "\"jobs/**\"");
pub(crate) const NAME: Field = text("name", 0, "Its name.", "\"audit\"");
pub(crate) const SELECTOR: Field =
    text("selector", 0, "Only messages with such properties.", "\"colour = 'red'\"");
pub(crate) const MOST: Field = number("limit", 0, "How many, at most.", "100");
pub(crate) const UP_TO: Field = number("up_to", 0, "Only messages up to this position.", "7");
pub(crate) const PAGE_AFTER: Field =
    text("after", 0, "What `next` was in the page before.", "\"0-1024\"");
pub(crate) const PAGE_LIMIT: Field = number("limit", 1_000, "How many, at most.", "100");

/// What is asked of the configuration.
pub(crate) const UNDER: Field =
    text("under", 1024, "Only that option, or those of that section.", "\"log\"");
pub(crate) const CHANGED: Field =
    truth("changed", "Whether only those are wanted that are set somewhere, or wait.");
pub(crate) const OPTION_AFTER: Field =
    text("after", 1024, "What `next` was in the page before.", "\"log.level\"");
pub(crate) const OPTION_LIMIT: Field = number("limit", 500, "How many, at most.", "100");
