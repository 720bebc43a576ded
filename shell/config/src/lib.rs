//! One table of options: TOML file, environment, flags, schema and documentation
