//! One client of many: its socket, its carrier, its language and how far it has come.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use crate::clients::carrier::{Carrier, Place, Transport};
use crate::clients::counters::Counters;
use crate::clients::language::{Language, Speech};
use crate::clients::values::{self, ValuesSpec};

/// How far a client has come, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Its carrier is being opened.
    Opening,
    /// It waits for the server's greeting.
    Greeting,
    /// It waits for its subscriptions to be confirmed.
    Subscribing,
    /// It listens.
    Complete,
    /// It is beyond use.
    Broken,
}

/// What a client is to be.
#[derive(Debug, Clone)]
pub struct ClientSpec {
    /// What carries it.
    pub transport: Transport,
    /// Where it goes.
    pub place: Arc<Place>,
    /// What it speaks.
    pub speech: Speech,
    /// Name and password.
    pub credentials: Option<(String, String)>,
    /// What it follows, if it speaks natively and holds values.
    pub values: Option<ValuesSpec>,
}

impl ClientSpec {
    /// A client of a Tiderace server that follows values, natively over a WebSocket.
    pub(crate) fn of_values(address: SocketAddr, values: ValuesSpec) -> ClientSpec {
        let place = Place {
            authority: address.to_string(),
            path: "/tiderace".to_owned(),
            subprotocol: Some("tiderace.v1"),
        };
        ClientSpec {
            transport: Transport::WebSocket,
            place: Arc::new(place),
            speech: Speech::Native,
            credentials: None,
            values: Some(values),
        }
    }
}

/// When a client reached each phase, nanoseconds of the run's clock; zero if it has not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Its carrier was open.
    pub ready: u64,
    /// The server had greeted it.
    pub channels: u64,
    /// It had sent its subscriptions.
    pub sent: u64,
    /// All of them were confirmed.
    pub complete: u64,
}

/// One client.
#[derive(Debug)]
pub struct Client {
    pub(crate) stream: TcpStream,
    carrier: Carrier,
    language: Language,
    /// The beginning of something that needs more bytes.
    kept: Vec<u8>,
    credentials: Option<(String, String)>,
    paths: Vec<String>,
    wanted: u64,
    /// How far it has come.
    pub step: Step,
    /// When.
    pub times: Times,
    /// It is in the list of those to be read again.
    pub(crate) is_queued: bool,
}

/// The outcome of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The socket may have more.
    More(usize),
    /// The socket is empty.
    Empty(usize),
}

impl Client {
    /// A client on a connected socket. One in [`WITNESS_EVERY`] numbers keeps values.
    pub fn new(stream: TcpStream, spec: &ClientSpec, paths: Vec<String>, number: usize) -> Client {
        let language = match &spec.values {
            None => Language::new(spec.speech, paths.len()),
            Some(values) => {
                let is_witness = number.is_multiple_of(WITNESS_EVERY);
                Language::Values(Box::new(values::Reader::new(values, &paths, is_witness)))
            }
        };
        Client {
            stream,
            carrier: Carrier::new(spec.transport, Arc::clone(&spec.place)),
            language,
            kept: Vec::new(),
            credentials: spec.credentials.clone(),
            wanted: paths.len() as u64,
            paths,
            step: Step::Opening,
            times: Times::default(),
            is_queued: false,
        }
    }

    /// Reads once and handles what came; `now` is asked for the time after the read.
    ///
    /// # Errors
    /// When the connection or the conversation is over.
    pub fn read(
        &mut self,
        buffer: &mut [u8],
        now: impl Fn() -> u64,
        counters: &mut Counters,
    ) -> io::Result<Outcome> {
        let kept = self.kept.len();
        if let Some(front) = buffer.get_mut(..kept) {
            front.copy_from_slice(&self.kept);
        }
        let room = buffer.get_mut(kept..).unwrap_or_default();
        let size = room.len();
        let read = match self.stream.read(room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Outcome::Empty(0)),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(Outcome::More(0)),
            Err(error) => return Err(error),
        };
        let now_ns = now();
        counters.read_at(now_ns, read);
        let bytes = buffer.get(..kept + read).unwrap_or_default();
        let taken = self.carrier.walk(bytes, now_ns, &mut self.language, counters)?;
        counters.settle();
        self.kept.clear();
        self.kept.extend_from_slice(bytes.get(taken..).unwrap_or_default());
        self.progress(now_ns);
        self.carrier.proceed();
        self.write()?;
        // A short read has emptied the socket; the next bytes raise a new event.
        Ok(if read == size { Outcome::More(read) } else { Outcome::Empty(read) })
    }

    /// Writes what waits, as far as the socket takes it.
    ///
    /// # Errors
    /// When the connection is over.
    pub fn write(&mut self) -> io::Result<()> {
        let out = &mut self.carrier.out;
        while !out.is_empty() {
            match self.stream.write(out) {
                Ok(written) => {
                    out.drain(..written);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What it speaks.
    pub fn language(&self) -> &Language {
        &self.language
    }

    /// Sends a message of its language.
    pub fn send(&mut self, message: &[u8]) {
        self.carrier.send(message, self.language.is_text());
        self.carrier.proceed();
    }

    /// Whether all it had to say has been written.
    pub fn is_written(&self) -> bool {
        self.carrier.out.is_empty()
    }

    /// Takes the steps that what came allows.
    fn progress(&mut self, now_ns: u64) {
        if self.step == Step::Opening && self.carrier.is_open {
            self.times.ready = now_ns;
            let greeting = self.language.greeting(self.credentials.as_ref());
            self.carrier.send(&greeting, self.language.is_text());
            self.step = Step::Greeting;
        }
        if self.step == Step::Greeting && self.language.is_greeted() {
            self.times.channels = now_ns;
            for message in self.language.subscriptions(&std::mem::take(&mut self.paths)) {
                self.carrier.send(&message, self.language.is_text());
            }
            self.times.sent = now_ns;
            self.step = Step::Subscribing;
        }
        if self.step == Step::Subscribing && self.language.confirmed() >= self.wanted {
            self.times.complete = now_ns;
            self.step = Step::Complete;
        }
    }
}

/// Of so many clients one compares every value with what was published.
pub const WITNESS_EVERY: usize = 100;
