//! The checks on invented machines.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use super::system::System;
use super::*;

/// An invented machine. Directories are those of its files and links.
#[derive(Default)]
struct Machine {
    files: HashMap<String, String>,
    links: HashMap<String, String>,
    taken: Option<io::ErrorKind>,
    unwritable: bool,
    free: Option<u64>,
}

impl Machine {
    fn file(mut self, path: &str, content: &str) -> Machine {
        self.files.insert(path.to_owned(), content.to_owned());
        self
    }

    /// A machine on which every check is content.
    fn good() -> Machine {
        let machine = Machine { free: Some(10 << 30), ..Machine::default() };
        machine
            .file("/proc/self/limits", LIMITS)
            .file("/proc/sys/net/core/somaxconn", "4096\n")
            .file("/proc/sys/net/ipv4/tcp_max_syn_backlog", "8192\n")
            .file("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
            .file("/proc/sys/net/ipv4/tcp_mem", "286458\t381945\t572916\n")
            .file("/proc/sys/net/netfilter/nf_conntrack_max", "262144\n")
            .file("/proc/sys/net/netfilter/nf_conntrack_count", "120\n")
            .file(
                "/proc/meminfo",
                "MemTotal:       24577148 kB\nMemFree: 1 kB\nMemAvailable:   20000000 kB\n",
            )
            .file(CLOCK, "tsc\n")
    }
}

const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             95000                95000                processes \n\
                      Max open files            1024                 1048576              files     \n";
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

impl System for Machine {
    fn read(&self, path: &str) -> Option<String> {
        self.files.get(path).cloned()
    }

    fn list(&self, directory: &str) -> Vec<String> {
        let prefix = format!("{directory}/");
        let paths = self.files.keys().chain(self.links.keys());
        let names = paths.filter_map(|path| path.strip_prefix(&prefix)?.split('/').next());
        names.map(str::to_owned).collect()
    }

    fn link(&self, path: &str) -> Option<String> {
        self.links.get(path).cloned()
    }

