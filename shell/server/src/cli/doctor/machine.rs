//! Disk, memory and clock.
//!
//! Relies on `/proc` and `/sys`. Invariant: see [`super`].

use super::Finding;
use super::system::System;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// The directory the server writes to.
pub(super) fn disk(system: &dyn System, directory: &str) -> Finding {
    const CHECK: &str = "disk";
    if let Err(error) = system.write_test(directory) {
        let finding = format!("{directory} cannot be written: {error}.");
        let remedy = format!(
            "sudo install -d -o \"$USER\" {directory}\nOr choose another directory with --data."
        );
        return Finding::fail(CHECK, finding, remedy);
    }
    let remedy =
        format!("See what takes the space: sudo du -xh --max-depth=2 {directory} | sort -h | tail");
    match system.free_bytes(directory) {
        None => Finding::ok(
            CHECK,
            format!("{directory} can be written; its free space cannot be read here."),
        ),
        Some(free) if free < 64 * MIB => {
            Finding::fail(CHECK, format!("{directory} has only {} MiB free.", free / MIB), remedy)
        }
        Some(free) if free < GIB => {
            Finding::warn(CHECK, format!("{directory} has only {} MiB free.", free / MIB), remedy)
        }
        Some(free) => Finding::ok(
            CHECK,
            format!("{directory} can be written and has {} GiB free.", free / GIB),
        ),
    }
}

/// Memory of the machine, or of the control group if that is less.
pub(super) fn memory(system: &dyn System) -> Finding {
    const CHECK: &str = "memory";
    const PLACE: &str = "/proc/meminfo";
    let Some(table) = system.read(PLACE) else { return Finding::hidden(CHECK, PLACE) };
    let field = |name: &str| {
        let line = table.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':')
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
            .map(|kib| kib << 10)
    };
    let (Some(total), Some(available)) = (field("MemTotal"), field("MemAvailable")) else {
        return Finding::hidden(CHECK, PLACE);
    };
    let group =
        system.read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse::<u64>().ok());
    let limit = group.filter(|limit| *limit < total);
    let available = limit.map_or(available, |limit| limit.min(available));
    let whose = if limit.is_some() { "control group" } else { "machine" };
    let finding = format!(
        "{} MiB of {} MiB are available to this {whose}.",
        available / MIB,
        limit.unwrap_or(total) / MIB
    );
    match available {
        _ if available < 64 * MIB => {
            Finding::fail(CHECK, finding, "See what takes it: ps -eo rss,comm --sort=-rss | head")
        }
        _ if available < 512 * MIB => {
            Finding::warn(CHECK, finding, "See what takes it: ps -eo rss,comm --sort=-rss | head")
        }
        _ => Finding::ok(CHECK, finding),
    }
}

/// Reading the clock must not be a system call: the event loop does it every turn.
pub(super) fn clock_source(system: &dyn System) -> Finding {
    const CHECK: &str = "clock source";
    const PLACE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let Some(text) = system.read(PLACE) else { return Finding::hidden(CHECK, PLACE) };
    let source = text.trim();
    let available = system.read(&PLACE.replace("current", "available")).unwrap_or_default();
    let better = available
        .split_whitespace()
        .find(|source| is_fast(source))
        .map(|source| format!("echo {source} | sudo tee {PLACE}"));
    match (is_fast(source), better) {
        (true, _) => Finding::ok(CHECK, format!("It is {source}.")),
        (false, Some(remedy)) => {
            Finding::warn(CHECK, format!("It is {source}: each look at the clock is slow."), remedy)
        }
        (false, None) => Finding::warn(
            CHECK,
            format!("It is {source}: each look at the clock is slow."),
            "No better one is offered; choose a machine type with an invariant TSC.",
        ),
    }
}

fn is_fast(source: &str) -> bool {
    matches!(source, "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")
}
