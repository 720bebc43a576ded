//! A login by each protocol, written by hand but for the native one, over plain or secured sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use tiderace_base::write_varint;
use tiderace_client::{Auth, Client, Connection, Event};

/// What a client shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Show<'a> {
    Nothing,
    Password(&'a str, &'a str),
    Token(&'a str),
}

/// Each protocol in which one can log in.
pub(crate) const PROTOCOLS: [&str; 6] = ["stomp", "native", "socketio", "rsocket", "http", "sse"];

pub(crate) trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

/// Where a server is, and how it is reached.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) address: SocketAddr,
    /// The Unix socket by which it is reached instead, if it is.
    pub(crate) socket: Option<PathBuf>,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// What a proxy sends before everything else.
    pub(crate) preface: Vec<u8>,
    /// Fields that a proxy adds to requests of HTTP.
    pub(crate) fields: String,
}

impl Way {
    pub(crate) fn plain(address: SocketAddr) -> Way {
        Way { address, socket: None, tls: None, preface: Vec::new(), fields: String::new() }
    }

    /// By a Unix socket.
    pub(crate) fn local(path: &Path) -> Way {
        Way { socket: Some(path.to_owned()), ..Way::plain(([127, 0, 0, 1], 0).into()) }
    }

    /// By TLS, trusting that authority, with a certificate and its key if there is one.
    pub(crate) fn secured(
        address: SocketAddr,
        authority: &str,
        shown: Option<&[String; 2]>,
    ) -> Way {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_file_iter(authority).unwrap() {
            roots.add(root.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some([chain, key]) => {
                let chain = CertificateDer::pem_file_iter(chain).unwrap().map(Result::unwrap);
                let key = PrivateKeyDer::from_pem_file(key).unwrap();
                builder.with_client_auth_cert(chain.collect(), key).unwrap()
            }
        };
        Way { tls: Some(Arc::new(config)), ..Way::plain(address) }
    }

    pub(crate) fn open(&self) -> Box<dyn Wire> {
        if let Some(path) = &self.socket {
            return Box::new(UnixStream::connect(path).unwrap());
        }
        let mut socket = TcpStream::connect(self.address).unwrap();
        socket.write_all(&self.preface).unwrap();
        match &self.tls {
            None => Box::new(socket),
            Some(config) => {
                let name = ServerName::try_from("localhost").unwrap();
                let session = ClientConnection::new(config.clone(), name).unwrap();
                Box::new(StreamOwned::new(session, socket))
            }
        }
    }
}

/// Logs in by a protocol as the client that the credentials name; the error is what came instead.
pub(crate) fn log_in(protocol: &str, way: &Way, show: Show<'_>) -> Result<(), String> {
    LoggedIn::begin(protocol, way, show).map(drop)
}

/// A client that has logged in, and what is there of its session.
pub(crate) enum LoggedIn {
    Stomp(Stomp),
    Native(Box<Native>),
    SocketIo(SocketIo),
    RSocket(Box<dyn Wire>),
    Stream(BufReader<Box<dyn Wire>>),
    /// A request has been answered.
    Nothing,
}

impl LoggedIn {
    pub(crate) fn begin(protocol: &str, way: &Way, show: Show<'_>) -> Result<LoggedIn, String> {
        Ok(match protocol {
            "stomp" => LoggedIn::Stomp(Stomp::log_in(way, show)?),
            "native" => LoggedIn::Native(Box::new(Native::log_in(way, show)?)),
            "socketio" => LoggedIn::SocketIo(SocketIo::log_in(way, show)?),
            "rsocket" => LoggedIn::RSocket(rsocket(way, show)?),
            "http" => {
                http(way, show)?;
                LoggedIn::Nothing
            }
            "sse" => LoggedIn::Stream(sse(way, show)?),
            other => panic!("{other}"),
        })
    }

