//! What the operating system grants this process.
//!
//! Relies on `/proc/self`. Invariant: see [`super`].

use super::Finding;
use super::system::System;

/// Below this many files, a server is for trying things out only.
const FILES_SERIOUS: u64 = 65_536;
/// Below this many files, hardly anything works.
const FILES_MIN: u64 = 1_024;
/// What the server needs besides connections.
const FILES_RESERVE: u64 = 256;

/// The limit of open files bounds the connections. The server raises the soft limit to the hard one.
pub(super) fn open_files(system: &dyn System, connections_max: u64) -> Finding {
    const CHECK: &str = "open files";
    const PLACE: &str = "/proc/self/limits";
    let Some((soft, hard)) = system.read(PLACE).as_deref().and_then(parse_limits) else {
        return Finding::hidden(CHECK, PLACE);
    };
    let wanted = if connections_max > 0 { connections_max + FILES_RESERVE } else { FILES_SERIOUS };
    let remedy = format!(
        "In the systemd unit: LimitNOFILE={0}\nIn a container: --ulimit nofile={0}:{0}\n\
         In this shell, as root: ulimit -Hn {0}",
        wanted.max(1_048_576)
    );
    let connections = hard.saturating_sub(FILES_RESERVE);
    let finding =
        format!("At most {hard} (soft limit {soft}), so about {connections} connections.");
    if connections_max > 0 && hard < wanted {
        let finding = format!("{finding} limits.connections_max is {connections_max}.");
        return Finding::fail(CHECK, finding, remedy);
    }
    match hard {
        _ if hard < FILES_MIN => Finding::fail(CHECK, finding, remedy),
        _ if hard < wanted => Finding::warn(CHECK, finding, remedy),
        _ => Finding::ok(CHECK, finding),
    }
}

/// Soft and hard limit of open files.
fn parse_limits(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut limits = line.split_whitespace().map(|word| match word {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    });
    Some((limits.next()??, limits.next()??))
}
