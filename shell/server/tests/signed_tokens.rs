//! Signed tokens by real sockets: who is let in, where, and until when; and keys that a server fetches.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use crate::program::{Directory, Server};

const SECRET: &str = "a secret of thirty-two bytes, ok";

const RULES: &str = "
[[rule]]
allow = [\"publish\", \"subscribe\"]
principals = [\"*\"]
paths = [\"users/{user}/**\", \"tenants/{claim.tenant}/**\"]
";

fn config(directory: &Directory) -> String {
    let secret = directory.0.join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    format!(
        "[[jwt]]\nname = \"test\"\nleeway = \"0s\"\nsecret = \"file:{}\"\n{RULES}",
        secret.display()
    )
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn signed(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn token(claims: &Value) -> String {
    signed(&json!({ "alg": "HS256" }), claims, |message| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
        ring::hmac::sign(&key, message).as_ref().to_vec()
    })
}

/// A client of STOMP.
struct Stomp(BufReader<TcpStream>);

impl Stomp {
    fn connect(address: SocketAddr, headers: &str) -> Stomp {
        let mut stomp = Stomp(BufReader::new(TcpStream::connect(address).unwrap()));
        stomp.send(&format!("CONNECT\naccept-version:1.2\nhost:localhost\n{headers}"));
        stomp
    }

    fn send(&mut self, frame: &str) {
        self.0.get_mut().write_all(format!("{frame}\n\0").as_bytes()).unwrap();
    }

    /// The next frame; empty at the end.
    fn frame(&mut self) -> String {
        let mut frame = Vec::new();
        self.0.read_until(0, &mut frame).unwrap();
        String::from_utf8(frame).unwrap().trim_matches(['\n', '\0']).to_owned()
    }
}

fn http(address: SocketAddr, path: &str, token: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_token_opens_what_its_claims_name_and_nothing_else() {
    let directory = Directory::new("signed-tokens");
    let server = Server::start(&directory.0, &config(&directory));
    let ann = json!({ "sub": "ann", "exp": now() + 600, "tenant": "acme" });
    let good = token(&ann);
    // The three places of STOMP, and a name beside the token.
    for headers in [
        format!("passcode:{good}\n"),
        format!("token:{good}\n"),
        format!("Authorization:Bearer {good}\n"),
        format!("login:ann\npasscode:{good}\n"),
    ] {
        let mut stomp = Stomp::connect(server.address, &headers);
        let connected = stomp.frame();
        assert!(connected.starts_with("CONNECTED") && connected.contains("ann"), "{connected}");
        for path in ["users/ann/inbox", "tenants/acme/news"] {
            stomp.send(&format!("SEND\ndestination:/topic/{path}\nreceipt:1\n\nhello"));
            let receipt = stomp.frame();
            assert!(receipt.starts_with("RECEIPT"), "{path}: {receipt}");
        }
        stomp.send("SUBSCRIBE\nid:1\ndestination:/topic/tenants/umbra/news\n");
        let refused = stomp.frame();
        assert!(refused.starts_with("ERROR") && refused.contains("not-authorised"), "{refused}");
    }
    let mut forged = good.clone();
    forged.replace_range(10..11, if &good[10..11] == "A" { "B" } else { "A" });
    let late = token(&json!({ "sub": "ann", "exp": now() - 1 }));
    for (login, bad) in
        [("", forged.as_str()), ("", &late), ("login:bob\n", &good), ("", "nonsense")]
    {
        let mut stomp = Stomp::connect(server.address, &format!("{login}passcode:{bad}\n"));
        let refused = stomp.frame();
        assert!(refused.starts_with("ERROR") && refused.contains("login-failed"), "{refused}");
        assert_eq!(stomp.frame(), "", "the connection ends");
    }
    // HTTP: what is there, what is kept from ann, and a token that is none.
    // It was published without being retained.
    let own = http(server.address, "/topics/users/ann/inbox", &good);
    assert!(own.contains(" 404 "), "{own}");
    assert!(http(server.address, "/topics/users/bob/inbox", &good).contains(" 403 "));
    assert!(http(server.address, "/topics/users/ann/inbox", &late).contains(" 401 "));
}

#[test]
fn an_idle_session_ends_with_its_token() {
    let directory = Directory::new("token-end");
    let server = Server::start(&directory.0, &config(&directory));
    // One for each, so that no login waits for another.
    let short = || token(&json!({ "sub": "ann", "exp": now() + 8 }));
    let mut stomp = Stomp::connect(server.address, &format!("passcode:{}\n", short()));
    assert!(stomp.frame().starts_with("CONNECTED"));
    let mut events = TcpStream::connect(server.address).unwrap();
    let request = format!(
        "GET /events?topic=users/ann/x&access_token={} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        short()
    );
    events.write_all(request.as_bytes()).unwrap();
    let last = stomp.frame();
    assert!(last.starts_with("ERROR") && last.contains("login-expired"), "{last}");
    assert_eq!(stomp.frame(), "");
    // The stream ends, and with it the connection or its answer.
    let mut answer = BufReader::new(events);
    let mut text = String::new();
    while !text.ends_with("\r\n0\r\n") && answer.read_line(&mut text).unwrap() > 0 {}
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

#[test]
fn keys_are_fetched_and_a_login_waits_for_them() {
    let directory = Directory::new("fetched-keys");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("http://{}/keys", listener.local_addr().unwrap());
    let random = SystemRandom::new();
    let how = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(how, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(how, document.as_ref(), &random).unwrap();
    let point = pair.public_key().as_ref();
    let set = json!({ "keys": [{
        "kty": "EC", "crv": "P-256", "kid": "k1", "use": "sig", "alg": "ES256",
        "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..]),
    }]})
    .to_string();
    let (release, gate) = channel::<()>();
    let keeper = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut head = BufReader::new(socket.try_clone().unwrap()).lines();
        while head.next().is_some_and(|line| !line.unwrap().is_empty()) {}
        gate.recv().unwrap();
        let length = set.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{set}"
        );
        socket.write_all(answer.as_bytes()).unwrap();
    });
    let config = format!("[[jwt]]\nname = \"id\"\nkeys = {place:?}\n{RULES}");
    let server = Server::start(&directory.0, &config);
    let claims = json!({ "sub": "ann", "exp": now() + 600 });
    let good = signed(&json!({ "alg": "ES256", "kid": "k1" }), &claims, |message| {
        pair.sign(&random, message).unwrap().as_ref().to_vec()
    });
    let mut stomp = Stomp::connect(server.address, &format!("passcode:{good}\n"));
    release.send(()).unwrap();
    assert!(stomp.frame().starts_with("CONNECTED"));
    keeper.join().unwrap();
    let confused = signed(&json!({ "alg": "HS256", "kid": "k1" }), &claims, |message| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, pair.public_key().as_ref());
        ring::hmac::sign(&key, message).as_ref().to_vec()
    });
    let mut stomp = Stomp::connect(server.address, &format!("passcode:{confused}\n"));
    assert!(stomp.frame().contains("login-failed"));
}

fn tiderace(arguments: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
    command.args(arguments).env_remove("TIDERACE_CONFIG").stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_commands_make_a_token_and_explain_a_rule() {
    let directory = Directory::new("token-commands");
    let server = Server::start(&directory.0, &config(&directory));
    let file = directory.0.join("rules.toml");
    std::fs::write(&file, config(&directory)).unwrap();
    let file = file.to_str().unwrap();
    let (ok, made, _) = tiderace(&[
        "token",
        "-c",
        file,
        "--user",
        "ann",
        "--group",
        "staff",
        "--claim",
        "tenant=acme",
        "--for",
        "10m",
    ]);
    assert!(ok);
    let mut stomp = Stomp::connect(server.address, &format!("passcode:{}\n", made.trim()));
    assert!(stomp.frame().starts_with("CONNECTED"));
    stomp.send("SEND\ndestination:/topic/tenants/acme/x\nreceipt:1\n\nhello");
    assert!(stomp.frame().starts_with("RECEIPT"));
    let (ok, made, said) = tiderace(&["token", "--user", "ann"]);
    assert!(
        ok && made.trim().split('.').count() == 3 && said.contains("TIDERACE_JWT_SECRET="),
        "{said}"
    );

    let explain = |arguments: &[&str]| {
        let (ok, said, problem) = tiderace(&[&["acl", "explain", "-c", file], arguments].concat());
        assert!(ok, "{problem}");
        said
    };
    let said = explain(&["ann", "publish", "users/ann/x"]);
    assert!(said.starts_with("ann may publish on topic users/ann/x: the [[rule]] at "), "{said}");
    assert!(said.contains("rules.toml:6:") && said.contains("{claim.tenant}"), "{said}");
    let said = explain(&["ann", "publish", "tenants/acme/x"]);
    assert!(said.contains("may not") && said.contains("no rule allows it"), "{said}");
    let said = explain(&["ann", "subscribe", "tenants/acme/x", "--claim", "tenant=acme"]);
    assert!(said.starts_with("ann may subscribe"), "{said}");
    let said = explain(&["ann", "publish", "$sys/x"]);
    assert!(said.contains("may not") && said.contains("$sys"), "{said}");
    let said = explain(&["anonymous", "subscribe", "user/ann/x"]);
    assert!(said.contains("private to somebody else"), "{said}");
    assert!(!tiderace(&["acl", "explain", "-c", file, "ann", "fly", "x"]).0);
}
