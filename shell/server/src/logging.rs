//! Logs on standard error: text for people on a terminal, JSON lines otherwise.

use std::io::IsTerminal;

use tiderace_config::{LogConfig, LogFormat, LogLevel};
use tracing_subscriber::EnvFilter;

/// Starts logging. `RUST_LOG` overrides the configured level.
pub(crate) fn start(config: &LogConfig) {
    let level = match config.level {
        LogLevel::Debug => "debug",
        LogLevel::Error => "error",
        LogLevel::Info => "info",
        LogLevel::Trace => "trace",
        LogLevel::Warn => "warn",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let json = match config.format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Json => true,
        LogFormat::Text => false,
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start, as in tests, keeps the first one's settings.
    let _ = if json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.with_target(false).try_init()
    };
}
