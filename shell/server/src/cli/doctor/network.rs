//! Kernel settings that bound accepting and holding connections.
//!
//! Relies on `/proc/sys/net`. Invariant: see [`super`].

use super::Finding;
use super::system::System;

/// Connections that may arrive between two turns of a busy event loop.
const BACKLOG: u64 = 4_096;
/// Ports for connections made from here; the usual range has 28,232.
const PORTS: u64 = 20_000;
/// Memory of TCP below which a few thousand slow clients can exhaust it.
const TCP_MEMORY_BYTES: u64 = 512 << 20;
/// The kernel counts TCP memory in pages; 4 KiB on nearly every server.
const PAGE_BYTES: u64 = 4_096;

/// Connections waiting to be accepted.
pub(super) fn accept_backlog(system: &dyn System) -> Finding {
    at_least(
        system,
        "accept backlog",
        "net.core.somaxconn",
        "A burst of connections beyond it is dropped.",
    )
}

/// Connections half open.
pub(super) fn syn_backlog(system: &dyn System) -> Finding {
    at_least(
        system,
        "SYN backlog",
        "net.ipv4.tcp_max_syn_backlog",
        "A reconnecting crowd waits for SYN retries.",
    )
}

/// Ports for connections made from this machine, such as by `tiderace bench`.
pub(super) fn port_range(system: &dyn System) -> Finding {
    const CHECK: &str = "local ports";
    const KEY: &str = "net.ipv4.ip_local_port_range";
    let Some(numbers) = numbers(system, KEY) else { return Finding::hidden(CHECK, KEY) };
    let [first, last, ..] = numbers.as_slice() else { return Finding::hidden(CHECK, KEY) };
    let count = last.saturating_sub(*first).saturating_add(1);
    let finding = format!("{first} to {last}: {count} connections from here to any one address.");
    match count >= PORTS {
        true => Finding::ok(CHECK, finding),
        false => Finding::warn(CHECK, finding, sysctl(KEY, "\"10240 65535\"")),
    }
}

/// Memory of all TCP buffers together.
pub(super) fn tcp_memory(system: &dyn System) -> Finding {
    const CHECK: &str = "TCP memory";
    const KEY: &str = "net.ipv4.tcp_mem";
    let Some(numbers) = numbers(system, KEY) else { return Finding::hidden(CHECK, KEY) };
    let [_, _, high] = numbers.as_slice() else { return Finding::hidden(CHECK, KEY) };
    let bytes = high.saturating_mul(PAGE_BYTES);
    let finding = format!("All connections together may buffer {} MiB.", bytes >> 20);
    match bytes >= TCP_MEMORY_BYTES {
        true => Finding::ok(CHECK, finding),
        false => Finding::warn(
            CHECK,
            format!("{finding} Beyond it the kernel drops packets."),
            sysctl(KEY, "\"98304 131072 196608\""),
        ),
    }
}

/// A firewall that tracks connections drops new ones when its table is full.
pub(super) fn connection_tracking(system: &dyn System) -> Finding {
    const CHECK: &str = "connection tracking";
    const KEY: &str = "net.netfilter.nf_conntrack_max";
    let max = numbers(system, KEY).and_then(|numbers| numbers.first().copied());
    let count = numbers(system, "net.netfilter.nf_conntrack_count")
        .and_then(|numbers| numbers.first().copied());
    let (Some(max), Some(count)) = (max, count) else {
        return Finding::ok(CHECK, "It is not in use here.");
    };
    let finding = format!("{count} of {max} entries are in use.");
    let remedy = sysctl(KEY, "1048576");
    match () {
        () if count >= max => {
            Finding::fail(CHECK, format!("{finding} New connections are dropped."), remedy)
        }
        // Four fifths full, or a table smaller than the connections of a serious server.
        () if count * 5 >= max * 4 || max < 65_536 => Finding::warn(CHECK, finding, remedy),
        () => Finding::ok(CHECK, finding),
    }
}

fn at_least(system: &dyn System, check: &'static str, key: &str, consequence: &str) -> Finding {
    match numbers(system, key).and_then(|numbers| numbers.first().copied()) {
        None => Finding::hidden(check, key),
        Some(number) if number >= BACKLOG => Finding::ok(check, format!("{key} is {number}.")),
        Some(number) => {
            let finding = format!("{key} is {number}. {consequence}");
            Finding::warn(check, finding, sysctl(key, &BACKLOG.to_string()))
        }
    }
}

/// The numbers of a kernel setting.
fn numbers(system: &dyn System, key: &str) -> Option<Vec<u64>> {
    let text = system.read(&format!("/proc/sys/{}", key.replace('.', "/")))?;
    text.split_whitespace().map(|word| word.parse().ok()).collect()
}

/// Now, and for the next boot.
fn sysctl(key: &str, value: &str) -> String {
    let plain = value.trim_matches('"');
    format!(
        "sudo sysctl -w {key}={value}\n\
         echo '{key} = {plain}' | sudo tee -a /etc/sysctl.d/90-tiderace.conf"
    )
}
