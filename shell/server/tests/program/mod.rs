//! The real program as a server, for tests that talk to it over sockets.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

/// A server that is killed when the test ends.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts it with a configuration, to which its address is added.
    pub(crate) fn start(directory: &Path, config: &str) -> Server {
        // Free now; nobody else asks for it in the moment until the server does.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let file = directory.join(format!("tiderace-{}.toml", address.port()));
        let text = format!("[server]\nlisten = [\"{address}\"]\nshards = 2\n{config}");
        std::fs::write(&file, text).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tiderace"))
            .arg("serve")
            .arg("--config")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let started = log.by_ref().map_while(Result::ok).any(|line| {
            said.push_str(&line);
            line.contains("server-started")
        });
        assert!(started, "the server has ended instead of starting: {said}");
        // What else it says must not fill the pipe.
        thread::spawn(move || log.for_each(drop));
        Server { child, address }
    }

    /// SIGKILL: nothing of it runs any more.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory that goes with the test.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("tiderace-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
