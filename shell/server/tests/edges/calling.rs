//! Edges of the real program whose clients call services at the source, and are called from there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Output, Stdio};
use std::sync::Arc;

use tiderace_base::Time;
use tiderace_rsocket::frame::{Body, Frame, Payload};
use tiderace_rsocket::metadata::write_tag;
use tiderace_rsocket::requester::{Requester, RequesterOptions};
use tiderace_wire::Framing;

use super::nodes::{Front, Node, TIMEOUT, command, upstream, wait};
use crate::program::Directory;

/// A command that goes on, such as `tiderace respond`.
struct Running(Child);

impl Running {
    /// Answers calls, and does so by now.
    fn respond(address: SocketAddr, arguments: &[&str]) -> Running {
        let arguments = [&["respond"], arguments].concat();
        let mut child = command(address, &arguments)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready = said.any(|line| line.unwrap().contains("answers calls of"));
        assert!(ready, "{arguments:?}");
        // It goes on saying things that nobody reads.
        std::thread::spawn(move || said.for_each(drop));
        Running(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn edge(directory: &Directory, source: SocketAddr, more: &str) -> Node {
    Node::start(
        &directory.0,
        &upstream(&[source], "fx/**", &format!("services = [\"fx/**\"]\n{more}")),
    )
}

fn call(address: SocketAddr, service: &str, body: &str) -> Output {
    command(address, &["call", service, body]).output().unwrap()
}

fn answer(address: SocketAddr, service: &str, body: &str) -> String {
    let output = call(address, service, body);
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An RSocket client by TCP.
struct RSocket {
    stream: TcpStream,
    requester: Requester,
    input: Vec<u8>,
}

/// What has come on a stream.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Item(u32, String),
    Asked(u32, u32),
    Wanted(u32, u32),
    Failed(u32, String),
}

impl RSocket {
    fn connect(address: SocketAddr) -> RSocket {
        let metadata_mime = "message/x.rsocket.routing.v0".into();
        let options = RequesterOptions { metadata_mime, ..RequesterOptions::default() };
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let requester = Requester::new(Arc::new(options), Framing::Stream);
        let mut client = RSocket { stream, requester, input: Vec::new() };
        client.say(|requester, out| requester.begin(Time::ZERO, out));
        client
    }

    fn say<R>(&mut self, act: impl FnOnce(&mut Requester, &mut Vec<u8>) -> R) -> R {
        let mut out = Vec::new();
        let result = act(&mut self.requester, &mut out);
        self.stream.write_all(&out).unwrap();
        result
    }

    /// Asks for one answer, or for a stream of which so many items are wanted.
    fn ask(&mut self, route: &str, data: &str, items: Option<u32>) -> u32 {
        let mut tag = Vec::new();
        write_tag(route, &mut tag);
        let payload = Payload::new(&tag, data.as_bytes());
        self.say(|requester, out| match items {
            None => requester.request_response(Time::ZERO, payload, out),
            Some(items) => requester.request_stream(Time::ZERO, items, payload, out),
        })
        .unwrap()
    }

    /// Serves, so that calls may be answered with many items.
    fn serve(&mut self, service: &str) -> u32 {
        let mut tag = Vec::new();
        write_tag(&format!("serve:{service}"), &mut tag);
        let payload = Payload::new(&tag, b"");
        self.say(|requester, out| requester.request_channel(Time::ZERO, 10, payload, false, out))
            .unwrap()
    }

    /// The next thing of a kind; what comes before is nothing to the test.
    fn find<T>(&mut self, wanted: impl Fn(Heard) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(self.hear()) {
                return found;
            }
        }
    }

    /// The next thing that means something.
    fn hear(&mut self) -> Heard {
        loop {
            let mut out = Vec::new();
            let (done, frame) = self.requester.next(Time::ZERO, &self.input, &mut out).unwrap();
            let heard = match frame {
                Some(Frame { stream, body: Body::Payload(item) }) => {
                    let text = String::from_utf8(item.payload.data.to_vec()).unwrap();
                    Some(Heard::Item(stream, text))
                }
                Some(Frame { stream, body: Body::Request(request) }) => {
                    Some(Heard::Asked(stream, request.credit))
                }
                Some(Frame { stream, body: Body::RequestN(items) }) => {
                    Some(Heard::Wanted(stream, items))
                }
                Some(Frame { stream, body: Body::Error(failure) }) => {
                    Some(Heard::Failed(stream, String::from_utf8_lossy(failure.text).into_owned()))
                }
                _ => None,
            };
            self.input.drain(..done);
            self.stream.write_all(&out).unwrap();
            match heard {
                Some(heard) => return heard,
                None if done > 0 => {}
                None => {
                    let mut bytes = [0; 4096];
                    let read = self.stream.read(&mut bytes).unwrap();
                    assert!(read > 0, "the connection has ended");
                    self.input.extend_from_slice(&bytes[..read]);
                }
            }
        }
    }
}

#[test]
fn clients_of_every_protocol_call_responders_at_the_source() {
    let directory = Directory::new("edge-calls");
    let source = Node::start(&directory.0, "");
    let edge = edge(&directory, source.address, "");
    edge.wait_for("connected");
    let _echo = Running::respond(source.address, &["fx/echo", "--echo"]);
    assert_eq!(answer(edge.address, "fx/echo", "by the native protocol"), "by the native protocol");
    let posted = edge.post("/services/fx/echo", "by HTTP");
    assert!(posted.starts_with("HTTP/1.1 200 ") && posted.ends_with("by HTTP"), "{posted}");
    let mut client = RSocket::connect(edge.address);
    let stream = client.ask("service:fx/echo", "by RSocket", None);
    assert_eq!(client.hear(), Heard::Item(stream, "by RSocket".into()));
    // Large enough for several frames on the way.
    let large = "x".repeat(100_000);
    assert_eq!(answer(edge.address, "fx/echo", &large), large);
    // What fails there is told in the words of the responder.
    let _failing = Running::respond(source.address, &["fx/fails", "--", "sh", "-c", "exit 7"]);
    let failed = call(edge.address, "fx/fails", "x");
    assert_eq!(failed.status.code(), Some(3), "{}", said(&failed));
    assert!(said(&failed).contains("call-failed") && said(&failed).contains("exit status: 7"));
    let nobody = call(edge.address, "fx/nobody", "x");
    assert!(said(&nobody).contains("no-responder"), "{}", said(&nobody));
    let metrics = edge.get("/metrics");
    assert!(metrics.contains("tiderace_upstream_calls_total"), "{metrics}");
}

#[test]
fn what_a_caller_wants_is_wanted_of_the_responder() {
    let directory = Directory::new("edge-credit");
    let source = Node::start(&directory.0, "");
    let edge = edge(&directory, source.address, "");
    edge.wait_for("connected");
    let mut server = RSocket::connect(source.address);
    let serving = server.serve("fx/ticks");
    server.find(|heard| matches!(heard, Heard::Item(stream, _) if stream == serving).then_some(()));
    let mut client = RSocket::connect(edge.address);
    let ticks = client.ask("service:fx/ticks", "from now on", Some(2));
    let (stream, credit) = server.find(|heard| match heard {
        Heard::Asked(stream, credit) => Some((stream, credit)),
        _ => None,
    });
    assert_eq!(credit, 2);
    for number in ["1", "2"] {
        let item = Payload::data(number.as_bytes());
        server.say(|requester, out| requester.send(stream, item, false, out)).unwrap();
        assert_eq!(client.hear(), Heard::Item(ticks, number.into()));
    }
    client.say(|requester, out| requester.request_n(ticks, 3, out)).unwrap();
    assert_eq!(server.hear(), Heard::Wanted(stream, 3));
    server.say(|requester, out| requester.send(stream, Payload::data(b"3"), true, out)).unwrap();
    assert_eq!(client.hear(), Heard::Item(ticks, "3".into()));
    edge.wait_until("calls", 0.into());
}

#[test]
fn both_fences_refuse_calls() {
    let directory = Directory::new("edge-calls-rules");
    let secret = directory.0.join("password");
    std::fs::write(&secret, "right\n").unwrap();
    let password = format!("password = \"file:{}\"", secret.display());
    let rule = |allow: &str, who: &str, paths: &str| {
        format!("[[rule]]\nallow = [{allow}]\nprincipals = [\"{who}\"]\npaths = [{paths}]\n")
    };
    let config = format!(
        "[[user]]\nname = \"edge\"\n{password}\n{}{}{}",
        rule("\"subscribe\", \"relay\"", "user:edge", "\"fx/open\", \"fx/denied\""),
        rule("\"call\"", "*", "\"fx/open\", \"fx/fenced\""),
        rule("\"serve\"", "*", "\"fx/**\""),
    );
    let source = Node::start(&directory.0, &config);
    let edge = edge(&directory, source.address, &format!("user = \"edge\"\n{password}"));
    edge.wait_for("connected");
    let _open = Running::respond(source.address, &["fx/*", "--echo"]);
    assert_eq!(answer(edge.address, "fx/open", "both let it"), "both let it");
    for (service, who) in [("fx/denied", "may not call"), ("fx/fenced", "edge may not relay")] {
        let refused = call(edge.address, service, "x");
        let told = said(&refused);
        assert!(!refused.status.success() && told.contains("not-authorised"), "{told}");
        assert!(told.contains("the upstream says") && told.contains(who), "{told}");
    }
}

#[test]
fn callers_are_told_what_is_known_when_the_source_is_killed() {
    let directory = Directory::new("edge-calls-away");
    let mut source = Node::start(&directory.0, "");
    let front = Front::of(source.address);
    let edge = edge(&directory, front.address, "timeout = \"100ms\"");
    edge.wait_for("connected");
    let begun = directory.0.join("begun");
    let script = format!("touch '{}'; exec sleep 1000", begun.display());
    let responder = Running::respond(source.address, &["fx/slow", "--", "sh", "-c", &script]);
    let mut caller = command(edge.address, &["call", "-W", "60s", "fx/slow", "x"]);
    let caller = caller.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait(|| if begun.exists() { Ok(()) } else { Err("the call has not come".to_owned()) });
    edge.wait_until("calls", 1.into());
    source.kill();
    front.lead_to(None);
    let told = said(&caller.wait_with_output().unwrap());
    assert!(told.contains("outcome-unknown"), "{told}");
    edge.wait_for("away");
    let refused = said(&call(edge.address, "fx/slow", "x"));
    assert!(refused.contains("upstream-away"), "{refused}");
    drop(responder);
    // It comes back, and so do calls.
    let source = Node::start(&directory.0, "");
    front.lead_to(Some(source.address));
    let _echo = Running::respond(source.address, &["fx/slow", "--echo"]);
    edge.wait_for("connected");
    assert_eq!(answer(edge.address, "fx/slow", "again"), "again");
}

#[test]
fn who_serves_at_an_edge_is_called_there_first_and_from_the_source() {
    let directory = Directory::new("edge-serves");
    let source = Node::start(&directory.0, "");
    let edge = edge(&directory, source.address, "");
    let other = self::edge(&directory, source.address, "");
    edge.wait_for("connected");
    other.wait_for("connected");
    let far = Running::respond(source.address, &["fx/both", "--body", "far"]);
    assert_eq!(answer(edge.address, "fx/both", "x"), "far");
    let near = Running::respond(edge.address, &["fx/both", "--body", "near"]);
    let _local = Running::respond(edge.address, &["fx/local/*", "--body", "local"]);
    assert_eq!(answer(edge.address, "fx/both", "x"), "near");
    edge.wait_until("serves", 2.into());
    // From the source, and from another edge by way of it.
    for address in [source.address, other.address, edge.address] {
        wait(|| {
            let output = call(address, "fx/local/a", "x");
            if output.status.success() { Ok(()) } else { Err(said(&output)) }
        });
        assert_eq!(answer(address, "fx/local/a", "x"), "local");
    }
    drop(far);
    wait(|| {
        // A call may come before the source has heard of the responder's end.
        let output = call(source.address, "fx/both", "x");
        let is_near = output.status.success() && output.stdout.trim_ascii_end() == b"near";
        if is_near { Ok(()) } else { Err(said(&output)) }
    });
    drop(near);
    edge.wait_until("serves", 1.into());
    wait(|| {
        let told = said(&call(source.address, "fx/both", "x"));
        if told.contains("no-responder") { Ok(()) } else { Err(told) }
    });
}
