//! Traces of messages, over real sockets: what a collector is told, and what holds when there is none.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tiderace_client::{Content, Destination, Event, Kind, Publish, SubscribeOptions, flag};

use crate::alarms::metric;
use crate::program::logins::{Native, Show, Stomp, Way, exchange};
use crate::program::{Directory, Server, names_of_threads};

const LONG: Duration = Duration::from_secs(60);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn traceparent(is_sampled: bool) -> String {
    format!("00-{TRACE}-{PARENT}-0{}", u8::from(is_sampled))
}

/// A collector that takes everything, and says what it was sent.
struct Collector {
    address: SocketAddr,
    requests: Receiver<(String, Value)>,
    /// Spans that came together with others, and were not asked for.
    left: RefCell<VecDeque<Span>>,
}

/// One span as the collector has got it.
#[derive(Clone, Debug)]
struct Span {
    value: Value,
    attributes: BTreeMap<String, String>,
}

impl Span {
    fn text(&self, field: &str) -> &str {
        self.value[field].as_str().unwrap_or_default()
    }

    fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    fn time(&self, field: &str) -> u64 {
        self.text(field).parse().unwrap()
    }
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (told, requests) = channel();
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let told = told.clone();
                thread::spawn(move || take(&socket, &told));
            }
        });
        Collector { address, requests, left: RefCell::default() }
    }

    fn config(&self, more: &str) -> String {
        let address = self.address;
        format!(
            "[telemetry]\nendpoint = \"http://{address}/v1/traces\"\nbatch_delay = \"10ms\"\n{more}\n"
        )
    }

    /// The next spans, so many.
    fn spans(&self, count: usize) -> Vec<Span> {
        let mut spans = self.left.borrow_mut();
        while spans.len() < count {
            let (head, body) = self.requests.recv_timeout(LONG).unwrap();
            assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
            assert!(head.to_ascii_lowercase().contains("content-type: application/json"), "{head}");
            let resource = &body["resourceSpans"][0];
            let name = &resource["resource"]["attributes"][0];
            assert_eq!(name["key"], "service.name");
            assert_eq!(name["value"]["stringValue"], "tiderace");
            for value in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
                let attributes = value["attributes"].as_array().unwrap().iter();
                let attributes = attributes.map(|it| {
                    let (key, value) = (it["key"].as_str().unwrap(), &it["value"]);
                    let text = value["stringValue"].as_str().or(value["intValue"].as_str());
                    (key.to_owned(), text.unwrap().to_owned())
                });
                spans.push_back(Span { value: value.clone(), attributes: attributes.collect() });
            }
        }
        spans.drain(..count).collect()
    }
}

fn take(socket: &TcpStream, told: &Sender<(String, Value)>) {
    let mut reader = BufReader::new(socket);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
        });
        let mut body = vec![0; length.unwrap()];
        reader.read_exact(&mut body).unwrap();
        let _ = told.send((head, serde_json::from_slice(&body).unwrap()));
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        if (&mut &*socket).write_all(answer).is_err() {
            return;
        }
    }
}

fn stomp(server: &Server) -> Stomp {
    Stomp::log_in(&Way::plain(server.address), Show::Nothing).unwrap()
}

fn subscribe(client: &mut Stomp, destination: &str) {
    client.send(&format!("SUBSCRIBE\nid:1\ndestination:{destination}\nreceipt:s\n"));
    assert!(client.frame().starts_with("RECEIPT"));
}

/// The span with that word as its operation.
fn of<'a>(spans: &'a [Span], operation: &str) -> Vec<&'a Span> {
    spans.iter().filter(|it| it.attribute("messaging.operation.name") == operation).collect()
}

fn wait_for(address: SocketAddr, line: &str, is_right: impl Fn(u64) -> bool) {
    let start = Instant::now();
    loop {
        let value = metric(address, line).map(|value| value.parse().unwrap());
        if value.is_some_and(&is_right) {
            return;
        }
        assert!(start.elapsed() < LONG, "{line}: {value:?}");
        thread::yield_now();
    }
}

