//! From the login to the commands: names are resolved, keys claimed, and the broker is asked.
//!
//! Invariant: a request that cannot be done as asked is refused before anything is published.

use std::net::IpAddr;

use tiderace_base::limits::SELECTOR_MEMBERS_MAX;
use tiderace_base::{CloseCode, Now};
use tiderace_topics::Path;
use tiderace_wire::{
    Call, Command, Context, Destination, ExchangeKey, Operation, Reading, Response, Run,
    RunBuilder, Subscribe, SubscriptionKey, Target, Token,
};

use super::job::Job;
use super::stream::Stream;
use super::value::{List, Value};
use crate::answer::{Fault, HttpFault, json};
use crate::batch::{Item, Outcome};
use crate::encode::Form;
use crate::idempotency::Claim;
use crate::options::EventsOptions;
use crate::publication::Publication;
use crate::request::{Since, Task, Who};

/// Who begins what is asked for, and where.
pub(super) struct Start<'a> {
    pub(super) now: Now,
    pub(super) who: Who<'a>,
    pub(super) options: &'a EventsOptions,
    /// The node's present life.
    pub(super) epoch: u64,
    /// Where the client is.
    pub(super) peer: IpAddr,
}

impl Start<'_> {
    /// Takes an idempotency key, or says what to answer instead. There is none to take if the server keeps none.
    pub(super) fn claim(&self, key: &str, request: u64) -> Result<Option<String>, Response> {
        let Some(table) = &self.options.idempotency else {
            return Ok(None);
        };
        // Clients without a name share one: their addresses keep them apart.
        let mut key = if self.who.anonymous {
            format!("{}\n{key}", self.peer)
        } else {
            format!("{}\n\n{key}", self.who.name)
        };
        // The host that it was admitted to: what it calls the server is up to each request.
        if let Some(host) = self.who.host {
            key.extend(["\n", host]);
        }
        match table.claim(self.now.time, &key, request) {
            Claim::Fresh => Ok(Some(key)),
            Claim::Answered(response) => Err(response.with("Idempotency-Replayed", "true")),
            Claim::Pending => {
                let text = "a request with this idempotency key is being done; ask again";
                Err(Fault::of_http(HttpFault::InProgress, text).response())
            }
            Claim::Taken => {
                let text = "this idempotency key was used for another request";
                Err(Fault::of_http(HttpFault::KeyReused, text).response())
            }
        }
    }

    /// Asks the broker for a task, or says why it cannot be done.
    pub(super) fn job(&self, task: Task, context: &mut Context<'_>) -> Result<Job, Fault> {
        let (now, who) = (self.now, self.who);
        match task {
            Task::Value { name, known, wanted } => {
                let target = Target::Exact(topic(who.path(&name)?));
                ask(vec![target], context);
                Ok(Job::Value(Value::new(known, wanted)))
            }
            Task::List { pattern: name, limit } => {
                ask(targets(&[name], who, SELECTOR_MEMBERS_MAX)?, context);
                Ok(Job::List(List::new(limit, self.options.lists.clone())))
            }
            Task::Publish { message, removes } => {
                publish(now, who, message, 0, context)?;
                Ok(Job::Publish(if removes {
                    Response { status: 204, ..Response::default() }
                } else {
                    json(200, b"{\"accepted\":1}\n".to_vec())
                }))
            }
            Task::Batch { items } => Ok(Job::Batch(publish_all(now, who, items, context))),
            Task::Call { name, properties, body, timeout } => {
                let service = who.path(&name)?;
                let number = CALL.number;
                context.commands.push(Command::Call(Box::new(Call {
                    number,
                    service,
                    properties,
                    body,
                    last: true,
                    timeout,
                    credit: Some(1),
                    traced: None,
                })));
                Ok(Job::Call(None))
            }
            Task::Operate(operating) => {
                let of_one_session = operating.of_one_session;
                let (text, body) = operating.finish(self.epoch);
                let operation = operation(now, who, &text, body.as_deref())?;
                let operation = Box::new(operation);
                context.commands.push(Command::Operate { token: ONLY, operation });
                Ok(Job::Operate { of_one_session })
            }
            Task::Listen { names, since, form, options, is_head } => {
                let targets = targets(&names, who, self.options.topics_max)?;
                let exact = matches!(&*targets, [Target::Exact(_)]);
                let form = form.unwrap_or(if exact { Form::Plain } else { Form::Object });
                let lost = since == Since::Unknown;
                let since = match since {
                    Since::Position(position) => Some(position),
                    Since::Beginning | Since::Unknown => None,
                };
                context.commands.push(Command::Subscribe(Box::new(Subscribe {
                    confirm: Some(ONLY),
                    recoverable: true,
                    since: since.clone(),
                    replay: options.replay,
                    interval: options.interval,
                    notices: options.notices,
                    ..Subscribe::new(SubscriptionKey(0), targets)
                })));
                Ok(Job::Listen(Box::new(Stream::new(form, self.epoch, since, lost, is_head))))
            }
        }
    }
}

