//! A broker of one session: publishes come back to the same session's subscriptions.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{CloseCode, Now, ShardId};
use tiderace_wire::{
    Change, Command, Condition, Confirm, Delivery, Destination, Kind, Meta, Operation,
    OperationResult, Outcome, Reply, Run, SharedRun, Subscribe, SubscriptionKey, Target, Token,
    Update,
};

#[derive(Default)]
pub struct Broker {
    subscriptions: Vec<Subscribe>,
    /// Queue messages nobody takes yet.
    stock: Vec<Pending>,
    /// Delivered, to be acknowledged.
    unsettled: Vec<Pending>,
    deliveries: VecDeque<Pending>,
    pub replies: VecDeque<Reply>,
    /// Whether replies are held back.
    pub hold: bool,
    /// Whether commands are counted and forgotten.
    pub mute: bool,
    /// Commands handled.
    pub handled: usize,
    sequence: u64,
    /// The last run of each topic, for deltas.
    previous: HashMap<String, Arc<Run>>,
    /// Settled messages: their numbers and what became of them.
    pub settled: Vec<(u64, Outcome)>,
}

#[derive(Clone)]
pub struct Pending {
    key: SubscriptionKey,
    run: Rc<SharedRun>,
    from: usize,
    to: usize,
    redeliveries: u32,
}

impl Pending {
    pub fn delivery(&self) -> Delivery<'_> {
        Delivery {
            key: self.key,
            run: &self.run,
            from: self.from,
            to: self.to,
            redeliveries: self.redeliveries,
            reached: 0,
            exchange: None,
        }
    }

    fn sequence(&self) -> u64 {
        self.run.run().first() + self.from as u64
    }
}

impl Broker {
    pub fn next(&mut self) -> Option<Pending> {
        self.deliveries.pop_front()
    }

    pub fn handle(&mut self, now: Now, command: Command) {
        self.handled += 1;
        if self.mute {
            return;
        }
        match command {
            Command::Goodbye => {}
            Command::Operate { token, operation } => {
                let reply = match *operation {
                    Operation::Update(update) => self.update(now, token, *update),
                    _ => Reply::Operated { token, result: Box::new(OperationResult::Done) },
                };
                self.replies.push_back(reply);
            }
            Command::Call(_) | Command::Speak(_) | Command::HangUp { .. } => {
                panic!("STOMP neither calls nor serves")
            }
            Command::Login(credentials) => {
                if credentials.passcode.as_deref() == Some("wrong") {
                    let close = CloseCode::LoginFailed.into();
                    return self.replies.push_back(Reply::Refused { token: None, close });
                }
                let name = credentials.login.unwrap_or_else(|| "anonymous".to_owned());
                self.replies.push_back(Reply::LoggedIn { name: name.into() });
            }
            Command::Publish { mut run, confirm, .. } => {
                run.number(ShardId(0), self.sequence + 1);
                self.sequence += run.len() as u64;
                if let Some(confirm) = confirm {
                    self.replies.push_back(Reply::Confirmed(confirm));
                }
                self.publish(now, run);
            }
            Command::Settle(settle) => {
                for (from, to) in settle.ranges {
                    for number in from..=to {
                        self.settle(number, settle.key, settle.outcome);
                    }
                }
                self.confirm(settle.confirm);
            }
            Command::Subscribe(subscribe) => {
                let confirm = subscribe.confirm;
                self.subscriptions.push(*subscribe);
                for pending in std::mem::take(&mut self.stock) {
                    self.enqueue(pending);
                }
                self.confirm(confirm);
            }
            Command::Credit { .. } => {}
            Command::Unsubscribe { key, confirm } => {
                self.subscriptions.retain(|known| known.key != key);
                let (back, kept): (Vec<_>, Vec<_>) =
                    std::mem::take(&mut self.unsettled).into_iter().partition(|row| row.key == key);
                self.unsettled = kept;
                for pending in back {
                    self.enqueue(pending);
                }
                self.confirm(confirm);
            }
        }
    }

    fn confirm(&mut self, token: Option<u32>) {
        if let Some(token) = token {
            self.replies.push_back(Reply::Confirmed(Confirm::one(token)));
        }
    }

