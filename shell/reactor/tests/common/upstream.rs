//! The client's side of tests that connect to other servers: a session that says what it is told to, and keeps what it
//! hears.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tiderace_base::{Close, Now, ShardId, Time};
use tiderace_reactor::UpstreamOptions;
use tiderace_tls::{Authorities, ClientChoices, ClientSettings, Version};
use tiderace_wire::{Context, Delivery, Detect, Output, Progress, Protocol, Reply, Session};

/// What the sessions of one upstream have seen.
#[derive(Debug, Default)]
pub struct Seen {
    pub opened: AtomicUsize,
    pub closed: AtomicUsize,
    pub logged_in: AtomicUsize,
    /// What the last of them has heard.
    pub heard: Mutex<Vec<u8>>,
}

impl Seen {
    pub fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    pub fn closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }

    pub fn heard(&self) -> Vec<u8> {
        self.heard.lock().unwrap().clone()
    }
}

struct Caller {
    seen: Arc<Seen>,
    hello: Arc<[Vec<u8>]>,
    /// Bytes after which it is established.
    until: usize,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.seen.closed.fetch_add(1, Ordering::SeqCst);
    }
}

impl Session for Caller {
    fn begin(&mut self, _: Now, context: &mut Context<'_>) -> Result<(), Close> {
        for frame in self.hello.iter() {
            context.output.frame_of(frame.clone(), false);
        }
        Ok(())
    }

    fn receive(&mut self, _: Now, input: &[u8], _: &mut Context<'_>) -> Result<Progress, Close> {
        self.seen.heard.lock().unwrap().extend_from_slice(input);
        Ok(Progress { consumed: input.len(), need: 0 })
    }

    fn reply(&mut self, _: Now, reply: Reply, _: &mut Context<'_>) -> Result<(), Close> {
        if matches!(reply, Reply::LoggedIn { .. }) {
            self.seen.logged_in.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    fn deliver(&mut self, _: Now, _: &Delivery<'_>, _: &mut Output<'_>) {}

    fn deadline(&self) -> Time {
        Time::NEVER
    }

    fn expire(&mut self, _: Now, _: &mut Context<'_>) -> Result<(), Close> {
        Ok(())
    }

    fn goodbye(&mut self, _: &Close, output: &mut Output<'_>) {
        output.frame(b"BYE", true);
    }

    fn is_established(&self) -> bool {
        self.seen.heard.lock().unwrap().len() >= self.until
    }
}

/// An upstream whose sessions say `hello` and are established when they have heard so many bytes.
pub fn upstream(
    urls: &[&str],
    subprotocol: &'static [&'static str],
    hello: &[&[u8]],
    until: usize,
) -> (UpstreamOptions, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let (kept, hello) = (Arc::clone(&seen), hello.iter().map(|frame| frame.to_vec()).collect());
    let hello: Arc<[Vec<u8>]> = hello;
    let open = move |_: &tiderace_wire::Opening<'_>| {
        kept.opened.fetch_add(1, Ordering::SeqCst);
        kept.heard.lock().unwrap().clear();
        let (seen, hello) = (Arc::clone(&kept), Arc::clone(&hello));
        Box::new(Caller { seen, hello, until }) as Box<dyn Session>
    };
    let protocol = Protocol {
        name: "caller",
        detect: |_| Detect::No,
        subprotocols: subprotocol,
        websocket_paths: Arc::from(["/tiderace".to_owned()]),
        stream_paths: Arc::from([]),
        http: None,
        open: Arc::new(open),
    };
    let urls = urls.iter().map(|url| url.parse().unwrap()).collect();
    let name = "london".to_owned();
    (UpstreamOptions { name, urls, protocol, tls: None, shard: ShardId(0) }, seen)
}

/// The native protocol's HELLO of `ann`, as docs/protocol.md has it in its example.
pub const HELLO: &[u8] = &[
    0x01, 0x12, 0x01, 0x00, 0x01, 0x03, 0x61, 0x6e, 0x6e, 0x02, 0x70, 0x77, 0x01, 0x01, 0x04, 0x64,
    0x65, 0x6d, 0x6f, 0x00,
];
/// The first byte of its answer.
pub const WELCOME: u8 = 0x41;

/// Settings of a client that trusts a certificate.
pub fn trusting(pem: &str, clock: fn() -> u64) -> ClientSettings {
    let authorities = Authorities::from_pem(pem.as_bytes()).unwrap();
    let alpn = vec![b"http/1.1".to_vec()];
    ClientSettings::new(ClientChoices {
        authorities,
        identity: None,
        version_min: Version::Tls12,
        alpn,
        clock,
    })
    .unwrap()
}
