//! A broker of a few sessions on one or two homes: topics with histories, queues and services.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, ShardId, Time};
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Confirm, Delivery, Destination, Exchange, ExchangeKey, Flags, Kind, Meta, Outcome,
    Reply, Run, SharedRun, Side, Subscribe, SubscriptionKey, Target, Token,
};

/// What is to be told to a client.
pub enum Step {
    Reply(usize, Reply),
    Deliver(usize, Pending),
}

/// A delivery on its way.
#[derive(Clone)]
pub struct Pending {
    key: SubscriptionKey,
    run: Rc<SharedRun>,
    redeliveries: u32,
    exchange: Option<Exchange>,
}

impl Pending {
    pub fn delivery(&self) -> Delivery<'_> {
        let run = self.run.run();
        let reached = run.first() + run.len() as u64 - 1;
        Delivery {
            key: self.key,
            run: &self.run,
            from: 0,
            to: run.len(),
            redeliveries: self.redeliveries,
            reached,
            exchange: self.exchange,
        }
    }
}

/// A call under way.
struct Open {
    caller: (usize, u32),
    responder: (usize, u32),
}

#[derive(Default)]
pub struct Broker {
    /// Operations that are not answered, if they are not.
    pub unanswered: Option<Vec<tiderace_wire::Token>>,
    pub steps: VecDeque<Step>,
    /// Every command as text.
    pub log: Vec<String>,
    /// Two homes instead of one.
    pub two_homes: bool,
    /// Whether histories have been lost.
    pub forgetful: bool,
    subscriptions: Vec<(usize, Subscribe)>,
    history: Vec<Rc<SharedRun>>,
    /// The last run of each topic, for deltas.
    previous: BTreeMap<String, Arc<Run>>,
    retained: BTreeMap<String, Rc<SharedRun>>,
    stock: Vec<(usize, Pending)>,
    unsettled: Vec<(usize, Pending)>,
    exchanges: Vec<Open>,
    numbers: [u64; 2],
    versions: BTreeMap<String, u64>,
    responders: u32,
    pub settled: Vec<(u64, Outcome)>,
}

impl Broker {
    pub fn shards(&self) -> usize {
        if self.two_homes { 2 } else { 1 }
    }

    /// A session is gone.
    pub fn forget(&mut self, client: usize) {
        self.subscriptions.retain(|(whose, _)| *whose != client);
    }

    /// Publishes as somebody else.
    pub fn publish(&mut self, kind: Kind, path: &str, properties: &str, body: &[u8]) {
        let destination = Destination { kind, path: Path::parse(path).unwrap() };
        let run =
            Run::single(destination, Time::ZERO, properties.as_bytes(), body, Meta::default());
        self.place(run);
    }

