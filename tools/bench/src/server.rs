//! Starts a Tiderace server as a child, with a configuration of the bench's own.
//!
//! Invariant: the child never outlives its handle, and listens on loopback only.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// A server that answers.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    config: PathBuf,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts a server; `sections` is TOML that follows the address to listen on.
    ///
    /// # Errors
    /// A sentence when there is no such program or it does not start.
    pub(crate) fn start(
        program: Option<&PathBuf>,
        sections: &str,
        settings: &[String],
    ) -> anyhow::Result<Server> {
        Server::start_at(free(Ipv4Addr::LOCALHOST)?, program, sections, settings)
    }

    /// The same at an address to which it may come back: one whose ports no connection takes meanwhile as its own end,
    /// where there is such an address without setting one up.
    ///
    /// # Errors
    /// As those of [`Server::start`].
    pub(crate) fn start_to_come_back(
        program: Option<&PathBuf>,
        sections: &str,
        settings: &[String],
    ) -> anyhow::Result<Server> {
        let has_all = cfg!(target_os = "linux");
        let host = if has_all { Ipv4Addr::new(127, 0, 0, 2) } else { Ipv4Addr::LOCALHOST };
        Server::start_at(free(host)?, program, sections, settings)
    }

    /// The same at an address, such as that of one that has ended.
    ///
    /// # Errors
    /// As those of [`Server::start`].
    pub(crate) fn start_at(
        address: SocketAddr,
        program: Option<&PathBuf>,
        sections: &str,
        settings: &[String],
    ) -> anyhow::Result<Server> {
        let program = match program {
            Some(program) => program.clone(),
            None => find()?,
        };
        let name = format!("tiderace-bench-{}-{}.toml", std::process::id(), address.port());
        let config = std::env::temp_dir().join(name);
        let mut file = std::fs::File::create(&config)
            .with_context(|| format!("cannot write {}", config.display()))?;
        write!(file, "{sections}")?;
        let mut command = Command::new(&program);
        command.arg("serve").arg("--config").arg(&config);
        command.args(["--listen", &address.to_string(), "--set", "log.level=warn"]);
        // Every message counts: a slow subscriber slows the publisher, here as with other servers.
        command.args(["--set", "topics.slow_consumer=block"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut server = Server { process, config, address };
        server.wait()?;
        Ok(server)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Asks it to end, as an operator does (SIGTERM), and waits until it has.
    ///
    /// # Errors
    /// A sentence when it cannot be asked, or does not end.
    pub(crate) fn terminate(mut self) -> anyhow::Result<()> {
        let pid = self.pid().to_string();
        let asked = Command::new("kill").args(["-s", "TERM", &pid]).status();
        ensure!(asked.context("there is no kill")?.success(), "the server cannot be asked to end");
        let begun = Instant::now();
        while self.process.try_wait()?.is_none() {
            ensure!(begun.elapsed() < END_TIME_MAX, "the server does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Waits until it accepts connections.
    fn wait(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.process.try_wait()? {
                bail!("the server did not start ({status}); its error is above");
            }
            // A large store is read first.
            if begun.elapsed() > Duration::from_secs(120) {
                bail!("the server does not answer on {}", self.address);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// An address of a host at which nobody listens.
fn free(host: Ipv4Addr) -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((host, 0)).context("no port is free")?.local_addr()?)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.config);
    }
}

/// This program, or the server beside it.
fn find() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program")?;
    if own.file_stem().is_some_and(|stem| stem == "tiderace") {
        return Ok(own);
    }
    let beside = own.with_file_name("tiderace");
    if !beside.exists() {
        bail!("there is no server beside {}; name one with --server", own.display());
    }
    Ok(beside)
}

const END_TIME_MAX: Duration = Duration::from_secs(60);
