//! `tiderace password`: what goes into `password_hash` and `secret`.
//!
//! Relies on `tiderace_auth`. Invariant: a password is read from standard input, never from the command
//! line, where other users of the machine could see it.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Context, bail};
use clap::Args;
use tiderace_auth::{TokenDigest, generate_token, hash_password};

use super::output::output_error;

/// `tiderace password`.
#[derive(Debug, Args)]
pub(crate) struct PasswordArgs {
    /// Make a random token and print it with its hash, instead of hashing a password.
    #[arg(long)]
    token: bool,
}

/// Reads one line from standard input and prints its hash; or makes a token.
pub(crate) fn run(args: &PasswordArgs) -> anyhow::Result<()> {
    let text = match args.token {
        true => {
            let token =
                generate_token().context("the operating system gave no random bytes; try again")?;
            format!("token   {token}\nsecret  {}\n", TokenDigest::of(&token))
        }
        false => format!("{}\n", hash_password(&read_password()?)?),
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(output_error)
}

pub(super) fn read_password() -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        // Hiding the typing would need more of the terminal than the standard library offers.
        eprint!("Password (it will be visible): ");
    }
    let mut line = String::new();
    stdin.lock().read_line(&mut line).context("cannot read the password from standard input")?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        bail!(
            "no password was given; type one, or pipe it in: printf %s \"$SECRET\" | tiderace password"
        );
    }
    Ok(password.to_owned())
}
