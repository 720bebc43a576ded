//! The arguments of `bench compare`.

use std::path::PathBuf;

use clap::Args;

/// `bench compare`.
#[derive(Debug, Clone, Args)]
pub struct CompareArgs {
    /// The server to compare with, such as the build of the last release.
    pub old: PathBuf,
    /// The server to compare.
    pub new: PathBuf,
    /// How often each scenario is run with each of both.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Seconds measured at each level of load.
    #[arg(long, default_value_t = 3)]
    pub seconds: u64,
    /// Only these scenarios, by name.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Name the scenarios, and measure nothing.
    #[arg(long)]
    pub list: bool,
    /// Fail when the median of a figure is more than this times the old one, such as 1.05.
    #[arg(long, value_name = "RATIO")]
    pub bar: Option<f64>,
    /// Write every figure of every run as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
