//! Whatever is published, conflated, deferred, removed and made again, and though clients leave and come
//! back: in the end every subscriber holds what the tree holds.
//!
//! One writer changes topics of all kinds, so the order of its changes is known and a model of the tree
//! can be kept beside it. Readers subscribe by path, wildcard and expression, some of them to updates at
//! intervals; they rest, vanish and come back by position. When all is calm, each reader's last value
//! of each topic is the tree's, or it knows that there is none; of topics whose fields are merged, each
//! field that it holds is the newest that was published.

#![allow(clippy::unwrap_used, clippy::field_reassign_with_default, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{Outgoing, Wish, World, for_seeds, names};
use tiderace_base::Span;
use tiderace_broker::{BrokerOptions, SlowConsumer, TopicPolicy, TopicSpec};
use tiderace_topics::{Path, Pattern};
use tiderace_value::Json;
use tiderace_wire::{
    Change, Command, Fetch, Flags, NewValue, Operation, OperationResult, Position, Token, Update,
};

const TOPICS: [&str; 9] = [
    "plain/a",
    "plain/b",
    "merge/a",
    "merge/b",
    "paced/a",
    "paced/merge",
    "rank/high",
    "rank/low",
    "made/a",
];
const STEPS: usize = 120;

/// A flat JSON object.
type Fields = BTreeMap<String, u64>;

/// A topic as the writer knows it.
#[derive(Debug, Default)]
struct Life {
    /// It was created or published to, and not removed since.
    known: bool,
    merges: bool,
    value: Option<Fields>,
    red: bool,
    /// All fields published in this life, each with its newest value.
    fields: Fields,
}

impl Life {
    fn publish(&mut self, value: Fields, red: bool) {
        self.fields.extend(value.clone());
        (self.value, self.red, self.known) = (Some(value), red, true);
    }
}

/// What a reader knows of a topic.
#[derive(Clone, Debug, Default)]
struct Knowledge {
    value: Option<Fields>,
    fields: Fields,
    /// Something may have been missed since: the topic may be gone, and fields may be old.
    is_suspect: bool,
    /// Of the present connection: number, version, body and whether it was merged.
    last: Option<(u64, u64, String, bool)>,
}

#[derive(Debug)]
struct Reader {
    wishes: Vec<Wish>,
    client: Option<usize>,
    tokens: Vec<Token>,
    told: Vec<bool>,
    position: Option<Position>,
    /// By subscription: whether its values had come once.
    established: Vec<bool>,
    known: Vec<BTreeMap<String, Knowledge>>,
    /// By subscription with credit: how many messages it may still get.
    credit: Vec<Option<u64>>,
    seen: usize,
}

struct Run {
    world: World,
    tree: BTreeMap<&'static str, Life>,
    readers: Vec<Reader>,
    writer: usize,
    count: u64,
}

fn text(fields: &Fields) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn read(body: &[u8]) -> Fields {
    let json = Json::parse(body, 8).unwrap();
    let field = |(name, value): (Json<'_>, Json<'_>)| {
        (name.as_text().unwrap().into_owned(), value.as_unsigned().unwrap())
    };
    json.fields().map(field).collect()
}

