//! The checks of virtual hosts and of who is bound to one.
//!
//! Relies on `load` having checked each value alone. Invariant: no name leads to two hosts, and nobody is bound to a host
//! that is not there.

use std::collections::HashSet;

use tiderace_wire::{EVERY_HOST, host_name, is_host_name};

use crate::config::Config;
use crate::kind::Value;
use crate::problem::Problems;
use crate::sections::hosts::{UnknownHosts, VirtualHostConfig};
use crate::suggest;
use crate::table::{Table, origin_of};

pub(crate) fn check(config: &Config, tables: &[Table], problems: &mut Problems) {
    let (mut names, mut hosts) = (HashSet::new(), HashSet::new());
    for table in tables.iter().filter(|table| table.section.name == "virtual_host") {
        let Some(section) = table.fill(VirtualHostConfig::from_values) else { continue };
        let name = &section.name;
        if !is_host_name(name) {
            let message = format!(
                "virtual_host.name: {name:?} is no name of a virtual host; use up to 64 letters, digits, `-` and `_`"
            );
            problems.add(table.origin_of("name"), message);
        } else if !names.insert(name.clone()) {
            let message = format!("there is already a virtual_host {name:?}; names are unique");
            problems.add(table.origin_of("name"), message);
        }
        let mut wrong = |message: String| problems.add(table.origin_of("hosts"), message);
        if section.hosts.is_empty() {
            wrong("virtual_host.hosts: the list is empty, so nobody could reach it".to_owned());
        }
        for host in &section.hosts {
            let plain = host.strip_prefix("*.").unwrap_or(host);
            let is_name = host_name(plain).is_some_and(|name| name == plain.to_ascii_lowercase());
            if !is_name || plain.contains('*') {
                wrong(format!(
                    "virtual_host.hosts: {host:?} is no name of a host; write one such as \"shop.example\" or \"*.shop.example\", without a port"
                ));
            } else if !hosts.insert(host.to_ascii_lowercase()) {
                wrong(format!(
                    "virtual_host.hosts: {host:?} stands twice; a name leads to one host"
                ));
            }
        }
    }
    if names.is_empty() && config.virtual_hosts.unknown == UnknownHosts::Refuse {
        let message = "virtual_hosts.unknown: without a [[virtual_host]] everybody would be refused; add one or use \"whole\"";
        problems.add(origin_of(tables, "virtual_hosts.unknown"), message);
    }
    check_bindings(tables, &names, problems);
}

/// Nobody is bound to a host that is not there.
pub(crate) fn check_bindings(tables: &[Table], names: &HashSet<String>, problems: &mut Problems) {
    for table in tables.iter().filter(|table| matches!(table.section.name, "user" | "token")) {
        let Some(bound) = table.settings.iter().find(|setting| setting.spec.name() == "host")
        else {
            continue;
        };
        let Value::Text(host) = &bound.value else { continue };
        if host != EVERY_HOST && !names.contains(host) {
            let near = suggest::did_you_mean(host, names.iter().map(String::as_str));
            let message = format!(
                "{}: there is no [[virtual_host]] with the name {host:?}{near}; `*` means the whole tree",
                bound.spec.key
            );
            problems.add(bound.origin.clone(), message);
        }
    }
}
