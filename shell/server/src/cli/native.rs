//! A small blocking client of the native protocol over WebSocket, for `topics` and `views`: one
//! operation at a time, each answered before the next.
//!
//! Relies on the codec of `tiderace-native` and on `tiderace-websocket`. Invariant: what it gives as done
//! the server has answered.

use std::io::{self, Read, Write};

use serde_json::Value as Json;
use tiderace_native::codec::{
    Auth, ClientMessage, Content, Hello, Messages, OperateMessage, QueuedEntry, ServerMessage,
    VERSION,
};
use tiderace_websocket::handshake::{check_response, client_request};
use tiderace_websocket::{Decoder, Event, Limits, MessageKind, Role, encode_message, encode_pong};
use tiderace_wire::properties;

use super::channel::Channel;
use super::client::Login;
use super::error::{ClientError, PATIENCE};
use super::tls::TlsArgs;

const PATH: &str = "/tiderace";
const SUBPROTOCOLS: &[&str] = &["tiderace.v1"];
/// What is read at a time.
const READ_BYTES: usize = 64 << 10;
/// Bytes of an answer: a mebibyte of values and the largest one beyond it.
const LIMITS: Limits = Limits {
    message_bytes_max: 256 << 20,
    fragments_max: 1 << 16,
    empty_fragments_max: 64,
    control_run_max: 1024,
};

/// A connection that is logged in.
#[derive(Debug)]
pub(super) struct NativeClient {
    stream: Channel,
    decoder: Decoder,
    input: Vec<u8>,
    next_request: u32,
}

/// What came of an operation.
#[derive(Debug)]
pub(super) struct Answer {
    /// As the server says it; `bytes` stands for values.
    pub(super) result: Json,
    /// The values, in its order.
    pub(super) values: Vec<Value>,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    /// Its content type, if that is known.
    pub(super) content_type: Option<String>,
    pub(super) body: Vec<u8>,
}

impl NativeClient {
    /// Connects and logs in.
    pub(super) fn connect(
        host: &str,
        port: u16,
        tls: &TlsArgs,
        login: &Login<'_>,
    ) -> Result<NativeClient, ClientError> {
        let stream = Channel::open(host, port, tls)?;
        let decoder = Decoder::new(Role::Client);
        let mut client = NativeClient { stream, decoder, input: Vec::new(), next_request: 1 };
        client.log_in(host, port, login).map_err(|error| client.stream.explain(error))?;
        client.stream.settle()?;
        Ok(client)
    }

    fn log_in(&mut self, host: &str, port: u16, login: &Login<'_>) -> Result<(), ClientError> {
        self.shake_hands(host, port)?;
        let auth = match (login.login, login.passcode) {
            (Some(user), password) => Auth::Password { user, password: password.unwrap_or("") },
            (None, Some(token)) => Auth::Token(token),
            (None, None) => Auth::Anonymous,
        };
        let hello =
            Hello { version: VERSION, auth, codecs: Vec::new(), client: "tiderace", position: b"" };
        self.say(&ClientMessage::Hello(hello))?;
        self.hear(|message| match message {
            ServerMessage::Welcome(_) => Some(Ok(())),
            _ => None,
        })
    }

