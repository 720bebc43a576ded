//! The broker of one shard: its rooms, and which of them calls and messages are for.
//!
//! This file and those in `broker/` are the wiring, which alone sees all rooms. It takes the broker apart, for each call,
//! into what the one side of the shard may touch, [`HomeSide`](crate::home_side::HomeSide) or
//! [`SessionSide`](crate::session_side::SessionSide), or what stands upon it, and hands on what the one has for the
//! other.

mod closing;
mod hosting;
mod limiting;
mod local;
mod messages;
mod peers;
mod prefetch;
mod reading;
mod recording;
mod refusals;
mod reviewing;
mod sides;
mod taking;
mod tracing;
mod turns;

mod restore;
mod restore_queue;
mod storage;

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, Memory, MemoryUse, Now, SessionId, ShardId};
use tiderace_queues::Ending;
use tiderace_wire::{Command, Commands, Reply, Subscribe};

use crate::delivery::Deliveries;
use crate::delivery::backlog::For;
use crate::deputies::{Deputies, DeputyState};
use crate::directory::Directory;
use crate::effects::Effects;
use crate::exchange::Exchanges;
use crate::fanout::Fanout;
use crate::home::Home;
use crate::journal::HomeJournal;
use crate::limits::least_mark;
use crate::loopback::Loopback;
use crate::messages::Envelope;
use crate::notices::Notices;
use crate::relay::{belongs_to_session, is_relayed};
use crate::session::Session;
use crate::sessions::Sessions;
use crate::together::{CommandsTogether, RecoveriesTogether, note_ended};
use crate::views::Views;
use crate::work::Work;
use crate::{BrokerMetrics, BrokerOptions, Principal};

/// How many commands or messages of shards are looked at together: enough to hide the waits, and few enough for
/// what they refer to to stay in the nearest cache.
pub const AHEAD: usize = 8;

/// One shard's sessions, topics and queues; see the crate's documentation.
#[derive(Debug)]
pub struct Broker {
    options: Arc<BrokerOptions>,
    sessions: Sessions,
    directory: Directory,
    fanout: Fanout,
    home: Home,
    /// The ends that sessions here hold.
    exchanges: Exchanges,
    /// What sessions here have been told of topics.
    notices: Box<Notices>,
    loopback: Loopback,
    delivery: Deliveries,
    /// What is kept here in all, and whether there is room for more.
    memory: Rc<Memory>,
    metrics: BrokerMetrics,
    views: Box<Views>,
    journal: HomeJournal,
    work: Work,
    /// What stands in for homes of topics at other nodes.
    deputies: Box<Deputies>,
}

impl Broker {
    /// The broker of a shard.
    pub fn new(shard: ShardId, options: Arc<BrokerOptions>) -> Broker {
        let memory = Rc::new(Memory::new(options.messages_bytes_max));
        let mut home = Home::new(shard, &memory);
        home.queues_mut().set_quotas(options.quotas.clone());
        home.begin_durables(shard, &options, &memory);
        home.begin_mirrors(shard, &options);
        let deputies = Box::new(Deputies::new(shard, &options));
        if !deputies.is_empty() {
            home.begin_numbers_at(Deputies::NUMBERS_FROM);
        }
        Broker {
            sessions: Sessions::default(),
            directory: Directory::new(shard, options.clone(), memory.clone()),
            fanout: Fanout::default(),
            home,
            exchanges: Exchanges::new(memory.clone()),
            notices: Box::default(),
            loopback: Loopback::new(shard),
            delivery: Deliveries::new(least_mark(&options.limits, options.backlog_bytes_high)),
            memory: memory.clone(),
            metrics: BrokerMetrics::default(),
            views: Box::new(Views::new(&options.views, options.message_bytes_max)),
            journal: HomeJournal::default(),
            work: Work::default(),
            deputies,
            options,
        }
    }

    /// A session begins; `link` is the caller's name for what carries it.
    pub fn open(&mut self, now: Now, link: u32) -> SessionId {
        self.open_as(now, link, "")
    }

