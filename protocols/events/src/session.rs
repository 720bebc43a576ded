//! The session of one request: login, the work it asks for, one answer or a stream.
//!
//! ```text
//!           request               LoggedIn             Confirmed, delivered
//!   Fresh ─────────▶ LoggingIn ───────────▶ Working ───────────────────────▶ Over
//!     │ head           ▲  │ Refused           │ a stream was allowed
//!     ▼                │  └─▶ 401, Over       └─▶ Streaming ─▶ end
//!   Judging ─▶ Admitted ─ request
//! ```
//! Relies on `request` for what is asked. Invariants: `respond` or `answer` speaks once and then the
//! session only waits for its end; a claimed idempotency key is settled whatever happens after.

mod start;
mod stream;
mod value;

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_value::append_text;
use tiderace_wire::{
    Answer, Command, Confirm, Context, Delivery, Held, Opening, OperationResult, Output, Progress,
    Reply, Request, Response, Session, Token,
};

use crate::answer::{Fault, HttpFault, json, share};
use crate::batch::{self, Outcome};
use crate::credentials::credentials;
use crate::options::EventsOptions;
use crate::request::{self, PendingRequest, Task, Who};
use crate::route::origin;
use stream::Stream;
use value::{List, Value};

/// One request's way through the server.
pub(crate) struct EventsSession {
    options: Arc<EventsOptions>,
    stage: Stage,
    deadline: Time,
    epoch: u64,
    peer: std::net::SocketAddr,
}

/// Where it stands.
enum Stage {
    /// The request is still to come.
    Fresh,
    /// The same, and the broker is looking at the credentials of its head.
    Judging { origin: Option<Box<str>> },
    /// The same, and the client is this one.
    Admitted { name: Box<str>, anonymous: bool },
    /// The broker is looking at the credentials.
    LoggingIn(Box<PendingRequest>),
    /// Something is asked of the broker.
    Working(Box<Work>),
    /// The connection is ours.
    Streaming(Box<Stream>),
    /// The answer is given.
    Over,
}

/// What is being done for whom.
struct Work {
    origin: Option<Box<str>>,
    /// The claimed idempotency key.
    claimed: Option<String>,
    job: Job,
}

/// What is being done.
enum Job {
    /// A retained value is looked for.
    Value(Value),
    /// Retained values are collected.
    List(List),
    /// A message is published; this is the answer when that is confirmed.
    Publish(Response),
    /// The items of a batch are published.
    Batch(Vec<Outcome>),
    /// Something is done with topics.
    Operate,
    /// A service is called; the answer, once it came.
    Call(Option<Response>),
    /// A subscription for a stream is made.
    Listen(Box<Stream>),
}

impl EventsSession {
    /// Begins with the request still to come.
    pub(crate) fn new(options: Arc<EventsOptions>, opening: &Opening<'_>) -> EventsSession {
        EventsSession {
            deadline: opening.now.time + options.request_timeout,
            options,
            stage: Stage::Fresh,
            epoch: opening.epoch,
            peer: opening.peer,
        }
    }

    /// Gives the answer and asks for the end.
    fn respond(&mut self, now: Now, response: Response, context: &mut Context<'_>) {
        context.respond(self.conclude(now, response));
        context.finish(CloseCode::Done);
    }

    /// The answer as it goes out; the session is over.
    fn conclude(&mut self, now: Now, response: Response) -> Response {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        self.deadline = now.time;
        let (origin, claimed) = match stage {
            Stage::LoggingIn(pending) => (pending.origin, None),
            Stage::Working(work) => (work.origin, work.claimed),
            Stage::Judging { origin } => (origin, None),
            Stage::Fresh | Stage::Admitted { .. } | Stage::Streaming(_) | Stage::Over => {
                (None, None)
            }
        };
        if let (Some(table), Some(key)) = (&self.options.idempotency, claimed) {
            let done = (200..300).contains(&response.status);
            table.settle(now.time, &key, done.then_some(&response));
        }
        share(response, origin.as_deref())
    }

    /// A topic has come to the stream or left it.
    fn notice(
        &mut self,
        now: Now,
        event: &str,
        topic: &str,
        more: Option<(&[u8], Vec<u8>)>,
        context: &mut Context<'_>,
    ) {
        let mut members = b"\"topic\":".to_vec();
        append_text(&mut members, topic);
        if let Some((name, value)) = more {
            members.push(b',');
            members.extend_from_slice(name);
            members.extend_from_slice(&value);
        }
        match &mut self.stage {
            Stage::Streaming(stream) => stream.notice(event, &members, &mut context.output),
            Stage::Working(work) => {
                if let Job::Listen(stream) = &mut work.job
                    && stream.early_notice(event, &members)
                {
                    self.stream(now, false, context);
                }
            }
            _ => {}
        }
    }

