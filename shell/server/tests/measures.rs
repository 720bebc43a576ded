//! Metrics of the real program: what they say follows what happens.

use std::thread;
use std::time::Instant;

use crate::alarms::{Following, TIMEOUT, command, metric, run};
use crate::program::watched::Watched;
use crate::program::{Directory, FREE, Server};

/// Waits until a metric has that value.
fn wait_for(address: std::net::SocketAddr, line: &str, wanted: &str) {
    wait_until(address, line, |found| found == wanted);
}

/// The same until it has one of some values.
fn wait_until(address: std::net::SocketAddr, line: &str, is_wanted: impl Fn(&str) -> bool) {
    let start = Instant::now();
    loop {
        let found = metric(address, line);
        if found.as_deref().is_some_and(&is_wanted) {
            return;
        }
        assert!(start.elapsed() < TIMEOUT, "{line} is {found:?}");
        thread::yield_now();
    }
}

#[test]
fn logins_are_counted_by_what_came_of_them() {
    let directory = Directory::new("measures-logins");
    let secret = directory.0.join("token");
    std::fs::write(&secret, "a-token-that-is-long-enough-0123456789").unwrap();
    let more = "[[token]]\nname = \"ann\"\nsecret = \"file:FILE\"\n\
                [[rule]]\nallow = [\"publish\"]\nprincipals = [\"*\"]\n"
        .replace("FILE", secret.to_str().unwrap());
    let server = Watched::start(&directory.0, "", &more);
    let address = server.addresses[0];
    let publish = |token: &str| {
        command(address, &["pub", "a", "1", "-P", token]).output().unwrap().status.success()
    };
    assert!(publish("a-token-that-is-long-enough-0123456789"));
    assert!(!publish("another"));
    assert!(!publish("yet another"));
    let logins =
        |result: &str| metric(address, &format!("tiderace_logins_total{{result={result:?}}}"));
    assert_eq!(logins("accepted").as_deref(), Some("1"));
    assert_eq!(logins("login-failed").as_deref(), Some("2"));
    assert_eq!(logins("too-many-logins").as_deref(), Some("0"));
}

#[test]
fn messages_of_queues_are_counted_while_consumers_have_them() {
    let directory = Directory::new("measures-queues");
    let server = Watched::start(&directory.0, "", "");
    let address = server.addresses[0];
    run(address, &["queues", "send", "jobs", "1"]);
    wait_for(address, "tiderace_queue_messages", "1");
    assert_eq!(metric(address, "tiderace_queue_messages_in_flight").as_deref(), Some("0"));
    // It waits, and grows older.
    wait_until(address, "tiderace_queue_oldest_seconds", |age| age != "0");
    let mut consumer = Following::begin(address, &["queues", "receive", "jobs", "--no-ack"]);
    assert_eq!(consumer.line(), "1");
    wait_for(address, "tiderace_queue_messages_in_flight", "1");
    wait_for(address, "tiderace_queue_oldest_seconds", "0");
    drop(consumer);
    wait_for(address, "tiderace_queue_messages_in_flight", "0");
}

#[test]
fn the_time_that_is_left_of_a_drain_is_told() {
    let directory = Directory::new("measures-drain");
    let admin = format!("[[listener]]\naddress = {FREE:?}\nstays_open = true\n");
    let server = Watched::start(&directory.0, "", &admin);
    let admin = server.addresses[1];
    let left =
        || metric(admin, "tiderace_drain_remaining_seconds").unwrap().parse::<f64>().unwrap();
    assert_eq!(left(), 0.0);
    run(admin, &["drain", "--over", "1h", "--delay", "1h", "--no-wait"]);
    // The hour before it begins counts as well.
    assert!((3600.0..=7200.0).contains(&left()), "{}", left());
    run(admin, &["drain", "--cancel"]);
    assert_eq!(left(), 0.0);
}

#[test]
fn the_process_says_when_it_began_and_what_it_may_have() {
    let directory = Directory::new("measures-process");
    let store = directory.0.join("store");
    let more = format!("[store]\ndirectory = {:?}\n", store.to_str().unwrap());
    let server = Watched::start(&directory.0, "", &more);
    let address = server.addresses[0];
    let number = |line: &str| metric(address, line).map(|text| text.parse::<f64>().unwrap());
    assert!(number("process_start_time_seconds").unwrap() > 1_700_000_000.0);
    assert!(number("process_max_fds").unwrap() > 100.0);
    let start = Instant::now();
    let disk = r#"tiderace_disk_free_bytes{purpose="store"}"#;
    while number("process_open_fds").is_none() || number(disk).is_none() {
        assert!(start.elapsed() < TIMEOUT, "nothing was looked at");
        thread::yield_now();
    }
    assert!(number(r#"tiderace_disk_bytes{purpose="store"}"#).unwrap() >= number(disk).unwrap());
    let (used, most) = ("tiderace_memory_bytes", "tiderace_memory_max_bytes");
    while number(most).unwrap() <= number(used).unwrap() {
        assert!(start.elapsed() < TIMEOUT, "shards have not told yet");
    }
}

#[test]
fn the_server_is_given_no_huge_pages() {
    let directory = Directory::new("measures-pages");
    let server = Server::start(&directory.0, "");
    let process = std::path::PathBuf::from(format!("/proc/{}", server.child.id()));
    let told = |file: &str| std::fs::read_to_string(process.join(file)).unwrap();
    let status = told("status");
    if let Some(enabled) = status.lines().find_map(|line| line.strip_prefix("THP_enabled:")) {
        assert_eq!(enabled.trim(), "0", "that the kernel gives them by itself is refused");
    }
    let maps = told("smaps");
    let flags: Vec<_> = maps.lines().filter_map(|line| line.strip_prefix("VmFlags:")).collect();
    assert!(!flags.is_empty(), "{maps}");
    let advised = flags.iter().filter(|flags| flags.split(' ').any(|flag| flag == "hg")).count();
    assert_eq!(advised, 0, "the allocator asks for none");
}
