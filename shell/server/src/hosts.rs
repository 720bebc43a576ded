//! The names of the server: under which it answers, and which of them are virtual hosts.

use tiderace_config::{Config, UnknownHosts};
use tiderace_reactor::Hosts;
use tiderace_wire::{VirtualHost, VirtualHosts};

/// Under which names requests are answered: without users under few, for any page may have its name
/// lead here.
pub(crate) fn answered(config: &Config) -> Option<Hosts> {
    let names = &config.server.hosts;
    let all = names.iter().any(|name| name == "*") || config.auth.is_enforced() && names.is_empty();
    let of_hosts = config.hosts.iter().flat_map(|host| &host.hosts);
    (!all).then(|| Hosts::new(names.iter().chain(of_hosts).cloned()))
}

/// The virtual hosts; the configuration has checked their names.
pub(crate) fn virtual_hosts(config: &Config) -> VirtualHosts {
    let hosts = config.hosts.iter().map(|host| VirtualHost {
        name: host.name.as_str().into(),
        hosts: host.hosts.iter().map(|name| name.to_ascii_lowercase().into()).collect(),
    });
    VirtualHosts::new(hosts.collect(), config.virtual_hosts.unknown == UnknownHosts::Refuse)
}
