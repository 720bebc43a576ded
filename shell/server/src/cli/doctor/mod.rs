//! `tiderace doctor`: what on this machine would hold the server back, and the command that mends it.
//!
//! Relies on `system` for everything it looks at, so that tests can invent a machine. Invariant: a check
//! that finds something wrong names the command that mends it.

mod machine;
mod network;
mod ports;
mod process;
mod system;

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use tiderace_config::Config;

use super::config_args::ConfigArgs;
use super::output::output_error;
use system::{RealSystem, System};

use crate::alarms::Holds;
use crate::{resources, tls};

/// `tiderace doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// As JSON: an array of objects with check, status, finding and remedy.
    #[arg(long)]
    json: bool,
    /// The directory the server would write to.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    data: PathBuf,
    #[command(flatten)]
    config: ConfigArgs,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    check: &'static str,
    status: Status,
    /// What is the case, as a sentence.
    finding: String,
    /// The command that mends it, or what to do.
    remedy: Option<String>,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Fail => "fail",
        }
    }
}

impl Finding {
    fn ok(check: &'static str, finding: impl Into<String>) -> Finding {
        Finding { check, status: Status::Ok, finding: finding.into(), remedy: None }
    }

    fn warn(check: &'static str, finding: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding {
            check,
            status: Status::Warn,
            finding: finding.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn fail(check: &'static str, finding: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding {
            check,
            status: Status::Fail,
            finding: finding.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// Containers hide parts of the kernel; what cannot be seen is no fault.
    fn hidden(check: &'static str, place: &str) -> Finding {
        Finding::ok(check, format!("{place} cannot be read here; not checked."))
    }
}

/// Examines the machine; an error if any check failed.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let mut findings = Vec::new();
    // Without a file the ports of development mode are examined.
    let loaded = args.config.load(args.config.is_empty());
    let config = match loaded {
        Ok(loaded) => {
            findings.push(Finding::ok(
                "configuration",
                format!("It is good ({}).", args.config.file_name()),
            ));
            Some(loaded.config)
        }
        Err(error) => {
            let remedy = "Mend it until `tiderace config check` is content.";
            findings.push(Finding::fail("configuration", error.to_string(), remedy));
            None
        }
    };
    findings.extend(config.as_ref().and_then(certificates));
    findings.extend(examine(&RealSystem, config.as_ref(), &args.data.display().to_string()));
    let text = if args.json { to_json(&findings) } else { to_text(&findings) };
    std::io::stdout().write_all(text.as_bytes()).map_err(output_error)?;
    match findings.iter().filter(|finding| finding.status == Status::Fail).count() {
        0 => Ok(()),
        1 => bail!("one check failed"),
        count => bail!("{count} checks failed"),
    }
}

/// What is wrong with this machine for a server that runs with that configuration, as JSON. Its ports are taken, by it.
pub(super) fn report(config: Option<&Config>) -> String {
    let mut findings: Vec<Finding> = config.and_then(certificates).into_iter().collect();
    findings.extend(process_and_network(&RealSystem, config));
    let written = config.into_iter().flat_map(resources::written_to);
    findings.extend(written.map(|(_, directory)| machine::disk(&RealSystem, directory)));
    findings.extend(hardware(&RealSystem));
    to_json(&findings)
}

/// Whether certificates and keys can be used, if there are any.
fn certificates(config: &Config) -> Option<Finding> {
    const CHECK: &str = "certificates";
    match tls::read(config) {
        Ok(None) => None,
        Ok(Some(read)) => {
            let now = tls::seconds();
            let held: Vec<Holds> = read.validities.iter().map(|it| it.holds(now)).collect();
            let left = held.iter().map(|one| one.left).min().unwrap_or(i64::MAX);
            let finding = format!("They can be used; the first expires in {} days.", left / 86_400);
            if held.iter().any(|one| one.ends_soon()) {
                let remedy = "Renew it; the server takes changed files without a restart.";
                return Some(Finding::warn(CHECK, finding, remedy));
            }
            Some(Finding::ok(CHECK, finding))
        }
        Err(error) => {
            let remedy = "The server does not start before `tiderace config check` is content.";
            Some(Finding::fail(CHECK, format!("{error:#}."), remedy))
        }
    }
}

/// The process that listens on a port of this machine, and its name, as far as this user may see it.
pub(crate) fn port_owner(port: u16) -> Option<(u32, String)> {
    ports::owner(&RealSystem, port)
}

/// Every check, in the order in which they are printed.
fn examine(system: &dyn System, config: Option<&Config>, data: &str) -> Vec<Finding> {
    let mut findings = process_and_network(system, config);
    for listener in config.iter().flat_map(|config| &config.listeners) {
        findings.push(ports::port(system, listener.address));
    }
    let socket = config.and_then(|config| config.management.socket.as_deref());
    findings.extend(socket.map(|path| ports::admin_socket(system, path)));
    findings.push(machine::disk(system, data));
    findings.extend(hardware(system));
    findings
}

fn process_and_network(system: &dyn System, config: Option<&Config>) -> Vec<Finding> {
    let connections = config.map_or(0, |config| config.limits.connections_max as u64);
    vec![
        process::open_files(system, connections),
        network::accept_backlog(system),
        network::syn_backlog(system),
        network::port_range(system),
        network::tcp_memory(system),
        network::connection_tracking(system),
    ]
}

fn hardware(system: &dyn System) -> [Finding; 2] {
    [machine::memory(system), machine::clock_source(system)]
}

fn to_text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let indent = format!("\n      {:width$}  ", "");
        let lines = finding.finding.replace('\n', &indent);
        text.push_str(&format!(
            "{:<4}  {:width$}  {lines}\n",
            finding.status.as_str(),
            finding.check
        ));
        if let Some(remedy) = &finding.remedy {
            // Commands one below the other, behind the arrow.
            let lines = remedy.replace('\n', &format!("{indent}  "));
            text.push_str(&format!("      {:width$}  → {lines}\n", ""));
        }
    }
    text
}

fn to_json(findings: &[Finding]) -> String {
    let findings: Vec<_> = findings
        .iter()
        .map(|finding| {
            json!({
                "check": finding.check,
                "status": finding.status.as_str(),
                "finding": finding.finding,
                "remedy": finding.remedy,
            })
        })
        .collect();
    format!("{:#}\n", json!(findings))
}

#[cfg(test)]
mod tests;
