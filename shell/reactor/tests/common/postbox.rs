//! A protocol for tests that is carried by requests: `POST /box` opens a box and answers its ticket,
//! `POST /box?t=` takes lines (`S topic`, `P topic body`, `Q`), `GET /box?t=` waits for deliveries,
//! `GET /box/stream?topic` never ends, and a WebSocket on `/box?t=` may take the box over.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_topics::Path;
use tiderace_wire::{
    Answer, Command, Context, Credentials, Delivery, Destination, Detect, Held, HttpFace, Incoming,
    Kind, Meta, Opening, Output, Progress, Protocol, Reply, Request, Response, Route, Session,
    Subscribe, SubscriptionKey, Takeover, Target, Ticket,
};

struct Postbox {
    secret: u128,
    text: String,
    stream: Option<String>,
    subscriptions: u32,
    established: bool,
    /// Set while a held request is to be let go because somebody takes over.
    probed: bool,
}

/// The session of a WebSocket that wants to take a box over.
struct Probe {
    ticket: Ticket,
}

impl Postbox {
    fn line(&mut self, line: &str, context: &mut Context<'_>) -> Result<(), Close> {
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next()) {
            (Some("S"), Some(name)) => {
                self.subscriptions += 1;
                context.commands.push(Command::Subscribe(Box::new(Subscribe::new(
                    SubscriptionKey(self.subscriptions),
                    vec![Target::Exact(topic(name)?)],
                ))));
            }
            (Some("P"), Some(name)) => {
                context.commands.message(&topic(name)?);
                let body = words.next().unwrap_or_default();
                context.commands.publish(body.as_bytes(), Meta::default(), None);
            }
            (Some("Q"), _) => context.finish(CloseCode::Done),
            _ => return Err(CloseCode::BadFrame.into()),
        }
        Ok(())
    }

    fn lines(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Result<(), Close> {
        String::from_utf8_lossy(bytes).lines().try_for_each(|line| self.line(line, context))
    }
}

impl Session for Postbox {
    fn receive(&mut self, _: Now, input: &[u8], _: &mut Context<'_>) -> Result<Progress, Close> {
        Ok(Progress { consumed: input.len(), need: 0 })
    }

    fn takes_messages(&self) -> bool {
        true
    }

    fn message(
        &mut self,
        _: Now,
        message: Incoming<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        self.lines(message.bytes, context)
    }

