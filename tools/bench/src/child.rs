//! Starts this program again as a child, so that its CPU is accounted apart from ours.
//!
//! Invariant: a child never outlives its handle.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child as Process, Command, Stdio};

use anyhow::Context;

/// A child that listens on an address it has announced.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Child {
    /// Starts a `bench` sub-command that prints its address on its first line.
    pub(crate) fn start(arguments: &[String]) -> anyhow::Result<Self> {
        let program =
            std::env::current_exe().context("cannot find this program to start it again")?;
        // As a part of another program it is reached by that one's sub-command.
        let mounted = std::env::args().nth(1).filter(|word| word == "bench");
        let mut process = Command::new(program)
            .args(mounted)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a second process of this program")?;
        let mut line = String::new();
        if let Some(out) = process.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        match line.trim().parse() {
            Ok(address) => Ok(Self { process, address }),
            Err(_) => {
                let _ = process.kill();
                let _ = process.wait();
                anyhow::bail!("the child process did not start; its error is above")
            }
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
