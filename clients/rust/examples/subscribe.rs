//! Prints what is published to topics, as long as it is wanted, and goes on where it was after a break:
//! `cargo run -p tiderace-client --example subscribe -- 127.0.0.1:7800 'demo/fx/*' 10`

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::net::TcpStream;

use tiderace_client::{
    Auth, Client, Connection, ConnectionError, Event, Reconnect, SubscribeOptions,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().unwrap_or_else(|| "127.0.0.1:7800".to_owned());
    let pattern = arguments.next().unwrap_or_else(|| "demo/fx/*".to_owned());
    let count = arguments.next().map_or(Ok(u64::MAX), |count| count.parse())?;
    subscribe(&server, &pattern, count, &mut std::io::stdout().lock())
}

/// Writes so many updates of topics, each as a line.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub fn subscribe(
    server: &str,
    pattern: &str,
    count: u64,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    // Several servers, separated by commas, are taken in turn.
    let mut reconnect = Reconnect::new(server.split(','));
    let stream = TcpStream::connect(reconnect.address())?;
    let mut connection = Connection::new(stream, Client::new("example"));
    connection.open(reconnect.address(), Auth::Anonymous)?;
    let options = SubscribeOptions::topic(pattern).pattern().snapshot().recoverable().deltas();
    connection.send(|client, out| client.subscribe(options, out))?;
    let mut written = 0;
    loop {
        match follow(&mut connection, count, &mut written, out) {
            Ok(()) => {
                connection.send(|client, out| client.bye(out))?;
                return Ok(connection.flush()?);
            }
            Err(Failure::Connection(error)) => again(&mut connection, &mut reconnect, error)?,
            Err(Failure::Told(sentence)) => return Err(sentence.into()),
        }
    }
}

/// Connects again, as often as it takes. The client makes its subscriptions again, and tells what came in between.
fn again(
    connection: &mut Connection<TcpStream>,
    reconnect: &mut Reconnect,
    lost: ConnectionError,
) -> Result<(), ConnectionError> {
    let mut problem = lost;
    loop {
        let random = RandomState::new().hash_one(0);
        let Some(pause) = reconnect.failed(&problem, random) else { return Err(problem) };
        std::thread::park_timeout(pause);
        let address = reconnect.address().to_owned();
        let opened = TcpStream::connect(&address)
            .map_err(ConnectionError::from)
            .and_then(|stream| connection.reopen(stream, &address, Auth::Anonymous));
        match opened {
            Ok(()) => {
                reconnect.succeeded();
                return Ok(());
            }
            Err(error) => problem = error,
        }
    }
}

enum Failure {
    Connection(ConnectionError),
    Told(String),
}

fn follow(
    connection: &mut Connection<TcpStream>,
    count: u64,
    written: &mut u64,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut failure = None;
    while *written < count {
        let received = connection.receive(|event| match event {
            Event::Update(update) if *written < count => {
                *written += 1;
                let (path, body) = (update.path.unwrap_or_default(), update.body);
                if let Err(error) = writeln!(out, "{path} {}", String::from_utf8_lossy(body)) {
                    failure = Some(error.to_string());
                }
            }
            Event::Recovered { complete: false, .. } => {
                if let Err(error) = writeln!(out, "updates may be missing") {
                    failure = Some(error.to_string());
                }
            }
            Event::Refused { sentence, .. } | Event::Unsubscribed { sentence, .. } => {
                failure = Some(sentence.to_owned())
            }
            _ => {}
        });
        received.map_err(Failure::Connection)?;
        if let Some(failure) = failure.take() {
            return Err(Failure::Told(failure));
        }
    }
    Ok(())
}