    /// What the server says when it ends the session, for which this waits.
    pub(crate) fn last_words(&mut self) -> String {
        match self {
            LoggedIn::Stomp(stomp) => stomp.frame(),
            LoggedIn::Native(native) => native.last_words(),
            LoggedIn::SocketIo(client) => client.poll(),
            LoggedIn::RSocket(wire) => loop {
                match rsocket_frame(wire) {
                    Ok(frame) if frame[4] >> 2 != 11 => {}
                    Ok(frame) => return String::from_utf8_lossy(&frame[6..]).into_owned(),
                    Err(error) => return error,
                }
            },
            LoggedIn::Stream(stream) => {
                let mut text = Vec::new();
                // A server that ends does not always say so to TLS.
                let _ = stream.read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            }
            LoggedIn::Nothing => panic!("there is no session"),
        }
    }

    /// Logs in again on the same connection; the error is how that was refused.
    pub(crate) fn renew(&mut self, show: Show<'_>) -> Result<(), String> {
        match self {
            LoggedIn::Native(native) => native.renew(show),
            LoggedIn::SocketIo(client) => {
                let shown = match show {
                    Show::Nothing => panic!("nothing to show"),
                    Show::Password(user, password) => json!({"user": user, "password": password}),
                    Show::Token(token) => json!({ "token": token }),
                };
                client.post(&format!("427[\"login\",{shown}]"));
                let answer = client.poll();
                let is_done = answer.starts_with("437[") && !answer.contains("\"code\"");
                if is_done { Ok(()) } else { Err(answer) }
            }
            LoggedIn::Stomp(stomp) => {
                stomp.send("CONNECT\naccept-version:1.2\nhost:localhost\n");
                let answer = stomp.frame();
                if answer.starts_with("CONNECTED") { Ok(()) } else { Err(answer) }
            }
            _ => panic!("there is no way to log in again"),
        }
    }
}

/// A client of STOMP.
pub(crate) struct Stomp(BufReader<Box<dyn Wire>>);

impl Stomp {
    pub(crate) fn begin(way: &Way, show: Show<'_>) -> Stomp {
        let credentials = match show {
            Show::Nothing => String::new(),
            Show::Password(user, password) => format!("login:{user}\npasscode:{password}\n"),
            Show::Token(token) => format!("token:{token}\n"),
        };
        let mut stomp = Stomp(BufReader::new(way.open()));
        stomp.send(&format!("CONNECT\naccept-version:1.2\nhost:localhost\n{credentials}"));
        stomp
    }

    pub(crate) fn log_in(way: &Way, show: Show<'_>) -> Result<Stomp, String> {
        let mut stomp = Stomp::begin(way, show);
        let frame = stomp.frame();
        if frame.starts_with("CONNECTED") { Ok(stomp) } else { Err(frame) }
    }

    pub(crate) fn send(&mut self, frame: &str) {
        let wire = self.0.get_mut();
        wire.write_all(format!("{frame}\n\0").as_bytes()).unwrap();
        wire.flush().unwrap();
    }

    /// The next frame; empty at the end.
    pub(crate) fn frame(&mut self) -> String {
        let mut frame = Vec::new();
        // A server that ends does not always say so to TLS.
        let _ = self.0.read_until(0, &mut frame);
        String::from_utf8(frame).unwrap().trim_matches(['\n', '\0']).to_owned()
    }
}

/// A client of the native protocol.
pub(crate) struct Native(pub(crate) Connection<Box<dyn Wire>>);

impl Native {
    pub(crate) fn log_in(way: &Way, show: Show<'_>) -> Result<Native, String> {
        let auth = match show {
            Show::Nothing => Auth::Anonymous,
            Show::Password(user, password) => Auth::Password { user, password },
            Show::Token(token) => Auth::Token(token),
        };
        let mut connection = Connection::new(way.open(), Client::new("test"));
        connection.open("localhost", auth).map_err(|error| error.to_string())?;
        Ok(Native(connection))
    }

    fn last_words(&mut self) -> String {
        loop {
            if let Err(error) = self.0.receive(|_| {}) {
                return error.to_string();
            }
        }
    }

