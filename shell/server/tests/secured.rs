//! The commands that talk to a server, over TLS and real sockets: they do what they do in plain text, and
//! what stands between them and the server they say in one line, with what to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;

use crate::program::{Directory, Server};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// An authority, and where its certificate lies.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: String,
}

/// Files of the test.
struct Files(Directory);

impl Files {
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.0.join(name)
    }

    /// An authority of its own; all have the same name.
    fn authority(&self, name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let file = self.write(&format!("{name}.pem"), &certificate.pem());
        // Beside it the key, for who uses the authority's certificate as its own.
        self.write(&format!("{name}.key"), &key.serialize_pem());
        Authority { issuer: Issuer::new(params, key), file }
    }

    /// The files of a certificate that the authority has signed, and of its key.
    fn signed(&self, name: &str, host: &str, authority: &Authority) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority.issuer).unwrap();
        let chain = self.write(&format!("{name}.pem"), &certificate.pem());
        [chain, self.write(&format!("{name}.key"), &key.serialize_pem())]
    }

    fn serve(&self, tls: &str) -> Server {
        Server::start(&self.0.0, &format!("[tls]\n{tls}\n"))
    }
}

fn identity([chain, key]: &[String; 2]) -> String {
    format!("certificate = {chain:?}\nkey = {key:?}\n")
}

/// The program, with nothing of the environment that would tell it where to connect and how.
fn command(args: &[&str], host: &str, port: u16, tls: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TIDERACE_")) {
        command.env_remove(name);
    }
    command.args(args).args(["-s", host, "-p", &port.to_string()]).args(tls);
    command.stdin(Stdio::null());
    command
}

