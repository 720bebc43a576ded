//! A connection to a server, in plain text or over TLS, that blocks.
//!
//! Relies on `tls`. Invariants: nothing is sent over TLS before the server has shown a certificate that is
//! trusted; until somebody is logged in everything together takes no longer than [`ANSWER_TIMEOUT`], however
//! little the server sends at a time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::error::{ANSWER_TIMEOUT, ClientError};
use super::tls::TlsArgs;

/// A connection.
#[derive(Debug)]
pub(super) struct Channel {
    stream: Stream,
    host: String,
    place: String,
    tls: TlsArgs,
}

#[derive(Debug)]
enum Stream {
    Plain(Socket),
    Secured(Box<StreamOwned<ClientConnection, Socket>>),
}

/// What carries the bytes.
#[derive(Debug)]
enum Carrier {
    Network(TcpStream),
    Local(UnixStream),
}

/// A socket that remembers the first it has heard until somebody is logged in.
#[derive(Debug)]
struct Socket {
    stream: Carrier,
    heard: Vec<u8>,
    /// Until when login must be done; absent once it is.
    deadline: Option<Instant>,
}

impl Channel {
    /// Connects to a host.
    pub(super) fn open(host: &str, port: u16, tls: &TlsArgs) -> Result<Channel, ClientError> {
        let place = format!("{host}:{port}");
        let failure = |reason: String| ClientError::Secure { place: place.clone(), reason };
        let config = tls.is_asked().then(|| tls.config()).transpose().map_err(failure)?;
        let carrier = Carrier::Network(open(host, port)?);
        let mut socket = Socket::new(carrier).map_err(ClientError::Io)?;
        let stream = match config {
            None => Stream::Plain(socket),
            Some(config) => {
                let name = ServerName::try_from(host.to_owned()).map_err(|_| {
                    failure("certificates name no such host; name another with -s".to_owned())
                })?;
                let connection = ClientConnection::new(Arc::new(config), name);
                let mut connection = connection.map_err(|error| failure(error.to_string()))?;
                while connection.is_handshaking() {
                    connection
                        .complete_io(&mut socket)
                        .map_err(|error| failure(tls.reason(host, &error)))?;
                }
                Stream::Secured(Box::new(StreamOwned::new(connection, socket)))
            }
        };
        Ok(Channel { stream, host: host.to_owned(), place, tls: tls.clone() })
    }

    /// Connects to a server on this machine by its Unix socket.
    pub(super) fn open_socket(path: &Path) -> Result<Channel, ClientError> {
        let place = format!("unix:{}", path.display());
        let failure = |error: io::Error| {
            let reason = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "only root and the user of the server may; run the command as one of these"
                        .to_owned()
                }
                io::ErrorKind::WouldBlock => {
                    "the server accepts no connections now; look whether it is busy, or stopped"
                        .to_owned()
                }
                _ => error.to_string(),
            };
            ClientError::Connect { place: place.clone(), reason }
        };
        let stream = connect_local(path).map_err(failure)?;
        let socket = Socket::new(Carrier::Local(stream)).map_err(ClientError::Io)?;
        let (stream, host) = (Stream::Plain(socket), "localhost".to_owned());
        Ok(Channel { stream, host, place, tls: TlsArgs::default() })
    }

    /// Somebody is logged in: from now on the server may take its time.
    pub(super) fn settle(&mut self) -> Result<(), ClientError> {
        let socket = self.inner();
        (socket.deadline, socket.heard) = (None, Vec::new());
        socket.stream.set_read_timeout(ANSWER_TIMEOUT).map_err(ClientError::Io)
    }

    /// Says more of why nobody could log in, if TLS has to do with it.
    pub(super) fn explain(&mut self, error: ClientError) -> ClientError {
        match (&mut self.stream, error) {
            (Stream::Plain(socket), error) => match socket.wants_tls() {
                true => ClientError::Unsecured { place: self.place.clone() },
                false => error,
            },
            // A client learns only here that the server does not take its certificate, or wants one.
            (Stream::Secured(_), ClientError::Io(error))
                if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) =>
            {
                let reason = self.tls.reason(&self.host, &error);
                ClientError::Secure { place: self.place.clone(), reason }
            }
            (Stream::Secured(_), error) => error,
        }
    }

    /// How long reading may take.
    pub(super) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.carrier().set_read_timeout(timeout)
    }

    fn carrier(&self) -> &Carrier {
        match &self.stream {
            Stream::Plain(socket) => &socket.stream,
            Stream::Secured(stream) => &stream.sock.stream,
        }
    }

    fn inner(&mut self) -> &mut Socket {
        match &mut self.stream {
            Stream::Plain(socket) => socket,
            Stream::Secured(stream) => &mut stream.sock,
        }
    }

    /// Says that nothing more is sent, and closes the connection.
    pub(super) fn close(&mut self) {
        if let Stream::Secured(stream) = &mut self.stream {
            stream.conn.send_close_notify();
            // The connection is finished either way.
            let _ = stream.flush();
        }
        let _ = match self.carrier() {
            Carrier::Network(stream) => stream.shutdown(Shutdown::Both),
            Carrier::Local(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Carrier {
    fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Carrier::Network(stream) => stream.set_read_timeout(Some(timeout)),
            Carrier::Local(stream) => stream.set_read_timeout(Some(timeout)),
        }
    }
}

impl Read for Carrier {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Carrier::Network(stream) => stream.read(buffer),
            Carrier::Local(stream) => stream.read(buffer),
        }
    }
}

