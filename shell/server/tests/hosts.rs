//! Virtual hosts of the real program: who names none where one is wanted, and odd names.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::program::{Directory, Server};

const CONFIG: &str = r#"
[virtual_hosts]
unknown = "refuse"

[[virtual_host]]
name = "shop"
hosts = ["shop.example"]

[[token]]
name = "tenant"
secret = "sha256:caad00bf6609e4300be7b5d86a4766d5525fdb62c022ad9e30634408f0e5b57a"

[[token]]
name = "operator"
secret = "sha256:1d78a5b5dc38892e9be1275abf9ed604ebdb5fdac183dd6086eff29a608a555d"
host = "*"

[[token]]
name = "bound"
secret = "sha256:2500178c0de3b7952c8ed23c1b5b188f9a83e880d9d380093a36181896894f7b"
host = "shop"

[[rule]]
allow = ["publish", "subscribe"]
principals = ["*"]
"#;

/// The first frame that the server answers to CONNECT with that host.
fn stomp(address: SocketAddr, host: &[u8], token: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("CONNECT\naccept-version:1.2\ntoken:{token}\nhost:");
    let end = b"\n\n\0SEND\ndestination:/topic/a\nreceipt:r\n\n\0DISCONNECT\nreceipt:bye\n\n\0";
    stream.write_all(&[head.as_bytes(), host, end].concat()).unwrap();
    let mut answer = Vec::new();
    // The rest of what a refused client has sent may reset the connection behind the ERROR.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn http(address: SocketAddr, host: &str, token: &str) -> String {
    http_at(address, "/topics/a", host, token)
}

fn http_at(address: SocketAddr, target: &str, host: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    stream.write_all(format!("{head}Authorization: Bearer {token}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn who_names_no_host_is_refused_where_one_is_wanted() {
    let directory = Directory::new("hosts");
    let server = Server::start(&directory.0, CONFIG);
    let long = "x".repeat(3_000);
    let odd: [&[u8]; 6] =
        [b"", b"/", b"127.0.0.1", long.as_bytes(), b"@shop", b"shop.example/../x"];
    for host in odd {
        let answer = stomp(server.address, host, TENANT);
        let shown = String::from_utf8_lossy(host.get(..40).unwrap_or(host)).into_owned();
        assert!(
            answer.starts_with("ERROR\n") && answer.contains("wrong-host"),
            "{shown}: {answer}"
        );
        assert!(!answer.contains("RECEIPT"), "{shown}: {answer}");
        assert!(answer.len() < 1000, "{shown}: {answer}");
    }
    for host in ["shop.example", "SHOP.EXAMPLE:7800", "shop.example."] {
        let answer = stomp(server.address, host.as_bytes(), TENANT);
        assert!(answer.contains("receipt-id:bye"), "{host}: {answer}");
        assert!(http(server.address, host, TENANT).contains("not-found"), "{host}");
    }
    assert!(http(server.address, "other", TENANT).contains("wrong-host"));
    // What the target of a request says of the host goes before the field.
    for (target, host, code) in [
        ("http://shop.example/topics/a", "other", "not-found"),
        ("http://other/topics/a", "shop.example", "wrong-host"),
    ] {
        let answer = http_at(server.address, target, host, TENANT);
        assert!(answer.contains(code), "{target} {host}: {answer}");
    }
    // Who is the operator is everywhere, and the one who is bound needs no name.
    assert!(stomp(server.address, b"other", OPERATOR).contains("receipt-id:bye"));
    assert!(http(server.address, "other", OPERATOR).contains("not-found"));
    assert!(stomp(server.address, b"", BOUND).contains("receipt-id:bye"));
}

const TENANT: &str = "a token of a tenant";
const OPERATOR: &str = "a token of the operator";
const BOUND: &str = "a token that is bound";