    /// Gives a topic a whole value if its version is right; knows nothing of patches.
    fn update(&mut self, now: Now, token: Token, update: Update) -> Reply {
        let path = update.path.to_string();
        let known = self.previous.get(&path).map(|run| run.version() + run.len() as u64 - 1);
        let fits = match update.condition {
            None => true,
            Some(Condition::Absent) => known.is_none(),
            Some(Condition::Version(version)) => known == Some(version),
            other => panic!("{other:?}"),
        };
        if !fits {
            return Reply::Refused { token: Some(token), close: CloseCode::ConditionFailed.into() };
        }
        let Change::Value(body) = update.change else { panic!("{:?}", update.change) };
        let destination = Destination { kind: Kind::Topic, path: update.path };
        let meta = Meta { flags: update.flags, expires_ms: None };
        let properties = update.properties.unwrap_or_default();
        let mut run = Run::single(destination, now.time, &properties, &body, meta);
        run.number(ShardId(0), self.sequence + 1);
        self.sequence += 1;
        self.publish(now, run);
        let version = known.unwrap_or_default() + 1;
        Reply::Operated { token, result: Box::new(OperationResult::Updated { version }) }
    }

    fn publish(&mut self, now: Now, mut run: Run) {
        let kind = run.destination().kind;
        let path = run.destination().path.to_string();
        let previous = self.previous.get(&path).cloned();
        run.set_version(previous.as_ref().map_or(1, |known| known.version() + known.len() as u64));
        let run = Arc::new(run);
        self.previous.insert(path, run.clone());
        let run = Rc::new(SharedRun::after(run, previous));
        let key = SubscriptionKey(0);
        let len = run.run().len();
        let live = |at: usize| run.run().message(at).is_some_and(|m| !m.is_expired(now.wall_ms));
        if kind == Kind::Queue {
            for from in (0..len).filter(|at| live(*at)) {
                let run = run.clone();
                self.enqueue(Pending { key, run, from, to: from + 1, redeliveries: 0 });
            }
            return;
        }
        for subscription in &self.subscriptions {
            if !listens(subscription, run.run()) {
                continue;
            }
            let fits = |at: usize| live(at) && selected(subscription, run.run(), at);
            let mut pending = Pending {
                key: subscription.key,
                run: run.clone(),
                from: 0,
                to: len,
                redeliveries: 0,
            };
            let whole = (0..len).all(fits);
            if whole {
                self.deliveries.push_back(pending);
                continue;
            }
            for from in (0..len).filter(|at| fits(*at)) {
                (pending.from, pending.to) = (from, from + 1);
                self.deliveries.push_back(pending.clone());
            }
        }
    }

    /// Gives a queue's message to its first consumer.
    fn enqueue(&mut self, mut pending: Pending) {
        let consumer = self.subscriptions.iter().find(|subscription| {
            listens(subscription, pending.run.run())
                && selected(subscription, pending.run.run(), pending.from)
        });
        let Some(consumer) = consumer else {
            return self.stock.push(pending);
        };
        pending.key = consumer.key;
        if consumer.explicit {
            self.unsettled.push(pending.clone());
        }
        self.deliveries.push_back(pending);
    }

    fn settle(&mut self, number: u64, key: SubscriptionKey, outcome: Outcome) {
        self.settled.push((number, outcome));
        let fits = |row: &Pending| row.sequence() == number && row.key == key;
        let Some(at) = self.unsettled.iter().position(fits) else { return };
        let mut pending = self.unsettled.remove(at);
        if outcome == Outcome::Reject {
            pending.redeliveries += 1;
            self.enqueue(pending);
        }
    }
}

fn listens(subscription: &Subscribe, run: &Run) -> bool {
    let destination = run.destination();
    subscription.targets.iter().any(|target| match target {
        Target::Exact(known) => known == destination,
        Target::Pattern(kind, pattern) => {
            *kind == destination.kind && pattern.matches(&destination.path)
        }
    })
}

fn selected(subscription: &Subscribe, run: &Run, at: usize) -> bool {
    let Some(selector) = &subscription.selector else { return true };
    run.message(at).is_some_and(|message| selector.matches(&message))
}
