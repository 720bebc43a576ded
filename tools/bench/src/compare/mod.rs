//! `bench compare`: two builds of this server side by side, in every scenario whose processor time is published.
//!
//! Each scenario is run with both, in random order, so often as asked; what counts is the ratio of the medians of one
//! run. Figures of different days, or of a busy and a quiet minute, say nothing. Invariant: both builds get the same
//! command lines, and a server that has just started.

mod scenarios;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::args::CompareArgs;
use crate::matrix;
use crate::random::Random;
use crate::report::table::Table;
use crate::server::Server;
use scenarios::{SCENARIOS, Scenario, StartedBy};

/// Runs `bench compare`.
///
/// # Errors
/// A sentence when a server or a scenario does not run, or, with `--bar`, when a figure is above it.
pub fn run(args: &CompareArgs) -> anyhow::Result<()> {
    if args.list {
        let names: String = SCENARIOS.iter().map(|each| format!("{}\n", each.name)).collect();
        return matrix::print(&names);
    }
    ensure!(args.rounds > 0, "--rounds must be above 0");
    let wanted = wanted(&args.only)?;
    let mut lines: Vec<Line> = wanted.iter().flat_map(|scenario| Line::all_of(scenario)).collect();
    measure(args, &wanted, &mut lines)?;
    matrix::print(&table(&lines))?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report(args, &lines))?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    match args.bar {
        Some(bar) => judge(&lines, bar),
        None => Ok(()),
    }
}

/// The scenarios with these names, or all.
fn wanted(only: &[String]) -> anyhow::Result<Vec<&'static Scenario>> {
    if let Some(unknown) =
        only.iter().find(|name| !SCENARIOS.iter().any(|each| each.name == **name))
    {
        bail!("there is no scenario {unknown}; --list names them all");
    }
    let is_wanted = |each: &&Scenario| only.is_empty() || only.iter().any(|name| name == each.name);
    Ok(SCENARIOS.iter().filter(is_wanted).collect())
}