    /// The same of a session that speaks a protocol, to be shown with it.
    pub fn open_as(&mut self, now: Now, link: u32, protocol: &'static str) -> SessionId {
        let key = self.sessions.insert(Session::new(link));
        self.metrics.sessions += 1;
        let mut side = self.session_side();
        side.note_opened(now, key, protocol);
        side.id_of(key)
    }

    /// Runs a session's commands in order.
    pub fn handle(
        &mut self,
        now: Now,
        session: SessionId,
        commands: &mut Commands,
        effects: &mut Effects,
    ) {
        debug_assert!(self.loopback.is_empty(), "a call has left messages in the loop-back list");
        let mut together = CommandsTogether { entrance: commands.entrance(), ..Default::default() };
        let mut commands = commands.drain();
        for turn in 0usize.. {
            if turn.is_multiple_of(AHEAD) && commands.len() > 1 {
                self.expect_commands(session, commands.as_slice());
            }
            let Some(command) = commands.next() else { break };
            self.command(now, session, command, commands.as_slice(), &mut together, effects);
            self.take_loopback(now, effects);
        }
        drop(commands);
        if together.own.is_some() {
            // The marks come in pairs; this is for a session that does not keep to that.
            self.sessions.act_as(session, None, &mut together.own);
        }
        if let Some(transaction) = together.transaction {
            // The marks come in pairs; this is for a session that does not keep to that.
            self.session_side().end_transaction(*transaction, effects);
            self.take_loopback(now, effects);
        }
        let mut side = self.session_side();
        side.finish_ending(together.ending);
        side.end_recoveries(session, together.recoveries, effects);
        self.end_call(now, effects);
    }

    /// Takes a message of another shard.
    pub fn receive(&mut self, now: Now, message: Envelope, effects: &mut Effects) {
        debug_assert!(message.to == self.loopback.here(), "a message for another shard");
        self.take_message(now, message.from, message.body, effects);
        self.end_call(now, effects);
    }

    /// Takes the answer to a login.
    pub fn verified(
        &mut self,
        now: Now,
        session: SessionId,
        result: Result<Principal, Close>,
        effects: &mut Effects,
    ) {
        match result.and_then(|principal| self.admit_login(principal)) {
            Ok(principal) => self.notice_side().logged_in(now, session, principal, effects),
            Err(close) => {
                let reply = Reply::Refused { token: None, close };
                self.session_side().reply(session, reply, effects);
            }
        }
        self.end_call(now, effects);
    }

    /// Housekeeping; to be called about every 50 ms.
    pub fn tick(&mut self, now: Now, effects: &mut Effects) {
        self.home_side().end_holds(now, effects);
        let mut sessions = self.session_side();
        sessions.end_graces(now, effects);
        sessions.end_throttles(now, effects);
        self.exchange_side().end_overdue(now, effects);
        self.home_side().expire_locks(now, effects);
        self.hand_on(now, effects);
        if self.view_side().begin_tick(now, effects) {
            self.end_view_slice(now, effects);
            self.work_on_views(now, effects);
            self.view_side().end_tick(now, effects);
        }
        self.retry_store(now);
        self.retry_bodies(now);
        self.work.unblock();
        self.delivery.tick();
        self.home.sweep_displaced(&self.memory);
        if self.home.queues().is_due(now.wall_ms) {
            self.home_side().wake_delayed(now, effects);
            self.hand_on(now, effects);
        }
        if self.home.begin_queue_tick(now.time) {
            self.home_side().queue_tick(now, effects);
            self.hand_on(now, effects);
        }
        self.sweep_topics(now, effects);
        if !self.deputies.is_empty() {
            self.deputy_side().tick(now, effects);
            self.hand_on(now, effects);
        }
        self.home.go_on_with_rules(now.time, self.is_reviewing());
        self.tell_accounts(effects);
        self.end_call(now, effects);
    }

    /// How each of those that stand in for an upstream is doing.
    pub fn deputies(&self) -> Vec<DeputyState> {
        self.deputies.states()
    }

