//! The real program, killed while clients send persistent messages to a queue and consume them: what was confirmed to the
//! producer comes to a consumer, and what was confirmed to a consumer does not come again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::crashes::{TIMEOUT, connect, frame, start};
use crate::program::{Directory, Server};

const LIVES: u64 = 4;

fn header<'a>(frame: &'a str, name: &str) -> Option<&'a str> {
    let lines = frame.lines().take_while(|line| !line.is_empty());
    lines
        .filter_map(|line| line.split_once(':'))
        .find_map(|(n, value)| (n == name).then_some(value))
}

/// Sends numbers from `from` on until the server is gone: those that were confirmed.
fn produce(stream: TcpStream, from: u64, heard: &Sender<()>) -> Vec<u64> {
    let mut writer = stream.try_clone().unwrap();
    let sender = thread::spawn(move || {
        for number in from.. {
            let text = format!(
                "SEND\ndestination:/queue/jobs\npersistent:true\nreceipt:{number}\n\n{number}\0"
            );
            if writer.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    });
    let mut confirmed = Vec::new();
    let mut reader = BufReader::new(stream);
    while let Some(frame) = frame(&mut reader) {
        assert!(!frame.starts_with("ERROR"), "{frame}");
        if let Some(receipt) = header(&frame, "receipt-id") {
            confirmed.push(receipt.parse().unwrap());
            let _ = heard.send(());
        }
    }
    sender.join().unwrap();
    confirmed
}

/// Consumes until the server is gone, or until the message `end` comes: what came, and what was confirmed to be consumed.
fn consume(stream: TcpStream) -> (Vec<u64>, Vec<u64>) {
    let mut writer = stream.try_clone().unwrap();
    let subscribe = "SUBSCRIBE\nid:1\ndestination:/queue/jobs\nack:client-individual\n\n\0";
    writer.write_all(subscribe.as_bytes()).unwrap();
    let (mut seen, mut settled) = (Vec::new(), Vec::new());
    let mut reader = BufReader::new(stream);
    let (mut has_ended, mut waiting) = (false, 0);
    while !(has_ended && waiting == 0)
        && let Some(frame) = frame(&mut reader)
    {
        assert!(!frame.starts_with("ERROR"), "{frame}");
        if let Some(receipt) = header(&frame, "receipt-id") {
            settled.push(receipt.parse().unwrap());
            waiting -= 1;
        }
        let Some(ack) = header(&frame, "ack") else { continue };
        let body = frame.split_once("\n\n").unwrap().1;
        if body == "end" {
            has_ended = true;
            continue;
        }
        seen.push(body.parse().unwrap());
        waiting += 1;
        let text = format!("ACK\nid:{ack}\nreceipt:{body}\n\n\0");
        if writer.write_all(text.as_bytes()).is_err() {
            break;
        }
    }
    (seen, settled)
}

fn lives(name: &str, sync: &str) {
    let directory = Directory::new(name);
    let (mut confirmed, mut seen, mut settled) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut note = |(came, done): (Vec<u64>, Vec<u64>)| {
        let again = came.iter().find(|number| settled.contains(*number));
        assert!(again.is_none(), "{again:?} was consumed in an earlier life");
        seen.extend(came);
        settled.extend(done);
    };
    for life in 0..LIVES {
        let mut server: Server = start(&directory.0, sync);
        let (heard, confirmations) = channel();
        let producer = connect(&server);
        let producer = thread::spawn(move || produce(producer, life * 1_000_000 + 1, &heard));
        // In one life nothing is consumed.
        let consumer = (life != 1).then(|| {
            let stream = connect(&server);
            thread::spawn(move || consume(stream))
        });
        let moment = u64::from(std::process::id()) * 2_654_435_761 + life * 40_503;
        for _ in 0..500 + moment % 2_000 {
            confirmations.recv_timeout(TIMEOUT).expect("producers are answered");
        }
        server.kill();
        confirmed.extend(producer.join().unwrap());
        if let Some(consumer) = consumer {
            note(consumer.join().unwrap());
        }
    }
    let server = start(&directory.0, sync);
    let mut stream = connect(&server);
    stream.write_all(b"SEND\ndestination:/queue/jobs\nreceipt:end\n\nend\0").unwrap();
    stream.write_all(b"DISCONNECT\nreceipt:bye\n\n\0").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("receipt-id:end"), "{answer}");
    note(consume(connect(&server)));
    let lost: Vec<&u64> = confirmed.iter().filter(|number| !seen.contains(*number)).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), confirmed.len());
    assert!(settled.len() > 100, "consumers were answered");
}

#[test]
fn confirmed_messages_survive_kills() {
    lives("queue-kills", "never");
}

#[test]
fn confirmed_messages_survive_kills_with_a_disk_that_is_waited_for() {
    lives("queue-synced-kills", "always");
}