    pub fn handle(&mut self, now: Now, client: usize, command: Command) {
        let _ = now;
        match command {
            Command::Goodbye => {}
            Command::Operate { token, operation } => {
                self.log.push(format!("operate {operation:?}"));
                if let Some(unanswered) = &mut self.unanswered {
                    return unanswered.push(token);
                }
                let result = Box::new(tiderace_wire::OperationResult::Updated { version: 9 });
                self.answer(client, Reply::Operated { token, result });
            }
            Command::Login(credentials) => {
                self.log.push(format!(
                    "login {:?} {:?} {:?}",
                    credentials.login, credentials.passcode, credentials.token
                ));
                let name = match (credentials.token.as_deref(), credentials.login) {
                    (Some("wrong"), _) => {
                        let close = CloseCode::LoginFailed.into();
                        return self.answer(client, Reply::Refused { token: None, close });
                    }
                    (Some(token), _) => token.to_owned(),
                    (None, Some(login)) => login,
                    (None, None) => "anonymous".to_owned(),
                };
                self.answer(client, Reply::LoggedIn { name: name.into() });
            }
            Command::Publish { run, confirm, .. } => {
                self.log.push(describe(&run));
                if run.destination().path.as_str().starts_with("secret") {
                    let tokens = confirm.map(|confirm| confirm.from..=confirm.to);
                    return match tokens {
                        None => self.refuse(client, None),
                        Some(tokens) => tokens.for_each(|token| self.refuse(client, Some(token))),
                    };
                }
                self.place(run);
                if let Some(confirm) = confirm {
                    self.answer(client, Reply::Confirmed(confirm));
                }
            }
            Command::Subscribe(subscribe) => self.subscribe(client, *subscribe),
            Command::Credit { .. } => panic!("Socket.IO gives no credit"),
            Command::Unsubscribe { key, confirm } => {
                self.log.push(format!("unsubscribe {}", key.0));
                self.subscriptions.retain(|(whose, known)| (*whose, known.key) != (client, key));
                self.confirm(client, confirm);
            }
            Command::Settle(settle) => {
                for (from, to) in settle.ranges {
                    (from..=to).for_each(|number| self.settle(number, settle.outcome));
                }
            }
            Command::Call(call) => {
                self.log.push(format!("call {} {:?}", call.service, call.patience));
                let service = Destination { kind: Kind::Service, path: call.service.clone() };
                let responder = self
                    .subscriptions
                    .iter()
                    .find(|(_, known)| known.targets.contains(&Target::Exact(service.clone())));
                let Some((whose, key)) = responder.map(|(whose, known)| (*whose, known.key)) else {
                    let exchange = ExchangeKey::caller(call.number);
                    let close = Close::new(CloseCode::BadDestination, "nobody serves this");
                    return self.answer(client, Reply::ExchangeEnded { exchange, close });
                };
                self.responders += 1;
                let number = self.responders;
                self.exchanges
                    .push(Open { caller: (client, call.number), responder: (whose, number) });
                let run = single(service, &call.properties, &call.body);
                let exchange = Exchange {
                    key: ExchangeKey::responder(number),
                    first: true,
                    last: call.last,
                    bare: false,
                };
                self.tell(whose, key, run, exchange);
            }
            Command::Speak(speak) => {
                let Some(key) = self.other(client, speak.exchange) else { return };
                let path = Path::parse("x").unwrap();
                let run = single(
                    Destination { kind: Kind::Service, path },
                    &speak.properties,
                    &speak.body,
                );
                let exchange =
                    Exchange { key: key.1, first: false, last: speak.last, bare: speak.bare };
                self.tell(key.0, SubscriptionKey(0), run, exchange);
            }
            Command::HangUp { exchange, close } => {
                let Some((whose, exchange)) = self.other(client, exchange) else { return };
                self.answer(whose, Reply::ExchangeEnded { exchange, close });
            }
        }
    }

    fn subscribe(&mut self, client: usize, subscribe: Subscribe) {
        self.log.push(format!(
            "subscribe {:?} retained={} recoverable={} explicit={} since={}",
            subscribe.targets,
            subscribe.retained,
            subscribe.recoverable,
            subscribe.explicit,
            subscribe.since.is_some(),
        ));
        if format!("{:?}", subscribe.targets).contains("secret") {
            return self.refuse(client, subscribe.confirm);
        }
        let key = subscribe.key;
        let first: Vec<Rc<SharedRun>> = match &subscribe.since {
            Some(since) => {
                let missed = self.history.iter().filter(|run| {
                    listens(&subscribe, run.run()) && run.run().first() > since.of(run.run().home())
                });
                let missed = missed.cloned().collect();
                let token = subscribe.confirm.unwrap();
                let complete = !self.forgetful;
                self.answer(client, Reply::Recovered { token, complete, continues: true });
                if complete { missed } else { Vec::new() }
            }
            None if subscribe.retained => self
                .retained
                .values()
                .filter(|run| listens(&subscribe, run.run()))
                .cloned()
                .collect(),
            None => Vec::new(),
        };
        let (recoverable, confirm) = (subscribe.recoverable, subscribe.confirm);
        self.subscriptions.push((client, subscribe));
        for run in first {
            let pending = Pending { key, run, redeliveries: 0, exchange: None };
            self.steps.push_back(Step::Deliver(client, pending));
        }
        if recoverable {
            for home in 0..self.shards() {
                let (home, sequence) = (ShardId(home as u16), self.numbers[home]);
                self.answer(client, Reply::Reached { home, sequence });
            }
        }
        self.confirm(client, confirm);
        for (_, pending) in std::mem::take(&mut self.stock) {
            self.enqueue(pending);
        }
    }

