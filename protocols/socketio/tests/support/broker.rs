//! The broker behind a few sessions, and what a test wants to know of what goes to and fro.

use std::collections::VecDeque;

use tiderace_base::{Close, CloseCode, Now};
use tiderace_broker::{Action, BrokerOptions, Pending, Principal, Rule, Rules, Who};
use tiderace_testkit::World;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Command, Commands, Credentials, Destination, Kind, Meta, Outcome, Reply, Run, TemporaryName,
    Token,
};

#[derive(Default)]
pub struct Broker {
    /// Made when the first client comes.
    world: Option<World>,
    /// The clients' numbers in the world.
    clients: Vec<usize>,
    /// Replies that the test gives.
    given: VecDeque<(usize, Reply)>,
    /// Operations that are not answered, if they are not.
    pub unanswered: Option<Vec<Token>>,
    /// Every command as text.
    pub log: Vec<String>,
    /// Two homes instead of one.
    pub two_homes: bool,
    /// How often the server has begun anew, with nothing of what it kept.
    restarts: u64,
    /// Settled messages: their numbers and what becomes of them.
    pub settled: Vec<(u64, Outcome)>,
}

impl Broker {
    pub fn shards(&self) -> usize {
        if self.two_homes { 2 } else { 1 }
    }

    pub fn epoch(&self) -> u64 {
        77 + self.restarts
    }

    /// Opens a session; its name in the paths of its temporary destinations.
    pub fn open(&mut self, now: Now) -> TemporaryName {
        self.world(now);
        let world = self.world.as_mut().unwrap();
        let client = world.open(0);
        self.clients.push(client);
        world.temporary_name(client)
    }

    /// A session is gone.
    pub fn forget(&mut self, client: usize) {
        if let (Some(world), Some(known)) = (&mut self.world, self.clients.get(client)) {
            world.close(*known);
        }
    }

    /// The server begins anew: sessions, topics and histories are gone.
    pub fn restart(&mut self, now: Now) {
        self.restarts += 1;
        self.world = None;
        self.world(now);
        let world = self.world.as_mut().unwrap();
        self.clients.iter_mut().for_each(|client| *client = world.open(0));
    }

    /// Publishes as somebody else.
    pub fn publish(&mut self, kind: Kind, path: &str, properties: &str, body: &[u8]) {
        let destination = Destination { kind, path: Path::parse(path).unwrap() };
        let now = Now::default();
        let run = Run::single(destination, now.time, properties.as_bytes(), body, Meta::default());
        let mut commands = Commands::new();
        commands.push(Command::Publish { run, confirm: None, confirm_first: false });
        self.world(now).handle(PUBLISHER, &mut commands);
    }

    pub fn handle(&mut self, client: usize, command: Command) {
        self.log.extend(describe(&command));
        match &command {
            Command::Operate { token, .. } => {
                if let Some(unanswered) = &mut self.unanswered {
                    return unanswered.push(*token);
                }
            }
            Command::Settle(settle) => {
                let numbers = settle.ranges.iter().flat_map(|(from, to)| *from..=*to);
                self.settled.extend(numbers.map(|number| (number, settle.outcome)));
            }
            Command::Credit { .. } => panic!("Socket.IO gives no credit"),
            _ => {}
        }
        let (Some(world), Some(known)) = (&mut self.world, self.clients.get(client)) else {
            return;
        };
        let mut commands = Commands::new();
        commands.push(command);
        world.handle(*known, &mut commands);
    }

    /// Gives a reply that the broker has not given.
    pub fn give(&mut self, client: usize, reply: Reply) {
        self.given.push_back((client, reply));
    }

    /// The next reply, and whose it is.
    pub fn reply(&mut self) -> Option<(usize, Reply)> {
        if let Some(given) = self.given.pop_front() {
            return Some(given);
        }
        let world = self.world.as_mut()?;
        self.clients
            .iter()
            .enumerate()
            .find_map(|(client, known)| world.reply(*known).map(|reply| (client, reply)))
    }

    /// The next delivery to a client.
    pub fn next(&mut self, client: usize) -> Option<Pending> {
        self.world.as_mut()?.next(*self.clients.get(client)?)
    }

    pub fn advance(&mut self, now: Now) {
        if let Some(world) = &mut self.world {
            world.advance(now);
        }
    }

    fn world(&mut self, now: Now) -> &mut World {
        let options = BrokerOptions {
            shards: self.shards(),
            epoch: self.epoch(),
            rules: rules(),
            ..BrokerOptions::default()
        };
        self.world.get_or_insert_with(|| {
            let mut world = World::new(now, options, Some(verify));
            assert_eq!(world.open(0), PUBLISHER);
            let mut commands = Commands::new();
            commands.push(Command::Login(Credentials::default()));
            world.handle(PUBLISHER, &mut commands);
            world
        })
    }
}

/// The client in the world that publishes as somebody else.
const PUBLISHER: usize = 0;

/// What begins with `secret` is nobody's.
fn rules() -> Rules {
    let rule = |allow, pattern| Rule {
        allow,
        actions: Action::ALL.iter().map(|(_, action)| *action).collect(),
        who: vec![Who::All],
        paths: vec![Pattern::parse(pattern).unwrap()],
        kind: None,
    };
    Rules::new(vec![rule(false, "secret*/**"), rule(true, "**")])
}

/// A token is the name of who shows it.
fn verify(credentials: &Credentials) -> Result<Principal, Close> {
    let name = match (credentials.token.as_deref(), credentials.login.as_deref()) {
        (Some("wrong"), _) => return Err(CloseCode::LoginFailed.into()),
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => return Ok(Principal::anonymous()),
    };
    Ok(Principal::named(name))
}

/// A command as text, if tests look for it.
fn describe(command: &Command) -> Option<String> {
    Some(match command {
        Command::Operate { operation, .. } => format!("operate {operation:?}"),
        Command::Login(credentials) => format!(
            "login {:?} {:?} {:?}",
            credentials.login, credentials.passcode, credentials.token
        ),
        Command::Publish { run, .. } => describe_run(run),
        Command::Subscribe(subscribe) => format!(
            "subscribe {:?} retained={} recoverable={} explicit={} since={}",
            subscribe.targets,
            subscribe.retained,
            subscribe.recoverable,
            subscribe.explicit,
            subscribe.since.is_some(),
        ),
        Command::Unsubscribe { key, .. } => format!("unsubscribe {}", key.0),
        Command::Call(call) => format!("call {} {:?}", call.service, call.timeout),
        _ => return None,
    })
}

fn describe_run(run: &Run) -> String {
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