/// What it prints; it must do well.
fn done(args: &[&str], server: &Server, tls: &[&str]) -> String {
    let output = command(args, "localhost", server.address.port(), tls).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?} {tls:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one line in which it says what went wrong.
fn complaint(output: Output) -> String {
    let text = String::from_utf8(output.stderr).unwrap();
    // Refused, or nobody there with whom to speak.
    assert!(matches!(output.status.code(), Some(3 | 4)), "{text}");
    assert!(output.stdout.is_empty());
    let line = text.strip_suffix('\n').unwrap();
    assert!(line.starts_with("tiderace: ") && !line.contains('\n'), "{text}");
    line.to_owned()
}

/// Asserts that every kind of client says these words.
fn refused(host: &str, port: u16, tls: &[&str], words: &[&str]) {
    for args in [&["pub", "a", "1"][..], &["sub", "a"], &["topics", "ls"], &["views", "ls"]] {
        let line = complaint(command(args, host, port, tls).output().unwrap());
        for words in words {
            assert!(line.contains(words), "{args:?} {tls:?}: {words:?} is not said: {line}");
        }
    }
}

#[test]
fn a_subscriber_hears_what_is_published() {
    let files = Files(Directory::new("heard"));
    let authority = files.authority("ca");
    let chain = files.signed("server", "localhost", &authority);
    let server = files.serve(&format!("{}only = true\n", identity(&chain)));
    let tls = ["--ca", authority.file.as_str()];

    done(&["pub", "-r", "fx/EUR-USD", "1.09"], &server, &tls);
    let port = server.address.port();
    let mut subscriber = command(&["sub", "fx/*", "-v", "-C", "3"], "localhost", port, &tls)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(subscriber.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "fx/EUR-USD 1.09");
    // It listens now.
    done(&["pub", "fx/EUR-USD", "1.10"], &server, &tls);
    let long = "9".repeat(1 << 20);
    let file = files.write("long", &long);
    done(&["pub", "fx/LONG", "-f", &file], &server, &tls);
    assert_eq!(lines.next().unwrap(), "fx/EUR-USD 1.10");
    assert_eq!(lines.next().unwrap(), format!("fx/LONG {long}"));
    assert!(subscriber.wait().unwrap().success());

    done(&["pub", "-q", "jobs", "one"], &server, &tls);
    assert_eq!(done(&["sub", "-q", "jobs", "-C", "1"], &server, &tls), "one\n");
    done(&["topics", "set", "stock/a", "7", "--spec", "{\"type\":\"json\"}"], &server, &tls);
    assert_eq!(done(&["topics", "ls", "stock/*", "--values"], &server, &tls), "stock/a 7\n");
    done(&["views", "put", "half", "map stock/* to half/<path(1)>"], &server, &["--insecure"]);
    assert!(done(&["views", "ls"], &server, &tls).starts_with("half: "));
    done(&["pub", "-q", "jobs", "two"], &server, &tls);
    let queues = done(&["browse", "queues"], &server, &tls);
    assert!(queues.starts_with("jobs: 1 messages, "), "{queues}");
    assert!(done(&["browse", "sessions", "--json", "-n", "1"], &server, &tls).contains("\"id\":"));

    for address in ["tls://localhost", "https://localhost", "wss://localhost/"] {
        let output =
            command(&["topics", "get", "stock/a"], address, port, &tls[..]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "7\n", "{address}");
    }
    let output = command(&["pub", "a", "1"], "http://localhost", port, &tls).output().unwrap();
    assert!(complaint(output).contains("http:// means plain text; write tls://"));
}

#[test]
fn a_certificate_that_is_not_trusted_says_whom_to_trust() {
    let files = Files(Directory::new("trust"));
    let [authority, other] = ["ca", "other"].map(|name| files.authority(name));
    let chain = files.signed("server", "localhost", &authority);
    let server = files.serve(&identity(&chain));
    let port = server.address.port();
    let place = format!("no secured connection with localhost:{port}: ");
    let signed = format!("signed by no authority of {}; ", other.file);
    refused("localhost", port, &["--ca", &other.file], &[&place, &signed, "with --ca"]);
    let name = "its certificate is for localhost and not for 127.0.0.1; ";
    refused("127.0.0.1", port, &["--ca", &authority.file], &[name, "with -h"]);
    let nothing = files.write("nothing.pem", "nothing\n");
    refused(
        "localhost",
        port,
        &["--ca", &nothing],
        &[&nothing, "has no certificate", "right file?"],
    );
    let nowhere = files.path("nowhere.pem");
    let nowhere = nowhere.to_str().unwrap();
    refused("localhost", port, &["--ca", nowhere], &[nowhere, "right file?"]);
}

#[test]
fn an_authority_that_serves_itself_is_told_how_not_to() {
    let files = Files(Directory::new("itself"));
    let authority = files.authority("ca");
    let key = files.path("ca.key").to_str().unwrap().to_owned();
    let server = files.serve(&identity(&[authority.file.clone(), key]));
    let port = server.address.port();
    refused("localhost", port, &["--ca", &authority.file], &["an authority's own", "CA:FALSE"]);
}

#[test]
fn plain_text_where_tls_is_spoken_and_the_reverse_say_which_option() {
    let files = Files(Directory::new("reverse"));
    let authority = files.authority("ca");
    let chain = files.signed("server", "localhost", &authority);
    let only = files.serve(&format!("{}only = true\n", identity(&chain)));
    let port = only.address.port();
    let words = [&*format!("localhost:{port} speaks TLS only; "), "add --tls, or --ca"];
    refused("localhost", port, &[], &words);
    let plain = files.serve("");
    let port = plain.address.port();
    refused(
        "localhost",
        port,
        &["--insecure"],
        &["speaks no TLS there", "leave out tls:// and the like, --tls"],
    );
    refused(
        "localhost",
        port,
        &["--ca", &authority.file],
        &["leave out tls:// and the like, --tls"],
    );
}

#[test]
fn what_answers_to_tls_with_other_things_is_no_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for (turn, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            // Half of them say nothing at all.
            if turn % 2 == 0 {
                stream.write_all(b"SSH-2.0-other_1.0\r\n").unwrap();
            }
            let _ = BufReader::new(&stream).fill_buf();
        }
    });
    for expected in ["is no TLS; if it speaks plain text", "it closes the connection; "] {
        let args = ["topics", "ls"];
        let output = command(&args, "127.0.0.1", port, &["--insecure"]).output().unwrap();
        let line = complaint(output);
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn a_server_that_wants_a_certificate_gets_one() {
    let files = Files(Directory::new("clients"));
    let [authority, other] = ["ca", "other"].map(|name| files.authority(name));
    let chain = files.signed("server", "localhost", &authority);
    let trusting = ["--ca", authority.file.as_str()];
    let authorities = format!("client_authorities = {:?}\n", authority.file);
    let server = files.serve(&(identity(&chain) + &authorities));
    let port = server.address.port();
    let wants = ["it wants a certificate of its clients; ", "--cert", "--key"];
    refused("localhost", port, &trusting, &wants);

    let ann = files.signed("ann", "ann", &authority);
    let tls: Vec<&str> = [&trusting[..], &["--cert", &ann[0], "--key", &ann[1]]].concat();
    done(&["pub", "-r", "a", "1"], &server, &tls);
    assert_eq!(done(&["sub", "a", "-C", "1"], &server, &tls), "1\n");
    assert_eq!(done(&["topics", "ls"], &server, &tls), "a\n");

    let eve = files.signed("eve", "eve", &other);
    let tls = [&trusting[..], &["--cert", &eve[0], "--key", &eve[1]]].concat();
    refused("localhost", port, &tls, &["it does not take the certificate ", "signed by"]);
    let tls = [&trusting[..], &["--cert", &ann[0], "--key", &eve[1]]].concat();
    refused("localhost", port, &tls, &["cannot be used", "its own key"]);
}
