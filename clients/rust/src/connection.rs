//! A connection that blocks: a [`Client`] over WebSocket on any stream.
//!
//! Relies on `tiderace-websocket` for frames. Invariants: what is said is sent in its order; a read that
//! was interrupted by the stream's timeout loses nothing; nothing is written behind an error.

use std::io::{self, Read, Write};

use tiderace_websocket::handshake::{check_response, client_request};
use tiderace_websocket::{
    Decoder, Event as Frame, Limits, MessageKind, Role, encode_message, encode_pong,
};

use crate::{Auth, Client, ConnectionError, Event};

/// Where servers speak the native protocol over WebSocket.
const PATH: &str = "/tiderace";
const SUBPROTOCOLS: &[&str] = &["tiderace.v1"];
/// What is read at a time, and from how many bytes on what is said is sent without being asked to.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes of a transport message: a mebibyte of values and the largest one beyond it. Memory is taken as
/// bytes come.
const LIMITS: Limits = Limits {
    message_bytes_max: 256 << 20,
    fragments_max: 1 << 16,
    empty_fragments_max: 64,
    control_run_max: 1024,
};

/// A connection that blocks.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    client: Client,
    decoder: Decoder,
    input: Vec<u8>,
    /// Bytes of the input that are done with.
    consumed: usize,
    /// What has been said and not sent.
    output: Vec<u8>,
}

impl<S: Read + Write> Connection<S> {
    /// A connection of a client on a stream, on which nothing has been said yet.
    pub fn new(stream: S, client: Client) -> Connection<S> {
        Connection {
            stream,
            client,
            decoder: Decoder::new(Role::Client),
            input: Vec::new(),
            consumed: 0,
            output: Vec::new(),
        }
    }

    /// Begins WebSocket, logs in and waits for the server's welcome. `authority` is host and port, as
    /// HTTP's field Host has them. Subscriptions that the client has had before are made again.
    ///
    /// # Errors
    /// If the stream fails, the other end is no such server, or the login is refused.
    pub fn open(&mut self, authority: &str, auth: Auth<'_>) -> Result<(), ConnectionError> {
        self.shake_hands(authority)?;
        self.client.connect(auth, &mut self.output);
        let mut welcome = false;
        while !welcome {
            self.receive(|event| welcome |= matches!(event, Event::Welcome(_)))?;
        }
        Ok(())
    }

    /// Goes on over another stream, after an error: drops what has not been sent or taken in, then does as
    /// [`Connection::open`]. The client keeps its subscriptions and its position; requests that were not
    /// answered will not be.
    ///
    /// # Errors
    /// As those of [`Connection::open`]; it may be called again.
    pub fn reopen(
        &mut self,
        stream: S,
        authority: &str,
        auth: Auth<'_>,
    ) -> Result<(), ConnectionError> {
        self.stream = stream;
        self.decoder = Decoder::new(Role::Client);
        self.input.clear();
        self.output.clear();
        self.consumed = 0;
        self.open(authority, auth)
    }

    /// Lets the client say something, which is sent with the next [`Connection::flush`] or
    /// [`Connection::receive`], or at once if it is much.
    ///
    /// # Errors
    /// If the stream fails.
    pub fn send<T>(
        &mut self,
        say: impl FnOnce(&mut Client, &mut Vec<u8>) -> T,
    ) -> Result<T, ConnectionError> {
        let before = self.output.len();
        let result = say(&mut self.client, &mut self.output);
        if self.output.len() >= BLOCK_BYTES {
            // A large message goes alone, so that no transport message is longer than one may be.
            let last = self.output.split_off(before);
            self.flush()?;
            self.output = last;
            self.flush()?;
        }
        Ok(result)
    }

