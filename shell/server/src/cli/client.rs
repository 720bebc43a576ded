//! The server as the commands see it: a session of the native protocol on a connection that blocks.
//!
//! Relies on `tiderace-client` and on `channel`. Invariants: a message counts as published, or a queue's
//! message as consumed, only when the server has confirmed it; what is given as done the server has
//! answered.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tiderace_client::{
    Auth, Connection, ConnectionError, Content, Event, Kind, Publish, QueuedEntry, ResultMessage,
    SettleMessage, SubscribeOptions, Update,
};
use tiderace_wire::properties;

use super::channel::Channel;
use super::error::{ANSWER_TIMEOUT, ClientError};
use super::tls::TlsArgs;

/// After so long without a sign of life the server is asked for one.
const SILENCE: Duration = Duration::from_secs(10);
/// So many times it is asked before it counts as gone.
const PINGS_MAX: u32 = 2;
/// Requests that may be unanswered: bounds what both sides have to buffer.
const OUTSTANDING_MAX: usize = 256;

/// Login name and pass code.
pub(super) struct Login<'a> {
    pub(super) login: Option<&'a str>,
    pub(super) passcode: Option<&'a str>,
}

/// A session that is logged in.
#[derive(Debug)]
pub(super) struct Client {
    connection: Connection<Channel>,
    /// Requests that have not been answered.
    outstanding: HashSet<u32>,
    /// By subscription: the path or pattern.
    paths: Vec<String>,
    /// How many subscriptions have told all that was in their queue.
    browsed: usize,
    /// Messages that came while something else was waited for.
    messages: VecDeque<Message>,
    /// What came of the last operation.
    answer: Option<Result<Answer, ClientError>>,
}

