//! The real program as a server, for tests that talk to it over sockets.
#![allow(dead_code, reason = "not every test needs all of it")]

pub(crate) mod logins;
pub(crate) mod watched;

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A server that is killed when the test ends.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts it with a configuration, to which its address is added.
    pub(crate) fn start(directory: &Path, config: &str) -> Server {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let file = directory.join(format!("tiderace-{number}.toml"));
        let text = format!("[server]\nlisten = [{FREE:?}]\nshards = 2\n{config}");
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
        let address = listening(&mut log);
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

/// What a server is given as its address: the system chooses the port. One that is looked for and then given up may be
/// another's before the server asks for it.
pub(crate) const FREE: &str = "127.0.0.1:0";

/// Reads the log up to where the server has started; the address that it listens on.
pub(crate) fn listening(log: &mut impl Iterator<Item = io::Result<String>>) -> SocketAddr {
    let mut said = String::new();
    let mut address = None;
    for line in log.map_while(Result::ok) {
        if line.contains(r#""event":"listening""#) {
            let (_, rest) = line.split_once(r#""address":""#).expect(&line);
            address = rest.split('"').next().map(|text| text.parse().expect(&line));
        }
        said.push_str(&line);
        if line.contains("server-started") {
            return address.expect(&said);
        }
    }
    panic!("the server has ended instead of starting: {said}")
}

/// Reads the log up to an event.
pub(crate) fn read_to(
    log: &mut impl Iterator<Item = io::Result<String>>,
    event: &str,
) -> Vec<String> {
    let mut said = Vec::new();
    for line in log.by_ref() {
        said.push(line.unwrap());
        if said.last().unwrap().contains(&format!(r#""event":"{event}""#)) {
            return said;
        }
    }
    panic!("the server has ended before {event}: {said:#?}")
}

/// Reads what development mode prints up to the address that it listens on.
pub(crate) fn announced(output: &mut impl Iterator<Item = io::Result<String>>) -> SocketAddr {
    let mut lines = output.map_while(Result::ok);
    let address = lines.find_map(|line| line.split_whitespace().next()?.parse().ok());
    address.expect("the server says where it listens")
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

/// The names of a server's threads, once each has taken its own: one that has just begun still has that of the program.
pub(crate) fn names_of_threads(server: u32) -> Vec<String> {
    let start = Instant::now();
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{server}/task")).unwrap();
        let name = |path: PathBuf| std::fs::read_to_string(path.join("comm")).ok();
        let names: Vec<_> = tasks.filter_map(|entry| name(entry.unwrap().path())).collect();
        let names: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
        if names.iter().filter(|name| *name == "tiderace").count() == 1 {
            return names;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "threads without a name: {names:?}");
        thread::yield_now();
    }
}
