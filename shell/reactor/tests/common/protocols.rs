//! Protocols for tests: one that says everything back, one that talks to the broker.

use std::sync::Arc;

use tiderace_base::{Addresses, Close, CloseCode, Now, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Context, Credentials, Delivery, Destination, Detect, DrainRequest, Kick, Kind, Meta,
    Open, Opening, Operation, OperationResult, Output, Progress, Protocol, Reply, Session,
    SessionFilter, SessionOrder, SessionQuery, Subscribe, SubscriptionKey, Target,
};

/// Says every byte back. Begins with `ECHO\n`, which is not said back.
struct Echo {
    greeted: bool,
}

impl Session for Echo {
    fn receive(
        &mut self,
        _: Now,
        mut input: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        let mut consumed = 0;
        if !self.greeted {
            let Some(rest) = input.strip_prefix(GREETING) else {
                return Ok(Progress { consumed: 0, need: GREETING.len() });
            };
            self.greeted = true;
            consumed = GREETING.len();
            input = rest;
        }
        if !input.is_empty() {
            context.output.frame(input, false);
        }
        Ok(Progress { consumed: consumed + input.len(), need: 0 })
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

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        output.frame(format!("\nBYE {}\n", close.code.slug()).as_bytes(), true);
    }

    fn is_established(&self) -> bool {
        self.greeted
    }
}

const GREETING: &[u8] = b"ECHO\n";

/// Speaks to the broker in lines: `L name`, `S topic`, `P topic body`, `D ms address`, which drains, `C`, which
/// takes that back, `A limit`, which lists sessions, `K protocol`, which ends those of one, `Q` and `!`, which panics.
struct Line {
    greeted: bool,
    waiting: bool,
    established: bool,
    subscriptions: u32,
}

impl Line {
    fn line(&mut self, line: &[u8], context: &mut Context<'_>) -> Result<(), Close> {
        let text = String::from_utf8_lossy(line);
        let mut words = text.splitn(3, ' ');
        let (verb, name) = (words.next(), words.next().unwrap_or_default());
        match verb {
            Some("L") => {
                self.waiting = true;
                let login = Some(name.to_string());
                let credentials = Credentials { login, ..Credentials::default() };
                context.commands.push(Command::Login(credentials));
            }
            Some("S") => {
                self.subscriptions += 1;
                context.commands.push(Command::Subscribe(Box::new(Subscribe {
                    confirm: Some(self.subscriptions),
                    ..Subscribe::new(
                        SubscriptionKey(self.subscriptions),
                        vec![Target::Exact(topic(name)?)],
                    )
                })));
            }
            Some("P") => {
                context.commands.message(&topic(name)?);
                let body = words.next().unwrap_or_default();
                context.commands.publish(body.as_bytes(), Meta::default(), None);
            }
            Some("D") => {
                let over = Span::from_millis(name.parse().unwrap_or(0));
                let to = Addresses::new(words.next()).unwrap_or_default();
                let request = DrainRequest { over, to, ..DrainRequest::default() };
                operate(Operation::Drain(Box::new(request)), context);
            }
            Some("C") => operate(Operation::DrainCancel, context),
            Some("A") => {
                let limit = name.parse().unwrap_or(0);
                let query =
                    SessionQuery { limit, order: SessionOrder::Id, ..SessionQuery::default() };
                operate(Operation::Sessions(Box::new(query)), context);
            }
            Some("K") => {
                let filter =
                    SessionFilter { protocol: Some(name.into()), ..SessionFilter::default() };
                let kick = Kick { filter, dry_run: false, reason: None };
                operate(Operation::Kick(Box::new(kick)), context);
            }
            Some("Q") => context.finish(CloseCode::Done),
            Some("!") => panic!("asked to"),
            _ => return Err(CloseCode::BadFrame.into()),
        }
        Ok(())
    }
}

