//! Publishes a message and waits until the server has confirmed it:
//! `cargo run -p tiderace-client --example publish -- 127.0.0.1:7800 fx/EUR-USD '{"bid":1.09}'`

use std::error::Error;
use std::net::TcpStream;

use tiderace_client::{Auth, Client, Connection, Content, Destination, Event, Kind, Publish, flag};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(server), Some(path), Some(body)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("name the server, the topic and the message".into());
    };
    publish(&server, &path, body.as_bytes())
}

/// Makes JSON the value of a topic.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub fn publish(server: &str, path: &str, body: &[u8]) -> Result<(), Box<dyn Error>> {
    let stream = TcpStream::connect(server)?;
    let mut connection = Connection::new(stream, Client::new("example"));
    connection.open(server, Auth::Anonymous)?;
    let message = Publish {
        request: 0,
        flags: Content::Json.bits() | flag::RETAIN,
        destination: Destination::Path(Kind::Topic, path),
        expires_ms: None,
        properties: b"",
        body,
    };
    let request = connection.send(|client, out| client.publish(message, true, out))?;
    let mut answer = None;
    while answer.is_none() {
        connection.receive(|event| match event {
            Event::Done { first, last }
                if request.is_some_and(|it| (first..=last).contains(&it)) =>
            {
                answer = Some(Ok(()));
            }
            Event::Refused { sentence, .. } => answer = Some(Err(sentence.to_owned())),
            _ => {}
        })?;
    }
    connection.send(|client, out| client.bye(out))?;
    connection.flush()?;
    answer.unwrap_or(Ok(())).map_err(Into::into)
}
