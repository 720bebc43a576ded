//! What the commands of every session have to keep, whatever its protocol.
//!
//! Relies on nothing but the contract in `tiderace-wire`: subscriptions and tokens are named by the session. Invariant:
//! a session that breaks it fails its test with a sentence, instead of asking the broker for what cannot be.

use std::collections::{BTreeMap, BTreeSet};

use tiderace_wire::{Command, Confirm, Reply, Subscribe, SubscriptionKey, Token};

/// What a session has asked for and not been answered, or not ended.
#[derive(Debug, Default)]
pub struct CommandCheck {
    login: Login,
    /// Subscriptions that are there.
    subscriptions: BTreeMap<SubscriptionKey, Subscription>,
    /// Tokens whose answer has not come.
    waiting: BTreeSet<Token>,
    /// Between the marks of what takes effect together.
    is_together: bool,
    /// Between the marks of what is asked for somebody else.
    is_acting: bool,
}

/// How far the login is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Login {
    #[default]
    Missing,
    Asked,
    Done,
}

#[derive(Debug)]
struct Subscription {
    state: State,
    /// Whether it takes [`Command::Credit`].
    has_credit: bool,
}

/// What is known of a subscription's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is to come, for that token.
    Awaited(Token),
    /// It was confirmed.
    Confirmed,
    /// None was asked for.
    Unasked,
    /// None was asked for, and something without a token was refused, which it may have been.
    Doubtful,
}

impl CommandCheck {
    /// A session asks for this.
    ///
    /// # Errors
    /// When it may not, and why.
    pub fn command(&mut self, command: &Command) -> Result<(), String> {
        match (command, self.login) {
            (Command::Login(_), Login::Missing) => self.login = Login::Asked,
            (Command::Goodbye, _) | (_, Login::Done) => {}
            _ => return Err("something is asked before the login was answered".into()),
        }
        match command {
            Command::Publish { run, confirm, .. } => {
                rule(!run.is_empty(), || "a run without messages is published".into())?;
                self.wait_for(*confirm)
            }
            Command::Subscribe(subscribe) => self.subscribe(subscribe),
            Command::Unsubscribe { key, confirm } | Command::Lose { key, confirm } => {
                let known = self.subscriptions.remove(key);
                rule(known.is_some(), || format!("{key:?} is ended and was not there"))?;
                self.wait_for(confirm.map(Confirm::one))
            }
            Command::Credit { key, messages } => {
                rule(*messages > 0, || format!("credit of nothing for {key:?}"))?;
                let known = self.subscriptions.get(key);
                let takes_credit = known.is_some_and(|known| known.has_credit);
                rule(takes_credit, || format!("credit for {key:?}, which takes none"))
            }
            Command::ExchangeCredit { exchange, messages } => {
                rule(*messages > 0, || format!("credit of nothing in {exchange:?}"))
            }
            Command::Settle(settle) => {
                let in_order = settle.ranges.iter().all(|(first, last)| first <= last);
                rule(in_order, || "a range is settled that ends before it begins".into())?;
                let asks = !settle.ranges.is_empty() || settle.confirm.is_some();
                rule(asks, || "nothing is settled, and nobody waits for that".into())?;
                self.wait_for(settle.confirm.map(Confirm::one))
            }
            Command::Together(on) => {
                let before = std::mem::replace(&mut self.is_together, *on);
                rule(before != *on, || "commands that belong together are not divided".into())
            }
            Command::ActAs(principal) => {
                let before = std::mem::replace(&mut self.is_acting, principal.is_some());
                rule(before != self.is_acting, || "whom a session acts for is told in pairs".into())
            }
            Command::Operate { token, .. } => self.wait_for(Some(Confirm::one(*token))),
            Command::Call(_)
            | Command::SendExchange(_)
            | Command::Cancel { .. }
            | Command::Login(_)
            | Command::Upstream(_)
            | Command::Goodbye => Ok(()),
        }
    }

    fn subscribe(&mut self, subscribe: &Subscribe) -> Result<(), String> {
        let key = subscribe.key;
        let known = self.subscriptions.get(&key);
        let is_free = known.is_none_or(|known| known.state == State::Doubtful);
        rule(is_free, || format!("{key:?} is taken twice"))?;
        rule(!subscribe.targets.is_empty(), || format!("{key:?} listens to nothing"))?;
        let is_told = subscribe.since.is_none() || subscribe.confirm.is_some();
        rule(is_told, || format!("{key:?} recovers, and nobody is told how far"))?;
        let state = subscribe.confirm.map_or(State::Unasked, State::Awaited);
        let has_credit = subscribe.credit.is_some();
        self.subscriptions.insert(key, Subscription { state, has_credit });
        self.wait_for(subscribe.confirm.map(Confirm::one))
    }

    /// Notes the tokens of an answer that is to come.
    fn wait_for(&mut self, confirm: Option<Confirm>) -> Result<(), String> {
        let Some(Confirm { from, to }) = confirm else { return Ok(()) };
        rule(from <= to, || format!("tokens from {from} to {to} end before they begin"))?;
        // A session numbers its tokens, so those between the ends of a run are no others' either.
        let twice = (from..=to).find(|token| !self.waiting.insert(*token));
        twice.map_or(Ok(()), |token| Err(format!("token {token} stands for two answers")))
    }

