//! What the checks look at: files of the kernel, ports, the disk.
//!
//! Relies on Linux. Invariant: looking changes nothing, but for a file written and removed in the data
//! directory and ports bound for a moment.

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

/// A machine, real or invented.
pub(super) trait System {
    /// The content of a small text file; `None` if it cannot be read.
    fn read(&self, path: &str) -> Option<String>;
    /// The names in a directory; empty if it cannot be read.
    fn list(&self, directory: &str) -> Vec<String>;
    /// Where a symbolic link points.
    fn link(&self, path: &str) -> Option<String>;
    /// Binds a port for a moment.
    fn bind(&self, address: SocketAddr) -> io::Result<()>;
    /// Writes, syncs and removes a file in a directory.
    fn write_test(&self, directory: &str) -> io::Result<()>;
    /// Free bytes of the file system of a directory, for ordinary users.
    fn free_bytes(&self, directory: &str) -> Option<u64>;
}

/// The machine this process runs on.
pub(super) struct RealSystem;

impl System for RealSystem {
    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    fn list(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn link(&self, path: &str) -> Option<String> {
        fs::read_link(path).ok()?.into_os_string().into_string().ok()
    }

    fn bind(&self, address: SocketAddr) -> io::Result<()> {
        TcpListener::bind(address).map(drop)
    }

    fn write_test(&self, directory: &str) -> io::Result<()> {
        let path = Path::new(directory).join(format!(".tiderace-doctor-{}", std::process::id()));
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
        let written = file.write_all(&[0; 4096]).and_then(|()| file.sync_data());
        let removed = fs::remove_file(&path);
        written.and(removed)
    }

    /// The standard library does not tell; `df` does wherever there is a shell.
    fn free_bytes(&self, directory: &str) -> Option<u64> {
        let output = Command::new("df").args(["-P", "-k", directory]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let kibibytes: u64 = text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
        kibibytes.checked_mul(1024)
    }
}