/// A message of a topic or a queue.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Message {
    pub(super) path: String,
    /// Its properties, the content type first.
    pub(super) properties: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Whether it says that the topic has no value any more.
    pub(super) removed: bool,
    /// Subscription, home and number, if it is to be acknowledged.
    pub(super) delivery: Option<(u32, u16, u64)>,
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
    /// Its other properties.
    pub(super) properties: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Client {
    /// Connects and logs in.
    pub(super) fn connect(
        host: &str,
        port: u16,
        tls: &TlsArgs,
        login: &Login<'_>,
    ) -> Result<Client, ClientError> {
        let channel = Channel::open(host, port, tls)?;
        let mut connection = Connection::new(channel, tiderace_client::Client::new("tiderace"));
        let auth = match (login.login, login.passcode) {
            (Some(user), password) => Auth::Password { user, password: password.unwrap_or("") },
            (None, Some(token)) => Auth::Token(token),
            (None, None) => Auth::Anonymous,
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        if let Err(error) = connection.open(&format!("{host}:{port}"), auth) {
            return Err(connection.stream_mut().explain(told(error)));
        }
        connection.stream_mut().settle()?;
        Ok(Client {
            connection,
            outstanding: HashSet::new(),
            paths: Vec::new(),
            browsed: 0,
            messages: VecDeque::new(),
            answer: None,
        })
    }

    /// Does something with topics and waits for what comes of it.
    pub(super) fn operate(
        &mut self,
        operation: &Json,
        body: Option<&[u8]>,
    ) -> Result<Answer, ClientError> {
        let text = operation.to_string();
        let operate = |client: &mut tiderace_client::Client, out: &mut Vec<u8>| {
            client.operate(&text, body, out)
        };
        self.connection.send(operate).map_err(told)?;
        loop {
            if let Some(answer) = self.answer.take() {
                return answer;
            }
            self.receive(ANSWER_TIMEOUT)?;
        }
    }

    /// Sends a message; waits for confirmations only when too many are outstanding.
    pub(super) fn publish(&mut self, message: Publish<'_>) -> Result<(), ClientError> {
        let request = self.connection.send(|client, out| client.publish(message, true, out));
        self.outstanding.extend(request.map_err(told)?);
        if self.outstanding.len() >= OUTSTANDING_MAX {
            self.await_answers(OUTSTANDING_MAX / 2)?;
        }
        Ok(())
    }

    /// Returns when the server has confirmed everything sent so far.
    pub(super) fn confirm(&mut self) -> Result<(), ClientError> {
        self.await_answers(0)
    }

    /// Subscribes and waits until the server has confirmed it.
    pub(super) fn subscribe(&mut self, options: SubscribeOptions) -> Result<(), ClientError> {
        self.paths.push(options.path().to_owned());
        let subscribed = self.connection.send(|client, out| client.subscribe(options, out));
        let subscription = subscribed.map_err(told)?;
        while self.connection.client().awaits(subscription) {
            self.receive(ANSWER_TIMEOUT)?;
        }
        Ok(())
    }

    /// Acknowledges a message of a queue. It leaves with the next wait at the latest.
    pub(super) fn acknowledge(&mut self, message: &Message) -> Result<(), ClientError> {
        let Some((subscription, home, number)) = message.delivery else { return Ok(()) };
        let ranges = vec![(number, number)];
        let settle = SettleMessage { request: 0, subscription, home, reject: false, ranges };
        let request = self.connection.send(|client, out| client.settle(settle, out));
        self.outstanding.insert(request.map_err(told)?);
        Ok(())
    }

    /// Whether all that was in the queues has been told, of which nothing more is wanted.
    pub(super) fn has_seen_all(&self) -> bool {
        self.browsed > 0 && self.browsed == self.paths.len() && self.messages.is_empty()
    }

    /// Waits for the next message; `None` if none comes within `timeout`, or ever.
    pub(super) fn next_message(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<Message>, ClientError> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        let mut pings = 0;
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Ok(Some(message));
            }
            if self.has_seen_all() {
                return Ok(None);
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            match self.receive(left.map_or(SILENCE, |left| left.min(SILENCE))) {
                Ok(()) => pings = 0,
                Err(ClientError::Silent(_)) if left.is_some_and(|left| left <= SILENCE) => {}
                Err(ClientError::Silent(_)) if pings < PINGS_MAX => {
                    pings += 1;
                    self.connection.send(|client, out| client.ping(out)).map_err(told)?;
                }
                Err(ClientError::Silent(_)) => {
                    return Err(ClientError::Silent(SILENCE * (PINGS_MAX + 1)));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Says goodbye, after everything sent so far has been confirmed.
    pub(super) fn leave(mut self) -> Result<(), ClientError> {
        self.confirm()?;
        self.connection.send(|client, out| client.bye(out)).map_err(told)?;
        let result = self.connection.flush().map_err(told);
        self.connection.stream_mut().close();
        result
    }

    /// Waits until at most `remaining` requests are outstanding.
    fn await_answers(&mut self, remaining: usize) -> Result<(), ClientError> {
        self.connection.flush().map_err(told)?;
        while self.outstanding.len() > remaining {
            self.receive(ANSWER_TIMEOUT)?;
        }
        Ok(())
    }

    /// Sends what has been said and takes in what comes next.
    fn receive(&mut self, timeout: Duration) -> Result<(), ClientError> {
        let socket = self.connection.stream().socket();
        // None at all would mean for ever.
        let timeout = timeout.max(Duration::from_millis(1));
        socket.set_read_timeout(Some(timeout)).map_err(ClientError::Io)?;
        let Client { connection, outstanding, paths, browsed, messages, answer } = self;
        let path = |known: Option<&str>, subscription: u32| {
            let own = paths.get(subscription as usize).map(String::as_str);
            known.or(own).unwrap_or_default().to_owned()
        };
        let mut problem = None;
        let received = connection.receive(|event| match event {
            Event::Done { first, last } => {
                outstanding.retain(|request| !(first..=last).contains(request));
            }
            Event::Refused { slug, sentence, .. } => {
                problem.get_or_insert_with(|| refused(slug, sentence));
            }
            Event::Browsed { .. } => *browsed += 1,
            Event::Outcome(result) => *answer = Some(Answer::of(&result)),
            Event::Update(update) => {
                messages
                    .push_back(Message::of_topic(path(update.path, update.subscription), &update));
            }
            Event::Queued(queued, known) => {
                for (number, entry) in (queued.first..).zip(queued.entries()) {
                    match entry {
                        Ok(entry) => messages.push_back(Message {
                            delivery: Some((queued.id, queued.home, number)),
                            ..Message::of_queue(path(known, queued.id), &entry)
                        }),
                        Err(error) => problem = Some(unreadable(error)),
                    }
                }
            }
            _ => {}
        });
        match (received, problem) {
            (Err(error), _) if error.is_timeout() => Err(ClientError::Silent(timeout)),
            (Err(error), _) => Err(told(error)),
            (Ok(()), Some(problem)) => Err(problem),
            (Ok(()), None) => Ok(()),
        }
    }
}

impl Message {
    fn of_topic(path: String, update: &Update<'_>) -> Message {
        let properties = listed(update.content, update.properties);
        let body = update.body.to_vec();
        Message { path, properties, body, removed: update.removed, delivery: None }
    }

    fn of_queue(path: String, entry: &QueuedEntry<'_>) -> Message {
        let properties = listed(Content::of(entry.flags), entry.properties);
        Message { path, properties, body: entry.body.to_vec(), removed: false, delivery: None }
    }
}

impl Answer {
    fn of(result: &ResultMessage<'_>) -> Result<Answer, ClientError> {
        let values = result.values().map(|entry| entry.map(|entry| value(&entry)));
        let values = values.collect::<Result<Vec<Value>, _>>().map_err(unreadable)?;
        Ok(Answer { result: serde_json::from_str(result.result).map_err(unreadable)?, values })
    }
}

fn value(entry: &QueuedEntry<'_>) -> Value {
    let mut properties = listed(Content::of(entry.flags), entry.properties);
    let is_type = |(name, _): &(String, String)| name == "content-type";
    let content_type = properties.iter().find(|it| is_type(it)).map(|(_, text)| text.clone());
    properties.retain(|it| !is_type(it));
    Value { content_type, properties, body: entry.body.to_vec() }
}

/// All properties, the content type first.
fn listed(content: Content, block: &[u8]) -> Vec<(String, String)> {
    let lines = properties::raw(content.line()).chain(properties::raw(block));
    let text = |text| properties::decode(text).into_owned();
    lines.map(|(name, value)| (text(name), text(value))).collect()
}

/// A message to a topic or a queue, confirmed when it is published.
pub(super) fn draft<'a>(
    kind: Kind,
    path: &'a str,
    flags: u8,
    properties: &'a [u8],
    body: &'a [u8],
) -> Publish<'a> {
    let destination = tiderace_client::Destination::Path(kind, path);
    Publish { request: 0, flags, destination, expires_ms: None, properties, body }
}

fn told(error: ConnectionError) -> ClientError {
    match error {
        error if error.is_timeout() => ClientError::Silent(ANSWER_TIMEOUT),
        ConnectionError::Io(error) => ClientError::Io(error),
        ConnectionError::Closed => ClientError::Closed,
        ConnectionError::Refused { slug, sentence, addresses } if addresses.is_empty() => {
            refused(&slug, &sentence)
        }
        ConnectionError::Refused { slug, sentence, addresses } => {
            refused(&slug, &format!("{sentence} It names {}", addresses.join(", ")))
        }
        error @ ConnectionError::NoWebSocket { .. } => ClientError::Unexpected(error.to_string()),
        ConnectionError::WebSocket(error) => unreadable(error),
        ConnectionError::Client(error) => unreadable(error),
    }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
