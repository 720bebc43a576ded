//! The collector that spans are posted to, with the checks that concern several of its options.
//!
//! Relies on `load` having checked each value alone. Invariant: no secret goes over a network in the clear.

use crate::build_auth_http::{has_credentials, is_field_name, is_field_value, is_own};
use crate::problem::Problems;
use crate::resolve::{has_host, is_address, is_safe, resolve};
use crate::sections::telemetry::{TelemetryConfig, TelemetryHeaderSection, TelemetrySection};
use crate::sources::Sources;
use crate::table::{Table, origin_of, single};

/// The collector, if there is one and it has no problem.
pub(crate) fn build(
    tables: &[Table],
    sources: &Sources<'_>,
    problems: &mut Problems,
) -> Option<TelemetryConfig> {
    let section = single(tables, "telemetry", TelemetrySection::from_values)?;
    let mut headers = Vec::new();
    for table in tables.iter().filter(|table| table.section.name == "telemetry_header") {
        let Some(header) = table.fill(TelemetryHeaderSection::from_values) else { continue };
        let (name, origin) = (header.name, table.origin_of("value"));
        if !is_field_name(&name) || is_own(&name) {
            let message =
                format!("telemetry_header.name: {name:?} is no name of a field that can be set");
            problems.add(table.origin_of("name"), message);
        }
        let key = "telemetry_header.value";
        let value = resolve(&header.value, key, origin.clone(), sources, problems);
        if value.as_ref().is_some_and(|value| !is_field_value(value.expose())) {
            let message = format!(
                "{key}: {} has a line break or another character that no field may have; it must be one line",
                header.value
            );
            problems.add(origin, message);
        }
        headers.extend(value.map(|value| (name, value)));
        if section.endpoint.is_none() {
            let message = "telemetry_header: nothing is posted, so no request has the field; set telemetry.endpoint";
            problems.add(table.origin.clone(), message);
        }
    }
    let endpoint = section.endpoint?;
    if let Some(problem) = problem_of(&endpoint, !headers.is_empty()) {
        let message = format!("telemetry.endpoint: {problem}");
        problems.add(origin_of(tables, "telemetry.endpoint"), message);
        return None;
    }
    Some(TelemetryConfig {
        endpoint,
        headers,
        sample_per_million: section.sample_per_million,
        follow_parents: section.follow_parents,
        service_name: section.service_name,
        authorities: section.authorities,
        timeout: section.timeout,
        retry_time: section.retry_time,
        batch_spans_max: section.batch_spans_max,
        batch_delay: section.batch_delay,
        queue_spans_max: section.queue_spans_max,
    })
}

/// What is wrong with the address, to which secrets go or not.
fn problem_of(endpoint: &str, has_secrets: bool) -> Option<String> {
    if !is_address(endpoint) || !has_host(endpoint) {
        return Some(format!(
            "{endpoint:?} is no address with a host; write one such as \"http://127.0.0.1:4318/v1/traces\""
        ));
    }
    if has_credentials(endpoint) {
        let problem = "an address with a user or password in it would get into logs; set them by [[telemetry_header]], as \"Authorization\"";
        return Some(problem.to_owned());
    }
    (has_secrets && !is_safe(endpoint)).then(|| {
        format!(
            "{endpoint:?} would have the values of [[telemetry_header]] go over the network in the clear; use https://, or http:// on this machine"
        )
    })
}
