//! The limits of clients from their sections, with the checks that concern several options.
//!
//! Relies on `load` having checked each value alone. Invariant: a limit that could never apply, and one that is not
//! understood, make the configuration fail.

use crate::problem::Problems;
use crate::sections::auth::{AuthConfig, PrincipalMatch};
use crate::sections::client_limits::{LimitConfig, LimitPerWord, LimitSection};
use crate::table::Table;

/// All limits, in the order of the file.
pub(crate) fn build(tables: &[Table], problems: &mut Problems) -> Vec<LimitConfig> {
    let sections = tables.iter().filter(|table| table.section.name == "limit");
    sections.filter_map(|table| limit(table, problems)).collect()
}

fn limit(table: &Table, problems: &mut Problems) -> Option<LimitConfig> {
    let section = table.fill(LimitSection::from_values)?;
    let mut principals = Vec::new();
    for text in &section.principals {
        match PrincipalMatch::parse(text) {
            Some(who) => principals.push(who),
            None => problems.add(
                table.origin_of("principals"),
                format!(
                    "limit.principals: {text:?} names nobody; write \"user:NAME\", \"group:NAME\", \
                     \"anonymous\" or \"*\" for everybody"
                ),
            ),
        }
    }
    if section.principals.is_empty() {
        let message = "limit.principals: the list is empty, so the limit would never apply; fill it or remove the limit";
        problems.add(table.origin_of("principals"), message);
    }
    Some(LimitConfig {
        principals,
        per: section.per,
        connections_max: section.connections_max,
        subscriptions_max: section.subscriptions_max,
        messages_per_second: section.messages_per_second,
        received_bytes_per_second: section.received_bytes_per_second,
        sent_bytes_per_second: section.sent_bytes_per_second,
        backlog_bytes_max: section.backlog_bytes_max,
    })
}

/// Limits need to know who clients are, and none may stand behind one that is for all whom it names.
pub(crate) fn check(
    limits: &[LimitConfig],
    auth: &AuthConfig,
    tables: &[Table],
    problems: &mut Problems,
) {
    let sections = tables.iter().filter(|table| table.section.name == "limit");
    let mut everybody: Vec<LimitPerWord> = Vec::new();
    for (table, limit) in sections.zip(limits) {
        if !auth.is_enforced() {
            let message = "a [[limit]] is by who clients are, and this server believes every name: it has no [[user]], \
                           [[token]], [[jwt]], [auth_http], client certificates or [[rule]]; add one, such as [[rule]] \
                           allow = [\"publish\", \"subscribe\"], principals = [\"*\"]";
            problems.add(table.origin_of("principals"), message);
            return;
        }
        if everybody.contains(&limit.per) {
            let message = format!(
                "limit.principals: an earlier [[limit]] with per = \"{}\" is for everybody, so this one would never \
                 apply; put it before that one",
                limit.per.as_str()
            );
            problems.add(table.origin_of("principals"), message);
        }
        if limit.principals.contains(&PrincipalMatch::Everybody) {
            everybody.push(limit.per);
        }
    }
}