/// An operation in the names of the client that asks for it.
fn operation(now: Now, who: Who<'_>, text: &[u8], body: Option<&[u8]>) -> Result<Operation, Fault> {
    let reading = Reading {
        body,
        now: now.time,
        path: &|name| who.path(name),
        selector: &|name| Ok(who.selector(name)?.into_iter().collect()),
    };
    Operation::parse(text, &reading).map_err(Fault::from)
}

/// Subscribes for the sake of the retained values alone.
fn ask(targets: Vec<Target>, context: &mut Context<'_>) {
    context.commands.push(Command::Subscribe(Box::new(Subscribe {
        confirm: Some(ONLY),
        confirm_values: true,
        ..Subscribe::new(SubscriptionKey(0), targets)
    })));
}

fn publish(
    now: Now,
    who: Who<'_>,
    mut message: Publication,
    token: Token,
    context: &mut Context<'_>,
) -> Result<(), Fault> {
    let destination = Destination { kind: message.kind, path: who.path(&message.name)? };
    let meta = message.seal(now)?;
    // A run of its own, so that a refusal says which message it is about.
    let run = match message.file {
        Some(file) => {
            let mut run = RunBuilder::new(destination, now.time);
            run.properties().append(&mut message.properties);
            run.finish_in_file(file, meta);
            run.build()
        }
        None => Run::single(destination, now.time, &message.properties, &message.body, meta),
    };
    context.commands.push(Command::Publish {
        run,
        confirm: Some(tiderace_wire::Confirm::one(token)),
        confirm_first: true,
    });
    Ok(())
}

fn publish_all(
    now: Now,
    who: Who<'_>,
    items: Vec<Item>,
    context: &mut Context<'_>,
) -> Vec<Outcome> {
    let publish = |(item, token): (Item, Token)| match item
        .and_then(|message| publish(now, who, message, token, context))
    {
        Ok(()) => Outcome::Waiting,
        Err(fault) => Outcome::Refused(fault),
    };
    items.into_iter().zip(0..).map(publish).collect()
}

fn topic(path: Path) -> Destination {
    Destination { kind: tiderace_wire::Kind::Topic, path }
}

/// The targets of a stream or list, each once; those that overlap bring each message once.
fn targets(names: &[String], who: Who<'_>, most: usize) -> Result<Vec<Target>, Fault> {
    let mut kept: Vec<Target> = Vec::new();
    for name in names {
        for target in Target::of(tiderace_wire::Kind::Topic, who.selector(name)?) {
            if kept.contains(&target) {
                continue;
            }
            if kept.len() == most {
                let text = format!(
                    "one stream has at most {most} topics, those of sets counted; use patterns"
                );
                return Err(Fault::new(CloseCode::TooManySubscriptions, text));
            }
            kept.push(target);
        }
    }
    Ok(kept)
}

/// The token of the only question a session asks, batches aside.
const ONLY: Token = 0;
/// The only exchange of a session.
const CALL: ExchangeKey = ExchangeKey { side: tiderace_wire::Side::Caller, number: 1 };