/// Runs everything, a round after the other.
fn measure(args: &CompareArgs, wanted: &[&Scenario], lines: &mut [Line]) -> anyhow::Result<()> {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let mut random = Random(seed);
    let bar = matrix::progress_bar();
    bar.set_length((args.rounds * wanted.len() * 2) as u64);
    for _ in 0..args.rounds {
        for scenario in wanted {
            let mut order = [Build::Old, Build::New];
            if random.below(2) == 1 {
                order.reverse();
            }
            for build in order {
                bar.set_prefix(format!("{} {}", scenario.name, build.as_str()));
                let found = run_once(scenario, build.program(args), args.seconds)
                    .with_context(|| format!("{}, the {} server", scenario.name, build.as_str()))?;
                let own = lines.iter_mut().filter(|line| line.scenario == scenario.name);
                for (line, figure) in own.zip(found) {
                    line.of(build).push(figure);
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// One run of a scenario by a process of its own: the figures, in the order of the table.
fn run_once(scenario: &Scenario, program: &Path, seconds: u64) -> anyhow::Result<Vec<f64>> {
    let report = Report::new();
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    // As a part of another program it is reached by that one's sub-command.
    command.args(std::env::args().nth(1).filter(|word| word == "bench"));
    command.args(scenario.arguments).arg("--json").arg(&report.path);
    if let Some(option) = scenario.seconds {
        command.args([option, &seconds.to_string()]);
    }
    let server = match scenario.server {
        StartedBy::Subcommand => {
            command.arg("--server").arg(program);
            None
        }
        StartedBy::Comparison => {
            let server = Server::start(Some(&program.to_path_buf()), "", &[])?;
            command.arg("--target").arg(format!("server={},pid={}", server.address, server.pid()));
            Some(server)
        }
    };
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "the scenario failed ({status}); its error is above");
    drop(server);
    let found = report.read()?;
    let figure = |pointer| {
        found
            .pointer(pointer)
            .and_then(Value::as_f64)
            .with_context(|| format!("no figure at {pointer}"))
    };
    scenario.figures.iter().map(|each| figure(each.pointer)).collect()
}

/// One of both servers.
#[derive(Debug, Clone, Copy)]
enum Build {
    Old,
    New,
}

impl Build {
    fn as_str(self) -> &'static str {
        match self {
            Build::Old => "old",
            Build::New => "new",
        }
    }

    fn program(self, args: &CompareArgs) -> &Path {
        match self {
            Build::Old => &args.old,
            Build::New => &args.new,
        }
    }
}

/// A file for the report of one run, removed with it.
struct Report {
    path: PathBuf,
}

impl Report {
    fn new() -> Self {
        let name = format!("tiderace-bench-compare-{}.json", std::process::id());
        Self { path: std::env::temp_dir().join(name) }
    }

    fn read(&self) -> anyhow::Result<Value> {
        let text = std::fs::read_to_string(&self.path).context("the scenario wrote no report")?;
        Ok(serde_json::from_str(&text)?)
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A figure of both servers, a value for each round.
#[derive(Debug)]
struct Line {
    scenario: &'static str,
    figure: &'static str,
    old: Vec<f64>,
    new: Vec<f64>,
}

impl Line {
    fn all_of(scenario: &Scenario) -> Vec<Self> {
        let line = |figure: &scenarios::Figure| Self {
            scenario: scenario.name,
            figure: figure.name,
            old: Vec::new(),
            new: Vec::new(),
        };
        scenario.figures.iter().map(line).collect()
    }

    fn of(&mut self, build: Build) -> &mut Vec<f64> {
        match build {
            Build::Old => &mut self.old,
            Build::New => &mut self.new,
        }
    }

    /// The new median by the old one.
    fn ratio(&self) -> f64 {
        median(&self.new) / median(&self.old)
    }
}

/// The middle value, or the mean of both middle ones.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        even if even % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// The median, and the least and the most.
fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{:.3} ({least:.3} to {most:.3})", median(values))
}

fn table(lines: &[Line]) -> String {
    let mut table = Table::new(&["scenario", "server CPU, µs", "old", "new", "ratio of medians"]);
    for line in lines {
        table.row(vec![
            line.scenario.to_owned(),
            line.figure.to_owned(),
            spread(&line.old),
            spread(&line.new),
            format!("{:.3}", line.ratio()),
        ]);
    }
    table.render()
}

fn report(args: &CompareArgs, lines: &[Line]) -> Value {
    let figures: Vec<_> = lines
        .iter()
        .map(|line| {
            json!({
                "scenario": line.scenario, "figure": line.figure, "old": line.old, "new": line.new,
                "ratio": line.ratio(),
            })
        })
        .collect();
    json!({ "rounds": args.rounds, "seconds": args.seconds, "figures": figures })
}

/// Fails when a figure is above the bar, and names all that are.
fn judge(lines: &[Line], bar: f64) -> anyhow::Result<()> {
    let is_above = |line: &&Line| line.ratio() > bar || line.ratio().is_nan();
    let above: Vec<_> = lines
        .iter()
        .filter(is_above)
        .map(|line| format!("{}, {}: {:.3}", line.scenario, line.figure, line.ratio()))
        .collect();
    ensure!(above.is_empty(), "above {bar}: {}", above.join("; "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::BenchArgs;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        bench: BenchArgs,
    }

    #[test]
    fn every_scenario_is_a_command_line_and_has_its_own_name() {
        let mut names = std::collections::BTreeSet::new();
        for scenario in SCENARIOS {
            assert!(names.insert(scenario.name), "{} stands twice", scenario.name);
            assert!(!scenario.figures.is_empty());
            let own = match scenario.server {
                StartedBy::Subcommand => ["--server", "tiderace"],
                StartedBy::Comparison => ["--target", "127.0.0.1:61613"],
            };
            let mut words = vec!["bench"];
            words.extend(scenario.arguments);
            words.extend(own);
            words.extend(scenario.seconds.iter().flat_map(|option| [*option, "3"]));
            words.extend(["--json", "report.json"]);
            Typed::try_parse_from(&words)
                .map(drop)
                .unwrap_or_else(|error| panic!("{words:?}: {error}"));
        }
    }

    #[test]
    fn a_bar_names_what_is_above_it() {
        let line = |figure, new| Line { scenario: "s", figure, old: vec![2.0, 1.0, 9.0], new };
        let lines = [line("better", vec![1.9, 2.0, 1.0]), line("worse", vec![2.2, 2.4, 2.0])];
        assert!(judge(&lines[..1], 1.0).is_ok());
        let told = judge(&lines, 1.05).expect_err("a figure is above the bar").to_string();
        assert_eq!(told, "above 1.05: s, worse: 1.100");
        assert!(judge(&[line("nothing", Vec::new())], 1.05).is_err());
    }

    #[test]
    fn medians_of_even_numbers_lie_between() {
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}
