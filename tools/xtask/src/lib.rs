//! Hygiene tests of the workspace and generated documentation