    /// LOGIN, which the client has no method for.
    fn renew(&mut self, show: Show<'_>) -> Result<(), String> {
        let text = |out: &mut Vec<u8>, text: &str| {
            write_varint(out, text.len() as u64);
            out.extend(text.as_bytes());
        };
        let say = |client: &mut Client, out: &mut Vec<u8>| {
            let mut payload = Vec::new();
            write_varint(&mut payload, client.next_request().into());
            match show {
                Show::Nothing => payload.push(0),
                Show::Password(user, password) => {
                    payload.push(1);
                    text(&mut payload, user);
                    text(&mut payload, password);
                }
                Show::Token(token) => {
                    payload.push(2);
                    text(&mut payload, token);
                }
            }
            out.push(2);
            write_varint(out, payload.len() as u64);
            out.extend(&payload);
        };
        self.0.send(say).unwrap();
        let mut answer = None;
        while answer.is_none() {
            let tell = |event: Event<'_>| match event {
                Event::LoggedIn(_) => answer = Some(Ok(())),
                Event::Refused { slug, .. } => answer = Some(Err(slug.to_owned())),
                _ => {}
            };
            self.0.receive(tell).map_err(|error| error.to_string())?;
        }
        answer.unwrap()
    }
}

/// A client of Socket.IO by long polling, each request on a connection of its own.
pub(crate) struct SocketIo {
    way: Way,
    session: String,
}

impl SocketIo {
    pub(crate) fn log_in(way: &Way, show: Show<'_>) -> Result<SocketIo, String> {
        let mut client = SocketIo { way: way.clone(), session: String::new() };
        let opened = client.poll();
        let opened: Value = serde_json::from_str(opened.strip_prefix('0').ok_or(&opened)?).unwrap();
        client.session = format!("&sid={}", opened["sid"].as_str().unwrap());
        client.post(&match show {
            Show::Nothing => "40".to_owned(),
            Show::Password(user, password) => {
                format!("40{}", json!({"user": user, "password": password}))
            }
            Show::Token(token) => format!("40{}", json!({ "token": token })),
        });
        let answer = client.poll();
        if answer.starts_with("40") { Ok(client) } else { Err(answer) }
    }

    fn target(&self) -> String {
        format!("/socket.io/?EIO=4&transport=polling{}", self.session)
    }

    pub(crate) fn poll(&self) -> String {
        exchange(&self.way, &format!("GET {} HTTP/1.1\r\n", self.target()), "").1
    }

    pub(crate) fn post(&self, packet: &str) -> String {
        exchange(&self.way, &format!("POST {} HTTP/1.1\r\n", self.target()), packet).1
    }
}

