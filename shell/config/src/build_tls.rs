//! Checks of what is said about TLS, as far as they need no files.
//!
//! Relies on `build`. Invariant: a configuration that asks for TLS and nothing else gets it, or its operator hears that something is
//! missing; nobody gets plain text instead.

use crate::config::Config;
use crate::problem::{Origin, Problems};
use crate::sections::tls::ListenerTls;
use crate::table::{Table, origin_of};

/// Adds what is wrong.
pub(crate) fn check(config: &Config, tables: &[Table], problems: &mut Problems) {
    let tls = &config.tls;
    let at = |key: &str| origin_of(tables, key);
    match (&tls.certificate, &tls.key) {
        (Some(_), None) => problems.add(
            at("tls.certificate"),
            "tls.certificate needs tls.key, the file with its private key",
        ),
        (None, Some(_)) => problems
            .add(at("tls.key"), "tls.key needs tls.certificate, the file with its certificate"),
        _ => {}
    }
    let is_on = tls.is_on(&config.certificates);
    let needed = "set tls.certificate and tls.key";
    if tls.only && !is_on {
        let message = format!("tls.only refuses plain text, but there is no certificate; {needed}");
        problems.add(at("tls.only"), message);
    }
    if tls.client_authorities.is_some() && !is_on {
        let message =
            format!("tls.client_authorities is for TLS, but there is no certificate; {needed}");
        problems.add(at("tls.client_authorities"), message);
    }
    if !tls.client_names.is_empty() && tls.client_authorities.is_none() {
        let message =
            "tls.client_names: clients are not asked for certificates; set tls.client_authorities";
        problems.add(at("tls.client_names"), message);
    }
    let wanting = |table: &&Table| {
        let word = table.settings.iter().find(|setting| setting.spec.name() == "tls");
        let only = crate::kind::Value::Choice(ListenerTls::Only.as_str());
        table.section.name == "listener" && word.is_some_and(|word| word.value == only)
    };
    for table in tables.iter().filter(wanting).filter(|_| !is_on) {
        let message = format!(
            "listener.tls = \"only\" refuses plain text, but there is no certificate; {needed}"
        );
        problems.add(table.origin_of("tls"), message);
    }
    if !tls.self_signed {
        return;
    }
    if tls.certificate.is_some() || !config.certificates.is_empty() {
        let message =
            "tls.self_signed makes a certificate, but there is one; remove one of the two";
        problems.add(at("tls.self_signed"), message);
    }
    let public = config.listeners.iter().find(|listener| !listener.is_loopback());
    if let Some(listener) = public {
        let message = format!(
            "tls.self_signed is for this machine alone, but others can reach {}; nobody could tell this server from another that claims to be it: {needed}",
            listener.address
        );
        let origin = match at("tls.self_signed") {
            Origin::Default => at("server.listen"),
            origin => origin,
        };
        problems.add(origin, message);
    }
}
