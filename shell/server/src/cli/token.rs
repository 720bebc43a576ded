//! `tiderace token`: a signed token, to try things out.
//!
//! Relies on `tiderace_auth::jwt`, which verifies what is made here. Invariant: the token alone goes to standard output,
//! so that it can be put into a variable; a secret is printed only if it was made just now.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::{Map, Value, json};
use tiderace_auth::generate_token;
use tiderace_auth::jwt::{Algorithm, sign};
use tiderace_config::{JwtConfig, JwtKeys, parse_duration};

use super::config_args::ConfigArgs;
use super::output::output_error;

/// `tiderace token`.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// Who the bearer is.
    #[arg(long, value_name = "NAME")]
    user: String,
    /// A group that the bearer belongs to; may be given several times.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// Another claim, for rules with `{claim.NAME}`; may be given several times.
    #[arg(long = "claim", value_name = "NAME=VALUE")]
    claims: Vec<String>,
    /// How long the token is valid.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = span)]
    valid_for: Duration,
    /// The `[[jwt]]` of the configuration whose secret signs; needed only if there are several.
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Signs with the secret of the configuration; without one, makes a secret and says what to do with it.
pub(crate) fn run(args: &TokenArgs) -> anyhow::Result<()> {
    let loaded = args.config.load(false)?;
    let signers: Vec<(&JwtConfig, &str)> = loaded
        .config
        .auth
        .jwt
        .iter()
        .filter(|jwt| args.issuer.as_ref().is_none_or(|name| *name == jwt.name))
        .filter_map(|jwt| match &jwt.keys {
            JwtKeys::Secret(secret) => Some((jwt, secret.expose())),
            JwtKeys::PublicKey(_) | JwtKeys::Set { .. } => None,
        })
        .collect();
    let token = match (&*signers, &args.issuer) {
        ([(jwt, secret)], _) => signed(args, Some(jwt), secret)?,
        ([], None) if loaded.config.auth.jwt.is_empty() => {
            let secret =
                generate_token().context("the operating system gave no random bytes; try again")?;
            let token = signed(args, None, &secret)?;
            eprintln!(
                "The configuration has no [[jwt]], so this token is signed with a new secret. A server takes it with\n\
                 \n    [[jwt]]\n    name = \"trial\"\n    secret = \"env:TIDERACE_JWT_SECRET\"\n\
                 \nand a [[rule]], started with\n\
                 \n    export TIDERACE_JWT_SECRET={secret}\n"
            );
            token
        }
        ([], _) => bail!(
            "no [[jwt]] of that kind has a `secret`; only who has the private key can sign its tokens"
        ),
        _ => bail!("several [[jwt]] have a `secret`; choose one with --issuer"),
    };
    std::io::stdout().write_all(format!("{token}\n").as_bytes()).map_err(output_error)
}

fn signed(args: &TokenArgs, jwt: Option<&JwtConfig>, secret: &str) -> anyhow::Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let until = now.saturating_add(args.valid_for).as_secs();
    let mut claims = Map::new();
    claims.insert("iat".to_owned(), json!(now.as_secs()));
    claims.insert("exp".to_owned(), json!(until));
    let name_claim = jwt.map_or("sub", |jwt| &*jwt.name_claim);
    put(&mut claims, name_claim, json!(args.user))?;
    if !args.groups.is_empty() {
        let groups_claim = jwt.map_or("groups", |jwt| &*jwt.groups_claim);
        put(&mut claims, groups_claim, json!(args.groups))?;
    }
    if let Some(issuer) = jwt.and_then(|jwt| jwt.issuer.as_ref()) {
        claims.insert("iss".to_owned(), json!(issuer));
    }
    if let Some(audience) = jwt.and_then(|jwt| jwt.audience.first()) {
        claims.insert("aud".to_owned(), json!(audience));
    }
    for claim in &args.claims {
        let (name, value) = claim
            .split_once('=')
            .ok_or_else(|| anyhow!("{claim:?} is no claim; write --claim NAME=VALUE"))?;
        put(&mut claims, name, json!(value))?;
    }
    let configured = jwt.and_then(|jwt| jwt.algorithms.first()).map(|word| word.as_str());
    let algorithm = Algorithm::named(configured.unwrap_or("HS256")).unwrap_or(Algorithm::Hs256);
    sign(&Value::Object(claims), secret.as_bytes(), algorithm)
        .ok_or_else(|| anyhow!("{} does not sign with a secret", algorithm.name()))
}

/// Sets a claim; dots lead into objects, as they do when it is looked for.
fn put(claims: &mut Map<String, Value>, name: &str, value: Value) -> anyhow::Result<()> {
    match name.split_once('.') {
        None => {
            claims.insert(name.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => {
            let inner = claims.entry(first).or_insert_with(|| json!({}));
            let inner = inner
                .as_object_mut()
                .ok_or_else(|| anyhow!("claim {first:?} is both a value and an object"))?;
            put(inner, rest, value)
        }
    }
}

fn span(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text).filter(|span| *span >= Duration::from_secs(1));
    span.ok_or_else(|| "write a time such as 10m or 1h".to_owned())
}