    /// Counters and gauges.
    pub fn metrics(&self) -> BrokerMetrics {
        let (queues, queue_messages, queue_bytes) = self.home.queues().depth();
        let services = self.home.services();
        let (history_messages, history_bytes) = self.home.history_depth();
        let mut metrics = self.metrics.clone();
        metrics.dropped_expired += self.home.queues().expired_total();
        metrics.topics = self.directory.topics().len() as u64;
        metrics.snapshots = self.home.snapshots_open() as u64;
        metrics.queues = queues as u64;
        metrics.queues_paused = self.home.queues().paused() as u64;
        let (owners, full) = self.home.queues().owners();
        (metrics.accounts, metrics.accounts_full) = (owners as u64, full as u64);
        metrics.services = services.len() as u64;
        metrics.responders = services.responders() as u64;
        metrics.calls_waiting = services.waiting() as u64;
        metrics.exchanges = self.exchanges.callers() as u64;
        metrics.exchanges_served = self.exchanges.responders() as u64;
        metrics.queue_messages = queue_messages as u64;
        let (in_flight, oldest) = self.home.queues().surveyed();
        (metrics.queue_in_flight, metrics.queue_oldest) = (in_flight as u64, oldest.as_secs());
        metrics.queue_bytes = queue_bytes as u64;
        (
            metrics.queue_swapped,
            metrics.queue_swapped_bytes,
            metrics.queue_loads,
            metrics.queue_unreadable,
        ) = self.home.queues().swapped();
        let dropped = self.home.queues().dropped();
        metrics.dropped_head = dropped.head;
        metrics.dropped_tail = dropped.tail;
        metrics.queue_delayed = self.home.queues().delayed() as u64;
        metrics.windows = self.delivery.throttles() as u64;
        metrics.backlog_bytes = self.delivery.waiting_bytes() as u64;
        metrics.memory_bytes = self.memory.used() as u64;
        metrics.memory_max_bytes = self.memory.max() as u64;
        metrics.retained_bytes = self.memory.used_for(MemoryUse::Values) as u64;
        let (views, outputs) = self.views.counts();
        metrics.views = views as u64;
        metrics.store_waiting = self.journal.answers_held() as u64;
        metrics.view_outputs = outputs as u64;
        metrics.work = self.work.spent_total;
        metrics.work_turn_most = self.work.turn_most;
        metrics.work_deferred = self.work.deferred_total;
        (metrics.work_waiting, metrics.work_waiting_bytes) = self.work.depth();
        for state in self.deputies() {
            metrics.upstream_subscriptions += state.subscriptions;
            metrics.upstream_waiting += state.waiting;
            metrics.upstream_relay_waiting += state.relays;
            metrics.upstream_exchanges += state.calls;
            metrics.upstream_serves += state.serves;
            metrics.upstream_consumers += state.consumers;
        }
        metrics.history_messages = history_messages as u64;
        metrics.history_bytes = history_bytes as u64;
        metrics
    }

