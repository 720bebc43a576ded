//! The session: one client's conversation, from CONNECT to the last word.
//!
//! ```text
//!           CONNECT             LoggedIn               DISCONNECT
//!   Fresh ─────────▶ LoggingIn ──────────▶ Established ───────────▶ Leaving ─▶ last receipts, end
//!     │ deadline        │ Refused              │ a fault, silence
//!     └─▶ end           └─▶ ERROR, end         └─▶ ERROR, end
//! ```
//! Relies on `frame` for the bytes and on the modules below for what frames mean. Invariants: input
//! behind a CONNECT waits until the login is answered; every fault carries the receipt of the frame
//! to blame; what is rarely used costs eight bytes.

mod acknowledge;
mod connect;
mod deliver;
mod deltas;
mod heart_beat;
mod operate;
mod publish;
mod receipt;
mod subscribe;
mod subscription;
mod subscriptions;
mod transaction;

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{
    Bases, Command, Commands, Context, Delivery, Destination, Intake, Output, Progress, Reply,
    Session, Settle, TemporaryName, Token,
};

use crate::error::{bad_header, fault, missing, shown, unreadable};
use crate::frame::{self, Limits, Pending};
use crate::header::{Headers, append_value};
use crate::options::StompOptions;
use crate::server_frame;
use crate::version::Version;
use heart_beat::HeartBeat;
use receipt::Receipts;
use subscriptions::Subscriptions;
use transaction::Transactions;

/// Where the conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waiting for CONNECT.
    Fresh,
    /// The broker is looking at the credentials.
    LoggingIn,
    /// In order.
    Established,
    /// DISCONNECT has come; the last receipts are on their way.
    Leaving,
}

/// One client's conversation in STOMP.
pub(crate) struct StompSession {
    options: Arc<StompOptions>,
    subscriptions: Subscriptions,
    cold: Option<Box<ColdState>>,
    partial: Option<Box<Partial>>,
    heart_beat: HeartBeat,
    /// The session's name in the paths of its temporary destinations.
    temporary: TemporaryName,
    state: State,
    version: Version,
    /// Whether the client gave credentials.
    named: bool,
}

const _: () = assert!(size_of::<StompSession>() <= 112, "there may be millions of idle ones");

/// What is known about input that was not consumed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Partial {
    pending: Pending,
    /// Bytes of the last input that were not consumed: more than these are news.
    left: u32,
}

/// The destination of the last SEND: producers mostly send to the same one again.
struct LastDestination {
    spelling: Box<[u8]>,
    destination: Destination,
}

/// What most sessions never need.
#[derive(Default)]
struct ColdState {
    /// Rises with every message that has to be acknowledged.
    tags: u64,
    /// The last token given out.
    tokens: Token,
    /// Where the last SEND went.
    last: Option<Box<LastDestination>>,
    receipts: Receipts,
    transactions: Transactions,
    /// Acknowledgements of this call, collected into one command.
    settle: Option<Settle>,
    /// What subscriptions with deltas were sent last.
    bases: Option<Box<Bases>>,
    /// The receipt of the frame that ended the session.
    blamed: Option<Box<[u8]>>,
}

/// One complete frame that is not a SEND.
struct Request<'a> {
    command: &'static str,
    headers: Headers<'a>,
}

impl StompSession {
    /// Begins a conversation.
    pub(crate) fn new(
        options: Arc<StompOptions>,
        now: Now,
        temporary: TemporaryName,
    ) -> StompSession {
        StompSession {
            heart_beat: HeartBeat::until_login(now.time + options.login_timeout),
            options,
            subscriptions: Subscriptions::default(),
            cold: None,
            partial: None,
            temporary,
            state: State::Fresh,
            version: Version::V10,
            named: false,
        }
    }

    fn cold(&mut self) -> &mut ColdState {
        self.cold.get_or_insert_default()
    }

    /// Reads as many frames as there are.
    fn read(
        &mut self,
        now: Now,
        input: &[u8],
        pending: &mut Pending,
        context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        let mut at = 0;
        if let Err(need) = pending.ready(input) {
            return Ok(Progress { consumed: 0, need });
        }
        let intake = Intake::begin();
        loop {
            let rest = input.get(at..).unwrap_or_default();
            at += frame::eols(rest);
            let rest = input.get(at..).unwrap_or_default();
            if rest.is_empty() || self.is_waiting() {
                if !rest.is_empty() {
                    context.wait();
                }
                return Ok(Progress { consumed: at, need: 0 });
            }
            if intake.is_full() {
                context.yield_turn(at);
                return Ok(Progress { consumed: at, need: 0 });
            }
            if self.state == State::Leaving {
                return Ok(Progress { consumed: input.len(), need: 0 });
            }
            let length = if let Some(tail) = rest.strip_prefix(b"SEND\n")
                && self.state == State::Established
            {
                self.send(now, rest, rest.len() - tail.len(), context)?
            } else {
                self.other(now, rest, context)?
            };
            match length {
                Ok(length) => {
                    at += length;
                    *pending = Pending::Unknown;
                }
                Err(found) => {
                    *pending = found;
                    let need = match found {
                        Pending::Body { len } => len as usize,
                        _ => 0,
                    };
                    return Ok(Progress { consumed: at, need });
                }
            }
        }
    }

