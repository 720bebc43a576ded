//! The real program as a server whose log a test reads.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use super::{FREE, read_to};

/// The program as who has a socket already starts it, as descriptor 3.
pub(crate) fn serve_on(socket: OwnedFd, file: &Path) -> Command {
    let script =
        r#"exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" serve --config "$1""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_tiderace")]).arg(file);
    command.stdin(Stdio::from(socket));
    command
}

/// A server whose log is read as it comes.
pub(crate) struct Watched {
    pub(crate) child: Child,
    pub(crate) log: std::io::Lines<BufReader<ChildStderr>>,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Watched {
    pub(crate) fn start(directory: &Path, options: &str, more: &str) -> Watched {
        Watched::at(directory, FREE, &format!("{options}\n{more}"))
    }

    /// At an address that is its own, where a port has to stay free while it is not listened to.
    pub(crate) fn at(directory: &Path, address: &str, more: &str) -> Watched {
        let file = directory.join("tiderace.toml");
        let text = format!("[server]\nlisten = [{address:?}]\nshards = 2\n{more}");
        std::fs::write(&file, text).unwrap();
        Watched::of(
            Command::new(env!("CARGO_BIN_EXE_tiderace")).args(["serve", "--config"]).arg(&file),
        )
    }

    pub(crate) fn of(command: &mut Command) -> Watched {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut server = Watched { child, log, addresses: Vec::new() };
        let said = server.read_to("server-started");
        for line in said.iter().filter(|line| line.contains(r#""event":"listening""#)) {
            let (_, rest) = line.split_once(r#""address":""#).unwrap();
            server.addresses.push(rest.split('"').next().unwrap().parse().unwrap());
        }
        server
    }

    /// Reads the log up to an event.
    pub(crate) fn read_to(&mut self, event: &str) -> Vec<String> {
        read_to(&mut self.log, event)
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
