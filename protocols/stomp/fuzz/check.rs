//! What must hold for any bytes: no panic, small memory, the same conversation however the bytes are
//! cut, and with the broker a conversation that ends no other. Shared by the fuzz targets and by the test that replays the corpus.
#![allow(dead_code)]

use std::sync::Arc;

use tiderace_base::{Now, Span};
use tiderace_stomp::{StompOptions, protocol};
use tiderace_testkit::Neighbours;
use tiderace_wire::{
    Command, Commands, Context, Framing, Opening, OutQueue, Output, Reply, Session,
};

/// The first byte chooses the version, the second the length of the pieces.
pub fn frames(data: &[u8]) {
    let [version, piece, bytes @ ..] = data else { return };
    let connect: &[u8] = match version % 3 {
        0 => b"CONNECT\n\n\0",
        1 => b"CONNECT\naccept-version:1.1\nhost:h\n\n\0",
        _ => b"CONNECT\naccept-version:1.2\nhost:h\n\n\0",
    };
    let whole = play(connect, bytes, usize::MAX);
    let piece = usize::from(*piece % 32) + 1;
    assert_eq!(play(connect, bytes, piece), whole);
    converse(connect, bytes, piece);
}

/// The bytes are all that a stranger sends.
pub fn raw(data: &[u8]) {
    assert_eq!(play(b"", data, 1), play(b"", data, usize::MAX));
    converse(b"", data, usize::MAX);
}

/// What the other client says: values and messages are there, and it listens.
const HELPFUL: &[u8] = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0\
    SEND\ndestination:/topic/a\nretain:set\n\none\0\
    SEND\ndestination:/queue/a\nreceipt:1\n\njob\0\
    SUBSCRIBE\nid:0\ndestination:/topic/**\nack:client-individual\n\n\0";

/// Plays bytes in pieces with the broker, beside another client.
fn converse(connect: &[u8], bytes: &[u8], piece: usize) {
    let stomp = protocol(Arc::new(options()), [].into());
    let mut clients = Neighbours::open(Framing::Stream, |opening| (stomp.open)(opening));
    clients.prepare(|other, world| other.receive(world, HELPFUL));
    clients.act(|client, world| client.receive(world, connect));
    for part in bytes.chunks(piece.min(bytes.len().max(1))) {
        clients.act(|client, world| client.receive(world, part));
    }
    clients.wait(Span::from_secs(60));
    clients.take_outputs().iter().for_each(|said| check(said));
}

/// What was said is heart-beats and frames.
fn check(said: &[u8]) {
    let mut rest = said;
    while let [first, tail @ ..] = rest {
        if *first == b'\n' {
            rest = tail;
            continue;
        }
        let end = rest.windows(2).position(|two| two == b"\n\n").expect("a head has an end");
        let head = std::str::from_utf8(&rest[..end]).expect("a head is UTF-8");
        let known = ["CONNECTED", "MESSAGE", "RECEIPT", "ERROR"];
        assert!(head.lines().next().is_some_and(|line| known.contains(&line)), "{head:?}");
        let body = &rest[end + 2..];
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length = length.map(|length| length.parse::<usize>().expect("a length is a number"));
        let length = length.or_else(|| body.iter().position(|byte| *byte == 0));
        let tail = length.and_then(|length| body.get(length..));
        let Some([0, tail @ ..]) = tail else { panic!("{head:?} is cut off") };
        rest = tail;
    }
}

fn options() -> StompOptions {
    StompOptions {
        header_bytes_max: 200,
        headers_max: 8,
        message_bytes_max: 100,
        preauth_bytes_max: 150,
        subscriptions_max: 20,
        transactions_max: 4,
        transaction_bytes_max: 500,
        ..StompOptions::default()
    }
}

/// Plays bytes in pieces; gives what was asked of the broker, said and concluded.
fn play(connect: &[u8], bytes: &[u8], piece: usize) -> (String, Vec<u8>, String) {
    let stomp = protocol(Arc::new(options()), [].into());
    let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let opening = Opening::new(Framing::Stream, peer, Now::default());
    let mut player = Player {
        session: (stomp.open)(&opening),
        input: Vec::new(),
        queue: OutQueue::new(),
        commands: String::new(),
        login: false,
        end: None,
    };
    player.send(connect);
    for part in bytes.chunks(piece.min(bytes.len().max(1))) {
        player.send(part);
    }
    let end = player.end.unwrap_or_default();
    (player.commands, player.queue.tail().clone(), end)
}

struct Player {
    session: Box<dyn Session>,
    input: Vec<u8>,
    queue: OutQueue,
    commands: String,
    /// Whether a login waits for its answer.
    login: bool,
    end: Option<String>,
}

impl Player {
    fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut before = usize::MAX;
        while self.end.is_none() && before != self.input.len() {
            before = self.input.len();
            let input = std::mem::take(&mut self.input);
            let mut consumed = 0;
            self.call(|session, context| {
                let progress = session.receive(Now::default(), &input, context)?;
                consumed = progress.consumed;
                Ok(())
            });
            self.input = input.into_iter().skip(consumed).collect();
            if std::mem::take(&mut self.login) && self.end.is_none() {
                let reply = Reply::LoggedIn { name: "a".into(), anonymous: false, host: None };
                self.call(|session, context| session.reply(Now::default(), reply, context));
            }
        }
    }

    fn call(
        &mut self,
        act: impl FnOnce(&mut dyn Session, &mut Context<'_>) -> Result<(), tiderace_base::Close>,
    ) {
        let mut commands = Commands::new();
        let output = Output { framing: Framing::Stream, queue: &mut self.queue };
        let mut context = Context::new(&mut commands, output);
        let result = act(&mut *self.session, &mut context);
        self.end = context.actions.take_finish().map(|close| close.to_string());
        if let Err(close) = result {
            let mut output = Output { framing: Framing::Stream, queue: &mut self.queue };
            self.session.goodbye(&close, &mut output);
            self.end = Some(close.to_string());
        }
        for command in commands.drain() {
            self.note(command);
        }
    }

    /// Writes a command down, the same however messages were grouped into runs.
    fn note(&mut self, command: Command) {
        match command {
            Command::Login(_) => self.login = true,
            Command::Publish { run, .. } => {
                for message in run.messages() {
                    let row = (run.destination(), message.properties, message.body);
                    self.commands += &format!("{row:?} {:?}\n", message.flags);
                }
            }
            other => self.commands += &format!("{other:?}\n"),
        }
    }
}