impl Session for Line {
    fn receive(
        &mut self,
        _: Now,
        input: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        let mut consumed = 0;
        while !self.waiting && !context.is_finished() {
            let rest = input.get(consumed..).unwrap_or_default();
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                return Ok(Progress { consumed, need: rest.len() + 1 });
            };
            if self.greeted {
                self.line(rest.get(..end).unwrap_or_default(), context)?;
            }
            self.greeted = true;
            consumed += end + 1;
        }
        Ok(Progress { consumed, need: 0 })
    }

    fn reply(&mut self, _: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close> {
        match reply {
            Reply::LoggedIn { .. } => {
                self.waiting = false;
                self.established = true;
                context.output.frame(b"OK\n", true);
            }
            Reply::Confirmed(confirm) => {
                context.output.frame(format!("S {}\n", confirm.to).as_bytes(), true);
            }
            Reply::Recovered { .. }
            | Reply::Reached { .. }
            | Reply::ReachedUpstream { .. }
            | Reply::Upstream(_)
            | Reply::ExchangeEnded { .. }
            | Reply::ExchangeCredit { .. }
            | Reply::Browsed { .. }
            | Reply::Joined { .. }
            | Reply::Left { .. } => {}
            Reply::Operated { result, .. } => {
                let text = match *result {
                    OperationResult::Drain(status) => status.phase.as_str().to_owned(),
                    OperationResult::Sessions(page) => {
                        let (listed, matched) = (page.sessions.len(), page.matched);
                        format!("{listed} of {matched}")
                    }
                    OperationResult::Kicked { sessions, .. } => format!("kicked {sessions}"),
                    _ => return Ok(()),
                };
                context.output.frame(format!("{text}\n").as_bytes(), true);
            }
            Reply::Refused { close, .. } | Reply::SubscriptionEnded { close, .. } => {
                return Err(close);
            }
        }
        Ok(())
    }

    fn deliver(&mut self, _: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        for message in (delivery.from..delivery.to).filter_map(|at| delivery.run.run().message(at))
        {
            let line = [b"M ", message.body, b"\n"].concat();
            output.frame(&line, true);
        }
    }

    fn deadline(&self) -> Time {
        Time::NEVER
    }

    fn expire(&mut self, _: Now, _: &mut Context<'_>) -> Result<(), Close> {
        Ok(())
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        output.frame(format!("BYE {}\n", close.code.slug()).as_bytes(), true);
    }

    fn is_established(&self) -> bool {
        self.established
    }
}

fn operate(operation: Operation, context: &mut Context<'_>) {
    let operation = Box::new(operation);
    context.commands.push(Command::Operate { token: 1, operation });
}

fn topic(name: &str) -> Result<Destination, Close> {
    let path = Path::parse(name).map_err(|_| Close::from(CloseCode::BadDestination))?;
    Ok(Destination { kind: Kind::Topic, path })
}

/// The echo protocol.
pub fn echo_protocol() -> Protocol {
    let open: Arc<Open> = Arc::new(|_: &Opening<'_>| Box::new(Echo { greeted: false }));
    Protocol {
        name: "echo",
        detect: |bytes| begins(bytes, GREETING),
        subprotocols: &["echo"],
        websocket_paths: Arc::from(["/echo".to_string()]),
        stream_paths: Arc::from(["/echo-stream".to_string()]),
        http: None,
        open,
    }
}

/// The line protocol, over streams alone.
pub fn line_protocol() -> Protocol {
    let line = || Line { greeted: false, waiting: false, established: false, subscriptions: 0 };
    Protocol {
        name: "line",
        detect: |bytes| begins(bytes, b"LINE\n"),
        subprotocols: &[],
        websocket_paths: Arc::from([]),
        stream_paths: Arc::from([]),
        http: None,
        open: Arc::new(move |_: &Opening<'_>| Box::new(line())),
    }
}

fn begins(bytes: &[u8], mark: &[u8]) -> Detect {
    if bytes.starts_with(mark) {
        Detect::Yes
    } else if mark.starts_with(bytes) {
        Detect::More
    } else {
        Detect::No
    }
}