#[test]
fn a_message_of_a_trace_is_told_from_publication_to_delivery_over_every_protocol() {
    let collector = Collector::start();
    let directory = Directory::new("telemetry");
    let server = Server::start(&directory.0, &collector.config(""));
    let way = Way::plain(server.address);
    let (mut first, mut second) = (stomp(&server), stomp(&server));
    subscribe(&mut first, "/topic/fx/EUR");
    subscribe(&mut second, "/topic/fx/*");
    let parent = traceparent(true);
    for protocol in ["stomp", "native", "events"] {
        match protocol {
            "stomp" => {
                let mut client = stomp(&server);
                client.send(&format!(
                    "SEND\ndestination:/topic/fx/EUR\ntraceparent:{parent}\nreceipt:r\n\n1.09"
                ));
                assert!(client.frame().starts_with("RECEIPT"));
            }
            "native" => {
                let mut client = Native::log_in(&way, Show::Nothing).unwrap();
                let properties = format!("traceparent:{parent}\n");
                let message = Publish {
                    request: 0,
                    flags: Content::Text.bits(),
                    destination: Destination::Path(Kind::Topic, "fx/EUR"),
                    expires_ms: None,
                    properties: properties.as_bytes(),
                    body: b"1.09\n",
                };
                client.0.send(|client, out| client.publish(message, true, out)).unwrap();
                client.0.receive(|_| {}).unwrap();
            }
            _ => {
                let head = format!(
                    "POST /topics/fx/EUR HTTP/1.1\r\nTraceParent: {parent}\r\nTraceState: a=b\r\n"
                );
                assert!(exchange(&way, &head, "1.09\n").0.starts_with("HTTP/1.1 200"));
            }
        }
        // It is passed on as it is.
        for client in [&mut first, &mut second] {
            let frame = client.frame();
            assert!(frame.contains(&format!("\ntraceparent:{parent}\n")), "{frame}");
            assert_eq!(frame.contains("\ntracestate:a=b\n"), protocol == "events");
        }
        // Subscribers may be on two shards, each of which tells of its own.
        let mut spans = collector.spans(2);
        let delivered = |spans: &[Span]| -> u64 {
            let counts = of(spans, "deliver").into_iter();
            counts.map(|it| it.attribute("tiderace.deliveries").parse::<u64>().unwrap()).sum()
        };
        while delivered(&spans) < 2 {
            spans.extend(collector.spans(1));
        }
        let published = of(&spans, "publish");
        let [published] = published[..] else { panic!("{spans:#?}") };
        assert_eq!(published.text("name"), "publish fx/EUR");
        assert_eq!(published.text("traceId"), TRACE);
        assert_eq!(published.text("parentSpanId"), PARENT);
        assert_eq!(published.value["kind"], 2);
        for span in &spans {
            assert_eq!(span.attribute("messaging.system"), "tiderace");
            assert_eq!(span.attribute("messaging.destination.name"), "fx/EUR");
            assert_eq!(span.attribute("messaging.message.body.size"), "5");
            assert_eq!(span.attribute("network.protocol.name"), protocol);
            let (start, end) = (span.time("startTimeUnixNano"), span.time("endTimeUnixNano"));
            assert!(start <= end && end - start < LONG.as_nanos() as u64, "{span:?}");
        }
        for span in of(&spans, "deliver") {
            assert_eq!(span.text("traceId"), TRACE);
            assert_eq!(span.text("parentSpanId"), published.text("spanId"));
            assert_ne!(span.text("spanId"), published.text("spanId"));
            assert!(span.time("startTimeUnixNano") >= published.time("startTimeUnixNano"));
        }
        let told = serde_json::to_string(&spans.iter().map(|it| &it.value).collect::<Vec<_>>());
        assert!(!told.unwrap().contains("1.09"), "bodies are not told");
    }
    wait_for(server.address, "tiderace_telemetry_spans_waiting", |waiting| waiting == 0);
    let exported = metric(server.address, "tiderace_telemetry_spans_exported_total").unwrap();
    assert!((6..=9).contains(&exported.parse().unwrap()), "{exported}");
}