    fn command(
        &mut self,
        now: Now,
        session: SessionId,
        command: Command,
        rest: &[Command],
        together: &mut CommandsTogether,
        effects: &mut Effects,
    ) {
        let Some(record) = self.session(session) else {
            return;
        };
        let is_free = |command: &Command| {
            matches!(command, Command::Login(_) | Command::Goodbye | Command::Together(_))
        };
        if record.principal.is_none() && !is_free(&command) {
            let close = Close::new(CloseCode::LoginRequired, "log in first");
            let reply = Reply::Refused { token: None, close };
            return self.session_side().reply(session, reply, effects);
        }
        let is_in_host = record.root().is_some();
        let entered = match is_in_host || !self.options.virtual_hosts.is_empty() {
            true => self.enter_host(session, command, effects),
            false => Some(command),
        };
        let Some(command) = entered else { return };
        if together.own.is_some() && !is_relayed(&command) {
            return self.refuse_command(session, &command, belongs_to_session(), effects);
        }
        match command {
            Command::ActAs(end) => {
                self.sessions.act_as(session, end.as_deref(), &mut together.own);
            }
            Command::Login(credentials) => {
                let shown = (credentials, together.entrance);
                self.notice_side().login(now, session, shown, effects);
            }
            Command::Publish { run, confirm, confirm_first } => {
                let blame = confirm.filter(|_| confirm_first).map(|confirm| confirm.from);
                match &mut together.transaction {
                    None => self.publish(now, session, run, (confirm, blame), effects),
                    Some(transaction) => {
                        let (what, answer) = ((session, run), (confirm, blame));
                        let mut side = self.session_side();
                        side.publish_together(now, what, answer, transaction, effects);
                    }
                }
            }
            Command::Settle(settle) => match &mut together.transaction {
                None => self.session_side().settle(session, settle, effects),
                Some(transaction) => {
                    self.session_side().settle_together(session, settle, transaction, effects);
                }
            },
            Command::Together(true) => drop(together.transaction.get_or_insert_default()),
            Command::Together(false) => {
                if let Some(transaction) = together.transaction.take() {
                    self.session_side().end_transaction(*transaction, effects);
                }
            }
            Command::Call(call) => self.exchange_side().call(now, session, *call, effects),
            Command::SendExchange(sent) => {
                self.exchange_side().send_exchange(now, session, *sent, effects)
            }
            Command::Cancel { exchange, close } => {
                let end = For::Exchange(exchange);
                let ending = &mut together.ending;
                let mut side = self.exchange_side();
                side.begin_ending(session, end, rest, ending);
                side.cancel_exchange(now, session, exchange, close, ending, effects);
                note_ended(ending, end);
            }
            Command::ExchangeCredit { exchange, messages } => {
                self.exchange_side().want_messages(now, session, exchange, messages, effects);
            }
            Command::Operate { token, operation } => {
                self.record(session, token, &operation, effects);
                self.session_side().operate(session, token, *operation, effects);
            }
            Command::Subscribe(subscribe) => {
                self.subscribe(now, session, *subscribe, &mut together.recoveries, effects);
            }
            Command::Credit { key, messages } => {
                self.session_side().add_credit(now, session, key, messages, effects);
            }
            Command::Unsubscribe { key, confirm } => {
                let how = (Ending::Orderly, confirm);
                self.end_subscription(now, session, (key, how), (rest, together), effects);
            }
            Command::Lose { key, confirm } => {
                let how = (Ending::Lost, confirm);
                self.end_subscription(now, session, (key, how), (rest, together), effects);
            }
            Command::Upstream(said) => {
                self.deputy_side().on_upstream(now, session, *said, effects);
                self.hand_on(now, effects);
            }
            Command::Goodbye => self.session_side().take_leave(session),
        }
    }

    /// A session subscribes.
    fn subscribe(
        &mut self,
        now: Now,
        session: SessionId,
        subscribe: Subscribe,
        recoveries: &mut Option<RecoveriesTogether>,
        effects: &mut Effects,
    ) {
        let mut side = self.session_side();
        let admitted = side.admit_subscription(session, subscribe, recoveries, effects);
        let Some(subscribe) = admitted else { return };
        if let Err(close) = self.home_side().note_temporaries(session, &subscribe.targets) {
            let reply = Reply::no_subscription(subscribe.key, subscribe.confirm, close);
            return self.session_side().reply(session, reply, effects);
        }
        self.notice_side().begin_subscription(now, session, subscribe, recoveries, effects);
    }

    /// Forgets some of the topics that nobody has used for long and of the values whose time is over:
    /// a part at a time, for looking at millions would hold up everything else.
    fn sweep_topics(&mut self, now: Now, effects: &mut Effects) {
        let Some(slots) = self.home_side().begin_sweep(now) else { return };
        for slot in slots {
            let Some(key) = self.directory.topics().key_of(slot) else { continue };
            self.home_side().sweep_kept(now, key, effects);
            self.hand_on(now, effects);
            if self.home_side().sweep_value(now, key) {
                self.view_side().note_expired(key);
            }
            let is_forgettable =
                self.home_side().is_forgettable(now, key) && self.session_side().is_unheard(key);
            if !is_forgettable || self.view_side().is_made_of(key) {
                continue;
            }
            self.session_side().end_priority(key);
            self.home_side().end_topic(key, effects);
            self.forget_topic(key);
        }
    }