    fn request(
        &mut self,
        _: Now,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<Answer, Close> {
        if !self.established {
            self.established = true;
            context.commands.push(Command::Login(Credentials::default()));
            if self.stream.is_some() {
                return Ok(Answer::Stream(Response::new(200, "text/plain", "begin\n")));
            }
            return Ok(Answer::Respond(Response::new(200, "text/plain", self.text.clone())));
        }
        if request.method == "GET" && self.probed {
            return Ok(Answer::Respond(Response::new(200, "text/plain", "noop\n")));
        }
        if request.method == "GET" {
            let common = &[("Content-Type", "text/plain")];
            return Ok(Answer::Hold(Held { common, own: None, skips_first: true }));
        }
        self.lines(request.body, context)?;
        Ok(Answer::Respond(Response::new(200, "text/plain", "ok")))
    }

    fn abandoned(&mut self, _: Now, _: &mut Context<'_>) -> Result<(), Close> {
        Err(CloseCode::PeerGone.into())
    }

    fn takeover(
        &mut self,
        _: Now,
        takeover: Takeover,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        match takeover {
            Takeover::Offered => {}
            Takeover::Begun => {
                self.probed = true;
                context.respond(Response::new(200, "text/plain", "noop\n"));
            }
            Takeover::Failed => self.probed = false,
            Takeover::Done => {
                // What was meant for a held request goes out as a message.
                let left = context.output.queue.take_bytes();
                if let Some(rest) = left.get(1..) {
                    context.output.frame(rest, true);
                }
                context.output.frame(b"taken\n", true);
            }
        }
        Ok(())
    }

    fn secret(&self) -> Option<u128> {
        Some(self.secret)
    }

    fn reply(&mut self, _: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close> {
        match (reply, &self.stream) {
            (Reply::Refused { close, .. }, _) => Err(close),
            (Reply::LoggedIn { .. }, Some(name)) => self.line(&format!("S {name}"), context),
            _ => Ok(()),
        }
    }

    fn deliver(&mut self, _: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        for message in (delivery.from..delivery.to).filter_map(|at| delivery.run.run().message(at))
        {
            // The mark before the first line is left out of a held answer.
            let mark: &[u8] =
                if output.framing.is_message() || !output.queue.is_empty() { b"" } else { b"|" };
            let mark = if self.stream.is_some() { b"" } else { mark };
            output.frame(&[mark, b"M ", message.body, b"\n"].concat(), true);
        }
    }

    fn deadline(&self) -> Time {
        Time::NEVER
    }

    fn expire(&mut self, _: Now, _: &mut Context<'_>) -> Result<(), Close> {
        Ok(())
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        output.frame(format!("|BYE {}\n", close.code.slug()).as_bytes(), true);
    }

    fn is_established(&self) -> bool {
        self.established
    }
}

impl Session for Probe {
    fn receive(&mut self, _: Now, _: &[u8], _: &mut Context<'_>) -> Result<Progress, Close> {
        Err(CloseCode::BadFrame.into())
    }

    fn takes_messages(&self) -> bool {
        true
    }

    fn message(
        &mut self,
        _: Now,
        message: Incoming<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let step = match message.bytes {
            b"probe" => {
                context.output.frame(b"probed", true);
                Takeover::Begun
            }
            b"take" => Takeover::Done,
            _ => {
                context.take_over(self.ticket, Takeover::Failed);
                return Err(CloseCode::BadFrame.into());
            }
        };
        context.take_over(self.ticket, step);
        Ok(())
    }

    fn reply(&mut self, _: Now, _: Reply, _: &mut Context<'_>) -> Result<(), Close> {
        Ok(())
    }

    fn deliver(&mut self, _: Now, _: &Delivery<'_>, _: &mut Output<'_>) {}

    fn deadline(&self) -> Time {
        Time::NEVER
    }

    fn expire(&mut self, _: Now, _: &mut Context<'_>) -> Result<(), Close> {
        Ok(())
    }

    fn goodbye(&mut self, _: &Close, _: &mut Output<'_>) {}

    fn is_established(&self) -> bool {
        true
    }
}

fn topic(name: &str) -> Result<Destination, Close> {
    let path = Path::parse(name).map_err(|_| Close::from(CloseCode::BadDestination))?;
    Ok(Destination { kind: Kind::Topic, path })
}

fn ticket(request: &Request<'_>) -> Option<Ticket> {
    Ticket::decode(request.query_value("t")?)
}

fn route(request: &Request<'_>) -> Option<Route> {
    if !request.path.starts_with("/box") {
        return None;
    }
    if request.query_value("t").is_some() {
        let unknown = || Route::Respond(Response::new(400, "text/plain", "no ticket"));
        return Some(ticket(request).map_or_else(unknown, Route::Session));
    }
    Some(match request.method {
        "GET" | "POST" => Route::Open,
        _ => Route::Respond(Response::new(405, "text/plain", "no")),
    })
}

/// Bytes of a request body that a box takes.
pub const BODY_BYTES_MAX: usize = 100_000;

/// The protocol of boxes.
pub fn postbox_protocol() -> Protocol {
    let open = |opening: &Opening<'_>| -> Box<dyn Session> {
        let request = opening.request.unwrap();
        if let Some(ticket) = ticket(request) {
            return Box::new(Probe { ticket });
        }
        let streams = request.path == "/box/stream";
        Box::new(Postbox {
            secret: opening.ticket.secret,
            text: opening.ticket.encode(),
            stream: request.query.filter(|_| streams).map(str::to_owned),
            subscriptions: 0,
            established: false,
            probed: false,
        })
    };
    Protocol {
        name: "box",
        detect: |_| Detect::No,
        subprotocols: &[],
        websocket_paths: Arc::from(["/box".to_string()]),
        stream_paths: Arc::from([]),
        http: Some(HttpFace {
            large_body_bytes_max: 0,
            route: Arc::new(route),
            unknown: Arc::new(|_| Response::new(404, "text/plain", "unknown")),
            too_large: Arc::new(|_| Response::new(413, "text/plain", "too large")),
            body_bytes_max: BODY_BYTES_MAX,
        }),
        open: Arc::new(open),
    }
}
