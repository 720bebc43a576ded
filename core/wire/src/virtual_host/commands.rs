//! What a session of a virtual host asks for, as the server calls it.
//!
//! Relies on [`Root`] for names. Invariant: of every command and operation all names are looked at; one that concerns
//! more than the host is refused.

use tiderace_base::Close;
use tiderace_topics::Pattern;

use super::{Root, VirtualHosts};
use crate::{Browsable, Browse, Command, Condition, Destination, Kind, Operation, Run, Target};

impl VirtualHosts {
    /// Whether the names that a command of somebody who sees the whole tree gives to something are such as hosts have
    /// there; see [`VirtualHosts::check_whole`].
    ///
    /// # Errors
    /// Says which is not.
    pub fn check_command(&self, command: &Command) -> Result<(), Close> {
        let run = |run: &Run| self.check_whole(run.destination().kind, &run.destination().path);
        match command {
            Command::Publish { run: published, .. } => run(published),
            Command::Call(call) => self.check_whole(Kind::Service, &call.service),
            Command::Subscribe(subscribe) => {
                subscribe.targets.iter().try_for_each(|target| match target {
                    Target::Exact(Destination { kind, path }) => self.check_whole(*kind, path),
                    Target::Pattern(..) => Ok(()),
                })
            }
            Command::Operate { operation, .. } => match &**operation {
                Operation::Create { path, .. } => self.check_whole(Kind::Topic, path),
                Operation::Update(update) => self.check_whole(Kind::Topic, &update.path),
                Operation::Lock { name, .. } => self.check_whole(Kind::Topic, name),
                Operation::PauseQueue { path, .. } => self.check_whole(Kind::Queue, path),
                Operation::Move(asked) => {
                    asked.to.iter().try_for_each(|to| self.check_whole(Kind::Queue, to))
                }
                Operation::CreateSubscription(about) => self.check_whole(Kind::Queue, &about.queue),
                Operation::Will(Some(will)) => run(will),
                // What is there has such a name, and nothing else is found.
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl Root {
    /// Puts the root before the names in a command.
    ///
    /// # Errors
    /// When a name would be too long or too deep, or what is asked concerns more than the host.
    pub fn enter(&self, command: &mut Command) -> Result<(), Close> {
        match command {
            Command::Publish { run, .. } => self.enter_run(run),
            Command::Subscribe(subscribe) => {
                subscribe.targets.iter_mut().try_for_each(|target| self.enter_target(target))
            }
            Command::Call(call) => {
                call.service = self.path(Kind::Service, &call.service)?;
                Ok(())
            }
            Command::Operate { operation, .. } => self.enter_operation(operation),
            Command::Login(_)
            | Command::Settle(_)
            | Command::Together(_)
            | Command::ActAs(_)
            | Command::SendExchange(_)
            | Command::Cancel { .. }
            | Command::ExchangeCredit { .. }
            | Command::Credit { .. }
            | Command::Unsubscribe { .. }
            | Command::Lose { .. }
            | Command::Upstream(_)
            | Command::Goodbye => Ok(()),
        }
    }

    fn enter_run(&self, run: &mut Run) -> Result<(), Close> {
        let Destination { kind, path } = run.destination();
        let path = self.path(*kind, path)?;
        run.set_path(path);
        Ok(())
    }

    fn enter_target(&self, target: &mut Target) -> Result<(), Close> {
        match target {
            Target::Exact(Destination { kind, path }) => *path = self.path(*kind, path)?,
            Target::Pattern(kind, pattern) => *pattern = self.pattern(*kind, pattern)?,
        }
        Ok(())
    }

    fn enter_patterns(&self, kind: Kind, patterns: &mut [Pattern]) -> Result<(), Close> {
        for pattern in patterns {
            *pattern = self.pattern(kind, pattern)?;
        }
        Ok(())
    }

    fn enter_operation(&self, operation: &mut Operation) -> Result<(), Close> {
        match operation {
            Operation::Create { path, .. }
            | Operation::Amend { path, .. }
            | Operation::Abandon { path }
            | Operation::Claim { path }
            | Operation::Release { path }
            | Operation::Topic { path }
            | Operation::Lock { name: path, .. }
            | Operation::Unlock { name: path } => *path = self.path(Kind::Topic, path)?,
            Operation::Purge { path, .. }
            | Operation::PauseQueue { path, .. }
            | Operation::DeleteSubscription { queue: path } => {
                *path = self.path(Kind::Queue, path)?;
            }
            Operation::Remove { selector } => self.enter_patterns(Kind::Topic, selector)?,
            Operation::Update(update) => {
                update.path = self.path(Kind::Topic, &update.path)?;
                if let Some(condition) = &mut update.condition {
                    self.enter_condition(condition)?;
                }
            }
            Operation::Fetch(fetch) => {
                let depth =
                    |patterns: &[Pattern]| patterns.iter().map(|it| it.levels().len()).sum();
                let before: usize = depth(&fetch.selector);
                self.enter_patterns(Kind::Topic, &mut fetch.selector)?;
                if let Some(after) = &mut fetch.after {
                    *after = self.path(Kind::Topic, after)?;
                }
                // What has no level of the host before it is as deep as it was.
                if fetch.depth > 0 && depth(&fetch.selector) > before {
                    fetch.depth = fetch.depth.saturating_add(1);
                }
            }
            Operation::History(query) => query.path = self.path(Kind::Topic, &query.path)?,
            Operation::Queue(query) => query.path = self.path(Kind::Queue, &query.path)?,
            Operation::Peek(peek) => peek.path = self.path(Kind::Queue, &peek.path)?,
            Operation::Move(asked) => {
                asked.from = self.path(Kind::Queue, &asked.from)?;
                if let Some(to) = &mut asked.to {
                    *to = self.path(Kind::Queue, to)?;
                }
            }
            Operation::CreateSubscription(about) => {
                about.queue = self.path(Kind::Queue, &about.queue)?;
                self.enter_patterns(Kind::Topic, &mut about.topics)?;
            }
            Operation::Will(Some(run)) => self.enter_run(run)?,
            Operation::Browse(browse) => self.enter_browse(browse)?,
            Operation::View { .. } | Operation::Views => {
                return Err(Root::only_whole("views"));
            }
            Operation::Sessions(_) => return Err(Root::only_whole("lists of sessions")),
            Operation::Kick(_) => return Err(Root::only_whole("ends of sessions")),
            Operation::Blocks(_) => return Err(Root::only_whole("blocks")),
            Operation::Traces(_) => return Err(Root::only_whole("traces")),
            Operation::Drain(_) | Operation::DrainCancel | Operation::DrainState => {
                return Err(Root::only_whole("drains"));
            }
            Operation::Stats => return Err(Root::only_whole("what the node counts")),
            Operation::Node(_) => return Err(Root::only_whole("operations on the node")),
            Operation::Will(None) | Operation::Session => {}
        }
        Ok(())
    }

    fn enter_browse(&self, browse: &mut Browse) -> Result<(), Close> {
        match browse.what {
            Browsable::Sessions => Err(Root::only_whole("lists of sessions")),
            Browsable::Queues if browse.patterns.is_empty() => {
                for text in ["**", "dsub/**"] {
                    let all = Pattern::parse(text).map_err(|error| crate::bad_name(text, error))?;
                    browse.patterns.push(self.pattern(Kind::Queue, &all)?);
                }
                Ok(())
            }
            Browsable::Queues => self.enter_patterns(Kind::Queue, &mut browse.patterns),
            Browsable::Services => self.enter_patterns(Kind::Service, &mut browse.patterns),
        }
    }

    fn enter_condition(&self, condition: &mut Condition) -> Result<(), Close> {
        match condition {
            Condition::Locked(name) => *name = self.path(Kind::Topic, name)?,
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter_mut().try_for_each(|part| self.enter_condition(part))?;
            }
            Condition::Absent
            | Condition::Present
            | Condition::Version(_)
            | Condition::Value(_)
            | Condition::Place { .. } => {}
        }
        Ok(())
    }
}
