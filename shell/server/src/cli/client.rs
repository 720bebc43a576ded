//! A small blocking STOMP 1.2 client over TCP or TLS, for `pub` and `sub`.
//!
//! Relies on `frame`. Invariant: a message counts as published only when the server's receipt for it has
//! arrived.

use std::collections::{HashSet, VecDeque};
use std::io::{self, BufReader, Write};
use std::time::Duration;

use super::channel::Channel;
use super::error::{ClientError, PATIENCE};
use super::frame::Frame;
use super::tls::TlsArgs;

/// We ask for a heart-beat that often, and give up after three without one.
const HEART_BEAT: Duration = Duration::from_secs(10);
/// Receipts that may be outstanding: bounds what both sides have to buffer.
const RECEIPTS_OUTSTANDING_MAX: usize = 256;
/// Frames are gathered up to this size before they are written.
const WRITE_BYTES: usize = 64 << 10;

/// Login name and pass code.
pub(crate) struct Login<'a> {
    pub(crate) login: Option<&'a str>,
    pub(crate) passcode: Option<&'a str>,
}

/// A connection that is logged in.
#[derive(Debug)]
pub(crate) struct Client {
    input: BufReader<Channel>,
    /// Frames not yet written.
    output: Vec<u8>,
    next_receipt: u64,
    outstanding: HashSet<u64>,
    /// Messages that arrived while a receipt was awaited.
    messages: VecDeque<Frame>,
    /// How long the server may be silent, if it promised heart-beats.
    silence_max: Option<Duration>,
}

