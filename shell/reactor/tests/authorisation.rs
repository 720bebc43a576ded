//! Who may do what, tried by every protocol against a node in memory: bytes in, bytes out, and one oracle
//! that knows the documentation and nothing of the code. Rules, owners, private paths and temporary
//! destinations are drawn from the seed; so are the attempts and their spelling.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::access::oracle::{VERBS, Who, groups_of};
use crate::access::speakers::{ENDED, SPEECHES};
use crate::access::{Deed, Oracle, Rule, Speaker, Speech, Verb};
use crate::common::world::World;
use tiderace_base::{SessionId, ShardId, Span};
use tiderace_broker::{Action, Actions, Broker, BrokerOptions, Principal, Rules, TopicPolicy};
use tiderace_reactor::{Answer, LoginClient, Options, Verifier};
use tiderace_topics::Pattern;
use tiderace_wire::{Credentials, TopicSpec};

/// Everybody is believed at once.
struct Everybody;

impl Verifier for Everybody {
    fn submit(&self, credentials: Credentials, _: LoginClient, answer: Answer) {
        let name = credentials.login.unwrap_or_default();
        let groups = groups_of(&name).iter().map(|group| Arc::from(*group)).collect();
        answer.send(Ok(match name.as_str() {
            "" => Principal::anonymous(),
            name => Principal { groups, ..Principal::named(name) },
        }));
    }
}

const ACTIONS: [&str; 8] =
    ["admin", "browse", "create", "manage", "publish", "receive", "send", "subscribe"];
const WHO: [&str; 5] = ["*", "anonymous", "@ops", "ann", "bob"];
const NAMES: [&str; 3] = ["ann", "bob", ""];
const RULE_PATHS: [&str; 9] =
    ["**", "m/**", "m/*", "m/a", "priv/**", "user/**", "group/ops/*", "$sys/**", "temp/**"];
const PATHS: [&str; 16] = [
    "conf/a",
    "conf/b",
    "m/a",
    "m/b",
    "m/a/deep",
    "priv/a",
    "priv/b",
    "other",
    "user/ann/x",
    "user/bob/x",
    "user/bob",
    "group/ops/x",
    "group/sales/x",
    "$sys/x",
    "temp/1/reply",
    "temp/a",
];
const PATTERNS: [&str; 8] =
    ["**", "m/*", "priv/**", "user/ann/*", "user/bob/**", "user/*/x", "temp/**", "temp/*/reply"];

