//! WebSocket cells against a server made with somebody else's WebSocket library.
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use indicatif::ProgressBar;
use tiderace_bench::stomp::cell::{self, CellSpec};
use tiderace_bench::target::Target;
use tungstenite::handshake::server::{Request, Response};
use tungstenite::{Message, WebSocket};

#[test]
#[allow(clippy::result_large_err)]
fn masked_sends_come_back_through_split_and_packed_messages() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::local("peer", listener.local_addr().unwrap(), std::process::id());
    let subscribers: Subscribers = Arc::default();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let subscribers = Arc::clone(&subscribers);
            std::thread::spawn(move || serve(stream.unwrap(), &subscribers));
        }
    });
    let spec = CellSpec {
        producer_websocket: true,
        consumer_websocket: true,
        consumers: 2,
        producers: 2,
        // Few enough for a slow machine to finish in the time that the end of a measurement has.
        rate: Some(300.0),
        warm_up_s: 0,
        duration_s: 1,
        ..CellSpec::default()
    };
    let outcome = cell::run(&target, &spec, &ProgressBar::hidden()).unwrap();
    assert_eq!(outcome.problem, None);
    assert!(outcome.sent > 0);
    assert_eq!(outcome.received, outcome.sent * 2);
    assert_eq!((outcome.lost, outcome.out_of_order, outcome.foreign), (0, 0, 0));
}

type Subscribers = Arc<Mutex<Vec<Arc<Mutex<WebSocket<TcpStream>>>>>>;

#[allow(clippy::result_large_err)]
fn serve(stream: TcpStream, subscribers: &Subscribers) {
    let protocol = |request: &Request, mut response: Response| {
        let offered = request.headers().get("Sec-WebSocket-Protocol").unwrap();
        assert!(offered.to_str().unwrap().starts_with("v12.stomp"));
        let chosen = "v12.stomp".parse().unwrap();
        response.headers_mut().insert("Sec-WebSocket-Protocol", chosen);
        Ok(response)
    };
    let writer = stream.try_clone().unwrap();
    let mut reader = tungstenite::accept_hdr(stream, protocol).unwrap();
    let writer = WebSocket::from_raw_socket(writer, tungstenite::protocol::Role::Server, None);
    let writer = Arc::new(Mutex::new(writer));
    let mut number = 0;
    while let Ok(message) = reader.read() {
        let frame = message.into_text().unwrap();
        let frame = frame.strip_suffix('\0').unwrap();
        let (header, body) = frame.split_once("\n\n").unwrap();
        match header.lines().next().unwrap() {
            "CONNECT" => send(&writer, &["CONNECTED\nversion:1.2\n\n\0"]),
            "SUBSCRIBE" => {
                subscribers.lock().unwrap().push(Arc::clone(&writer));
                send(&writer, &["RECEIPT\nreceipt-id:sub\n\n\0\n"]);
            }
            "SEND" => {
                number += 1;
                let frame = format!("MESSAGE\nmessage-id:{number}\ncontent-length:20\n\n{body}\0");
                // Every other message is cut in two, the rest carry a heart-beat as well.
                let (front, back) = frame.split_at(number % frame.len());
                let packed = format!("\n{frame}\n");
                let pieces =
                    if number % 2 == 0 { vec![front, back] } else { vec![packed.as_str()] };
                for subscriber in subscribers.lock().unwrap().iter() {
                    send(subscriber, &pieces);
                }
            }
            "DISCONNECT" => send(&writer, &["RECEIPT\nreceipt-id:bye\n\n\0"]),
            _ => {}
        }
    }
}

fn send(socket: &Mutex<WebSocket<TcpStream>>, pieces: &[&str]) {
    let mut socket = socket.lock().unwrap();
    for piece in pieces {
        let _ = socket.send(Message::text(*piece));
    }
}
