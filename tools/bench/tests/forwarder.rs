//! Whole cells against the copying forwarder, in this process.
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use indicatif::ProgressBar;
use tiderace_bench::args::AckMode;
use tiderace_bench::forwarder::Forwarder;
use tiderace_bench::stomp::cell::{self, CellSpec, Kind, Outcome};
use tiderace_bench::target::Target;

#[test]
fn topic_delivers_everything_to_everyone() {
    let outcome = run(&CellSpec { producers: 3, consumers: 4, destinations: 2, ..short() });
    assert!(outcome.sent > 0);
    assert_eq!(outcome.deliveries_expected, outcome.sent * 2);
    assert_complete(&outcome);
    assert!(!outcome.latency.total().is_empty());
}

#[test]
fn queue_delivers_everything_once() {
    let outcome =
        run(&CellSpec { kind: Kind::Queue, producers: 2, consumers: 3, threads: 2, ..short() });
    assert_eq!(outcome.deliveries_expected, outcome.sent);
    assert_complete(&outcome);
}

#[test]
fn fan_out_to_many_websockets_is_complete() {
    let outcome = run(&CellSpec {
        consumers: 50,
        consumer_websocket: true,
        outstanding: 10_000,
        size: 1024,
        ..short()
    });
    assert_eq!(outcome.deliveries_expected, outcome.sent * 50);
    assert_complete(&outcome);
}

#[test]
fn receipts_are_counted_and_timed() {
    let outcome = run(&CellSpec { receipts: Some(10), ack: AckMode::ClientIndividual, ..short() });
    assert_complete(&outcome);
    assert!(!outcome.receipt_latency.unwrap().total().is_empty());
}

#[test]
fn large_bodies_pass_through_the_skipping_reader() {
    let outcome = run(&CellSpec { size: 300_000, ..short() });
    assert!(outcome.sent > 0);
    assert_complete(&outcome);
}

#[test]
fn a_schedule_is_never_run_ahead_of() {
    let outcome = run(&CellSpec { rate: Some(500.0), producers: 2, ..short() });
    // Never ahead of schedule, however late the threads were.
    assert!((1..=500).contains(&outcome.sent), "{}", outcome.sent);
    assert_complete(&outcome);
}

#[test]
fn producing_alone_needs_no_consumer() {
    let outcome = run(&CellSpec { consumers: 0, ..short() });
    assert!(outcome.observed.rate_per_s() > 0.0);
    assert_eq!((outcome.deliveries_expected, outcome.received), (0, 0));
}

#[test]
fn outstanding_deliveries_are_bounded() {
    let outcome = run(&CellSpec { outstanding: 100, consumers: 2, duration_s: 4, ..short() });
    // What has come makes room for more.
    assert!(outcome.sent > 100);
    assert_complete(&outcome);
}

#[test]
fn nobody_listening_is_explained() {
    // The near end of a connection: nobody listens at its port, and nobody else is given it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let address = taken.local_addr().unwrap();
    let target = Target::local("nobody", address, std::process::id());
    let error = cell::run(&target, &short(), &ProgressBar::hidden()).unwrap_err();
    assert!(error.to_string().contains("is the server running?"), "{error}");
}

fn short() -> CellSpec {
    CellSpec { warm_up_s: 0, duration_s: 1, batch_bytes: 4096, ..CellSpec::default() }
}

fn run(spec: &CellSpec) -> Outcome {
    let running = Running::start();
    cell::run(&running.target, spec, &ProgressBar::hidden()).unwrap()
}

fn assert_complete(outcome: &Outcome) {
    assert_eq!(outcome.problem, None);
    assert_eq!(outcome.received, outcome.deliveries_expected);
    let faults = (outcome.lost, outcome.out_of_order, outcome.duplicates, outcome.foreign);
    assert_eq!(faults, (0, 0, 0, 0));
}

struct Running {
    target: Target,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start() -> Self {
        let forwarder = Forwarder::bind("127.0.0.1:0").unwrap();
        let target = Target::local("forwarder", forwarder.address().unwrap(), std::process::id());
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let thread =
            std::thread::spawn(move || forwarder.serve(move || flag.load(Relaxed)).unwrap());
        Self { target, is_over, thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
