//! Checks of the ways by which the server is looked after.

use std::path::Path;

use crate::config::Config;
use crate::problem::Problems;
use crate::sections::management::ManagementListeners;
use crate::table::{Table, origin_of};

/// Bytes of the path of a Unix socket, at most (unix(7)).
const PATH_BYTES_MAX: usize = 107;

/// Whether there is a way for who looks after the server, and whether the socket can be where it is to be.
pub(crate) fn check(config: &Config, tables: &[Table], problems: &mut Problems) {
    let management = &config.management;
    if let Some(path) = &management.socket {
        let mut refuse = |problem: &str| {
            problems.add(
                origin_of(tables, "management.socket"),
                format!("management.socket: {problem}"),
            );
        };
        if !Path::new(path).is_absolute() {
            refuse("name the whole path, such as /run/tiderace/admin.sock");
        } else if path.len() > PATH_BYTES_MAX || path.contains('\0') {
            refuse("the path of a socket has at most 107 bytes; choose a shorter one");
        }
    }
    let is_there = management.socket.is_some() || config.listeners.iter().any(|it| it.management);
    if management.listeners == ManagementListeners::Marked && !is_there {
        let message = "management.listeners: nobody could look after the server; set `management = true` for a [[listener]], or name a management.socket";
        problems.add(origin_of(tables, "management.listeners"), message);
    }
}