impl Client {
    /// Connects and logs in.
    pub(crate) fn connect(
        host: &str,
        port: u16,
        tls: &TlsArgs,
        login: &Login<'_>,
    ) -> Result<Client, ClientError> {
        let input = BufReader::with_capacity(WRITE_BYTES, Channel::open(host, port, tls)?);
        let mut client = Client {
            input,
            output: Vec::new(),
            next_receipt: 1,
            outstanding: HashSet::new(),
            messages: VecDeque::new(),
            silence_max: None,
        };
        client.log_in(host, login).map_err(|error| {
            match client.input.get_mut().explain(error) {
                ClientError::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                    ClientError::Unexpected(error.to_string())
                }
                ClientError::Silent(_) => ClientError::Silent(PATIENCE),
                error => error,
            }
        })?;
        client.input.get_mut().settle()?;
        Ok(client)
    }

    fn log_in(&mut self, host: &str, login: &Login<'_>) -> Result<(), ClientError> {
        let mut connect = Frame::new("CONNECT")
            .with("accept-version", "1.2")
            .with("host", host)
            .with("heart-beat", format!("0,{}", HEART_BEAT.as_millis()));
        connect.headers.extend(login.login.map(|login| ("login".to_owned(), login.to_owned())));
        connect
            .headers
            .extend(login.passcode.map(|passcode| ("passcode".to_owned(), passcode.to_owned())));
        connect.write(&mut self.output);
        self.flush()?;
        let connected = self.read_frame()?;
        if connected.command != "CONNECTED" {
            return Err(ClientError::Unexpected(format!("it answered {:?}", connected.command)));
        }
        self.silence_max = promised_heart_beat(connected.header("heart-beat")).map(|beat| beat * 3);
        Ok(())
    }

    /// Queues a message; waits for receipts only when too many are outstanding.
    pub(crate) fn send(
        &mut self,
        destination: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<(), ClientError> {
        let mut frame = Frame::new("SEND").with("destination", destination);
        frame.headers.extend(headers.iter().cloned());
        frame.body = body.to_vec();
        self.write_confirmed(frame)?;
        if self.outstanding.len() >= RECEIPTS_OUTSTANDING_MAX {
            self.flush()?;
            self.await_receipts(RECEIPTS_OUTSTANDING_MAX / 2)?;
        }
        Ok(())
    }

    /// Returns when the server has confirmed everything sent so far.
    pub(crate) fn confirm(&mut self) -> Result<(), ClientError> {
        self.flush()?;
        self.await_receipts(0)
    }

    /// Subscribes and waits until the server has confirmed it.
    pub(crate) fn subscribe(
        &mut self,
        id: &str,
        destination: &str,
        headers: &[(String, String)],
    ) -> Result<(), ClientError> {
        let mut frame = Frame::new("SUBSCRIBE").with("id", id).with("destination", destination);
        frame.headers.extend(headers.iter().cloned());
        self.write_confirmed(frame)?;
        self.confirm()
    }

    /// Acknowledges a message. It leaves with the next write, at the latest before the next wait.
    pub(crate) fn acknowledge(&mut self, message: &Frame) -> Result<(), ClientError> {
        match message.header("ack") {
            Some(ack) => {
                let ack = Frame::new("ACK").with("id", ack);
                ack.write(&mut self.output);
                if self.output.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
            }
            None => Ok(()),
        }
    }

    /// Waits for the next message; `None` if none comes within `timeout`.
    pub(crate) fn next_message(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<Frame>, ClientError> {
        if let Some(message) = self.messages.pop_front() {
            return Ok(Some(message));
        }
        if self.input.buffer().is_empty() {
            self.flush()?;
        }
        let is_ours = timeout
            .is_some_and(|timeout| self.silence_max.is_none_or(|silence| timeout <= silence));
        let patience = if is_ours { timeout } else { self.silence_max };
        self.input.get_ref().socket().set_read_timeout(patience).map_err(ClientError::Io)?;
        match self.read_frame() {
            Ok(frame) if frame.command == "MESSAGE" => Ok(Some(frame)),
            Ok(frame) => {
                Err(ClientError::Unexpected(format!("it sent {:?} unasked", frame.command)))
            }
            Err(ClientError::Silent(_)) if is_ours => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says goodbye and waits until the server has read everything.
    pub(crate) fn disconnect(mut self) -> Result<(), ClientError> {
        self.write_confirmed(Frame::new("DISCONNECT"))?;
        let result = self.confirm();
        self.input.get_mut().close();
        result
    }

    fn write_confirmed(&mut self, frame: Frame) -> Result<(), ClientError> {
        let receipt = self.next_receipt;
        self.next_receipt += 1;
        self.outstanding.insert(receipt);
        frame.with("receipt", receipt.to_string()).write(&mut self.output);
        if self.output.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ClientError> {
        if self.output.is_empty() {
            return Ok(());
        }
        let channel = self.input.get_mut();
        let result = channel.write_all(&self.output).and_then(|()| channel.flush());
        self.output.clear();
        match result {
            Ok(()) => Ok(()),
            // The server may have said why before it closed.
            Err(error) => match self.read_frame() {
                Err(refused @ ClientError::Refused { .. }) => Err(refused),
                _ => Err(ClientError::Io(error)),
            },
        }
    }

    /// Waits until at most `remaining` receipts are outstanding.
    fn await_receipts(&mut self, remaining: usize) -> Result<(), ClientError> {
        let socket = self.input.get_ref().socket();
        socket.set_read_timeout(Some(PATIENCE)).map_err(ClientError::Io)?;
        while self.outstanding.len() > remaining {
            let frame = self.read_frame()?;
            match frame.command.as_str() {
                "MESSAGE" => self.messages.push_back(frame),
                "RECEIPT" => {
                    let receipt = frame.header("receipt-id").and_then(|id| id.parse().ok());
                    if !receipt.is_some_and(|receipt| self.outstanding.remove(&receipt)) {
                        return Err(ClientError::Unexpected(
                            "it sent a receipt for nothing".to_owned(),
                        ));
                    }
                }
                other => return Err(ClientError::Unexpected(format!("it sent {other:?} unasked"))),
            }
        }
        Ok(())
    }

    fn read_frame(&mut self) -> Result<Frame, ClientError> {
        match Frame::read(&mut self.input) {
            Ok(Some(frame)) if frame.command == "ERROR" => Err(refusal(&frame)),
            Ok(Some(frame)) => Ok(frame),
            Ok(None) => Err(ClientError::Closed),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                let waited = self.input.get_ref().socket().read_timeout().ok().flatten();
                Err(ClientError::Silent(waited.unwrap_or(PATIENCE)))
            }
            Err(error) => Err(ClientError::Io(error)),
        }
    }
}

/// The reason of an ERROR frame, and the option that helps where one does.
fn refusal(frame: &Frame) -> ClientError {
    let summary = frame.header("message").unwrap_or_default().trim();
    let detail = String::from_utf8_lossy(&frame.body);
    let detail = detail.trim();
    // The body usually repeats the summary and goes on from there.
    let is_repeated = detail.starts_with(summary.trim_end_matches('.'));
    let message = match (summary.is_empty(), detail.is_empty()) {
        (true, true) => "it gave no reason".to_owned(),
        (false, true) => summary.to_owned(),
        (_, false) if is_repeated => detail.to_owned(),
        (_, false) => format!("{summary}: {detail}"),
    };
    let lower = message.to_ascii_lowercase();
    let hint = match ["login", "password", "passcode", "credential", "token"]
        .iter()
        .any(|word| lower.contains(word))
    {
        true => " (log in with -u and -P)",
        false => "",
    };
    ClientError::Refused { message, hint }
}

/// How often the server will send something: the slower of its offer and our wish.
fn promised_heart_beat(header: Option<&str>) -> Option<Duration> {
    let (offer, _) = header?.split_once(',')?;
    let offer: u64 = offer.trim().parse().ok().filter(|offer| *offer > 0)?;
    Some(Duration::from_millis(offer).max(HEART_BEAT))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
