//! The client against scripted servers on the loopback interface.

use std::io::{BufRead, Read};
use std::net::{Shutdown, TcpListener};
use std::thread::{self, JoinHandle};

use super::*;

/// What a scripted server does for each frame it reads: `None` closes the connection.
type Script = fn(&Frame, &mut Vec<u8>) -> Option<()>;

/// Serves one connection; returns the frames it read.
fn server(script: Script) -> (u16, JoinHandle<Vec<Frame>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut input = BufReader::new(stream.try_clone().unwrap());
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = Frame::read(&mut input) {
            let mut answer = Vec::new();
            let go_on = script(&frame, &mut answer);
            let _ = (&stream).write_all(&answer);
            frames.push(frame);
            if go_on.is_none() {
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        // Reading on keeps the kernel from resetting the connection before the client has read.
        let _ = input.read_to_end(&mut Vec::new());
        frames
    });
    (port, thread)
}

/// A server as it should be: welcomes, confirms, and sends two messages to a subscriber.
fn good(frame: &Frame, answer: &mut Vec<u8>) -> Option<()> {
    match frame.command.as_str() {
        "CONNECT" => {
            Frame::new("CONNECTED").with("version", "1.2").with("heart-beat", "0,0").write(answer)
        }
        "SUBSCRIBE" => {
            for number in 1..=2 {
                let mut message = Frame::new("MESSAGE")
                    .with("destination", "/queue/a")
                    .with("ack", number.to_string())
                    .with("subscription", frame.header("id")?);
                message.body = format!("m{number}").into_bytes();
                message.write(answer);
            }
        }
        _ => {}
    }
    if let Some(receipt) = frame.header("receipt") {
        Frame::new("RECEIPT").with("receipt-id", receipt).write(answer);
    }
    Some(())
}

const NOBODY: Login<'static> = Login { login: None, passcode: None };

#[test]
fn messages_are_confirmed_one_by_one() {
    let (port, server) = server(good);
    let login = Login { login: Some("bob"), passcode: Some("a:b") };
    let mut client = Client::connect("127.0.0.1", port, &TlsArgs::default(), &login).unwrap();
    for number in 0..1_000 {
        client.send("/topic/a", &[("n".to_owned(), number.to_string())], b"x").unwrap();
        assert!(client.outstanding.len() < RECEIPTS_OUTSTANDING_MAX);
    }
    client.confirm().unwrap();
    assert!(client.outstanding.is_empty());
    client.disconnect().unwrap();
    let frames = server.join().unwrap();
    assert_eq!(frames[0].header("passcode"), Some("a:b"));
    assert_eq!(frames[0].header("accept-version"), Some("1.2"));
    let sent: Vec<_> = frames.iter().filter(|frame| frame.command == "SEND").collect();
    assert_eq!(sent.len(), 1_000);
    assert!(
        sent.iter()
            .enumerate()
            .all(|(number, frame)| frame.header("n") == Some(&number.to_string()))
    );
    assert_eq!(frames.last().unwrap().command, "DISCONNECT");
}

#[test]
fn messages_that_overtake_the_receipt_are_kept_and_acknowledged() {
    let (port, server) = server(good);
    let mut client = Client::connect("127.0.0.1", port, &TlsArgs::default(), &NOBODY).unwrap();
    client.subscribe("0", "/queue/a", &[]).unwrap();
    for body in [b"m1", b"m2"] {
        let message = client.next_message(None).unwrap().unwrap();
        assert_eq!(message.body, body);
        client.acknowledge(&message).unwrap();
    }
    assert_eq!(
        client.next_message(Some(Duration::from_millis(1))).unwrap(),
        None,
        "nothing more comes"
    );
    client.disconnect().unwrap();
    let frames = server.join().unwrap();
    let acknowledged: Vec<_> = frames
        .iter()
        .filter(|frame| frame.command == "ACK")
        .filter_map(|frame| frame.header("id"))
        .collect();
    assert_eq!(acknowledged, ["1", "2"]);
}

#[test]
fn an_error_frame_becomes_a_sentence_with_advice() {
    let (port, _server) = server(|frame, answer| {
        assert_eq!(frame.command, "CONNECT");
        let mut error = Frame::new("ERROR").with("message", "not authenticated");
        error.body = b"the user name or password, or the token, is wrong\n".to_vec();
        error.write(answer);
        None
    });
    let error =
        Client::connect("127.0.0.1", port, &TlsArgs::default(), &NOBODY).unwrap_err().to_string();
    let expected = "the server says no: not authenticated: the user name or password, or the token, is wrong \
                    (log in with -u and -P)";
    assert_eq!(error, expected);
}

#[test]
fn a_reason_is_told_once() {
    let told = |summary: &str, body: &str| {
        let mut frame = Frame::new("ERROR").with("message", summary);
        frame.body = body.as_bytes().to_vec();
        refusal(&frame).to_string()
    };
    assert_eq!(told("no room", "no room.\n"), "the server says no: no room.");
    assert_eq!(told("no room.", "no room, try later"), "the server says no: no room, try later");
    assert_eq!(told("", "because"), "the server says no: because");
    assert_eq!(told("no room", "try later"), "the server says no: no room: try later");
    assert_eq!(told("", ""), "the server says no: it gave no reason");
}

#[test]
fn an_error_after_sending_is_not_lost() {
    let (port, _server) = server(|frame, answer| match frame.command.as_str() {
        "SEND" => {
            Frame::new("ERROR").with("message", "you may not publish there").write(answer);
            None
        }
        _ => good(frame, answer),
    });
    let mut client = Client::connect("127.0.0.1", port, &TlsArgs::default(), &NOBODY).unwrap();
    client.send("/topic/a", &[], b"x").unwrap();
    let error = client.confirm().unwrap_err().to_string();
    assert_eq!(error, "the server says no: you may not publish there");
}

#[test]
fn other_servers_are_recognised() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let web = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        BufReader::new(stream.try_clone().unwrap()).read_until(0, &mut request).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").unwrap();
    });
    let error =
        Client::connect("127.0.0.1", port, &TlsArgs::default(), &NOBODY).unwrap_err().to_string();
    web.join().unwrap();
    assert!(error.starts_with("that is not the server that was expected: "), "{error}");
}

#[test]
fn a_port_nobody_listens_on_says_what_to_do() {
    // Bound and dropped: nobody listens there now.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error =
        Client::connect("127.0.0.1", port, &TlsArgs::default(), &NOBODY).unwrap_err().to_string();
    assert!(error.starts_with(&format!("127.0.0.1:{port} does not answer: ")), "{error}");
    assert!(
        error.ends_with("start a server there with `tiderace`, or name another with -h and -p"),
        "{error}"
    );
}

#[test]
fn the_slower_heart_beat_holds() {
    assert_eq!(promised_heart_beat(None), None);
    assert_eq!(promised_heart_beat(Some("0,0")), None);
    assert_eq!(promised_heart_beat(Some("nonsense")), None);
    assert_eq!(promised_heart_beat(Some("1000,0")), Some(HEART_BEAT));
    assert_eq!(promised_heart_beat(Some("60000,5")), Some(Duration::from_secs(60)));
}
