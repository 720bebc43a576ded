//! A source and its edges, which come and go at their addresses.
//!
//! Invariant: a server that is started again has the address and the configuration that it had.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::args::EdgeFaultArgs;
use crate::scrape;
use crate::server::Server;

/// The servers of a fault.
#[derive(Debug)]
pub(super) struct Nodes {
    args: EdgeFaultArgs,
    source_sections: String,
    edge_sections: String,
    source: Option<Server>,
    edges: Vec<Option<Server>>,
    addresses: Vec<std::net::SocketAddr>,
    source_address: std::net::SocketAddr,
}

impl Nodes {
    /// Starts all of them. What follows their sections `[server]` is TOML, that of the edges ends in `[[upstream]]`.
    ///
    /// # Errors
    /// A sentence when one does not start or an edge does not reach the source.
    pub(super) fn start(
        args: &EdgeFaultArgs,
        source_sections: &str,
        edge_sections: &str,
        upstream: &str,
    ) -> anyhow::Result<Nodes> {
        let server = format!("[server]\nshards = {}\n", args.shards);
        let source_sections = format!("{server}{source_sections}");
        let source =
            Server::start_to_come_back(args.server.as_ref(), &source_sections, &args.settings)?;
        let edge_sections = format!(
            "{server}{edge_sections}[[upstream]]\nname = \"source\"\nurls = [\"ws://{}\"]\n{upstream}",
            source.address
        );
        let mut nodes = Nodes {
            args: args.clone(),
            source_sections,
            edge_sections,
            source_address: source.address,
            source: Some(source),
            edges: Vec::new(),
            addresses: Vec::new(),
        };
        for number in 0..args.edges {
            let edge = Server::start_to_come_back(
                args.server.as_ref(),
                &nodes.edge_sections,
                &args.settings,
            )?;
            nodes.addresses.push(edge.address);
            nodes.edges.push(Some(edge));
            nodes.wait_for_edge(number)?;
        }
        Ok(nodes)
    }

    pub(super) fn source_address(&self) -> std::net::SocketAddr {
        self.source_address
    }

    /// Of the edges, in order.
    pub(super) fn addresses(&self) -> &[std::net::SocketAddr] {
        &self.addresses
    }

    /// The process of the source, if it runs.
    pub(super) fn source_pid(&self) -> Option<u32> {
        self.source.as_ref().map(Server::pid)
    }

    /// The processes of the edges that run.
    pub(super) fn edge_pids(&self) -> Vec<u32> {
        self.edges.iter().flatten().map(Server::pid).collect()
    }

    /// Kills an edge: nothing is said or written any more.
    pub(super) fn kill_edge(&mut self, edge: usize) {
        if let Some(server) = self.edges.get_mut(edge) {
            server.take();
        }
    }

    /// Starts an edge again.
    ///
    /// # Errors
    /// A sentence when it does not start.
    pub(super) fn start_edge(&mut self, edge: usize) -> anyhow::Result<()> {
        let address = *self.addresses.get(edge).context("there is no such edge")?;
        let (sections, settings) = (&self.edge_sections, &self.args.settings);
        let server = Server::start_at(address, self.args.server.as_ref(), sections, settings)?;
        if let Some(place) = self.edges.get_mut(edge) {
            *place = Some(server);
        }
        Ok(())
    }

    /// Ends the source, by a kill or as an operator does; it has ended afterwards.
    ///
    /// # Errors
    /// A sentence when it cannot be asked to end.
    pub(super) fn stop_source(&mut self, is_asked: bool) -> anyhow::Result<()> {
        match self.source.take() {
            Some(server) if is_asked => server.terminate(),
            _ => Ok(()),
        }
    }

    /// Starts the source again; it answers afterwards.
    ///
    /// # Errors
    /// A sentence when it does not start.
    pub(super) fn start_source(&mut self) -> anyhow::Result<()> {
        let (sections, settings) = (&self.source_sections, &self.args.settings);
        let server = self.args.server.as_ref();
        self.source = Some(Server::start_at(self.source_address, server, sections, settings)?);
        Ok(())
    }

    /// Waits until an edge has been let in by the source.
    ///
    /// # Errors
    /// A sentence when it is not.
    pub(super) fn wait_for_edge(&self, edge: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.edge_metric(edge, "tiderace_upstream_connections_total") == 0 {
            if begun.elapsed() > TIMEOUT {
                bail!("edge {edge} does not reach its source");
            }
            std::thread::sleep(REST);
        }
        Ok(())
    }

    /// A metric of an edge; 0 if it does not tell.
    pub(super) fn edge_metric(&self, edge: usize, name: &str) -> u64 {
        let address = self.addresses.get(edge);
        address.and_then(|address| scrape::metric(*address, name)).unwrap_or_default()
    }

    /// A metric of all edges together.
    pub(super) fn edges_metric(&self, name: &str) -> u64 {
        (0..self.addresses.len()).map(|edge| self.edge_metric(edge, name)).sum()
    }

    /// A metric of the source; 0 if it does not tell.
    pub(super) fn source_metric(&self, name: &str) -> u64 {
        scrape::metric(self.source_address, name).unwrap_or_default()
    }
}

const TIMEOUT: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_millis(20);