    /// Sends what has been said.
    ///
    /// # Errors
    /// If the stream fails; if the server has said why it ends the session, that.
    pub fn flush(&mut self) -> Result<(), ConnectionError> {
        if self.output.is_empty() {
            return Ok(());
        }
        let mut frame = Vec::with_capacity(self.output.len() + 14);
        encode_message(&mut frame, MessageKind::Binary, &self.output, Some(random()?));
        self.output.clear();
        match self.stream.write_all(&frame).and_then(|()| self.stream.flush()) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.last_word().unwrap_or(ConnectionError::Io(error))),
        }
    }

    /// Sends what has been said, waits until something comes and tells what it says. It may say nothing,
    /// as a ping of the server does.
    ///
    /// # Errors
    /// If the stream fails, its timeout included, after which another call goes on; if the server ends
    /// the session, why.
    pub fn receive(&mut self, tell: impl FnMut(Event<'_>)) -> Result<(), ConnectionError> {
        self.flush()?;
        self.take(tell)
    }

    /// The stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The stream, to change how it is read and written. What is read or written past the connection is
    /// lost to it.
    pub fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// What the client knows.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The client alone, which may go on where it is on another connection.
    pub fn into_client(self) -> Client {
        self.client
    }

    fn shake_hands(&mut self, authority: &str) -> Result<(), ConnectionError> {
        let unexpected = |problem: &dyn std::fmt::Display| ConnectionError::NoWebSocket {
            path: PATH,
            problem: problem.to_string(),
        };
        let nonce = random()?;
        let request = client_request(authority, PATH, nonce, SUBPROTOCOLS)
            .map_err(|error| unexpected(&error))?;
        self.stream.write_all(&request).and_then(|()| self.stream.flush())?;
        loop {
            self.read()?;
            let answer = check_response(&self.input, nonce, SUBPROTOCOLS);
            if let Some(established) = answer.map_err(|error| unexpected(&error))? {
                self.consumed = established.consumed;
                return Ok(());
            }
        }
    }

    /// Takes in the next message or ping.
    fn take(&mut self, mut tell: impl FnMut(Event<'_>)) -> Result<(), ConnectionError> {
        let mut close = None;
        let mut tell = |event: Event<'_>| {
            if let Event::Closed { slug, sentence, reconnect_ms, addresses, .. } = &event {
                close = Some(ConnectionError::Refused {
                    slug: slug.to_string(),
                    sentence: sentence.to_string(),
                    reconnect_ms: *reconnect_ms,
                    addresses: addresses.iter().map(str::to_owned).collect(),
                });
            }
            tell(event);
        };
        while !self.take_frame(&mut tell)? {
            self.read()?;
        }
        match close {
            Some(refused) => Err(refused),
            None => Ok(()),
        }
    }

    /// Takes in what has been read, up to the next message or ping; whether there was one.
    fn take_frame(&mut self, tell: &mut impl FnMut(Event<'_>)) -> Result<bool, ConnectionError> {
        let input = self.input.get_mut(self.consumed..).unwrap_or_default();
        let decoded = self.decoder.decode(&LIMITS, input)?;
        self.consumed += decoded.consumed;
        match decoded.event {
            Frame::Incomplete { .. } => return Ok(false),
            Frame::Message { payload, .. } => self.client.receive(payload, tell)?,
            Frame::Reassembled { payload, .. } => self.client.receive(&payload, tell)?,
            Frame::Ping(payload) => {
                let mut pong = Vec::new();
                encode_pong(&mut pong, payload, Some(random()?));
                self.stream.write_all(&pong).and_then(|()| self.stream.flush())?;
            }
            // Parts are given to who asks for them.
            Frame::Pong(_) | Frame::Part(_) => {}
            Frame::Close { .. } => return Err(ConnectionError::Closed),
        }
        Ok(true)
    }

    /// Why the server has ended the session, if it has said so before it closed the connection.
    fn last_word(&mut self) -> Option<ConnectionError> {
        loop {
            match self.take(|_| ()) {
                Ok(()) => {}
                Err(refused @ ConnectionError::Refused { .. }) => return Some(refused),
                Err(_) => return None,
            }
        }
    }

    /// Reads more, behind what is there.
    fn read(&mut self) -> Result<(), ConnectionError> {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        let start = self.input.len();
        self.input.resize(start + BLOCK_BYTES, 0);
        let room = self.input.get_mut(start..).unwrap_or_default();
        // A process that is stopped and goes on, or gets a signal, has lost nothing: a socket with a timeout says so
        // whatever handles the signal.
        let count = loop {
            match self.stream.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                count => break count,
            }
        };
        self.input.truncate(start + count.as_ref().map_or(0, |count| *count));
        match count? {
            0 => Err(ConnectionError::Closed),
            _ => Ok(()),
        }
    }
}

/// Bytes that nobody can foresee: RFC 6455 wants such keys.
fn random<const N: usize>() -> Result<[u8; N], ConnectionError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}
