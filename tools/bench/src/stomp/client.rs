//! A client of STOMP that does one thing after another, for scenarios that do not measure what clients cost.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::reading;

/// A client of STOMP that waits for what it has asked for.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    /// Connects and logs in, as nobody.
    ///
    /// # Errors
    /// When there is no server, or it refuses.
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut client = Client { stream, received: Vec::new() };
        client.say("CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")?;
        client.hear("CONNECTED\n", 1)?;
        Ok(client)
    }

    /// Sends frames.
    ///
    /// # Errors
    /// When the connection has ended.
    pub(crate) fn say(&mut self, frames: &str) -> anyhow::Result<()> {
        Ok(self.stream.write_all(frames.as_bytes())?)
    }

    /// Waits for so many frames of a kind, and forgets them.
    ///
    /// # Errors
    /// When another frame comes, or none.
    pub(crate) fn hear(&mut self, kind: &str, count: u64) -> anyhow::Result<()> {
        for _ in 0..count {
            let frame = self.frame()?;
            ensure!(frame.starts_with(kind), "the server said {}", frame.trim());
        }
        Ok(())
    }

    /// Waits for so many messages; what acknowledges them all.
    ///
    /// # Errors
    /// When another frame comes, or none.
    pub(crate) fn messages(&mut self, count: u64) -> anyhow::Result<String> {
        let mut ack = None;
        for _ in 0..count {
            let frame = self.frame()?;
            ensure!(frame.starts_with("MESSAGE\n"), "the server said {}", frame.trim());
            ack = frame.lines().find_map(|line| line.strip_prefix("ack:").map(str::to_owned));
        }
        ack.context("a message cannot be acknowledged")
    }

    /// The next frame; bodies have no NUL here.
    fn frame(&mut self) -> anyhow::Result<String> {
        let mut buffer = [0; 64 * 1024];
        loop {
            let start = self.received.iter().position(|byte| *byte != b'\n').unwrap_or(0);
            if let Some(end) = memchr::memchr(0, &self.received) {
                let frame = self.received.get(start..end).unwrap_or_default();
                let frame = String::from_utf8_lossy(frame).into_owned();
                self.received.drain(..=end);
                return Ok(frame);
            }
            match reading::read(&mut self.stream, &mut buffer)? {
                0 => bail!("the server closed the connection"),
                read => self.received.extend_from_slice(buffer.get(..read).unwrap_or_default()),
            }
        }
    }
}

/// A message to very many queues takes long.
const TIMEOUT: Duration = Duration::from_secs(120);
