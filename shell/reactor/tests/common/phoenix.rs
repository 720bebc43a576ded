//! A protocol for tests to whose sessions clients come back, over streams and WebSockets. In lines, of
//! which each is a message on a WebSocket:
//!
//! * `PHX token login` begins; the answer is `OK ticket` or `REFUSED code`.
//! * `WHO login` shows who a client is that is about to come back.
//! * `BACK token lines` comes back: so many lines were received before. The answer is `BACK lines`, the
//!   number of lines that the server took in, and all lines again that were not received; or `UNKNOWN`.
//! * `TICKET ticket lines` does the same by the server's ticket.
//! * `S topic`, `P topic body`, `H` (from now on silence ends the connection), `Q` (goodbye).

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Context, Credentials, Delivery, Destination, Detect, HandOver, Incoming, Kind, Meta,
    Opening, Output, Progress, Protocol, Reply, Session, Subscribe, SubscriptionKey, Takeover,
    Target, Ticket,
};

struct Phoenix {
    ticket: Ticket,
    unknown: bool,
    is_message: bool,
    phase: Phase,
    token: String,
    /// Lines that came before the alias was decided.
    early: Vec<String>,
    /// Lines taken in since the beginning.
    taken: usize,
    /// Lines sent since the beginning.
    sent: Vec<String>,
    subscriptions: u32,
    deadline: Time,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    /// Its login is being verified, to begin or to come back.
    LoggingIn,
    Showing,
    Aliasing,
    Live,
    Detached,
    /// A connection has come, and its first line is to say from where on.
    Returning,
}

impl Phoenix {
    fn say(&mut self, line: String, output: &mut Output<'_>) {
        if self.phase == Phase::Live {
            output.frame(format!("{line}\n").as_bytes(), true);
        }
        self.sent.push(line);
    }

    /// Takes a line; false if it is not taken now.
    fn line(&mut self, now: Now, line: &str, context: &mut Context<'_>) -> Result<bool, Close> {
        let mut words = line.splitn(3, ' ');
        let (verb, first) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let second = words.next().unwrap_or_default();
        match (verb, self.phase) {
            ("BACK" | "TICKET", _) if self.unknown => {
                context.output.frame(b"UNKNOWN\n", true);
                context.finish(CloseCode::Done);
            }
            ("BACK" | "TICKET", Phase::Returning) => {
                let lines: usize = second.parse().map_err(|_| Close::from(CloseCode::BadFrame))?;
                self.phase = Phase::Live;
                context.output.frame(format!("BACK {}\n", self.taken).as_bytes(), true);
                for line in &self.sent[lines..] {
                    context.output.frame(format!("{line}\n").as_bytes(), true);
                }
            }
            ("BACK", Phase::New | Phase::Showing) => {
                context.hand_over(HandOver::ClientSessionId(first.as_bytes().into()));
                return Ok(false);
            }
            ("TICKET", Phase::New | Phase::Showing) => {
                let ticket = Ticket::decode(first).ok_or(CloseCode::BadFrame)?;
                context.hand_over(HandOver::Ticket(ticket));
                return Ok(false);
            }
            ("PHX", Phase::New) => {
                self.phase = Phase::LoggingIn;
                self.token = first.to_owned();
                login(second, context);
            }
            ("WHO", Phase::New) => {
                self.phase = Phase::Showing;
                login(first, context);
            }
            (_, Phase::LoggingIn | Phase::Aliasing) if self.is_message => {
                self.early.push(line.to_owned());
            }
            (_, Phase::LoggingIn | Phase::Aliasing) => return Ok(false),
            (_, Phase::Live) => {
                self.taken += 1;
                self.command(now, verb, first, second, context)?;
            }
            _ => return Err(CloseCode::UnexpectedFrame.into()),
        }
        Ok(true)
    }

    fn command(
        &mut self,
        now: Now,
        verb: &str,
        first: &str,
        second: &str,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        match verb {
            "S" => {
                self.subscriptions += 1;
                let key = SubscriptionKey(self.subscriptions);
                let target = Target::Exact(topic(first)?);
                let subscribe = Subscribe::new(key, vec![target]);
                context.commands.push(Command::Subscribe(Box::new(subscribe)));
            }
            "P" => {
                context.commands.message(&topic(first)?);
                context.commands.publish(second.as_bytes(), Meta::default(), None);
            }
            "H" => self.deadline = now.time + Span::from_secs(5),
            "Q" => context.finish(CloseCode::Done),
            _ => return Err(CloseCode::BadFrame.into()),
        }
        Ok(())
    }
}

