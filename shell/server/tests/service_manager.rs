//! The real program under a service manager that this test plays: what it is told, and sockets that outlive a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::program::watched::{self, Watched};
use crate::program::{Directory, FREE, names_of_threads};

/// Where a server tells how it stands.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(directory: &Path) -> Manager {
        let path = directory.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        // A test that hears nothing fails, instead of waiting for ever.
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Manager { socket, path }
    }

    /// The lines of the next message.
    fn hear(&self) -> Vec<String> {
        let mut bytes = [0; 4096];
        let count = self.socket.recv(&mut bytes).expect("the server tells something");
        let text = std::str::from_utf8(&bytes[..count]).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// The first message that has a line which begins so.
    fn hear_of(&self, beginning: &str) -> Vec<String> {
        loop {
            let lines = self.hear();
            if lines.iter().any(|line| line.starts_with(beginning)) {
                return lines;
            }
        }
    }
}

fn configuration(directory: &Path, listen: &str, more: &str) -> PathBuf {
    let file = directory.join("tiderace.toml");
    let text = format!("[server]\nlisten = [{listen:?}]\nshards = 2\n{more}");
    std::fs::write(&file, text).unwrap();
    file
}

fn serve(file: &Path, manager: &Manager) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
    command.args(["serve", "--config"]).arg(file).env("NOTIFY_SOCKET", &manager.path);
    command
}

/// The program as a service manager starts it that gives it a socket as descriptor 3.
fn serve_on(socket: OwnedFd, file: &Path, manager: &Manager) -> Command {
    let mut command = watched::serve_on(socket, file);
    command.env("NOTIFY_SOCKET", &manager.path);
    command
}

fn microseconds(lines: &[String], name: &str) -> u128 {
    let value = lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("{name} in {lines:?}")).parse().unwrap()
}

#[test]
fn it_tells_when_it_is_ready_reloads_and_stops() {
    let directory = Directory::new("manager");
    let manager = Manager::new(&directory.0);
    let grace = "shutdown_grace = \"3s\"";
    let file = configuration(&directory.0, FREE, grace);
    let mut server = Watched::of(&mut serve(&file, &manager));
    let address = server.addresses[0];
    let serving = [String::from("READY=1"), format!("STATUS=Serves on {address}.")];
    assert_eq!(manager.hear(), serving);

    server.signal("HUP");
    let reloading = manager.hear();
    assert_eq!(reloading[0], "RELOADING=1");
    let first = microseconds(&reloading, "MONOTONIC_USEC");
    assert!(first > 0);
    assert_eq!(manager.hear(), serving);

    configuration(&directory.0, FREE, "shard = 3");
    server.signal("HUP");
    let reloading = manager.hear();
    assert_eq!(reloading[0], "RELOADING=1");
    assert!(microseconds(&reloading, "MONOTONIC_USEC") > first);
    let refused = manager.hear();
    assert_eq!((refused.len(), refused[0].as_str()), (2, "READY=1"));
    let says = "STATUS=Goes on as before; the new configuration was refused: ";
    assert!(refused[1].starts_with(says) && refused[1].contains("shard"), "{refused:?}");

    configuration(&directory.0, FREE, &format!("{grace}\ndrain_over = \"2h\""));
    server.signal("HUP");
    manager.hear_of("READY=1");
    let client = TcpStream::connect(address).unwrap();
    server.signal("TERM");
    let stopping = manager.hear();
    assert_eq!(stopping[0], "STOPPING=1");
    // The drain, ten seconds behind it, the grace, and half a minute for the store.
    let most = u128::from(2 * 3600 + 10 + 3 + 30u32) * 1_000_000;
    assert_eq!(microseconds(&stopping, "EXTEND_TIMEOUT_USEC"), most);
    drop(client);
    let stopping = manager.hear();
    assert_eq!(stopping[0], "STOPPING=1");
    assert_eq!(microseconds(&stopping, "EXTEND_TIMEOUT_USEC"), 33_000_000);
    server.read_to("server-stopped");
    assert!(server.child.wait().unwrap().success());
}

/// Stops one thread of a server, as a debugger does, until it is dropped.
struct Stopped(Pid);