#[test]
fn queues_calls_and_refusals_are_told_and_others_are_chosen_by_chance() {
    let collector = Collector::start();
    let directory = Directory::new("telemetry-queues");
    let rules = "[auth]\nallow_anonymous = true\n[[rule]]\ndeny = [\"publish\"]\nprincipals = [\"*\"]\npaths = [\"secret/**\"]\n\
                 [[rule]]\nallow = [\"publish\", \"subscribe\", \"send\", \"receive\", \"call\", \"serve\"]\nprincipals = [\"*\"]\n[[rule]]\nallow = [\"monitor\"]\nprincipals = [\"*\"]\n";
    let config = collector.config("sample_per_million = 1000000") + rules;
    let server = Server::start(&directory.0, &config);
    let way = Way::plain(server.address);
    // A queue: sent, and delivered later.
    let mut client = stomp(&server);
    client.send("SEND\ndestination:/queue/orders\nreceipt:r\n\none");
    assert!(client.frame().starts_with("RECEIPT"));
    let sent = collector.spans(1).remove(0);
    assert_eq!(sent.text("name"), "send orders");
    assert_eq!(sent.attribute("tiderace.destination.kind"), "queue");
    assert!(sent.value["parentSpanId"].is_null());
    subscribe(&mut client, "/queue/orders");
    assert!(client.frame().starts_with("MESSAGE"));
    let delivered = collector.spans(1).remove(0);
    assert_eq!(delivered.text("name"), "deliver orders");
    assert_eq!(delivered.text("traceId"), sent.text("traceId"));
    assert_eq!(delivered.text("parentSpanId"), sent.text("spanId"));
    // A client that does not record is in its own trace all the same.
    let parent = traceparent(false);
    let head = format!("POST /topics/secret/a HTTP/1.1\r\ntraceparent: {parent}\r\n");
    assert!(exchange(&way, &head, "x").0.starts_with("HTTP/1.1 403"));
    let refused = collector.spans(1).remove(0);
    assert_eq!(refused.text("traceId"), TRACE);
    assert_eq!(refused.attribute("error.type"), "not-authorised");
    assert_eq!(refused.value["status"]["code"], 2);
    // A call: until the answer has come.
    let mut responder = Native::log_in(&way, Show::Nothing).unwrap();
    let serves = SubscribeOptions::serve("quotes");
    responder.0.send(|client, out| client.subscribe(serves, out)).unwrap();
    responder.0.receive(|_| {}).unwrap();
    let caller =
        thread::spawn(move || exchange(&way, "POST /services/quotes HTTP/1.1\r\n", "EUR").0);
    let mut number = None;
    while number.is_none() {
        responder
            .0
            .receive(|event| {
                if let Event::Exchange(message, _) = event {
                    number = Some(message.number);
                }
            })
            .unwrap();
    }
    let flags = Content::Text.bits() | flag::LAST | flag::RESPONDER;
    let answer = tiderace_client::SendMessage {
        number: number.unwrap(),
        flags,
        properties: b"",
        body: b"1.09",
    };
    responder.0.send(|client, out| client.say(answer, out)).unwrap();
    responder.0.flush().unwrap();
    assert!(caller.join().unwrap().starts_with("HTTP/1.1 200"));
    let called = collector.spans(1).remove(0);
    assert_eq!(called.text("name"), "request quotes");
    assert_eq!(called.attribute("network.protocol.name"), "events");
    assert_eq!(called.attribute("error.type"), "");
    // And one that nobody answers.
    let way = Way::plain(server.address);
    assert!(exchange(&way, "POST /services/nobody HTTP/1.1\r\n", "x").0.starts_with("HTTP/1.1 5"));
    let called = collector.spans(1).remove(0);
    assert_eq!(called.attribute("error.type"), "no-responder");
}

#[test]
fn without_a_collector_nothing_is_traced_and_with_one_only_what_is_to_be() {
    let directory = Directory::new("telemetry-off");
    let server = Server::start(&directory.0, "");
    assert!(!names_of_threads(server.child.id()).iter().any(|name| name == "telemetry"));
    assert_eq!(metric(server.address, "tiderace_telemetry_spans_exported_total"), None);
    let collector = Collector::start();
    let server = Server::start(&directory.0, &collector.config("follow_parents = false"));
    let mut client = stomp(&server);
    let parent = traceparent(true);
    subscribe(&mut client, "/topic/a");
    client.send(&format!("SEND\ndestination:/topic/a\ntraceparent:{parent}\n\nx"));
    assert!(client.frame().contains(&format!("\ntraceparent:{parent}\n")));
    assert!(collector.requests.try_recv().is_err());
    let server = Server::start(&directory.0, &collector.config(""));
    let mut client = stomp(&server);
    // Those without the flag, and what is no traceparent, are not traced; the one behind them is.
    for text in [traceparent(false), format!("ff-{TRACE}-{PARENT}-01"), "x".repeat(500)] {
        client.send(&format!("SEND\ndestination:/topic/a\ntraceparent:{text}\n\nx"));
    }
    client.send(&format!("SEND\ndestination:/topic/b\ntraceparent:{parent}\n\nx"));
    assert_eq!(collector.spans(1).remove(0).text("name"), "publish b");
}

#[test]
fn a_collector_that_is_gone_or_silent_costs_spans_and_nothing_else() {
    // Connections come to be, and nobody reads them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    // The near end of a connection: nobody listens at its port, and nobody else is given it.
    let far = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(far.local_addr().unwrap()).unwrap();
    for address in [silent.local_addr().unwrap(), near.local_addr().unwrap()] {
        let directory = Directory::new("telemetry-down");
        let config = format!(
            "[telemetry]\nendpoint = \"http://{address}/v1/traces\"\nbatch_delay = \"10ms\"\nbatch_spans_max = 1\n\
             queue_spans_max = 10\nretry_time = \"10m\"\nsample_per_million = 1000000\n"
        );
        let mut server = Server::start(&directory.0, &config);
        let mut client = stomp(&server);
        subscribe(&mut client, "/topic/a");
        for _ in 0..100 {
            client.send("SEND\ndestination:/topic/a\n\nx");
            assert!(client.frame().starts_with("MESSAGE"));
        }
        let dropped = "tiderace_telemetry_spans_dropped_total{reason=\"full\"}";
        wait_for(server.address, dropped, |dropped| dropped >= 100);
        let exported = metric(server.address, "tiderace_telemetry_spans_exported_total");
        assert_eq!(exported.as_deref(), Some("0"));
        drop(client);
        let id = rustix::process::Pid::from_child(&server.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        // It does not wait for what would be tried for ten minutes.
        let start = Instant::now();
        let status = loop {
            if let Some(status) = server.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < LONG, "it does not end");
            thread::yield_now();
        };
        assert!(status.success());
    }
}