    fn shake_hands(&mut self, host: &str, port: u16) -> Result<(), ClientError> {
        let unexpected = |problem: &dyn std::fmt::Display| {
            ClientError::Unexpected(format!("no WebSocket at {PATH}: {problem}"))
        };
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| ClientError::Io(io::Error::other(error)))?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let request = client_request(&format!("{host}:{port}"), PATH, nonce, SUBPROTOCOLS)
            .map_err(|error| unexpected(&error))?;
        self.stream.write_all(&request).map_err(ClientError::Io)?;
        loop {
            self.read()?;
            let answer = check_response(&self.input, nonce, SUBPROTOCOLS);
            if let Some(established) = answer.map_err(|error| unexpected(&error))? {
                let consumed = established.consumed;
                self.input.drain(..consumed);
                return Ok(());
            }
        }
    }

    /// Does something with topics and waits for what comes of it.
    pub(super) fn operate(
        &mut self,
        operation: &Json,
        body: Option<&[u8]>,
    ) -> Result<Answer, ClientError> {
        let request = self.next_request;
        self.next_request += 1;
        let text = operation.to_string();
        let message = OperateMessage { request, operation: &text, body };
        self.say(&ClientMessage::Operate(message))?;
        self.hear(|message| match message {
            ServerMessage::Result(result) if result.request == request => {
                let values = result.values().map(|entry| entry.map(|entry| value(&entry)));
                let parts = values.collect::<Result<Vec<Value>, _>>().map_err(unreadable);
                let result = serde_json::from_str(result.result).map_err(unreadable);
                Some(parts.and_then(|values| Ok(Answer { result: result?, values })))
            }
            ServerMessage::Error { slug, sentence, .. } => Some(Err(refused(slug, sentence))),
            _ => None,
        })
    }

    /// Says goodbye.
    pub(super) fn leave(mut self) -> Result<(), ClientError> {
        self.say(&ClientMessage::Bye)
    }

    fn say(&mut self, message: &ClientMessage<'_>) -> Result<(), ClientError> {
        let mut payload = Vec::new();
        message.write(&mut payload);
        let mut key = [0; 4];
        getrandom::fill(&mut key).map_err(|error| ClientError::Io(io::Error::other(error)))?;
        let mut frame = Vec::with_capacity(payload.len() + 14);
        encode_message(&mut frame, MessageKind::Binary, &payload, Some(key));
        self.stream.write_all(&frame).map_err(ClientError::Io)
    }

    /// Reads messages until one is the answer that is waited for.
    fn hear<T>(
        &mut self,
        mut answer: impl FnMut(ServerMessage<'_>) -> Option<Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        loop {
            let mut input = std::mem::take(&mut self.input);
            let decoded = self.decoder.decode(&LIMITS, &mut input).map_err(unreadable)?;
            let consumed = decoded.consumed;
            let (mut found, mut waits) = (None, false);
            match decoded.event {
                Event::Incomplete { .. } => waits = true,
                Event::Message { payload, .. } => found = search(payload, &mut answer),
                Event::Reassembled { payload, .. } => found = search(&payload, &mut answer),
                Event::Ping(payload) => {
                    let mut pong = Vec::new();
                    encode_pong(&mut pong, payload, Some([0; 4]));
                    self.stream.write_all(&pong).map_err(ClientError::Io)?;
                }
                Event::Pong(_) => {}
                Event::Close { .. } => return Err(ClientError::Closed),
            }
            input.drain(..consumed);
            self.input = input;
            if let Some(found) = found {
                return found;
            }
            if waits {
                self.read()?;
            }
        }
    }

    fn read(&mut self) -> Result<(), ClientError> {
        let start = self.input.len();
        self.input.resize(start + READ_BYTES, 0);
        let room = self.input.get_mut(start..).unwrap_or_default();
        let count = self.stream.read(room);
        self.input.truncate(start + *count.as_ref().unwrap_or(&0));
        match count {
            Ok(0) => Err(ClientError::Closed),
            Ok(_) => Ok(()),
            Err(error) if is_late(&error) => Err(ClientError::Silent(PATIENCE)),
            Err(error) => Err(ClientError::Io(error)),
        }
    }
}

/// The first message of a transport message that is an answer, or the last word of the server.
fn search<T>(
    bytes: &[u8],
    answer: &mut impl FnMut(ServerMessage<'_>) -> Option<Result<T, ClientError>>,
) -> Option<Result<T, ClientError>> {
    Messages::new(bytes).find_map(|message| {
        let message = message.and_then(|(kind, payload)| ServerMessage::read(kind, payload));
        match message {
            Ok(ServerMessage::Close { slug, sentence, .. }) => Some(Err(refused(slug, sentence))),
            Ok(message) => answer(message),
            Err(error) => Some(Err(unreadable(error))),
        }
    })
}

fn value(entry: &QueuedEntry<'_>) -> Value {
    let told = Content::of(entry.flags).line();
    let block = if told.is_empty() { entry.properties } else { told };
    let content_type = properties::find(block, "content-type").map(|text| text.into_owned());
    Value { content_type, body: entry.body.to_vec() }
}

fn refused(slug: &str, sentence: &str) -> ClientError {
    let hint = match slug {
        "login-failed" | "login-required" | "not-authorised" => " (log in with -u and -P)",
        _ => "",
    };
    ClientError::Refused { message: format!("{sentence} ({slug})"), hint }
}

fn unreadable(error: impl std::fmt::Display) -> ClientError {
    ClientError::Unexpected(format!("its answer cannot be read: {error}"))
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