fn policies(usual: &TopicSpec) -> Vec<TopicPolicy> {
    let specs = [
        ("merge/**", r#"{"conflation":"merge"}"#),
        ("paced/merge", r#"{"conflation":"merge","interval":300}"#),
        ("paced/**", r#"{"interval":200,"priority":"low"}"#),
        ("rank/high", r#"{"priority":"high","history":{"count":5}}"#),
        ("rank/low", r#"{"priority":"low","slow_consumer":"block"}"#),
    ];
    let policy = |(pattern, spec): (&str, &str)| TopicPolicy {
        pattern: Pattern::parse(pattern).unwrap(),
        spec: Arc::new(TopicSpec::parse(spec.as_bytes(), usual).unwrap()),
    };
    specs.into_iter().map(policy).collect()
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut options = BrokerOptions::default();
        (options.shards, options.epoch) = (1 + (seed % 4) as usize, seed);
        let usual = Arc::make_mut(&mut options.topic_default);
        (usual.retain, usual.grace) = (true, Span::ZERO);
        usual.slow_consumer = SlowConsumer::Conflate;
        options.topic_policies = policies(&options.topic_default);
        let high = [300, 1_000, 100_000][(seed / 4 % 3) as usize];
        (options.backlog_bytes_high, options.backlog_bytes_low) = (high, high * 9 / 10);
        if seed.is_multiple_of(5) {
            (options.history_bytes_max, options.history_bytes_per_topic) = (3_000, 1_000);
        }
        let mut world = World::new(seed, options);
        let writer = world.connect(0, "writer");
        world.deliver_envelopes();
        let life = |path: &'static str| {
            let merges = path.contains("merge");
            (path, Life { merges, ..Life::default() })
        };
        let tree = TOPICS.into_iter().map(life).collect();
        Run { world, tree, readers: Vec::new(), writer, count: 0 }
    }

    fn reader(&mut self) {
        let random = &mut self.world.random;
        let count = 1 + random.below(2);
        let mut wishes = Vec::new();
        for _ in 0..count {
            let mut wish = match random.below(6) {
                0 => Wish::to("topic:**"),
                1 => Wish::to("topic:merge/*"),
                2 => Wish::to("topic:?(paced|rank|made)/.*"),
                3 => Wish {
                    targets: vec!["topic:plain/a".into(), "topic:?(plain|merge)/a".into()],
                    ..Wish::default()
                },
                _ => Wish::to(&format!("topic:{}", random.pick(&TOPICS))),
            };
            wish.interval = *random.pick(&[Span::ZERO, Span::ZERO, Span::from_millis(150)]);
            wish.credit = *random.pick(&[None, None, None, Some(0), Some(1), Some(4)]);
            wish.selector = random.one_in(6).then_some("colour = 'red'");
            wish.deltas = random.one_in(2);
            wish.recoverable = true;
            wishes.push(wish);
        }
        self.readers.push(Reader {
            client: None,
            tokens: Vec::new(),
            told: Vec::new(),
            position: None,
            established: vec![false; count],
            known: vec![BTreeMap::new(); count],
            credit: vec![None; count],
            wishes,
            seen: 0,
        });
    }

    fn arrive(&mut self, who: usize) {
        let shard = self.world.random.below(self.world.brokers.len());
        let client = self.world.connect(shard, "reader");
        let forgets = self.world.random.one_in(4);
        let reader = &mut self.readers[who];
        if forgets {
            reader.position = None;
        }
        if let Some(position) = &reader.position {
            self.world.clients[client].position = position.clone();
        }
        (reader.seen, reader.client) = (0, Some(client));
        reader.credit = reader.wishes.iter().map(|wish| wish.credit).collect();
        reader.told = vec![false; reader.wishes.len()];
        let mut wishes = reader.wishes.clone();
        for (key, wish) in wishes.iter_mut().enumerate() {
            if reader.established[key] && reader.position.is_some() {
                wish.since = reader.position.clone();
                reader.known[key].values_mut().for_each(|known| known.last = None);
            } else {
                reader.established[key] = false;
                reader.known[key].clear();
            }
        }
        self.readers[who].tokens = self.world.subscribe_all(client, wishes);
    }

    fn vanish(&mut self, who: usize) {
        self.look(who);
        let Some(client) = self.readers[who].client.take() else { return };
        let position = self.world.clients[client].position.encode();
        self.readers[who].position = Some(Position::decode(&position).unwrap());
        self.world.close(client);
    }

    /// Notes what has come.
    fn look(&mut self, who: usize) {
        let reader = &mut self.readers[who];
        let Some(client) = reader.client else { return };
        let client = &self.world.clients[client];
        for (key, token) in reader.tokens.iter().enumerate() {
            if let Some((complete, _)) = client.recovered.get(token)
                && !std::mem::replace(&mut reader.told[key], true)
                && !complete
            {
                reader.known[key].values_mut().for_each(|known| known.is_suspect = true);
            }
        }
        for message in &client.received[reader.seen..] {
            if let Some(credit) = &mut reader.credit[message.key as usize] {
                assert!(*credit > 0, "more than was asked for: {message:?}");
                *credit -= 1;
            }
            let known = &mut reader.known[message.key as usize];
            known.entry(message.path.clone()).or_default().take(message);
        }
        reader.seen = client.received.len();
        let confirmed = reader.tokens.iter().all(|token| client.confirmed.contains(token));
        if confirmed && !client.ready {
            reader.established.fill(true);
        }
    }

    /// Asks for more messages of a subscription with credit.
    fn ask(&mut self, who: usize, key: usize, messages: u64) {
        let Some(client) = self.readers[who].client else { return };
        if let Some(credit) = &mut self.readers[who].credit[key] {
            *credit = credit.saturating_add(messages);
            self.world.credit(client, key as u32, messages);
        }
    }

    fn value(&mut self, path: &str) -> Fields {
        self.count += 1;
        let names: &[&str] = if path.contains("merge") { &["a", "b", "c"] } else { &["a"] };
        let mut fields = Fields::new();
        for _ in 0..2 {
            fields.insert((*self.world.random.pick(names)).to_owned(), self.count);
        }
        fields
    }

    fn publish(&mut self, path: &'static str) {
        let mut messages = Vec::new();
        for _ in 0..1 + self.world.random.below(3) {
            let value = self.value(path);
            let red = self.world.random.one_in(2);
            let mut message = Outgoing::new(text(&value));
            message.properties = format!("colour:{}\n", if red { "red" } else { "blue" });
            messages.push(message);
            self.tree.get_mut(path).unwrap().publish(value, red);
        }
        self.world.publish_all(self.writer, &format!("topic:{path}"), &messages);
    }

    fn operate(&mut self, operation: Operation) -> Token {
        let token = self.world.token(self.writer);
        let operation = Box::new(operation);
        self.world.command(self.writer, Command::Operate { token, operation });
        token
    }

    fn update(&mut self, path: &'static str, merge: bool) {
        let value = self.value(path);
        let body: Box<[u8]> = text(&value).into_bytes().into();
        let life = self.tree.get_mut(path).unwrap();
        let change = if merge { Change::Merge(body) } else { Change::Value(body) };
        match life.value.clone() {
            Some(mut present) if merge => {
                present.extend(value);
                life.publish(present, life.red);
            }
            None if merge => {}
            _ => life.publish(value, false),
        }
        self.operate(Operation::Update(Box::new(Update {
            path: Path::parse(path).unwrap(),
            change,
            properties: None,
            flags: Flags::NONE,
            condition: None,
            spec: None,
        })));
    }

    fn remove(&mut self, path: &'static str) {
        let life = self.tree.get_mut(path).unwrap();
        *life = Life { merges: path.contains("merge"), ..Life::default() };
        self.operate(Operation::Remove { selector: vec![Pattern::parse(path).unwrap()] });
    }

    /// Makes a topic anew, as something else perhaps.
    fn create(&mut self) {
        let path = "made/a";
        let value = self.value(path);
        let random = &mut self.world.random;
        let merges = random.one_in(2);
        let spec = format!(
            r#"{{"conflation":"{}","interval":{},"priority":"{}"}}"#,
            if merges { "merge" } else { "latest" },
            random.pick(&[0, 0, 100]),
            random.pick(&["low", "default", "high"]),
        );
        let body = text(&value).into_bytes().into();
        let life = self.tree.get_mut(path).unwrap();
        if !life.known {
            life.merges = merges;
            life.publish(value, false);
        }
        let value = Some(NewValue { body, ..NewValue::default() });
        let path = Path::parse(path).unwrap();
        self.operate(Operation::Create { path, spec: spec.into_bytes().into(), value });
    }

    fn write(&mut self) {
        if self.world.clients[self.writer].paused {
            return;
        }
        let path = *self.world.random.pick(&TOPICS);
        match self.world.random.below(12) {
            0 => self.update(path, false),
            1 | 2 => self.update(path, true),
            3 => self.remove(path),
            4 => {
                if self.world.random.one_in(2) {
                    self.remove("made/a");
                }
                self.create();
            }
            _ => self.publish(path),
        }
    }

    fn act(&mut self) {
        let who = self.world.random.below(self.readers.len());
        match self.world.random.below(26) {
            24 | 25 => {
                let key = self.world.random.below(self.readers[who].wishes.len());
                let messages = 1 + self.world.random.below(3) as u64;
                self.ask(who, key, messages);
            }
            0..=7 => self.write(),
            8 | 9 => self.vanish(who),
            10..=12 => {
                if self.readers[who].client.is_none() {
                    self.arrive(who);
                }
            }
            13 | 14 => self.world.advance(Span::from_millis(50)),
            15 if self.world.random.one_in(8) => {
                let seconds = *self.world.random.pick(&[10, 130]);
                self.world.advance(Span::from_secs(seconds));
                self.world.advance(Span::from_secs(5));
            }
            16..=19 => {
                for _ in 0..4 {
                    self.world.deliver_envelope();
                }
            }
            _ => {
                if let Some(client) = self.readers[who].client {
                    self.world.pull(client);
                }
            }
        }
        self.look(who);
    }

    /// All come back, read everything, and wait until no window is open.
    fn calm(&mut self) {
        for who in 0..self.readers.len() {
            if self.readers[who].client.is_none() {
                self.arrive(who);
            }
        }
        self.world.quiesce();
        for who in 0..self.readers.len() {
            self.look(who);
            for key in 0..self.readers[who].wishes.len() {
                self.ask(who, key, u64::MAX);
            }
        }
        self.world.quiesce();
        let mut ticks = 0;
        while self.world.metrics().windows > 0 {
            self.world.advance(Span::from_millis(50));
            self.world.quiesce();
            ticks += 1;
            assert!(ticks < 40, "windows end");
        }
        for who in 0..self.readers.len() {
            self.look(who);
        }
    }

    /// The model is right: it is what the tree says.
    fn check_tree(&mut self) {
        let selector = vec![Pattern::parse("**").unwrap()];
        let fetch = Fetch { selector, after: None, limit: 0, depth: 0, values: true, specs: false };
        let token = self.operate(Operation::Fetch(Box::new(fetch)));
        self.world.quiesce();
        let OperationResult::Page(page) = &self.world.clients[self.writer].operated[&token] else {
            panic!("a fetch gives a page");
        };
        let values: BTreeMap<String, Fields> = page
            .topics
            .iter()
            .filter_map(|entry| {
                let value = read(entry.value.as_ref()?.message(0)?.body);
                Some((entry.path.to_string(), value))
            })
            .collect();
        let model = self.tree.iter();
        let model: BTreeMap<String, Fields> = model
            .filter_map(|(path, life)| Some(((*path).to_owned(), life.value.clone()?)))
            .collect();
        assert_eq!(values, model);
    }

    fn check(&self) {
        for reader in &self.readers {
            for (key, wish) in reader.wishes.iter().enumerate() {
                for (path, life) in &self.tree {
                    if wish.targets.iter().any(|target| names(target, path)) {
                        check_topic(wish, path, life, reader.known[key].get(*path));
                    }
                }
            }
        }
    }
}

impl Knowledge {
    fn take(&mut self, message: &crate::support::Received) {
        let path = &message.path;
        if let Some((number, version, body, is_merged)) = &self.last {
            assert!(message.sequence > *number, "{path}: {message:?} after {self:?}");
            assert!(message.version > *version, "{path}: {message:?} after {self:?}");
            if let Some(previous) = &message.previous
                && version + 1 == message.version
                && !is_merged
            {
                assert_eq!(body, previous, "{path}: what a difference would be to");
            }
        }
        let last = (message.sequence, message.version, message.body.clone(), message.is_merged);
        if message.body.is_empty() {
            *self = Knowledge { last: Some(last), ..Knowledge::default() };
            return;
        }
        if std::mem::take(&mut self.is_suspect) {
            self.fields.clear();
        }
        let value = read(message.body.as_bytes());
        self.fields.extend(value.clone());
        (self.value, self.last) = (Some(value), Some(last));
    }
}

fn check_topic(wish: &Wish, path: &str, life: &Life, known: Option<&Knowledge>) {
    let value = known.and_then(|known| known.value.as_ref());
    if wish.selector.is_some() {
        // Removals have no colour, so who looks at that does not hear of them.
        if life.red && !life.merges {
            assert_eq!(value, life.value.as_ref(), "{path}: the newest value that is red");
        }
        return;
    }
    let Some(tree) = &life.value else {
        if known.is_some_and(|known| known.is_suspect) {
            return;
        }
        return assert_eq!(value, None, "{path}: the topic is not there");
    };
    if !life.merges {
        return assert_eq!(value, Some(tree), "{path}: the newest value");
    }
    let fields = known.map(|known| &known.fields).unwrap_or_else(|| panic!("{path} is not known"));
    for (name, value) in tree {
        assert_eq!(fields.get(name), Some(value), "{path}: {name} of the value");
    }
    for (name, value) in fields {
        assert_eq!(life.fields.get(name), Some(value), "{path}: {name} as it was published");
    }
}

fn scenario(seed: u64) {
    let mut run = Run::new(seed);
    for who in 0..4 {
        run.reader();
        if who % 2 == 0 {
            run.arrive(who);
        }
    }
    for _ in 0..STEPS {
        run.act();
    }
    run.calm();
    run.check_tree();
    run.check();
    run.world.end();
}

/// Two halves, so that two cores share the work.
const SEEDS: u64 = 10_000;

#[test]
fn every_reader_ends_with_what_the_tree_holds() {
    for_seeds(0..SEEDS / 2, scenario);
}

#[test]
fn every_reader_ends_with_what_the_tree_holds_too() {
    for_seeds(SEEDS / 2..SEEDS, scenario);
}
