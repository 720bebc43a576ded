//! Whether the configured ports are free, and who has them if not.
//!
//! Relies on `/proc/net` and on the file descriptors that `/proc` shows. Invariant: see [`super`].

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use super::Finding;
use super::system::System;

/// State `LISTEN` in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// One address to listen on.
pub(super) fn port(system: &dyn System, address: SocketAddr) -> Finding {
    const CHECK: &str = "port";
    let Err(error) = system.bind(address) else {
        return Finding::ok(CHECK, format!("{address} is free."));
    };
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            let Some((pid, name)) = owner(system, address.port()) else {
                let finding =
                    format!("{address} is taken by a process that is not visible to you.");
                let remedy = format!("See which: sudo ss -ltnp 'sport = :{}'", address.port());
                return Finding::fail(CHECK, finding, remedy);
            };
            let finding = format!("{address} is taken by {name} (process {pid}).");
            Finding::fail(
                CHECK,
                finding,
                format!("Stop it (kill {pid}), or choose another port with --listen."),
            )
        }
        io::ErrorKind::AddrNotAvailable => {
            let finding = format!("{address}: this machine does not have that address.");
            Finding::fail(CHECK, finding, "See which it has: ip -brief address")
        }
        io::ErrorKind::PermissionDenied => {
            let finding = format!("{address} is reserved for root.");
            let remedy = "In the systemd unit: AmbientCapabilities=CAP_NET_BIND_SERVICE\nOr choose a port from 1024.";
            Finding::fail(CHECK, finding, remedy)
        }
        _ => Finding::fail(
            CHECK,
            format!("{address}: {error}."),
            "Choose another address with --listen.",
        ),
    }
}

/// The place of the admin socket.
pub(super) fn admin_socket(system: &dyn System, path: &str) -> Finding {
    const CHECK: &str = "admin socket";
    let directory = Path::new(path).parent().and_then(Path::to_str).unwrap_or("/");
    let Err(error) = system.write_test(directory) else {
        return Finding::ok(CHECK, format!("{path} can be made."));
    };
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => format!(
            "Make it: sudo install -d -o tiderace -m 0700 {directory}\nIn the systemd unit: RuntimeDirectory=tiderace makes /run/tiderace."
        ),
        io::ErrorKind::PermissionDenied => {
            format!(
                "Run this as the user of the server, or give it the directory: sudo chown tiderace {directory}"
            )
        }
        _ => "Name another place in management.socket.".to_owned(),
    };
    Finding::fail(CHECK, format!("{path} cannot be made in {directory}: {error}."), remedy)
}

/// The process that listens on a port.
pub(super) fn owner(system: &dyn System, port: u16) -> Option<(u32, String)> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| system.read(table))
        .flat_map(|table| {
            table.lines().filter_map(|line| listener_inode(line, port)).collect::<Vec<_>>()
        })
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = system.list("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    for pid in processes {
        let directory = format!("/proc/{pid}/fd");
        for descriptor in system.list(&directory) {
            let target = system.link(&format!("{directory}/{descriptor}"));
            if target.is_some_and(|target| inodes.contains(&target)) {
                let name = system.read(&format!("/proc/{pid}/comm")).unwrap_or_default();
                return Some((pid, name.trim().to_owned()));
            }
        }
    }
    None
}

/// The inode of a line of `/proc/net/tcp` that listens on the port.
fn listener_inode(line: &str, port: u16) -> Option<String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
    let is_it = u16::from_str_radix(local_port, 16).ok()? == port && *fields.get(3)? == LISTEN;
    is_it.then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
}
