//! `tiderace support` against a running server: what is in the archive, and that no secret is.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::program::logins::{Show, Stomp, Way};
use crate::program::watched::Watched;
use crate::program::{Directory, FREE};

/// What must not get out, wherever it stands.
const SECRETS: [&str; 8] = [
    "planted-token-0123456",
    "planted-query",
    "planted-environment",
    "planted-value",
    "planted-message",
    "planted-queue",
    "planted-topic",
    "planted-name",
];

fn support(directory: &Path, name: &str, more: &[&str]) -> (Output, PathBuf) {
    let archive = directory.join(name);
    let output = Command::new(env!("CARGO_BIN_EXE_tiderace"))
        .arg("support")
        .arg(&archive)
        .args(more)
        .env("PLANTED", "planted-environment")
        .output()
        .unwrap();
    (output, archive)
}

/// A file of an archive.
fn member(archive: &Path, name: &str) -> Vec<u8> {
    let mut archive = tar::Archive::new(std::fs::File::open(archive).unwrap());
    let is_called =
        |entry: &tar::Entry<'_, std::fs::File>| entry.path().unwrap() == Path::new(name);
    let mut entries = archive.entries().unwrap().map(Result::unwrap);
    let mut text = Vec::new();
    entries.find(is_called).expect(name).read_to_end(&mut text).unwrap();
    text
}

fn json(archive: &Path, name: &str) -> Value {
    serde_json::from_slice(&member(archive, name)).unwrap()
}

#[test]
fn the_archive_has_what_is_asked_for_and_no_secret() {
    let directory = Directory::new("support");
    let token = directory.0.join("secret");
    std::fs::write(&token, "planted-token-0123456").unwrap();
    let hash = "a".repeat(64);
    let config = format!(
        "[log]\nlevel = \"debug\"\n\
         [[token]]\nname = \"one\"\nsecret = \"file:{}\"\n\
         [[token]]\nname = \"other\"\nsecret = \"sha256:{hash}\"\n\
         [[token]]\nname = \"third\"\nsecret = \"env:PLANTED\"\n\
         [auth_http]\nlogin_url = \"http://127.0.0.1:9/login?a=1,key=planted-query\"\n\
         [[rule]]\nallow = [\"publish\", \"send\", \"browse\", \"monitor\"]\nprincipals = [\"*\"]\npaths = [\"**\", \"$sys/**\"]\n",
        token.display(),
    );
    let file = directory.0.join("tiderace.toml");
    let text = format!("[server]\nlisten = [{FREE:?}]\nshards = 2\n{config}");
    std::fs::write(&file, text).unwrap();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_tiderace"));
    serve.args(["serve", "--config"]).arg(&file).env("PLANTED", "planted-environment");
    let server = Watched::of(&mut serve);
    let address = server.addresses[0].to_string();
    let mut client =
        Stomp::log_in(&Way::plain(server.addresses[0]), Show::Token("planted-token-0123456"))
            .unwrap();
    for destination in ["/topic/planted-topic", "/queue/planted-queue"] {
        client.send(&format!(
            "SEND\ndestination:{destination}\nretain:set\nplanted-name:planted-value\nreceipt:1\n\nplanted-message"
        ));
        assert!(client.frame().starts_with("RECEIPT"));
    }
    let login = ["-s", &address, "-P", "planted-token-0123456", "--config", file.to_str().unwrap()];
    let (output, archive) = support(&directory.0, "a.tar", &login);
    assert!(output.status.success(), "{output:?}");
    let about = json(&archive, "about.json");
    assert_eq!(about["missing"], serde_json::json!({}), "{about}");
    assert_eq!(about["version"], env!("CARGO_PKG_VERSION"));
    let shown = String::from_utf8(member(&archive, "config.toml")).unwrap();
    assert!(shown.contains("debug") && shown.contains("env:PLANTED"), "{shown}");
    assert!(shown.contains("http://127.0.0.1:9/login?***"), "{shown}");
    let doctor = json(&archive, "doctor.json");
    assert!(doctor.as_array().is_some_and(|all| all.len() > 5));
    assert!(!doctor.to_string().contains("is taken by"), "{doctor}");
    assert!(json(&archive, "stats.json")["metrics"]["tiderace_queues"].is_u64());
    assert_eq!(json(&archive, "sessions.json")["matched"], 2);
    assert_eq!(json(&archive, "queues.json")["queues"].as_array().map(Vec::len), Some(1));
    assert!(json(&archive, "alarms.json").is_array());
    let bytes = std::fs::read(&archive).unwrap();
    let whole = String::from_utf8_lossy(&bytes);
    for secret in SECRETS.iter().copied().chain([&*hash]) {
        assert!(!whole.contains(secret), "{secret} is in the archive");
    }
    let (again, _) = support(&directory.0, "a.tar", &login);
    assert!(!again.status.success(), "what is there is left alone");
    assert_eq!(std::fs::read(&archive).unwrap(), bytes);

    // Who cannot log in gets what the machine says, and is told what is missing.
    let (output, archive) =
        support(&directory.0, "b.tar", &["-s", &address, "-P", "planted-nobody-012"]);
    assert!(output.status.success(), "{output:?}");
    let missing = &json(&archive, "about.json")["missing"];
    assert!(missing["server"].is_string() && missing["config.toml"].is_string(), "{missing}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("server is missing"), "{output:?}");
}

#[test]
fn a_configuration_that_is_wrong_is_not_quoted() {
    let directory = Directory::new("support-wrong");
    let file = directory.0.join("wrong.toml");
    std::fs::write(&file, "[[token]]\nname = \"a\"\nsecret = \"planted-token-0123456\"\n").unwrap();
    let arguments = ["-s", "127.0.0.1:1", "--config", file.to_str().unwrap()];
    let (output, archive) = support(&directory.0, "c.tar", &arguments);
    assert!(output.status.success(), "{output:?}");
    let missing = &json(&archive, "about.json")["missing"];
    assert!(missing["config.toml"].is_string() && missing["server"].is_string(), "{missing}");
    let whole = [std::fs::read(&archive).unwrap(), output.stdout, output.stderr].concat();
    assert!(!String::from_utf8_lossy(&whole).contains("planted"));
}