impl Write for Carrier {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Carrier::Network(stream) => stream.write(bytes),
            Carrier::Local(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket {
    fn new(stream: Carrier) -> io::Result<Socket> {
        let write_timeout = Some(ANSWER_TIMEOUT * 6);
        match &stream {
            Carrier::Network(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(write_timeout)?;
            }
            Carrier::Local(stream) => stream.set_write_timeout(write_timeout)?,
        }
        Ok(Socket { stream, heard: Vec::new(), deadline: Some(Instant::now() + ANSWER_TIMEOUT) })
    }

    /// Whether what answers plain text speaks TLS only: it sends an alert, or says so.
    fn wants_tls(&mut self) -> bool {
        let is_http = self.heard.starts_with(b"HTTP/1.") && self.heard.get(8..13) == Some(b" 400 ");
        // What is wrong stands in the body, which may come later than the head.
        while is_http && self.heard.len() < HEARD_BYTES_MAX {
            if !matches!(self.read(&mut [0; HEARD_BYTES_MAX]), Ok(1..)) {
                break;
            }
        }
        let text = String::from_utf8_lossy(&self.heard);
        self.heard.starts_with(ALERT)
            || text.starts_with("TLS is required")
            || is_http && ["TLS is required", "HTTPS"].iter().any(|words| text.contains(words))
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(deadline) = self.deadline else { return self.stream.read(buffer) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)?;
        let count = self.stream.read(buffer)?;
        let fresh = buffer.get(..count).unwrap_or_default();
        let room = HEARD_BYTES_MAX.saturating_sub(self.heard.len());
        self.heard.extend(fresh.iter().take(room));
        Ok(count)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Secured(stream) => stream.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Secured(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.flush(),
            Stream::Secured(stream) => stream.flush(),
        }
    }
}

/// A record of TLS that holds an alert, of any version 3 (RFC 8446 section 5.1).
const ALERT: &[u8] = &[0x15, 0x03];
/// Tries every address of the host.
fn open(host: &str, port: u16) -> Result<TcpStream, ClientError> {
    let failure = |reason: String| ClientError::Connect { place: format!("{host}:{port}"), reason };
    let addresses = (host, port).to_socket_addrs().map_err(|error| failure(error.to_string()))?;
    let mut reason = "the host has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, ANSWER_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => reason = error.to_string(),
        }
    }
    Err(failure(reason))
}

/// So much of what comes first tells who answers.
const HEARD_BYTES_MAX: usize = 1024;

/// A connection to a Unix socket. Where many wait to be accepted nobody is waited for: the standard library would, without an end.
fn connect_local(path: &Path) -> io::Result<UnixStream> {
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    };

    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Both ends of a connection.
    fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Socket::new(Carrier::Network(stream)).unwrap(), listener.accept().unwrap().0)
    }

    #[test]
    fn a_server_that_drips_does_not_get_more_time() {
        let (mut socket, mut server) = pair();
        socket.deadline = Some(Instant::now());
        server.write_all(b"x").unwrap();
        let error = socket.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn who_wants_tls_is_recognised() {
        for (answer, expected) in [
            (&b"TLS is required here\n"[..], true),
            (b"\x15\x03\x01\x00\x02\x02\x0a", true),
            (b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n", true),
            (b"HTTP/1.1 400 Bad Request\r\n\r\nno such field", false),
            (b"HTTP/1.1 404 Not Found\r\n\r\nHTTPS", false),
            (b"ERROR\nmessage:TLS is required\n\n\0", false),
            (b"", false),
        ] {
            let (mut socket, mut server) = pair();
            server.write_all(answer).unwrap();
            drop(server);
            // The head alone, byte by byte as it might come.
            for _ in answer.iter().take(20) {
                assert_eq!(socket.read(&mut [0]).unwrap(), 1);
            }
            assert_eq!(socket.wants_tls(), expected, "{}", answer.escape_ascii());
        }
    }

    #[test]
    fn a_socket_that_accepts_nobody_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("tiderace-full-{}.sock", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            assert!(waiting.len() < 1_000, "somebody accepts them");
            match Channel::open_socket(&path) {
                Ok(channel) => waiting.push(channel),
                Err(error) => break error,
            }
        };
        std::fs::remove_file(&path).unwrap();
        assert!(error.to_string().contains("accepts no connections now"), "{error}");
    }
}
