//! What a session of a virtual host asks for, as the server calls it.
//!
//! Relies on [`Root`] for names. Invariant: of every command and operation all names are looked at; one that concerns
//! more than the host is refused.

use tiderace_base::Close;
use tiderace_topics::Pattern;

use super::Root;
use crate::{Browsable, Browse, Command, Condition, Destination, Operation, Run, Target};

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
                call.service = self.path(&call.service)?;
                Ok(())
            }
            Command::Operate { operation, .. } => self.enter_operation(operation),
            Command::Login(_)
            | Command::Settle(_)
            | Command::Together(_)
            | Command::SendExchange(_)
            | Command::Cancel { .. }
            | Command::ExchangeCredit { .. }
            | Command::Credit { .. }
            | Command::Unsubscribe { .. }
            | Command::Goodbye => Ok(()),
        }
    }

    fn enter_run(&self, run: &mut Run) -> Result<(), Close> {
        let path = self.path(&run.destination().path)?;
        run.set_path(path);
        Ok(())
    }

    fn enter_target(&self, target: &mut Target) -> Result<(), Close> {
        match target {
            Target::Exact(Destination { path, .. }) => *path = self.path(path)?,
            Target::Pattern(_, pattern) => *pattern = self.pattern(pattern)?,
        }
        Ok(())
    }

    fn enter_patterns(&self, patterns: &mut [Pattern]) -> Result<(), Close> {
        for pattern in patterns {
            *pattern = self.pattern(pattern)?;
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
            | Operation::Purge { path, .. }
            | Operation::PauseQueue { path, .. }
            | Operation::Lock { name: path, .. }
            | Operation::Unlock { name: path }
            | Operation::DeleteSubscription { queue: path } => *path = self.path(path)?,
            Operation::Remove { selector } => self.enter_patterns(selector)?,
            Operation::Update(update) => {
                update.path = self.path(&update.path)?;
                if let Some(condition) = &mut update.condition {
                    self.enter_condition(condition)?;
                }
            }
            Operation::Fetch(fetch) => {
                self.enter_patterns(&mut fetch.selector)?;
                if let Some(after) = &mut fetch.after {
                    *after = self.path(after)?;
                }
                if fetch.depth > 0 {
                    fetch.depth = fetch.depth.saturating_add(1);
                }
            }
            Operation::History(query) => query.path = self.path(&query.path)?,
            Operation::Queue(query) => query.path = self.path(&query.path)?,
            Operation::Peek(peek) => peek.path = self.path(&peek.path)?,
            Operation::Move(asked) => {
                asked.from = self.path(&asked.from)?;
                if let Some(to) = &mut asked.to {
                    *to = self.path(to)?;
                }
            }
            Operation::CreateSubscription(about) => {
                about.queue = self.path(&about.queue)?;
                self.enter_patterns(&mut about.topics)?;
            }
            Operation::Will(Some(run)) => self.enter_run(run)?,
            Operation::Browse(browse) => self.enter_browse(browse)?,
            Operation::View { .. } | Operation::Views => {
                return Err(Root::only_whole("views"));
            }
            Operation::Sessions { .. } => return Err(Root::only_whole("lists of sessions")),
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
                    browse.patterns.push(self.pattern(&all)?);
                }
                Ok(())
            }
            Browsable::Queues | Browsable::Services => self.enter_patterns(&mut browse.patterns),
        }
    }

    fn enter_condition(&self, condition: &mut Condition) -> Result<(), Close> {
        match condition {
            Condition::Locked(name) => *name = self.path(name)?,
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
