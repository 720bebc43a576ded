//! Opens connections the blocking way: TCP, WebSocket upgrade, CONNECT, SUBSCRIBE.
//!
//! Invariant: a link handed out is logged in (and subscribed, once the receipt is here), and every
//! failure is a sentence that says what to do.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use socket2::{Domain, Protocol, Socket, Type};
use tiderace_websocket::handshake;

use crate::args::AckMode;
use crate::body::HEAD_BYTES;
use crate::reading;
use crate::stomp::counters::one_line;
use crate::stomp::frames::Sink;
use crate::stomp::inbound::{Arrival, Inbound};
use crate::stomp::websocket;
use crate::target::Target;

/// One logged-in connection.
#[derive(Debug)]
pub struct Link {
    /// The socket, still blocking.
    pub stream: TcpStream,
    /// Its reading state.
    pub inbound: Inbound,
}

impl Link {
    /// Connects and logs in.
    ///
    /// # Errors
    /// A sentence that says what to do.
    pub fn open(
        target: &Target,
        websocket: bool,
        source: Option<Ipv4Addr>,
    ) -> anyhow::Result<Self> {
        let stream = dial(target.address, source)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let leftover = if websocket { upgrade(&stream, target)? } else { Vec::new() };
        let mut link = Self { stream, inbound: Inbound::new(websocket, leftover) };
        let mut connect =
            format!("CONNECT\naccept-version:1.2\nhost:{}\nheart-beat:0,0\n", target.vhost);
        if let Some((login, passcode)) = &target.credentials {
            connect += &format!("login:{login}\npasscode:{passcode}\n");
        }
        link.send(format!("{connect}\n\0").as_bytes())?;
        link.await_answer(&Answer::Connected)
            .with_context(|| format!("{} did not accept the login", target.name))?;
        Ok(link)
    }

    /// Subscribes and waits until the server says so.
    ///
    /// # Errors
    /// A sentence that says what to do.
    pub fn subscribe(&mut self, destination: &str, ack: AckMode) -> anyhow::Result<()> {
        let ack = ack.as_str();
        self.send(
            format!("SUBSCRIBE\nid:0\ndestination:{destination}\nack:{ack}\nreceipt:sub\n\n\0")
                .as_bytes(),
        )?;
        self.await_answer(&Answer::Receipt(b"sub")).with_context(|| {
            format!("the server did not confirm the subscription to {destination}")
        })
    }

    /// Subscribes without waiting, so that no message that comes before the confirmation is passed over;
    /// `headers` are further lines `name:value`.
    ///
    /// # Errors
    /// Those of the write.
    pub fn begin_subscription(
        &mut self,
        destination: &str,
        ack: AckMode,
        headers: &[String],
    ) -> io::Result<()> {
        let mut frame =
            format!("SUBSCRIBE\nid:0\ndestination:{destination}\nack:{}\n", ack.as_str());
        for header in headers {
            frame += header;
            frame.push('\n');
        }
        self.send(format!("{frame}\n\0").as_bytes())
    }

    /// Says goodbye and waits for the receipt, which proves that the server has read everything.
    ///
    /// # Errors
    /// A sentence that says what to do.
    pub fn disconnect(&mut self) -> anyhow::Result<()> {
        self.send(b"DISCONNECT\nreceipt:bye\n\n\0")?;
        self.await_answer(&Answer::Receipt(b"bye"))
    }

    /// Writes one STOMP frame, in a masked message where that is spoken.
    ///
    /// # Errors
    /// Those of the write.
    pub fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        if self.inbound.deframer.is_none() {
            return self.stream.write_all(frame);
        }
        let mut message = Vec::with_capacity(frame.len() + 14);
        websocket::append_text(&mut message, frame, websocket::mask_for(1));
        self.stream.write_all(&message)
    }

    fn await_answer(&mut self, wanted: &Answer) -> anyhow::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        let mut waiting = Waiting { wanted, found: false, error: None };
        while !waiting.found {
            let read = self.inbound.read(&mut self.stream, &mut buffer, &mut waiting);
            if let Some(error) = waiting.error {
                bail!("the server answered: {error}");
            }
            match read {
                Ok((0, _)) if !waiting.found => {
                    bail!("the server closed the connection; its log should say why")
                }
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    bail!(
                        "the server did not answer within {} s: is it overloaded, or not a STOMP server?",
                        ANSWER_TIMEOUT.as_secs()
                    )
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Connects a socket, from a chosen source address when given.
///
/// # Errors
/// A sentence that says what to do.
pub fn dial(address: SocketAddr, source: Option<Ipv4Addr>) -> anyhow::Result<TcpStream> {
    let connect = || -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if let Some(source) = source.filter(|_| address.is_ipv4()) {
            socket.bind(&SocketAddr::new(IpAddr::V4(source), 0).into())?;
        }
        socket.connect_timeout(&address.into(), ANSWER_TIMEOUT)?;
        Ok(socket.into())
    };
    connect().map_err(|error| explain(address, &error))
}

fn explain(address: SocketAddr, error: &io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => anyhow!(
            "nothing listens on {address}: is the server running? Start it (`tiderace serve`) or name it with --target host:port"
        ),
        Some(libc::EMFILE | libc::ENFILE) => anyhow!(
            "no more files can be opened: raise the limit with `ulimit -n 20000`, or ask for fewer connections"
        ),
        Some(libc::EADDRNOTAVAIL) => anyhow!(
            "no free local port towards {address}: wait a minute for old connections to time out, or ask for fewer"
        ),
        _ => anyhow!("cannot connect to {address}: {error}"),
    }
}

fn upgrade(mut stream: &TcpStream, target: &Target) -> anyhow::Result<Vec<u8>> {
    let request =
        handshake::client_request(&target.authority, &target.ws_path, NONCE, &SUBPROTOCOLS)?;
    stream.write_all(&request)?;
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = reading::read(&mut stream, &mut buffer)
            .context("the server did not answer the WebSocket upgrade")?;
        answer.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let established = handshake::check_response(&answer, NONCE, &SUBPROTOCOLS)
            .with_context(|| {
                format!(
                    "no STOMP over WebSocket at {} of {}; set the path with --ws-path",
                    target.ws_path, target.authority
                )
            })?
            .map(|established| established.consumed);
        if let Some(consumed) = established {
            return Ok(answer.split_off(consumed));
        }
        ensure!(read > 0, "the server closed the connection during the WebSocket upgrade");
    }
}

enum Answer {
    Connected,
    Receipt(&'static [u8]),
}

struct Waiting<'a> {
    wanted: &'a Answer,
    found: bool,
    error: Option<String>,
}

impl Arrival for Waiting<'_> {
    fn arrived(&mut self, _: usize) {}
}

impl Sink for Waiting<'_> {
    fn message(&mut self, _: &[u8; HEAD_BYTES], _: &[u8]) {}

    fn foreign(&mut self) {}

    fn receipt(&mut self, id: &[u8]) {
        self.found |= matches!(self.wanted, Answer::Receipt(wanted) if *wanted == id);
    }

    fn connected(&mut self) {
        self.found |= matches!(self.wanted, Answer::Connected);
    }

    fn error(&mut self, frame: &[u8]) {
        self.error.get_or_insert_with(|| one_line(frame));
    }
}

/// Slow servers open queues slowly; nothing honest takes longer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Chance protects proxies from caches gone wrong; a load test on loopback has none.
const NONCE: [u8; 16] = *b"tiderace-bench-0";
const SUBPROTOCOLS: [&str; 3] = ["v12.stomp", "v11.stomp", "v10.stomp"];