fn rsocket(way: &Way, show: Show<'_>) -> Result<Box<dyn Wire>, String> {
    let mime = |name: &str| [&[u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
    let mut authentication = Vec::new();
    match show {
        Show::Nothing => {}
        Show::Password(user, password) => {
            authentication.push(0x80);
            authentication.extend(u16::try_from(user.len()).unwrap().to_be_bytes());
            authentication.extend([user.as_bytes(), password.as_bytes()].concat());
        }
        Show::Token(token) => authentication.extend([&[0x81], token.as_bytes()].concat()),
    }
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_be_bytes()[1..].to_vec();
    // SETUP, with metadata that has one entry.
    let mut metadata = vec![0xFC];
    metadata.extend([length(&authentication), authentication.clone()].concat());
    let has_metadata = !authentication.is_empty();
    let mut frame = vec![0, 0, 0, 0, 0x04 | u8::from(has_metadata), 0, 0, 1, 0, 0];
    frame.extend(60_000_u32.to_be_bytes());
    frame.extend(180_000_u32.to_be_bytes());
    frame.extend(mime("message/x.rsocket.composite-metadata.v0"));
    frame.extend(mime("application/json"));
    if has_metadata {
        frame.extend([length(&metadata), metadata].concat());
    }
    // KEEPALIVE that wants an answer.
    let alive = [&[0, 0, 0, 0, 0x0C, 0x80][..], &[0; 8]].concat();
    let mut wire = way.open();
    wire.write_all(&[length(&frame), frame, length(&alive), alive].concat()).unwrap();
    wire.flush().unwrap();
    let answer = rsocket_frame(&mut wire)?;
    match answer[4] >> 2 {
        3 => Ok(wire),
        _ => Err(String::from_utf8_lossy(&answer[6..]).into_owned()),
    }
}

/// The next frame of RSocket.
fn rsocket_frame(wire: &mut dyn Wire) -> Result<Vec<u8>, String> {
    let mut head = [0; 3];
    wire.read_exact(&mut head).map_err(|error| error.to_string())?;
    let mut frame = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
    wire.read_exact(&mut frame).map_err(|error| error.to_string())?;
    Ok(frame)
}

pub(crate) fn authorization(show: Show<'_>) -> String {
    match show {
        Show::Nothing => String::new(),
        Show::Password(user, password) => {
            format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{password}")))
        }
        Show::Token(token) => format!("Authorization: Bearer {token}\r\n"),
    }
}

/// One request and its answer: head and body.
pub(crate) fn exchange(way: &Way, head: &str, body: &str) -> (String, String) {
    let (head, mut reader) = ask(way, head, body);
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// One request, the head of its answer, and what the rest is read from.
fn ask(way: &Way, head: &str, body: &str) -> (String, BufReader<Box<dyn Wire>>) {
    let mut wire = way.open();
    let length = body.len();
    let request = format!(
        "{head}Host: localhost\r\nConnection: close\r\n{}Content-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}",
        way.fields
    );
    wire.write_all(request.as_bytes()).unwrap();
    wire.flush().unwrap();
    let mut reader = BufReader::new(wire);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|count| count > 0) {}
    (head, reader)
}

/// A topic of ann's own, of which there is none: everybody else who asks is refused.
fn http(way: &Way, show: Show<'_>) -> Result<(), String> {
    let head = format!("GET /topics/own/ann/x HTTP/1.1\r\n{}", authorization(show));
    let (head, body) = exchange(way, &head, "");
    if head.starts_with("HTTP/1.1 404") { Ok(()) } else { Err(format!("{head}{body}")) }
}

fn sse(way: &Way, show: Show<'_>) -> Result<BufReader<Box<dyn Wire>>, String> {
    let head = format!("GET /events?topic=own/ann/x HTTP/1.1\r\n{}", authorization(show));
    let (head, stream) = ask(way, &head, "");
    if head.starts_with("HTTP/1.1 200") { Ok(stream) } else { Err(head) }
}

/// A server that is asked about logins, on a port of its own; it ends with the test.
pub(crate) struct LoginServer {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<Value>>>,
}

impl LoginServer {
    /// Answers each question with a status and a body.
    pub(crate) fn start(
        answer: impl Fn(&Value) -> (u16, Value) + Send + Sync + 'static,
    ) -> LoginServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (questions, answer) = (asked.clone(), Arc::new(answer));
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let (questions, answer) = (questions.clone(), answer.clone());
                thread::spawn(move || answer_questions(&socket, &questions, &*answer));
            }
        });
        LoginServer { address, asked }
    }
}

fn answer_questions(
    socket: &TcpStream,
    asked: &Mutex<Vec<Value>>,
    answer: &(dyn Fn(&Value) -> (u16, Value) + Send + Sync),
) {
    let mut reader = BufReader::new(socket);
    loop {
        let (mut length, mut secret) = (0, false);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            secret |= line == "x-api-key: a secret of the login server";
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let question: Value = serde_json::from_slice(&body).unwrap();
        asked.lock().unwrap().push(question.clone());
        let (status, body) = if secret { answer(&question) } else { (400, Value::Null) };
        let body = body.to_string();
        let text = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if (&mut &*socket).write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}
