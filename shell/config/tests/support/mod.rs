//! Builds the sources of a configuration without touching files or the process environment.
#![allow(dead_code, reason = "each test program uses a part")]

use std::io;
use std::path::Path;

use tiderace_config::{FileSource, FlagSource, FlagTable, Loaded, Problems, Sources};

/// What a configuration is loaded from.
#[derive(Default, Clone)]
pub(crate) struct Setup {
    file: Option<String>,
    environment: Vec<(String, String)>,
    flags: Vec<FlagSource>,
    tables: Vec<FlagTable>,
    development: bool,
}

/// A setup with this file, called `t.toml`.
pub(crate) fn file(text: &str) -> Setup {
    Setup { file: Some(text.to_owned()), ..Setup::default() }
}

impl Setup {
    pub(crate) fn env(mut self, name: &str, value: &str) -> Setup {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn flag(mut self, flag: &str, key: &str, value: &str) -> Setup {
        self.flags.push(FlagSource {
            flag: flag.to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
        });
        self
    }

    /// An upstream from the command line, whose options all come by one flag.
    pub(crate) fn upstream(mut self, flag: &str, settings: &[(&str, &str)]) -> Setup {
        let setting = |(name, value): &(&str, &str)| FlagSource {
            flag: flag.to_owned(),
            key: format!("upstream.{name}"),
            value: (*value).to_owned(),
        };
        let settings = settings.iter().map(setting).collect();
        self.tables.push(FlagTable { section: "upstream", settings });
        self
    }

    pub(crate) fn development(mut self) -> Setup {
        self.development = true;
        self
    }

    /// Loads it; `/secret` holds "from-file" and a line break, other files are missing.
    pub(crate) fn load(&self) -> Result<Loaded, Problems> {
        let read_secret = |path: &Path| match path.to_str() {
            Some("/secret") => Ok("from-file\n".to_owned()),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
        };
        tiderace_config::load(&Sources {
            file: self.file.clone().map(|text| FileSource { name: "t.toml".to_owned(), text }),
            environment: self.environment.clone(),
            flags: self.flags.clone(),
            tables: self.tables.clone(),
            development: self.development,
            read_secret: &read_secret,
        })
    }
}