    /// Whether input has to wait for the broker.
    fn is_waiting(&self) -> bool {
        self.state == State::LoggingIn
            || self.cold.as_ref().is_some_and(|cold| cold.receipts.is_full())
    }

    fn limits(&self) -> Limits {
        let options = &*self.options;
        let established = self.state != State::Fresh;
        let preauth = if established { usize::MAX } else { options.preauth_bytes_max };
        Limits {
            header_bytes_max: options.header_bytes_max.min(preauth),
            headers_max: options.headers_max,
            body_bytes_max: options.message_bytes_max.min(preauth),
        }
    }

    /// Handles one frame that does not begin like a plain SEND.
    fn other(
        &mut self,
        now: Now,
        input: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Result<usize, Pending>, Close> {
        let Some((name, from)) = frame::command(input)? else {
            return Ok(Err(Pending::Unknown));
        };
        let connects = matches!(name, b"CONNECT" | b"STOMP");
        if self.state == State::Fresh && !connects {
            let text = format_args!(
                "`{}` came before CONNECT. Log in first, with CONNECT or STOMP.",
                shown(name)
            );
            return Err(fault(CloseCode::UnexpectedFrame, "frame", text));
        }
        if name == b"SEND" {
            return self.send(now, input, from, context);
        }
        let limits = self.limits();
        let mut declared = None;
        let mut colons = true;
        let version = self.version;
        let head = frame::head(input, from, &limits, |line, _| {
            match crate::header::split(line, version) {
                Some((b"content-length", value)) if declared.is_none() => declared = Some(value),
                Some(_) => {}
                None => colons = false,
            }
        })?;
        let Some(head) = head else {
            return Ok(Err(Pending::Head { from: 0, until: limits.header_bytes_max as u32 }));
        };
        let headers = Headers { block: head.headers, version, escaped: !connects };
        let declared = declared.map(content_length).transpose();
        let declared = declared.map_err(|close| self.blame(headers, close))?;
        let body = match frame::body(input, &head, declared, &limits) {
            Ok(body) => body,
            Err(Ok(pending)) => return Ok(Err(pending)),
            Err(Err(close)) => return Err(self.blame(headers, close)),
        };
        let result = command_name(name).and_then(|command| {
            if !colons {
                return Err(bad_header(command, NO_COLON));
            }
            // A rule of 1.1; which version is spoken, CONNECT decides.
            let request = Request { command, headers };
            let oldest = || match connects {
                true => connect::version(&request).is_ok_and(|version| version == Version::V10),
                false => version == Version::V10,
            };
            if !body.bytes.is_empty() && !oldest() {
                let text = "the frame has a body. Only SEND may have one.";
                return Err(fault(CloseCode::BadFrame, command, text));
            }
            self.dispatch(&request, context)
        });
        result.map_err(|close| self.blame(headers, close))?;
        Ok(Ok(body.end))
    }

    fn dispatch(&mut self, request: &Request<'_>, context: &mut Context<'_>) -> Result<(), Close> {
        if self.state == State::Fresh {
            return self.connect(request, context);
        }
        match request.command {
            "SUBSCRIBE" => self.subscribe(request, context),
            "UNSUBSCRIBE" => self.unsubscribe(request, context),
            "ACK" | "NACK" => self.acknowledge(request, context),
            "BEGIN" => self.begin(request, context),
            "COMMIT" => self.commit(request, context),
            "ABORT" => self.abort(request, context),
            "DISCONNECT" => self.disconnect(request, context),
            command => Err(fault(
                CloseCode::UnexpectedFrame,
                command,
                "the client is connected already. Send CONNECT once.",
            )),
        }
    }

    fn disconnect(
        &mut self,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        self.state = State::Leaving;
        context.commands.take_leave();
        self.done(request.command, request.headers, context)?;
        let waits = request.headers.find_raw("receipt").is_some()
            && self.cold.as_ref().is_some_and(|cold| !cold.receipts.is_empty());
        if !waits {
            context.finish(CloseCode::Done);
        }
        Ok(())
    }

    /// Remembers the receipt of the frame to blame, for the ERROR frame.
    #[cold]
    fn blame(&mut self, headers: Headers<'_>, close: Close) -> Close {
        if headers.version != self.version || self.state == State::Fresh {
            return close;
        }
        if let Some(receipt) = headers.find_raw("receipt")
            && let Ok(text) = headers.decode(receipt)
        {
            // Encoded anew: a CONNECT's headers have no escapes, the answer's have.
            let mut encoded = Vec::new();
            append_value(&mut encoded, self.version, &text);
            self.cold().blamed = Some(encoded.into());
        }
        close
    }

    /// Hands over what was collected during a call.
    fn flush(&mut self, commands: &mut Commands) {
        if let Some(cold) = &mut self.cold
            && let Some(settle) = cold.settle.take()
        {
            commands.push(Command::Settle(settle));
        }
    }
}

impl Session for StompSession {
    fn receive(
        &mut self,
        now: Now,
        input: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        let mut partial = self.partial.take();
        let (mut pending, left) =
            partial.as_ref().map_or((Pending::Unknown, 0), |known| (known.pending, known.left));
        if input.len() > left as usize {
            self.heart_beat.received(now.time);
        }
        let result = self.read(now, input, &mut pending, context);
        self.flush(context.commands);
        if let Ok(progress) = result {
            let left = (input.len() - progress.consumed) as u32;
            if left > 0 || pending != Pending::Unknown {
                *partial.get_or_insert_default().as_mut() = Partial { pending, left };
                self.partial = partial;
            }
        }
        result
    }