impl Session for Phoenix {
    fn receive(
        &mut self,
        now: Now,
        input: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        let mut consumed = 0;
        while let Some(end) = input[consumed..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&input[consumed..consumed + end]).into_owned();
            if !self.line(now, &line, context)? {
                break;
            }
            consumed += end + 1;
        }
        Ok(Progress { consumed, need: 0 })
    }

    fn takes_messages(&self) -> bool {
        self.is_message
    }

    fn message(
        &mut self,
        now: Now,
        message: Incoming<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let line = String::from_utf8_lossy(message.bytes).into_owned();
        self.line(now, line.trim_end(), context)?;
        Ok(())
    }

    fn takeover(
        &mut self,
        _: Now,
        takeover: Takeover,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        assert_eq!(takeover, Takeover::Done);
        self.is_message = context.output.framing.is_message();
        self.phase = Phase::Returning;
        self.deadline = Time::NEVER;
        Ok(())
    }

    fn detach(&mut self, now: Now) -> bool {
        assert!(self.phase != Phase::Detached, "it has lost its connection already");
        if self.phase != Phase::Live {
            return false;
        }
        self.phase = Phase::Detached;
        self.deadline = now.time + Span::from_secs(30);
        true
    }

    fn kept_bytes(&self) -> usize {
        self.sent.iter().map(String::len).sum()
    }

    fn admits(&self, _: Now, first: &[u8]) -> bool {
        let line = String::from_utf8_lossy(first).into_owned();
        let lines = line.lines().next().and_then(|line| line.rsplit(' ').next()?.parse().ok());
        lines.is_some_and(|lines: usize| lines <= self.sent.len())
    }

    fn client_session_id_decided(
        &mut self,
        now: Now,
        outcome: Result<(), Close>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        assert!(self.phase == Phase::Aliasing);
        if let Err(close) = outcome {
            let line = format!("REFUSED {}\n", close.code.slug());
            context.output.frame(line.as_bytes(), true);
            context.finish(CloseCode::Done);
            return Ok(());
        }
        self.phase = Phase::Live;
        let line = format!("OK {}\n", self.ticket.encode());
        context.output.frame(line.as_bytes(), true);
        for line in std::mem::take(&mut self.early) {
            self.line(now, &line, context)?;
        }
        Ok(())
    }

    fn secret(&self) -> Option<u128> {
        Some(self.ticket.secret)
    }

    fn reply(&mut self, _: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close> {
        match reply {
            Reply::Refused { close, .. } => Err(close),
            Reply::LoggedIn { .. } if self.phase == Phase::LoggingIn => {
                self.phase = Phase::Aliasing;
                context.use_client_session_id(self.token.as_bytes().into());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn deliver(&mut self, _: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        assert!(self.phase == Phase::Live, "nothing is delivered without a connection");
        for message in (delivery.from..delivery.to).filter_map(|at| delivery.run.run().message(at))
        {
            self.say(format!("M {}", String::from_utf8_lossy(message.body)), output);
        }
    }

    fn deadline(&self) -> Time {
        self.deadline
    }

    fn expire(&mut self, _: Now, _: &mut Context<'_>) -> Result<(), Close> {
        self.deadline = Time::NEVER;
        let detached = self.phase == Phase::Detached;
        let code = if detached { CloseCode::ResumeTimeout } else { CloseCode::HeartBeatTimeout };
        Err(code.into())
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        output.frame(format!("BYE {}\n", close.code.slug()).as_bytes(), true);
    }

    fn is_established(&self) -> bool {
        !matches!(self.phase, Phase::New | Phase::LoggingIn | Phase::Showing)
    }
}

fn login(name: &str, context: &mut Context<'_>) {
    let login = Some(name.to_owned());
    context.commands.push(Command::Login(Credentials { login, ..Credentials::default() }));
}

fn topic(name: &str) -> Result<Destination, Close> {
    let path = Path::parse(name).map_err(|_| Close::from(CloseCode::BadDestination))?;
    Ok(Destination { kind: Kind::Topic, path })
}

/// The protocol, over streams and on `/phx`.
pub fn phoenix_protocol() -> Protocol {
    let open = |opening: &Opening<'_>| Phoenix {
        ticket: opening.ticket,
        unknown: opening.unknown,
        is_message: opening.framing.is_message(),
        phase: Phase::New,
        token: String::new(),
        early: Vec::new(),
        taken: 0,
        sent: Vec::new(),
        subscriptions: 0,
        deadline: Time::NEVER,
    };
    Protocol {
        name: "phoenix",
        detect: |bytes| {
            let marks: [&[u8]; 4] = [b"PHX ", b"BACK ", b"WHO ", b"TICKET "];
            if marks.iter().any(|mark| bytes.starts_with(mark)) {
                Detect::Yes
            } else if marks.iter().any(|mark| mark.starts_with(bytes)) {
                Detect::More
            } else {
                Detect::No
            }
        },
        subprotocols: &[],
        websocket_paths: Arc::from(["/phx".to_string()]),
        stream_paths: Arc::from(["/phx-stream".to_string()]),
        http: None,
        open: Arc::new(move |opening: &Opening<'_>| Box::new(open(opening))),
    }
}
