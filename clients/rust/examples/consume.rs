//! Takes messages from a queue and acknowledges each when it has been written:
//! `cargo run -p tiderace-client --example consume -- 127.0.0.1:7800 jobs 3`

use std::error::Error;
use std::io::Write;
use std::net::TcpStream;

use tiderace_client::{Auth, Client, Connection, Event, SettleMessage, SubscribeOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().unwrap_or_else(|| "127.0.0.1:7800".to_owned());
    let queue = arguments.next().unwrap_or_else(|| "jobs".to_owned());
    let count = arguments.next().map_or(Ok(u64::MAX), |count| count.parse())?;
    consume(&server, &queue, count, &mut std::io::stdout().lock())
}

/// Writes so many messages of a queue, each as a line.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub fn consume(
    server: &str,
    queue: &str,
    count: u64,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let stream = TcpStream::connect(server)?;
    let mut connection = Connection::new(stream, Client::new("example"));
    connection.open(server, Auth::Anonymous)?;
    let options = SubscribeOptions::queue(queue).explicit();
    connection.send(|client, out| client.subscribe(options, out))?;
    let (mut written, mut confirmed) = (0, 0);
    let mut problem: Option<Box<dyn Error>> = None;
    // The last acknowledgement is confirmed, too, before the connection ends.
    while confirmed < count {
        let mut settle = Vec::new();
        connection.receive(|event| match event {
            Event::Queued(queued, _) => {
                for (number, entry) in (queued.first..).zip(queued.entries()) {
                    let line = entry.map(|entry| String::from_utf8_lossy(entry.body).into_owned());
                    let done = match line {
                        Ok(_) if written == count => break,
                        Ok(line) => writeln!(out, "{line}").map_err(Into::into),
                        Err(error) => Err(error.into()),
                    };
                    problem = done.err();
                    written += 1;
                    settle.push(SettleMessage {
                        request: 0,
                        subscription: queued.id,
                        home: queued.home,
                        reject: false,
                        ranges: vec![(number, number)],
                    });
                }
            }
            // The first request is the subscription.
            Event::Done { first, last } => {
                confirmed += (first..=last).filter(|request| *request > 1).count() as u64;
            }
            Event::Refused { sentence, .. } | Event::Unsubscribed { sentence, .. } => {
                problem = Some(sentence.into())
            }
            _ => {}
        })?;
        if let Some(problem) = problem {
            return Err(problem);
        }
        for settle in settle {
            connection.send(|client, out| client.settle(settle, out))?;
        }
    }
    connection.send(|client, out| client.bye(out))?;
    Ok(connection.flush()?)
}