    fn job(&mut self) -> Option<&mut Job> {
        match &mut self.stage {
            Stage::Working(work) => Some(&mut work.job),
            _ => None,
        }
    }

    /// These are done.
    fn confirmed(&mut self, now: Now, confirm: Confirm, context: &mut Context<'_>) {
        if let Stage::Streaming(stream) = &mut self.stage {
            return stream.ready(&mut context.output);
        }
        let response = match self.job() {
            Some(Job::Value(value)) => {
                value.confirmed = true;
                None
            }
            Some(Job::List(list)) => {
                list.confirmed = true;
                None
            }
            Some(Job::Publish(response)) => Some(std::mem::take(response)),
            Some(Job::Batch(outcomes)) => {
                settle(outcomes, confirm, &Outcome::Accepted);
                batch_answer(outcomes)
            }
            Some(Job::Listen(_)) => return self.stream(now, true, context),
            Some(Job::Call(_) | Job::Operate) | None => None,
        };
        if let Some(response) = response {
            self.respond(now, response, context);
        }
    }

    fn refused(&mut self, now: Now, token: Option<Token>, close: Close, context: &mut Context<'_>) {
        let fault = Fault::from(close);
        if let Some(Job::Batch(outcomes)) = self.job() {
            let all = Confirm { from: 0, to: Token::MAX };
            let blamed = token.map_or(all, Confirm::one);
            settle(outcomes, blamed, &Outcome::Refused(fault));
            if let Some(response) = batch_answer(outcomes) {
                self.respond(now, response, context);
            }
            return;
        }
        if !matches!(self.stage, Stage::Streaming(_) | Stage::Over) {
            self.respond(now, fault.response(), context);
        }
    }
}

impl Session for EventsSession {
    fn receive(
        &mut self,
        _now: Now,
        input: &[u8],
        _context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        // Whatever follows the request of a stream is not answered any more.
        Ok(Progress { consumed: input.len(), need: 0 })
    }