    fn bind(&self, _: SocketAddr) -> io::Result<()> {
        self.taken.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn write_test(&self, _: &str) -> io::Result<()> {
        match self.unwritable {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => Ok(()),
        }
    }

    fn free_bytes(&self, _: &str) -> Option<u64> {
        self.free
    }
}

const PORT: &str = "127.0.0.1:7800";

fn port(machine: &Machine) -> Finding {
    ports::port(machine, SocketAddr::from(([127, 0, 0, 1], 7800)))
}

/// The status, and what the text contains.
fn expect(finding: &Finding, status: Status, parts: &[&str]) {
    let text = to_text(std::slice::from_ref(finding));
    assert_eq!(finding.status, status, "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert_eq!(finding.remedy.is_some(), status != Status::Ok, "{text}");
}

#[test]
fn a_good_machine_passes_every_check() {
    for finding in examine(&Machine::good(), None, "/data") {
        expect(&finding, Status::Ok, &[]);
        assert!(!finding.finding.contains("not checked"), "{}", finding.finding);
    }
}

#[test]
fn a_machine_that_hides_everything_passes_with_a_note() {
    let findings = examine(&Machine::default(), None, "/data");
    assert!(findings.iter().all(|finding| finding.status == Status::Ok));
    let hidden =
        findings.iter().filter(|finding| finding.finding.ends_with("not checked.")).count();
    assert_eq!(hidden, findings.len() - 2, "all but disk and connection tracking");
}

#[test]
fn the_limit_of_open_files_bounds_connections() {
    let with =
        |hard: &str| Machine::good().file("/proc/self/limits", &LIMITS.replace("1048576", hard));
    let check = |hard: &str, connections| process::open_files(&with(hard), connections);
    expect(&check("1048576", 0), Status::Ok, &["about 1048320 connections", "soft limit 1024"]);
    expect(&check("unlimited", 0), Status::Ok, &[]);
    expect(&check("20000", 0), Status::Warn, &["about 19744 connections", "LimitNOFILE=1048576"]);
    expect(&check("512", 0), Status::Fail, &[]);
    expect(&check("20000", 10_000), Status::Ok, &[]);
    expect(
        &check("20000", 2_000_000),
        Status::Fail,
        &["connections_max is 2000000", "LimitNOFILE=2000256"],
    );
    expect(&check("many", 0), Status::Ok, &["not checked"]);
}

#[test]
fn small_backlogs_and_ranges_are_noticed() {
    let machine = Machine::good()
        .file("/proc/sys/net/core/somaxconn", "128")
        .file("/proc/sys/net/ipv4/tcp_max_syn_backlog", "512")
        .file("/proc/sys/net/ipv4/ip_local_port_range", "60000 60999")
        .file("/proc/sys/net/ipv4/tcp_mem", "1000 2000 3000");
    expect(
        &network::accept_backlog(&machine),
        Status::Warn,
        &["is 128", "sudo sysctl -w net.core.somaxconn=4096"],
    );
    expect(&network::syn_backlog(&machine), Status::Warn, &["is 512", "tcp_max_syn_backlog=4096"]);
    expect(&network::port_range(&machine), Status::Warn, &["1000 connections", "=\"10240 65535\""]);
    expect(
        &network::tcp_memory(&machine),
        Status::Warn,
        &["11 MiB", "net.ipv4.tcp_mem = 98304 131072 196608"],
    );
}

#[test]
fn a_full_tracking_table_fails() {
    const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
    let check = |count: &str| network::connection_tracking(&Machine::good().file(COUNT, count));
    expect(&check("1000"), Status::Ok, &["1000 of 262144"]);
    expect(
        &check("220000"),
        Status::Warn,
        &["sudo sysctl -w net.netfilter.nf_conntrack_max=1048576"],
    );
    expect(&check("262144"), Status::Fail, &["New connections are dropped"]);
    expect(&network::connection_tracking(&Machine::default()), Status::Ok, &["not in use"]);
}

#[test]
fn a_taken_port_names_its_owner() {
    expect(&port(&Machine::good()), Status::Ok, &[PORT, "free"]);
    let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                 0: 0100007F:1E78 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 111 1\n   \
                 1: 0100007F:1E78 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1\n";
    let mut machine =
        Machine::good().file("/proc/net/tcp", table).file("/proc/42/comm", "apollo\n");
    machine.taken = Some(io::ErrorKind::AddrInUse);
    machine.links.insert("/proc/41/fd/3".to_owned(), "socket:[111]".to_owned());
    expect(&port(&machine), Status::Fail, &["not visible to you", "ss -ltnp 'sport = :7800'"]);
    machine.links.insert("/proc/42/fd/7".to_owned(), "socket:[222]".to_owned());
    expect(&port(&machine), Status::Fail, &["taken by apollo (process 42)", "kill 42"]);
    machine.taken = Some(io::ErrorKind::PermissionDenied);
    expect(&port(&machine), Status::Fail, &["reserved for root", "CAP_NET_BIND_SERVICE"]);
    machine.taken = Some(io::ErrorKind::AddrNotAvailable);
    expect(&port(&machine), Status::Fail, &["does not have that address"]);
}

#[test]
fn the_disk_must_be_writable_and_not_full() {
    let check =
        |unwritable, free| machine::disk(&Machine { unwritable, free, ..Machine::good() }, "/data");
    expect(&check(false, Some(10 << 30)), Status::Ok, &["10 GiB free"]);
    expect(&check(false, Some(500 << 20)), Status::Warn, &["only 500 MiB", "du -xh"]);
    expect(&check(false, Some(5 << 20)), Status::Fail, &["only 5 MiB"]);
    expect(&check(true, Some(10 << 30)), Status::Fail, &["/data cannot be written", "install -d"]);
}

#[test]
fn the_control_group_bounds_the_memory() {
    let check = |machine: Machine| machine::memory(&machine);
    const GROUP: &str = "/sys/fs/cgroup/memory.max";
    expect(&check(Machine::good()), Status::Ok, &["of 24001 MiB", "machine"]);
    expect(&check(Machine::good().file(GROUP, "max\n")), Status::Ok, &["machine"]);
    expect(
        &check(Machine::good().file(GROUP, "268435456\n")),
        Status::Warn,
        &["256 MiB of 256 MiB", "control group"],
    );
    expect(&check(Machine::good().file(GROUP, "33554432\n")), Status::Fail, &["32 MiB"]);
}

#[test]
fn a_slow_clock_is_noticed() {
    let slow = Machine::good().file(CLOCK, "hpet\n");
    expect(&machine::clock_source(&slow), Status::Warn, &["hpet", "No better one"]);
    let mendable = slow.file(&CLOCK.replace("current", "available"), "hpet tsc acpi_pm\n");
    expect(&machine::clock_source(&mendable), Status::Warn, &["echo tsc | sudo tee"]);
}

#[test]
fn the_json_form_has_four_keys() {
    let findings = [Finding::warn("a", "b", "c"), Finding::ok("d", "e")];
    let expected = json!([
        { "check": "a", "status": "warn", "finding": "b", "remedy": "c" },
        { "check": "d", "status": "ok", "finding": "e", "remedy": null },
    ]);
    assert_eq!(to_json(&findings), format!("{expected:#}\n"));
}

#[test]
fn the_admin_socket_needs_a_directory_that_can_be_written() {
    let path = "/run/tiderace/admin.sock";
    assert_eq!(ports::admin_socket(&Machine::good(), path).status, Status::Ok);
    let finding = ports::admin_socket(&Machine { unwritable: true, ..Machine::good() }, path);
    assert_eq!(finding.status, Status::Fail);
    assert!(finding.finding.contains("cannot be made in /run/tiderace"), "{}", finding.finding);
}