/// The same rules for the oracle and for the broker.
fn rules(world: &World) -> Vec<Rule> {
    let pick = |from: &[&'static str]| from[world.network.random(from.len())];
    let root = |path| Rule {
        allow: true,
        actions: ACTIONS.into_iter().collect(),
        who: "root",
        path,
        kind: "",
    };
    let mut rules = vec![root("**"), root("$sys/**")];
    for _ in 0..2 + world.network.random(6) {
        let allow = world.network.random(4) > 0;
        let actions = (0..1 + world.network.random(4)).map(|_| pick(&ACTIONS)).collect();
        // The one who sets things up is not to be denied anything.
        let who = if allow { pick(&WHO) } else { pick(&WHO[1..]) };
        rules.push(Rule {
            allow,
            actions,
            who,
            path: pick(&RULE_PATHS),
            kind: pick(&["", "", "topic", "queue"]),
        });
    }
    rules
}

fn compiled(rule: &Rule) -> tiderace_broker::Rule {
    let actions: Actions = Action::ALL
        .into_iter()
        .filter(|(name, _)| rule.actions.contains(name))
        .map(|(_, action)| action)
        .collect();
    let who = match rule.who {
        "*" => tiderace_broker::Who::All,
        "anonymous" => tiderace_broker::Who::Anonymous,
        group if group.starts_with('@') => tiderace_broker::Who::Group(group[1..].into()),
        name => tiderace_broker::Who::User(name.into()),
    };
    tiderace_broker::Rule {
        allow: rule.allow,
        actions,
        who: vec![who],
        paths: vec![Pattern::parse(rule.path).unwrap()],
        kind: match rule.kind {
            "topic" => Some(tiderace_wire::Kind::Topic),
            "queue" => Some(tiderace_wire::Kind::Queue),
            _ => None,
        },
    }
}

/// A node, its clients by protocol and name, and what is known of them.
struct Stage {
    world: World,
    oracle: Oracle,
    root: Speaker,
    speakers: BTreeMap<(usize, usize), (Speaker, String)>,
    /// Where sessions have their temporary destinations, and a name that none has.
    names: Vec<String>,
    /// Gives the names: it depends on the options alone.
    namer: Broker,
    seen: Vec<String>,
}

impl Stage {
    fn new(seed: u64) -> Stage {
        let drawing = World::new(seed, Options::default());
        let rules = rules(&drawing);
        let shards = 1 + (seed % 2) as usize;
        let broker = Arc::new(BrokerOptions {
            shards,
            rules: Rules::new(rules.iter().map(compiled).collect()),
            verify_logins: true,
            sessions_shown: true,
            temporary_secret: u128::from(seed),
            topic_policies: vec![TopicPolicy {
                pattern: Pattern::parse("conf/**").unwrap(),
                spec: Arc::new(TopicSpec { owner: Some("ann".into()), ..TopicSpec::default() }),
            }],
            ..BrokerOptions::default()
        });
        let given = Arc::clone(&broker);
        let mut options = Options { shards, ..Options::default() };
        options.deadlines.ping = Span::from_secs(86_400);
        let mut world = World::with(seed, options, |services| {
            let paths = |path: &str| Arc::from([path.to_owned()]);
            let quiet = Span::from_secs(86_400);
            let engine = Arc::new(tiderace_engineio::EngineOptions {
                ping_interval: quiet,
                ..tiderace_engineio::EngineOptions::default()
            });
            let native = tiderace_native::NativeOptions {
                ping_interval: quiet,
                ..tiderace_native::NativeOptions::default()
            };
            let rsocket = tiderace_rsocket::RSocketOptions {
                lifetime_max: quiet,
                ..tiderace_rsocket::RSocketOptions::default()
            };
            services.broker = given;
            services.verifier = Arc::new(Everybody);
            services.protocols = vec![
                tiderace_native::protocol(Arc::new(native), paths("/tiderace")),
                tiderace_engineio::protocol(
                    "socketio",
                    engine,
                    paths("/socket.io/"),
                    tiderace_socketio::inner(Arc::default()),
                ),
                tiderace_rsocket::protocol(Arc::new(rsocket), paths("/rsocket")),
                tiderace_events::protocol(Arc::default()),
                tiderace_stomp::protocol(Arc::default(), paths("/stomp")),
            ];
        });
        let namer = Broker::new(ShardId(0), broker);
        let nobody = SessionId { shard: ShardId(0), slot: 9_999, generation: 1 };
        let forged = tiderace_wire::TemporaryName::new(nobody, 5);
        let root = Speaker::connect(&mut world, Speech::SocketIo, "root");
        let oracle = Oracle { rules, topics: BTreeMap::new() };
        let names = vec![format!("temp/{forged}")];
        let speakers = BTreeMap::new();
        let mut stage = Stage { world, oracle, root, speakers, names, namer, seen: Vec::new() };
        stage.new_session();
        stage.set_up();
        stage
    }

    /// Topics that are there, with and without owners.
    fn set_up(&mut self) {
        for (path, owner) in [
            ("m/a", Some("ann")),
            ("priv/a", Some("bob")),
            ("priv/b", None),
            ("user/bob/x", Some("ann")),
            ("group/ops/x", Some("ann")),
        ] {
            let deed = Deed { verb: Verb::Create, path: path.to_owned(), owner };
            let said = self.root.attempt(&mut self.world, &deed, 1);
            let who = Who { name: "root", temporary: None, names: &[] };
            assert_eq!(is_denied(&said), !self.oracle.allows(&who, &deed), "{deed:?}: {said}");
            if !is_denied(&said) {
                self.oracle.done(&deed);
            }
        }
    }

    /// The session that has begun since this was asked last: its name in temporary destinations.
    fn new_session(&mut self) -> Option<String> {
        let fetch =
            Deed { verb: Verb::SubscribePattern, path: "$sys/sessions/*".into(), owner: None };
        let shown = self.root.list(&mut self.world, &fetch.path);
        let fresh = shown.iter().find(|id| !self.seen.contains(id)).cloned();
        self.seen = shown;
        let fresh = fresh?;
        let mut parts = fresh.trim_start_matches('s').split('-').map(|part| part.parse().unwrap());
        let mut next = || parts.next().unwrap();
        let id = SessionId { shard: ShardId(next() as u16), slot: next(), generation: next() };
        Some(format!("temp/{}", self.namer.temporary_name(id)))
    }

    /// The client of that protocol and name, connected.
    fn ensure(&mut self, speech: usize, name: usize) {
        let known = self.speakers.get(&(speech, name));
        if known.is_some_and(|(speaker, _)| !speaker.is_over(&self.world)) {
            return;
        }
        self.new_session();
        let speaker = Speaker::connect(&mut self.world, SPEECHES[speech], NAMES[name]);
        let own = match SPEECHES[speech] {
            Speech::Rest => String::new(),
            _ => {
                let mut own = None;
                for _ in 0..100 {
                    own = self.new_session();
                    if own.is_some() {
                        break;
                    }
                    self.world.run_for(Span::from_millis(50));
                }
                let about = (SPEECHES[speech], NAMES[name], &self.seen);
                own.unwrap_or_else(|| panic!("sessions are shown: {about:?}"))
            }
        };
        if !own.is_empty() {
            self.names.push(own.clone());
        }
        self.speakers.insert((speech, name), (speaker, own));
    }

    fn draw(&self, own: &str, made: &mut usize) -> Deed {
        let random = |bound| self.world.network.random(bound);
        let verb = VERBS[random(VERBS.len())];
        let owner = [None, Some("ann"), Some("bob")][random(3)];
        let path = match (verb, random(4)) {
            (Verb::SubscribePattern, 0) if !own.is_empty() => format!("{own}/*"),
            (Verb::SubscribePattern, _) => PATTERNS[random(PATTERNS.len())].to_owned(),
            (Verb::Create | Verb::CreateWithValue, 0 | 1) => {
                // Names that nobody knows yet.
                *made += 1;
                let below = ["m", "conf", "user/ann", "user/bob", "group/ops"][random(5)];
                format!("{below}/new{made}")
            }
            (_, 0) if !own.is_empty() && random(2) == 0 => format!("{own}/reply"),
            (_, 0) => format!("{}/reply", self.names[random(self.names.len())]),
            _ => PATHS[random(PATHS.len())].to_owned(),
        };
        let owner = owner.filter(|_| matches!(verb, Verb::Create | Verb::CreateWithValue));
        Deed { verb, path, owner }
    }
}

/// Whether an answer says that something is not allowed.
fn is_denied(said: &str) -> bool {
    ["not-authorised", "not-owner", "topic-read-only"].iter().any(|code| said.contains(code))
}

#[test]
fn what_is_allowed_is_what_the_documentation_says_by_every_protocol() {
    let (mut cases, mut denied, mut ended) = (0, 0, 0);
    let (mut by_speech, mut by_verb) = ([0; SPEECHES.len()], BTreeMap::new());
    let mut seed = 0;
    // As long as a verb has rarely been allowed, or refused, there are more.
    let is_rare = |by_verb: &BTreeMap<_, _>| {
        by_verb.len() < 2 * VERBS.len() || by_verb.values().any(|count| *count < 10)
    };
    while cases < 40_000 || cases < 80_000 && is_rare(&by_verb) {
        let mut stage = Stage::new(seed);
        let mut made = 0;
        for _ in 0..200 {
            let (speech, name) = (
                stage.world.network.random(SPEECHES.len()),
                stage.world.network.random(NAMES.len()),
            );
            stage.ensure(speech, name);
            let (mut speaker, own) = stage.speakers.remove(&(speech, name)).unwrap();
            let deed = stage.draw(&own, &mut made);
            if speaker.speech.can(&deed) {
                let spelling = stage.world.network.random(60);
                let said = speaker.attempt(&mut stage.world, &deed, spelling);
                if said == ENDED {
                    ended += 1;
                    continue;
                }
                let temporary = (!own.is_empty()).then_some(&*own);
                let who = Who { name: NAMES[name], temporary, names: &stage.names };
                let expected = stage.oracle.allows(&who, &deed);
                assert_eq!(
                    !is_denied(&said),
                    expected,
                    "seed {seed}: {:?} as {:?} of {temporary:?}: {deed:?}: {said}\nrules {:?}\ntopics {:?}",
                    speaker.speech,
                    NAMES[name],
                    stage.oracle.rules,
                    stage.oracle.topics,
                );
                if speaker.speech.is_done(&said) {
                    stage.oracle.done(&deed);
                }
                denied += usize::from(!expected);
                cases += 1;
                by_speech[speech] += 1;
                *by_verb.entry((deed.verb, expected)).or_insert(0) += 1;
            }
            stage.speakers.insert((speech, name), (speaker, own));
        }
        seed += 1;
    }
    assert!(ended < cases / 20, "{ended} connections ended amid {cases} cases: {by_speech:?}");
    assert!(denied > cases / 5 && denied < cases * 9 / 10, "{denied} of {cases} were denied");
    // Each verb was tried often, and both allowed and refused.
    assert_eq!(by_verb.len(), 2 * VERBS.len(), "{by_verb:?}");
    assert!(by_verb.values().all(|count| *count >= 10), "{by_verb:?}");
    assert!(by_speech.iter().all(|count| *count > 500), "{by_speech:?}");
}