    /// Takes a topic out of the directory, and what either side keeps of it.
    fn forget_topic(&mut self, key: Key) {
        let Some(topic) = self.directory.remove(key) else { return };
        self.fanout.forget_topic(&topic);
        self.home.forget_topic(&topic);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::subscriber_list::Plain;
    use crate::subscriptions::Entry;
    use proptest::prelude::*;
    use tiderace_topics::Path;
    use tiderace_wire::{Credentials, Destination, Kind, Subscribe, SubscriptionKey, Target};

    fn broker() -> Broker {
        Broker::new(ShardId(0), Arc::new(BrokerOptions::default()))
    }

    fn log_in(broker: &mut Broker, login: &str) -> SessionId {
        let session = broker.open(Now::default(), 0);
        let credentials = Credentials { login: Some(login.to_owned()), ..Credentials::default() };
        run(broker, session, Command::Login(credentials));
        session
    }

    fn run(broker: &mut Broker, session: SessionId, command: Command) {
        let mut commands = Commands::new();
        commands.push(command);
        broker.handle(Now::default(), session, &mut commands, &mut Effects::default());
    }

    fn subscribe(broker: &mut Broker, session: SessionId, key: SubscriptionKey, name: &str) {
        let path = Path::parse(name).unwrap();
        let subscribe = Subscribe {
            ..Subscribe::new(key, vec![Target::Exact(Destination { kind: Kind::Topic, path })])
        };
        run(broker, session, Command::Subscribe(Box::new(subscribe)));
    }

    #[test]
    fn sessions_share_an_identity_and_the_last_one_takes_it_along() {
        let mut broker = broker();
        let (first, second) = (log_in(&mut broker, "ann"), log_in(&mut broker, "ann"));
        let other = log_in(&mut broker, "");
        assert_eq!(broker.sessions.principals().len(), 2);
        for (session, left) in [(first, 2), (second, 1), (other, 0)] {
            broker.close(Now::default(), session, &mut Effects::default());
            assert_eq!(broker.sessions.principals().len(), left);
        }
        let session = log_in(&mut broker, "ann");
        let again = Credentials { login: Some("bob".to_owned()), ..Credentials::default() };
        run(&mut broker, session, Command::Login(again));
        let names: Vec<&str> = broker.sessions.principals().map(|known| &*known.name).collect();
        assert_eq!(names, ["bob"]);
    }

    proptest! {
        #[test]
        fn plain_subscriptions_know_their_places(
            ops in proptest::collection::vec((0usize..6, 0u32..3, any::<bool>()), 1..120),
        ) {
            let mut broker = broker();
            let sessions: Vec<SessionId> = (0..6).map(|_| log_in(&mut broker, "")).collect();
            let mut count = 0;
            for (at, key, on_a) in ops {
                let (session, key) = (sessions[at], SubscriptionKey(key));
                if broker.session(session).unwrap().subscriptions.get(key).is_some() {
                    run(&mut broker, session, Command::Unsubscribe { key, confirm: None });
                    count -= 1;
                } else {
                    subscribe(&mut broker, session, key, if on_a { "a" } else { "b" });
                    count += 1;
                }
                let topics = broker.directory.topics().iter();
                let known: Vec<_> = topics
                    .filter_map(|(key, topic)| Some((key, broker.fanout.subscribers(topic)?.exact())))
                    .collect();
                prop_assert_eq!(known.iter().map(|(_, listed)| listed.len()).sum::<usize>(), count);
                for (topic, listed) in known {
                    for (subscriber, place) in listed.iter().zip(0u32..) {
                        let record = broker.sessions.get(subscriber.session).unwrap();
                        let entry = record.subscriptions.get(subscriber.key).unwrap();
                        let right = Plain::new(topic, place);
                        prop_assert!(matches!(entry, Entry::Plain(plain) if *plain == right));
                    }
                }
            }
        }
    }
}
