//! `tiderace respond`: answer the calls of a service, each by a run of a command.
//!
//! Relies on `client` and `jobs`. Invariants: at most so many commands run at a time, and more calls are not
//! under way; a call that ends, or a connection that is lost, ends the commands that would answer it.

use std::time::Duration;

use clap::{ArgGroup, Args};
use tiderace_client::{Prefetch, SubscribeOptions};
use tiderace_topics::Path;

use super::client::{Client, Exchange, Message};
use super::connection::ConnectionArgs;
use super::error::ClientError;
use super::jobs::{Jobs, Outcome};
use super::output::note;
use super::publish::{described, duration};

/// `tiderace respond`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("answer").required(true).args(["echo", "body", "command"]))]
pub(crate) struct RespondArgs {
    /// The service, such as prices/quote, or a pattern (quote wildcards).
    service: String,
    /// Answer with what was asked.
    #[arg(long)]
    echo: bool,
    /// Answer with this.
    #[arg(long, value_name = "BODY")]
    body: Option<String>,
    /// Commands that run at a time; further calls wait at the server.
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: u16,
    /// End a command that takes longer, such as 5s; the call fails then.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    timeout: Duration,
    /// Exit after that many calls.
    #[arg(short = 'C', long, visible_short_alias = 'n', value_name = "N")]
    count: Option<u64>,
    /// What answers are, such as text/plain. Without it: JSON if they are JSON.
    #[arg(short = 't', long = "type", value_name = "CONTENT-TYPE")]
    content_type: Option<String>,
    /// End when the connection is lost, instead of connecting again.
    #[arg(long)]
    no_reconnect: bool,
    /// Run this for each call: it reads what was asked from its standard input, and what it prints is the answer.
    /// Its environment has TIDERACE_SERVICE, the path that was called.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Answers until the count is reached.
pub(crate) fn run(args: &RespondArgs) -> anyhow::Result<()> {
    let mut client = args.connection.connect()?;
    let options = SubscribeOptions::serve(&args.service);
    let options = options.prefetch(Prefetch { messages: args.jobs.into(), bytes: 0 });
    let is_path = Path::parse(&args.service).is_ok();
    client.subscribe(if is_path { options } else { options.pattern() })?;
    note(&format!("answers calls of {}", args.service));
    let jobs = Jobs::new(args.command.clone(), args.timeout);
    let mut responder = Responder { args, client, jobs, answered: 0 };
    while args.count.is_none_or(|count| responder.answered < count) {
        match responder.turn() {
            Err(lost) if lost.is_lost() && !args.no_reconnect => {
                responder.jobs.end_all();
                responder.client.reconnect(lost, None)?;
            }
            other => other?,
        }
    }
    Ok(responder.client.leave()?)
}

struct Responder<'a> {
    args: &'a RespondArgs,
    client: Client,
    jobs: Jobs,
    answered: u64,
}

impl Responder<'_> {
    /// Answers a call whose command has ended, or else takes in a call or what was said of one.
    fn turn(&mut self) -> Result<(), ClientError> {
        if let Some((number, outcome)) = self.jobs.finished() {
            return self.finish(number, outcome);
        }
        // A command that ends cannot wake who waits for a connection.
        let timeout = (!self.jobs.is_empty()).then_some(LOOK_INTERVAL);
        match self.client.next_exchange(timeout)? {
            Some(Exchange::Said { number, service: Some(service), message, .. }) => {
                self.called(number, &service, message.unwrap_or_default())
            }
            Some(Exchange::Ended { number, .. }) => {
                self.jobs.end(number);
                Ok(())
            }
            // What callers add to what they have asked is not for a command that has begun.
            Some(Exchange::Said { .. }) | None => Ok(()),
        }
    }

    fn called(&mut self, number: u32, service: &str, message: Message) -> Result<(), ClientError> {
        if self.args.echo {
            let told = message.properties.iter().find(|(name, _)| name == "content-type");
            let told = told.map(|(_, value)| value.clone());
            return self.answer(number, &message.body, told.as_deref());
        }
        match &self.args.body {
            Some(body) => self.answer(number, body.as_bytes(), None),
            None => match self.jobs.start(number, service, message.body) {
                Ok(()) => Ok(()),
                Err(problem) => self.finish(number, Err(problem)),
            },
        }
    }

    fn finish(&mut self, number: u32, outcome: Outcome) -> Result<(), ClientError> {
        match outcome {
            Ok(body) => self.answer(number, &body, None),
            Err(problem) => {
                note(&format!("a call failed: {problem}"));
                self.answered += 1;
                self.client.cancel(true, number, &problem)
            }
        }
    }

    fn answer(&mut self, number: u32, body: &[u8], told: Option<&str>) -> Result<(), ClientError> {
        let told = self.args.content_type.as_deref().or(told);
        let (content, block) = described(&[], told, body);
        self.answered += 1;
        self.client.answer(number, content.bits(), &block, body)
    }
}

/// How often it is looked whether a command has ended, while any runs.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
