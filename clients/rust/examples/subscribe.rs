//! Prints what is published to topics, as long as it is wanted, and goes on where it was after a break:
//! `cargo run -p tiderace-client --example subscribe -- 127.0.0.1:7800 'demo/fx/*' 10`

use std::error::Error;
use std::io::Write;
use std::net::TcpStream;

use tiderace_client::{Auth, Client, Connection, ConnectionError, Event, SubscribeOptions};

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
    let mut client = Client::new("example");
    let options = SubscribeOptions::topic(pattern).pattern().snapshot().recoverable().deltas();
    client.subscribe(options, &mut Vec::new());
    let mut written = 0;
    while written < count {
        // The client makes its subscriptions again, and tells what came in between.
        let mut connection = Connection::new(TcpStream::connect(server)?, client);
        connection.open(server, Auth::Anonymous)?;
        match follow(&mut connection, count, &mut written, out) {
            Ok(()) => connection.send(|client, out| client.bye(out))?,
            Err(Failure::Connection(ConnectionError::Io(_) | ConnectionError::Closed)) => {}
            Err(Failure::Connection(error)) => return Err(error.into()),
            Err(Failure::Told(sentence)) => return Err(sentence.into()),
        }
        connection.flush()?;
        client = connection.into_client();
    }
    Ok(())
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
                failure = Some("updates are missing".to_owned())
            }
            Event::Refused { sentence, .. } => failure = Some(sentence.to_owned()),
            _ => {}
        });
        received.map_err(Failure::Connection)?;
        if let Some(failure) = failure.take() {
            return Err(Failure::Told(failure));
        }
    }
    Ok(())
}