    /// A session is given this reply.
    pub fn reply(&mut self, reply: &Reply) {
        match reply {
            Reply::LoggedIn { .. } => self.login = Login::Done,
            Reply::Confirmed(Confirm { from, to }) => {
                let is_answered = |token: Token| (*from..=*to).contains(&token);
                self.waiting.retain(|token| !is_answered(*token));
                for known in self.subscriptions.values_mut() {
                    if matches!(known.state, State::Awaited(token) if is_answered(token)) {
                        known.state = State::Confirmed;
                    }
                }
            }
            Reply::Operated { token, .. } => {
                self.waiting.remove(token);
            }
            Reply::Refused { token: Some(token), .. } => {
                self.waiting.remove(token);
                self.subscriptions.retain(|_, known| known.state != State::Awaited(*token));
            }
            Reply::SubscriptionEnded { key, .. } => {
                self.subscriptions.remove(key);
            }
            Reply::Refused { token: None, .. } => {
                let all = self.subscriptions.values_mut();
                let unasked = all.filter(|known| known.state == State::Unasked);
                unasked.for_each(|known| known.state = State::Doubtful);
            }
            _ => {}
        }
    }
}

/// What has to hold, or else a sentence.
fn rule(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::{CloseCode, ShardId};
    use tiderace_wire::{Credentials, Destination, Kind, Operation, Outcome, Settle, Target};

    fn subscribe(key: u32, confirm: Option<Token>) -> Command {
        let path = tiderace_topics::Path::parse("a").unwrap();
        let target = Target::Exact(Destination { kind: Kind::Queue, path });
        let subscribe = Subscribe::new(SubscriptionKey(key), vec![target]);
        Command::Subscribe(Box::new(Subscribe { confirm, credit: Some(1), ..subscribe }))
    }

    fn unsubscribe(key: u32) -> Command {
        Command::Unsubscribe { key: SubscriptionKey(key), confirm: None }
    }

    fn credit(key: u32, messages: u64) -> Command {
        Command::Credit { key: SubscriptionKey(key), messages }
    }

    fn settle(ranges: &[(u64, u64)]) -> Command {
        let (key, home, outcome) = (SubscriptionKey(0), ShardId(0), Outcome::Accept);
        Command::Settle(Settle { key, home, ranges: ranges.to_vec(), outcome, confirm: None })
    }

    fn views(token: Token) -> Command {
        Command::Operate { token, operation: Box::new(Operation::Views) }
    }

    fn refused(token: Option<Token>) -> Reply {
        Reply::Refused { token, close: CloseCode::NotAuthorised.into() }
    }

    fn logged_in() -> CommandCheck {
        let mut check = CommandCheck::default();
        assert_eq!(check.command(&Command::Login(Credentials::default())), Ok(()));
        check.reply(&Reply::LoggedIn { name: "a".into(), anonymous: false, host: None });
        check
    }

    fn play(check: &mut CommandCheck, commands: &[Command]) -> Result<(), String> {
        commands.iter().try_for_each(|command| check.command(command))
    }

    #[test]
    fn what_a_session_may_not_ask_for_is_found() {
        for (commands, reason) in [
            (vec![subscribe(0, None), subscribe(0, None)], "taken twice"),
            (vec![unsubscribe(0)], "was not there"),
            (vec![subscribe(0, None), credit(0, 0)], "credit of nothing"),
            (vec![credit(0, 1)], "takes none"),
            (vec![settle(&[])], "nothing is settled"),
            (vec![settle(&[(2, 1)])], "ends before it begins"),
            (vec![views(1), views(1)], "two answers"),
            (vec![subscribe(0, Some(1)), views(1)], "two answers"),
        ] {
            let found = play(&mut logged_in(), &commands);
            assert!(found.as_ref().is_err_and(|found| found.contains(reason)), "{found:?}");
        }
        let right = [
            subscribe(0, Some(1)),
            credit(0, 1),
            settle(&[(1, 1), (3, 5)]),
            unsubscribe(0),
            subscribe(0, Some(2)),
            views(3),
            Command::Goodbye,
        ];
        assert_eq!(play(&mut logged_in(), &right), Ok(()));
    }

    #[test]
    fn nothing_is_asked_before_the_login_is_answered() {
        let login = || Command::Login(Credentials::default());
        for too_early in [views(1), login()] {
            let found = play(&mut CommandCheck::default(), &[login(), too_early]);
            assert!(found.is_err_and(|found| found.contains("before the login")));
        }
        assert_eq!(play(&mut logged_in(), &[login(), views(1)]), Ok(()), "as somebody else");
    }

    #[test]
    fn answers_free_tokens_and_refusals_keys() {
        let mut check = logged_in();
        assert_eq!(play(&mut check, &[subscribe(0, Some(1))]), Ok(()));
        check.reply(&refused(Some(1)));
        assert_eq!(play(&mut check, &[subscribe(0, Some(1))]), Ok(()));
        check.reply(&Reply::Confirmed(Confirm::one(1)));
        assert_eq!(play(&mut check, &[views(1)]), Ok(()));
        check.reply(&refused(Some(1)));
        // That refusal was the operation's, so the key is still taken.
        assert_eq!(play(&mut check, &[credit(0, 1), subscribe(1, None)]), Ok(()));
        check.reply(&refused(None));
        assert_eq!(play(&mut check, &[subscribe(1, None)]), Ok(()));
        assert!(play(&mut check, &[subscribe(0, None)]).is_err());
    }
}