    fn request(
        &mut self,
        now: Now,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<Answer, Close> {
        let admitted = match &mut self.stage {
            Stage::Fresh => None,
            Stage::Admitted { name, anonymous } => Some((std::mem::take(name), *anonymous)),
            _ => return Err(CloseCode::UnexpectedFrame.into()),
        };
        match request::read(&self.options, request) {
            Ok(mut pending) => {
                let credentials = std::mem::take(&mut pending.credentials);
                let held = pending.task.wants_deliveries();
                if let Task::Call { timeout, .. } = &pending.task {
                    self.deadline = now.time + *timeout + self.options.request_timeout;
                }
                let answer = if held { Answer::Hold(Held::default()) } else { Answer::Later };
                if let Some((name, anonymous)) = admitted {
                    self.stage = Stage::LoggingIn(Box::new(pending));
                    self.begin(now, Who { name: &name, anonymous }, context);
                    return Ok(context.actions.take_response().map_or(answer, Answer::Respond));
                }
                self.stage = Stage::LoggingIn(Box::new(pending));
                context.commands.push(Command::Login(credentials));
                Ok(answer)
            }
            Err(fault) => {
                self.stage = Stage::Over;
                context.finish(CloseCode::Done);
                Ok(Answer::Respond(share(fault.response(), origin(request))))
            }
        }
    }

    fn head(
        &mut self,
        _now: Now,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<bool, Close> {
        match credentials(request) {
            Ok(credentials) => {
                let origin = origin(request).map(Into::into);
                self.stage = Stage::Judging { origin };
                context.commands.push(Command::Login(credentials));
                Ok(true)
            }
            Err(fault) => {
                self.stage = Stage::Over;
                context.respond(share(fault.response(), origin(request)));
                context.finish(CloseCode::Done);
                Ok(true)
            }
        }
    }

    fn abandoned(&mut self, _now: Now, _context: &mut Context<'_>) -> Result<(), Close> {
        match &self.stage {
            // The client will come back with its key to hear what became of it.
            Stage::Working(work) if work.claimed.is_some() => Ok(()),
            _ => Err(CloseCode::PeerGone.into()),
        }
    }

    fn reply(&mut self, now: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close> {
        match reply {
            Reply::LoggedIn { name, anonymous } => match self.stage {
                Stage::Judging { .. } => {
                    self.stage = Stage::Admitted { name: (&*name).into(), anonymous };
                }
                _ => self.begin(now, Who { name: &name, anonymous }, context),
            },
            Reply::Confirmed(confirm) => self.confirmed(now, confirm, context),
            Reply::Recovered { complete, .. } => {
                if let Stage::Streaming(stream) = &mut self.stage {
                    stream.recovered(complete);
                } else if let Some(Job::Listen(stream)) = self.job() {
                    stream.recovered(complete);
                }
            }
            Reply::Reached { home, sequence } => match &mut self.stage {
                Stage::Streaming(stream) => stream.reached(home, sequence),
                Stage::Working(work) => {
                    if let Job::Listen(stream) = &mut work.job {
                        stream.reached(home, sequence);
                    }
                }
                _ => {}
            },
            Reply::Operated { result, .. } => {
                if let Some(Job::Operate) = self.job() {
                    let response = operated(&result);
                    self.respond(now, response, context);
                }
            }
            Reply::Joined { path, spec, .. } => {
                let spec = Some((&b"\"spec\":"[..], spec.to_json()));
                self.notice(now, "joined", path.as_str(), spec, context);
            }
            Reply::Left { path, reason, .. } => {
                let mut text = Vec::new();
                append_text(&mut text, reason.name());
                let reason = Some((&b"\"reason\":"[..], text));
                self.notice(now, "left", path.as_str(), reason, context);
            }
            Reply::ExchangeEnded { close, .. } => {
                if let Some(Job::Call(None)) = self.job() {
                    let response = Fault::from(close).response();
                    self.respond(now, response, context);
                }
            }
            // It does not serve.
            Reply::ExchangeCredit { .. } => {}
            Reply::Refused { token, close } => self.refused(now, token, close, context),
        }
        Ok(())
    }

    fn deliver(&mut self, _now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        match &mut self.stage {
            Stage::Streaming(stream) => stream.deliver(delivery, output),
            Stage::Working(work) => match &mut work.job {
                Job::Value(value) => value.deliver(delivery),
                Job::List(list) => list.deliver(delivery),
                Job::Call(answer @ None) if delivery.exchange.is_some() => {
                    *answer = value::service_answer(delivery);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn flush(&mut self, now: Now, output: &mut Output<'_>) {
        if let Stage::Streaming(stream) = &mut self.stage
            && stream.flush(output)
        {
            self.deadline = now.time + self.options.heart_beat;
        }
    }

    fn answer(&mut self, now: Now) -> Option<Response> {
        let epoch = self.epoch;
        let response = match self.job()? {
            Job::Value(value) => value.answer(epoch)?,
            Job::List(list) => list.answer()?,
            Job::Call(answer) => answer.take()?,
            Job::Publish(_) | Job::Batch(_) | Job::Listen(_) | Job::Operate => return None,
        };
        Some(self.conclude(now, response))
    }

    fn deadline(&self) -> Time {
        self.deadline
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if now.time < self.deadline {
            return Ok(());
        }
        match &mut self.stage {
            Stage::Streaming(stream) => {
                stream.heart_beat(&mut context.output);
                self.deadline = now.time + self.options.heart_beat;
            }
            Stage::Over => context.finish(CloseCode::Done),
            Stage::Fresh
            | Stage::Judging { .. }
            | Stage::Admitted { .. }
            | Stage::LoggingIn(..)
            | Stage::Working(_) => {
                if let Stage::Working(work) = &mut self.stage {
                    // It may be done yet: its key stays taken, so that it is not done twice.
                    work.claimed = None;
                }
                let fault =
                    Fault::of_http(HttpFault::Timeout, "it was not done in time; it may be yet");
                self.respond(now, fault.response(), context);
            }
        }
        Ok(())
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        if let Stage::Streaming(stream) = &mut self.stage {
            stream.goodbye(close, output);
        }
    }

    fn is_established(&self) -> bool {
        !matches!(self.stage, Stage::Fresh | Stage::Judging { .. } | Stage::LoggingIn(..))
    }
}

/// What came of an operation, as an answer.
fn operated(result: &OperationResult) -> Response {
    let mut body = Vec::new();
    result.write_json(&mut body, true);
    body.push(b'\n');
    json(200, body)
}

fn settle(outcomes: &mut [Outcome], tokens: Confirm, outcome: &Outcome) {
    for (place, token) in outcomes.iter_mut().zip(0..) {
        if *place == Outcome::Waiting && (tokens.from..=tokens.to).contains(&token) {
            *place = outcome.clone();
        }
    }
}

/// The answer to a batch all of whose items are settled.
fn batch_answer(outcomes: &[Outcome]) -> Option<Response> {
    if outcomes.contains(&Outcome::Waiting) {
        return None;
    }
    Some(json(200, batch::results(outcomes)))
}
