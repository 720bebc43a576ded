//! The real program, killed while clients publish to persistent topics: what was confirmed to them is
//! there when it runs again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use crate::program::{Directory, Server};

/// Topics of one client; of its sends one topic gets each in turn.
const TOPICS: usize = 16;
const CLIENTS: usize = 3;
const LIVES: u64 = 5;
/// How long to wait for an answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A server that keeps everything it is sent.
pub(crate) fn start(directory: &Path, sync: &str) -> Server {
    let text = format!(
        "[store]\ndirectory = {:?}\nsync = \"{sync}\"\nsegment_bytes = \"1 MiB\"\n\
         reserve_bytes = \"1 MiB\"\n[topics]\npersistent = true\nretain = true\n",
        directory.join("store")
    );
    Server::start(directory, &text)
}

pub(crate) fn connect(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0").unwrap();
    stream
}

/// The next frame, without its end.
pub(crate) fn frame(reader: &mut impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    reader.read_until(0, &mut bytes).ok()?;
    if bytes.pop() != Some(0) {
        return None;
    }
    Some(String::from_utf8(bytes).unwrap().trim_start().to_owned())
}

/// Publishes numbers from `from` on until the server is gone: the last that was confirmed of each topic.
fn publish(stream: TcpStream, client: usize, from: u64, heard: &Sender<()>) -> Vec<u64> {
    let mut writer = stream.try_clone().unwrap();
    let sender = thread::spawn(move || {
        for number in from.. {
            for topic in 0..TOPICS {
                let text = format!(
                    "SEND\ndestination:/topic/c{client}/t{topic}\nreceipt:{topic}-{number}\n\n{number}\0"
                );
                if writer.write_all(text.as_bytes()).is_err() {
                    return;
                }
            }
        }
    });
    let mut confirmed = vec![0; TOPICS];
    let mut reader = BufReader::new(stream);
    while let Some(frame) = frame(&mut reader) {
        assert!(!frame.starts_with("ERROR"), "{frame}");
        if let Some(receipt) = frame.lines().find_map(|line| line.strip_prefix("receipt-id:")) {
            let (topic, number) = receipt.split_once('-').unwrap();
            confirmed[topic.parse::<usize>().unwrap()] = number.parse().unwrap();
            let _ = heard.send(());
        }
    }
    sender.join().unwrap();
    confirmed
}

/// Head and body of what a request is answered.
fn request(server: &Server, line: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let length = body.len();
    let text = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.trim().to_owned())
}

/// The value of a topic.
fn value(server: &Server, path: &str) -> Option<String> {
    let (head, body) = request(server, &format!("GET /topics/{path}"), "");
    if head.starts_with("HTTP/1.1 200 ") {
        return Some(body);
    }
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}: {body}");
    None
}

/// The values of a client's topics; 0 for none.
fn values(server: &Server, client: usize) -> Vec<u64> {
    let value = |topic| {
        let value = value(server, &format!("c{client}/t{topic}"));
        value.map_or(0, |value| value.parse().unwrap())
    };
    (0..TOPICS).map(value).collect()
}

/// Kills a server at a moment that differs from life to life; some values may not have been confirmed.
fn lives(name: &str, sync: &str) {
    let directory = Directory::new(name);
    let mut confirmed = vec![vec![0u64; TOPICS]; CLIENTS];
    let mut total = 0;
    for life in 0..=LIVES {
        let mut server = start(&directory.0, sync);
        for (client, confirmed) in confirmed.iter().enumerate() {
            let values = values(&server, client);
            for (topic, (value, confirmed)) in values.iter().zip(confirmed).enumerate() {
                assert!(
                    value >= confirmed,
                    "c{client}/t{topic} has {value}, {confirmed} was confirmed"
                );
            }
        }
        if life == LIVES {
            break;
        }
        let from = life * 1_000_000 + 1;
        let (heard, confirmations) = channel();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (stream, heard) = (connect(&server), heard.clone());
                thread::spawn(move || publish(stream, client, from, &heard))
            })
            .collect();
        let moment = u64::from(std::process::id()) * 2_654_435_761 + life * 40_503;
        for _ in 0..500 + moment % 3_000 {
            confirmations.recv_timeout(TIMEOUT).expect("publishers are answered");
        }
        server.kill();
        for (client, confirmed) in clients.into_iter().zip(&mut confirmed) {
            for (new, known) in client.join().unwrap().into_iter().zip(confirmed) {
                total += u64::from(new > 0);
                *known = (*known).max(new);
            }
        }
    }
    assert!(total > 0, "nothing was confirmed in any life");
}

#[test]
fn confirmed_values_survive_kills() {
    lives("kills", "never");
}

#[test]
fn confirmed_values_survive_kills_with_a_disk_that_is_waited_for() {
    lives("synced-kills", "always");
}

#[test]
fn an_orderly_end_keeps_what_was_published_last() {
    let directory = Directory::new("end");
    let mut server = start(&directory.0, "interval");
    let mut stream = connect(&server);
    for number in 1..=500 {
        let text = format!("SEND\ndestination:/topic/c0/t0\n\n{number}\0");
        stream.write_all(text.as_bytes()).unwrap();
    }
    stream.write_all(b"DISCONNECT\nreceipt:end\n\n\0").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("receipt-id:end"));
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").arg(pid).status().unwrap().success());
    assert!(server.child.wait().unwrap().success());
    let server = start(&directory.0, "interval");
    assert_eq!(values(&server, 0)[0], 500);
}

#[test]
fn views_that_were_put_survive_a_kill() {
    let directory = Directory::new("views");
    let mut server = start(&directory.0, "always");
    let operate = |server: &Server, body: &str| {
        let (head, answer) = request(server, "POST /operations", body);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}: {answer}");
        answer
    };
    operate(
        &server,
        r#"{"do":"view","name":"keep","text":"map n/* to doubled/<path(1)> as value * 2"}"#,
    );
    operate(&server, r#"{"do":"view","name":"gone","text":"map n/* to gone/<path(1)>"}"#);
    operate(&server, r#"{"do":"update","path":"n/a","value":21}"#);
    operate(&server, r#"{"do":"unview","name":"gone"}"#);
    server.kill();
    let mut server = start(&directory.0, "always");
    let views = operate(&server, r#"{"do":"views"}"#);
    assert!(views.contains("doubled") && !views.contains("gone"), "{views}");
    // Views have worked on what was restored before the port was open, or do so in the next turns.
    let mut tries = 0;
    while value(&server, "doubled/a").as_deref() != Some("42") {
        tries += 1;
        assert!(tries < 1000, "the view does not run");
    }
    assert_eq!(value(&server, "gone/a"), None);
    operate(&server, r#"{"do":"unview","name":"keep"}"#);
    server.kill();
    let server = start(&directory.0, "always");
    assert!(!operate(&server, r#"{"do":"views"}"#).contains("doubled"));
}