    fn place(&mut self, mut run: Run) {
        let home = run.destination().home(self.shards());
        run.number(home, self.numbers[home.index()] + 1);
        self.numbers[home.index()] += run.len() as u64;
        let version = self.versions.entry(run.destination().path.to_string()).or_insert(1);
        run.set_version(*version);
        *version += run.len() as u64;
        let path = run.destination().path.to_string();
        let run = Arc::new(run);
        let previous = self.previous.insert(path.clone(), run.clone());
        let shared = Rc::new(SharedRun::after(run, previous));
        match shared.run().destination().kind {
            Kind::Queue => {
                self.enqueue(Pending {
                    key: SubscriptionKey(0),
                    run: shared,
                    redeliveries: 0,
                    exchange: None,
                });
            }
            _ => {
                self.history.push(shared.clone());
                if shared.run().any(Flags::RETAIN) {
                    self.retained.insert(path, shared.clone());
                }
                for (client, known) in &self.subscriptions {
                    if listens(known, shared.run()) {
                        let (key, run) = (known.key, shared.clone());
                        let pending = Pending { key, run, redeliveries: 0, exchange: None };
                        self.steps.push_back(Step::Deliver(*client, pending));
                    }
                }
            }
        }
    }

    fn enqueue(&mut self, mut pending: Pending) {
        let consumer =
            self.subscriptions.iter().find(|(_, known)| listens(known, pending.run.run()));
        let Some((client, known)) = consumer else {
            return self.stock.push((0, pending));
        };
        pending.key = known.key;
        if known.explicit {
            self.unsettled.push((*client, pending.clone()));
        }
        self.steps.push_back(Step::Deliver(*client, pending));
    }

    fn settle(&mut self, number: u64, outcome: Outcome) {
        self.settled.push((number, outcome));
        let at = self.unsettled.iter().position(|(_, row)| row.run.run().first() == number);
        let Some(at) = at else { return };
        let (_, mut pending) = self.unsettled.remove(at);
        if outcome == Outcome::Reject {
            pending.redeliveries += 1;
            self.enqueue(pending);
        }
    }

    fn tell(
        &mut self,
        client: usize,
        key: SubscriptionKey,
        run: Rc<SharedRun>,
        exchange: Exchange,
    ) {
        let pending = Pending { key, run, redeliveries: 0, exchange: Some(exchange) };
        self.steps.push_back(Step::Deliver(client, pending));
    }

    /// The other side of an exchange.
    fn other(&self, client: usize, key: ExchangeKey) -> Option<(usize, ExchangeKey)> {
        let side = (client, key.number);
        self.exchanges.iter().find_map(|open| match key.side {
            Side::Caller if open.caller == side => {
                Some((open.responder.0, ExchangeKey::responder(open.responder.1)))
            }
            Side::Responder if open.responder == side => {
                Some((open.caller.0, ExchangeKey::caller(open.caller.1)))
            }
            _ => None,
        })
    }

    fn refuse(&mut self, client: usize, token: Option<Token>) {
        let close = CloseCode::NotAuthorised.into();
        self.answer(client, Reply::Refused { token, close });
    }

    fn confirm(&mut self, client: usize, token: Option<Token>) {
        if let Some(token) = token {
            self.answer(client, Reply::Confirmed(Confirm::one(token)));
        }
    }

    fn answer(&mut self, client: usize, reply: Reply) {
        self.steps.push_back(Step::Reply(client, reply));
    }
}

fn single(destination: Destination, properties: &[u8], body: &[u8]) -> Rc<SharedRun> {
    let run = Run::single(destination, Time::ZERO, properties, body, Meta::default());
    Rc::new(SharedRun::new(Arc::new(run)))
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

fn describe(run: &Run) -> String {
    let rows: Vec<String> = run
        .messages()
        .map(|message| {
            format!(
                "publish {} {} [{}] {} {:?} {:?}",
                run.destination().kind.name(),
                run.destination().path,
                String::from_utf8_lossy(message.properties).replace('\n', "|"),
                String::from_utf8_lossy(message.body),
                message.flags,
                message.expires_ms,
            )
        })
        .collect();
    rows.join("\n")
}
