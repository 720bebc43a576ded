//! The client for Rust, `clients/rust`, over the WebSocket of the faults.
//!
//! Invariant: it subscribes to everything recoverably, so that what it was told makes it go on where it was.

use std::collections::HashMap;
use std::io;

use tiderace_client::{Auth, Client, Event, SubscribeOptions};

use super::speech::{Change, Message, Speech, Told};
use super::websocket::{Got, WebSocket};
use crate::clients::counters::broken;
use crate::clients::websocket::{BINARY, frame};

/// A client of the native protocol.
#[derive(Debug)]
pub(super) struct Native {
    socket: WebSocket,
    conversation: Conversation,
}

#[derive(Debug)]
struct Conversation {
    client: Client,
    /// To subscribe to when it connects for the first time.
    beginning: Vec<String>,
    /// By path or pattern.
    subscriptions: HashMap<String, u32>,
    /// Requests that have not been answered.
    pending: u64,
}

impl Native {
    /// One that subscribes to these topics; those with a wildcard are patterns.
    pub(super) fn new(topics: &[String]) -> Native {
        let conversation = Conversation {
            client: Client::new("tiderace-bench"),
            beginning: topics.to_vec(),
            subscriptions: HashMap::new(),
            pending: 0,
        };
        Native { socket: WebSocket::new("/tiderace", Some("tiderace.v1")), conversation }
    }
}

impl Speech for Native {
    fn open(&mut self, authority: &str, out: &mut Vec<u8>) {
        self.socket.open(authority, out);
    }

    fn take(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> io::Result<usize> {
        let Native { socket, conversation } = self;
        socket.walk(input, out, &mut |got, out| match got {
            Got::Opened => {
                conversation.connect(out);
                Ok(())
            }
            Got::Message(message) => conversation.take(message, tell),
        })
    }

    fn change(&mut self, from: &str, to: &str, out: &mut Vec<u8>) -> Change {
        let mut message = Vec::new();
        self.conversation.end(from, &mut message);
        self.conversation.begin(to, &mut message);
        frame(out, BINARY, &message);
        Change::Asked
    }
}

impl Conversation {
    fn connect(&mut self, out: &mut Vec<u8>) {
        let mut message = Vec::new();
        self.client.connect(Auth::Anonymous, &mut message);
        self.pending = self.subscriptions.len() as u64;
        for path in std::mem::take(&mut self.beginning) {
            self.begin(&path, &mut message);
        }
        frame(out, BINARY, &message);
    }

    fn begin(&mut self, path: &str, message: &mut Vec<u8>) {
        let options = SubscribeOptions::topic(path).snapshot().recoverable().deltas();
        let options = if path.contains('*') { options.pattern() } else { options };
        let id = self.client.subscribe(options, message);
        self.subscriptions.insert(path.to_owned(), id);
        self.pending += 1;
    }

    fn end(&mut self, path: &str, message: &mut Vec<u8>) {
        if let Some(id) = self.subscriptions.remove(path) {
            self.client.unsubscribe(id, message);
            self.pending += 1;
        }
    }

    fn take(&mut self, message: &[u8], tell: &mut dyn FnMut(Told<'_>)) -> io::Result<()> {
        let by_id: HashMap<u32, &str> = HashMap::new();
        let mut names = Names { known: by_id, of: &self.subscriptions };
        let (pending, mut problem) = (&mut self.pending, None);
        let taken = self.client.receive(message, |event| match event {
            Event::Update(update) if update.removed => {
                tell(Told::Removed(update.path.unwrap_or_else(|| names.of(update.subscription))));
            }
            Event::Update(update) => match serde_json::from_slice(update.body) {
                Ok(value) => tell(Told::Value(Message {
                    topic: update.path.unwrap_or_else(|| names.of(update.subscription)),
                    version: update.version,
                    value: &value,
                    is_repeated: update.repeated,
                })),
                Err(error) => problem = Some(format!("a value is no JSON: {error}")),
            },
            Event::Recovered { subscription, complete: false } => {
                let name = names.of(subscription);
                tell(Told::Gap(Some(name).filter(|name| !name.contains('*'))));
            }
            Event::Done { first, last } => {
                let answered = u64::from(last.wrapping_sub(first)) + 1;
                let waited = std::mem::replace(pending, pending.saturating_sub(answered));
                if waited > 0 && *pending == 0 {
                    tell(Told::Ready);
                }
            }
            Event::Refused { slug, sentence, .. } | Event::Closed { slug, sentence, .. } => {
                problem = Some(format!("{slug}: {sentence}"));
            }
            _ => {}
        });
        taken.map_err(|error| broken(&error.to_string()))?;
        problem.map_or(Ok(()), |problem| Err(broken(&problem)))
    }
}

/// The paths of subscriptions by their ids, made when the first is asked for.
struct Names<'a> {
    known: HashMap<u32, &'a str>,
    of: &'a HashMap<String, u32>,
}

impl<'a> Names<'a> {
    fn of(&mut self, id: u32) -> &'a str {
        if self.known.is_empty() {
            self.known.extend(self.of.iter().map(|(path, id)| (*id, path.as_str())));
        }
        self.known.get(&id).copied().unwrap_or_default()
    }
}
