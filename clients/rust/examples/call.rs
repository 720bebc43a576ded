//! Calls a service and prints its answers:
//! `cargo run -p tiderace-client --example call -- 127.0.0.1:7800 words/count 'how many words'`

use std::error::Error;
use std::io::Write;
use std::net::TcpStream;

use tiderace_client::{Auth, CallMessage, Client, Connection, Destination, Event, Kind, flag};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(server), Some(service), Some(body)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("name the server, the service and what it is asked".into());
    };
    call(&server, &service, body.as_bytes(), &mut std::io::stdout().lock())
}

/// Writes each answer as a line.
///
/// # Errors
/// If the server cannot be reached, nobody serves, or the service fails.
pub fn call(
    server: &str,
    service: &str,
    body: &[u8],
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::new(TcpStream::connect(server)?, Client::new("example"));
    connection.open(server, Auth::Anonymous)?;
    let call = CallMessage {
        number: 0,
        flags: 0,
        timeout_ms: 5_000,
        destination: Destination::Path(Kind::Service, service),
        credit: None,
        properties: b"",
        body,
    };
    connection.send(|client, out| client.call(call, true, out))?;
    let (mut is_over, mut problem) = (false, None);
    while !is_over {
        connection.receive(|event| match event {
            Event::Exchange(said, _) => {
                is_over = said.flags & flag::LAST != 0;
                if said.flags & flag::BARE == 0 {
                    let line = String::from_utf8_lossy(said.body);
                    problem = writeln!(out, "{line}").err().map(|error| error.to_string());
                }
            }
            Event::Ended { sentence, .. } => {
                (is_over, problem) = (true, Some(sentence.to_owned()));
            }
            _ => {}
        })?;
    }
    connection.send(|client, out| client.bye(out))?;
    connection.flush()?;
    problem.map_or(Ok(()), |problem| Err(problem.into()))
}
