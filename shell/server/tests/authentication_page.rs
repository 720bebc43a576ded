//! What docs/authentication.md prints is what the program takes: its configurations, and its server that is asked.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::program::logins::{Show, Stomp, Way};
use crate::program::{Directory, Server};

const PAGE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/authentication.md"));

/// The blocks of the page in that language.
fn blocks(language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let after = PAGE.split(&fence).skip(1);
    after.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn its_configurations_are_taken() {
    let directory = Directory::new("page");
    let blocks = blocks("toml");
    assert!(blocks.len() >= 3);
    for (number, block) in blocks.iter().enumerate() {
        let file = directory.0.join(format!("{number}.toml"));
        let rule = "[[rule]]\nallow = [\"subscribe\"]\nprincipals = [\"*\"]\n";
        let rule = if block.contains("[[rule]]") { "" } else { rule };
        std::fs::write(&file, format!("{block}{rule}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
        command.args(["config", "show", "-c"]).arg(&file).env("PUSH_KEY", "Bearer x");
        command.env("EDGE_TOKEN", "0123456789abcdef");
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{block}: {said}");
    }
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn its_login_server_lets_in_who_it_says() {
    let block = blocks("python").remove(0);
    let fixed = "HTTPServer((\"127.0.0.1\", 7881), Login).serve_forever()";
    // The page has a port that may be taken here.
    let free = "s = HTTPServer((\"127.0.0.1\", 0), Login); print(s.server_port, flush=True); s.serve_forever()";
    assert!(block.contains(fixed));
    let mut child = Command::new("python3")
        .args(["-c", &block.replace(fixed, free)])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let _running = Running(child);
    let directory = Directory::new("page-login");
    let config = format!(
        "[auth_http]\nlogin_url = \"http://127.0.0.1:{}/\"\n[[rule]]\nallow = [\"publish\"]\n\
         principals = [\"group:members\"]\n",
        port.trim()
    );
    let server = Server::start(&directory.0, &config);
    let way = Way::plain(server.address);
    let mut ann = Stomp::log_in(&way, Show::Password("ann", "right")).unwrap();
    ann.send("SEND\ndestination:/topic/x\nreceipt:1\n\nhello");
    assert!(ann.frame().starts_with("RECEIPT"));
    let refused = Stomp::log_in(&way, Show::Password("ann", "wrong")).err().unwrap();
    assert!(refused.contains("login-failed"), "{refused}");
}
