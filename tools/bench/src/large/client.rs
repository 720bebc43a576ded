//! Clients that send and receive large messages: sockets that block, one thread each.
//!
//! Invariant: a client keeps a block of a message at most.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, ensure};
use tiderace_websocket::handshake;

use crate::reading;
use crate::stomp::websocket;

use super::pattern::{BLOCK_BYTES, Pattern};
use super::receiver::{Language, Receiver};

/// How a client reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Stomp,
    WebSocket,
    Rest,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Client<'a> {
    stream: TcpStream,
    carrier: Carrier,
    pattern: &'a Pattern,
    pub(super) receiver: Receiver,
    buffer: Vec<u8>,
}

impl<'a> Client<'a> {
    /// Connects and logs in.
    ///
    /// # Errors
    /// A sentence when the server refuses, or is not there.
    pub(super) fn connect(
        carrier: Carrier,
        address: SocketAddr,
        pattern: &'a Pattern,
    ) -> anyhow::Result<Client<'a>> {
        let stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let language = if carrier == Carrier::Rest { Language::Http } else { Language::Stomp };
        let receiver = Receiver::new(language, carrier == Carrier::WebSocket);
        let buffer = vec![0; READ_BYTES];
        let mut client = Client { stream, carrier, pattern, receiver, buffer };
        if carrier == Carrier::WebSocket {
            client.upgrade(address)?;
        }
        if carrier != Carrier::Rest {
            client.send(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")?;
            client.short(1).context("logging in")?;
        }
        Ok(client)
    }

    fn upgrade(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        let authority = address.to_string();
        let request = handshake::client_request(&authority, "/stomp", NONCE, &["v12.stomp"])?;
        self.stream.write_all(&request)?;
        let mut answer = Vec::new();
        // The server says nothing behind its answer before it is asked.
        while handshake::check_response(&answer, NONCE, &["v12.stomp"])?.is_none() {
            let read = reading::read(&mut self.stream, &mut self.buffer)?;
            ensure!(read > 0, "the server closed the connection during the WebSocket upgrade");
            answer.extend_from_slice(self.buffer.get(..read).unwrap_or_default());
        }
        Ok(())
    }

    /// Subscribes, and waits until it is confirmed.
    ///
    /// # Errors
    /// As [`Client::until`].
    pub(super) fn subscribe(&mut self, destination: &str) -> anyhow::Result<()> {
        let frame = format!("SUBSCRIBE\nid:0\ndestination:{destination}\nreceipt:s\n\n\0");
        self.send(frame.as_bytes())?;
        self.short(1).context("subscribing")
    }

    /// Sends a large message, and waits until it is taken; `destination` is `/queue/…` or `/topic/…`.
    ///
    /// # Errors
    /// As [`Client::until`].
    pub(super) fn publish(&mut self, destination: &str, bytes: u64) -> anyhow::Result<()> {
        let head = if self.carrier == Carrier::Rest {
            let (method, path) = if destination.starts_with("/queue") {
                ("POST", "queues")
            } else {
                ("PUT", "topics")
            };
            let name = destination.rsplit('/').next().unwrap_or_default();
            format!(
                "{method} /{path}/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n\
                 Content-Length: {bytes}\r\n\r\n"
            )
        } else {
            format!("SEND\ndestination:{destination}\nreceipt:r\ncontent-length:{bytes}\n\n")
        };
        self.send(head.as_bytes())?;
        let (mut at, mut piece) = (0, Vec::with_capacity(BLOCK_BYTES));
        while at < bytes {
            self.pattern.fill(at, bytes - at, &mut piece);
            self.send(&piece)?;
            at += piece.len() as u64;
        }
        if self.carrier != Carrier::Rest {
            self.send(b"\0")?;
        }
        self.short(1).context("sending")
    }

    /// Asks for the value of a topic by REST.
    ///
    /// # Errors
    /// A sentence when the server has closed the connection.
    pub(super) fn ask(&mut self, name: &str) -> anyhow::Result<()> {
        self.send(format!("GET /topics/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
    }

    /// Waits for one more large message.
    ///
    /// # Errors
    /// As [`Client::until`].
    pub(super) fn message(&mut self) -> anyhow::Result<()> {
        let wanted = self.receiver.messages + 1;
        self.until(|receiver| receiver.messages >= wanted).context("receiving")
    }

    fn short(&mut self, more: u64) -> anyhow::Result<()> {
        let wanted = self.receiver.short + more;
        self.until(|receiver| receiver.short >= wanted)
    }

    /// Reads until something has come.
    ///
    /// # Errors
    /// A sentence when it is refused, comes wrong, or nothing comes for a long time.
    fn until(&mut self, has_come: impl Fn(&Receiver) -> bool) -> anyhow::Result<()> {
        while !has_come(&self.receiver) {
            let read = reading::read(&mut self.stream, &mut self.buffer)?;
            ensure!(read > 0, "the server closed the connection");
            self.receiver.take(self.buffer.get(..read).unwrap_or_default(), self.pattern)?;
        }
        Ok(())
    }

    /// Sends bytes of STOMP or HTTP.
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let sent = if self.carrier == Carrier::WebSocket {
            let mut message = Vec::with_capacity(bytes.len() + 14);
            websocket::append(&mut message, BINARY, bytes, websocket::mask_for(bytes.len() as u64));
            self.stream.write_all(&message)
        } else {
            self.stream.write_all(bytes)
        };
        sent.or_else(|error| {
            // Why it closed the connection is the better answer.
            self.until(|_| false)?;
            Err(error.into())
        })
    }
}

const BINARY: u8 = 2;
const READ_BYTES: usize = 256 * 1024;
/// Longer than a disk stalls.
const TIMEOUT: Duration = Duration::from_secs(60);
const NONCE: [u8; 16] = *b"tiderace-bench-l";
