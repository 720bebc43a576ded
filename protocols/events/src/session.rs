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

mod job;
mod start;
mod stream;
mod value;

use std::sync::Arc;

use tiderace_base::limits::COPIED_BODY_BYTES_MAX;
use tiderace_base::{Close, CloseCode, Now, Span, Time};
use tiderace_value::append_text;
use tiderace_wire::{
    Answer, Command, Confirm, Context, Delivery, Held, Numbering, Opening, Output, Progress, Reply,
    Request, Response, Session, Token,
};

use crate::answer::{Fault, HttpFault, share};
use crate::credentials::credentials;
use crate::options::EventsOptions;
use crate::request::{self, PendingRequest, Task, Who};
use crate::route::origin;
use job::Job;
use start::Start;
use stream::Stream;

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
    Admitted { name: Box<str>, anonymous: bool, host: Option<Arc<str>> },
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

    /// The client is who it says: begins the work.
    fn begin(&mut self, now: Now, who: Who<'_>, context: &mut Context<'_>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let Stage::LoggingIn(pending) = stage else {
            self.stage = stage;
            return;
        };
        let PendingRequest { origin, key, task, .. } = *pending;
        let timeout = match &task {
            Task::Call { timeout, .. } => *timeout,
            _ => Span::ZERO,
        };
        self.deadline = now.time + timeout + self.options.request_timeout;
        let start =
            Start { now, who, options: &self.options, epoch: self.epoch, peer: self.peer.ip() };
        let mut claimed = None;
        let free = key.map_or(Ok(None), |(key, request)| start.claim(&key, request));
        let begun = free.and_then(|key| {
            claimed = key;
            start.job(task, context).map_err(|fault| fault.response())
        });
        let (job, answer) = match begun {
            // Of a batch all may be refused before anything is asked.
            Ok(job) => {
                let answer = job.settled();
                (job, answer)
            }
            Err(response) => (Job::Publish(Response::default()), Some(response)),
        };
        self.stage = Stage::Working(Box::new(Work { origin, claimed, job }));
        if let Some(response) = answer {
            self.respond(now, response, context);
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
                let stream = work.job.stream();
                if stream.is_some_and(|stream| stream.early_notice(event, &members)) {
                    self.begin_stream(now, false, context);
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

    /// The stream, whether it has begun or its subscription is being made.
    fn stream(&mut self) -> Option<&mut Stream> {
        match &mut self.stage {
            Stage::Streaming(stream) => Some(stream),
            Stage::Working(work) => work.job.stream(),
            _ => None,
        }
    }

    /// The subscription is made, or so much is to be said before that the client has to take it: the answer
    /// becomes a stream.
    fn begin_stream(&mut self, now: Now, is_ready: bool, context: &mut Context<'_>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let Stage::Working(work) = stage else {
            self.stage = stage;
            return;
        };
        let Job::Listen(mut stream) = work.job else { return };
        let response = stream.head(&self.options, is_ready);
        context.respond_with_stream(share(response, work.origin.as_deref()));
        if stream.is_head() {
            // Its head was all that was asked for.
            self.deadline = now.time;
            context.finish(CloseCode::Done);
            return;
        }
        self.deadline = now.time + self.options.heart_beat;
        self.stage = Stage::Streaming(stream);
    }

    /// These are done.
    fn confirmed(&mut self, now: Now, confirm: Confirm, context: &mut Context<'_>) {
        match &mut self.stage {
            Stage::Streaming(stream) => stream.ready(&mut context.output),
            Stage::Working(work) => match &mut work.job {
                Job::Listen(_) => self.begin_stream(now, true, context),
                job => {
                    if let Some(response) = job.confirmed(confirm) {
                        self.respond(now, response, context);
                    }
                }
            },
            _ => {}
        }
    }

    fn refused(&mut self, now: Now, token: Option<Token>, close: Close, context: &mut Context<'_>) {
        let fault = Fault::from(close);
        let response = match &mut self.stage {
            Stage::Streaming(_) | Stage::Over => None,
            Stage::Working(work) => work.job.refused(token, fault),
            Stage::Fresh
            | Stage::Judging { .. }
            | Stage::Admitted { .. }
            | Stage::LoggingIn(..) => Some(fault.response()),
        };
        if let Some(response) = response {
            self.respond(now, response, context);
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
            Stage::Admitted { name, anonymous, host } => {
                Some((std::mem::take(name), *anonymous, host.take()))
            }
            _ => return Err(CloseCode::UnexpectedFrame.into()),
        };
        let file = context.commands.part_in_file(request.body);
        match request::read(&self.options, request, file) {
            Ok(mut pending) => {
                let credentials = std::mem::take(&mut pending.credentials);
                let held = pending.task.wants_deliveries();
                if let Task::Call { timeout, .. } = &pending.task {
                    self.deadline = now.time + *timeout + self.options.request_timeout;
                }
                let answer = if held { Answer::Hold(Held::default()) } else { Answer::Later };
                if let Some((name, anonymous, host)) = admitted {
                    self.stage = Stage::LoggingIn(Box::new(pending));
                    let host = host.as_deref();
                    self.begin(now, Who { name: &name, anonymous, host }, context);
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
            Reply::LoggedIn { name, anonymous, host } => match self.stage {
                Stage::Judging { .. } => {
                    self.stage = Stage::Admitted { name: (&*name).into(), anonymous, host };
                }
                _ => {
                    let host = host.as_deref();
                    self.begin(now, Who { name: &name, anonymous, host }, context);
                }
            },
            Reply::Confirmed(confirm) => self.confirmed(now, confirm, context),
            Reply::Recovered { complete, .. } => {
                if let Some(stream) = self.stream() {
                    stream.recovered(complete);
                }
            }
            Reply::Reached { home, sequence } => {
                if let Some(stream) = self.stream() {
                    stream.reached(Numbering::new(stream.epoch(), home), sequence);
                }
            }
            Reply::ReachedUpstream { numbering, sequence } => {
                if let Some(stream) = self.stream() {
                    stream.reached(numbering, sequence);
                }
            }
            Reply::Operated { result, .. } => {
                if let Some(response) = self.job().and_then(|job| job.operated(&result)) {
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
                if let Some(response) = self.job().and_then(|job| job.exchange_ended(close)) {
                    self.respond(now, response, context);
                }
            }
            // It neither serves nor browses.
            Reply::ExchangeCredit { .. } | Reply::Browsed { .. } | Reply::Upstream(_) => {}
            // A stream is its one subscription; its last event says why it ends.
            Reply::SubscriptionEnded { close, .. } => match self.stage {
                Stage::Streaming(_) => return Err(close),
                _ => self.refused(now, None, close, context),
            },
            Reply::Refused { token, close } => self.refused(now, token, close, context),
        }
        Ok(())
    }

    fn deliver(&mut self, _now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        match &mut self.stage {
            Stage::Streaming(stream) => stream.deliver(delivery, output),
            Stage::Working(work) => work.job.deliver(delivery),
            _ => {}
        }
    }

    fn takes_body(&self, bytes: usize) -> bool {
        // An answer with one value is sent from where the value is; streams and lists copy what they hold.
        let is_value =
            matches!(&self.stage, Stage::Working(work) if matches!(work.job, Job::Value(_)));
        is_value || bytes <= COPIED_BODY_BYTES_MAX
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
        let response = self.job()?.answer(epoch)?;
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