    fn reply(&mut self, now: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close> {
        match reply {
            Reply::LoggedIn { name, .. } => self.logged_in(now, &name, context),
            Reply::Confirmed(_) | Reply::Operated { .. } => {
                let before = context.output.queue.len();
                if let Reply::Operated { token, result } = &reply {
                    self.operated(*token, result, context);
                } else if let Reply::Confirmed(confirm) = reply {
                    self.confirmed(confirm, context);
                }
                if context.output.queue.len() > before {
                    self.heart_beat.sent(now.time);
                }
            }
            // It neither calls, nor serves, nor comes back for what it missed.
            Reply::Recovered { .. }
            | Reply::Reached { .. }
            | Reply::ExchangeEnded { .. }
            | Reply::ExchangeCredit { .. }
            | Reply::Joined { .. }
            | Reply::Left { .. } => {}
            Reply::Refused { token, close } => {
                if let Some(cold) = &mut self.cold
                    && let Some(token) = token
                {
                    cold.blamed = cold.receipts.text_of(token).map(Box::from);
                }
                return Err(close);
            }
        }
        Ok(())
    }

    fn deliver(&mut self, now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let before = output.queue.len();
        self.write_messages(delivery, output);
        if output.queue.len() > before {
            self.heart_beat.sent(now.time);
        }
    }

    fn deadline(&self) -> Time {
        self.heart_beat.deadline(self.options.heart_beat_grace)
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        match self.state {
            State::Fresh | State::LoggingIn => self.expire_login(now),
            State::Established | State::Leaving => self.beat(now, context),
        }
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        if close.code.is_silent() {
            return;
        }
        let blamed = self.cold.as_ref().and_then(|cold| cold.blamed.as_deref());
        server_frame::error(close, self.version, blamed, output);
    }

    fn unfinished_bytes(&self) -> usize {
        self.cold.as_ref().map_or(0, |cold| cold.transactions.bytes())
    }

    fn is_established(&self) -> bool {
        matches!(self.state, State::Established | State::Leaving)
    }
}

impl Request<'_> {
    /// A header's value, decoded, if it is there.
    fn find(&self, name: &str) -> Result<Option<std::borrow::Cow<'_, str>>, Close> {
        self.headers.find(name).map_err(|why| unreadable(self.command, why))
    }

    /// A header's value, decoded.
    fn require(&self, name: &str) -> Result<std::borrow::Cow<'_, str>, Close> {
        self.find(name)?.ok_or_else(|| missing(self.command, name))
    }
}

/// The commands a client may send; anything else is a fault.
fn command_name(name: &[u8]) -> Result<&'static str, Close> {
    const COMMANDS: [&str; 10] = [
        "CONNECT",
        "STOMP",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "ACK",
        "NACK",
        "BEGIN",
        "COMMIT",
        "ABORT",
        "DISCONNECT",
    ];
    const SERVER_COMMANDS: [&str; 4] = ["CONNECTED", "MESSAGE", "RECEIPT", "ERROR"];
    if let Some(known) = COMMANDS.iter().find(|known| known.as_bytes() == name) {
        return Ok(known);
    }
    let what = if SERVER_COMMANDS.iter().any(|known| known.as_bytes() == name) {
        "is sent by servers only"
    } else {
        "is no STOMP command. Commands are written in capitals"
    };
    let text = format_args!("`{}` {what}.", shown(name));
    Err(fault(CloseCode::UnexpectedFrame, "frame", text))
}

fn content_length(value: &[u8]) -> Result<u64, Close> {
    number(value).ok_or_else(|| {
        let text = format_args!("`content-length:{}` is no number of bytes.", shown(value));
        bad_header("frame", text)
    })
}

/// A decimal number without sign.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

const NO_COLON: &str =
    "a header line has no colon or no name. Headers are written `name:value`, one per line.";