impl Stopped {
    fn stop(server: u32, name: &str) -> Stopped {
        let threads = std::fs::read_dir(format!("/proc/{server}/task")).unwrap();
        let thread = threads
            .map(|entry| entry.unwrap().path())
            .find(|path| {
                let comm = std::fs::read_to_string(path.join("comm"));
                comm.is_ok_and(|comm| comm.trim() == name)
            })
            .unwrap();
        let number = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let thread = Pid::from_raw(number);
        ptrace::seize(thread, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(thread).unwrap();
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        Stopped(thread)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = ptrace::detach(self.0, None);
    }
}

#[test]
fn a_shard_that_hangs_starves_the_watchdog() {
    let directory = Directory::new("watchdog");
    let manager = Manager::new(&directory.0);
    let file = configuration(&directory.0, FREE, "");
    let mut server = Watched::of(serve(&file, &manager).env("WATCHDOG_USEC", "1200000"));
    assert_eq!(manager.hear_of("READY=1")[0], "READY=1");
    for _ in 0..3 {
        assert_eq!(manager.hear_of("WATCHDOG=1"), ["WATCHDOG=1"]);
    }
    // The second one: the others go on, and so does everything that asks the server how it is.
    let stopped = Stopped::stop(server.child.id(), "shard-1");
    manager.hear_of("STATUS=Shard 1 does not go on; ");
    for _ in 0..3 {
        let lines = manager.hear();
        assert!(lines[0].starts_with("STATUS=Shard "), "{lines:?}");
    }
    server.read_to("shard-stuck");
    drop(stopped);
    manager.hear_of("STATUS=Serves on ");
    manager.hear_of("WATCHDOG=1");
    server.read_to("shard-goes-on");
}

#[test]
fn a_watchdog_of_another_process_is_not_fed() {
    let directory = Directory::new("other-watchdog");
    let manager = Manager::new(&directory.0);
    let file = configuration(&directory.0, FREE, "");
    let mut command = serve(&file, &manager);
    let server = Watched::of(command.env("WATCHDOG_USEC", "200000").env("WATCHDOG_PID", "1"));
    manager.hear_of("READY=1");
    let names = names_of_threads(server.child.id());
    assert!(names.iter().any(|name| name == "control"), "{names:?}");
    assert!(names.iter().all(|name| name != "watchdog"), "{names:?}");
}

fn is_live(stream: &mut TcpStream) -> bool {
    let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.starts_with("HTTP/1.1 200 ")
}

fn socket() -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind(FREE).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[test]
fn a_socket_that_it_was_given_takes_connections_from_one_server_to_the_next() {
    let directory = Directory::new("socket");
    let manager = Manager::new(&directory.0);
    let (socket, address) = socket();
    let file = configuration(&directory.0, &address.to_string(), "");
    // Before there is a server at all.
    let mut early = TcpStream::connect(address).unwrap();
    let start = || {
        let given = OwnedFd::from(socket.try_clone().unwrap());
        Watched::of(&mut serve_on(given, &file, &manager))
    };
    let mut server = start();
    assert_eq!(server.addresses, [address]);
    assert!(is_live(&mut early));
    assert!(is_live(&mut TcpStream::connect(address).unwrap()));

    server.signal("TERM");
    server.read_to("server-stopping");
    let mut between: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    server.read_to("server-stopped");
    assert!(server.child.wait().unwrap().success());
    between.extend((0..20).map(|_| TcpStream::connect(address).unwrap()));
    let _next = start();
    // Those that came before the first server had closed its listener it may have taken and said goodbye to.
    let mut between = between.split_off(20);
    assert!(between.iter_mut().all(is_live));
}

#[test]
fn a_drain_leaves_connections_in_a_socket_that_it_was_given() {
    let directory = Directory::new("socket-drain");
    let manager = Manager::new(&directory.0);
    let (socket, address) = socket();
    let more = "[[listener]]\naddress = \"127.0.0.1:0\"\nstays_open = true\n";
    let file = configuration(&directory.0, &address.to_string(), more);
    let given = OwnedFd::from(socket.try_clone().unwrap());
    let server = Watched::of(&mut serve_on(given, &file, &manager));
    let [main, admin] = server.addresses[..] else { panic!("{:?}", server.addresses) };
    assert_eq!(main, address);
    let drain = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
        command.args(["drain", "-s", &admin.to_string()]).args(arguments.split_whitespace());
        assert!(command.stderr(Stdio::null()).stdout(Stdio::null()).status().unwrap().success());
    };
    drain("--over 100ms --delay 0s");
    let mut waiting = TcpStream::connect(main).unwrap();
    drain("--cancel");
    assert!(is_live(&mut waiting));
    assert!(is_live(&mut TcpStream::connect(main).unwrap()));
}

#[test]
fn a_socket_that_no_listener_wants_is_no_silent_hole() {
    let directory = Directory::new("socket-other");
    let manager = Manager::new(&directory.0);
    let (socket, address) = socket();
    let file = configuration(&directory.0, FREE, "");
    let mut command = serve_on(OwnedFd::from(socket), &file, &manager);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(!child.wait().unwrap().success());
    let last = said.last().unwrap();
    assert!(last.contains(&address.to_string()) && last.contains("socket unit"), "{said:#?}");
}
