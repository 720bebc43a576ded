//! Servers of the real program that stand behind each other, what lies between them, and clients that speak plainly.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::program::{FREE, read_to};

/// Long enough for a busy machine; nothing waits for it unless something is broken.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A server whose log is read as it comes.
pub(crate) struct Node {
    pub(crate) child: Child,
    log: std::io::Lines<BufReader<ChildStderr>>,
    pub(crate) address: SocketAddr,
    /// What its log said until it had started.
    beginning: Vec<String>,
}

impl Node {
    /// Starts it with a configuration, to which its address is added.
    pub(crate) fn start(directory: &Path, config: &str) -> Node {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let file = directory.join(format!("node-{number}.toml"));
        let text = format!("[server]\nlisten = [{FREE:?}]\nshards = 2\n{config}");
        std::fs::write(&file, text).unwrap();
        let program = env!("CARGO_BIN_EXE_tiderace");
        Node::of(Command::new(program).args(["serve", "--config"]).arg(&file))
    }

    pub(crate) fn of(command: &mut Command) -> Node {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut node = Node { child, log, address, beginning: Vec::new() };
        node.beginning = node.read_to("server-started");
        let line =
            node.beginning.iter().find(|line| line.contains(r#""event":"listening""#)).unwrap();
        let (_, rest) = line.split_once(r#""address":""#).unwrap();
        node.address = rest.split('"').next().unwrap().parse().unwrap();
        node
    }

    /// The line of an event that its shards tell of as they begin, before the server has started or soon after.
    pub(crate) fn said(&mut self, event: &str) -> String {
        let named = format!("\"event\":\"{event}\"");
        let early = self.beginning.iter().find(|line| line.contains(&named)).cloned();
        early.unwrap_or_else(|| self.read_to(event).pop().unwrap())
    }

    /// Reads the log up to an event.
    pub(crate) fn read_to(&mut self, event: &str) -> Vec<String> {
        read_to(&mut self.log, event)
    }

    /// Without a word.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// What `$sys/upstreams/NAME` says, one for each.
    pub(crate) fn upstreams(&self) -> Vec<Json> {
        let output = command(self.address, &["upstreams", "--json"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until the only upstream is in that state.
    pub(crate) fn wait_for(&self, state: &str) -> Json {
        self.wait_until("state", state.into())
    }

    /// Waits until the value about the only upstream has that.
    pub(crate) fn wait_until(&self, name: &str, wanted: Json) -> Json {
        wait(|| {
            let found = self.upstreams().first().cloned().unwrap_or_default();
            if found[name] == wanted { Ok(found) } else { Err(format!("{found}, not {wanted}")) }
        })
    }

    /// The answer to a request without a body.
    pub(crate) fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path}"), "", "")
    }

    /// The answer to a text.
    pub(crate) fn post(&self, path: &str, body: &str) -> String {
        let length = body.len();
        let fields = format!("Content-Length: {length}\r\nContent-Type: text/plain\r\n");
        self.ask(&format!("POST {path}"), &fields, body)
    }

    fn ask(&self, what: &str, fields: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let request = format!(
            "{what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Publishes by `tiderace pub`, which waits for the confirmation.
    pub(crate) fn publish(&self, topic: &str, body: &str) {
        let output = command(self.address, &["pub", topic, body]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command of the program against a server.
pub(crate) fn command(address: impl Display, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
    command.arg(arguments[0]).args(["-s", &address.to_string()]).args(&arguments[1..]);
    command
}

/// The configuration of an upstream at these addresses.
pub(crate) fn upstream(addresses: &[SocketAddr], topics: &str, more: &str) -> String {
    let urls: Vec<String> = addresses.iter().map(|address| format!("\"ws://{address}\"")).collect();
    let urls = urls.join(", ");
    format!("[[upstream]]\nname = \"london\"\nurls = [{urls}]\ntopics = [{topics:?}]\n{more}\n")
}

/// Asks until there is an answer.
pub(crate) fn wait<T>(mut ask: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(why) => assert!(start.elapsed() < TIMEOUT, "{why}"),
        }
        thread::yield_now();
    }
}

/// What stands in front of a server, at an address that stays while servers come and go.
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<FrontState>>,
}

#[derive(Default)]
struct FrontState {
    target: Option<SocketAddr>,
    open: Vec<TcpStream>,
}

impl Front {
    pub(crate) fn of(target: SocketAddr) -> Front {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(FrontState { target: Some(target), open: Vec::new() }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = shared.lock().unwrap();
                let Some(target) = state.target else { continue };
                let Ok(server) = TcpStream::connect(target) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let [mut from, mut to] = [from, to].map(|it| it.try_clone().unwrap());
                    thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                state.open.extend([client, server]);
            }
        });
        Front { address, state }
    }

    /// Cuts all connections; new ones lead to another server, or end at once if there is none.
    pub(crate) fn lead_to(&self, target: Option<SocketAddr>) {
        let mut state = self.state.lock().unwrap();
        state.target = target;
        for stream in state.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A client that speaks STOMP.
pub(crate) struct Stomp(BufReader<TcpStream>);

impl Stomp {
    pub(crate) fn connect(address: SocketAddr) -> Stomp {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut stomp = Stomp(BufReader::new(stream));
        stomp.say("CONNECT\naccept-version:1.2\nhost:localhost\n\n");
        let frame = stomp.frame();
        assert!(frame.starts_with("CONNECTED"), "{frame}");
        stomp
    }

    pub(crate) fn say(&mut self, frame: &str) {
        self.0.get_mut().write_all(format!("{frame}\0").as_bytes()).unwrap();
    }

    pub(crate) fn frame(&mut self) -> String {
        let mut frame = Vec::new();
        self.0.read_until(0, &mut frame).unwrap();
        frame.pop();
        String::from_utf8(frame).unwrap().trim_start().to_owned()
    }

    /// Subscribes, and has word that it holds.
    pub(crate) fn subscribe(&mut self, destination: &str) {
        self.say(&format!("SUBSCRIBE\nid:0\ndestination:/topic/{destination}\nreceipt:s\n\n"));
        let frame = self.frame();
        assert!(frame.starts_with("RECEIPT"), "{frame}");
    }

    /// What is said to a subscription that is refused.
    pub(crate) fn refused(&mut self, destination: &str) -> String {
        self.say(&format!("SUBSCRIBE\nid:0\ndestination:/topic/{destination}\nreceipt:s\n\n"));
        let frame = self.frame();
        assert!(frame.starts_with("ERROR"), "{frame}");
        frame
    }

    /// The bodies of the next messages, in order of the alphabet.
    pub(crate) fn next_of(&mut self, count: usize) -> Vec<String> {
        let mut bodies: Vec<String> = (0..count).map(|_| self.next()).collect();
        bodies.sort_unstable();
        bodies
    }

    /// Publishes; what the server says to it.
    pub(crate) fn send(&mut self, destination: &str, text: &str) -> String {
        self.say(&format!("SEND\ndestination:/topic/{destination}\nreceipt:p\n\n{text}"));
        self.frame()
    }

    /// The body of the next message.
    pub(crate) fn next(&mut self) -> String {
        let frame = self.frame();
        assert!(frame.starts_with("MESSAGE"), "{frame}");
        body(&frame)
    }
}

fn body(frame: &str) -> String {
    frame.split_once("\n\n").map_or("", |(_, body)| body).to_owned()
}

/// A client of Server-Sent Events.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    /// From the last event that it had, if it had one.
    pub(crate) fn open(address: SocketAddr, query: &str, last: Option<&str>) -> Events {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let request = format!("GET /events?{query} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        Events(BufReader::new(stream))
    }

    /// The next event that has a name, with its id and data: (name, id, data).
    pub(crate) fn event(&mut self) -> (String, String, String) {
        let mut event = (String::new(), String::new(), String::new());
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream has ended");
            let line = line.trim_end();
            match line.split_once(": ").or_else(|| line.split_once(':')) {
                Some(("event", name)) => event.0 = name.to_owned(),
                Some(("id", id)) => event.1 = id.to_owned(),
                Some(("data", data)) => event.2.push_str(data),
                _ if line.is_empty() && !event.2.is_empty() => return event,
                _ => {}
            }
        }
    }
}
